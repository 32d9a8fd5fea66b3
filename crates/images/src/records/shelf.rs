//! A directory of small files, each found by the digest of what it is about.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::credentials::hex;

const PREFIX: &str = "sha256-";
/// Of a file that is not whole yet.
const BESIDE: &str = ".tmp";

/// A file operation that failed.
#[derive(Debug, Error)]
#[error("cannot {verb} {}: {cause}; see to it that the node can write there", path.display())]
pub struct ShelfError {
    verb: &'static str,
    path: PathBuf,
    cause: io::Error,
}

/// Where the files of one kind are.
#[derive(Debug)]
pub(super) enum Shelf {
    Directory(PathBuf),
    /// Of a node that has no disk.
    Memory(BTreeMap<String, Vec<u8>>),
}

impl Shelf {
    pub(super) fn on_disk(directory: PathBuf) -> Result<Self, ShelfError> {
        make_directory(&directory)?;
        Ok(Self::Directory(directory))
    }

    pub(super) fn in_memory() -> Self {
        Self::Memory(BTreeMap::new())
    }

    pub(super) fn put(&mut self, about: &str, content: &[u8]) -> Result<(), ShelfError> {
        match self {
            Self::Directory(directory) => {
                // Somebody may have cleaned up while we ran.
                make_directory(directory)?;
                let path = directory.join(file_name(about));
                replace(directory, &path, content).map_err(failed("write", &path))
            }
            Self::Memory(files) => {
                files.insert(file_name(about), content.to_owned());
                Ok(())
            }
        }
    }

    pub(super) fn get(&self, about: &str) -> Result<Option<Vec<u8>>, ShelfError> {
        match self {
            Self::Directory(directory) => {
                let path = directory.join(file_name(about));
                absent_as_none(fs::read(&path)).map_err(failed("read", &path))
            }
            Self::Memory(files) => Ok(files.get(&file_name(about)).cloned()),
        }
    }

    /// It is no error if it is not there.
    pub(super) fn remove(&mut self, about: &str) -> Result<(), ShelfError> {
        match self {
            Self::Directory(directory) => {
                let path = directory.join(file_name(about));
                let removed = absent_as_none(fs::remove_file(&path));
                removed.map(|_| ()).map_err(failed("remove", &path))
            }
            Self::Memory(files) => {
                files.remove(&file_name(about));
                Ok(())
            }
        }
    }

    pub(super) fn count(&self) -> Result<usize, ShelfError> {
        match self {
            Self::Directory(directory) => {
                let names = whole_files(directory).map_err(failed("list", directory))?;
                Ok(names.len())
            }
            Self::Memory(files) => Ok(files.len()),
        }
    }

    /// All that are whole, with their names; those of others are passed over.
    pub(super) fn all(&self) -> Result<Vec<(String, Vec<u8>)>, ShelfError> {
        let directory = match self {
            Self::Directory(directory) => directory,
            Self::Memory(files) => return Ok(files.clone().into_iter().collect()),
        };
        let names = whole_files(directory).map_err(failed("list", directory))?;
        let mut files = Vec::new();
        for name in names {
            let path = directory.join(&name);
            match fs::read(&path) {
                Ok(content) => files.push((name, content)),
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "record passed over");
                }
            }
        }
        Ok(files)
    }

    /// For people: which file it is.
    pub(super) fn name_of(&self, about: &str) -> String {
        match self {
            Self::Directory(directory) => directory.join(file_name(about)).display().to_string(),
            Self::Memory(_) => file_name(about),
        }
    }
}

/// Their names, in order.
fn whole_files(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) && !name.ends_with(BESIDE) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Names of images have letters that names of files cannot have.
fn file_name(about: &str) -> String {
    format!("{PREFIX}{}", hex(&Sha256::digest(about.as_bytes())))
}

fn failed<'a>(verb: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> ShelfError + 'a {
    move |cause| ShelfError {
        verb,
        path: path.to_owned(),
        cause,
    }
}

fn make_directory(path: &Path) -> Result<(), ShelfError> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(path);
    made.map_err(failed("create the directory", path))
}

fn absent_as_none<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Written beside, synced, renamed; then the name is synced too.
fn replace(directory: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(BESIDE);
    let beside = PathBuf::from(beside);
    // What a crash left there.
    absent_as_none(fs::remove_file(&beside))?;
    let outcome = write_new(&beside, content).and_then(|()| fs::rename(&beside, path));
    if outcome.is_err() {
        let _ = fs::remove_file(&beside);
    }
    outcome?;
    File::open(directory)?.sync_all()
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    // The mode that a file is made with is cut by the process's mask.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_named_by_digest_and_for_the_node_alone() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("image_manager/pulled");
        let mut shelf = Shelf::on_disk(directory.clone()).unwrap();
        shelf.put("busybox", b"one").unwrap();
        // printf busybox | sha256sum
        let name = "sha256-9d75f0d7c398df565d7ac04c6819b62d6d8f9560f5eb4672596ecd8f7e96ae91";
        let path = directory.join(name);
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&root.path().join("image_manager")), 0o700);
    }

    #[test]
    fn both_kinds_of_shelf_keep_replace_list_and_remove() {
        let root = tempfile::tempdir().unwrap();
        let disk = Shelf::on_disk(root.path().join("pulled")).unwrap();
        for mut shelf in [disk, Shelf::in_memory()] {
            assert_eq!(shelf.get("a").unwrap(), None);
            shelf.put("a", b"old and longer").unwrap();
            shelf.put("a", b"new").unwrap();
            shelf.put("b", b"other").unwrap();
            assert_eq!(shelf.get("a").unwrap().unwrap(), b"new");
            assert_eq!(shelf.all().unwrap().len(), 2);
            shelf.remove("a").unwrap();
            shelf.remove("a").unwrap();
            assert_eq!(shelf.get("a").unwrap(), None);
            assert_eq!(shelf.get("b").unwrap().unwrap(), b"other");
        }
    }

    #[test]
    fn what_a_crash_left_half_written_is_neither_read_nor_in_the_way() {
        let root = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::on_disk(root.path().to_owned()).unwrap();
        let beside = root.path().join(file_name("a") + BESIDE);
        fs::write(&beside, "ha").unwrap();
        fs::write(root.path().join("README"), "not ours").unwrap();
        assert_eq!(shelf.all().unwrap(), []);
        shelf.put("a", b"whole").unwrap();
        assert_eq!(shelf.all().unwrap().len(), 1);
        assert!(!beside.exists());
    }

    #[test]
    fn a_directory_that_was_cleaned_away_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("pulling");
        let mut shelf = Shelf::on_disk(directory.clone()).unwrap();
        fs::remove_dir(&directory).unwrap();
        shelf.put("a", b"x").unwrap();
        assert_eq!(mode(&directory), 0o700);
    }

    #[test]
    fn an_error_names_the_file() {
        let root = tempfile::tempdir().unwrap();
        let in_the_way = root.path().join("file");
        fs::write(&in_the_way, "").unwrap();
        let error = Shelf::on_disk(in_the_way.join("pulled")).unwrap_err();
        assert!(error.to_string().contains("file/pulled"), "{error}");
    }
}
