//! From the container runtime to observed pods: what truly runs on the node.
//!
//! In: a runtime and a clock. Lists at intervals, events of the runtime as hints,
//! and requests for a look at once. Out: for each pod a `watch` channel with what
//! the runtime holds of it, the set of all pods that it holds anything of, and how
//! the observation itself fares.
//!
//! A list tells which pods changed; only these are asked about, each by a look of
//! its own, so that a call that hangs keeps no other pod waiting.
//!
//! It must not know what pods should be, nor who wants to know how they are.

mod events;
pub mod health;
mod inspect;
mod ledger;
mod listing;
mod metrics;
mod observations;
#[cfg(test)]
mod testruntime;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use seams::{Clock, SharedClock, SharedRuntime};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use types::figures::Board;

pub use health::{Health, Stuck, Unhealthy};
pub use observations::{Ended, Observations, Observed};

use events::Events;
use inspect::Call;
use ledger::{Done, Job, Ledger, STUCK_AFTER};
use metrics::{Metrics, Present};
use observations::{Publisher, Request};

/// How many pods are looked at at once: the runtime has other things to do, too.
const LOOKS: usize = 10;

/// Hints that may wait to be taken up; more of them wait in the stream.
const HINTS: usize = 64;

/// One that observes the pods of a runtime.
#[derive(Debug)]
pub struct Pleg {
    runtime: SharedRuntime,
    clock: SharedClock,
    publisher: Publisher,
    requests: mpsc::Receiver<Request>,
    metrics: Arc<Metrics>,
}

impl Pleg {
    /// It, and where its observations are seen. Nothing happens before it runs.
    pub fn new(
        runtime: SharedRuntime,
        clock: SharedClock,
        figures: &Board,
    ) -> (Self, Observations) {
        let (publisher, observations, requests) = observations::channel();
        let metrics = Arc::<Metrics>::default();
        figures.hang(metrics.clone());
        figures.hang(Arc::new(Present(publisher.shelf())));
        let pleg = Self {
            runtime,
            clock,
            publisher,
            requests,
            metrics,
        };
        (pleg, observations)
    }

    /// Looks that are under way at the end are dropped: they change nothing.
    pub async fn run(self, shutdown: CancellationToken) {
        let (hints, hinted) = mpsc::channel(HINTS);
        let events = Events {
            runtime: self.runtime.clone(),
            clock: self.clock.clone(),
            hints,
            metrics: self.metrics.clone(),
        };
        let both = async {
            tokio::join!(events.run(), self.observe(hinted));
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = both => {}
        }
    }

    async fn observe(self, mut hints: mpsc::Receiver<events::Hint>) {
        let Self {
            runtime,
            clock,
            publisher,
            mut requests,
            metrics,
        } = self;
        let worker = Worker {
            runtime,
            clock: clock.clone(),
            room: Arc::new(Semaphore::new(LOOKS)),
        };
        let call = Call::new(clock.clone());
        let mut ledger = Ledger::new(publisher, call, clock.uptime());
        let mut work = JoinSet::new();
        let mut listed_at = None;
        loop {
            for job in ledger.jobs(clock.uptime()) {
                if let Job::Relist { at, .. } = job
                    && let Some(before) = listed_at.replace(at)
                {
                    metrics.relist_interval.took(at.saturating_sub(before));
                }
                work.spawn(worker.clone().work(job));
            }
            let now = clock.uptime();
            let wake = ledger
                .wake(now)
                .map(|wake| clock.sleep(wake.saturating_sub(now)));
            let further = tokio::select! {
                Some(done) = work.join_next() => match done {
                    Ok(done) => {
                        count(&metrics, &done, &*clock);
                        ledger.done(done, clock.uptime())
                    }
                    // A look that panicked: there is none, and nobody cancels them.
                    Err(_) => Vec::new(),
                },
                Some(request) = requests.recv() => {
                    ledger.request(request);
                    Vec::new()
                }
                Some(hint) = hints.recv() => {
                    ledger.hint(hint, clock.uptime());
                    Vec::new()
                }
                () = until(wake) => Vec::new(),
            };
            for job in further {
                work.spawn(worker.clone().work(job));
            }
        }
    }
}

/// How long it took, and that there was one.
fn count(metrics: &Metrics, done: &Done, clock: &dyn Clock) {
    let now = clock.uptime();
    match done {
        Done::Relist { at, listing, .. } => {
            metrics.relist_duration.took(now.saturating_sub(*at));
            if listing.is_ok() {
                let since_1970 = clock.now().duration_since(SystemTime::UNIX_EPOCH);
                let seconds = since_1970.unwrap_or_default().as_secs_f64().trunc();
                metrics.last_seen.set(seconds);
            }
        }
        Done::Look { at, .. } => metrics.look_duration.took(now.saturating_sub(*at)),
    }
}

async fn until(wake: Option<seams::Sleep>) {
    match wake {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}

/// What carries out jobs.
#[derive(Clone, Debug)]
struct Worker {
    runtime: SharedRuntime,
    clock: SharedClock,
    room: Arc<Semaphore>,
}

impl Worker {
    async fn work(self, job: Job) -> Done {
        match job {
            Job::Relist { turn, at } => {
                let listing = inspect::list_all(&*self.runtime).await;
                Done::Relist { turn, at, listing }
            }
            Job::Look {
                uid,
                turn,
                at,
                listed,
                call,
            } => {
                let look = async {
                    let runtime = &*self.runtime;
                    let listed = match listed {
                        Some(listed) => listed,
                        None => inspect::list_one(runtime, &uid, &call).await?,
                    };
                    let observed = inspect::inspect(runtime, &listed, at, &call).await?;
                    Ok(Box::new((listed, observed)))
                };
                let seen = self.in_turn(look).await;
                Done::Look {
                    uid,
                    turn,
                    at,
                    seen,
                }
            }
        }
    }

    /// A look that hangs gives its room up: there is one at most for each pod.
    async fn in_turn<T>(&self, look: impl Future<Output = T>) -> T {
        let room = self.room.acquire().await;
        let mut look = std::pin::pin!(look);
        tokio::select! {
            seen = &mut look => return seen,
            () = self.clock.sleep(PATIENCE) => drop(room),
        }
        look.await
    }
}

/// How long a look may keep others from theirs.
const PATIENCE: Duration = STUCK_AFTER;
