//! Gives a pod that runs, and its containers, what they are allowed now.
//!
//! Memory before CPUs. Of each: what the pod may have as a whole is raised before its
//! containers get more, and lowered when they have less. Whatever fails ends it there;
//! what was done is written down, and the rest is tried again.

mod pod_limits;
mod usage;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use resources::cgroups::{Held, Limits};
use resources::requests::{CPU, MEMORY};
use seams::cri;
use tracing::{info, warn};
use types::PodResources;
use types::observed::ObservedPod;

use super::{Outcome, RETRY, grpc};
use crate::allocation::measure::{self, Measure};
use crate::plan::Start;
use crate::plan::resize::{Resize, Update, is_starting_resized};
use crate::slot::Slot;
use crate::spec::spec_of;
use crate::task::Worker;

use pod_limits::{Part, PodLimits};

/// The figures of one resource that a pod's cgroup is to have, beside what it has.
type PartsOf = fn(&Limits, &Held) -> Vec<Part>;

/// A pod on its way to other limits.
struct Scene<'a> {
    pod: &'a Pod,
    sandbox_id: String,
    /// What its cgroup is to have, and has.
    target: Limits,
    held: Held,
    /// What the runtime was last told of the pod as a whole.
    told: PodLimits,
}

impl Worker {
    pub(super) async fn resize(
        &mut self,
        slot: &Slot,
        observed: &ObservedPod,
        resize: &Resize,
    ) -> Outcome {
        let began = self.on.clock.uptime();
        let done = self.try_resize(slot, observed, resize).await;
        let took = self.on.clock.uptime().saturating_sub(began);
        let success = if done.is_ok() { "true" } else { "false" };
        let milliseconds = took.as_secs_f64() * 1000.0;
        let resizes = &self.on.metrics.resizes;
        resizes.observe(&[success], milliseconds.trunc());
        self.read_cgroup(slot);
        match done {
            Ok(()) => {
                info!(pod = %self.pod, "the pod was resized");
                self.memory.retry_resize_at = None;
            }
            Err(problem) => {
                warn!(pod = %self.pod, problem, "the pod could not be resized, will try again");
                self.resize_failed(slot, &problem);
                self.memory.retry_resize_at = Some(self.on.now() + self.on.spread(RETRY));
            }
        }
        Outcome::Done
    }

    /// Before containers start that are others than before, their pod has to have room
    /// for them. If that fails they start all the same.
    pub(super) async fn resize_for(
        &mut self,
        slot: &Slot,
        observed: &ObservedPod,
        starts: &[Start],
    ) {
        let actuated = self.memory.actuated.as_deref();
        if !is_starting_resized(&slot.pod, starts, actuated) {
            return;
        }
        let resize = Resize {
            starting: true,
            ..Resize::default()
        };
        self.resize(slot, observed, &resize).await;
    }

    async fn try_resize(
        &self,
        slot: &Slot,
        observed: &ObservedPod,
        resize: &Resize,
    ) -> Result<(), String> {
        let pod = &*slot.pod;
        let mut scene = self.scene(pod, observed)?;
        if let Some(scene) = &scene
            && (!resize.memory.is_empty() || resize.starting)
        {
            self.check_memory(scene, resize).await?;
        }
        let whole = resize.starting || resize.pod_level;
        if !resize.memory.is_empty() || whole {
            let part = Part::memory;
            self.resize_one(pod, scene.as_mut(), (MEMORY, part), &resize.memory)
                .await?;
            self.note_pod_level(slot, resize, MEMORY).await?;
        }
        if !resize.cpu.is_empty() || whole {
            let part = Part::cpu;
            self.resize_one(pod, scene.as_mut(), (CPU, part), &resize.cpu)
                .await?;
            self.note_pod_level(slot, resize, CPU).await?;
        }
        Ok(())
    }

    /// `None` on a node that makes no cgroups for pods.
    fn scene<'a>(&self, pod: &'a Pod, observed: &ObservedPod) -> Result<Option<Scene<'a>>, String> {
        let Some(cgroups) = &self.on.cgroups else {
            return Ok(None);
        };
        let held = cgroups.held(pod).ok().flatten();
        let held = held.ok_or_else(|| {
            format!(
                "unable to get pod cgroup memory config for pod {:?}",
                self.pod.to_string()
            )
        })?;
        let sandbox = observed.sandboxes.first();
        Ok(Some(Scene {
            pod,
            sandbox_id: sandbox.map(|one| one.id.clone()).unwrap_or_default(),
            target: cgroups.limits_of(pod),
            held,
            told: PodLimits::from(held),
        }))
    }

    /// One resource, of the pod and of its containers.
    async fn resize_one(
        &self,
        pod: &Pod,
        mut scene: Option<&mut Scene<'_>>,
        (resource, parts): (&str, PartsOf),
        updates: &[Update],
    ) -> Result<(), String> {
        let parts = scene
            .as_deref()
            .map(|scene| parts(&scene.target, &scene.held))
            .unwrap_or_default();
        if let Some(scene) = scene.as_deref_mut() {
            for part in parts.iter().filter(|part| part.raises) {
                self.set_pod(scene, resource, part).await?;
            }
        }
        for update in updates {
            self.update_container(pod, resource, update).await?;
        }
        if let Some(scene) = scene {
            // Requests shrink before limits do: they are never above them.
            for part in parts.iter().rev().filter(|part| part.lowers) {
                self.set_pod(scene, resource, part).await?;
            }
        }
        Ok(())
    }

    /// The runtime is told first: it may refuse.
    async fn set_pod(
        &self,
        scene: &mut Scene<'_>,
        resource: &str,
        part: &Part,
    ) -> Result<(), String> {
        let Some(cgroups) = &self.on.cgroups else {
            return Ok(());
        };
        let told = scene.told.with(&part.limits);
        self.tell_runtime(scene, told).await.map_err(|problem| {
            format!(
                "failed to notify runtime for UpdatePodSandboxResources (resource={resource}); resize rejected: {problem}"
            )
        })?;
        if let Err(error) = cgroups.change(scene.pod, &part.limits) {
            if let Err(problem) = self.tell_runtime(scene, scene.told).await {
                warn!(pod = %self.pod, problem, "the runtime goes on thinking that the pod was resized");
            }
            return Err(error.to_string());
        }
        scene.told = told;
        Ok(())
    }

    async fn tell_runtime(&self, scene: &Scene<'_>, told: PodLimits) -> Result<(), String> {
        let spec = spec_of(scene.pod);
        let id = scene.sandbox_id.clone();
        let request = cri::UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: id.clone(),
            overhead: Some(self.on.enforcement.overhead(&spec)),
            resources: Some(told.without_overhead(&spec).resources()),
        };
        match self.on.runtime.update_pod_sandbox_resources(request).await {
            Err(error) if !is_unimplemented(&error) => Err(format!(
                "updatePodSandboxResources failed for sanboxID {id:?}: {}",
                grpc(&error)
            )),
            _ => Ok(()),
        }
    }

    async fn update_container(
        &self,
        pod: &Pod,
        resource: &str,
        update: &Update,
    ) -> Result<(), String> {
        let Update {
            current, desired, ..
        } = update;
        // CPUs come after memory: by then it is as it should be.
        let measure = if resource == MEMORY {
            Measure {
                cpu_limit: current.cpu_limit,
                cpu_request: current.cpu_request,
                ..*desired
            }
        } else {
            *desired
        };
        let container = Container {
            resources: Some(measure.requirements()),
            ..named(pod, &update.container)
        };
        let request = cri::UpdateContainerResourcesRequest {
            container_id: update.id.clone(),
            linux: Some(self.on.enforcement.container(pod, &container)),
            ..cri::UpdateContainerResourcesRequest::default()
        };
        let updated = self.on.runtime.update_container_resources(request).await;
        updated.map_err(|error| grpc(&error))?;
        self.note_actuated(pod, &container).await
    }

    /// Writes down what a container has, or is about to be started with.
    pub(super) async fn note_actuated(
        &self,
        pod: &Pod,
        container: &Container,
    ) -> Result<(), String> {
        let resources = carried_out(pod, container, self.on.settings.resize.scope.pod_level);
        let noted = self.on.actuated.change(&self.pod.uid, |pod| {
            pod.containers.insert(container.name.clone(), resources);
        });
        noted.await.map_err(|error| error.to_string())
    }

    /// What a pod whose cgroup was just made begins with.
    pub(super) async fn note_new(&self, pod: &Pod) -> Result<(), String> {
        let spec = spec_of(pod);
        let pod_level = self.on.settings.resize.scope.pod_level;
        let is_new = self.on.actuated.get(&self.pod.uid).is_none();
        let init = spec.init_containers.iter().flatten();
        let all = init.chain(&spec.containers).filter(|_| is_new);
        let containers = all.map(|container| {
            let resources = carried_out(pod, container, pod_level);
            (container.name.clone(), resources)
        });
        let own = spec.resources.clone();
        let own = own.filter(|own| own.requests.is_some() || own.limits.is_some());
        let noted = self.on.actuated.change(&self.pod.uid, |pod| {
            pod.containers.extend(containers);
            if own.is_some() {
                pod.pod = own;
            }
        });
        noted.await.map_err(|error| error.to_string())
    }

    /// One resource of what the pod says as a whole was carried out.
    async fn note_pod_level(
        &self,
        slot: &Slot,
        resize: &Resize,
        resource: &str,
    ) -> Result<(), String> {
        let spec = spec_of(&slot.pod);
        let Some(own) = spec.resources.as_ref().filter(|_| resize.pod_level) else {
            return Ok(());
        };
        let noted = self
            .on
            .actuated
            .change(&self.pod.uid, |pod: &mut PodResources| {
                let noted = pod.pod.get_or_insert_default();
                for (from, to) in [
                    (&own.requests, &mut noted.requests),
                    (&own.limits, &mut noted.limits),
                ] {
                    let amount = from.as_ref().and_then(|from| from.get(resource));
                    if let Some(amount) = amount {
                        let to = to.get_or_insert_default();
                        to.insert(resource.to_owned(), amount.clone());
                    }
                }
            });
        noted.await.map_err(|error| error.to_string())
    }

    /// What the pod's cgroup says that it has.
    pub(super) fn read_cgroup(&mut self, slot: &Slot) {
        let cgroups = self.on.cgroups.as_ref();
        let held = cgroups.and_then(|cgroups| cgroups.held(&slot.pod).ok().flatten());
        self.known.cgroup = held.map(|held| PodLimits::from(held).observed());
    }

    /// What is known of the pod's containers from before.
    pub(crate) fn recall(&mut self) {
        let actuated = self.on.actuated.get(&self.pod.uid);
        self.known.actuated = actuated.as_ref().map(Arc::clone);
        self.memory.actuated = actuated;
    }
}

fn carried_out(pod: &Pod, container: &Container, pod_level: bool) -> ResourceRequirements {
    let spec = spec_of(pod);
    let own = container.resources.clone().unwrap_or_default();
    if !pod_level {
        return own;
    }
    let whole = spec.resources.as_ref();
    ResourceRequirements {
        limits: measure::limits(whole, container.resources.as_ref()),
        ..own
    }
}

fn named(pod: &Pod, name: &str) -> Container {
    let spec = spec_of(pod);
    let init = spec.init_containers.iter().flatten();
    let mut all = spec.containers.iter().chain(init);
    all.find(|one| one.name == name)
        .cloned()
        .unwrap_or_default()
}

/// Containerd 2.2 says it in words.
fn is_unimplemented(error: &seams::RuntimeError) -> bool {
    let in_words =
        error.code == seams::runtime::Code::Unknown && error.message.contains("not implemented");
    error.is_unimplemented() || in_words
}

#[cfg(test)]
mod tests {
    use seams::RuntimeError;
    use seams::runtime::Code;

    use super::*;

    #[test]
    fn a_runtime_may_say_in_words_that_it_cannot_hear_of_a_pods_resources() {
        for (code, message, expected) in [
            (Code::Unimplemented, "", true),
            (Code::Unimplemented, "unknown method", true),
            (
                Code::Unknown,
                "UpdatePodSandboxResources is not implemented",
                true,
            ),
            (Code::Unknown, "busy", false),
            (Code::Internal, "not implemented", false),
        ] {
            let error = RuntimeError::new("UpdatePodSandboxResources", code, message);
            assert_eq!(is_unimplemented(&error), expected, "{code:?} {message}");
        }
    }
}
