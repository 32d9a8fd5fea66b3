//! The objects that sequences begin with.

use serde_json::{Value, json};

use crate::asked::Kind;
use crate::normal::MADE;

/// Nobody gives these pods to a node.
const SCHEDULER: &str = "nobody";

pub(crate) const FINALIZER: &str = "test.ferrolet.dev/hold";

/// What a new object is called.
pub(crate) enum Called<'a> {
    Name(&'a str),
    /// The server makes a name up. Those of one sequence are told apart by this number, by which
    /// they are also in the same order everywhere.
    ByServer(usize),
}

/// One of the templates of a kind; `node` is one that neither cluster has.
pub(crate) fn template(kind: Kind, which: usize, called: &Called<'_>, node: &str) -> Value {
    let mut object = match kind {
        Kind::ConfigMap => config_map(which),
        Kind::Pod => pod(which, node),
    };
    match called {
        Called::Name(name) => object["metadata"]["name"] = (*name).into(),
        Called::ByServer(number) => {
            object["metadata"]["generateName"] = format!("m{number}-{MADE}").into();
        }
    }
    object
}

fn config_map(which: usize) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    match which % 4 {
        0 => {
            object["metadata"] = json!({"labels": {"tier": "front"}});
            object["data"] = json!({"key": "value", "other.conf": "a\nb\n"});
        }
        1 => {
            object["metadata"] =
                json!({"labels": {"tier": "back", "app": "x"}, "annotations": {"a": "1"}});
            object["binaryData"] = json!({"bytes": "AAEC"});
        }
        2 => {
            object["metadata"] = json!({"finalizers": [FINALIZER]});
            object["data"] = json!({"key": "value"});
        }
        _ => {
            object["metadata"] = json!({"labels": {"tier": "back"}});
            object["data"] = json!({"key": "fixed"});
            object["immutable"] = true.into();
        }
    }
    object
}

fn pod(which: usize, node: &str) -> Value {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {"tier": "front"}},
        "spec": {
            "schedulerName": SCHEDULER,
            "containers": [{"name": "main", "image": "busybox"}],
        },
    });
    match which % 4 {
        0 => {}
        1 => {
            object["metadata"]["labels"] = json!({"tier": "back", "app": "x"});
            object["spec"]["nodeName"] = node.into();
            object["spec"]["terminationGracePeriodSeconds"] = 20.into();
        }
        2 => {
            object["metadata"]["finalizers"] = json!([FINALIZER]);
            object["spec"]["nodeName"] = node.into();
            object["spec"]["restartPolicy"] = "Never".into();
            object["spec"]["tolerations"] =
                json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]);
        }
        _ => {
            object["metadata"]["labels"] = json!({"tier": "back"});
            object["spec"]["initContainers"] = json!([
                {"name": "first", "image": "busybox:1", "command": ["true"]},
                {"name": "beside", "image": "busybox:1", "restartPolicy": "Always"},
            ]);
            object["spec"]["containers"] = json!([{
                "name": "main",
                "image": "registry.test/app@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                "args": ["--port", "80"],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "c0", "key": "key", "optional": true}}},
                ],
                "ports": [{"name": "web", "containerPort": 80}],
                "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi", "cpu": "0.5"}},
                "livenessProbe": {"httpGet": {"port": "web"}},
                "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 3},
                "lifecycle": {"preStop": {"exec": {"command": ["sleep", "1"]}}},
                "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "conf", "mountPath": "/conf"}],
            }]);
            object["spec"]["volumes"] = json!([
                {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}},
                {"name": "conf", "configMap": {"name": "c0"}},
            ]);
            object["spec"]["securityContext"] = json!({"fsGroup": 2000});
        }
    }
    object
}
