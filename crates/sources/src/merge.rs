//! What the sources want together. [`Merge`] is pure: a delivery goes in, what it
//! changes comes out. [`Merging`] is the task that keeps the desired set published.
//!
//! The desired set depends on the last delivery of each source only (but for the time
//! at which a pod was first seen): deliveries may be doubled, skipped, or come in any
//! order between sources.

mod adopt;
mod adopted;
mod task;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Pod;
use types::{PodName, PodUid};

use crate::annotations::{self, MIRROR, SEEN, SOURCE, is_mirror, name_of, ref_of, uid_of};
use types::desired::{Desired, DesiredPod, Source, seen, stamp};

use crate::delivery::Delivery;

pub use adopt::Running;
pub use adopted::{ADOPTED, AdoptedFile};
pub use task::{Deliveries, Merging};

/// What a delivery changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub removed: Vec<Arc<Pod>>,
    pub added: Vec<Arc<Pod>>,
    pub updated: Vec<Arc<Pod>>,
    /// Updated, and to be ended.
    pub deleted: Vec<Arc<Pod>>,
    /// Only their status is another.
    pub reconciled: Vec<Arc<Pod>>,
    /// Not taken, and not told of before.
    pub refused: Vec<Refused>,
    /// It was the first delivery of its source.
    pub first: bool,
    /// Something else of a pod is another, such as its version.
    pub others: bool,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A pod that was not taken: the event about it is a Warning `FailedValidation`.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub pod: Arc<Pod>,
    pub message: String,
}

impl Refused {
    pub const REASON: &'static str = "FailedValidation";
}

/// What the sources have delivered.
#[derive(Debug)]
pub struct Merge {
    configured: BTreeSet<Source>,
    /// A source that is not in here has not delivered.
    known: BTreeMap<Source, BTreeMap<PodUid, Known>>,
    departed: BTreeMap<PodUid, Duration>,
    /// Told of already.
    refused: BTreeSet<(Source, PodUid)>,
}

#[derive(Debug)]
struct Known {
    delivered: Arc<Pod>,
    /// With what the node writes on it.
    pod: Arc<Pod>,
}

impl Merge {
    pub fn new(configured: impl IntoIterator<Item = Source>) -> Self {
        Self {
            configured: configured.into_iter().collect(),
            known: BTreeMap::new(),
            departed: BTreeMap::new(),
            refused: BTreeSet::new(),
        }
    }

    pub fn take(&mut self, delivery: &Delivery, now: SystemTime) -> Changes {
        let source = delivery.source;
        let mut changes = Changes {
            first: !self.known.contains_key(&source),
            ..Changes::default()
        };
        let mut before = self.known.remove(&source).unwrap_or_default();
        let mut after = BTreeMap::new();
        for pod in self.filtered(delivery, &mut changes) {
            let uid = uid_of(pod);
            let known = if let Some(known) = before.remove(&uid) {
                follow(known, pod, source, &mut changes)
            } else {
                let stamped = stamped(pod, source, &first_seen(pod, source, now));
                changes.added.push(Arc::clone(&stamped));
                Known {
                    delivered: Arc::clone(pod),
                    pod: stamped,
                }
            };
            after.insert(uid, known);
        }
        changes
            .removed
            .extend(before.into_values().map(|known| known.pod));
        self.known.insert(source, after);
        if source == Source::Api {
            self.departed = departed(&delivery.departed);
        }
        changes
    }

    /// Without those whose name or uid another pod of the delivery has.
    fn filtered<'a>(&mut self, delivery: &'a Delivery, changes: &mut Changes) -> Vec<&'a Arc<Pod>> {
        let source = delivery.source;
        let mut names = BTreeSet::new();
        let mut uids = BTreeSet::new();
        let mut refused = BTreeSet::new();
        let mut taken = Vec::new();
        for pod in &delivery.pods {
            let identity = ref_of(pod);
            let own_uid = uids.insert(identity.uid.clone());
            if names.insert(identity.name.clone()) && own_uid {
                taken.push(pod);
                continue;
            }
            let key = (source, identity.uid.clone());
            if !self.refused.contains(&key) {
                let name = &identity.name.name;
                changes.refused.push(Refused {
                    pod: Arc::clone(pod),
                    message: format!("Error validating pod {identity} from {source} due to duplicate pod name {name:?}, ignoring"),
                });
            }
            refused.insert(key);
        }
        self.refused.retain(|(other, _)| *other != source);
        self.refused.append(&mut refused);
        taken
    }

    /// What should run now.
    pub fn desired(&self) -> Desired {
        let delivered: BTreeSet<Source> = self.known.keys().copied().collect();
        let mut mirrors = self.mirrors();
        let mut statics = BTreeSet::new();
        let mut pods = BTreeMap::new();
        for (source, known) in &self.known {
            for (uid, Known { pod, .. }) in known {
                if *source == Source::Api && is_mirror(pod) {
                    continue;
                }
                let is_static = *source != Source::Api;
                let name = name_of(pod);
                let mirror = mirrors.get(&name).filter(|_| is_static).cloned();
                if is_static {
                    statics.insert(name);
                }
                // Should two sources give one uid, the first has it.
                pods.entry(uid.clone()).or_insert_with(|| DesiredPod {
                    pod: Arc::clone(pod),
                    source: *source,
                    mirror,
                });
            }
        }
        mirrors.retain(|name, _| !statics.contains(name));
        Desired {
            pods,
            departed: self.departed.clone(),
            orphan_mirrors: mirrors.into_values().collect(),
            ready: self.configured.is_subset(&delivered),
            delivered,
        }
    }

    /// The mirrors, by the name that their static pods have too.
    fn mirrors(&self) -> BTreeMap<PodName, Arc<Pod>> {
        let pods = self.known.get(&Source::Api).into_iter().flatten();
        let mirrors = pods.filter(|(_, known)| is_mirror(&known.pod));
        mirrors
            .map(|(_, known)| (name_of(&known.pod), Arc::clone(&known.pod)))
            .collect()
    }
}

/// A pod that was known, as it is now.
fn follow(known: Known, pod: &Arc<Pod>, source: Source, changes: &mut Changes) -> Known {
    if Arc::ptr_eq(&known.delivered, pod) || known.delivered == *pod {
        return known;
    }
    let first_seen = annotations::annotation(&known.pod, SEEN).unwrap_or_default();
    let now = Known {
        delivered: Arc::clone(pod),
        pod: stamped(pod, source, first_seen),
    };
    let list = if differ(&known.delivered, pod) {
        match pod.metadata.deletion_timestamp {
            Some(_) => &mut changes.deleted,
            None => &mut changes.updated,
        }
    } else if known.delivered.status != pod.status {
        &mut changes.reconciled
    } else {
        changes.others = true;
        return now;
    };
    list.push(Arc::clone(&now.pod));
    now
}

fn departed(told: &[(PodUid, i64)]) -> BTreeMap<PodUid, Duration> {
    let told = told.iter().cloned();
    let told = told.map(|(uid, grace)| {
        let grace = u64::try_from(grace).unwrap_or_default();
        (uid, Duration::from_secs(grace))
    });
    told.collect()
}

/// Whether there is more to do than to look at the status.
fn differ(one: &Pod, other: &Pod) -> bool {
    let (a, b) = (&one.metadata, &other.metadata);
    one.spec != other.spec
        || a.labels.iter().flatten().ne(b.labels.iter().flatten())
        || a.deletion_timestamp != b.deletion_timestamp
        || a.deletion_grace_period_seconds != b.deletion_grace_period_seconds
        || foreign(one).ne(foreign(other))
}

/// The annotations that are not the node's own.
fn foreign(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
    let all = pod.metadata.annotations.iter().flatten();
    all.filter(|(key, _)| ![SOURCE, SEEN, MIRROR].contains(&key.as_str()))
}

/// With what the node writes on it. Pods from the API have it when they come: a copy of
/// each for its sake would be as large as they are.
fn stamped(pod: &Arc<Pod>, source: Source, first_seen: &str) -> Arc<Pod> {
    let has = |key, wanted: &str| annotations::annotation(pod, key) == Some(wanted);
    if has(SOURCE, source.as_str()) && has(SEEN, first_seen) {
        return Arc::clone(pod);
    }
    let mut pod = Pod::clone(pod);
    stamp(&mut pod, source, first_seen.to_owned());
    Arc::new(pod)
}

/// When a pod was first seen that nobody knows here.
fn first_seen(pod: &Pod, source: Source, now: SystemTime) -> String {
    let own = annotations::annotation(pod, SEEN);
    // What a manifest says of it counts for nothing.
    let own = own.filter(|_| source == Source::Api);
    own.map_or_else(|| seen(now), str::to_owned)
}
