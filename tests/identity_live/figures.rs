//! What was counted while a load ran.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Requests and their answers. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    // Held for a push; nothing waits on it.
    counted: Arc<Mutex<Counted>>,
}

/// What a [`Tally`] has counted so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) times: Vec<Duration>,
    pub(crate) failures: Vec<String>,
}

impl Tally {
    pub(crate) fn answered(&self, took: Duration) {
        self.lock().times.push(took);
    }

    pub(crate) fn failed(&self, cause: String) {
        self.lock().failures.push(cause);
    }

    pub(crate) fn so_far(&self) -> Counted {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    pub(crate) fn requests(&self) -> usize {
        self.times.len() + self.failures.len()
    }

    pub(crate) fn slowest(&self) -> Duration {
        self.times.iter().max().copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        times.get(times.len() / 2).copied().unwrap_or_default()
    }
}
