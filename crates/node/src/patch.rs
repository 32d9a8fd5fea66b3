//! The strategic merge patch that makes one version of a node's object of
//! another, in the form that upstream sends to `nodes/NAME/status`.
//!
//! Lists are replaced as a whole but for the conditions, which the API merges by
//! type. Addresses are marked as merged, too, though two of one type are allowed:
//! where they change they are sent whole, with a word that says so.

use k8s_openapi::api::core::v1::Node;
use serde_json::{Map, Value, json};

const MERGED_BY_TYPE: [&str; 2] = ["addresses", "conditions"];

/// What makes `new` of `old`. The spec is not the node's to change: it is left out.
pub fn two_way(old: &Node, new: &Node) -> Value {
    let mut new = new.clone();
    new.spec.clone_from(&old.spec);
    let addresses = |node: &Node| {
        let status = node.status.as_ref();
        status
            .and_then(|status| status.addresses.clone())
            .unwrap_or_default()
    };
    let (before, after) = (addresses(old), addresses(&new));
    let whole = !before.is_empty() && before != after;
    if whole && let Some(status) = &mut new.status {
        status.addresses = Some(before);
    }
    let mut patch = difference(&object(old), &object(&new));
    if whole {
        let after = serde_json::to_value(after).unwrap_or_default();
        let mut list = after.as_array().cloned().unwrap_or_default();
        list.push(json!({"$patch": "replace"}));
        let status = patch
            .entry("status")
            .or_insert_with(|| Value::Object(Map::new()));
        status["addresses"] = Value::Array(list);
    }
    Value::Object(patch)
}

/// The object as it is sent; our own types can always be written.
fn object(node: &Node) -> Map<String, Value> {
    match serde_json::to_value(node) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

fn difference(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, after) in new {
        match (old.get(key), after) {
            (Some(before), after) if before == after => {}
            (Some(Value::Object(before)), Value::Object(after)) => {
                let inner = difference(before, after);
                if !inner.is_empty() {
                    patch.insert(key.clone(), Value::Object(inner));
                }
            }
            (Some(Value::Array(before)), Value::Array(after))
                if MERGED_BY_TYPE.contains(&key.as_str()) && !before.is_empty() =>
            {
                merged_by_type(&mut patch, key, before, after);
            }
            (_, after) => {
                patch.insert(key.clone(), after.clone());
            }
        }
    }
    patch
}

/// Elements that changed or are new in the order of `after`, then those that are
/// gone, and beside them the order of all.
fn merged_by_type(patch: &mut Map<String, Value>, key: &str, before: &[Value], after: &[Value]) {
    let mut elements = Vec::new();
    for element in after {
        let other = before.iter().find(|other| other["type"] == element["type"]);
        let (Some(Value::Object(other)), Value::Object(element)) = (other, element) else {
            elements.push(element.clone());
            continue;
        };
        let mut changed = difference(other, element);
        if !changed.is_empty() {
            let kind = element.get("type").cloned().unwrap_or_default();
            changed.insert("type".to_owned(), kind);
            elements.push(Value::Object(changed));
        }
    }
    let gone = before
        .iter()
        .filter(|other| after.iter().all(|element| element["type"] != other["type"]));
    elements.extend(gone.map(|other| json!({"$patch": "delete", "type": other["type"]})));
    if !elements.is_empty() {
        patch.insert(key.to_owned(), Value::Array(elements));
    }
    let order = after.iter().map(|element| json!({"type": element["type"]}));
    patch.insert(
        format!("$setElementOrder/{key}"),
        Value::Array(order.collect()),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(old: Value, new: Value) -> Value {
        let node = |value| serde_json::from_value(value).unwrap();
        two_way(&node(old), &node(new))
    }

    fn condition(kind: &str, status: &str, seen: &str) -> Value {
        json!({"type": kind, "status": status, "lastHeartbeatTime": seen})
    }

    const ONE: &str = "2026-01-01T00:00:01Z";
    const TWO: &str = "2026-01-01T00:00:02Z";

    #[test]
    fn equal_objects_need_no_patch() {
        let node = json!({"metadata": {"name": "n1"}, "status": {"phase": "Running"}});
        assert_eq!(patch(node.clone(), node), json!({}));
    }

    #[test]
    fn a_heartbeat_carries_the_times_and_the_order_of_conditions() {
        let with = |seen| {
            json!({"status": {"conditions": [
                condition("MemoryPressure", "False", seen), condition("Ready", "True", seen),
            ]}})
        };
        assert_eq!(
            patch(with(ONE), with(TWO)),
            json!({"status": {
                "$setElementOrder/conditions": [{"type": "MemoryPressure"}, {"type": "Ready"}],
                "conditions": [
                    {"type": "MemoryPressure", "lastHeartbeatTime": TWO},
                    {"type": "Ready", "lastHeartbeatTime": TWO},
                ],
            }})
        );
    }

    #[test]
    fn conditions_of_others_are_named_in_the_order_only() {
        let before = [
            condition("NetworkUnavailable", "False", ONE),
            condition("Ready", "True", ONE),
        ];
        let after = [
            condition("NetworkUnavailable", "False", ONE),
            condition("Ready", "False", TWO),
        ];
        assert_eq!(
            patch(
                json!({"status": {"conditions": before}}),
                json!({"status": {"conditions": after}})
            ),
            json!({"status": {
                "$setElementOrder/conditions": [{"type": "NetworkUnavailable"}, {"type": "Ready"}],
                "conditions": [{"type": "Ready", "status": "False", "lastHeartbeatTime": TWO}],
            }})
        );
    }

    #[test]
    fn a_condition_that_comes_or_goes_is_sent_whole_or_deleted() {
        let before = [
            condition("Old", "True", ONE),
            condition("Ready", "True", ONE),
        ];
        let after = [
            condition("Ready", "True", ONE),
            condition("New", "True", ONE),
        ];
        assert_eq!(
            patch(
                json!({"status": {"conditions": before}}),
                json!({"status": {"conditions": after}})
            ),
            json!({"status": {
                "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "New"}],
                "conditions": [condition("New", "True", ONE), {"$patch": "delete", "type": "Old"}],
            }})
        );
    }

    #[test]
    fn the_first_conditions_and_addresses_are_sent_as_they_are() {
        let addresses = json!([
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "InternalIP", "address": "fd00::1"},
        ]);
        let conditions = json!([condition("Ready", "True", ONE)]);
        let status = json!({"status": {"addresses": addresses, "conditions": conditions}});
        assert_eq!(patch(json!({}), status.clone()), status);
    }

    #[test]
    fn addresses_that_change_are_replaced_as_a_whole() {
        let with = |address: &str| {
            json!({"status": {"addresses": [
                {"type": "InternalIP", "address": address}, {"type": "Hostname", "address": "n1"},
            ]}})
        };
        assert_eq!(
            patch(with("10.0.0.1"), with("10.0.0.2")),
            json!({"status": {"addresses": [
                {"type": "InternalIP", "address": "10.0.0.2"},
                {"type": "Hostname", "address": "n1"},
                {"$patch": "replace"},
            ]}})
        );
        assert_eq!(
            patch(with("10.0.0.1"), json!({"status": {}})),
            json!({"status": {"addresses": [{"$patch": "replace"}]}})
        );
    }

    #[test]
    fn what_is_gone_is_null_and_other_lists_are_replaced() {
        assert_eq!(
            patch(
                json!({"status": {
                    "capacity": {"cpu": "2", "hugepages-1Gi": "0"},
                    "images": [{"names": ["a", "b"]}], "declaredFeatures": ["X"],
                }}),
                json!({"status": {
                    "capacity": {"cpu": "4"}, "images": [{"names": ["a"]}],
                }})
            ),
            json!({"status": {
                "capacity": {"cpu": "4", "hugepages-1Gi": null},
                "images": [{"names": ["a"]}], "declaredFeatures": null,
            }})
        );
    }

    #[test]
    fn metadata_rides_along_and_the_spec_stays_at_home() {
        assert_eq!(
            patch(
                json!({
                    "metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"x": "y"}},
                    "spec": {"unschedulable": true},
                }),
                json!({"metadata": {"labels": {"a": "1", "b": "3"}}, "spec": {"providerID": "p"}})
            ),
            json!({"metadata": {"labels": {"b": "3"}, "annotations": null}})
        );
    }
}
