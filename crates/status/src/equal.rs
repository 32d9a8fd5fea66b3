//! Whether two statuses say the same, as far as a node has a say in it.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use serde_json::{Map, Value};

use crate::conditions::{DISRUPTION, find, is_own};

/// Conditions of others, and times of conditions, do not count; nor does what
/// others write into a status.
pub fn is_equal(one: &PodStatus, other: &PodStatus) -> bool {
    same_conditions(one, other) && rest(one) == rest(other)
}

fn same_conditions(one: &PodStatus, other: &PodStatus) -> bool {
    let (one, other) = (own(one), own(other));
    one.len() == other.len()
        && one.iter().all(|condition| {
            find(&other, &condition.type_).is_some_and(|other| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                condition.status == other.status
                    && text(&condition.reason) == text(&other.reason)
                    && text(&condition.message) == text(&other.message)
            })
        })
}

fn own(status: &PodStatus) -> Vec<PodCondition> {
    let conditions = status.conditions.iter().flatten();
    conditions
        .filter(|condition| is_own(&condition.type_) || condition.type_ == DISRUPTION)
        .cloned()
        .collect()
}

/// All but conditions, without what is empty.
fn rest(status: &PodStatus) -> Value {
    let status = PodStatus {
        conditions: None,
        resource_claim_statuses: None,
        extended_resource_claim_status: None,
        node_allocatable_resource_claim_statuses: None,
        ..status.clone()
    };
    // Our own types can always be written.
    filled(serde_json::to_value(status).unwrap_or_default(), false)
}

/// Empty and absent are the same, and so are two ways to write an amount.
fn filled(value: Value, amounts: bool) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| {
                let list = matches!(name.as_str(), "requests" | "limits" | "allocatedResources");
                (name, filled(value, amounts || list))
            });
            let fields: Map<String, Value> = fields.filter(|(_, value)| !is_empty(value)).collect();
            Value::Object(fields)
        }
        Value::Array(elements) => {
            let elements = elements.into_iter().map(|element| filled(element, false));
            Value::Array(elements.collect())
        }
        Value::String(text) if amounts => {
            let amount = text.parse::<types::Quantity>();
            Value::String(amount.map_or(text, |amount| amount.to_string()))
        }
        value => value,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_a_node_says_is_compared() {
        let base = json!({"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "theirs", "status": "True"},
        ]});
        let cases = [
            ("the same", json!({}), true),
            (
                "a time",
                json!({"conditions": [{"type": "Ready", "status": "True"}]}),
                true,
            ),
            ("nothing", json!({"podIPs": [], "reason": ""}), true),
            (
                "claims",
                json!({"resourceClaimStatuses": [{"name": "a"}]}),
                true,
            ),
            ("the phase", json!({"phase": "Failed"}), false),
            (
                "readiness",
                json!({"conditions": [{"type": "Ready", "status": "False"}]}),
                false,
            ),
            (
                "a reason",
                json!({"conditions": [
                {"type": "Ready", "status": "True", "reason": "Because"}]}),
                false,
            ),
            (
                "one more",
                json!({"conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "DisruptionTarget", "status": "True"}]}),
                false,
            ),
            ("an address", json!({"podIP": "10.0.0.1"}), false),
        ];
        for (what, change, equal) in cases {
            let mut changed = base.clone();
            for (key, value) in change.as_object().unwrap() {
                changed[key] = value.clone();
            }
            let status = |value: &Value| serde_json::from_value(value.clone()).unwrap();
            assert_eq!(is_equal(&status(&base), &status(&changed)), equal, "{what}");
        }
    }

    #[test]
    fn amounts_are_compared_as_amounts() {
        let status = |memory: &str| {
            let resources = json!({"limits": {"memory": memory}});
            let status = json!({"containerStatuses": [{"name": "a", "resources": resources}]});
            serde_json::from_value(status).unwrap()
        };
        assert!(is_equal(&status("1Gi"), &status("1024Mi")));
        assert!(!is_equal(&status("1Gi"), &status("1023Mi")));
    }
}
