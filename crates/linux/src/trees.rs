//! Directories and all that is in them. What pods left there is not trusted:
//! links are not followed, mounts are not entered, and however deep a tree is,
//! it takes few descriptors and little stack.

use std::ffi::CString;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, openat, openat2,
    renameat_with, unlinkat,
};
use rustix::io::Errno;
use seams::storage::Entry;

/// So deep a tree is walked as it is; what is deeper is brought up first.
const REACH: usize = 100;

const PERMISSIONS: u32 = 0o777;

/// A directory of exactly this mode; missing parents get theirs. Whether it was
/// not there before.
pub(crate) fn make_directory(path: &Path, mode: u32, parents: u32) -> io::Result<bool> {
    if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
        make_directory(parent, parents, parents)?;
    }
    let is_new = match DirBuilder::new().mode(mode).create(path) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => false,
        outcome => outcome.map(|()| true)?,
    };
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Err(io::Error::from(ErrorKind::NotADirectory));
    }
    // The mode that it is made with is cut by the process's mask. More than the
    // permissions may have been set since: that stays.
    if metadata.mode() & PERMISSIONS != mode & PERMISSIONS {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(is_new)
}

/// An empty file of exactly this mode, unless there is something.
pub(crate) fn make_file(path: &Path, mode: u32) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    match options.write(true).create_new(true).mode(mode).open(path) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => Ok(()),
        // The mode that it is made with is cut by the process's mask.
        file => file?.set_permissions(Permissions::from_mode(mode)),
    }
}

pub(crate) fn absent(cause: &io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Removes what is at a path: nothing is fine.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(cause) if absent(&cause) => return Ok(()),
        metadata => metadata?,
    };
    if !metadata.is_dir() {
        return fs::remove_file(path);
    }
    let top = entered(path)?;
    let mut brought_up = 0;
    loop {
        let before = brought_up;
        empty(&top, &top, 0, &mut brought_up)?;
        if brought_up == before {
            break;
        }
    }
    fs::remove_dir(path)
}

/// Opens a directory that is to be emptied, unless something is mounted upon it: what
/// is behind a mount is somebody's.
fn entered(path: &Path) -> io::Result<OwnedFd> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from(ErrorKind::InvalidInput));
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = openat(rustix::fs::CWD, above, flags, Mode::empty())?;
    enter(&above, &CString::new(name.as_bytes())?)
}

/// Removes a directory that has nothing in it: none is fine.
pub(crate) fn remove_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir(path) {
        Err(cause) if absent(&cause) && fs::symlink_metadata(path).is_err() => Ok(()),
        outcome => outcome,
    }
}

/// Empties a directory that is `depth` below the top. What is too deep is moved
/// up to the top, for the next time, and counted.
fn empty(
    top: &OwnedFd,
    directory: &OwnedFd,
    depth: usize,
    brought_up: &mut usize,
) -> io::Result<()> {
    for (name, is_directory) in entries(directory)? {
        if !is_directory {
            unlinkat(directory, &name, AtFlags::empty())?;
            continue;
        }
        let inner = enter(directory, &name)?;
        if depth == REACH {
            bring_up(top, directory, &name, brought_up)?;
            continue;
        }
        empty(top, &inner, depth + 1, brought_up)?;
        unlinkat(directory, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Moves a directory to the top, under a name that nobody has.
fn bring_up(
    top: &OwnedFd,
    directory: &OwnedFd,
    name: &CString,
    brought_up: &mut usize,
) -> io::Result<()> {
    loop {
        *brought_up += 1;
        let up = format!(".removed-{brought_up}");
        match renameat_with(directory, name, top, up, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            outcome => return Ok(outcome?),
        }
    }
}

/// The names in a directory, sorted; `None` if it is not there.
pub(crate) fn listed(path: &Path) -> io::Result<Option<Vec<Entry>>> {
    let found = match fs::read_dir(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let mut entries = Vec::new();
    for entry in found {
        let entry = entry?;
        entries.push(Entry {
            name: entry.file_name().to_string_lossy().into_owned(),
            is_directory: entry.file_type()?.is_dir(),
        });
    }
    entries.sort();
    Ok(Some(entries))
}

/// Names, and whether they are directories' (links are not).
pub(crate) fn entries(directory: impl AsFd) -> io::Result<Vec<(CString, bool)>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let file_type = match entry.file_type() {
            // Some file systems do not tell.
            FileType::Unknown => {
                let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        entries.push((name.to_owned(), file_type == FileType::Directory));
    }
    Ok(entries)
}

pub(crate) fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Opens a directory in another, unless something is mounted there.
fn enter(directory: &OwnedFd, name: &CString) -> io::Result<OwnedFd> {
    match open_inside(directory, name, directory_flags()) {
        Err(Errno::XDEV) => {
            let name = name.to_string_lossy();
            let said =
                format!("something is mounted at {name} inside: it has to be unmounted first");
            Err(io::Error::new(ErrorKind::ResourceBusy, said))
        }
        entered => Ok(entered?),
    }
}

/// Opens what is in a directory, and of its own file system: `XDEV` if something is
/// mounted there. A link is opened only by who asks for its very self.
pub(crate) fn open_inside(
    directory: &OwnedFd,
    name: &CString,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let stay = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match openat2(directory, name, flags, Mode::empty(), stay) {
        // Kernels before 5.6; the table of mounts was looked at before.
        Err(Errno::NOSYS) => openat(directory, name, flags, Mode::empty()),
        opened => opened,
    }
}

#[cfg(test)]
mod tests;
