//! What the scheduler knows of pods and nodes: of each only what it decides by.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Node, NodeSelector, Pod, PodSpec, PreferredSchedulingTerm, Taint, Toleration,
};

use super::demand::{self, Amounts};
use crate::controllers::pods;

/// A port of the node that a pod takes: address, protocol, number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    address: String,
    protocol: String,
    port: i32,
}

impl HostPort {
    pub(crate) fn clashes(&self, other: &Self) -> bool {
        let is_any = |address: &str| matches!(address, "0.0.0.0" | "::");
        let same_address =
            self.address == other.address || is_any(&self.address) || is_any(&other.address);
        same_address && self.protocol == other.protocol && self.port == other.port
    }
}

/// A pod, as far as its place is concerned.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(from = "Pod")]
pub(crate) struct PodFacts {
    pub(crate) uid: String,
    pub(crate) node: String,
    pub(crate) scheduler: String,
    pub(crate) has_ended: bool,
    pub(crate) is_going: bool,
    pub(crate) is_gated: bool,
    pub(crate) priority: i32,
    pub(crate) created: Option<Timestamp>,
    pub(crate) requests: Amounts,
    pub(crate) spread: Amounts,
    pub(crate) ports: Vec<HostPort>,
    /// What only one that waits is asked for.
    pub(crate) wishes: Option<Box<Wishes>>,
}

/// Where a pod may go, and would rather.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) selector: BTreeMap<String, String>,
    pub(crate) required: Option<NodeSelector>,
    pub(crate) preferred: Vec<PreferredSchedulingTerm>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) claims: Vec<String>,
    /// The first thing that it asks for and that is not known here.
    pub(crate) unknown: Option<&'static str>,
}

impl From<Pod> for PodFacts {
    fn from(pod: Pod) -> Self {
        let (has_ended, node) = (pods::has_ended(&pod), pods::node_of(&pod).to_owned());
        let name = pod.metadata.name.clone().unwrap_or_default();
        let mut facts = Self {
            uid: pod.metadata.uid.unwrap_or_default(),
            has_ended,
            is_going: pod.metadata.deletion_timestamp.is_some(),
            created: pod.metadata.creation_timestamp.map(|time| time.0),
            ..Self::default()
        };
        let Some(spec) = pod.spec else {
            return facts;
        };
        facts.requests = demand::requests(&spec);
        facts.spread = demand::spread_requests(&spec);
        facts.ports = host_ports(&spec);
        facts.priority = spec.priority.unwrap_or_default();
        facts.is_gated = spec
            .scheduling_gates
            .as_ref()
            .is_some_and(|gates| !gates.is_empty());
        if node.is_empty() && !has_ended {
            facts.wishes = Some(Box::new(wishes(&spec, &name)));
        }
        facts.scheduler = spec.scheduler_name.unwrap_or_default();
        facts.node = node;
        facts
    }
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    // Those of init containers count only if they stay.
    let stays = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|one| one.restart_policy.as_deref() == Some("Always"));
    let ports = stays
        .chain(&spec.containers)
        .flat_map(|container| container.ports.iter().flatten());
    let of_host = ports.filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        let text = |text: &Option<String>, usual: &str| {
            text.clone()
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| usual.to_owned())
        };
        Some(HostPort {
            address: text(&port.host_ip, "0.0.0.0"),
            protocol: text(&port.protocol, "TCP"),
            port: number,
        })
    });
    of_host.collect()
}

fn wishes(spec: &PodSpec, name: &str) -> Wishes {
    let affinity = spec.affinity.as_ref();
    let node_affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let required = node_affinity.and_then(|all| {
        all.required_during_scheduling_ignored_during_execution
            .clone()
    });
    let preferred = node_affinity.and_then(|all| {
        all.preferred_during_scheduling_ignored_during_execution
            .clone()
    });
    let volumes = spec.volumes.iter().flatten();
    let claims =
        volumes.filter_map(
            |volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(claim), _) => Some(claim.claim_name.clone()),
                (None, Some(_)) => Some(format!("{name}-{}", volume.name)),
                (None, None) => None,
            },
        );
    Wishes {
        selector: spec.node_selector.clone().unwrap_or_default(),
        required,
        preferred: preferred.unwrap_or_default(),
        tolerations: spec.tolerations.clone().unwrap_or_default(),
        claims: claims.collect(),
        unknown: unknown(spec),
    }
}

/// Requirements that are not looked at here yet: a pod that has one is not placed where
/// it must not be, it waits and says why.
fn unknown(spec: &PodSpec) -> Option<&'static str> {
    let affinity = spec.affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let far = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let near = near.and_then(|near| {
        near.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let far = far.and_then(|far| {
        far.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let spread = spec.topology_spread_constraints.iter().flatten();
    let claims = spec.resource_claims.as_ref();
    [
        (
            near.is_some_and(|terms| !terms.is_empty()),
            "required pod affinity",
        ),
        (
            far.is_some_and(|terms| !terms.is_empty()),
            "required pod anti-affinity",
        ),
        (
            spread
                .into_iter()
                .any(|one| one.when_unsatisfiable == "DoNotSchedule"),
            "topologySpreadConstraints with DoNotSchedule",
        ),
        (
            claims.is_some_and(|claims| !claims.is_empty()),
            "resourceClaims",
        ),
    ]
    .into_iter()
    .find_map(|(asked, words)| asked.then_some(words))
}

/// A node, as far as pods are placed on it.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(from = "Node")]
pub(crate) struct NodeFacts {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) unschedulable: bool,
    pub(crate) allocatable: Amounts,
}

impl From<Node> for NodeFacts {
    fn from(node: Node) -> Self {
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        let allocatable = status.allocatable.as_ref().or(status.capacity.as_ref());
        Self {
            name: node.metadata.name.unwrap_or_default(),
            labels: node.metadata.labels.unwrap_or_default(),
            taints: spec.taints.unwrap_or_default(),
            unschedulable: spec.unschedulable.unwrap_or_default(),
            allocatable: Amounts::of(allocatable),
        }
    }
}
