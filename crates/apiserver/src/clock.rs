//! Wall time and waiting. The seams are the node's; a server needs only these two.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// What the server takes for now. Waits are tokio's, so a test's paused runtime drives
/// them; its wall clock is then one that follows the paused runtime.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    pub fn new(wall: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(wall))
    }

    /// One that starts at `origin` and moves with tokio's time.
    pub fn starting_at(origin: SystemTime) -> Self {
        let start = tokio::time::Instant::now();
        Self::new(move || origin + start.elapsed())
    }

    pub fn now(&self) -> SystemTime {
        (self.0)()
    }

    pub fn timestamp(&self) -> Timestamp {
        Timestamp::try_from(self.now()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// As `metav1.Time` is written: whole seconds.
    pub fn seconds(&self) -> String {
        self.timestamp().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the server waits; the runtime's clock can be paused"
    )]
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Clock({:?})", self.now())
    }
}
