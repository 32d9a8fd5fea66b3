//! The volumes of the pods in the chaos: those that the agent fills itself, or every
//! kind that there is but two: trust bundles, which need a gate, and claims that are
//! made for their pods, which need somebody who makes a volume for each.

use serde_json::{Value, json};

use super::canary::PLACE;
use crate::lab::BUSYBOX_IMAGE;

/// What the chaos is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// Pods and their containers.
    Pods,
    /// Volumes: of every kind that can be had, changed while they are used, and with a
    /// canary behind those that are the machine's.
    Volumes,
}

/// Ends when it is told to, and never by itself.
const SCRIPT: &str = "trap 'exit 0' TERM; sleep 1000000 & wait";

/// Claims, and what is behind them.
pub(super) const CLAIMS: [&str; 2] = ["local", "path"];

pub(super) fn pod_spec(world: World) -> Value {
    let mut volumes = filled();
    let mut mounts: Vec<Value> = Vec::new();
    if world == World::Volumes {
        volumes.extend(of_the_machine());
        mounts.extend(parts());
    }
    let whole = volumes.iter().map(|volume| {
        let name = volume["name"].as_str().unwrap_or_default();
        json!({ "name": name, "mountPath": format!("/mnt/{name}") })
    });
    mounts.splice(0..0, whole);
    json!({
        "containers": [{
            "name": "main",
            "image": BUSYBOX_IMAGE,
            "command": ["sh", "-c", SCRIPT],
            "volumeMounts": mounts,
        }],
        "volumes": volumes,
    })
}

fn filled() -> Vec<Value> {
    vec![
        json!({ "name": "disk", "emptyDir": {} }),
        json!({ "name": "memory", "emptyDir": { "medium": "Memory" } }),
        json!({ "name": "settings", "configMap": { "name": "settings" } }),
        json!({ "name": "secret", "secret": { "secretName": "secret" } }),
        json!({ "name": "token", "projected": { "sources": [
            { "serviceAccountToken": { "path": "token", "expirationSeconds": 3600 } },
            { "configMap": { "name": "settings" } },
        ]}}),
    ]
}

fn of_the_machine() -> Vec<Value> {
    let name = json!({ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } });
    let machine = json!({ "path": format!("{PLACE}/path"), "type": "Directory" });
    let image = json!({ "reference": BUSYBOX_IMAGE, "pullPolicy": "IfNotPresent" });
    let mut volumes = vec![
        json!({ "name": "self", "downwardAPI": { "items": [name] } }),
        json!({ "name": "machine", "hostPath": machine }),
        json!({ "name": "image", "image": image }),
    ];
    volumes.extend(CLAIMS.map(|claim| {
        let source = json!({ "claimName": claim });
        json!({ "name": format!("claimed-{claim}"), "persistentVolumeClaim": source })
    }));
    volumes
}

/// Parts of volumes: of the pod's own, of what is published, and of the machine's.
fn parts() -> Vec<Value> {
    let part = |volume: &str, path: &str| {
        let at = format!("/part/{volume}");
        json!({ "name": volume, "mountPath": at, "subPath": path })
    };
    vec![
        part("disk", "made/for/it"),
        part("settings", "key"),
        part("machine", "deep"),
        part("claimed-local", "deep/er"),
    ]
}

/// Persistent volumes on a node for the claims of a namespace.
pub(super) fn persistent(namespace: &str, node: &str) -> Vec<Value> {
    let of = |claim: &str, source: Value| {
        let mut spec = json!({
            "capacity": { "storage": "1Mi" },
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": { "namespace": namespace, "name": claim },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": "kubernetes.io/hostname", "operator": "In", "values": [node] },
            ]}]}},
        });
        spec[claim_kind(claim)] = source;
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": { "name": volume_name(namespace, claim) }, "spec": spec,
        })
    };
    CLAIMS
        .iter()
        .map(|claim| of(claim, json!({ "path": format!("{PLACE}/{claim}") })))
        .collect()
}

fn claim_kind(claim: &str) -> &'static str {
    match claim {
        "local" => "local",
        _ => "hostPath",
    }
}

pub(super) fn volume_name(namespace: &str, claim: &str) -> String {
    format!("{namespace}-{claim}")
}

/// What of a claim is not its name.
pub(super) fn claim(namespace: &str, claim: &str) -> Value {
    json!({ "spec": {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": volume_name(namespace, claim),
        "resources": { "requests": { "storage": "1Mi" } },
    }})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_volume_of_a_pod_is_mounted_and_no_other() {
        for world in [World::Pods, World::Volumes] {
            let spec = pod_spec(world);
            let names = |list: &Value| -> BTreeSet<String> {
                let items = list.as_array().into_iter().flatten();
                items.map(|item| item["name"].to_string()).collect()
            };
            let mounts = &spec["containers"][0]["volumeMounts"];
            assert_eq!(names(&spec["volumes"]), names(mounts), "{world:?}");
        }
    }

    #[test]
    fn claims_and_volumes_name_each_other() {
        let volumes = persistent("ns", "node");
        for (volume, name) in volumes.iter().zip(CLAIMS) {
            assert_eq!(volume["spec"]["claimRef"]["name"], name);
            let wanted = claim("ns", name)["spec"]["volumeName"].clone();
            assert_eq!(volume["metadata"]["name"], wanted);
        }
    }
}
