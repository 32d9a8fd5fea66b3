//! Whoever has something to tell records it and goes on; one task sends.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use seams::SharedClock;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Severity;
use super::correlate::{Correlated, Correlator};

/// Events that wait; what comes when it is full is dropped.
const MOST_WAITING: usize = 1000;
const TRIES: usize = 12;
const BETWEEN_TRIES: Duration = Duration::from_secs(10);
/// Where events about objects without a namespace live.
const DEFAULT_NAMESPACE: &str = "default";

/// Takes events. Clones share the queue.
#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Event>,
    source: EventSource,
    clock: SharedClock,
    /// The moment that the last event was named after, in nanoseconds.
    last_name: Arc<AtomicI64>,
}

/// Sends what a [`Recorder`] takes.
pub struct Recording {
    queue: mpsc::Receiver<Event>,
    client: Client,
    clock: SharedClock,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Recording").finish_non_exhaustive()
    }
}

/// A node, by name only: so that events of one that was made anew are found
/// together.
pub fn about_node(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

/// A pod, or the part of it at this path.
pub fn about_pod(pod: &Pod, field_path: Option<String>) -> ObjectReference {
    let metadata = &pod.metadata;
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        field_path,
    }
}

impl Recorder {
    /// A recorder of the kubelet on `host`, and the task that sends.
    pub fn new(host: &str, client: Client, clock: SharedClock) -> (Self, Recording) {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        let recorder = Self {
            queue: sender,
            source: EventSource {
                component: Some("kubelet".to_owned()),
                host: Some(host.to_owned()),
            },
            clock: clock.clone(),
            last_name: Arc::default(),
        };
        let recording = Recording {
            queue: receiver,
            client,
            clock,
        };
        (recorder, recording)
    }

    /// Records an event. Never waits.
    pub fn record(
        &self,
        about: ObjectReference,
        severity: Severity,
        reason: &str,
        message: String,
    ) {
        let event = self.event(about, severity, reason, message);
        if self.queue.try_send(event).is_err() {
            warn!(reason, "an event is dropped: too many wait to be sent");
        }
    }

    fn event(
        &self,
        about: ObjectReference,
        severity: Severity,
        reason: &str,
        message: String,
    ) -> Event {
        let now = Timestamp::try_from(self.clock.now()).unwrap_or_default();
        let severity = match severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        let namespace = about.namespace.clone();
        Event {
            metadata: ObjectMeta {
                name: Some(self.name(about.name.as_deref().unwrap_or_default(), now)),
                namespace: Some(namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())),
                ..ObjectMeta::default()
            },
            involved_object: about,
            type_: Some(severity.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message),
            source: Some(self.source.clone()),
            reporting_component: self.source.component.clone(),
            reporting_instance: self.source.host.clone(),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        }
    }

    /// As client-go names events, after their moment; where a clock is too coarse
    /// to tell two of them apart, the later one is named after the next moment.
    fn name(&self, about: &str, now: Timestamp) -> String {
        let now = i64::try_from(now.as_nanosecond()).unwrap_or_default();
        let next = |last: i64| now.max(last.saturating_add(1));
        let order = Ordering::Relaxed;
        let last = self
            .last_name
            .fetch_update(order, order, |last| Some(next(last)));
        let nanoseconds = next(last.unwrap_or_default());
        format!("{about}.{nanoseconds:x}")
    }
}

/// What became of an attempt.
enum Sent {
    Taken(Box<Event>),
    /// The server has judged it.
    Refused(kube::Error),
    /// The server could not be asked.
    Unheard(kube::Error),
}

impl Recording {
    /// Sends until told to stop.
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.send_all()).await;
    }

    async fn send_all(&mut self) {
        let mut correlator = Correlator::default();
        while let Some(event) = self.queue.recv().await {
            let now = Timestamp::try_from(self.clock.now()).unwrap_or_default();
            if let Some(correlated) = correlator.correlate(event, now, self.clock.uptime())
                && let Some(stored) = self.send(&correlated).await
            {
                correlator.taken(&correlated, &stored);
            }
        }
    }

    /// Sends one event, again and again while the server cannot be asked: those
    /// after it wait.
    async fn send(&self, correlated: &Correlated) -> Option<Event> {
        let reason = correlated.event.reason.as_deref().unwrap_or_default();
        for attempt in 1..=TRIES {
            let error = match self.attempt(correlated).await {
                Sent::Taken(stored) => return Some(*stored),
                Sent::Refused(error) => {
                    warn!(reason, err = %error, "the API server refuses an event");
                    return None;
                }
                Sent::Unheard(error) => error,
            };
            debug!(reason, attempt, err = %error, "an event cannot be sent, will try again");
            if attempt == TRIES {
                warn!(reason, err = %error, "an event could not be sent and is dropped");
                return None;
            }
            // The first wait is of any length, lest all nodes come back at once.
            let share = if attempt == 1 {
                self.clock.random()
            } else {
                1.0
            };
            self.clock.sleep(BETWEEN_TRIES.mul_f64(share)).await;
        }
        None
    }

    async fn attempt(&self, correlated: &Correlated) -> Sent {
        let Correlated { event, patch, .. } = correlated;
        let namespace = event.metadata.namespace.as_deref();
        let events: Api<Event> =
            Api::namespaced(self.client.clone(), namespace.unwrap_or(DEFAULT_NAMESPACE));
        if let (Some(patch), Some(name)) = (patch, &event.metadata.name) {
            let patch = Patch::Strategic(patch);
            match events.patch(name, &PatchParams::default(), &patch).await {
                // Events do not live long: one that is gone is made anew.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                outcome => return judged(outcome),
            }
        }
        judged(events.create(&PostParams::default(), event).await)
    }
}

fn judged(outcome: Result<Event, kube::Error>) -> Sent {
    match outcome {
        Ok(stored) => Sent::Taken(Box::new(stored)),
        Err(error @ kube::Error::Api(_)) => Sent::Refused(error),
        Err(error) => Sent::Unheard(error),
    }
}
