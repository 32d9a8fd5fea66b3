//! The node's agent where systemd does not keep it: started in the background,
//! found again by its process id, and ended by it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cluster::layout::{BOOTSTRAP_KUBECONFIG, CERTIFICATES, FLAGS, KUBECONFIG, KUBELET_CONFIG};
use identity::published::Published;
use rustix::process::{Pid, Signal, kill_process};
use seams::Clock;
use thiserror::Error;

use super::below;
use super::environment_file::{variable, words};

pub(crate) const PID_FILE: &str = "/run/ferrolet-kubelet.pid";
pub(crate) const LOG_FILE: &str = "/var/log/ferrolet-kubelet.log";

/// How long an agent may take to end.
const STOP_GRACE: Duration = Duration::from_secs(15);
const STOP_POLL: Duration = Duration::from_millis(100);
/// What is shown of the log of an agent that has ended.
const LAST_LINES: usize = 5;

/// Where the unit looks for flags, the last word last. (The unit's drop-in is in
/// `cluster::layout`.)
const USER_FLAGS: [&str; 2] = ["/etc/default/kubelet", "/etc/sysconfig/kubelet"];

/// Why an agent was not started or ended.
#[derive(Debug, Error)]
pub(crate) enum AgentError {
    #[error("cannot {verb} {}: {cause}", path.display())]
    File {
        verb: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
    #[error("the agent {} cannot be started: {cause}", program.display())]
    Spawn { program: PathBuf, cause: io::Error },
    #[error(
        "the agent has ended; the last lines of {}:\n{last}\ncorrect that, and run the same command again",
        log.display()
    )]
    Ended { log: PathBuf, last: String },
    #[error(
        "the service kubelet does not run; see why: journalctl --unit kubelet --lines 20; correct that, and run the same command again"
    )]
    ServiceEnded,
    #[error("process {id} cannot be told to end: {cause}")]
    Signal { id: i32, cause: io::Error },
    #[error("process {id} did not end within {}s of SIGTERM; end it yourself, and run the same command again", STOP_GRACE.as_secs())]
    Stays { id: i32 },
}

/// An agent that a join has started in the background.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundAgent {
    id: Pid,
    root: PathBuf,
}

impl BackgroundAgent {
    /// The one whose id was left below `root`, if it still runs.
    pub(crate) fn find(root: &Path) -> Option<Self> {
        let text = fs::read_to_string(below(root, PID_FILE)).ok()?;
        let agent = Self {
            id: Pid::from_raw(text.trim().parse().ok()?)?,
            root: root.to_owned(),
        };
        agent.is_ours().then_some(agent)
    }

    /// The one that tells of itself below `root`, whoever started it, if it still runs.
    pub(crate) fn published(root: &Path) -> Option<Self> {
        let path = Published::path(&below(root, CERTIFICATES));
        let id = Published::read(&path).ok()?.process_id;
        let agent = Self {
            id: Pid::from_raw(i32::try_from(id).ok()?)?,
            root: root.to_owned(),
        };
        agent.is_ours().then_some(agent)
    }

    /// Starts `program` with the words of [`command_words`]. It belongs to no
    /// terminal, and outlives this process.
    pub(super) fn start(root: &Path, program: &Path) -> Result<Self, AgentError> {
        let log_file = below(root, LOG_FILE);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |cause| AgentError::File {
                verb: "write",
                path,
                cause,
            }
        };
        let log = open_log(&log_file).map_err(failed(&log_file))?;
        let errors = log.try_clone().map_err(failed(&log_file))?;
        let child = Command::new(program)
            .args(command_words(root)?)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // What a terminal sends to this command is not for the agent.
            .process_group(0)
            .spawn()
            .map_err(|cause| AgentError::Spawn {
                program: program.to_owned(),
                cause,
            })?;
        let agent = Self {
            id: Pid::from_child(&child),
            root: root.to_owned(),
        };
        let pid_file = below(root, PID_FILE);
        let written = fs::write(&pid_file, format!("{}\n", agent.id()));
        if let Err(cause) = written {
            // Nobody would find it again.
            let _ = kill_process(agent.id, Signal::TERM);
            return Err(failed(&pid_file)(cause));
        }
        Ok(agent)
    }

    pub(crate) fn id(&self) -> i32 {
        self.id.as_raw_nonzero().get()
    }

    /// An id may belong to another process by now: ours has our kubeconfig among
    /// its words.
    fn is_ours(&self) -> bool {
        let flag = kubeconfig_flag();
        let line = self.command_line();
        line.split(|byte| *byte == 0)
            .any(|word| word == flag.as_bytes())
    }

    /// It is there, and not another one. A process that is just being made, or that
    /// has ended and is not collected yet, has no words; only the latter is over.
    pub(super) fn runs(&self) -> bool {
        if self.command_line().is_empty() {
            return self.is_there_and_not_over();
        }
        self.is_ours()
    }

    fn command_line(&self) -> Vec<u8> {
        fs::read(format!("/proc/{}/cmdline", self.id())).unwrap_or_default()
    }

    fn is_there_and_not_over(&self) -> bool {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        // `ID (NAME) STATE …`, where a name may hold anything.
        let state = text
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
    }

    /// What to say if it has ended by itself.
    pub(super) fn check(&self) -> Result<(), AgentError> {
        if self.runs() {
            return Ok(());
        }
        let log = below(&self.root, LOG_FILE);
        let last = last_lines(&fs::read_to_string(&log).unwrap_or_default());
        Err(AgentError::Ended { log, last })
    }

    pub(crate) async fn stop(&self, clock: &dyn Clock) -> Result<(), AgentError> {
        let id = self.id();
        // Its number may have gone to another while somebody thought about it.
        if !self.runs() {
            return remove(&below(&self.root, PID_FILE));
        }
        match kill_process(self.id, Signal::TERM) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(cause) => {
                let cause = cause.into();
                return Err(AgentError::Signal { id, cause });
            }
        }
        let until = clock.uptime() + STOP_GRACE;
        while self.runs() {
            if clock.uptime() >= until {
                return Err(AgentError::Stays { id });
            }
            clock.sleep(STOP_POLL).await;
        }
        remove(&below(&self.root, PID_FILE))
    }
}

/// Removes a file; one that is gone is fine.
pub(crate) fn remove(path: &Path) -> Result<(), AgentError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(AgentError::File {
            verb: "remove",
            path: path.to_owned(),
            cause,
        }),
        _ => Ok(()),
    }
}

/// What the unit's drop-in would start our program with.
pub(crate) fn command_words(root: &Path) -> Result<Vec<String>, AgentError> {
    let mut line = vec![
        "kubelet".to_owned(),
        format!("--bootstrap-kubeconfig={BOOTSTRAP_KUBECONFIG}"),
        kubeconfig_flag(),
        format!("--config={KUBELET_CONFIG}"),
    ];
    let given = |file: &str, name: &str| {
        let path = below(root, file);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(variable(&text, name)),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(AgentError::File {
                verb: "read",
                path,
                cause,
            }),
        }
    };
    if let Some(value) = given(FLAGS, "KUBELET_KUBEADM_ARGS")? {
        line.extend(words(&value));
    }
    let mut extra = None;
    for file in USER_FLAGS {
        // A later file takes the place of an earlier one.
        extra = given(file, "KUBELET_EXTRA_ARGS")?.or(extra);
    }
    line.extend(extra.iter().flat_map(|value| words(value)));
    Ok(line)
}

fn kubeconfig_flag() -> String {
    format!("--kubeconfig={KUBECONFIG}")
}

fn open_log(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    lines[from..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use linux::SystemClock;

    use super::*;

    fn put(root: &Path, path: &str, content: &str) {
        let path = below(root, path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A program that does what `script` says, whatever its arguments.
    fn program(root: &Path, script: &str) -> PathBuf {
        put(root, "/program", &format!("#!/bin/sh\n{script}\n"));
        let path = below(root, "/program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(below(root, "/run")).unwrap();
        path
    }

    async fn eventually(what: &str, done: impl Fn() -> bool) {
        let clock = SystemClock::start();
        while !done() {
            assert!(clock.uptime() < Duration::from_secs(20), "{what}");
            clock.sleep(Duration::from_millis(10)).await;
        }
    }

    #[test]
    fn the_words_are_those_of_the_drop_in() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        put(
            root,
            FLAGS,
            "KUBELET_KUBEADM_ARGS=\"--hostname-override=a\"\n",
        );
        put(root, USER_FLAGS[0], "KUBELET_EXTRA_ARGS=--v=2\n");
        assert_eq!(
            command_words(root).unwrap(),
            [
                "kubelet",
                "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
                "--kubeconfig=/etc/kubernetes/kubelet.conf",
                "--config=/var/lib/kubelet/config.yaml",
                "--hostname-override=a",
                "--v=2",
            ]
        );
        put(root, USER_FLAGS[1], "KUBELET_EXTRA_ARGS='--v=4 --a'\n");
        let words = command_words(root).unwrap();
        assert_eq!(&words[5..], ["--v=4", "--a"]);
    }

    #[tokio::test]
    async fn a_started_agent_is_found_again_and_ends_when_told() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert!(BackgroundAgent::find(root).is_none());
        let path = program(root, "while :; do sleep 0.1; done");
        let agent = BackgroundAgent::start(root, &path).unwrap();
        agent.check().unwrap();
        eventually("it can be found", || BackgroundAgent::find(root).is_some()).await;
        let found = BackgroundAgent::find(root).unwrap();
        assert_eq!(found.id(), agent.id());
        found.stop(&SystemClock::start()).await.unwrap();
        assert!(BackgroundAgent::find(root).is_none());
        assert!(!below(root, PID_FILE).exists());
    }

    #[tokio::test]
    async fn an_agent_that_ends_at_once_is_told_with_its_last_words() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let path = program(root, "echo 'swap is on' >&2; exit 1");
        let agent = BackgroundAgent::start(root, &path).unwrap();
        eventually("it has ended", || !agent.runs()).await;
        let log = below(root, LOG_FILE);
        eventually("it has spoken", || fs::metadata(&log).unwrap().len() > 0).await;
        let told = agent.check().unwrap_err().to_string();
        assert!(told.contains("swap is on"), "{told}");
    }

    #[test]
    fn a_process_of_somebody_else_with_that_id_is_not_ours() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        put(root, PID_FILE, &std::process::id().to_string());
        assert!(BackgroundAgent::find(root).is_none());
    }
}
