//! The container runtime is stopped, killed and restarted under running pods.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::lab::Runtime;
use testkit::wait;

use super::stage::{SOON, Stage, identity, main_of};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn pods_live_through_the_ends_and_returns_of_containerd_2() -> Result<()> {
    runtime_away("pods-rt2", Runtime::Containerd2)
}

#[test]
fn pods_live_through_the_ends_and_returns_of_debians_containerd() -> Result<()> {
    runtime_away("pods-rt16", Runtime::Containerd16)
}

fn runtime_away(name: &str, runtime: Runtime) -> Result<()> {
    let stage = Stage::ours(name, runtime)?;
    let kept = ["a", "b"];
    for name in ["a", "b", "dies", "deleted"] {
        stage.create_sleeper(name)?;
    }
    for name in ["a", "b", "dies", "deleted"] {
        stage.wait_ready(name)?;
    }
    let before = identities(&stage, &kept)?;
    let running = stage.running()?;

    // Restarted ten times, then killed.
    for _ in 0..10 {
        stage.node.runtime().restart()?;
        wait_answers(&stage)?;
    }
    stage.node.runtime().kill()?;
    stage.node.runtime().start_again()?;
    wait_answers(&stage)?;
    let still = stage.running()?;
    ensure!(running == still, "{running:?} became {still:?}");

    // Away for a minute, in which the node says so, and meanwhile things happen.
    let pid = process(&stage, &running["dies"][0])?;
    let died = main_of(&stage.pod("dies")?)["containerID"].clone();
    stage.node.runtime().stop()?;
    let gone = Instant::now();
    stage.create_sleeper("created")?;
    stage.run(&["delete", "pod", "deleted", "--wait=false"])?;
    stage
        .node
        .machine()
        .run("sh", ["-c", &format!("kill -9 {pid}")])?;
    wait::until("the node to be NotReady", SOON, || {
        let node = stage.kubectl().json(["get", "node", stage.node.name()])?;
        let conditions = node["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|condition| condition["type"] == "Ready");
        let ready = ready.context("no condition Ready")?;
        ensure!(ready["status"] == "False", "{ready}");
        Ok(())
    })?;
    sleep(MINUTE.saturating_sub(gone.elapsed()));
    stage.node.runtime().start_again()?;
    stage.node.wait_ready(SOON)?;
    stage.wait_ready("created")?;
    stage.wait_gone("deleted")?;
    stage.wait_nothing_left("deleted")?;
    let restarted = |pod: &Value| {
        main_of(pod)["restartCount"] == 1 && main_of(pod)["state"]["running"].is_object()
    };
    let pod = stage.wait_pod("dies", "restarted", restarted)?;
    let last = &main_of(&pod)["lastState"]["terminated"];
    // What killed it is lost on containerd 2, which says 255 then; 1.6 knows.
    let code = &last["exitCode"];
    ensure!(*code == 137 || *code == 255, "{last}");
    ensure!(last["containerID"] == died, "{last}");
    for name in kept {
        stage.wait_ready(name)?;
    }
    let after = identities(&stage, &kept)?;
    for (one, other) in before.iter().zip(&after) {
        // The cluster calls pods of a node that is not Ready so, too, and back.
        for field in ["uid", "container", "restarts", "address"] {
            ensure!(one[field] == other[field], "{one} became {other}");
        }
    }
    for name in kept {
        for event in stage.events(name)? {
            let is_touched = event["reason"] == "SandboxChanged" || event["reason"] == "Killing";
            ensure!(!is_touched, "{event}");
        }
    }
    stage.end()
}

fn identities(stage: &Stage, names: &[&str]) -> Result<Vec<Value>> {
    let pods = names.iter().map(|name| stage.pod(name));
    pods.map(|pod| Ok(identity(&pod?))).collect()
}

fn wait_answers(stage: &Stage) -> Result<()> {
    wait::until("the runtime to answer", SOON, || stage.node.crictl(["ps"])).map(drop)
}

/// A container's first process, as its machine numbers it.
fn process(stage: &Stage, id: &str) -> Result<u64> {
    let told: Value = serde_json::from_str(&stage.node.crictl(["inspect", id])?)?;
    told["info"]["pid"]
        .as_u64()
        .context("no pid in crictl inspect")
}
