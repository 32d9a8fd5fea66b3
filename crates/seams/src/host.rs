//! The machine that a node is: what it is made of, and how it is connected.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

pub use below::{Below, Directory, FileFacts, FileId, FileRead, OpenFile};
pub use cgroups::{CgroupFacts, CgroupValue, CgroupVersion};
pub use figures::{
    CpuFigures, Depth, Disk, DiskActivity, DiskCounters, GroupFigures, GroupLimits,
    InterfaceFigures, IoCost, MachineFigures, MemoryFigures, MoreOperations, MountedFigures,
    Operations, Pressure, Pressures, ProcessFigures, Traffic, Waits,
};
pub use growth::{Grown, Growth, Untold};
pub use program::{Executed, Heard, Program};

mod below;
mod cgroups;
mod figures;
mod growth;
mod program;

/// The machine that the parts of one node share.
pub type SharedHost = Arc<dyn Host>;

/// An answer that takes its time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, HostError>> + Send + 'a>>;

/// Ends when something may have changed; it may never end.
pub type Hint = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// What could not be learned of the machine.
#[derive(Debug)]
pub struct HostError {
    /// What was looked at: a file, a name, an interface list.
    pub what: String,
    pub cause: io::Error,
}

impl fmt::Display for HostError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.what, self.cause)
    }
}

impl std::error::Error for HostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// What a machine is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// As the kernel has it.
    pub hostname: String,
    pub machine_id: String,
    pub system_uuid: String,
    pub boot_id: String,
    pub kernel_release: String,
    /// The name that the distribution gives itself; `Linux` if it has none.
    pub os_image: String,
    /// In Go's words: `amd64`, `arm64`, ….
    pub architecture: String,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    /// Bytes; 0 without swap.
    pub swap: u64,
    /// Bytes of a page of memory.
    pub page: u64,
    /// One entry per supported size, zero pages included, smallest size first.
    pub huge_pages: Vec<HugePages>,
    /// Its control groups are of version 1, or of both.
    pub cgroup_v1: bool,
    /// `SELinux` is on: files have labels that count.
    pub selinux: bool,
    /// `AppArmor` is on: containers can be kept to profiles.
    pub app_armor: bool,
}

/// The ids that an account of the machine may hand on, as its tools tell them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubordinateIds {
    /// The answer of `getsubids NAME`.
    pub users: String,
    /// The answer of `getsubids -g NAME`.
    pub groups: String,
}

/// The huge pages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// Bytes.
    pub size: u64,
    pub count: u64,
}

/// The file system that holds a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFigures {
    /// Bytes.
    pub capacity: u64,
    /// Bytes, for those who are not root.
    pub available: u64,
    pub inodes: u64,
    pub inodes_free: u64,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub up: bool,
    pub loopback: bool,
    pub point_to_point: bool,
    pub addresses: Vec<IpAddr>,
}

/// The default route of one address family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    pub ipv6: bool,
    pub interface: String,
}

/// What is found at a path, links followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    File(FileEntry),
    /// What is in it, sorted by name. Names that are no text are left out, and so
    /// are links that lead nowhere.
    Directory(Vec<FileEntry>),
    /// A device, a socket, ….
    Other,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    pub name: String,
    /// A regular file, or a link to one.
    pub regular: bool,
    /// Bytes.
    pub size: u64,
}

/// The machine.
pub trait Host: fmt::Debug + Send + Sync + 'static {
    /// Looks at the machine now: what changes at run time (huge pages, memory) is
    /// looked at anew each time.
    fn machine(&self) -> Result<MachineFacts, HostError>;

    /// The file system that holds `path`.
    fn disk(&self, path: &Path) -> Result<DiskFigures, HostError>;

    fn interfaces(&self) -> Result<Vec<Interface>, HostError>;

    /// IPv4 first, in the kernel's order; `None` where there is no routing table
    /// to read.
    fn default_routes(&self) -> Result<Option<Vec<DefaultRoute>>, HostError>;

    /// The addresses of a name, in the resolver's order.
    fn resolve<'a>(&'a self, name: &'a str) -> Answer<'a, Vec<IpAddr>>;

    /// What an account may hand on of its ids: `None` if there is no such account,
    /// or no tool that knows.
    fn subordinate_ids<'a>(&'a self, account: &'a str) -> Answer<'a, Option<SubordinateIds>> {
        let _ = account;
        Box::pin(async { Ok(None) })
    }

    /// A small file, such as the node keeps for itself: `None` if it is not there.
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, HostError>;

    /// What is at a path that somebody else fills: `None` if nothing is there. The
    /// disk may take its time: not to be called where others wait.
    fn list(&self, path: &Path) -> Result<Option<Listing>, HostError>;

    /// Watches a file or a directory from now on, until something may have changed
    /// there. A hint, no more: who asks for it looks from time to time as well.
    fn hint(&self, path: &Path) -> Hint;

    /// Tells of writes to files. A hint, too: a machine need not tell.
    fn growth(&self) -> Box<dyn Growth> {
        Box::new(Untold)
    }

    /// Tells of writes to files and of files that get another name: for who reads them
    /// as they grow.
    fn changes(&self) -> Box<dyn Growth> {
        self.growth()
    }

    // Files that others write, logs above all. A machine that has none need not say
    // more than that.

    /// What is at a path below a root, `.` being the root itself. Whoever writes there
    /// is not trusted: links are followed as long as they stay below the root.
    fn below<'a>(&'a self, root: &'a Path, path: &'a Path) -> Answer<'a, Below> {
        let _ = (root, path);
        Box::pin(async { Ok(Below::Absent) })
    }

    /// Which file a path leads to now; `None` if to none.
    fn file_id(&self, path: &Path) -> Result<Option<FileId>, HostError> {
        let _ = path;
        Ok(None)
    }

    /// Replaces such a file as a whole.
    fn write(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), HostError>;

    // Programs. A machine that has none need not say more than that.

    /// Whether there is something at a path that can be run.
    fn is_program(&self, path: &Path) -> Result<bool, HostError> {
        let _ = path;
        Ok(false)
    }

    /// Runs a program to its end. Dropped, it kills it, and what it has started.
    fn execute(&self, program: Program) -> Answer<'_, Executed> {
        let unsupported = io::ErrorKind::Unsupported.into();
        let error = HostError::at(&program.path, unsupported);
        Box::pin(std::future::ready(Err(error)))
    }

    /// Starts a program whose output is heard as it comes, what it complains of among
    /// it; it reads nothing. Dropped, it is killed, and what it has started.
    fn hear(&self, program: Program) -> Result<Heard, HostError> {
        let unsupported = io::ErrorKind::Unsupported.into();
        Err(HostError::at(&program.path, unsupported))
    }

    // Cgroups. Paths are those of groups: `/` is the root of every hierarchy. A
    // machine that has none need not say more than that.

    fn cgroup_facts(&self) -> Result<CgroupFacts, HostError> {
        cgroups::unsupported(Path::new("/"))
    }

    /// Makes a group and those above it, in every hierarchy, with all controllers.
    /// One that is there already is left as it is.
    fn make_cgroup(&self, path: &Path) -> Result<(), HostError> {
        cgroups::unsupported(path)
    }

    /// Whether a group is there with every controller that a node relies on.
    fn has_cgroup(&self, path: &Path) -> Result<bool, HostError> {
        cgroups::unsupported(path)
    }

    /// Values whose controller the machine does not have are passed over.
    fn write_cgroup(&self, path: &Path, values: &[CgroupValue]) -> Result<(), HostError> {
        let _ = values;
        cgroups::unsupported(path)
    }

    /// What a file of a group (`memory.max`) has in it, without the line's end; `None` if
    /// there is no such file.
    fn read_cgroup(&self, path: &Path, file: &str) -> Result<Option<String>, HostError> {
        let _ = file;
        cgroups::unsupported(path)
    }

    /// Kills what is left in a group and below it, and removes them. The kernel
    /// may need a moment to let the dead go: `ResourceBusy` asks for another try.
    /// A group that is not there is removed.
    fn remove_cgroup(&self, path: &Path) -> Result<(), HostError> {
        cgroups::unsupported(path)
    }

    /// The names of the groups in a group, of any hierarchy, sorted. None in one
    /// that is not there.
    fn cgroups_in(&self, path: &Path) -> Result<Vec<String>, HostError> {
        cgroups::unsupported(path)
    }

    // What is used. A machine that does not count need not say more than that: the
    // runtime may.

    /// Of a group and those below it; `None` if it is not there, or not counted.
    fn group_figures(&self, path: &Path, depth: Depth) -> Result<Option<GroupFigures>, HostError> {
        let _ = (path, depth);
        Ok(None)
    }

    /// The CPU time of a group alone, in nanoseconds.
    fn cpu_time(&self, path: &Path) -> Result<Option<u64>, HostError> {
        let _ = path;
        Ok(None)
    }

    /// The oldest process of a group itself, not of those below; `None` if there is none.
    fn first_process(&self, path: &Path) -> Result<Option<u32>, HostError> {
        let _ = path;
        Ok(None)
    }

    /// The interfaces that a process sees, but for loopback and the ends of those of
    /// containers; `None` if there is no such process.
    fn network_figures(&self, process: u32) -> Result<Option<Vec<InterfaceFigures>>, HostError> {
        let _ = process;
        Ok(None)
    }

    fn machine_figures(&self) -> Result<MachineFigures, HostError> {
        Ok(MachineFigures::default())
    }
}

impl HostError {
    pub fn new(what: impl Into<String>, cause: io::Error) -> Self {
        Self {
            what: what.into(),
            cause,
        }
    }

    pub fn at(path: &Path, cause: io::Error) -> Self {
        Self::new(PathBuf::from(path).display().to_string(), cause)
    }

    /// As programs in Go tell of it, which users of the kubelet know and search for:
    /// `open /a/b: no such file or directory`, if `what` begins with what was tried.
    pub fn in_gos_words(&self) -> String {
        let (what, cause) = (&self.what, self.cause.to_string());
        if self.cause.raw_os_error().is_none() {
            return format!("{what}: {cause}");
        }
        // `No such file or directory (os error 2)`
        let cause = cause.split(" (os error").next().unwrap_or_default();
        let mut letters = cause.chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        let cause: String = first.into_iter().chain(letters).collect();
        format!("{what}: {cause}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_told_as_go_tells_it_and_other_words_stay() {
        let cases = [
            (
                io::Error::from_raw_os_error(2),
                "open /a: no such file or directory",
            ),
            (
                io::Error::from_raw_os_error(28),
                "open /a: no space left on device",
            ),
            (io::Error::other("It Is (so)"), "open /a: It Is (so)"),
        ];
        for (cause, wanted) in cases {
            assert_eq!(HostError::new("open /a", cause).in_gos_words(), wanted);
        }
    }
}
