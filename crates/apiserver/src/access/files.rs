//! Files of keys and certificates: there whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file that could not be read or put in place. What stood there before still does.
#[derive(Debug, Error)]
#[error("cannot {verb} {}: {cause}", path.display())]
pub struct FileError {
    verb: &'static str,
    path: PathBuf,
    #[source]
    cause: io::Error,
}

impl FileError {
    fn new(verb: &'static str, path: &Path, cause: io::Error) -> Self {
        Self {
            verb,
            path: path.to_owned(),
            cause,
        }
    }
}

/// Makes a directory for its owner alone, and those above it.
pub(crate) fn make_directory(path: &Path) -> Result<(), FileError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|cause| FileError::new("create the directory", path, cause))
}

/// The text of a file, `None` where there is none.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(FileError::new("read", path, cause)),
    }
}

/// Written beside, synced, renamed; the mode is the one asked for, whatever the umask.
pub(crate) fn write(path: &Path, content: &str, mode: u32) -> Result<(), FileError> {
    replace(path, content, mode).map_err(|cause| FileError::new("write", path, cause))
}

fn replace(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    // One name for ever: what a crash leaves is taken away by the next start.
    let mut beside = name.to_owned();
    beside.push(".new");
    let beside = directory.join(beside);
    match fs::remove_file(&beside) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(cause),
        _ => {}
    }
    // Narrow from the start: it may be a key.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(content.as_bytes())?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_what_a_crash_left_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.key");
        fs::write(directory.path().join("ca.key.new"), "half of a").unwrap();
        assert!(read(&path).unwrap().is_none());
        write(&path, "one", 0o644).unwrap();
        write(&path, "two", 0o600).unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let error = read(directory.path()).unwrap_err();
        assert!(error.to_string().starts_with("cannot read /"), "{error}");
    }
}
