//! What the cluster sees of our node, beside an upstream one on an equal
//! machine: the objects, their fields, the events, in good days and bad ones.

mod compare;
mod differences;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use testkit::lab::{Agent, Lab, Node, Runtime};
use testkit::wait;

use self::compare::expect_equal;

const READY: Duration = Duration::from_secs(60);
/// Objects that are still being written become equal within this time.
const SETTLED: Duration = Duration::from_secs(90);
/// A node is Ready so soon after its runtime answers again.
const RUNTIMES: Duration = Duration::from_secs(10);
const BACK_WITH_RUNTIME: &str = "a node to be Ready after its runtime is back";
const CNI: &str = "/etc/cni/net.d/10-lab.conflist";

#[test]
fn our_node_its_lease_its_csinode_and_its_events_are_upstreams() -> Result<()> {
    let pair = Pair::make("plain")?;
    pair.start("", &[])?;
    pair.wait_ready()?;
    pair.settle()?;
    pair.remove()
}

#[test]
fn what_a_node_is_told_of_itself_shows_as_upstream_shows_it() -> Result<()> {
    let pair = Pair::make("told")?;
    let config = "\
maxPods: 90
podsPerCore: 7
nodeStatusMaxImages: 1
providerID: lab:///told
registerWithTaints:
- {key: lab.test/told, value: yes-it-is, effect: PreferNoSchedule}
systemReserved: {cpu: 150m, memory: 111Mi, ephemeral-storage: 1Gi}
kubeReserved: {cpu: 50m, memory: 99Mi}
";
    pair.lay_start(config, |node| {
        vec![
            "--node-labels=lab.test/a=1,node.kubernetes.io/b=2".to_owned(),
            format!("--node-ip={}", node.address()),
        ]
    })?;
    pair.wait_ready()?;
    pair.settle()?;
    let node = pair.object(&pair.ours)?;
    assert_eq!(node["metadata"]["labels"]["lab.test/a"], "1");
    assert_eq!(node["spec"]["providerID"], "lab:///told");
    assert_eq!(node["status"]["images"].as_array().map(Vec::len), Some(1));
    pair.remove()
}

#[test]
fn a_node_that_is_there_already_keeps_what_is_not_the_agents() -> Result<()> {
    let pair = Pair::make("there")?;
    for node in pair.both() {
        let labels = json!({"lab.test/mine": "kept", "kubernetes.io/hostname": "wrong"});
        let object = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node.name(), "labels": labels},
            "spec": {"taints": [{"key": "lab.test/mine", "effect": "PreferNoSchedule"}]},
            "status": {"conditions": given_up()},
        });
        pair.lab
            .kubectl()
            .run(["delete", "node", node.name(), "--ignore-not-found"])?;
        pair.lab.kubectl().apply(&object.to_string())?;
    }
    let taints = "registerWithTaints: [{key: lab.test/new, effect: PreferNoSchedule}]\n";
    pair.start(taints, &["--node-labels=lab.test/new=1"])?;
    pair.wait_ready()?;
    for node in pair.both() {
        pair.wait_event(node, "NodeReady")?;
    }
    pair.settle()?;
    let node = pair.object(&pair.ours)?;
    let labels = &node["metadata"]["labels"];
    assert_eq!(labels["kubernetes.io/hostname"], pair.ours.name());
    assert_eq!(labels["lab.test/mine"], "kept");
    assert!(labels.get("lab.test/new").is_none(), "{labels}");

    // Whoever is taken out of service says so.
    for node in pair.both() {
        pair.lab.kubectl().run(["cordon", node.name()])?;
    }
    for node in pair.both() {
        pair.wait_event(node, "NodeNotSchedulable")?;
    }
    pair.settle()?;
    pair.remove()
}

#[test]
fn a_runtime_that_goes_and_comes_back_shows_as_upstream_shows_it() -> Result<()> {
    let pair = Pair::make("runtime")?;
    pair.start("", &[])?;
    pair.wait_ready()?;
    wait::promised(BACK_WITH_RUNTIME, RUNTIMES, || {
        for node in pair.both() {
            node.runtime().stop()?;
        }
        pair.same_unready("container runtime is down")?;
        pair.wait_event(&pair.ours, "NodeNotReady")?;
        let unready = Timestamp::now();
        let back = runtime_back(&pair.ours)?;
        pair.upstreams.runtime().start_again()?;
        let took = ready_again(&pair.lab, &pair.ours, unready, back)?;
        pair.upstreams.wait_ready(READY)?;
        Ok((took, ()))
    })?;
    pair.settle()?;
    pair.remove()
}

#[test]
fn a_node_without_a_pod_network_is_not_ready_and_says_why() -> Result<()> {
    let pair = Pair::make("network")?;
    let mut kept = Vec::new();
    for node in pair.both() {
        let file = node.machine().root(CNI);
        kept.push(fs::read(&file)?);
        fs::remove_file(&file)?;
        // The runtime looks at its directory when it starts.
        node.runtime().restart()?;
    }
    pair.start("", &[])?;
    pair.same_unready("NetworkReady=false reason:NetworkPluginNotReady")?;
    for (node, text) in pair.both().into_iter().zip(kept) {
        node.machine().write(CNI, text)?;
    }
    pair.wait_ready()?;
    pair.settle()?;
    pair.remove()
}

#[test]
fn an_agent_that_begins_before_its_runtime_is_ready_soon_after_it() -> Result<()> {
    let lab = Lab::shared()?;
    let node = lab.node("node-early", Runtime::Containerd2)?;
    let unready = |words: &str| {
        wait::until(&format!("a node that says {words:?}"), SETTLED, || {
            let ready = ready(&lab, &node)?;
            let message = ready["message"].as_str().unwrap_or_default();
            ensure!(ready["status"] == "False", "{ready}");
            ensure!(message.contains(words), "{ready}");
            Ok(())
        })
    };
    let mut begun = false;
    wait::promised(BACK_WITH_RUNTIME, RUNTIMES, || {
        if begun {
            node.kubelet().stop()?;
        }
        node.runtime().stop()?;
        if begun {
            node.kubelet().start_again()?;
        } else {
            node.start_ferrolet("")?;
        }
        begun = true;
        unready("container runtime")?;
        let since = Timestamp::now();
        let back = runtime_back(&node)?;
        Ok((ready_again(&lab, &node, since, back)?, ()))
    })?;
    node.remove()
}

#[test]
fn a_node_whose_agent_ends_is_given_up_and_is_ready_again_soon_after_its_return() -> Result<()> {
    let lab = Lab::shared()?;
    let node = lab.node("node-gone", Runtime::Containerd2)?;
    node.start_ferrolet("")?;
    node.wait_ready(READY)?;
    wait::promised("the agent's end", Duration::from_secs(2), || {
        if !node.kubelet().is_running() {
            node.kubelet().start_again()?;
            node.wait_ready(READY)?;
        }
        let told = Instant::now();
        node.kubelet().stop()?;
        Ok((told.elapsed(), ()))
    })?;
    let what = "a node to be Ready after its agent is back";
    wait::promised(what, Duration::from_secs(5), || {
        if node.kubelet().is_running() {
            node.kubelet().stop()?;
        }
        wait::until("the node to be given up", SETTLED, || {
            let ready = ready(&lab, &node)?;
            ensure!(ready["status"] == "Unknown", "{ready}");
            ensure!(ready["reason"] == "NodeStatusUnknown", "{ready}");
            Ok(())
        })?;
        let back = Timestamp::now();
        node.kubelet().start_again()?;
        Ok((ready_again(&lab, &node, back, back)?, ()))
    })?;
    node.remove()
}

/// Our node and an upstream one, on equal machines.
struct Pair {
    lab: Lab,
    ours: Node,
    upstreams: Node,
}

impl Pair {
    fn make(name: &str) -> Result<Self> {
        let lab = Lab::shared()?;
        // Names of one length: they are part of what is compared.
        let ours = lab.node(&format!("node-{name}-a"), Runtime::Containerd2)?;
        let upstreams = lab.node(&format!("node-{name}-b"), Runtime::Containerd2)?;
        let pair = Self {
            lab,
            ours,
            upstreams,
        };
        for node in pair.both() {
            // What an earlier run has said of a node of this name.
            let field = format!("--field-selector=involvedObject.name={}", node.name());
            pair.lab
                .kubectl()
                .run(["delete", "events", "--namespace=default", &field])?;
        }
        Ok(pair)
    }

    fn both(&self) -> [&Node; 2] {
        [&self.ours, &self.upstreams]
    }

    fn start(&self, config: &str, flags: &[&str]) -> Result<()> {
        self.lay_start(config, |_| {
            flags.iter().map(|&flag| flag.to_owned()).collect()
        })
    }

    /// Starts both, with flags that may speak of their machine.
    fn lay_start(&self, config: &str, flags: impl Fn(&Node) -> Vec<String>) -> Result<()> {
        for (node, agent) in [
            (&self.ours, Agent::Ferrolet),
            (&self.upstreams, Agent::Upstream),
        ] {
            let flags = flags(node);
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            node.start_agent(agent, config, &flags)?;
        }
        Ok(())
    }

    fn wait_ready(&self) -> Result<()> {
        self.both()
            .into_iter()
            .try_for_each(|node| node.wait_ready(READY))
    }

    /// Waits until nothing differs that has no reason to.
    fn settle(&self) -> Result<()> {
        let what = "our node to be as upstream's";
        wait::until(what, SETTLED, || {
            expect_equal(&self.lab, &self.ours, &self.upstreams)
        })
    }

    fn object(&self, node: &Node) -> Result<Value> {
        self.lab.kubectl().json(["get", "node", node.name()])
    }

    /// Waits until both are unready, with the same reason and message, in which
    /// `words` occur.
    fn same_unready(&self, words: &str) -> Result<()> {
        let what = format!("both nodes to say {words:?}");
        wait::until(&what, SETTLED, || {
            let conditions = [
                ready(&self.lab, &self.ours)?,
                ready(&self.lab, &self.upstreams)?,
            ];
            let [ours, upstreams] = &conditions;
            for field in ["status", "reason", "message"] {
                ensure!(ours[field] == upstreams[field], "{ours} beside {upstreams}");
            }
            let message = ours["message"].as_str().unwrap_or_default();
            ensure!(ours["status"] == "False", "{ours}");
            ensure!(message.contains(words), "{ours}");
            Ok(())
        })
    }

    fn wait_event(&self, node: &Node, reason: &str) -> Result<()> {
        let fields = format!("involvedObject.name={},reason={reason}", node.name());
        let words = ["get", "events", "--namespace=default", "--field-selector"];
        let words = [&words[..], &[&fields, "--output=name"]].concat();
        let what = format!("the event {reason} of {}", node.name());
        wait::until(&what, SETTLED, || {
            let found = self.lab.kubectl().run(words.iter().copied())?;
            ensure!(!found.is_empty(), "there is none");
            Ok(())
        })
    }

    fn remove(self) -> Result<()> {
        self.ours.remove()?;
        self.upstreams.remove()
    }
}

/// What the controller manager says of a node that never spoke, in its order: it
/// does so sooner or later, and the test must not depend on when.
fn given_up() -> Vec<Value> {
    let kinds = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
    let conditions = kinds.map(|kind| {
        json!({
            "type": kind,
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    });
    conditions.to_vec()
}

/// Starts a node's runtime, and says since when it answers.
fn runtime_back(node: &Node) -> Result<Timestamp> {
    node.runtime().start_again()?;
    wait::until("the runtime to answer", READY, || node.crictl(["version"]))?;
    Ok(Timestamp::now())
}

/// How long after `back` a node was Ready, by its own word: a look from here takes its time on a
/// machine that is shared. At the moment `unready` it was not.
fn ready_again(lab: &Lab, node: &Node, unready: Timestamp, back: Timestamp) -> Result<Duration> {
    node.wait_ready(READY)?;
    let ready = ready(lab, node)?;
    let at = ready["lastTransitionTime"].as_str().context("no time")?;
    let at: Timestamp = at.parse()?;
    // It is told in whole seconds.
    ensure!(
        at.duration_since(unready).as_secs_f64() >= -1.0,
        "Ready since {at}, and at {unready} it was not"
    );
    let took = at.duration_since(back).as_secs_f64();
    Ok(Duration::from_secs_f64(took.max(0.0)))
}

/// The condition Ready of a node.
fn ready(lab: &Lab, node: &Node) -> Result<Value> {
    let object = lab.kubectl().json(["get", "node", node.name()])?;
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    ready.cloned().context("no condition Ready yet")
}
