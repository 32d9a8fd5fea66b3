//! Which of a container's runs a request means, by what the node says of the pod.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};

/// Whether a pod has a container of this name, of whatever kind.
pub(super) fn has_container(pod: &Pod, name: &str) -> bool {
    let Some(spec) = &pod.spec else {
        return false;
    };
    let init = spec.init_containers.iter().flatten();
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    spec.containers.iter().any(|one| one.name == name)
        || init.into_iter().any(|one| one.name == name)
        || ephemeral.into_iter().any(|one| one.name == name)
}

/// The runtime's id of the run, or why there is none, in upstream's words.
pub(super) fn run(
    pod: &str,
    status: &PodStatus,
    container: &str,
    previous: bool,
) -> Result<String, String> {
    let which = format!("container {container:?} in pod {pod:?}");
    let Some(status) = status_of(status, container) else {
        return Err(format!("{which} is not available"));
    };
    let none = ContainerState::default();
    let last = status.last_state.as_ref().unwrap_or(&none);
    let last = last.terminated.as_ref();
    let last_id = last.and_then(|last| given(last.container_id.as_ref()));
    let state = status.state.as_ref().unwrap_or(&none);
    let ended = || format!("{which} is terminated");
    let id = if previous {
        last_id.ok_or_else(|| format!("previous terminated {which} not found"))?
    } else if state.running.is_some() {
        status.container_id.as_deref().unwrap_or_default()
    } else if let Some(terminated) = &state.terminated {
        let own = given(terminated.container_id.as_ref());
        // The next one may never have begun.
        own.or(last_id).ok_or_else(ended)?
    } else if last.is_some() {
        last_id.ok_or_else(ended)?
    } else if let Some(waiting) = &state.waiting {
        let why = match waiting.reason.as_deref().unwrap_or_default() {
            "ErrImagePull" => "image can't be pulled",
            "ImagePullBackOff" => "trying and failing to pull image",
            reason => reason,
        };
        return Err(format!("{which} is waiting to start: {why}"));
    } else {
        return Err(format!("{which} is waiting to start - no logs yet"));
    };
    Ok(id.to_owned())
}

fn status_of<'a>(status: &'a PodStatus, container: &str) -> Option<&'a ContainerStatus> {
    let main = status.container_statuses.iter().flatten();
    let init = status.init_container_statuses.iter().flatten();
    let ephemeral = status.ephemeral_container_statuses.iter().flatten();
    main.chain(init)
        .chain(ephemeral)
        .find(|status| status.name == container)
}

fn given(id: Option<&String>) -> Option<&str> {
    id.map(String::as_str).filter(|id| !id.is_empty())
}

/// `containerd://ID`, as the API has it, for the runtime.
pub(super) fn bare_id(id: &str) -> &str {
    id.split_once("://").map_or(id, |(_, id)| id)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        Container, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, PodSpec,
    };

    use super::*;

    fn running() -> ContainerState {
        ContainerState {
            running: Some(ContainerStateRunning::default()),
            ..ContainerState::default()
        }
    }

    fn terminated(id: &str) -> ContainerState {
        ContainerState {
            terminated: Some(ContainerStateTerminated {
                container_id: Some(id.to_owned()),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        }
    }

    fn waiting(reason: &str) -> ContainerState {
        ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(reason.to_owned()),
                ..ContainerStateWaiting::default()
            }),
            ..ContainerState::default()
        }
    }

    fn chosen(
        state: ContainerState,
        last: Option<ContainerState>,
        previous: bool,
    ) -> Result<String, String> {
        let status = ContainerStatus {
            name: "c".to_owned(),
            state: Some(state),
            last_state: last,
            container_id: Some("containerd://now".to_owned()),
            ..ContainerStatus::default()
        };
        let pod = PodStatus {
            init_container_statuses: Some(vec![status]),
            ..PodStatus::default()
        };
        run("p", &pod, "c", previous)
    }

    #[test]
    fn the_run_is_the_one_at_hand_or_the_last_that_was() {
        let old = Some(terminated("x://old"));
        for (state, last, previous, wanted) in [
            (running(), old.clone(), false, "containerd://now"),
            (running(), old.clone(), true, "x://old"),
            (terminated("x://ended"), old.clone(), false, "x://ended"),
            (terminated(""), old.clone(), false, "x://old"),
            (waiting("CrashLoopBackOff"), old.clone(), false, "x://old"),
            (ContainerState::default(), old, false, "x://old"),
        ] {
            assert_eq!(chosen(state, last, previous).as_deref(), Ok(wanted));
        }
        assert_eq!(bare_id("x://old"), "old");
        assert_eq!(bare_id("old"), "old");
    }

    #[test]
    fn where_there_is_none_the_words_say_why() {
        let which = "container \"c\" in pod \"p\"";
        for (state, last, previous, wanted) in [
            (
                running(),
                None,
                true,
                "previous terminated container \"c\" in pod \"p\" not found".to_owned(),
            ),
            (
                running(),
                Some(terminated("")),
                true,
                "previous terminated container \"c\" in pod \"p\" not found".to_owned(),
            ),
            (
                terminated(""),
                None,
                false,
                format!("{which} is terminated"),
            ),
            (
                waiting("x"),
                Some(terminated("")),
                false,
                format!("{which} is terminated"),
            ),
            (
                waiting("ErrImagePull"),
                None,
                false,
                format!("{which} is waiting to start: image can't be pulled"),
            ),
            (
                waiting("ImagePullBackOff"),
                None,
                false,
                format!("{which} is waiting to start: trying and failing to pull image"),
            ),
            (
                waiting("ContainerCreating"),
                None,
                false,
                format!("{which} is waiting to start: ContainerCreating"),
            ),
            (
                ContainerState::default(),
                None,
                false,
                format!("{which} is waiting to start - no logs yet"),
            ),
        ] {
            assert_eq!(chosen(state, last, previous), Err(wanted));
        }
        let nothing = run("p", &PodStatus::default(), "c", false);
        assert_eq!(nothing, Err(format!("{which} is not available")));
    }

    #[test]
    fn containers_of_every_kind_are_known() {
        let named = |name: &str| Container {
            name: name.to_owned(),
            ..Container::default()
        };
        let pod = Pod {
            spec: Some(PodSpec {
                containers: vec![named("main")],
                init_containers: Some(vec![named("init")]),
                ..PodSpec::default()
            }),
            ..Pod::default()
        };
        assert!(has_container(&pod, "main") && has_container(&pod, "init"));
        assert!(!has_container(&pod, "other"));
        assert!(!has_container(&Pod::default(), "main"));
    }
}
