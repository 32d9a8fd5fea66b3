//! What has to be told the runtime for containers that run to have what they are allowed.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use types::PodResources;
use types::observed::{ContainerState, ObservedContainer, ObservedPod};

use super::Start;
use crate::allocation::Measure;
use crate::spec::spec_of;

/// A resize of a pod that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// Containers whose memory is another, those that get less first.
    pub memory: Vec<Update>,
    /// The same for CPUs.
    pub cpu: Vec<Update>,
    /// A container that is about to start is another than before: so is its pod.
    pub starting: bool,
    /// What the pod says as a whole is another.
    pub pod_level: bool,
}

/// A container that runs and is to have something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub id: String,
    pub container: String,
    pub current: Measure,
    pub desired: Measure,
}

/// What a container that runs needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// It goes on, with the rest of it told to the runtime.
    Update,
    /// Its policy is that another takes its place.
    Restart,
}

impl Resize {
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.cpu.is_empty() && !self.starting && !self.pod_level
    }

    /// What a container that runs needs; what can be done while it runs is noted.
    pub(super) fn container(
        &mut self,
        spec: &PodSpec,
        container: &Container,
        newest: &ObservedContainer,
        actuated: Option<&PodResources>,
    ) -> Need {
        let desired = desired(spec, container);
        let current = current(&container.name, actuated);
        if desired == current {
            return Need::Nothing;
        }
        let memory = changed(
            (desired.memory_limit, current.memory_limit),
            (desired.memory_request, current.memory_request),
        );
        let cpu = changed(
            (desired.cpu_limit, current.cpu_limit),
            (desired.cpu_request, current.cpu_request),
        );
        let restarts = |change: Option<Change>, resource: &str| {
            change.is_some() && restarts_for(container, resource)
        };
        if restarts(memory, "memory") || restarts(cpu, "cpu") {
            return Need::Restart;
        }
        let update = Update {
            id: newest.id.clone(),
            container: container.name.clone(),
            current,
            desired,
        };
        for (list, change) in [(&mut self.memory, memory), (&mut self.cpu, cpu)] {
            match change {
                None => {}
                // What one gives up another may get.
                Some(Change::Less) => list.insert(0, update.clone()),
                Some(Change::More) => list.push(update.clone()),
            }
        }
        Need::Update
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Less,
    More,
}

/// The limit counts, or else the request: pairs of what is wanted and what there is.
fn changed(limit: (i64, i64), request: (i64, i64)) -> Option<Change> {
    let (desired, current) = [limit, request].into_iter().find(|(new, old)| new != old)?;
    Some(if desired > current {
        Change::More
    } else {
        Change::Less
    })
}

fn restarts_for(container: &Container, resource: &str) -> bool {
    let mut policies = container.resize_policy.iter().flatten();
    let policy = policies.find(|policy| policy.resource_name == resource);
    policy.is_some_and(|policy| policy.restart_policy == "RestartContainer")
}

fn desired(spec: &PodSpec, container: &Container) -> Measure {
    Measure::of_container(spec.resources.as_ref(), container.resources.as_ref())
}

/// Where nothing was written down, nothing was given: to tell the runtime once more does
/// no harm.
fn current(name: &str, actuated: Option<&PodResources>) -> Measure {
    let own = actuated.and_then(|actuated| actuated.containers.get(name));
    let pod = actuated.and_then(|actuated| actuated.pod.as_ref());
    Measure::of_container(pod, own)
}

/// Whether what a pod says as a whole was not carried out yet.
pub(super) fn pod_level(spec: &PodSpec, actuated: Option<&PodResources>) -> bool {
    let carried_out = actuated.and_then(|actuated| actuated.pod.as_ref());
    Measure::of_pod(spec.resources.as_ref()) != Measure::of_pod(carried_out)
}

/// Whether containers that are about to start are others than before: then the pod's own
/// limits have to follow first.
pub fn is_starting_resized(pod: &Pod, starts: &[Start], actuated: Option<&PodResources>) -> bool {
    let spec = spec_of(pod);
    let resized = |container: &&Container| {
        let wanted = desired(&spec, container);
        wanted != current(&container.name, actuated)
    };
    // Ephemeral ones have no resources.
    let init = spec.init_containers.iter().flatten();
    let mut resized = init.chain(&spec.containers).filter(resized);
    resized.any(|container| starts.iter().any(|start| start.container == container.name))
}

/// Whether anything that runs has not got what it is allowed yet. What does not run will
/// have it when it starts.
pub fn is_in_progress(
    pod: &Pod,
    observed: &ObservedPod,
    actuated: Option<&PodResources>,
    pod_level: bool,
) -> bool {
    let spec = spec_of(pod);
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|one| resources::requests::is_sidecar(one));
    let mut all = sidecars.chain(&spec.containers);
    let waits = all.any(|container| {
        let newest = observed.container(&container.name);
        let runs = newest.is_some_and(|newest| newest.state == ContainerState::Running);
        runs && desired(&spec, container) != current(&container.name, actuated)
    });
    let whole = || {
        let known = actuated.is_some_and(|actuated| actuated.pod.is_some());
        spec.resources.is_some() && known && self::pod_level(&spec, actuated)
    };
    waits || (pod_level && whole())
}
