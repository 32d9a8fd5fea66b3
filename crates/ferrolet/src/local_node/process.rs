//! The agents that run on this machine, and the clusters of `ferrolet up`, found by their
//! command lines.

use std::fs;
use std::path::{Path, PathBuf};

use crate::up::LOCK;

/// An agent that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agent {
    pub(crate) id: u32,
    /// Its file.
    pub(crate) program: PathBuf,
    /// The words before its flags: our program has a name for the command.
    pub(crate) command: Vec<String>,
    /// The kubelet's flags that it was started with.
    pub(crate) flags: Vec<String>,
    /// Where its relative paths start.
    pub(crate) directory: PathBuf,
}

impl Agent {
    /// One whose command line says nothing of it.
    pub(crate) fn untold(id: u32) -> Self {
        Self {
            id,
            program: fs::read_link(format!("/proc/{id}/exe")).unwrap_or_default(),
            command: Vec::new(),
            flags: Vec::new(),
            directory: PathBuf::from("/"),
        }
    }

    /// The name of its program.
    pub(crate) fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        // A replaced program is shown with " (deleted)" after its name.
        let name = name.to_string_lossy();
        name.trim_end_matches(" (deleted)").to_owned()
    }
}

/// A `ferrolet up` that runs, and that this user may look into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keeper {
    pub(super) id: u32,
    pub(super) program: PathBuf,
    /// Its command line after the program.
    pub(super) words: Vec<String>,
    /// Where its cluster is.
    pub(super) root: PathBuf,
}

/// All agents, the oldest process first.
pub(super) fn agents(processes: &Path) -> Vec<Agent> {
    each(processes, |id, directory| {
        let words = words_of(directory)?;
        let (command, flags) = recognised(&words)?;
        Some(Agent {
            id,
            program: program_of(directory, &words),
            command: command.to_vec(),
            flags: flags.to_vec(),
            directory: fs::read_link(directory.join("cwd")).unwrap_or_else(|_| PathBuf::from("/")),
        })
    })
}

/// All clusters of `ferrolet up`, the oldest process first. Each is where its process holds a
/// lock: a temporary directory is named nowhere else.
pub(super) fn keepers(processes: &Path) -> Vec<Keeper> {
    each(processes, |id, directory| {
        let words = words_of(directory)?;
        let (program, rest) = words.split_first()?;
        let name = Path::new(program).file_name()?.to_str()?;
        if !name.starts_with("ferrolet") || rest.first()? != "up" {
            return None;
        }
        let held = fs::read_dir(directory.join("fd")).ok()?;
        let lock = held.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        let lock = lock.into_iter().find(|file| file.ends_with(LOCK))?;
        Some(Keeper {
            id,
            program: program_of(directory, &words),
            words: rest.to_vec(),
            root: lock.parent()?.to_owned(),
        })
    })
}

/// What is made of the processes of this machine.
fn each<T>(processes: &Path, found: impl Fn(u32, &Path) -> Option<T>) -> Vec<T> {
    let entries = fs::read_dir(processes).into_iter().flatten();
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let directory_of = |id: u32| processes.join(id.to_string());
    // Ids begin anew when they have been used up.
    let mut ids: Vec<(u64, u32)> = ids.map(|id| (started(&directory_of(id)), id)).collect();
    ids.sort_unstable();
    let of_process = |(_, id): (u64, u32)| {
        let directory = directory_of(id);
        let found = found(id, &directory)?;
        let status = fs::read_to_string(directory.join("status")).unwrap_or_default();
        (!is_in_container(&status)).then_some(found)
    };
    ids.into_iter().filter_map(of_process).collect()
}

/// When a process was started, in ticks since the machine was.
fn started(directory: &Path) -> u64 {
    let told = fs::read_to_string(directory.join("stat")).unwrap_or_default();
    // The name of a program is in brackets, and may have spaces and brackets in it.
    let behind_name = told.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = behind_name.split_whitespace().nth(19);
    ticks
        .and_then(|ticks| ticks.parse().ok())
        .unwrap_or_default()
}

/// The words of a command line.
fn words_of(directory: &Path) -> Option<Vec<String>> {
    let line = fs::read(directory.join("cmdline")).ok()?;
    let words = line.split(|byte| *byte == 0);
    let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
    let mut words: Vec<String> = words.collect();
    // The last word ends with a zero, too.
    words.pop_if(|word| word.is_empty());
    Some(words)
}

fn program_of(directory: &Path, words: &[String]) -> PathBuf {
    let own = fs::read_link(directory.join("exe")).ok();
    own.unwrap_or_else(|| PathBuf::from(words.first().cloned().unwrap_or_default()))
}

/// The words before the flags, without the program, and the flags.
fn recognised(words: &[String]) -> Option<(&[String], &[String])> {
    let (program, rest) = words.split_first()?;
    let name = Path::new(program).file_name()?.to_str()?;
    match rest.first() {
        _ if name == "kubelet" => Some((&[], rest)),
        Some(first) if name.starts_with("ferrolet") && first == "kubelet" => Some(rest.split_at(1)),
        _ => None,
    }
}

/// A process that has another id in a namespace below ours is another machine's.
fn is_in_container(status: &str) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_some_and(|ids| ids.split_whitespace().count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, id: u32, words: &[&str], status: &str) {
        let directory = root.join(id.to_string());
        fs::create_dir_all(&directory).unwrap();
        let line = words.iter().flat_map(|word| [word.as_bytes(), &b"\0"[..]]);
        fs::write(directory.join("cmdline"), line.collect::<Vec<_>>().concat()).unwrap();
        fs::write(directory.join("status"), status).unwrap();
    }

    #[test]
    fn agents_are_those_that_run_a_node_on_this_machine() {
        let root = tempfile::tempdir().unwrap();
        let here = "Name:\tx\nNSpid:\t7\n";
        put(root.path(), 30, &["/usr/bin/kubelet", "--v=2"], here);
        put(
            root.path(),
            7,
            &["/opt/ferrolet", "kubelet", "--config=c"],
            here,
        );
        put(root.path(), 8, &["ferrolet", "fleet", "--nodes=3"], here);
        put(root.path(), 9, &["ferrolet", "doctor"], here);
        put(root.path(), 10, &["vim", "kubelet"], here);
        put(root.path(), 11, &[], here);
        put(root.path(), 12, &["kubelet"], "NSpid:\t12\t1\n");
        let found = agents(root.path());
        let told: Vec<_> = found
            .iter()
            .map(|agent| (agent.id, agent.name(), agent.flags.join(" ")))
            .collect();
        let agent = |id, name: &str, flags: &str| (id, name.to_owned(), flags.to_owned());
        assert_eq!(
            told,
            [
                agent(7, "ferrolet", "--config=c"),
                agent(30, "kubelet", "--v=2")
            ]
        );
        assert_eq!(found[0].command, ["kubelet"]);
        assert!(found[1].command.is_empty());
    }

    #[test]
    fn a_cluster_is_where_its_process_holds_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let here = "NSpid:\t7\n";
        let holds = |id: u32, file: &str| {
            let held = root.path().join(id.to_string()).join("fd");
            fs::create_dir_all(&held).unwrap();
            std::os::unix::fs::symlink("/dev/null", held.join("0")).unwrap();
            std::os::unix::fs::symlink(file, held.join("9")).unwrap();
        };
        put(root.path(), 40, &["target/ferrolet", "up", "-v"], here);
        holds(40, "/tmp/ferrolet-up-x/lock");
        // One that has just been started holds none, and another command is none.
        put(root.path(), 41, &["ferrolet", "up"], here);
        put(root.path(), 42, &["ferrolet", "fleet"], here);
        holds(42, "/tmp/y/lock");
        put(root.path(), 43, &["ferrolet", "up"], "NSpid:\t43\t1\n");
        holds(43, "/tmp/z/lock");
        assert_eq!(
            keepers(root.path()),
            [Keeper {
                id: 40,
                program: "target/ferrolet".into(),
                words: vec!["up".to_owned(), "-v".to_owned()],
                root: "/tmp/ferrolet-up-x".into(),
            }]
        );
        assert_eq!(agents(root.path()), []);
    }

    #[test]
    fn the_newest_is_who_was_started_last_not_who_has_the_highest_id() {
        let root = tempfile::tempdir().unwrap();
        for (id, started) in [(7, 900), (40, 300), (41, 300)] {
            put(root.path(), id, &["kubelet"], "NSpid:\t7\n");
            let before = (4..22).map(|_| "0 ").collect::<String>();
            let told = format!("{id} (a (b) c) S {before}{started} 0 0\n");
            fs::write(root.path().join(id.to_string()).join("stat"), told).unwrap();
        }
        let found = agents(root.path());
        let ids: Vec<u32> = found.iter().map(|agent| agent.id).collect();
        assert_eq!(ids, [40, 41, 7]);
    }
}
