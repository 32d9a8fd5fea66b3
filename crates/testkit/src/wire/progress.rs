//! Whether a pod has come as far as its spec wants, by what the API tells of it.
//! Pure.

use serde_json::Value;

use super::spec::Until;

pub(super) fn has_come(pod: &Value, until: &Until) -> bool {
    let status = &pod["status"];
    match until {
        Until::Running => status["phase"] == "Running" && all_run(pod),
        Until::Ended => status["phase"] == "Succeeded" || status["phase"] == "Failed",
        Until::Restarted(name, times) => container(status, name)
            .is_some_and(|container| container["restartCount"].as_u64() >= Some(*times)),
        Until::Waiting(name, reason) => container(status, name)
            .is_some_and(|container| container["state"]["waiting"]["reason"] == *reason),
        Until::Runs(name) => container(status, name).is_some_and(runs),
        Until::Stopped(name) => container(status, name)
            .is_some_and(|container| container["state"]["terminated"].is_object()),
        Until::Resized(name, resources) => container(status, name)
            .is_some_and(|container| holds(&container["resources"], resources)),
    }
}

const LISTS: [&str; 3] = [
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
];

fn container<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    let lists = LISTS.iter().flat_map(|list| items(&status[list]));
    lists
        .into_iter()
        .find(|container| container["name"] == name)
}

fn runs(container: &Value) -> bool {
    container["state"]["running"].is_object()
}

/// Regular containers, and init containers that go on running.
fn all_run(pod: &Value) -> bool {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let sidecars = items(&spec["initContainers"])
        .iter()
        .filter(|container| container["restartPolicy"] == "Always");
    let mut wanted = items(&spec["containers"]).iter().chain(sidecars);
    wanted.all(|wanted| {
        let name = wanted["name"].as_str().unwrap_or_default();
        container(status, name).is_some_and(runs)
    })
}

/// Whether `whole` has all that `part` has, and the same.
fn holds(whole: &Value, part: &Value) -> bool {
    match part {
        Value::Object(fields) => fields.iter().all(|(key, part)| holds(&whole[key], part)),
        _ => whole == part,
    }
}

pub(super) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_has_come_as_far_as_its_containers_tell() {
        let running = json!({"name": "main", "state": {"running": {}}, "restartCount": 1,
            "resources": {"limits": {"cpu": "20m", "memory": "16Mi"}}});
        let waiting = json!({"name": "main", "state": {"waiting": {"reason": "ErrImagePull"}}});
        let pod = |phase: &str, statuses: &[&Value]| {
            json!({
                "spec": {
                    "initContainers": [
                        {"name": "first"}, {"name": "side", "restartPolicy": "Always"},
                    ],
                    "containers": [{"name": "main"}],
                },
                "status": {"phase": phase, "containerStatuses": statuses},
            })
        };
        let side = json!({"name": "side", "state": {"running": {}}});
        let ended = json!({"name": "main", "state": {"terminated": {"exitCode": 0}}});
        let resized = |cpu: &str| Until::Resized("main", json!({"limits": {"cpu": cpu}}));
        let pull = Until::Waiting("main", "ErrImagePull");
        let cases = [
            (pod("Running", &[&running, &side]), Until::Running, true),
            (pod("Running", &[&running]), Until::Running, false),
            (pod("Pending", &[&running, &side]), Until::Running, false),
            (
                pod("Running", &[&running]),
                Until::Restarted("main", 1),
                true,
            ),
            (
                pod("Running", &[&running]),
                Until::Restarted("main", 2),
                false,
            ),
            (pod("Failed", &[&running]), Until::Ended, true),
            (pod("Running", &[&running]), Until::Ended, false),
            (pod("Pending", &[&waiting]), pull.clone(), true),
            (pod("Pending", &[&running]), pull, false),
            (pod("Running", &[&running]), Until::Runs("main"), true),
            (pod("Running", &[&waiting]), Until::Runs("main"), false),
            (pod("Running", &[&ended]), Until::Stopped("main"), true),
            (pod("Running", &[&running]), Until::Stopped("main"), false),
            (pod("Running", &[&running]), resized("20m"), true),
            (pod("Running", &[&running]), resized("10m"), false),
        ];
        for (pod, until, expected) in cases {
            assert_eq!(has_come(&pod, &until), expected, "{until:?} {pod}");
        }
    }
}
