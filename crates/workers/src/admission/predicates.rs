//! The scheduler's rules, seen from the node: what came here past a scheduler, or
//! what changed since it chose, is found out.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, PodSpec};
use resources::qos;

use super::affinity::{self, Labelled};
use super::{Admitted, Case, Rejection, Settings, fit, ports, preempt, taints};

const OS: &str = "kubernetes.io/os";

/// A rule of the scheduler, and what it says of nodes that do not meet it.
struct Predicate {
    name: &'static str,
    failure: &'static str,
}

const NODE_AFFINITY: Predicate = Predicate {
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
    fn rejection(&self) -> Rejection {
        let Self { name, failure } = self;
        let message = format!("Predicate {name} failed: {failure}");
        Rejection::new(*name, message)
    }
}

/// Who has to make room for the pod, or why it cannot be here.
pub(super) fn check(
    case: &Case<'_>,
    node: Option<&Node>,
    settings: &Settings,
) -> Result<Admitted, Rejection> {
    let Case { pod, spec, others } = case;
    let node =
        node.ok_or_else(|| Rejection::new("InvalidNodeInfo", "Kubelet cannot get node info."))?;
    // No room that is made helps against these: they come before it is looked for.
    operating_system(case, settings)?;
    supplemental_groups(spec, settings)?;

    let shortages = fit::shortages(case, node, settings);
    let rule = broken_rule(case, node, settings).map(Predicate::rejection);
    let is_critical = qos::is_critical(pod);
    // Room can be made for a critical pod: what it is short of is the least reason.
    let first = match shortages.first() {
        Some(shortage) if !is_critical => Some(shortage.rejection()),
        _ => rule,
    };
    if let Some(rejection) = first {
        return Err(rejection);
    }
    let Some(first) = shortages.first() else {
        return Ok(Admitted::default());
    };
    Ok(Admitted {
        victims: preempt::victims(pod, others, &shortages, settings)?,
        scarce: Some(first.resource.clone()),
    })
}

/// The first rule that has nothing to do with room and is not met.
fn broken_rule(case: &Case<'_>, node: &Node, settings: &Settings) -> Option<&'static Predicate> {
    let Case { pod, spec, others } = case;
    if !fits_labels(spec, node, settings) {
        return Some(&NODE_AFFINITY);
    }
    if !is_meant(spec, node) {
        return Some(&NODE_NAME);
    }
    if !ports::are_free(spec, others) {
        return Some(&NODE_PORTS);
    }
    // Who writes a manifest onto the machine means this machine.
    let stays = qos::is_static(pod) || taints::are_tolerated(spec, node);
    (!stays).then_some(&TAINT_TOLERATION)
}

/// Whether the node is one that the pod selects.
pub(super) fn fits_labels(spec: &PodSpec, node: &Node, settings: &Settings) -> bool {
    affinity::matches(spec, &labelled(node, settings))
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
