//! What a pod and a volume refer to, and so what their node may read.

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, PersistentVolume, Pod, Volume};

/// Names of objects in the pod's own namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodReferences {
    pub(crate) secrets: Vec<String>,
    pub(crate) config_maps: Vec<String>,
    pub(crate) claims: Vec<String>,
    pub(crate) service_account: Option<String>,
}

impl PodReferences {
    pub(crate) fn of(pod: &Pod) -> Self {
        let mut references = Self::default();
        let Some(spec) = &pod.spec else {
            return references;
        };
        let name = spec.service_account_name.as_ref();
        references.service_account = name.filter(|name| !name.is_empty()).cloned();
        for secret in spec.image_pull_secrets.iter().flatten() {
            references.secrets.push(secret.name.clone());
        }
        for container in spec
            .init_containers
            .iter()
            .flatten()
            .chain(&spec.containers)
        {
            references.add_container(container);
        }
        for container in spec.ephemeral_containers.iter().flatten() {
            let (variables, sources) = (&container.env, &container.env_from);
            references.add_environment(variables.as_deref(), sources.as_deref());
        }
        let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
        for volume in spec.volumes.iter().flatten() {
            references.add_volume(volume, pod_name);
        }
        let Self {
            secrets,
            config_maps,
            claims,
            ..
        } = &mut references;
        for list in [secrets, config_maps, claims] {
            list.retain(|name| !name.is_empty());
            list.sort();
            list.dedup();
        }
        references
    }

    fn add_container(&mut self, container: &Container) {
        self.add_environment(container.env.as_deref(), container.env_from.as_deref());
    }

    fn add_environment(&mut self, variables: Option<&[EnvVar]>, sources: Option<&[EnvFromSource]>) {
        for source in variables
            .into_iter()
            .flatten()
            .filter_map(|one| one.value_from.as_ref())
        {
            let secret = source
                .secret_key_ref
                .as_ref()
                .map(|secret| secret.name.clone());
            self.secrets.extend(secret);
            let config_map = source
                .config_map_key_ref
                .as_ref()
                .map(|map| map.name.clone());
            self.config_maps.extend(config_map);
        }
        for source in sources.into_iter().flatten() {
            let secret = source.secret_ref.as_ref().map(|secret| secret.name.clone());
            self.secrets.extend(secret);
            let config_map = source.config_map_ref.as_ref().map(|map| map.name.clone());
            self.config_maps.extend(config_map);
        }
    }

    fn add_volume(&mut self, volume: &Volume, pod_name: &str) {
        let name_of = |reference: Option<&k8s_openapi::api::core::v1::LocalObjectReference>| {
            reference.map(|reference| reference.name.clone())
        };
        let secret = [
            volume
                .azure_file
                .as_ref()
                .map(|file| file.secret_name.clone()),
            volume
                .cephfs
                .as_ref()
                .and_then(|ceph| name_of(ceph.secret_ref.as_ref())),
            volume
                .flex_volume
                .as_ref()
                .and_then(|flex| name_of(flex.secret_ref.as_ref())),
            volume
                .rbd
                .as_ref()
                .and_then(|rbd| name_of(rbd.secret_ref.as_ref())),
            volume
                .secret
                .as_ref()
                .and_then(|secret| secret.secret_name.clone()),
            volume
                .scale_io
                .as_ref()
                .map(|scale| scale.secret_ref.name.clone()),
            volume
                .iscsi
                .as_ref()
                .and_then(|iscsi| name_of(iscsi.secret_ref.as_ref())),
            volume
                .storageos
                .as_ref()
                .and_then(|storage| name_of(storage.secret_ref.as_ref())),
            volume
                .csi
                .as_ref()
                .and_then(|csi| name_of(csi.node_publish_secret_ref.as_ref())),
        ];
        self.secrets.extend(secret.into_iter().flatten());
        self.config_maps
            .extend(volume.config_map.as_ref().map(|map| map.name.clone()));
        let projected = volume
            .projected
            .as_ref()
            .and_then(|one| one.sources.as_deref());
        for source in projected.unwrap_or_default() {
            self.secrets
                .extend(source.secret.as_ref().map(|secret| secret.name.clone()));
            self.config_maps
                .extend(source.config_map.as_ref().map(|map| map.name.clone()));
        }
        let claim = volume.persistent_volume_claim.as_ref();
        self.claims
            .extend(claim.map(|claim| claim.claim_name.clone()));
        if volume.ephemeral.is_some() {
            self.claims.push(format!("{pod_name}-{}", volume.name));
        }
    }
}

/// The first thing of the API that a pod needs, in upstream's words. A mirror pod may
/// need nothing: its node would be allowed to read it.
pub(crate) fn needed_of_the_api(pod: &Pod) -> Option<&'static str> {
    let references = PodReferences::of(pod);
    let spec = pod.spec.as_ref()?;
    if references.service_account.is_some() {
        return Some("serviceaccounts");
    }
    if !references.secrets.is_empty() {
        return Some("secrets");
    }
    if !references.config_maps.is_empty() {
        return Some("configmaps");
    }
    if spec
        .resource_claims
        .as_ref()
        .is_some_and(|claims| !claims.is_empty())
    {
        return Some("resourceclaims");
    }
    spec.volumes.iter().flatten().find_map(needed_by_volume)
}

fn needed_by_volume(volume: &Volume) -> Option<&'static str> {
    let projected = || {
        let sources = volume.projected.as_ref()?.sources.as_deref()?;
        sources.iter().find_map(|source| {
            [
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
            ]
            .into_iter()
            .find_map(|(there, what)| there.then_some(what))
        })
    };
    [
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
    ]
    .into_iter()
    .find_map(|(there, what)| there.then_some(what))
    .or_else(projected)
}

/// The secrets that a kubelet needs for a volume, with their namespaces.
pub(crate) fn volume_secrets(
    volume: &PersistentVolume,
    claim_namespace: &str,
) -> Vec<(String, String)> {
    let Some(spec) = &volume.spec else {
        return Vec::new();
    };
    let near = |reference: Option<&k8s_openapi::api::core::v1::SecretReference>| {
        reference.map(|reference| {
            let own = reference.namespace.clone().filter(|own| !own.is_empty());
            (own, reference.name.clone().unwrap_or_default())
        })
    };
    let csi = spec.csi.as_ref();
    let storageos = spec
        .storageos
        .as_ref()
        .and_then(|one| one.secret_ref.as_ref());
    let found = [
        spec.azure_file.as_ref().map(|file| {
            let own = file.secret_namespace.clone().filter(|own| !own.is_empty());
            (own, file.secret_name.clone())
        }),
        near(spec.cephfs.as_ref().and_then(|one| one.secret_ref.as_ref())),
        near(
            spec.flex_volume
                .as_ref()
                .and_then(|one| one.secret_ref.as_ref()),
        ),
        near(spec.rbd.as_ref().and_then(|one| one.secret_ref.as_ref())),
        near(spec.scale_io.as_ref().map(|one| &one.secret_ref)),
        near(spec.iscsi.as_ref().and_then(|one| one.secret_ref.as_ref())),
        storageos.map(|reference| {
            let own = reference.namespace.clone().filter(|own| !own.is_empty());
            (own, reference.name.clone().unwrap_or_default())
        }),
        near(csi.and_then(|csi| csi.node_publish_secret_ref.as_ref())),
        near(csi.and_then(|csi| csi.node_stage_secret_ref.as_ref())),
        near(csi.and_then(|csi| csi.node_expand_secret_ref.as_ref())),
    ];
    let found = found
        .into_iter()
        .flatten()
        .filter(|(_, name)| !name.is_empty());
    found
        .map(|(own, name)| (own.unwrap_or_else(|| claim_namespace.to_owned()), name))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        let mut pod = json!({"metadata": {"name": "p"}});
        pod["spec"] = spec;
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn every_way_to_refer_is_found() {
        let spec = json!({
            "serviceAccountName": "account",
            "imagePullSecrets": [{"name": "pull"}],
            "initContainers": [{"name": "i", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "env-secret", "key": "k"}}}]}],
            "containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "from-map"}}, {"secretRef": {"name": "from-secret"}}],
                "env": [{"name": "B", "valueFrom": {"configMapKeyRef": {"name": "env-map", "key": "k"}}}]}],
            "ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": "debug-secret"}}]}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "volume-secret"}},
                {"name": "b", "configMap": {"name": "volume-map"}},
                {"name": "c", "projected": {"sources": [{"secret": {"name": "projected-secret"}}, {"configMap": {"name": "projected-map"}}]}},
                {"name": "d", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "e", "ephemeral": {}},
                {"name": "f", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "csi-secret"}}},
            ],
        });
        let found = PodReferences::of(&pod(spec));
        assert_eq!(
            found.secrets,
            [
                "csi-secret",
                "debug-secret",
                "env-secret",
                "from-secret",
                "projected-secret",
                "pull",
                "volume-secret"
            ]
        );
        assert_eq!(
            found.config_maps,
            ["env-map", "from-map", "projected-map", "volume-map"]
        );
        assert_eq!(found.claims, ["claim", "p-e"]);
        assert_eq!(found.service_account.as_deref(), Some("account"));
        assert_eq!(
            PodReferences::of(&pod(json!({"containers": []}))),
            PodReferences::default()
        );
    }

    #[test]
    fn what_a_mirror_pod_may_not_need_is_named() {
        let volume = |volume: Value| json!({"containers": [], "volumes": [volume]});
        for (spec, expected) in [
            (json!({"containers": []}), None),
            (
                volume(json!({"name": "a", "hostPath": {"path": "/"}})),
                None,
            ),
            (
                volume(json!({"name": "a", "projected": {"sources": [{"downwardAPI": {}}]}})),
                None,
            ),
            (
                json!({"containers": [], "serviceAccountName": "a"}),
                Some("serviceaccounts"),
            ),
            (
                volume(json!({"name": "a", "secret": {"secretName": "s"}})),
                Some("secrets"),
            ),
            (
                volume(json!({"name": "a", "secret": {}})),
                Some("secrets (via secret volumes)"),
            ),
            (
                volume(json!({"name": "a", "configMap": {"name": "m"}})),
                Some("configmaps"),
            ),
            (
                volume(json!({"name": "a", "csi": {"driver": "d"}})),
                Some("csidrivers (via CSI volumes)"),
            ),
            (
                volume(
                    json!({"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
                ),
                Some("serviceaccounts (via projected volumes)"),
            ),
            (
                volume(json!({"name": "a", "persistentVolumeClaim": {"claimName": "c"}})),
                Some("persistentvolumeclaims"),
            ),
        ] {
            assert_eq!(needed_of_the_api(&pod(spec.clone())), expected, "{spec}");
        }
    }

    #[test]
    fn a_volumes_secrets_are_those_that_nodes_need() {
        let volume = serde_json::from_value(json!({"spec": {"csi": {
            "driver": "d", "volumeHandle": "v",
            "nodeStageSecretRef": {"name": "stage", "namespace": "storage"},
            "nodePublishSecretRef": {"name": "publish"},
            "controllerPublishSecretRef": {"name": "controller", "namespace": "storage"},
        }}}))
        .unwrap();
        let found = volume_secrets(&volume, "team");
        let expected = [("team", "publish"), ("storage", "stage")];
        assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
