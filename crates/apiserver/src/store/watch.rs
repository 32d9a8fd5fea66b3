//! Changes as they happen.

use std::collections::VecDeque;
use std::sync::{Arc, RwLock};

use tokio::sync::mpsc;

use super::collection::Collections;
use super::{Revision, Selector, Stored, read};

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    pub revision: Revision,
    /// As it is now; as it was when it went, with the revision at which it did.
    pub object: Stored,
    pub previous: Option<Stored>,
    pub deleted: bool,
}

impl Change {
    /// Whether one who sees only what is selected sees something of it.
    pub(super) fn concerns(&self, selector: &Selector) -> bool {
        let was = |previous: &Stored| selector.matches(previous);
        selector.matches(&self.object) || self.previous.as_ref().is_some_and(was)
    }
}

/// Changes of one kind, each once and in order.
#[derive(Debug)]
pub struct Watch {
    backlog: VecDeque<Arc<Change>>,
    live: mpsc::Receiver<Arc<Change>>,
    collections: Arc<RwLock<Collections>>,
}

impl Watch {
    pub(super) fn new(
        backlog: Vec<Arc<Change>>,
        live: mpsc::Receiver<Arc<Change>>,
        collections: Arc<RwLock<Collections>>,
    ) -> Self {
        Self {
            backlog: backlog.into(),
            live,
            collections,
        }
    }

    /// `None` when it fell behind: list again, or watch from the last revision seen.
    pub async fn next(&mut self) -> Option<Arc<Change>> {
        match self.backlog.pop_front() {
            Some(change) => Some(change),
            None => self.live.recv().await,
        }
    }

    /// The revision up to which everything has been taken from this watch, if nothing
    /// waits in it.
    pub fn settled(&self) -> Option<Revision> {
        // In this order: what was shown up to here is in the queue by now.
        let revision = read(&self.collections).revision();
        let nothing_waits = self.backlog.is_empty() && self.live.is_empty();
        (nothing_waits && !self.live.is_closed()).then_some(revision)
    }
}
