//! The Fleet file, changed while the fleet runs.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::wait;

use crate::cluster::{Cluster, SOON, Seen, Swept};

/// One of the names of a fleet of 200.
const BYSTANDER: &str = "following-0100";

/// The others of 200.
const GROWN: usize = 199;

/// A machine that does not hear of its runtime for a while is not Ready: the
/// kubelet's patience, and a status update, are over by then.
const NOTICED: Duration = Duration::from_secs(120);

fn file(count: usize, more: &str) -> String {
    format!(
        "
apiVersion: ferrolet.dev/v1alpha1
kind: Fleet
metadata: {{name: following}}
groups:
- name: all
  count: {count}
  namePattern: following-{{:04}}
  zones: [a, b]
  taints: ['test=fleet:NoSchedule']
{more}"
    )
}

#[test]
fn nodes_and_leases_follow_the_file_and_nothing_else_is_touched() -> Result<()> {
    let cluster = Cluster::take("following")?;
    let path = cluster.path("fleet.yaml");
    let bystander = Bystander::make(&cluster)?;
    let write = |text: &str| fs::write(&path, text);
    write(&file(50, ""))?;
    let fleet = cluster.start(&[&format!("--config={}", path.display()), "--interval=1s"])?;
    cluster.wait_ready(50)?;
    let first = cluster.nodes()?;

    write(&file(200, ""))?;
    cluster.wait_ready(GROWN)?;
    wait::until("the leases", SOON, || leases_are(&cluster, GROWN))?;
    let said = fleet.said();
    let named = said.contains(BYSTANDER) && said.contains("not of this fleet");
    ensure!(named, "the node of others is not named: {said}");
    let grown = cluster.nodes()?;
    ensure!(
        first.iter().all(|(name, node)| is_same(node, &grown[name])),
        "a node that was there has been made anew"
    );

    // What cannot be meant changes nothing, and is said.
    write(&file(0, "  nonsense: true\n"))?;
    wait::until("the fault to be named", SOON, || {
        let said = fleet.said();
        ensure!(said.contains("nonsense"), "{said}");
        Ok(())
    })?;
    ensure!(cluster.nodes()?.len() == GROWN, "a bad file was followed");

    write(&file(20, ""))?;
    wait::until("20 nodes", SOON, || {
        let count = cluster.nodes()?.len();
        ensure!(count == 20, "{count} nodes");
        leases_are(&cluster, 20)
    })?;
    cluster.wait_ready(20)?;
    ensure!(
        cluster
            .nodes()?
            .iter()
            .all(|(name, node)| is_same(node, &first[name])),
        "a node that was to stay has been made anew"
    );

    write(&file(20, "  faults: [{zones: [b], runtime: down}]\n"))?;
    wait::until("zone b to be NotReady", NOTICED, || {
        zone_b(&cluster, "False")
    })?;
    write(&file(20, ""))?;
    wait::until("zone b to be Ready", NOTICED, || zone_b(&cluster, "True"))?;

    // Other marks are for other objects.
    write(&file(20, "  labels: {tier: gold}\n"))?;
    wait::until("the labels to be there", SOON, || {
        let nodes = cluster.nodes()?;
        let gold = |node: &&Seen| node.node["metadata"]["labels"]["tier"] == "gold";
        let gold = nodes.values().filter(gold).count();
        ensure!(nodes.len() == 20 && gold == 20, "{gold} of {}", nodes.len());
        Ok(())
    })?;
    cluster.wait_ready(20)?;
    bystander.is_untouched()
}

fn leases_are(cluster: &Cluster, count: usize) -> Result<()> {
    let leases = cluster.leases("following-0")?.len();
    ensure!(leases == count, "{leases} leases");
    Ok(())
}

fn is_same(one: &Seen, other: &Seen) -> bool {
    one.node["metadata"]["uid"] == other.node["metadata"]["uid"]
}

/// Zone b is as told, by its own account; zone a is Ready.
fn zone_b(cluster: &Cluster, status: &str) -> Result<()> {
    for (name, node) in cluster.nodes()? {
        let zone = &node.node["metadata"]["labels"]["topology.kubernetes.io/zone"];
        let wanted = if zone == "b" { status } else { "True" };
        ensure!(node.ready == wanted, "{name} is {}", node.ready);
        if wanted == "False" {
            let told = node.message.contains("container runtime is down");
            ensure!(told, "{name}: {}", node.message);
        }
    }
    Ok(())
}

/// A node that is nobody's, with a name that the fleet comes to want.
struct Bystander<'a> {
    cluster: &'a Cluster,
    before: Value,
    _swept: Swept,
}

impl<'a> Bystander<'a> {
    fn make(cluster: &'a Cluster) -> Result<Self> {
        let mut swept = Swept::new(&cluster.kubectl);
        swept.later(BYSTANDER);
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": BYSTANDER, "labels": {"mine": "yes"}},
        });
        cluster.kubectl.apply(&node.to_string())?;
        let mut made = Self {
            cluster,
            before: Value::Null,
            _swept: swept,
        };
        made.before = made.now()?;
        Ok(made)
    }

    /// What is only ours to change: the node controller has a say in the rest.
    fn now(&self) -> Result<Value> {
        let node = self.cluster.kubectl.json(["get", "node", BYSTANDER])?;
        let leases = self.cluster.leases(BYSTANDER)?.len();
        let (metadata, status) = (&node["metadata"], &node["status"]);
        let identity = [&metadata["uid"], &metadata["labels"]];
        let told = [
            &status["capacity"],
            &status["addresses"],
            &status["nodeInfo"],
        ];
        Ok(json!([identity, told, leases]))
    }

    fn is_untouched(&self) -> Result<()> {
        let now = self.now()?;
        ensure!(now == self.before, "{now}, and {} before", self.before);
        Ok(())
    }
}
