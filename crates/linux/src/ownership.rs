//! A directory and all that is in it, given to a group (`fsGroup`).
//!
//! Pods may write there meanwhile: every file is opened in its own directory, what is
//! mounted inside is left alone, and of a link only the link is given away. The
//! directory itself is last: it tells that all the rest is done.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, chownat, fstat, openat};
use rustix::io::Errno;
use seams::host::HostError;
use seams::storage::{GroupShare, Shared};

use crate::trees::{directory_flags, entries, open_inside};

/// Deeper than this nothing is given to a group: each directory on the way is held
/// open, and a pod can make as many as it likes.
const DEEPEST: usize = 500;

const SET_GROUP: u32 = 0o2000;

/// Gives a directory and all that is in it to a group.
pub(crate) fn share(path: &Path, share: GroupShare, done: &AtomicU64) -> io::Result<Shared> {
    let top = openat(rustix::fs::CWD, path, directory_flags(), Mode::empty())?;
    if share.unless_root_matches && is_shared(&fstat(&top)?, share) {
        return Ok(Shared::default());
    }
    let mut walk = Walk {
        share,
        done,
        outcome: Shared::default(),
    };
    walk.inside(&top, path, 0)?;
    walk.give(&top, path);
    Ok(walk.outcome)
}

struct Walk<'a> {
    share: GroupShare,
    done: &'a AtomicU64,
    outcome: Shared,
}

impl Walk<'_> {
    fn inside(&mut self, directory: &OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        if depth > DEEPEST {
            let deep = format!("it is below more than {DEEPEST} directories in each other");
            self.refuse(path, io::Error::new(ErrorKind::InvalidData, deep));
            return Ok(());
        }
        for (name, is_directory) in entries(directory)? {
            let flags = if is_directory {
                directory_flags()
            } else {
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC
            };
            let inner = match open_inside(directory, &name, flags) {
                // It went away, became something else, or something is mounted there.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => continue,
                inner => inner?,
            };
            let path = path.join(PathBuf::from(name.to_string_lossy().into_owned()));
            if is_directory {
                self.inside(&inner, &path, depth + 1)?;
            }
            self.give(&inner, &path);
        }
        Ok(())
    }

    /// Some file systems have no groups, or do not let root give them: what is wrong
    /// with one file is told, and the next has its turn.
    fn give(&mut self, file: &OwnedFd, path: &Path) {
        if let Err(cause) = give(file, self.share) {
            self.refuse(path, cause);
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn refuse(&mut self, path: &Path, cause: io::Error) {
        self.outcome.refused += 1;
        let why = &mut self.outcome.why;
        why.get_or_insert_with(|| HostError::at(path, cause));
    }
}

/// The bits that a group needs.
fn bits(share: GroupShare, file_type: FileType) -> u32 {
    let access = if share.read_only { 0o440 } else { 0o660 };
    match file_type {
        // Its permissions are those of what it leads to.
        FileType::Symlink => 0,
        FileType::Directory => access | SET_GROUP | 0o110,
        _ => access,
    }
}

fn is_shared(stat: &Stat, share: GroupShare) -> bool {
    let bits = bits(share, FileType::from_raw_mode(stat.st_mode));
    stat.st_gid == share.group && stat.st_mode & bits == bits
}

fn give(file: &OwnedFd, share: GroupShare) -> io::Result<()> {
    let stat = fstat(file)?;
    if is_shared(&stat, share) {
        return Ok(());
    }
    let file_type = FileType::from_raw_mode(stat.st_mode);
    let group = Some(Gid::from_raw(share.group));
    let given = chownat(file, c"", None, group, AtFlags::EMPTY_PATH);
    if file_type == FileType::Symlink {
        return Ok(given?);
    }
    // The permissions are set even if the group cannot be: it may be the right one.
    let mode = stat.st_mode & 0o7777 | bits(share, file_type);
    // This descriptor is good for nothing but its name; the link that the kernel
    // has for it leads to the very file, whatever its path leads to now.
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    let set = fs::set_permissions(itself, Permissions::from_mode(mode));
    given.map_err(io::Error::from).and(set)
}

#[cfg(test)]
mod tests;
