//! Volumes that pods have by claims, and what is said of those that cannot be had.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::super::manifest::{FOREVER, Pod, config_map, pod};
use super::super::scenario::Scenario;
use super::super::stage::Stage;
use crate::wait;

const VOLUMES: &str = "/api/v1/persistentvolumes";
const DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// What is in a volume, and whether it can be written.
const SHOW: &str = "cd /v; cat here; stat -c '%A %u %g' .; touch new 2>&1; ls";

/// A directory on the node with a file in it; the play's own.
fn directory(stage: &Stage<'_>) -> Result<String> {
    let place = format!("/var/{}", stage.namespace());
    stage.on_node(&format!("mkdir -p {place}; echo yes > {place}/here"))?;
    Ok(place)
}

/// A persistent volume for the claim `c` of the play.
fn volume(stage: &Stage<'_>, source: &Value, more: &Value) -> Value {
    let namespace = stage.namespace();
    let mut spec = json!({
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "persistentVolumeReclaimPolicy": "Retain",
        "nodeAffinity": affinity(stage.node_name()),
    });
    for part in [source, more] {
        for (key, value) in part.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
    }
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": namespace}, "spec": spec,
    })
}

fn affinity(node: &str) -> Value {
    let term = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}})
}

fn claim_spec(stage: &Stage<'_>, modes: &Value) -> Value {
    json!({
        "accessModes": modes,
        "storageClassName": "",
        "volumeName": stage.namespace(),
        "resources": {"requests": {"storage": "1Mi"}},
    })
}

fn claim(stage: &Stage<'_>, modes: &Value) -> Result<()> {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": claim_spec(stage, modes),
    });
    stage.make("/api/v1", "persistentvolumeclaims", &claim)
}

fn is_bound(claim: &Value) -> bool {
    claim["status"]["phase"] == "Bound"
}

/// A claim `c` that is bound to such a volume.
fn bound(stage: &Stage<'_>, source: &Value, more: &Value) -> Result<()> {
    let volume = volume(stage, source, more);
    let modes = volume["spec"]["accessModes"].clone();
    stage.make_in_cluster(VOLUMES, &volume)?;
    claim(stage, &modes)?;
    stage.until_made("persistentvolumeclaims/c", is_bound)
}

/// Volumes are in no namespace, and do not go with one.
fn remove(stage: &Stage<'_>) -> Result<()> {
    stage.remove_from_cluster(&format!("{VOLUMES}/{}", stage.namespace()))
}

fn claiming(name: &str, script: &str, read_only: bool) -> Pod {
    let source = json!({"claimName": "c", "readOnly": read_only});
    pod(name, script).volume("/v", &json!({"persistentVolumeClaim": source}))
}

/// No other volume: whether upstream has mounted it when it complains is chance.
fn alone(pod: Pod) -> Pod {
    pod.spec(&json!({"automountServiceAccountToken": false}))
}

/// A pod of a volume that cannot be had waits, and goes.
fn waits(stage: &Stage<'_>) -> Result<()> {
    stage.create(alone(claiming("p", FOREVER, false)))?;
    stage.said("FailedMount")?;
    stage.end("p")
}

/// A claim of a volume whose driver has the play's own name, and is nowhere.
fn driven(stage: &Stage<'_>, attached: bool) -> Result<()> {
    let driver = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": stage.namespace()}, "spec": {"attachRequired": attached},
    });
    stage.make_in_cluster(DRIVERS, &driver)?;
    let source = json!({"driver": stage.namespace(), "volumeHandle": "it"});
    bound(stage, &json!({"csi": source}), &json!({}))
}

fn remove_driven(stage: &Stage<'_>) -> Result<()> {
    stage.remove_from_cluster(&format!("{DRIVERS}/{}", stage.namespace()))?;
    remove(stage)
}

/// Does what a driver would do when the cluster has asked it for the play's volume.
fn attach(stage: &Stage<'_>) -> Result<()> {
    let asked = wait::until("an attachment", Duration::from_secs(60), || {
        let list = stage.in_cluster(ATTACHMENTS)?;
        let mut attachments = list["items"].as_array().into_iter().flatten();
        let own = attachments.find(|one| one["spec"]["attacher"] == stage.namespace());
        let name = own.and_then(|own| own["metadata"]["name"].as_str());
        name.map(str::to_owned).context("there is none")
    })?;
    let path = format!("{ATTACHMENTS}/{asked}/status");
    stage.patch_in_cluster(&path, &json!({"status": {"attached": true}}))
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "claim-local",
        "a directory of the node that a local volume names",
        |stage| {
            let place = directory(stage)?;
            bound(stage, &json!({"local": {"path": place}}), &json!({}))?;
            stage.see(claiming("p", SHOW, false))?;
            remove(stage)
        },
    ),
    Scenario::new(
        "claim-attached",
        "a volume that the cluster attaches, of a driver that is not on the node",
        |stage| {
            driven(stage, true)?;
            stage.create(alone(claiming("p", FOREVER, false)))?;
            attach(stage)?;
            stage.said("FailedMount")?;
            stage.end("p")?;
            remove_driven(stage)
        },
    ),
    Scenario::new(
        "claim-never-attached",
        "a volume that nobody attaches, of a driver that is not on the node",
        |stage| {
            driven(stage, false)?;
            waits(stage)?;
            remove_driven(stage)
        },
    ),
    Scenario::new(
        "claim-local-read-only",
        "a claim for reading only",
        |stage| {
            let place = directory(stage)?;
            bound(stage, &json!({"local": {"path": place}}), &json!({}))?;
            stage.see(claiming("p", SHOW, true))?;
            remove(stage)
        },
    ),
    Scenario::new(
        "claim-local-group",
        "a local volume is given to the pod's group",
        |stage| {
            let place = directory(stage)?;
            bound(stage, &json!({"local": {"path": place}}), &json!({}))?;
            let pod = claiming("p", SHOW, false);
            stage.see(pod.spec(&json!({"securityContext": {"fsGroup": 4321}})))?;
            remove(stage)
        },
    ),
    Scenario::new("claim-local-part", "a part of a local volume", |stage| {
        let place = directory(stage)?;
        bound(stage, &json!({"local": {"path": place}}), &json!({}))?;
        let mount = json!([{"name": "v0", "mountPath": "/v", "subPath": "deep/er"}]);
        let script = "cd /v; touch new; ls; stat -c '%A %u %g' .";
        let pod = claiming("p", script, false);
        stage.see(pod.main(&json!({"volumeMounts": mount})))?;
        remove(stage)
    }),
    Scenario::new(
        "claim-local-missing",
        "a local volume whose directory is not there",
        |stage| {
            let source = json!({"local": {"path": "/var/no/such/directory"}});
            bound(stage, &source, &json!({}))?;
            waits(stage)?;
            remove(stage)
        },
    ),
    Scenario::new(
        "claim-of-another-node",
        "a volume that belongs to other nodes",
        |stage| {
            let place = directory(stage)?;
            let more = json!({"nodeAffinity": affinity("another")});
            bound(stage, &json!({"local": {"path": place}}), &more)?;
            waits(stage)?;
            remove(stage)
        },
    ),
    Scenario::new(
        "claim-host-path",
        "a path of the node by a claim, and a group that goes with it",
        |stage| {
            let place = directory(stage)?;
            let mut volume = volume(stage, &json!({"hostPath": {"path": place}}), &json!({}));
            volume["metadata"]["annotations"] = json!({"pv.beta.kubernetes.io/gid": "5432"});
            stage.make_in_cluster(VOLUMES, &volume)?;
            claim(stage, &json!(["ReadWriteOnce"]))?;
            stage.until_made("persistentvolumeclaims/c", is_bound)?;
            let script = format!("{SHOW}; id -G");
            stage.see(claiming("p", &script, false))?;
            remove(stage)
        },
    ),
    Scenario::new(
        "claim-mount-options",
        "options for a kind that has none",
        |stage| {
            let place = directory(stage)?;
            let more = json!({"mountOptions": ["noatime"]});
            bound(stage, &json!({"hostPath": {"path": place}}), &more)?;
            waits(stage)?;
            remove(stage)
        },
    ),
    Scenario::new(
        "claim-missing",
        "a pod without its claim is deleted",
        |stage| waits(stage),
    ),
    Scenario::new(
        "claim-late",
        "a pod waits until its claim is bound",
        |stage| {
            let place = directory(stage)?;
            claim(stage, &json!(["ReadWriteOnce"]))?;
            stage.create(alone(claiming("p", FOREVER, false)))?;
            stage.said("FailedMount")?;
            let volume = volume(stage, &json!({"local": {"path": place}}), &json!({}));
            stage.make_in_cluster(VOLUMES, &volume)?;
            stage.running("p")?;
            stage.end("p")?;
            remove(stage)
        },
    ),
    Scenario::new(
        "claim-ephemeral",
        "a claim that is made for its pod, and goes with it",
        |stage| {
            let place = directory(stage)?;
            let volume = volume(stage, &json!({"local": {"path": place}}), &json!({}));
            stage.make_in_cluster(VOLUMES, &volume)?;
            let template = json!({"spec": claim_spec(stage, &json!(["ReadWriteOnce"]))});
            let source = json!({"ephemeral": {"volumeClaimTemplate": template}});
            // The scheduler waits for the claim; the node need not.
            let place = json!({"kubernetes.io/hostname": stage.node_name()});
            let pod = pod("p", FOREVER)
                .volume("/v", &source)
                .spec(&json!({"nodeSelector": place}));
            stage.make("/api/v1", "pods", &pod.0)?;
            stage.running("p")?;
            stage.end("p")?;
            remove(stage)
        },
    ),
    Scenario::new(
        "claim-ephemeral-of-another",
        "a claim of the right name that was not made for the pod",
        |stage| {
            let place = directory(stage)?;
            let volume = volume(stage, &json!({"local": {"path": place}}), &json!({}));
            stage.make_in_cluster(VOLUMES, &volume)?;
            let spec = claim_spec(stage, &json!(["ReadWriteOnce"]));
            let theirs = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "p-v0"},
                "spec": spec,
            });
            stage.make("/api/v1", "persistentvolumeclaims", &theirs)?;
            stage.until_made("persistentvolumeclaims/p-v0", is_bound)?;
            let template = json!({"spec": spec});
            let source = json!({"ephemeral": {"volumeClaimTemplate": template}});
            stage.create(alone(pod("p", FOREVER).volume("/v", &source)))?;
            stage.said("FailedMount")?;
            stage.end("p")?;
            remove(stage)
        },
    ),
    Scenario::new(
        "volume-immutable",
        "a ConfigMap that never changes",
        |stage| {
            let mut map = config_map("c", &json!({"here": "yes"}));
            map["immutable"] = json!(true);
            stage.make("/api/v1", "configmaps", &map)?;
            let source = json!({"configMap": {"name": "c"}});
            stage.see(pod("p", "cat /v/here").volume("/v", &source))
        },
    ),
];
