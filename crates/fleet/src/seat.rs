//! The nodes of a fleet as those may see them who only look.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::Member;
use tokio::sync::watch;

use crate::spec::Ailment;

/// One node.
#[derive(Debug)]
pub struct Seat {
    pub group: String,
    pub zone: Option<String>,
    /// What ails it, by our own doing.
    pub ailment: watch::Receiver<Ailment>,
    /// `None`: it does not run, or has no identity yet.
    pub member: watch::Receiver<Option<Member>>,
    /// When its last agent renewed the lease for the last time, by the clock's
    /// uptime.
    pub left: watch::Receiver<Option<Duration>>,
}

/// All of them, by name. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Seats {
    /// Held for one access.
    seats: Arc<Mutex<BTreeMap<String, Arc<Seat>>>>,
}

impl Seats {
    pub(crate) fn put(&self, name: &str, seat: Seat) {
        self.with(|seats| seats.insert(name.to_owned(), Arc::new(seat)));
    }

    pub(crate) fn take(&self, name: &str) {
        self.with(|seats| seats.remove(name));
    }

    pub fn all(&self) -> Vec<(String, Arc<Seat>)> {
        self.with(|seats| {
            let seats = seats.iter();
            seats
                .map(|(name, seat)| (name.clone(), seat.clone()))
                .collect()
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Arc<Seat>>) -> T) -> T {
        work(&mut self.seats.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
