//! What must be right on a machine before it joins: checks as data, judged from
//! facts that were gathered before. Names are kubeadm's where it has the check,
//! so that `--ignore-preflight-errors` lists keep their meaning.

pub mod checks;
mod clock;
mod gather;
mod listeners;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use crate::layout::{KUBECONFIG, Plan, State, is_joined};

pub use checks::judge;
pub use clock::ClockSkew;
pub use gather::gather;
pub use listeners::{Listener, Owner, listeners, owners};

/// The port of the node's own API.
pub const KUBELET_PORT: u16 = 10250;
/// The port of the node's health check.
pub const HEALTHZ_PORT: u16 = 10248;

/// One check and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    pub outcome: Outcome,
    /// What was seen on the machine.
    pub seen: String,
    /// What to do about it; empty where all is well.
    pub fix: String,
}

/// How a check came out, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Ok,
    Warning,
    Error,
}

impl Check {
    fn ok(name: &str, seen: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            outcome: Outcome::Ok,
            seen: seen.into(),
            fix: String::new(),
        }
    }

    fn bad(outcome: Outcome, name: &str, seen: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            outcome,
            seen: seen.into(),
            fix: fix.into(),
        }
    }
}

/// As kubeadm prints it, with the fix behind.
impl fmt::Display for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, seen, fix, ..
        } = self;
        match self.outcome {
            Outcome::Ok => write!(formatter, "[OK {name}]: {seen}"),
            Outcome::Warning => write!(formatter, "[WARNING {name}]: {seen}; {fix}"),
            Outcome::Error => write!(formatter, "[ERROR {name}]: {seen}; {fix}"),
        }
    }
}

/// A machine, as far as joining depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    pub is_root: bool,
    /// TCP ports that somebody listens on.
    pub listening_ports: BTreeSet<u16>,
    pub runtime: RuntimeSocket,
    pub cgroups: Cgroups,
    /// Swap devices and files in use.
    pub swaps: Vec<String>,
    /// How far the machine's clock is from the API server's, where that is known.
    pub clock_skew: Option<ClockSkew>,
    /// `None` where it cannot be read.
    pub ip_forward: Option<bool>,
    pub hostname: String,
    pub memory_bytes: u64,
    pub cpus: usize,
}

/// The runtime's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeSocket {
    pub path: PathBuf,
    pub state: SocketState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketState {
    Present,
    Missing,
    NotASocket,
}

/// The control groups of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroups {
    pub version: CgroupVersion,
    pub controllers: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    V1,
    V2,
    /// None are mounted.
    None,
}

/// What the join is going to need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub node_name: String,
    /// The files that the join writes, each with whether something else is there.
    pub files: Vec<(PathBuf, bool)>,
}

impl Wanted {
    /// What a plan of files needs: its own, and that nobody has joined before.
    pub fn of_plan(node_name: &str, plan: &Plan) -> Self {
        let joined = (PathBuf::from(KUBECONFIG), is_joined(plan.root()));
        let planned = plan.entries().iter().map(|entry| {
            let in_the_way = entry.state == State::Differs;
            (entry.file.path.clone(), in_the_way)
        });
        Self {
            node_name: node_name.to_owned(),
            files: std::iter::once(joined).chain(planned).collect(),
        }
    }
}

/// Why a list of checks to ignore cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("--ignore-preflight-errors: `all` stands alone; give it without other names")]
pub struct IgnoreError;

/// Turns the errors of the checks with these names (in any case) into warnings.
pub fn ignore(checks: &mut [Check], names: &[String]) -> Result<(), IgnoreError> {
    let is_all = |name: &String| name.eq_ignore_ascii_case("all");
    let all = names.iter().any(is_all);
    if all && names.len() > 1 {
        return Err(IgnoreError);
    }
    for check in checks {
        let listed = names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(&check.name));
        if check.outcome == Outcome::Error && (all || listed) {
            check.outcome = Outcome::Warning;
        }
    }
    Ok(())
}

/// Whether the join may go on.
pub fn may_go_on(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.outcome != Outcome::Error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::PlannedFile;

    fn failed() -> Vec<Check> {
        ["Swap", "Port-10250"]
            .map(|name| Check::bad(Outcome::Error, name, "seen", "fix it"))
            .to_vec()
    }

    fn outcomes(checks: &[Check]) -> Vec<Outcome> {
        checks.iter().map(|check| check.outcome).collect()
    }

    #[test]
    fn errors_that_are_ignored_become_warnings() {
        let mut checks = failed();
        ignore(&mut checks, &["port-10250".to_owned()]).unwrap();
        assert_eq!(outcomes(&checks), [Outcome::Error, Outcome::Warning]);
        assert!(!may_go_on(&checks));
        ignore(&mut checks, &["ALL".to_owned()]).unwrap();
        assert_eq!(outcomes(&checks), [Outcome::Warning, Outcome::Warning]);
        assert!(may_go_on(&checks));
    }

    #[test]
    fn a_plan_wants_its_files_free_and_nobody_joined() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("etc/kubernetes");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("kubelet.conf"), "x").unwrap();
        std::fs::write(directory.join("other"), "x").unwrap();
        let file = |path: &str| PlannedFile {
            path: path.into(),
            content: Vec::new(),
            mode: 0o644,
        };
        let files = vec![file("/etc/kubernetes/other"), file("/etc/kubernetes/free")];
        let plan = Plan::look(root.path(), files).unwrap();
        let wanted = Wanted::of_plan("up1", &plan);
        assert_eq!(
            wanted.files,
            [
                (PathBuf::from(KUBECONFIG), true),
                ("/etc/kubernetes/other".into(), true),
                ("/etc/kubernetes/free".into(), false),
            ]
        );
    }

    #[test]
    fn all_stands_alone() {
        let names = ["all".to_owned(), "Swap".to_owned()];
        assert_eq!(ignore(&mut failed(), &names), Err(IgnoreError));
    }

    #[test]
    fn a_check_reads_as_in_kubeadm() {
        assert_eq!(failed()[0].to_string(), "[ERROR Swap]: seen; fix it");
        assert_eq!(
            Check::ok("Swap", "no swap").to_string(),
            "[OK Swap]: no swap"
        );
    }
}
