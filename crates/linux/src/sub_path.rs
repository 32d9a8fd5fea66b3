//! A part of a volume, mounted at a path of its own, where a container gets it
//! from.
//!
//! Pods write to their volumes meanwhile, and must not be given more of the machine
//! than these. So a path is resolved first, links and all; what it leads to has to
//! be in the volume, and is then opened from the volume's own descriptor without
//! following any link. Whatever becomes of the names afterwards, it is this
//! descriptor that is mounted.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fchmod, fstat, lstat, mkdirat, openat, openat2,
};
use rustix::io::Errno;

use crate::{lone_files, mounts, trees};

const PERMISSIONS: u32 = 0o7777;
/// Of what is mounted upon, and the directories above: nobody but root looks in.
const DIRECTORY_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;

/// Makes a part that is not there, of directories like the volume's. What cannot
/// be told to be absent is left to [`bind`] to complain of.
pub(crate) fn make(volume: &Path, sub_path: &Path) -> io::Result<()> {
    let is_absent =
        |path: &Path| fs::metadata(path).is_err_and(|cause| cause.kind() == ErrorKind::NotFound);
    if !is_absent(&volume.join(sub_path)) {
        return Ok(());
    }
    let volume = Volume::open(volume)?;
    let mode = Mode::from_raw_mode(fstat(&volume.descriptor)?.st_mode & PERMISSIONS);
    let mut existing = sub_path;
    let mut missing = Vec::new();
    while let (true, Some(name)) = (is_absent(&volume.path.join(existing)), existing.file_name()) {
        missing.push(name);
        existing = existing.parent().unwrap_or(Path::new(""));
    }
    let mut directory = volume.part(existing)?;
    for name in missing.into_iter().rev() {
        directory = make_in(&directory, name, mode)?;
    }
    Ok(())
}

/// Somebody else may make it at the same time: then it is theirs, and stays as
/// they made it.
fn make_in(directory: &OwnedFd, name: &OsStr, mode: Mode) -> io::Result<OwnedFd> {
    let is_new = match mkdirat(directory, name, mode) {
        Err(Errno::EXIST) => false,
        outcome => outcome.map(|()| true)?,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inner = openat(directory, name, flags, Mode::empty())?;
    if is_new {
        // The mode that it is made with is cut by the process's mask.
        fchmod(&inner, mode)?;
    }
    Ok(inner)
}

/// Mounts a part. Whether it was not there before.
pub(crate) fn bind(volume: &Path, sub_path: &Path, at: &Path) -> io::Result<bool> {
    let part = Volume::open(volume)?.part(sub_path)?;
    let stat = fstat(&part)?;
    // It can only be the same if it is mounted there.
    if lstat(at).is_ok_and(|found| is_same(&found, &stat)) {
        return Ok(false);
    }
    // Another part, or what this path led to before the volume changed.
    mounts::unmount(at)?;
    prepare(
        at,
        FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
    )?;
    let part = format!("/proc/self/fd/{}", part.as_raw_fd());
    rustix::mount::mount_bind(part, at)?;
    Ok(true)
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// A directory or a file to mount upon. A file does for all that is no directory.
fn prepare(at: &Path, is_directory: bool) -> io::Result<()> {
    if let Ok(left) = fs::symlink_metadata(at) {
        match (left.is_dir(), is_directory) {
            (true, false) => fs::remove_dir(at)?,
            (false, true) => lone_files::remove(at)?,
            _ => {}
        }
    }
    if is_directory {
        trees::make_directory(at, DIRECTORY_MODE, DIRECTORY_MODE)?;
    } else {
        let above = at.parent().unwrap_or(at);
        trees::make_directory(above, DIRECTORY_MODE, DIRECTORY_MODE)?;
        trees::make_file(at, FILE_MODE)?;
    }
    Ok(())
}

/// A volume's directory.
pub(crate) struct Volume {
    /// Without links.
    path: PathBuf,
    descriptor: OwnedFd,
}

impl Volume {
    /// The volume's own path may have links in it: it is the node's, or the path
    /// of the machine that the pod names.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = openat(CWD, &path, flags, Mode::empty())?;
        Ok(Self { path, descriptor })
    }

    /// What a path in the volume leads to.
    pub(crate) fn part(&self, path: &Path) -> io::Result<OwnedFd> {
        let resolved = fs::canonicalize(self.path.join(path))?;
        let Ok(inside) = resolved.strip_prefix(&self.path) else {
            let said = "it leads out of the volume: a link in it has to be mended";
            return Err(io::Error::new(ErrorKind::PermissionDenied, said));
        };
        match within(&self.descriptor, inside) {
            // Kernels before 5.6.
            Err(Errno::NOSYS) => step_by_step(&self.descriptor, inside),
            part => part,
        }
        .map_err(io::Error::from)
    }
}

/// Opens a path below a directory that has no links in it.
fn within(directory: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let stay = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let path = if path == Path::new("") {
        Path::new(".")
    } else {
        path
    };
    openat2(directory, path, name_only(), Mode::empty(), stay)
}

/// The same, name by name.
fn step_by_step(directory: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let enter = |directory: &OwnedFd, name: &OsStr| {
        let entered = openat(
            directory.as_fd(),
            name,
            name_only() | OFlags::NOFOLLOW,
            Mode::empty(),
        )?;
        match FileType::from_raw_mode(fstat(&entered)?.st_mode) {
            FileType::Symlink => Err(Errno::LOOP),
            _ => Ok(entered),
        }
    };
    let mut part = enter(directory, OsStr::new("."))?;
    for name in path {
        part = enter(&part, name)?;
    }
    Ok(part)
}

/// Pipes and devices are not opened by this, only named.
fn name_only() -> OFlags {
    OFlags::PATH | OFlags::CLOEXEC
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::testing::tree;

    fn identity(stat: &Stat) -> (u64, u64) {
        (stat.st_dev, stat.st_ino)
    }

    #[test]
    fn links_are_followed_inside_the_volume_and_never_out_of_it() {
        let root = tree(&[
            ("volume/..1/key", ""),
            ("volume/plain/file", ""),
            ("secret/file", ""),
        ]);
        let path = root.path().join("volume");
        symlink("..1", path.join("..data")).unwrap();
        symlink("..data/key", path.join("key")).unwrap();
        symlink(path.join("plain"), path.join("absolute")).unwrap();
        symlink("../secret", path.join("out")).unwrap();
        symlink("/proc/self/root", path.join("magic")).unwrap();
        symlink(&path, root.path().join("link to volume")).unwrap();
        let cases = [
            ("", Some("")),
            ("plain", Some("plain")),
            ("plain/file", Some("plain/file")),
            ("key", Some("..1/key")),
            ("absolute/file", Some("plain/file")),
            ("out", None),
            ("out/file", None),
            ("magic", None),
            ("absent", None),
            ("plain/file/below", None),
        ];
        for (part, wanted) in cases {
            let volume = Volume::open(&root.path().join("link to volume")).unwrap();
            let found = volume.part(Path::new(part)).ok();
            let found = found.map(|part| identity(&fstat(part).unwrap()));
            let wanted = wanted.map(|wanted| identity(&lstat(path.join(wanted)).unwrap()));
            assert_eq!(found, wanted, "{part}");
        }
        let volume = Volume::open(&path).unwrap();
        let error = volume.part(Path::new("out")).unwrap_err();
        assert!(error.to_string().contains("out of the volume"), "{error}");
    }

    #[test]
    fn a_link_that_was_put_there_meanwhile_is_not_followed_whatever_the_kernel_has() {
        let root = tree(&[("volume/a/b", ""), ("secret/b", "")]);
        let path = root.path().join("volume");
        let volume = Volume::open(&path).unwrap();
        let ways = [within, step_by_step];
        for way in ways {
            for part in ["", "a", "a/b"] {
                let found = way(&volume.descriptor, Path::new(part)).unwrap();
                let found = identity(&fstat(found).unwrap());
                assert_eq!(found, identity(&lstat(path.join(part)).unwrap()), "{part}");
            }
        }
        fs::remove_dir_all(path.join("a")).unwrap();
        symlink("../secret", path.join("a")).unwrap();
        for way in ways {
            for part in ["a", "a/b"] {
                let outcome = way(&volume.descriptor, Path::new(part));
                assert_eq!(outcome.err(), Some(Errno::LOOP), "{part}");
            }
        }
    }

    #[test]
    fn what_is_missing_is_made_like_the_volume_and_what_is_there_is_left_alone() {
        let root = tree(&[("volume/there/file", "")]);
        let path = root.path().join("volume");
        let set = |below: &str, mode| {
            fs::set_permissions(path.join(below), fs::Permissions::from_mode(mode)).unwrap();
        };
        let mode = |below: &str| {
            let metadata = fs::metadata(path.join(below)).unwrap();
            metadata.permissions().mode() & PERMISSIONS
        };
        set("", 0o2777);
        set("there", 0o700);
        symlink("there", path.join("link")).unwrap();
        for part in ["new", "there/a/b", "link/c", "there/file", "there", ""] {
            for _ in 0..2 {
                make(&path, Path::new(part)).unwrap();
            }
        }
        for made in ["new", "there/a", "there/a/b", "there/c"] {
            assert_eq!(mode(made), 0o2777, "{made}");
        }
        assert_eq!(mode("there"), 0o700);
        assert!(path.join("there/file").is_file());
    }

    #[test]
    fn nothing_is_made_outside_of_the_volume() {
        let root = tree(&[("volume/file", ""), ("secret/file", "")]);
        let path = root.path().join("volume");
        symlink("../secret", path.join("out")).unwrap();
        symlink("../secret/new", path.join("dangling")).unwrap();
        for part in ["out/a", "dangling", "dangling/a"] {
            assert!(make(&path, Path::new(part)).is_err(), "{part}");
        }
        let left = fs::read_dir(root.path().join("secret")).unwrap().count();
        assert_eq!(left, 1);
    }
}
