//! The scheduler's rules, seen from the node: what came here past a scheduler, or
//! what changed since it chose, is found out.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, PodSpec};
use resources::qos;

use super::affinity::{self, Labelled};
use super::{Case, Rejection, Settings, fit, ports, taints};

const OS: &str = "kubernetes.io/os";

/// A rule of the scheduler, and what it says of nodes that do not meet it.
pub(super) struct Predicate {
    pub(super) name: &'static str,
    failure: &'static str,
}

pub(super) const NODE_AFFINITY: Predicate = Predicate {
    name: "NodeAffinity",
    failure: "node(s) didn't match Pod's node affinity/selector",
};
const NODE_NAME: Predicate = Predicate {
    name: "NodeName",
    failure: "node(s) didn't match the requested node name",
};
const NODE_PORTS: Predicate = Predicate {
    name: "NodePorts",
    failure: "node(s) didn't have free ports for the requested pod ports",
};
const TAINT_TOLERATION: Predicate = Predicate {
    name: "TaintToleration",
    failure: "node(s) had taints that the pod didn't tolerate",
};

impl Predicate {
    fn require(&self, met: bool) -> Result<(), Rejection> {
        if met {
            return Ok(());
        }
        let Self { name, failure } = self;
        let message = format!("Predicate {name} failed: {failure}");
        Err(Rejection::new(*name, message))
    }
}

pub(super) fn check(
    case: &Case<'_>,
    node: Option<&Node>,
    settings: &Settings,
) -> Result<(), Rejection> {
    let Case { pod, spec, others } = case;
    let node =
        node.ok_or_else(|| Rejection::new("InvalidNodeInfo", "Kubelet cannot get node info."))?;
    // No room that is made helps against these: they come before it is looked for.
    operating_system(case, settings)?;
    supplemental_groups(spec, settings)?;

    fit::check(case, node, settings)?;
    NODE_AFFINITY.require(affinity::matches(spec, &labelled(node, settings)))?;
    NODE_NAME.require(is_meant(spec, node))?;
    NODE_PORTS.require(ports::are_free(spec, others))?;
    // Who writes a manifest onto the machine means this machine.
    TAINT_TOLERATION.require(qos::is_static(pod) || taints::are_tolerated(spec, node))
}

/// Upstream compares a label of the pod, not its node selector.
fn operating_system(case: &Case<'_>, settings: &Settings) -> Result<(), Rejection> {
    let labels = case.pod.metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(OS));
    if label.is_some_and(|label| label != settings.operating_system) {
        return Err(Rejection::new(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ));
    }
    let field = case.spec.os.as_ref();
    if field.is_some_and(|os| os.name != settings.operating_system) {
        return Err(Rejection::new(
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        ));
    }
    Ok(())
}

fn supplemental_groups(spec: &PodSpec, settings: &Settings) -> Result<(), Rejection> {
    let context = spec.security_context.as_ref();
    let policy = context.and_then(|context| context.supplemental_groups_policy.as_deref());
    if policy == Some("Strict") && !settings.supplemental_groups_policy {
        return Err(Rejection::new(
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
        ));
    }
    Ok(())
}

/// A node with labels has that of its operating system, whatever the API has at the
/// moment: the node's own report puts it right.
fn labelled<'a>(node: &'a Node, settings: &Settings) -> Labelled<'a> {
    let labels = node.metadata.labels.iter().flatten();
    let mut labels: BTreeMap<&str, &str> = labels
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    if !labels.is_empty() {
        labels.insert(OS, settings.operating_system);
    }
    let name = node.metadata.name.as_deref().unwrap_or_default();
    Labelled { name, labels }
}

fn is_meant(spec: &PodSpec, node: &Node) -> bool {
    let asked = spec.node_name.as_deref().unwrap_or_default();
    asked.is_empty() || Some(asked) == node.metadata.name.as_deref()
}
