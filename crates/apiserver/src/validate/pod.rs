//! Pods: the spec as a whole; its parts are the modules.

mod containers;
mod environment;
mod probes;
pub(super) mod resize;
mod scheduling;
mod security;
pub(super) mod status;
pub(super) mod update;
mod volumes;

use std::net::IpAddr;

use serde_json::Value;

pub(super) use probes::port_or_name;
pub(super) use scheduling::{label_selector, tolerations};
pub(super) use volumes::host_path;

use super::errors::Errors;
use super::{meta, names, resources};
use crate::schema::look::{entries, items, text};

const MIRROR: &str = "kubernetes.io/config.mirror";

/// What only a new pod may not say.
pub(super) fn create(pod: &Value, errors: &mut Errors) {
    let spec = &pod["spec"];
    if !items(&spec["ephemeralContainers"]).is_empty() {
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    if !text(&spec["nodeName"]).is_empty() && !items(&spec["schedulingGates"]).is_empty() {
        errors.forbidden(
            "spec.nodeName",
            "cannot be set until all schedulingGates have been cleared",
        );
    }
}

/// The spec, and what the annotations say of it.
pub(super) fn spec(pod: &Value, errors: &mut Errors) {
    let spec = &pod["spec"];
    mirror(pod, errors);
    if spec["terminationGracePeriodSeconds"].is_null() {
        errors.required("spec.terminationGracePeriodSeconds", "");
    }
    let volumes = volumes::check(pod, errors);
    containers::check(spec, &volumes, errors);
    let policies = ["Always", "OnFailure", "Never"];
    errors.choice(
        "spec.restartPolicy",
        text(&spec["restartPolicy"]),
        &policies,
    );
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.choice("spec.dnsPolicy", text(&spec["dnsPolicy"]), &policies);
    meta::labels(&spec["nodeSelector"], "spec.nodeSelector", errors);
    security::pod(spec, errors);
    scheduling::affinity(&spec["affinity"], errors);
    dns_config(spec, errors);
    gates(spec, errors);
    scheduling::spread(&spec["topologySpreadConstraints"], errors);
    named(spec, errors);
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64() {
        errors.invalid_all(
            "spec.activeDeadlineSeconds",
            seconds,
            names::in_range(seconds, 1, i32::MAX.into()),
        );
    }
    tolerations(&spec["tolerations"], "spec.tolerations", errors);
    host_aliases(&spec["hostAliases"], errors);
    if let Some(policy) = spec["preemptionPolicy"].as_str() {
        errors.choice(
            "spec.preemptionPolicy",
            policy,
            &["PreemptLowerPriority", "Never"],
        );
    }
    for (name, amount) in entries(&spec["overhead"]) {
        resources::amount_of(name, amount, &format!("spec.overhead[{name}]"), errors);
    }
    if let Some(system) = spec["os"]["name"].as_str() {
        errors.choice("spec.os.name", system, &["linux", "windows"]);
    } else if spec["os"].is_object() {
        errors.required("spec.os.name", "cannot be empty");
    }
    tokens_without_account(spec, errors);
}

/// The mirror of a static pod is on a node.
fn mirror(pod: &Value, errors: &mut Errors) {
    let annotation = pod["metadata"]["annotations"].get(MIRROR);
    if let Some(value) = annotation.filter(|_| text(&pod["spec"]["nodeName"]).is_empty()) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(
            format!("metadata.annotations[{MIRROR}]"),
            text(value),
            detail,
        );
    }
}

fn named(spec: &Value, errors: &mut Errors) {
    let rules: [(&str, names::Rule); 6] = [
        ("serviceAccountName", names::dns_subdomain),
        ("nodeName", names::dns_subdomain),
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
        ("priorityClassName", names::dns_subdomain),
        ("runtimeClassName", names::dns_subdomain),
    ];
    for (field, rule) in rules {
        let name = text(&spec[field]);
        if !name.is_empty() {
            errors.invalid_all(format!("spec.{field}"), name, rule(name));
        }
    }
}

fn dns_config(spec: &Value, errors: &mut Errors) {
    let config = &spec["dnsConfig"];
    let servers = items(&config["nameservers"]);
    if spec["dnsPolicy"] == "None" {
        if config.is_null() {
            errors.required(
                "spec.dnsConfig",
                "must provide `dnsConfig` when `dnsPolicy` is None",
            );
            return;
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required("spec.dnsConfig.nameservers", detail);
            return;
        }
    }
    if servers.len() > 3 {
        errors.invalid(
            "spec.dnsConfig.nameservers",
            config["nameservers"].clone(),
            "must not have more than 3 nameservers",
        );
    }
    for (index, server) in servers.iter().enumerate() {
        address(
            text(server),
            &format!("spec.dnsConfig.nameservers[{index}]"),
            errors,
        );
    }
    let searches: Vec<&str> = items(&config["searches"]).iter().map(text).collect();
    if searches.len() > 32 {
        errors.invalid(
            "spec.dnsConfig.searches",
            config["searches"].clone(),
            "must not have more than 32 search paths",
        );
    }
    if searches.join(" ").len() > 2048 {
        let detail =
            "must not have more than 2048 characters (including spaces) in the search list";
        errors.invalid(
            "spec.dnsConfig.searches",
            config["searches"].clone(),
            detail,
        );
    }
    for (index, search) in searches
        .iter()
        .enumerate()
        .filter(|(_, search)| **search != ".")
    {
        let search = search.trim_end_matches('.');
        errors.invalid_all(
            format!("spec.dnsConfig.searches[{index}]"),
            search,
            names::dns_search(search),
        );
    }
    for (index, option) in items(&config["options"]).iter().enumerate() {
        if text(&option["name"]).is_empty() {
            errors.required(
                format!("spec.dnsConfig.options[{index}]"),
                "must not be empty",
            );
        }
    }
}

fn gates(spec: &Value, errors: &mut Errors) {
    for (index, gate) in items(&spec["readinessGates"]).iter().enumerate() {
        let name = text(&gate["conditionType"]);
        errors.invalid_all(
            format!("spec.readinessGates[{index}].conditionType"),
            name,
            names::qualified_name(name),
        );
    }
    let mut seen = Vec::new();
    for (index, gate) in items(&spec["schedulingGates"]).iter().enumerate() {
        let (field, name) = (
            format!("spec.schedulingGates[{index}]"),
            text(&gate["name"]),
        );
        errors.invalid_all(&field, name, names::qualified_name(name));
        if seen.contains(&name) {
            errors.duplicate(field, name);
        }
        seen.push(name);
    }
}

fn host_aliases(aliases: &Value, errors: &mut Errors) {
    for (index, alias) in items(aliases).iter().enumerate() {
        let field = format!("spec.hostAliases[{index}]");
        address(text(&alias["ip"]), &format!("{field}.ip"), errors);
        for (index, name) in items(&alias["hostnames"]).iter().map(text).enumerate() {
            errors.invalid_all(
                format!("{field}.hostnames[{index}]"),
                name,
                names::dns_subdomain(name),
            );
        }
    }
}

/// A token is of a service account.
fn tokens_without_account(spec: &Value, errors: &mut Errors) {
    if !text(&spec["serviceAccountName"]).is_empty() {
        return;
    }
    for (index, volume) in items(&spec["volumes"]).iter().enumerate() {
        for (source_index, source) in items(&volume["projected"]["sources"]).iter().enumerate() {
            if source["serviceAccountToken"].is_object() {
                let field = format!(
                    "spec.volumes[{index}].projected.sources[{source_index}].serviceAccountToken"
                );
                errors.forbidden(
                    field,
                    "must not be specified when serviceAccountName is not set",
                );
            }
        }
    }
}

/// An address of IPv4 or IPv6.
pub(super) fn address(found: &str, field: &str, errors: &mut Errors) {
    if found.parse::<IpAddr>().is_err() {
        errors.invalid(
            field,
            found,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        );
    }
}
