//! What a claim is bound to: which kinds of persistent volumes there are, and whether
//! this pod may have this one on this node.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{HostPathVolumeSource, PersistentVolume, Pod, Volume};
use thiserror::Error;
use types::node_selector::Labelled;

use crate::attached::Driven;
use crate::claims::{Bound, ClaimAsk, ClaimError};
use crate::kind::UnsupportedKind;
use crate::pod;

const BLOCK: &str = "Block";
const FILESYSTEM: &str = "Filesystem";
const ONE_POD: &str = "ReadWriteOncePod";

/// Where mount options were before they had a field.
const OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
/// A group that the volume's files are given to: the pod's programs get it, too.
const GROUP: &str = "pv.beta.kubernetes.io/gid";

/// Why a pod cannot have a volume that is there. The words are upstream's.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    #[error("no matching NodeSelectorTerms")]
    OtherNodes,
    #[error("mount options are not supported for this volume type")]
    Options,
    #[error("volume uses the ReadWriteOncePod access mode and is already in use by another pod")]
    InUse,
}

/// What is behind a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    HostPath(HostPathVolumeSource),
    /// A directory of this machine; a disk of it has to be mounted first.
    Local(PathBuf),
    /// Whatever a driver makes of it.
    Driven,
}

/// A persistent volume, as a pod gets it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Persistent {
    /// The volume's own: its directory has it.
    pub(crate) name: String,
    pub(crate) source: Source,
    /// The claim says so.
    pub(crate) read_only: bool,
    pub(crate) options: Vec<String>,
    /// As the volume says it; what is no number is none.
    pub(crate) group: Option<i64>,
    /// Nobody else may have it at the same time.
    pub(crate) one_pod: bool,
}

/// The volume behind a claim, unless its kind is not there or is asked for in another
/// way than it can be had.
pub(crate) fn of(
    pod: &Pod,
    volume: &Volume,
    ask: &ClaimAsk,
    bound: &PersistentVolume,
) -> Result<Persistent, NotThere> {
    let name = bound.metadata.name.clone().unwrap_or_default();
    let spec = bound.spec.clone().unwrap_or_default();
    let mode = spec.volume_mode.as_deref().unwrap_or(FILESYSTEM);
    let used = pod::usage(pod, &volume.name);
    let other = |used| ClaimError::OtherMode {
        volume: volume.name.clone(),
        mode: mode.to_owned(),
        used,
    };
    if used.mounted && mode != FILESYSTEM {
        return Err(other("volumeMounts").into());
    }
    if used.as_device && mode != BLOCK {
        return Err(other("volumeDevices").into());
    }
    if mode == BLOCK {
        return Err(NotThere::Kind(UnsupportedKind {
            kind: "persistentVolumeClaim with volumeMode Block",
        }));
    }
    let source = match (spec.local, spec.host_path) {
        (Some(local), _) => Source::Local(PathBuf::from(local.path)),
        (None, Some(path)) => Source::HostPath(path),
        (None, None) if Driven::of(bound).is_some() => Source::Driven,
        (None, None) => return Err(ClaimError::NoPlugin { volume: name }.into()),
    };
    let group = annotation(bound, GROUP);
    Ok(Persistent {
        source,
        read_only: ask.read_only,
        options: options(bound),
        group: group.and_then(|group| group.parse().ok()),
        one_pod: spec.access_modes.is_some_and(|modes| modes == [ONE_POD]),
        name,
    })
}

/// Why a claim leads to nothing that a pod could have.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum NotThere {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Kind(UnsupportedKind),
}

impl Persistent {
    /// What can be told without a look at the disk.
    pub(crate) fn check(&self, bound: &Bound) -> Result<(), Refusal> {
        let spec = bound.volume.spec.as_ref();
        let affinity = spec.and_then(|spec| spec.node_affinity.as_ref());
        if let Some(required) = affinity.and_then(|affinity| affinity.required.as_ref()) {
            let node = bound.node.as_deref();
            let labels = node.and_then(|node| node.metadata.labels.as_ref());
            let labels = labels.into_iter().flatten();
            let node = Labelled {
                // Upstream shows a node without its name.
                name: "",
                labels: labels
                    .map(|(key, value)| (key.as_str(), value.as_str()))
                    .collect(),
            };
            if !node.is_selected(required) {
                return Err(Refusal::OtherNodes);
            }
        }
        match self.source {
            Source::HostPath(_) if !self.options.is_empty() => Err(Refusal::Options),
            _ => Ok(()),
        }
    }

    /// The group that a pod's programs get for this volume, unless they have it.
    pub(crate) fn extra_group(&self, pod: &Pod) -> Option<i64> {
        let spec = pod.spec.as_ref();
        let security = spec.and_then(|spec| spec.security_context.as_ref());
        let groups = security.and_then(|security| security.supplemental_groups.as_ref());
        self.group
            .filter(|group| !groups.is_some_and(|groups| groups.contains(group)))
    }
}

fn annotation<'a>(volume: &'a PersistentVolume, key: &str) -> Option<&'a str> {
    let annotations = volume.metadata.annotations.as_ref();
    annotations?.get(key).map(String::as_str)
}

/// The annotation counts, where both are there.
fn options(volume: &PersistentVolume) -> Vec<String> {
    let spec = volume.spec.as_ref();
    let options: Vec<String> = match annotation(volume, OPTIONS) {
        Some(options) => options.split(',').map(str::to_owned).collect(),
        None => spec
            .and_then(|spec| spec.mount_options.clone())
            .unwrap_or_default(),
    };
    let said = options.into_iter().filter(|option| !option.is_empty());
    said.collect()
}

#[cfg(test)]
mod tests;
