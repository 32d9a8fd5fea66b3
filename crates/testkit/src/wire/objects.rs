//! What specs refer to: in each of the two namespaces the same objects, and one
//! set of those that a cluster has only once.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::{Value, json};

/// Objects of a namespace; its claim is for the volume of its name.
pub(super) fn in_namespace(namespace: &str) -> Vec<Value> {
    let auth = |user: &str| json!({"auth": BASE64.encode(format!("{user}:hidden"))});
    vec![
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
            "data": {
                "COLOUR": "green", "SIZE": "3", "EMPTY": "", "LINES": "one\ntwo\n",
                // Names that a shell could not read.
                "1ST": "x", "with.dot": "y", "with-dash": "z",
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"},
            "data": {"a.txt": "a\n", "b.txt": "b\n"}, "binaryData": {"c.bin": "AAEC"},
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"},
            "stringData": {"user": "somebody", "PASSWORD": "hidden", "COLOUR": "red"},
        }),
        docker_config("registry", &json!({"registry.example": auth("robot")})),
        docker_config(
            "two-registries",
            &json!({
                "registry.example": auth("first"),
                "registry.example/pull-secret-nested": auth("nested"),
                "elsewhere.example": auth("other"),
            }),
        ),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"},
            "imagePullSecrets": [{"name": "registry"}],
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web-front"},
            "spec": {"selector": {"app": "web"}, "ports": [
                {"name": "http", "port": 80}, {"name": "dns-udp", "port": 53, "protocol": "UDP"},
            ]},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "single"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 8080, "targetPort": 80}]},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "headless"},
            "spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 1}]},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "outside"},
            "spec": {"type": "ExternalName", "externalName": "example.org"},
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": namespace,
                "resources": {"requests": {"storage": "1Mi"}},
            },
        }),
    ]
}

/// The claim in each namespace.
pub(super) const CLAIM: &str = "claim";

/// What a namespace's claim is for: a path of the node, for a group.
pub(super) fn volume(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": namespace, "annotations": {"pv.beta.kubernetes.io/gid": "5432"},
        },
        "spec": {
            "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "", "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/var/tmp/wire-claimed", "type": "DirectoryOrCreate"},
        },
    })
}

fn docker_config(name: &str, auths: &Value) -> Value {
    let config = json!({"auths": auths});
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": config.to_string()},
    })
}

/// Objects of the cluster. Two runs have the same ones, and nobody minds them: they
/// stay.
pub(super) fn in_cluster() -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": {"name": "wire-handler"}, "handler": "runc",
        }),
        json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": {"name": "wire-overhead"}, "handler": "runc",
            "overhead": {"podFixed": {"cpu": "30m", "memory": "20Mi"}},
        }),
    ]
}
