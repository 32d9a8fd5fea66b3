//! What there is on the machine that a lab could leave behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::cgroup::{self, Cgroup};
use super::layout::Layout;
use crate::command;

/// A count of everything that a lab makes, on the whole machine; of processes,
/// those of the lab and those in other process namespaces than the host's,
/// since the host's own come and go.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub processes: BTreeSet<i32>,
    pub mounts: BTreeSet<String>,
    pub namespaces: BTreeSet<PathBuf>,
    pub links: BTreeSet<String>,
    pub cgroups: BTreeSet<PathBuf>,
    pub sysctls: BTreeSet<String>,
}

impl Census {
    /// What is here and was not in `before`. What only `before` had is not
    /// looked at: other programs on the machine end things too.
    #[must_use]
    pub fn beyond(&self, before: &Self) -> Self {
        Self {
            processes: &self.processes - &before.processes,
            mounts: &self.mounts - &before.mounts,
            namespaces: &self.namespaces - &before.namespaces,
            links: &self.links - &before.links,
            cgroups: &self.cgroups - &before.cgroups,
            sysctls: &self.sysctls - &before.sysctls,
        }
    }

    pub fn take(layout: &Layout) -> Result<Self> {
        Ok(Self {
            processes: processes(layout)?,
            mounts: fs::read_to_string("/proc/self/mountinfo")?
                .lines()
                .map(str::to_owned)
                .collect(),
            namespaces: namespaces(),
            links: command::run(Command::new("ip").args(["-oneline", "link"]))?
                .lines()
                .filter_map(|line| Some(line.split(':').nth(1)?.trim().to_owned()))
                .collect(),
            cgroups: cgroup::all()?,
            sysctls: sysctls(),
        })
    }
}

/// Everything in a cgroup of the lab's, and everything outside of the host's
/// process namespace.
fn processes(layout: &Layout) -> Result<BTreeSet<i32>> {
    let mut found = Cgroup::new(layout.cgroup()).processes()?;
    let ours = fs::read_link("/proc/self/ns/pid")?;
    found.extend(all_processes().filter(|pid| {
        fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|theirs| theirs != ours)
    }));
    Ok(found)
}

/// Every process that has not ended: one that only waits for its parent to
/// notice runs nothing and holds nothing.
fn all_processes() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| {
                let state = status.lines().find_map(|line| line.strip_prefix("State:"));
                !state.is_some_and(|state| state.trim_start().starts_with(['Z', 'X']))
            })
        })
}

fn namespaces() -> BTreeSet<PathBuf> {
    all_processes()
        .filter_map(|pid| fs::read_dir(format!("/proc/{pid}/ns")).ok())
        .flat_map(|entries| {
            entries
                .flatten()
                .filter_map(|entry| fs::read_link(entry.path()).ok())
        })
        .collect()
}

/// Kernel parameters of the whole host that a kubelet sets.
fn sysctls() -> BTreeSet<String> {
    [
        "vm/overcommit_memory",
        "vm/panic_on_oom",
        "kernel/panic",
        "kernel/panic_on_oops",
        "kernel/keys/root_maxkeys",
        "kernel/keys/root_maxbytes",
    ]
    .iter()
    .map(|key| {
        let value = fs::read_to_string(format!("/proc/sys/{key}")).unwrap_or_default();
        format!("{key}={}", value.trim())
    })
    .collect()
}
