//! A directory that does what the kernel does with groups: a new one has its files.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use linux::LinuxHost;
use seams::Host;
use seams::host::{
    Answer, CgroupFacts, CgroupValue, CgroupVersion, DefaultRoute, DiskFigures, Hint, HostError,
    Interface, Listing, MachineFacts,
};
use tempfile::TempDir;

const MOUNTS: &str = "\
30 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 25 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
33 25 0:30 / /sys/fs/cgroup/hugetlb rw - cgroup cgroup rw,hugetlb
";

const CONTROLLERS: &str = "cpu hugetlb memory pids";

/// By hierarchy, the files that each of its groups has.
const VERSION_1: [(&str, &[&str]); 4] = [
    (
        "cpu,cpuacct",
        &["cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us"],
    ),
    ("memory", &["memory.limit_in_bytes"]),
    ("pids", &["pids.max"]),
    (
        "hugetlb",
        &[
            "hugetlb.2MB.limit_in_bytes",
            "hugetlb.2MB.rsvd.limit_in_bytes",
        ],
    ),
];

const VERSION_2: [&str; 9] = [
    "cgroup.subtree_control",
    "cpu.weight",
    "cpu.max",
    "memory.max",
    "memory.min",
    "memory.low",
    "pids.max",
    "hugetlb.2MB.max",
    "hugetlb.2MB.rsvd.max",
];

#[derive(Debug)]
pub(crate) struct Kernel {
    root: TempDir,
    host: LinuxHost,
    version: CgroupVersion,
}

impl Kernel {
    pub(crate) fn new(version: CgroupVersion) -> Self {
        let root = tempfile::tempdir().unwrap();
        let kernel = Self {
            host: LinuxHost::new(root.path().to_owned()),
            root,
            version,
        };
        kernel.put("proc/self/mountinfo", MOUNTS);
        match version {
            CgroupVersion::V1 => {
                for (hierarchy, _) in VERSION_1 {
                    fs::create_dir_all(kernel.hierarchy(hierarchy)).unwrap();
                }
            }
            CgroupVersion::V2 => kernel.furnish(Path::new("/")),
        }
        kernel
    }

    fn put(&self, path: &str, content: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn hierarchy(&self, name: &str) -> PathBuf {
        self.root.path().join("sys/fs/cgroup").join(name)
    }

    /// Files that are there stay as they are.
    fn furnish(&self, group: &Path) {
        let below = group.strip_prefix("/").unwrap();
        let make = |directory: PathBuf, files: &[&str]| {
            for file in files {
                let path = directory.join(file);
                if !path.exists() {
                    fs::create_dir_all(&directory).unwrap();
                    fs::write(path, "").unwrap();
                }
            }
        };
        match self.version {
            CgroupVersion::V1 => {
                for (hierarchy, files) in VERSION_1 {
                    make(self.hierarchy(hierarchy).join(below), files);
                }
            }
            CgroupVersion::V2 => {
                let directory = self.hierarchy("").join(below);
                make(directory.clone(), &VERSION_2);
                fs::write(directory.join("cgroup.controllers"), CONTROLLERS).unwrap();
            }
        }
    }

    /// What was written to the files of a group.
    pub(crate) fn values(&self, group: &str) -> BTreeMap<String, String> {
        let below = group.strip_prefix('/').unwrap();
        let read = |directory: PathBuf, files: &[&str]| {
            let values = files.iter().filter_map(|file| {
                let value = fs::read_to_string(directory.join(file)).ok()?;
                (!value.is_empty()).then(|| ((*file).to_owned(), value))
            });
            values.collect::<BTreeMap<String, String>>()
        };
        let mut values = match self.version {
            CgroupVersion::V1 => VERSION_1
                .iter()
                .flat_map(|(name, files)| read(self.hierarchy(name).join(below), files))
                .collect(),
            CgroupVersion::V2 => read(self.hierarchy("").join(below), &VERSION_2),
        };
        values.remove("cgroup.subtree_control");
        values
    }
}

impl Host for Kernel {
    fn machine(&self) -> Result<MachineFacts, HostError> {
        self.host.machine()
    }

    fn disk(&self, path: &Path) -> Result<DiskFigures, HostError> {
        self.host.disk(path)
    }

    fn interfaces(&self) -> Result<Vec<Interface>, HostError> {
        self.host.interfaces()
    }

    fn default_routes(&self) -> Result<Option<Vec<DefaultRoute>>, HostError> {
        self.host.default_routes()
    }

    fn resolve<'a>(&'a self, name: &'a str) -> Answer<'a, Vec<IpAddr>> {
        self.host.resolve(name)
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, HostError> {
        self.host.read(path)
    }

    fn list(&self, path: &Path) -> Result<Option<Listing>, HostError> {
        self.host.list(path)
    }

    fn hint(&self, path: &Path) -> Hint {
        self.host.hint(path)
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), HostError> {
        self.host.write(path, content, mode)
    }

    fn cgroup_facts(&self) -> Result<CgroupFacts, HostError> {
        self.host.cgroup_facts()
    }

    fn make_cgroup(&self, path: &Path) -> Result<(), HostError> {
        let mut way: Vec<&Path> = path.ancestors().collect();
        way.reverse();
        for group in way.into_iter().skip(1) {
            self.host.make_cgroup(group)?;
            self.furnish(group);
        }
        Ok(())
    }

    fn has_cgroup(&self, path: &Path) -> Result<bool, HostError> {
        self.host.has_cgroup(path)
    }

    fn write_cgroup(&self, path: &Path, values: &[CgroupValue]) -> Result<(), HostError> {
        self.host.write_cgroup(path, values)
    }

    fn remove_cgroup(&self, path: &Path) -> Result<(), HostError> {
        self.host.remove_cgroup(path)
    }

    fn cgroups_in(&self, path: &Path) -> Result<Vec<String>, HostError> {
        self.host.cgroups_in(path)
    }
}
