//! `ferrolet heartbeat`: Nodes that live with no agent behind them.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use testkit::lab::{Kubectl, Lab};
use testkit::{cargo, command, wait};

const SOON: Duration = Duration::from_secs(90);

struct Cluster {
    lab: Lab,
    kubectl: Kubectl,
}

impl Cluster {
    fn new() -> Result<Self> {
        let lab = Lab::shared()?;
        let kubectl = lab.kubectl();
        Ok(Self { lab, kubectl })
    }

    fn make_node(&self, name: &str) -> Result<()> {
        self.delete_node(name)?;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        self.kubectl.apply(&node.to_string()).map(drop)
    }

    fn delete_node(&self, name: &str) -> Result<()> {
        let node = ["delete", "node", name, "--ignore-not-found"];
        self.kubectl.run(node)?;
        let lease = ["--namespace=kube-node-lease", "delete", "lease", name];
        self.kubectl
            .run([&lease[..], &["--ignore-not-found"]].concat())
            .map(drop)
    }

    fn ready(&self, name: &str) -> Result<Value> {
        let node = self.kubectl.json(["get", "node", name])?;
        let conditions = node["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|condition| condition["type"] == "Ready");
        Ok(ready.context("no Ready condition")?.clone())
    }

    fn lease(&self, name: &str) -> Result<Value> {
        let words = ["--namespace=kube-node-lease", "get", "lease", name];
        self.kubectl.json(words)
    }

    fn heartbeat(&self, words: &[&str]) -> Result<Beating> {
        let mut command = Command::new(cargo::program("ferrolet")?);
        command.arg("heartbeat").args(words);
        command.arg("--kubeconfig").arg(self.lab.admin_kubeconfig());
        let child = command.stderr(Stdio::piped()).spawn()?;
        Ok(Beating { child })
    }
}

/// The command, ended with the test.
struct Beating {
    child: Child,
}

impl Beating {
    /// Its exit code and what it said, when it has ended by itself.
    fn ended(mut self) -> Result<(Option<i32>, String)> {
        let mut said = String::new();
        let stderr = self.child.stderr.as_mut().context("a pipe")?;
        stderr.read_to_string(&mut said)?;
        Ok((self.child.wait()?.code(), said))
    }

    fn terminate(self) -> Result<(Option<i32>, String)> {
        let id = self.child.id().to_string();
        command::run(Command::new("kill").args(["-s", "TERM", &id]))?;
        self.ended()
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        // It has ended, unless a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_node_with_nobody_behind_it_becomes_ready_and_stays_so() -> Result<()> {
    let cluster = Cluster::new()?;
    cluster.make_node("beat-a")?;
    cluster.make_node("beat-b")?;
    let beating = cluster.heartbeat(&["beat-a", "beat-b"])?;
    for name in ["beat-a", "beat-b"] {
        let ready = wait::until("Ready", SOON, || {
            let ready = cluster.ready(name)?;
            ensure!(ready["status"] == "True", "{ready}");
            Ok(ready)
        })?;
        assert_eq!(ready["reason"], "HeldByHeartbeat");
        let message = ready["message"].as_str().unwrap_or_default();
        assert!(message.contains("ferrolet heartbeat"), "{message}");
    }
    let node = cluster.kubectl.json(["get", "node", "beat-a"])?;
    let first = cluster.lease("beat-a")?;
    let owner = &first["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], node["metadata"]["uid"]);
    assert_eq!(first["spec"]["holderIdentity"], "beat-a");
    assert_eq!(first["spec"]["leaseDurationSeconds"], 40);
    let second = wait::until("another beat", SOON, || {
        let spec = cluster.lease("beat-a")?["spec"].take();
        ensure!(spec["renewTime"] != first["spec"]["renewTime"], "{spec}");
        Ok(spec)
    })?;
    let renewed = |spec: &Value| -> Result<Timestamp> {
        Ok(spec["renewTime"].as_str().context("no time")?.parse()?)
    };
    let between = renewed(&second)?.duration_since(renewed(&first["spec"])?);
    assert!(between.as_secs() < 15, "{between:?}");
    // Nothing changed, so the node was left alone.
    let ready = cluster.ready("beat-a")?;
    assert_eq!(ready["status"], "True");
    assert_eq!(ready["lastHeartbeatTime"], ready["lastTransitionTime"]);

    let (code, said) = beating.terminate()?;
    assert_eq!(code, Some(0), "{said}");
    for name in ["beat-a", "beat-b"] {
        assert!(said.contains(&format!("{name}: lease made")), "{said}");
        let goodbye = format!("{name}: no more heartbeats");
        assert!(said.contains(&goodbye), "{said}");
    }
    // From nothing, or from what the controller said of it meanwhile.
    assert!(said.contains("-> True (HeldByHeartbeat)"), "{said}");
    cluster.delete_node("beat-a")?;
    cluster.delete_node("beat-b")
}

#[test]
fn it_ends_after_its_time_and_takes_an_expired_lease_over() -> Result<()> {
    let cluster = Cluster::new()?;
    cluster.make_node("beat-once")?;
    cluster.kubectl.apply(&lease(
        "beat-once",
        "somebody",
        "2020-01-01T00:00:00.000000Z",
    ))?;
    let (code, said) = cluster.heartbeat(&["beat-once", "--for", "2s"])?.ended()?;
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("lease taken over: somebody let it expire"),
        "{said}"
    );
    assert!(said.contains("will be NotReady in about"), "{said}");
    assert_eq!(
        cluster.lease("beat-once")?["spec"]["holderIdentity"],
        "beat-once"
    );
    cluster.delete_node("beat-once")
}

#[test]
fn what_others_keep_alive_is_left_to_them() -> Result<()> {
    let cluster = Cluster::new()?;
    cluster.make_node("beat-kept")?;
    let keeper = cluster.heartbeat(&["beat-kept"])?;
    wait::until("a lease", SOON, || cluster.lease("beat-kept"))?;
    let (code, said) = cluster.heartbeat(&["beat-kept"])?.ended()?;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("node beat-kept is alive"), "{said}");
    assert!(!said.contains("no more heartbeats"), "{said}");
    keeper.terminate()?;

    let future = "2999-01-01T00:00:00.000000Z";
    cluster.delete_node("beat-kept")?;
    cluster.make_node("beat-kept")?;
    cluster
        .kubectl
        .apply(&lease("beat-kept", "somebody", future))?;
    let (code, said) = cluster.heartbeat(&["beat-kept"])?.ended()?;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is held by somebody"), "{said}");
    cluster.delete_node("beat-kept")
}

#[test]
fn an_unknown_node_ends_it_before_a_known_one_is_touched() -> Result<()> {
    let cluster = Cluster::new()?;
    cluster.make_node("beat-known")?;
    let (code, said) = cluster
        .heartbeat(&["beat-known", "beat-unknown"])?
        .ended()?;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("there is no node beat-unknown"), "{said}");
    assert!(cluster.lease("beat-known").is_err());
    let (code, said) = cluster.heartbeat(&[])?.ended()?;
    assert_eq!(code, Some(2), "{said}");

    // One that goes while it is kept ends its part.
    let beating = cluster.heartbeat(&["beat-known"])?;
    wait::until("a lease", SOON, || cluster.lease("beat-known"))?;
    cluster.delete_node("beat-known")?;
    let (code, said) = beating.ended()?;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("node beat-known has been deleted"), "{said}");
    Ok(())
}

fn lease(name: &str, holder: &str, renewed: &str) -> String {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 40,
            "renewTime": renewed,
        },
    })
    .to_string()
}
