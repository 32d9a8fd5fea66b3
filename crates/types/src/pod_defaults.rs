//! The defaults of the API server, as far as a pod has fields for them: for the server
//! itself, and for static pods, which never met one.

mod resources;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EphemeralContainer, GRPCAction, HTTPGetAction, Lifecycle,
    ObjectFieldSelector, Pod, PodSpec, Probe, ResourceRequirements, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The mode of files that are made of objects.
const FILE_MODE: i32 = 0o644;

/// Fills what the API server would have filled. A second time it changes nothing.
pub fn api_defaults(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    for volume in spec.volumes.iter_mut().flatten() {
        volume_defaults(volume);
    }
    let init = spec.init_containers.iter_mut().flatten();
    for container in init.chain(&mut spec.containers) {
        container_defaults(container);
    }
    for container in spec.ephemeral_containers.iter_mut().flatten() {
        ephemeral_defaults(container);
    }
    spec_defaults(spec);
    resources::fill(spec);
}

fn spec_defaults(spec: &mut PodSpec) {
    fill(&mut spec.dns_policy, "ClusterFirst");
    fill(&mut spec.restart_policy, "Always");
    fill(&mut spec.scheduler_name, "default-scheduler");
    spec.security_context.get_or_insert_default();
    spec.termination_grace_period_seconds.get_or_insert(30);
    spec.enable_service_links.get_or_insert(true);
    if spec.host_network == Some(true) {
        let init = spec.init_containers.iter_mut().flatten();
        let ports = init.chain(&mut spec.containers);
        for port in ports.flat_map(|container| container.ports.iter_mut().flatten()) {
            fill_number(&mut port.host_port, port.container_port);
        }
    }
}

fn container_defaults(container: &mut Container) {
    let image = container.image.as_deref().unwrap_or_default();
    fill(&mut container.image_pull_policy, pull_policy(image));
    fill(
        &mut container.termination_message_path,
        "/dev/termination-log",
    );
    fill(&mut container.termination_message_policy, "File");
    for port in container.ports.iter_mut().flatten() {
        fill(&mut port.protocol, "TCP");
    }
    for variable in container.env.iter_mut().flatten() {
        let Some(from) = &mut variable.value_from else {
            continue;
        };
        from.field_ref.iter_mut().for_each(field_defaults);
        if let Some(file) = &mut from.file_key_ref {
            file.optional.get_or_insert(false);
        }
    }
    let probes = [
        &mut container.liveness_probe,
        &mut container.readiness_probe,
        &mut container.startup_probe,
    ];
    probes.into_iter().flatten().for_each(probe_defaults);
    container.lifecycle.iter_mut().for_each(lifecycle_defaults);
    container
        .resources
        .iter_mut()
        .for_each(requests_from_limits);
}

/// The same for a container that was added later.
fn ephemeral_defaults(container: &mut EphemeralContainer) {
    let image = container.image.as_deref().unwrap_or_default();
    fill(&mut container.image_pull_policy, pull_policy(image));
    fill(
        &mut container.termination_message_path,
        "/dev/termination-log",
    );
    fill(&mut container.termination_message_policy, "File");
    // It may have no ports and no probes: validation says so, and of nothing else.
    for port in container.ports.iter_mut().flatten() {
        fill(&mut port.protocol, "TCP");
    }
    let probes = [
        &mut container.liveness_probe,
        &mut container.readiness_probe,
        &mut container.startup_probe,
    ];
    probes.into_iter().flatten().for_each(probe_defaults);
    container.lifecycle.iter_mut().for_each(lifecycle_defaults);
    let variables = container.env.iter_mut().flatten();
    for from in variables.filter_map(|variable| variable.value_from.as_mut()) {
        from.field_ref.iter_mut().for_each(field_defaults);
    }
}

/// What may have moved on is pulled each time.
pub fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash belongs to the registry's port.
    let last = name.rsplit('/').next().unwrap_or(name);
    let tag = last.split_once(':').map(|(_, tag)| tag);
    match (tag, digest) {
        (Some("latest"), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}

fn probe_defaults(probe: &mut Probe) {
    fill_number(&mut probe.timeout_seconds, 1);
    fill_number(&mut probe.period_seconds, 10);
    fill_number(&mut probe.success_threshold, 1);
    fill_number(&mut probe.failure_threshold, 3);
    probe.http_get.iter_mut().for_each(http_get_defaults);
    if let Some(GRPCAction { service, .. }) = &mut probe.grpc {
        service.get_or_insert_default();
    }
}

fn lifecycle_defaults(lifecycle: &mut Lifecycle) {
    let handlers = [&mut lifecycle.post_start, &mut lifecycle.pre_stop];
    for handler in handlers.into_iter().flatten() {
        handler.http_get.iter_mut().for_each(http_get_defaults);
    }
}

fn http_get_defaults(action: &mut HTTPGetAction) {
    fill(&mut action.path, "/");
    fill(&mut action.scheme, "HTTP");
}

fn field_defaults(selector: &mut ObjectFieldSelector) {
    fill(&mut selector.api_version, "v1");
}

fn requests_from_limits(resources: &mut ResourceRequirements) {
    let Some(limits) = &resources.limits else {
        return;
    };
    let requests: &mut BTreeMap<String, Quantity> = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        requests
            .entry(name.clone())
            .or_insert_with(|| limit.clone());
    }
}

fn volume_defaults(volume: &mut Volume) {
    let named_only = Volume {
        name: volume.name.clone(),
        ..Volume::default()
    };
    if *volume == named_only {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    if let Some(image) = &mut volume.image {
        let reference = image.reference.as_deref().unwrap_or_default();
        fill(&mut image.pull_policy, pull_policy(reference));
    }
    if let Some(host_path) = &mut volume.host_path {
        host_path.type_.get_or_insert_default();
    }
    if let Some(secret) = &mut volume.secret {
        secret.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(config_map) = &mut volume.config_map {
        config_map.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(downward) = &mut volume.downward_api {
        downward.default_mode.get_or_insert(FILE_MODE);
        let items = downward.items.iter_mut().flatten();
        items
            .flat_map(|item| &mut item.field_ref)
            .for_each(field_defaults);
    }
    if let Some(projected) = &mut volume.projected {
        projected.default_mode.get_or_insert(FILE_MODE);
        for source in projected.sources.iter_mut().flatten() {
            let downward = source.downward_api.iter_mut();
            let items = downward.flat_map(|downward| downward.items.iter_mut().flatten());
            items
                .flat_map(|item| &mut item.field_ref)
                .for_each(field_defaults);
            if let Some(token) = &mut source.service_account_token {
                token.expiration_seconds.get_or_insert(60 * 60);
            }
        }
    }
    let claim = volume.ephemeral.iter_mut();
    for claim in claim.filter_map(|ephemeral| ephemeral.volume_claim_template.as_mut()) {
        fill(&mut claim.spec.volume_mode, "Filesystem");
    }
    remote_volume_defaults(volume);
}

/// Of volumes on other machines.
fn remote_volume_defaults(volume: &mut Volume) {
    if let Some(iscsi) = &mut volume.iscsi {
        fill(&mut iscsi.iscsi_interface, "default");
    }
    if let Some(rbd) = &mut volume.rbd {
        fill(&mut rbd.pool, "rbd");
        fill(&mut rbd.user, "admin");
        fill(&mut rbd.keyring, "/etc/ceph/keyring");
    }
    if let Some(azure) = &mut volume.azure_disk {
        fill(&mut azure.caching_mode, "ReadWrite");
        fill(&mut azure.fs_type, "ext4");
        fill(&mut azure.kind, "Shared");
        azure.read_only.get_or_insert(false);
    }
    if let Some(scale_io) = &mut volume.scale_io {
        fill(&mut scale_io.storage_mode, "ThinProvisioned");
        fill(&mut scale_io.fs_type, "xfs");
    }
}

/// Empty counts as left out, as it does in Go.
fn fill(field: &mut Option<String>, default: &str) {
    if field.as_ref().is_none_or(String::is_empty) {
        *field = Some(default.to_owned());
    }
}

/// Zero counts as left out, as it does in Go.
fn fill_number(field: &mut Option<i32>, default: i32) {
    if field.is_none_or(|number| number == 0) {
        *field = Some(default);
    }
}
