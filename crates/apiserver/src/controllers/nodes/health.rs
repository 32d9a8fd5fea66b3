//! Whether a node is heard of. Pure; what was heard last is remembered by the caller.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

/// How long silence is borne.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) running: SignedDuration,
    /// For a node that has never told of itself.
    pub(crate) starting: SignedDuration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            running: SignedDuration::from_secs(50),
            starting: SignedDuration::from_secs(60),
        }
    }
}

/// The last sign of life, and when it reached us: the clocks of nodes are not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    status: Option<Timestamp>,
    lease: Option<Timestamp>,
    at: Timestamp,
}

/// What a node has told until now.
pub(crate) fn hear(
    previous: Option<&Heard>,
    node: &Node,
    lease: Option<&Lease>,
    now: Timestamp,
) -> Heard {
    let ready = condition(node, "Ready");
    let status = ready
        .and_then(|ready| ready.last_heartbeat_time.as_ref())
        .map(|time| time.0);
    let lease = lease.and_then(|lease| lease.spec.as_ref());
    let lease = lease
        .and_then(|spec| spec.renew_time.as_ref())
        .map(|time| time.0);
    let at = match previous {
        Some(previous) if previous.status == status && previous.lease == lease => previous.at,
        // One that has not told anything yet is waited for from its beginning.
        None if ready.is_none() && lease.is_none() => created(node).unwrap_or(now),
        _ => now,
    };
    Heard { status, lease, at }
}

/// When the node will have been silent for too long.
pub(crate) fn deadline(heard: &Heard, node: &Node, patience: &Patience) -> Timestamp {
    let grace = match condition(node, "Ready") {
        Some(_) => patience.running,
        None => patience.starting,
    };
    heard.at + grace
}

const KEPT_BY_KUBELETS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Says in a node's status that nothing is known of it. Whether that is news.
pub(crate) fn mark_silent(node: &mut Value, now: &str) -> bool {
    let created = node["metadata"]["creationTimestamp"].clone();
    let conditions = &mut node["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else {
        return false;
    };
    let mut changed = false;
    for kind in KEPT_BY_KUBELETS {
        match conditions.iter_mut().find(|one| one["type"] == kind) {
            Some(one) if one["status"] == "Unknown" => {}
            Some(one) => {
                one["status"] = json!("Unknown");
                one["reason"] = json!("NodeStatusUnknown");
                one["message"] = json!("Kubelet stopped posting node status.");
                one["lastTransitionTime"] = json!(now);
                changed = true;
            }
            None => {
                conditions.push(json!({
                    "type": kind,
                    "status": "Unknown",
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                    "lastHeartbeatTime": created,
                    "lastTransitionTime": now,
                }));
                changed = true;
            }
        }
    }
    changed
}

/// Says of a pod on a node that is not ready that it is not ready either.
pub(crate) fn mark_pod_not_ready(pod: &mut Value, now: &str) -> bool {
    let conditions = pod["status"]["conditions"].as_array_mut();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "Ready");
    match ready {
        Some(ready) if ready["status"] != "False" => {
            ready["status"] = json!("False");
            ready["lastTransitionTime"] = json!(now);
            true
        }
        _ => false,
    }
}

pub(crate) fn condition<'a>(
    node: &'a Node,
    kind: &str,
) -> Option<&'a k8s_openapi::api::core::v1::NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|one| one.type_ == kind)
}

/// `True`, `False` or `Unknown`; `None` for one that says nothing.
pub(crate) fn ready(node: &Node) -> Option<&str> {
    condition(node, "Ready").map(|ready| ready.status.as_str())
}

fn created(node: &Node) -> Option<Timestamp> {
    node.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn node(heartbeat: Option<i64>) -> Node {
        let conditions = heartbeat.map(|second| {
            json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": at(second).to_string()}])
        });
        serde_json::from_value(json!({
            "metadata": {"name": "a", "creationTimestamp": at(0).to_string()},
            "status": {"conditions": conditions.unwrap_or(json!([]))},
        }))
        .unwrap()
    }

    fn lease(renewed: i64) -> Lease {
        serde_json::from_value(json!({"spec": {"renewTime": at(renewed).to_string()}})).unwrap()
    }

    #[test]
    fn a_sign_of_life_counts_from_when_it_was_seen() {
        let first = hear(None, &node(Some(-500)), None, at(10));
        assert_eq!(first.at, at(10), "whatever the node's clock says");
        let same = hear(Some(&first), &node(Some(-500)), None, at(40));
        assert_eq!(same.at, at(10));
        let renewed = hear(Some(&same), &node(Some(-500)), Some(&lease(-480)), at(41));
        assert_eq!(renewed.at, at(41));
        let again = hear(
            Some(&renewed),
            &node(Some(-450)),
            Some(&lease(-480)),
            at(44),
        );
        assert_eq!(again.at, at(44));
        let deadline = deadline(&again, &node(Some(-450)), &Patience::default());
        assert_eq!(deadline, at(94));
    }

    #[test]
    fn one_that_never_told_anything_is_waited_for_from_its_beginning() {
        let heard = hear(None, &node(None), None, at(30));
        assert_eq!(deadline(&heard, &node(None), &Patience::default()), at(60));
    }

    #[test]
    fn silence_is_written_into_every_condition_of_the_kubelet_once() {
        let mut object = json!({
            "metadata": {"creationTimestamp": "then"},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "h", "lastTransitionTime": "t"},
                {"type": "NetworkUnavailable", "status": "False", "lastTransitionTime": "t"},
            ]},
        });
        assert!(mark_silent(&mut object, "now"));
        let conditions = object["status"]["conditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 5);
        assert_eq!(
            conditions[0],
            json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastHeartbeatTime": "h",
                "message": "Kubelet stopped posting node status.", "lastTransitionTime": "now"})
        );
        assert_eq!(conditions[1]["status"], "False", "somebody else's");
        assert_eq!(conditions[2]["reason"], "NodeStatusNeverUpdated");
        assert_eq!(conditions[2]["lastHeartbeatTime"], "then");
        assert!(!mark_silent(&mut object, "later"));
        assert!(mark_silent(&mut json!({"metadata": {}}), "now"));
    }

    #[test]
    fn pods_of_a_silent_node_are_not_ready() {
        let mut pod = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "t"}]}});
        assert!(mark_pod_not_ready(&mut pod, "now"));
        assert_eq!(
            pod["status"]["conditions"][0],
            json!({"type": "Ready", "status": "False", "lastTransitionTime": "now"})
        );
        assert!(!mark_pod_not_ready(&mut pod, "later"));
        assert!(!mark_pod_not_ready(&mut json!({"status": {}}), "now"));
    }
}
