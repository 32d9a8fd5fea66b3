//! Sandboxes: which handler of the runtime runs them, and what happens when they end.

use anyhow::Result;
use serde_json::json;

use super::super::manifest::{FOREVER, Pod, pod};
use super::super::scenario::Scenario;
use super::super::stage::Stage;

const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";

/// Makes a class of this play's name, and a pod of it.
pub(super) fn of_class(stage: &Stage<'_>, handler: &str, script: &str) -> Result<Pod> {
    let name = stage.namespace();
    let class = json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": handler,
        "overhead": {"podFixed": {"cpu": "20m", "memory": "4Mi"}},
    });
    stage.make_in_cluster(CLASSES, &class)?;
    // Admission looks into a cache of its own.
    stage.on_node("sleep 1")?;
    Ok(pod("p", script).spec(&json!({"runtimeClassName": name})))
}

pub(super) fn remove_class(stage: &Stage<'_>) -> Result<()> {
    stage.remove_from_cluster(&format!("{CLASSES}/{}", stage.namespace()))
}

/// As after an accident.
fn stop_sandbox(stage: &Stage<'_>) -> String {
    let namespace = stage.namespace();
    format!("sleep 1; crictl --timeout 30s stopp $(crictl pods --namespace {namespace} -q)")
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "runtime-class",
        "a pod is run by a handler, and costs more than it asks for",
        |stage| {
            let pod = of_class(stage, "runc", FOREVER)?;
            let asked = json!({"resources": {
                "requests": {"cpu": "10m", "memory": "16Mi"},
                "limits": {"cpu": "100m", "memory": "32Mi"},
            }});
            stage.create(pod.main(&asked))?;
            stage.running("p")?;
            stage.end("p")?;
            remove_class(stage)
        },
    ),
    Scenario::new(
        "runtime-class-without-handler",
        "the runtime has no such handler",
        |stage| {
            let pod = of_class(stage, "nowhere", FOREVER)?;
            stage.create(pod)?;
            stage.said("FailedCreatePodSandBox")?;
            stage.end("p")?;
            remove_class(stage)
        },
    ),
    Scenario::new(
        "sandbox-lost",
        "a pod gets another sandbox when its own has ended",
        |stage| {
            stage.create(pod("p", FOREVER))?;
            stage.running("p")?;
            stage.on_node(&stop_sandbox(stage))?;
            stage.state("p", "main", "running restarts=1")?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "runtime-class-gone",
        "a class that is gone when its pod needs another sandbox",
        |stage| {
            let pod = of_class(stage, "runc", FOREVER)?;
            stage.create(pod)?;
            stage.running("p")?;
            remove_class(stage)?;
            stage.on_node(&stop_sandbox(stage))?;
            // Each try says that the sandbox has changed.
            stage.said_again("SandboxChanged")?;
            stage.said("FailedCreatePodSandBox")?;
            stage.end("p")
        },
    ),
];
