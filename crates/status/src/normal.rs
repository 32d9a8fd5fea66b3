//! A status in the form in which the API gives it back, so that two can be
//! compared.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::spec::{init_containers, spec};

/// What all containers of a pod together may say of their ends.
const MESSAGES: usize = 12 * 1024;

/// Times in whole seconds, lists in their order, messages within their bounds.
pub fn normalise(pod: &Pod, status: &mut PodStatus) {
    let spec = spec(pod);
    let init = init_containers(spec);
    let ephemeral = spec.ephemeral_containers.as_ref().map_or(0, Vec::len);
    let containers = spec.containers.len() + init.len() + ephemeral;
    let room = MESSAGES / containers.max(1);
    truncate(status.start_time.as_mut());
    for condition in status.conditions.iter_mut().flatten() {
        truncate(condition.last_probe_time.as_mut());
        truncate(condition.last_transition_time.as_mut());
    }
    for list in [
        &mut status.container_statuses,
        &mut status.init_container_statuses,
        &mut status.ephemeral_container_statuses,
    ] {
        for status in list.iter_mut().flatten() {
            state(status.state.as_mut(), room);
            state(status.last_state.as_mut(), room);
        }
    }
    let by_name = |one: &ContainerStatus, other: &ContainerStatus| one.name.cmp(&other.name);
    if let Some(statuses) = &mut status.container_statuses {
        statuses.sort_by(by_name);
    }
    if let Some(statuses) = &mut status.ephemeral_container_statuses {
        statuses.sort_by(by_name);
    }
    if let Some(statuses) = &mut status.init_container_statuses {
        let place = |status: &ContainerStatus| init.iter().position(|one| one.name == status.name);
        statuses.sort_by_key(|status| place(status).unwrap_or(init.len()));
    }
}

fn state(state: Option<&mut ContainerState>, room: usize) {
    let Some(state) = state else { return };
    if let Some(running) = &mut state.running {
        truncate(running.started_at.as_mut());
    }
    if let Some(end) = &mut state.terminated {
        truncate(end.started_at.as_mut());
        truncate(end.finished_at.as_mut());
        if let Some(message) = &mut end.message {
            let mut length = room.min(message.len());
            while !message.is_char_boundary(length) {
                length -= 1;
            }
            message.truncate(length);
        }
    }
}

fn truncate(time: Option<&mut Time>) {
    if let Some(time) = time
        && let Ok(second) = Timestamp::from_second(time.0.as_second())
    {
        time.0 = second;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_containers_of_a_pod_share_the_room_for_their_last_words() {
        let one = json!([{ "name": "a" }]);
        let two = json!([{ "name": "a" }, { "name": "b" }]);
        for (spec, room) in [
            (json!({ "containers": one }), 12_288),
            (json!({ "containers": two }), 6144),
            (
                json!({ "containers": two, "initContainers": [{ "name": "i" }] }),
                4096,
            ),
            (
                json!({
                    "containers": two, "initContainers": [{ "name": "i" }],
                    "ephemeralContainers": [{ "name": "e" }],
                }),
                3072,
            ),
        ] {
            let pod: Pod = serde_json::from_value(json!({ "spec": spec })).unwrap();
            let end = json!({ "terminated": { "exitCode": 1, "message": "x".repeat(20_000) } });
            let mut status: PodStatus = serde_json::from_value(json!({ "containerStatuses": [{
                "name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": end, "lastState": end,
            }] }))
            .unwrap();
            normalise(&pod, &mut status);
            let status = &status.container_statuses.unwrap()[0];
            for state in [&status.state, &status.last_state] {
                let end = state.as_ref().unwrap().terminated.as_ref().unwrap();
                assert_eq!(end.message.as_ref().unwrap().len(), room, "{spec}");
            }
        }
    }
}
