//! What a fleet is to be: groups of nodes, read from a file or made of flags, and
//! judged. Everything that is wrong is named at once.

mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use sim::{Faults, MachineShape, RuntimeShape};

use crate::names::NamePattern;

pub use file::{
    Amount, CapacityFile, FaultFile, FleetFile, GroupFile, NodeInfoFile, RuntimeFaultFile,
};

/// The label by which the nodes of a fleet are known: its value is the fleet's
/// name.
pub const FLEET_LABEL: &str = "ferrolet.dev/fleet";
/// And the one that tells the groups apart.
pub const GROUP_LABEL: &str = "ferrolet.dev/group";
pub(crate) const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// The most nodes of a fleet: there are no more addresses for them.
pub const MOST_NODES: usize = 100_000;

/// A fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    pub name: String,
    pub groups: Vec<Arc<Group>>,
}

/// Nodes that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub name: String,
    pub count: usize,
    pub pattern: NamePattern,
    pub kind: Arc<Kind>,
    pub zones: Vec<String>,
    pub faults: Vec<Fault>,
}

/// What a node of a group is made of. A node whose kind changes is another node.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    pub machine: Arc<MachineShape>,
    pub runtime: Arc<RuntimeShape>,
    /// `None`: what the kubelet's configuration says.
    pub pods: Option<u32>,
    /// `None`: ours.
    pub kubelet_version: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
}

/// What is wrong with nodes of a group, and with which.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Empty: with all of them.
    pub zones: Vec<String>,
    pub what: Ailment,
}

/// What can be wrong with a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ailment {
    /// Its agent does not run: the cluster hears nothing of it.
    pub stopped: bool,
    pub machine: Faults,
}

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSpec {
    pub name: String,
    pub group: String,
    pub zone: Option<String>,
    pub kind: Arc<Kind>,
    pub ailment: Ailment,
}

/// What is wrong with a fleet: one line each, with the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError(pub Vec<String>);

impl fmt::Display for SpecError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for SpecError {}

impl Fleet {
    /// Every node of it, group by group.
    pub fn nodes(&self) -> impl Iterator<Item = NodeSpec> + '_ {
        self.groups
            .iter()
            .flat_map(|group| (0..group.count).map(|number| group.node(number)))
    }

    /// What groups must not have in common.
    fn clashes(&self) -> Vec<String> {
        let mut clashes = Vec::new();
        let mut groups = BTreeSet::new();
        for group in &self.groups {
            if !groups.insert(&group.name) {
                clashes.push(format!("two groups are called {:?}", group.name));
            }
        }
        let counts = self.groups.iter().map(|group| group.count);
        let most = counts.fold(0, usize::saturating_add);
        if most > MOST_NODES {
            clashes.push(format!("{most} nodes are too many: at most {MOST_NODES}"));
            return clashes;
        }
        let mut owners: BTreeMap<String, &str> = BTreeMap::new();
        for group in &self.groups {
            let name = |number| group.pattern.name(number);
            let taken = (0..group.count).map(name).find_map(|name| {
                let before = owners.insert(name.clone(), &group.name);
                before.map(|before| (name, before))
            });
            if let Some((name, before)) = taken {
                clashes.push(format!(
                    "groups {before:?} and {:?} both have a node {name}: give one another namePattern",
                    group.name
                ));
            }
        }
        clashes
    }
}

impl Group {
    fn node(&self, number: usize) -> NodeSpec {
        let zone = self.zones.get(number % self.zones.len().max(1)).cloned();
        NodeSpec {
            name: self.pattern.name(number),
            group: self.name.clone(),
            ailment: self.ailment(zone.as_deref()),
            zone,
            kind: self.kind.clone(),
        }
    }

    /// The first fault that is meant for a zone.
    fn ailment(&self, zone: Option<&str>) -> Ailment {
        let meant = |fault: &&Fault| {
            let named = |name: &String| Some(name.as_str()) == zone;
            fault.zones.is_empty() || fault.zones.iter().any(named)
        };
        let fault = self.faults.iter().find(meant);
        fault.map(|fault| fault.what).unwrap_or_default()
    }
}

impl NodeSpec {
    /// Whether the two carry the same labels and taints.
    pub fn has_same_marks(&self, other: &Self) -> bool {
        self.zone == other.zone
            && self.kind.labels == other.kind.labels
            && self.kind.taints == other.kind.taints
    }
}

#[cfg(test)]
mod tests;
