//! What a node writes on its pods.

use k8s_openapi::api::core::v1::Pod;
use types::{PodName, PodRef, PodUid};

pub use types::desired::{SEEN, SOURCE};

/// Of a static pod: its uid, which follows from what its manifest says.
pub const HASH: &str = "kubernetes.io/config.hash";
/// Of a mirror pod: the hash of its static pod.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

pub fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// Whether the pod came from a file or a URL.
pub fn is_static(pod: &Pod) -> bool {
    annotation(pod, SOURCE).is_some_and(|source| source != "api")
}

/// Whether the pod only stands for a static pod.
pub fn is_mirror(pod: &Pod) -> bool {
    annotation(pod, MIRROR).is_some()
}

pub(crate) fn name_of(pod: &Pod) -> PodName {
    PodName {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
    }
}

pub(crate) fn uid_of(pod: &Pod) -> PodUid {
    PodUid::new(pod.metadata.uid.as_deref().unwrap_or_default())
}

pub(crate) fn ref_of(pod: &Pod) -> PodRef {
    PodRef {
        name: name_of(pod),
        uid: uid_of(pod),
    }
}
