//! Files that others write, below a directory that nothing may lead out of.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use crate::storage::Entry;

/// Some bytes of a file, when the disk has them; none at its end.
pub type FileRead<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<u8>>> + Send + 'a>>;

/// What is at a path.
#[derive(Debug)]
pub enum Below {
    Absent,
    /// A link on the way leads out.
    Outside,
    File(Arc<dyn OpenFile>),
    Directory(Directory),
    /// A pipe, a device, ….
    Other,
}

/// A directory, and what is in it, sorted by name. Names that are no text are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    pub modified: SystemTime,
    pub entries: Vec<Entry>,
}

/// A file that is open, whatever becomes of its name.
pub trait OpenFile: fmt::Debug + Send + Sync + 'static {
    fn facts(&self) -> io::Result<FileFacts>;

    /// So many bytes at most; there may be more where it gives fewer, but not where it
    /// gives none.
    fn read_at(&self, at: u64, most: usize) -> FileRead<'_>;
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    pub id: FileId,
    /// Bytes.
    pub size: u64,
    pub modified: SystemTime,
}

/// Which file it is, while somebody has it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}
