//! Quantities of resources: names, amounts, and requests within limits.

use serde_json::Value;
use types::Quantity;

use super::errors::Errors;
use super::names;
use crate::schema::look::{entries, text};

/// What a container asks for.
pub(super) fn container(resources: &Value, field: &str, errors: &mut Errors) {
    let (limits, requests) = (&resources["limits"], &resources["requests"]);
    for (name, amount) in entries(limits) {
        let field = format!("{field}.limits[{name}]");
        container_resource(name, &field, errors);
        amount_of(name, amount, &field, errors);
    }
    for (name, amount) in entries(requests) {
        let own = format!("{field}.requests[{name}]");
        container_resource(name, &own, errors);
        amount_of(name, amount, &own, errors);
        within_limit(name, amount, limits, field, errors);
    }
    let asks = |fits: fn(&str) -> bool| {
        entries(limits)
            .chain(entries(requests))
            .any(|(name, _)| fits(name))
    };
    if asks(is_huge_pages) && !asks(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(field, "HugePages require cpu or memory");
    }
}

fn within_limit(name: &str, request: &Value, limits: &Value, field: &str, errors: &mut Errors) {
    let shared = is_native(name) && !is_huge_pages(name);
    let Some(limit) = limits.get(name) else {
        if !shared {
            errors.required(
                format!("{field}.limits"),
                "Limit must be set for non overcommitable resources",
            );
        }
        return;
    };
    let (amount, most) = (quantity(request), quantity(limit));
    if amount != most && !shared {
        let detail = format!("must be equal to {name} limit of {}", text(limit));
        errors.invalid(format!("{field}.requests"), text(request), &detail);
    } else if amount > most {
        let detail = format!(
            "must be less than or equal to {name} limit of {}",
            text(limit)
        );
        errors.invalid(format!("{field}.requests"), text(request), &detail);
    }
}

/// The name of a resource that a container may have.
fn container_resource(name: &str, field: &str, errors: &mut Errors) {
    let findings = names::qualified_name(name);
    if !findings.is_empty() {
        errors.invalid_all(field, name, findings);
        return;
    }
    if name.contains('/') {
        if !is_native(name) && name.starts_with("requests.") {
            errors.invalid(
                field,
                name,
                "doesn't follow extended resource name standard",
            );
        }
    } else if !is_standard(name) && !is_huge_pages(name) {
        errors.invalid(
            field,
            name,
            "must be a standard resource type or fully qualified",
        );
        errors.invalid(field, name, "must be a standard resource for containers");
    }
}

/// An amount of a resource.
pub(super) fn amount_of(name: &str, amount: &Value, field: &str, errors: &mut Errors) {
    let amount = quantity(amount);
    if amount.sign() < 0 {
        errors.invalid(
            field,
            amount.to_string(),
            "must be greater than or equal to 0",
        );
    }
    let whole = !is_native(name) || matches!(name, "pods" | "configmaps" | "secrets" | "services");
    if whole && amount.milli_value() % 1000 != 0 {
        errors.invalid(field, amount.to_string(), "must be an integer");
    }
}

/// An amount that is more than nothing.
pub(super) fn positive(amount: &Value, field: &str, errors: &mut Errors) {
    if quantity(amount).sign() <= 0 {
        errors.invalid(field, text(amount), "must be greater than zero");
    }
}

pub(super) fn quantity(amount: &Value) -> Quantity {
    text(amount).parse().unwrap_or_default()
}

fn is_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Of Kubernetes itself: without a domain, or with its own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}
