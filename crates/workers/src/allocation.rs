//! What pods were allowed to use (allocated), and what of it was carried out (actuated).
//!
//! A pod's spec says what somebody wants; what it may use is what this node has agreed to
//! when it let the pod in, or at its last resize. [`apply`] makes the one out of the other:
//! everything beyond the fold sees a pod with what it was allowed. Both are kept in files
//! as upstream keeps them ([`checkpoint`]), by which a restart, and another agent, goes on.

pub mod actuated;
pub mod checkpoint;
pub mod conditions;
pub mod measure;
pub mod message;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use resources::requests::{self, CPU, MEMORY};
use types::PodResources;

pub use actuated::Actuated;
pub use measure::Measure;

/// What of a pod can be resized, by the feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// `InPlacePodLevelResourcesVerticalScaling`: what the pod says as a whole.
    pub pod_level: bool,
    /// `InPlacePodVerticalScalingInitContainers`: init containers that are no sidecars.
    pub init_containers: bool,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            pod_level: true,
            init_containers: true,
        }
    }
}

/// What a pod that is let in like this is allowed.
pub fn of_pod(pod: &Pod, scope: Scope) -> PodResources {
    let own = |container: &Container| container.resources.clone().unwrap_or_default();
    let containers = resizable(pod, scope);
    PodResources {
        containers: containers
            .map(|container| (container.name.clone(), own(container)))
            .collect(),
        pod: pod
            .spec
            .as_ref()
            .and_then(|spec| spec.resources.clone())
            .filter(|_| scope.pod_level),
    }
}

/// The pod with what it was allowed, if that is not what it wants.
pub fn apply(pod: &Pod, allowed: &PodResources, scope: Scope) -> Option<Arc<Pod>> {
    let spec = pod.spec.as_ref()?;
    let otherwise = |container: &Container| {
        let allowed = allowed.containers.get(&container.name);
        allowed.is_some_and(|allowed| !same(container.resources.as_ref(), Some(allowed)))
    };
    let pod_level = scope.pod_level && !same(spec.resources.as_ref(), allowed.pod.as_ref());
    let mut all = spec.containers.iter().chain(init_containers(pod));
    if !pod_level && !all.any(otherwise) {
        return None;
    }
    let mut pod = pod.clone();
    let spec = pod.spec.as_mut()?;
    if pod_level {
        spec.resources.clone_from(&allowed.pod);
    }
    let init = spec.init_containers.iter_mut().flatten();
    for container in spec.containers.iter_mut().chain(init) {
        if otherwise(container) {
            container.resources = allowed.containers.get(&container.name).cloned();
        }
    }
    Some(Arc::new(pod))
}

/// Whether somebody wants other resources than before.
pub fn asks_otherwise(before: &Pod, now: &Pod, scope: Scope) -> bool {
    let whole = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.resources.clone());
    if scope.pod_level && !same(whole(before).as_ref(), whole(now).as_ref()) {
        return true;
    }
    let figures = |container: &Container| {
        let resources = container.resources.as_ref();
        let of = |amounts: requests::Amounts| {
            let amount = |name| amounts.get(name).cloned().unwrap_or_default();
            [amount(CPU), amount(MEMORY)]
        };
        [
            of(requests::requests(resources)),
            of(requests::limits(resources)),
        ]
    };
    resizable(before, scope).any(|old| {
        let mut all = resizable(now, scope);
        let new = all.find(|new| new.name == old.name);
        new.is_some_and(|new| figures(new) != figures(old))
    })
}

/// Whether a resize asks for more CPUs or memory than the pod was allowed.
pub fn increases(allowed: &Pod, wanted: &Pod) -> bool {
    let of = |pod: &Pod| {
        let spec = pod.spec.as_ref();
        spec.map(|spec| requests::pod_requests(spec, requests::Overhead::Included))
            .unwrap_or_default()
    };
    let (allowed, wanted) = (of(allowed), of(wanted));
    [CPU, MEMORY].into_iter().any(|name| {
        let amount = |amounts: &requests::Amounts| amounts.get(name).cloned().unwrap_or_default();
        amount(&wanted) > amount(&allowed)
    })
}

/// Quantities are compared by what they amount to; nothing and an empty list are the same.
pub(crate) fn same(one: Option<&ResourceRequirements>, two: Option<&ResourceRequirements>) -> bool {
    let claims = |resources: Option<&ResourceRequirements>| {
        let claims = resources.and_then(|resources| resources.claims.clone());
        claims.unwrap_or_default()
    };
    requests::requests(one) == requests::requests(two)
        && requests::limits(one) == requests::limits(two)
        && claims(one) == claims(two)
}

fn init_containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.init_containers.as_ref())
        .into_iter()
        .flatten()
}

fn resizable(pod: &Pod, scope: Scope) -> impl Iterator<Item = &Container> {
    let init = init_containers(pod)
        .filter(move |container| scope.init_containers || requests::is_sidecar(container));
    let regular = pod.spec.iter().flat_map(|spec| &spec.containers);
    init.chain(regular)
}
