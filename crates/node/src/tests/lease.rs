use http::Method;
use serde_json::{Value, json};

use super::bench::{Bench, seconds};
use crate::testapi::{LEASE, NODE};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

#[tokio::test(start_paused = true)]
async fn a_lease_is_made_as_upstream_makes_it() {
    let mut bench = Bench::new();
    bench.start();
    bench
        .until("a lease", |bench| bench.api.object(LEASE).is_some())
        .await;
    let made = bench.api.calls(&Method::POST, LEASES).remove(0);
    assert_eq!(made.by, "heartbeats");
    let uid = bench.node().unwrap()["metadata"]["uid"].clone();
    let mut body = made.body;
    let renewed = body["spec"]["renewTime"].take();
    assert_eq!(
        body,
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "up1",
                "namespace": "kube-node-lease",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "up1", "uid": uid}],
            },
            "spec": {"holderIdentity": "up1", "leaseDurationSeconds": 40, "renewTime": null},
        })
    );
    assert_eq!(
        renewed.as_str().unwrap().len(),
        "2026-11-15T06:26:29.218267Z".len()
    );
    // A lease that was just made is not renewed at once.
    assert_eq!(bench.api.calls(&Method::PUT, LEASE).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_every_quarter_of_its_life_without_reading_it() {
    let bench = Bench::settled().await;
    bench.api.forget_calls();
    bench.pass(seconds(600)).await;
    let renewals = bench.api.calls(&Method::PUT, LEASE);
    assert_eq!(bench.api.calls(&Method::GET, LEASE).len(), 0);
    for pair in renewals.windows(2) {
        let apart = pair[1].at.saturating_sub(pair[0].at).as_secs_f64();
        assert!((10.0..=10.41).contains(&apart), "{apart}");
    }
    let time = |call: &crate::testapi::Call| call.body["spec"]["renewTime"].clone();
    assert_ne!(time(&renewals[0]), time(&renewals[1]));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_there_is_taken_up_and_given_its_owner() {
    let mut bench = Bench::new();
    bench.api.plant(
        LEASE,
        json!({
            "metadata": {"name": "up1", "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": "up1", "leaseDurationSeconds": 7},
        }),
    );
    bench.start();
    let owner =
        |bench: &Bench| bench.api.object(LEASE).unwrap()["metadata"]["ownerReferences"].clone();
    bench
        .until("an owner", |bench| owner(bench) != Value::Null)
        .await;
    let lease = bench.api.object(LEASE).unwrap();
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(
        owner(&bench)[0]["uid"],
        bench.node().unwrap()["metadata"]["uid"]
    );
    assert_eq!(bench.api.calls(&Method::POST, LEASES).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_conflict_the_newest_version_is_renewed_at_once() {
    let bench = Bench::settled().await;
    let mut lease = bench.api.object(LEASE).unwrap();
    lease["metadata"]["labels"] = json!({"by": "somebody"});
    bench.api.plant(LEASE, lease);
    bench.api.forget_calls();
    bench
        .until("a renewal", |bench| {
            bench.api.calls(&Method::PUT, LEASE).len() == 2
        })
        .await;
    let puts = bench.api.calls(&Method::PUT, LEASE);
    assert_eq!(puts[0].at, puts[1].at);
    assert_eq!(bench.api.calls(&Method::GET, LEASE).len(), 1);
    let lease = bench.api.object(LEASE).unwrap();
    assert_eq!(lease["metadata"]["labels"]["by"], "somebody");
    assert_eq!(bench.reconnects(), 0, "a conflict is no bad connection");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_tried_five_times_and_then_the_lease_is_read_anew() {
    let bench = Bench::settled().await;
    bench.api.forget_calls();
    bench
        .api
        .refuse(Method::PUT, LEASE, (500, "InternalError"), 5);
    bench
        .until("six tries", |bench| {
            bench.api.calls(&Method::PUT, LEASE).len() == 6
        })
        .await;
    let puts = bench.api.calls(&Method::PUT, LEASE);
    assert_eq!(puts[0].at, puts[5].at, "there is no pause between them");
    assert_eq!(bench.api.calls(&Method::GET, LEASE).len(), 1);
    assert_eq!(bench.reconnects(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_had_is_asked_for_ever_more_seldom() {
    let mut bench = Bench::new();
    bench
        .api
        .refuse(Method::GET, LEASE, (500, "InternalError"), 8);
    bench.start();
    bench
        .until("a lease", |bench| bench.api.object(LEASE).is_some())
        .await;
    let gets = bench.api.calls(&Method::GET, LEASE);
    let times: Vec<u128> = gets.iter().map(|call| call.at.as_millis()).collect();
    let pauses: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let longest = [200, 400, 800, 1600, 3200, 6400, 7000, 7000];
    assert_eq!(pauses.len(), longest.len());
    for (pause, longest) in pauses.iter().zip(longest) {
        // Up to half of it shorter, so that nodes do not come back in step.
        let spread = longest / 2..=longest;
        assert!(spread.contains(pause), "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_node_to_own_it_no_lease_is_made() {
    let mut config = crate::testdata::config();
    config.registration.wanted = false;
    let mut bench = Bench::new();
    bench.start_with(config);
    bench.pass(seconds(60)).await;
    assert_eq!(bench.api.calls(&Method::POST, LEASES).len(), 0);
    let asked = bench.api.calls(&Method::GET, LEASE).len();
    assert!((5..=7).contains(&asked), "once per interval: {asked}");
    bench.api.plant(NODE, json!({"metadata": {"name": "up1"}}));
    bench.pass(seconds(11)).await;
    assert!(bench.api.object(LEASE).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_deleted_is_made_anew() {
    let mut bench = Bench::settled().await;
    bench.api.refuse(Method::PUT, LEASE, (404, "NotFound"), 5);
    bench.api.refuse(Method::GET, LEASE, (404, "NotFound"), 1);
    bench
        .api
        .refuse(Method::POST, LEASES, (409, "AlreadyExists"), 1);
    bench.pass(seconds(12)).await;
    assert_eq!(
        bench.api.calls(&Method::POST, LEASES).len(),
        2,
        "one at the start, one now"
    );
    bench.api.forget_calls();
    bench.pass(seconds(30)).await;
    assert!(bench.api.calls(&Method::PUT, LEASE).len() >= 2);
    bench.shutdown.cancel();
    while bench.running.join_next().await.is_some() {}
    assert!(bench.api.object(LEASE).is_some(), "the lease stays");
}
