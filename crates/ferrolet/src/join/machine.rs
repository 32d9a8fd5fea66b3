//! What a join must know of the machine, beside the facts of preflight.

use std::path::Path;

use thiserror::Error;

use super::below;

/// Where runtimes listen, in the order in which kubeadm looks.
pub(crate) const SOCKETS: [&str; 3] = [
    "/var/run/containerd/containerd.sock",
    "/var/run/crio/crio.sock",
    "/var/run/cri-dockerd.sock",
];
const SCHEME: &str = "unix://";

/// Why the machine leaves a question open.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum MachineError {
    #[error(
        "more than one container runtime listens here: {}; choose one with --cri-socket", .0.join(", ")
    )]
    TwoRuntimes(Vec<String>),
    #[error(
        "--cri-socket {0}: only the sockets of this machine can be used; give a path, or unix:// and a path"
    )]
    NoPath(String),
    #[error(
        "the machine's host name is empty; set one with `hostnamectl set-hostname NAME`, or give --node-name"
    )]
    NoName,
}

/// The runtime's socket, with its scheme: the given one, or the only one that is
/// there. Where there is none, containerd's: preflight says that it is missing.
pub(super) fn runtime_endpoint(root: &Path, given: Option<&str>) -> Result<String, MachineError> {
    if let Some(given) = given {
        let path = given.strip_prefix(SCHEME).unwrap_or(given);
        if !path.starts_with('/') {
            return Err(MachineError::NoPath(given.to_owned()));
        }
        return Ok(format!("{SCHEME}{path}"));
    }
    let there = SOCKETS.iter().filter(|path| below(root, path).exists());
    let there: Vec<String> = there.map(|path| format!("{SCHEME}{path}")).collect();
    match &there[..] {
        [] => Ok(format!("{SCHEME}{}", SOCKETS[0])),
        [only] => Ok(only.clone()),
        _ => Err(MachineError::TwoRuntimes(there)),
    }
}

/// The machine's name, as it would be a node's.
pub(crate) fn own_name() -> String {
    let machine = rustix::system::uname();
    let name = machine.nodename().to_string_lossy();
    name.trim().to_lowercase()
}

/// The node's name: the given one, or the machine's.
pub(super) fn node_name(given: Option<&str>) -> Result<String, MachineError> {
    let name = match given {
        Some(name) => name.trim().to_lowercase(),
        None => own_name(),
    };
    if name.is_empty() {
        return Err(MachineError::NoName);
    }
    Ok(name)
}

/// Whether systemd is the one that starts services here.
pub(crate) fn has_systemd(root: &Path) -> bool {
    below(root, "/run/systemd/system").is_dir()
}

/// Whether systemd-resolved answers on a loopback address, which pods do not see.
pub(super) fn resolved_active(root: &Path) -> bool {
    below(root, "/run/systemd/resolve/resolv.conf").exists()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_only_runtime_is_taken_and_two_are_asked_about() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let containerd = "unix:///var/run/containerd/containerd.sock".to_owned();
        assert_eq!(runtime_endpoint(root, None), Ok(containerd));
        for path in ["var/run/crio", "var/run/containerd"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        fs::write(root.join("var/run/crio/crio.sock"), "").unwrap();
        let crio = "unix:///var/run/crio/crio.sock";
        assert_eq!(runtime_endpoint(root, None), Ok(crio.to_owned()));
        fs::write(root.join("var/run/containerd/containerd.sock"), "").unwrap();
        assert!(matches!(
            runtime_endpoint(root, None),
            Err(MachineError::TwoRuntimes(_))
        ));
        for given in [crio, "/var/run/crio/crio.sock"] {
            assert_eq!(runtime_endpoint(root, Some(given)), Ok(crio.to_owned()));
        }
        let remote = runtime_endpoint(root, Some("tcp://h:1"));
        assert_eq!(remote, Err(MachineError::NoPath("tcp://h:1".to_owned())));
    }

    #[test]
    fn a_given_name_is_trimmed_and_in_lower_case() {
        assert_eq!(node_name(Some(" Up1 ")), Ok("up1".to_owned()));
        assert_eq!(node_name(Some("")), Err(MachineError::NoName));
        assert!(!node_name(None).unwrap().is_empty());
    }
}
