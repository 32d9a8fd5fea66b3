//! Pods from files on the node, and their mirrors.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::manifest::{FOREVER, pod};
use super::super::scenario::Scenario;
use super::super::stage::{Stage, container_id, is_ready};

/// Puts a manifest where the agent looks, in one step.
fn put(stage: &Stage<'_>, grace: u32) -> Result<()> {
    put_running(stage, FOREVER, grace)
}

fn put_running(stage: &Stage<'_>, script: &str, grace: u32) -> Result<()> {
    let namespace = stage.namespace();
    let manifest = pod("web", script)
        .metadata(&json!({"namespace": namespace}))
        .spec(&json!({"terminationGracePeriodSeconds": grace}));
    let beside = format!("/etc/kubernetes/{namespace}.new");
    stage.write_on_node(&beside, &manifest.0.to_string())?;
    let file = file(stage);
    stage.on_node(&format!("mv {beside} {file}")).map(drop)
}

fn file(stage: &Stage<'_>) -> String {
    format!("/etc/kubernetes/manifests/{}.json", stage.namespace())
}

/// Puts the same pod into a file that comes later in the directory.
fn put_again(stage: &Stage<'_>, grace: u32) -> Result<()> {
    let file = file(stage);
    let old = format!("{file}.old");
    let change = format!("s/\\(terminationGracePeriodSeconds\":\\)[0-9]*/\\1{grace}/");
    let beside = format!("/etc/kubernetes/{}.old", stage.namespace());
    let script = format!("sed '{change}' {file} > {beside}; mv {beside} {old}");
    stage.on_node(&script).map(drop)
}

fn mirror(stage: &Stage<'_>) -> String {
    format!("web-{}", stage.node_name())
}

/// Ends when it is told to, and takes its time.
const SLOW: &str = "trap 'sleep 6; exit 0' TERM; sleep 100000 & wait";

/// The grace of each container that runs, as it was made with it. How often it has been
/// started before is chance: upstream may have removed the old one, or not yet.
fn running_containers(stage: &Stage<'_>) -> String {
    format!(
        "for id in $(crictl ps --quiet --label io.kubernetes.pod.namespace={}); do \
         crictl inspect $id | grep -o '\"io.kubernetes.pod.terminationGracePeriod\":.*' | sort -u; \
         done",
        stage.namespace()
    )
}

fn grace(pod: &Value) -> Option<u64> {
    pod["spec"]["terminationGracePeriodSeconds"].as_u64()
}

/// Takes the manifest away. What upstream still says of a mirror before it deletes
/// it is chance: only that it goes is compared.
fn take_away(stage: &mut Stage<'_>) -> Result<()> {
    let name = mirror(stage);
    stage.look_away(&name)?;
    stage.on_node(&format!("rm {}", file(stage)))?;
    stage.gone(&name)
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "static-pod",
        "a file is a pod as long as it is there",
        |stage| {
            put(stage, 5)?;
            stage.running(&mirror(stage))?;
            take_away(stage)
        },
    )
    .ci(),
    Scenario::new(
        "static-pod-edited",
        "another content is another pod",
        |stage| {
            put(stage, 5)?;
            let name = mirror(stage);
            stage.running(&name)?;
            stage.look_away(&name)?;
            put(stage, 6)?;
            stage.until("the new mirror to be ready", |view| {
                view.pod(&name)
                    .is_some_and(|pod| grace(pod) == Some(6) && is_ready(pod))
            })?;
            take_away(stage)
        },
    ),
    Scenario::new(
        "static-pod-edited-back",
        "what is edited back while the old one ends is the old one again, in another container",
        |stage| {
            let (old, new) = (20, 21);
            put_running(stage, SLOW, old)?;
            let name = mirror(stage);
            stage.running(&name)?;
            stage.look_away(&name)?;
            let first = stage.container_of(&name, "main")?;
            put_running(stage, SLOW, new)?;
            stage.said("Killing")?;
            put_running(stage, SLOW, old)?;
            stage.until("the old one to be back", |view| {
                view.pod(&name).is_some_and(|pod| {
                    grace(pod) == Some(old.into())
                        && is_ready(pod)
                        && container_id(pod, "main") != first
                })
            })?;
            stage.keep("what runs", &running_containers(stage))?;
            take_away(stage)
        },
    ),
    Scenario::new(
        "static-pod-twice",
        "of two files that name one pod the last counts",
        |stage| {
            put(stage, 5)?;
            let name = mirror(stage);
            stage.running(&name)?;
            stage.look_away(&name)?;
            put_again(stage, 6)?;
            stage.until("the mirror of the second file", |view| {
                view.pod(&name)
                    .is_some_and(|pod| grace(pod) == Some(6) && is_ready(pod))
            })?;
            let old = format!("{}.old", file(stage));
            stage.on_node(&format!("rm {old}"))?;
            take_away(stage)
        },
    ),
    // Upstream says of the new mirror that it runs after seconds, or after minutes:
    // here it is only to be there.
    Scenario::new(
        "static-pod-mirror-deleted",
        "a mirror that is deleted comes back",
        |stage| {
            put(stage, 5)?;
            let name = mirror(stage);
            stage.running(&name)?;
            stage.look_away(&name)?;
            stage.delete(&name, None)?;
            stage.until("another mirror", |view| view.lives(&name) == 2)?;
            stage.look_away_from_the_start(&name)?;
            take_away(stage)
        },
    ),
];
