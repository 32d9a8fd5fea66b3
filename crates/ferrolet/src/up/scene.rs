//! The nodes and pods of the cluster at one moment, as tables for a terminal.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;

use super::news::News;
use super::story::{full_name, ready};
use crate::output::{Table, age};

/// Lines that are none of a table's rows: headings, gaps, and what is left out.
const FRAME: usize = 8;

/// What is there.
#[derive(Debug, Default)]
pub(super) struct Scene {
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, Pod>,
}

impl Scene {
    pub(super) fn hear(&mut self, news: &News) {
        match news {
            News::Node(event) => keep(&mut self.nodes, event, |node| &node.metadata),
            News::Pod(event) => keep(&mut self.pods, event, |pod| &pod.metadata),
            News::Request(_) => {}
        }
    }

    /// As many lines as there is room for, at most.
    pub(super) fn lines(&self, now: Timestamp, room: usize) -> Vec<String> {
        let rows = room.saturating_sub(FRAME).max(4);
        let nodes = rows.div_ceil(3).min(self.nodes.len());
        let pods = (rows - nodes.min(rows)).min(self.pods.len());
        let mut lines = vec![String::new()];
        let mut table = Table::new(["NODE", "STATUS", "PODS", "AGE", "RUNTIME", "ADDRESS"]);
        for (name, node) in self.nodes.iter().take(nodes) {
            table.add(self.node(name, node, now));
        }
        lines.extend(table.to_string().lines().map(str::to_owned));
        lines.extend(rest(self.nodes.len() - nodes));
        if self.pods.is_empty() {
            return lines;
        }
        lines.push(String::new());
        let mut table = Table::new(["POD", "READY", "STATUS", "RESTARTS", "AGE", "NODE"]);
        for (name, pod) in self.pods.iter().take(pods) {
            table.add(self::pod(name, pod, now));
        }
        lines.extend(table.to_string().lines().map(str::to_owned));
        lines.extend(rest(self.pods.len() - pods));
        lines
    }

    fn node(&self, name: &str, node: &Node, now: Timestamp) -> [String; 6] {
        let status = match ready(node).map(|ready| ready.status.as_str()) {
            Some("True") => "Ready",
            _ => "NotReady",
        };
        let pods = self.pods.values();
        let pods = pods.filter(|pod| on(pod) == Some(name)).count();
        let told = node.status.as_ref();
        let addresses = told.and_then(|status| status.addresses.as_deref());
        let mut addresses = addresses.unwrap_or_default().iter();
        let address = addresses.find(|address| address.type_ == "InternalIP");
        let runtime = told.and_then(|status| status.node_info.as_ref());
        [
            name.to_owned(),
            status.to_owned(),
            pods.to_string(),
            age_of(&node.metadata, now),
            runtime
                .map(|info| info.container_runtime_version.clone())
                .unwrap_or_default(),
            address
                .map(|address| address.address.clone())
                .unwrap_or_default(),
        ]
    }
}

/// As they are after an event. A watch that begins anew tells of all.
fn keep<K: Clone>(
    kept: &mut BTreeMap<String, K>,
    event: &Event<K>,
    metadata: impl Fn(&K) -> &ObjectMeta,
) {
    let name = |object: &K| match metadata(object) {
        ObjectMeta {
            namespace: None,
            name,
            ..
        } => name.clone().unwrap_or_default(),
        named => full_name(named),
    };
    match event {
        Event::Init => kept.clear(),
        Event::InitApply(object) | Event::Apply(object) => {
            kept.insert(name(object), object.clone());
        }
        Event::Delete(object) => {
            kept.remove(&name(object));
        }
        Event::InitDone => {}
    }
}

fn rest(left_out: usize) -> Option<String> {
    (left_out > 0).then(|| format!("… and {left_out} more"))
}

fn on(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The short form of what kubectl prints; kubectl has all of it.
fn pod(name: &str, pod: &Pod, now: Timestamp) -> [String; 6] {
    let status = pod.status.clone().unwrap_or_default();
    let containers = status.container_statuses.unwrap_or_default();
    let wanted = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
    let is_ready = containers.iter().filter(|container| container.ready);
    let waiting = containers.iter().find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        waiting.reason.clone()
    });
    let shown = if pod.metadata.deletion_timestamp.is_some() {
        Some("Terminating".to_owned())
    } else {
        waiting.or(status.reason).or(status.phase)
    };
    let restarts: i32 = containers
        .iter()
        .map(|container| container.restart_count)
        .sum();
    [
        name.to_owned(),
        format!("{}/{wanted}", is_ready.count()),
        shown.unwrap_or_default(),
        restarts.to_string(),
        age_of(&pod.metadata, now),
        on(pod).unwrap_or_default().to_owned(),
    ]
}

fn age_of(metadata: &ObjectMeta, now: Timestamp) -> String {
    let created = metadata.creation_timestamp.as_ref();
    let span = created.map(|created| now.duration_since(created.0));
    let span = span.and_then(|span| Duration::try_from(span).ok());
    age(span.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;

    use super::*;

    fn pod(name: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("default".to_owned());
        pod.metadata.name = Some(name.to_owned());
        pod.spec = Some(PodSpec {
            node_name: Some("a".to_owned()),
            ..PodSpec::default()
        });
        pod
    }

    fn lines(scene: &Scene, room: usize) -> Vec<String> {
        scene.lines(Timestamp::UNIX_EPOCH, room)
    }

    #[test]
    fn what_is_there_is_shown_as_far_as_there_is_room() {
        let mut scene = Scene::default();
        let mut node = Node::default();
        node.metadata.name = Some("a".to_owned());
        scene.hear(&News::Node(Event::Apply(node)));
        for name in ["p", "q", "r", "s", "t"] {
            scene.hear(&News::Pod(Event::Apply(pod(name))));
        }
        let shown = lines(&scene, 100);
        assert!(shown[2].starts_with("a      NotReady   5"), "{shown:#?}");
        assert_eq!(shown.len(), 10);
        let short = lines(&scene, 0);
        assert_eq!(short.last().unwrap(), "… and 2 more", "{short:#?}");
    }

    #[test]
    fn a_watch_that_begins_anew_forgets_what_is_gone() {
        let mut scene = Scene::default();
        for event in [
            Event::Apply(pod("p")),
            Event::Init,
            Event::InitApply(pod("q")),
            Event::InitDone,
        ] {
            scene.hear(&News::Pod(event));
        }
        let names: Vec<_> = scene.pods.keys().collect();
        assert_eq!(names, ["default/q"]);
    }
}
