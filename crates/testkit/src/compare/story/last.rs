//! The last status of a pod, leaf by leaf: lists of named things by name.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Words, text};

pub(super) fn leaves(words: &Words, pod: &Value) -> BTreeMap<String, String> {
    let mut leaves = BTreeMap::new();
    let mut status = pod["status"].clone();
    if (status["phase"] == "Succeeded" || status["phase"] == "Failed")
        && let Some(fields) = status.as_object_mut()
    {
        // What the pod's cgroup says: whether it is still there at the last look is
        // chance.
        fields.remove("resources");
    }
    flatten(words, "", &status, &mut leaves);
    let metadata = &pod["metadata"];
    for field in [
        "deletionGracePeriodSeconds",
        "finalizers",
        "ownerReferences",
    ] {
        flatten(words, field, &metadata[field], &mut leaves);
    }
    leaves
}

fn flatten(words: &Words, path: &str, value: &Value, leaves: &mut BTreeMap<String, String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(words, &format!("{path}{dot}{key}"), value, leaves);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                let key = ["type", "name", "mountPath"]
                    .into_iter()
                    .map(|field| text(&item[field]))
                    .find(|name| !name.is_empty())
                    .unwrap_or_else(|| index.to_string());
                let key = words.normal(&key);
                flatten(words, &format!("{path}[{key}]"), item, leaves);
            }
        }
        leaf if is_no_limit(path, leaf) => {}
        leaf => {
            leaves.insert(path.to_owned(), normal_leaf(words, path, leaf));
        }
    }
}

fn normal_leaf(words: &Words, path: &str, leaf: &Value) -> String {
    // Of another object, that is on no tape; the uid of a user is something else.
    if path.starts_with("ownerReferences[") && path.rsplit('.').next() == Some("uid") {
        return "UID".to_owned();
    }
    words.normal(&text(leaf))
}

/// Pod-level resources that say nothing: upstream reports what a cgroup of v1 holds
/// where there is no limit as long as the cgroup is there, and then nothing.
fn is_no_limit(path: &str, leaf: &Value) -> bool {
    let none = leaf == "9007199254740988Ki" || leaf.as_object().is_some_and(Map::is_empty);
    path.starts_with("resources") && none
}
