//! Nodes: taints, amounts, addresses, and what does not change.

use std::collections::BTreeSet;

use serde_json::Value;

use super::errors::Errors;
use super::{names, resources};
use crate::schema::look::{entries, items, text};

pub(super) fn check(object: &Value, errors: &mut Errors) {
    taints(&object["spec"]["taints"], errors);
    amounts(object, errors);
    let ranges = items(&object["spec"]["podCIDRs"]);
    for (index, range) in ranges.iter().enumerate() {
        if !is_cidr(text(range)) {
            let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.invalid(format!("spec.podCIDRs[{index}]"), text(range), detail);
        }
    }
    let families: BTreeSet<bool> = ranges
        .iter()
        .map(|range| text(range).contains(':'))
        .collect();
    if ranges.len() > families.len() {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.invalid("spec.podCIDRs", object["spec"]["podCIDRs"].clone(), detail);
    }
}

pub(super) fn update(object: &Value, old: &Value, errors: &mut Errors) {
    amounts(object, errors);
    let mut seen: Vec<&Value> = Vec::new();
    for (index, address) in items(&object["status"]["addresses"]).iter().enumerate() {
        if seen.contains(&address) {
            // As upstream prints its own type.
            let shown = format!(
                "{{\"Type\":{},\"Address\":{}}}",
                address["type"], address["address"]
            );
            errors.duplicate_shown(format!("status.addresses[{index}]"), &shown, "");
        }
        seen.push(address);
    }
    let (spec, before) = (&object["spec"], &old["spec"]);
    if !items(&before["podCIDRs"]).is_empty() && spec["podCIDRs"] != before["podCIDRs"] {
        errors.forbidden(
            "spec.podCIDRs",
            "node updates may not change podCIDR except from \"\" to valid",
        );
    }
    if !text(&before["providerID"]).is_empty() && spec["providerID"] != before["providerID"] {
        errors.forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        );
    }
    taints(&spec["taints"], errors);
}

/// Upstream speaks of them as part of the metadata.
fn taints(taints: &Value, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, taint) in items(taints).iter().enumerate() {
        let field = format!("metadata.taints[{index}]");
        let (key, value, effect) = (
            text(&taint["key"]),
            text(&taint["value"]),
            text(&taint["effect"]),
        );
        errors.invalid_all(format!("{field}.key"), key, names::qualified_name(key));
        let findings = names::label_value(value);
        if !findings.is_empty() {
            errors.invalid(format!("{field}.value"), value, &findings.join(";"));
        }
        errors.choice(
            format!("{field}.effect"),
            effect,
            &["NoSchedule", "PreferNoSchedule", "NoExecute"],
        );
        if !seen.insert((key, effect)) {
            // As upstream prints its own type.
            let shown = format!(
                "{{\"Key\":{key:?},\"Value\":{value:?},\"Effect\":{effect:?},\"TimeAdded\":null}}"
            );
            errors.duplicate_shown(
                field,
                &shown,
                "taints must be unique by key and effect pair",
            );
        }
    }
}

fn amounts(object: &Value, errors: &mut Errors) {
    for list in ["capacity", "allocatable"] {
        for (name, amount) in entries(&object["status"][list]) {
            resources::amount_of(name, amount, &format!("status.{list}.{name}"), errors);
        }
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let Ok(address) = address.parse::<std::net::IpAddr>() else {
        return false;
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}
