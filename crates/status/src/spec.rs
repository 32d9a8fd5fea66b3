//! What a pod's spec says of its containers.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, EphemeralContainer, Pod,
    PodSpec, PodStatus,
};

pub(crate) const RESTART_ALL: &str = "RestartAllContainers";

/// Of a pod without a spec, which the API does not have.
static NO_SPEC: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);

pub(crate) fn spec(pod: &Pod) -> &PodSpec {
    pod.spec.as_ref().unwrap_or(&NO_SPEC)
}

pub(crate) fn init_containers(spec: &PodSpec) -> &[Container] {
    spec.init_containers.as_deref().unwrap_or_default()
}

/// As containers, as far as a status is concerned.
pub(crate) fn ephemeral_containers(spec: &PodSpec) -> Vec<Container> {
    let containers = spec.ephemeral_containers.iter().flatten();
    let common = |container: &EphemeralContainer| Container {
        name: container.name.clone(),
        image: container.image.clone(),
        resources: container.resources.clone(),
        restart_policy: container.restart_policy.clone(),
        volume_mounts: container.volume_mounts.clone(),
        ..Container::default()
    };
    containers.map(common).collect()
}

/// An init container that runs as long as the pod does.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Whether a container that ended so is started again: its own rules, then its own
/// policy, then the pod's.
pub fn restarts(container: &Container, spec: &PodSpec, exit_code: i32) -> bool {
    let by_policy = |policy: &str| match policy {
        "Always" => Some(true),
        "OnFailure" => Some(exit_code != 0),
        "Never" => Some(false),
        _ => None,
    };
    if let Some(policy) = &container.restart_policy {
        if matches!(
            matching_rule(container, exit_code),
            Some("Restart" | RESTART_ALL)
        ) {
            return true;
        }
        if let Some(decided) = by_policy(policy) {
            return decided;
        }
    }
    let policy = spec.restart_policy.as_deref().unwrap_or_default();
    by_policy(policy).unwrap_or(true)
}

/// Whether the end of a container starts all containers of its pod again.
pub fn restarts_all(container: &Container, exit_code: i32) -> bool {
    matching_rule(container, exit_code) == Some(RESTART_ALL)
}

/// The action of the first rule that is about this exit code.
pub(crate) fn matching_rule(container: &Container, exit_code: i32) -> Option<&str> {
    let mut rules = container.restart_policy_rules.iter().flatten();
    let rule = rules.find(|rule| {
        let Some(codes) = &rule.exit_codes else {
            return false;
        };
        let named = codes.values.iter().flatten().any(|&code| code == exit_code);
        match codes.operator.as_str() {
            "In" => named,
            "NotIn" => !named,
            _ => false,
        }
    })?;
    Some(&rule.action)
}

/// Some container's end may end them all.
pub(crate) fn may_restart_all(spec: &PodSpec) -> bool {
    let containers = init_containers(spec).iter().chain(&spec.containers);
    let mut rules =
        containers.flat_map(|container| container.restart_policy_rules.iter().flatten());
    rules.any(|rule| rule.action == RESTART_ALL)
}

pub(crate) fn list(statuses: Option<&Vec<ContainerStatus>>) -> &[ContainerStatus] {
    statuses.map_or(&[], Vec::as_slice)
}

/// Those of init containers, then the regular ones.
pub(crate) fn all(status: &PodStatus) -> Vec<&ContainerStatus> {
    let init = list(status.init_container_statuses.as_ref()).iter();
    init.chain(list(status.container_statuses.as_ref()))
        .collect()
}

pub(crate) fn named<'a>(
    statuses: &[&'a ContainerStatus],
    name: &str,
) -> Option<&'a ContainerStatus> {
    statuses.iter().find(|status| status.name == name).copied()
}

pub(crate) fn is_running(status: &ContainerStatus) -> bool {
    status
        .state
        .as_ref()
        .is_some_and(|state| state.running.is_some())
}

pub(crate) fn is_waiting(status: &ContainerStatus) -> bool {
    status
        .state
        .as_ref()
        .is_some_and(|state| state.waiting.is_some())
}

pub(crate) fn terminated(state: Option<&ContainerState>) -> Option<&ContainerStateTerminated> {
    state.and_then(|state| state.terminated.as_ref())
}

pub(crate) fn is_terminal(phase: Option<&str>) -> bool {
    matches!(phase, Some("Succeeded" | "Failed"))
}
