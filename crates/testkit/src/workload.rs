//! Workloads for tests, and what has become of their pods.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::lab::{BUSYBOX_IMAGE, Kubectl, Node};
use crate::wait;

/// A busybox Deployment bound to one node, in a namespace of its own.
#[derive(Debug)]
pub struct Workload {
    kubectl: Kubectl,
    name: String,
}

impl Workload {
    /// Creates it; `script` is what each container's shell runs. Its name is
    /// made unlike any that an earlier run may have left.
    pub fn create(
        kubectl: Kubectl,
        name: &str,
        node: &Node,
        replicas: usize,
        script: &str,
    ) -> Result<Self> {
        let workload = Self {
            kubectl,
            name: format!("{name}-{}", std::process::id()),
        };
        let name = &workload.name;
        let labels = json!({ "app": name });
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
        });
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": name, "namespace": name },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": {
                    "nodeSelector": { "kubernetes.io/hostname": node.name() },
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{
                        "name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script],
                    }],
                }},
            },
        });
        for object in [namespace, deployment] {
            workload.kubectl.apply(&object.to_string())?;
        }
        Ok(workload)
    }

    /// Waits until as many pods as wanted run, and answers all pods.
    pub fn wait_running(&self, count: usize, timeout: Duration) -> Result<Vec<Pod>> {
        let what = format!("{count} running pods of {}", self.name);
        wait::until(&what, timeout, || {
            let pods = self.pods()?;
            let running = pods.iter().filter(|pod| pod.is_running()).count();
            if running == count && pods.len() == count {
                return Ok(pods);
            }
            let states: Vec<String> = pods.iter().map(Pod::state).collect();
            bail!("{running} of {} run: {states:?}", pods.len())
        })
    }

    pub fn pods(&self) -> Result<Vec<Pod>> {
        let list = self
            .kubectl
            .json(["--namespace", &self.name, "get", "pods"])?;
        let items = list["items"].as_array().context("a list without items")?;
        Ok(items.iter().cloned().map(Pod).collect())
    }

    pub fn namespace(&self) -> &str {
        &self.name
    }

    /// Deletes it and waits until its pods are gone.
    pub fn delete(self) -> Result<()> {
        self.kubectl.run([
            "delete",
            "namespace",
            &self.name,
            "--wait=true",
            "--timeout=180s",
        ])?;
        Ok(())
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // A test that failed must not leave pods for the next node of the same
        // name. Deleted already, or no API server to ask: nothing to do.
        let _ = self.kubectl.run([
            "--request-timeout=5s",
            "delete",
            "namespace",
            &self.name,
            "--ignore-not-found",
            "--wait=false",
        ]);
    }
}

/// A pod as the API server shows it.
#[derive(Clone, Debug)]
pub struct Pod(pub Value);

impl Pod {
    pub fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn address(&self) -> &str {
        self.0["status"]["podIP"].as_str().unwrap_or_default()
    }

    pub fn is_running(&self) -> bool {
        self.container()["state"]["running"].is_object()
    }

    pub fn container_id(&self) -> &str {
        self.container()["containerID"].as_str().unwrap_or_default()
    }

    pub fn restarts(&self) -> u64 {
        self.container()["restartCount"]
            .as_u64()
            .unwrap_or_default()
    }

    fn container(&self) -> &Value {
        &self.0["status"]["containerStatuses"][0]
    }

    fn state(&self) -> String {
        format!(
            "{} {} {}",
            self.name(),
            self.0["status"]["phase"],
            self.container()["state"]
        )
    }
}
