//! Pods that write more than they may.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::manifest::{FOREVER, Pod, container, pod};
use super::super::scenario::Scenario;
use super::super::stage::Stage;

/// Writes three mebibytes, and fails when it is told to end.
fn writer(to: &str) -> String {
    format!("dd if=/dev/zero of={to} bs=64k count=48; trap 'exit 3' TERM; sleep 100000 & wait")
}

fn limit(amount: &str) -> Value {
    json!({"resources": {"limits": {"ephemeral-storage": amount}}})
}

fn directory(limit: &str) -> Value {
    json!({"emptyDir": {"sizeLimit": limit}})
}

/// It goes, and what is told of it then stays.
fn evicted(stage: &Stage<'_>, pod: Pod) -> Result<()> {
    stage.create(pod)?;
    stage.failed_in_the_end("p")?;
    stage.said("Evicted")?;
    stage.end("p")
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "evicted-empty-dir",
        "a directory is larger than it may be",
        |stage| {
            // It is there when volumes are first counted.
            let mut before = container("before", "dd if=/dev/zero of=/v/f bs=64k count=48");
            before["volumeMounts"] = json!([{"name": "v0", "mountPath": "/v"}]);
            let sulky = "trap 'exit 3' TERM; sleep 100000 & wait";
            let pod = pod("p", sulky).volume("/v", &directory("1Mi"));
            evicted(stage, pod.spec(&json!({"initContainers": [before]})))
        },
    ),
    Scenario::new(
        "evicted-pod-storage",
        "all that a pod writes is more than its containers may",
        |stage| evicted(stage, pod("p", &writer("/f")).main(&limit("1Mi"))),
    ),
    Scenario::new(
        "evicted-container-storage",
        "one container writes more than it may, and the pod does not",
        |stage| {
            let mut other = container("other", FOREVER);
            other["resources"] = json!({"limits": {"ephemeral-storage": "1Gi"}});
            let pod = pod("p", &writer("/f")).main(&limit("1Mi")).and(other);
            evicted(stage, pod)
        },
    ),
];
