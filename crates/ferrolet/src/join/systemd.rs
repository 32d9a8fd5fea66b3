//! The service that systemd keeps for a joined node.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

const SERVICE: &str = "kubelet";

/// Why systemd did not do what it was told.
#[derive(Debug, Error)]
pub(crate) enum SystemdError {
    #[error("systemctl cannot be run: {0}; without systemd use --start detached")]
    Run(io::Error),
    #[error("`{command}` failed: {said}; see `journalctl --unit {SERVICE}`")]
    Failed { command: String, said: String },
}

/// systemd, by its command.
#[derive(Debug)]
pub(crate) struct Systemd {
    program: PathBuf,
}

impl Systemd {
    pub(crate) fn new() -> Self {
        Self {
            program: "systemctl".into(),
        }
    }

    #[cfg(test)]
    fn by(program: &Path) -> Self {
        Self {
            program: program.to_owned(),
        }
    }

    /// Starts the service, now and at every boot. One that ran with other files
    /// before is started anew.
    pub(super) fn start(&self, files_are_new: bool) -> Result<(), SystemdError> {
        self.reload()?;
        self.run(&["enable", SERVICE])?;
        let verb = if files_are_new { "restart" } else { "start" };
        self.run(&[verb, SERVICE])
    }

    /// Ends the service, now and at every boot.
    pub(crate) fn stop(&self) -> Result<(), SystemdError> {
        self.run(&["disable", "--now", SERVICE])
    }

    /// Lets systemd see what has changed in its files.
    pub(crate) fn reload(&self) -> Result<(), SystemdError> {
        self.run(&["daemon-reload"])
    }

    /// Whether the service runs.
    pub(super) fn is_active(&self) -> bool {
        self.run(&["is-active", "--quiet", SERVICE]).is_ok()
    }

    fn run(&self, words: &[&str]) -> Result<(), SystemdError> {
        let output = Command::new(&self.program).args(words).output();
        let output = output.map_err(SystemdError::Run)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(SystemdError::Failed {
            command: format!("{} {}", program_name(&self.program), words.join(" ")),
            said: if said.is_empty() {
                output.status.to_string()
            } else {
                said
            },
        })
    }
}

fn program_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A systemctl that writes down what it is told, and fails at `refused`.
    fn recording(directory: &Path, refused: &str) -> Systemd {
        let program = directory.join("systemctl");
        let log = directory.join("log");
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> {}\ncase \"$*\" in '{refused}') echo 'not now' >&2; exit 1;; esac\n",
            log.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Systemd::by(&program)
    }

    #[test]
    fn the_service_is_enabled_and_started_anew_for_new_files() {
        let directory = tempfile::tempdir().unwrap();
        let systemd = recording(directory.path(), "");
        systemd.start(true).unwrap();
        systemd.start(false).unwrap();
        systemd.stop().unwrap();
        assert!(systemd.is_active());
        let told = fs::read_to_string(directory.path().join("log")).unwrap();
        assert_eq!(
            told,
            "daemon-reload\nenable kubelet\nrestart kubelet\n\
             daemon-reload\nenable kubelet\nstart kubelet\n\
             disable --now kubelet\nis-active --quiet kubelet\n"
        );
    }

    #[test]
    fn what_systemd_says_is_passed_on() {
        let directory = tempfile::tempdir().unwrap();
        let systemd = recording(directory.path(), "enable kubelet");
        let told = systemd.start(true).unwrap_err().to_string();
        assert!(
            told.contains("`systemctl enable kubelet` failed: not now"),
            "{told}"
        );
        let none = Systemd::by(&directory.path().join("none"));
        let told = none.stop().unwrap_err().to_string();
        assert!(told.contains("--start detached"), "{told}");
    }
}
