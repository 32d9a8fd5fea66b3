//! Whether containers have started and are ready.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodStatus};

use crate::conditions::is_true;
use crate::input::{Input, Probed};
use crate::spec::{init_containers, is_running, is_sidecar, spec, terminated};

/// A container that began so shortly before the agent may not have been probed yet
/// by the one before it.
const GRACE: SignedDuration = SignedDuration::from_secs(10);

/// Writes `started` and `ready` into the statuses of regular and init containers.
pub(crate) fn apply(input: &Input<'_>, status: &mut PodStatus) {
    let spec = spec(input.pod);
    for status in status.container_statuses.iter_mut().flatten() {
        let container = named(&spec.containers, &status.name);
        set(input, container, status);
    }
    for status in status.init_container_statuses.iter_mut().flatten() {
        let Some(container) = named(init_containers(spec), &status.name) else {
            continue;
        };
        if is_sidecar(container) {
            set(input, Some(container), status);
            continue;
        }
        status.started = Some(is_started(input, Some(container), status));
        let end = terminated(status.state.as_ref());
        if end.is_some_and(|end| end.exit_code == 0) {
            status.ready = true;
        }
    }
}

fn named<'a>(containers: &'a [Container], name: &str) -> Option<&'a Container> {
    containers.iter().find(|container| container.name == name)
}

fn set(input: &Input<'_>, container: Option<&Container>, status: &mut ContainerStatus) {
    let started = is_started(input, container, status);
    status.started = Some(started);
    status.ready = started && is_ready(input, container, status);
}

fn is_started(input: &Input<'_>, container: Option<&Container>, status: &ContainerStatus) -> bool {
    if !is_running(status) {
        return false;
    }
    if let Some(started) = probed(input, status).started {
        return started;
    }
    let probe = container.and_then(|container| container.startup_probe.as_ref());
    status.started == Some(true) || probe.is_none()
}

fn is_ready(input: &Input<'_>, container: Option<&Container>, status: &ContainerStatus) -> bool {
    if !is_running(status) {
        return false;
    }
    let probe = container.and_then(|container| container.readiness_probe.as_ref());
    let found = probed(input, status).ready;
    match found {
        Some(true) => true,
        Some(false) => false,
        None if probe.is_none() => true,
        // Not probed yet by this agent: what was said before still holds, of itself or,
        // as upstream has it, of its pod.
        None => {
            let is_old = began(status).is_some_and(|began| precedes(began, input));
            was_ready_itself(input, status) || (is_old && was_ready(input))
        }
    }
}

fn was_ready_itself(input: &Input<'_>, status: &ContainerStatus) -> bool {
    let old = input.old();
    let lists = [&old.container_statuses, &old.init_container_statuses];
    let mut all = lists.into_iter().flatten().flatten();
    let itself = all.find(|old| old.name == status.name);
    itself.is_some_and(|old| old.ready && old.container_id == status.container_id)
}

fn was_ready(input: &Input<'_>) -> bool {
    let conditions = input.api.conditions.as_deref().unwrap_or_default();
    is_true(conditions, "Ready")
}

fn precedes(began: Timestamp, input: &Input<'_>) -> bool {
    let since = input.node.agent_started.saturating_sub(GRACE);
    since.is_ok_and(|since| began < since)
}

fn began(status: &ContainerStatus) -> Option<Timestamp> {
    let running = status.state.as_ref()?.running.as_ref()?;
    running.started_at.as_ref().map(|time| time.0)
}

/// Results are kept by id: another container of that name has not been probed.
fn probed(input: &Input<'_>, status: &ContainerStatus) -> Probed {
    let id = status.container_id.as_deref().unwrap_or_default();
    let id = id.split_once("://").map_or(id, |(_, id)| id);
    input.known.probed.get(id).copied().unwrap_or_default()
}
