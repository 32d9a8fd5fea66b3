//! Containers that an agent before this one has probed: what it said of them holds until
//! this one has asked, and of nobody else.

use ContainerState::Running;

use super::*;

/// A container with this probe, and what the API says of one with this id.
fn case(probe: &str, id: &str, said: &Value) -> Case {
    let mut container = json!({"name": "a"});
    container[probe] = json!({"exec": {"command": ["x"]}});
    let case = Case::new()
        .spec("containers", json!([container]))
        .container("a", Running, 0);
    let own = case.first()["containerID"].as_str().unwrap().to_owned();
    let mut old_one = json!({"name": "a", "state": {"running": {}}});
    old_one["containerID"] = json!(own.replace("a0", id));
    old_one
        .as_object_mut()
        .unwrap()
        .extend(said.as_object().unwrap().clone());
    Case {
        api: old(&old_one),
        ..case
    }
}

#[test]
fn what_an_agent_before_saw_start_has_started() {
    for (id, said, started) in [
        ("a0", true, true),
        ("a0", false, false),
        // Another had its name.
        ("b0", true, false),
    ] {
        let case = case("startupProbe", id, &json!({"started": said}));
        assert_eq!(case.first()["started"], started, "{id} {said}");
    }
}

#[test]
fn who_was_ready_stays_so_however_young_it_is() {
    for (id, said, ready) in [
        ("a0", true, true),
        ("a0", false, false),
        ("b0", true, false),
    ] {
        let mut case = case(
            "readinessProbe",
            id,
            &json!({"ready": said, "started": true}),
        );
        assert_eq!(case.first()["ready"], ready, "{id} {said}");
        // Until this agent has asked.
        let found = Probed {
            started: None,
            ready: Some(!said),
        };
        case.known.probed.insert("a0".to_owned(), found);
        assert_eq!(case.first()["ready"], !said, "{id} {said}");
    }
}

#[test]
fn of_several_each_goes_by_itself_whether_or_not_its_pod_was_ready() {
    let probe = json!({"exec": {"command": ["x"]}});
    let container = |name: &str| json!({"name": name, "readinessProbe": probe});
    let mut case = Case::new()
        .spec("containers", json!([container("a"), container("b")]))
        .container("a", Running, 0)
        .container("b", Running, 0);
    let told = |name: &str, id: &str, ready: bool| {
        json!({"name": name, "containerID": format!("containerd://{id}"), "ready": ready,
            "started": true, "state": {"running": {}}})
    };
    case.api = json!({"phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [told("a", "a0", true), told("b", "b1", false)]});
    let long_ago: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    // Younger and older than the agent.
    for began in [NOW.parse().unwrap(), long_ago] {
        let began = i64::try_from(began.as_nanosecond()).unwrap();
        for container in &mut case.observed.containers {
            container.started_at = began;
        }
        let status = case.status();
        let ready = [0, 1].map(|place| status["containerStatuses"][place]["ready"].clone());
        assert_eq!(ready, [true, false], "{began}");
    }
}
