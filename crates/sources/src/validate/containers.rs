//! Containers: their names, images, ports, variables, mounts and resources.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use types::Quantity;
use types::names::validate_dns_label;

use super::{Problems, probes};

pub(super) const PORT_NAME_RULE: &str = "a port's name has at most 15 lower-case letters, digits and single '-' within, and a letter among them";

pub(super) fn check(spec: &PodSpec, problems: &mut Problems) {
    if spec.containers.is_empty() {
        problems.add("spec.containers", "there must be at least one");
    }
    let volumes = spec
        .volumes
        .iter()
        .flatten()
        .map(|volume| volume.name.as_str());
    let mut known = Known {
        volumes: volumes.collect(),
        host_network: spec.host_network == Some(true),
        ..Known::default()
    };
    for (index, found) in spec.init_containers.iter().flatten().enumerate() {
        let field = format!("spec.initContainers[{index}]");
        container(found, &field, &mut known, problems);
        init_container(found, &field, problems);
    }
    // Init containers run one after another: their ports are free again.
    known.host_ports.clear();
    for (index, found) in spec.containers.iter().enumerate() {
        container(
            found,
            &format!("spec.containers[{index}]"),
            &mut known,
            problems,
        );
    }
}

/// What the containers before, and the pod, have.
#[derive(Default)]
struct Known<'a> {
    names: BTreeSet<&'a str>,
    volumes: BTreeSet<&'a str>,
    /// Address, protocol and number.
    host_ports: BTreeSet<(&'a str, &'a str, i32)>,
    host_network: bool,
}

fn container<'a>(
    container: &'a Container,
    field: &str,
    known: &mut Known<'a>,
    problems: &mut Problems,
) {
    problems.check(format!("{field}.name"), validate_dns_label(&container.name));
    if !known.names.insert(&container.name) {
        let message = format!("{:?} is the name of another container", container.name);
        problems.add(format!("{field}.name"), message);
    }
    match container.image.as_deref().unwrap_or_default() {
        "" => problems.add(format!("{field}.image"), "it is missing"),
        image if image.trim() != image => {
            problems.add(format!("{field}.image"), "remove the spaces around it");
        }
        _ => {}
    }
    let pull = container.image_pull_policy.as_deref();
    let policies = ["Always", "IfNotPresent", "Never"];
    problems.choice(format!("{field}.imagePullPolicy"), pull, &policies);
    let message = container.termination_message_policy.as_deref();
    let policies = ["File", "FallbackToLogsOnError"];
    problems.choice(
        format!("{field}.terminationMessagePolicy"),
        message,
        &policies,
    );
    if let Some(policy) = container.restart_policy.as_deref() {
        let policies = ["Always", "OnFailure", "Never"];
        problems.choice(format!("{field}.restartPolicy"), Some(policy), &policies);
    }
    ports(container, field, known, problems);
    variables(container, field, problems);
    mounts(container, field, known, problems);
    if let Some(resources) = &container.resources {
        amounts(resources, field, problems);
    }
    probes::check(container, field, problems);
}

/// One that ends before the others start cannot be probed.
fn init_container(container: &Container, field: &str, problems: &mut Problems) {
    if container.restart_policy.as_deref() == Some("Always") {
        return;
    }
    let there = [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ];
    for (name, _) in there.iter().filter(|(_, there)| *there) {
        let message = "an init container has none, unless its restartPolicy is Always";
        problems.add(format!("{field}.{name}"), message);
    }
}

fn ports<'a>(
    container: &'a Container,
    field: &str,
    known: &mut Known<'a>,
    problems: &mut Problems,
) {
    let mut names = BTreeSet::new();
    for (index, port) in container.ports.iter().flatten().enumerate() {
        let field = format!("{field}.ports[{index}]");
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            if !is_port_name(name) {
                problems.add(format!("{field}.name"), PORT_NAME_RULE);
            } else if !names.insert(name) {
                let message = format!("{name:?} is the name of another port");
                problems.add(format!("{field}.name"), message);
            }
        }
        let valid = 1..=65535;
        if !valid.contains(&port.container_port) {
            problems.add(
                format!("{field}.containerPort"),
                "it must be between 1 and 65535",
            );
        }
        let protocol = port.protocol.as_deref();
        problems.choice(
            format!("{field}.protocol"),
            protocol,
            &["TCP", "UDP", "SCTP"],
        );
        let host_port = port.host_port.unwrap_or_default();
        if host_port == 0 {
            continue;
        }
        let field = format!("{field}.hostPort");
        if !valid.contains(&host_port) {
            problems.add(&field, "it must be between 1 and 65535");
        } else if known.host_network && host_port != port.container_port {
            problems.add(&field, "it must equal containerPort in the host's network");
        }
        let address = port.host_ip.as_deref().unwrap_or_default();
        if !known
            .host_ports
            .insert((address, protocol.unwrap_or_default(), host_port))
        {
            problems.add(
                &field,
                format!("{host_port} is taken by another port of this pod"),
            );
        }
    }
}

pub(super) fn is_port_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=15).contains(&name.len())
        && name.bytes().all(allowed)
        && name.bytes().any(|byte| byte.is_ascii_lowercase())
        && !name.contains("--")
        && !name.starts_with('-')
        && !name.ends_with('-')
}

fn variables(container: &Container, field: &str, problems: &mut Problems) {
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let field = format!("{field}.env[{index}]");
        let name = &variable.name;
        let printable = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        if name.is_empty() || name.contains('=') || !name.bytes().all(printable) {
            let message = "it must be printable ASCII without '=', and not empty";
            problems.add(format!("{field}.name"), message);
        }
        let Some(from) = &variable.value_from else {
            continue;
        };
        if variable
            .value
            .as_ref()
            .is_some_and(|value| !value.is_empty())
        {
            problems.add(
                format!("{field}.valueFrom"),
                "it excludes value: choose one",
            );
        }
        let there = [
            from.config_map_key_ref.is_some(),
            from.field_ref.is_some(),
            from.file_key_ref.is_some(),
            from.resource_field_ref.is_some(),
            from.secret_key_ref.is_some(),
        ];
        if there.iter().filter(|there| **there).count() != 1 {
            problems.add(format!("{field}.valueFrom"), "it needs exactly one source");
        }
    }
}

fn mounts(container: &Container, field: &str, known: &Known<'_>, problems: &mut Problems) {
    let mut paths = BTreeSet::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let field = format!("{field}.volumeMounts[{index}]");
        if !known.volumes.contains(mount.name.as_str()) {
            let message = format!(
                "there is no volume {:?}: add it to spec.volumes",
                mount.name
            );
            problems.add(format!("{field}.name"), message);
        }
        if mount.mount_path.is_empty() {
            problems.add(format!("{field}.mountPath"), "it is missing");
        } else if !paths.insert(&mount.mount_path) {
            problems.add(
                format!("{field}.mountPath"),
                "another volume is mounted there",
            );
        }
        let below = [
            ("subPath", &mount.sub_path),
            ("subPathExpr", &mount.sub_path_expr),
        ];
        for (name, path) in below {
            let path = path.as_deref().unwrap_or_default();
            if path.starts_with('/') || path.split('/').any(|part| part == "..") {
                let message = "it must be relative, without '..'";
                problems.add(format!("{field}.{name}"), message);
            }
        }
        let given = |path: &Option<String>| path.as_ref().is_some_and(|path| !path.is_empty());
        if given(&mount.sub_path) && given(&mount.sub_path_expr) {
            problems.add(
                format!("{field}.subPathExpr"),
                "it excludes subPath: choose one",
            );
        }
    }
}

fn amounts(resources: &ResourceRequirements, field: &str, problems: &mut Problems) {
    let parse = |name: &str, amounts: Option<&BTreeMap<String, Text>>, problems: &mut Problems| {
        let mut parsed = BTreeMap::new();
        for (resource, text) in amounts.into_iter().flatten() {
            let field = format!("{field}.resources.{name}[{resource}]");
            match text.0.parse::<Quantity>() {
                Ok(amount) if amount.sign() < 0 => problems.add(field, "it must not be negative"),
                Ok(amount) => drop(parsed.insert(resource.clone(), amount)),
                Err(error) => problems.add(field, error.to_string()),
            }
        }
        parsed
    };
    let limits = parse("limits", resources.limits.as_ref(), problems);
    for (resource, request) in parse("requests", resources.requests.as_ref(), problems) {
        if let Some(limit) = limits.get(&resource).filter(|limit| **limit < request) {
            let field = format!("{field}.resources.requests[{resource}]");
            problems.add(
                field,
                format!("{request} is more than the limit of {limit}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::validate::tests::{check, problems, with_container, with_spec};

    #[test]
    fn containers_have_names_of_their_own_an_image_and_known_policies() {
        let containers =
            |list: &str| format!("metadata: {{name: a}}\nspec: {{containers: [{list}]}}");
        check(&[
            (
                containers("{name: A, image: a}"),
                "spec.containers[0].name: ",
            ),
            (
                containers("{name: a}"),
                "spec.containers[0].image: it is missing",
            ),
            (
                containers("{name: a, image: ' a'}"),
                "spec.containers[0].image: remove the spaces",
            ),
            (
                containers("{name: a, image: a}, {name: a, image: b}"),
                "spec.containers[1].name: \"a\" is the name of another container",
            ),
            (
                with_spec("initContainers: [{name: a, image: a}]"),
                "spec.containers[0].name: \"a\" is the name of another container",
            ),
            (
                with_container("imagePullPolicy: Maybe"),
                "spec.containers[0].imagePullPolicy: ",
            ),
            (
                with_container("terminationMessagePolicy: X"),
                "spec.containers[0].terminationMessagePolicy: ",
            ),
            (
                with_container("restartPolicy: X"),
                "spec.containers[0].restartPolicy: ",
            ),
            (
                with_spec(
                    "initContainers: [{name: i, image: a, lifecycle: {preStop: {sleep: {seconds: 1}}}}]",
                ),
                "spec.initContainers[0].lifecycle: an init container has none",
            ),
        ]);
        let sidecar = "initContainers: [{name: i, image: a, restartPolicy: Always, livenessProbe: {exec: {command: [a]}}}]";
        assert!(problems(&with_spec(sidecar)).is_empty());
    }

    #[test]
    fn ports_are_in_range_and_do_not_collide() {
        let ports = |list: &str| with_container(&format!("ports: [{list}]"));
        check(&[
            (ports("{containerPort: 0}"), "spec.containers[0].ports[0].containerPort: "),
            (ports("{containerPort: 1, hostPort: 65536}"), "spec.containers[0].ports[0].hostPort: "),
            (ports("{containerPort: 1, protocol: ICMP}"), "spec.containers[0].ports[0].protocol: "),
            (ports("{containerPort: 1, name: A}"), "spec.containers[0].ports[0].name: a port's name"),
            (ports("{containerPort: 1, name: '80'}"), "spec.containers[0].ports[0].name: a port's name"),
            (
                ports("{containerPort: 1, name: a}, {containerPort: 2, name: a}"),
                "spec.containers[0].ports[1].name: \"a\" is the name of another port",
            ),
            (
                ports("{containerPort: 1, hostPort: 9}, {containerPort: 2, hostPort: 9}"),
                "spec.containers[0].ports[1].hostPort: 9 is taken",
            ),
            (
                "metadata: {name: a}\nspec: {hostNetwork: true, containers: [{name: a, image: a, ports: [{containerPort: 1, hostPort: 2}]}]}".to_owned(),
                "spec.containers[0].ports[0].hostPort: it must equal containerPort",
            ),
        ]);
        let fine = ports(
            "{containerPort: 1, hostPort: 9}, {containerPort: 2, hostPort: 9, protocol: UDP}",
        );
        assert!(problems(&fine).is_empty());
    }

    #[test]
    fn variables_and_mounts_and_amounts_are_checked() {
        let env = |list: &str| with_container(&format!("env: [{list}]"));
        let mounts = |list: &str| with_container(&format!("volumeMounts: [{list}]"));
        let resources = |text: &str| with_container(&format!("resources: {{{text}}}"));
        check(&[
            (env("{name: 'a=b'}"), "spec.containers[0].env[0].name: "),
            (env("{name: ''}"), "spec.containers[0].env[0].name: "),
            (
                env("{name: a, value: b, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}"),
                "spec.containers[0].env[0].valueFrom: it excludes value",
            ),
            (
                env("{name: a, valueFrom: {}}"),
                "spec.containers[0].env[0].valueFrom: it needs exactly one",
            ),
            (
                mounts("{name: w, mountPath: /a}"),
                "spec.containers[0].volumeMounts[0].name: there is no volume \"w\"",
            ),
            (
                mounts("{name: v, mountPath: ''}"),
                "spec.containers[0].volumeMounts[0].mountPath: ",
            ),
            (
                mounts("{name: v, mountPath: /a}, {name: v, mountPath: /a}"),
                "spec.containers[0].volumeMounts[1].mountPath: another volume",
            ),
            (
                mounts("{name: v, mountPath: /a, subPath: ../b}"),
                "spec.containers[0].volumeMounts[0].subPath: ",
            ),
            (
                mounts("{name: v, mountPath: /a, subPathExpr: /b}"),
                "spec.containers[0].volumeMounts[0].subPathExpr: it must be relative",
            ),
            (
                mounts("{name: v, mountPath: /a, subPath: a, subPathExpr: b}"),
                "spec.containers[0].volumeMounts[0].subPathExpr: it excludes",
            ),
            (
                resources("requests: {cpu: lots}"),
                "spec.containers[0].resources.requests[cpu]: \"lots\" is not",
            ),
            (
                resources("requests: {cpu: -1}"),
                "spec.containers[0].resources.requests[cpu]: it must not",
            ),
            (
                resources("requests: {cpu: 2}, limits: {cpu: 1500m}"),
                "spec.containers[0].resources.requests[cpu]: 2 is more than the limit of 1500m",
            ),
        ]);
    }
}
