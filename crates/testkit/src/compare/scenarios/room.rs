//! Room for pods: what makes it, and what a node has that it did not have before.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::manifest::{FOREVER, Pod, pod};
use super::super::scenario::{Lane, Scenario};
use super::super::stage::Stage;

/// Fails when it is told to end.
const SULKY: &str = "trap 'exit 3' TERM; sleep 100000 & wait";

/// Asks for most of the node's CPUs.
fn greedy(stage: &Stage<'_>, name: &str) -> Result<Pod> {
    greedy_as(stage, name, FOREVER)
}

fn greedy_as(stage: &Stage<'_>, name: &str, script: &str) -> Result<Pod> {
    let milli = stage.cpus()? * 1000 - 800;
    Ok(pod(name, script).main(&requests(milli)))
}

fn requests(milli: u64) -> Value {
    json!({"resources": {"requests": {"cpu": format!("{milli}m")}}})
}

fn critical(pod: Pod) -> Pod {
    pod.spec(&json!({"priorityClassName": "system-node-critical"}))
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "preempted",
        "a pod makes room for a critical one",
        |stage| {
            stage.create(greedy_as(stage, "low", SULKY)?)?;
            stage.running("low")?;
            stage.create(critical(greedy(stage, "high")?))?;
            stage.phase("low", "Failed")?;
            stage.running("high")?;
            stage.end("high")?;
            stage.end("low")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "preempted-and-content",
        "a pod makes room, and its container ends well",
        |stage| {
            stage.create(greedy(stage, "low")?)?;
            stage.running("low")?;
            stage.create(critical(greedy(stage, "high")?))?;
            stage.phase("low", "Succeeded")?;
            stage.running("high")?;
            stage.end("high")?;
            stage.end("low")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "preempted-in-vain",
        "no room that is made is enough for a critical pod",
        |stage| {
            stage.create(pod("low", FOREVER).main(&requests(100)))?;
            stage.running("low")?;
            // Of these the node has none, whoever else is on it.
            let asked = json!({"memory": "16Mi", "hugepages-1Gi": "1Gi"});
            let asked = json!({"resources": {"requests": asked, "limits": asked}});
            stage.create(critical(pod("high", FOREVER).main(&asked)))?;
            stage.phase("high", "Failed")?;
            stage.end("high")?;
            stage.end("low")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "no-room-for-ordinary-ones",
        "a pod of a higher priority that is not critical finds no room",
        |stage| {
            stage.create(greedy(stage, "low")?)?;
            stage.running("low")?;
            stage.create(greedy(stage, "high")?)?;
            stage.phase("high", "Failed")?;
            stage.end("high")?;
            stage.end("low")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "critical-on-wrong-node",
        "nobody makes room for a critical pod that does not want this node",
        |stage| {
            stage.create(greedy(stage, "low")?)?;
            stage.running("low")?;
            let other = json!({"nodeSelector": {"no": "such"}});
            stage.create(critical(greedy(stage, "high")?).spec(&other))?;
            stage.phase("high", "Failed")?;
            stage.end("high")?;
            stage.end("low")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "label-just-given",
        "a pod selects a label that its node was given a moment ago",
        |stage| {
            let label = format!("lab.test/{}", stage.namespace());
            stage.patch_node(&json!({"metadata": {"labels": {&label: "yes"}}}))?;
            stage.create(pod("p", FOREVER).spec(&json!({"nodeSelector": {&label: "yes"}})))?;
            stage.running("p")?;
            stage.end("p")?;
            stage.patch_node(&json!({"metadata": {"labels": {&label: null}}}))
        },
    ),
];
