//! Commands in containers. There is no shell here, only what probes, hooks and people ask
//! for most; the head of the crate has the table.

use std::time::Duration;

use seams::cri::ExecSyncResponse;

use super::container::Container;
use super::moment::Moment;
use super::refusal::Refusal;
use super::story::OtherCommands;

/// What a program ends with that was killed, or interrupted.
const KILLED: u8 = 128 + 9;
pub(super) const INTERRUPTED: u8 = 128 + 2;

/// What a shell ends with that finds no such program.
const NOT_FOUND: u8 = 127;

/// What becomes of a command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Course {
    /// It ends after so long, and then has printed this.
    Ends {
        after: Duration,
        end: ExecSyncResponse,
    },
    /// It gives back what it hears, to the end of that.
    Echoes,
}

/// What becomes of a command in a running container, which would be known by `id`.
pub(super) fn course(
    command: &[String],
    container: &Container,
    id: &str,
    now: Moment,
) -> Result<Course, Refusal> {
    let story = &container.story;
    let ready = story.is_ready(container.ran(now).unwrap_or_default());
    let other = match story.other_commands {
        OtherCommands::Probe => Other::Probe { ready },
        OtherCommands::Missing => Other::Missing { id },
    };
    run(command, &other)
}

/// What becomes of a command that is not simulated.
enum Other<'a> {
    Probe { ready: bool },
    Missing { id: &'a str },
}

fn run(command: &[String], other: &Other<'_>) -> Result<Course, Refusal> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let script: Vec<&str>;
    let (shell, words) = match words.as_slice() {
        [shell, "-c", text, ..] if is_shell(shell) => {
            script = text.split_whitespace().collect();
            (Some(base(shell)), script.as_slice())
        }
        words => (None, words),
    };
    if let Some(course) = known(words) {
        return Ok(course);
    }
    let program = words.first().copied().unwrap_or_default();
    Ok(match (other, shell) {
        (Other::Probe { ready: true }, _) => at_once(ended(0, "simulated: ready\n")),
        (Other::Probe { ready: false }, _) => at_once(ended(1, "simulated: not ready\n")),
        (Other::Missing { .. }, Some(shell)) => at_once(ExecSyncResponse {
            stderr: format!("{shell}: {program}: not found\n").into_bytes(),
            ..ended(NOT_FOUND, "")
        }),
        (Other::Missing { id }, None) => {
            return Err(Refusal::NoProgram {
                id: (*id).to_owned(),
                program: program.to_owned(),
            });
        }
    })
}

fn known(words: &[&str]) -> Option<Course> {
    let (name, rest) = words.split_first()?;
    let end = match (base(name), rest) {
        ("sleep", [seconds]) => {
            let after = Duration::from_secs(seconds.parse::<u32>().ok()?.into());
            let end = ended(0, "");
            return Some(Course::Ends { after, end });
        }
        ("cat", [] | ["-"]) => return Some(Course::Echoes),
        ("true", []) => ended(0, ""),
        ("false", []) => ended(1, ""),
        ("echo", words) => ended(0, &format!("{}\n", words.join(" "))),
        _ if *name != "exit" => return None,
        (_, []) => ended(0, ""),
        (_, [code]) => ended(code.parse().ok()?, ""),
        _ => return None,
    };
    Some(at_once(end))
}

fn at_once(end: ExecSyncResponse) -> Course {
    let after = Duration::ZERO;
    Course::Ends { after, end }
}

/// What is answered of a command whose container has ended.
pub(super) fn killed() -> ExecSyncResponse {
    ended(KILLED, "")
}

/// And of one that somebody has stopped at his terminal.
pub(super) fn interrupted() -> ExecSyncResponse {
    ended(INTERRUPTED, "")
}

fn is_shell(path: &str) -> bool {
    matches!(base(path), "sh" | "bash" | "ash" | "dash")
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub(super) fn ended(exit_code: u8, stdout: &str) -> ExecSyncResponse {
    ExecSyncResponse {
        stdout: stdout.as_bytes().to_vec(),
        stderr: Vec::new(),
        exit_code: i32::from(exit_code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &[&str]) -> Vec<String> {
        command.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_command_ends_as_it_says_or_as_the_container_is_ready() {
        for (command, ready, code, output) in [
            (&["true"][..], false, 0, ""),
            (&["/bin/false"], true, 1, ""),
            (&["echo", "a", "b"], false, 0, "a b\n"),
            (&["sh", "-c", "exit 7"], true, 7, ""),
            (&["/bin/sh", "-c", "echo  hello"], false, 0, "hello\n"),
            (&["exit", "300"], true, 0, "simulated: ready\n"),
            (&["cat", "/tmp/healthy"], true, 0, "simulated: ready\n"),
            (&["cat", "/tmp/healthy"], false, 1, "simulated: not ready\n"),
            (
                &["sh", "-c", "test -f x && true"],
                false,
                1,
                "simulated: not ready\n",
            ),
            (&[], true, 0, "simulated: ready\n"),
            (&["sleep", "well"], true, 0, "simulated: ready\n"),
        ] {
            let course = run(&words(command), &Other::Probe { ready }).unwrap();
            let expected = at_once(ended(code, output));
            assert_eq!(course, expected, "{command:?}");
        }
    }

    #[test]
    fn a_sleep_lasts_and_a_cat_as_long_as_it_hears() {
        for (command, seconds) in [(&["sleep", "3"][..], 3), (&["sh", "-c", "sleep 7"], 7)] {
            let course = run(&words(command), &Other::Missing { id: "" }).unwrap();
            let after = Duration::from_secs(seconds);
            let end = ended(0, "");
            assert_eq!(course, Course::Ends { after, end }, "{command:?}");
        }
        for command in [&["cat"][..], &["/bin/cat", "-"], &["sh", "-c", "cat"]] {
            let course = run(&words(command), &Other::Probe { ready: false });
            assert_eq!(course, Ok(Course::Echoes), "{command:?}");
        }
    }

    #[test]
    fn where_others_are_missing_they_cannot_be_started_or_a_shell_says_so() {
        let missing = |command: &[&str]| run(&words(command), &Other::Missing { id: "e1" });
        let refusal = missing(&["ls", "-l"]).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "failed to exec in container: failed to start exec \"e1\": OCI runtime exec failed: \
             exec failed: unable to start container process: exec: \"ls\": executable file not \
             found in $PATH: unknown"
        );
        let expected = ExecSyncResponse {
            stderr: b"sh: ls: not found\n".to_vec(),
            ..ended(127, "")
        };
        assert_eq!(missing(&["/bin/sh", "-c", "ls"]), Ok(at_once(expected)));
        assert_eq!(missing(&["true"]), Ok(at_once(ended(0, ""))));
    }
}
