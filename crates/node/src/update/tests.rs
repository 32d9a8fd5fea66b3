use serde_json::{Value, json};

use super::*;
use crate::testdata::{config, observed, oracle};

fn fresh() -> Node {
    Node::default()
}

fn value(node: &Node) -> Value {
    serde_json::to_value(node).unwrap()
}

/// The times differ from run to run; all else must not.
fn without_times(mut status: Value) -> Value {
    for condition in status["conditions"].as_array_mut().unwrap() {
        let condition = condition.as_object_mut().unwrap();
        assert!(condition.remove("lastHeartbeatTime").is_some());
        assert!(condition.remove("lastTransitionTime").is_some());
    }
    status
}

#[test]
fn the_status_of_a_machine_is_the_one_that_upstream_gave_it_field_by_field() {
    let updated = update(&fresh(), &config(), &observed());
    assert_eq!(updated.problems, Vec::<String>::new());
    let ours = without_times(value(&updated.node)["status"].clone());
    let theirs = without_times(oracle()["status"].clone());
    for (field, expected) in theirs.as_object().unwrap() {
        assert_eq!(&ours[field], expected, "{field}");
    }
    assert_eq!(ours, theirs);
}

#[test]
fn an_object_that_is_up_to_date_stays_as_it_is() {
    let upstream: Node = serde_json::from_value(oracle()).unwrap();
    let updated = update(&upstream, &config(), &observed());
    assert!(!updated.labels_fixed);
    assert_eq!(updated.transitions, []);
    assert_eq!(updated.rebooted, None);
    let status = |node: &Node| without_times(value(node)["status"].clone());
    assert_eq!(status(&updated.node), status(&upstream));
}

#[test]
fn a_new_boot_id_is_a_reboot() {
    let mut upstream: Node = serde_json::from_value(oracle()).unwrap();
    upstream
        .status
        .as_mut()
        .unwrap()
        .node_info
        .as_mut()
        .unwrap()
        .boot_id = "old".to_owned();
    let updated = update(&upstream, &config(), &observed());
    let boot_id = observed().machine.unwrap().boot_id;
    assert_eq!(updated.rebooted, Some(boot_id));
}

#[test]
fn a_machine_that_cannot_be_looked_at_makes_a_new_node_unready() {
    let observed = Observed {
        machine: None,
        storage: None,
        ..observed()
    };
    let updated = update(&fresh(), &config(), &observed);
    assert!(!is_ready(&updated.node));
    let status = value(&updated.node)["status"].clone();
    assert_eq!(
        status["capacity"],
        json!({"cpu": "0", "memory": "0", "pods": "110"})
    );
    assert_eq!(
        status["conditions"][3]["message"],
        "missing node capacity for resources: ephemeral-storage"
    );
}

#[test]
fn what_the_node_does_not_own_is_left_alone() {
    let mut node: Node = serde_json::from_value(oracle()).unwrap();
    let status = node.status.as_mut().unwrap();
    status.phase = Some("Running".to_owned());
    status.volumes_in_use = Some(vec!["kubernetes.io/csi/a".to_owned()]);
    let gpus = "example.com/opaque".to_owned();
    let four = k8s_openapi::apimachinery::pkg::api::resource::Quantity("4".to_owned());
    status
        .capacity
        .as_mut()
        .unwrap()
        .insert(gpus.clone(), four.clone());
    let updated = update(&node, &config(), &observed()).node.status.unwrap();
    assert_eq!(updated.phase.as_deref(), Some("Running"));
    assert_eq!(updated.volumes_in_use.unwrap(), ["kubernetes.io/csi/a"]);
    assert_eq!(updated.capacity.unwrap().get(&gpus), Some(&four));
    assert_eq!(updated.allocatable.unwrap().get(&gpus), Some(&four));
}

#[test]
fn volumes_in_use_are_sorted_and_each_is_named_once() {
    let observed = Observed {
        volumes_in_use: Some(["b", "a", "b"].map(str::to_owned).to_vec()),
        ..observed()
    };
    let updated = update(&fresh(), &config(), &observed).node.status.unwrap();
    assert_eq!(updated.volumes_in_use.unwrap(), ["a", "b"]);
}

#[test]
fn addresses_that_cannot_be_told_stay_as_they_were() {
    let upstream: Node = serde_json::from_value(oracle()).unwrap();
    let observed = Observed {
        network: crate::addresses::Network::default(),
        ..observed()
    };
    let updated = update(&upstream, &config(), &observed);
    let addresses = |node: &Node| node.status.as_ref().unwrap().addresses.clone();
    assert_eq!(addresses(&updated.node), addresses(&upstream));
    assert_eq!(updated.problems.len(), 1, "{:?}", updated.problems);
}

#[test]
fn the_annotation_for_a_cloud_provider_comes_and_goes_with_the_flag() {
    let mut config = config();
    config.identity.external_cloud = true;
    config.identity.node_ip = crate::addresses::NodeIp::read("10.86.0.1").unwrap().0;
    let node = update(&fresh(), &config, &observed()).node;
    let annotations = node.metadata.annotations.clone().unwrap();
    assert_eq!(annotations[PROVIDED_NODE_IP], "10.86.0.1");
    config.identity.external_cloud = false;
    let node = update(&node, &config, &observed()).node;
    assert_eq!(
        node.metadata.annotations.unwrap().get(PROVIDED_NODE_IP),
        None
    );
}
