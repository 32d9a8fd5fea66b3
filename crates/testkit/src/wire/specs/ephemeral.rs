//! Containers that are put into a pod that runs.

use serde_json::{Value, json};

use crate::wire::spec::{Spec, Until, spec};

const PART: &str = "/ephemeralcontainers";

fn visited(spec: Spec, change: &Value) -> Spec {
    let image = format!("registry.example/{}/visitor:1", spec.name);
    let mut visitor = json!({"name": "visitor", "image": image, "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "File"});
    crate::compare::manifest::merge(&mut visitor, change);
    // Both are stopped at once.
    spec.story("stop-delay", "1s").then(
        PART,
        json!({"spec": {"ephemeralContainers": [visitor]}}),
        Until::Runs("visitor"),
    )
}

pub(super) fn specs() -> Vec<Spec> {
    vec![
        visited(spec("visitor"), &json!({})),
        visited(
            spec("visitor-with-words"),
            &json!({"command": ["sh"], "stdin": true, "tty": true,
                "env": [{"name": "A", "value": "b"}]}),
        ),
        visited(
            spec("visitor-beside-processes"),
            &json!({"targetContainerName": "main"}),
        ),
        visited(
            spec("visitor-in-shared-processes").pod(json!({"shareProcessNamespace": true})),
            &json!({"targetContainerName": "main"}),
        ),
        visited(
            spec("visitor-with-powers"),
            &json!({"securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}, "runAsUser": 0}}),
        ),
    ]
}
