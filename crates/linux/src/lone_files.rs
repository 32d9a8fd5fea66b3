//! Single files and links, beside pods' volumes and among their logs. What pods
//! can reach is not trusted: links are not followed, and what is no file, such as
//! a pipe that nobody writes to, is not waited for.
//!
//! Nothing is synced: after a loss of power these files are looked at before they
//! are used again.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::trees::absent;

const PERMISSIONS: u32 = 0o7777;

/// Which end of a file.
#[derive(Clone, Copy)]
pub(crate) enum End {
    First,
    Last,
}

/// So many bytes at most of a regular file; `None` if it is not there.
pub(crate) fn read(path: &Path, end: End, most: usize) -> io::Result<Option<Vec<u8>>> {
    let Some(mut file) = open(path)? else {
        return Ok(None);
    };
    let most = most as u64;
    if let End::Last = end {
        let before = file.metadata()?.len().saturating_sub(most);
        file.seek(SeekFrom::Start(before))?;
    }
    let mut content = Vec::new();
    // It may grow meanwhile.
    file.take(most).read_to_end(&mut content)?;
    Ok(Some(content))
}

/// The bytes in a regular file; `None` if it is not there.
pub(crate) fn size(path: &Path) -> io::Result<Option<u64>> {
    match fs::symlink_metadata(path) {
        Err(cause) if absent(&cause) => Ok(None),
        Ok(metadata) if !metadata.is_file() => Err(no_file()),
        metadata => Ok(Some(metadata?.len())),
    }
}

/// Whether the new name was free; if not, nothing is done.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<bool> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // Some file systems cannot tell. What is renamed here is named by one who
        // has no rival, so that a look before does nearly as well.
        Err(Errno::INVAL | Errno::NOSYS) => match fs::symlink_metadata(to) {
            Ok(_) => Ok(false),
            Err(cause) if absent(&cause) => fs::rename(from, to).map(|()| true),
            Err(cause) => Err(cause),
        },
        Err(cause) => Err(cause.into()),
    }
}

fn no_file() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is not a file")
}

pub(crate) fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = flags.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(cause) if absent(&cause) => return Ok(None),
        file => file?,
    };
    if !file.metadata()?.is_file() {
        return Err(no_file());
    }
    Ok(Some(file))
}

/// Replaces a file unless it is so already. Whether it was not.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<bool> {
    if is_so(path, content, mode) {
        return Ok(false);
    }
    replace(path, |beside| {
        crate::files::write_new(beside, content, mode).map(drop)
    })?;
    Ok(true)
}

/// What cannot be read is not so.
fn is_so(path: &Path, content: &[u8], mode: u32) -> bool {
    let permissions = |metadata: &fs::Metadata| metadata.permissions().mode() & PERMISSIONS;
    let same_mode = fs::symlink_metadata(path).is_ok_and(|found| permissions(&found) == mode);
    // One byte more tells whether there is more.
    same_mode
        && matches!(read(path, End::First, content.len() + 1), Ok(Some(found)) if found == content)
}

/// A link with this text; what is in its place is replaced.
pub(crate) fn link(target: &Path, at: &Path) -> io::Result<()> {
    match symlink(target, at) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
        outcome => return outcome,
    }
    if fs::read_link(at).is_ok_and(|found| found == target) {
        return Ok(());
    }
    replace(at, |beside| symlink(target, beside))
}

/// Makes a file beside a path and renames it over what is there.
fn replace(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default();
    let beside = path.with_file_name(name_beside(name));
    // What a crash left there.
    remove(&beside)?;
    let outcome = make(&beside).and_then(|()| fs::rename(&beside, path));
    if outcome.is_err() {
        let _ = remove(&beside);
    }
    outcome
}

/// Short whatever the name is: names of logs are as long as names can be.
fn name_beside(name: &OsStr) -> String {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!(".{:016x}.new", hasher.finish())
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(cause) if absent(&cause) => Ok(()),
        outcome => outcome,
    }
}

/// The names of links in a directory that lead nowhere; `resolve` tells where a
/// path of the machine is for us.
pub(crate) fn dangling(
    directory: &Path,
    resolve: impl Fn(&Path) -> PathBuf,
) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(cause) if absent(&cause) => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut dangling = Vec::new();
    for entry in entries {
        let entry = entry?;
        // A link that went meanwhile is none.
        let Ok(target) = fs::read_link(entry.path()) else {
            continue;
        };
        let target = if target.is_absolute() {
            resolve(&target)
        } else {
            directory.join(target)
        };
        if fs::metadata(target).is_err_and(|cause| absent(&cause)) {
            dangling.push(PathBuf::from(entry.file_name()));
        }
    }
    dangling.sort();
    Ok(dangling)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::testing::tree;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_written_once_and_again_when_content_or_mode_differ() {
        let root = tree(&[]);
        let path = root.path().join("etc-hosts");
        let write = |content: &str, mode| write(&path, content.as_bytes(), mode).unwrap();
        let look = || {
            let mode = fs::metadata(&path).unwrap().mode() & PERMISSIONS;
            (fs::read_to_string(&path).unwrap(), mode)
        };
        assert!(write("one", 0o644));
        assert_eq!(look(), ("one".to_owned(), 0o644));
        assert!(!write("one", 0o644), "it is so");
        for (left, mode) in [("one and more", 0o644), ("on", 0o644), ("one", 0o666)] {
            fs::write(&path, left).unwrap();
            set_mode(&path, mode);
            assert!(write("one", 0o644), "{left} {mode:o}");
            assert_eq!(look(), ("one".to_owned(), 0o644));
        }
        assert_eq!(names(root.path()), ["etc-hosts"]);
    }

    #[test]
    fn a_link_in_a_files_place_is_replaced_and_not_followed() {
        let root = tree(&[("elsewhere", "one")]);
        let path = root.path().join("etc-hosts");
        let elsewhere = root.path().join("elsewhere");
        set_mode(&elsewhere, 0o644);
        symlink(&elsewhere, &path).unwrap();
        assert!(write(&path, b"one", 0o644).unwrap());
        assert!(write(&path, b"two", 0o644).unwrap());
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "one");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_beside() {
        let root = tree(&[("directory/inner", "old")]);
        assert!(write(&root.path().join("directory"), b"new", 0o644).is_err());
        assert!(write(&root.path().join("absent/file"), b"new", 0o644).is_err());
        assert_eq!(names(root.path()), ["directory"]);
    }

    #[test]
    fn either_end_of_a_file_is_read_and_no_more_than_asked_for() {
        let root = tree(&[("file", "0123456789"), ("empty", "")]);
        let read = |name: &str, end, most| {
            let content = read(&root.path().join(name), end, most).unwrap();
            content.map(|content| String::from_utf8(content).unwrap())
        };
        let cases = [
            ("file", End::First, 4, Some("0123")),
            ("file", End::Last, 4, Some("6789")),
            ("file", End::First, 10, Some("0123456789")),
            ("file", End::Last, 99, Some("0123456789")),
            ("file", End::Last, 0, Some("")),
            ("empty", End::Last, 4, Some("")),
            ("absent", End::First, 4, None),
            ("file/below", End::Last, 4, None),
        ];
        for (name, end, most, wanted) in cases {
            assert_eq!(read(name, end, most).as_deref(), wanted, "{name} {most}");
        }
    }

    #[test]
    fn a_size_is_that_of_a_file_and_of_nothing_else() {
        let root = tree(&[("file", "12345"), ("directory/file", "")]);
        symlink(root.path().join("file"), root.path().join("link")).unwrap();
        let size = |name: &str| size(&root.path().join(name));
        assert_eq!(size("file").unwrap(), Some(5));
        assert_eq!(size("absent").unwrap(), None);
        assert_eq!(size("file/below").unwrap(), None);
        for name in ["link", "directory"] {
            assert!(size(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_file_gets_another_name_unless_that_is_taken() {
        let root = tree(&[("0.log", "new"), ("0.log.1", "old")]);
        let at = |name: &str| root.path().join(name);
        assert!(!rename(&at("0.log"), &at("0.log.1")).unwrap());
        assert_eq!(fs::read_to_string(at("0.log.1")).unwrap(), "old");
        assert!(rename(&at("0.log"), &at("0.log.2")).unwrap());
        assert_eq!(fs::read_to_string(at("0.log.2")).unwrap(), "new");
        assert_eq!(names(root.path()), ["0.log.1", "0.log.2"]);
        assert!(rename(&at("0.log"), &at("0.log.3")).is_err(), "it is gone");
    }

    #[test]
    fn neither_links_nor_pipes_nor_directories_are_read() {
        let root = tree(&[("secret", "s3cret"), ("directory/file", "")]);
        symlink(root.path().join("secret"), root.path().join("link")).unwrap();
        let pipe = root.path().join("pipe");
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        );
        made.unwrap();
        for name in ["link", "pipe", "directory"] {
            for end in [End::First, End::Last] {
                assert!(read(&root.path().join(name), end, 9).is_err(), "{name}");
            }
        }
    }

    #[test]
    fn a_link_is_made_kept_and_replaced_however_long_its_name_is() {
        let root = tree(&[]);
        let name = "n".repeat(255);
        let at = root.path().join(&name);
        for target in ["/logs/0.log", "/logs/0.log", "/logs/1.log"] {
            let before = fs::symlink_metadata(&at).map(|found| found.ino()).ok();
            let same = fs::read_link(&at).is_ok_and(|found| found == Path::new(target));
            link(Path::new(target), &at).unwrap();
            assert_eq!(fs::read_link(&at).unwrap(), Path::new(target));
            let after = fs::symlink_metadata(&at).map(|found| found.ino()).ok();
            assert_eq!(same, before == after, "one that is right is left alone");
        }
        fs::remove_file(&at).unwrap();
        fs::write(&at, "a file").unwrap();
        link(Path::new("/logs/2.log"), &at).unwrap();
        assert_eq!(fs::read_link(&at).unwrap(), Path::new("/logs/2.log"));
        assert_eq!(names(root.path()), [name]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found_and_nothing_else() {
        let root = tree(&[("logs/0.log", ""), ("links/file", "")]);
        let links = root.path().join("links");
        symlink("/logs/0.log", links.join("alive")).unwrap();
        symlink("../logs/0.log", links.join("relative")).unwrap();
        symlink("/logs/9.log", links.join("dead")).unwrap();
        symlink("../logs/9.log", links.join("a dead one")).unwrap();
        let resolve = |path: &Path| root.path().join(path.strip_prefix("/").unwrap());
        let found = dangling(&links, resolve).unwrap();
        assert_eq!(found, ["a dead one", "dead"].map(PathBuf::from));
        let absent = dangling(&root.path().join("absent"), resolve).unwrap();
        assert!(absent.is_empty());
    }

    #[test]
    fn what_is_removed_is_the_link_and_absent_is_fine() {
        let root = tree(&[("file", "kept")]);
        let link = root.path().join("link");
        symlink(root.path().join("file"), &link).unwrap();
        for _ in 0..2 {
            remove(&link).unwrap();
        }
        assert_eq!(names(root.path()), ["file"]);
        assert!(remove(root.path()).is_err(), "a directory is no file");
    }
}
