//! Files that are there whole or not at all: written beside, synced, renamed.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file operation that failed. What stood there before still does.
#[derive(Debug, Error)]
#[error("cannot {verb} {}: {cause}{}", path.display(), hint(cause))]
pub struct FileError {
    pub(crate) verb: &'static str,
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) cause: io::Error,
}

impl FileError {
    pub(crate) fn new(verb: &'static str, path: &Path, cause: io::Error) -> Self {
        Self {
            verb,
            path: path.to_owned(),
            cause,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn kind(&self) -> ErrorKind {
        self.cause.kind()
    }
}

fn hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free some space on that disk",
        ErrorKind::PermissionDenied => "; run this as root",
        ErrorKind::ReadOnlyFilesystem => "; mount that file system for writing",
        ErrorKind::NotADirectory => "; move away the file that stands where a directory must",
        _ => "",
    }
}

/// Makes a directory and those above it, and sets the mode of those it made.
pub(crate) fn make_directory(path: &Path, mode: u32) -> Result<(), FileError> {
    let created = DirBuilder::new().recursive(true).mode(mode).create(path);
    created.map_err(|cause| FileError::new("create the directory", path, cause))
}

/// Puts a file in place with this mode, whatever the umask.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
    replace(path, content, mode).map_err(|cause| FileError::new("write", path, cause))
}

/// The content of a regular file, `None` where there is nothing. What is neither
/// (a pipe would block for ever) is refused.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let content = || {
        if fs::metadata(path)?.is_file() {
            fs::read(path)
        } else {
            Err(io::Error::other("it is not a regular file; move it away"))
        }
    };
    match content() {
        Ok(content) => Ok(Some(content)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(FileError::new("read", path, cause)),
    }
}

fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "the path names no file",
        ));
    };
    // Always the same name, so that a crash leaves at most one file, which the
    // next run takes away.
    let mut beside = name.to_owned();
    beside.push(".new");
    let beside = directory.join(beside);
    match fs::remove_file(&beside) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(cause),
        _ => {}
    }
    let written = write_beside(&beside, content, mode).and_then(|()| fs::rename(&beside, path));
    if let Err(cause) = written {
        // The first error is the one to tell.
        let _ = fs::remove_file(&beside);
        return Err(cause);
    }
    File::open(directory)?.sync_all()
}

fn write_beside(beside: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    // Narrow from the start: it may be a key.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(beside)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubelet.conf");
        fs::write(directory.path().join("kubelet.conf.new"), "left by a crash").unwrap();
        write(&path, b"one", 0o644).unwrap();
        write(&path, b"two", 0o600).unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_told_from_what_cannot_be_read() {
        let directory = tempfile::tempdir().unwrap();
        assert!(read(&directory.path().join("none")).unwrap().is_none());
        let error = read(directory.path()).unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }

    #[test]
    fn a_directory_that_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none/file");
        let error = write(&path, b"", 0o600).unwrap_err();
        assert_eq!((error.path(), error.kind()), (&*path, ErrorKind::NotFound));
    }
}
