//! The API server cannot be reached while pods are made, run and end.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{BUSYBOX_IMAGE, Runtime};
use testkit::wait;

use super::stage::{SOON, Stage, identity, main_of, shell, sleeper};

#[test]
fn pods_go_on_without_the_api_server_and_it_is_told_afterwards() -> Result<()> {
    let stage = Stage::ours("pods-cut", Runtime::Containerd2)?;
    // Without a token, which only the API server could give.
    let alone = json!({ "automountServiceAccountToken": false });
    stage.create_pod("runs", sleeper(), alone.clone())?;
    stage.create_pod(
        "crashes",
        shell("while [ ! -e /tmp/end ]; do sleep 0.1; done; exit 7"),
        alone.clone(),
    )?;
    let slow = shell("trap 'echo told to end' TERM; while :; do sleep 0.2; done");
    let mut patient = alone.clone();
    patient["terminationGracePeriodSeconds"] = json!(4);
    stage.create_pod("ends", slow, patient)?;
    for name in ["runs", "crashes", "ends"] {
        stage.wait_ready(name)?;
    }
    let mut begins = alone.clone();
    let init = json!({
        "name": "first", "image": BUSYBOX_IMAGE,
        "command": ["sh", "-c", "while [ ! -e /tmp/go ]; do sleep 0.1; done"],
    });
    begins["initContainers"] = json!([init]);
    stage.create_pod("begins", sleeper(), begins)?;
    let first = wait_container(&stage, "begins")?;
    let before = identity(&stage.pod("runs")?);
    stage.run(&["delete", "pod", "ends", "--wait=false"])?;
    stage.wait_event("ends", "Killing", "Stopping container main")?;

    stage.node.cut_off()?;
    stage.create_pod("new", sleeper(), alone)?;
    let crashed = wait_container(&stage, "crashes")?;
    stage.node.crictl(["exec", &crashed, "touch", "/tmp/end"])?;
    stage.node.crictl(["exec", &first, "touch", "/tmp/go"])?;
    // All of it happens without a word from the API server.
    wait_another(&stage, "crashes", &crashed)?;
    wait_another(&stage, "begins", &first)?;
    wait::until("the deleted one to end", SOON, || {
        ensure!(!stage.running()?.contains_key("ends"));
        Ok(())
    })?;
    ensure!(
        !stage.running()?.contains_key("new"),
        "who told it of the new one?"
    );
    stage.node.reconnect()?;

    stage.wait_ready("new")?;
    stage.wait_ready("begins")?;
    wait::until("word of what began without it", SOON, || {
        let mut events = stage.events("begins")?.into_iter();
        let begun = events.find(|event| {
            let of = &event["involvedObject"]["fieldPath"];
            event["reason"] == "Started" && of == "spec.containers{main}"
        });
        ensure!(begun.is_some());
        Ok(())
    })?;
    let restarted = |pod: &Value| main_of(pod)["restartCount"] == 1;
    let pod = stage.wait_pod("crashes", "restarted", restarted)?;
    let last = &main_of(&pod)["lastState"]["terminated"];
    ensure!(last["exitCode"] == 7, "{last}");
    stage.wait_gone("ends")?;
    stage.wait_nothing_left("ends")?;
    let now = identity(&stage.pod("runs")?);
    for field in ["uid", "container", "restarts", "address"] {
        // The cluster calls pods of a node that it does not hear of not Ready, and back.
        ensure!(now[field] == before[field], "{before} became {now}");
    }
    stage.end()
}

fn wait_container(stage: &Stage, pod: &str) -> Result<String> {
    wait_another(stage, pod, "")
}

/// The one container of a pod, once it runs and is not `old`.
fn wait_another(stage: &Stage, pod: &str, old: &str) -> Result<String> {
    wait::until(&format!("another container of {pod}"), SOON, || {
        let running = stage.running()?;
        let own = running.get(pod).and_then(|ids| ids.first());
        let own = own.filter(|id| *id != old).cloned();
        own.ok_or_else(|| anyhow::anyhow!("only {running:?} run"))
    })
}
