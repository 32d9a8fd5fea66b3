//! What is told of pods, on our node and on an upstream one with the same pods: the lists at
//! their doors, the ports that ask nobody, and the sockets for programs of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use testkit::lab::{Agent, BUSYBOX_IMAGE, Runtime};
use testkit::wait;

use super::{door, pod_resources, read_only};
use crate::pods::stage::{SOON, Stage, is_ready, shell, sleeper};

const CONFIG: &str = "readOnlyPort: 10255\n";

const STATIC: &str = "/etc/kubernetes/manifests/still.yaml";

/// Pods on each node.
const PODS: usize = 3;

/// What differs by chance from pod to pod, wherever it is in it.
const CHANCE: &[&str] = &[
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "kubernetes.io/config.hash",
    "kubernetes.io/config.seen",
    "startTime",
    "startedAt",
    "finishedAt",
    "lastTransitionTime",
    "containerID",
    "podIP",
    "ip",
    "hostIP",
];

/// What is told on one node alone, below which place of a pod, and why.
const KNOWN: &[(&str, &str)] = &[
    (
        ".metadata.managedFields",
        "the largest part of a pod, and nobody reads it here: `kubectl get --show-managed-fields` has it",
    ),
    (
        ".status.resources",
        "upstream's are those of the spec until it has looked at the cgroup of a pod that runs, which          may be a minute later or never; scenarios of resizes compare them",
    ),
];

/// Both nodes: upstream's, and ours, with their pods.
fn both() -> Result<[Stage; 2]> {
    thread::scope(|scope| {
        let made = [(Agent::Upstream, "u"), (Agent::Ferrolet, "o")].map(|(agent, letter)| {
            scope.spawn(move || {
                let stage = Stage::bare(&format!("lists-{letter}"), Runtime::Containerd2)?;
                stage.node.start_agent(agent, CONFIG, &[])?;
                stage.node.wait_ready(SOON)?;
                door::lend_certificate(&stage.lab, &stage.node)?;
                people(&stage)?;
                Ok::<_, anyhow::Error>(stage)
            })
        });
        let [theirs, ours] = made.map(|one| {
            let joined = one.join();
            joined.map_err(|_| anyhow!("a thread has panicked"))?
        });
        Ok([theirs?, ours?])
    })
}

/// One with much in it, one that has ended, one that comes from a file.
fn people(stage: &Stage) -> Result<()> {
    let node = stage.node.name();
    let still = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "still", "namespace": stage.namespace() },
        "spec": { "terminationGracePeriodSeconds": 1, "containers": [sleeper()] },
    });
    stage.node.machine().write(STATIC, still.to_string())?;
    stage.create(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "words" },
        "data": { "word": "a word" },
    }))?;
    let mut main = sleeper();
    main["volumeMounts"] = json!([{ "name": "words", "mountPath": "/words", "readOnly": true }]);
    main["readinessProbe"] = json!({ "exec": { "command": ["true"] }, "periodSeconds": 1 });
    main["resources"] = json!({ "requests": { "cpu": "10m" }, "limits": { "memory": "64Mi" } });
    main["env"] =
        json!([{ "name": "WHERE", "valueFrom": { "fieldRef": { "fieldPath": "status.hostIP" } } }]);
    let first = json!({ "name": "first", "image": BUSYBOX_IMAGE, "command": ["true"] });
    let mut beside = sleeper();
    beside["name"] = json!("beside");
    beside["restartPolicy"] = json!("Always");
    let web = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web", "labels": { "app": "web" }, "annotations": { "about": "<this> & \"that\"" },
        },
        "spec": stage.spec(main, json!({
            "initContainers": [first, beside],
            "volumes": [{ "name": "words", "configMap": { "name": "words" } }],
        })),
    });
    stage.create(&web)?;
    stage.create_pod(
        "ended",
        shell("exit 3"),
        json!({ "restartPolicy": "Never" }),
    )?;
    stage.wait_ready("web")?;
    stage.wait_pod("ended", "over", |pod| pod["status"]["phase"] == "Failed")?;
    stage.wait_pod(&format!("still-{node}"), "Ready", is_ready)?;
    Ok(())
}

#[test]
fn what_is_told_of_pods_is_what_upstream_tells() -> Result<()> {
    let stages = both()?;
    let [theirs, ours] = &stages;
    for (path, count) in [("/pods", PODS), ("/runningpods/", PODS - 1)] {
        // What became of them last is on its way back from the API server.
        wait::until(&format!("the same pods at {path}"), SOON, || {
            let [theirs, ours] = [theirs, ours].map(|stage| listed(stage, path, count));
            let differences = differences(&theirs?, &ours?);
            ensure!(differences.is_empty(), "{}", differences.join("\n"));
            Ok(())
        })?;
    }
    read_only::compare(&theirs.node, &ours.node)?;
    let told = [theirs, ours].map(|stage| {
        let node = &stage.node;
        let still = format!("still-{}", node.name());
        pod_resources::told(node, stage.namespace(), &["web", "ended", &still, "nobody"])
    });
    let [their_told, our_told] = told;
    for (their_words, our_words) in their_told?.iter().zip(&our_told?) {
        let (their_words, our_words) = (masked(theirs, their_words), masked(ours, our_words));
        println!("{our_words}");
        ensure!(
            their_words == our_words,
            "upstream {their_words}\nours     {our_words}"
        );
    }
    for stage in stages {
        // The file would bring it back.
        stage.node.machine().run("rm", [STATIC])?;
        stage.end()?;
    }
    Ok(())
}

/// The leaves of each pod by their places.
type Leaves = BTreeMap<String, BTreeSet<String>>;

fn listed(stage: &Stage, path: &str, count: usize) -> Result<Leaves> {
    let answer = door::asked(&stage.node, &[path])?;
    let list: Value = serde_json::from_str(&answer.body).with_context(|| format!("{answer:?}"))?;
    let mut found = Leaves::new();
    let mut around = list.clone();
    around["items"] = Value::Null;
    found.insert("list".to_owned(), leaves(stage, &around));
    let items = list["items"].as_array().context("no items")?;
    for pod in items {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        found.insert(masked(stage, name), leaves(stage, pod));
    }
    // One of each name, and the list itself.
    ensure!(
        items.len() == count && found.len() == count + 1,
        "{}: {} pods: {:?}",
        stage.node.name(),
        items.len(),
        found.keys()
    );
    Ok(found)
}

fn leaves(stage: &Stage, value: &Value) -> BTreeSet<String> {
    fn walk(stage: &Stage, path: &str, value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    let path = format!("{path}.{key}");
                    if CHANCE.contains(&key.as_str()) {
                        // There, and of the same kind.
                        into.insert(format!("{path} is {}", kind(value)));
                    } else {
                        walk(stage, &path, value, into);
                    }
                }
            }
            Value::Array(list) if !list.is_empty() => {
                for (at, value) in list.iter().enumerate() {
                    walk(stage, &format!("{path}[{at}]"), value, into);
                }
            }
            // As good as nothing, to everybody who reads it.
            Value::Null => {}
            leaf => {
                into.insert(masked(stage, &format!("{path} = {leaf}")));
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(stage, "", value, &mut found);
    found
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::String(text) if text.is_empty() => "empty",
        Value::String(_) => "a text",
        _ => "something else",
    }
}

/// Without the names of this node, its namespace, and the token's volume.
fn masked(stage: &Stage, text: &str) -> String {
    const TOKEN: &str = "kube-api-access-";
    let text = text.replace(stage.namespace(), "NAMESPACE");
    let mut text = text.replace(stage.node.name(), "NODE");
    if let Some(at) = text.find(TOKEN) {
        let begin = at + TOKEN.len();
        let end = text.len().min(begin + 5);
        text.replace_range(begin..end, "CHANCE");
    }
    text
}

fn differences(theirs: &Leaves, ours: &Leaves) -> Vec<String> {
    let mut found = Vec::new();
    let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    for name in names {
        let nothing = BTreeSet::new();
        let of = |leaves: &Leaves| leaves.get(name).cloned().unwrap_or_else(|| nothing.clone());
        let (theirs, ours) = (of(theirs), of(ours));
        let known = |leaf: &String| KNOWN.iter().any(|(place, _)| leaf.starts_with(place));
        for (whose, one, other) in [("upstream", &theirs, &ours), ("ours", &ours, &theirs)] {
            let alone = one.difference(other).filter(|leaf| !known(leaf));
            found.extend(alone.map(|leaf| format!("{name}: {whose} alone: {leaf}")));
        }
    }
    found
}
