//! A machine that is made of what it is told.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use seams::Host;
use seams::host::{
    Answer, Below, CgroupFacts, CgroupValue, DefaultRoute, DiskFigures, FileEntry, FileId, Hint,
    HostError, Interface, Listing, MachineFacts, MachineFigures,
};
use tokio::sync::watch;

use crate::cgroups::Cgroups;
use crate::disk::Disk;
use crate::faults::{DiskFault, Faults};
use crate::runtime::Runtime;

/// What machines of one kind have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineShape {
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    /// Bytes.
    pub storage: u64,
    pub kernel_release: String,
    pub os_image: String,
    pub architecture: String,
}

impl Default for MachineShape {
    fn default() -> Self {
        const GIB: u64 = 1 << 30;
        Self {
            cpus: 32,
            memory: 128 * GIB,
            storage: 512 * GIB,
            kernel_release: "6.12.0-ferrolet-sim".to_owned(),
            os_image: "Ferrolet simulated machine".to_owned(),
            architecture: "amd64".to_owned(),
        }
    }
}

/// One machine.
#[derive(Debug)]
pub struct Machine {
    shape: Arc<MachineShape>,
    name: String,
    address: IpAddr,
    cgroups: Cgroups,
    /// What a node keeps or is given there. Held for one access.
    disk: Mutex<Disk>,
    /// Something was written.
    written: watch::Sender<()>,
    /// Nothing ails a machine that was told of nothing.
    faults: Option<watch::Receiver<Faults>>,
    /// What it was furnished with beside what every machine has.
    files: Arc<BTreeMap<PathBuf, Vec<u8>>>,
    /// Whose containers' logs are among its files.
    runtime: Option<Arc<Runtime>>,
}

/// The only network interface, beside the loopback.
const INTERFACE: &str = "eth0";

/// A disk has so many files per so many bytes, as common file systems are made.
const BYTES_PER_INODE: u64 = 16 * 1024;

impl Machine {
    /// `name` decides its ids: a machine of the same name is the same machine.
    pub fn new(name: &str, shape: Arc<MachineShape>, address: IpAddr) -> Self {
        Self {
            shape,
            name: name.to_owned(),
            address,
            cgroups: Cgroups::default(),
            disk: Mutex::default(),
            written: watch::channel(()).0,
            faults: None,
            files: Arc::default(),
            runtime: None,
        }
    }

    /// The machine, with what ails it from now on.
    #[must_use]
    pub fn ailing(mut self, faults: watch::Receiver<Faults>) -> Self {
        self.faults = Some(faults);
        self
    }

    /// The machine, with these files, which it may share with others.
    #[must_use]
    pub fn with_files(mut self, files: Arc<BTreeMap<PathBuf, Vec<u8>>>) -> Self {
        self.files = files;
        self
    }

    /// The machine on which this runtime runs its containers.
    #[must_use]
    pub fn running(mut self, runtime: Arc<Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// From now on its kernel makes no more groups, or does so again.
    pub fn refuse_cgroups(&self, refuses: bool) {
        self.cgroups.refuse(refuses);
    }

    /// What was written to the files of a group; `None` if there is no such group.
    pub fn cgroup(&self, path: &Path) -> Option<BTreeMap<String, String>> {
        self.cgroups.values(path)
    }

    pub(crate) fn on_disk<T>(&self, access: impl FnOnce(&mut Disk) -> T) -> T {
        access(&mut self.disk.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sixteen bytes, in hexadecimal, that are this machine's for this purpose.
    fn id(&self, purpose: &str) -> String {
        let word = |salt: u64| fold(salt, &[purpose, "/", &self.name]);
        format!("{:016x}{:016x}", word(1), word(2))
    }

    fn uuid(&self, purpose: &str) -> String {
        let id = self.id(purpose);
        let parts = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
        parts.join("-")
    }
}

/// FNV-1a: it need only be the same in every run, and spread.
fn fold(salt: u64, texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes());
    let start = 0xcbf2_9ce4_8422_2325_u64.wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bytes.fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn entry(path: &Path, content: &[u8]) -> FileEntry {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    FileEntry {
        name: name.into_owned(),
        regular: true,
        size: content.len() as u64,
    }
}

/// Files that every machine has.
fn furnished(path: &Path) -> Option<&'static [u8]> {
    match path.to_str()? {
        "/etc/hosts" => Some(b"127.0.0.1\tlocalhost\n"),
        // Of the range that is set aside for benchmarks: nobody answers there.
        "/etc/resolv.conf" => Some(b"nameserver 198.18.0.1\n"),
        _ => None,
    }
}

impl Host for Machine {
    fn machine(&self) -> Result<MachineFacts, HostError> {
        let shape = &self.shape;
        Ok(MachineFacts {
            hostname: self.name.clone(),
            machine_id: self.id("machine"),
            system_uuid: self.uuid("system"),
            boot_id: self.uuid("boot"),
            kernel_release: shape.kernel_release.clone(),
            os_image: shape.os_image.clone(),
            architecture: shape.architecture.clone(),
            cpus: shape.cpus,
            memory: shape.memory,
            swap: 0,
            page: 4096,
            huge_pages: Vec::new(),
            cgroup_v1: false,
            selinux: false,
            app_armor: true,
        })
    }

    fn disk(&self, _: &Path) -> Result<DiskFigures, HostError> {
        let capacity = self.shape.storage;
        let inodes = capacity / BYTES_PER_INODE;
        let faults = self.faults.as_ref();
        let fault = faults.map_or(DiskFault::None, |faults| faults.borrow().disk);
        Ok(DiskFigures {
            capacity,
            available: fault.left(capacity, capacity),
            inodes,
            inodes_free: fault.left(inodes, inodes),
        })
    }

    fn interfaces(&self) -> Result<Vec<Interface>, HostError> {
        Ok(vec![Interface {
            name: INTERFACE.to_owned(),
            up: true,
            loopback: false,
            point_to_point: false,
            addresses: vec![self.address],
        }])
    }

    fn default_routes(&self) -> Result<Option<Vec<DefaultRoute>>, HostError> {
        Ok(Some(vec![DefaultRoute {
            ipv6: self.address.is_ipv6(),
            interface: INTERFACE.to_owned(),
        }]))
    }

    fn resolve<'a>(&'a self, name: &'a str) -> Answer<'a, Vec<IpAddr>> {
        Box::pin(async move {
            if name == self.name {
                return Ok(vec![self.address]);
            }
            let unknown = io::Error::new(io::ErrorKind::NotFound, "no such name");
            Err(HostError::new(format!("the addresses of {name}"), unknown))
        })
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, HostError> {
        let written = self.on_disk(|disk| disk.read(path));
        let given = || self.files.get(path).cloned();
        let furnished = || furnished(path).map(<[u8]>::to_vec);
        Ok(written.or_else(given).or_else(furnished))
    }

    fn list(&self, path: &Path) -> Result<Option<Listing>, HostError> {
        if let Some(content) = self.on_disk(|disk| disk.read(path)) {
            return Ok(Some(Listing::File(entry(path, &content))));
        }
        let inside = self.on_disk(|disk| {
            let inside = disk.files().filter(|(file, _)| file.parent() == Some(path));
            inside
                .map(|(file, content)| entry(file, content))
                .collect::<Vec<_>>()
        });
        // A directory is there when something is in it.
        Ok((!inside.is_empty()).then_some(Listing::Directory(inside)))
    }

    fn hint(&self, _: &Path) -> Hint {
        let mut written = self.written.subscribe();
        Box::pin(async move {
            if written.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    fn below<'a>(&'a self, root: &'a Path, path: &'a Path) -> Answer<'a, Below> {
        let runtime = self.runtime.as_ref();
        let log = runtime.and_then(|runtime| runtime.printed_at(&root.join(path)));
        Box::pin(std::future::ready(Ok(
            log.map_or(Below::Absent, Below::File)
        )))
    }

    fn file_id(&self, path: &Path) -> Result<Option<FileId>, HostError> {
        let runtime = self.runtime.as_ref();
        let log = runtime.and_then(|runtime| runtime.printed_at(path));
        let facts = log.map(|log| log.facts()).transpose();
        let facts = facts.map_err(|cause| HostError::at(path, cause))?;
        Ok(facts.map(|facts| facts.id))
    }

    fn write(&self, path: &Path, content: &[u8], _: u32) -> Result<(), HostError> {
        self.on_disk(|disk| disk.write(path, content));
        self.written.send_replace(());
        Ok(())
    }

    fn cgroup_facts(&self) -> Result<CgroupFacts, HostError> {
        Ok(Cgroups::facts())
    }

    fn make_cgroup(&self, path: &Path) -> Result<(), HostError> {
        self.cgroups.make(path)
    }

    fn has_cgroup(&self, path: &Path) -> Result<bool, HostError> {
        Ok(self.cgroups.has(path))
    }

    fn write_cgroup(&self, path: &Path, values: &[CgroupValue]) -> Result<(), HostError> {
        self.cgroups.write(path, values)
    }

    fn read_cgroup(&self, path: &Path, file: &str) -> Result<Option<String>, HostError> {
        Ok(self.cgroups.read(path, file))
    }

    fn remove_cgroup(&self, path: &Path) -> Result<(), HostError> {
        self.cgroups.remove(path);
        Ok(())
    }

    fn cgroups_in(&self, path: &Path) -> Result<Vec<String>, HostError> {
        Ok(self.cgroups.below(path))
    }

    /// What containers use is told by their runtime, which knows their stories.
    fn machine_figures(&self) -> Result<MachineFigures, HostError> {
        Ok(MachineFigures {
            physical_cores: self.shape.cpus,
            sockets: 1,
            ..MachineFigures::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use seams::host::CgroupVersion;

    use super::*;

    fn machine(name: &str) -> Machine {
        let address = IpAddr::from(Ipv4Addr::new(198, 18, 0, 1));
        Machine::new(name, Arc::default(), address)
    }

    #[test]
    fn a_machine_is_the_same_each_time_and_no_other() {
        let facts = |name: &str| machine(name).machine().unwrap();
        assert_eq!(facts("node-1"), facts("node-1"));
        let ids = (0..2000).flat_map(|number| {
            let facts = facts(&format!("node-{number:05}"));
            [facts.machine_id, facts.system_uuid, facts.boot_id]
        });
        assert_eq!(ids.collect::<BTreeSet<_>>().len(), 6000);
        assert_eq!(facts("node-1").machine_id.len(), 32);
        assert_eq!(facts("node-1").boot_id.len(), 36);
    }

    #[test]
    fn it_keeps_the_files_that_a_node_leaves() {
        let machine = machine("node-1");
        let path = Path::new("/var/lib/kubelet/state");
        assert_eq!(machine.read(path).unwrap(), None);
        machine.write(path, b"one", 0o600).unwrap();
        machine.write(path, b"two", 0o600).unwrap();
        assert_eq!(machine.read(path).unwrap().unwrap(), b"two");
    }

    #[tokio::test]
    async fn its_files_are_listed_and_a_hint_comes_when_one_is_written() {
        let machine = machine("node-1");
        let directory = Path::new("/etc/kubernetes/manifests");
        assert_eq!(machine.list(directory).unwrap(), None);
        let hint = machine.hint(directory);
        for name in ["b.yaml", "a.yaml"] {
            machine.write(&directory.join(name), b"x", 0o600).unwrap();
        }
        hint.await;
        let Some(Listing::Directory(found)) = machine.list(directory).unwrap() else {
            panic!("it is a directory");
        };
        let names: Vec<&str> = found.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a.yaml", "b.yaml"]);
        let file = machine.list(&directory.join("a.yaml")).unwrap();
        assert!(matches!(file, Some(Listing::File(file)) if file.size == 1));
    }

    #[test]
    fn a_full_disk_has_little_left_until_it_is_mended() {
        let (ail, faults) = watch::channel(Faults::default());
        let machine = machine("node-1").ailing(faults);
        let disk = || machine.disk(Path::new("/")).unwrap();
        let sound = disk();
        assert_eq!(sound.available, sound.capacity);
        ail.send_replace(Faults {
            disk: DiskFault::Full,
            ..Faults::default()
        });
        assert_eq!(disk().available, sound.capacity / 100);
        assert_eq!(disk().inodes_free, sound.inodes / 100);
        ail.send_replace(Faults::default());
        assert_eq!(disk(), sound);
    }

    /// As a node uses them: see `resources::PodCgroups`.
    #[test]
    fn its_cgroups_are_made_found_told_and_removed() {
        let machine = machine("node-1");
        let (pods, pod) = (
            Path::new("/kubepods"),
            Path::new("/kubepods/burstable/pod1"),
        );
        let facts = machine.cgroup_facts().unwrap();
        assert_eq!(facts.version, CgroupVersion::V2);
        assert!(
            machine.cgroup(Path::new("/")).is_none(),
            "nothing is kept yet"
        );
        assert!(!machine.has_cgroup(pod).unwrap());
        assert!(machine.cgroups_in(pods).unwrap().is_empty());
        let weight = [CgroupValue::new("cpu.weight", 5)];
        assert!(machine.write_cgroup(pod, &weight).is_err());
        for _ in 0..2 {
            machine.make_cgroup(pod).unwrap();
            machine.write_cgroup(pod, &weight).unwrap();
        }
        assert!(machine.has_cgroup(pod).unwrap());
        assert_eq!(machine.cgroups_in(pods).unwrap(), ["burstable"]);
        assert_eq!(machine.cgroup(pod).unwrap()["cpu.weight"], "5");
        for _ in 0..2 {
            machine.remove_cgroup(pod).unwrap();
            assert!(!machine.has_cgroup(pod).unwrap());
        }
        assert!(machine.has_cgroup(pods).unwrap());
    }

    #[tokio::test]
    async fn it_knows_its_own_name() {
        let machine = machine("node-1");
        let own = machine.resolve("node-1").await.unwrap();
        assert_eq!(own, [machine.address]);
        assert!(machine.resolve("node-2").await.is_err());
    }
}
