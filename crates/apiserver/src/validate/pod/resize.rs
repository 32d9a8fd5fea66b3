//! What of a pod's resources can change while it runs.

use serde_json::{Value, json};

use super::MIRROR;
use crate::defaults::prepare::qos_class;
use crate::schema::look::{entries, items, text};
use crate::validate::errors::Errors;
use crate::validate::resources::quantity;

const LISTS: [&str; 2] = ["initContainers", "containers"];

pub(crate) fn check(pod: &Value, old: &Value, errors: &mut Errors) {
    super::spec(pod, errors);
    if let Some(words) = never(old) {
        errors.0.clear();
        errors.forbidden("", words);
        return;
    }
    quality(pod, old, errors);
    if !node_can(old) {
        errors.forbidden("spec", "Pod running on node without support for resize");
    }
    let (spec, before) = (&pod["spec"], &old["spec"]);
    whole(spec, before, errors);
    if !same_containers(spec, before, errors) {
        return;
    }
    for list in LISTS {
        let both = items(&spec[list]).iter().zip(items(&before[list]));
        for (index, (container, before)) in both.enumerate() {
            let field = format!("spec.{list}[{index}].resources");
            removed(
                &container["resources"],
                &before["resources"],
                &field,
                "",
                errors,
            );
        }
    }
    for (container, before) in items(&spec["containers"])
        .iter()
        .zip(items(&before["containers"]))
    {
        if !is_same_but_for_resources(container, before) {
            errors.forbidden("spec", "only cpu and memory resources are mutable");
        }
    }
    init_containers(spec, before, errors);
    if errors.is_empty() && without_resources(spec) != without_resources(before) {
        errors.forbidden("spec", "only cpu and memory resources are mutable");
    }
}

/// Why a pod is never resized, whatever is asked for.
fn never(old: &Value) -> Option<&'static str> {
    if old["metadata"]["annotations"].get(MIRROR).is_some() {
        return Some("static pods cannot be resized");
    }
    (old["spec"]["os"]["name"] == "windows").then_some("windows pods cannot be resized")
}

/// Who may be starved for whom was decided when the pod was made.
fn quality(pod: &Value, old: &Value, errors: &mut Errors) {
    let before = match text(&old["status"]["qosClass"]) {
        "" => qos_class(old),
        class => class.to_owned(),
    };
    if qos_class(pod) != before {
        errors.invalid(
            "spec",
            text(&pod["status"]["qosClass"]),
            "Pod QOS Class may not change as a result of resizing",
        );
    }
}

/// A node that resizes tells what its containers have.
fn node_can(old: &Value) -> bool {
    let statuses = items(&old["status"]["containerStatuses"]);
    let runs = |status: &&Value| status["state"]["running"].is_object();
    let first = statuses.iter().find(runs);
    first.is_none_or(|status| status["resources"].is_object())
}

/// The resources of the pod as a whole.
fn whole(spec: &Value, before: &Value, errors: &mut Errors) {
    let (resources, before) = (&spec["resources"], &before["resources"]);
    let is_set = |resources: &Value| {
        ["requests", "limits"]
            .iter()
            .any(|list| entries(&resources[*list]).next().is_some())
    };
    if !is_set(resources) && !is_set(before) {
        return;
    }
    if !before.is_null() && resources.is_null() {
        errors.forbidden("spec.resources", "pod-level resources cannot be removed");
        return;
    }
    removed(resources, before, "spec.resources", "pod-level ", errors);
    let same_claims = items(&resources["claims"]) == items(&before["claims"]);
    if !same_claims || !is_same_but_cpu_and_memory(resources, before) {
        errors.forbidden(
            "spec",
            "only cpu and memory resources are mutable at pod-level",
        );
    }
}

/// Containers keep their number, names and order. Whether they did.
fn same_containers(spec: &Value, before: &Value, errors: &mut Errors) -> bool {
    let found = errors.0.len();
    for list in ["containers", "initContainers"] {
        let (own, before) = (items(&spec[list]), items(&before[list]));
        if own.len() != before.len() {
            let detail = format!("{list} may not be added or removed on resize");
            errors.forbidden(format!("spec.{list}"), &detail);
            continue;
        }
        for (index, (own, before)) in own.iter().zip(before).enumerate() {
            if own["name"] != before["name"] {
                let detail = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(format!("spec.{list}[{index}].name"), &detail);
            }
        }
    }
    errors.0.len() == found
}

fn init_containers(spec: &Value, before: &Value, errors: &mut Errors) {
    let both = items(&spec["initContainers"])
        .iter()
        .zip(items(&before["initContainers"]));
    for (index, (container, before)) in both.enumerate() {
        let field = format!("spec.initContainers[{index}]");
        if !is_same_but_for_resources(container, before) {
            let detail = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.forbidden(&field, detail);
        }
        let restarts = items(&container["resizePolicy"])
            .iter()
            .any(|policy| policy["restartPolicy"] == "RestartContainer");
        if container != before && container["restartPolicy"] != "Always" && restarts {
            let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            errors.forbidden(&field, detail);
        }
    }
}

/// What was asked for may be another amount, and stays asked for.
fn removed(resources: &Value, before: &Value, field: &str, whose: &str, errors: &mut Errors) {
    for list in ["requests", "limits"] {
        let gone = entries(&before[list]).any(|(name, _)| resources[list].get(name).is_none());
        if gone {
            let detail = format!("{whose}resource {list} cannot be removed");
            errors.forbidden(format!("{field}.{list}"), &detail);
        }
    }
}

/// Whether a container differs in its cpu and memory only. Upstream lets nobody resize one that has
/// claims.
fn is_same_but_for_resources(container: &Value, before: &Value) -> bool {
    let bare = |container: &Value| {
        let mut bare = container.clone();
        bare["resources"] = json!({});
        bare
    };
    bare(container) == bare(before)
        && items(&before["resources"]["claims"]).is_empty()
        && is_same_but_cpu_and_memory(&container["resources"], &before["resources"])
}

fn is_same_but_cpu_and_memory(resources: &Value, before: &Value) -> bool {
    let others = |resources: &Value, list: &str| {
        let amounts = entries(&resources[list]);
        let others = amounts.filter(|(name, _)| !matches!(name.as_str(), "cpu" | "memory"));
        others
            .map(|(name, amount)| (name.to_owned(), quantity(amount)))
            .collect::<Vec<_>>()
    };
    ["requests", "limits"]
        .iter()
        .all(|list| others(resources, list) == others(before, list))
}

fn without_resources(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(fields) = spec.as_object_mut() {
        for name in ["resources", "containers", "initContainers"] {
            fields.remove(name);
        }
    }
    spec
}
