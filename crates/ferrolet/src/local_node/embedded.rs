//! The node of a `ferrolet up` that runs on this machine: which cluster is meant, and which
//! of its nodes.

use std::fs;
use std::path::{Path, PathBuf};

use super::process::{Agent, Keeper};
use crate::up::{
    FIRST_SIMULATED, first_node_in, identity_flags, kubeconfig_in, log_file_in, machine_flags,
    node_config_in,
};

/// A node that has no process of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Embedded {
    /// Where its cluster is kept.
    pub(crate) root: PathBuf,
    /// Its machine is a story, too.
    pub(crate) simulated: bool,
    /// The kubeconfigs of clusters that run here as well.
    pub(crate) others: Vec<PathBuf>,
    /// What starts the cluster: the program and its words.
    pub(super) line: Vec<String>,
    /// Where it writes what it says, if that is a file.
    pub(super) log: Option<PathBuf>,
}

impl Embedded {
    /// For people, who see everything.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        kubeconfig_in(&self.root)
    }
}

/// The node that is meant, with the flags that a kubelet of its own would have. `kubectls` is
/// the kubeconfig that kubectl would use.
pub(super) fn find(
    keepers: &[Keeper],
    kubectls: Option<&Path>,
    kubelet_runs: bool,
    name: Option<&str>,
) -> Option<(Agent, Embedded)> {
    let keeper = meant(keepers, kubectls, kubelet_runs)?;
    let root = &keeper.root;
    let first = first_node_in(root).unwrap_or_else(|| FIRST_SIMULATED.to_owned());
    let name = name.unwrap_or(&first);
    // A directory may be left of a time when it was this machine.
    let simulated = name != first || !node_config_in(root, name).exists();
    let others = keepers.iter().filter(|other| *other != keeper);
    let program = keeper.program.display().to_string();
    let program = program.trim_end_matches(" (deleted)").to_owned();
    let log = log_file_in(root);
    let embedded = Embedded {
        root: root.clone(),
        simulated,
        others: others.map(|other| kubeconfig_in(&other.root)).collect(),
        line: again(program, &keeper.words, root),
        log: log.exists().then_some(log),
    };
    let agent = Agent {
        id: keeper.id,
        program: keeper.program.clone(),
        command: Vec::new(),
        flags: if simulated {
            identity_flags(root, name)
        } else {
            machine_flags(root, name)
        },
        directory: PathBuf::from("/"),
    };
    Some((agent, embedded))
}

/// The one that kubectl is set to; else the newest, unless this machine is a node by itself.
fn meant<'a>(
    keepers: &'a [Keeper],
    kubectls: Option<&Path>,
    kubelet_runs: bool,
) -> Option<&'a Keeper> {
    // The kernel tells where a keeper is; people go there by links and by `..`.
    let kubectls = kubectls.map(true_path);
    let named = keepers
        .iter()
        .find(|keeper| kubectls == Some(true_path(&kubeconfig_in(&keeper.root))));
    named.or_else(|| keepers.last().filter(|_| !kubelet_runs))
}

/// Without links; as it is given where there is no such file.
fn true_path(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// What starts it anew, wherever and by whomever that is done: its directory is named in
/// full. One in the background was told it by `--detach`.
fn again(program: String, words: &[String], root: &Path) -> Vec<String> {
    let is_kept = !words.iter().any(|word| word == "--ephemeral");
    let mut line = vec![program];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--data-dir" => {
                words.next();
            }
            "--background" => {
                words.next();
                line.push("--detach".to_owned());
            }
            given if given.starts_with("--data-dir=") => {}
            _ => line.push(word.clone()),
        }
    }
    if is_kept {
        line.push(format!("--data-dir={}", root.display()));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeper(id: u32, root: &Path) -> Keeper {
        Keeper {
            id,
            program: "/opt/ferrolet".into(),
            words: vec!["up".to_owned()],
            root: root.to_owned(),
        }
    }

    #[test]
    fn the_cluster_is_the_one_that_kubectl_is_set_to_or_else_the_newest() {
        let both = [keeper(7, Path::new("/a")), keeper(9, Path::new("/b"))];
        let found = |kubectls: Option<&str>, kubelet_runs| {
            let found = find(&both, kubectls.map(Path::new), kubelet_runs, None);
            found.map(|(agent, embedded)| (agent.id, embedded.others))
        };
        let other = |root: &str| vec![Path::new(root).join("kubeconfig")];
        assert_eq!(found(Some("/a/kubeconfig"), true), Some((7, other("/b"))));
        assert_eq!(found(Some("/c"), false), Some((9, other("/a"))));
        assert_eq!(found(None, false), Some((9, other("/a"))));
        // Who has a kubelet asks about that.
        assert_eq!(found(Some("/c"), true), None);
        assert_eq!(find(&[], None, false, None), None);
    }

    #[test]
    fn a_kubeconfig_is_the_same_however_people_come_to_it() {
        let temporary = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temporary.path()).unwrap();
        for cluster in ["a", "b"] {
            fs::create_dir(root.join(cluster)).unwrap();
            fs::write(kubeconfig_in(&root.join(cluster)), "").unwrap();
        }
        std::os::unix::fs::symlink(root.join("a"), root.join("link")).unwrap();
        let both = [keeper(7, &root.join("a")), keeper(9, &root.join("b"))];
        for way in ["a", "link", "b/../a"] {
            let kubectls = root.join(way).join("kubeconfig");
            let found = meant(&both, Some(&kubectls), true);
            assert_eq!(found.map(|keeper| keeper.id), Some(7), "{way}");
        }
    }

    #[test]
    fn the_node_is_the_first_unless_another_is_named() {
        let root = tempfile::tempdir().unwrap();
        let keepers = [keeper(7, root.path())];
        let found = |name| {
            let (agent, embedded) = find(&keepers, None, false, name).unwrap();
            let flags = agent.flags.join(" ");
            (
                flags.replace(&root.path().display().to_string(), "R"),
                embedded.simulated,
            )
        };
        let simulated = |name: &str| {
            let flags = format!(
                "--kubeconfig=R/nodes/{name}/kubelet.conf --bootstrap-kubeconfig=R/bootstrap-kubelet.conf --cert-dir=R/nodes/{name}/pki --hostname-override={name}"
            );
            (flags, true)
        };
        assert_eq!(found(None), simulated("sim-0"));
        assert_eq!(found(Some("sim-2")), simulated("sim-2"));
        fs::write(root.path().join("first-node"), "machine").unwrap();
        let config = node_config_in(root.path(), "machine");
        fs::create_dir_all(config.parent().unwrap()).unwrap();
        fs::write(config, "{}").unwrap();
        let (flags, simulated) = found(None);
        assert!(!simulated);
        assert!(
            flags.starts_with(
                "--config=R/nodes/machine/config.json --root-dir=R/nodes/machine/kubelet "
            ),
            "{flags}"
        );
        assert!(found(Some("sim-0")).1);
    }

    #[test]
    fn what_starts_it_anew_is_what_started_it() {
        let line = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            again("ferrolet".to_owned(), &words, Path::new("/d")).join(" ")
        };
        for (words, expected) in [
            (
                &["up", "--nodes", "3"][..],
                "ferrolet up --nodes 3 --data-dir=/d",
            ),
            (
                &["up", "--data-dir", "d", "--nodes=3"],
                "ferrolet up --nodes=3 --data-dir=/d",
            ),
            (&["up", "--data-dir=./d"], "ferrolet up --data-dir=/d"),
            (&["up", "--ephemeral"], "ferrolet up --ephemeral"),
            (
                &["up", "--background", "/d", "--nodes=1"],
                "ferrolet up --detach --nodes=1 --data-dir=/d",
            ),
            (
                &["up", "--background", "/tmp/d", "--ephemeral"],
                "ferrolet up --detach --ephemeral",
            ),
        ] {
            assert_eq!(line(words), expected);
        }
    }
}
