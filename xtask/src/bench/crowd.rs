//! Many pods of the pause image, made with one call.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::lab::{Kubectl, Node, PAUSE_IMAGE};
use testkit::{command, wait};

/// Whether a container that has ended is started again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Restart {
    Always,
    Never,
}

impl Restart {
    fn word(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::Never => "Never",
        }
    }
}

/// The pods of one round, in a namespace of their own.
pub(super) struct Crowd {
    pub(super) kubectl: Kubectl,
    pub(super) namespace: String,
    manifest: Value,
}

impl Crowd {
    pub(super) fn prepare(
        kubectl: Kubectl,
        node: &Node,
        count: usize,
        round: u32,
        restart: Restart,
    ) -> Result<Self> {
        let namespace = format!("{}-{}-{round}", node.name(), std::process::id());
        kubectl.run(["create", "namespace", &namespace])?;
        // Before that the API server takes no pod.
        wait::until("the service account", Duration::from_secs(30), || {
            let place = ["--namespace", &namespace];
            kubectl.run([&place[..], &["get", "serviceaccount", "default"]].concat())
        })?;
        Ok(Self {
            manifest: manifest(&namespace, node.name(), count, restart),
            kubectl,
            namespace,
        })
    }

    pub(super) fn create(&self) -> Result<()> {
        let mut kubectl = self.kubectl.command();
        kubectl.args(["create", "-f", "-"]);
        command::run_with_input(&mut kubectl, self.manifest.to_string().as_bytes()).map(drop)
    }

    /// All of them with one call.
    pub(super) fn delete(&self) -> Result<()> {
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
        self.kubectl.run(["delete", "--raw", &path]).map(drop)
    }

    pub(super) fn remove(&self) -> Result<()> {
        let words = ["delete", "namespace", &self.namespace, "--timeout=60s"];
        self.kubectl.run(words).map(drop)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // After a failure: the next run must not meet these pods.
        let _ = self.kubectl.run([
            "--request-timeout=5s",
            "delete",
            "namespace",
            &self.namespace,
            "--ignore-not-found",
            "--wait=false",
        ]);
    }
}

/// `pod-000` and so on.
fn manifest(namespace: &str, node: &str, count: usize, restart: Restart) -> Value {
    let pod = |number: usize| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": format!("pod-{number:03}"), "namespace": namespace },
            "spec": {
                "nodeName": node,
                "restartPolicy": restart.word(),
                "containers": [{ "name": "main", "image": PAUSE_IMAGE }],
            },
        })
    };
    let pods: Vec<Value> = (0..count).map(pod).collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": pods })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pod_is_bound_to_the_node_and_has_a_name_of_its_own() {
        let manifest = manifest("n", "node", 100, Restart::Never);
        let pods = manifest["items"].as_array().unwrap();
        let names: std::collections::BTreeSet<&str> = pods
            .iter()
            .filter(|pod| pod["spec"]["nodeName"] == "node")
            .filter_map(|pod| pod["metadata"]["name"].as_str())
            .collect();
        assert_eq!(names.len(), 100);
    }
}
