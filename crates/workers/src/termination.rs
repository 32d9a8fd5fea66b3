//! What a container left behind to say why it ended: its message, or the end of
//! its log if it asked for that and failed without a word.
//!
//! The message of the runtime, which goes before it, is not in here: the status
//! puts the two together.

use std::io;
use std::path::Path;

use k8s_openapi::jiff::Timestamp;
use seams::Storage;
use thiserror::Error;
use types::observed::{ContainerState, ObservedContainer};

use crate::spec::labels::MESSAGE_POLICY;

/// Of a message, the last bytes.
const LONGEST_MESSAGE: usize = 4096;

/// Of a log, so many lines, and of these the last bytes.
const LOG_LINES: usize = 80;
const LONGEST_LOG: usize = 2048;

/// So much of a log has that many lines or bytes, whatever stands before each of
/// them: runtimes break lines at 16 KiB.
const LOG_WINDOW: usize = 64 * 1024;

const FALLBACK_TO_LOGS: &str = "FallbackToLogsOnError";

/// A reason of the runtime: it never ran, so there is no log.
const CANNOT_RUN: &str = "ContainerCannotRun";

/// Why there is no end of a log, in upstream's words.
#[derive(Debug, Error)]
enum LogError {
    #[error("failed to try resolving symlinks in path {path:?}: lstat {path}: no such file or directory", path = .0.display().to_string())]
    Absent(Box<Path>),
    #[error("failed to open log file {path:?}: {cause}", path = path.display().to_string())]
    Unreadable { path: Box<Path>, cause: io::Error },
    #[error("failed to get parse function: unsupported log format: {0:?}")]
    Format(String),
}

/// What an ended container left behind; `None` if that is nothing. `logs_path` is
/// where its log is, if it has one that can be read.
///
/// It takes as long as a disk does. What cannot be read is told of in the place of
/// what is in it: this is where users look.
pub fn message(
    storage: &dyn Storage,
    container: &ObservedContainer,
    logs_path: Option<&Path>,
) -> Option<String> {
    if container.state != ContainerState::Exited {
        return None;
    }
    let file = container.termination_file.as_deref();
    let mut message = file.map_or_else(String::new, |file| written(storage, file));
    if let Some(path) = logs_path
        && message.is_empty()
        && falls_back_to_logs(container)
    {
        message = end_of_log(storage, path).unwrap_or_else(|error| {
            format!("Error on reading termination message from logs: {error}")
        });
    }
    Some(message).filter(|message| !message.is_empty())
}

fn falls_back_to_logs(container: &ObservedContainer) -> bool {
    let policy = container.annotations.get(MESSAGE_POLICY);
    policy.is_some_and(|policy| policy == FALLBACK_TO_LOGS)
        && container.exit_code != 0
        && container.reason != CANNOT_RUN
}

/// What the container wrote to its file.
fn written(storage: &dyn Storage, file: &str) -> String {
    match storage.read_end(Path::new(file), LONGEST_MESSAGE) {
        Ok(content) => String::from_utf8_lossy(&content.unwrap_or_default()).into_owned(),
        Err(error) => {
            let cause = error.cause;
            format!("Error on reading termination log {file}: {cause}")
        }
    }
}

/// The text of a log's last lines.
fn end_of_log(storage: &dyn Storage, path: &Path) -> Result<String, LogError> {
    let window = match storage.read_end(path, LOG_WINDOW) {
        Ok(Some(window)) => window,
        Ok(None) => return Err(LogError::Absent(path.into())),
        Err(error) => {
            let (path, cause) = (path.into(), error.cause);
            return Err(LogError::Unreadable { path, cause });
        }
    };
    let mut lines: Vec<&[u8]> = window.split_inclusive(|byte| *byte == b'\n').collect();
    if window.len() == LOG_WINDOW {
        // It begins somewhere in a line.
        lines.remove(0);
    }
    // A line that is still being written does not count, and is told if there is room.
    let ended = lines.iter().filter(|line| line.ends_with(b"\n")).count();
    let lines = &lines[ended.saturating_sub(LOG_LINES)..];
    if let Some(first) = lines.first().filter(|line| text(line).is_none()) {
        let first = String::from_utf8_lossy(first).into_owned();
        return Err(LogError::Format(first));
    }
    let texts = lines.iter().filter_map(|line| text(line)).take(LOG_LINES);
    let texts: Vec<u8> = texts.flatten().copied().collect();
    let end = &texts[texts.len().saturating_sub(LONGEST_LOG)..];
    Ok(String::from_utf8_lossy(end).into_owned())
}

/// What the container wrote of a line as the runtime keeps it: `time stream F
/// text`, or `P` for a part of one, to be joined with what follows.
fn text(line: &[u8]) -> Option<&[u8]> {
    let mut fields = line.splitn(4, |byte| *byte == b' ');
    let time = std::str::from_utf8(fields.next()?).ok()?;
    time.parse::<Timestamp>().ok()?;
    if !matches!(fields.next()?, b"stdout" | b"stderr") {
        return None;
    }
    let mut tags = fields.next()?.split(|byte| *byte == b':');
    let is_partial = tags.next() == Some(b"P");
    let text = fields.next()?;
    let joined = text.strip_suffix(b"\n").filter(|_| is_partial);
    Some(joined.unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use tempfile::TempDir;
    use testkit::host::LinuxHost;

    use super::*;

    /// A container that ended with 1, whose file and log have these contents; `None`
    /// if they are not there.
    struct Case {
        root: TempDir,
        container: ObservedContainer,
    }

    impl Case {
        fn new(file: Option<&str>, log: Option<&str>) -> Self {
            let root = tempfile::tempdir().unwrap();
            for (name, content) in [("message", file), ("0.log", log)] {
                if let Some(content) = content {
                    fs::write(root.path().join(name), content).unwrap();
                }
            }
            let policy = (MESSAGE_POLICY.to_owned(), FALLBACK_TO_LOGS.to_owned());
            let container = ObservedContainer {
                state: ContainerState::Exited,
                exit_code: 1,
                reason: "Error".to_owned(),
                message: "the runtime's".to_owned(),
                termination_file: Some("/message".to_owned()),
                annotations: [policy].into(),
                ..ObservedContainer::default()
            };
            Self { root, container }
        }

        fn message(&self) -> Option<String> {
            let host = LinuxHost::new(self.root.path().to_owned());
            message(&host, &self.container, Some(Path::new("/0.log")))
        }
    }

    fn line(tag: &str, text: &str) -> String {
        format!("2026-01-02T03:04:05.678901234Z stderr {tag} {text}\n")
    }

    #[test]
    fn the_log_is_told_only_if_that_was_wanted_and_there_is_no_message() {
        type Change = fn(&mut ObservedContainer);
        let cases: [(&str, Option<&str>, Change, Option<&str>); 9] = [
            ("said", Some("why"), |_| {}, Some("why")),
            ("empty", Some(""), |_| {}, Some("log\n")),
            ("absent", None, |_| {}, Some("log\n")),
            (
                "no file",
                None,
                |one| one.termination_file = None,
                Some("log\n"),
            ),
            (
                "other policy",
                Some(""),
                |one| {
                    one.annotations
                        .insert(MESSAGE_POLICY.to_owned(), "File".to_owned());
                },
                None,
            ),
            ("no policy", Some(""), |one| one.annotations.clear(), None),
            ("success", Some(""), |one| one.exit_code = 0, None),
            (
                "success with words",
                Some("done"),
                |one| one.exit_code = 0,
                Some("done"),
            ),
            (
                "never ran",
                None,
                |one| CANNOT_RUN.clone_into(&mut one.reason),
                None,
            ),
        ];
        for (name, file, change, wanted) in cases {
            let mut case = Case::new(file, Some(&line("F", "log")));
            change(&mut case.container);
            assert_eq!(case.message().as_deref(), wanted, "{name}");
        }
    }

    #[test]
    fn a_container_that_has_not_ended_left_nothing_behind() {
        for state in [
            ContainerState::Running,
            ContainerState::Created,
            ContainerState::Unknown,
        ] {
            let mut case = Case::new(Some("why"), None);
            case.container.state = state;
            assert_eq!(case.message(), None, "{state:?}");
        }
    }

    #[test]
    fn without_a_log_there_is_no_word_of_it() {
        let case = Case::new(None, None);
        let host = LinuxHost::new(case.root.path().to_owned());
        assert_eq!(message(&host, &case.container, None), None);
    }

    #[test]
    fn of_a_long_message_the_end_is_told_and_what_is_no_text_is_no_hindrance() {
        let long = "a".repeat(100) + &"b".repeat(LONGEST_MESSAGE);
        let case = Case::new(Some(&long), None);
        assert_eq!(case.message(), Some("b".repeat(LONGEST_MESSAGE)));
        fs::write(case.root.path().join("message"), b"a\xffb").unwrap();
        assert_eq!(case.message().as_deref(), Some("a\u{fffd}b"));
    }

    #[test]
    fn a_link_in_the_messages_place_is_not_followed_but_told_of() {
        let case = Case::new(None, Some(&line("F", "log")));
        let (secret, file) = (case.root.path().join("secret"), PathBuf::from("message"));
        fs::write(&secret, "s3cret").unwrap();
        std::os::unix::fs::symlink(&secret, case.root.path().join(file)).unwrap();
        let message = case.message().unwrap();
        let wanted = "Error on reading termination log /message: ";
        assert!(message.starts_with(wanted), "{message}");
        assert!(!message.contains("s3cret"), "{message}");
    }

    #[test]
    fn a_log_is_told_as_the_container_wrote_it() {
        let unended = "2026-01-02T03:04:05Z stdout F no end";
        let cases = [
            (String::new(), None),
            (line("F", "one") + &line("F", "two"), Some("one\ntwo\n")),
            (line("P", "one ") + &line("F", "line"), Some("one line\n")),
            (
                line("P:x", "one ") + &line("F:x:y", "line"),
                Some("one line\n"),
            ),
            (line("F", "") + &line("F", "a  b"), Some("\na  b\n")),
            (
                line("F", "one") + "nonsense\n" + &line("F", "two"),
                Some("one\ntwo\n"),
            ),
            (line("F", "one") + unended, Some("one\nno end")),
            (line("F", "one").replace('Z', "+02:00"), Some("one\n")),
        ];
        for (log, wanted) in cases {
            let case = Case::new(Some(""), Some(&log));
            assert_eq!(case.message().as_deref(), wanted, "{log}");
        }
    }

    #[test]
    fn of_a_log_the_last_lines_are_told_and_of_these_the_last_bytes() {
        let texts = |count: usize, width: usize| -> Vec<String> {
            let numbers = 0..count;
            numbers
                .map(|number| format!("{number:0width$}\n"))
                .collect()
        };
        let kept = |texts: &[String]| -> String {
            let lines = texts.iter().map(|text| line("F", text.trim_end()));
            lines.collect()
        };
        let told = |log: &str| Case::new(None, Some(log)).message().unwrap();

        let short = texts(200, 3);
        assert_eq!(told(&kept(&short)), short[120..].concat());
        let unended = kept(&short) + "2026-01-02T03:04:05Z stdout F no end";
        let wanted = short[120..].concat();
        assert_eq!(told(&unended), wanted, "there are lines enough");

        // What is read begins in the middle of a line.
        let wide = texts(500, 999);
        let all = wide.concat();
        assert!(all.len() > LOG_WINDOW);
        assert_eq!(told(&kept(&wide)), all[all.len() - LONGEST_LOG..]);
    }

    #[test]
    fn a_log_that_cannot_be_told_is_told_of_in_upstreams_words() {
        let absent = "failed to try resolving symlinks in path \"/0.log\": \
                      lstat /0.log: no such file or directory";
        let format = "failed to get parse function: unsupported log format: \"nonsense\\n\"";
        let cases = [
            (None, absent),
            (Some("nonsense\n"), format),
            (
                Some("2026-01-02T03:04:05Z stdlog F x\n"),
                "unsupported log format",
            ),
            (
                Some("2026-01-02T03:04:05Z stdout F\n"),
                "unsupported log format",
            ),
            (Some("yesterday stdout F x\n"), "unsupported log format"),
        ];
        for (log, wanted) in cases {
            let message = Case::new(None, log).message().unwrap();
            let rest = message.strip_prefix("Error on reading termination message from logs: ");
            assert!(rest.unwrap().contains(wanted), "{message}");
        }
    }
}
