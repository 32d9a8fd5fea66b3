//! File operations as a list of steps. What to do is planned first and carried
//! out step by step, so that a test can stop between any two of them and look at
//! what a crash would have left behind.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file operation that failed.
#[derive(Debug, Error)]
#[error("cannot {verb} {}: {cause}{}", path.display(), hint(cause))]
pub struct FileError {
    pub(crate) verb: &'static str,
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) cause: io::Error,
}

impl FileError {
    pub fn kind(&self) -> ErrorKind {
        self.cause.kind()
    }
}

fn hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free some space on that disk",
        ErrorKind::FileTooLarge => {
            "; raise the limit on file sizes (ulimit -f) of whoever writes it"
        }
        ErrorKind::PermissionDenied => "; give it to the user that the node runs as",
        ErrorKind::ReadOnlyFilesystem => "; mount that file system for writing",
        ErrorKind::NotADirectory => "; move away the file that stands where a directory must",
        _ => "",
    }
}

/// One change on disk: it has happened, or it has not.
pub(crate) enum Step {
    MakeDirectory(PathBuf),
    /// A new file, synced. Written under a name that nobody reads, so that a
    /// crash half-way through leaves nothing that could be taken for whole.
    Write {
        path: PathBuf,
        content: Vec<u8>,
        mode: u32,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Link {
        target: PathBuf,
        path: PathBuf,
    },
    Remove(PathBuf),
    /// Makes the names in a directory outlive a power cut.
    SyncDirectory(PathBuf),
}

impl Step {
    pub(crate) fn run(&self) -> Result<(), FileError> {
        let (verb, path, outcome) = match self {
            Self::MakeDirectory(path) => (
                "create the directory",
                path,
                DirBuilder::new().recursive(true).mode(0o755).create(path),
            ),
            Self::Write {
                path,
                content,
                mode,
            } => ("write", path, write(path, content, *mode)),
            Self::Rename { from, to } => ("put a file in place at", to, fs::rename(from, to)),
            Self::Link { target, path } => ("create the symlink", path, symlink(target, path)),
            Self::Remove(path) => ("remove", path, fs::remove_file(path)),
            Self::SyncDirectory(path) => (
                "sync the directory",
                path,
                File::open(path).and_then(|directory| directory.sync_all()),
            ),
        };
        outcome.map_err(|cause| FileError {
            verb,
            path: path.clone(),
            cause,
        })
    }
}

// The content may be a key.
impl fmt::Debug for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MakeDirectory(path) => write!(formatter, "make {}", path.display()),
            Self::Write { path, mode, .. } => {
                write!(formatter, "write {} {mode:o}", path.display())
            }
            Self::Rename { from, to } => {
                write!(formatter, "rename {} {}", from.display(), to.display())
            }
            Self::Link { target, path } => {
                write!(formatter, "link {} {}", target.display(), path.display())
            }
            Self::Remove(path) => write!(formatter, "remove {}", path.display()),
            Self::SyncDirectory(path) => write!(formatter, "sync {}", path.display()),
        }
    }
}

pub(crate) fn run_all(steps: &[Step]) -> Result<(), FileError> {
    steps.iter().try_for_each(Step::run)
}

/// What stands at a path, links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Nothing,
    Link,
    File,
    Directory,
    Other,
}

impl Entry {
    pub(crate) fn at(path: &Path) -> Result<Self, FileError> {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Self::Nothing),
            Err(cause) => return Err(look_at(path, cause)),
        };
        let kind = metadata.file_type();
        Ok(match () {
            () if kind.is_symlink() => Self::Link,
            () if kind.is_file() => Self::File,
            () if kind.is_dir() => Self::Directory,
            () => Self::Other,
        })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Nothing => "nothing",
            Self::Link => "a symlink",
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Other => "neither a file nor a directory",
        })
    }
}

/// Whether something is there, links followed: a dangling link is nothing.
pub(crate) fn exists(path: &Path) -> Result<bool, FileError> {
    match fs::metadata(path) {
        Ok(_) => Ok(true),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(look_at(path, cause)),
    }
}

/// The content of a regular file. Anything else (a pipe would block for ever) is
/// refused.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let content = || {
        if fs::metadata(path)?.is_file() {
            fs::read(path)
        } else {
            Err(io::Error::other("it is not a regular file"))
        }
    };
    content().map_err(|cause| FileError {
        verb: "read",
        path: path.to_owned(),
        cause,
    })
}

pub(crate) fn look_at(path: &Path, cause: io::Error) -> FileError {
    FileError {
        verb: "look at",
        path: path.to_owned(),
        cause,
    }
}

/// The name under which a file is written before it is put in place.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    // Never through a file or link that somebody else has put there.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if written.is_err() {
        // A full disk must not stay full of our attempts; the write's error is
        // the one to tell.
        let _ = fs::remove_file(path);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operator_can_mend_is_said_with_the_error() {
        // Linux's numbers: ENOSPC, EDQUOT, EFBIG, EROFS.
        for (code, expected) in [
            (28, "free some space on that disk"),
            (122, "free some space on that disk"),
            (27, "raise the limit on file sizes"),
            (30, "mount that file system for writing"),
        ] {
            let error = FileError {
                verb: "write",
                path: PathBuf::from("/pki/a.pem"),
                cause: io::Error::from_raw_os_error(code),
            };
            let text = error.to_string();
            assert!(text.starts_with("cannot write /pki/a.pem: "), "{text}");
            assert!(text.contains(expected), "{text}");
        }
    }
}
