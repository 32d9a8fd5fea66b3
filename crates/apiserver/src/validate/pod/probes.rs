//! Probes and hooks: one thing to do each, and numbers that make sense.

use serde_json::Value;

use crate::schema::look::{items, number, text};
use crate::validate::errors::Errors;
use crate::validate::{meta, names};

pub(super) fn check(container: &Value, field: &str, spec: &Value, errors: &mut Errors) {
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    for name in ["postStart", "preStop"] {
        let hook = &container["lifecycle"][name];
        if hook.is_object() {
            handler(hook, grace, &format!("{field}.lifecycle.{name}"), errors);
        }
    }
    if let Some(signal) = container["lifecycle"]["stopSignal"].as_str() {
        let field = format!("{field}.lifecycle.stopSignal");
        if spec["os"].is_null() {
            errors.forbidden(
                &field,
                "may not be set for containers with empty `spec.os.name`",
            );
        }
        if !signal.starts_with("SIG") {
            errors.invalid(field, signal, "not a valid stop signal");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let found = &container[name];
        if found.is_object() {
            probe(
                found,
                name == "readinessProbe",
                grace,
                &format!("{field}.{name}"),
                errors,
            );
        }
    }
}

fn probe(probe: &Value, readiness: bool, grace: Option<i64>, field: &str, errors: &mut Errors) {
    handler(probe, grace, field, errors);
    for name in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        meta::not_negative(&probe[name], &format!("{field}.{name}"), errors);
    }
    let own = probe["terminationGracePeriodSeconds"].as_i64();
    if let Some(seconds) = own.filter(|seconds| *seconds <= 0) {
        errors.invalid(
            format!("{field}.terminationGracePeriodSeconds"),
            seconds,
            "must be greater than 0",
        );
    }
    if readiness {
        if let Some(seconds) = own {
            errors.invalid(
                format!("{field}.terminationGracePeriodSeconds"),
                seconds,
                "must not be set for readinessProbes",
            );
        }
    } else if number(&probe["successThreshold"]) != 1 {
        errors.invalid(
            format!("{field}.successThreshold"),
            number(&probe["successThreshold"]),
            "must be 1",
        );
    }
}

fn handler(found: &Value, grace: Option<i64>, field: &str, errors: &mut Errors) {
    let mut handlers = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"]
        .into_iter()
        .filter(|name| found[*name].is_object());
    let Some(first) = handlers.next() else {
        errors.required(field, "must specify a handler type");
        return;
    };
    let (action, own) = (&found[first], format!("{field}.{first}"));
    match first {
        "exec" if items(&action["command"]).is_empty() => {
            errors.required(format!("{own}.command"), "");
        }
        "httpGet" => http_get(action, &own, errors),
        "tcpSocket" | "grpc" => port_or_name(&action["port"], &format!("{own}.port"), errors),
        "sleep" => {
            let seconds = number(&action["seconds"]);
            if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
                let detail = format!(
                    "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                );
                errors.invalid(own, seconds, &detail);
            }
        }
        _ => {}
    }
    for other in handlers {
        errors.forbidden(
            format!("{field}.{other}"),
            "may not specify more than 1 handler type",
        );
    }
}

fn http_get(action: &Value, field: &str, errors: &mut Errors) {
    if text(&action["path"]).is_empty() {
        errors.required(format!("{field}.path"), "");
    }
    port_or_name(&action["port"], &format!("{field}.port"), errors);
    let scheme = text(&action["scheme"]);
    if !["HTTP", "HTTPS"].contains(&scheme) {
        errors.unsupported(format!("{field}.scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in items(&action["httpHeaders"]) {
        let name = text(&header["name"]);
        errors.invalid_all(
            format!("{field}.httpHeaders"),
            name,
            names::header_name(name),
        );
    }
}

pub(crate) fn port_or_name(port: &Value, field: &str, errors: &mut Errors) {
    match port {
        Value::String(name) => errors.invalid_all(field, name.as_str(), names::port_name(name)),
        other => errors.invalid_all(field, number(other), names::port_number(number(other))),
    }
}
