//! So many may ask in a second, and so many at once.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use seams::SharedClock;

/// Full at first; every question takes one out.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: f64,
    most: f64,
    clock: SharedClock,
    // Held for a few instructions.
    left: Mutex<(f64, Duration)>,
}

impl Rate {
    pub(super) fn new(per_second: u32, at_once: u32, clock: SharedClock) -> Self {
        let most = f64::from(at_once);
        let left = Mutex::new((most, clock.uptime()));
        Self {
            per_second: f64::from(per_second),
            most,
            clock,
            left,
        }
    }

    /// Whether one may ask now. Who may not is not counted.
    pub(super) fn take(&self) -> bool {
        let now = self.clock.uptime();
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_sub(left.1).as_secs_f64();
        let refilled = (left.0 + passed * self.per_second).min(self.most);
        let taken = refilled >= 1.0;
        *left = (if taken { refilled - 1.0 } else { refilled }, now);
        taken
    }
}
