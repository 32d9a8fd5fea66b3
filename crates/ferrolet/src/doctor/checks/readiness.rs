//! What the cluster says of the node.

use jiff::Timestamp;

use crate::certs::span::length;
use crate::doctor::finding::Finding;
use crate::local_node::Remedies;
use crate::local_node::look::Look;

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    pub(in crate::doctor) node_name: String,
    pub(in crate::doctor) node: Look<Option<Node>>,
    pub(in crate::doctor) now: Timestamp,
    pub(in crate::doctor) agent_runs: bool,
    pub(in crate::doctor) remedies: Remedies,
}

/// What matters of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::doctor) struct Node {
    pub(in crate::doctor) conditions: Vec<Condition>,
    pub(in crate::doctor) unschedulable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::doctor) struct Condition {
    pub(in crate::doctor) kind: String,
    pub(in crate::doctor) status: String,
    pub(in crate::doctor) message: String,
    pub(in crate::doctor) since: Option<Timestamp>,
}

impl Node {
    fn ready(&self) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.kind == "Ready")
    }
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let name = &facts.node_name;
    let object = format!("node {name}");
    let Some(node) = facts.node.seen() else {
        return Vec::new();
    };
    let Some(node) = node else {
        let cause =
            "the cluster has no such node: the agent has not registered it, or somebody deleted it";
        let command = if facts.agent_runs {
            facts.remedies.log()
        } else {
            facts.remedies.start()
        };
        return vec![Finding::error(object, cause).mended_by(command)];
    };
    let mut findings = Vec::new();
    let describe = facts.remedies.kubectl(&format!("describe node {name}"));
    match node.ready() {
        None => findings
            .push(Finding::error(&object, "it has no Ready condition yet").mended_by(&describe)),
        Some(ready) if ready.status == "True" => {}
        Some(ready) if ready.status == "False" => {
            let cause = format!("it is not Ready: {}", ready.message);
            findings.push(Finding::error(&object, cause).mended_by(&describe));
        }
        Some(ready) => {
            let cause = format!("the cluster has not heard of it: {}", ready.message);
            findings.push(Finding::error(&object, cause).mended_by(facts.remedies.revive()));
        }
    }
    let pressures = node
        .conditions
        .iter()
        .filter(|condition| condition.kind != "Ready" && condition.status == "True");
    findings.extend(pressures.map(|condition| {
        let cause = format!("it has {}: {}", condition.kind, condition.message);
        Finding::warning(&object, cause).mended_by(&describe)
    }));
    findings
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    let Some(node) = facts.node.seen() else {
        return "not seen".to_owned();
    };
    let Some(node) = node else {
        return format!("{} is not registered", facts.node_name);
    };
    let ready = node.ready();
    let state = match ready.map(|ready| ready.status.as_str()) {
        Some("True") => "Ready",
        Some("False") => "not Ready",
        _ => "Unknown",
    };
    let since = ready.and_then(|ready| ready.since);
    let since = since.map_or(String::new(), |since| {
        format!(" for {}", length(since, facts.now))
    });
    let cordoned = if node.unschedulable { ", cordoned" } else { "" };
    format!("{} is {state}{since}{cordoned}", facts.node_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::testing::{remedies, stopped, summary};

    fn node(conditions: &[(&str, &str)]) -> Node {
        let conditions = conditions.iter().map(|(kind, status)| Condition {
            kind: (*kind).to_owned(),
            status: (*status).to_owned(),
            message: "why".to_owned(),
            since: None,
        });
        Node {
            conditions: conditions.collect(),
            unschedulable: false,
        }
    }

    #[test]
    fn a_node_that_is_not_ready_says_why() {
        let well = ("MemoryPressure", "False");
        for (seen, agent_runs, expected) in [
            (Some(node(&[well, ("Ready", "True")])), true, vec![]),
            (
                Some(node(&[well, ("Ready", "False")])),
                true,
                vec!["error node n1: it is not Ready: why => kubectl describe node n1"],
            ),
            (
                Some(node(&[well, ("Ready", "Unknown")])),
                false,
                vec![
                    "error node n1: the cluster has not heard of it: why => systemctl start kubelet",
                ],
            ),
            (
                Some(node(&[("DiskPressure", "True"), ("Ready", "True")])),
                true,
                vec!["warning node n1: it has DiskPressure: why => kubectl describe node n1"],
            ),
            (
                Some(node(&[])),
                true,
                vec!["error node n1: it has no Ready condition yet => kubectl describe node n1"],
            ),
        ] {
            let facts = Facts {
                node_name: "n1".to_owned(),
                node: Look::Seen(seen),
                now: Timestamp::UNIX_EPOCH,
                agent_runs,
                remedies: if agent_runs { remedies() } else { stopped() },
            };
            assert_eq!(summary(&judge(&facts)), expected);
        }
    }

    #[test]
    fn a_node_that_is_not_there_is_to_be_registered() {
        let facts = Facts {
            node_name: "n1".to_owned(),
            node: Look::Seen(None),
            now: Timestamp::UNIX_EPOCH,
            agent_runs: false,
            remedies: stopped(),
        };
        let found = judge(&facts);
        assert!(found[0].cause.contains("no such node"));
        assert_eq!(found[0].command.as_deref(), Some("systemctl start kubelet"));
    }
}
