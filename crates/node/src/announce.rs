//! Events about the node itself, each told once.
//!
//! The object is brought up to date far more often than it is sent, and from a
//! copy that may lag behind; what was told of a copy is not told of it again.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use api::events::{Recorder, Severity, about_node};
use k8s_openapi::api::core::v1::Node;

use seams::host::MachineFacts;

use crate::conditions::Transition;
use crate::update::Updated;

/// Upstream's words, by which tools know it.
const CGROUP_V1: &str = "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. Please migrate to cgroup v2. More information at https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1";

#[derive(Debug)]
pub(crate) struct Announcer {
    node_name: String,
    recorder: Recorder,
    /// Shared by the tasks that bring the object up to date, one after the other;
    /// held for comparisons only.
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// By condition.
    told: BTreeMap<&'static str, Transition>,
    rebooted: bool,
    unschedulable: bool,
}

impl Announcer {
    pub(crate) fn new(node_name: &str, recorder: Recorder) -> Self {
        Self {
            node_name: node_name.to_owned(),
            recorder,
            memory: Mutex::default(),
        }
    }

    pub(crate) fn starting(&self, machine: Option<&MachineFacts>) {
        self.record(Severity::Normal, "Starting", "Starting kubelet.".to_owned());
        if machine.is_some_and(|machine| machine.cgroup_v1) {
            self.record(Severity::Warning, "CgroupV1", CGROUP_V1.to_owned());
        }
    }

    /// Tells what is new in an object that was brought up to date.
    pub(crate) fn announce(&self, updated: &Updated) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        for transition in &updated.transitions {
            if memory.told.get(transition.condition) != Some(transition) {
                self.record_status(transition.event);
                memory.told.insert(transition.condition, transition.clone());
            }
        }
        if let (Some(boot_id), false) = (&updated.rebooted, memory.rebooted) {
            memory.rebooted = true;
            let message = format!(
                "Node {} has been rebooted, boot id: {boot_id}",
                self.node_name
            );
            self.record(Severity::Warning, "Rebooted", message);
        }
        let unschedulable = is_unschedulable(&updated.node);
        if unschedulable != memory.unschedulable {
            memory.unschedulable = unschedulable;
            self.record_status(if unschedulable {
                "NodeNotSchedulable"
            } else {
                "NodeSchedulable"
            });
        }
    }

    fn record_status(&self, reason: &str) {
        let message = format!("Node {} status is now: {reason}", self.node_name);
        self.record(Severity::Normal, reason, message);
    }

    fn record(&self, severity: Severity, reason: &str, message: String) {
        self.recorder
            .record(about_node(&self.node_name), severity, reason, message);
    }
}

fn is_unschedulable(node: &Node) -> bool {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.unschedulable).unwrap_or(false)
}
