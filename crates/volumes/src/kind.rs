//! The kinds of volumes: those that there are, and those that are not built yet.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource,
    ProjectedVolumeSource, SecretVolumeSource, Volume,
};
use thiserror::Error;

use crate::layout::Plugin;

/// Kinds that have no directory of their own.
pub(crate) const HOST_PATH: &str = "kubernetes.io/host-path";
pub(crate) const IMAGE: &str = "kubernetes.io/image";

/// A kind of volume, with what the pod says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind<'a> {
    /// Whatever a claim is bound to; see [`crate::claims`].
    Claim,
    ConfigMap(&'a ConfigMapVolumeSource),
    DownwardApi(&'a DownwardAPIVolumeSource),
    /// Also a volume of which nothing is said.
    EmptyDir(Option<&'a EmptyDirVolumeSource>),
    HostPath(&'a HostPathVolumeSource),
    /// What is in an image: the runtime mounts it, once it has been pulled.
    Image,
    Projected(&'a ProjectedVolumeSource),
    Secret(&'a SecretVolumeSource),
}

/// A kind that is not built.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("volumes of kind {kind} are not supported by this kubelet yet")]
pub struct UnsupportedKind {
    pub kind: &'static str,
}

impl<'a> Kind<'a> {
    pub(crate) fn of(volume: &'a Volume) -> Result<Self, UnsupportedKind> {
        let claimed = volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
        let known = claimed
            .then_some(Self::Claim)
            .or_else(|| volume.config_map.as_ref().map(Self::ConfigMap))
            .or_else(|| volume.downward_api.as_ref().map(Self::DownwardApi))
            .or_else(|| {
                volume
                    .empty_dir
                    .as_ref()
                    .map(|source| Self::EmptyDir(Some(source)))
            })
            .or_else(|| volume.host_path.as_ref().map(Self::HostPath))
            .or_else(|| volume.image.as_ref().map(|_| Self::Image))
            .or_else(|| volume.projected.as_ref().map(Self::Projected))
            .or_else(|| volume.secret.as_ref().map(Self::Secret));
        match (known, unsupported(volume)) {
            (Some(kind), _) => Ok(kind),
            (None, Some(kind)) => Err(UnsupportedKind { kind }),
            (None, None) => Ok(Self::EmptyDir(None)),
        }
    }

    /// As upstream calls the kind; of a claim, the only one that can be bound here.
    pub(crate) fn name(self) -> &'static str {
        match (self.plugin(), self) {
            (Some(plugin), _) => plugin.name(),
            (None, Self::HostPath(_)) => HOST_PATH,
            (None, Self::Image) => IMAGE,
            (None, _) => Plugin::LocalVolume.name(),
        }
    }

    /// Whose directory it is in; a path of the machine is in none, and neither is an
    /// image; what a claim is bound to is not known here.
    pub(crate) fn plugin(self) -> Option<Plugin> {
        match self {
            Self::ConfigMap(_) => Some(Plugin::ConfigMap),
            Self::DownwardApi(_) => Some(Plugin::DownwardApi),
            Self::EmptyDir(_) => Some(Plugin::EmptyDir),
            Self::Claim | Self::HostPath(_) | Self::Image => None,
            Self::Projected(_) => Some(Plugin::Projected),
            Self::Secret(_) => Some(Plugin::Secret),
        }
    }
}

fn unsupported(volume: &Volume) -> Option<&'static str> {
    let kinds = [
        (
            volume.aws_elastic_block_store.is_some(),
            "awsElasticBlockStore",
        ),
        (volume.azure_disk.is_some(), "azureDisk"),
        (volume.azure_file.is_some(), "azureFile"),
        (volume.cephfs.is_some(), "cephfs"),
        (volume.cinder.is_some(), "cinder"),
        (volume.csi.is_some(), "csi"),
        (volume.fc.is_some(), "fc"),
        (volume.flex_volume.is_some(), "flexVolume"),
        (volume.flocker.is_some(), "flocker"),
        (volume.gce_persistent_disk.is_some(), "gcePersistentDisk"),
        (volume.git_repo.is_some(), "gitRepo"),
        (volume.glusterfs.is_some(), "glusterfs"),
        (volume.iscsi.is_some(), "iscsi"),
        (volume.nfs.is_some(), "nfs"),
        (
            volume.photon_persistent_disk.is_some(),
            "photonPersistentDisk",
        ),
        (volume.portworx_volume.is_some(), "portworxVolume"),
        (volume.quobyte.is_some(), "quobyte"),
        (volume.rbd.is_some(), "rbd"),
        (volume.scale_io.is_some(), "scaleIO"),
        (volume.storageos.is_some(), "storageos"),
        (volume.vsphere_volume.is_some(), "vsphereVolume"),
    ];
    kinds.iter().find(|(is, _)| *is).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::from_json;
    use serde_json::json;

    #[test]
    fn a_kind_that_is_not_built_is_named() {
        let cases = [
            (json!({"name": "v", "csi": {"driver": "d"}}), "csi"),
            (
                json!({"name": "v", "nfs": {"server": "s", "path": "/"}}),
                "nfs",
            ),
        ];
        for (volume, kind) in cases {
            let volume: Volume = from_json(volume);
            let error = Kind::of(&volume).unwrap_err();
            let wanted = format!("volumes of kind {kind} are not supported by this kubelet yet");
            assert_eq!(error.to_string(), wanted);
        }
    }

    #[test]
    fn a_claim_is_known_by_itself_and_by_what_it_is_made_for() {
        for volume in [
            json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}),
            json!({"name": "v", "ephemeral": {}}),
        ] {
            let volume: Volume = from_json(volume);
            assert!(matches!(Kind::of(&volume), Ok(Kind::Claim)));
        }
    }

    #[test]
    fn an_image_is_in_no_directory_of_the_pod() {
        let volume: Volume = from_json(json!({"name": "v", "image": {"reference": "i"}}));
        let kind = Kind::of(&volume).unwrap();
        assert!(matches!(kind, Kind::Image));
        assert_eq!(kind.plugin(), None);
    }

    #[test]
    fn a_volume_of_which_nothing_is_said_is_an_empty_directory() {
        let volume: Volume = from_json(json!({"name": "v"}));
        assert!(matches!(Kind::of(&volume), Ok(Kind::EmptyDir(None))));
    }
}
