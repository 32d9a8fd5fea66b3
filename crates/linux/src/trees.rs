//! Directories and all that is in them. What pods left there is not trusted:
//! links are not followed, mounts are not entered, and however deep a tree is,
//! it takes few descriptors and little stack.

use std::ffi::CString;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, chownat, fstat, openat,
    openat2, renameat_with, unlinkat,
};
use rustix::io::Errno;
use seams::storage::{Entry, GroupShare, PathKind};

/// So deep a tree is walked as it is; what is deeper is brought up first.
const REACH: usize = 100;

/// Deeper than this nothing is given to a group.
const DEEPEST: usize = 500;

const PERMISSIONS: u32 = 0o777;
const SET_GROUP: u32 = 0o2000;

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

/// An empty file, unless there is something.
pub(crate) fn make_file(path: &Path, mode: u32) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    match options.write(true).create_new(true).mode(mode).open(path) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Whether there is something of this kind, made if need be.
pub(crate) fn has(path: &Path, kind: PathKind, make: bool) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => return Ok(kind_of(&metadata) == Some(kind)),
        Err(cause) if absent(&cause) => {}
        Err(cause) => return Err(cause),
    }
    match kind {
        PathKind::Directory if make => drop(make_directory(path, 0o755, 0o755)?),
        PathKind::File if make => make_file(path, 0o644)?,
        _ => return Ok(false),
    }
    Ok(true)
}

pub(crate) fn absent(cause: &io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn kind_of(metadata: &Metadata) -> Option<PathKind> {
    let file_type = metadata.file_type();
    let kinds = [
        (file_type.is_dir(), PathKind::Directory),
        (file_type.is_file(), PathKind::File),
        (file_type.is_socket(), PathKind::Socket),
        (file_type.is_char_device(), PathKind::CharacterDevice),
        (file_type.is_block_device(), PathKind::BlockDevice),
    ];
    kinds.iter().find(|(is, _)| *is).map(|(_, kind)| *kind)
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
    let top = openat(rustix::fs::CWD, path, directory_flags(), Mode::empty())?;
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

/// Gives a directory and all that is in it to a group.
pub(crate) fn share(path: &Path, share: GroupShare) -> io::Result<()> {
    let top = openat(rustix::fs::CWD, path, directory_flags(), Mode::empty())?;
    if share.unless_root_matches && matches(&top, share)? {
        return Ok(());
    }
    share_inside(&top, share, 0)?;
    // The root is last: it tells that all the rest is done.
    share_one(&top, share)
}

fn share_inside(directory: &OwnedFd, share: GroupShare, depth: usize) -> io::Result<()> {
    if depth > DEEPEST {
        let deep = format!("it has more than {DEEPEST} directories in each other");
        return Err(io::Error::new(ErrorKind::InvalidData, deep));
    }
    for (name, is_directory) in entries(directory)? {
        let inner = if is_directory {
            enter(directory, &name)
        } else {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat(directory, &name, flags, Mode::empty()).map_err(io::Error::from)
        };
        let inner = match inner {
            // It went away meanwhile.
            Err(cause) if cause.kind() == ErrorKind::NotFound => continue,
            inner => inner?,
        };
        if is_directory {
            share_inside(&inner, share, depth + 1)?;
        }
        share_one(&inner, share)?;
    }
    Ok(())
}

/// The bits that a group needs.
fn bits(share: GroupShare, is_directory: bool) -> u32 {
    let access = if share.read_only { 0o440 } else { 0o660 };
    if is_directory {
        access | SET_GROUP | 0o110
    } else {
        access
    }
}

fn matches(directory: &OwnedFd, share: GroupShare) -> io::Result<bool> {
    let stat = fstat(directory)?;
    let bits = bits(share, true);
    Ok(stat.st_gid == share.group && stat.st_mode & bits == bits)
}

fn share_one(file: &OwnedFd, share: GroupShare) -> io::Result<()> {
    let stat = fstat(file)?;
    let file_type = FileType::from_raw_mode(stat.st_mode);
    chownat(
        file,
        c"",
        None,
        Some(Gid::from_raw(share.group)),
        AtFlags::EMPTY_PATH,
    )?;
    if file_type == FileType::Symlink {
        return Ok(());
    }
    let mode = stat.st_mode & 0o7777 | bits(share, file_type == FileType::Directory);
    // This descriptor is good for nothing but its name; the link that the kernel
    // has for it leads to the very file, whatever its path leads to now.
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::set_permissions(itself, Permissions::from_mode(mode))
}

/// Names, and whether they are directories' (links are not).
fn entries(directory: impl AsFd) -> io::Result<Vec<(CString, bool)>> {
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

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Opens a directory in another, unless something is mounted there.
fn enter(directory: &OwnedFd, name: &CString) -> io::Result<OwnedFd> {
    let stay = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match openat2(directory, name, directory_flags(), Mode::empty(), stay) {
        Err(Errno::XDEV) => {
            let name = name.to_string_lossy();
            let said =
                format!("something is mounted at {name} inside: it has to be unmounted first");
            Err(io::Error::new(ErrorKind::ResourceBusy, said))
        }
        // Kernels before 5.6; the table of mounts was looked at before.
        Err(Errno::NOSYS) => Ok(openat(directory, name, directory_flags(), Mode::empty())?),
        entered => Ok(entered?),
    }
}

#[cfg(test)]
mod tests;
