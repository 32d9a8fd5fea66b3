//! What is known of nodes and of pods, and what the pods of each node take.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use super::facts::{NodeFacts, PodFacts};
use super::fit::Usage;
use super::waits;
use crate::controllers::mirror::Name;

/// Kept up with every change; asked without looking at anything twice.
#[derive(Debug, Default)]
pub(crate) struct State {
    nodes: BTreeMap<String, Arc<NodeFacts>>,
    pods: HashMap<Name, Arc<PodFacts>>,
    usage: HashMap<String, Usage>,
    none: Usage,
    /// Pods without a place: the most important first, then the oldest.
    waiting: BTreeSet<(Reverse<i32>, Option<Timestamp>, Name)>,
}

impl State {
    pub(crate) fn pod(&self, name: &Name) -> Option<&PodFacts> {
        self.pods.get(name).map(|pod| &**pod)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&NodeFacts, &Usage)> {
        self.nodes
            .values()
            .map(|node| (&**node, self.usage.get(&node.name).unwrap_or(&self.none)))
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Name> {
        self.waiting.iter().map(|(_, _, name)| name)
    }

    /// Whether a pod could find a place by this change.
    pub(crate) fn set_node(&mut self, name: &str, node: Option<Arc<NodeFacts>>) -> bool {
        match node {
            Some(node) => {
                let is_news = self.nodes.get(name) != Some(&node);
                self.nodes.insert(name.to_owned(), node);
                is_news
            }
            None => self.nodes.remove(name).is_some(),
        }
    }

    /// Whether something became free by this change.
    pub(crate) fn set_pod(&mut self, name: &Name, pod: Option<Arc<PodFacts>>) -> bool {
        let takes = |pod: &PodFacts| !pod.node.is_empty() && !pod.has_ended;
        let mut freed = false;
        if let Some(old) = self.pods.remove(name) {
            self.waiting.remove(&place(name, &old));
            if takes(&old) {
                freed = pod
                    .as_ref()
                    .is_none_or(|pod| !takes(pod) || pod.requests != old.requests);
                if let Some(usage) = self.usage.get_mut(&old.node) {
                    usage.remove(&old);
                    if *usage == Usage::default() {
                        self.usage.remove(&old.node);
                    }
                }
            }
        }
        if let Some(pod) = pod {
            if takes(&pod) {
                self.usage.entry(pod.node.clone()).or_default().add(&pod);
            }
            if waits(&pod) {
                self.waiting.insert(place(name, &pod));
            }
            self.pods.insert(name.clone(), pod);
        }
        freed
    }

    /// Takes a pod as bound, before the store says so.
    pub(crate) fn assume(&mut self, name: &Name, node: &str) {
        if let Some(pod) = self.pods.get(name) {
            let bound = PodFacts {
                node: node.to_owned(),
                ..PodFacts::clone(pod)
            };
            self.set_pod(name, Some(Arc::new(bound)));
        }
    }

    /// Takes a pod as not bound after all.
    pub(crate) fn forget(&mut self, name: &Name) {
        self.assume(name, "");
    }
}

fn place(name: &Name, pod: &PodFacts) -> (Reverse<i32>, Option<Timestamp>, Name) {
    (Reverse(pod.priority), pod.created, name.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(text: &str) -> Name {
        ("team".to_owned(), text.to_owned())
    }

    fn pod(node: &str, priority: i32, created: &str, phase: &str) -> Arc<PodFacts> {
        let pod = json!({
            "metadata": {"name": "p", "creationTimestamp": created},
            "spec": {"nodeName": node, "priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": phase},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn cpu(state: &State, node: &str) -> i64 {
        state
            .usage
            .get(node)
            .map_or(0, |usage| usage.requests.get("cpu"))
    }

    #[test]
    fn the_important_come_first_and_then_the_old() {
        let mut state = State::default();
        let (old, young) = ("2026-11-16T12:00:00Z", "2026-11-16T12:00:01Z");
        state.set_pod(&name("young"), Some(pod("", 0, young, "Pending")));
        state.set_pod(&name("old"), Some(pod("", 0, old, "Pending")));
        state.set_pod(&name("critical"), Some(pod("", 1000, young, "Pending")));
        state.set_pod(&name("bound"), Some(pod("one", 9000, old, "Pending")));
        let order: Vec<_> = state.waiting().map(|name| name.1.as_str()).collect();
        assert_eq!(order, ["critical", "old", "young"]);
    }

    #[test]
    fn what_pods_take_is_counted_once_and_given_back() {
        let mut state = State::default();
        let time = "2026-11-16T12:00:00Z";
        assert!(!state.set_pod(&name("p"), Some(pod("one", 0, time, "Running"))));
        assert!(!state.set_pod(&name("p"), Some(pod("one", 0, time, "Running"))));
        assert_eq!(cpu(&state, "one"), 1000);
        assert!(
            state.set_pod(&name("p"), Some(pod("one", 0, time, "Succeeded"))),
            "something became free"
        );
        assert_eq!(cpu(&state, "one"), 0);
        assert!(!state.set_pod(&name("p"), None));
        assert!(state.usage.is_empty() && state.pods.is_empty());
    }

    #[test]
    fn an_assumed_pod_takes_its_place_at_once() {
        let mut state = State::default();
        state.set_pod(
            &name("p"),
            Some(pod("", 0, "2026-11-16T12:00:00Z", "Pending")),
        );
        state.assume(&name("p"), "one");
        assert_eq!(cpu(&state, "one"), 1000);
        assert_eq!(state.waiting().count(), 0);
        state.forget(&name("p"));
        assert_eq!(cpu(&state, "one"), 0);
        assert_eq!(state.waiting().count(), 1);
    }

    #[test]
    fn only_what_matters_of_a_node_is_news() {
        let node = |heartbeat: &str, cpu: &str| -> Option<Arc<NodeFacts>> {
            let node = json!({"metadata": {"name": "one"}, "status": {"allocatable": {"cpu": cpu},
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}]}});
            Some(Arc::new(serde_json::from_value(node).unwrap()))
        };
        let mut state = State::default();
        assert!(state.set_node("one", node("2026-11-16T12:00:00Z", "1")));
        assert!(!state.set_node("one", node("2026-11-16T12:00:10Z", "1")));
        assert!(state.set_node("one", node("2026-11-16T12:00:10Z", "2")));
        assert!(state.set_node("one", None));
        assert!(!state.set_node("one", None));
    }
}
