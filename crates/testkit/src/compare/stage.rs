//! Where a scenario is played: a node, a namespace, and the verbs that plays are
//! written in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::api::Api;
use super::manifest::Pod;
use super::story::{self, CONTAINERS, Place, Record, Sighting, container_label, items};
use super::tape::{Reel, Tape};
use crate::lab::Node;
use crate::wait;

/// How long a play waits for one thing.
const PATIENCE: Duration = Duration::from_secs(90);
/// Upstream looks at volumes every one to two minutes.
const LONG: Duration = Duration::from_secs(270);
/// How long nothing may happen for a play to be over, and how long that is waited
/// for.
const QUIET: Duration = Duration::from_millis(2500);
const SETTLED: Duration = Duration::from_secs(15);

/// How long the words of a container that has ended may take to its log.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What a play waited for did not come: that is an outcome, not a mistake.
#[derive(Debug)]
struct InVain(String);

impl fmt::Display for InVain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "waited in vain for {}", self.0)
    }
}

impl std::error::Error for InVain {}

pub(super) struct Stage<'a> {
    api: &'a Api,
    tape: &'a Tape,
    node: &'a Node,
    namespace: String,
    prints: BTreeMap<String, String>,
    /// Uids of pods of which only the end still counts, and since how many
    /// sightings.
    unwatched: BTreeMap<String, usize>,
}

impl<'a> Stage<'a> {
    /// Makes the namespace, and waits for what every pod in it needs.
    pub(super) fn set(api: &'a Api, tape: &'a Tape, node: &'a Node, name: &str) -> Result<Self> {
        let stage = Self {
            api,
            tape,
            node,
            namespace: name.to_owned(),
            prints: BTreeMap::new(),
            unwatched: BTreeMap::new(),
        };
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        api.post("/api/v1/namespaces", &object)?;
        for path in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            wait::until(&format!("{path} in {name}"), PATIENCE, || {
                api.get(&stage.path("/api/v1", path))
            })?;
        }
        Ok(stage)
    }

    /// Plays to the end, and makes a record of what the cluster saw.
    pub(super) fn perform(mut self, play: fn(&mut Self) -> Result<()>) -> Result<Record> {
        let failure = match play(&mut self) {
            Ok(()) => None,
            Err(error) => match error.downcast_ref::<InVain>() {
                Some(in_vain) => Some(in_vain.to_string()),
                None => return Err(error),
            },
        };
        self.tape.settle(&self.namespace, QUIET, SETTLED)?;
        let place = Place {
            namespace: self.namespace.clone(),
            node: self.node.name().to_owned(),
            address: self.node.address().to_owned(),
        };
        let mut record = Record::default();
        self.tape.wait(&self.namespace, Duration::ZERO, |reel| {
            let events: Vec<Value> = reel.events().cloned().collect();
            let pods = watched(&reel.pods, &self.unwatched);
            let failure = failure.as_deref();
            record = story::record(&place, &pods, &events, &self.prints, failure);
            true
        })?;
        let namespace = format!("/api/v1/namespaces/{}", self.namespace);
        self.api.delete(&namespace, &json!({}))?;
        Ok(record)
    }

    pub(super) fn node_name(&self) -> &str {
        self.node.name()
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Makes a pod, on this node.
    pub(super) fn create(&self, pod: Pod) -> Result<()> {
        let pod = pod.spec(&json!({"nodeName": self.node.name()}));
        self.make("/api/v1", "pods", &pod.0)
    }

    /// Makes any other object.
    pub(super) fn make(&self, group: &str, kind: &str, object: &Value) -> Result<()> {
        self.api.post(&self.path(group, kind), object).map(drop)
    }

    /// Makes an object of no namespace. It has to have the name of the play's own.
    pub(super) fn make_in_cluster(&self, collection: &str, object: &Value) -> Result<()> {
        self.api.post(collection, object).map(drop)
    }

    /// Waits until the control plane has made something of an object.
    pub(super) fn until_made(&self, what: &str, is: impl Fn(&Value) -> bool) -> Result<()> {
        wait::until(&format!("{what} to be made"), PATIENCE, || {
            let object = self.api.get(&self.path("/api/v1", what))?;
            ensure!(is(&object), "it is not: {}", object["status"]);
            Ok(())
        })
    }

    /// An object of no namespace, or a list of them.
    pub(super) fn in_cluster(&self, path: &str) -> Result<Value> {
        self.api.get(path)
    }

    pub(super) fn patch_in_cluster(&self, path: &str, change: &Value) -> Result<()> {
        self.api.patch(path, change).map(drop)
    }

    pub(super) fn remove_from_cluster(&self, path: &str) -> Result<()> {
        self.api.delete(path, &json!({})).map(drop)
    }

    /// How many whole CPUs the node has for pods.
    pub(super) fn cpus(&self) -> Result<u64> {
        let node = self
            .api
            .get(&format!("/api/v1/nodes/{}", self.node.name()))?;
        let cpus = node["status"]["allocatable"]["cpu"].as_str();
        cpus.and_then(|cpus| cpus.parse().ok())
            .context("a node without a whole number of CPUs")
    }

    /// Adds a container to a pod that runs.
    pub(super) fn add_container(&self, name: &str, container: &Value) -> Result<()> {
        let what = format!("pods/{name}/ephemeralcontainers");
        let change = json!({"spec": {"ephemeralContainers": [container]}});
        self.patch("/api/v1", &what, &change)
    }

    /// What a pod template says to be on this node.
    pub(super) fn here(&self, pod: Pod) -> Pod {
        pod.spec(&json!({"nodeName": self.node.name()}))
    }

    pub(super) fn patch(&self, group: &str, what: &str, change: &Value) -> Result<()> {
        self.api.patch(&self.path(group, what), change).map(drop)
    }

    pub(super) fn patch_pod(&self, name: &str, change: &Value) -> Result<()> {
        self.patch("/api/v1", &format!("pods/{name}"), change)
    }

    pub(super) fn patch_node(&self, change: &Value) -> Result<()> {
        let path = format!("/api/v1/nodes/{}", self.node.name());
        self.api.patch(&path, change).map(drop)
    }

    /// Deletes a pod with its own grace, or with another.
    pub(super) fn delete(&self, name: &str, grace: Option<u32>) -> Result<()> {
        let options = match grace {
            Some(seconds) => json!({"gracePeriodSeconds": seconds}),
            None => json!({}),
        };
        let path = self.path("/api/v1", &format!("pods/{name}"));
        self.api.delete(&path, &options).map(drop)
    }

    pub(super) fn remove(&self, group: &str, what: &str) -> Result<()> {
        let options = json!({"propagationPolicy": "Background"});
        self.api.delete(&self.path(group, what), &options).map(drop)
    }

    /// Runs a script in the node.
    pub(super) fn on_node(&self, script: &str) -> Result<String> {
        self.node.machine().run("sh", ["-c", script])
    }

    /// Keeps what a script prints in the node.
    pub(super) fn keep(&mut self, name: &str, script: &str) -> Result<()> {
        let said = self.on_node(script)?;
        self.prints.insert(name.to_owned(), shortened(&said));
        Ok(())
    }

    pub(super) fn write_on_node(&self, path: &str, content: &str) -> Result<()> {
        self.node.machine().write(path, content)
    }

    /// Waits for anything.
    pub(super) fn until(&self, what: &str, reached: impl Fn(&View<'_>) -> bool) -> Result<()> {
        self.within(PATIENCE, what, reached)
    }

    fn within(
        &self,
        patience: Duration,
        what: &str,
        reached: impl Fn(&View<'_>) -> bool,
    ) -> Result<()> {
        let answer = self
            .tape
            .wait(&self.namespace, patience, |reel| reached(&View { reel }))?;
        if answer {
            return Ok(());
        }
        Err(InVain(what.to_owned()).into())
    }

    pub(super) fn running(&self, name: &str) -> Result<()> {
        self.until(&format!("{name} to run and be ready"), |view| {
            view.pod(name).is_some_and(is_ready)
        })
    }

    pub(super) fn phase(&self, name: &str, phase: &str) -> Result<()> {
        self.until(&format!("{name} to be {phase}"), |view| {
            view.pod(name)
                .is_some_and(|pod| pod["status"]["phase"] == phase)
        })
    }

    /// Waits for what takes long: a pod to be Failed.
    pub(super) fn failed_in_the_end(&self, name: &str) -> Result<()> {
        self.within(LONG, &format!("{name} to be Failed"), |view| {
            view.pod(name)
                .is_some_and(|pod| pod["status"]["phase"] == "Failed")
        })
    }

    /// Waits for a container's state, as records name it.
    pub(super) fn state(&self, name: &str, container: &str, state: &str) -> Result<()> {
        self.until(&format!("{container} of {name} to be {state}"), |view| {
            view.pod(name)
                .is_some_and(|pod| is_in_state(pod, container, state))
        })
    }

    pub(super) fn gone(&self, name: &str) -> Result<()> {
        self.until(&format!("{name} to go away"), |view| {
            view.pod(name).is_none() && view.lives(name) > 0
        })
    }

    /// Waits until something of that reason was said.
    pub(super) fn said(&self, reason: &str) -> Result<()> {
        self.until(&format!("an event {reason}"), |view| {
            view.reel.events().any(|event| event["reason"] == reason)
        })
    }

    /// Waits until the same thing of that reason was said more than once.
    pub(super) fn said_again(&self, reason: &str) -> Result<()> {
        self.until(&format!("another event {reason}"), |view| {
            let mut events = view.reel.events();
            events.any(|event| event["reason"] == reason && event["count"].as_u64() > Some(1))
        })
    }

    /// From now on only counts of a pod whether it goes: what upstream says of it is
    /// chance.
    pub(super) fn look_away(&mut self, name: &str) -> Result<()> {
        self.unwatch(name, |reel, _| reel.pods.len())
    }

    /// Of a pod only counts that it came, and whether it goes.
    pub(super) fn look_away_from_the_start(&mut self, name: &str) -> Result<()> {
        self.unwatch(name, |reel, uid| {
            let mut pods = reel.pods.iter();
            let first = pods.position(|pod| pod.object["metadata"]["uid"] == uid);
            first.map_or(0, |first| first + 1)
        })
    }

    fn unwatch(&mut self, name: &str, since: impl Fn(&Reel, &str) -> usize) -> Result<()> {
        let unwatched = &mut self.unwatched;
        self.tape.wait(&self.namespace, Duration::ZERO, |reel| {
            let uid = (View { reel }).pod(name).map(|pod| &pod["metadata"]["uid"]);
            if let Some(uid) = uid.and_then(Value::as_str) {
                let since = since(reel, uid);
                unwatched.entry(uid.to_owned()).or_insert(since);
            }
            true
        })?;
        Ok(())
    }

    /// Deletes it with its own grace, and waits until it is gone.
    pub(super) fn end(&self, name: &str) -> Result<()> {
        self.delete(name, None)?;
        self.gone(name)
    }

    /// Keeps what a container has printed, as the runtime on the node tells it.
    pub(super) fn print(&mut self, name: &str, container: &str) -> Result<()> {
        let id = self.container_of(name, container)?;
        let id = id.rsplit('/').next().context("an empty id")?;
        let said = self.logs(id)?;
        let key = format!("{name}/{container}");
        self.prints.insert(key, shortened(&said));
        Ok(())
    }

    /// Which container of the runtime it is; waits until there is one.
    pub(super) fn container_of(&self, name: &str, container: &str) -> Result<String> {
        let mut id = String::new();
        self.until(&format!("an id of {container} of {name}"), |view| {
            view.pod(name)
                .is_some_and(|pod| !container_id(pod, container).is_empty())
        })?;
        self.tape.wait(&self.namespace, Duration::ZERO, |reel| {
            if let Some(pod) = (View { reel }).pod(name) {
                container_id(pod, container).clone_into(&mut id);
            }
            true
        })?;
        Ok(id)
    }

    /// What the runtime has of a container's words. It writes them down by itself, and its
    /// word that the container has ended may be faster.
    fn logs(&self, id: &str) -> Result<String> {
        let said = wait::until("words of a container", LAST_WORDS, || {
            let said = self.node.crictl(["logs", id])?;
            ensure!(!said.is_empty(), "there are none");
            Ok(said)
        });
        // Some have nothing to say.
        said.or_else(|_: anyhow::Error| self.node.crictl(["logs", id]))
    }

    /// Makes a pod that prints and ends; keeps what it printed.
    pub(super) fn see(&mut self, pod: Pod) -> Result<()> {
        let name = pod.0["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.create(pod.once())?;
        self.until(&format!("{name} to end"), |view| {
            let phase = view.pod(&name).map(|pod| &pod["status"]["phase"]);
            phase.is_some_and(|phase| phase == "Succeeded" || phase == "Failed")
        })?;
        self.print(&name, "main")
    }

    fn path(&self, group: &str, what: &str) -> String {
        format!("{group}/namespaces/{}/{what}", self.namespace)
    }
}

/// The sightings that count: of a pod that is not watched any more only its end,
/// with the object as it was before.
fn watched(pods: &[Sighting], unwatched: &BTreeMap<String, usize>) -> Vec<Sighting> {
    let mut counted: Vec<Sighting> = Vec::new();
    for (index, sighting) in pods.iter().enumerate() {
        let uid = &sighting.object["metadata"]["uid"];
        let since = uid.as_str().and_then(|uid| unwatched.get(uid));
        if since.is_none_or(|&since| index < since) {
            counted.push(sighting.clone());
        } else if sighting.gone {
            let mut before = counted.iter().rev();
            let before = before.find(|before| before.object["metadata"]["uid"] == *uid);
            counted.extend(before.cloned().map(|before| Sighting {
                gone: true,
                at: sighting.at,
                ..before
            }));
        }
    }
    counted
}

/// What has been told of a namespace so far.
pub(super) struct View<'a> {
    reel: &'a Reel,
}

impl<'a> View<'a> {
    /// A pod as it was last seen, if it is there.
    pub(super) fn pod(&self, name: &str) -> Option<&'a Value> {
        let mut sightings = self.reel.pods.iter().rev();
        sightings
            .find(|sighting| sighting.object["metadata"]["name"] == name)
            .filter(|sighting| !sighting.gone)
            .map(|sighting| &sighting.object)
    }

    /// Whether an event has said that, among other things.
    pub(super) fn said(&self, text: &str) -> bool {
        let mut events = self.reel.events();
        events.any(|event| {
            let message = event["message"].as_str();
            message.is_some_and(|message| message.contains(text))
        })
    }

    /// How many pods have had that name.
    pub(super) fn lives(&self, name: &str) -> usize {
        let pods = self.reel.pods.iter();
        let uids: BTreeSet<&str> = pods
            .filter(|sighting| sighting.object["metadata"]["name"] == name)
            .filter_map(|sighting| sighting.object["metadata"]["uid"].as_str())
            .collect();
        uids.len()
    }

    /// All pods that are there.
    pub(super) fn pods(&self) -> Vec<&'a Value> {
        let mut seen = Vec::new();
        let mut pods = Vec::new();
        for sighting in self.reel.pods.iter().rev() {
            let uid = &sighting.object["metadata"]["uid"];
            if !seen.contains(&uid) {
                seen.push(uid);
                if !sighting.gone {
                    pods.push(&sighting.object);
                }
            }
        }
        pods
    }
}

pub(super) fn is_ready(pod: &Value) -> bool {
    items(&pod["status"]["conditions"])
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn container_status<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let status = &pod["status"];
    CONTAINERS
        .into_iter()
        .flat_map(|list| items(&status[list]))
        .find(|container| container["name"] == name)
}

fn is_in_state(pod: &Value, container: &str, state: &str) -> bool {
    container_status(pod, container)
        .is_some_and(|status| container_label(status).starts_with(state))
}

pub(super) fn restarts(pod: &Value, container: &str) -> u64 {
    container_status(pod, container)
        .and_then(|status| status["restartCount"].as_u64())
        .unwrap_or_default()
}

pub(super) fn container_id<'a>(pod: &'a Value, container: &str) -> &'a str {
    container_status(pod, container)
        .and_then(|status| status["containerID"].as_str())
        .unwrap_or_default()
}

/// A text that nobody wants to read in a report.
fn shortened(text: &str) -> String {
    const MOST: usize = 8192;
    if text.len() <= MOST {
        return text.to_owned();
    }
    let sum = text.bytes().fold(0_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    format!("{} bytes with the sum {sum:x}", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_pod_that_is_not_watched_only_the_end_counts() {
        let sighting = |uid: &str, phase: &str, gone: bool| Sighting {
            at: Duration::ZERO,
            gone,
            object: json!({"metadata": {"uid": uid}, "status": {"phase": phase}}),
        };
        let pods = [
            sighting("a", "Running", false),
            sighting("b", "Running", false),
            sighting("a", "Failed", false),
            sighting("b", "Failed", false),
            sighting("a", "Failed", true),
        ];
        let unwatched = BTreeMap::from([("a".to_owned(), 2)]);
        let counted = watched(&pods, &unwatched);
        let facts: Vec<_> = counted
            .iter()
            .map(|sighting| {
                let object = &sighting.object;
                let uid = object["metadata"]["uid"].as_str().expect("a uid");
                let phase = object["status"]["phase"].as_str().expect("a phase");
                (uid, phase, sighting.gone)
            })
            .collect();
        let expected = [
            ("a", "Running", false),
            ("b", "Running", false),
            ("b", "Failed", false),
            ("a", "Running", true),
        ];
        assert_eq!(facts, expected);
    }
}
