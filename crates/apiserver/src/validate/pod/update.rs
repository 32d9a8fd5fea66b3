//! What of a pod can change after it was made: very little.

use serde_json::{Map, Value};

use super::MIRROR;
use crate::schema::look::{items, text};
use crate::validate::errors::Errors;
use crate::validate::names;

const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(crate) fn check(pod: &Value, old: &Value, errors: &mut Errors) {
    super::spec(pod, errors);
    annotations(pod, old, errors);
    let (spec, before) = (&pod["spec"], &old["spec"]);
    for list in ["containers", "initContainers"] {
        if items(&spec[list]).len() != items(&before[list]).len() {
            errors.forbidden(
                format!("spec.{list}"),
                "pod updates may not add or remove containers",
            );
            return;
        }
    }
    if !deadline(spec, before, errors) {
        return;
    }
    tolerations(spec, before, errors);
    gates(spec, before, errors);
    let munged = with_what_may_change(spec, before);
    if munged != *before {
        let mut changes = Vec::new();
        differences("spec", before, &munged, &mut changes);
        let detail = format!(
            "pod updates may not change fields other than {CHANGEABLE}\n{}",
            changes.join("\n")
        );
        errors.forbidden("spec", &detail);
    }
}

pub(crate) fn ephemeral(pod: &Value, old: &Value, errors: &mut Errors) {
    super::spec(pod, errors);
    annotations(pod, old, errors);
    if old["metadata"]["annotations"].get(MIRROR).is_some() {
        errors.0.clear();
        errors.forbidden("", "static pods do not support ephemeral containers");
        return;
    }
    let now = items(&pod["spec"]["ephemeralContainers"]);
    for container in items(&old["spec"]["ephemeralContainers"]) {
        let name = text(&container["name"]);
        let detail = match now.iter().find(|other| other["name"] == container["name"]) {
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
            Some(other) if other != container => {
                let mut changes = Vec::new();
                differences("", container, other, &mut changes);
                format!(
                    "existing ephemeral containers {name:?} may not be changed\n{}",
                    changes.join("\n")
                )
            }
            Some(_) => continue,
        };
        errors.forbidden("spec.ephemeralContainers", &detail);
    }
}

/// Whether the rest is worth a look.
fn deadline(spec: &Value, before: &Value, errors: &mut Errors) -> bool {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    match (
        spec["activeDeadlineSeconds"].as_i64(),
        before["activeDeadlineSeconds"].as_i64(),
    ) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            errors.invalid_all(FIELD, now, names::in_range(now, 0, i32::MAX.into()));
            false
        }
        (Some(now), Some(then)) if then < now => {
            errors.invalid(FIELD, now, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            errors.invalid(
                FIELD,
                Value::Null,
                "must not update from a positive integer to nil value",
            );
            true
        }
        _ => true,
    }
}

fn tolerations(spec: &Value, before: &Value, errors: &mut Errors) {
    let but_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration
            .as_object_mut()
            .map(|fields| fields.remove("tolerationSeconds"));
        toleration
    };
    let now: Vec<Value> = items(&spec["tolerations"])
        .iter()
        .map(but_seconds)
        .collect();
    if items(&before["tolerations"])
        .iter()
        .any(|old| !now.contains(&but_seconds(old)))
    {
        errors.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
}

fn gates(spec: &Value, before: &Value, errors: &mut Errors) {
    let known = items(&before["schedulingGates"]);
    for (index, gate) in items(&spec["schedulingGates"]).iter().enumerate() {
        if !known.contains(gate) {
            let detail = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                text(&gate["name"])
            );
            errors.forbidden(format!("spec.schedulingGates[{index}].name"), &detail);
        }
    }
}

/// The new spec with the old values of what may change: the rest must be equal.
fn with_what_may_change(spec: &Value, before: &Value) -> Value {
    let mut munged = spec.clone();
    for list in ["containers", "initContainers"] {
        let images: Vec<Value> = items(&before[list])
            .iter()
            .map(|container| container["image"].clone())
            .collect();
        let containers = munged.get_mut(list).and_then(Value::as_array_mut);
        for (container, image) in containers.into_iter().flatten().zip(images) {
            container["image"] = image;
        }
    }
    let mut allowed = vec!["activeDeadlineSeconds", "schedulingGates", "tolerations"];
    let grace = |spec: &Value| spec["terminationGracePeriodSeconds"].as_i64();
    if grace(before).is_some_and(|seconds| seconds < 0) && grace(spec) == Some(1) {
        allowed.push("terminationGracePeriodSeconds");
    }
    if !items(&before["schedulingGates"]).is_empty() {
        // A pod that is held back may still be told where to go.
        allowed.extend(["nodeSelector", "affinity"]);
    }
    if let Value::Object(fields) = &mut munged {
        for name in allowed {
            match before.get(name) {
                Some(value) => drop(fields.insert(name.to_owned(), value.clone())),
                None => drop(fields.remove(name)),
            }
        }
    }
    munged
}

pub(super) fn annotations(pod: &Value, old: &Value, errors: &mut Errors) {
    let (now, before) = (
        &pod["metadata"]["annotations"],
        &old["metadata"]["annotations"],
    );
    let field = format!("metadata.annotations[{MIRROR}]");
    match (now.get(MIRROR), before.get(MIRROR)) {
        (now, Some(before)) if now != Some(before) => {
            errors.forbidden(field, "may not remove or update mirror pod annotation");
        }
        (Some(_), None) => errors.forbidden(field, "may not add mirror pod annotation"),
        _ => {}
    }
    // Upstream looks at it twice.
    super::mirror(pod, errors);
}

/// `  spec.hostname: "a" -> "b"`, one for each place that differs.
fn differences(path: &str, before: &Value, now: &Value, found: &mut Vec<String>) {
    match (before, now) {
        (left, right) if left == right => {}
        (Value::Object(left), Value::Object(right)) => {
            let names = left
                .keys()
                .chain(right.keys().filter(|name| !left.contains_key(*name)));
            for name in names {
                let value = |map: &Map<String, Value>| map.get(name).cloned().unwrap_or_default();
                differences(
                    &format!("{path}.{name}"),
                    &value(left),
                    &value(right),
                    found,
                );
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differences(&format!("{path}[{index}]"), left, right, found);
            }
        }
        (left, right) => found.push(format!("  {path}: {left} -> {right}")),
    }
}
