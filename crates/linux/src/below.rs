//! Files that others write, below a root that nothing may lead out of: logs. They are
//! read in blocks, from what the kernel holds in memory at once, and otherwise by a few
//! threads for all readers together.

use std::fs::{self, File};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use seams::host::{Below, Directory, FileFacts, FileId, FileRead, OpenFile};
use seams::storage::Entry;
use tokio::sync::Semaphore;

use crate::trees::absent;

/// So many wait for the disk at once; others wait for them.
const AT_ONCE: usize = 4;

/// Work that waits for a disk, a few at a time, beside the threads of the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Turns {
    pub(crate) async fn take<T: Send + 'static>(
        self,
        work: impl FnOnce(Self) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let turn = Arc::clone(&self.0).acquire_owned().await;
        let work = tokio::task::spawn_blocking(move || {
            // Held until the disk has answered, whether somebody still waits or not.
            let _turn = turn;
            work(self)
        });
        work.await.map_err(io::Error::other)?
    }
}

/// What is at a path below a root. It is reached without being opened, and then has to
/// prove where it is: so links may point anywhere below the root, in any way.
pub(crate) fn look(root: &Path, path: &Path, turns: Turns) -> io::Result<Below> {
    let root = match fs::canonicalize(root) {
        Err(cause) if absent(&cause) => return Ok(Below::Absent),
        root => root?,
    };
    let descends = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !path.components().all(descends) {
        return Ok(Below::Outside);
    }
    let reached = openat(
        CWD,
        root.join(path),
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let reached = match reached.map_err(io::Error::from) {
        Err(cause) if absent(&cause) => return Ok(Below::Absent),
        reached => reached?,
    };
    let place = place_of(&reached);
    if !fs::read_link(&place)?.starts_with(&root) {
        return Ok(Below::Outside);
    }
    // The place is the file itself, wherever its name is now.
    let metadata = fs::metadata(&place)?;
    if metadata.is_dir() {
        return Ok(Below::Directory(Directory {
            modified: metadata.modified()?,
            entries: entries(&place)?,
        }));
    }
    if !metadata.is_file() {
        return Ok(Below::Other);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, &place, flags, Mode::empty())?);
    Ok(Below::File(Arc::new(ReadFile {
        file: Arc::new(file),
        always_waits: AtomicBool::new(false),
        turns,
    })))
}

fn place_of(reached: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", reached.as_fd().as_raw_fd()))
}

fn entries(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for found in fs::read_dir(directory)? {
        let found = found?;
        let is_directory = found.file_type()?.is_dir();
        if let Ok(name) = found.file_name().into_string() {
            entries.push(Entry { name, is_directory });
        }
    }
    entries.sort();
    Ok(entries)
}

/// Which file a path leads to.
pub(crate) fn id_at(path: &Path) -> io::Result<Option<FileId>> {
    match fs::metadata(path) {
        Err(cause) if absent(&cause) => Ok(None),
        metadata => Ok(Some(id(&metadata?))),
    }
}

fn id(metadata: &fs::Metadata) -> FileId {
    FileId {
        device: metadata.dev(),
        inode: metadata.ino(),
    }
}

#[derive(Debug)]
struct ReadFile {
    file: Arc<File>,
    /// Its file system cannot tell what is in memory.
    always_waits: AtomicBool,
    turns: Turns,
}

impl ReadFile {
    /// What is in memory; `None` if the disk has to be waited for.
    fn read_from_memory(&self, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.always_waits.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let mut buffers = [IoSliceMut::new(buffer)];
        match preadv2(&self.file, &mut buffers, at, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(Some(read)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                self.always_waits.store(true, Ordering::Relaxed);
                Ok(None)
            }
            Err(cause) => Err(cause.into()),
        }
    }
}

impl OpenFile for ReadFile {
    fn facts(&self) -> io::Result<FileFacts> {
        let metadata = self.file.metadata()?;
        Ok(FileFacts {
            id: id(&metadata),
            size: metadata.len(),
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        })
    }

    fn read_at(&self, at: u64, most: usize) -> FileRead<'_> {
        Box::pin(async move {
            let left = self.file.metadata()?.len().saturating_sub(at);
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(most);
            let mut buffer = vec![0; most];
            if most == 0 {
                return Ok(buffer);
            }
            if let Some(read) = self.read_from_memory(at, &mut buffer)? {
                buffer.truncate(read);
                return Ok(buffer);
            }
            let file = Arc::clone(&self.file);
            let read = move |_| {
                let read = file.read_at(&mut buffer, at)?;
                buffer.truncate(read);
                Ok(buffer)
            };
            self.turns.clone().take(read).await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::testing::tree;

    async fn content(below: Below) -> String {
        let Below::File(file) = below else {
            panic!("{below:?} is no file");
        };
        let mut content = Vec::new();
        loop {
            let block = file.read_at(content.len() as u64, 3).await.unwrap();
            if block.is_empty() {
                return String::from_utf8(content).unwrap();
            }
            content.extend(block);
        }
    }

    fn at(root: &Path, path: &str) -> Below {
        look(root, Path::new(path), Turns::default()).unwrap()
    }

    #[tokio::test]
    async fn links_lead_anywhere_below_the_root_and_nowhere_else() {
        let place = tree(&[("log/pods/a/0.log", "zero\n"), ("secret", "s3cret")]);
        let root = place.path().join("log");
        let link = |target: &Path, at: &str| symlink(target, root.join(at)).unwrap();
        link(Path::new("pods/a/0.log"), "relative");
        link(&root.join("pods/a/0.log"), "absolute");
        link(Path::new("../log/pods"), "around");
        link(Path::new("../secret"), "up");
        link(&place.path().join("secret"), "out");
        link(Path::new("/"), "slash");
        link(Path::new("nowhere"), "dangling");
        for path in ["pods/a/0.log", "relative", "absolute", "around/a/0.log"] {
            assert_eq!(content(at(&root, path)).await, "zero\n", "{path}");
        }
        let secret = place.path().join("secret");
        let secret = format!("slash{}", secret.display());
        let escapes = [
            "up",
            "out",
            "slash",
            &secret,
            "../secret",
            "pods/../../secret",
            "/etc",
        ];
        for path in escapes {
            let found = at(&root, path);
            assert!(matches!(found, Below::Outside), "{path}: {found:?}");
        }
        for path in ["dangling", "absent", "pods/a/0.log/below"] {
            let found = at(&root, path);
            assert!(matches!(found, Below::Absent), "{path}: {found:?}");
        }
    }

    #[test]
    fn directories_are_listed_and_pipes_are_not_waited_for() {
        let place = tree(&[("log/b/inner", ""), ("log/a", "")]);
        let root = place.path().join("log");
        symlink("b", root.join("link")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, root.join("pipe"), fifo, Mode::RUSR, 0).unwrap();
        let Below::Directory(directory) = at(&root, ".") else {
            panic!("it is one");
        };
        let names = directory.entries.iter();
        let names: Vec<_> = names
            .map(|one| (one.name.as_str(), one.is_directory))
            .collect();
        let wanted = [("a", false), ("b", true), ("link", false), ("pipe", false)];
        assert_eq!(names, wanted);
        assert!(matches!(at(&root, "pipe"), Below::Other));
        assert!(matches!(at(&root, "link"), Below::Directory(_)));
    }

    #[tokio::test]
    async fn a_file_stays_open_under_another_name_and_is_told_from_the_next() {
        let root = tree(&[("0.log", "first\n")]);
        let path = root.path().join("0.log");
        let Below::File(file) = at(root.path(), "0.log") else {
            panic!("it is one");
        };
        let own = file.facts().unwrap();
        assert_eq!((own.size, id_at(&path).unwrap()), (6, Some(own.id)));
        fs::rename(&path, root.path().join("0.log.1")).unwrap();
        assert_eq!(id_at(&path).unwrap(), None);
        fs::write(&path, "second\n").unwrap();
        assert_ne!(id_at(&path).unwrap(), Some(own.id));
        assert_eq!(file.read_at(2, 100).await.unwrap(), b"rst\n");
        assert!(file.read_at(6, 100).await.unwrap().is_empty());
        assert!(file.read_at(60, 100).await.unwrap().is_empty());
    }
}
