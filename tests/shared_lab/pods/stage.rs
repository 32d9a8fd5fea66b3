//! A node of ours with a namespace for one test, and the questions that tests ask
//! about pods: what the API server says, what the runtime has.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{Agent, BUSYBOX_IMAGE, Kubectl, Lab, Node, Runtime};
use testkit::{command, wait};

use crate::server::door;

/// What is on its way is there by then, on a busy machine too.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    pub(crate) lab: Lab,
    pub(crate) node: Node,
    namespace: Namespace,
}

/// Deleted when dropped: what a test that failed has left in it would run on the next
/// node of the same name.
struct Namespace {
    kubectl: Kubectl,
    name: String,
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let words = ["--request-timeout=5s", "delete", "namespace", &self.name];
        // No API server to ask: nothing to do.
        let _ = self.kubectl.run([&words[..], &["--wait=false"]].concat());
    }
}

impl Stage {
    /// A node with our agent, Ready.
    pub(crate) fn ours(name: &str, runtime: Runtime) -> Result<Self> {
        Self::told(name, runtime, "")
    }

    /// The same, with more configuration.
    pub(crate) fn told(name: &str, runtime: Runtime, config: &str) -> Result<Self> {
        let stage = Self::bare(name, runtime)?;
        stage.node.start_ferrolet(config)?;
        stage.node.wait_ready(SOON)?;
        Ok(stage)
    }

    /// A node with this agent, Ready.
    pub(crate) fn of(agent: Agent, name: &str) -> Result<Self> {
        let stage = Self::bare(name, Runtime::Containerd2)?;
        stage.node.start_agent(agent, "", &[])?;
        stage.node.wait_ready(SOON)?;
        Ok(stage)
    }

    /// A node without an agent.
    pub(crate) fn bare(name: &str, runtime: Runtime) -> Result<Self> {
        let lab = Lab::shared()?;
        let node = lab.node(name, runtime)?;
        // Unlike any that an earlier run may have left.
        let namespace = Namespace {
            kubectl: lab.kubectl(),
            name: format!("{name}-{}", std::process::id()),
        };
        let stage = Self {
            lab,
            node,
            namespace,
        };
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": stage.namespace() },
        });
        stage.kubectl().apply(&object.to_string())?;
        wait::until("the namespace's service account", SOON, || {
            stage.run(&["get", "serviceaccount", "default"])
        })?;
        Ok(stage)
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace.name
    }

    pub(crate) fn kubectl(&self) -> Kubectl {
        self.lab.kubectl()
    }

    /// kubectl in the test's namespace.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String> {
        let place = ["--namespace", self.namespace()];
        let words = [&place[..], words].concat();
        door::made(|| self.kubectl().run(words.iter().copied()))
    }

    pub(crate) fn json(&self, words: &[&str]) -> Result<Value> {
        let place = ["--namespace", self.namespace()];
        self.kubectl().json([&place[..], words].concat())
    }

    pub(crate) fn create(&self, object: &Value) -> Result<()> {
        let mut kubectl = self.kubectl().command();
        kubectl.args(["--namespace", self.namespace(), "create", "-f", "-"]);
        command::run_with_input(&mut kubectl, object.to_string().as_bytes())?;
        Ok(())
    }

    /// A pod on the node, with what is `more` in its spec.
    pub(crate) fn create_pod(&self, name: &str, container: Value, more: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": self.spec(container, more),
        });
        self.create(&object)
    }

    /// A pod that just runs, and ends at once when told to.
    pub(crate) fn create_sleeper(&self, name: &str) -> Result<()> {
        self.create_pod(name, sleeper(), json!({}))
    }

    /// What a pod of this node is made of.
    pub(crate) fn spec(&self, container: Value, more: Value) -> Value {
        let mut spec = json!({
            "nodeName": self.node.name(),
            "terminationGracePeriodSeconds": 2,
            "containers": Value::Array(vec![container]),
        });
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
            spec.extend(more);
        }
        spec
    }

    pub(crate) fn pod(&self, name: &str) -> Result<Value> {
        self.json(&["get", "pod", name])
    }

    /// Waits until the pod is as `is` wants it.
    pub(crate) fn wait_pod(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        wait::until(&format!("pod {name} to be {what}"), SOON, || {
            let pod = self.pod(name)?;
            ensure!(is(&pod), "it is not: {}", pod["status"]);
            Ok(pod)
        })
    }

    pub(crate) fn wait_ready(&self, name: &str) -> Result<Value> {
        self.wait_pod(name, "Ready", is_ready)
    }

    pub(crate) fn wait_gone(&self, name: &str) -> Result<()> {
        wait::until(&format!("pod {name} to be gone"), SOON, || {
            let found = self.run(&["get", "pod", name, "--ignore-not-found", "-o", "name"])?;
            ensure!(found.is_empty(), "it is there");
            Ok(())
        })
    }

    /// What has been told of a pod, and of those that had its name before.
    pub(crate) fn events(&self, name: &str) -> Result<Vec<Value>> {
        let fields = format!("involvedObject.name={name}");
        let events = self.json(&["get", "events", "--field-selector", &fields])?;
        Ok(events["items"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until a pod's events have one of this reason, with these words.
    pub(crate) fn wait_event(&self, name: &str, reason: &str, words: &str) -> Result<()> {
        let fields = format!("involvedObject.name={name},reason={reason}");
        wait::until(&format!("the event {reason} of {name}"), SOON, || {
            let events = self.json(&["get", "events", "--field-selector", &fields])?;
            let mut messages = events["items"].as_array().into_iter().flatten();
            let found = messages.any(|one| {
                let message = one["message"].as_str();
                message.is_some_and(|message| message.contains(words))
            });
            ensure!(found, "not among {}", events["items"]);
            Ok(())
        })
    }

    /// The containers that run in the node, by pod's name; pause is not one.
    pub(crate) fn running(&self) -> Result<BTreeMap<String, Vec<String>>> {
        let listed = self.node.crictl(["ps", "-o", "json"])?;
        let listed: Value = serde_json::from_str(&listed).context("crictl printed no JSON")?;
        let mut running: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for container in listed["containers"].as_array().into_iter().flatten() {
            let label = |key: &str| container["labels"][key].as_str().unwrap_or_default();
            let id = container["id"].as_str().unwrap_or_default().to_owned();
            let pod = label("io.kubernetes.pod.name").to_owned();
            running.entry(pod).or_default().push(id);
        }
        Ok(running)
    }

    /// Waits until the runtime has nothing of a pod: no sandbox either.
    pub(crate) fn wait_nothing_left(&self, name: &str) -> Result<()> {
        wait::until(&format!("nothing to be left of {name}"), SOON, || {
            let left = self.node.crictl(["pods", "--name", name, "--quiet"])?;
            ensure!(left.trim().is_empty(), "sandbox {left}");
            Ok(())
        })
    }

    /// Ends all pods of the namespace and the node.
    pub(crate) fn end(self) -> Result<()> {
        self.run(&["delete", "pods", "--all", "--wait=true", "--timeout=60s"])?;
        self.node.remove()
    }
}

/// A container that runs until it is told to end, and then ends at once.
pub(crate) fn sleeper() -> Value {
    shell("trap 'exit 0' TERM; while :; do sleep 0.2; done")
}

pub(crate) fn shell(script: &str) -> Value {
    json!({ "name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script] })
}

pub(crate) fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == kind);
    found.unwrap_or(&Value::Null)
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}

/// The first container's status.
pub(crate) fn main_of(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

/// What must not change while nothing happens to a pod.
pub(crate) fn identity(pod: &Value) -> Value {
    json!({
        "uid": pod["metadata"]["uid"],
        "container": main_of(pod)["containerID"],
        "restarts": main_of(pod)["restartCount"],
        "address": pod["status"]["podIP"],
        "ready": condition(pod, "Ready"),
    })
}
