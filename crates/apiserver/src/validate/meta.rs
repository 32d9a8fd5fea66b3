//! Metadata: what every object has.

use std::collections::BTreeSet;

use serde_json::Value;

use super::errors::Errors;
use super::names;
use crate::kinds::Kind;
use crate::schema::look::{entries, items, number, text};

const MAX_ANNOTATIONS: usize = 256 << 10;

pub(super) fn create(kind: &Kind, object: &Value, errors: &mut Errors) {
    let metadata = &object["metadata"];
    if kind.kind == "Event" {
        // Upstream's own rule for these is about the namespace alone; what holds of all
        // metadata is checked all the same.
        errors.invalid_all(
            "namespace",
            metadata["namespace"].clone(),
            names::dns_subdomain(text(&metadata["namespace"])),
        );
    }
    let rule = name_rule(kind);
    let prefix = text(&metadata["generateName"]);
    if !prefix.is_empty() {
        errors.invalid_all(
            "metadata.generateName",
            prefix,
            rule(&names::as_prefix(prefix)),
        );
    }
    match text(&metadata["name"]) {
        "" => errors.required("metadata.name", "name or generateName is required"),
        name => errors.invalid_all("metadata.name", name, rule(name)),
    }
    match (kind.namespaced, text(&metadata["namespace"])) {
        (true, "") => errors.required("metadata.namespace", ""),
        (true, name) => errors.invalid_all("metadata.namespace", name, names::dns_label(name)),
        (false, "") => {}
        (false, _) => errors.forbidden("metadata.namespace", "not allowed on this type"),
    }
    not_negative(&metadata["generation"], "metadata.generation", errors);
    common(metadata, errors);
    finalizers(metadata, errors);
    if kind.kind != "Event" {
        finalizer_names(metadata, errors);
    }
}

pub(super) fn update(object: &Value, old: &Value, errors: &mut Errors) {
    let (metadata, before) = (&object["metadata"], &old["metadata"]);
    if !before["deletionTimestamp"].is_null() {
        let known = items(&before["finalizers"]);
        let new: BTreeSet<&str> = items(&metadata["finalizers"])
            .iter()
            .filter(|name| !known.contains(name))
            .map(text)
            .collect();
        if !new.is_empty() {
            let list: Vec<String> = new.iter().map(|name| format!("{name:?}")).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            errors.forbidden("metadata.finalizers", &detail);
        }
    }
    if text(&metadata["resourceVersion"]).is_empty() {
        errors.invalid(
            "metadata.resourceVersion",
            0,
            "must be specified for an update",
        );
    }
    if number(&metadata["generation"]) < number(&before["generation"]) {
        errors.invalid(
            "metadata.generation",
            number(&metadata["generation"]),
            "must not be decremented",
        );
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if metadata[field] != before[field] {
            errors.invalid(
                format!("metadata.{field}"),
                metadata[field].clone(),
                "field is immutable",
            );
        }
    }
    common(metadata, errors);
    finalizer_names(metadata, errors);
}

fn name_rule(kind: &Kind) -> names::Rule {
    match kind.kind {
        "Namespace" | "Service" => names::dns_label,
        "CertificateSigningRequest" | "Event" => names::path_segment,
        _ => names::dns_subdomain,
    }
}

fn common(metadata: &Value, errors: &mut Errors) {
    labels(&metadata["labels"], "metadata.labels", errors);
    let mut size = 0;
    for (key, value) in entries(&metadata["annotations"]) {
        size += key.len() + text(value).len();
        // Capitals are forgiven here, and only here.
        errors.invalid_all(
            "metadata.annotations",
            key.as_str(),
            names::qualified_name(&key.to_lowercase()),
        );
    }
    if size > MAX_ANNOTATIONS {
        errors.too_long("metadata.annotations", MAX_ANNOTATIONS);
    }
    owners(&metadata["ownerReferences"], errors);
}

pub(super) fn labels(labels: &Value, field: &str, errors: &mut Errors) {
    for (key, value) in entries(labels) {
        errors.invalid_all(field, key.as_str(), names::qualified_name(key));
        errors.invalid_all(field, text(value), names::label_value(text(value)));
    }
}

fn owners(references: &Value, errors: &mut Errors) {
    const FIELD: &str = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for reference in items(references) {
        let version = text(&reference["apiVersion"]);
        if version.is_empty() || version.ends_with('/') {
            errors.invalid(
                format!("{FIELD}.apiVersion"),
                version,
                "version must not be empty",
            );
        }
        for name in ["kind", "name", "uid"] {
            if text(&reference[name]).is_empty() {
                errors.invalid(format!("{FIELD}.{name}"), "", "must not be empty");
            }
        }
        if version == "v1" && reference["kind"] == "Event" {
            errors.invalid(
                FIELD,
                reference.clone(),
                "/v1, Kind=Event is disallowed from being an owner",
            );
        }
        if reference["controller"] == true {
            let this = format!("{}/{}", text(&reference["kind"]), text(&reference["name"]));
            match &controller {
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    errors.invalid(FIELD, references.clone(), &detail);
                }
                None => controller = Some(this),
            }
        }
    }
}

fn finalizers(metadata: &Value, errors: &mut Errors) {
    let list = items(&metadata["finalizers"]);
    for name in list {
        errors.invalid_all(
            "metadata.finalizers",
            text(name),
            names::qualified_name(text(name)),
        );
    }
    if ["orphan", "foregroundDeletion"]
        .iter()
        .all(|name| list.iter().any(|found| found == name))
    {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(
            "metadata.finalizers",
            metadata["finalizers"].clone(),
            detail,
        );
    }
}

/// Kinds of the core group are stricter with finalizers.
fn finalizer_names(metadata: &Value, errors: &mut Errors) {
    for (index, name) in items(&metadata["finalizers"]).iter().map(text).enumerate() {
        errors.invalid_all(
            format!("metadata.finalizers[{index}]"),
            name,
            names::finalizer(name),
        );
    }
}

pub(super) fn not_negative(value: &Value, field: &str, errors: &mut Errors) {
    if number(value) < 0 {
        errors.invalid(field, number(value), "must be greater than or equal to 0");
    }
}
