//! Two nodes, field by field: every leaf of their objects by its path.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{Lab, Node};

use super::differences::{How, reason};

/// Every value that the cluster holds of a node, by its path.
pub(crate) type Leaves = BTreeMap<String, Value>;

/// What the cluster holds of a node.
pub(crate) fn seen(lab: &Lab, node: &Node) -> Result<Leaves> {
    let kubectl = lab.kubectl();
    let name = node.name();
    let lease = ["get", "lease", name, "--namespace", "kube-node-lease"];
    let objects = json!({
        "node": kubectl.json(["get", "node", name])?,
        "lease": kubectl.json(lease)?,
        "csinode": kubectl.json(["get", "csinode", name])?,
        "events": events(lab, name)?,
    });
    let mut leaves = Leaves::new();
    flatten("", &objects, &mut leaves);
    Ok(leaves
        .into_iter()
        .map(|(path, value)| (anonymous(node, &path), anonymous_value(node, value)))
        .collect())
}

/// What the node's agent has said of it, by reason: how often and when is left out.
fn events(lab: &Lab, name: &str) -> Result<Value> {
    let selector = format!("involvedObject.kind=Node,involvedObject.name={name},source=kubelet");
    let place = ["--namespace", "default", "--field-selector", &selector];
    let list = lab
        .kubectl()
        .json([&["get", "events"], &place[..]].concat())?;
    let mut events = serde_json::Map::new();
    for event in list["items"].as_array().context("a list")? {
        let reason = event["reason"].as_str().context("a reason")?;
        let kept = [
            "type",
            "message",
            "source",
            "involvedObject",
            "reportingComponent",
            "reportingInstance",
        ];
        let kept = kept.map(|field| (field.to_owned(), event[field].clone()));
        events.insert(reason.to_owned(), kept.into_iter().collect());
    }
    Ok(events.into())
}

/// Everything that differs, and nobody has given a reason for.
pub(crate) fn differences(ours: &Leaves, upstreams: &Leaves) -> Vec<String> {
    let mut found = Vec::new();
    for (path, value) in ours {
        match upstreams.get(path) {
            Some(theirs) if theirs == value || reason(path, How::Value).is_some() => {}
            Some(theirs) => found.push(format!("{path}: ours {value}, upstream's {theirs}")),
            None => found.push(format!("{path}: only ours, {value}")),
        }
    }
    for (path, value) in upstreams {
        if !ours.contains_key(path) && reason(path, How::UpstreamOnly).is_none() {
            found.push(format!("{path}: only upstream's, {value}"));
        }
    }
    found
}

pub(crate) fn expect_equal(lab: &Lab, ours: &Node, upstreams: &Node) -> Result<()> {
    let found = differences(&seen(lab, ours)?, &seen(lab, upstreams)?);
    ensure!(found.is_empty(), "\n{}", found.join("\n"));
    Ok(())
}

/// Lists of named things are taken by name: their order is compared elsewhere.
fn flatten(path: &str, value: &Value, leaves: &mut Leaves) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{key}"), value, leaves);
            }
        }
        Value::Array(items) if path.ends_with(".declaredFeatures") => {
            for item in items {
                let name = item.as_str().unwrap_or_default();
                leaves.insert(format!("{path}[{name}]"), item.clone());
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), item, leaves);
            }
        }
        leaf => {
            leaves.insert(path.to_owned(), leaf.clone());
        }
    }
}

fn anonymous(node: &Node, text: &str) -> String {
    text.replace(node.name(), "NAME")
        .replace(node.address(), "ADDRESS")
}

fn anonymous_value(node: &Node, value: Value) -> Value {
    match value {
        Value::String(text) => anonymous(node, &text).into(),
        other => other,
    }
}
