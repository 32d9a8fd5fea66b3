//! A pod's status, from all that is known of it.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::containers::{Containers, given};
use crate::input::Input;
use crate::phase::{PodState, has_active_regular, phase};
use crate::spec::{all, ephemeral_containers, init_containers, is_terminal, list, spec};
use crate::transition::{self, IllegalTransition};
use crate::{addresses, conditions, normal, pod_resources, probes, qos};

/// What the API is to be told. An error, and nothing to tell, where a container
/// would have come back from an end that was final.
pub fn status(input: &Input<'_>) -> Result<PodStatus, IllegalTransition> {
    let old = input.old();
    let restarting = conditions::is_restarting_all(input);
    let mut status = with_containers(input, restarting);
    set_phase(input, &mut status);
    probes::apply(input, &mut status);
    status.qos_class = Some(qos::class(input.pod, input.api));
    status.conditions = Some(conditions::conditions(input, &status, restarting));
    addresses::apply(input, &mut status);
    pod_resources::apply(input, &mut status);
    transition::check(old, &status, spec(input.pod))?;
    finish(input, &mut status);
    Ok(status)
}

fn with_containers(input: &Input<'_>, restarting: bool) -> PodStatus {
    let old = input.old();
    let spec = spec(input.pod);
    let ephemeral = ephemeral_containers(spec);
    let statuses = |containers: &[Container], old: Option<&Vec<ContainerStatus>>, are_init| {
        let containers = Containers {
            input,
            specs: containers,
            old: list(old),
            are_init,
            restarting,
        };
        Some(containers.statuses()).filter(|statuses| !statuses.is_empty())
    };
    PodStatus {
        container_statuses: statuses(&spec.containers, old.container_statuses.as_ref(), false),
        init_container_statuses: statuses(
            init_containers(spec),
            old.init_container_statuses.as_ref(),
            true,
        ),
        ephemeral_container_statuses: statuses(
            &ephemeral,
            old.ephemeral_container_statuses.as_ref(),
            false,
        ),
        ..PodStatus::default()
    }
}

/// The phase with its reason; never back from an end.
fn set_phase(input: &Input<'_>, status: &mut PodStatus) {
    let old = input.old();
    let spec = spec(input.pod);
    let state = PodState {
        terminal: input.known.terminal,
        is_static: input.known.is_static,
        initialized: has_active_regular(spec, input.observed),
    };
    let computed = phase(spec, &all(status), state);
    // A static pod is the node's: what its mirror has come to says nothing of it.
    let api = input
        .api
        .phase
        .as_deref()
        .filter(|_| !input.known.is_static);
    let ends = [
        old.phase.as_deref().filter(|_| input.previous.is_some()),
        api,
    ];
    let end = ends.into_iter().find(|phase| is_terminal(*phase)).flatten();
    let phase = match end {
        Some(end) if !is_terminal(Some(computed)) => end,
        _ => computed,
    };
    status.phase = Some(phase.to_owned());
    if old.phase.as_deref() == Some(phase) {
        let kept = |old: &Option<String>, api: &Option<String>| {
            let filled = |text: &&String| !text.is_empty();
            let old = old.as_ref().filter(filled);
            old.or_else(|| api.as_ref().filter(filled)).cloned()
        };
        status.reason = kept(&old.reason, &input.api.reason);
        status.message = kept(&old.message, &input.api.message);
    }
    if let Some(ended) = &input.known.ended {
        status.phase = Some("Failed".to_owned());
        status.reason = given(&ended.reason);
        status.message = given(&ended.message);
    }
    if is_terminal(api) {
        status.phase = api.map(str::to_owned);
    }
}

/// What stays, and what counts from now.
fn finish(input: &Input<'_>, status: &mut PodStatus) {
    let old = input.old();
    let now = Time(input.now);
    let before = old.conditions.as_deref().unwrap_or_default();
    if let Some(conditions) = &mut status.conditions {
        conditions::keep_times(conditions, before, &now);
    }
    status.start_time = old.start_time.clone().or(Some(now));
    status.observed_generation = input.generation().max(old.observed_generation);
    normal::normalise(input.pod, status);
}
