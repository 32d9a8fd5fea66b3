//! Manifests for plays, small enough to be read in the play.

use serde_json::{Value, json};

use crate::lab::BUSYBOX_IMAGE;

/// Runs until it is told to end, and ends at once then.
pub(super) const FOREVER: &str = "trap 'exit 0' TERM; sleep 100000 & wait";

/// A pod to be made: one container `main` that runs a script in busybox, unless
/// it is changed.
#[derive(Clone, Debug)]
pub(super) struct Pod(pub(super) Value);

pub(super) fn pod(name: &str, script: &str) -> Pod {
    Pod(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [container("main", script)],
            // Other plays taint the node.
            "tolerations": [{"operator": "Exists"}],
        },
    }))
}

pub(super) fn container(name: &str, script: &str) -> Value {
    json!({"name": name, "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script]})
}

impl Pod {
    /// Changes its spec: objects are merged, all else is replaced.
    #[must_use]
    pub(super) fn spec(mut self, change: &Value) -> Self {
        merge(&mut self.0["spec"], change);
        self
    }

    /// Changes its container `main`.
    #[must_use]
    pub(super) fn main(mut self, change: &Value) -> Self {
        merge(&mut self.0["spec"]["containers"][0], change);
        self
    }

    #[must_use]
    pub(super) fn metadata(mut self, change: &Value) -> Self {
        merge(&mut self.0["metadata"], change);
        self
    }

    /// One more container.
    #[must_use]
    pub(super) fn and(mut self, container: Value) -> Self {
        if let Some(containers) = self.0["spec"]["containers"].as_array_mut() {
            containers.push(container);
        }
        self
    }

    /// One more volume, mounted into `main`.
    #[must_use]
    pub(super) fn volume(mut self, path: &str, source: &Value) -> Self {
        let spec = &mut self.0["spec"];
        let name = format!("v{}", spec["volumes"].as_array().map_or(0, Vec::len));
        let mut volume = source.clone();
        volume["name"] = json!(name);
        push(&mut spec["volumes"], volume);
        let mount = json!({"name": name, "mountPath": path});
        push(&mut spec["containers"][0]["volumeMounts"], mount);
        self
    }

    /// It is not started again.
    #[must_use]
    pub(super) fn once(self) -> Self {
        self.spec(&json!({"restartPolicy": "Never"}))
    }

    /// What a controller makes pods of.
    pub(super) fn template(self, app: &str) -> Value {
        let spec = &self.0["spec"];
        json!({"metadata": {"labels": {"app": app}}, "spec": spec})
    }
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    }
}

pub(super) fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub(super) fn secret(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})
}

/// As a JSON merge patch would.
pub(crate) fn merge(into: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *into = change.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in change {
        if value.is_null() {
            if let Some(fields) = into.as_object_mut() {
                fields.remove(key);
            }
        } else {
            merge(&mut into[key], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_merged_into_what_is_there() {
        let pod = pod("p", "true")
            .spec(&json!({"restartPolicy": "Never", "tolerations": null}))
            .main(&json!({"env": [{"name": "A"}]}))
            .volume("/a", &json!({"emptyDir": {}}))
            .volume("/b", &json!({"emptyDir": {}}));
        let spec = &pod.0["spec"];
        assert_eq!(spec["restartPolicy"], "Never");
        assert!(spec.get("tolerations").is_none());
        assert_eq!(spec["containers"][0]["env"], json!([{"name": "A"}]));
        assert_eq!(spec["containers"][0]["image"], BUSYBOX_IMAGE);
        assert_eq!(spec["volumes"][1], json!({"name": "v1", "emptyDir": {}}));
        let mount = &spec["containers"][0]["volumeMounts"][1];
        assert_eq!(*mount, json!({"name": "v1", "mountPath": "/b"}));
    }
}
