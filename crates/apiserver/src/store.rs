//! Objects by key, with one revision for all of them, and their changes in order.
//!
//! Reads come from memory. Writes go through one writer, which takes all that wait, checks
//! each against what the ones before it made, brings them to disk with one sync, and only
//! then shows them: nobody sees, and nobody is told of, what a crash could still take away.

mod collection;
mod disk;
mod key;
mod selector;
mod stored;
mod watch;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::Value;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

pub use disk::OpenError;
pub use key::Key;
pub use selector::Selector;
pub use stored::Stored;
pub use watch::{Change, Watch};
pub use writer::Writer;

use crate::kinds::Kind;
use collection::Collections;
use disk::Disk;
use writer::{Operation, Order};

/// Writes that may wait; who comes later waits for room.
const WAITING: usize = 4096;

/// The place of a write in the order of all writes.
pub type Revision = u64;

/// Of an empty store. An object's revision is never 0, which clients take for "whatever there is".
const FIRST: Revision = 1;

/// What has to hold for a write to take place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Whatever is there.
    Any,
    /// The object as it was read.
    At(Revision),
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WriteError {
    #[error("there is an object of this name")]
    Exists,
    #[error("there is no such object")]
    Missing,
    #[error("the object is at revision {0} now")]
    Changed(Revision),
    /// Why the store cannot keep it, and what to do.
    #[error("{0}")]
    Lost(String),
}

/// Revisions before this one are no longer kept.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("revisions before {0} are no longer kept")]
pub struct Compacted(pub Revision);

/// Objects at one revision.
#[derive(Clone, Debug)]
pub struct Listing {
    pub items: Vec<Stored>,
    pub revision: Revision,
}

/// How much of the past is kept, for each kind of object.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub changes: usize,
    pub bytes: usize,
    pub age: Duration,
    /// Changes that may wait for one watcher before it is ended.
    pub behind: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            changes: 10_000,
            bytes: 32 << 20,
            // As long as upstream keeps revisions.
            age: Duration::from_secs(300),
            // More than the writer shows at one time, and some: a watcher that keeps up is never
            // ended, however many write.
            behind: 4 * writer::BATCH,
        }
    }
}

/// Cheap to clone: all clones are the same store.
#[derive(Clone, Debug)]
pub struct Store {
    collections: Arc<RwLock<Collections>>,
    orders: mpsc::Sender<Order>,
    /// Whether the last write failed.
    failing: Arc<AtomicBool>,
}

impl Store {
    /// What is kept in `directory`, or an empty store that is gone with the process.
    /// Blocks while the disk is read. Nothing is written until the writer runs.
    pub fn open(directory: Option<&Path>, window: Window) -> Result<(Self, Writer), OpenError> {
        let mut collections = Collections::new(window);
        let disk = directory.map(Disk::open).transpose()?;
        if let Some(disk) = &disk {
            disk.read(&mut collections)?;
        }
        Ok(Self::of(collections, disk))
    }

    fn of(collections: Collections, disk: Option<Disk>) -> (Self, Writer) {
        let (orders, waiting) = mpsc::channel(WAITING);
        let store = Self {
            collections: Arc::new(RwLock::new(collections)),
            orders,
            failing: Arc::default(),
        };
        let writer = Writer::new(&store, waiting, disk);
        (store, writer)
    }

    /// Whether nothing can be written at the moment.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    pub fn get(&self, key: &Key) -> Option<Stored> {
        self.read(|collections| collections.get(key))
    }

    /// The object, and the revision of the store at which it was read.
    pub fn get_at(&self, key: &Key) -> (Option<Stored>, Revision) {
        self.read(|collections| (collections.get(key), collections.revision()))
    }

    /// In the order of their names; `None` means all namespaces.
    pub fn list(&self, kind: &'static Kind, namespace: Option<&str>) -> Listing {
        self.read(|collections| collections.list(kind, namespace))
    }

    /// As it was at a revision of the past.
    pub fn list_at(
        &self,
        kind: &'static Kind,
        namespace: Option<&str>,
        revision: Revision,
    ) -> Result<Listing, Compacted> {
        self.read(|collections| collections.list_at(kind, namespace, revision))
    }

    pub fn revision(&self) -> Revision {
        self.read(Collections::revision)
    }

    /// Returns when it is durable; `metadata.resourceVersion` is set by the store.
    pub async fn create(&self, key: Key, object: Value) -> Result<Stored, WriteError> {
        self.order(key, Operation::Create(object)).await
    }

    pub async fn update(
        &self,
        key: Key,
        expect: Expect,
        object: Value,
    ) -> Result<Stored, WriteError> {
        self.order(key, Operation::Update(expect, object)).await
    }

    /// The object as it was, at the revision at which it went.
    pub async fn delete(&self, key: Key, expect: Expect) -> Result<Stored, WriteError> {
        self.order(key, Operation::Delete(expect)).await
    }

    /// Changes after `after`, in order. A watcher that falls too far behind is ended.
    pub fn watch(
        &self,
        kind: &'static Kind,
        namespace: Option<&str>,
        after: Revision,
    ) -> Result<Watch, Compacted> {
        let selector = Selector::in_namespace(namespace);
        self.watch_selected(kind, selector, after)
    }

    /// Changes of objects that are or were selected.
    pub fn watch_selected(
        &self,
        kind: &'static Kind,
        selector: Selector,
        after: Revision,
    ) -> Result<Watch, Compacted> {
        let mut collections = write(&self.collections);
        let (backlog, live) = collections.watch(kind, selector, after)?;
        drop(collections);
        Ok(Watch::new(backlog, live, Arc::clone(&self.collections)))
    }

    /// What is there, and everything after it: no change is between the two.
    pub fn list_and_watch(&self, kind: &'static Kind, selector: Selector) -> (Listing, Watch) {
        let mut collections = write(&self.collections);
        let mut listing = collections.list(kind, selector.namespace());
        listing.items.retain(|object| selector.matches(object));
        let live = collections.follow(kind, selector);
        drop(collections);
        let watch = Watch::new(Vec::new(), live, Arc::clone(&self.collections));
        (listing, watch)
    }

    async fn order(&self, key: Key, operation: Operation) -> Result<Stored, WriteError> {
        let ended = || WriteError::Lost("the server is shutting down".to_owned());
        let (answer, answered) = oneshot::channel();
        let order = Order {
            key,
            operation,
            answer,
        };
        self.orders.send(order).await.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }

    fn read<R>(&self, ask: impl FnOnce(&Collections) -> R) -> R {
        ask(&read(&self.collections))
    }
}

/// A lock is held for moments and never over an await. One who panicked with it has changed
/// nothing halfway: what is in it is replaced whole.
fn read(collections: &RwLock<Collections>) -> std::sync::RwLockReadGuard<'_, Collections> {
    collections.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(collections: &RwLock<Collections>) -> std::sync::RwLockWriteGuard<'_, Collections> {
    collections.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
