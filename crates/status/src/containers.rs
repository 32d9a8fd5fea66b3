//! The statuses of containers: what the runtime holds of each, laid over what was
//! last said of it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, ContainerUser, LinuxContainerUser, VolumeMount,
    VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use types::observed::{self, ObservedContainer};

use crate::input::{Input, Waiting};
use crate::phase::{RESTARTING_ALL, has_created_regular};
use crate::resources;
use crate::spec::{
    init_containers, is_running, is_sidecar, is_waiting, restarts, spec, terminated,
};

const CREATING: &str = "ContainerCreating";
const INITIALIZING: &str = "PodInitializing";
const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
pub(crate) const UNKNOWN: &str = "ContainerStatusUnknown";

/// As if it had been killed.
pub(crate) const KILLED: i32 = 137;

/// A pod as it is, for the statuses of one list of its containers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Containers<'a> {
    pub(crate) input: &'a Input<'a>,
    pub(crate) specs: &'a [Container],
    /// What was last said of them.
    pub(crate) old: &'a [ContainerStatus],
    pub(crate) are_init: bool,
    /// The end of one of them is about to end all.
    pub(crate) restarting: bool,
}

impl Containers<'_> {
    /// Init containers in the order of the spec, others by name.
    pub(crate) fn statuses(&self) -> Vec<ContainerStatus> {
        let statuses = self.specs.iter().map(|container| self.status(container));
        let mut statuses: Vec<ContainerStatus> = statuses.collect();
        if !self.are_init {
            statuses.sort_by(|one, other| one.name.cmp(&other.name));
        }
        statuses
    }

    fn status(&self, container: &Container) -> ContainerStatus {
        let observed = &self.input.observed.containers;
        let mut newest = observed.iter().filter(|seen| seen.name == container.name);
        let old = self.old.iter().find(|old| old.name == container.name);
        let current = newest.next();
        let mut status = match current {
            Some(seen) => self.seen(container, seen, old),
            None => self.unseen(container, old),
        };
        if let Some(before) = newest.next() {
            let state = self.converted(before, old).state;
            status.last_state = state;
        }
        self.waiting(container, current, &mut status);
        status.last_state.get_or_insert_default();
        status
    }

    fn seen(
        &self,
        container: &Container,
        seen: &ObservedContainer,
        old: Option<&ContainerStatus>,
    ) -> ContainerStatus {
        let mut status = self.converted(seen, old);
        // They never change; an agent that finds the container already there has
        // not said them yet.
        if status.volume_mounts.is_none() {
            status.volume_mounts = self.fresh(container).volume_mounts;
        }
        if seen.state == observed::ContainerState::Running {
            // An agent before this one may have seen it start: this one, not another that
            // had its name.
            let same = old.filter(|old| old.container_id == status.container_id);
            status.started = same.and_then(|old| old.started);
        }
        let allocated = container.resources.clone().unwrap_or_default();
        let actuated = self.input.known.actuated.as_deref();
        let actuated = actuated.and_then(|actuated| actuated.containers.get(&container.name));
        let reported = resources::reported(&allocated, &status, seen, old, actuated);
        status.resources = Some(reported);
        status.allocated_resources = allocated.requests;
        status.user = seen.user.as_ref().map(|user| ContainerUser {
            linux: Some(LinuxContainerUser {
                uid: user.uid,
                gid: user.gid,
                supplemental_groups: Some(user.supplemental_groups.clone())
                    .filter(|groups| !groups.is_empty()),
            }),
        });
        let signal = seen.stop_signal.clone();
        status.stop_signal = signal.filter(|_| self.input.known.stop_signals);
        status
    }

    /// What the runtime says, in the API's words.
    fn converted(
        &self,
        seen: &ObservedContainer,
        old: Option<&ContainerStatus>,
    ) -> ContainerStatus {
        let id = format!("{}://{}", self.input.node.runtime_name, seen.id);
        let count = restart_count(seen);
        let mut status = ContainerStatus {
            name: seen.name.clone(),
            image: seen.image.clone(),
            image_id: seen.image_ref.clone(),
            restart_count: count,
            ..ContainerStatus::default()
        };
        let mut old_end = None;
        if let Some(old) = old {
            status.volume_mounts.clone_from(&old.volume_mounts);
            status.restart_count = old.restart_count.max(count);
            old_end = terminated(old.state.as_ref());
            let same = old.container_id.as_deref() == Some(&id);
            let last = old_end.filter(|_| !same);
            let last = last.or_else(|| terminated(old.last_state.as_ref()));
            status.last_state = last.map(|end| ended(end.clone()));
        }
        let was_running = old.is_some_and(is_running);
        let state = match seen.state {
            observed::ContainerState::Running => {
                // One that took the place of one that is gone without a trace.
                let before = old.filter(|_| old_end.is_some());
                if let Some(before) = before.filter(|old| old.restart_count >= count) {
                    status.restart_count = before.restart_count + 1;
                }
                ContainerState {
                    running: Some(ContainerStateRunning {
                        started_at: time(seen.started_at),
                    }),
                    ..ContainerState::default()
                }
            }
            observed::ContainerState::Exited => ended(self.end(seen, &id)),
            observed::ContainerState::Unknown if was_running => {
                status.restart_count = old.map_or(0, |old| old.restart_count) + 1;
                let reason = if self.restarting {
                    RESTARTING_ALL
                } else {
                    UNKNOWN
                };
                ended(lost(
                    reason,
                    "The container could not be located when the pod was terminated",
                ))
            }
            observed::ContainerState::Created | observed::ContainerState::Unknown => {
                waits(&Waiting::default())
            }
        };
        status.container_id = Some(id);
        status.state = Some(state);
        status
    }

    fn end(&self, seen: &ObservedContainer, id: &str) -> ContainerStateTerminated {
        let mut message = seen.message.clone();
        let left = self.input.known.termination_messages.get(&seen.id);
        if let Some(left) = left.filter(|left| !left.is_empty()) {
            if !message.is_empty() {
                message.push_str(": ");
            }
            message.push_str(left);
        }
        ContainerStateTerminated {
            container_id: Some(id.to_owned()),
            exit_code: seen.exit_code,
            reason: given(&seen.reason),
            message: given(&message),
            started_at: time(seen.started_at),
            finished_at: time(seen.finished_at),
            signal: None,
        }
    }

    /// Nothing of it is in the runtime: it has not come yet, or it has been removed.
    fn unseen(&self, container: &Container, old: Option<&ContainerStatus>) -> ContainerStatus {
        let mut status = self.fresh(container);
        let Some(old) = old else {
            return status;
        };
        if terminated(old.state.as_ref()).is_some() {
            status = old.clone();
        } else {
            status.restart_count = old.restart_count;
            status.last_state.clone_from(&old.last_state);
        }
        if self.restarting && !is_waiting(old) {
            const WHY: &str = "The container is removed because RestartAllContainers in place";
            status.state = Some(waits(&Waiting {
                reason: RESTARTING_ALL.to_owned(),
                message: WHY.to_owned(),
            }));
            status.last_state = Some(ended(lost(RESTARTING_ALL, WHY)));
            status.restart_count = old.restart_count + 1;
            return status;
        }
        if is_running(old) && terminated(status.last_state.as_ref()).is_none() {
            // It ran, so it has stopped: else the pod would seem never to have begun.
            status.last_state = Some(ended(lost(
                UNKNOWN,
                "The container could not be located when the pod was deleted.  \
                 The container used to be Running",
            )));
            if !self.input.is_being_deleted() {
                status.restart_count += 1;
            }
        }
        status
    }

    fn fresh(&self, container: &Container) -> ContainerStatus {
        let has_init = !init_containers(spec(self.input.pod)).is_empty();
        let reason = if has_init { INITIALIZING } else { CREATING };
        let mounts = container.volume_mounts.iter().flatten();
        let recursive = self.input.known.recursive_read_only;
        let mounts: Vec<_> = mounts.map(|mount| volume_mount(mount, recursive)).collect();
        ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            state: Some(waits(&Waiting {
                reason: reason.to_owned(),
                message: String::new(),
            })),
            volume_mounts: (!mounts.is_empty()).then_some(mounts),
            ..ContainerStatus::default()
        }
    }

    /// A container that is to be started, and could not be, waits.
    fn waiting(
        &self,
        container: &Container,
        current: Option<&ObservedContainer>,
        status: &mut ContainerStatus,
    ) {
        if self.are_init {
            let done = |seen: &ObservedContainer| {
                seen.state == observed::ContainerState::Exited && seen.exit_code == 0
            };
            if current.is_some_and(done) {
                return;
            }
            let initialized = || has_created_regular(spec(self.input.pod), self.input.observed);
            if current.is_none() && !is_sidecar(container) && is_waiting(status) && initialized() {
                status.state = Some(ended(ContainerStateTerminated {
                    reason: Some("Completed".to_owned()),
                    message: Some(
                        "Unable to get init container status from container runtime and pod has \
                         been initialized, treat it as exited normally"
                            .to_owned(),
                    ),
                    ..ContainerStateTerminated::default()
                }));
                return;
            }
        }
        if !self.is_to_be_started(container, current) {
            return;
        }
        let Some(why) = self.input.known.waiting.get(&container.name) else {
            return;
        };
        if terminated(status.state.as_ref()).is_some() {
            status.last_state = status.state.take();
        }
        status.state = Some(waits(why));
    }

    fn is_to_be_started(&self, container: &Container, current: Option<&ObservedContainer>) -> bool {
        if self.input.is_being_deleted() {
            return false;
        }
        let Some(seen) = current else {
            return true;
        };
        match seen.state {
            observed::ContainerState::Running => false,
            observed::ContainerState::Created | observed::ContainerState::Unknown => true,
            observed::ContainerState::Exited => {
                restarts(container, spec(self.input.pod), seen.exit_code)
            }
        }
    }
}

/// The node's own count where it wrote one down; else what the runtime was told.
fn restart_count(seen: &ObservedContainer) -> i32 {
    let noted = annotation(&seen.annotations, RESTART_COUNT);
    noted.unwrap_or_else(|| i32::try_from(seen.attempt).unwrap_or(i32::MAX))
}

fn annotation(annotations: &BTreeMap<String, String>, name: &str) -> Option<i32> {
    annotations.get(name)?.parse().ok()
}

fn volume_mount(mount: &VolumeMount, recursive: bool) -> VolumeMountStatus {
    let read_only = mount.read_only == Some(true);
    VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: read_only.then_some(true),
        recursive_read_only: read_only.then(|| {
            let all_the_way = recursive && asks_all_the_way(mount);
            let word = if all_the_way { "Enabled" } else { "Disabled" };
            word.to_owned()
        }),
        volume_status: None,
    }
}

/// And nothing is in the way of it.
fn asks_all_the_way(mount: &VolumeMount) -> bool {
    let asked = matches!(
        mount.recursive_read_only.as_deref(),
        Some("IfPossible" | "Enabled")
    );
    let propagation = mount.mount_propagation.as_deref().unwrap_or("None");
    asked && propagation == "None"
}

pub(crate) fn lost(reason: &str, message: &str) -> ContainerStateTerminated {
    ContainerStateTerminated {
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        exit_code: KILLED,
        ..ContainerStateTerminated::default()
    }
}

pub(crate) fn ended(end: ContainerStateTerminated) -> ContainerState {
    ContainerState {
        terminated: Some(end),
        ..ContainerState::default()
    }
}

fn waits(why: &Waiting) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: given(&why.reason),
            message: given(&why.message),
        }),
        ..ContainerState::default()
    }
}

pub(crate) fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// A time that the runtime does not know is 1970, as upstream tells it.
fn time(nanos: i64) -> Option<Time> {
    Timestamp::from_nanosecond(i128::from(nanos)).ok().map(Time)
}
