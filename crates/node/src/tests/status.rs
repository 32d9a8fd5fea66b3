use std::time::Duration;

use http::Method;
use seams::Clock;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::bench::{Bench, HOUR, seconds};
use crate::conditions::Pressure;
use crate::runtime::RuntimeFacts;
use crate::testapi::{CSI_NODE, NODE};
use crate::testdata::{self, no_runtime};

/// All but times and what the server itself has put there.
fn comparable(mut node: Value) -> Value {
    for condition in node["status"]["conditions"].as_array_mut().unwrap() {
        let condition = condition.as_object_mut().unwrap();
        condition.remove("lastHeartbeatTime");
        condition.remove("lastTransitionTime");
    }
    let metadata = node["metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| ["labels", "name"].contains(&key.as_str()));
    node["status"]["daemonEndpoints"].take();
    json!({"metadata": node["metadata"], "status": node["status"]})
}

#[tokio::test(start_paused = true)]
async fn a_node_becomes_what_upstream_made_of_the_same_machine() {
    let bench = Bench::settled().await;
    let ours = bench.node().unwrap();
    assert_eq!(
        ours["status"]["daemonEndpoints"],
        json!({"kubeletEndpoint": {"Port": 10250}})
    );
    assert_eq!(comparable(ours), comparable(testdata::oracle()));
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_says_little() {
    let bench = Bench::settled().await;
    bench.api.forget_calls();
    bench.pass(HOUR).await;
    let patches = bench.api.calls(&Method::PATCH, NODE);
    assert!((10..=15).contains(&patches.len()), "{}", patches.len());
    assert!(patches.iter().all(|patch| patch.by == "heartbeats"));
    let renewals = bench.api.calls(&Method::PUT, "/apis/coordination.k8s.io");
    assert!((345..=360).contains(&renewals.len()), "{}", renewals.len());
    assert_eq!(bench.api.all_calls(), patches.len() + renewals.len());
    // A heartbeat is the times of conditions, and nothing else.
    let last = &patches.last().unwrap().body;
    assert_eq!(last.as_object().unwrap().len(), 1);
    let status = last["status"].as_object().unwrap();
    assert_eq!(
        status.keys().collect::<Vec<_>>(),
        ["$setElementOrder/conditions", "conditions"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_start_is_told_at_once_and_does_not_make_a_ready_node_unready() {
    let mut bench = Bench::settled().await;
    bench.shutdown.cancel();
    while bench.running.join_next().await.is_some() {}
    bench.shutdown = CancellationToken::new();
    let good = bench.runtime.send_replace(RuntimeFacts::default());
    bench.api.forget_calls();
    let started = bench.clock.uptime();
    bench.start();
    bench.pass(seconds(2)).await;
    assert_eq!(
        bench.api.calls(&Method::PATCH, NODE).len(),
        0,
        "the runtime is waited for"
    );
    bench.runtime.send_replace(good);
    bench.pass(seconds(60)).await;
    let patches = bench.api.calls(&Method::PATCH, NODE);
    assert_eq!(
        patches.len(),
        1,
        "the first look is sent although nothing changed"
    );
    assert!(patches[0].at.saturating_sub(started) < seconds(3));
    for condition in patches[0].body["status"]["conditions"].as_array().unwrap() {
        assert_eq!(condition.get("status"), None, "{condition}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_a_moment_for_a_csinode_that_is_slow() {
    let mut bench = Bench::settled().await;
    bench.shutdown.cancel();
    while bench.running.join_next().await.is_some() {}
    bench.shutdown = CancellationToken::new();
    // It must be written, and that fails for three tenths of a second.
    let mut csi_node = bench.api.object(CSI_NODE).unwrap();
    csi_node["metadata"]["annotations"].take();
    bench.api.plant(CSI_NODE, csi_node);
    bench
        .api
        .refuse(Method::PUT, CSI_NODE, (500, "InternalError"), 3);
    bench.api.forget_calls();
    bench.start();
    bench.pass(seconds(5)).await;
    assert_eq!(bench.api.calls(&Method::PUT, CSI_NODE).len(), 4);
    let patches = bench.api.calls(&Method::PATCH, NODE);
    assert_eq!(patches.len(), 1);
    for condition in patches[0].body["status"]["conditions"].as_array().unwrap() {
        assert_eq!(condition.get("status"), None, "{condition}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_never_answers_is_waited_for_ten_seconds() {
    let mut bench = Bench::new();
    bench.runtime.send_replace(RuntimeFacts::default());
    bench.start();
    bench.pass(seconds(9)).await;
    assert_eq!(bench.node(), None);
    bench.pass(seconds(2)).await;
    let message = bench.condition("Ready")["message"].clone();
    let message = message.as_str().unwrap();
    assert!(
        message.contains("status check may not have completed"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_within_a_tick() {
    let bench = Bench::settled().await;
    bench.api.forget_calls();
    bench.pressure.send_replace(Pressure {
        memory: true,
        ..Pressure::default()
    });
    bench.pass(seconds(11)).await;
    let condition = bench.condition("MemoryPressure");
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["reason"], "KubeletHasInsufficientMemory");
    assert_eq!(bench.api.calls(&Method::PATCH, NODE).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_gone_makes_the_node_unready_and_its_return_ready() {
    let bench = Bench::settled().await;
    let good = bench.runtime.borrow().clone();
    bench.runtime.send_replace(RuntimeFacts {
        last_good_status: Some(Duration::ZERO),
        ..good.clone()
    });
    bench.pass(seconds(11)).await;
    let ready = bench.condition("Ready");
    assert_eq!(ready["status"], "False");
    assert_eq!(ready["message"], "container runtime is down");
    assert_eq!(ready["reason"], "KubeletNotReady");
    // Not at the next look, which is ten seconds away.
    bench.runtime.send_replace(good);
    bench.pass(Duration::from_millis(200)).await;
    assert!(bench.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_new_node_is_ready_as_soon_as_its_runtime_is() {
    let mut bench = Bench::new();
    let good = bench.runtime.send_replace(no_runtime());
    bench.start();
    // Away from the ticks, which are ten seconds apart.
    bench.pass(Duration::from_millis(4_950)).await;
    assert!(!bench.is_ready());
    bench.runtime.send_replace(good);
    bench.pass(Duration::from_millis(200)).await;
    assert!(bench.is_ready());
}

#[tokio::test(start_paused = true)]
async fn after_two_minutes_a_new_node_is_still_ready_as_soon_as_its_runtime_is() {
    let mut bench = Bench::new();
    let good = bench.runtime.send_replace(no_runtime());
    bench.start();
    bench.pass(seconds(125)).await;
    bench.runtime.send_replace(good);
    bench.pass(Duration::from_millis(200)).await;
    assert!(bench.is_ready());
}

#[tokio::test(start_paused = true)]
async fn five_tries_are_made_and_connections_are_made_anew_from_the_second_failure_on() {
    let bench = Bench::settled().await;
    bench.api.forget_calls();
    let before = bench.reconnects();
    bench
        .api
        .refuse(Method::PATCH, NODE, (500, "InternalError"), 5);
    bench.pressure.send_replace(Pressure {
        disk: true,
        ..Pressure::default()
    });
    bench
        .until("five tries", |bench| {
            bench.api.calls(&Method::PATCH, NODE).len() == 5
        })
        .await;
    bench.pass(Duration::from_millis(1)).await;
    assert_eq!(bench.reconnects() - before, 4);
    // From the second try on the object is read from the server.
    assert_eq!(bench.api.calls(&Method::GET, NODE).len(), 4);
    bench.pass(seconds(11)).await;
    assert_eq!(bench.condition("DiskPressure")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_could_not_be_told_is_tried_again_before_the_next_regular_look() {
    let bench = Bench::settled().await;
    bench.api.forget_calls();
    let patches = |bench: &Bench| bench.api.calls(&Method::PATCH, NODE).len();
    bench
        .api
        .refuse(Method::PATCH, NODE, (500, "InternalError"), 7);
    bench.pressure.send_replace(Pressure {
        disk: true,
        ..Pressure::default()
    });
    bench.until("five tries", |bench| patches(bench) == 5).await;
    // Twice as often, and then no longer five times each.
    bench.pass(Duration::from_millis(5_300)).await;
    assert_eq!(patches(&bench), 7);
    bench.pass(Duration::from_millis(5_300)).await;
    assert_eq!(bench.condition("DiskPressure")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_taken_for_dead_says_otherwise_within_a_second() {
    let bench = Bench::settled().await;
    let mut node = bench.node().unwrap();
    node["status"]["conditions"][3]["status"] = json!("Unknown");
    bench.api.plant(NODE, node);
    assert!(!bench.is_ready());
    bench.api.forget_calls();
    bench.pass(Duration::from_millis(1_100)).await;
    assert!(bench.is_ready());
    assert_eq!(bench.api.calls(&Method::PATCH, NODE).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_the_server_leaves_no_trace_but_the_attempts() {
    let bench = Bench::settled().await;
    bench.api.set_away(true);
    bench.api.forget_calls();
    bench.pass(HOUR).await;
    let calls = bench.api.all_calls();
    // Two tries every five seconds, and a question for the lease every seven.
    assert!((1_000..=2_300).contains(&calls), "{calls}");
    bench.api.set_away(false);
    // The cluster has taken the node for dead meanwhile.
    let mut node = bench.node().unwrap();
    node["status"]["conditions"][3]["status"] = json!("Unknown");
    bench.api.plant(NODE, node);
    bench.api.forget_calls();
    bench.pass(seconds(11)).await;
    assert!(bench.is_ready());
    assert!(bench.api.all_calls() < 10, "{}", bench.api.all_calls());
}

#[tokio::test(start_paused = true)]
async fn a_label_that_schedulers_rely_on_is_put_right() {
    let bench = Bench::settled().await;
    let mut node = bench.node().unwrap();
    node["metadata"]["labels"]["kubernetes.io/os"] = json!("windows");
    bench.api.plant(NODE, node);
    bench.pass(seconds(11)).await;
    assert_eq!(
        bench.node().unwrap()["metadata"]["labels"]["kubernetes.io/os"],
        "linux"
    );
}

#[tokio::test(start_paused = true)]
async fn pod_networks_are_passed_on_and_worth_a_patch() {
    let mut bench = Bench::new();
    let outputs = bench.start();
    bench.until("the node is ready", Bench::is_ready).await;
    bench.pass(seconds(60)).await;
    assert_eq!(*outputs.pod_cidrs.borrow(), None);
    let mut node = bench.node().unwrap();
    node["spec"]["podCIDRs"] = json!(["10.244.0.0/24", "fd00:1::/64"]);
    bench.api.plant(NODE, node);
    bench.api.forget_calls();
    bench.pass(seconds(11)).await;
    assert_eq!(
        outputs.pod_cidrs.borrow().as_deref(),
        Some("10.244.0.0/24,fd00:1::/64")
    );
    assert_eq!(bench.api.calls(&Method::PATCH, NODE).len(), 1);
    assert!(*outputs.ready.borrow());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_cannot_be_looked_at_for_a_while_is_not_forgotten() {
    let bench = Bench::settled().await;
    let machine = bench.host.machine.lock().unwrap().take();
    bench.pass(seconds(11)).await;
    let node = bench.node().unwrap();
    assert_eq!(node["status"]["capacity"]["cpu"], "0");
    assert_eq!(node["status"]["nodeInfo"]["architecture"], "amd64");
    *bench.host.machine.lock().unwrap() = machine;
    bench.pass(seconds(11)).await;
    assert_eq!(bench.node().unwrap()["status"]["capacity"]["cpu"], "2");
}

#[tokio::test(start_paused = true)]
async fn volumes_are_free_to_be_mounted_once_the_server_knows_of_them() {
    let mut bench = Bench::new();
    let outputs = bench.start();
    bench.until("the node is ready", Bench::is_ready).await;
    let volume = "kubernetes.io/csi/x^1".to_owned();
    bench.volumes.send_replace(Some(vec![volume.clone()]));
    bench
        .api
        .refuse(Method::PATCH, NODE, (500, "InternalError"), 5);
    // It is told of soon, in vain.
    bench.pass(seconds(2)).await;
    assert_eq!(*outputs.volumes_reported.borrow(), Vec::<String>::new());
    bench.pass(seconds(11)).await;
    assert_eq!(outputs.volumes_reported.borrow().join(","), volume);
    assert_eq!(
        bench.node().unwrap()["status"]["volumesInUse"],
        json!([volume])
    );
    bench.volumes.send_replace(Some(Vec::new()));
    bench.pass(seconds(2)).await;
    assert_eq!(*outputs.volumes_reported.borrow(), Vec::<String>::new());
}
