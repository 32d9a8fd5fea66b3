//! What users are told of resizes, in upstream's words.

use k8s_openapi::api::core::v1::{Container, Pod};
use serde::Serialize;

use super::checkpoint::{Requirements, go_json};

#[derive(Serialize)]
struct Summary<'a> {
    #[serde(rename = "initContainers", skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Own<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<Own<'a>>,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
}

#[derive(Serialize)]
struct Own<'a> {
    name: &'a str,
    resources: Requirements,
}

/// The text of an event: what happened, and to which resources.
pub fn message(pod: &Pod, generation: Option<i64>, error: &str, what: &str) -> String {
    let own = |container| {
        let Container {
            name, resources, ..
        }: &Container = container;
        let resources = resources.as_ref().map(Requirements::of);
        Own {
            name,
            resources: resources.unwrap_or_default(),
        }
    };
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_ref());
    let summary = Summary {
        init_containers: init.into_iter().flatten().map(own).collect(),
        containers: spec
            .iter()
            .flat_map(|spec| &spec.containers)
            .map(own)
            .collect(),
        generation: generation.unwrap_or_default(),
        error,
    };
    match go_json(&summary) {
        Ok(summary) => format!("Pod resize {what}: {summary}"),
        Err(_) => format!("Pod resize {what}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_says_what_happened_and_to_which_resources() {
        let pod = json!({ "spec": {
            "initContainers": [{ "name": "i" }],
            "containers": [{ "name": "c", "resources": {
                "requests": { "cpu": "1" }, "limits": { "memory": "2Mi" },
            } }],
        } });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(
            message(&pod, Some(3), "", "started"),
            "Pod resize started: {\"initContainers\":[{\"name\":\"i\",\"resources\":{}}],\
             \"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"memory\":\"2Mi\"},\
             \"requests\":{\"cpu\":\"1\"}}}],\"generation\":3}"
        );
        let pod = json!({ "spec": { "containers": [{ "name": "c" }] } });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(
            message(&pod, None, "a > b", "Deferred"),
            "Pod resize Deferred: {\"containers\":[{\"name\":\"c\",\"resources\":{}}],\
             \"generation\":0,\"error\":\"a \\u003e b\"}"
        );
    }
}
