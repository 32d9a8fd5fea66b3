//! The machine's disks as pods use them: directories, trees of files that are
//! replaced as a whole, memory file systems. The verbs are coarse, so that a
//! machine in memory can have them too, and each may be repeated: what is
//! already so is left alone.
//!
//! They take as long as a disk does. Callers run them with [`perform`], off the
//! threads that everybody shares.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use tokio::sync::oneshot;

use crate::host::HostError;

/// The disks that the parts of one node share.
pub type SharedStorage = Arc<dyn Storage>;

/// Work on the disks, on its way.
pub type Work = Box<dyn FnOnce() + Send>;

/// Ends with the work.
pub type WorkDone<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Files that are published together, by their paths below a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tree {
    pub files: BTreeMap<String, TreeFile>,
    /// The group that gets to read all of it.
    pub group: Option<u32>,
}

/// A file of a [`Tree`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TreeFile {
    pub content: Vec<u8>,
    pub mode: u32,
    /// Root, if nobody else.
    pub owner: Option<u32>,
}

/// The content may be a secret: its length is all that is printed.
impl fmt::Debug for TreeFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TreeFile")
            .field("bytes", &self.content.len())
            .field("mode", &format_args!("{:#o}", self.mode))
            .field("owner", &self.owner)
            .finish()
    }
}

const LONGEST_PATH: usize = 4096;
const LONGEST_NAME: usize = 255;

impl Tree {
    /// The files by their cleaned paths; an error if a path could lead out of the
    /// directory or stand in the way of what is kept there.
    pub fn checked(&self) -> Result<BTreeMap<String, &TreeFile>, HostError> {
        let entries = self.files.iter();
        let checked = entries.map(|(path, file)| Ok((cleaned(path)?, file)));
        checked.collect::<Result<_, String>>().map_err(|problem| {
            let problem = io::Error::new(io::ErrorKind::InvalidInput, problem);
            HostError::new("invalid path", problem)
        })
    }
}

/// The rules, and their wording, are upstream's.
fn cleaned(path: &str) -> Result<String, String> {
    if path.starts_with('/') {
        return Err(format!("must be relative path: {path}"));
    }
    if path.len() > LONGEST_PATH {
        let limit = LONGEST_PATH;
        return Err(format!("must be less than or equal to {limit} characters"));
    }
    if path.split('/').any(|name| name == "..") {
        return Err(format!("must not contain '..': {path}"));
    }
    if path.split('/').any(|name| name.len() > LONGEST_NAME) {
        let limit = LONGEST_NAME;
        return Err(format!(
            "filenames must be less than or equal to {limit} characters"
        ));
    }
    let names = path.split('/').filter(|name| !matches!(*name, "" | "."));
    let cleaned = names.collect::<Vec<_>>().join("/");
    if cleaned.is_empty() {
        return Err(format!("must not be empty: {path:?}"));
    }
    // These names are kept for what is behind the files.
    if cleaned.starts_with("..") {
        return Err(format!("must not start with '..': {path}"));
    }
    Ok(cleaned)
}

/// A part of a volume, by its path below it: no `..`, and not from the root.
pub fn checked_sub_path(path: &str) -> Result<PathBuf, HostError> {
    let names = || path.split('/').filter(|name| !matches!(*name, "" | "."));
    let problem = if path.starts_with('/') {
        "must be relative path"
    } else if names().any(|name| name == "..") {
        "must not contain '..'"
    } else {
        return Ok(names().collect());
    };
    let problem = io::Error::new(io::ErrorKind::InvalidInput, problem);
    Err(HostError::new(format!("sub path {path:?}"), problem))
}

/// Which half of the work for a part of a volume failed: users are told.
#[derive(Debug)]
pub enum SubPathError {
    /// It was not there, and could not be made.
    Make(HostError),
    /// It could not be mounted where the container gets it from.
    Bind(HostError),
}

impl fmt::Display for SubPathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make(cause) => write!(formatter, "it cannot be made: {cause}"),
            Self::Bind(cause) => write!(formatter, "it cannot be mounted: {cause}"),
        }
    }
}

impl std::error::Error for SubPathError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Make(cause) | Self::Bind(cause) => Some(cause),
        }
    }
}

/// A group that a directory and all that is in it are given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupShare {
    pub group: u32,
    /// The group may read, but not write.
    pub read_only: bool,
    /// A directory that already is the group's is taken to be so to its leaves.
    pub unless_root_matches: bool,
}

/// What came of giving a directory to a group.
#[derive(Debug, Default)]
pub struct Shared {
    /// So many of its files stayed as they were, whatever the reason.
    pub refused: u64,
    /// The first of the reasons.
    pub why: Option<HostError>,
}

/// What is at a path, links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    Directory,
    File,
    Socket,
    CharacterDevice,
    BlockDevice,
}

/// Something that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    pub path: PathBuf,
    /// As the kernel names it: `tmpfs`, `ext4`, ….
    pub file_system: String,
}

/// What the files in a directory take up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the disk: a file with holes counts for less than it says.
    pub bytes: u64,
    pub inodes: u64,
}

/// The file system that holds a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSystem {
    /// Bytes.
    pub capacity: u64,
    /// Bytes, for those who are not root.
    pub available: u64,
    /// Bytes, by whomever.
    pub used: u64,
    pub inodes: u64,
    pub inodes_free: u64,
    /// One number for all that is on it.
    pub device: u64,
}

/// A directory of the machine that is to be seen at another path, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    pub directory: PathBuf,
    /// Made if it is not there.
    pub at: PathBuf,
    pub read_only: bool,
    /// As `mount` has them. Those count that a second place of a file system can have:
    /// the rest was said when it was first mounted.
    pub options: Vec<String>,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub name: String,
    /// A link to a directory is none.
    pub is_directory: bool,
}

/// The disks.
pub trait Storage: fmt::Debug + Send + Sync + 'static {
    /// A directory of exactly this mode. Its missing parents get `parents`.
    /// Whether it was not there before.
    fn make_directory(&self, path: &Path, mode: u32, parents: u32) -> Result<bool, HostError>;

    /// A directory for what will be made below it, with its missing parents, all of exactly
    /// this mode. A machine on which parents are there by what is below them has nothing
    /// to do.
    fn make_room(&self, path: &Path, mode: u32) -> Result<(), HostError> {
        self.make_directory(path, mode, mode).map(drop)
    }

    /// An empty file; its directory has to be there.
    fn make_file(&self, path: &Path, mode: u32) -> Result<(), HostError>;

    /// Replaces a file as a whole, unless it has exactly this content and mode; its
    /// directory has to be there. Whoever has the old one open, or mounted, keeps
    /// that. Whether anything changed.
    fn write_file(&self, path: &Path, content: &[u8], mode: u32) -> Result<bool, HostError>;

    /// The last bytes of a file, so many at most; `None` if it is not there. Pods may
    /// have put it there: a link, or whatever else is no file, is an error.
    fn read_end(&self, path: &Path, most: usize) -> Result<Option<Vec<u8>>, HostError>;

    /// A file that pods put into a volume, by its path there: so many bytes at most,
    /// `None` if it is not there. Links are followed, and lead nowhere but into the
    /// volume; what is no file is an error.
    fn read_inside(
        &self,
        volume: &Path,
        path: &str,
        most: usize,
    ) -> Result<Option<Vec<u8>>, HostError>;

    /// Removes a file or a link, not what it leads to; none is fine.
    fn remove_file(&self, path: &Path) -> Result<(), HostError>;

    /// The bytes in a file; `None` if it is not there. A link, or whatever else is no
    /// file, is an error.
    fn size(&self, path: &Path) -> Result<Option<u64>, HostError>;

    /// Gives a file another name, unless that is taken. Whether it was free.
    fn rename(&self, from: &Path, to: &Path) -> Result<bool, HostError>;

    /// Puts what is in a file into another, in gzip's format and with the same
    /// permissions, and removes the first. It is whole, and on the disk, before it
    /// gets its name; until then it is `beside`.
    fn compress(&self, file: &Path, beside: &Path, into: &Path) -> Result<(), HostError>;

    /// A link to a path of the machine, whether that is there or not. A link or a
    /// file that is in its place is replaced.
    fn link(&self, target: &Path, at: &Path) -> Result<(), HostError>;

    /// The links in a directory that lead to nothing, sorted; none if it is not
    /// there.
    fn dangling_links(&self, directory: &Path) -> Result<Vec<PathBuf>, HostError>;

    /// Makes these files, and no others, what readers of a directory see, all at
    /// once: they read through a link (`..data`) to a directory whose name tells
    /// the time, and the link is replaced. Whether anything changed.
    fn publish(&self, directory: &Path, tree: &Tree, now: SystemTime) -> Result<bool, HostError>;

    /// Gives a directory and all that is in it to a group, in place; the directory
    /// itself last. What is mounted inside is not its, and links are not followed. A
    /// file that cannot be given away does not keep the others. `done` counts along.
    fn share(
        &self,
        directory: &Path,
        share: GroupShare,
        done: &AtomicU64,
    ) -> Result<Shared, HostError>;

    /// A memory file system of so many bytes; without, as many as the machine
    /// thinks fit. Whether it was not there before.
    fn mount_tmpfs(&self, path: &Path, size: Option<u64>) -> Result<bool, HostError>;

    /// A file system of huge pages of this size, in bytes. One of another size at the
    /// path is an error. Whether it was not there before. A machine need not have any.
    fn mount_huge_pages(&self, path: &Path, page: u64) -> Result<bool, HostError> {
        let _ = page;
        Err(HostError::at(path, io::ErrorKind::Unsupported.into()))
    }

    /// Whether what is in memory file systems stays out of swap, tried below a directory.
    fn keeps_from_swap(&self, directory: &Path) -> bool {
        let _ = directory;
        true
    }

    /// Makes what is mounted below a directory from now on seen wherever else the
    /// directory is mounted, in containers above all. A machine without such places
    /// has nothing to do.
    fn make_shared(&self, directory: &Path) -> Result<(), HostError> {
        let _ = directory;
        Ok(())
    }

    /// Mounts a part of a volume at a path of its own. If there is no such part, it
    /// is made, of directories with the permissions of the volume's. Pods write to
    /// volumes at the same time: links in it are followed as long as they stay in
    /// it, and nothing leads out. If another part is mounted there, or what the
    /// same path led to before, it is replaced. Whether anything changed.
    fn bind_sub_path(&self, volume: &Path, sub_path: &str, at: &Path)
    -> Result<bool, SubPathError>;

    /// What is unmounted below the mount at a path from now on stays mounted wherever else
    /// that is seen: it may be a part of the machine, bound there by a container. A machine
    /// without such places has nothing to do.
    fn make_private(&self, path: &Path) -> Result<(), HostError> {
        let _ = path;
        Ok(())
    }

    /// Unmounts what is mounted at a path, if anything is.
    fn unmount(&self, path: &Path) -> Result<(), HostError>;

    /// What is mounted at a path and below it, the latest first: in this order
    /// they can be unmounted.
    fn mounts_below(&self, path: &Path) -> Result<Vec<MountPoint>, HostError>;

    /// Removes a path and all that is in it. Links are removed, not followed; a
    /// mount inside is an error, and what is mounted there is not touched.
    fn remove_tree(&self, path: &Path) -> Result<(), HostError>;

    /// The names in a directory, sorted; `None` if it is not there.
    fn entries(&self, path: &Path) -> Result<Option<Vec<Entry>>, HostError>;

    /// Whether there is something of this kind at a path of the machine. If there
    /// is nothing and `make` says so, a directory (0755, with its parents) or a
    /// file (0644) is made first; an error says what was tried, in Go's order:
    /// `mkdir /a`, `open /a/b`.
    fn has(&self, path: &Path, kind: PathKind, make: bool) -> Result<bool, HostError>;

    /// Whether there is anything at a path of the machine, links followed.
    fn exists(&self, path: &Path) -> Result<bool, HostError>;

    /// Mounts a directory a second time, and not more often. Whether it was not
    /// mounted there before.
    fn bind(&self, bind: &Bind) -> Result<bool, HostError>;

    /// Where else a directory of the machine is mounted, below a path.
    fn also_mounted(&self, directory: &Path, below: &Path) -> Result<Vec<PathBuf>, HostError>;

    /// The group that a path of the machine is given to.
    fn group(&self, path: &Path) -> Result<u32, HostError>;

    /// Removes a directory that has nothing in it; none is fine. Where something may
    /// be mounted this is the way: it cannot reach what is behind.
    fn remove_directory(&self, path: &Path) -> Result<(), HostError>;

    /// What is in a directory, and on the same disk, itself included; a file of many
    /// names counts once.
    fn usage(&self, directory: &Path) -> Result<Usage, HostError>;

    /// The files in a directory, without what is in those below; `None` if there is no
    /// such directory.
    fn usage_of_files(&self, directory: &Path) -> Result<Option<Usage>, HostError> {
        let _ = directory;
        Ok(None)
    }

    /// What holds a path.
    fn file_system(&self, path: &Path) -> Result<FileSystem, HostError>;

    /// Runs work that takes as long as a disk does where it holds up nobody else.
    /// It goes on if nobody waits for it any more.
    fn run(&self, work: Work) -> WorkDone<'_>;
}

/// Work on the disks, and its outcome. What the work owns is dropped when it is
/// done, even if nobody waits for it any more: a lock in it is held as long.
pub async fn perform<T: Send + 'static>(
    storage: &SharedStorage,
    work: impl FnOnce(&dyn Storage) -> T + Send + 'static,
) -> Result<T, HostError> {
    let (done, outcome) = oneshot::channel();
    let disks = Arc::clone(storage);
    let work = move || {
        // Whoever has gone away does not want it.
        let _ = done.send(work(&*disks));
    };
    storage.run(Box::new(work)).await;
    outcome.await.map_err(|_| {
        let lost = io::Error::other("it was given up half-way");
        HostError::new("work on the disks", lost)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_and_none_leads_out() {
        let long = "a".repeat(LONGEST_NAME + 1);
        let longer = "a/".repeat(LONGEST_PATH);
        let cases: [(&str, Result<&str, &str>); 12] = [
            ("a", Ok("a")),
            ("a/b/c", Ok("a/b/c")),
            ("a//./b/", Ok("a/b")),
            ("a..b/..c", Ok("a..b/..c")),
            ("", Err("must not be empty: \"\"")),
            (".", Err("must not be empty: \".\"")),
            ("/etc/passwd", Err("must be relative path: /etc/passwd")),
            ("..", Err("must not contain '..': ..")),
            ("a/../b", Err("must not contain '..': a/../b")),
            ("..data", Err("must not start with '..': ..data")),
            (
                &long,
                Err("filenames must be less than or equal to 255 characters"),
            ),
            (
                &longer,
                Err("must be less than or equal to 4096 characters"),
            ),
        ];
        for (path, wanted) in cases {
            let found = cleaned(path);
            assert_eq!(found.as_deref().map_err(String::as_str), wanted, "{path}");
        }
    }

    #[test]
    fn a_part_of_a_volume_is_below_it() {
        let cases: [(&str, Result<&str, &str>); 7] = [
            ("a/b", Ok("a/b")),
            ("./a//b/", Ok("a/b")),
            ("..a/b..", Ok("..a/b..")),
            (".", Ok("")),
            ("/a", Err("sub path \"/a\": must be relative path")),
            ("..", Err("sub path \"..\": must not contain '..'")),
            ("a/../b", Err("sub path \"a/../b\": must not contain '..'")),
        ];
        for (path, wanted) in cases {
            let found = checked_sub_path(path).map_err(|error| error.to_string());
            let wanted = wanted.map(PathBuf::from).map_err(str::to_owned);
            assert_eq!(found, wanted, "{path}");
        }
    }

    #[test]
    fn a_file_does_not_print_what_is_in_it() {
        let file = TreeFile {
            content: b"s3cret".to_vec(),
            mode: 0o600,
            owner: None,
        };
        let text = format!("{file:?}");
        assert_eq!(text, "TreeFile { bytes: 6, mode: 0o600, owner: None }");
    }
}
