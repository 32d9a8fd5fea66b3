//! A static pod must run without the API server: what it may not refer to.

use k8s_openapi::api::core::v1::{
    Container, EnvVarSource, LocalObjectReference, PodSpec, Volume, VolumeProjection,
};
use thiserror::Error;

/// A reference that a static pod may not have, in upstream's words.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("static pods may not reference {0}")]
pub struct Reference(pub &'static str);

/// The first that there is, in upstream's order.
pub fn references(spec: &PodSpec) -> Option<Reference> {
    let accounts = [&spec.service_account_name, &spec.service_account];
    if accounts.into_iter().any(|name| is_name(name.as_deref())) {
        return Some(Reference("serviceaccounts"));
    }
    if has_secrets(spec) {
        return Some(Reference("secrets"));
    }
    if has_config_maps(spec) {
        return Some(Reference("configmaps"));
    }
    if spec
        .resource_claims
        .as_ref()
        .is_some_and(|claims| !claims.is_empty())
    {
        return Some(Reference("resourceclaims"));
    }
    spec.volumes
        .iter()
        .flatten()
        .find_map(of_volume)
        .map(Reference)
}

fn is_name(name: Option<&str>) -> bool {
    name.is_some_and(|name| !name.is_empty())
}

fn names(reference: Option<&LocalObjectReference>) -> bool {
    reference.is_some_and(|reference| !reference.name.is_empty())
}

fn has_secrets(spec: &PodSpec) -> bool {
    let mut pulls = spec.image_pull_secrets.iter().flatten();
    let secret = |from: &EnvVarSource| {
        let key = from.secret_key_ref.as_ref();
        key.is_some_and(|key| !key.name.is_empty())
    };
    let all = |container: &Container| {
        let mut from = container.env_from.iter().flatten();
        from.any(|from| {
            from.secret_ref
                .as_ref()
                .is_some_and(|secret| !secret.name.is_empty())
        })
    };
    pulls.any(|secret| names(Some(secret)))
        || containers(spec).any(|container| all(container) || has_variable(container, secret))
        || spec.volumes.iter().flatten().any(names_secret)
}

/// Volumes that need a secret beside what they are.
fn names_secret(volume: &Volume) -> bool {
    let of_file = volume
        .azure_file
        .as_ref()
        .map(|source| source.secret_name.as_str());
    let of_secret = volume
        .secret
        .as_ref()
        .and_then(|source| source.secret_name.as_deref());
    let projected = volume
        .projected
        .iter()
        .flat_map(|source| source.sources.iter().flatten());
    let mut projected = projected.filter_map(|source| source.secret.as_ref());
    let others = [
        volume
            .cephfs
            .as_ref()
            .and_then(|source| source.secret_ref.as_ref()),
        volume
            .cinder
            .as_ref()
            .and_then(|source| source.secret_ref.as_ref()),
        volume
            .flex_volume
            .as_ref()
            .and_then(|source| source.secret_ref.as_ref()),
        volume
            .rbd
            .as_ref()
            .and_then(|source| source.secret_ref.as_ref()),
        volume.scale_io.as_ref().map(|source| &source.secret_ref),
        volume
            .iscsi
            .as_ref()
            .and_then(|source| source.secret_ref.as_ref()),
        volume
            .storageos
            .as_ref()
            .and_then(|source| source.secret_ref.as_ref()),
        volume
            .csi
            .as_ref()
            .and_then(|source| source.node_publish_secret_ref.as_ref()),
    ];
    is_name(of_file)
        || is_name(of_secret)
        || projected.any(|secret| !secret.name.is_empty())
        || others.into_iter().any(names)
}

fn has_config_maps(spec: &PodSpec) -> bool {
    let key = |from: &EnvVarSource| {
        let key = from.config_map_key_ref.as_ref();
        key.is_some_and(|key| !key.name.is_empty())
    };
    let all = |container: &Container| {
        let mut from = container.env_from.iter().flatten();
        from.any(|from| {
            from.config_map_ref
                .as_ref()
                .is_some_and(|map| !map.name.is_empty())
        })
    };
    let mounted = |volume: &Volume| {
        let projected = volume
            .projected
            .iter()
            .flat_map(|source| source.sources.iter().flatten());
        let mut projected = projected.filter_map(|source| source.config_map.as_ref());
        volume
            .config_map
            .as_ref()
            .is_some_and(|map| !map.name.is_empty())
            || projected.any(|map| !map.name.is_empty())
    };
    containers(spec).any(|container| all(container) || has_variable(container, key))
        || spec.volumes.iter().flatten().any(mounted)
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
}

fn has_variable(container: &Container, is_meant: impl Fn(&EnvVarSource) -> bool) -> bool {
    let variables = container.env.iter().flatten();
    let mut sources = variables.filter_map(|variable| variable.value_from.as_ref());
    sources.any(is_meant)
}

fn of_volume(volume: &Volume) -> Option<&'static str> {
    if let Some(projected) = &volume.projected {
        return projected.sources.iter().flatten().find_map(of_projection);
    }
    let kinds = [
        (
            volume.config_map.is_some(),
            "configmaps (via configmap volumes)",
        ),
        (volume.secret.is_some(), "secrets (via secret volumes)"),
        (volume.csi.is_some(), "csidrivers (via CSI volumes)"),
        (
            volume.glusterfs.is_some(),
            "endpoints (via glusterFS volumes)",
        ),
        (
            volume.persistent_volume_claim.is_some(),
            "persistentvolumeclaims",
        ),
        (
            volume.ephemeral.is_some(),
            "persistentvolumeclaims (via ephemeral volumes)",
        ),
        (
            volume.azure_file.is_some(),
            "secrets (via azureFile volumes)",
        ),
    ];
    kinds
        .iter()
        .find(|(there, _)| *there)
        .map(|(_, words)| *words)
}

fn of_projection(source: &VolumeProjection) -> Option<&'static str> {
    let kinds = [
        (
            source.config_map.is_some(),
            "configmaps (via projected volumes)",
        ),
        (source.secret.is_some(), "secrets (via projected volumes)"),
        (
            source.service_account_token.is_some(),
            "serviceaccounts (via projected volumes)",
        ),
        (source.cluster_trust_bundle.is_some(), "clustertrustbundles"),
        (source.pod_certificate.is_some(), "podcertificates"),
    ];
    kinds
        .iter()
        .find(|(there, _)| *there)
        .map(|(_, words)| *words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;
    use crate::validate::tests::{with_container, with_spec};

    #[test]
    fn what_needs_the_api_server_is_named_in_upstreams_words() {
        let volume = |source: &str| with_spec(&format!("volumes: [{{name: v, {source}}}]"));
        let projected = |source: &str| volume(&format!("projected: {{sources: [{{{source}}}]}}"));
        let cases = [
            (with_spec("serviceAccountName: a"), "serviceaccounts"),
            (with_spec("serviceAccount: a"), "serviceaccounts"),
            (with_spec("imagePullSecrets: [{name: s}]"), "secrets"),
            (
                with_container("envFrom: [{secretRef: {name: s}}]"),
                "secrets",
            ),
            (
                with_container("env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]"),
                "secrets",
            ),
            (
                with_spec("initContainers: [{name: i, envFrom: [{configMapRef: {name: c}}]}]"),
                "configmaps",
            ),
            (
                with_container("env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: k}}}]"),
                "configmaps",
            ),
            (with_spec("resourceClaims: [{name: r}]"), "resourceclaims"),
            (volume("secret: {secretName: s}"), "secrets"),
            (volume("secret: {}"), "secrets (via secret volumes)"),
            (volume("configMap: {name: c}"), "configmaps"),
            (
                volume("rbd: {monitors: [a], image: a, secretRef: {name: s}}"),
                "secrets",
            ),
            (volume("csi: {driver: d}"), "csidrivers (via CSI volumes)"),
            (
                volume("glusterfs: {endpoints: e, path: p}"),
                "endpoints (via glusterFS volumes)",
            ),
            (
                volume("persistentVolumeClaim: {claimName: c}"),
                "persistentvolumeclaims",
            ),
            (
                volume("ephemeral: {}"),
                "persistentvolumeclaims (via ephemeral volumes)",
            ),
            (
                volume("azureFile: {secretName: '', shareName: s}"),
                "secrets (via azureFile volumes)",
            ),
            (projected("secret: {name: s}"), "secrets"),
            (
                projected("serviceAccountToken: {path: t}"),
                "serviceaccounts (via projected volumes)",
            ),
            (
                projected("clusterTrustBundle: {path: t}"),
                "clustertrustbundles",
            ),
        ];
        for (manifest, expected) in cases {
            let found = references(&pod(&manifest).spec.unwrap());
            let found = found.map(|reference| reference.to_string());
            let expected = format!("static pods may not reference {expected}");
            assert_eq!(found, Some(expected), "{manifest}");
        }
    }

    #[test]
    fn what_the_node_has_itself_may_be_used() {
        let own = "volumes: [{name: a, hostPath: {path: /a}}, {name: b}, {name: c, downwardAPI: {}}, {name: d, projected: {sources: [{downwardAPI: {}}]}}, {name: e, image: {reference: a}}], imagePullSecrets: [{name: ''}]";
        assert_eq!(references(&pod(&with_spec(own)).spec.unwrap()), None);
    }
}
