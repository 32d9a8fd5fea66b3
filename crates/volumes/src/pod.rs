//! What a pod's spec says of its volumes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, SecurityContext, Volume, VolumeDevice, VolumeMount};
use types::{PodName, PodRef, PodUid};

/// What all kinds of containers say of volumes.
pub(crate) struct ContainerVolumes<'a> {
    pub(crate) mounts: &'a [VolumeMount],
    devices: &'a [VolumeDevice],
    security: Option<&'a SecurityContext>,
}

/// Who gets the files of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOwners {
    /// The one user that all containers run as.
    pub user: Option<u32>,
    pub group: Option<u32>,
}

pub(crate) fn reference(pod: &Pod) -> PodRef {
    let metadata = &pod.metadata;
    PodRef {
        name: PodName {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        },
        uid: PodUid::new(metadata.uid.as_deref().unwrap_or_default()),
    }
}

/// Init containers, containers, ephemeral containers.
pub(crate) fn containers(pod: &Pod) -> Vec<ContainerVolumes<'_>> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let init = spec.init_containers.iter().flatten();
    let ordinary = init
        .chain(&spec.containers)
        .map(|container| ContainerVolumes {
            mounts: container.volume_mounts.as_deref().unwrap_or_default(),
            devices: container.volume_devices.as_deref().unwrap_or_default(),
            security: container.security_context.as_ref(),
        });
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let ephemeral = ephemeral.map(|container| ContainerVolumes {
        mounts: container.volume_mounts.as_deref().unwrap_or_default(),
        devices: container.volume_devices.as_deref().unwrap_or_default(),
        security: container.security_context.as_ref(),
    });
    ordinary.chain(ephemeral).collect()
}

/// The volumes that some container uses: the others are not set up.
pub(crate) fn used_volumes(pod: &Pod) -> Vec<&Volume> {
    let containers = containers(pod);
    let mounts = containers.iter().flat_map(|container| container.mounts);
    let mut used: BTreeSet<&str> = mounts.map(|mount| mount.name.as_str()).collect();
    let devices = containers.iter().flat_map(|container| container.devices);
    used.extend(devices.map(|device| device.name.as_str()));
    let spec = pod.spec.as_ref();
    let volumes = spec.and_then(|spec| spec.volumes.as_ref());
    let volumes = volumes.into_iter().flatten();
    volumes
        .filter(|volume| used.contains(volume.name.as_str()))
        .collect()
}

/// In which ways a pod's containers use a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) mounted: bool,
    pub(crate) as_device: bool,
}

pub(crate) fn usage(pod: &Pod, volume: &str) -> Use {
    let containers = containers(pod);
    let mut mounts = containers.iter().flat_map(|container| container.mounts);
    let mut devices = containers.iter().flat_map(|container| container.devices);
    Use {
        mounted: mounts.any(|mount| mount.name == volume),
        as_device: devices.any(|device| device.name == volume),
    }
}

pub(crate) fn file_owners(pod: &Pod) -> FileOwners {
    let security = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.security_context.as_ref());
    let id = |id: i64| u32::try_from(id).ok();
    let pods_user = security.and_then(|security| security.run_as_user);
    let users = containers(pod).into_iter().map(|container| {
        let own = container.security.and_then(|security| security.run_as_user);
        own.or(pods_user)
    });
    let users: BTreeSet<Option<i64>> = users.collect();
    let one = users
        .first()
        .copied()
        .flatten()
        .filter(|_| users.len() == 1);
    FileOwners {
        user: one.and_then(id),
        group: security.and_then(|security| security.fs_group).and_then(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::from_json;
    use serde_json::json;

    #[test]
    fn only_volumes_that_a_container_uses_count() {
        let pod: Pod = from_json(json!({"spec": {
            "volumes": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}, {"name": "unused"}],
            "initContainers": [{"name": "i", "volumeMounts": [{"name": "c", "mountPath": "/c"}]}],
            "containers": [{"name": "m", "volumeMounts": [{"name": "a", "mountPath": "/a"}, {"name": "a", "mountPath": "/b"}]}],
            "ephemeralContainers": [{"name": "e", "volumeDevices": [{"name": "d", "devicePath": "/d"}]}]
        }}));
        let names: Vec<_> = used_volumes(&pod)
            .iter()
            .map(|volume| volume.name.as_str())
            .collect();
        assert_eq!(names, ["a", "c", "d"]);
    }

    #[test]
    fn files_are_owned_by_the_one_user_that_all_containers_run_as() {
        let cases = [
            (json!({}), json!({}), json!({}), None),
            (json!({"runAsUser": 7}), json!({}), json!({}), Some(7)),
            (
                json!({"runAsUser": 7}),
                json!({"runAsUser": 8}),
                json!({"runAsUser": 8}),
                Some(8),
            ),
            (
                json!({"runAsUser": 7}),
                json!({"runAsUser": 8}),
                json!({}),
                None,
            ),
            (json!({}), json!({"runAsUser": 8}), json!({}), None),
        ];
        for (pods, first, second, user) in cases {
            let pod: Pod = from_json(json!({"spec": {
                "securityContext": pods,
                "containers": [{"name": "a", "securityContext": first}, {"name": "b", "securityContext": second}]
            }}));
            assert_eq!(
                file_owners(&pod),
                FileOwners { user, group: None },
                "{pod:?}"
            );
        }
        let pod: Pod =
            from_json(json!({"spec": {"containers": [], "securityContext": {"fsGroup": 2000}}}));
        let wanted = FileOwners {
            user: None,
            group: Some(2000),
        };
        assert_eq!(file_owners(&pod), wanted);
    }
}
