//! Pods that fail, that are deleted at the wrong moment, and that come in crowds.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::lab::Runtime;
use testkit::wait;

use super::stage::{SOON, Stage, main_of, shell, sleeper};

const CNI: &str = "/etc/cni/net.d/10-lab.conflist";
const CROWD: usize = 100;

#[test]
fn pods_that_cannot_start_say_why_and_start_when_they_can() -> Result<()> {
    let stage = Stage::ours("pods-fail", Runtime::Containerd2)?;
    create_troubled(&stage)?;
    let cases = [
        (
            "no-key",
            "CreateContainerConfigError",
            "Failed",
            "configmap \"late\" not found",
        ),
        (
            "no-command",
            "RunContainerError",
            "Failed",
            "no such file or directory",
        ),
        (
            "no-image",
            "ImagePullBackOff",
            "Failed",
            "registry.lab:5000/open/other:1",
        ),
        ("refused", "CreateContainerError", "Failed", "seccomp"),
    ];
    for (name, reason, event, words) in cases {
        let waits = |pod: &Value| main_of(pod)["state"]["waiting"]["reason"] == reason;
        if name != "no-command" {
            stage.wait_pod(name, reason, waits)?;
        }
        stage.wait_event(name, event, words)?;
    }
    // Between its tries it is in a crash loop, as upstream has it.
    let tried = |pod: &Value| main_of(pod)["restartCount"].as_u64() >= Some(1);
    let pod = stage.wait_pod("no-command", "tried again", tried)?;
    let last = &main_of(&pod)["lastState"]["terminated"];
    ensure!(
        last["reason"] == "StartError" && last["exitCode"] == 128,
        "{last}"
    );
    stage.wait_event("no-volume", "FailedMount", "configmap \"late\" not found")?;
    stage.run(&["create", "configmap", "late", "--from-literal=word=here"])?;
    stage.wait_ready("no-key")?;
    stage.wait_ready("no-volume")?;

    let ended = |pod: &Value| main_of(pod)["state"]["terminated"].is_object();
    let pod = stage.wait_ready("hungry")?;
    let id = main_of(&pod)["containerID"].as_str().unwrap_or_default();
    let id = id.trim_start_matches("containerd://");
    stage.node.crictl(["exec", id, "touch", "/go"])?;
    let pod = stage.wait_pod("hungry", "ended", ended)?;
    let end = &main_of(&pod)["state"]["terminated"];
    ensure!(
        end["reason"] == "OOMKilled" && end["exitCode"] == 137,
        "{end}"
    );
    let pod = stage.wait_pod("talks", "ended", ended)?;
    let id = main_of(&pod)["containerID"].as_str().unwrap_or_default();
    let said = stage
        .node
        .crictl(["logs", id.trim_start_matches("containerd://")])?;
    ensure!(said.len() == 1024 * 1024 + 1, "{} bytes", said.len());
    ensure!(said.trim_end().bytes().all(|byte| byte == b'x'));
    stage.end()
}

fn create_troubled(stage: &Stage) -> Result<()> {
    let none = || json!({});
    let mut keyed = sleeper();
    let key = json!({ "configMapKeyRef": { "name": "late", "key": "word" } });
    keyed["env"] = json!([{ "name": "WORD", "valueFrom": key }]);
    stage.create_pod("no-key", keyed, none())?;
    let volume = json!({ "volumes": [{ "name": "late", "configMap": { "name": "late" } }] });
    let mut mounting = sleeper();
    mounting["volumeMounts"] = json!([{ "name": "late", "mountPath": "/late" }]);
    stage.create_pod("no-volume", mounting, volume)?;
    let mut command = sleeper();
    command["command"] = json!(["/no/such/program"]);
    stage.create_pod("no-command", command, none())?;
    let mut image = sleeper();
    image["image"] = json!("registry.lab:5000/open/other:1");
    stage.create_pod("no-image", image, none())?;
    let mut refused = sleeper();
    let profile = json!({ "type": "Localhost", "localhostProfile": "no/such.json" });
    refused["securityContext"] = json!({ "seccompProfile": profile });
    stage.create_pod("refused", refused, none())?;
    // A shim begins to watch for it a moment after the start: what is killed sooner has no reason.
    // So it waits for a word, which comes once it is known to run.
    let mut hungry = shell("until [ -e /go ]; do sleep 0.2; done; sleep 2; exec tail /dev/zero");
    hungry["resources"] = json!({ "limits": { "memory": "32Mi" } });
    let once = json!({ "restartPolicy": "Never" });
    stage.create_pod("hungry", hungry, once.clone())?;
    let line = "head -c 1048576 /dev/zero | tr '\\0' x; echo";
    stage.create_pod("talks", shell(line), once)
}

#[test]
fn pods_that_are_deleted_at_the_wrong_moment_are_gone_soon() -> Result<()> {
    let stage = Stage::ours("pods-moment", Runtime::Containerd2)?;
    // Its pull ends with it, and not before, however late the deletion comes.
    let mut pulled = sleeper();
    pulled["image"] = json!("registry.lab:5000/stuck/pulled:1");
    stage.create_pod("pulls", pulled, json!({}))?;
    stage.wait_event("pulls", "Pulling", "registry.lab:5000/stuck/pulled:1")?;
    stage.run(&["delete", "pod", "pulls", "--wait=false"])?;

    let deaf = shell("trap '' TERM; echo deaf; while :; do sleep 0.2; done");
    stage.create_pod(
        "deaf",
        deaf.clone(),
        json!({ "terminationGracePeriodSeconds": 600 }),
    )?;
    stage.create_pod("twice", deaf, json!({ "terminationGracePeriodSeconds": 5 }))?;
    let starting = ["s0", "s1", "s2", "s3", "s4"];
    for name in starting {
        stage.create_sleeper(name)?;
        // Each at another moment of its start; the last ones at once.
        if name < "s3" {
            stage.wait_event(name, "Pulled", "")?;
        }
        stage.run(&["delete", "pod", name, "--wait=false"])?;
    }
    stage.wait_ready("deaf")?;
    stage.wait_ready("twice")?;

    // Deleted with patience, and then with less while it is being ended.
    stage.run(&["delete", "pod", "deaf", "--wait=false"])?;
    stage.wait_event("deaf", "Killing", "Stopping container main")?;
    stage.run(&["delete", "pod", "deaf", "--grace-period=1", "--wait=false"])?;

    // The object goes at once, and its name is taken while its pod still ends.
    let old = stage.running()?["twice"].clone();
    stage.run(&["delete", "pod", "twice", "--force", "--grace-period=0"])?;
    stage.create_sleeper("twice")?;
    let pod = stage.wait_ready("twice")?;
    wait::until("the new one to be alone", SOON, || {
        let running = stage.running()?;
        let now = running.get("twice").cloned().unwrap_or_default();
        let id = main_of(&pod)["containerID"].as_str().unwrap_or_default();
        ensure!(now == [id.trim_start_matches("containerd://")], "{now:?}");
        ensure!(now != old);
        Ok(())
    })?;
    for name in ["pulls", "deaf"].iter().chain(&starting) {
        stage.wait_gone(name)?;
        stage.wait_nothing_left(name)?;
    }
    // Nothing was begun for the one whose image never came, and nobody complains of it.
    for event in stage.events("pulls")? {
        let is_begun = event["reason"] == "Created" || event["reason"] == "Started";
        ensure!(!is_begun && event["type"] != "Warning", "{event}");
    }
    stage.end()
}

#[test]
fn a_crowd_of_pods_comes_and_goes_at_once() -> Result<()> {
    let stage = Stage::ours("pods-crowd", Runtime::Containerd2)?;
    let pods: Vec<Value> = (0..CROWD)
        .map(|number| {
            let mut spec = stage.spec(sleeper(), json!({ "terminationGracePeriodSeconds": 1 }));
            spec["containers"][0]["command"] = json!(["sleep", "100000"]);
            let metadata = json!({ "name": format!("crowd-{number}") });
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
        })
        .collect();
    let patience = Duration::from_secs(400);
    stage.create(&json!({ "apiVersion": "v1", "kind": "List", "items": pods }))?;
    wait::until("all of them to run", patience, || {
        let pods = stage.json(&["get", "pods"])?;
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let running = pods
            .iter()
            .filter(|pod| super::stage::is_ready(pod))
            .count();
        ensure!(running == CROWD, "{running} run");
        let restarts = |pod: &Value| main_of(pod)["restartCount"].clone();
        let restarted = pods.iter().find(|pod| restarts(pod) != 0);
        ensure!(restarted.is_none(), "{restarted:?}");
        Ok(())
    })?;
    stage.run(&["delete", "pods", "--all", "--wait=false"])?;
    wait::until("all of them to be gone", patience, || {
        let left = stage.run(&["get", "pods", "-o", "name"])?;
        ensure!(left.is_empty(), "{} are left", left.lines().count());
        let left = stage.node.crictl(["pods", "--quiet"])?;
        ensure!(left.trim().is_empty(), "{} sandboxes", left.lines().count());
        Ok(())
    })?;
    // Of a hundred that came and went nothing went wrong that would have been told.
    let warnings = ["get", "events", "--field-selector=type=Warning"];
    let warnings = stage.run(&warnings)?;
    ensure!(!warnings.contains("crowd-"), "{warnings}");
    wait::until("nothing of them to be left", SOON, || {
        let looks = [
            "find /var/lib/kubelet/pods /var/log/pods -mindepth 1 -maxdepth 1",
            "find /sys/fs/cgroup -path '*kubepods*' -type d -name 'pod*'",
            "grep /var/lib/kubelet/pods/ /proc/mounts || true",
        ];
        for look in looks {
            let left = stage.node.machine().run("sh", ["-c", look])?;
            ensure!(left.is_empty(), "{look}: {left}");
        }
        Ok(())
    })?;
    stage.end()
}

#[test]
fn without_a_pod_network_only_pods_on_the_nodes_network_run() -> Result<()> {
    let stage = Stage::bare("pods-nonet", Runtime::Containerd2)?;
    let file = stage.node.machine().root(CNI);
    let kept = fs::read(&file)?;
    fs::remove_file(&file)?;
    // The runtime looks at its directory when it starts.
    stage.node.runtime().restart()?;
    stage.node.start_ferrolet("")?;
    stage.create_pod("on-host", sleeper(), json!({ "hostNetwork": true }))?;
    stage.create_sleeper("waits")?;
    stage.wait_pod("on-host", "Running", |pod| {
        pod["status"]["phase"] == "Running"
    })?;
    stage.wait_event("waits", "NetworkNotReady", "network is not ready")?;
    let pod = stage.pod("waits")?;
    ensure!(pod["status"]["phase"] == "Pending", "{}", pod["status"]);
    stage.node.machine().write(CNI, kept)?;
    stage.wait_ready("waits")?;
    stage.wait_ready("on-host")?;
    stage.end()
}
