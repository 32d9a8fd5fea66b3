//! Where a cluster is kept: its keys and objects, and the files of its nodes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use linux::clear_away;
use rustix::fs::{FlockOperation, flock};
use seams::host::HostError;
use tempfile::NamedTempFile;
use thiserror::Error;

use super::arguments::Arguments;
use crate::kubelet::{say, working_directory};

/// Why there is no place for a cluster.
#[derive(Debug, Error)]
pub(super) enum PlaceError {
    #[error("there is no home directory to keep the cluster in: give --data-dir, or --ephemeral")]
    NoHome,
    #[error("cannot {verb} {}: {cause}; choose another place with --data-dir, or --ephemeral", path.display())]
    File {
        verb: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
    #[error(
        "the cluster in {} is up already{by}; use it with `export KUBECONFIG={}`, end it with Ctrl-C or `kill`, or choose another --data-dir",
        root.display(), root.join(KUBECONFIG).display()
    )]
    Busy { root: PathBuf, by: String },
    #[error(
        "{} holds files that are not of a cluster that begins, and would go with this one: \
         `ferrolet up --ephemeral --detach` makes a directory of its own", root.display()
    )]
    NotOurs { root: PathBuf },
    #[error(
        "the directory of the cluster that is gone is left, with the key to it: {cause}; \
         `grep {} /proc/self/mountinfo` shows what is mounted below it: unmount that, and only \
         then remove {}", root.display(), root.display()
    )]
    Left { root: PathBuf, cause: HostError },
}

const KUBECONFIG: &str = "kubeconfig";
const BOOTSTRAP_KUBECONFIG: &str = "bootstrap-kubelet.conf";
const NODES: &str = "nodes";

/// Whoever runs the cluster holds it.
pub(crate) const LOCK: &str = "lock";

/// The kubeconfig for people of the cluster in `root`.
pub(crate) fn kubeconfig_in(root: &Path) -> PathBuf {
    root.join(KUBECONFIG)
}

/// The first node of the cluster in `root`, as its last start left word.
pub(crate) fn first_node_in(root: &Path) -> Option<String> {
    fs::read_to_string(root.join(FIRST_NODE)).ok()
}

const FIRST_NODE: &str = "first-node";

/// The settings of a node that is this machine; a simulated one has none of its own.
pub(crate) fn node_config_in(root: &Path, name: &str) -> PathBuf {
    root.join(NODES).join(name).join("config.json")
}

/// The kubelet's flags that say where a node's identity is.
pub(crate) fn identity_flags(root: &Path, name: &str) -> Vec<String> {
    let directory = root.join(NODES).join(name);
    vec![
        path_flag("kubeconfig", &directory.join("kubelet.conf")),
        path_flag("bootstrap-kubeconfig", &root.join(BOOTSTRAP_KUBECONFIG)),
        path_flag("cert-dir", &directory.join("pki")),
        format!("--hostname-override={name}"),
    ]
}

/// All flags of the node that is this machine.
pub(crate) fn machine_flags(root: &Path, name: &str) -> Vec<String> {
    let own = [
        path_flag("config", &node_config_in(root, name)),
        path_flag("root-dir", &root_directory(&root.join(NODES).join(name))),
    ];
    [own.to_vec(), identity_flags(root, name)].concat()
}

/// Where a node that is this machine has its pods' files, below its own directory.
fn root_directory(node: &Path) -> PathBuf {
    node.join("kubelet")
}

fn path_flag(name: &str, value: &Path) -> String {
    format!("--{name}={}", value.display())
}

/// A directory that is ours while it is held.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
    kept: bool,
    /// Whoever holds the lock runs the cluster; its number is in the file.
    _lock: File,
    temporary: Option<Temporary>,
}

/// A directory that goes with whoever holds this.
#[derive(Debug)]
struct Temporary(Option<PathBuf>);

impl Temporary {
    /// Directories of the machine may still be mounted in volumes of its pods: they are not
    /// to go with it.
    fn remove(&mut self) -> Result<(), PlaceError> {
        let Some(root) = self.0.take() else {
            return Ok(());
        };
        clear_away(&root).map_err(|cause| PlaceError::Left { root, cause })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            say(&format!("warning: {error}"));
        }
    }
}

impl Place {
    pub(super) fn open(arguments: &Arguments) -> Result<Self, PlaceError> {
        let root = match &arguments.background {
            Some(directory) => {
                if arguments.ephemeral {
                    refuse_used(directory)?;
                }
                directory.clone()
            }
            None => choose(arguments)?,
        };
        Self::at(root, arguments.ephemeral)
    }

    fn at(root: PathBuf, ephemeral: bool) -> Result<Self, PlaceError> {
        directory(&root)?;
        let lock = lock(&root);
        // Before anything can fail, or it would be left behind; but not of whoever is up in it.
        let is_ours = !matches!(lock, Err(PlaceError::Busy { .. }));
        let temporary = (ephemeral && is_ours).then(|| Temporary(Some(root.clone())));
        let lock = lock?;
        Ok(Self {
            root,
            kept: !ephemeral,
            _lock: lock,
            temporary,
        })
    }

    /// Goes, with the directory if that is not to be kept.
    pub(super) fn leave(mut self) -> Result<(), PlaceError> {
        match &mut self.temporary {
            Some(temporary) => temporary.remove(),
            None => Ok(()),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the API server keeps its data, if it is to.
    pub(super) fn server_data(&self) -> Option<PathBuf> {
        self.kept.then(|| self.root.join("apiserver"))
    }

    /// For people.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        kubeconfig_in(&self.root)
    }

    /// What nodes come into the cluster with.
    pub(super) fn bootstrap_kubeconfig(&self) -> PathBuf {
        self.root.join(BOOTSTRAP_KUBECONFIG)
    }

    /// The cluster's CA, by which nodes know the API server's certificate as a client.
    pub(super) fn authority(&self) -> PathBuf {
        self.root.join("ca.crt")
    }

    /// Each node has a directory of its own below it.
    pub(super) fn nodes(&self) -> PathBuf {
        self.root.join(NODES)
    }

    /// A node's kubeconfig, as it is written by the node.
    pub(super) fn of_node(&self, name: &str) -> PathBuf {
        self.nodes().join(name)
    }

    /// The UIDs of the pods that a node has here; `None` if it never was one.
    pub(super) fn pods_of_node(&self, name: &str) -> Option<BTreeSet<String>> {
        let node = self.of_node(name);
        if !node.exists() {
            return None;
        }
        let pods = fs::read_dir(root_directory(&node).join("pods"));
        let pods = pods.into_iter().flatten().flatten();
        Some(
            pods.map(|pod| pod.file_name().to_string_lossy().into_owned())
                .collect(),
        )
    }

    /// Puts a file in place, whole, for its owner only.
    pub(super) fn put(&self, path: &Path, content: &str) -> Result<(), PlaceError> {
        let written = || {
            let mut file = NamedTempFile::new_in(&self.root)?;
            file.write_all(content.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|error| error.error)
        };
        let written = written().map(drop);
        written.map_err(|cause| file_error("write", path, cause))
    }

    /// Leaves word of the first node, for those who look for it.
    pub(super) fn keep_first_node(&self, name: &str) -> Result<(), PlaceError> {
        self.put(&self.root.join(FIRST_NODE), name)
    }

    /// Where the API server was at the last start.
    pub(super) fn last_server(&self) -> Option<String> {
        fs::read_to_string(self.last_server_file()).ok()
    }

    /// Where it is now. Nodes that know another place are told to look anew: their
    /// certificates stay.
    pub(super) fn keep_server(&self, server: &str) -> Result<(), PlaceError> {
        if self.last_server().as_deref() == Some(server) {
            return Ok(());
        }
        for node in fs::read_dir(self.nodes()).into_iter().flatten().flatten() {
            let path = node.path().join("kubelet.conf");
            match fs::remove_file(&path) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                    return Err(file_error("remove", &path, cause));
                }
                _ => {}
            }
        }
        self.put(&self.last_server_file(), server)
    }

    fn last_server_file(&self) -> PathBuf {
        self.root.join("server")
    }
}

/// The directory that the command line means; a temporary one is made.
pub(super) fn choose(arguments: &Arguments) -> Result<PathBuf, PlaceError> {
    if arguments.ephemeral {
        let made = tempfile::Builder::new().prefix("ferrolet-up-").tempdir();
        let made = made.map_err(|cause| PlaceError::File {
            verb: "make a directory in",
            path: std::env::temp_dir(),
            cause,
        })?;
        return Ok(made.keep());
    }
    match &arguments.data_dir {
        Some(path) => Ok(working_directory().join(path)),
        None => usual(|name| std::env::var_os(name).map(PathBuf::from)),
    }
}

/// Makes the directory, and refuses one whose cluster is up: its files are not to be touched.
pub(super) fn refuse_busy(root: &Path) -> Result<(), PlaceError> {
    directory(root)?;
    lock(root).map(drop)
}

/// Refuses a directory that is to go with the cluster and holds more than whoever starts it
/// in the background puts there.
fn refuse_used(root: &Path) -> Result<(), PlaceError> {
    let begun = [root.join(LOCK), log_file(root)];
    let mut entries = fs::read_dir(root).into_iter().flatten().flatten();
    if entries.any(|entry| !begun.contains(&entry.path())) {
        let root = root.to_owned();
        return Err(PlaceError::NotOurs { root });
    }
    Ok(())
}

/// Tells others that the nodes are Ready, or no more.
pub(super) fn ready_file(root: &Path) -> PathBuf {
    root.join("ready")
}

/// What a cluster in the background says.
pub(crate) fn log_file(root: &Path) -> PathBuf {
    root.join("up.log")
}

fn file_error(verb: &'static str, path: &Path, cause: io::Error) -> PlaceError {
    let path = path.to_owned();
    PlaceError::File { verb, path, cause }
}

/// As other programs keep what they go on with.
fn usual(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, PlaceError> {
    let given = |name: &str| variable(name).filter(|path| path.is_absolute());
    let state = given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state")));
    let state = state.ok_or(PlaceError::NoHome)?;
    Ok(state.join("ferrolet/up"))
}

/// Keys lie in it.
pub(super) fn directory(path: &Path) -> Result<(), PlaceError> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(|cause| file_error("make the directory", path, cause))
}

/// The kernel gives it back with the process, however that ends.
fn lock(root: &Path) -> Result<File, PlaceError> {
    let path = root.join(LOCK);
    let failed = |cause| file_error("lock", &path, cause);
    let mut file = File::options()
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .open(&path)
        .map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let by = fs::read_to_string(&path).unwrap_or_default();
            let by = by.trim();
            return Err(PlaceError::Busy {
                root: root.to_owned(),
                by: if by.is_empty() {
                    String::new()
                } else {
                    format!(", as process {by}")
                },
            });
        }
        Err(cause) => return Err(failed(cause.into())),
    }
    let written = file
        .set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_kept_where_other_programs_keep_their_state() {
        let at = |state: Option<&str>, home: Option<&str>| {
            let found = usual(|name| match name {
                "XDG_STATE_HOME" => state.map(PathBuf::from),
                _ => home.map(PathBuf::from),
            });
            found.ok()
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(at(Some("/s"), Some("/h")), path("/s/ferrolet/up"));
        assert_eq!(
            at(Some("s"), Some("/h")),
            path("/h/.local/state/ferrolet/up")
        );
        assert_eq!(at(None, None), None);
    }

    #[test]
    fn a_second_start_on_the_same_directory_is_told_who_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let first = Place::at(directory.path().to_owned(), false).unwrap();
        let told = Place::at(directory.path().to_owned(), false).unwrap_err();
        let told = told.to_string();
        let by = format!("as process {}", std::process::id());
        assert!(told.contains(&by) && told.contains("KUBECONFIG"), "{told}");
        drop(first);
        assert!(Place::at(directory.path().to_owned(), false).is_ok());
    }

    #[test]
    fn a_directory_that_is_not_kept_goes_when_it_is_left_and_however_else_it_ends() {
        for (ephemeral, leaves, stays) in [
            (true, true, false),
            (true, false, false),
            (false, true, true),
            (false, false, true),
        ] {
            let temporary = tempfile::tempdir().unwrap();
            let root = temporary.path().join("up");
            let place = Place::at(root.clone(), ephemeral).unwrap();
            directory(&place.of_node("a")).unwrap();
            if leaves {
                place.leave().unwrap();
            } else {
                drop(place);
            }
            assert_eq!(root.exists(), stays, "{ephemeral} {leaves}");
        }
    }

    #[test]
    fn of_a_cluster_that_is_up_nothing_goes_with_one_that_cannot_begin() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().to_owned();
        let first = Place::at(root.clone(), false).unwrap();
        let told = Place::at(root.clone(), true).unwrap_err();
        assert!(matches!(told, PlaceError::Busy { .. }), "{told}");
        assert!(root.join(LOCK).exists());
        drop(first);
    }

    #[test]
    fn a_directory_with_files_of_others_does_not_go_with_a_cluster() {
        for (file, refused) in [("up.log", false), ("lock", false), ("thesis.tex", true)] {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join(file), "").unwrap();
            let told = refuse_used(directory.path());
            assert_eq!(told.is_err(), refused, "{file}");
            assert!(directory.path().join(file).exists());
        }
        assert!(refuse_used(Path::new("/nonexistent")).is_ok());
    }

    #[test]
    fn a_node_that_was_here_before_is_known_by_the_directories_of_its_pods() {
        let temporary = tempfile::tempdir().unwrap();
        let place = Place::at(temporary.path().to_owned(), false).unwrap();
        assert_eq!(place.pods_of_node("a"), None);
        directory(&place.of_node("a")).unwrap();
        assert_eq!(place.pods_of_node("a"), Some(BTreeSet::new()));
        directory(&place.of_node("a").join("kubelet/pods/u-1")).unwrap();
        let pods = BTreeSet::from(["u-1".to_owned()]);
        assert_eq!(place.pods_of_node("a"), Some(pods));
    }

    #[test]
    fn nodes_forget_a_server_that_has_moved_and_keep_their_certificates() {
        let temporary = tempfile::tempdir().unwrap();
        let place = Place::at(temporary.path().to_owned(), false).unwrap();
        let node = place.of_node("node-0");
        directory(&node).unwrap();
        let (conf, pair) = (node.join("kubelet.conf"), node.join("pair.pem"));
        for (server, stays) in [
            ("https://a:1", false),
            ("https://a:1", true),
            ("https://a:2", false),
        ] {
            fs::write(&conf, "").unwrap();
            fs::write(&pair, "").unwrap();
            place.keep_server(server).unwrap();
            assert_eq!((conf.exists(), pair.exists()), (stays, true), "{server}");
        }
    }
}
