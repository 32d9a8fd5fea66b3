//! Pods that leave a node because of its taints: at once, or after as long as they
//! tolerate them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, Taint, Toleration};
use serde::Deserialize;
use serde_json::json;
use tracing::info;

use super::agenda::Agenda;
use super::events::{Event, Recorder};
use super::mirror::{Bare, Mirror, Name};
use super::{is_still, pods, settled};
use crate::failure::Failure;
use crate::kinds::{NODES, PODS};
use crate::rest::{DeleteOptions, Objects, Part};
use crate::store::Key;

/// What counts of a node here: there may be thousands.
#[derive(Debug, Deserialize)]
struct TaintedNode {
    spec: Option<TaintedSpec>,
}

#[derive(Debug, Deserialize)]
struct TaintedSpec {
    taints: Option<Vec<Taint>>,
}

pub(crate) struct Evictions {
    objects: Objects,
    recorder: Recorder,
    /// Since when a taint is known that does not say so itself, by node, key and value.
    seen: HashMap<(String, String, String), Timestamp>,
    /// Pods that are about to go.
    marked: HashSet<Name>,
}

impl Evictions {
    pub(crate) fn new(objects: Objects) -> Self {
        let recorder = Recorder::new(objects.clone(), "taint-eviction-controller");
        Self {
            objects,
            recorder,
            seen: HashMap::new(),
            marked: HashSet::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        let clock = self.objects.clock().clone();
        let mut nodes: Mirror<TaintedNode> = Mirror::new(self.objects.store(), &NODES);
        let mut pods: Mirror<Bare> = Mirror::new(self.objects.store(), &PODS);
        let mut agenda = Agenda::new(pods.names());
        // Only nodes with such taints, and those that had some, make their pods be looked at.
        let mut tainted: HashMap<String, Vec<Taint>> = HashMap::new();
        for (name, node) in nodes.iter() {
            note(&mut tainted, &name.1, Some(node));
        }
        loop {
            for name in agenda.take(|| pods.names()) {
                let outcome = self.look_at(&name, &tainted).await;
                agenda.done("evictions", name, outcome);
            }
            tokio::select! {
                names = nodes.changed() => {
                    for (_, name) in names {
                        if !note(&mut tainted, &name, nodes.get("", &name)) {
                            continue;
                        }
                        self.seen.retain(|(node, key, _), _| {
                            let taints = tainted.get(node);
                            taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == *key))
                        });
                        let all = self.objects.store().list(&PODS, None).items;
                        let on_node = all.iter().filter(|pod| pod.field("spec.nodeName") == Some(&name));
                        agenda.now(on_node.map(|pod| (pod.namespace().to_owned(), pod.name().to_owned())));
                    }
                }
                names = pods.changed() => agenda.now(names),
                () = agenda.wait(&clock) => {}
            }
        }
    }

    /// Pods are read when they are looked at: most are on nodes without such taints.
    async fn look_at(
        &mut self,
        name: &Name,
        tainted: &HashMap<String, Vec<Taint>>,
    ) -> Result<Option<Duration>, Failure> {
        let Some(stored) = self.objects.store().get(&Key::new(&PODS, &name.0, &name.1)) else {
            self.marked.remove(name);
            return Ok(None);
        };
        let is_tainted = |node: &str| tainted.contains_key(node);
        let concerns = stored.field("spec.nodeName").is_some_and(is_tainted);
        if !concerns && !self.marked.contains(name) {
            return Ok(None);
        }
        match stored.decode() {
            Ok(pod) => self.look(name, &pod, tainted).await,
            Err(cause) => Err(Failure::internal(cause)),
        }
    }

    async fn look(
        &mut self,
        name: &Name,
        pod: &Pod,
        tainted: &HashMap<String, Vec<Taint>>,
    ) -> Result<Option<Duration>, Failure> {
        let node = pods::node_of(pod);
        let now = self.objects.clock().timestamp();
        let taints = tainted.get(node).map(Vec::as_slice).unwrap_or_default();
        if taints.is_empty() || pod.metadata.deletion_timestamp.is_some() {
            self.unmark(name, pod).await;
            return Ok(None);
        }
        let since = taints.iter().map(|taint| {
            let added = taint.time_added.as_ref().map(|time| time.0);
            added.unwrap_or_else(|| {
                let key = (
                    node.to_owned(),
                    taint.key.clone(),
                    taint.value.clone().unwrap_or_default(),
                );
                *self.seen.entry(key).or_insert(now)
            })
        });
        let since = since.max().unwrap_or(now);
        match stay(taints, pods::tolerations(pod)) {
            Stay::Forever => {
                self.unmark(name, pod).await;
                Ok(None)
            }
            Stay::For(time) => {
                let left = left(time, since, now);
                if left.is_some() {
                    self.marked.insert(name.clone());
                } else {
                    self.evict(name, pod).await?;
                }
                Ok(left)
            }
        }
    }

    async fn evict(&mut self, name: &Name, pod: &Pod) -> Result<(), Failure> {
        info!(
            pod = format!("{}/{}", name.0, name.1),
            "a pod leaves its node because of a taint"
        );
        self.marked.remove(name);
        let message = format!("Marking for deletion Pod {}/{}", name.0, name.1);
        self.tell(pod, &message).await;
        let now = self.objects.clock().seconds();
        let key = Key::new(&PODS, &name.0, &name.1);
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": now,
        });
        let told = self.objects.modify(&key, Part::Whole, |found| {
            is_still(found, &pod.metadata) && pods::set_condition(found, &condition)
        });
        settled(told.await)?;
        let options = DeleteOptions {
            uid: pod.metadata.uid.clone(),
            ..DeleteOptions::default()
        };
        settled(self.objects.delete(&key, options).await)
    }

    async fn unmark(&mut self, name: &Name, pod: &Pod) {
        if self.marked.remove(name) && pod.metadata.deletion_timestamp.is_none() {
            let message = format!("Cancelling deletion of Pod {}/{}", name.0, name.1);
            self.tell(pod, &message).await;
        }
    }

    async fn tell(&self, pod: &Pod, message: &str) {
        self.recorder
            .tell(Event {
                kind: &PODS,
                regarding: &pod.metadata,
                severity: "Normal",
                reason: "TaintManagerEviction",
                message,
            })
            .await;
    }
}

/// Keeps the taints of a node that drive pods away; whether they are others than before.
fn note(
    tainted: &mut HashMap<String, Vec<Taint>>,
    name: &str,
    node: Option<&Arc<TaintedNode>>,
) -> bool {
    let found: Vec<_> = node
        .iter()
        .filter_map(|node| node.spec.as_ref()?.taints.as_ref())
        .flatten()
        .filter(|taint| taint.effect == "NoExecute")
        .cloned()
        .collect();
    if found.is_empty() {
        return tainted.remove(name).is_some();
    }
    let changed = tainted.get(name) != Some(&found);
    tainted.insert(name.to_owned(), found);
    changed
}

/// How long a pod stays where these taints are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    Forever,
    For(SignedDuration),
}

/// Not at all with a taint that is not tolerated; else as long as the least patient of
/// the tolerations that are used.
fn stay(taints: &[Taint], tolerations: &[Toleration]) -> Stay {
    let mut used: Vec<&Toleration> = Vec::new();
    for taint in taints {
        match tolerations
            .iter()
            .find(|toleration| pods::tolerates(toleration, taint))
        {
            Some(toleration) => used.push(toleration),
            None => return Stay::For(SignedDuration::ZERO),
        }
    }
    let seconds = used
        .iter()
        .filter_map(|toleration| toleration.toleration_seconds);
    match seconds.map(|seconds| seconds.max(0)).min() {
        Some(seconds) => Stay::For(SignedDuration::from_secs(seconds)),
        None => Stay::Forever,
    }
}

/// How much of a stay is left, if anything. Clients choose both the stay and when the taint
/// came, so the end of it may be later than any moment that can be told.
fn left(stay: SignedDuration, since: Timestamp, now: Timestamp) -> Option<Duration> {
    let left = stay.saturating_sub(now.duration_since(since));
    left.is_positive().then(|| left.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str) -> Taint {
        serde_json::from_value(json!({"key": key, "effect": "NoExecute"})).unwrap()
    }

    fn toleration(key: &str, seconds: Option<i64>) -> Toleration {
        serde_json::from_value(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})).unwrap()
    }

    #[test]
    fn a_pod_stays_as_long_as_its_least_patient_toleration() {
        let seconds = |seconds| Stay::For(SignedDuration::from_secs(seconds));
        for (taints, tolerations, expected) in [
            (&["a"][..], &[][..], seconds(0)),
            (&["a"], &[("a", None)], Stay::Forever),
            (&["a"], &[("a", Some(300))], seconds(300)),
            (&["a"], &[("a", Some(-1))], seconds(0)),
            (
                &["a", "b"],
                &[("a", Some(300)), ("b", Some(60))],
                seconds(60),
            ),
            (&["a", "b"], &[("a", Some(300)), ("b", None)], seconds(300)),
            (&["a", "b"], &[("a", Some(300))], seconds(0)),
            (&["a"], &[("a", Some(300)), ("b", Some(60))], seconds(300)),
        ] {
            let taints: Vec<_> = taints.iter().map(|key| taint(key)).collect();
            let tolerations: Vec<_> = tolerations
                .iter()
                .map(|(key, seconds)| toleration(key, *seconds))
                .collect();
            assert_eq!(stay(&taints, &tolerations), expected, "{tolerations:?}");
        }
    }

    #[test]
    fn a_stay_ends_even_when_no_moment_is_late_enough_for_it() {
        let moment = |text: &str| text.parse::<Timestamp>().unwrap();
        let (now, last) = (moment("2027-01-15T08:00:00Z"), "9999-12-30T22:00:00Z");
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let endless = i64::MAX.unsigned_abs();
        for (stay, since, expected) in [
            (300, "2027-01-15T07:59:00Z", seconds(240)),
            (60, "2027-01-15T07:59:00Z", None),
            (0, "2027-01-15T07:59:00Z", None),
            (i64::MAX, "2027-01-15T08:00:00Z", seconds(endless)),
            (i64::MAX, last, seconds(endless)),
        ] {
            let found = left(SignedDuration::from_secs(stay), moment(since), now);
            // Of the longest of all, what is left of a second does not matter.
            let found = found.map(|left| Duration::from_secs(left.as_secs()));
            assert_eq!(found, expected, "{stay} since {since}");
        }
    }

    #[test]
    fn only_a_change_of_such_taints_is_one() {
        let node = |effects: &[&str]| -> Arc<TaintedNode> {
            let taints: Vec<_> = effects
                .iter()
                .map(|effect| json!({"key": "a", "effect": effect}))
                .collect();
            Arc::new(serde_json::from_value(json!({"spec": {"taints": taints}})).unwrap())
        };
        let mut tainted = HashMap::new();
        assert!(!note(&mut tainted, "n", Some(&node(&["NoSchedule"]))));
        assert!(note(&mut tainted, "n", Some(&node(&["NoExecute"]))));
        assert!(!note(
            &mut tainted,
            "n",
            Some(&node(&["NoExecute", "NoSchedule"]))
        ));
        assert!(note(&mut tainted, "n", None));
        assert!(tainted.is_empty());
    }
}
