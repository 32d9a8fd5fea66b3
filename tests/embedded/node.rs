//! A node's affairs at the API server: its object, its status, its lease.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use apiserver::faults::{Effect, Meets, Rule};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use testkit::wait;

use super::server::{Embedded, PATIENCE, ready};

/// Longer than silence is borne.
const SILENT: Duration = Duration::from_secs(120);

/// One answer in three is none.
const SHARE: f64 = 0.34;

fn now_and_then(verb: &str, resource: &str, subresource: &str, effect: Effect) -> Rule {
    let meets = Meets {
        subresource: subresource.to_owned(),
        ..Rule::new(verb, resource, Effect::Conflict).meets
    };
    Rule {
        meets,
        share: SHARE,
        ..Rule::new(verb, resource, effect)
    }
}

#[test]
fn a_node_is_ready_and_keeps_its_lease_though_every_third_answer_is_a_fault() -> Result<()> {
    let cluster = Embedded::start()?;
    let first = |verb, resource, effect| Rule::new(verb, resource, effect).times(1);
    cluster.faults.set(vec![
        // At least these are met, whatever the dice say.
        first("create", "nodes", Effect::Error(500)),
        first("create", "leases", Effect::Error(503)),
        first("update", "leases", Effect::Conflict),
        first("patch", "nodes", Effect::Error(429)),
        now_and_then("", "nodes", "", Effect::Latency(Duration::from_millis(300))),
        now_and_then("patch", "nodes", "status", Effect::Error(500)),
        now_and_then("update", "leases", "", Effect::Error(500)),
        now_and_then("update", "leases", "", Effect::Conflict),
        now_and_then("get", "leases", "", Effect::Error(504)),
    ]);
    let agent = cluster.agent("shaken")?;
    // Those who look meet the faults as well: a look that fails is made again.
    cluster.wait_ready("shaken")?;
    cluster.wait_faults_met()?;
    for _ in 0..3 {
        cluster.wait_renewed("shaken", 1)?;
        let node = cluster.node("shaken")?;
        ensure!(ready(&node) == Some("True"), "{:?}", node.status);
    }
    cluster.faults.clear();
    let lease = cluster.lease("shaken")?;
    let spec = lease.spec.context("the lease says nothing")?;
    ensure!(
        spec.holder_identity.as_deref() == Some("shaken"),
        "{spec:?}"
    );
    let owners = lease.metadata.owner_references.unwrap_or_default();
    ensure!(
        owners
            .iter()
            .any(|owner| owner.kind == "Node" && owner.name == "shaken"),
        "{owners:?}"
    );
    cluster.end(agent)?;
    cluster.stop()
}

#[test]
fn a_node_whose_object_was_deleted_makes_another_at_its_next_start() -> Result<()> {
    let cluster = Embedded::start()?;
    let agent = cluster.agent("made")?;
    let first = cluster.wait_ready("made")?.metadata.uid;
    wait_csi_node(&cluster, "made", first.as_deref())?;
    cluster.end(agent)?;
    let nodes: Api<Node> = Api::all(cluster.admin.clone());
    cluster.run(nodes.delete("made", &DeleteParams::default()))?;
    let agent = cluster.agent("made")?;
    let second = cluster.wait_ready("made")?.metadata.uid;
    ensure!(first.is_some() && second.is_some() && first != second);
    // What belonged to the object that is gone belongs to this one now.
    wait_csi_node(&cluster, "made", second.as_deref())?;
    cluster.end(agent)?;
    cluster.stop()
}

#[test]
fn a_node_that_falls_silent_is_marked_and_is_well_when_it_speaks_again() -> Result<()> {
    let cluster = Embedded::start()?;
    // Where all are silent, nobody's pods are driven away.
    let other = cluster.agent("heard")?;
    let agent = cluster.agent("silent")?;
    cluster.wait_ready("heard")?;
    cluster.wait_ready("silent")?;
    cluster.end(agent)?;
    cluster.clock.jump_ahead(SILENT);
    // Nothing has changed, so nobody would look before that time has really passed.
    let nodes: Api<Node> = Api::all(cluster.admin.clone());
    let hint = Patch::Merge(json!({"metadata": {"annotations": {"hint": "look"}}}));
    cluster.run(nodes.patch("silent", &PatchParams::default(), &hint))?;
    wait::until("the node to be marked", PATIENCE, || {
        let node = cluster.node("silent")?;
        ensure!(ready(&node) == Some("Unknown"), "{:?}", node.status);
        let taints = taints(&node);
        let unreachable = "node.kubernetes.io/unreachable";
        for effect in ["NoSchedule", "NoExecute"] {
            let taint = format!("{unreachable}:{effect}");
            ensure!(taints.contains(&taint), "{taints:?}");
        }
        anyhow::Ok(())
    })?;
    let agent = cluster.agent("silent")?;
    wait::until("the node to be well", PATIENCE, || {
        let node = cluster.node("silent")?;
        ensure!(ready(&node) == Some("True"), "{:?}", node.status);
        ensure!(taints(&node).is_empty(), "{:?}", taints(&node));
        anyhow::Ok(())
    })?;
    cluster.end(other)?;
    cluster.end(agent)?;
    cluster.stop()
}

/// Waits for what drivers of volumes have of that Node object.
fn wait_csi_node(cluster: &Embedded, name: &str, uid: Option<&str>) -> Result<()> {
    let csi_nodes: Api<CSINode> = Api::all(cluster.admin.clone());
    wait::until(&format!("the CSINode of {name}"), PATIENCE, || {
        let found = cluster.run(csi_nodes.get(name))?;
        let owners = found.metadata.owner_references.unwrap_or_default();
        ensure!(
            owners.iter().any(|owner| Some(owner.uid.as_str()) == uid),
            "it belongs to {owners:?}"
        );
        anyhow::Ok(())
    })
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let shown = taints.into_iter().flatten();
    shown
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect()
}
