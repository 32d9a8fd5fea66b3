//! A plan of files: what is missing is made, what is there and the same is left,
//! what is there and different stops everything before anything is written.

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{DIRECTORIES, PlannedFile, below};
use crate::files::{self, FileError};

/// What is to be done below a root, each file with what stands there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    root: PathBuf,
    entries: Vec<Entry>,
}

/// One file and what stands in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub file: PlannedFile,
    pub state: State,
}

/// What stands where a file is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing: it will be made.
    Create,
    /// The same: it will be left.
    Same,
    /// The same, for more eyes than it is for: its mode will be narrowed.
    Widened,
    /// Something else: it is in the way.
    Differs,
}

/// Why a plan was not carried out, or not to its end. A second run goes on where
/// this one stopped.
#[derive(Debug, Error)]
pub enum PlanError {
    #[error(
        "{} {} there already with other content, and nothing was written; `ferrolet reset --node` takes a former join away, or move the file away yourself",
        listed(.0),
        if .0.len() == 1 { "is" } else { "are" }
    )]
    InTheWay(Vec<PathBuf>),
    #[error(transparent)]
    File(#[from] FileError),
}

fn listed(paths: &[PathBuf]) -> String {
    let texts: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    texts.join(", ")
}

impl Plan {
    /// Looks at what stands below `root` (`/` on the node itself).
    pub fn look(root: &Path, files: Vec<PlannedFile>) -> Result<Self, FileError> {
        let mut entries = Vec::with_capacity(files.len());
        for file in files {
            let state = state_of(root, &file)?;
            entries.push(Entry { file, state });
        }
        Ok(Self {
            root: root.to_owned(),
            entries,
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What is in the way.
    pub fn conflicts(&self) -> Vec<PathBuf> {
        let differing = |entry: &&Entry| entry.state == State::Differs;
        let conflicts = self.entries.iter().filter(differing);
        conflicts.map(|entry| entry.file.path.clone()).collect()
    }

    /// Whether there is nothing left to do.
    pub fn is_done(&self) -> bool {
        self.entries.iter().all(|entry| entry.state == State::Same)
    }

    /// Writes what is missing, in order. Each file is looked at again just before.
    pub fn execute(&self) -> Result<(), PlanError> {
        refuse(self.conflicts())?;
        for (path, mode) in DIRECTORIES {
            self.make_directory(Path::new(path), mode)?;
        }
        for Entry { file, .. } in &self.entries {
            if let Some(directory) = file.path.parent() {
                self.make_directory(directory, 0o755)?;
            }
            let path = below(&self.root, &file.path);
            match state_of(&self.root, file)? {
                State::Same => {}
                State::Create | State::Widened => files::write(&path, &file.content, file.mode)?,
                State::Differs => refuse(vec![file.path.clone()])?,
            }
        }
        Ok(())
    }

    /// The last part with its own mode; those above, where they are missing, as
    /// everywhere.
    fn make_directory(&self, path: &Path, mode: u32) -> Result<(), FileError> {
        let path = below(&self.root, path);
        if let Some(parent) = path.parent() {
            files::make_directory(parent, 0o755)?;
        }
        files::make_directory(&path, mode)
    }
}

fn refuse(conflicts: Vec<PathBuf>) -> Result<(), PlanError> {
    if conflicts.is_empty() {
        Ok(())
    } else {
        Err(PlanError::InTheWay(conflicts))
    }
}

fn state_of(root: &Path, file: &PlannedFile) -> Result<State, FileError> {
    let path = below(root, &file.path);
    let Some(content) = files::read(&path)? else {
        return Ok(State::Create);
    };
    if content != file.content {
        return Ok(State::Differs);
    }
    let metadata = std::fs::metadata(&path);
    let metadata = metadata.map_err(|cause| FileError::new("look at", &path, cause))?;
    let widened = metadata.permissions().mode() & 0o777 & !file.mode != 0;
    Ok(if widened { State::Widened } else { State::Same })
}

/// A line per file, as `--dry-run` prints it. Contents are not shown.
impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { file, state } in &self.entries {
            let word = match state {
                State::Create => "create",
                State::Same => "keep",
                State::Widened => "narrow",
                State::Differs => "IN THE WAY",
            };
            writeln!(
                formatter,
                "{word:<10}  {:04o}  {}",
                file.mode,
                file.path.display()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;
    use crate::kubeconfig::{self, Endpoint};
    use crate::layout::{JoinedNode, KubeletConfigText, NodeSettings};
    use crate::testing::CA_PEM;

    fn files() -> Vec<PlannedFile> {
        let endpoint = Endpoint::new("https://192.0.2.10:6443", CA_PEM.as_bytes()).unwrap();
        let token = "abcdef.0123456789abcdef".parse().unwrap();
        let node = NodeSettings {
            runtime_endpoint: "unix:///run/containerd/containerd.sock".to_owned(),
            resolved_active: false,
        };
        let config = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        JoinedNode {
            bootstrap: Some(kubeconfig::bootstrap(&endpoint, "kubernetes", &token).unwrap()),
            authority_pem: CA_PEM.into(),
            kubelet_config: KubeletConfigText::of_cluster(config, &node).unwrap(),
            runtime_endpoint: node.runtime_endpoint,
            flags: Vec::new(),
            program: Some("/usr/bin/ferrolet".into()),
        }
        .files()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_plan_makes_the_files_with_kubeadms_modes_and_is_then_done() {
        let root = tempfile::tempdir().unwrap();
        let plan = Plan::look(root.path(), files()).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "only looked");
        plan.execute().unwrap();
        for (path, expected) in [
            ("etc/kubernetes", 0o755),
            ("etc/kubernetes/bootstrap-kubelet.conf", 0o600),
            ("etc/kubernetes/pki", 0o755),
            ("etc/kubernetes/pki/ca.crt", 0o644),
            ("etc/kubernetes/manifests", 0o700),
            ("var/lib", 0o755),
            ("var/lib/kubelet", 0o700),
            ("var/lib/kubelet/config.yaml", 0o644),
            ("var/lib/kubelet/instance-config.yaml", 0o644),
            ("var/lib/kubelet/kubeadm-flags.env", 0o644),
            ("etc/systemd/system/kubelet.service", 0o644),
            (
                "etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
                0o644,
            ),
        ] {
            assert_eq!(mode(&root.path().join(path)), expected, "{path}");
        }
        let again = Plan::look(root.path(), files()).unwrap();
        assert!(again.is_done(), "{again}");
        again.execute().unwrap();
    }

    #[test]
    fn what_differs_stops_everything_and_is_named() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("var/lib/kubelet/config.yaml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "mine").unwrap();
        let plan = Plan::look(root.path(), files()).unwrap();
        let error = plan.execute().unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("/var/lib/kubelet/config.yaml is there already"),
            "{error}"
        );
        assert!(!root.path().join("etc").exists());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        let dry_run = plan.to_string();
        assert!(dry_run.contains("IN THE WAY  0644  /var/lib/kubelet/config.yaml\n"));
        assert!(dry_run.contains("create      0600  /etc/kubernetes/bootstrap-kubelet.conf\n"));
        assert!(!dry_run.contains("0123456789abcdef"));
    }

    #[test]
    fn what_a_first_run_left_undone_a_second_one_finishes() {
        let root = tempfile::tempdir().unwrap();
        let half: Vec<_> = files().into_iter().take(2).collect();
        Plan::look(root.path(), half).unwrap().execute().unwrap();
        let plan = Plan::look(root.path(), files()).unwrap();
        let states: Vec<_> = plan.entries().iter().map(|entry| entry.state).collect();
        assert_eq!(states[..3], [State::Same, State::Same, State::Create]);
        plan.execute().unwrap();
        assert!(Plan::look(root.path(), files()).unwrap().is_done());
    }

    #[test]
    fn a_secret_that_others_can_read_is_narrowed() {
        let root = tempfile::tempdir().unwrap();
        Plan::look(root.path(), files()).unwrap().execute().unwrap();
        let path = root.path().join("etc/kubernetes/bootstrap-kubelet.conf");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let plan = Plan::look(root.path(), files()).unwrap();
        assert_eq!(plan.entries()[0].state, State::Widened);
        plan.execute().unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_file_that_appears_after_the_look_is_not_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let plan = Plan::look(root.path(), files()).unwrap();
        let path = root.path().join("etc/kubernetes/pki/ca.crt");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "another").unwrap();
        assert!(matches!(plan.execute(), Err(PlanError::InTheWay(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "another");
    }
}
