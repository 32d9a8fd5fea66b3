//! The files of a joined node, where kubeadm puts them: what a plan would write,
//! and what a reset takes away again.

mod kubelet_config;
mod plan;
mod reset;
mod service;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub use kubelet_config::{ClusterDefaults, KubeletConfigError, KubeletConfigText, NodeSettings};
pub use plan::{Entry, Plan, PlanError, State};
pub use reset::{Kept, Removal, ResetError, ResetPlan};
pub use service::{DROP_IN_PATH, UNIT_PATH};

use crate::files::FileError;
use crate::kubeconfig::KubeconfigText;

pub const BOOTSTRAP_KUBECONFIG: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
pub const KUBECONFIG: &str = "/etc/kubernetes/kubelet.conf";
pub const AUTHORITY: &str = "/etc/kubernetes/pki/ca.crt";
pub const MANIFESTS: &str = "/etc/kubernetes/manifests";
pub const KUBELET_DIRECTORY: &str = "/var/lib/kubelet";
pub const KUBELET_CONFIG: &str = "/var/lib/kubelet/config.yaml";
pub const INSTANCE_CONFIG: &str = "/var/lib/kubelet/instance-config.yaml";
pub const FLAGS: &str = "/var/lib/kubelet/kubeadm-flags.env";
pub const CERTIFICATES: &str = "/var/lib/kubelet/pki";

/// Directories with their modes, outer ones first.
const DIRECTORIES: [(&str, u32); 4] = [
    ("/etc/kubernetes", 0o755),
    ("/etc/kubernetes/pki", 0o755),
    (MANIFESTS, 0o700),
    (KUBELET_DIRECTORY, 0o700),
];

/// A file as it is to be on the node. `Debug` leaves the content out: it may be a
/// secret.
#[derive(Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Absolute, as the node sees it.
    pub path: PathBuf,
    pub content: Vec<u8>,
    pub mode: u32,
}

impl std::fmt::Debug for PlannedFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {:o}", self.path.display(), self.mode)
    }
}

/// What a joining node is given.
#[derive(Clone, Debug)]
pub struct JoinedNode {
    /// `None` for a node that has its certificate.
    pub bootstrap: Option<KubeconfigText>,
    pub authority_pem: Vec<u8>,
    pub kubelet_config: KubeletConfigText,
    /// The runtime's socket, with its scheme.
    pub runtime_endpoint: String,
    /// Flags for this node only, such as `hostname-override`, sorted by name.
    pub flags: Vec<(String, String)>,
    /// The program that systemd starts; `None` where there is no systemd.
    pub program: Option<PathBuf>,
}

impl JoinedNode {
    /// The files, in the order in which they are written: the service comes last,
    /// so that it never starts without them.
    pub fn files(&self) -> Vec<PlannedFile> {
        let file = |path: &str, content: &[u8], mode| PlannedFile {
            path: PathBuf::from(path),
            content: content.to_vec(),
            mode,
        };
        let mut files = Vec::new();
        if let Some(bootstrap) = &self.bootstrap {
            let content = bootstrap.expose().as_bytes();
            files.push(file(BOOTSTRAP_KUBECONFIG, content, 0o600));
        }
        files.push(file(AUTHORITY, &self.authority_pem, 0o644));
        let instance = instance_config(&self.runtime_endpoint);
        files.push(file(INSTANCE_CONFIG, instance.as_bytes(), 0o644));
        let config = self.kubelet_config.as_str().as_bytes();
        files.push(file(KUBELET_CONFIG, config, 0o644));
        files.push(file(FLAGS, flags_file(&self.flags).as_bytes(), 0o644));
        if let Some(program) = &self.program {
            files.push(file(UNIT_PATH, service::unit(program).as_bytes(), 0o644));
            let drop_in = service::drop_in(program);
            files.push(file(DROP_IN_PATH, drop_in.as_bytes(), 0o644));
        }
        files
    }
}

/// Whether the node below `root` has joined: it has a kubeconfig of its own.
pub fn is_joined(root: &Path) -> bool {
    below(root, Path::new(KUBECONFIG)).exists()
}

/// Takes the bootstrap kubeconfig away, once the node has its certificate: the
/// token in it is of no more use. One that is gone is fine.
pub fn remove_bootstrap_kubeconfig(root: &Path) -> Result<(), FileError> {
    let path = below(root, Path::new(BOOTSTRAP_KUBECONFIG));
    match fs::remove_file(&path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            Err(FileError::new("remove", &path, cause))
        }
        _ => Ok(()),
    }
}

fn instance_config(runtime_endpoint: &str) -> String {
    format!("containerRuntimeEndpoint: {}\n", quoted(runtime_endpoint))
}

/// One variable for the unit's environment, flags sorted by name.
fn flags_file(flags: &[(String, String)]) -> String {
    let mut flags = flags.to_vec();
    flags.sort();
    let words: Vec<_> = flags
        .iter()
        .map(|(name, value)| format!("--{name}={value}"))
        .collect();
    format!("KUBELET_KUBEADM_ARGS={}\n", quoted(&words.join(" ")))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The node's path `path`, seen from outside of a node that lives below `root`.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_when_the_node_has_joined() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("etc/kubernetes");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("bootstrap-kubelet.conf"), "x").unwrap();
        assert!(!is_joined(root.path()));
        fs::write(directory.join("kubelet.conf"), "x").unwrap();
        assert!(is_joined(root.path()));
        remove_bootstrap_kubeconfig(root.path()).unwrap();
        remove_bootstrap_kubeconfig(root.path()).unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn the_small_files_are_those_that_kubeadm_writes() {
        assert_eq!(
            instance_config("unix:///run/containerd/containerd.sock"),
            "containerRuntimeEndpoint: \"unix:///run/containerd/containerd.sock\"\n"
        );
        let flag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            flags_file(&[flag("hostname-override", "cp1")]),
            "KUBELET_KUBEADM_ARGS=\"--hostname-override=cp1\"\n"
        );
        assert_eq!(flags_file(&[]), "KUBELET_KUBEADM_ARGS=\"\"\n");
        assert_eq!(
            flags_file(&[flag("v", "4"), flag("node-labels", "a=\"b\"")]),
            "KUBELET_KUBEADM_ARGS=\"--node-labels=a=\\\"b\\\" --v=4\"\n"
        );
    }
}
