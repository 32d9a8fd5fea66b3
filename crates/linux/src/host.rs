//! The machine as its kernel and its files tell it.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use seams::Host;
use seams::host::{
    Answer, CgroupFacts, CgroupValue, DefaultRoute, DiskFigures, Executed, Growth, Hint, HostError,
    Interface, Listing, MachineFacts, Program, SubordinateIds,
};

use crate::cgroups::Hierarchies;
use crate::files::Files;
use crate::growth::Writes;
use crate::{accounts, hints, interfaces, machine, programs, routes};

/// The machine that this process runs on.
#[derive(Clone, Debug)]
pub struct LinuxHost {
    files: Files,
}

impl LinuxHost {
    /// `root` is where the machine's files are, normally `/`. What the kernel
    /// tells by calls (its name, its interfaces) is the same for every root.
    pub fn new(root: PathBuf) -> Self {
        Self {
            files: Files::new(root),
        }
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

    fn cgroup_facts(&self) -> Result<CgroupFacts, HostError> {
        Hierarchies::look(&self.files)?.facts(&self.files)
    }

    fn make_cgroup(&self, path: &Path) -> Result<(), HostError> {
        Hierarchies::look(&self.files)?.make(path)
    }

    fn has_cgroup(&self, path: &Path) -> Result<bool, HostError> {
        Hierarchies::look(&self.files)?.has(path)
    }

    fn write_cgroup(&self, path: &Path, values: &[CgroupValue]) -> Result<(), HostError> {
        Hierarchies::look(&self.files)?.write(path, values)
    }

    fn read_cgroup(&self, path: &Path, file: &str) -> Result<Option<String>, HostError> {
        Hierarchies::look(&self.files)?.read(path, file)
    }

    fn remove_cgroup(&self, path: &Path) -> Result<(), HostError> {
        Hierarchies::look(&self.files)?.remove(path)
    }

    fn cgroups_in(&self, path: &Path) -> Result<Vec<String>, HostError> {
        Hierarchies::look(&self.files)?.below(path)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

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
