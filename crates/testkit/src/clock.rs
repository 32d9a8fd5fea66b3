//! A clock for tests: a wall clock that starts where it is told and goes with
//! tokio's time, so that a paused runtime (`start_paused`) passes hours at once.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use seams::{Clock, Sleep};
use tokio::time::Instant;

/// A wall clock upon tokio's time.
#[derive(Debug)]
pub struct TokioClock {
    started: Instant,
    // Both are set by tests only; nothing waits while it is held.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    origin: SystemTime,
    random: u64,
}

impl TokioClock {
    /// To be called inside a runtime, whose time it follows.
    pub fn starting_at(origin: SystemTime) -> Self {
        Self {
            started: Instant::now(),
            state: Mutex::new(State { origin, random: 1 }),
        }
    }

    /// Sets the wall clock forward, as an operator or NTP does.
    pub fn jump_ahead(&self, by: Duration) {
        self.state().origin += by;
    }

    /// Sets the wall clock back.
    pub fn jump_back(&self, by: Duration) {
        self.state().origin -= by;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for TokioClock {
    fn now(&self) -> SystemTime {
        self.state().origin + self.started.elapsed()
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }

    /// The same sequence in every run.
    fn random(&self) -> f64 {
        let mut state = self.state();
        // Knuth's multiplier; the upper bits are the good ones.
        state.random = state
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let upper = u32::try_from(state.random >> 32).unwrap_or_default();
        f64::from(upper) / (f64::from(u32::MAX) + 1.0)
    }
}
