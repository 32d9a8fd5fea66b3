//! Static pods that run already under a uid of another agent. Uids of static pods
//! follow from their manifests, and each agent has a way of its own: after a swap every
//! one of them would be ended and made anew. One whose mirror says just what its
//! manifest says keeps the uid that it runs under.
//!
//! What was kept is remembered ([`super::adopted`]): it holds as long as the manifest is the
//! same and the pod is still there, whether or not the API server can be asked again.
//!
//! [`Adoption`] is pure. The first delivery of a source is held back while it is not
//! known what runs, or, where something runs under the name of one of its pods, what
//! the mirrors say; whoever waits for that has to give up some day.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use serde_json::{Map, Value};
use types::{PodRef, PodUid};

use super::adopted::Uids;
use crate::annotations::{
    HASH, MIRROR, SEEN, SOURCE, annotation, is_mirror, name_of, ref_of, uid_of,
};
use crate::delivery::{Delivery, Source};

/// Everything that the runtime has, once it is known.
pub type Running = Option<Arc<BTreeSet<PodRef>>>;

/// Which static pods keep which uid.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    running: Running,
    /// `None` until the API server has told of them.
    mirrors: Option<Vec<Arc<Pod>>>,
    held: BTreeMap<Source, Delivery>,
    decided: BTreeSet<Source>,
    uids: Uids,
}

impl Adoption {
    /// By what an earlier agent has kept.
    pub(super) fn remembering(uids: Uids) -> Self {
        Self {
            uids,
            ..Self::default()
        }
    }

    /// What is worth remembering.
    pub(super) fn uids(&self) -> &Uids {
        &self.uids
    }

    /// Nothing is ever adopted, nor waited for.
    pub(super) fn off() -> Self {
        Self {
            decided: BTreeSet::from([Source::File, Source::Http]),
            ..Self::default()
        }
    }

    /// What can be gone on with, now that this came.
    pub(super) fn take(&mut self, delivery: Delivery) -> Vec<Delivery> {
        if delivery.source == Source::Api {
            let mirrors = delivery.pods.iter().filter(|pod| is_mirror(pod));
            self.mirrors = Some(mirrors.cloned().collect());
            let mut ready = vec![delivery];
            ready.extend(self.release());
            return ready;
        }
        if self.decided.contains(&delivery.source) {
            return vec![self.renamed(delivery)];
        }
        self.held.insert(delivery.source, delivery);
        self.release()
    }

    /// What the runtime has.
    pub(super) fn running(&mut self, running: Running) -> Vec<Delivery> {
        if let (None, Some(running)) = (&self.running, &running) {
            // What went while nobody looked is not begun again under another's uid.
            let runs = |kept: &PodUid| running.iter().any(|pod| pod.uid == *kept);
            self.uids.retain(|_, kept| runs(kept));
        }
        self.running = running;
        self.release()
    }

    /// The API server is waited for, and nothing else.
    pub(super) fn waits_for_mirrors(&self) -> bool {
        !self.held.is_empty() && self.running.is_some()
    }

    /// It was waited for long enough: what is held back goes on under its own uids, but
    /// for pods whose uid an earlier agent has kept. Those run under it.
    pub(super) fn give_up(&mut self) -> Vec<Delivery> {
        let held = std::mem::take(&mut self.held);
        self.decided.extend(held.keys());
        let held = held.into_values();
        held.map(|delivery| self.renamed(delivery)).collect()
    }

    fn release(&mut self) -> Vec<Delivery> {
        let Some(running) = self.running.clone() else {
            return Vec::new();
        };
        let mut released = Vec::new();
        for (source, delivery) in std::mem::take(&mut self.held) {
            let mut others = delivery
                .pods
                .iter()
                .filter(|pod| runs_otherwise(pod, &running))
                .filter(|pod| !self.uids.contains_key(&uid_of(pod)));
            if others.next().is_some() && self.mirrors.is_none() {
                self.held.insert(source, delivery);
                continue;
            }
            self.decided.insert(source);
            for pod in &delivery.pods {
                let mut mirrors = self.mirrors.iter().flatten();
                let uid = mirrors.find_map(|mirror| adopted(pod, mirror, &running));
                self.uids.extend(uid.map(|uid| (uid_of(pod), uid)));
            }
            released.push(self.renamed(delivery));
        }
        released
    }

    fn renamed(&self, mut delivery: Delivery) -> Delivery {
        for pod in &mut delivery.pods {
            let Some(uid) = self.uids.get(&uid_of(pod)) else {
                continue;
            };
            let metadata = &mut Arc::make_mut(pod).metadata;
            metadata.uid = Some(uid.to_string());
            let notes = metadata.annotations.get_or_insert_default();
            notes.insert(HASH.to_owned(), uid.to_string());
        }
        delivery
    }
}

/// Whether the runtime has one of its name that is another.
fn runs_otherwise(pod: &Pod, running: &BTreeSet<PodRef>) -> bool {
    let own = ref_of(pod);
    let mut same_name = running.iter().filter(|other| other.name == own.name);
    same_name.any(|other| other.uid != own.uid)
}

/// The uid that a static pod runs under, if its mirror is that of an equal pod.
fn adopted(pod: &Pod, mirror: &Pod, running: &BTreeSet<PodRef>) -> Option<PodUid> {
    let own = ref_of(pod);
    let uid = PodUid::new(annotation(mirror, MIRROR)?);
    let runs = PodRef {
        name: name_of(mirror),
        uid: uid.clone(),
    };
    let is_other = runs.name == own.name && uid != own.uid && running.contains(&runs);
    (is_other && says_the_same(mirror, pod)).then_some(uid)
}

/// Whether a mirror says what a manifest says.
fn says_the_same(mirror: &Pod, pod: &Pod) -> bool {
    let (Some(told), Some(own)) = (&mirror.spec, &pod.spec) else {
        return false;
    };
    let labels = |pod: &Pod| pod.metadata.labels.clone().unwrap_or_default();
    foreign(mirror).eq(foreign(pod))
        && labels(mirror) == labels(pod)
        && content(&stripped(told, own)) == content(own)
}

/// What a spec says. What is empty says nothing: the API server writes some of it out.
fn content(spec: &PodSpec) -> Option<Value> {
    fn pruned(value: Value) -> Option<Value> {
        match value {
            Value::Null => None,
            Value::Object(fields) => {
                let fields = fields.into_iter();
                let fields = fields.filter_map(|(key, value)| Some((key, pruned(value)?)));
                let fields: Map<String, Value> = fields.collect();
                (!fields.is_empty()).then_some(Value::Object(fields))
            }
            Value::Array(items) => {
                // An item keeps its place, whatever it says.
                let items = items
                    .into_iter()
                    .map(|item| pruned(item).unwrap_or_default());
                let items: Vec<Value> = items.collect();
                (!items.is_empty()).then_some(Value::Array(items))
            }
            plain => Some(plain),
        }
    }
    pruned(serde_json::to_value(spec).ok()?)
}

/// Without what the API server adds to every pod that does not say it itself.
fn stripped(told: &PodSpec, own: &PodSpec) -> PodSpec {
    let mut told = told.clone();
    if own.priority.is_none() {
        told.priority = None;
    }
    if own.preemption_policy.is_none() {
        told.preemption_policy = None;
    }
    let tolerates = own.tolerations.as_deref().unwrap_or_default();
    if let Some(tolerations) = &mut told.tolerations {
        const ADDED: [&str; 2] = [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        ];
        tolerations.retain(|one| {
            let added = one.key.as_deref().is_some_and(|key| ADDED.contains(&key));
            !added || tolerates.contains(one)
        });
        if tolerations.is_empty() && own.tolerations.is_none() {
            told.tolerations = None;
        }
    }
    told
}

/// The annotations that no agent writes.
fn foreign(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
    let all = pod.metadata.annotations.iter().flatten();
    all.filter(|(key, _)| ![HASH, MIRROR, SEEN, SOURCE].contains(&key.as_str()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodSecurityContext, ResourceRequirements};

    use super::*;
    use crate::defaults::{Origin, complete};
    use crate::testing::pod;
    use types::PodName;

    const WEB: &str = "metadata: {name: web}\nspec: {containers: [{name: web, image: nginx}]}";

    fn ours(text: &str) -> Pod {
        complete(pod(text), Origin::File("/web"), "n")
    }

    /// What the API server has of another agent's mirror.
    fn mirror(text: &str, uid: &str) -> Pod {
        let mut pod = ours(text);
        pod.metadata.uid = Some("mirrors".to_owned());
        let notes = pod.metadata.annotations.get_or_insert_default();
        notes.insert(HASH.to_owned(), uid.to_owned());
        notes.insert(MIRROR.to_owned(), uid.to_owned());
        notes.insert(SEEN.to_owned(), "then".to_owned());
        let spec = pod.spec.as_mut().unwrap();
        spec.priority = Some(0);
        spec.preemption_policy = Some("PreemptLowerPriority".to_owned());
        spec.security_context = Some(PodSecurityContext::default());
        spec.containers[0].resources = Some(ResourceRequirements::default());
        pod
    }

    fn delivery(source: Source, pods: &[&Pod]) -> Delivery {
        let pods = pods.iter().map(|&pod| Arc::new(pod.clone())).collect();
        Delivery::of(source, pods)
    }

    fn runs(uid: &str) -> Arc<BTreeSet<PodRef>> {
        let name = PodName {
            namespace: "default".to_owned(),
            name: "web-n".to_owned(),
        };
        let uid = PodUid::new(uid);
        Arc::new(BTreeSet::from([PodRef { name, uid }]))
    }

    fn uids(deliveries: &[Delivery]) -> Vec<String> {
        let pods = deliveries.iter().flat_map(|delivery| &delivery.pods);
        pods.map(|pod| uid_of(pod).to_string()).collect()
    }

    #[test]
    fn a_static_pod_keeps_the_uid_under_which_an_equal_one_runs() {
        let own = ours(WEB);
        let mut adoption = Adoption::default();
        assert!(adoption.take(delivery(Source::File, &[&own])).is_empty());
        assert!(!adoption.waits_for_mirrors());
        assert!(adoption.running(Some(runs("theirs"))).is_empty());
        assert!(adoption.waits_for_mirrors());
        let released = adoption.take(delivery(Source::Api, &[&mirror(WEB, "theirs")]));
        assert_eq!(uids(&released), ["mirrors", "theirs"]);
        let notes = released[1].pods[0].metadata.annotations.clone().unwrap();
        assert_eq!(notes[HASH], "theirs");
        assert!(!adoption.waits_for_mirrors());
        // The same manifest stays that pod, another one does not.
        let later = adoption.take(delivery(Source::File, &[&own]));
        assert_eq!(uids(&later), ["theirs"]);
        let other = ours(&WEB.replace("nginx", "nginx:2"));
        let later = adoption.take(delivery(Source::File, &[&other]));
        assert_eq!(uids(&later), [uid_of(&other).to_string()]);
    }

    #[test]
    fn a_uid_that_was_kept_is_kept_again_without_the_api_server() {
        let own = ours(WEB);
        let remembered = Uids::from([(uid_of(&own), PodUid::new("theirs"))]);
        let mut adoption = Adoption::remembering(remembered.clone());
        adoption.running(Some(runs("theirs")));
        let released = adoption.take(delivery(Source::File, &[&own]));
        assert_eq!(uids(&released), ["theirs"]);
        assert_eq!(*adoption.uids(), remembered);
        // Of what has ended since, and of another manifest, nothing is left to keep.
        let other = ours(&WEB.replace("nginx", "nginx:2"));
        for (running, pod) in [(Arc::default(), &own), (Arc::default(), &other)] {
            let mut adoption = Adoption::remembering(remembered.clone());
            adoption.running(Some(running));
            let released = adoption.take(delivery(Source::File, &[pod]));
            assert_eq!(uids(&released), [uid_of(pod).to_string()]);
            assert!(adoption.uids().is_empty());
        }
        let mut adoption = Adoption::remembering(remembered);
        adoption.running(Some(runs("theirs")));
        assert!(adoption.take(delivery(Source::File, &[&other])).is_empty());
        assert!(adoption.waits_for_mirrors());
    }

    #[test]
    fn a_uid_that_was_kept_is_kept_when_nobody_waits_any_longer_for_the_mirrors_of_others() {
        let (kept, other) = (ours(WEB), ours(&WEB.replace("{name: web}", "{name: db}")));
        let remembered = Uids::from([(uid_of(&kept), PodUid::new("theirs"))]);
        let mut running = (*runs("theirs")).clone();
        let mut of_other = ref_of(&other);
        of_other.uid = PodUid::new("unknown");
        running.insert(of_other);
        let mut adoption = Adoption::remembering(remembered);
        adoption.running(Some(Arc::new(running)));
        let both = || delivery(Source::File, &[&kept, &other]);
        assert!(adoption.take(both()).is_empty());
        let expected = ["theirs".to_owned(), uid_of(&other).to_string()];
        assert_eq!(uids(&adoption.give_up()), expected);
        // And the next reading of the manifests is of the same two pods.
        assert_eq!(uids(&adoption.take(both())), expected);
    }

    #[test]
    fn a_manifest_that_says_something_else_or_is_not_running_is_a_pod_of_its_own() {
        let own = ours(WEB);
        let own_uid = uid_of(&own).to_string();
        let other_image = WEB.replace("nginx", "nginx:1");
        let labelled = WEB.replace("name: web}\n", "name: web, labels: {a: b}}\n");
        let noted = WEB.replace("name: web}\n", "name: web, annotations: {a: b}}\n");
        let cases = [
            (other_image.as_str(), "theirs"),
            (labelled.as_str(), "theirs"),
            (noted.as_str(), "theirs"),
            (WEB, "another"),
        ];
        for (text, running) in cases {
            let mut adoption = Adoption::default();
            adoption.running(Some(runs(running)));
            adoption.take(delivery(Source::Api, &[&mirror(text, "theirs")]));
            let released = adoption.take(delivery(Source::File, &[&own]));
            assert_eq!(uids(&released), [own_uid.as_str()], "{text}");
        }
    }

    #[test]
    fn nobody_waits_for_mirrors_where_nothing_runs_and_not_for_ever() {
        let own = ours(WEB);
        let own_uid = uid_of(&own).to_string();
        for running in [runs(&own_uid), Arc::default()] {
            let mut adoption = Adoption::default();
            adoption.running(Some(running));
            let released = adoption.take(delivery(Source::File, &[&own]));
            assert_eq!(uids(&released), [own_uid.as_str()]);
        }
        let mut adoption = Adoption::default();
        adoption.running(Some(runs("theirs")));
        assert!(adoption.take(delivery(Source::File, &[&own])).is_empty());
        assert_eq!(uids(&adoption.give_up()), [own_uid.as_str()]);
        // Decided is decided: what runs now is not ended for a mirror that came late.
        adoption.take(delivery(Source::Api, &[&mirror(WEB, "theirs")]));
        let later = adoption.take(delivery(Source::File, &[&own]));
        assert_eq!(uids(&later), [own_uid.as_str()]);
        let mut off = Adoption::off();
        assert_eq!(
            uids(&off.take(delivery(Source::File, &[&own]))),
            [own_uid.as_str()]
        );
    }
}
