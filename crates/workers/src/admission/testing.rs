//! Pods, nodes and settings for tests.

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::Settings;

/// A pod `web`, with what `spec` says.
pub(super) fn pod(spec: &Value) -> Pod {
    whole_pod(&json!({ "spec": spec }))
}

/// A pod `web`, with what `parts` says of it.
pub(super) fn whole_pod(parts: &Value) -> Pod {
    let mut whole = json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u-1" },
        "spec": { "containers": [] },
    });
    lay_over(&mut whole, parts);
    serde_json::from_value(whole).unwrap()
}

/// A node `n1` with room for two pods, with what `parts` says of it.
pub(super) fn node(parts: &Value) -> Node {
    let mut whole = json!({
        "metadata": { "name": "n1", "labels": { "kubernetes.io/os": "linux", "zone": "a" } },
        "status": { "allocatable": {
            "cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi", "pods": "2",
        } },
    });
    lay_over(&mut whole, parts);
    serde_json::from_value(whole).unwrap()
}

/// A node that allows nothing beyond the usual.
pub(super) fn settings() -> Settings {
    Settings {
        allowed_unsafe_sysctls: Vec::new(),
        kernel: "6.8.0-45-generic".to_owned(),
        supplemental_groups_policy: false,
        app_armor: true,
        operating_system: "linux",
        pod_level_resources: true,
    }
}

/// Objects are merged, anything else is replaced.
pub(super) fn lay_over(whole: &mut Value, parts: &Value) {
    match (whole.as_object_mut(), parts.as_object()) {
        (Some(known), Some(parts)) => {
            for (key, part) in parts {
                lay_over(known.entry(key).or_insert(Value::Null), part);
            }
        }
        _ => *whole = parts.clone(),
    }
}
