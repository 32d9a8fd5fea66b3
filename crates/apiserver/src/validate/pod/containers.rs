//! Containers: names, images, policies, ports, mounts, devices.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::volumes::{Volumes, descending_path, without_backsteps};
use super::{environment, probes, security};
use crate::schema::look::{items, number, text};
use crate::validate::errors::Errors;
use crate::validate::{names, resources};

/// What an init container that ends may not have.
const FOR_RUNNING: &str = "may not be set for init containers without restartPolicy=Always";
/// What a container that is added later may have.
const EPHEMERAL_FIELDS: [&str; 19] = [
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "name",
    "resizePolicy",
    "restartPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "targetContainerName",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

pub(super) fn check(spec: &Value, volumes: &Volumes, errors: &mut Errors) {
    let pod = Pod { spec, volumes };
    let regular = items(&spec["containers"]);
    if regular.is_empty() {
        errors.required("spec.containers", "");
    }
    let mut seen = BTreeSet::new();
    let mut ports = BTreeSet::new();
    for (index, container) in regular.iter().enumerate() {
        let field = format!("spec.containers[{index}]");
        pod.common(container, &field, errors);
        unique(container, &field, &mut seen, errors);
        probes::check(container, &field, spec, errors);
        restart_policy(container, &field, &["Always", "Never", "OnFailure"], errors);
    }
    for (index, container) in regular.iter().enumerate() {
        host_ports(
            container,
            &format!("spec.containers[{index}]"),
            &mut ports,
            errors,
        );
    }
    for (index, container) in items(&spec["initContainers"]).iter().enumerate() {
        let field = format!("spec.initContainers[{index}]");
        pod.common(container, &field, errors);
        restart_policy(container, &field, &["Always", "Never", "OnFailure"], errors);
        unique(container, &field, &mut seen, errors);
        host_ports(container, &field, &mut BTreeSet::new(), errors);
        if container["restartPolicy"] == "Always" {
            probes::check(container, &field, spec, errors);
            continue;
        }
        for name in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            if !container[name].is_null() {
                errors.forbidden(format!("{field}.{name}"), FOR_RUNNING);
            }
        }
    }
    pod.ephemeral(&mut seen, errors);
    if spec["hostNetwork"] == true {
        equal_ports(regular, errors);
    }
}

struct Pod<'a> {
    spec: &'a Value,
    volumes: &'a Volumes<'a>,
}

impl Pod<'_> {
    fn common(&self, container: &Value, field: &str, errors: &mut Errors) {
        match text(&container["name"]) {
            "" => errors.required(format!("{field}.name"), ""),
            name => errors.invalid_all(format!("{field}.name"), name, names::dns_label(name)),
        }
        match text(&container["image"]) {
            "" => errors.required(format!("{field}.image"), ""),
            image if image.trim() != image => {
                errors.invalid(
                    format!("{field}.image"),
                    image,
                    "must not have leading or trailing whitespace",
                );
            }
            _ => {}
        }
        let policy = text(&container["terminationMessagePolicy"]);
        errors.choice(
            format!("{field}.terminationMessagePolicy"),
            policy,
            &["File", "FallbackToLogsOnError"],
        );
        ports(&container["ports"], &format!("{field}.ports"), errors);
        environment::check(container, field, errors);
        self.mounts(container, field, errors);
        self.devices(container, field, errors);
        pull_policy(
            &container["imagePullPolicy"],
            &format!("{field}.imagePullPolicy"),
            errors,
        );
        resources::container(
            &container["resources"],
            &format!("{field}.resources"),
            errors,
        );
        self.resize_policy(container, &format!("{field}.resizePolicy"), errors);
        let private_users = self.spec["hostUsers"] == false;
        security::container(
            &container["securityContext"],
            &format!("{field}.securityContext"),
            !private_users,
            errors,
        );
    }

    fn mounts(&self, container: &Value, field: &str, errors: &mut Errors) {
        let field = format!("{field}.volumeMounts");
        let devices = paths(&container["volumeDevices"], "devicePath");
        let mut seen = BTreeSet::new();
        for (index, mount) in items(&container["volumeMounts"]).iter().enumerate() {
            let own = format!("{field}[{index}]");
            let (name, path) = (text(&mount["name"]), text(&mount["mountPath"]));
            if name.is_empty() {
                errors.required(format!("{own}.name"), "");
            }
            if !self.volumes.contains_key(name) {
                errors.not_found(format!("{own}.name"), name);
            }
            if path.is_empty() {
                errors.required(format!("{own}.mountPath"), "");
            }
            if !seen.insert(path) {
                errors.invalid(format!("{own}.mountPath"), path, "must be unique");
            }
            if devices.contains_key(name) {
                errors.invalid(
                    format!("{own}.name"),
                    name,
                    "must not already exist in volumeDevices",
                );
            }
            if devices.values().any(|device| *device == path) {
                errors.invalid(
                    format!("{own}.mountPath"),
                    path,
                    "must not already exist as a path in volumeDevices",
                );
            }
            let (below, expression) = (text(&mount["subPath"]), text(&mount["subPathExpr"]));
            // Upstream names the list here, not the mount.
            descending_path(below, &format!("{field}.subPath"), errors);
            if !expression.is_empty() && !below.is_empty() {
                errors.invalid(
                    format!("{own}.subPathExpr"),
                    expression,
                    "subPathExpr and subPath are mutually exclusive",
                );
            }
            descending_path(expression, &format!("{field}.subPathExpr"), errors);
            propagation(mount, container, &field, errors);
        }
    }

    fn devices(&self, container: &Value, field: &str, errors: &mut Errors) {
        let field = format!("{field}.volumeDevices");
        let mounts = paths(&container["volumeMounts"], "mountPath");
        let (mut names, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for (index, device) in items(&container["volumeDevices"]).iter().enumerate() {
            let own = format!("{field}[{index}]");
            let (name, path) = (text(&device["name"]), text(&device["devicePath"]));
            if name.is_empty() {
                errors.required(format!("{own}.name"), "");
            }
            if !names.insert(name) {
                errors.invalid(format!("{own}.name"), name, "must be unique");
            }
            match self.volumes.get(name) {
                None => errors.not_found(format!("{own}.name"), name),
                Some(volume)
                    if volume["persistentVolumeClaim"].is_null()
                        && volume["ephemeral"].is_null() =>
                {
                    let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.invalid(format!("{own}.name"), name, detail);
                }
                Some(_) => {}
            }
            if path.is_empty() {
                errors.required(format!("{own}.devicePath"), "");
            }
            if !seen.insert(path) {
                errors.invalid(format!("{own}.devicePath"), path, "must be unique");
            }
            if !without_backsteps(path) {
                errors.invalid(
                    format!("{own}.devicePath"),
                    path,
                    "can not contain backsteps ('..')",
                );
            }
            if mounts.contains_key(name) {
                errors.invalid(
                    format!("{own}.name"),
                    name,
                    "must not already exist in volumeMounts",
                );
            }
            if mounts.values().any(|mount| *mount == path) {
                errors.invalid(
                    format!("{own}.devicePath"),
                    path,
                    "must not already exist as a path in volumeMounts",
                );
            }
        }
    }

    fn resize_policy(&self, container: &Value, field: &str, errors: &mut Errors) {
        let mut seen = BTreeSet::new();
        for (index, policy) in items(&container["resizePolicy"]).iter().enumerate() {
            let (name, restart) = (
                text(&policy["resourceName"]),
                text(&policy["restartPolicy"]),
            );
            if !seen.insert(name) {
                errors.duplicate(format!("{field}[{index}]"), name);
            }
            errors.choice(field, name, &["cpu", "memory"]);
            errors.choice(field, restart, &["NotRequired", "RestartContainer"]);
            if self.spec["restartPolicy"] == "Never" && restart != "NotRequired" {
                errors.invalid(
                    field,
                    restart,
                    "must be 'NotRequired' when pod `restartPolicy` is 'Never'",
                );
            }
        }
    }

    fn ephemeral<'a>(&'a self, seen: &mut BTreeSet<&'a str>, errors: &mut Errors) {
        let others = seen.clone();
        for (index, container) in items(&self.spec["ephemeralContainers"]).iter().enumerate() {
            let field = format!("spec.ephemeralContainers[{index}]");
            self.common(container, &field, errors);
            unique(container, &field, seen, errors);
            let target = text(&container["targetContainerName"]);
            if !target.is_empty() && !others.contains(target) {
                errors.not_found(format!("{field}.targetContainerName"), target);
            }
            for name in container
                .as_object()
                .into_iter()
                .flat_map(serde_json::Map::keys)
            {
                let empty = container[name]
                    .as_object()
                    .is_some_and(serde_json::Map::is_empty);
                if !EPHEMERAL_FIELDS.contains(&name.as_str()) && !empty {
                    errors.forbidden(
                        format!("{field}.{name}"),
                        "cannot be set for an Ephemeral Container",
                    );
                }
            }
            for (index, mount) in items(&container["volumeMounts"]).iter().enumerate() {
                for name in ["subPath", "subPathExpr"] {
                    if !text(&mount[name]).is_empty() {
                        let field = format!("{field}.volumeMounts[{index}].{name}");
                        errors.forbidden(field, "cannot be set for an Ephemeral Container");
                    }
                }
            }
        }
    }
}

fn unique<'a>(
    container: &'a Value,
    field: &str,
    seen: &mut BTreeSet<&'a str>,
    errors: &mut Errors,
) {
    let name = text(&container["name"]);
    if !seen.insert(name) {
        errors.duplicate(format!("{field}.name"), name);
    }
}

/// By name of the volume.
fn paths<'a>(list: &'a Value, field: &str) -> BTreeMap<&'a str, &'a str> {
    items(list)
        .iter()
        .map(|item| (text(&item["name"]), text(&item[field])))
        .collect()
}

pub(super) fn pull_policy(policy: &Value, field: &str, errors: &mut Errors) {
    errors.choice(field, text(policy), &["Always", "IfNotPresent", "Never"]);
}

fn restart_policy(container: &Value, field: &str, allowed: &[&str], errors: &mut Errors) {
    let rules = items(&container["restartPolicyRules"]);
    match container["restartPolicy"].as_str() {
        Some(policy) => errors.choice(format!("{field}.restartPolicy"), policy, allowed),
        None if !rules.is_empty() => {
            let detail = "must specify restartPolicy when restart rules are used";
            errors.required(format!("{field}.restartPolicy"), detail);
        }
        None => {}
    }
    if rules.len() > 20 {
        errors.too_many(format!("{field}.restartPolicyRules"), rules.len(), 20);
    }
    for (index, rule) in rules.iter().enumerate() {
        let field = format!("{field}.restartPolicyRules[{index}]");
        let actions = ["Restart", "RestartAllContainers"];
        if !actions.contains(&text(&rule["action"])) {
            errors.unsupported(format!("{field}.action"), text(&rule["action"]), &actions);
        }
        let codes = &rule["exitCodes"];
        if codes.is_null() {
            errors.required(format!("{field}.exitCodes"), "must be specified");
        } else if !["In", "NotIn"].contains(&text(&codes["operator"])) {
            errors.unsupported(
                format!("{field}.exitCodes.operator"),
                text(&codes["operator"]),
                &["In", "NotIn"],
            );
        }
    }
}

fn ports(ports: &Value, field: &str, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, port) in items(ports).iter().enumerate() {
        let field = format!("{field}[{index}]");
        let name = text(&port["name"]);
        if !name.is_empty() {
            let findings = names::port_name(name);
            if !findings.is_empty() {
                errors.invalid_all(format!("{field}.name"), name, findings);
            } else if !seen.insert(name) {
                errors.duplicate(format!("{field}.name"), name);
            }
        }
        match number(&port["containerPort"]) {
            0 => errors.required(format!("{field}.containerPort"), ""),
            found => errors.invalid_all(
                format!("{field}.containerPort"),
                found,
                names::port_number(found),
            ),
        }
        let host = number(&port["hostPort"]);
        if host != 0 {
            errors.invalid_all(format!("{field}.hostPort"), host, names::port_number(host));
        }
        errors.choice(
            format!("{field}.protocol"),
            text(&port["protocol"]),
            &["SCTP", "TCP", "UDP"],
        );
    }
}

fn host_ports(container: &Value, field: &str, seen: &mut BTreeSet<String>, errors: &mut Errors) {
    for (index, port) in items(&container["ports"]).iter().enumerate() {
        let host = number(&port["hostPort"]);
        if host == 0 {
            continue;
        }
        let taken = format!(
            "{}/{}/{host}",
            text(&port["protocol"]),
            text(&port["hostIP"])
        );
        if seen.contains(&taken) {
            errors.duplicate(format!("{field}.ports[{index}].hostPort"), taken.as_str());
        }
        seen.insert(taken);
    }
}

/// On the host's network a port is what it is.
fn equal_ports(containers: &[Value], errors: &mut Errors) {
    for (index, container) in containers.iter().enumerate() {
        for (port_index, port) in items(&container["ports"]).iter().enumerate() {
            let host = number(&port["hostPort"]);
            if host != number(&port["containerPort"]) {
                let field = format!("spec.containers[{index}].ports[{port_index}].hostPort");
                errors.invalid(
                    field,
                    host,
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
        }
    }
}

fn propagation(mount: &Value, container: &Value, field: &str, errors: &mut Errors) {
    let mode = mount["mountPropagation"].as_str();
    if let Some(mode) = mode {
        let modes = ["Bidirectional", "HostToContainer", "None"];
        errors.choice(format!("{field}.mountPropagation"), mode, &modes);
        if mode == "Bidirectional" && container["securityContext"]["privileged"] != true {
            let detail =
                "Bidirectional mount propagation is available only to privileged containers";
            errors.forbidden(format!("{field}.mountPropagation"), detail);
        }
    }
    match mount["recursiveReadOnly"].as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            let field = format!("{field}.recursiveReadOnly");
            if mount["readOnly"] != true {
                errors.forbidden(&field, "may only be specified when readOnly is true");
            }
            if mode.is_some_and(|mode| mode != "None") {
                errors.forbidden(
                    field,
                    "may only be specified when mountPropagation is None or not specified",
                );
            }
        }
        Some(other) => {
            errors.unsupported(
                format!("{field}.recursiveReadOnly"),
                other,
                &["Disabled", "Enabled", "IfPossible"],
            );
        }
    }
}
