//! Pods for tests.

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

pub(crate) fn pod(spec: &Value) -> Pod {
    serde_json::from_value(json!({ "metadata": { "uid": "u-1" }, "spec": spec })).unwrap()
}

/// A container with requests and limits; `null` for none.
pub(crate) fn container(name: &str, requests: &Value, limits: &Value) -> Value {
    json!({ "name": name, "resources": { "requests": requests, "limits": limits } })
}

pub(crate) fn sidecar(name: &str, requests: &Value, limits: &Value) -> Value {
    let mut container = container(name, requests, limits);
    container["restartPolicy"] = json!("Always");
    container
}

pub(crate) fn named<'a>(pod: &'a Pod, name: &str) -> &'a Container {
    let spec = pod.spec.as_ref().unwrap();
    let all = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    all.into_iter()
        .find(|container| container.name == name)
        .unwrap()
}
