//! The machine's clock.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the place where time comes from"
)]

use std::time::{Duration, Instant, SystemTime};

use seams::{Clock, Sleep};

/// The clock of the machine.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }

    fn random(&self) -> f64 {
        fastrand::f64()
    }
}
