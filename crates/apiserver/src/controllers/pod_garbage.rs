//! Pods that nobody ends any more: those of nodes that are gone, those that were to go
//! before they had a node, and more ended ones than anybody looks at.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;
use tracing::info;

use super::mirror::{Mirror, Name};
use super::{is_still, pods, settled};
use crate::failure::Failure;
use crate::kinds::{NODES, PODS};
use crate::rest::{DeleteOptions, Objects, Part};
use crate::store::Key;

/// How often is looked.
const PERIOD: Duration = Duration::from_secs(20);
/// A node has to be missing for this long: it may only be registering anew.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub(crate) struct PodGarbage {
    pub(crate) objects: Objects,
    /// Ended pods that are kept at most.
    pub(crate) kept: usize,
}

impl PodGarbage {
    pub(crate) async fn run(self) {
        let clock = self.objects.clock().clone();
        let mut missing = HashMap::new();
        loop {
            if let Err(failure) = self.sweep(&mut missing).await {
                tracing::warn!(err = %failure, "pods that nobody ends could not be removed, it is tried again");
            }
            clock.sleep(PERIOD).await;
        }
    }

    async fn sweep(&self, missing: &mut HashMap<String, Timestamp>) -> Result<(), Failure> {
        let clock = self.objects.clock();
        // Lists, not watches: this is a look from time to time.
        let pods: Mirror<Pod> = Mirror::new(self.objects.store(), &PODS);
        if pods.iter().next().is_none() {
            // There may be thousands of nodes, which need not be read for that.
            missing.clear();
            return Ok(());
        }
        let nodes: Mirror<Node> = Mirror::new(self.objects.store(), &NODES);
        let nodes: HashMap<&str, &Node> = nodes
            .iter()
            .map(|(name, node)| (name.1.as_str(), &**node))
            .collect();
        let gone = gone_nodes(
            pods.iter().map(|(_, pod)| &**pod),
            &nodes,
            missing,
            clock.timestamp(),
        );
        let all: Vec<_> = pods.iter().map(|(name, pod)| (name, &**pod)).collect();
        for (name, cause) in garbage(&all, &nodes, &gone, self.kept) {
            let pod = pods.get(&name.0, &name.1);
            if let Some(pod) = pod {
                self.remove(name, pod, cause).await?;
            }
        }
        Ok(())
    }

    async fn remove(&self, name: &Name, pod: &Pod, cause: Cause) -> Result<(), Failure> {
        info!(
            pod = format!("{}/{}", name.0, name.1),
            cause = cause.words(),
            "a pod that nobody ends is removed"
        );
        let key = Key::new(&PODS, &name.0, &name.1);
        let now = self.objects.clock().seconds();
        if cause != Cause::TooMany && !pods::has_ended(pod) {
            let condition = json!({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": cause.words(),
                "lastTransitionTime": now,
            });
            let failed = self.objects.modify(&key, Part::Whole, |found| {
                if !is_still(found, &pod.metadata) {
                    return false;
                }
                found["status"]["phase"] = json!("Failed");
                // Only a pod whose node went was disrupted; others were to go anyway.
                if cause == Cause::NodeGone {
                    pods::set_condition(found, &condition);
                }
                true
            });
            settled(failed.await)?;
        }
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            uid: pod.metadata.uid.clone(),
            ..DeleteOptions::default()
        };
        settled(self.objects.delete(&key, options).await)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    NodeGone,
    NeverScheduled,
    OutOfService,
    TooMany,
}

impl Cause {
    fn words(self) -> &'static str {
        match self {
            Self::NodeGone => "PodGC: node no longer exists",
            Self::NeverScheduled => "PodGC: the pod was to go before it had a node",
            Self::OutOfService => "PodGC: the node is out of service",
            Self::TooMany => "PodGC: more ended pods than are kept",
        }
    }
}

/// Nodes that pods name and that have not been there for a while.
fn gone_nodes<'a>(
    pods: impl Iterator<Item = &'a Pod>,
    nodes: &HashMap<&str, &Node>,
    missing: &mut HashMap<String, Timestamp>,
    now: Timestamp,
) -> HashSet<String> {
    let named: HashSet<_> = pods
        .map(pods::node_of)
        .filter(|node| !node.is_empty())
        .collect();
    missing.retain(|node, _| named.contains(node.as_str()) && !nodes.contains_key(node.as_str()));
    for node in named {
        if !nodes.contains_key(node) {
            missing.entry(node.to_owned()).or_insert(now);
        }
    }
    let gone = missing
        .iter()
        .filter(|(_, since)| **since + QUARANTINE <= now);
    gone.map(|(node, _)| node.clone()).collect()
}

/// The pods that are to be removed, and why. Of ended ones the oldest go first.
fn garbage<'a>(
    pods: &[(&'a Name, &Pod)],
    nodes: &HashMap<&str, &Node>,
    gone: &HashSet<String>,
    kept: usize,
) -> Vec<(&'a Name, Cause)> {
    let mut found = Vec::new();
    let mut ended = Vec::new();
    for (name, pod) in pods {
        let node = pods::node_of(pod);
        let is_going = pod.metadata.deletion_timestamp.is_some();
        let is_out = || nodes.get(node).is_some_and(|node| is_out_of_service(node));
        if is_going && node.is_empty() {
            found.push((*name, Cause::NeverScheduled));
        } else if gone.contains(node) {
            found.push((*name, Cause::NodeGone));
        } else if is_going && is_out() {
            found.push((*name, Cause::OutOfService));
        } else if pods::has_ended(pod) && !is_going {
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            ended.push((created, *name));
        }
    }
    ended.sort();
    let surplus = ended.len().saturating_sub(kept);
    found.extend(
        ended
            .into_iter()
            .take(surplus)
            .map(|(_, name)| (name, Cause::TooMany)),
    );
    found
}

fn is_out_of_service(node: &Node) -> bool {
    let tainted = super::nodes::taints::taints(node)
        .iter()
        .any(|taint| taint.key == OUT_OF_SERVICE);
    tainted && super::nodes::health::ready(node) != Some("True")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn pod(node: &str, phase: &str, deleted: bool, created: i64) -> Pod {
        let deleted = if deleted {
            json!("2026-11-16T12:00:00Z")
        } else {
            Value::Null
        };
        let created = Timestamp::from_second(created).unwrap().to_string();
        serde_json::from_value(json!({
            "metadata": {"creationTimestamp": created, "deletionTimestamp": deleted},
            "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase},
        }))
        .unwrap()
    }

    fn node(ready: &str, taints: Value) -> Node {
        let mut node = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
        node["spec"]["taints"] = taints;
        serde_json::from_value(node).unwrap()
    }

    fn found(
        pods: &[(&str, Pod)],
        nodes: &[(&str, Node)],
        gone: &[&str],
        kept: usize,
    ) -> Vec<(String, Cause)> {
        let names: Vec<Name> = pods
            .iter()
            .map(|(name, _)| (String::new(), (*name).to_owned()))
            .collect();
        let pods: Vec<_> = names
            .iter()
            .zip(pods)
            .map(|(name, (_, pod))| (name, pod))
            .collect();
        let nodes = nodes.iter().map(|(name, node)| (*name, node)).collect();
        let gone = gone.iter().map(|node| (*node).to_owned()).collect();
        let found = garbage(&pods, &nodes, &gone, kept);
        found
            .into_iter()
            .map(|(name, cause)| (name.1.clone(), cause))
            .collect()
    }

    #[test]
    fn pods_that_nobody_ends_are_found() {
        let pods = vec![
            ("running", pod("one", "Running", false, 0)),
            ("waiting", pod("", "Pending", false, 0)),
            ("cancelled", pod("", "Pending", true, 0)),
            ("orphan", pod("lost", "Running", false, 0)),
            ("ending", pod("one", "Running", true, 0)),
            ("stuck", pod("broken", "Running", true, 0)),
            ("alive", pod("broken", "Running", false, 0)),
        ];
        let nodes = [
            ("one", node("True", json!([]))),
            (
                "broken",
                node(
                    "Unknown",
                    json!([{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]),
                ),
            ),
        ];
        assert_eq!(
            found(&pods, &nodes, &["lost"], 100),
            [
                ("cancelled".to_owned(), Cause::NeverScheduled),
                ("orphan".to_owned(), Cause::NodeGone),
                ("stuck".to_owned(), Cause::OutOfService),
            ]
        );
    }

    #[test]
    fn of_ended_pods_the_oldest_go() {
        let pods = [
            ("young", pod("one", "Succeeded", false, 30)),
            ("old", pod("one", "Failed", false, 10)),
            ("middle", pod("one", "Succeeded", false, 20)),
        ];
        assert_eq!(found(&pods, &[], &[], 3), []);
        assert_eq!(
            found(&pods, &[], &[], 1),
            [
                ("old".to_owned(), Cause::TooMany),
                ("middle".to_owned(), Cause::TooMany)
            ]
        );
    }

    #[test]
    fn a_node_has_to_be_missing_for_a_while() {
        let (here, lost) = (
            pod("one", "Running", false, 0),
            pod("lost", "Running", false, 0),
        );
        let node = node("True", json!([]));
        let nodes = HashMap::from([("one", &node)]);
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut missing = HashMap::new();
        let mut gone = |second, pods: &[&Pod]| {
            gone_nodes(pods.iter().copied(), &nodes, &mut missing, at(second))
        };
        assert!(gone(0, &[&here, &lost]).is_empty());
        assert!(gone(39, &[&here, &lost]).is_empty());
        assert_eq!(
            gone(40, &[&here, &lost]),
            HashSet::from(["lost".to_owned()])
        );
        assert!(gone(41, &[&here]).is_empty());
        assert!(gone(42, &[&here, &lost]).is_empty(), "counted anew");
    }
}
