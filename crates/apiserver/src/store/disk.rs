//! The file in which the store is kept: redb's, with one row for each object and one for
//! the revision. What was before is not on disk: watches from before a restart end.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use serde_json::Value;
use thiserror::Error;

use super::collection::Collections;
use super::watch::Change;
use super::{FIRST, Key, Revision, Stored};
use crate::kinds::KINDS;

const FILE: &str = "store.redb";
/// The same while it is made. A start that is killed then has acknowledged nothing, and what it
/// leaves is not always a file that redb reads: the next start begins it anew.
const UNFINISHED: &str = "store.redb.new";
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const REVISION: &str = "revision";
const FORMAT: &str = "format";
/// Of the rows; one that is newer is not read.
const OUR_FORMAT: u64 = 1;

/// What the file's own cache may take: everything is in memory already.
const CACHE: usize = 4 << 20;

/// Why there is no store.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("cannot keep data in {path}: {cause}; choose another --data-dir, or --ephemeral")]
    Directory { path: PathBuf, cause: io::Error },
    #[error("{path} is in use by another server: end that one, or choose another --data-dir")]
    InUse { path: PathBuf },
    #[error("cannot read {path}: {cause}; move it away to begin with an empty cluster")]
    File { path: PathBuf, cause: redb::Error },
    #[error(
        "{path} was written by a newer version (format {found}, known is {OUR_FORMAT}): use that \
         version, or another --data-dir"
    )]
    Newer { path: PathBuf, found: u64 },
    #[error("{path} has a row {row:?} that is not an object: {problem}; move the file away")]
    Row {
        path: PathBuf,
        row: String,
        problem: String,
    },
}

/// Why a write is not on disk, and what to do.
#[derive(Debug, Error)]
pub(super) enum Unwritten {
    #[error(
        "the store cannot be written: {0}; free disk space if it is full: writes are tried again"
    )]
    Failed(redb::Error),
    #[error("the store cannot be written: {0}")]
    Closed(OpenError),
    /// The disk failed after all was written, and nobody knows what of it is kept.
    #[error(
        "the store cannot be written: what {path} has (revision {found}) is not what was \
         acknowledged (revision {acknowledged}), as the disk failed in the middle: see to the \
         disk, then start the server again"
    )]
    Unsure {
        path: PathBuf,
        found: Revision,
        acknowledged: Revision,
    },
}

#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    /// `None` after a write that failed: redb takes no other then, and is opened anew.
    database: Option<Database>,
}

impl Disk {
    pub(super) fn open(directory: &Path) -> Result<Self, OpenError> {
        let path = directory.join(FILE);
        // Secrets are in it: nobody else reads it.
        let mut make = fs::DirBuilder::new();
        make.recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|cause| refused(directory, cause))?;
        if let Some(made) = Self::make(directory, &path)? {
            return Ok(made);
        }
        let file = writable(&path).map_err(|cause| refused(directory, cause))?;
        let disk = Self::of_file(path, file)?;
        disk.prepare()?;
        Ok(disk)
    }

    fn database(&self) -> Result<&Database, redb::Error> {
        self.database.as_ref().ok_or(redb::Error::DatabaseClosed)
    }

    /// A new one, if there is none: made beside its place, and put there when it can be read.
    fn make(directory: &Path, path: &Path) -> Result<Option<Self>, OpenError> {
        let refused = |cause| refused(directory, cause);
        if path.try_exists().map_err(refused)? {
            return Ok(None);
        }
        let unfinished = directory.join(UNFINISHED);
        let file = writable(&unfinished).map_err(refused)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let path = path.to_owned();
                return Err(OpenError::InUse { path });
            }
            Err(fs::TryLockError::Error(cause)) => return Err(refused(cause)),
        }
        // Another may have finished it before we had the lock.
        if path.try_exists().map_err(refused)? {
            return Ok(None);
        }
        file.set_len(0).map_err(refused)?;
        let disk = Self::of_file(path.to_owned(), file)?;
        disk.prepare()?;
        let placed = fs::rename(&unfinished, path)
            .and_then(|()| fs::File::open(directory))
            .and_then(|directory| directory.sync_all());
        placed.map_err(refused)?;
        Ok(Some(disk))
    }

    fn of_file(path: PathBuf, file: fs::File) -> Result<Self, OpenError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE);
        match builder.create_file(file) {
            Ok(database) => Ok(Self {
                path,
                database: Some(database),
            }),
            Err(redb::DatabaseError::DatabaseAlreadyOpen) => Err(OpenError::InUse { path }),
            Err(other) => Err(OpenError::File {
                path,
                cause: other.into(),
            }),
        }
    }

    fn prepare(&self) -> Result<(), OpenError> {
        let found = self.make_tables().map_err(|cause| self.broken(cause))?;
        match found {
            OUR_FORMAT => Ok(()),
            found => Err(OpenError::Newer {
                path: self.path.clone(),
                found,
            }),
        }
    }

    /// The format of what is there.
    fn make_tables(&self) -> Result<u64, redb::Error> {
        let writing = self.database()?.begin_write()?;
        writing.open_table(OBJECTS)?;
        let mut numbers = writing.open_table(NUMBERS)?;
        let format = numbers.get(FORMAT)?.map(|format| format.value());
        if format.is_none() {
            numbers.insert(FORMAT, OUR_FORMAT)?;
        }
        drop(numbers);
        writing.commit()?;
        Ok(format.unwrap_or(OUR_FORMAT))
    }

    pub(super) fn read(&self, collections: &mut Collections) -> Result<(), OpenError> {
        let (revision, rows) = self.rows().map_err(|cause| self.broken(cause))?;
        let Some(revision) = revision else {
            return Ok(());
        };
        let parse = |(row, bytes): (String, Bytes)| {
            parse(&row, bytes).map_err(|problem| OpenError::Row {
                path: self.path.clone(),
                row,
                problem,
            })
        };
        let objects = rows.into_iter().map(parse).collect::<Result<_, _>>()?;
        collections.restore(revision, objects);
        Ok(())
    }

    #[expect(clippy::type_complexity, reason = "used once, right here")]
    fn rows(&self) -> Result<(Option<Revision>, Vec<(String, Bytes)>), redb::Error> {
        let reading = self.database()?.begin_read()?;
        let numbers = reading.open_table(NUMBERS)?;
        let revision = numbers.get(REVISION)?.map(|revision| revision.value());
        let mut rows = Vec::new();
        for row in reading.open_table(OBJECTS)?.iter()? {
            let (key, bytes) = row?;
            rows.push((
                key.value().to_owned(),
                Bytes::copy_from_slice(bytes.value()),
            ));
        }
        Ok((revision, rows))
    }

    /// All of them or none; on disk when it returns. `acknowledged` is the revision before them.
    pub(super) fn write(
        &mut self,
        changes: &[Change],
        acknowledged: Revision,
    ) -> Result<(), Unwritten> {
        if self.database.is_none() {
            self.open_again(acknowledged)?;
        }
        self.commit(changes).map_err(|cause| {
            self.database = None;
            Unwritten::Failed(cause)
        })
    }

    /// After a write that failed: with what was acknowledged, or not at all. What a failed write
    /// left behind may be in the machine's memory only, and nothing is built on that.
    fn open_again(&mut self, acknowledged: Revision) -> Result<(), Unwritten> {
        let path = self.path.clone();
        let file = writable(&path).map_err(|cause| {
            let directory = path.parent().unwrap_or(&path);
            Unwritten::Closed(refused(directory, cause))
        })?;
        let again = Self::of_file(path, file).map_err(Unwritten::Closed)?;
        let found = again.revision().map_err(Unwritten::Failed)?;
        let found = found.unwrap_or(FIRST);
        if found != acknowledged {
            return Err(Unwritten::Unsure {
                path: again.path,
                found,
                acknowledged,
            });
        }
        *self = again;
        Ok(())
    }

    fn revision(&self) -> Result<Option<Revision>, redb::Error> {
        let reading = self.database()?.begin_read()?;
        let revision = reading.open_table(NUMBERS)?.get(REVISION)?;
        Ok(revision.map(|revision| revision.value()))
    }

    fn commit(&self, changes: &[Change]) -> Result<(), redb::Error> {
        let Some(last) = changes.last() else {
            return Ok(());
        };
        let writing = self.database()?.begin_write()?;
        {
            let mut objects = writing.open_table(OBJECTS)?;
            for change in changes {
                let row = change.object.key().on_disk();
                if change.deleted {
                    objects.remove(row.as_str())?;
                } else {
                    objects.insert(row.as_str(), &**change.object.bytes())?;
                }
            }
            let mut numbers = writing.open_table(NUMBERS)?;
            numbers.insert(REVISION, last.revision)?;
        }
        writing.commit()?;
        Ok(())
    }

    fn broken(&self, cause: redb::Error) -> OpenError {
        OpenError::File {
            path: self.path.clone(),
            cause,
        }
    }
}

fn writable(path: &Path) -> io::Result<fs::File> {
    let mut open = fs::OpenOptions::new();
    open.read(true).write(true).create(true).truncate(false);
    open.mode(0o600).open(path)
}

fn refused(directory: &Path, cause: io::Error) -> OpenError {
    OpenError::Directory {
        path: directory.to_owned(),
        cause,
    }
}

fn parse(row: &str, bytes: Bytes) -> Result<Stored, String> {
    let words: Vec<&str> = row.splitn(3, '/').collect();
    let [group, plural, place] = *words.as_slice() else {
        return Err("its key has no name".to_owned());
    };
    let known = KINDS
        .iter()
        .find(|kind| kind.group == group && kind.plural == plural);
    let kind = known.ok_or_else(|| format!("there is no resource {plural}"))?;
    // Of a name with a slash in it, which earlier versions let in, the rest is all of it.
    let split = place.split_once('/').filter(|_| kind.namespaced);
    let (namespace, name) = split.unwrap_or(("", place));
    let object: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let revision = object["metadata"]["resourceVersion"].as_str();
    let revision = revision
        .and_then(|revision| revision.parse().ok())
        .ok_or("it has no resourceVersion")?;
    let key = Key::new(kind, namespace, name);
    Ok(Stored::kept(&key, revision, bytes, &object))
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};

    use redb::StorageBackend;
    use redb::backends::FileBackend;

    use super::*;

    pub(in crate::store) const HEALTHY: u8 = 0;
    /// Nothing more can be written.
    pub(in crate::store) const FULL: u8 = 1;
    /// It takes what is written, and cannot say that it is kept.
    pub(in crate::store) const TORN: u8 = 2;

    /// A disk that can fail.
    #[derive(Debug)]
    struct Brittle {
        file: FileBackend,
        state: Arc<AtomicU8>,
    }

    impl Brittle {
        fn unless(&self, state: u8) -> io::Result<()> {
            if self.state.load(Ordering::Relaxed) == state {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(())
        }
    }

    impl StorageBackend for Brittle {
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.file.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.unless(FULL)?;
            self.file.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.unless(TORN)?;
            self.file.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.unless(FULL)?;
            self.file.write(offset, data)
        }
    }

    impl Disk {
        /// On a disk that fails as long as it is told to, until it is opened again.
        pub(in crate::store) fn brittle(directory: &Path, state: &Arc<AtomicU8>) -> Self {
            let path = directory.join(FILE);
            let backend = Brittle {
                file: FileBackend::new(writable(&path).unwrap()).unwrap(),
                state: Arc::clone(state),
            };
            let database = Database::builder().create_with_backend(backend).unwrap();
            let disk = Self {
                path,
                database: Some(database),
            };
            disk.prepare().unwrap();
            disk
        }
    }

    #[test]
    fn a_row_is_read_by_what_its_kind_says_of_its_key() {
        let object = Bytes::from_static(br#"{"metadata": {"resourceVersion": "7"}}"#);
        for (row, expected) in [
            ("/pods/x/a", Ok(("x", "a"))),
            ("/nodes/a", Ok(("", "a"))),
            ("/events/x/a/b", Ok(("x", "a/b"))),
            ("/events/x/", Ok(("x", ""))),
            (
                "certificates.k8s.io/certificatesigningrequests/a:b",
                Ok(("", "a:b")),
            ),
            ("/pods", Err("its key has no name")),
            ("/bananas/x/a", Err("there is no resource bananas")),
        ] {
            let found = parse(row, object.clone());
            let found = found.as_ref().map(|one| (one.namespace(), one.name()));
            let found = found.map_err(String::as_str);
            assert_eq!(found, expected, "{row}");
        }
    }
}
