//! The kernel's cgroups: one hierarchy (version 2), or one for each set of
//! controllers (version 1), as `/proc/self/mountinfo` has them.
//!
//! Groups are made and removed as directories. Where systemd owns the tree it
//! has to be asked instead; that is not done here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::CWD;
use rustix::process::{Pid, Signal, kill_process};
use seams::host::{CgroupFacts, CgroupValue, CgroupVersion, HostError};

use crate::figures::directory;
use crate::files::Files;

#[cfg(test)]
mod tests;

const UNIFIED: &str = "/sys/fs/cgroup";
const MOUNTS: &str = "/proc/self/mountinfo";
const OWN_GROUPS: &str = "/proc/self/cgroup";

/// What a version 1 hierarchy for no controller is called.
const NAMED: &str = "name=";

/// What a node relies on, where the machine has it.
const NEEDED: [&str; 7] = [
    "cpu",
    "cpuacct",
    "cpuset",
    "hugetlb",
    "memory",
    "name=systemd",
    "pids",
];

/// All controllers that a version 1 mount can name among its options.
const KNOWN: [&str; 14] = [
    "blkio",
    "cpu",
    "cpuacct",
    "cpuset",
    "debug",
    "devices",
    "freezer",
    "hugetlb",
    "memory",
    "misc",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
];

/// Where the groups of a machine are.
#[derive(Debug)]
pub(crate) struct Hierarchies {
    version: CgroupVersion,
    all: Vec<Hierarchy>,
    /// Of a machine that has both versions: no controllers, but runtimes make groups
    /// there as well.
    beside: Option<Hierarchy>,
}

#[derive(Debug)]
struct Hierarchy {
    controllers: BTreeSet<String>,
    root: PathBuf,
    /// The root, held open once groups are read: the way to a group is half as long from
    /// there, and hundreds are opened for one look at a node.
    opened: OnceLock<OwnedFd>,
}

impl Hierarchies {
    pub(crate) fn look(files: &Files) -> Result<Self, HostError> {
        let unified = Path::new(UNIFIED).join("cgroup.controllers");
        if let Some(controllers) = files.optional_text(unified)? {
            let controllers = controllers.split_whitespace().map(str::to_owned).collect();
            let root = files.path(UNIFIED);
            return Ok(Self {
                version: CgroupVersion::V2,
                all: vec![Hierarchy::new(controllers, root)],
                beside: None,
            });
        }
        let mut shortest = BTreeMap::<BTreeSet<String>, &str>::new();
        let mounts = files.text(MOUNTS)?;
        for (controllers, point) in mounts.lines().filter_map(version_1_mount) {
            let known = shortest.entry(controllers).or_insert(point);
            if point.len() < known.len() {
                *known = point;
            }
        }
        if shortest.is_empty() {
            let cause = io::Error::new(
                ErrorKind::NotFound,
                "no cgroups are mounted: mount cgroup2 on /sys/fs/cgroup",
            );
            return Err(HostError::new(MOUNTS, cause));
        }
        let hierarchies = shortest
            .into_iter()
            .map(|(controllers, point)| Hierarchy::new(controllers, files.path(point)));
        Ok(Self {
            version: CgroupVersion::V1,
            all: hierarchies.collect(),
            beside: mounts
                .lines()
                .find_map(version_2_mount)
                .map(|point| Hierarchy::new(BTreeSet::new(), files.path(point))),
        })
    }

    pub(crate) fn facts(&self, files: &Files) -> Result<CgroupFacts, HostError> {
        let all = self.all.iter().flat_map(|one| &one.controllers);
        let controllers = all.filter(|name| !name.starts_with(NAMED)).cloned();
        Ok(CgroupFacts {
            version: self.version,
            controllers: controllers.collect(),
            swap: self.swap(files)?,
        })
    }

    /// The root of version 2 has no limits: the own group is asked.
    fn swap(&self, files: &Files) -> Result<bool, HostError> {
        let Some(memory) = self.of("memory") else {
            return Ok(false);
        };
        if self.version == CgroupVersion::V1 {
            return Ok(memory.root.join("memory.memsw.limit_in_bytes").exists());
        }
        let own = files.optional_text(OWN_GROUPS)?.unwrap_or_default();
        let own = own.lines().find_map(|line| line.strip_prefix("0::"));
        let group = memory.group(Path::new(own.unwrap_or("/")));
        Ok(group.join("memory.swap.max").exists())
    }

    pub(crate) fn version(&self) -> CgroupVersion {
        self.version
    }

    /// Where a group is in the hierarchy of a controller.
    pub(crate) fn place(&self, controller: &str, path: &Path) -> Option<PathBuf> {
        Some(self.that_tells(controller)?.group(path))
    }

    /// The same as a directory to read files of; `None` if it is not there.
    pub(crate) fn open(&self, controller: &str, path: &Path) -> io::Result<Option<OwnedFd>> {
        match self.that_tells(controller) {
            Some(hierarchy) => hierarchy.open(path),
            None => Ok(None),
        }
    }

    /// The second version has one place for all, also for what a machine does not control.
    fn that_tells(&self, controller: &str) -> Option<&Hierarchy> {
        match self.version {
            CgroupVersion::V1 => self.of(controller),
            CgroupVersion::V2 => self.all.first(),
        }
    }

    fn of(&self, controller: &str) -> Option<&Hierarchy> {
        let mut all = self.all.iter();
        all.find(|one| one.controllers.contains(controller))
    }

    pub(crate) fn make(&self, path: &Path) -> Result<(), HostError> {
        for hierarchy in &self.all {
            match self.version {
                CgroupVersion::V1 => hierarchy.make_v1(path)?,
                CgroupVersion::V2 => hierarchy.make_v2(path)?,
            }
        }
        Ok(())
    }

    pub(crate) fn has(&self, path: &Path) -> Result<bool, HostError> {
        for hierarchy in &self.all {
            let carried = |name: &&str| hierarchy.controllers.contains(*name);
            let mut needed = NEEDED.into_iter().filter(carried);
            let group = hierarchy.group(path);
            let there = match self.version {
                CgroupVersion::V1 => needed.next().is_none() || group.is_dir(),
                CgroupVersion::V2 => {
                    let enabled = read_or_empty(&group.join("cgroup.controllers"))?;
                    let enabled: BTreeSet<&str> = enabled.split_whitespace().collect();
                    group.is_dir() && needed.all(|name| enabled.contains(name))
                }
            };
            if !there {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The kernel judges some values by each other (a period by the quota): one
    /// that is refused gets a second chance when the rest is written.
    pub(crate) fn write(&self, path: &Path, values: &[CgroupValue]) -> Result<(), HostError> {
        let mut refused = Vec::new();
        for value in values {
            let Some(hierarchy) = self.of(value.controller()) else {
                continue;
            };
            let file = hierarchy.group(path).join(&value.file);
            match overwrite(&file, &value.value) {
                Ok(()) => {}
                Err(cause) if value.optional && cause.kind() == ErrorKind::NotFound => {}
                Err(cause) if cause.kind() == ErrorKind::InvalidInput => {
                    refused.push((file, &value.value));
                }
                Err(cause) => return Err(HostError::at(&file, cause)),
            }
        }
        for (file, value) in refused {
            overwrite(&file, value).map_err(|cause| HostError::at(&file, cause))?;
        }
        Ok(())
    }

    pub(crate) fn read(&self, path: &Path, file: &str) -> Result<Option<String>, HostError> {
        let controller = file.split('.').next().unwrap_or_default();
        let Some(hierarchy) = self.of(controller) else {
            return Ok(None);
        };
        let file = hierarchy.group(path).join(file);
        match fs::read_to_string(&file) {
            Ok(content) => Ok(Some(content.trim_end().to_owned())),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(HostError::at(&file, cause)),
        }
    }

    pub(crate) fn remove(&self, path: &Path) -> Result<(), HostError> {
        for hierarchy in self.all.iter().chain(&self.beside) {
            remove_group(&hierarchy.group(path))?;
        }
        Ok(())
    }

    pub(crate) fn below(&self, path: &Path) -> Result<Vec<String>, HostError> {
        let mut names = BTreeSet::new();
        for hierarchy in self.all.iter().chain(&self.beside) {
            let groups = groups_in(&hierarchy.group(path))?;
            let name = |group: PathBuf| group.file_name()?.to_str().map(str::to_owned);
            names.extend(groups.into_iter().filter_map(name));
        }
        Ok(names.into_iter().collect())
    }
}

fn below_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

impl Hierarchy {
    fn new(controllers: BTreeSet<String>, root: PathBuf) -> Self {
        Self {
            controllers,
            root,
            opened: OnceLock::new(),
        }
    }

    fn group(&self, path: &Path) -> PathBuf {
        self.root.join(below_root(path))
    }

    fn open(&self, path: &Path) -> io::Result<Option<OwnedFd>> {
        let root = match self.opened.get() {
            Some(root) => root,
            None => match directory(CWD, &self.root)? {
                Some(root) => self.opened.get_or_init(|| root),
                None => return Ok(None),
            },
        };
        let path = below_root(path);
        let own = path.as_os_str().is_empty();
        directory(root, if own { Path::new(".") } else { path })
    }

    /// The groups from below the root down to `path`.
    fn way(&self, path: &Path) -> Vec<PathBuf> {
        let group = self.group(path);
        let way = group.ancestors().take_while(|above| *above != self.root);
        let mut way: Vec<PathBuf> = way.map(Path::to_owned).collect();
        way.reverse();
        way
    }

    fn make_v1(&self, path: &Path) -> Result<(), HostError> {
        for group in self.way(path) {
            make_directory(&group)?;
            if self.controllers.contains("cpuset") {
                // Without any, no process can enter.
                take_from_parent(&group, "cpuset.cpus")?;
                take_from_parent(&group, "cpuset.mems")?;
            }
        }
        Ok(())
    }

    fn make_v2(&self, path: &Path) -> Result<(), HostError> {
        let mut above = self.root.clone();
        for group in self.way(path) {
            self.hand_down(&above)?;
            make_directory(&group)?;
            above = group;
        }
        Ok(())
    }

    /// Lets the groups in `group` have every controller. One that cannot be handed
    /// down (some are in use by version 1, some have rules of their own) must not
    /// keep the others.
    fn hand_down(&self, group: &Path) -> Result<(), HostError> {
        let file = group.join("cgroup.subtree_control");
        let signed: Vec<String> = self
            .controllers
            .iter()
            .map(|name| format!("+{name}"))
            .collect();
        if overwrite(&file, &signed.join(" ")).is_ok() {
            return Ok(());
        }
        for one in &signed {
            match overwrite(&file, one) {
                Err(cause) if cause.kind() == ErrorKind::NotFound => {
                    return Err(HostError::at(&file, cause));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// The controllers and the place of a line of `mountinfo`, if it is a hierarchy.
fn version_1_mount(line: &str) -> Option<(BTreeSet<String>, &str)> {
    let (place, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    if kind.next()? != "cgroup" {
        return None;
    }
    let options = kind.next_back()?.split(',');
    let controllers = options.filter(|name| KNOWN.contains(name) || name.starts_with(NAMED));
    let controllers: BTreeSet<String> = controllers.map(str::to_owned).collect();
    let point = place.split(' ').nth(4)?;
    (!controllers.is_empty()).then_some((controllers, point))
}

/// The place of a mount of version 2.
fn version_2_mount(line: &str) -> Option<&str> {
    let (place, kind) = line.split_once(" - ")?;
    (kind.split(' ').next()? == "cgroup2").then(|| place.split(' ').nth(4))?
}

fn make_directory(group: &Path) -> Result<(), HostError> {
    match fs::create_dir(group) {
        Err(cause) if cause.kind() != ErrorKind::AlreadyExists => Err(HostError::at(group, cause)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn take_from_parent(group: &Path, file: &str) -> Result<(), HostError> {
    let own = group.join(file);
    if !read_or_empty(&own)?.trim().is_empty() {
        return Ok(());
    }
    let parents = read_or_empty(&group.with_file_name(file))?;
    match overwrite(&own, parents.trim()) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(HostError::at(&own, cause)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn read_or_empty(file: &Path) -> Result<String, HostError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(cause) if is_gone(&cause) => Ok(String::new()),
        Err(cause) => Err(HostError::at(file, cause)),
    }
}

/// The files of a group are there or not, nobody makes one.
fn overwrite(file: &Path, value: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(file)?;
    file.write_all(value.as_bytes())
}

fn groups_in(group: &Path) -> Result<Vec<PathBuf>, HostError> {
    let list = || -> io::Result<Vec<PathBuf>> {
        let mut groups = Vec::new();
        for entry in fs::read_dir(group)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                groups.push(entry.path());
            }
        }
        Ok(groups)
    };
    match list() {
        Ok(groups) => Ok(groups),
        Err(cause) if is_gone(&cause) => Ok(Vec::new()),
        Err(cause) => Err(HostError::at(group, cause)),
    }
}

fn remove_group(group: &Path) -> Result<(), HostError> {
    for below in groups_in(group)? {
        remove_group(&below)?;
    }
    for process in processes(&read_or_empty(&group.join("cgroup.procs"))?) {
        // One that has gone by itself is what we wanted.
        let _ = kill_process(process, Signal::KILL);
    }
    match fs::remove_dir(group) {
        Err(cause) if !is_gone(&cause) => Err(HostError::at(group, cause)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removed, or removed while we looked.
fn is_gone(cause: &io::Error) -> bool {
    cause.kind() == ErrorKind::NotFound
        || cause.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

/// Processes of other namespaces are listed as 0, which would mean ourselves.
fn processes(list: &str) -> Vec<Pid> {
    let numbers = list.lines().filter_map(|line| line.trim().parse().ok());
    let others = numbers.filter(|number: &i32| *number > 1);
    others.filter_map(Pid::from_raw).collect()
}
