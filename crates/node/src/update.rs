//! The node's object brought up to date with what was observed: every field that
//! is the node's own, in upstream's order.

use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeDaemonEndpoints, NodeFeatures, NodeRuntimeHandler,
    NodeRuntimeHandlerFeatures, NodeStatus,
};

use crate::addresses;
use crate::allocatable;
use crate::capacity;
use crate::conditions::{self, Readiness, Transition};
use crate::config::Config;
use crate::images;
use crate::info;
use crate::labels::{self, PROVIDED_NODE_IP};
use crate::observe::Observed;
use crate::readiness::joined;
use crate::resources::{self, CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};
use crate::runtime::RuntimeHandler;

/// A node's object, up to date.
#[derive(Clone, Debug)]
pub struct Updated {
    pub node: Node,
    /// A label was wrong: worth a patch of its own.
    pub labels_fixed: bool,
    pub transitions: Vec<Transition>,
    /// The machine has started anew since the object was last written: its new
    /// boot id.
    pub rebooted: Option<String>,
    /// Fields that could not be filled, and why. They stay as they were.
    pub problems: Vec<String>,
}

/// Brings `node` up to date.
pub fn update(node: &Node, config: &Config, observed: &Observed) -> Updated {
    let mut updated = Updated {
        node: node.clone(),
        labels_fixed: false,
        transitions: Vec::new(),
        rebooted: None,
        problems: observed.problems.clone(),
    };
    updated.labels(observed);
    updated.addresses(config, observed);
    updated.machine(config, observed);
    updated.runtime(config, observed);
    updated.conditions(config, observed);
    let status = updated.status();
    if let Some(volumes) = &observed.volumes_in_use {
        let mut volumes = volumes.clone();
        volumes.sort();
        volumes.dedup();
        status.volumes_in_use = filled(volumes);
    }
    status.declared_features = filled(config.declared_features.clone());
    updated
}

/// An empty list is not written.
fn filled<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

impl Updated {
    fn status(&mut self) -> &mut NodeStatus {
        self.node.status.get_or_insert_default()
    }

    fn labels(&mut self, observed: &Observed) {
        if let Some(machine) = &observed.machine {
            let labels = self.node.metadata.labels.get_or_insert_default();
            self.labels_fixed = labels::reassert(labels, &machine.architecture);
        }
    }

    fn addresses(&mut self, config: &Config, observed: &Observed) {
        let addresses = self.status().addresses.as_ref();
        let present = addresses.is_some_and(|addresses| !addresses.is_empty());
        let told = match addresses::told(&config.identity, &observed.network, present) {
            Ok(told) => told,
            Err(error) => return self.problems.push(error.to_string()),
        };
        let annotations = &mut self.node.metadata.annotations;
        match (told.provided, annotations) {
            (Some(provided), annotations) => {
                let annotations = annotations.get_or_insert_default();
                annotations.insert(PROVIDED_NODE_IP.to_owned(), provided);
            }
            (None, Some(annotations)) => {
                annotations.remove(PROVIDED_NODE_IP);
            }
            (None, None) => {}
        }
        if let Some(addresses) = told.addresses {
            self.status().addresses = Some(addresses);
        }
    }

    fn machine(&mut self, config: &Config, observed: &Observed) {
        let pods = config.resources.pods;
        let status = self.status();
        // Opaque resources of others are kept.
        let mut capacity = resources::from_api(status.capacity.as_ref());
        match &observed.machine {
            Some(machine) => {
                capacity.extend(capacity::of_machine(machine, pods, observed.storage));
                observed.devices.add_to(&mut capacity);
            }
            None => capacity.extend(capacity::of_unknown_machine(pods)),
        }
        let before = resources::from_api(status.allocatable.as_ref());
        let reservations = &config.resources.reservations;
        let left = allocatable::of(&capacity, reservations, &observed.devices, before);
        status.capacity = Some(resources::to_api(&capacity));
        status.allocatable = Some(resources::to_api(&left));

        let info = status.node_info.get_or_insert_default();
        let boot_before = info.boot_id.clone();
        let version = &config.kubelet_version;
        info::refresh(info, observed.machine.as_ref(), &observed.runtime, version);
        if !boot_before.is_empty() && boot_before != info.boot_id {
            self.rebooted = Some(info.boot_id.clone());
        }
    }

    fn runtime(&mut self, config: &Config, observed: &Observed) {
        let runtime = &observed.runtime;
        let status = self.status();
        status.daemon_endpoints = Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: config.port }),
        });
        status.images = filled(images::listed(&runtime.images, config.most_images));
        let mut handlers: Vec<&RuntimeHandler> = runtime.handlers.iter().collect();
        handlers.sort_by(|left, right| left.name.cmp(&right.name));
        status.runtime_handlers = filled(handlers.into_iter().map(shown).collect());
        if let Some(policy) = runtime.supplemental_groups_policy {
            status.features = Some(NodeFeatures {
                supplemental_groups_policy: Some(policy),
            });
        }
    }

    fn conditions(&mut self, config: &Config, observed: &Observed) {
        let mut problems = observed.signs().problems();
        let status = self.status();
        let capacity = resources::from_api(status.capacity.as_ref());
        problems.extend(missing(&capacity, config.resources.tell_storage));
        let warning = observed.ailments.warning.as_deref();
        let readiness = Readiness::new(joined(&problems), warning);
        let conditions = status.conditions.get_or_insert_default();
        let transitions =
            conditions::refresh(conditions, observed.pressure, &readiness, observed.now);
        self.transitions = transitions;
    }
}

fn shown(handler: &RuntimeHandler) -> NodeRuntimeHandler {
    NodeRuntimeHandler {
        name: Some(handler.name.clone()),
        features: Some(NodeRuntimeHandlerFeatures {
            recursive_read_only_mounts: Some(handler.recursive_read_only_mounts),
            user_namespaces: Some(handler.user_namespaces),
        }),
    }
}

/// A node without these cannot be scheduled on.
fn missing(capacity: &Resources, storage: bool) -> Option<String> {
    let wanted = [CPU, MEMORY, PODS]
        .into_iter()
        .chain(storage.then_some(EPHEMERAL_STORAGE));
    let missing: Vec<&str> = wanted
        .filter(|name| !capacity.contains_key(*name))
        .collect();
    let list = missing.join(", ");
    (!missing.is_empty()).then(|| format!("missing node capacity for resources: {list}"))
}

/// Whether the object says that the node is ready.
pub fn is_ready(node: &Node) -> bool {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions.is_some_and(conditions::is_ready)
}

#[cfg(test)]
mod tests;
