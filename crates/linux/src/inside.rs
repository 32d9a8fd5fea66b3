//! A file that a pod put into one of its volumes. Pods can put links there, and
//! pipes: a link is followed as if the volume were all there is, and only files are
//! read.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::sub_path::Volume;
use crate::trees::absent;

/// How often a way is tried that the kernel could not be sure of.
const TRIES: u32 = 1000;

/// So many bytes at most; `None` if there is no such file.
pub(crate) fn read(volume: &Path, path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match open(volume, path) {
        Err(cause) if absent(&cause) => return Ok(None),
        file => File::from(file?),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut content = Vec::new();
    // It may grow meanwhile.
    file.take(most as u64).read_to_end(&mut content)?;
    Ok(Some(content))
}

fn open(volume: &Path, path: &Path) -> io::Result<OwnedFd> {
    let root = fs::canonicalize(volume)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, &root, flags, Mode::empty())?;
    // A pipe that nobody writes to is not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut tries = 0;
    let opened = loop {
        match openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            // Something was renamed somewhere on the machine while a way up was followed.
            Err(Errno::AGAIN) if tries < TRIES => tries += 1,
            opened => break opened,
        }
    };
    match opened {
        // Kernels before 5.6: there, a link that leads out is refused.
        Err(Errno::NOSYS) => reopen(&Volume::open(volume)?.part(path)?, flags),
        file => Ok(file?),
    }
}

fn reopen(part: &OwnedFd, flags: OFlags) -> io::Result<OwnedFd> {
    let part = format!("/proc/self/fd/{}", part.as_raw_fd());
    Ok(openat(CWD, part, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::testing::tree;

    #[test]
    fn a_volume_is_all_there_is_to_the_links_in_it() {
        let root = tree(&[
            ("volume/conf/app.env", "A='1'"),
            ("volume/etc/passwd", "own"),
            ("secret", "s3cret"),
        ]);
        let volume = root.path().join("volume");
        for (link, target) in [
            ("inner", "conf/app.env"),
            ("absolute", "/etc/passwd"),
            ("up", "../../../../../etc/passwd"),
            ("out", "../secret"),
            ("loop", "loop"),
        ] {
            symlink(target, volume.join(link)).unwrap();
        }
        symlink("/", volume.join("slash")).unwrap();
        for (path, wanted) in [
            ("conf/app.env", Some("A='1'")),
            ("inner", Some("A='1'")),
            ("absolute", Some("own")),
            ("up", Some("own")),
            ("slash/etc/passwd", Some("own")),
            // There is no such file in the volume.
            ("out", None),
            ("absent", None),
            ("conf/app.env/below", None),
        ] {
            let found = read(&volume, Path::new(path), 99).unwrap();
            let found = found.map(|content| String::from_utf8(content).unwrap());
            assert_eq!(found.as_deref(), wanted, "{path}");
        }
        assert!(read(&volume, Path::new("loop"), 99).is_err());
        let short = read(&volume, Path::new("conf/app.env"), 2).unwrap();
        assert_eq!(short.as_deref(), Some(&b"A="[..]));
    }

    #[test]
    fn neither_directories_nor_pipes_are_read() {
        let root = tree(&[("volume/directory/file", "")]);
        let volume = root.path().join("volume");
        let made = rustix::fs::mknodat(
            CWD,
            volume.join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        );
        made.unwrap();
        for path in ["directory", "pipe"] {
            assert!(read(&volume, Path::new(path), 99).is_err(), "{path}");
        }
    }

    #[test]
    fn where_the_kernel_cannot_keep_links_in_they_are_refused() {
        let root = tree(&[("volume/conf/app.env", "A='1'"), ("secret", "s3cret")]);
        let path = root.path().join("volume");
        symlink("../secret", path.join("out")).unwrap();
        let volume = Volume::open(&path).unwrap();
        let part = volume.part(Path::new("conf/app.env")).unwrap();
        let mut content = String::new();
        let file = reopen(&part, OFlags::RDONLY).unwrap();
        File::from(file).read_to_string(&mut content).unwrap();
        assert_eq!(content, "A='1'");
        assert!(volume.part(Path::new("out")).is_err());
    }
}
