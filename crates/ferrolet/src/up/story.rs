//! What is told of the cluster, step by step, as it happens: each step once, with the
//! names of its objects. Pure.

use std::collections::{BTreeMap, BTreeSet};

use cluster::csr::{Approval, NODE_CLIENT_SIGNER, describe};
use identity::certificate;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;

use super::news::News;

/// Of more nodes than this only the first is told of in full.
const FEW: usize = 3;

/// Whose certificate a node's is.
const NODE_PREFIX: &str = "system:node:";

/// What has been told.
#[derive(Debug)]
pub(super) struct Story {
    /// What was there before is not news.
    since: Timestamp,
    first: String,
    wanted: usize,
    requests: BTreeMap<String, usize>,
    registered: BTreeSet<String>,
    ready: BTreeSet<String>,
    /// That there are no others, where they are many.
    all_told: bool,
    /// Why nodes are not Ready.
    ailments: BTreeMap<String, String>,
    /// By uid: where pods are, and how they fare.
    pods: BTreeMap<String, String>,
}

impl Story {
    /// `first` is the node that everything is told of.
    pub(super) fn new(since: Timestamp, first: &str, wanted: usize) -> Self {
        Self {
            // Objects know their times to the second.
            since: Timestamp::from_second(since.as_second()).unwrap_or(since),
            first: first.to_owned(),
            wanted,
            requests: BTreeMap::new(),
            registered: BTreeSet::new(),
            ready: BTreeSet::new(),
            all_told: false,
            ailments: BTreeMap::new(),
            pods: BTreeMap::new(),
        }
    }

    /// Every node that is wanted was Ready since the start.
    pub(super) fn is_told(&self) -> bool {
        self.ready.len() >= self.wanted
    }

    /// The lines that are new.
    pub(super) fn hear(&mut self, news: &News) -> Vec<String> {
        match news {
            News::Request(Event::Apply(request) | Event::InitApply(request)) => {
                self.request(request)
            }
            News::Node(Event::Apply(node) | Event::InitApply(node)) => self.node(node),
            News::Pod(Event::Apply(pod) | Event::InitApply(pod)) => self.pod(pod),
            News::Pod(Event::Delete(pod)) => self.pod_gone(pod),
            _ => Vec::new(),
        }
    }

    fn is_new(&self, metadata: &ObjectMeta) -> bool {
        let created = metadata.creation_timestamp.as_ref();
        created.is_some_and(|created| created.0 >= self.since)
    }

    fn is_told_of(&self, node: &str) -> bool {
        self.wanted <= FEW || node == self.first
    }

    fn request(&mut self, request: &CertificateSigningRequest) -> Vec<String> {
        let described = describe(request);
        let name = &described.name;
        if described.signer != NODE_CLIENT_SIGNER || !self.is_new(&request.metadata) {
            return Vec::new();
        }
        let Ok(content) = &described.content else {
            return Vec::new();
        };
        let subject = &content.common_name;
        if !self.is_told_of(subject.trim_start_matches(NODE_PREFIX)) {
            return Vec::new();
        }
        let mut steps = vec![format!(
            "{} asks for a certificate as {}: CertificateSigningRequest {name}",
            subject.trim_start_matches(NODE_PREFIX),
            described.requester
        )];
        match &described.condition.approval {
            Approval::Pending => {}
            Approval::Approved { message, .. } => {
                steps.push(format!("{name} is approved: {message}"));
            }
            Approval::Denied { message, .. } => steps.push(format!("{name} is denied: {message}")),
        }
        if let Some((reason, message)) = &described.condition.failed {
            steps.push(format!("{name} has failed: {reason}: {message}"));
        }
        if described.condition.issued {
            steps.push(format!(
                "{name} is signed: a certificate for {subject}{}",
                until(request)
            ));
        }
        let told = self.requests.entry(name.clone()).or_default();
        let new = steps.split_off((*told).min(steps.len()));
        *told += new.len();
        new
    }

    fn node(&mut self, node: &Node) -> Vec<String> {
        let name = node.metadata.name.clone().unwrap_or_default();
        let mut lines = Vec::new();
        if self.registered.insert(name.clone()) && self.is_told_of(&name) {
            lines.push(if self.is_new(&node.metadata) {
                format!(
                    "{name} is registered: Node {name}, heartbeats in Lease kube-node-lease/{name}"
                )
            } else {
                format!("{name} is known from before: Node {name}")
            });
        }
        let Some(ready) = ready(node) else {
            return lines;
        };
        let told = ready.last_heartbeat_time.as_ref();
        // What was said before this start says nothing of now.
        if told.is_none_or(|told| told.0 < self.since) {
            return lines;
        }
        if ready.status == "True" {
            self.ailments.remove(&name);
            if self.ready.insert(name.clone()) && self.is_told_of(&name) {
                lines.push(format!("{name} is Ready"));
            }
            if self.wanted > FEW && self.is_told() && !self.all_told {
                self.all_told = true;
                lines.push(format!("all {} nodes are Ready", self.wanted));
            }
            return lines;
        }
        self.ready.remove(&name);
        let why = ready.message.clone().unwrap_or_default();
        if self.ailments.get(&name) != Some(&why) && self.is_told_of(&name) {
            lines.push(format!("{name} is not Ready: {why}"));
            self.ailments.insert(name, why);
        }
        lines
    }

    fn pod(&mut self, pod: &Pod) -> Vec<String> {
        let Some(uid) = pod.metadata.uid.clone() else {
            return Vec::new();
        };
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        let mut now = phase.unwrap_or("Pending").to_owned();
        if pod.metadata.deletion_timestamp.is_some() {
            "Terminating".clone_into(&mut now);
        }
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) {
            now = format!("{now} on {node}");
        }
        if self.pods.get(&uid) == Some(&now) {
            return Vec::new();
        }
        let line = format!("pod {}: {now}", full_name(&pod.metadata));
        self.pods.insert(uid, now);
        vec![line]
    }

    fn pod_gone(&mut self, pod: &Pod) -> Vec<String> {
        let known = pod.metadata.uid.as_ref();
        match known.and_then(|uid| self.pods.remove(uid)) {
            Some(_) => vec![format!("pod {}: gone", full_name(&pod.metadata))],
            None => Vec::new(),
        }
    }
}

pub(super) fn full_name(metadata: &ObjectMeta) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", text(&metadata.namespace), text(&metadata.name))
}

pub(super) fn ready(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
}

fn until(request: &CertificateSigningRequest) -> String {
    let status = request.status.as_ref();
    let issued = status.and_then(|status| status.certificate.as_ref());
    let leaves = issued.and_then(|issued| certificate::read_leaves(&issued.0).ok());
    let end = leaves.and_then(|leaves| Timestamp::try_from(leaves.first()?.not_after).ok());
    end.map(|end| format!(", until {end}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NodeStatus, PodSpec, PodStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn node(name: &str, created: i64, heartbeat: i64, ready: bool) -> News {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.metadata.creation_timestamp = Some(at(created));
        node.status = Some(NodeStatus {
            conditions: Some(vec![NodeCondition {
                type_: "Ready".to_owned(),
                status: if ready { "True" } else { "False" }.to_owned(),
                message: Some("no network yet".to_owned()),
                last_heartbeat_time: Some(at(heartbeat)),
                ..NodeCondition::default()
            }]),
            ..NodeStatus::default()
        });
        News::Node(Event::Apply(node))
    }

    fn story(wanted: usize) -> Story {
        let since = Timestamp::from_millisecond(100_900).unwrap();
        Story::new(since, "a", wanted)
    }

    #[test]
    fn a_node_is_told_of_once_for_each_step() {
        let mut story = story(1);
        let registered = "a is registered: Node a, heartbeats in Lease kube-node-lease/a";
        let ill = "a is not Ready: no network yet";
        assert_eq!(story.hear(&node("a", 100, 100, false)), [registered, ill]);
        assert!(story.hear(&node("a", 100, 101, false)).is_empty());
        assert!(!story.is_told());
        assert_eq!(story.hear(&node("a", 100, 102, true)), ["a is Ready"]);
        assert!(story.is_told());
        assert!(story.hear(&node("a", 100, 103, true)).is_empty());
        assert_eq!(story.hear(&node("a", 100, 104, false)), [ill]);
        assert!(!story.is_told());
    }

    #[test]
    fn what_a_node_said_before_the_start_is_not_believed() {
        let mut story = story(1);
        let known = "a is known from before: Node a";
        assert_eq!(story.hear(&node("a", 50, 99, true)), [known]);
        assert!(!story.is_told());
        assert_eq!(story.hear(&node("a", 50, 100, true)), ["a is Ready"]);
    }

    #[test]
    fn of_many_nodes_the_first_is_told_of_and_that_all_are_ready() {
        let mut story = story(4);
        for name in ["b", "c", "d"] {
            assert!(story.hear(&node(name, 100, 100, true)).is_empty());
        }
        let lines = story.hear(&node("a", 100, 100, true));
        assert_eq!(lines[1..], ["a is Ready", "all 4 nodes are Ready"]);
    }

    #[test]
    fn a_pod_is_told_of_when_it_fares_differently() {
        let mut story = story(1);
        let pod = |phase: &str, node: Option<&str>| {
            let mut pod = Pod::default();
            pod.metadata.namespace = Some("default".to_owned());
            pod.metadata.name = Some("p".to_owned());
            pod.metadata.uid = Some("1".to_owned());
            pod.spec = Some(PodSpec {
                node_name: node.map(str::to_owned),
                ..PodSpec::default()
            });
            pod.status = Some(PodStatus {
                phase: Some(phase.to_owned()),
                ..PodStatus::default()
            });
            pod
        };
        let mut hear = |event| story.hear(&News::Pod(event));
        let pending = pod("Pending", None);
        assert_eq!(
            hear(Event::Apply(pending.clone())),
            ["pod default/p: Pending"]
        );
        assert!(hear(Event::Apply(pending)).is_empty());
        let bound = Event::Apply(pod("Pending", Some("a")));
        assert_eq!(hear(bound), ["pod default/p: Pending on a"]);
        let gone = || Event::Delete(pod("Running", Some("a")));
        assert_eq!(hear(gone()), ["pod default/p: gone"]);
        assert!(hear(gone()).is_empty());
    }
}
