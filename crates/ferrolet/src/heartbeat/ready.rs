//! What the Ready condition of a node says that lives by us.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use serde_json::{Value, json};

pub(super) const REASON: &str = "HeldByHeartbeat";
const MESSAGE: &str = "no agent is behind this node: `ferrolet heartbeat` holds it Ready";

/// How often it is said that nothing changed; a kubelet's default.
const REPORT: Duration = Duration::from_secs(300);

/// What must be sent to the node's status.
#[derive(Debug, PartialEq)]
pub(super) struct Change {
    pub(super) patch: Value,
    /// What the condition was, if it becomes another.
    pub(super) from: Option<String>,
}

/// What is to be changed now, if anything.
pub(super) fn change(node: &Node, now: Timestamp) -> Option<Change> {
    let ready = ready(node);
    let status = ready.map_or("none", |ready| ready.status.as_str());
    let told = ready.is_some_and(|ready| {
        ready.reason.as_deref() == Some(REASON) && ready.message.as_deref() == Some(MESSAGE)
    });
    let same = status == "True" && told;
    let beat = ready.and_then(|ready| ready.last_heartbeat_time.as_ref());
    let fresh = beat.is_some_and(|beat| {
        let past = Duration::try_from(now.duration_since(beat.0)).unwrap_or_default();
        past < REPORT
    });
    if same && fresh {
        return None;
    }
    // Written to the second, as the API keeps it.
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut condition = json!({
        "type": "Ready",
        "status": "True",
        "reason": REASON,
        "message": MESSAGE,
        "lastHeartbeatTime": now,
    });
    if status != "True" {
        condition["lastTransitionTime"] = json!(now);
    }
    Some(Change {
        patch: json!({ "status": { "conditions": [condition] } }),
        from: (!same).then(|| described(ready)),
    })
}

fn ready(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
}

fn described(ready: Option<&NodeCondition>) -> String {
    let Some(ready) = ready else {
        return "none".to_owned();
    };
    match &ready.reason {
        Some(reason) => format!("{} ({reason})", ready.status),
        None => ready.status.clone(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn node(status: &str, reason: &str, message: &str) -> Node {
        Node {
            status: Some(NodeStatus {
                conditions: Some(vec![NodeCondition {
                    type_: "Ready".to_owned(),
                    status: status.to_owned(),
                    reason: Some(reason.to_owned()),
                    message: Some(message.to_owned()),
                    last_heartbeat_time: Some(Time(at(0))),
                    ..NodeCondition::default()
                }]),
                ..NodeStatus::default()
            }),
            ..Node::default()
        }
    }

    #[test]
    fn a_node_that_is_not_ready_becomes_so_and_the_message_says_by_whom() {
        for (node, from) in [
            (Node::default(), "none"),
            (
                node("Unknown", "NodeStatusUnknown", "gone"),
                "Unknown (NodeStatusUnknown)",
            ),
        ] {
            let change = change(&node, at(7)).unwrap();
            assert_eq!(change.from.as_deref(), Some(from));
            let condition = &change.patch["status"]["conditions"][0];
            assert_eq!(condition["status"], "True");
            assert_eq!(condition["reason"], REASON);
            let message = condition["message"].as_str().unwrap();
            assert!(message.contains("ferrolet heartbeat"), "{message}");
            assert_eq!(condition["lastTransitionTime"], "2027-01-15T08:00:07Z");
            assert_eq!(condition["lastHeartbeatTime"], "2027-01-15T08:00:07Z");
        }
    }

    #[test]
    fn what_a_kubelet_said_last_is_replaced_and_the_time_of_the_change_kept() {
        let change = change(&node("True", "KubeletReady", "posting"), at(7)).unwrap();
        assert_eq!(change.from.as_deref(), Some("True (KubeletReady)"));
        let condition = &change.patch["status"]["conditions"][0];
        assert!(condition.get("lastTransitionTime").is_none(), "{condition}");
    }

    #[test]
    fn what_is_said_already_is_said_again_only_after_five_minutes() {
        let held = node("True", REASON, MESSAGE);
        assert_eq!(change(&held, at(299)), None);
        let change = change(&held, at(300)).unwrap();
        assert_eq!(change.from, None);
        let condition = &change.patch["status"]["conditions"][0];
        assert_eq!(condition["lastHeartbeatTime"], "2027-01-15T08:05:00Z");
    }
}
