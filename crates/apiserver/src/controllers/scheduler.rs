//! Pods find their nodes: the most important first, then the oldest. What fits and
//! what is best is decided by pure functions over what is known of nodes and pods.

mod demand;
mod facts;
mod fit;
mod state;

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use tokio::time::Instant;
use tracing::{info, warn};

use super::events::{Event, Recorder};
use super::mirror::{Bare, Mirror, Name};
use super::{pods, settled};
use crate::failure::Failure;
use crate::kinds::{NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS};
use crate::rest::{Objects, Part};
use crate::store::{Key, Store};
use facts::{NodeFacts, PodFacts};
use fit::Volumes;
use state::State;

const SCHEDULER: &str = "default-scheduler";
/// Pods that are placed between two looks at what has changed.
const BATCH: usize = 256;
/// Those that found no place are tried again this long after something changed, and
/// ever later when that did not help.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(10);
/// And after this long in any case.
const FLUSH: Duration = Duration::from_secs(300);

pub(crate) struct Scheduler {
    objects: Objects,
    recorder: Recorder,
    state: State,
    /// Pods that found no place: how often, and when.
    refused: HashMap<Name, (u32, Instant)>,
}

impl Scheduler {
    pub(crate) fn new(objects: Objects) -> Self {
        let recorder = Recorder::new(objects.clone(), SCHEDULER);
        Self {
            objects,
            recorder,
            state: State::default(),
            refused: HashMap::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        let clock = self.objects.clock().clone();
        let mut nodes: Mirror<NodeFacts> = Mirror::new(self.objects.store(), &NODES);
        let mut pods: Mirror<PodFacts> = Mirror::new(self.objects.store(), &PODS);
        // Read when a pod is placed; that they change is enough to try those that wait for them.
        let mut claims: Mirror<Bare> = Mirror::new(self.objects.store(), &PERSISTENT_VOLUME_CLAIMS);
        let mut volumes: Mirror<Bare> = Mirror::new(self.objects.store(), &PERSISTENT_VOLUMES);
        for name in nodes.names() {
            self.state
                .set_node(&name.1, nodes.get("", &name.1).cloned());
        }
        for name in pods.names() {
            self.state
                .set_pod(&name, pods.get(&name.0, &name.1).cloned());
        }
        // When something changed by which a pod that waits could find a place.
        let mut changed = Instant::now();
        loop {
            let due = self.due(changed);
            if !due.is_empty() {
                self.place(due).await;
                // What came meanwhile is seen before the next batch.
                tokio::task::yield_now().await;
            }
            let wait = self.wait(changed);
            tokio::select! {
                biased;
                names = nodes.changed() => {
                    for name in names {
                        if self.state.set_node(&name.1, nodes.get("", &name.1).cloned()) {
                            changed = Instant::now();
                        }
                    }
                }
                names = pods.changed() => {
                    for name in names {
                        let pod = pods.get(&name.0, &name.1).cloned();
                        if pod.as_ref().is_none_or(|pod| !waits(pod)) {
                            self.refused.remove(&name);
                        }
                        if self.state.set_pod(&name, pod) {
                            changed = Instant::now();
                        }
                    }
                }
                _ = claims.changed() => changed = Instant::now(),
                _ = volumes.changed() => changed = Instant::now(),
                () = clock.sleep(wait) => {}
            }
        }
    }

    /// Those that may be tried now, in their order.
    fn due(&self, changed: Instant) -> Vec<Name> {
        let now = Instant::now();
        let is_due = |name: &&Name| self.retry(name, changed).is_none_or(|retry| retry <= now);
        self.state
            .waiting()
            .filter(is_due)
            .take(BATCH)
            .cloned()
            .collect()
    }

    /// When a pod that was refused is tried again; `None` for one that was not.
    fn retry(&self, name: &Name, changed: Instant) -> Option<Instant> {
        let (times, at) = self.refused.get(name)?;
        let pause = FIRST_RETRY
            .saturating_mul(1 << (*times).min(8).saturating_sub(1))
            .min(LAST_RETRY);
        Some(if changed >= *at {
            *at + pause
        } else {
            *at + FLUSH
        })
    }

    fn wait(&self, changed: Instant) -> Duration {
        let now = Instant::now();
        let next = self
            .state
            .waiting()
            .map(|name| self.retry(name, changed).unwrap_or(now))
            .min();
        next.map_or(FLUSH, |next| next.saturating_duration_since(now))
    }

    /// Finds places for pods one after another, each with those before it in place, and
    /// writes all of it at once.
    async fn place(&mut self, names: Vec<Name>) {
        let mut placed = Vec::new();
        let mut refused = Vec::new();
        for name in names {
            let Some(pod) = self.state.pod(&name) else {
                continue;
            };
            let volumes = volumes(self.objects.store(), &name.0, pod);
            match fit::choose(pod, &volumes, self.state.nodes()) {
                Ok(node) => {
                    let node = node.to_owned();
                    self.state.assume(&name, &node);
                    placed.push((name, node));
                }
                Err(message) => refused.push((name, message)),
            }
        }
        let bound = placed.iter().map(|(name, node)| self.bind(name, node));
        let bound = join_all(bound).await;
        let told = refused
            .iter()
            .map(|(name, message)| self.refuse(name, message));
        join_all(told).await;
        for ((name, _), outcome) in placed.into_iter().zip(bound) {
            if let Err(failure) = outcome {
                warn!(pod = format!("{}/{}", name.0, name.1), err = %failure, "a pod could not be bound, it is tried again");
                self.state.forget(&name);
                self.note(&name);
            }
        }
        for (name, _) in refused {
            self.note(&name);
        }
    }

    fn note(&mut self, name: &Name) {
        let (times, at) = self
            .refused
            .entry(name.clone())
            .or_insert((0, Instant::now()));
        *times = times.saturating_add(1);
        *at = Instant::now();
    }

    async fn bind(&self, name: &Name, node: &str) -> Result<(), Failure> {
        let now = self.objects.clock().seconds();
        let uid = self
            .state
            .pod(name)
            .map(|pod| pod.uid.clone())
            .unwrap_or_default();
        let key = Key::new(&PODS, &name.0, &name.1);
        let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
        let bound = self.objects.modify(&key, Part::Whole, |pod| {
            let is_free = pod["spec"]["nodeName"]
                .as_str()
                .unwrap_or_default()
                .is_empty();
            if pod["metadata"]["uid"] != uid.as_str()
                || !is_free
                || !pod["metadata"]["deletionTimestamp"].is_null()
            {
                return false;
            }
            pod["spec"]["nodeName"] = json!(node);
            if let Some(conditions) = pod["status"]["conditions"].as_array_mut() {
                // Its words were those of a pod that had no place.
                conditions.retain(|one| one["type"] != "PodScheduled");
            }
            pods::set_condition(pod, &condition);
            true
        });
        let stored = match bound.await {
            Ok(stored) => stored,
            Err(failure) => return settled(Err(failure)),
        };
        let found = stored.value();
        if found["spec"]["nodeName"] != node || found["metadata"]["uid"] != uid.as_str() {
            // Another one of the name, or another scheduler was faster: the change is on its way.
            return Ok(());
        }
        info!(
            pod = format!("{}/{}", name.0, name.1),
            node, "a pod has a place"
        );
        let message = format!("Successfully assigned {}/{} to {node}", name.0, name.1);
        self.tell(&found, "Normal", "Scheduled", &message).await;
        Ok(())
    }

    async fn refuse(&self, name: &Name, message: &str) {
        let now = self.objects.clock().seconds();
        let key = Key::new(&PODS, &name.0, &name.1);
        let condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": null,
            "lastTransitionTime": now,
        });
        let told = self.objects.modify(&key, Part::Whole, |pod| {
            let is_free = pod["spec"]["nodeName"]
                .as_str()
                .unwrap_or_default()
                .is_empty();
            is_free && pods::set_condition(pod, &condition)
        });
        if let Ok(stored) = told.await {
            self.tell(&stored.value(), "Warning", "FailedScheduling", message)
                .await;
        }
    }

    async fn tell(&self, pod: &serde_json::Value, severity: &str, reason: &str, message: &str) {
        use serde::Deserialize as _;
        let Ok(metadata) = ObjectMeta::deserialize(&pod["metadata"]) else {
            return;
        };
        let event = Event {
            kind: &PODS,
            regarding: &metadata,
            severity,
            reason,
            message,
        };
        self.recorder.tell(event).await;
    }
}

/// Whether a pod is ours to place.
fn waits(pod: &PodFacts) -> bool {
    let ours = pod.scheduler.is_empty() || pod.scheduler == SCHEDULER;
    ours && pod.node.is_empty() && !pod.has_ended && !pod.is_going && !pod.is_gated
}

/// What the claims of a pod say of its place.
fn volumes(store: &Store, namespace: &str, pod: &PodFacts) -> Volumes {
    let mut places = Vec::new();
    let claims = pod.wishes.as_ref().map(|wishes| wishes.claims.as_slice());
    for claim in claims.unwrap_or_default() {
        let found = store.get(&Key::new(&PERSISTENT_VOLUME_CLAIMS, namespace, claim));
        let found: Option<PersistentVolumeClaim> = found.and_then(|found| found.decode().ok());
        let Some(found) = found else {
            return Volumes::Missing(format!("persistentvolumeclaim {claim:?} not found"));
        };
        let volume = found
            .spec
            .and_then(|spec| spec.volume_name)
            .filter(|name| !name.is_empty());
        let Some(volume) = volume else {
            return Volumes::Missing("pod has unbound immediate PersistentVolumeClaims".to_owned());
        };
        let volume = store.get(&Key::global(&PERSISTENT_VOLUMES, volume));
        let volume: Option<PersistentVolume> = volume.and_then(|volume| volume.decode().ok());
        let Some(volume) = volume else {
            let words = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
            return Volumes::Missing(words.to_owned());
        };
        let affinity = volume.spec.and_then(|spec| spec.node_affinity);
        places.extend(affinity.and_then(|affinity| affinity.required));
    }
    Volumes::Bound(places)
}
