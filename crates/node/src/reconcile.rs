//! What an object that was there before the node must be given.

use k8s_openapi::api::core::v1::Node;
use types::Quantity;

use crate::labels::{ATTACH_DETACH, REFRESHED};
use crate::resources::{self, Resources, is_extended, is_huge_pages};

/// `existing` as this node needs it, or `None` if it is so already. `wanted` is
/// what would have been posted. Taints, the provider id and other labels stay:
/// they are the cluster's from the first registration on. `fresh`: this machine
/// has never had device plugins, so what the object says of devices is of
/// another life.
pub fn reconciled(existing: &Node, wanted: &Node, fresh: bool) -> Option<Node> {
    let mut node = existing.clone();
    let annotation = attach_detach(&mut node, wanted);
    let labels = labels(&mut node, wanted);
    let resources = amounts(&mut node, wanted, fresh);
    (annotation || labels || resources).then_some(node)
}

fn attach_detach(node: &mut Node, wanted: &Node) -> bool {
    let value = |node: &Node| {
        let annotations = node.metadata.annotations.as_ref();
        annotations.and_then(|annotations| annotations.get(ATTACH_DETACH).cloned())
    };
    let wanted = value(wanted);
    if wanted.clone().unwrap_or_default() == value(node).unwrap_or_default() {
        return false;
    }
    let annotations = node.metadata.annotations.get_or_insert_default();
    match wanted {
        Some(value) => annotations.insert(ATTACH_DETACH.to_owned(), value),
        None => annotations.remove(ATTACH_DETACH),
    };
    true
}

fn labels(node: &mut Node, wanted: &Node) -> bool {
    let labels = node.metadata.labels.get_or_insert_default();
    let mut changed = false;
    for key in REFRESHED {
        let wanted = wanted.metadata.labels.as_ref();
        let Some(value) = wanted.and_then(|labels| labels.get(key)) else {
            continue;
        };
        let before = labels.get(key).map_or("", String::as_str);
        changed |= before != value;
        if value.is_empty() {
            labels.remove(key);
        } else {
            labels.insert(key.to_owned(), value.clone());
        }
    }
    changed
}

fn amounts(node: &mut Node, wanted: &Node, fresh: bool) -> bool {
    let of = |node: &Node| {
        let status = node.status.as_ref();
        let of = |list| resources::from_api(list);
        (
            of(status.and_then(|status| status.capacity.as_ref())),
            of(status.and_then(|status| status.allocatable.as_ref())),
        )
    };
    let (before, (first_capacity, first_allocatable)) = (of(node), of(wanted));
    let (mut capacity, mut allocatable) = before.clone();
    let status = node.status.get_or_insert_default();
    if status.capacity.is_none() {
        capacity = first_capacity.clone();
    }
    if status.allocatable.is_none() {
        allocatable = first_allocatable.clone();
    }
    let mut zeroed = false;
    if fresh {
        let extended: Vec<String> = capacity
            .keys()
            .filter(|name| is_extended(name))
            .cloned()
            .collect();
        zeroed = !extended.is_empty();
        for name in extended {
            capacity.insert(name.clone(), Quantity::default());
            allocatable.insert(name, Quantity::default());
        }
    }
    take_huge_pages(&mut capacity, &first_capacity);
    take_huge_pages(&mut allocatable, &first_allocatable);
    let changed = zeroed || (&capacity, &allocatable) != (&before.0, &before.1);
    if changed {
        status.capacity = Some(resources::to_api(&capacity));
        status.allocatable = Some(resources::to_api(&allocatable));
    }
    changed
}

/// Sizes that the machine has now, with what it has of them, and no others.
fn take_huge_pages(amounts: &mut Resources, wanted: &Resources) {
    amounts.retain(|name, _| !is_huge_pages(name) || wanted.contains_key(name));
    for (name, amount) in wanted.iter().filter(|(name, _)| is_huge_pages(name)) {
        amounts.insert(name.clone(), amount.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(labels: &Value, annotations: &Value, capacity: &Value) -> Node {
        let node = json!({
            "metadata": {"name": "n1", "labels": labels, "annotations": annotations},
            "spec": {"providerID": "x"},
            "status": {"capacity": capacity, "allocatable": capacity},
        });
        serde_json::from_value(node).unwrap()
    }

    fn plain() -> Node {
        node(
            &json!({"kubernetes.io/hostname": "n1", "zone": "a"}),
            &json!({ATTACH_DETACH: "true"}),
            &json!({"cpu": "2", "hugepages-2Mi": "0"}),
        )
    }

    fn field(node: &Node, pointer: &str) -> Value {
        let value = serde_json::to_value(node).unwrap();
        value.pointer(pointer).cloned().unwrap_or(Value::Null)
    }

    #[test]
    fn an_object_that_fits_is_not_touched() {
        let mut existing = plain();
        let labels = existing.metadata.labels.as_mut().unwrap();
        labels.insert("other".to_owned(), "kept".to_owned());
        labels.remove("zone");
        assert_eq!(reconciled(&existing, &plain(), false), None);
    }

    #[test]
    fn the_attach_detach_annotation_follows_the_configuration() {
        let without = node(
            &json!({"kubernetes.io/hostname": "n1"}),
            &json!({"kept": "x"}),
            &json!({"cpu": "2", "hugepages-2Mi": "0"}),
        );
        let on = reconciled(&without, &plain(), false).unwrap();
        let annotations = json!({ATTACH_DETACH: "true", "kept": "x"});
        assert_eq!(field(&on, "/metadata/annotations"), annotations);
        let off = reconciled(&on, &without, false).unwrap();
        assert_eq!(field(&off, "/metadata/annotations"), json!({"kept": "x"}));
    }

    #[test]
    fn only_well_known_labels_are_refreshed() {
        let wanted = node(
            &json!({
                "kubernetes.io/hostname": "n2", "zone": "b",
                "topology.kubernetes.io/zone": "z1", "beta.kubernetes.io/instance-type": "",
            }),
            &json!({ATTACH_DETACH: "true"}),
            &json!({"cpu": "2", "hugepages-2Mi": "0"}),
        );
        let mut existing = plain();
        let labels = existing.metadata.labels.as_mut().unwrap();
        labels.insert(
            "beta.kubernetes.io/instance-type".to_owned(),
            "big".to_owned(),
        );
        let node = reconciled(&existing, &wanted, false).unwrap();
        assert_eq!(
            field(&node, "/metadata/labels"),
            json!({
                "kubernetes.io/hostname": "n2", "topology.kubernetes.io/zone": "z1", "zone": "a",
            })
        );
        assert_eq!(field(&node, "/spec"), json!({"providerID": "x"}));
    }

    #[test]
    fn huge_pages_are_taken_from_the_machine() {
        let mut existing = plain();
        let status = existing.status.as_mut().unwrap();
        let amounts = json!({"cpu": "4", "hugepages-1Gi": "2Gi", "example.com/gpu": "1"});
        status.capacity = serde_json::from_value(amounts).unwrap();
        let node = reconciled(&existing, &plain(), false).unwrap();
        let expected = json!({"cpu": "4", "example.com/gpu": "1", "hugepages-2Mi": "0"});
        assert_eq!(field(&node, "/status/capacity"), expected);
    }

    #[test]
    fn devices_of_another_life_are_none() {
        let mut existing = plain();
        let status = existing.status.as_mut().unwrap();
        let amounts = json!({"cpu": "2", "example.com/gpu": "1", "hugepages-2Mi": "0"});
        status.capacity = serde_json::from_value(amounts).unwrap();
        assert_eq!(reconciled(&existing, &plain(), false), None);
        let node = reconciled(&existing, &plain(), true).unwrap();
        assert_eq!(
            field(&node, "/status/capacity/example.com~1gpu"),
            json!("0")
        );
        assert_eq!(
            field(&node, "/status/allocatable/example.com~1gpu"),
            json!("0")
        );
    }

    #[test]
    fn an_object_without_amounts_gets_the_first_ones() {
        let mut existing = plain();
        existing.status = None;
        let node = reconciled(&existing, &plain(), false).unwrap();
        let first = json!({"cpu": "2", "hugepages-2Mi": "0"});
        assert_eq!(field(&node, "/status/capacity"), first);
        assert_eq!(field(&node, "/status/allocatable"), first);
    }
}
