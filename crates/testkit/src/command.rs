//! Running other programs, with errors that show what was run and what it said.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// Runs to the end and answers standard output; anything but success is an
/// error that holds the command line and the tail of what was printed.
pub fn run(command: &mut Command) -> Result<String> {
    command.stdin(Stdio::null());
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", line(command)))?;
    succeeded(command, output)
}

/// Like [`run`], with `input` on standard input.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", line(command)))?;
    // The programs that we feed read all of their input before they answer, so
    // writing first cannot dead-lock. One that fails early closes its end: its
    // exit status tells more than the broken pipe.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input);
    }
    let output = child.wait_with_output()?;
    succeeded(command, output)
}

fn succeeded(command: &Command, output: Output) -> Result<String> {
    if !output.status.success() {
        bail!(
            "{} ({})\n{}{}",
            line(command),
            output.status,
            tail(&output.stdout),
            tail(&output.stderr)
        );
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("{} printed bytes that are not UTF-8", line(command)))
}

/// The command as a person would type it.
pub fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| {
        let word = word.to_string_lossy();
        // Scripts are passed as one argument: their first line names them.
        let first = word.lines().next().unwrap_or_default();
        if first.len() < word.len() {
            format!("'{first} …'")
        } else {
            word.into_owned()
        }
    }));
    words.join(" ")
}

fn tail(bytes: &[u8]) -> String {
    const KEEP: usize = 4000;
    let text = String::from_utf8_lossy(bytes);
    let skip = text.len().saturating_sub(KEEP);
    let start = (skip..=text.len())
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(text.len());
    text.get(start..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_line_the_status_and_what_was_said() {
        let error = run(Command::new("sh").args(["-c", "echo spoken >&2; exit 3"])).unwrap_err();
        let message = error.to_string();
        for part in ["sh -c", "exit status: 3", "spoken"] {
            assert!(message.contains(part), "{part:?} is not in {message}");
        }
    }

    #[test]
    fn input_reaches_the_program() {
        let said = run_with_input(&mut Command::new("cat"), b"hello").unwrap();
        assert_eq!(said, "hello");
    }
}
