//! Files below the root: reading what the kernel says, and replacing a file of
//! the node's own so that a crash leaves the old one or the new one.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use seams::host::{FileEntry, HostError, Listing};

/// The files of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    root: PathBuf,
}

impl Files {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where a file of the machine is for us.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A file that has to be there.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Result<String, HostError> {
        let path = self.path(path);
        fs::read_to_string(&path).map_err(|cause| HostError::at(&path, cause))
    }

    /// `None` if it is not there.
    pub(crate) fn optional_text(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Option<String>, HostError> {
        let path = self.path(path);
        absent_as_none(fs::read_to_string(&path)).map_err(|cause| HostError::at(&path, cause))
    }

    /// The names in a directory, sorted; `None` if it is not there.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> Result<Option<Vec<String>>, HostError> {
        let path = self.path(path);
        let list = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&path)? {
                // Whoever has a name that is no text is none of those we know.
                names.extend(entry?.file_name().into_string());
            }
            names.sort();
            Ok(names)
        };
        absent_as_none(list()).map_err(|cause| HostError::at(&path, cause))
    }

    /// What `parse` finds wrong with a text is told with the file's name.
    pub(crate) fn parsed<T>(
        &self,
        path: impl AsRef<Path>,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<T, HostError> {
        parse(text).map_err(|malformed| {
            let cause = io::Error::new(ErrorKind::InvalidData, malformed.0);
            HostError::at(&self.path(path), cause)
        })
    }

    pub(crate) fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, HostError> {
        let path = self.path(path);
        absent_as_none(fs::read(&path)).map_err(|cause| HostError::at(&path, cause))
    }

    /// What is at a path, links followed; `None` if nothing is there.
    pub(crate) fn list(&self, path: &Path) -> Result<Option<Listing>, HostError> {
        let path = self.path(path);
        absent_as_none(list(&path)).map_err(|cause| HostError::at(&path, cause))
    }

    pub(crate) fn write(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), HostError> {
        let path = self.path(path);
        replace(&path, content, mode).map_err(|cause| HostError::at(&path, cause))
    }
}

/// What is wrong with a text, in a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

fn absent_as_none<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

fn list(path: &Path) -> io::Result<Listing> {
    let metadata = fs::metadata(path)?;
    if metadata.is_file() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        return Ok(Listing::File(entry(name.into_owned(), &metadata)));
    }
    if !metadata.is_dir() {
        return Ok(Listing::Other);
    }
    let mut entries = Vec::new();
    for found in fs::read_dir(path)? {
        let found = found?;
        let Ok(name) = found.file_name().into_string() else {
            continue;
        };
        // It may have gone since, or be a link that leads nowhere.
        if let Ok(metadata) = fs::metadata(found.path()) {
            entries.push(entry(name, &metadata));
        }
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Listing::Directory(entries))
}

fn entry(name: String, metadata: &fs::Metadata) -> FileEntry {
    FileEntry {
        name,
        regular: metadata.is_file(),
        size: metadata.len(),
    }
}

/// Written beside, synced, renamed; then the name is synced too.
fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a file's path"));
    };
    fs::create_dir_all(directory)?;
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(".new");
    let beside = directory.join(beside);
    // What a crash left there; or a link that somebody put there, which must
    // not be followed.
    absent_as_none(fs::remove_file(&beside))?;
    let outcome = write_new(&beside, content, mode)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&beside, path));
    if outcome.is_err() {
        let _ = fs::remove_file(&beside);
    }
    outcome?;
    File::open(directory)?.sync_all()
}

/// A file that was not there, with exactly this mode; not synced.
pub(crate) fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    // The mode that a file is made with is cut by the process's mask.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(content)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn a_file_is_replaced_as_a_whole_with_its_mode_and_nothing_beside_it() {
        let root = tree(&[("var/lib/node/state", "old and longer")]);
        let files = Files::new(root.path().to_owned());
        let path = Path::new("/var/lib/node/state");
        for (content, mode) in [("new", 0o600), ("newer", 0o666)] {
            files.write(path, content.as_bytes(), mode).unwrap();
            assert_eq!(files.read(path).unwrap().unwrap(), content.as_bytes());
            let metadata = fs::metadata(files.path(path)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode);
        }
        let names = files.names("/var/lib/node").unwrap();
        assert_eq!(names, Some(vec!["state".to_owned()]));
    }

    #[test]
    fn what_a_crash_left_beside_is_no_hindrance_and_links_are_not_followed() {
        let root = tree(&[("state", "old"), ("elsewhere", "untouched")]);
        let files = Files::new(root.path().to_owned());
        let elsewhere = root.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, root.path().join(".state.new")).unwrap();
        files.write(Path::new("/state"), b"new", 0o600).unwrap();
        assert_eq!(fs::read_to_string(elsewhere).unwrap(), "untouched");
        assert_eq!(files.text("/state").unwrap(), "new");
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_and_names_the_file() {
        // A directory stands where the file should be: the rename fails.
        let root = tree(&[("state/inner", "old")]);
        let files = Files::new(root.path().to_owned());
        let error = files.write(Path::new("/state"), b"new", 0o600).unwrap_err();
        assert!(error.what.ends_with("/state"), "{error}");
        assert_eq!(files.text("/state/inner").unwrap(), "old");
        let names = files.names("/").unwrap();
        assert_eq!(names, Some(vec!["state".to_owned()]));
    }

    #[test]
    fn a_path_is_listed_by_name_with_links_followed_and_those_to_nowhere_left_out() {
        use std::os::unix::fs::symlink;

        let root = tree(&[("d/b", "12"), ("d/a", "1"), ("d/sub/x", "")]);
        symlink("b", root.path().join("d/link")).unwrap();
        symlink("nowhere", root.path().join("d/dead")).unwrap();
        let files = Files::new(root.path().to_owned());
        let entry = |name: &str, regular, size| (name.to_owned(), regular, size);
        let Some(Listing::Directory(found)) = files.list(Path::new("/d")).unwrap() else {
            panic!("d is a directory");
        };
        let found: Vec<_> = found
            .into_iter()
            .map(|found| {
                (
                    found.name,
                    found.regular,
                    if found.regular { found.size } else { 0 },
                )
            })
            .collect();
        let expected = [
            entry("a", true, 1),
            entry("b", true, 2),
            entry("link", true, 2),
            entry("sub", false, 0),
        ];
        assert_eq!(found, expected);
        let file = files.list(Path::new("/d/a")).unwrap();
        let Some(Listing::File(file)) = file else {
            panic!("a is a file");
        };
        assert_eq!((file.name.as_str(), file.size), ("a", 1));
        assert_eq!(files.list(Path::new("/absent")).unwrap(), None);
    }

    #[test]
    fn what_is_not_there_is_told_from_what_cannot_be_read() {
        let root = tree(&[("file", "x")]);
        let files = Files::new(root.path().to_owned());
        assert_eq!(files.read(Path::new("/absent")).unwrap(), None);
        assert_eq!(files.optional_text("/absent").unwrap(), None);
        assert_eq!(files.names("/absent").unwrap(), None);
        assert!(files.text("/absent").is_err());
        assert!(files.read(Path::new("/")).is_err());
        assert!(files.names("/file").is_err());
    }
}
