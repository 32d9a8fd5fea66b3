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

use k8s_openapi::api::core::v1::{Pod, PodSpec};
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

pub(crate) fn uses_host_network(spec: &PodSpec) -> bool {
    spec.host_network == Some(true)
}
