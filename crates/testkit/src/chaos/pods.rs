//! The pods of the chaos, with every kind of volume that the agent itself
//! fills, and what has become of them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::script::{Act, Group, PODS, Turn};
use super::worlds::{self, CLAIMS, World, pod_spec};
use crate::lab::{Kubectl, Node};
use crate::watch::is_ready;
use crate::workload::Pod;
use crate::{command, wait};

/// Pods that nobody touches: one by one, and in a Deployment.
const UNTOUCHED_BARE: usize = 5;
const UNTOUCHED_DEPLOYED: usize = 5;
pub(super) const UNTOUCHED: usize = UNTOUCHED_BARE + UNTOUCHED_DEPLOYED;
const _: () = assert!(UNTOUCHED + PODS == 30);

const LABEL: &str = "chaos";
/// For what the cluster makes of a new namespace.
const THERE: Duration = Duration::from_secs(90);
const GOES: Duration = Duration::from_secs(60);

/// A namespace with all that its pods need.
#[derive(Debug)]
pub(super) struct Stage {
    kubectl: Kubectl,
    namespace: String,
    node: String,
    world: World,
}

/// What must not change of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    id: String,
    restarts: u64,
}

impl Stage {
    pub(super) fn make(kubectl: Kubectl, node: &Node, world: World) -> Result<Self> {
        let stage = Self {
            kubectl,
            namespace: format!("{}-{}", node.name(), std::process::id()),
            node: node.name().to_owned(),
            world,
        };
        stage.create(&[
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": stage.namespace } }),
            stage.object("v1", "ConfigMap", "settings", &json!({ "data": { "key": "value" } })),
            stage.object("v1", "Secret", "secret", &json!({ "stringData": { "key": "hidden" } })),
        ])?;
        // Before that the API server takes no pod.
        wait::until("the service account", THERE, || {
            stage.run(&["get", "serviceaccount", "default"])
        })?;
        if world == World::Volumes {
            stage.make_claims()?;
        }
        Ok(stage)
    }

    fn make_claims(&self) -> Result<()> {
        let claim = |name: &&str| {
            let rest = worlds::claim(&self.namespace, name);
            self.object("v1", "PersistentVolumeClaim", name, &rest)
        };
        self.create(&worlds::persistent(&self.namespace, &self.node))?;
        self.create(&CLAIMS.iter().map(claim).collect::<Vec<_>>())?;
        wait::until("claims to be bound", THERE, || {
            let phases = "jsonpath={.items[*].status.phase}";
            let phases = self.run(&["get", "persistentvolumeclaims", "-o", phases])?;
            let bound = phases.split_whitespace().filter(|phase| *phase == "Bound");
            if bound.count() == CLAIMS.len() {
                return Ok(());
            }
            bail!("they are {phases}")
        })
    }

    /// What volumes are made of becomes something else.
    fn change(&self, turn: Turn) -> Result<()> {
        let value = format!("{} {:?}", turn.group.name(), turn.act);
        let map = json!({ "data": { "key": value } }).to_string();
        self.run(&["patch", "configmap", "settings", "--type=merge", "-p", &map])?;
        let secret = json!({ "stringData": { "key": value } }).to_string();
        self.run(&["patch", "secret", "secret", "--type=merge", "-p", &secret])
            .map(drop)
    }

    /// Makes the pods that nobody will touch.
    pub(super) fn make_untouched(&self) -> Result<()> {
        let mut objects = vec![self.deployment("untouched", UNTOUCHED_DEPLOYED)];
        let bare = (0..UNTOUCHED_BARE).map(|number| self.bare(&format!("untouched-bare-{number}")));
        objects.extend(bare);
        self.create(&objects)
    }

    /// Makes one more pod, after the chaos.
    pub(super) fn make_last(&self) -> Result<()> {
        self.create(&[self.bare("last")])
    }

    pub(super) fn carry_out(&self, turn: Turn) -> Result<()> {
        if self.world == World::Volumes {
            self.change(turn)?;
        }
        let name = turn.group.name();
        match turn.act {
            Act::Create => self.create(&[self.group(turn.group)]),
            Act::Delete => {
                let kind = if turn.group.is_bare() {
                    "pod"
                } else {
                    "deployment"
                };
                self.run(&["delete", kind, &name, "--wait=false"]).map(drop)
            }
        }
    }

    /// Waits until there are so many pods, all of them Ready.
    pub(super) fn wait_ready(&self, count: usize, timeout: Duration) -> Result<()> {
        let what = format!("{count} pods to be Ready, and no others there");
        wait::until(&what, timeout, || {
            let pods = self.pods()?;
            let others: Vec<String> = pods
                .iter()
                .filter(|pod| !is_ready(&pod.0) || is_ending(pod))
                .map(|pod| format!("{} {}", pod.name(), pod.0["status"]))
                .collect();
            if others.is_empty() && pods.len() == count {
                return Ok(());
            }
            bail!(
                "{} pods, of them not as they should be: {others:#?}",
                pods.len()
            )
        })
    }

    /// The containers that nobody touches, by pod.
    pub(super) fn untouched(&self) -> Result<BTreeMap<String, Identity>> {
        let pods = self.pods()?;
        let untouched = pods
            .iter()
            .filter(|pod| pod.name().starts_with("untouched"));
        Ok(untouched
            .map(|pod| {
                let identity = Identity {
                    id: pod.container_id().to_owned(),
                    restarts: pod.restarts(),
                };
                (pod.name().to_owned(), identity)
            })
            .collect())
    }

    /// Deletes everything, and waits until no pod is there.
    pub(super) fn clear(&self, timeout: Duration) -> Result<()> {
        self.kubectl
            .run(["delete", "namespace", &self.namespace, "--wait=false"])?;
        wait::until("every pod to be gone", timeout, || {
            let pods = self.pods()?;
            if pods.is_empty() {
                return Ok(());
            }
            let names: Vec<&str> = pods.iter().map(Pod::name).collect();
            bail!("{} are still there: {}", pods.len(), names.join(", "))
        })?;
        wait::until("the namespace to be gone", GOES, || {
            let words = ["get", "namespace", &self.namespace, "--ignore-not-found"];
            match self.kubectl.run(words)?.trim() {
                "" => Ok(()),
                there => bail!("{there}"),
            }
        })?;
        self.remove_volumes()
    }

    /// They are in no namespace, and go with none.
    fn remove_volumes(&self) -> Result<()> {
        if self.world == World::Pods {
            return Ok(());
        }
        let names = CLAIMS.map(|claim| worlds::volume_name(&self.namespace, claim));
        let mut words = vec!["delete", "persistentvolume", "--ignore-not-found"];
        words.extend(["--wait=false", "--request-timeout=5s"]);
        words.extend(names.iter().map(String::as_str));
        self.kubectl.run(words).map(drop)
    }

    fn pods(&self) -> Result<Vec<Pod>> {
        let words = ["--namespace", &self.namespace, "get", "pods"];
        let list = self.kubectl.json(words)?;
        let items = list["items"].as_array().context("a list without items")?;
        Ok(items.iter().cloned().map(Pod).collect())
    }

    fn group(&self, group: Group) -> Value {
        if group.is_bare() {
            self.bare(&group.name())
        } else {
            self.deployment(&group.name(), group.pods())
        }
    }

    fn bare(&self, name: &str) -> Value {
        let mut spec = pod_spec(self.world);
        spec["nodeName"] = json!(self.node);
        self.object("v1", "Pod", name, &json!({ "spec": spec }))
    }

    fn deployment(&self, name: &str, replicas: usize) -> Value {
        let mut spec = pod_spec(self.world);
        spec["nodeSelector"] = json!({ "kubernetes.io/hostname": self.node });
        let labels = json!({ LABEL: name });
        let deployment = json!({ "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": spec },
        }});
        self.object("apps/v1", "Deployment", name, &deployment)
    }

    fn object(&self, version: &str, kind: &str, name: &str, rest: &Value) -> Value {
        let mut object = rest.clone();
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        object["metadata"] = json!({ "name": name, "namespace": self.namespace });
        object
    }

    fn create(&self, objects: &[Value]) -> Result<()> {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        let mut kubectl = self.kubectl.command();
        kubectl.args(["create", "-f", "-"]);
        command::run_with_input(&mut kubectl, list.to_string().as_bytes()).map(drop)
    }

    fn run(&self, words: &[&str]) -> Result<String> {
        let place = ["--namespace", &self.namespace];
        self.kubectl
            .run(place.into_iter().chain(words.iter().copied()))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // After a failure: see `Workload`.
        let _ = self.kubectl.run([
            "--request-timeout=5s",
            "delete",
            "namespace",
            &self.namespace,
            "--ignore-not-found",
            "--wait=false",
        ]);
        let _ = self.remove_volumes();
    }
}

fn is_ending(pod: &Pod) -> bool {
    !pod.0["metadata"]["deletionTimestamp"].is_null()
}

/// Untouched pods that are not what they were, in words.
pub(super) fn changes(
    before: &BTreeMap<String, Identity>,
    after: &BTreeMap<String, Identity>,
) -> Vec<String> {
    let mut changes = Vec::new();
    for (pod, was) in before {
        match after.get(pod) {
            None => changes.push(format!("untouched pod {pod} is gone")),
            Some(is) if is != was => changes.push(format!(
                "untouched pod {pod} had container {} with {} restarts, and has {} with {}",
                was.id, was.restarts, is.id, is.restarts
            )),
            Some(_) => {}
        }
    }
    let new = after.keys().filter(|pod| !before.contains_key(*pod));
    changes.extend(new.map(|pod| format!("untouched pod {pod} is new")));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pod, container, restarts.
    type Told<'a> = (&'a str, &'a str, u64);

    fn pods(of: &[Told<'_>]) -> BTreeMap<String, Identity> {
        let identity = |id: &str, restarts| Identity {
            id: id.to_owned(),
            restarts,
        };
        let pods = of.iter();
        pods.map(|&(pod, id, restarts)| (pod.to_owned(), identity(id, restarts)))
            .collect()
    }

    #[test]
    fn an_untouched_pod_keeps_its_container_its_restarts_and_its_place() {
        let before = pods(&[("a", "1", 0), ("b", "2", 0)]);
        let cases: [(&[Told<'_>], &[&str]); 5] = [
            (&[("a", "1", 0), ("b", "2", 0)], &[]),
            (&[("a", "1", 0), ("b", "3", 0)], &["has 3 with 0"]),
            (&[("a", "1", 1), ("b", "2", 0)], &["has 1 with 1"]),
            (&[("a", "1", 0)], &["b is gone"]),
            (
                &[("a", "1", 0), ("b", "2", 0), ("c", "3", 0)],
                &["c is new"],
            ),
        ];
        for (after, expected) in cases {
            let said = changes(&before, &pods(after));
            assert_eq!(said.len(), expected.len(), "{after:?}: {said:?}");
            for (said, expected) in said.iter().zip(expected) {
                assert!(said.contains(expected), "{after:?}: {said}");
            }
        }
    }
}
