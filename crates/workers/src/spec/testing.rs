//! Pods for tests.

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

/// A pod `web` in `shop`, with what `spec` says.
pub(crate) fn pod(spec: &Value) -> Pod {
    let mut whole = json!({ "containers": [] });
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u-1" },
        "spec": whole,
    }))
    .unwrap()
}

/// A container `app`, with what `fields` says.
pub(crate) fn container(fields: &Value) -> Container {
    let mut whole = json!({ "name": "app", "image": "example/app:1" });
    for (key, value) in fields.as_object().unwrap() {
        whole[key] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}
