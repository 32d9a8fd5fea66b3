//! What volumes are made of comes late, and changes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use testkit::compare::Api;
use testkit::lab::Runtime;
use testkit::wait;

use super::{PODS, on_node, printed, uid, wait_no_trace};
use crate::pods::stage::{SOON, Stage, main_of, shell, sleeper};

/// As large as a `ConfigMap` may be, but for a few KiB.
const KEYS: usize = 500;
const VALUE: usize = 2090;
const ROUNDS: usize = 50;

/// Looks at all files of one update, again and again: they have one content, and there
/// are all of them, or the update is torn. What was replaced while it was looked at may
/// be gone in part, but not be mixed. Tells each content once, and ends with the last.
const READER: &str = "\
last=
while sleep 0.1; do
    now=$(readlink /v/..data)
    set -- $(cat /v/$now/key-* 2>/dev/null | awk '
        { found[$1]++; bytes += length($0) + 1 }
        END { for (one in found) print one, found[one]; print bytes + 0 }')
    [ $# -gt 3 ] && { echo torn: $*; exit 1; }
    [ \"$now\" = \"$(readlink /v/..data)\" ] || continue
    [ \"$# $2 $3\" = '3 500 1045000' ] || { echo torn: $*; exit 1; }
    [ $1 = \"$last\" ] || echo $1
    last=$1
    [ $last = round-50 ] && exit 0
done";

fn map(name: &str, round: usize) -> Value {
    let word = format!("round-{round:02} ");
    let value = format!("{word}{}\n", "x".repeat(VALUE - word.len() - 1));
    let data: serde_json::Map<String, Value> = (0..KEYS)
        .map(|key| (format!("key-{key:03}"), json!(value)))
        .collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn with_map(script: Value, name: &str) -> (Value, Value) {
    let mut container = script;
    container["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let volumes = json!([{"name": "v", "configMap": {"name": name}}]);
    (container, volumes)
}

/// Waits until the volume of a pod has this round on the disk.
fn wait_round(stage: &Stage, uid: &str, round: usize) -> Result<()> {
    let file = format!("{PODS}/{uid}/volumes/kubernetes.io~configmap/v/key-499");
    let file = stage.node.machine().file(&file);
    let wanted = format!("round-{round:02} ");
    wait::until(&format!("round {round} to be in the volume"), SOON, || {
        let text = std::fs::read_to_string(&file)?;
        ensure!(text.starts_with(&wanted), "it has {text:.9}");
        Ok(())
    })
}

#[test]
fn a_pod_goes_on_when_what_it_misses_comes_and_sees_every_update_as_a_whole() -> Result<()> {
    let stage = Stage::ours("volumes-updates", Runtime::Containerd2)?;
    comes_late(&stage)?;
    let mut tries = 0..;
    let what = format!("{ROUNDS} updates of a volume, in the median");
    wait::promised(&what, Duration::from_secs(2), || {
        let number = tries.next().unwrap_or_default();
        let (median, worst) = changes(&stage, number)?;
        // One that was missed would be found by a look from time to time, a minute later: none may
        // take ten times what is promised.
        Ok((median.max(worst / 10), ()))
    })?;
    stage.end()
}

fn comes_late(stage: &Stage) -> Result<()> {
    let mut tries = 0..;
    let what = "a pod to go on after its ConfigMap has come";
    wait::promised(what, Duration::from_secs(2), || {
        let number = tries.next().unwrap_or_default();
        goes_on_after(stage, &format!("late-{number}"))
    })
}

/// How long after its `ConfigMap` a pod's volume is there, and its container begins.
fn goes_on_after(stage: &Stage, name: &str) -> Result<(Duration, ())> {
    let (container, volumes) = with_map(sleeper(), name);
    stage.create_pod(name, container, json!({"volumes": volumes}))?;
    let wanted =
        format!("MountVolume.SetUp failed for volume \"v\" : configmap \"{name}\" not found");
    stage.wait_event(name, "FailedMount", &wanted)?;
    let pod = stage.pod(name)?;
    let mut small = map(name, 0);
    small["data"] = json!({"key-499": "round-00 \n"});
    stage.create(&small)?;
    let (created, at) = (Instant::now(), Timestamp::now());
    wait_round(stage, uid(&pod)?, 0)?;
    let mounted = created.elapsed();
    let pod = stage.wait_ready(name)?;
    let began = &main_of(&pod)["state"]["running"]["startedAt"];
    let began: Timestamp = began.as_str().context("no time")?.parse()?;
    // It is told in whole seconds, and so up to one too early.
    let began = began.duration_since(at).as_secs_f64().max(0.0);
    Ok((mounted.max(Duration::from_secs_f64(began)), ()))
}

/// A mebibyte, changed again and again while it is read; and how long after a change it was on
/// the disk, in the median and at worst.
fn changes(stage: &Stage, number: usize) -> Result<(Duration, Duration)> {
    let (map_name, reader) = (format!("changing-{number}"), format!("reader-{number}"));
    stage.create(&map(&map_name, 0))?;
    let (container, volumes) = with_map(shell(READER), &map_name);
    let more = json!({"volumes": volumes, "restartPolicy": "Never"});
    stage.create_pod(&reader, container, more)?;
    let pod = stage.wait_ready(&reader)?;
    let uid = uid(&pod)?.to_owned();
    let api = Api::open(&stage.lab, "volumes-updates")?;
    let path = format!(
        "/api/v1/namespaces/{}/configmaps/{map_name}",
        stage.namespace()
    );
    wait_read(stage, &reader, 0)?;
    let mut took = Vec::new();
    for round in 1..=ROUNDS {
        if round == ROUNDS {
            only_one_is_kept(stage, &uid)?;
        }
        let data = map(&map_name, round)["data"].take();
        api.patch(&path, &json!({ "data": data }))?;
        let changed = Instant::now();
        wait_round(stage, &uid, round)?;
        took.push(changed.elapsed());
        // Who reads slowly sees these at least.
        if round % 5 == 0 {
            wait_read(stage, &reader, round)?;
        }
    }
    took.sort();
    let (median, worst) = (took[ROUNDS / 2], took[ROUNDS - 1]);
    println!(
        "{ROUNDS} updates were in the volume {median:?} after them in the median, {worst:?} at worst"
    );
    let is_over = |pod: &Value| pod["status"]["phase"] == "Succeeded";
    let over = stage.wait_pod(&reader, "over", |pod| {
        is_over(pod) || pod["status"]["phase"] == "Failed"
    })?;
    let seen = printed(stage, &reader)?;
    ensure!(is_over(&over), "it has seen {seen}");
    let seen: Vec<&str> = seen.lines().collect();
    println!("{} of them were seen, each as a whole", seen.len());
    ensure!(seen.is_sorted() && seen.len() > ROUNDS / 5, "{seen:?}");
    stage.run(&["delete", "pod", &reader, "--timeout=60s"])?;
    wait_no_trace(stage, &uid)?;
    Ok((median, worst))
}

/// Waits until the reader has told of this round, or has ended with what it found.
fn wait_read(stage: &Stage, reader: &str, round: usize) -> Result<()> {
    let wanted = format!("round-{round:02}");
    wait::until(&format!("{wanted} to be read"), SOON, || {
        let seen = printed(stage, reader)?;
        let torn = seen.contains("torn");
        ensure!(torn || seen.lines().any(|line| line == wanted), "{seen}");
        Ok(())
    })
}

/// What was replaced is removed.
fn only_one_is_kept(stage: &Stage, uid: &str) -> Result<()> {
    let directory = format!("{PODS}/{uid}/volumes/kubernetes.io~configmap/v");
    wait::until("one update to be on the disk", SOON, || {
        let found = on_node(stage, &format!("ls -A {directory} | grep '^[.][.]20'"))?;
        ensure!(found.lines().count() == 1, "{found}");
        Ok(())
    })
}
