//! What a status is made of.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use types::PodResources;
use types::observed::{ObservedPod, ObservedResources};

/// Everything that is known of one pod at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// As it is carried out: with the resources that were allocated to it. Its own
    /// status is not looked at.
    pub pod: &'a Pod,
    /// What the API last said; of the mirror, for a static pod.
    pub api: &'a PodStatus,
    /// What was computed last. `None` at the first time since the agent began.
    pub previous: Option<&'a PodStatus>,
    pub observed: &'a ObservedPod,
    pub known: &'a Known,
    pub node: &'a NodeFacts,
    pub now: Timestamp,
}

/// What the pod's worker knows, and nobody could see in the runtime.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Known {
    /// Why a container could not be started, by its name.
    pub waiting: BTreeMap<String, Waiting>,
    /// What probes found, by the container's id. No entry: no probe has run.
    pub probed: BTreeMap<String, Probed>,
    /// What containers left behind to say why they ended, by their id.
    pub termination_messages: BTreeMap<String, String>,
    /// Nothing will be started in it any more, and nothing runs.
    pub terminal: bool,
    /// It has to end: it was evicted, or its time is up.
    pub ended: Option<Ended>,
    /// What its end is called in a `DisruptionTarget`.
    pub disruption: Option<PodCondition>,
    /// `PodResizePending` and `PodResizeInProgress`, where they hold.
    pub resize: Vec<PodCondition>,
    /// What its containers were given, as far as it was written down.
    pub actuated: Option<Arc<PodResources>>,
    /// What the pod's own cgroup lets it have, where it was read.
    pub cgroup: Option<ObservedResources>,
    pub is_static: bool,
    /// Whether its runtime handler can mount read-only all the way down.
    pub recursive_read_only: bool,
    /// `ContainerStopSignals`: what containers are asked to end with is told.
    pub stop_signals: bool,
}

/// Why a container is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub reason: String,
    pub message: String,
}

/// What probes found of a container. `None`: not yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    pub started: Option<bool>,
    pub ready: Option<bool>,
}

/// Why a pod has failed as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub reason: String,
    pub message: String,
}

/// What is the same for all pods of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// As in `containerd://…`.
    pub runtime_name: String,
    /// One, or one of each family. Empty: not known yet, or no API server.
    pub host_ips: Vec<IpAddr>,
    /// The node was told that its first address is one of IPv6.
    pub prefers_ipv6: bool,
    /// Containers that began before that were probed by an agent before this one.
    pub agent_started: Timestamp,
}

impl Input<'_> {
    /// The basis of the new one.
    pub(crate) fn old(&self) -> &PodStatus {
        self.previous.unwrap_or(self.api)
    }

    pub(crate) fn generation(&self) -> Option<i64> {
        self.pod.metadata.generation
    }

    pub(crate) fn is_being_deleted(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }
}
