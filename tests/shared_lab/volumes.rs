//! Volumes as containers see them, and what the node has of them afterwards: nothing.

mod kinds;
mod limits;
mod options;
mod propagation;
mod seen;
mod trust;
mod updates;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::wait;

use crate::pods::stage::{SOON, Stage};

const PODS: &str = "/var/lib/kubelet/pods";

fn uid(pod: &Value) -> Result<&str> {
    pod["metadata"]["uid"].as_str().context("a pod without uid")
}

/// Runs a script in the node.
fn on_node(stage: &Stage, script: &str) -> Result<String> {
    stage.node.machine().run("sh", ["-c", script])
}

/// What the container `main` of a pod has printed.
fn printed(stage: &Stage, pod: &str) -> Result<String> {
    let pod = format!("io.kubernetes.pod.name={pod}");
    let main = "io.kubernetes.container.name=main";
    let labels = ["--label", &pod, "--label", main];
    let found = stage
        .node
        .crictl([&["ps", "-a", "-q"][..], &labels].concat())?;
    let id = found.lines().next().context("it has no container")?;
    stage.node.crictl(["logs", id])
}

/// Waits until neither a mount nor a directory of a pod is in the node.
fn wait_no_trace(stage: &Stage, uid: &str) -> Result<()> {
    wait::until("the node to have nothing of the pod", SOON, || {
        let mounts = on_node(stage, &format!("grep -F {uid} /proc/mounts || true"))?;
        ensure!(mounts.is_empty(), "mounted: {mounts}");
        let left = on_node(stage, &format!("find {PODS} -path '*{uid}*'"))?;
        ensure!(left.is_empty(), "left: {left}");
        Ok(())
    })
}
