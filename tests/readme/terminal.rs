//! A terminal in which somebody types one line after the other, and waits for each.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testkit::{command, wait};

/// For one line, on a machine that is busy with others.
const PATIENCE: Duration = Duration::from_secs(180);

/// A release build may have to be made first.
const BUILD: Duration = Duration::from_secs(30 * 60);

/// A shell that remembers what was exported.
pub(crate) struct Terminal {
    shell: Child,
    input: ChildStdin,
    said: PathBuf,
    typed: usize,
}

impl Terminal {
    /// Of `shell`, which reads lines from its input; what they say is kept in the file `said`.
    pub(crate) fn open(mut shell: Command, said: PathBuf) -> Result<Self> {
        let output = File::create(&said)?;
        shell
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output);
        let mut shell = shell.spawn().with_context(|| command::line(&shell))?;
        let input = shell.stdin.take().context("an input")?;
        Ok(Self {
            shell,
            input,
            said,
            typed: 0,
        })
    }

    /// Runs one line to its end, which must be a good one. What it said.
    pub(crate) fn run(&mut self, line: &str) -> Result<String> {
        let before = fs::read_to_string(&self.said)?.len();
        self.typed += 1;
        let mark = format!("== line {} ended with ", self.typed);
        // Nothing of what comes next is for the line to read.
        writeln!(self.input, "{{ {line}\n}} </dev/null\necho \"{mark}$?\"")?;
        let (said, code) = wait::until(&format!("`{line}`"), PATIENCE, || {
            let said = fs::read_to_string(&self.said)?;
            let ended = said[before..].split_once(&mark);
            let (said, rest) = ended.with_context(|| said[before..].to_owned())?;
            let (code, _) = rest.split_once('\n').context("no end yet")?;
            anyhow::Ok((said.to_owned(), code.to_owned()))
        })?;
        ensure!(code == "0", "it ended with {code}:\n{said}");
        Ok(said)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A shell that is in the middle of nothing ends with its input.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// A command that goes on until somebody presses Ctrl-C.
pub(crate) struct Staying {
    shell: Child,
    said: PathBuf,
}

impl Staying {
    /// Runs a line by `shell`, until it has said `up`.
    pub(crate) fn start(
        mut shell: Command,
        line: &str,
        up: &str,
        said: PathBuf,
    ) -> Result<(Self, String)> {
        let output = File::create(&said)?;
        shell
            .args(["-c", line])
            // Ctrl-C is for everything that a terminal has in its foreground.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let child = shell.spawn().with_context(|| command::line(&shell))?;
        let mut staying = Self { shell: child, said };
        let told = wait::until(&format!("`{line}`"), BUILD, || {
            let said = fs::read_to_string(&staying.said)?;
            if let Some(ended) = staying.shell.try_wait()? {
                return Ok(Err(format!("{ended}: {said}")));
            }
            ensure!(said.contains(up), "{said}");
            anyhow::Ok(Ok(said))
        })?;
        match told {
            Ok(said) => Ok((staying, said)),
            Err(ended) => bail!("it ended: {ended}"),
        }
    }

    /// Ctrl-C, after which it must end well.
    pub(crate) fn interrupt(mut self) -> Result<()> {
        self.signal("INT")?;
        let ended = wait::until("it to end", PATIENCE, || {
            self.shell.try_wait()?.context("it still runs")
        })?;
        let said = fs::read_to_string(&self.said)?;
        ensure!(ended.success(), "{ended}: {said}");
        Ok(())
    }

    fn signal(&self, name: &str) -> Result<()> {
        let group = format!("-{}", self.shell.id());
        command::run(Command::new("kill").args([&format!("-{name}"), "--", &group]))?;
        Ok(())
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        if let Ok(None) = self.shell.try_wait() {
            let _ = self.signal("KILL");
            let _ = self.shell.wait();
        }
    }
}
