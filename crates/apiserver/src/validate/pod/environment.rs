//! Variables, and where their values come from.

use serde_json::Value;

use crate::schema::look::{items, text};
use crate::validate::errors::Errors;
use crate::validate::names;

/// Of the pod, for variables.
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Of the pod, for files.
pub(super) const FILE_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const ONE_OF: &str = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";

pub(super) fn check(container: &Value, field: &str, errors: &mut Errors) {
    for (index, variable) in items(&container["env"]).iter().enumerate() {
        let field = format!("{field}.env[{index}]");
        match text(&variable["name"]) {
            "" => errors.required(format!("{field}.name"), ""),
            name => errors.invalid_all(format!("{field}.name"), name, names::env_name(name)),
        }
        if variable["valueFrom"].is_object() {
            value_from(variable, &format!("{field}.valueFrom"), errors);
        }
    }
    for (index, source) in items(&container["envFrom"]).iter().enumerate() {
        let own = format!("{field}.envFrom[{index}]");
        let prefix = text(&source["prefix"]);
        if !prefix.is_empty() {
            errors.invalid_all(format!("{own}.prefix"), prefix, names::env_name(prefix));
        }
        // Upstream names the list when it has nothing, or too much.
        env_from(source, &own, &format!("{field}.envFrom"), errors);
    }
}

fn env_from(source: &Value, field: &str, list: &str, errors: &mut Errors) {
    let mut found = 0;
    for kind in ["configMapRef", "secretRef"] {
        if source[kind].is_object() {
            found += 1;
            match text(&source[kind]["name"]) {
                "" => errors.required(format!("{field}.{kind}.name"), ""),
                name => errors.invalid_all(
                    format!("{field}.{kind}.name"),
                    name,
                    names::dns_subdomain(&names::as_prefix(name)),
                ),
            }
        }
    }
    match found {
        0 => errors.invalid(
            list,
            "",
            "must specify one of: `configMapRef` or `secretRef`",
        ),
        1 => {}
        _ => errors.invalid(
            list,
            "",
            "may not have more than one field specified at a time",
        ),
    }
}

fn value_from(variable: &Value, field: &str, errors: &mut Errors) {
    let from = &variable["valueFrom"];
    let mut found = 0;
    if from["fieldRef"].is_object() {
        found += 1;
        field_of_pod(
            &from["fieldRef"],
            &ENV_FIELDS,
            &format!("{field}.fieldRef"),
            errors,
        );
    }
    if from["resourceFieldRef"].is_object() {
        found += 1;
        resource(
            &from["resourceFieldRef"],
            false,
            &format!("{field}.resourceFieldRef"),
            errors,
        );
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        if from[kind].is_object() {
            found += 1;
            key_of_object(&from[kind], &format!("{field}.{kind}"), errors);
        }
    }
    if from["fileKeyRef"].is_object() {
        found += 1;
        key_of_file(&from["fileKeyRef"], &format!("{field}.fileKeyRef"), errors);
    }
    if found == 0 {
        errors.invalid(field, "", ONE_OF);
    } else if !text(&variable["value"]).is_empty() {
        errors.invalid(field, "", "may not be specified when `value` is not empty");
    } else if found > 1 {
        errors.invalid(
            field,
            "",
            "may not have more than one field specified at a time",
        );
    }
}

fn key_of_object(selector: &Value, field: &str, errors: &mut Errors) {
    let name = text(&selector["name"]);
    errors.invalid_all(format!("{field}.name"), name, names::dns_subdomain(name));
    match text(&selector["key"]) {
        "" => errors.required(format!("{field}.key"), ""),
        key => errors.invalid_all(format!("{field}.key"), key, names::config_key(key)),
    }
}

fn key_of_file(selector: &Value, field: &str, errors: &mut Errors) {
    match text(&selector["key"]) {
        "" => errors.required(format!("{field}.key"), ""),
        key => errors.invalid_all(format!("{field}.key"), key, names::env_name(key)),
    }
    match text(&selector["volumeName"]) {
        "" => errors.required(format!("{field}.volumeName"), ""),
        name => errors.invalid_all(format!("{field}.volumeName"), name, names::dns_label(name)),
    }
    if text(&selector["path"]).is_empty() {
        errors.required(format!("{field}.path"), "");
    }
}

/// `metadata.labels['a']` and what else of the pod can be told.
pub(super) fn field_of_pod(selector: &Value, known: &[&str], field: &str, errors: &mut Errors) {
    if text(&selector["apiVersion"]).is_empty() {
        errors.required(format!("{field}.apiVersion"), "");
        return;
    }
    let path = text(&selector["fieldPath"]);
    if path.is_empty() {
        errors.required(format!("{field}.fieldPath"), "");
        return;
    }
    if let Some((parent, key)) = path
        .strip_suffix("']")
        .and_then(|path| path.split_once("['"))
    {
        match parent {
            "metadata.annotations" => errors.invalid_all(
                field,
                key.to_lowercase(),
                names::qualified_name(&key.to_lowercase()),
            ),
            "metadata.labels" => errors.invalid_all(field, key, names::qualified_name(key)),
            _ => not_a_label(path, field, errors),
        }
        return;
    }
    if !ENV_FIELDS.contains(&path) && !FILE_FIELDS.contains(&path) {
        not_a_label(path, field, errors);
    } else if !known.contains(&path) {
        errors.unsupported(format!("{field}.fieldPath"), path, known);
    }
}

fn not_a_label(path: &str, field: &str, errors: &mut Errors) {
    let detail = format!("error converting fieldPath: field label not supported: {path}");
    errors.invalid(format!("{field}.fieldPath"), path, &detail);
}

/// An amount that a container has; a file must say which container.
pub(super) fn resource(selector: &Value, in_file: bool, field: &str, errors: &mut Errors) {
    let name = text(&selector["resource"]);
    let huge = ["requests.hugepages-", "limits.hugepages-"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    if in_file && text(&selector["containerName"]).is_empty() {
        errors.required(format!("{field}.containerName"), "");
    } else if name.is_empty() {
        errors.required(format!("{field}.resource"), "");
    } else if !RESOURCES.contains(&name) && !huge {
        errors.unsupported(format!("{field}.resource"), name, &RESOURCES);
    }
    let allowed: &[&str] = match name.split_once('.').map_or("", |(_, resource)| resource) {
        "cpu" => &["1m", "1"],
        "" => return,
        _ => &[
            "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
        ],
    };
    let divisor = text(&selector["divisor"]);
    if !matches!(divisor, "" | "0") && !allowed.contains(&divisor) {
        let detail = match allowed {
            [thousandth, one] => format!(
                "only divisor's values {thousandth} and {one} are supported with the cpu resource"
            ),
            all => {
                let kind = if name.ends_with("memory") {
                    "memory"
                } else if huge {
                    "hugepages"
                } else {
                    "local ephemeral storage"
                };
                format!(
                    "only divisor's values {} are supported with the {kind} resource",
                    all.join(", ")
                )
            }
        };
        errors.invalid(format!("{field}.divisor"), name, &detail);
    }
}
