//! The machine as its kernel and its files tell it.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use seams::Host;
use seams::host::{
    Answer, Below, CgroupFacts, CgroupValue, DefaultRoute, Depth, DiskFigures, Executed, FileId,
    GroupFigures, Growth, Heard, Hint, HostError, Interface, InterfaceFigures, Listing,
    MachineFacts, MachineFigures, Program, SubordinateIds,
};

use crate::below::{self, Turns};
use crate::cgroups::Hierarchies;
use crate::figures::{self, Fixed};
use crate::files::Files;
use crate::growth::Writes;
use crate::{accounts, hints, interfaces, machine, programs, routes};

/// The machine that this process runs on.
#[derive(Clone, Debug)]
pub struct LinuxHost {
    files: Files,
    /// Where they are is told by a list of all mounts, of which pods have many; it
    /// stays as it is while the machine runs.
    cgroups: Arc<OnceLock<Hierarchies>>,
    /// Of those who read files that others write.
    turns: Turns,
    /// Looked at when somebody first asks for figures.
    fixed: Arc<OnceLock<Fixed>>,
}

impl LinuxHost {
    /// `root` is where the machine's files are, normally `/`. What the kernel
    /// tells by calls (its name, its interfaces) is the same for every root.
    pub fn new(root: PathBuf) -> Self {
        Self {
            files: Files::new(root),
            cgroups: Arc::default(),
            turns: Turns::default(),
            fixed: Arc::default(),
        }
    }

    /// A machine that has none is looked at again the next time.
    fn cgroups(&self) -> Result<&Hierarchies, HostError> {
        if let Some(known) = self.cgroups.get() {
            return Ok(known);
        }
        let found = Hierarchies::look(&self.files)?;
        Ok(self.cgroups.get_or_init(|| found))
    }

    /// Where a path of the machine is for us.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        self.files.path(path)
    }

    /// What the machine calls a path of ours.
    pub(crate) fn path_within(&self, path: &Path) -> PathBuf {
        let root = self.files.path("/");
        let below = path.strip_prefix(root).unwrap_or(path);
        Path::new("/").join(below)
    }
}

impl Host for LinuxHost {
    fn machine(&self) -> Result<MachineFacts, HostError> {
        machine::look(&self.files)
    }

    fn disk(&self, path: &Path) -> Result<DiskFigures, HostError> {
        let path = self.files.path(path);
        let figures = rustix::fs::statvfs(&path)
            .map_err(|cause| HostError::at(&path, io::Error::from(cause)))?;
        Ok(DiskFigures {
            capacity: figures.f_blocks.saturating_mul(figures.f_frsize),
            available: figures.f_bavail.saturating_mul(figures.f_frsize),
            inodes: figures.f_files,
            inodes_free: figures.f_ffree,
        })
    }

    fn interfaces(&self) -> Result<Vec<Interface>, HostError> {
        interfaces::list()
    }

    fn default_routes(&self) -> Result<Option<Vec<DefaultRoute>>, HostError> {
        routes::default_routes(&self.files)
    }

    fn resolve<'a>(&'a self, name: &'a str) -> Answer<'a, Vec<IpAddr>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0))
                .await
                .map_err(|cause| HostError::new(format!("the addresses of {name}"), cause))?;
            let mut addresses = Vec::new();
            for address in found.map(|address| address.ip()) {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            Ok(addresses)
        })
    }

    fn subordinate_ids<'a>(&'a self, account: &'a str) -> Answer<'a, Option<SubordinateIds>> {
        let (files, account) = (self.files.clone(), account.to_owned());
        // The tool may ask a directory of accounts elsewhere, and takes its time.
        let asking = tokio::task::spawn_blocking(move || {
            accounts::subordinate_ids(&files, accounts::TOOL, &account)
        });
        Box::pin(async move {
            let lost = |cause| HostError::new(accounts::TOOL, io::Error::other(cause));
            asking.await.map_err(lost)?
        })
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, HostError> {
        self.files.read(path)
    }

    fn list(&self, path: &Path) -> Result<Option<Listing>, HostError> {
        self.files.list(path)
    }

    fn hint(&self, path: &Path) -> Hint {
        hints::at(&self.files.path(path))
    }

    fn growth(&self) -> Box<dyn Growth> {
        Box::new(Writes::new(self.files.clone()))
    }

    fn changes(&self) -> Box<dyn Growth> {
        Box::new(Writes::and_moves(self.files.clone()))
    }

    fn below<'a>(&'a self, root: &'a Path, path: &'a Path) -> Answer<'a, Below> {
        let root = self.files.path(root);
        let (path, turns) = (path.to_owned(), self.turns.clone());
        Box::pin(async move {
            let named = root.join(&path);
            let looked = turns
                .take(move |turns| below::look(&root, &path, turns))
                .await;
            looked.map_err(|cause| HostError::at(&named, cause))
        })
    }

    fn file_id(&self, path: &Path) -> Result<Option<FileId>, HostError> {
        let path = self.files.path(path);
        below::id_at(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), HostError> {
        self.files.write(path, content, mode)
    }

    fn is_program(&self, path: &Path) -> Result<bool, HostError> {
        let path = self.files.path(path);
        programs::is_program(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn execute(&self, program: Program) -> Answer<'_, Executed> {
        Box::pin(async move {
            let path = self.files.path(&program.path);
            let executed = programs::execute(&path, program).await;
            executed.map_err(|cause| HostError::at(&path, cause))
        })
    }

    fn hear(&self, program: Program) -> Result<Heard, HostError> {
        let path = self.files.path(&program.path);
        programs::hear(&path, &program).map_err(|cause| HostError::at(&path, cause))
    }

    fn cgroup_facts(&self) -> Result<CgroupFacts, HostError> {
        self.cgroups()?.facts(&self.files)
    }

    fn make_cgroup(&self, path: &Path) -> Result<(), HostError> {
        self.cgroups()?.make(path)
    }

    fn has_cgroup(&self, path: &Path) -> Result<bool, HostError> {
        self.cgroups()?.has(path)
    }

    fn write_cgroup(&self, path: &Path, values: &[CgroupValue]) -> Result<(), HostError> {
        self.cgroups()?.write(path, values)
    }

    fn read_cgroup(&self, path: &Path, file: &str) -> Result<Option<String>, HostError> {
        self.cgroups()?.read(path, file)
    }

    fn remove_cgroup(&self, path: &Path) -> Result<(), HostError> {
        self.cgroups()?.remove(path)
    }

    fn cgroups_in(&self, path: &Path) -> Result<Vec<String>, HostError> {
        self.cgroups()?.below(path)
    }

    fn group_figures(&self, path: &Path, depth: Depth) -> Result<Option<GroupFigures>, HostError> {
        let found = figures::of_group(&self.files, self.cgroups()?, path, depth);
        found.map_err(|cause| HostError::at(path, cause))
    }

    fn cpu_time(&self, path: &Path) -> Result<Option<u64>, HostError> {
        let found = figures::cpu_time(self.cgroups()?, path);
        found.map_err(|cause| HostError::at(path, cause))
    }

    fn first_process(&self, path: &Path) -> Result<Option<u32>, HostError> {
        let found = figures::first_process(self.cgroups()?, path);
        found.map_err(|cause| HostError::at(path, cause))
    }

    fn network_figures(&self, process: u32) -> Result<Option<Vec<InterfaceFigures>>, HostError> {
        let found = figures::network_of(&self.files, process);
        found.map_err(|cause| HostError::new(format!("the network of process {process}"), cause))
    }

    fn machine_figures(&self) -> Result<MachineFigures, HostError> {
        let look = || Fixed::look(&self.files, self.cgroups().ok());
        let fixed = self.fixed.get_or_init(look);
        Ok(figures::of_machine(&self.files, fixed))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::testing::{put, tree};

    fn host() -> LinuxHost {
        LinuxHost::new(PathBuf::from("/"))
    }

    #[test]
    fn the_disk_of_a_path_has_room_and_that_of_no_path_is_an_error() {
        let figures = host().disk(Path::new("/")).unwrap();
        assert!(figures.capacity > 0);
        assert!(figures.available <= figures.capacity);
        assert!(figures.inodes_free <= figures.inodes);
        let error = host().disk(Path::new("/no/such/path")).unwrap_err();
        assert!(error.what.contains("/no/such/path"), "{error}");
    }

    #[test]
    fn cgroups_that_come_late_are_found_and_those_found_are_not_looked_for_again() {
        let root = tree(&[("proc/self/mountinfo", "")]);
        let host = LinuxHost::new(root.path().to_owned());
        host.cgroup_facts().unwrap_err();
        let mount = "30 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        put(root.path(), "proc/self/mountinfo", mount);
        let found = host.cgroup_facts().unwrap().controllers;
        assert!(found.contains("cpu"), "{found:?}");
        put(root.path(), "proc/self/mountinfo", "");
        assert_eq!(host.clone().cgroup_facts().unwrap().controllers, found);
    }

    #[tokio::test]
    async fn names_are_resolved_as_the_machine_does_it() {
        let addresses = host().resolve("localhost").await.unwrap();
        assert!(addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
        assert!(!addresses.is_empty());
        let addresses = host().resolve("192.0.2.7").await.unwrap();
        assert_eq!(addresses, [IpAddr::from(Ipv4Addr::new(192, 0, 2, 7))]);
        let error = host().resolve("no such name").await.unwrap_err();
        assert!(error.what.contains("no such name"), "{error}");
    }
}
