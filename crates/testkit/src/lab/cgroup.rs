//! The cgroups of a lab. Each machine has one in every hierarchy; whatever
//! runs in a machine, containers included, is below it. So this tree is also
//! the list of what is to be ended, and it survives a crash of ours.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

const MOUNT: &str = "/sys/fs/cgroup";

/// A path that exists in every hierarchy.
#[derive(Clone, Debug)]
pub(super) struct Cgroup {
    path: String,
}

impl Cgroup {
    pub(super) fn new(path: String) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn create(&self) -> Result<()> {
        for hierarchy in hierarchies()? {
            let mut dir = hierarchy;
            for name in self.path.split('/') {
                let parent = dir.clone();
                dir.push(name);
                match fs::create_dir(&dir) {
                    Ok(()) => inherit_cpuset(&parent, &dir)?,
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    Err(error) => {
                        return Err(error)
                            .with_context(|| format!("cannot create cgroup {}", dir.display()));
                    }
                }
            }
        }
        Ok(())
    }

    /// What everything in and below it has used of the CPUs, those that have ended included.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let usage = |hierarchy: PathBuf| hierarchy.join(&self.path).join("cpuacct.usage");
        let mut files = hierarchies()?.into_iter().map(usage);
        let file = files.find(|file| file.exists());
        let file = file.with_context(|| format!("nothing counts the CPU time of {}", self.path))?;
        let nanoseconds = fs::read_to_string(&file)?.trim().parse();
        let what = || format!("cannot understand {}", file.display());
        Ok(Duration::from_nanos(nanoseconds.with_context(what)?))
    }

    /// Ends every process in and below it, waits until they are gone, and
    /// removes it. Nothing to do is fine.
    pub(super) fn destroy(&self) -> Result<()> {
        self.kill()?;
        for hierarchy in hierarchies()? {
            let top = hierarchy.join(&self.path);
            // The kernel lets go of the last process a moment after it is gone.
            wait::until("cgroups to be empty", Duration::from_secs(60), || {
                remove_tree(&top)
            })?;
        }
        Ok(())
    }

    fn kill(&self) -> Result<()> {
        wait::until(
            &format!("the processes of {} to end", self.path),
            Duration::from_secs(60),
            || {
                let processes = self.processes()?;
                for process in processes.iter().filter_map(|&raw| Pid::from_raw(raw)) {
                    // Gone already: what we want.
                    let _ = kill_process(process, Signal::KILL);
                }
                self.thaw()?;
                if processes.is_empty() {
                    Ok(())
                } else {
                    bail!("still there: {processes:?}")
                }
            },
        )
    }

    /// A frozen process (a paused container) hears of its end only when it
    /// runs again.
    fn thaw(&self) -> Result<()> {
        for dir in hierarchies()?
            .iter()
            .flat_map(|top| tree(&top.join(&self.path)))
        {
            let state = dir.join("freezer.state");
            if state.exists() {
                // It may vanish meanwhile, with what was in it.
                let _ = fs::write(state, "THAWED");
            }
        }
        Ok(())
    }

    /// Every process in and below it.
    pub(super) fn processes(&self) -> Result<BTreeSet<i32>> {
        let mut found = BTreeSet::new();
        for hierarchy in hierarchies()? {
            for dir in tree(&hierarchy.join(&self.path)) {
                // A cgroup may vanish while we look: then it had no process.
                let procs = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
                found.extend(procs.lines().filter_map(|line| line.parse::<i32>().ok()));
            }
        }
        Ok(found)
    }

    pub(super) fn holds(&self, process: Pid) -> bool {
        let file = format!("/proc/{}/cgroup", process.as_raw_nonzero());
        let suffix = format!(":/{}", self.path);
        fs::read_to_string(file)
            .is_ok_and(|cgroups| cgroups.lines().any(|line| line.ends_with(&suffix)))
    }
}

/// Removes what all labs share, when no lab is left in it.
pub(super) fn remove_if_empty(path: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        // Another lab may be there, or nothing: both are fine.
        let _ = fs::remove_dir(hierarchy.join(path));
    }
    Ok(())
}

/// Every cgroup directory of the machine.
pub(super) fn all() -> Result<BTreeSet<PathBuf>> {
    Ok(hierarchies()?.iter().flat_map(|top| tree(top)).collect())
}

fn hierarchies() -> Result<Vec<PathBuf>> {
    if Path::new(MOUNT).join("cgroup.controllers").exists() {
        bail!(
            "this machine has only cgroup v2, which the lab does not support yet: boot it with \
             systemd.unified_cgroup_hierarchy=0, or see \"Not yet\" in ARCHITECTURE.md"
        );
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(MOUNT).with_context(|| format!("cannot read {MOUNT}"))? {
        let entry = entry?;
        // Distributions add links such as cpu -> cpu,cpuacct: one name each.
        if entry.file_type()?.is_dir() && entry.path().join("cgroup.procs").exists() {
            found.push(entry.path());
        }
    }
    if found.is_empty() {
        bail!("no cgroup hierarchy is mounted below {MOUNT}");
    }
    found.sort();
    Ok(found)
}

/// A new cpuset has neither processors nor memory until they are given to it.
fn inherit_cpuset(parent: &Path, child: &Path) -> Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if let Ok(value) = fs::read(parent.join(file)) {
            fs::write(child.join(file), value)
                .with_context(|| format!("cannot write {}", child.join(file).display()))?;
        }
    }
    Ok(())
}

/// `top` and all directories below it, parents first; empty if there is none.
fn tree(top: &Path) -> Vec<PathBuf> {
    if !top.is_dir() {
        return Vec::new();
    }
    let mut found = vec![top.to_path_buf()];
    let mut next = 0;
    while let Some(dir) = found.get(next).cloned() {
        next += 1;
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };
        found.extend(
            entries
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
    found
}

fn remove_tree(top: &Path) -> Result<()> {
    for dir in tree(top).iter().rev() {
        match fs::remove_dir(dir) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", dir.display()));
            }
            _ => {}
        }
    }
    Ok(())
}
