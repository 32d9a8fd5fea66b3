//! Where a pod may run: affinity, tolerations, spread.

use serde_json::Value;

use crate::schema::look::{items, number, text};
use crate::validate::errors::Errors;
use crate::validate::{meta, names};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(affinity: &Value, errors: &mut Errors) {
    let node = &affinity["nodeAffinity"];
    if node[REQUIRED].is_object() {
        let field = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
        let terms = items(&node[REQUIRED]["nodeSelectorTerms"]);
        if terms.is_empty() {
            errors.required(&field, "must have at least one node selector term");
        }
        for (index, term) in terms.iter().enumerate() {
            node_term(term, true, &format!("{field}[{index}]"), errors);
        }
    }
    for (index, term) in items(&node[PREFERRED]).iter().enumerate() {
        let field = format!("spec.affinity.nodeAffinity.{PREFERRED}[{index}]");
        weight(term, &field, errors);
        node_term(
            &term["preference"],
            false,
            &format!("{field}.preference"),
            errors,
        );
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (index, term) in items(&affinity[kind][REQUIRED]).iter().enumerate() {
            pod_term(
                term,
                &format!("spec.affinity.{kind}.{REQUIRED}[{index}]"),
                errors,
            );
        }
        for (index, term) in items(&affinity[kind][PREFERRED]).iter().enumerate() {
            let field = format!("spec.affinity.{kind}.{PREFERRED}[{index}]");
            weight(term, &field, errors);
            pod_term(
                &term["podAffinityTerm"],
                &format!("{field}.podAffinityTerm"),
                errors,
            );
        }
    }
}

fn weight(term: &Value, field: &str, errors: &mut Errors) {
    let weight = number(&term["weight"]);
    if !(1..=100).contains(&weight) {
        errors.invalid(
            format!("{field}.weight"),
            weight,
            "must be in the range 1-100",
        );
    }
}

fn node_term(term: &Value, strict: bool, field: &str, errors: &mut Errors) {
    for (index, requirement) in items(&term["matchExpressions"]).iter().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        let values = items(&requirement["values"]);
        match text(&requirement["operator"]) {
            "Gt" | "Lt" => {
                if values.len() != 1 {
                    errors.required(
                        format!("{field}.values"),
                        "must be specified single value when `operator` is 'Lt' or 'Gt'",
                    );
                }
            }
            operator => set_operator(operator, values, &field, errors),
        }
        key_and_values(requirement, strict, &field, errors);
    }
    for (index, requirement) in items(&term["matchFields"]).iter().enumerate() {
        let field = format!("{field}.matchFields[{index}]");
        let values = items(&requirement["values"]);
        match text(&requirement["operator"]) {
            "In" | "NotIn" if values.len() == 1 => {}
            "In" | "NotIn" => {
                let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.required(format!("{field}.values"), detail);
            }
            other => errors.invalid(
                format!("{field}.operator"),
                other,
                "not a valid selector operator",
            ),
        }
        if requirement["key"] == "metadata.name" {
            for (index, value) in values.iter().map(text).enumerate() {
                errors.invalid_all(
                    format!("{field}.values[{index}]"),
                    value,
                    names::dns_subdomain(value),
                );
            }
        } else {
            errors.invalid(
                format!("{field}.key"),
                text(&requirement["key"]),
                "not a valid field selector key",
            );
        }
    }
}

/// The operators that selectors of labels have in common.
fn set_operator(operator: &str, values: &[Value], field: &str, errors: &mut Errors) {
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(
                format!("{field}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            );
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(
                format!("{field}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            );
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(
            format!("{field}.operator"),
            other,
            "not a valid selector operator",
        ),
    }
}

fn key_and_values(requirement: &Value, strict: bool, field: &str, errors: &mut Errors) {
    let key = text(&requirement["key"]);
    errors.invalid_all(format!("{field}.key"), key, names::qualified_name(key));
    for (index, value) in items(&requirement["values"])
        .iter()
        .map(text)
        .enumerate()
        .filter(|_| strict)
    {
        errors.invalid_all(
            format!("{field}.values[{index}]"),
            value,
            names::label_value(value),
        );
    }
}

fn pod_term(term: &Value, field: &str, errors: &mut Errors) {
    label_selector(
        &term["labelSelector"],
        &format!("{field}.labelSelector"),
        errors,
    );
    label_selector(
        &term["namespaceSelector"],
        &format!("{field}.namespaceSelector"),
        errors,
    );
    for name in items(&term["namespaces"]).iter().map(text) {
        errors.invalid_all(format!("{field}.namespace"), name, names::dns_label(name));
    }
    let key = text(&term["topologyKey"]);
    if key.is_empty() {
        errors.required(format!("{field}.topologyKey"), "can not be empty");
    }
    errors.invalid_all(
        format!("{field}.topologyKey"),
        key,
        names::qualified_name(key),
    );
}

pub(crate) fn label_selector(selector: &Value, field: &str, errors: &mut Errors) {
    meta::labels(
        &selector["matchLabels"],
        &format!("{field}.matchLabels"),
        errors,
    );
    for (index, requirement) in items(&selector["matchExpressions"]).iter().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        set_operator(
            text(&requirement["operator"]),
            items(&requirement["values"]),
            &field,
            errors,
        );
        key_and_values(requirement, true, &field, errors);
    }
}

pub(super) fn spread(constraints: &Value, errors: &mut Errors) {
    let all = items(constraints);
    for (index, constraint) in all.iter().enumerate() {
        let field = format!("spec.topologySpreadConstraints[{index}]");
        let skew = number(&constraint["maxSkew"]);
        if skew <= 0 {
            errors.invalid(
                format!("{field}.maxSkew"),
                skew,
                "must be greater than zero",
            );
        }
        let (key, action) = (
            text(&constraint["topologyKey"]),
            text(&constraint["whenUnsatisfiable"]),
        );
        if key.is_empty() {
            errors.required(format!("{field}.topologyKey"), "can not be empty");
        } else {
            errors.invalid_all(
                format!("{field}.topologyKey"),
                key,
                names::qualified_name(key),
            );
        }
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            errors.unsupported(
                format!("{field}.whenUnsatisfiable"),
                action,
                &["DoNotSchedule", "ScheduleAnyway"],
            );
        }
        let same = |other: &Value| {
            other["topologyKey"] == constraint["topologyKey"]
                && other["whenUnsatisfiable"] == constraint["whenUnsatisfiable"]
        };
        if all.iter().skip(index + 1).any(same) {
            errors.duplicate(
                format!("{field}.{{topologyKey, whenUnsatisfiable}}"),
                format!("{{{key}, {action}}}"),
            );
        }
        if let Some(domains) = constraint["minDomains"].as_i64() {
            if domains <= 0 {
                errors.invalid(
                    format!("{field}.minDomains"),
                    domains,
                    "must be greater than zero",
                );
            }
            if action != "DoNotSchedule" {
                let detail = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway";
                errors.invalid(format!("{field}.minDomains"), domains, detail);
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(value) = constraint[policy].as_str() {
                errors.choice(format!("{field}.{policy}"), value, &["Honor", "Ignore"]);
            }
        }
        label_selector(
            &constraint["labelSelector"],
            &format!("{field}.labelSelector"),
            errors,
        );
    }
}

pub(crate) fn tolerations(tolerations: &Value, field: &str, errors: &mut Errors) {
    for (index, toleration) in items(tolerations).iter().enumerate() {
        let field = format!("{field}[{index}]");
        let (key, value) = (text(&toleration["key"]), text(&toleration["value"]));
        let (operator, effect) = (text(&toleration["operator"]), text(&toleration["effect"]));
        if !key.is_empty() {
            errors.invalid_all(format!("{field}.key"), key, names::qualified_name(key));
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(format!("{field}.operator"), operator, detail);
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(format!("{field}.effect"), effect, detail);
        }
        match operator {
            "Equal" | "" => {
                let findings = names::label_value(value);
                if !findings.is_empty() {
                    errors.invalid(format!("{field}.operator"), value, &findings.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    errors.invalid(
                        format!("{field}.operator"),
                        value,
                        "value must be empty when `operator` is 'Exists'",
                    );
                }
            }
            "Lt" | "Gt" => errors.unsupported(
                format!("{field}.operator"),
                operator,
                &["Equal", "Exists", "Lt", "Gt"],
            ),
            other => errors.unsupported(format!("{field}.operator"), other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            errors.choice(
                format!("{field}.effect"),
                effect,
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            );
        }
    }
}
