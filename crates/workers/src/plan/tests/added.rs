//! Containers that are added to a pod that runs.

use super::*;

/// A pod with a container `c` and an ephemeral one `e`.
fn looked_into(parts: &Value) -> Case {
    let mut spec = json!({
        "restartPolicy": "Always",
        "containers": [{ "name": "c", "image": "i" }],
        "ephemeralContainers": [{ "name": "e", "image": "i", "targetContainerName": "c" }],
    });
    for (key, value) in parts.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    Case::new(&spec).sandbox()
}

#[test]
fn an_ephemeral_container_is_started_once_and_ahead_of_all_others() {
    let none = json!({});
    let init = json!({ "initContainers": [{ "name": "i" }] });
    for (case, expected) in [
        (looked_into(&none), vec!["e", "c"]),
        (looked_into(&none).has(running("c")), vec!["e"]),
        (looked_into(&none).has(running("e")), vec!["c"]),
        // Nobody waits for init containers to find out why they do not end.
        (looked_into(&init).has(running("i")), vec!["e"]),
        (looked_into(&init), vec!["e", "i"]),
    ] {
        assert_eq!(case.starts(), named(&expected), "{:?}", case.observed);
    }
    for end in [
        exited("e", 0),
        exited("e", 1),
        container("e", ContainerState::Created),
    ] {
        let case = looked_into(&none).has(running("c")).has(end);
        assert_eq!(case.plan(), rest(), "{:?}", case.observed);
    }
    let kind = match looked_into(&none).has(running("c")).plan() {
        Plan::Start(starts, _) => starts[0].kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(kind, Kind::Ephemeral);
}

#[test]
fn an_ephemeral_container_keeps_no_pod() {
    let never = json!({ "restartPolicy": "Never" });
    let nothing_to_run = kill_pod(30, PodKill::NothingToRun);
    for case in [
        looked_into(&never).has(exited("c", 0)),
        looked_into(&never).has(exited("c", 0)).has(running("e")),
        // Its image cannot be had.
        looked_into(&never).has(exited("c", 0)).remembers(|memory| {
            let until = seconds(NOW + 5);
            memory.retry_container_at.insert("e".to_owned(), until);
        }),
    ] {
        assert_eq!(case.plan(), nothing_to_run, "{:?}", case.observed);
    }
}

#[test]
fn an_ephemeral_container_that_could_not_be_started_waits_for_its_time() {
    let case = looked_into(&json!({}))
        .has(running("c"))
        .remembers(|memory| {
            let until = seconds(NOW + 5);
            memory.retry_container_at.insert("e".to_owned(), until);
        });
    let waits = Plan::Rest(Rest {
        until: Some(seconds(NOW + 5)),
        ..Rest::default()
    });
    assert_eq!(case.plan(), waits);
    assert!(matches!(case.plan_at(NOW + 5), Plan::Start(..)));
}
