//! Where a pod is in its life.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec};
use types::observed::{ContainerState, ObservedPod};

use crate::spec::{
    init_containers, is_running, is_sidecar, is_waiting, named, restarts, terminated,
};

/// Of a container that ended because another of its pod did.
pub(crate) const RESTARTING_ALL: &str = "RestartingAllContainers";

/// What the pod's own state adds to that of its containers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PodState {
    /// Nothing is started any more.
    pub(crate) terminal: bool,
    pub(crate) is_static: bool,
    /// A regular container has been there, in the sandbox of now.
    pub(crate) initialized: bool,
}

/// The phase by the statuses of init and regular containers.
pub(crate) fn phase(
    spec: &PodSpec,
    statuses: &[&ContainerStatus],
    state: PodState,
) -> &'static str {
    let init = count_init(spec, statuses);
    let sidecars = count_sidecars(spec, statuses);
    let regular = count_regular(spec, statuses);
    if init.failed > 0 {
        return "Failed";
    }
    let waiting = sidecars.waiting + regular.waiting;
    let running = sidecars.running + regular.running;
    let unknown = sidecars.unknown + regular.unknown;
    if init.pending > 0 || (sidecars.pending > 0 && !state.initialized) || waiting > 0 {
        return "Pending";
    }
    if unknown > 0 || (running == 0 && regular.stopped == 0) {
        return "Pending";
    }
    if running > 0 {
        return "Running";
    }
    let ended = if regular.stopped == regular.succeeded {
        "Succeeded"
    } else {
        "Failed"
    };
    if state.terminal && !state.is_static {
        return ended;
    }
    if regular.stopped > regular.stopped_for_good {
        return "Running";
    }
    ended
}

/// Whether a regular container is or was there in the sandbox that is ready.
pub(crate) fn has_active_regular(spec: &PodSpec, observed: &ObservedPod) -> bool {
    let newest = observed.sandboxes.first();
    let Some(sandbox) = newest.filter(|sandbox| sandbox.ready) else {
        return false;
    };
    let mut active = observed.containers.iter();
    active.any(|container| container.sandbox_id == sandbox.id && is_regular(spec, &container.name))
}

/// Whether the runtime has had a regular container.
pub(crate) fn has_created_regular(spec: &PodSpec, observed: &ObservedPod) -> bool {
    let mut newest = spec.containers.iter();
    newest.any(|container| {
        let seen = observed.container(&container.name);
        seen.is_some_and(|seen| seen.state != ContainerState::Unknown)
    })
}

fn is_regular(spec: &PodSpec, name: &str) -> bool {
    spec.containers
        .iter()
        .any(|container| container.name == name)
}

#[derive(Default)]
struct Count {
    pending: usize,
    /// And not to be tried again.
    failed: usize,
    waiting: usize,
    running: usize,
    unknown: usize,
    stopped: usize,
    stopped_for_good: usize,
    succeeded: usize,
}

fn count_init(spec: &PodSpec, statuses: &[&ContainerStatus]) -> Count {
    let mut count = Count::default();
    let init = init_containers(spec).iter();
    for container in init.filter(|container| !is_sidecar(container)) {
        let Some(status) = named(statuses, &container.name) else {
            count.pending += 1;
            continue;
        };
        match end(status) {
            Some(end) if end.exit_code != 0 && !end.is_retried(container, spec) => {
                count.failed += 1;
            }
            Some(_) => {}
            None => count.pending += 1,
        }
    }
    count
}

fn count_sidecars(spec: &PodSpec, statuses: &[&ContainerStatus]) -> Count {
    let mut count = Count::default();
    for container in init_containers(spec).iter().filter(|one| is_sidecar(one)) {
        let Some(status) = named(statuses, &container.name) else {
            count.unknown += 1;
            continue;
        };
        if is_running(status) {
            count.running += 1;
            count.pending += usize::from(status.started != Some(true));
        } else if end(status).is_some() {
            // One that ended says nothing of the pod.
        } else if is_waiting(status) {
            count.pending += 1;
            count.waiting += 1;
        } else {
            count.pending += 1;
            count.unknown += 1;
        }
    }
    count
}

fn count_regular(spec: &PodSpec, statuses: &[&ContainerStatus]) -> Count {
    let mut count = Count::default();
    for container in &spec.containers {
        let Some(status) = named(statuses, &container.name) else {
            count.unknown += 1;
            continue;
        };
        if is_running(status) {
            count.running += 1;
        } else if let Some(end) = end(status) {
            count.stopped += 1;
            count.stopped_for_good += usize::from(!end.is_retried(container, spec));
            // A container that waits to be started again has not succeeded.
            let now = terminated(status.state.as_ref()).is_some();
            count.succeeded += usize::from(now && end.exit_code == 0);
        } else if is_waiting(status) {
            count.waiting += 1;
        } else {
            count.unknown += 1;
        }
    }
    count
}

struct End<'a> {
    exit_code: i32,
    reason: Option<&'a str>,
}

impl End<'_> {
    fn is_retried(&self, container: &Container, spec: &PodSpec) -> bool {
        restarts(container, spec, self.exit_code) || self.reason == Some(RESTARTING_ALL)
    }
}

/// How it ended: now, or before it began to wait.
fn end(status: &ContainerStatus) -> Option<End<'_>> {
    let now = terminated(status.state.as_ref());
    let before = || terminated(status.last_state.as_ref()).filter(|_| is_waiting(status));
    let end = now.or_else(before)?;
    Some(End {
        exit_code: end.exit_code,
        reason: end.reason.as_deref(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `name:state[:last]`, states being `run`, `wait`, `none` and exit codes; a
    /// running one that has not started yet is `slow`.
    fn status(text: &str) -> ContainerStatus {
        let parts: Vec<&str> = text.split(':').collect();
        let state = |word: &str| match word {
            "run" | "slow" => json!({"running": {}}),
            "wait" => json!({"waiting": {}}),
            "none" => json!({}),
            "reset" => json!({"terminated": {"exitCode": 137, "reason": RESTARTING_ALL}}),
            code => json!({"terminated": {"exitCode": code.parse::<i32>().unwrap()}}),
        };
        serde_json::from_value(json!({
            "name": parts[0], "state": state(parts[1]), "started": parts[1] == "run",
            "lastState": parts.get(2).map(|word| state(word)),
        }))
        .unwrap()
    }

    /// Containers `a` and `b`; init containers as named, those in capitals sidecars.
    fn phase_of(policy: &str, init: &[&str], statuses: &[&str], state: PodState) -> &'static str {
        let init: Vec<_> = init
            .iter()
            .map(|name| {
                let sidecar = name.chars().all(char::is_uppercase);
                json!({"name": name, "restartPolicy": sidecar.then_some("Always")})
            })
            .collect();
        let spec: PodSpec = serde_json::from_value(json!({
            "restartPolicy": policy, "initContainers": init,
            "containers": [{"name": "a"}, {"name": "b"}],
        }))
        .unwrap();
        let statuses: Vec<_> = statuses.iter().map(|text| status(text)).collect();
        let statuses: Vec<_> = statuses.iter().collect();
        phase(&spec, &statuses, state)
    }

    #[test]
    fn the_phase_of_regular_containers() {
        let cases: [(&str, &[&str], &str); 18] = [
            ("Always", &[], "Pending"),
            ("Always", &["a:wait", "b:wait"], "Pending"),
            ("Always", &["a:run", "b:wait"], "Pending"),
            ("Always", &["a:run"], "Pending"),
            ("Always", &["a:run", "b:none"], "Pending"),
            ("Always", &["a:run", "b:run"], "Running"),
            ("Always", &["a:run", "b:wait:1"], "Running"),
            ("Always", &["a:run", "b:0"], "Running"),
            ("Always", &["a:0", "b:1"], "Running"),
            ("Always", &["a:wait:0", "b:wait:0"], "Running"),
            ("OnFailure", &["a:0", "b:0"], "Succeeded"),
            ("OnFailure", &["a:0", "b:1"], "Running"),
            ("OnFailure", &["a:0", "b:none"], "Pending"),
            ("Never", &["a:0", "b:0"], "Succeeded"),
            ("Never", &["a:0", "b:1"], "Failed"),
            ("Never", &["a:run", "b:1"], "Running"),
            ("Never", &["a:0", "b:reset"], "Running"),
            ("Never", &["a:0", "b:wait"], "Pending"),
        ];
        for (policy, statuses, expected) in cases {
            let phase = phase_of(policy, &[], statuses, PodState::default());
            assert_eq!(phase, expected, "{policy} {statuses:?}");
        }
    }

    #[test]
    fn the_phase_while_and_after_it_initializes() {
        /// Policy, init containers, statuses, whether it was initialized, and the phase.
        type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], bool, &'a str);
        let cases: [Row<'_>; 13] = [
            (
                "Always",
                &["i"],
                &["i:wait", "a:wait", "b:wait"],
                false,
                "Pending",
            ),
            ("Always", &["i"], &["a:run", "b:run"], false, "Pending"),
            (
                "Always",
                &["i"],
                &["i:run", "a:wait", "b:wait"],
                false,
                "Pending",
            ),
            (
                "Always",
                &["i"],
                &["i:1", "a:wait", "b:wait"],
                false,
                "Pending",
            ),
            (
                "Never",
                &["i"],
                &["i:1", "a:wait", "b:wait"],
                false,
                "Failed",
            ),
            (
                "Never",
                &["i"],
                &["i:wait:1", "a:wait", "b:wait"],
                false,
                "Failed",
            ),
            (
                "OnFailure",
                &["i"],
                &["i:1", "a:wait", "b:wait"],
                false,
                "Pending",
            ),
            (
                "Always",
                &["i"],
                &["i:0", "a:run", "b:run"],
                false,
                "Running",
            ),
            (
                "Always",
                &["S"],
                &["S:slow", "a:wait", "b:wait"],
                false,
                "Pending",
            ),
            (
                "Always",
                &["S"],
                &["S:slow", "a:run", "b:run"],
                true,
                "Running",
            ),
            ("Never", &["S"], &["S:run", "a:0", "b:0"], true, "Running"),
            ("Never", &["S"], &["S:137", "a:0", "b:0"], true, "Succeeded"),
            ("Never", &["S"], &["S:wait:1", "a:0", "b:1"], true, "Failed"),
        ];
        for (policy, init, statuses, initialized, expected) in cases {
            let state = PodState {
                initialized,
                ..PodState::default()
            };
            let phase = phase_of(policy, init, statuses, state);
            assert_eq!(phase, expected, "{policy} {init:?} {statuses:?}");
        }
    }

    #[test]
    fn a_terminal_pod_has_ended_unless_it_is_static() {
        let cases: [(&[&str], bool, &str); 5] = [
            (&["a:0", "b:0"], false, "Succeeded"),
            (&["a:0", "b:137"], false, "Failed"),
            (&["a:0", "b:wait:0"], false, "Failed"),
            (&["a:run", "b:0"], false, "Running"),
            (&["a:0", "b:0"], true, "Running"),
        ];
        for (statuses, is_static, expected) in cases {
            let state = PodState {
                terminal: true,
                is_static,
                initialized: true,
            };
            let phase = phase_of("Always", &[], statuses, state);
            assert_eq!(phase, expected, "{statuses:?}");
        }
    }
}
