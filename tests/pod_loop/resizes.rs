//! Pods whose resources change while they run.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use seams::{Host as _, cri};
use serde_json::{Value, json};
use sim::Machine;
use workers::allocation::actuated::restore;

use crate::node::view;
use crate::runtime::{Act, Meddling};
use crate::scenes::Scene;

/// One container with so much of everything, and what becomes of it when that changes.
fn pod(cpu: &str, memory: &str, policy: &str) -> Value {
    let amounts = json!({ "cpu": cpu, "memory": memory });
    json!({ "containers": [{
        "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent",
        "resources": { "requests": amounts, "limits": amounts },
        "resizePolicy": [
            { "resourceName": "cpu", "restartPolicy": policy },
            { "resourceName": "memory", "restartPolicy": policy },
        ],
    }] })
}

/// What the runtime lets the container have: quota, shares and memory.
fn given(scene: &Scene) -> (i64, i64, i64) {
    let snapshot = scene.look();
    let running = snapshot.running("p", "c");
    let status = &snapshot.container_states[&running[0].id];
    let resources = status.resources.clone().unwrap_or_default();
    let cri::LinuxContainerResources {
        cpu_quota,
        cpu_shares,
        memory_limit_in_bytes,
        ..
    } = resources.linux.unwrap_or_default();
    (cpu_quota, cpu_shares, memory_limit_in_bytes)
}

/// What the pod's cgroup has.
fn as_a_whole(scene: &Scene) -> [String; 2] {
    ["cpu.max", "memory.max"].map(|file| scene.node.in_cgroup("p", file).unwrap())
}

const GIB: i64 = 1 << 30;

#[tokio::test(start_paused = true)]
async fn a_pod_gets_more_and_less_while_it_runs() {
    let mut scene = Scene::new();
    let keep = "NotRequired";
    scene.put("p", &json!({}), &pod("1", "1Gi", keep), 5).await;
    assert_eq!(given(&scene), (100_000, 1024, GIB));
    assert_eq!(scene.count(Act::Update, "p", "c"), 0);
    scene.put("p", &json!({}), &pod("2", "2Gi", keep), 5).await;
    assert_eq!(given(&scene), (200_000, 2048, 2 * GIB));
    let whole = ["200000 100000".to_owned(), (2 * GIB).to_string()];
    assert_eq!(as_a_whole(&scene), whole);
    // Memory, and then CPUs.
    assert_eq!(scene.count(Act::Update, "p", "c"), 2);
    scene.put("p", &json!({}), &pod("1", "1Gi", keep), 5).await;
    assert_eq!(given(&scene), (100_000, 1024, GIB));
    let whole = ["100000 100000".to_owned(), GIB.to_string()];
    assert_eq!(as_a_whole(&scene), whole);
    scene.pass(600).await;
    assert_eq!(scene.count(Act::Update, "p", "c"), 4);
    assert_eq!(scene.count(Act::Start, "p", "c"), 1);
    // Each is told of once, when it begins and when it is over.
    for (reason, words) in [
        ("ResizeStarted", "Pod resize started: {"),
        ("ResizeCompleted", "Pod resize completed: {"),
    ] {
        let told = scene.node.told.of("p", reason);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told.iter().all(|text| text.starts_with(words)), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_starts_again_where_its_policy_says_so() {
    let mut scene = Scene::new();
    let again = "RestartContainer";
    scene.put("p", &json!({}), &pod("1", "1Gi", again), 5).await;
    scene
        .put("p", &json!({}), &pod("2", "1Gi", again), 60)
        .await;
    assert_eq!(given(&scene), (200_000, 2048, GIB));
    assert_eq!(as_a_whole(&scene)[0], "200000 100000");
    assert_eq!(scene.count(Act::Start, "p", "c"), 2);
    assert_eq!(scene.count(Act::Update, "p", "c"), 0);
    scene.pass(600).await;
    assert_eq!(scene.count(Act::Start, "p", "c"), 2);
}

#[tokio::test(start_paused = true)]
async fn who_wants_more_than_the_node_has_goes_on_with_what_it_has() {
    let mut scene = Scene::new();
    let keep = "NotRequired";
    scene.put("p", &json!({}), &pod("1", "1Gi", keep), 5).await;
    scene
        .put("p", &json!({}), &pod("64", "1Gi", keep), 600)
        .await;
    assert_eq!(given(&scene), (100_000, 1024, GIB));
    assert_eq!(scene.count(Act::Update, "p", "c"), 0);
    let told = scene.node.told.of("p", "ResizeDeferred");
    assert_eq!(told.len(), 1, "{told:?}");
    // The next agent has it the same way, and lets the pod go on.
    scene.begin_anew(600).await;
    assert_eq!(given(&scene), (100_000, 1024, GIB));
    assert_eq!(scene.count(Act::Start, "p", "c"), 1);
    scene.put("p", &json!({}), &pod("2", "1Gi", keep), 5).await;
    assert_eq!(given(&scene), (200_000, 2048, GIB));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_room_gets_it_when_another_pod_ends() {
    let mut scene = Scene::new();
    let keep = "NotRequired";
    let ends =
        json!({ "sim.ferrolet.dev/run-time.c": "300s", "sim.ferrolet.dev/exit-code.c": "0" });
    let mut other = pod("30", "1Gi", keep);
    other["restartPolicy"] = json!("Never");
    scene.put("other", &ends, &other, 5).await;
    scene.put("p", &json!({}), &pod("1", "1Gi", keep), 5).await;
    scene.put("p", &json!({}), &pod("8", "1Gi", keep), 60).await;
    assert_eq!(given(&scene).0, 100_000);
    scene.pass(260).await;
    assert_eq!(given(&scene).0, 800_000);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_room_is_asked_about_every_three_minutes() {
    let mut scene = Scene::new();
    let keep = "NotRequired";
    scene.put("p", &json!({}), &pod("1", "1Gi", keep), 5).await;
    scene.put("p", &json!({}), &pod("40", "1Gi", keep), 5).await;
    // Nothing happens to any pod: only the node has more.
    scene.node.view.send_replace(Arc::new(view("64")));
    scene.pass(170).await;
    assert_eq!(given(&scene).0, 100_000);
    scene.pass(15).await;
    assert_eq!(given(&scene).0, 4_000_000);
}

#[tokio::test(start_paused = true)]
async fn until_all_sources_are_heard_who_waits_is_asked_about_every_half_minute() {
    let mut scene = Scene::new();
    let keep = "NotRequired";
    scene.put("p", &json!({}), &pod("1", "1Gi", keep), 5).await;
    scene.node.end().await;
    scene.hear_all(false);
    scene.put("p", &json!({}), &pod("2", "1Gi", keep), 0).await;
    scene.begin_anew(40).await;
    // Nobody is given anything while there may be others.
    assert_eq!(given(&scene).0, 100_000);
    scene.hear_all(true);
    scene.pass(25).await;
    assert_eq!(given(&scene).0, 200_000);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_dies_while_it_resizes_is_followed_by_one_that_goes_on() {
    let mut scene = Scene::new();
    let keep = "NotRequired";
    scene.put("p", &json!({}), &pod("1", "1Gi", keep), 5).await;
    // Whatever is asked of the runtime fails.
    scene.node.runtime.meddle(Meddling::FailsBefore(1));
    scene.put("p", &json!({}), &pod("2", "2Gi", keep), 1).await;
    assert_eq!(given(&scene), (100_000, 1024, GIB));
    scene.node.runtime.meddle(Meddling::None);
    scene.begin_anew(30).await;
    assert_eq!(given(&scene), (200_000, 2048, 2 * GIB));
    assert_eq!(scene.count(Act::Start, "p", "c"), 1);
    let updates = scene.count(Act::Update, "p", "c");
    scene.begin_anew(600).await;
    assert_eq!(scene.count(Act::Update, "p", "c"), updates);
}

#[test]
fn a_node_does_not_begin_over_a_record_that_is_broken() {
    let machine = Machine::new("n1", Arc::default(), IpAddr::from(Ipv4Addr::LOCALHOST));
    let path = Path::new("/var/lib/kubelet/allocated_pods_state");
    assert!(restore(&machine, path).unwrap().is_empty());
    machine
        .write(path, br#"{"data":"{}","checksum":1}"#, 0o600)
        .unwrap();
    let error = restore(&machine, path).unwrap_err().to_string();
    let advice = "please drain this node and delete pod resource information checkpoint file \
                  \"/var/lib/kubelet/allocated_pods_state\" before restarting Kubelet";
    assert!(error.ends_with(advice), "{error}");
}
