//! Undoing a join: the files that belong to it, listed first, and only those.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use identity::published;
use thiserror::Error;

use super::service::MARK;
use super::{
    AUTHORITY, BOOTSTRAP_KUBECONFIG, CERTIFICATES, DROP_IN_PATH, FLAGS, INSTANCE_CONFIG,
    KUBECONFIG, KUBELET_CONFIG, KUBELET_DIRECTORY, UNIT_PATH, below,
};
use crate::files::{self, FileError};

/// What tells a machine of the control plane, whose files are not a join's.
const CONTROL_PLANE: [&str; 4] = [
    "/etc/kubernetes/pki/ca.key",
    "/etc/kubernetes/admin.conf",
    "/etc/kubernetes/manifests/kube-apiserver.yaml",
    "/etc/kubernetes/controller-manager.conf",
];

/// Where the agent keeps which images it has pulled, and for whom.
const RECORDS: [&str; 3] = [
    "/var/lib/kubelet/image_manager/pulling",
    "/var/lib/kubelet/image_manager/pulled",
    "/var/lib/kubelet/image_manager/preloaded",
];

/// Where the agent tells others on the machine what pods were given.
const POD_RESOURCES: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";

/// Directories that a join made, or the agent that it started, inner ones first: they go if nothing is in them.
const DIRECTORIES: [&str; 15] = [
    CERTIFICATES,
    RECORDS[0],
    RECORDS[1],
    RECORDS[2],
    "/var/lib/kubelet/image_manager",
    "/var/lib/kubelet/pods",
    "/var/lib/kubelet/pod-resources",
    "/var/lib/kubelet/checkpoints",
    "/var/lib/kubelet/plugins",
    "/var/lib/kubelet/plugins_registry",
    KUBELET_DIRECTORY,
    "/etc/systemd/system/kubelet.service.d",
    "/etc/kubernetes/pki",
    "/etc/kubernetes/manifests",
    "/etc/kubernetes",
];

/// What a reset would do below a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetPlan {
    root: PathBuf,
    removals: Vec<Removal>,
    kept: Vec<Kept>,
    control_plane: Option<PathBuf>,
}

/// What goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// A file or a link; what a link points at stays.
    File(PathBuf),
    /// A directory, if it is empty by then.
    EmptyDirectory(PathBuf),
}

/// What stays, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub what: String,
    pub why: &'static str,
}

/// Why a reset did not take place, or not to its end. A second run goes on.
#[derive(Debug, Error)]
pub enum ResetError {
    #[error(
        "{0} shows that this machine is part of the control plane, and nothing was removed; `kubeadm reset` undoes `kubeadm init`"
    )]
    ControlPlane(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
}

impl ResetPlan {
    /// Looks at what stands below `root` (`/` on the node itself).
    pub fn look(root: &Path) -> Result<Self, FileError> {
        let present = |path: &&&str| is_there(&below(root, Path::new(path)));
        let mut kept = outside_of_files();
        let plain = [
            BOOTSTRAP_KUBECONFIG,
            KUBECONFIG,
            AUTHORITY,
            KUBELET_CONFIG,
            INSTANCE_CONFIG,
            FLAGS,
        ];
        let mut paths: Vec<PathBuf> = plain.iter().filter(present).map(PathBuf::from).collect();
        // What a write that was cut short has left, perhaps with a token in it.
        let beside = plain.map(|path| format!("{path}.new"));
        let left = beside.iter().filter(|path| present(&&path.as_str()));
        paths.extend(left.map(PathBuf::from));
        paths.extend([POD_RESOURCES].iter().filter(present).map(PathBuf::from));
        paths.extend(certificates(root)?);
        for directory in RECORDS {
            paths.extend(records(root, directory)?);
        }
        for path in [UNIT_PATH, DROP_IN_PATH] {
            match files::read(&below(root, Path::new(path)))? {
                Some(content) if content.starts_with(MARK.as_bytes()) => paths.push(path.into()),
                Some(_) => kept.push(Kept {
                    what: path.to_owned(),
                    why: "it was not written by ferrolet join",
                }),
                None => {}
            }
        }
        let mut removals: Vec<_> = paths.into_iter().map(Removal::File).collect();
        let directories = DIRECTORIES.iter().filter(present);
        removals.extend(directories.map(|path| Removal::EmptyDirectory(path.into())));
        let control_plane = CONTROL_PLANE.iter().find(present);
        Ok(Self {
            root: root.to_owned(),
            removals,
            kept,
            control_plane: control_plane.map(PathBuf::from),
        })
    }

    pub fn removals(&self) -> &[Removal] {
        &self.removals
    }

    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// What shows that this machine is part of the control plane: nothing will be
    /// removed from it.
    pub fn control_plane(&self) -> Option<&Path> {
        self.control_plane.as_deref()
    }

    /// Removes what is listed, and nothing else. What has gone meanwhile is fine.
    pub fn execute(&self) -> Result<(), ResetError> {
        if let Some(sign) = &self.control_plane {
            return Err(ResetError::ControlPlane(sign.clone()));
        }
        for removal in &self.removals {
            match removal {
                Removal::File(path) => {
                    let path = below(&self.root, path);
                    gone(fs::remove_file(&path), &path)?;
                }
                Removal::EmptyDirectory(path) => {
                    let path = below(&self.root, path);
                    match fs::remove_dir(&path) {
                        // In use, a mount point, or a link: then it is not ours.
                        Err(cause)
                            if matches!(
                                cause.kind(),
                                ErrorKind::DirectoryNotEmpty
                                    | ErrorKind::ResourceBusy
                                    | ErrorKind::NotADirectory
                            ) => {}
                        outcome => gone(outcome, &path)?,
                    }
                }
            }
        }
        Ok(())
    }
}

fn gone(outcome: io::Result<()>, path: &Path) -> Result<(), FileError> {
    match outcome {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            Err(FileError::new("remove", path, cause))
        }
        _ => Ok(()),
    }
}

/// Links count, wherever they point.
fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// The pairs of the node, under the names that kubelets give them, and what our
/// agent tells of them.
fn certificates(root: &Path) -> Result<Vec<PathBuf>, FileError> {
    files_in(root, CERTIFICATES, |name| {
        let pair = (name.starts_with("kubelet-client") || name.starts_with("kubelet-server"))
            && name.contains(".pem");
        let others = [
            "kubelet-client.key.tmp",
            "kubelet.crt",
            "kubelet.key",
            published::FILE_NAME,
        ];
        pair || others.contains(&name)
    })
}

/// What the agent has noted of images, under the names that kubelets give it.
fn records(root: &Path, directory: &str) -> Result<Vec<PathBuf>, FileError> {
    files_in(root, directory, |name| name.starts_with("sha256-"))
}

/// The files of a directory that are wanted, sorted; none where there is none.
fn files_in(
    root: &Path,
    place: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<PathBuf>, FileError> {
    let directory = below(root, Path::new(place));
    let failed = |cause| FileError::new("list", &directory, cause);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(failed(cause)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let is_directory = entry.file_type().map_err(failed)?.is_dir();
        if !is_directory && is_wanted(&name.to_string_lossy()) {
            found.push(Path::new(place).join(&name));
        }
    }
    found.sort();
    Ok(found)
}

/// What people expect a reset to do, and this one does not.
fn outside_of_files() -> Vec<Kept> {
    [
        (
            "the Node object",
            "only an administrator may remove it: kubectl delete node NAME",
        ),
        (
            "running pods and /var/lib/kubelet/pods",
            "volumes may be mounted there; drain the node first, then `crictl rmp -fa`",
        ),
        (
            "/etc/cni/net.d and packet filter rules",
            "the pod network put them there",
        ),
        (
            "/etc/default/kubelet and other drop-ins of the service",
            "they are yours",
        ),
        ("images and containers", "they are the runtime's"),
    ]
    .map(|(what, why)| Kept {
        what: what.to_owned(),
        why,
    })
    .to_vec()
}

/// The list that a person is asked about.
impl fmt::Display for ResetPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for removal in &self.removals {
            match removal {
                Removal::File(path) => writeln!(formatter, "remove  {}", path.display())?,
                Removal::EmptyDirectory(path) => {
                    writeln!(formatter, "remove  {} (if empty)", path.display())?;
                }
            }
        }
        for Kept { what, why } in &self.kept {
            writeln!(formatter, "keep    {what}: {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::layout::service;

    fn put(root: &Path, path: &str, content: &str) {
        let path = below(root, Path::new(path));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn joined() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for path in [
            KUBECONFIG,
            AUTHORITY,
            KUBELET_CONFIG,
            INSTANCE_CONFIG,
            FLAGS,
        ] {
            put(root, path, "x");
        }
        put(root, "/var/lib/kubelet/pki/kubelet-client-2026.pem", "x");
        put(root, "/var/lib/kubelet/pki/ferrolet-identity.json", "x");
        let current = below(root, Path::new(CERTIFICATES)).join("kubelet-client-current.pem");
        symlink("kubelet-client-2026.pem", current).unwrap();
        put(root, UNIT_PATH, &service::unit(Path::new("/x")));
        put(root, DROP_IN_PATH, &service::drop_in(Path::new("/x")));
        directory
    }

    #[test]
    fn a_join_is_undone_and_what_is_not_of_it_stays() {
        let directory = joined();
        let root = directory.path();
        put(root, "/var/lib/kubelet/pods/uid/volume", "data");
        put(root, "/etc/kubernetes/manifests/mine.yaml", "pod");
        put(root, "/var/lib/kubelet/pki/mine.txt", "x");
        let plan = ResetPlan::look(root).unwrap();
        plan.execute().unwrap();
        let left = |path: &str| below(root, Path::new(path)).exists();
        for path in [
            "/var/lib/kubelet/pods/uid/volume",
            "/etc/kubernetes/manifests/mine.yaml",
            "/var/lib/kubelet/pki/mine.txt",
        ] {
            assert!(left(path), "{path} was removed");
        }
        for path in [
            KUBECONFIG,
            AUTHORITY,
            KUBELET_CONFIG,
            UNIT_PATH,
            DROP_IN_PATH,
            "/etc/kubernetes/pki",
            "/etc/systemd/system/kubelet.service.d",
            "/var/lib/kubelet/pki/kubelet-client-2026.pem",
            "/var/lib/kubelet/pki/ferrolet-identity.json",
        ] {
            assert!(!left(path), "{path} was left");
        }
        plan.execute().unwrap();
        let again = ResetPlan::look(root).unwrap();
        let files = |plan: &ResetPlan| {
            let removals = plan.removals().iter();
            removals
                .filter(|removal| matches!(removal, Removal::File(_)))
                .count()
        };
        assert_eq!(files(&again), 0);
    }

    #[test]
    fn only_what_was_listed_is_removed() {
        let directory = joined();
        let plan = ResetPlan::look(directory.path()).unwrap();
        assert_eq!(plan.control_plane(), None);
        put(directory.path(), BOOTSTRAP_KUBECONFIG, "came later");
        plan.execute().unwrap();
        assert!(below(directory.path(), Path::new(BOOTSTRAP_KUBECONFIG)).exists());
        assert!(
            plan.to_string()
                .contains("remove  /etc/kubernetes/kubelet.conf\n")
        );
        assert!(!plan.to_string().contains("bootstrap-kubelet.conf"));
    }

    #[test]
    fn a_unit_of_somebody_else_is_kept_and_told() {
        let directory = joined();
        put(directory.path(), UNIT_PATH, "[Unit]\n");
        let plan = ResetPlan::look(directory.path()).unwrap();
        let told = format!("keep    {UNIT_PATH}: it was not written by ferrolet join");
        assert!(plan.to_string().contains(&told), "{plan}");
        plan.execute().unwrap();
        assert!(below(directory.path(), Path::new(UNIT_PATH)).exists());
    }

    #[test]
    fn a_machine_of_the_control_plane_is_not_touched() {
        let directory = joined();
        put(directory.path(), "/etc/kubernetes/admin.conf", "x");
        let plan = ResetPlan::look(directory.path()).unwrap();
        let sign = Path::new("/etc/kubernetes/admin.conf");
        assert_eq!(plan.control_plane(), Some(sign));
        assert!(matches!(plan.execute(), Err(ResetError::ControlPlane(_))));
        assert!(below(directory.path(), Path::new(AUTHORITY)).exists());
    }
}
