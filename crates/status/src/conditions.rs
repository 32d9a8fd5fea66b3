//! The conditions of a pod, in the order in which upstream appends them.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use types::observed::{ContainerState, ObservedPod};

use crate::input::Input;
use crate::spec::{
    all, init_containers, is_running, is_sidecar, is_terminal, list, may_restart_all, named,
    restarts_all, spec, terminated,
};

pub(crate) const DISRUPTION: &str = "DisruptionTarget";
const READY_TO_START: &str = "PodReadyToStartContainers";
const INITIALIZED: &str = "Initialized";
pub(crate) const READY: &str = "Ready";
pub(crate) const CONTAINERS_READY: &str = "ContainersReady";
const SCHEDULED: &str = "PodScheduled";
const RESTARTING: &str = "AllContainersRestarting";
pub(crate) const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";

/// Those that nobody else writes.
const OWN: [&str; 8] = [
    SCHEDULED,
    READY,
    INITIALIZED,
    CONTAINERS_READY,
    RESIZE_IN_PROGRESS,
    "PodResizePending",
    READY_TO_START,
    RESTARTING,
];

pub(crate) fn is_own(kind: &str) -> bool {
    OWN.contains(&kind)
}

pub(crate) fn is_true(conditions: &[PodCondition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

pub(crate) fn find<'a>(conditions: &'a [PodCondition], kind: &str) -> Option<&'a PodCondition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// All of them, for a status whose phase and containers are known.
pub(crate) fn conditions(
    input: &Input<'_>,
    status: &PodStatus,
    restarting: bool,
) -> Vec<PodCondition> {
    let others = input.api.conditions.iter().flatten();
    let mut conditions: Vec<PodCondition> = others
        .filter(|condition| !is_own(&condition.type_))
        .cloned()
        .collect();
    conditions.extend(input.known.resize.iter().cloned());
    let old = input.old().conditions.as_deref().unwrap_or_default();
    let disruption = input.known.disruption.as_ref();
    if let Some(disruption) = disruption.or_else(|| find(old, DISRUPTION)) {
        replace_or_push(&mut conditions, disruption.clone());
    }
    let statuses = all(status);
    let phase = status.phase.as_deref().unwrap_or_default();
    let ready_to_start = Verdict::of(!needs_sandbox(input));
    let was_initialized = is_true(old, INITIALIZED);
    let initialized = initialized(input.pod, &statuses, phase, was_initialized);
    let containers = containers_ready(input.pod, &statuses, phase);
    let ready = ready(input, &conditions, &containers);
    for (kind, verdict) in [
        (READY_TO_START, ready_to_start),
        (INITIALIZED, initialized),
        (READY, ready),
        (CONTAINERS_READY, containers),
        (SCHEDULED, Verdict::of(true)),
    ] {
        let mut condition = verdict.condition(kind);
        condition.observed_generation = input.generation();
        conditions.push(condition);
    }
    if may_restart_all(spec(input.pod)) {
        let verdict = restarting_all(input, phase, restarting);
        conditions.push(verdict.condition(RESTARTING));
    }
    conditions
}

/// What terminal pods' readiness is called.
pub(crate) fn not_ready_by(phase: &str) -> Option<&'static str> {
    match phase {
        "Failed" => Some("PodFailed"),
        "Succeeded" => Some("PodCompleted"),
        _ => None,
    }
}

/// Times change with the status of a condition, not with its words.
pub(crate) fn keep_times(new: &mut [PodCondition], old: &[PodCondition], now: &Time) {
    for condition in new {
        let kind = condition.type_.as_str();
        if !is_own(kind) && kind != DISRUPTION {
            continue;
        }
        // These carry times of their own.
        if kind.starts_with("PodResize") {
            continue;
        }
        let before = find(old, kind).filter(|before| before.status == condition.status);
        condition.last_transition_time = match before {
            Some(before) => before.last_transition_time.clone(),
            None => Some(now.clone()),
        };
    }
}

pub(crate) fn replace_or_push(conditions: &mut Vec<PodCondition>, condition: PodCondition) {
    let place = conditions
        .iter_mut()
        .find(|other| other.type_ == condition.type_);
    match place {
        Some(place) => *place = condition,
        None => conditions.push(condition),
    }
}

/// Whether it holds, and if not, why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Verdict {
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Verdict {
    fn of(holds: bool) -> Self {
        Self {
            holds,
            ..Self::default()
        }
    }

    fn not(reason: &'static str, message: String) -> Self {
        Self {
            holds: false,
            reason,
            message,
        }
    }

    fn condition(self, kind: &str) -> PodCondition {
        let status = if self.holds { "True" } else { "False" };
        PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(self.reason.to_owned()).filter(|reason| !reason.is_empty()),
            message: Some(self.message).filter(|message| !message.is_empty()),
            ..PodCondition::default()
        }
    }
}

/// Whether the pod has no sandbox that its containers could be started in.
pub(crate) fn needs_sandbox(input: &Input<'_>) -> bool {
    let observed = input.observed;
    let Some(newest) = observed.sandboxes.first() else {
        return true;
    };
    let ready = observed.sandboxes.iter().filter(|sandbox| sandbox.ready);
    if ready.count() > 1 || !newest.ready {
        return true;
    }
    let host_network = spec(input.pod).host_network == Some(true);
    newest.host_network != host_network || (!host_network && newest.ips.is_empty())
}

fn initialized(pod: &Pod, statuses: &[&ContainerStatus], phase: &str, was: bool) -> Verdict {
    let spec = spec(pod);
    let init = init_containers(spec);
    if statuses.is_empty() && !init.is_empty() {
        return Verdict::not("UnknownContainerStatuses", String::new());
    }
    let finished = |container: &Container, status: &ContainerStatus| {
        if is_sidecar(container) {
            status.started == Some(true)
        } else {
            status.ready
        }
    };
    let lacking = Lacking::among(init.iter(), statuses, finished);
    if phase == "Succeeded" && lacking.unknown.is_empty() {
        return Verdict {
            holds: true,
            reason: "PodCompleted",
            message: String::new(),
        };
    }
    // Once it was, it stays so, whatever sidecars do.
    let mut regular = spec.containers.iter();
    let begun = regular.any(|container| {
        let status = named(statuses, &container.name);
        status
            .is_some_and(|status| is_running(status) || terminated(status.state.as_ref()).is_some())
    });
    match lacking.message("incomplete") {
        Some(message) if !begun && !was => Verdict::not("ContainersNotInitialized", message),
        _ => Verdict::of(true),
    }
}

fn containers_ready(pod: &Pod, statuses: &[&ContainerStatus], phase: &str) -> Verdict {
    if statuses.is_empty() {
        return Verdict::not("UnknownContainerStatuses", String::new());
    }
    let spec = spec(pod);
    let sidecars = init_containers(spec).iter().filter(|one| is_sidecar(one));
    let counted = sidecars.chain(&spec.containers);
    let lacking = Lacking::among(counted, statuses, |_, status| status.ready);
    if let Some(reason) = not_ready_by(phase)
        && (phase == "Failed" || lacking.unknown.is_empty())
    {
        return Verdict::not(reason, String::new());
    }
    match lacking.message("unready") {
        Some(message) => Verdict::not("ContainersNotReady", message),
        None => Verdict::of(true),
    }
}

fn ready(input: &Input<'_>, conditions: &[PodCondition], containers: &Verdict) -> Verdict {
    if !containers.holds {
        return containers.clone();
    }
    let gates = spec(input.pod).readiness_gates.iter().flatten();
    let missing = gates.filter_map(|gate| {
        let kind = &gate.condition_type;
        match find(conditions, kind) {
            None => Some(format!(
                "corresponding condition of pod readiness gate \"{kind}\" does not exist."
            )),
            Some(condition) if condition.status != "True" => Some(format!(
                "the status of pod readiness gate \"{kind}\" is not \"True\", but {}",
                condition.status
            )),
            Some(_) => None,
        }
    });
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() {
        return Verdict::of(true);
    }
    Verdict::not("ReadinessGatesNotReady", missing.join(", "))
}

fn restarting_all(input: &Input<'_>, phase: &str, restarting: bool) -> Verdict {
    if let Some(reason) = not_ready_by(phase) {
        return Verdict::not(reason, String::new());
    }
    let spec = spec(input.pod);
    let mut containers = init_containers(spec).iter().chain(&spec.containers);
    let any_left = containers.any(|one| input.observed.container(&one.name).is_some());
    if !restarting || !any_left {
        return Verdict::of(false);
    }
    Verdict {
        holds: true,
        reason: "RestartAllContainersStarted",
        message: "container exited with restart policy rule".to_owned(),
    }
}

/// Whether a status says that all containers are being started again.
pub fn restarts_everything(status: &PodStatus) -> bool {
    is_true(status.conditions.as_deref().unwrap_or_default(), RESTARTING)
}

/// Whether the end of a container is about to end all.
pub(crate) fn is_restarting_all(input: &Input<'_>) -> bool {
    let old = input.old();
    if restarts_everything(old) {
        return true;
    }
    let spec = spec(input.pod);
    let mut containers = init_containers(spec).iter().chain(&spec.containers);
    containers.any(|container| {
        let by = |exit_code| restarts_all(container, exit_code);
        // A container that runs, or is gone, has no end to be judged by.
        let Some(exit_code) = exited(input.observed, &container.name) else {
            return false;
        };
        let said = list(old.init_container_statuses.as_ref()).iter();
        let mut said = said.chain(list(old.container_statuses.as_ref()));
        let said = said.find(|status| status.name == container.name);
        let end = said.and_then(|status| terminated(status.state.as_ref()));
        by(exit_code) || end.is_some_and(|end| by(end.exit_code))
    })
}

fn exited(observed: &ObservedPod, name: &str) -> Option<i32> {
    let newest = observed.container(name)?;
    (newest.state == ContainerState::Exited).then_some(newest.exit_code)
}

/// Containers that keep a condition from holding.
#[derive(Default)]
struct Lacking<'a> {
    unknown: Vec<&'a str>,
    others: Vec<&'a str>,
}

impl<'a> Lacking<'a> {
    fn among(
        containers: impl Iterator<Item = &'a Container>,
        statuses: &[&ContainerStatus],
        holds: impl Fn(&Container, &ContainerStatus) -> bool,
    ) -> Self {
        let mut lacking = Self::default();
        for container in containers {
            match named(statuses, &container.name) {
                None => lacking.unknown.push(&container.name),
                Some(status) if !holds(container, status) => lacking.others.push(&container.name),
                Some(_) => {}
            }
        }
        lacking
    }

    fn message(&self, word: &str) -> Option<String> {
        let say = |names: &[&str], word: &str| {
            let names = names.join(" ");
            (!names.is_empty()).then(|| format!("containers with {word} status: [{names}]"))
        };
        let said: Vec<String> = say(&self.unknown, "unknown")
            .into_iter()
            .chain(say(&self.others, word))
            .collect();
        (!said.is_empty()).then(|| said.join(", "))
    }
}

/// Readiness as a terminal phase has it.
pub(crate) fn end_readiness(status: &mut PodStatus, generation: Option<i64>, now: &Time) {
    let phase = status.phase.clone();
    let conditions = status.conditions.get_or_insert_default();
    let any = is_true(conditions, READY) || is_true(conditions, CONTAINERS_READY);
    if !is_terminal(phase.as_deref()) || !any {
        return;
    }
    let reason = phase.as_deref().and_then(not_ready_by).unwrap_or_default();
    for kind in [CONTAINERS_READY, READY] {
        let mut condition = Verdict::not(reason, String::new()).condition(kind);
        condition.observed_generation = generation;
        let before = find(conditions, kind).filter(|before| before.status == condition.status);
        condition.last_transition_time = match before {
            Some(before) => before.last_transition_time.clone(),
            None => Some(now.clone()),
        };
        replace_or_push(conditions, condition);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_of_which_nothing_is_said_are_named_before_those_that_lack() {
        let container = |name: &str| Container {
            name: name.to_owned(),
            ..Container::default()
        };
        let status = |name: &str, ready: bool| ContainerStatus {
            name: name.to_owned(),
            ready,
            ..ContainerStatus::default()
        };
        let all = ["a", "b", "c", "d"].map(container);
        let statuses = [status("b", false), status("c", true), status("d", false)];
        for (containers, expected) in [
            (
                &all[..],
                Some(
                    "containers with unknown status: [a], containers with incomplete status: [b d]",
                ),
            ),
            (&all[..1], Some("containers with unknown status: [a]")),
            (&all[1..3], Some("containers with incomplete status: [b]")),
            (&all[2..3], None),
        ] {
            let statuses: Vec<_> = statuses.iter().collect();
            let lacking = Lacking::among(containers.iter(), &statuses, |_, status| status.ready);
            assert_eq!(lacking.message("incomplete").as_deref(), expected);
        }
    }

    #[test]
    fn of_a_pod_without_any_statuses_nothing_is_known() {
        let pod = json!({ "spec": {
            "initContainers": [{ "name": "i" }], "containers": [{ "name": "c" }],
        } });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let without = json!({ "spec": { "containers": [{ "name": "c" }] } });
        let without: Pod = serde_json::from_value(without).unwrap();
        let unknown = Verdict::not("UnknownContainerStatuses", String::new());
        assert_eq!(initialized(&pod, &[], "Pending", false), unknown);
        assert_eq!(containers_ready(&pod, &[], "Pending"), unknown);
        assert_eq!(containers_ready(&without, &[], "Pending"), unknown);
        // Who has nothing to be done first is ready to begin.
        assert_eq!(
            initialized(&without, &[], "Pending", false),
            Verdict::of(true)
        );
    }
}
