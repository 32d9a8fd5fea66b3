//! An agent that ends and comes back, in every way: pods do not notice.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{Agent, Runtime};
use testkit::wait;

use super::stage::{SOON, Stage, condition, identity, shell, sleeper};

/// In every container's file, as a configMap brings it.
const FILE: &str = "while :; do cat /etc/told/word > /tmp/seen; sleep 0.2; done & trap 'exit 0' TERM; while :; do sleep 0.2; done";

#[test]
fn an_agent_that_comes_back_adopts_its_pods_and_tells_nothing_new() -> Result<()> {
    let stage = Stage::ours("pods-agent", Runtime::Containerd2)?;
    stage.run(&["create", "configmap", "told", "--from-literal=word=one"])?;
    let volume = json!({ "volumes": [{ "name": "told", "configMap": { "name": "told" } }] });
    let mut reader = shell(FILE);
    reader["volumeMounts"] = json!([{ "name": "told", "mountPath": "/etc/told" }]);
    stage.create_pod("reads", reader, volume)?;
    let gone = ["asked", "forced"];
    for name in ["stays", "also"].iter().chain(&gone) {
        stage.create_sleeper(name)?;
    }
    stage.create_pod("done", shell("exit 0"), json!({ "restartPolicy": "Never" }))?;
    for name in ["reads", "stays", "also"].iter().chain(&gone) {
        stage.wait_ready(name)?;
    }
    // The last that is told of it: its sandbox is gone.
    stage.wait_pod("done", "Succeeded, and its sandbox gone", |pod| {
        let sandbox = condition(pod, "PodReadyToStartContainers");
        pod["status"]["phase"] == "Succeeded" && sandbox["status"] == "False"
    })?;
    let names = ["reads", "stays", "also", "done"];
    let before = all(&stage, &names)?;
    let running = stage.running()?;

    stage.node.kubelet().stop()?;
    stage.run(&["delete", "pod", "asked", "--wait=false"])?;
    stage.node.kubelet().start_again()?;
    stage.wait_gone("asked")?;
    stage.wait_nothing_left("asked")?;
    unchanged(&stage, &names, &before)?;

    // This one is alone: nothing else that comes or goes makes the agent look.
    stage.node.kubelet().kill()?;
    stage.run(&["delete", "pod", "forced", "--force", "--grace-period=0"])?;
    stage.node.kubelet().start_again()?;
    stage.wait_nothing_left("forced")?;
    wait_looked_around(&stage, "while-away")?;
    unchanged(&stage, &names, &before)?;
    let still = stage.running()?;
    for name in ["reads", "stays", "also"] {
        ensure!(
            running.get(name) == still.get(name),
            "{running:?} {still:?}"
        );
    }

    // Adopted means kept: what is in the volumes of old pods follows its object.
    let word = json!({ "data": { "word": "two" } }).to_string();
    stage.run(&["patch", "configmap", "told", "--patch", &word])?;
    let id = still["reads"][0].clone();
    wait::until("the old pod to see the new word", SOON, || {
        let seen = stage.node.crictl(["exec", &id, "cat", "/tmp/seen"])?;
        ensure!(seen == "two", "{seen:?}");
        Ok(())
    })?;
    stage.end()
}

#[test]
fn pods_live_through_a_swap_from_upstream_to_ours_and_back() -> Result<()> {
    let stage = Stage::bare("pods-swap", Runtime::Containerd2)?;
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "manifest" },
        "spec": { "terminationGracePeriodSeconds": 2, "containers": [sleeper()] },
    });
    let file = "/etc/kubernetes/manifests/manifest.yaml";
    stage.node.machine().write(file, manifest.to_string())?;
    stage.node.start_agent(Agent::Upstream, "", &[])?;
    stage.node.wait_ready(SOON)?;
    stage.run(&["create", "configmap", "told", "--from-literal=word=one"])?;
    let mut rich = sleeper();
    rich["env"] =
        json!([{ "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }]);
    rich["volumeMounts"] = json!([
        { "name": "told", "mountPath": "/etc/told" }, { "name": "room", "mountPath": "/room" },
    ]);
    rich["resources"] = json!({ "requests": { "cpu": "10m" }, "limits": { "memory": "64Mi" } });
    let volumes = json!({ "volumes": [
        { "name": "told", "configMap": { "name": "told" } }, { "name": "room", "emptyDir": {} },
    ] });
    stage.create_pod("rich", rich, volumes)?;
    stage.create_sleeper("plain")?;
    let mut before = Vec::new();
    for name in ["rich", "plain"] {
        before.push(identity(&stage.wait_ready(name)?));
    }
    let mirror = format!("manifest-{}", stage.node.name());
    wait::until("the static pod to run", SOON, || {
        ensure!(stage.running()?.contains_key(&mirror));
        Ok(())
    })?;
    let running = stage.running()?;
    for agent in [Agent::Ferrolet, Agent::Upstream] {
        stage.node.kubelet().stop()?;
        stage.node.start_agent(agent, "", &[])?;
        wait_looked_around(&stage, &format!("{agent:?}").to_lowercase())?;
        for (name, before) in ["rich", "plain"].iter().zip(&before) {
            let now = identity(&stage.wait_ready(name)?);
            // Not since when it is Ready: how long the node was without an agent is
            // the lab's affair, and the cluster gives it up after a while.
            for field in ["uid", "container", "restarts", "address"] {
                let (before, now) = (&before[field], &now[field]);
                ensure!(
                    before == now,
                    "{name} under {agent:?}: {before} became {now}"
                );
            }
        }
        // The static one, too: ours takes over the uid that upstream gave it.
        let still = stage.running()?;
        ensure!(running == still, "{agent:?}: {running:?} became {still:?}");
        if agent == Agent::Ferrolet {
            restarts_without_the_api_server(&stage, &running)?;
        }
    }
    stage.end()
}

/// Whose uid it keeps, an agent also knows if nobody tells it.
fn restarts_without_the_api_server(
    stage: &Stage,
    running: &BTreeMap<String, Vec<String>>,
) -> Result<()> {
    stage.node.kubelet().kill()?;
    stage.node.cut_off()?;
    let later = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "later" },
        "spec": { "terminationGracePeriodSeconds": 2, "containers": [sleeper()] },
    });
    let file = "/etc/kubernetes/manifests/later.yaml";
    stage.node.machine().write(file, later.to_string())?;
    stage.node.kubelet().start_again()?;
    let name = format!("later-{}", stage.node.name());
    wait::until("another static pod to run", SOON, || {
        ensure!(stage.running()?.contains_key(&name));
        Ok(())
    })?;
    let without = |name: &str| {
        let mut running = stage.running()?;
        running.remove(name);
        Ok::<_, anyhow::Error>(running)
    };
    let still = without(&name)?;
    ensure!(*running == still, "cut off: {running:?} became {still:?}");
    fs::remove_file(stage.node.machine().root(file))?;
    stage.node.reconnect()?;
    wait_looked_around(stage, "reconnected")?;
    wait::until("that static pod to be gone", SOON, || {
        let still = stage.running()?;
        ensure!(*running == still, "{running:?} became {still:?}");
        Ok(())
    })
}

/// A pod that a new agent has run to Ready: by then it has looked at the others.
fn wait_looked_around(stage: &Stage, name: &str) -> Result<()> {
    stage.create_sleeper(name)?;
    stage.wait_ready(name)?;
    stage.run(&["delete", "pod", name, "--wait=false"])?;
    stage.wait_gone(name)
}

fn all(stage: &Stage, names: &[&str]) -> Result<Vec<Value>> {
    names.iter().map(|name| stage.pod(name)).collect()
}

/// Not even a version: nobody wrote anything about them.
fn unchanged(stage: &Stage, names: &[&str], before: &[Value]) -> Result<()> {
    for (name, before) in names.iter().zip(before) {
        let now = stage.pod(name)?;
        ensure!(now == *before, "{name} was\n{before}\nand is\n{now}");
    }
    Ok(())
}
