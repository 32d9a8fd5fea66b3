//! Files that are made once: whole, with their mode, and never over another.

use std::fmt;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    Created,
    /// It was there, with this very content.
    Unchanged,
}

impl fmt::Display for Put {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Created => "created",
            Self::Unchanged => "unchanged",
        })
    }
}

/// Why a file was not made. What stood there still does.
#[derive(Debug, Error)]
pub(crate) enum PutError {
    #[error(
        "{} is there already, with another content, and is not overwritten; move it away, or choose another place with --out",
        .0.display()
    )]
    Exists(PathBuf),
    #[error("cannot write {}: {cause}{}", path.display(), hint(cause))]
    Write { path: PathBuf, cause: io::Error },
}

fn hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        ErrorKind::NotFound => "; make its directory first",
        ErrorKind::PermissionDenied => "; choose a place that this user may write to",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free some space on that disk",
        _ => "",
    }
}

/// Makes the file, unless one with the same content is there.
pub(crate) fn put(path: &Path, content: &[u8], mode: u32) -> Result<Put, PutError> {
    let failed = |cause| PutError::Write {
        path: path.to_owned(),
        cause,
    };
    let is_same = || fs::read(path).is_ok_and(|found| found == content);
    match create(path, content, mode) {
        Ok(()) => Ok(Put::Created),
        Err(cause) if cause.kind() != ErrorKind::AlreadyExists => Err(failed(cause)),
        Err(_) if is_same() => Ok(Put::Unchanged),
        Err(_) => Err(PutError::Exists(path.to_owned())),
    }
}

/// Written beside and linked into place: a link never replaces what is there.
fn create(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".new-{}", std::process::id()));
    let beside = PathBuf::from(beside);
    // A process of the same number may have died here.
    let _ = fs::remove_file(&beside);
    let written = write(&beside, content, mode).and_then(|()| fs::hard_link(&beside, path));
    // What counts is whether the file is in place.
    let _ = fs::remove_file(&beside);
    written
}

fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    // Narrow from the start: it may be a key.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_once_and_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jane.key");
        assert_eq!(put(&path, b"one", 0o600).unwrap(), Put::Created);
        assert_eq!(put(&path, b"one", 0o600).unwrap(), Put::Unchanged);
        assert!(matches!(
            put(&path, b"two", 0o600),
            Err(PutError::Exists(_))
        ));
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_to_nowhere_is_not_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jane.key");
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert!(matches!(
            put(&path, b"one", 0o600),
            Err(PutError::Exists(_))
        ));
        assert!(!directory.path().join("nowhere").exists());
    }
}
