//! The last status of a pod that nothing is left of.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use crate::containers::{UNKNOWN, ended, lost};
use crate::input::Input;
use crate::spec::{
    init_containers, is_running, is_sidecar, is_terminal, is_waiting, list, spec, terminated,
};
use crate::{conditions, normal};

const NOT_FOUND: &str = "The container could not be located when the pod was terminated";

/// What was last said, with every container that had begun at its end, and the pod
/// at its own, unless it is a static one.
pub fn terminate(input: &Input<'_>) -> PodStatus {
    let mut status = input.old().clone();
    if is_initialized(input.pod, input.api) {
        for status in status.container_statuses.iter_mut().flatten() {
            end(status);
        }
    }
    let init = status.init_container_statuses.as_deref_mut();
    if let Some(init) = init {
        let begun = init.iter().rposition(has_begun).map_or(1, |last| last + 1);
        init.iter_mut().take(begun).for_each(end);
    }
    if !input.known.is_static && !is_terminal(status.phase.as_deref()) {
        status.phase = Some("Failed".to_owned());
    }
    let before = input.old().conditions.as_deref().unwrap_or_default();
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(input.now);
    if let Some(conditions) = &mut status.conditions {
        conditions::keep_times(conditions, before, &now);
    }
    status.start_time.get_or_insert(now);
    normal::normalise(input.pod, &mut status);
    status
}

fn end(status: &mut ContainerStatus) {
    if terminated(status.state.as_ref()).is_none() {
        status.state = Some(ended(lost(UNKNOWN, NOT_FOUND)));
    }
}

/// It does not wait, or it did something before it began to.
fn has_begun(status: &ContainerStatus) -> bool {
    !is_waiting(status) || terminated(status.last_state.as_ref()).is_some()
}

/// By what the API was told.
fn is_initialized(pod: &Pod, api: &PodStatus) -> bool {
    let init = init_containers(spec(pod));
    if init.is_empty() {
        return true;
    }
    if list(api.container_statuses.as_ref()).iter().any(has_begun) {
        return true;
    }
    let Some(last) = list(api.init_container_statuses.as_ref()).last() else {
        return false;
    };
    let Some(container) = init.iter().find(|one| one.name == last.name) else {
        return false;
    };
    if is_sidecar(container) {
        return is_running(last) && last.started == Some(true);
    }
    let ends = [last.state.as_ref(), last.last_state.as_ref()];
    let mut ends = ends.into_iter().filter_map(terminated);
    ends.any(|end| end.exit_code == 0)
}
