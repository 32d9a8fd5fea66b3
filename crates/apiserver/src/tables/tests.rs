use serde_json::{Value, json};

use super::*;
use crate::kinds::{self, Kind};

const CREATED: &str = "2026-01-02T03:00:00Z";

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn options() -> Options {
    Options {
        include: IncludeObject::None,
        headers: true,
        metadata: Value::Null,
    }
}

fn cells(kind: &Kind, mut object: Value) -> Value {
    object["metadata"] = json!({"name": "a", "creationTimestamp": CREATED, "labels": object["metadata"]["labels"], "deletionTimestamp": object["metadata"]["deletionTimestamp"]});
    let table = render(kind, &[object], &options(), now());
    let cells = table["rows"][0]["cells"].clone();
    assert_eq!(
        cells.as_array().unwrap().len(),
        table["columnDefinitions"].as_array().unwrap().len(),
        "{}",
        kind.kind
    );
    cells
}

#[test]
fn a_table_has_columns_rows_and_what_was_asked_for_of_each_object() {
    let object = json!({"kind": "ConfigMap", "metadata": {"name": "a", "creationTimestamp": CREATED}, "data": {"x": "y"}});
    let mut wanted = options();
    wanted.metadata = json!({"resourceVersion": "5", "continue": "x", "name": "n"});
    let table = render(
        &kinds::CONFIG_MAPS,
        std::slice::from_ref(&object),
        &wanted,
        now(),
    );
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(
        table["metadata"],
        json!({"resourceVersion": "5", "continue": "x"})
    );
    assert_eq!(
        table["rows"],
        json!([{"cells": ["a", 1, "4m5s"], "object": null}])
    );
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    wanted.include = IncludeObject::Metadata;
    wanted.headers = false;
    let table = render(
        &kinds::CONFIG_MAPS,
        std::slice::from_ref(&object),
        &wanted,
        now(),
    );
    assert_eq!(table["columnDefinitions"], Value::Null);
    assert_eq!(
        table["rows"][0]["object"],
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
    );
    wanted.include = IncludeObject::Object;
    let table = render(
        &kinds::CONFIG_MAPS,
        std::slice::from_ref(&object),
        &wanted,
        now(),
    );
    assert_eq!(table["rows"][0]["object"], object);
    assert_eq!(
        (IncludeObject::parse(""), IncludeObject::parse("All")),
        (Some(IncludeObject::Metadata), None)
    );
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    for kind in kinds::KINDS {
        cells(kind, json!({}));
    }
}

#[test]
fn a_pods_status_is_what_its_containers_do() {
    let running = json!({"name": "c", "ready": true, "restartCount": 0, "state": {"running": {}}});
    let ended = |code: i64, reason: &str| json!({"name": "d", "state": {"terminated": {"exitCode": code, "reason": reason}}});
    let pod = |status: Value| json!({"spec": {"containers": [{"name": "c"}, {"name": "d"}]}, "status": status});
    let cases = [
        (pod(json!({"phase": "Pending"})), "0/2", "Pending"),
        (
            pod(json!({"phase": "Failed", "reason": "Evicted"})),
            "0/2",
            "Evicted",
        ),
        (
            pod(json!({"phase": "Running", "containerStatuses": [running]})),
            "1/2",
            "Running",
        ),
        (
            pod(
                json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}),
            ),
            "0/2",
            "ContainerCreating",
        ),
        (
            pod(json!({"phase": "Running", "containerStatuses": [running, ended(0, "Completed")]})),
            "1/2",
            "NotReady",
        ),
        (
            pod(
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [ended(0, "Completed"), running]}),
            ),
            "1/2",
            "Running",
        ),
        (
            pod(
                json!({"phase": "Failed", "containerStatuses": [ended(0, "Completed"), ended(1, "Error")]}),
            ),
            "0/2",
            "Error",
        ),
        (
            pod(json!({"phase": "Failed", "containerStatuses": [ended(3, "")]})),
            "0/2",
            "ExitCode:3",
        ),
        (
            pod(
                json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 137, "signal": 9}}}]}),
            ),
            "0/2",
            "Signal:9",
        ),
        (
            pod(
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            ),
            "0/2",
            "SchedulingGated",
        ),
    ];
    for (object, ready, reason) in cases {
        let cells = cells(&kinds::PODS, object.clone());
        assert_eq!(
            (&cells[1], &cells[2]),
            (&json!(ready), &json!(reason)),
            "{object}"
        );
    }
    let mut deleted = pod(json!({"phase": "Running"}));
    deleted["metadata"]["deletionTimestamp"] = CREATED.into();
    assert_eq!(cells(&kinds::PODS, deleted.clone())[2], "Terminating");
    deleted["status"]["reason"] = "NodeLost".into();
    assert_eq!(cells(&kinds::PODS, deleted.clone())[2], "Unknown");
    deleted["status"] = json!({"phase": "Succeeded"});
    assert_eq!(cells(&kinds::PODS, deleted)[2], "Succeeded");
}

#[test]
fn a_pods_init_containers_speak_until_they_are_done() {
    let pod = |statuses: Value| {
        json!({
            "spec": {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "c"}]},
            "status": {"phase": "Pending", "initContainerStatuses": statuses, "containerStatuses": [{"state": {"waiting": {"reason": "PodInitializing"}}}]},
        })
    };
    let done =
        json!({"name": "i", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    let cases = [
        (
            json!([{"name": "i", "state": {"running": {}}}]),
            "0/2",
            "Init:0/2",
        ),
        (
            json!([{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]),
            "0/2",
            "Init:0/2",
        ),
        (
            json!([{"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}]),
            "0/2",
            "Init:ErrImagePull",
        ),
        (
            json!([{"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]),
            "0/2",
            "Init:Error",
        ),
        (
            json!([{"name": "i", "state": {"terminated": {"exitCode": 2}}}]),
            "0/2",
            "Init:ExitCode:2",
        ),
        (
            json!([done, {"name": "s", "state": {"running": {}}}]),
            "0/2",
            "Init:1/2",
        ),
        (
            json!([done, {"name": "s", "started": true, "ready": true, "state": {"running": {}}}]),
            "1/2",
            "PodInitializing",
        ),
    ];
    for (statuses, ready, reason) in cases {
        let cells = cells(&kinds::PODS, pod(statuses.clone()));
        assert_eq!(
            (&cells[1], &cells[2]),
            (&json!(ready), &json!(reason)),
            "{statuses}"
        );
    }
}

#[test]
fn restarts_are_counted_with_the_last_one() {
    let pod = json!({
        "spec": {"containers": [{"name": "c"}], "nodeName": "n", "readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}]},
        "status": {
            "phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "g", "status": "True"}],
            "containerStatuses": [{"ready": true, "restartCount": 3, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-01-02T03:03:00Z"}}}],
        },
    });
    assert_eq!(
        cells(&kinds::PODS, pod),
        json!([
            "a",
            "1/1",
            "Running",
            "3 (65s ago)",
            "4m5s",
            "10.0.0.1",
            "n",
            "<none>",
            "1/2"
        ])
    );
}

#[test]
fn other_kinds_print_what_matters_of_them() {
    let node = json!({
        "metadata": {"labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "x"}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}], "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
            "nodeInfo": {"kubeletVersion": "v1", "osImage": "Debian", "kernelVersion": "6", "architecture": "amd64", "containerRuntimeVersion": "containerd://2"}},
    });
    assert_eq!(
        cells(&kinds::NODES, node),
        json!([
            "a",
            "NotReady,SchedulingDisabled",
            "control-plane,x",
            "4m5s",
            "v1",
            "1.2.3.4",
            "<none>",
            "Debian",
            "6 (amd64)",
            "containerd://2"
        ])
    );
    let service = json!({"spec": {"type": "NodePort", "clusterIPs": ["10.96.0.1"], "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}], "selector": {"b": "c", "a": "b"}}});
    assert_eq!(
        cells(&kinds::SERVICES, service),
        json!([
            "a",
            "NodePort",
            "10.96.0.1",
            "<none>",
            "80:30000/TCP,53/UDP",
            "4m5s",
            "a=b,b=c"
        ])
    );
    let event = json!({"involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"}, "type": "Normal", "reason": "Started", "message": " m\n",
        "source": {"component": "kubelet", "host": "n"}, "firstTimestamp": CREATED, "lastTimestamp": "2026-01-02T03:04:00Z", "count": 2});
    assert_eq!(
        cells(&kinds::EVENTS, event),
        json!([
            "5s",
            "Normal",
            "Started",
            "pod/p",
            "spec",
            "kubelet, n",
            "m",
            "4m5s",
            2,
            "a"
        ])
    );
    let request = json!({"spec": {"signerName": "s", "username": "u", "expirationSeconds": 3600}, "status": {"certificate": "YQ==", "conditions": [{"type": "Approved"}]}});
    assert_eq!(
        cells(&kinds::CERTIFICATE_SIGNING_REQUESTS, request),
        json!(["a", "4m5s", "s", "u", "60m", "Approved,Issued"])
    );
    let volume = json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "d", "name": "c"}, "volumeMode": "Filesystem"}, "status": {"phase": "Bound"}});
    assert_eq!(
        cells(&kinds::PERSISTENT_VOLUMES, volume),
        json!([
            "a",
            "1Gi",
            "RWO,RWX",
            "Retain",
            "Bound",
            "d/c",
            "",
            "<unset>",
            "",
            "4m5s",
            "Filesystem"
        ])
    );
    let claim = json!({"spec": {"volumeName": "v", "storageClassName": "s"}, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}});
    assert_eq!(
        cells(&kinds::PERSISTENT_VOLUME_CLAIMS, claim),
        json!([
            "a", "Bound", "v", "1Gi", "RWO", "s", "<unset>", "4m5s", "<unset>"
        ])
    );
    let driver = json!({"spec": {"attachRequired": false, "volumeLifecycleModes": ["Persistent", "Ephemeral"]}});
    assert_eq!(
        cells(&kinds::CSI_DRIVERS, driver),
        json!([
            "a",
            false,
            false,
            false,
            "<unset>",
            false,
            "Persistent,Ephemeral",
            "4m5s"
        ])
    );
}
