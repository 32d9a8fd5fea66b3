//! Cgroups that only remember: version 2, with the usual controllers.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use seams::host::{CgroupFacts, CgroupValue, CgroupVersion, HostError};

const CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// What is in the files of a new group.
const FRESH: [(&str, &str); 3] = [
    ("cpu.max", "max 100000"),
    ("cpu.weight", "100"),
    ("memory.max", "max"),
];

type Groups = BTreeMap<PathBuf, BTreeMap<String, String>>;

/// The groups of one machine, each with what was written to its files.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    /// Held for one access.
    groups: Mutex<Groups>,
    /// No more are made.
    refuses: AtomicBool,
}

impl Cgroups {
    pub(crate) fn facts() -> CgroupFacts {
        CgroupFacts {
            version: CgroupVersion::V2,
            controllers: CONTROLLERS.map(str::to_owned).into(),
            swap: false,
        }
    }

    fn groups(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    pub(crate) fn make(&self, path: &Path) -> Result<(), HostError> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(HostError::at(path, io::ErrorKind::StorageFull.into()));
        }
        let mut groups = self.groups();
        for group in path.ancestors() {
            groups.entry(group.to_owned()).or_default();
        }
        Ok(())
    }

    pub(crate) fn has(&self, path: &Path) -> bool {
        self.groups().contains_key(path)
    }

    pub(crate) fn values(&self, path: &Path) -> Option<BTreeMap<String, String>> {
        self.groups().get(path).cloned()
    }

    pub(crate) fn write(&self, path: &Path, values: &[CgroupValue]) -> Result<(), HostError> {
        let mut groups = self.groups();
        let Some(group) = groups.get_mut(path) else {
            return Err(HostError::at(path, io::ErrorKind::NotFound.into()));
        };
        let known = |value: &&CgroupValue| CONTROLLERS.contains(&value.controller());
        for value in values.iter().filter(known) {
            group.insert(value.file.clone(), value.value.clone());
        }
        Ok(())
    }

    /// What was last written, or what a kernel has there before anything is.
    pub(crate) fn read(&self, path: &Path, file: &str) -> Option<String> {
        let groups = self.groups();
        let written = groups.get(path)?.get(file).cloned();
        let fresh = FRESH.iter().find(|(name, _)| *name == file);
        written.or_else(|| fresh.map(|(_, value)| (*value).to_owned()))
    }

    pub(crate) fn remove(&self, path: &Path) {
        self.groups().retain(|group, _| !group.starts_with(path));
    }

    pub(crate) fn below(&self, path: &Path) -> Vec<String> {
        let groups = self.groups();
        let children = groups.keys().filter(|group| group.parent() == Some(path));
        let names = children.filter_map(|group| group.file_name()?.to_str().map(str::to_owned));
        names.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_made_with_those_above_it_and_goes_with_those_below() {
        let cgroups = Cgroups::default();
        let (pods, pod) = (Path::new("/kubepods"), Path::new("/kubepods/pod1"));
        assert_eq!(cgroups.below(pods), [""; 0]);
        cgroups.refuse(true);
        assert!(cgroups.make(pod).is_err() && !cgroups.has(pod));
        cgroups.refuse(false);
        cgroups.make(pod).unwrap();
        assert!(cgroups.has(pods) && cgroups.has(pod));
        assert_eq!(cgroups.below(pods), ["pod1"]);
        cgroups.remove(pods);
        assert!(!cgroups.has(pod));
        cgroups.remove(pods);
    }

    #[test]
    fn it_remembers_what_it_was_told_of_controllers_that_it_has() {
        let cgroups = Cgroups::default();
        let pod = Path::new("/pod");
        let values = [
            CgroupValue::new("cpu.weight", 5),
            CgroupValue::new("hugetlb.2MB.max", 0),
        ];
        assert!(cgroups.write(pod, &values).is_err());
        cgroups.make(pod).unwrap();
        cgroups.write(pod, &values).unwrap();
        let told = BTreeMap::from([("cpu.weight".to_owned(), "5".to_owned())]);
        assert_eq!(cgroups.values(pod), Some(told));
        for (file, content) in [
            ("cpu.weight", Some("5")),
            ("memory.max", Some("max")),
            ("memory.current", None),
        ] {
            assert_eq!(cgroups.read(pod, file).as_deref(), content, "{file}");
        }
        assert_eq!(cgroups.read(Path::new("/none"), "memory.max"), None);
    }
}
