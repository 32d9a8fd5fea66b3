//! Hints from the runtime: its stream of container events, where it has one.
//!
//! An event says which pod to look at, nothing else: what it tells of the pod is
//! older than a look would be, and may come twice or not at all.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt as _;
use seams::cri::{ContainerEventResponse, GetEventsRequest};
use seams::{RuntimeError, SharedClock, SharedRuntime};
use tokio::sync::mpsc;
use tracing::{info, warn};
use types::PodUid;

use crate::listing;
use crate::metrics::Metrics;

/// A stream that has not failed for so long is one. A runtime that has none says
/// so at once, but not always before it is asked for the first event.
const TRUSTED_AFTER: Duration = Duration::from_secs(10);

/// Between a stream's end and the next try, doubled each time.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A runtime that has no events may be replaced by one that has them.
const ASKED_AGAIN: Duration = Duration::from_secs(5 * 60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// Something happened to this pod.
    Pod(PodUid),
    /// Something happened to this sandbox or container; whose it is, was not said.
    Part(String),
    /// Whether events can be relied on from now on.
    Streaming(bool),
}

/// Follows the stream, and asks for it anew when it ends.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) runtime: SharedRuntime,
    pub(crate) clock: SharedClock,
    pub(crate) hints: mpsc::Sender<Hint>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Events {
    pub(crate) async fn run(self) {
        let mut wait = FIRST_WAIT;
        loop {
            let mut trusted = false;
            let ended = self.follow(&mut trusted).await;
            if trusted {
                self.tell(Hint::Streaming(false)).await;
                wait = FIRST_WAIT;
            }
            if ended.is_err() {
                self.metrics.streams_failed.inc();
            }
            let lacking = ended.as_ref().is_err_and(RuntimeError::is_unimplemented);
            match ended {
                Err(_) if lacking => {
                    info!("the runtime tells no container events; pods are relisted");
                }
                Err(error) if trusted => {
                    warn!(err = %error, "the runtime's container events have ended");
                }
                _ => {}
            }
            self.clock
                .sleep(if lacking { ASKED_AGAIN } else { wait })
                .await;
            wait = LONGEST_WAIT.min(wait * 2);
        }
    }

    /// Until the stream ends.
    async fn follow(&self, trusted: &mut bool) -> Result<(), RuntimeError> {
        let mut patience = self.clock.sleep(TRUSTED_AFTER);
        let mut opening = self.runtime.get_container_events(GetEventsRequest {});
        let mut events = loop {
            tokio::select! {
                biased;
                opened = &mut opening => break opened?,
                () = &mut patience, if !*trusted => self.trust(trusted).await,
            }
        };
        self.metrics.streams.inc();
        loop {
            tokio::select! {
                biased;
                event = events.next() => {
                    let Some(event) = event else { return Ok(()) };
                    let event = event?;
                    self.metrics.event_age.took(self.age(&event));
                    self.trust(trusted).await;
                    self.tell(hint(event)).await;
                }
                () = &mut patience, if !*trusted => self.trust(trusted).await,
            }
        }
    }

    fn age(&self, event: &ContainerEventResponse) -> Duration {
        let created = Duration::from_nanos(event.created_at.try_into().unwrap_or_default());
        let now = self.clock.now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap_or_default().saturating_sub(created)
    }

    async fn trust(&self, trusted: &mut bool) {
        if !*trusted {
            *trusted = true;
            self.tell(Hint::Streaming(true)).await;
        }
    }

    /// Without a listener everything is about to end.
    async fn tell(&self, hint: Hint) {
        let _ = self.hints.send(hint).await;
    }
}

fn hint(event: ContainerEventResponse) -> Hint {
    let sandbox = event.pod_sandbox_status.unwrap_or_default();
    if let Some(pod) = listing::owner(&sandbox.labels) {
        return Hint::Pod(pod.uid);
    }
    let statuses = event.containers_statuses.iter();
    let mut owners = statuses.filter_map(|status| listing::owner(&status.labels));
    match owners.next() {
        Some(pod) => Hint::Pod(pod.uid),
        None => Hint::Part(event.container_id),
    }
}
