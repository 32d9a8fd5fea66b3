//! What a pod looks like to the runtime: pure functions, from the API's objects to
//! CRI's messages. Nothing here asks anybody: what a pod refers to is handed in.

pub mod container;
pub mod dns;
pub mod downward;
pub mod env;
mod go_json;
pub mod hash;
pub mod hostname;
pub mod hosts;
pub mod labels;
pub mod mounts;
pub mod sandbox;
pub mod security;
#[cfg(test)]
mod testing;

use k8s_openapi::api::core::v1::{Pod, PodSpec, VolumeDevice, VolumeMount};
use types::{PodName, PodRef, PodUid};

/// A warning that users see as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub about: About,
    pub reason: &'static str,
    pub message: String,
}

/// Which object an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Pod,
    Node,
}

/// Who a pod is.
pub fn pod_ref(pod: &Pod) -> PodRef {
    let metadata = &pod.metadata;
    PodRef {
        name: PodName {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        },
        uid: PodUid::new(metadata.uid.as_deref().unwrap_or_default()),
    }
}

pub(crate) fn spec_of(pod: &Pod) -> std::borrow::Cow<'_, PodSpec> {
    use std::borrow::Cow;
    pod.spec
        .as_ref()
        .map_or_else(|| Cow::Owned(PodSpec::default()), Cow::Borrowed)
}

/// Whether a pod that was edited has volumes, or containers that look into them, which it
/// had not: an ephemeral container may have use for one that nobody had before.
pub(crate) fn uses_other_volumes(before: &PodSpec, now: &PodSpec) -> bool {
    before.volumes != now.volumes || !uses(before).eq(uses(now))
}

/// What a container looks into.
type Uses<'a> = (
    &'a str,
    Option<&'a Vec<VolumeMount>>,
    Option<&'a Vec<VolumeDevice>>,
);

fn uses(spec: &PodSpec) -> impl Iterator<Item = Uses<'_>> {
    let init = spec.init_containers.iter().flatten();
    let ordinary = init.chain(&spec.containers).map(|container| {
        let (mounts, devices) = (&container.volume_mounts, &container.volume_devices);
        (container.name.as_str(), mounts.as_ref(), devices.as_ref())
    });
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| {
        let (mounts, devices) = (&container.volume_mounts, &container.volume_devices);
        (container.name.as_str(), mounts.as_ref(), devices.as_ref())
    });
    ordinary.chain(ephemeral)
}

pub(crate) fn uses_host_network(spec: &PodSpec) -> bool {
    spec.host_network == Some(true)
}
