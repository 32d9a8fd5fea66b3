//! What the verbs do, without HTTP: the way for controllers and for requests alike.

use serde_json::Value;

use super::created::CreateOptions;
use super::deleted::{DeleteOptions, Deletion};
use super::updated::UpdateOptions;
use super::written::Written;
use crate::clock::Clock;
use crate::failure::Failure;
use crate::kinds::Kind;
use crate::store::{Key, Store, Stored, WriteError};

/// Which half of an object a write is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status, of kinds that have one.
    Main,
    /// What a subresource of this name is allowed to change.
    Subresource(&'static str),
    /// A controller's own way: everything at once.
    Whole,
}

impl Part {
    #[expect(
        non_upper_case_globals,
        reason = "reads like the variants that it stands with"
    )]
    pub const Status: Self = Self::Subresource("status");
}

/// The store with the rules of objects: names, uids, times, generations, defaults,
/// admission, validation, finalizers and graceful deletion.
#[derive(Clone, Debug)]
pub struct Objects {
    pub(super) store: Store,
    pub(super) clock: Clock,
}

impl Objects {
    pub fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn get(&self, key: &Key) -> Result<Stored, Failure> {
        let found = self.store.get(key);
        found.ok_or_else(|| Failure::not_found(key.kind, &key.name))
    }

    /// A new object, admitted, defaulted and validated; `namespace` is empty for kinds
    /// without.
    pub async fn create(
        &self,
        kind: &'static Kind,
        namespace: &str,
        object: Value,
    ) -> Result<Stored, Failure> {
        let options = CreateOptions::default();
        stored(self.create_with(kind, namespace, object, &options).await?)
    }

    /// Reads, changes and writes the object, again for as long as others write between.
    /// `change` returns whether there is something to write.
    pub async fn modify(
        &self,
        key: &Key,
        part: Part,
        change: impl Fn(&mut Value) -> bool + Send + Sync,
    ) -> Result<Stored, Failure> {
        let options = UpdateOptions::default();
        let changed = |current: &Value| {
            let mut object = current.clone();
            Ok(if change(&mut object) {
                object
            } else {
                current.clone()
            })
        };
        stored(self.update_with(key, part, changed, &options).await?)
    }

    /// Deletes it, or marks it as to be deleted when it has finalizers or grace.
    /// The object as it is after that.
    pub async fn delete(&self, key: &Key, options: DeleteOptions) -> Result<Stored, Failure> {
        match self.delete_with(key, &options).await? {
            Deletion::Gone(written) | Deletion::Marked(written) => stored(written),
        }
    }
}

fn stored(written: Written) -> Result<Stored, Failure> {
    match written {
        Written::Stored(stored) | Written::Last(stored, _) => Ok(stored),
        Written::Dry(_) => Err(Failure::internal("a dry run has stored nothing")),
    }
}

/// What a client hears of a write that the store refused.
pub(super) fn refused(key: &Key, error: WriteError) -> Failure {
    let Key { kind, name, .. } = key;
    match error {
        WriteError::Exists => Failure::already_exists(kind, name),
        WriteError::Missing => Failure::not_found(kind, name),
        WriteError::Changed(_) => Failure::modified(kind, name),
        WriteError::Lost(cause) => Failure::internal(cause),
    }
}
