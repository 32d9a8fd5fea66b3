//! The strategic merge patch that makes one status of another, in the form that
//! upstream sends to `pods/NAME/status`.
//!
//! Conditions and addresses are merged by a key; other lists, those of containers
//! among them, are replaced as a whole.

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Map, Value, json};

/// Lists that the API merges, and by what.
const MERGED: [(&str, &str); 3] = [("conditions", "type"), ("hostIPs", "ip"), ("podIPs", "ip")];

/// What makes `new` of `old`; `None`: nothing to do. With the uid in it, it cannot
/// hit another pod of the same name.
pub fn two_way(uid: &str, old: &PodStatus, new: &PodStatus) -> Option<Value> {
    let status = difference(&object(old), &object(new));
    (!status.is_empty()).then(|| json!({"metadata": {"uid": uid}, "status": status}))
}

/// The status as it is sent; our own types can always be written.
fn object(status: &PodStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
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
        let merged = MERGED.iter().find(|(list, _)| list == key);
        match (old.get(key), after) {
            (Some(before), after) if before == after => {}
            (Some(Value::Object(before)), Value::Object(after)) => {
                let inner = difference(before, after);
                if !inner.is_empty() {
                    patch.insert(key.clone(), Value::Object(inner));
                }
            }
            (Some(Value::Array(before)), Value::Array(after)) if !before.is_empty() => match merged
            {
                Some((_, by)) => merged_by(&mut patch, (key, by), before, after),
                None => drop(patch.insert(key.clone(), json!(after))),
            },
            (_, after) => {
                patch.insert(key.clone(), after.clone());
            }
        }
    }
    patch
}

/// Elements that changed or are new, then those that are gone, and beside them the
/// order of all.
fn merged_by(
    patch: &mut Map<String, Value>,
    (list, by): (&str, &str),
    before: &[Value],
    after: &[Value],
) {
    let mut elements = Vec::new();
    for element in after {
        let other = before.iter().find(|other| other[by] == element[by]);
        let (Some(Value::Object(other)), Value::Object(element)) = (other, element) else {
            elements.push(element.clone());
            continue;
        };
        let mut changed = difference(other, element);
        if !changed.is_empty() {
            let key = element.get(by).cloned().unwrap_or_default();
            changed.insert(by.to_owned(), key);
            elements.push(Value::Object(changed));
        }
    }
    let gone = before
        .iter()
        .filter(|other| after.iter().all(|element| element[by] != other[by]));
    elements.extend(gone.map(|other| json!({"$patch": "delete", by: other[by]})));
    if !elements.is_empty() {
        patch.insert(list.to_owned(), Value::Array(elements));
    }
    let order = after.iter().map(|element| json!({by: element[by]}));
    patch.insert(format!("$setElementOrder/{list}"), order.collect());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(old: Value, new: Value) -> Value {
        let status = |value| serde_json::from_value(value).unwrap();
        two_way("u-1", &status(old), &status(new)).unwrap_or_default()
    }

    fn of(status: &Value) -> Value {
        json!({"metadata": {"uid": "u-1"}, "status": status})
    }

    #[test]
    fn equal_statuses_need_no_patch() {
        let status = json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]});
        assert_eq!(patch(status.clone(), status), Value::Null);
    }

    #[test]
    fn a_first_status_is_sent_as_it_is() {
        let status = json!({"phase": "Pending", "conditions": [
            {"type": "Ready", "status": "False"},
        ], "podIPs": [{"ip": "10.0.0.1"}]});
        assert_eq!(patch(json!({"phase": "Pending"}), status.clone()), {
            let mut rest = status;
            rest.as_object_mut().unwrap().remove("phase");
            of(&rest)
        });
    }

    #[test]
    fn conditions_are_merged_and_containers_replaced() {
        let status = |ready: &str, count: i32| {
            json!({
                "conditions": [
                    {"type": "theirs", "status": "True"}, {"type": "Ready", "status": ready},
                ],
                "containerStatuses": [{"name": "a", "image": "", "imageID": "", "ready": true,
                    "restartCount": count}],
            })
        };
        assert_eq!(
            patch(status("False", 0), status("True", 1)),
            of(&json!({
                "$setElementOrder/conditions": [{"type": "theirs"}, {"type": "Ready"}],
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": status("", 1)["containerStatuses"],
            }))
        );
    }

    #[test]
    fn an_address_that_changes_takes_the_place_of_the_old_one() {
        let status = |ip: &str| json!({"podIP": ip, "podIPs": [{"ip": ip}]});
        assert_eq!(
            patch(status("10.0.0.1"), status("10.0.0.2")),
            of(&json!({
                "podIP": "10.0.0.2",
                "$setElementOrder/podIPs": [{"ip": "10.0.0.2"}],
                "podIPs": [{"ip": "10.0.0.2"}, {"$patch": "delete", "ip": "10.0.0.1"}],
            }))
        );
        assert_eq!(
            patch(json!({"reason": "Evicted"}), json!({})),
            of(&json!({"reason": null}))
        );
    }
}
