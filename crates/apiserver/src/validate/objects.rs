//! Namespaces, configMaps, secrets, services, events, leases, runtime classes.

use std::collections::BTreeSet;

use base64::Engine as _;
use serde_json::Value;

use super::errors::Errors;
use super::{meta, names, pod, resources};
use crate::schema::look::{entries, items, number, text};

/// All of a configMap's or a secret's data together.
const MAX_DATA: usize = 1 << 20;
const FROZEN: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(object: &Value, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in entries(&object["data"]) {
        keys("data", key, errors);
        if object["binaryData"].get(key).is_some() {
            errors.invalid(
                format!("data[{key}]"),
                key.as_str(),
                "duplicate of key present in binaryData",
            );
        }
        size += text(value).len();
    }
    for (key, value) in entries(&object["binaryData"]) {
        keys("binaryData", key, errors);
        size += decoded(value).len();
    }
    if size > MAX_DATA {
        errors.too_long("[]", MAX_DATA);
    }
}

pub(super) fn secret(object: &Value, errors: &mut Errors) {
    let data = &object["data"];
    let mut size = 0;
    for (key, value) in entries(data) {
        keys("data", key, errors);
        size += decoded(value).len();
    }
    if size > MAX_DATA {
        errors.too_long("data", MAX_DATA);
    }
    let mut require = |key: &str, there: bool| {
        if !there {
            errors.required(format!("data[{key}]"), "");
        }
    };
    let has = |key: &str| data.get(key).is_some();
    match text(&object["type"]) {
        "kubernetes.io/service-account-token" => {
            let name = object["metadata"]["annotations"].get("kubernetes.io/service-account.name");
            if name.is_none_or(|name| text(name).is_empty()) {
                errors.required(
                    "metadata.annotations[kubernetes.io/service-account.name]",
                    "",
                );
            }
        }
        "kubernetes.io/dockercfg" => docker_config(data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => docker_config(data, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            require("username", false);
            require("password", false);
        }
        "kubernetes.io/ssh-auth" => {
            require("ssh-privatekey", !text(&data["ssh-privatekey"]).is_empty());
        }
        "kubernetes.io/tls" => {
            require("tls.crt", has("tls.crt"));
            require("tls.key", has("tls.key"));
        }
        _ => {}
    }
}

fn docker_config(data: &Value, key: &str, errors: &mut Errors) {
    let Some(value) = data.get(key) else {
        errors.required(format!("data[{key}]"), "");
        return;
    };
    let bytes = decoded(value);
    if let Err(error) = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes) {
        let detail = match bytes.trim_ascii_start().first() {
            None => "unexpected end of JSON input".to_owned(),
            Some(b'{') => error.to_string(),
            Some(first) => format!(
                "invalid character '{}' looking for beginning of value",
                char::from(*first)
            ),
        };
        errors.invalid(
            format!("data[{key}]"),
            "<secret contents redacted>",
            &detail,
        );
    }
}

/// What does not change in configMaps and secrets.
pub(super) fn frozen(object: &Value, old: &Value, errors: &mut Errors) {
    super::same(object, old, "type", errors);
    if old["immutable"] != true {
        return;
    }
    if object["immutable"] != true {
        errors.forbidden("immutable", FROZEN);
    }
    for field in ["data", "binaryData"] {
        if object[field] != old[field] {
            errors.forbidden(field, FROZEN);
        }
    }
}

fn keys(field: &str, key: &str, errors: &mut Errors) {
    errors.invalid_all(format!("{field}[{key}]"), key, names::config_key(key));
}

fn decoded(value: &Value) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD
        .decode(text(value))
        .unwrap_or_default()
}

pub(super) fn namespace(object: &Value, errors: &mut Errors) {
    for name in items(&object["spec"]["finalizers"]) {
        let name = text(name);
        errors.invalid_all("spec.finalizers", name, names::qualified_name(name));
        errors.invalid_all("spec.finalizers", name, names::finalizer(name));
    }
}

pub(super) fn namespace_status(object: &Value, errors: &mut Errors) {
    let phase = text(&object["status"]["phase"]);
    let (wanted, detail) = if object["metadata"]["deletionTimestamp"].is_null() {
        (
            "Active",
            "may only be 'Active' if `deletionTimestamp` is empty",
        )
    } else {
        (
            "Terminating",
            "may only be 'Terminating' if `deletionTimestamp` is not empty",
        )
    };
    if phase != wanted {
        errors.invalid("status.Phase", phase, detail);
    }
}

pub(super) fn service(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    let kind = text(&spec["type"]);
    let ports = items(&spec["ports"]);
    let headless = items(&spec["clusterIPs"])
        .first()
        .is_some_and(|first| first == "None")
        || spec["clusterIP"] == "None";
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.required("spec.ports", "");
    }
    if headless && matches!(kind, "LoadBalancer" | "NodePort") {
        let detail = format!("may not be set to 'None' for {kind} services");
        errors.invalid("spec.clusterIPs[0]", "None", &detail);
    }
    if kind == "ExternalName" {
        match text(&spec["externalName"]).trim_end_matches('.') {
            "" => errors.required("spec.externalName", ""),
            name => errors.invalid_all("spec.externalName", name, names::dns_subdomain(name)),
        }
    }
    service_ports(ports, kind, errors);
    meta::labels(&spec["selector"], "spec.selector", errors);
    errors.choice(
        "spec.sessionAffinity",
        text(&spec["sessionAffinity"]),
        &["ClientIP", "None"],
    );
    errors.choice(
        "spec.type",
        kind,
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    );
    if !spec["allocateLoadBalancerNodePorts"].is_null() && kind != "LoadBalancer" {
        errors.forbidden(
            "spec.allocateLoadBalancerNodePorts",
            "may only be used when `type` is 'LoadBalancer'",
        );
    }
    for (index, address) in items(&spec["externalIPs"]).iter().enumerate() {
        pod::address(text(address), &format!("spec.externalIPs[{index}]"), errors);
    }
}

fn service_ports(ports: &[Value], kind: &str, errors: &mut Errors) {
    let (mut by_name, mut by_number, mut by_node) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let field = format!("spec.ports[{index}]");
        let (name, protocol) = (text(&port["name"]), text(&port["protocol"]));
        if name.is_empty() && ports.len() > 1 {
            errors.required(format!("{field}.name"), "");
        } else if !name.is_empty() {
            errors.invalid_all(format!("{field}.name"), name, names::dns_label(name));
            if !by_name.insert(name) {
                errors.duplicate(format!("{field}.name"), name);
            }
        }
        let number_of = number(&port["port"]);
        errors.invalid_all(
            format!("{field}.port"),
            number_of,
            names::port_number(number_of),
        );
        errors.choice(
            format!("{field}.protocol"),
            protocol,
            &["SCTP", "TCP", "UDP"],
        );
        pod::port_or_name(&port["targetPort"], &format!("{field}.targetPort"), errors);
        let node_port = number(&port["nodePort"]);
        if node_port != 0 && kind == "ClusterIP" {
            errors.forbidden(
                format!("{field}.nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            );
        }
        if node_port != 0 && !by_node.insert((protocol, node_port)) {
            errors.duplicate(format!("{field}.nodePort"), node_port);
        }
        if !by_number.insert((protocol, number_of)) {
            // As upstream prints its own type.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol:?},\"AppProtocol\":null,\"Port\":{number_of},\"TargetPort\":0,\"NodePort\":0}}"
            );
            errors.duplicate_shown(field, &shown, "");
        }
    }
}

/// The address of a service stays, as long as it has one.
pub(super) fn service_update(object: &Value, old: &Value, errors: &mut Errors) {
    let (now, before) = (
        text(&object["spec"]["clusterIP"]),
        text(&old["spec"]["clusterIP"]),
    );
    let needs = object["spec"]["type"] != "ExternalName" && old["spec"]["type"] != "ExternalName";
    if needs && !before.is_empty() && now != before {
        errors.invalid(
            "spec.clusterIPs[0]",
            object["spec"]["clusterIPs"].clone(),
            "may not change once set",
        );
    }
}

pub(super) fn event(object: &Value, errors: &mut Errors) {
    let namespace = text(&object["metadata"]["namespace"]);
    let about = text(&object["involvedObject"]["namespace"]);
    let timed = !object["eventTime"].is_null();
    let fits = match (about, timed) {
        ("", false) => matches!(namespace, "" | "default"),
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (about, false) => about == namespace,
        (_, true) => true,
    };
    if !fits {
        errors.invalid(
            "involvedObject.namespace",
            about,
            "does not match event.namespace",
        );
    }
    if !timed {
        return;
    }
    let reporter = text(&object["reportingComponent"]);
    if reporter.is_empty() {
        errors.required("reportingComponent", "");
    }
    errors.invalid_all(
        "reportingComponent",
        reporter,
        names::qualified_name(reporter),
    );
    for (field, limit) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let value = text(&object[field]);
        if value.is_empty() {
            errors.required(field, "");
        }
        if value.len() > limit {
            errors.invalid(field, "", &format!("can have at most {limit} characters"));
        }
    }
    if text(&object["message"]).len() > 1024 {
        errors.invalid("message", "", "can have at most 1024 characters");
    }
}

pub(super) fn lease(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    if spec["leaseDurationSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds <= 0)
    {
        errors.invalid(
            "spec.leaseDurationSeconds",
            spec["leaseDurationSeconds"].clone(),
            "must be greater than 0",
        );
    }
    if number(&spec["leaseTransitions"]) < 0 {
        errors.invalid(
            "spec.leaseTransitions",
            spec["leaseTransitions"].clone(),
            "must be greater than or equal to 0",
        );
    }
}

pub(super) fn runtime_class(object: &Value, errors: &mut Errors) {
    match text(&object["handler"]) {
        "" => errors.required("handler", ""),
        handler => errors.invalid_all("handler", handler, names::dns_label(handler)),
    }
    for (name, amount) in entries(&object["overhead"]["podFixed"]) {
        resources::amount_of(name, amount, &format!("overhead.podFixed[{name}]"), errors);
    }
    let scheduling = &object["scheduling"];
    meta::labels(
        &scheduling["nodeSelector"],
        "scheduling.nodeSelector",
        errors,
    );
    pod::tolerations(&scheduling["tolerations"], "scheduling.tolerations", errors);
}
