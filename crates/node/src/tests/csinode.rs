use http::Method;
use serde_json::json;

use super::bench::{Bench, HOUR, seconds};
use crate::readiness::CsiNodeState;
use crate::testapi::CSI_NODE;

const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const MIGRATED: &str = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,\
    kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,\
    kubernetes.io/vsphere-volume";

#[tokio::test(start_paused = true)]
async fn a_csinode_is_made_as_upstream_makes_it() {
    let bench = Bench::settled().await;
    let made = bench.api.calls(&Method::POST, CSI_NODES);
    assert_eq!(made.len(), 1);
    let uid = bench.node().unwrap()["metadata"]["uid"].clone();
    assert_eq!(
        made[0].body,
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {
                "name": "up1",
                "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": MIGRATED},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "up1", "uid": uid}],
            },
            "spec": {"drivers": []},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_is_not_ready_without_it() {
    let mut bench = Bench::new();
    bench
        .api
        .refuse(Method::POST, CSI_NODES, (500, "InternalError"), 12);
    let outputs = bench.start();
    bench
        .until("a failure", |_| {
            matches!(*outputs.csi_node.borrow(), CsiNodeState::Failed(_))
        })
        .await;
    bench.pass(seconds(1)).await;
    assert!(!bench.is_ready());
    let message = bench.condition("Ready")["message"].clone();
    let message = message.as_str().unwrap();
    assert!(message.contains("CSINode"), "{message}");
    bench.until("the node is ready", Bench::is_ready).await;
    assert_eq!(*outputs.csi_node.borrow(), CsiNodeState::Done);
}

#[tokio::test(start_paused = true)]
async fn one_of_an_earlier_node_is_deleted_and_made_anew() {
    let mut bench = Bench::new();
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "up1", "uid": "earlier"}]);
    bench.api.plant(
        CSI_NODE,
        json!({"metadata": {"name": "up1", "ownerReferences": owner}, "spec": {"drivers": []}}),
    );
    bench.start();
    bench.until("the node is ready", Bench::is_ready).await;
    assert_eq!(bench.api.calls(&Method::DELETE, CSI_NODE).len(), 1);
    let uid = bench.node().unwrap()["metadata"]["uid"].clone();
    let csi_node = bench.api.object(CSI_NODE).unwrap();
    assert_eq!(csi_node["metadata"]["ownerReferences"][0]["uid"], uid);
}

#[tokio::test(start_paused = true)]
async fn one_of_this_node_is_kept_with_its_drivers() {
    let mut bench = Bench::new();
    bench.api.plant(
        crate::testapi::NODE,
        json!({"metadata": {"name": "up1", "uid": "mine"}}),
    );
    let driver = json!({"name": "csi.example.com", "nodeID": "n"});
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "up1", "uid": "mine"}]);
    bench.api.plant(
        CSI_NODE,
        json!({"metadata": {"name": "up1", "ownerReferences": owner}, "spec": {"drivers": [driver]}}),
    );
    bench.start();
    bench.until("the node is ready", Bench::is_ready).await;
    assert_eq!(bench.api.calls(&Method::DELETE, CSI_NODE).len(), 0);
    let csi_node = bench.api.object(CSI_NODE).unwrap();
    assert_eq!(csi_node["spec"]["drivers"][0]["name"], "csi.example.com");
    let annotations = &csi_node["metadata"]["annotations"];
    assert_eq!(
        annotations["storage.alpha.kubernetes.io/migrated-plugins"],
        MIGRATED
    );
}

#[tokio::test(start_paused = true)]
async fn a_series_without_success_is_followed_by_another() {
    let mut bench = Bench::new();
    // More than one series of six times four.
    bench
        .api
        .refuse(Method::POST, CSI_NODES, (500, "InternalError"), 30);
    bench.start();
    bench.pass(HOUR).await;
    assert!(bench.is_ready());
    assert_eq!(bench.api.calls(&Method::POST, CSI_NODES).len(), 31);
}
