//! What is wanted of one pod, as everything that has been said about it adds up to.
//!
//! An end is final: nothing that is said later takes it back, and the time that is
//! granted for it only gets shorter. Of a spec the newest counts. Nothing queues.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use types::desired::{DesiredPod, Source, has_ended};
use types::eviction::Eviction;

use crate::admission::Rejection;
use crate::spec::spec_of;

/// A pod that is nobody's is given this time.
pub const ORPHANS_GRACE: Duration = Duration::from_secs(1);

/// Of a static pod, and of its mirror: which manifest it is of.
const HASH: &str = "kubernetes.io/config.hash";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What a pod is given if nobody says anything.
const USUAL_GRACE: i64 = 30;

/// One pod, as it is wanted now.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// With the resources that it was allowed, which may be others than it wants.
    pub pod: Arc<Pod>,
    /// Who wants it. `None`: nobody, the runtime just has it.
    pub source: Option<Source>,
    /// What stands for it at the API server; only for static pods.
    pub mirror: Option<Arc<Pod>>,
    pub ending: Option<Ending>,
    /// It is not let in: it ends before it begins.
    pub rejected: Option<Rejection>,
    /// The node has taken its place from it.
    pub evicted: Option<Eviction>,
    pub resize: Resize,
}

/// What became of the wish for other resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resize {
    /// `PodResizePending`: it was not granted.
    pub pending: Option<PodCondition>,
    /// The generation of the pod whose wish was granted last, by this agent.
    pub granted: Option<i64>,
}

/// A pod goes for a critical one.
pub fn preempted() -> Eviction {
    let disruption = "Pod was preempted by Kubelet to accommodate a critical pod.";
    Eviction {
        reason: "Preempting",
        message: "Preempted in order to admit critical pod".to_owned(),
        disruption: Some(disruption.to_owned()),
        grace: None,
    }
}

/// What is wanted of a pod. The same as before if all that is new is what the API says of
/// it, which is mostly what this node has told it.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    ending: Option<Ending>,
    pod: Arc<Pod>,
}

impl PartialEq for Want {
    fn eq(&self, other: &Self) -> bool {
        let same_pod = Arc::ptr_eq(&self.pod, &other.pod) || self.pod.spec == other.pod.spec;
        self.ending == other.ending && same_pod
    }
}

/// It has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How long its containers are given; at least a second.
    pub grace: Duration,
    /// Nobody knows of it any more, or it is being deleted: nothing of it is kept.
    pub for_good: bool,
}

impl Slot {
    /// A pod that is heard of for the first time.
    pub fn new(desired: &DesiredPod) -> Self {
        let mut slot = Self {
            pod: Arc::clone(&desired.pod),
            source: Some(desired.source),
            mirror: desired.mirror.clone(),
            ending: None,
            rejected: None,
            evicted: None,
            resize: Resize::default(),
        };
        slot.end_as_said();
        slot
    }

    /// A pod that the runtime has and nobody wants.
    pub fn of_nobody(pod: Pod) -> Self {
        Self {
            pod: Arc::new(pod),
            source: None,
            mirror: None,
            ending: Some(Ending {
                grace: ORPHANS_GRACE,
                for_good: true,
            }),
            rejected: None,
            evicted: None,
            resize: Resize::default(),
        }
    }

    /// The newest that a source says of it.
    pub fn update(&mut self, desired: &DesiredPod) {
        self.pod = Arc::clone(&desired.pod);
        self.mirror.clone_from(&desired.mirror);
        self.end_as_said();
    }

    /// No source has it any more. `given`: how long its source has given it, if it said so.
    pub fn remove(&mut self, given: Option<Duration>) {
        let grace = given.unwrap_or_else(|| self.own_grace());
        self.end(grace, true);
    }

    /// The node ends it, for the first reason that it has.
    pub fn evict(&mut self, eviction: Eviction) {
        let grace = eviction.grace.unwrap_or_else(|| self.own_grace());
        self.end(grace, false);
        self.evicted.get_or_insert(eviction);
    }

    pub(crate) fn want(&self) -> Want {
        Want {
            ending: self.ending,
            pod: Arc::clone(&self.pod),
        }
    }

    /// What stands for it at the API server. A mirror of the pod that had its name
    /// before says nothing of this one.
    pub fn object(&self) -> Option<&Arc<Pod>> {
        object_of(self.source?, &self.pod, self.mirror.as_ref())
    }

    pub fn is_static(&self) -> bool {
        self.source.is_some_and(|source| source != Source::Api)
    }

    /// What a container of it is given when it is ended for a reason of its own.
    pub fn own_grace(&self) -> Duration {
        let seconds = spec_of(&self.pod).termination_grace_period_seconds;
        seconds_of(seconds.unwrap_or(USUAL_GRACE))
    }

    /// The API may say of a pod that it is to end, or that it has.
    fn end_as_said(&mut self) {
        let metadata = &self.pod.metadata;
        if metadata.deletion_timestamp.is_some() {
            let said = metadata.deletion_grace_period_seconds.map(seconds_of);
            let grace = said.unwrap_or_else(|| self.own_grace());
            self.end(grace, true);
        } else if self.source == Some(Source::Api) && has_ended(&self.pod) {
            let grace = self.own_grace();
            self.end(grace, false);
        }
    }

    fn end(&mut self, grace: Duration, for_good: bool) {
        let grace = grace.max(ORPHANS_GRACE);
        let before = self.ending.unwrap_or(Ending { grace, for_good });
        self.ending = Some(Ending {
            grace: before.grace.min(grace),
            for_good: before.for_good || for_good,
        });
    }
}

/// The API's object of a pod: itself, or the mirror that was made of it.
pub fn object_of<'a>(
    source: Source,
    pod: &'a Arc<Pod>,
    mirror: Option<&'a Arc<Pod>>,
) -> Option<&'a Arc<Pod>> {
    let note = |pod: &Pod, name: &str| pod.metadata.annotations.as_ref()?.get(name).cloned();
    match source {
        Source::Api => Some(pod),
        Source::File | Source::Http => {
            mirror.filter(|mirror| note(mirror, MIRROR) == note(pod, HASH))
        }
    }
}

fn seconds_of(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn desired(source: Source, metadata: &Value, spec: &Value, phase: &str) -> DesiredPod {
        let pod = json!({ "metadata": metadata, "spec": spec, "status": { "phase": phase } });
        DesiredPod {
            pod: Arc::new(serde_json::from_value(pod).unwrap()),
            source,
            mirror: None,
        }
    }

    fn deleted(grace: i64) -> Value {
        json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace })
    }

    fn seconds(slot: &Slot) -> Option<(u64, bool)> {
        let ending = slot.ending?;
        Some((ending.grace.as_secs(), ending.for_good))
    }

    #[test]
    fn a_pod_ends_when_it_is_deleted_or_has_ended_by_the_api() {
        let spec = json!({ "containers": [], "terminationGracePeriodSeconds": 7 });
        for (source, metadata, phase, ending) in [
            (Source::Api, json!({}), "Running", None),
            (Source::Api, json!({}), "Failed", Some((7, false))),
            (Source::File, json!({}), "Failed", None),
            (Source::Api, deleted(5), "Running", Some((5, true))),
            (Source::Api, deleted(0), "Running", Some((1, true))),
            (Source::Api, deleted(5), "Succeeded", Some((5, true))),
        ] {
            let slot = Slot::new(&desired(source, &metadata, &spec, phase));
            assert_eq!(seconds(&slot), ending, "{source} {metadata} {phase}");
        }
    }

    #[test]
    fn a_mirror_of_a_former_pod_does_not_stand_for_this_one() {
        let spec = json!({ "containers": [] });
        let noted = |name: &str, hash: &str| json!({ "annotations": { name: hash } });
        for (hash, stands) in [("a", true), ("b", false)] {
            let mut pod = desired(Source::File, &noted(HASH, "a"), &spec, "Pending");
            let mirror = desired(Source::Api, &noted(MIRROR, hash), &spec, "Running");
            pod.mirror = Some(Arc::clone(&mirror.pod));
            let slot = Slot::new(&pod);
            let object = slot.object().map(|object| object.metadata.clone());
            assert_eq!(object, stands.then(|| mirror.pod.metadata.clone()));
        }
        let own = desired(Source::Api, &json!({}), &spec, "Pending");
        assert!(Slot::new(&own).object().is_some());
    }

    #[test]
    fn an_end_is_final_and_its_time_only_gets_shorter() {
        let spec = json!({ "containers": [] });
        let of = |metadata: &Value| desired(Source::Api, metadata, &spec, "Running");
        let mut slot = Slot::new(&of(&deleted(10)));
        slot.update(&of(&json!({})));
        assert_eq!(seconds(&slot), Some((10, true)));
        slot.update(&of(&deleted(20)));
        assert_eq!(seconds(&slot), Some((10, true)));
        slot.update(&of(&deleted(3)));
        assert_eq!(seconds(&slot), Some((3, true)));
        slot.remove(None);
        assert_eq!(seconds(&slot), Some((3, true)));
        let mut slot = Slot::new(&of(&json!({})));
        slot.remove(None);
        assert_eq!(seconds(&slot), Some((30, true)));
        slot.remove(Some(Duration::ZERO));
        assert_eq!(seconds(&slot), Some((1, true)));
    }

    #[test]
    fn who_is_evicted_ends_in_its_own_time_and_what_tells_of_it_is_kept() {
        let spec = json!({ "containers": [], "terminationGracePeriodSeconds": 7 });
        let mut slot = Slot::new(&desired(Source::Api, &json!({}), &spec, "Running"));
        let before = slot.clone();
        slot.evict(preempted());
        assert_eq!(seconds(&slot), Some((7, false)));
        assert!(slot.want() != before.want());
        slot.update(&desired(Source::Api, &json!({}), &spec, "Running"));
        assert_eq!(slot.evicted, Some(preempted()));
        let mut deleted = Slot::new(&desired(Source::Api, &deleted(3), &spec, "Running"));
        deleted.evict(preempted());
        assert_eq!(seconds(&deleted), Some((3, true)));
        // Who evicts may say how long that is; the first who does counts.
        let hasty = Eviction {
            reason: "Evicted",
            grace: Some(Duration::from_secs(1)),
            ..preempted()
        };
        deleted.evict(hasty.clone());
        assert_eq!(seconds(&deleted), Some((1, true)));
        assert_eq!(deleted.evicted, Some(preempted()));
        let mut slot = Slot::new(&desired(Source::Api, &json!({}), &spec, "Running"));
        slot.evict(hasty.clone());
        assert_eq!(seconds(&slot), Some((1, false)));
        assert_eq!(slot.evicted, Some(hasty));
    }

    #[test]
    fn what_the_api_says_of_a_pod_is_nothing_else_to_do() {
        let spec = json!({ "containers": [{ "name": "c", "image": "v1" }] });
        let before = Slot::new(&desired(Source::Api, &json!({}), &spec, "Pending"));
        let told = Slot::new(&desired(Source::Api, &json!({}), &spec, "Running"));
        assert!(told != before && told.want() == before.want());
        let other = json!({ "containers": [{ "name": "c", "image": "v2" }] });
        let edited = Slot::new(&desired(Source::Api, &json!({}), &other, "Pending"));
        assert!(edited.want() != before.want());
        let ending = Slot::new(&desired(Source::Api, &deleted(5), &spec, "Pending"));
        assert!(ending.want() != before.want());
    }
}
