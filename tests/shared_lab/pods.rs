//! What users see of pods on our node, with the real controllers and clients, in
//! good days and on bad ones.

mod afflicted;
mod agent_restarts;
mod api_away;
mod hooks;
mod images;
mod logs;
mod own_users;
mod probes;
mod resizes;
mod runtime_away;
pub(crate) mod stage;
mod statics;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{BUSYBOX_IMAGE, Runtime};
use testkit::wait;

use self::stage::{SOON, Stage, is_ready, main_of, shell, sleeper};

#[test]
fn the_controllers_run_their_pods_on_our_node_with_containerd_2() -> Result<()> {
    controllers("pods-ctd2", Runtime::Containerd2)
}

#[test]
fn the_controllers_run_their_pods_on_our_node_with_debians_containerd() -> Result<()> {
    controllers("pods-ctd16", Runtime::Containerd16)
}

fn controllers(name: &str, runtime: Runtime) -> Result<()> {
    let stage = Stage::ours(name, runtime)?;
    // All at once: they take their time side by side.
    for (kind, more) in [
        ("Deployment", json!({ "replicas": 2 })),
        (
            "StatefulSet",
            json!({ "replicas": 2, "serviceName": "none" }),
        ),
        ("DaemonSet", json!({})),
    ] {
        stage.create(&workload(&stage, kind, more))?;
    }
    stage.create(&job(&stage))?;
    kubectl_run(&stage)?;
    for workload in ["deployment/web", "statefulset/web", "daemonset/web"] {
        stage.run(&["rollout", "status", workload, "--timeout=90s"])?;
    }
    stage.run(&[
        "wait",
        "--for=condition=Complete",
        "job/once",
        "--timeout=60s",
    ])?;
    let succeeded = stage.json(&["get", "job", "once"])?["status"]["succeeded"].take();
    ensure!(succeeded == 2, "{succeeded} succeeded");

    stage.run(&["scale", "deployment/web", "--replicas=3"])?;
    stage.run(&["set", "env", "deployment/web", "statefulset/web", "ROUND=2"])?;
    for workload in ["deployment/web", "statefulset/web"] {
        stage.run(&["rollout", "status", workload, "--timeout=90s"])?;
    }
    // What was replaced goes, and the new is all that there is.
    wait::until("three pods of the new round", SOON, || {
        let pods = stage.json(&["get", "pods", "--selector=app=deployment"])?;
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let new = |pod: &Value| pod["spec"]["containers"][0]["env"][0]["value"] == "2";
        ensure!(pods.len() == 3, "{} pods", pods.len());
        ensure!(pods.iter().all(|pod| new(pod) && is_ready(pod)));
        Ok(())
    })?;
    stage.run(&["delete", "deployment,statefulset,daemonset,job", "--all"])?;
    wait::until("all pods to be gone", SOON, || {
        let left = stage.run(&["get", "pods", "-o", "name"])?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })?;
    wait::until("the runtime to be empty", SOON, || {
        let left = stage.node.crictl(["pods", "--quiet"])?;
        ensure!(left.trim().is_empty(), "{left}");
        Ok(())
    })?;
    stage.end()
}

/// What a person types.
fn kubectl_run(stage: &Stage) -> Result<()> {
    let place = json!({ "spec": { "nodeName": stage.node.name() } }).to_string();
    let image = format!("--image={BUSYBOX_IMAGE}");
    let place = format!("--overrides={place}");
    let script = "echo hello; exec sleep 10000";
    stage.run(&["run", "typed", &image, &place, "--", "sh", "-c", script])?;
    stage.run(&[
        "wait",
        "--for=condition=Ready",
        "pod/typed",
        "--timeout=60s",
    ])?;
    let shown = stage.run(&["get", "pod", "typed", "-o", "wide", "--no-headers"])?;
    let words: Vec<&str> = shown.split_whitespace().collect();
    ensure!(words[1..4] == ["1/1", "Running", "0"], "{shown}");
    ensure!(words.contains(&stage.node.name()), "{shown}");
    stage.wait_event("typed", "Started", "")?;
    let told = stage.run(&["describe", "pod", "typed"])?;
    for word in [
        "Container image",
        "Container created",
        "Container started",
        "Ready  ",
    ] {
        ensure!(told.contains(word), "no {word:?} in {told}");
    }
    let pod = stage.pod("typed")?;
    let id = main_of(&pod)["containerID"].as_str().unwrap_or_default();
    let id = id.trim_start_matches("containerd://");
    ensure!(stage.node.crictl(["logs", id])? == "hello\n");
    // sh -c exec: the sleep is process 1, and does not hear SIGTERM.
    stage.run(&[
        "delete",
        "pod",
        "typed",
        "--grace-period=1",
        "--timeout=60s",
    ])?;
    stage.wait_event("typed", "Killing", "Stopping container typed")
}

fn workload(stage: &Stage, kind: &str, more: Value) -> Value {
    let labels = json!({ "app": kind.to_lowercase() });
    let pod = json!({
        "nodeSelector": { "kubernetes.io/hostname": stage.node.name() },
        "terminationGracePeriodSeconds": 2,
        "containers": [sleeper()],
    });
    let mut spec = json!({
        "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": pod },
    });
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "web" }, "spec": spec })
}

fn job(stage: &Stage) -> Value {
    let pod = json!({
        "nodeSelector": { "kubernetes.io/hostname": stage.node.name() },
        "restartPolicy": "Never",
        "containers": [shell("exit 0")],
    });
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "once" },
        "spec": { "completions": 2, "parallelism": 2, "template": { "spec": pod } },
    })
}
