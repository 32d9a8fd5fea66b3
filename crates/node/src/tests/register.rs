use http::Method;
use serde_json::json;

use super::bench::{Bench, HOUR, seconds};
use crate::testapi::NODE;
use crate::testdata;

const NODES: &str = "/api/v1/nodes";

#[tokio::test(start_paused = true)]
async fn a_new_node_is_posted_with_its_whole_status() {
    let mut bench = Bench::new();
    let mut outputs = bench.start();
    outputs.registered.wait_for(|done| *done).await.unwrap();
    let posted = bench.api.calls(&Method::POST, NODES);
    assert_eq!(posted.len(), 1);
    assert_eq!(posted[0].by, "requests");
    assert_eq!(
        posted[0].at.as_millis(),
        100,
        "a pause comes before the first try"
    );
    let oracle = testdata::oracle();
    let body = &posted[0].body;
    assert_eq!(body["metadata"]["labels"], oracle["metadata"]["labels"]);
    assert_eq!(body["status"]["capacity"], oracle["status"]["capacity"]);
    assert_eq!(
        body["status"]["allocatable"],
        oracle["status"]["allocatable"]
    );
    let conditions = body["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions[3]["message"], "CSINode is not yet initialized");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_asked_ever_more_seldom() {
    let mut bench = Bench::new();
    bench
        .api
        .refuse(Method::POST, NODES, (500, "InternalError"), 9);
    let mut outputs = bench.start();
    outputs.registered.wait_for(|done| *done).await.unwrap();
    let calls = bench.api.calls(&Method::POST, NODES);
    let times: Vec<u128> = calls.iter().map(|call| call.at.as_millis()).collect();
    let pauses: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [200, 400, 800, 1600, 3200, 6400, 7000, 7000, 7000]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_there_is_brought_into_shape_with_one_patch() {
    for forbidden in [false, true] {
        let mut bench = Bench::new();
        bench.api.plant(
            NODE,
            json!({
                "metadata": {"name": "up1", "labels": {"kubernetes.io/hostname": "old", "zone": "a"}},
                "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
                "status": {"capacity": {"cpu": "9"}, "allocatable": {"cpu": "9"}},
            }),
        );
        if forbidden {
            bench.api.refuse(Method::POST, NODES, (403, "Forbidden"), 1);
        }
        let mut outputs = bench.start();
        outputs.registered.wait_for(|done| *done).await.unwrap();
        assert_eq!(bench.api.calls(&Method::POST, NODES).len(), 1);
        let patches = bench.api.calls(&Method::PATCH, NODE);
        let first = &patches[0];
        assert_eq!(
            (first.by, first.path.as_str()),
            ("requests", "/api/v1/nodes/up1/status")
        );
        assert_eq!(
            first.body["metadata"],
            json!({
                "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
                "labels": {
                    "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "up1",
                    "kubernetes.io/os": "linux",
                },
            })
        );
        let hugepages = json!({"hugepages-1Gi": "0", "hugepages-2Mi": "0"});
        assert_eq!(first.body["status"]["capacity"], hugepages);
        let node = bench.node().unwrap();
        assert_eq!(node["metadata"]["labels"]["zone"], "a");
        assert_eq!(node["spec"]["taints"][0]["key"], "k");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_must_not_register_waits_for_its_object() {
    let mut config = testdata::config();
    config.registration.wanted = false;
    let mut bench = Bench::new();
    bench.start_with(config);
    bench.pass(seconds(60)).await;
    assert_eq!(bench.api.calls(&Method::POST, NODES).len(), 0);
    assert_eq!(bench.node(), None);
    bench.api.plant(NODE, json!({"metadata": {"name": "up1"}}));
    bench.until("the node is ready", Bench::is_ready).await;
    assert_eq!(bench.api.calls(&Method::POST, NODES).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_at_first_gets_its_node_when_it_comes() {
    let mut bench = Bench::new();
    bench.api.set_away(true);
    bench.start();
    bench.pass(HOUR).await;
    bench.api.set_away(false);
    bench.pass(seconds(8)).await;
    assert!(bench.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_node_ends_when_it_is_told_to() {
    let mut bench = Bench::settled().await;
    bench.api.set_away(true);
    bench.pass(seconds(15)).await;
    let told = tokio::time::Instant::now();
    bench.shutdown.cancel();
    while bench.running.join_next().await.is_some() {}
    assert_eq!(told.elapsed(), seconds(0));
    assert!(bench.node().is_some(), "the object stays");
}
