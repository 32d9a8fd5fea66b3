//! What volumes take up, counted as upstream counts: of the disk, not of what files say
//! of themselves. Pods write to them meanwhile: links are not followed, and what went
//! away is not counted.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, Stat, fstat, openat, stat, statat, statfs};
use rustix::io::Errno;
use seams::storage::{FileSystem, Usage};

use crate::trees::{directory_flags, entries};

/// Of the unit that the kernel counts a file's blocks in, whatever the disk's are.
const BLOCK: u64 = 512;

/// Deeper than this nothing is counted: each directory on the way is held open, and a
/// pod can make as many as it likes. What is above it counts.
const DEEPEST: usize = 500;

pub(crate) fn of(directory: &Path) -> io::Result<Usage> {
    let top = openat(CWD, directory, directory_flags(), Mode::empty())?;
    let stat = fstat(&top)?;
    let mut counting = Counting {
        device: stat.st_dev,
        seen: BTreeSet::new(),
        usage: Usage::default(),
    };
    counting.add(&stat);
    counting.walk(&top, 0)?;
    Ok(counting.usage)
}

/// What is in a directory itself; `None` if it is not there.
pub(crate) fn of_files(directory: &Path) -> io::Result<Option<Usage>> {
    let top = match openat(CWD, directory, directory_flags(), Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        top => top?,
    };
    let mut usage = Usage::default();
    for (name, is_directory) in entries(top.as_fd())? {
        if is_directory {
            continue;
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        match statat(&top, &name, flags) {
            Err(Errno::NOENT) => {}
            stat => {
                usage.bytes += u64::try_from(stat?.st_blocks).unwrap_or_default() * BLOCK;
                usage.inodes += 1;
            }
        }
    }
    Ok(Some(usage))
}

struct Counting {
    /// What is on another is not this volume's.
    device: u64,
    /// Files of several names.
    seen: BTreeSet<u64>,
    usage: Usage,
}

impl Counting {
    fn walk(&mut self, directory: &OwnedFd, depth: usize) -> io::Result<()> {
        if depth > DEEPEST {
            return Ok(());
        }
        for (name, is_directory) in entries(directory.as_fd())? {
            let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
            let stat = match statat(directory, &name, flags) {
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            if stat.st_dev != self.device {
                continue;
            }
            self.add(&stat);
            if !is_directory {
                continue;
            }
            match openat(directory, &name, directory_flags(), Mode::empty()) {
                // It went, or is a link by now.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                inner => self.walk(&inner?, depth + 1)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, stat: &Stat) {
        if stat.st_nlink > 1 && !self.seen.insert(stat.st_ino) {
            return;
        }
        self.usage.bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * BLOCK;
        self.usage.inodes += 1;
    }
}

pub(crate) fn file_system(path: &Path) -> io::Result<FileSystem> {
    let figures = statfs(path)?;
    let block = u64::try_from(figures.f_bsize).unwrap_or_default();
    Ok(FileSystem {
        capacity: figures.f_blocks * block,
        available: figures.f_bavail * block,
        used: figures.f_blocks.saturating_sub(figures.f_bfree) * block,
        inodes: figures.f_files,
        inodes_free: figures.f_ffree,
        device: stat(path)?.st_dev,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[test]
    fn files_count_by_their_blocks_once_each_and_links_for_themselves() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/file"), vec![7; 100_000]).unwrap();
        fs::hard_link(at("a/b/file"), at("again")).unwrap();
        let sparse = fs::File::create(at("sparse")).unwrap();
        sparse.set_len(1 << 30).unwrap();
        symlink("/proc", at("out")).unwrap();
        let blocks = |path: &Path| fs::symlink_metadata(path).unwrap().blocks() * BLOCK;
        let counted = ["", "a", "a/b", "a/b/file", "sparse", "out"];
        let bytes = counted.iter().map(|name| blocks(&at(name))).sum();
        let wanted = Usage { bytes, inodes: 6 };
        assert_eq!(of(root.path()).unwrap(), wanted);
        assert!(bytes < 1 << 30);
    }

    #[test]
    fn of_a_tree_that_is_too_deep_the_upper_part_counts() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("d/".repeat(DEEPEST + 9));
        fs::create_dir_all(deep).unwrap();
        fs::write(root.path().join("file"), "x").unwrap();
        // The top and the file beside the directories.
        let wanted = DEEPEST as u64 + 1 + 2;
        assert_eq!(of(root.path()).unwrap().inodes, wanted);
    }

    #[test]
    fn the_files_of_a_directory_count_without_those_below() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("below")).unwrap();
        fs::write(root.path().join("below/not"), vec![7; 100_000]).unwrap();
        fs::write(root.path().join("0.log"), vec![7; 10_000]).unwrap();
        let log = fs::metadata(root.path().join("0.log")).unwrap().blocks();
        let wanted = Usage {
            bytes: log * BLOCK,
            inodes: 1,
        };
        assert_eq!(of_files(root.path()).unwrap(), Some(wanted));
        assert_eq!(of_files(&root.path().join("absent")).unwrap(), None);
    }

    #[test]
    fn a_file_system_tells_what_it_holds() {
        let root = tempfile::tempdir().unwrap();
        let figures = file_system(root.path()).unwrap();
        assert!(figures.capacity >= figures.available, "{figures:?}");
        assert!(figures.used <= figures.capacity, "{figures:?}");
        assert!(file_system(&root.path().join("absent")).is_err());
    }
}
