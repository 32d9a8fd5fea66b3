//! Whether a pod may run on this node: pure functions, asked once before a pod is
//! started. What they look at (the node, the other pods, the settings) is handed in.
//!
//! Upstream's handlers, in its order; the first that objects is the reason:
//!
//! 1. sysctls: `sysctls`
//! 2. the scheduler's rules, seen from the node: `predicates`
//! 3. `AppArmor`: `app_armor`
//! 4. pod features: resources of the pod as a whole, where they are turned off
//!
//! Whether a pod that runs may have other resources is asked of the same, after rules of its
//! own: `resize`.
//!
//! Not yet: pressure on the node (`Evicted`), before the sysctls; managers of
//! CPUs, memory and devices (`TopologyAffinityError`, `UnexpectedAdmissionError`),
//! before the predicates; declared features (`PodFeatureUnsupported`) and the node's
//! shutdown (`NodeShutdown`), in the end.
//!
//! For a critical pod that lacks nothing but room, others have to go: `preempt`. They are
//! named to whoever asked, who sees to it.

mod affinity;
mod app_armor;
mod fit;
mod ports;
mod predicates;
mod preempt;
mod resize;
mod sysctls;
mod taints;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use resources::requests;
use thiserror::Error;
use types::PodUid;

pub use resize::{Rules as ResizeRules, permit};

/// What the node allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `allowedUnsafeSysctls`: names (`kernel.msgmax`) and prefixes (`net.core.*`).
    pub allowed_unsafe_sysctls: Vec<String>,
    /// The kernel's release (`6.8.0-45-generic`): some sysctls belong to a pod alone
    /// only since a certain one.
    pub kernel: String,
    /// Whether the runtime can give a process no more groups than the pod names.
    pub supplemental_groups_policy: bool,
    /// What the machine runs, in the API's word: `linux`.
    pub operating_system: &'static str,
    /// The feature gate `PodLevelResources`.
    pub pod_level_resources: bool,
    /// Whether the machine has `AppArmor`.
    pub app_armor: bool,
}

/// Why a pod must not run here. It has failed then, and stays so.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct Rejection {
    /// In one word: of the event, and of the pod's status.
    pub reason: String,
    /// As the event has it.
    pub message: String,
}

impl Rejection {
    fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// As the pod's status has it.
    pub fn status_message(&self) -> String {
        format!("Pod was rejected: {}", self.message)
    }
}

/// A pod may run here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Once these have ended, who make room for it.
    pub victims: Vec<PodUid>,
    /// What they have to make room of, first of all.
    pub scarce: Option<String>,
}

/// Whether the pod selects a node with the labels of this one. What is known of them may be
/// old: before a pod is turned away for them, the node should be read anew.
pub fn fits_labels(pod: &Pod, node: &Node, settings: &Settings) -> bool {
    let nothing = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&nothing);
    predicates::fits_labels(spec, node, settings)
}

/// Decides on a pod that is about to be started.
///
/// `node` is what the API has of this node, if it is known. `others` are the pods
/// that were admitted and have not ended, without this one.
pub fn admit(
    pod: &Pod,
    node: Option<&Node>,
    others: &[&Pod],
    settings: &Settings,
) -> Result<Admitted, Rejection> {
    let nothing = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&nothing);
    sysctls::check(spec, settings)?;
    let admitted = predicates::check(&Case { pod, spec, others }, node, settings)?;
    app_armor::check(pod, spec, settings)?;
    pod_features(spec, settings)?;
    Ok(admitted)
}

/// A pod, and those that are here already.
struct Case<'a> {
    pod: &'a Pod,
    spec: &'a PodSpec,
    others: &'a [&'a Pod],
}

fn pod_features(spec: &PodSpec, settings: &Settings) -> Result<(), Rejection> {
    if requests::has_pod_level_resources(spec) && !settings.pod_level_resources {
        return Err(Rejection::new(
            "PodLevelResourcesNotSupported",
            "PodLevelResources feature gate is disabled",
        ));
    }
    Ok(())
}
