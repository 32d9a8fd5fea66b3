//! What the containers of a pod, and the pod as a whole, were given: what a node writes
//! down when it lets a pod in, and when it has carried a resize out.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;

/// The resources of one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodResources {
    /// By the container's name.
    pub containers: BTreeMap<String, ResourceRequirements>,
    /// Of the pod as a whole, where it says something itself.
    pub pod: Option<ResourceRequirements>,
}
