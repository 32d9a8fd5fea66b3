//! Time and chance: everything that makes two runs of the same node differ.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A wait that has begun. It may be dropped at any point.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// The clock that the parts of one node share.
pub type SharedClock = Arc<dyn Clock>;

/// Wall time, monotonic time, waiting, and the randomness that spreads waits.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The wall clock, which may be set forward and back.
    fn now(&self) -> SystemTime;

    /// Time since a fixed point of this clock; never runs back.
    fn uptime(&self) -> Duration;

    fn sleep(&self, duration: Duration) -> Sleep;

    /// Uniform in [0, 1). For spreading load, not for secrets.
    fn random(&self) -> f64;
}

/// The time was up before the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the time was up")
    }
}

impl std::error::Error for Elapsed {}

/// `work`, dropped if it takes longer than `limit`.
pub async fn timeout<W: Future>(
    clock: &dyn Clock,
    limit: Duration,
    work: W,
) -> Result<W::Output, Elapsed> {
    let sleep = clock.sleep(limit);
    tokio::select! {
        biased;
        output = work => Ok(output),
        () = sleep => Err(Elapsed),
    }
}
