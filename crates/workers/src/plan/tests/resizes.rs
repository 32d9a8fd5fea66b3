//! Containers that run, and are allowed something else.

use types::PodResources;

use super::*;
use crate::plan::resize::{is_in_progress, is_starting_resized};

fn resources(cpu: &str, memory: &str) -> Value {
    json!({ "requests": { "cpu": cpu }, "limits": { "memory": memory } })
}

/// Two containers that run, with this, and what they were given before.
fn two(now: [Value; 2], before: [Value; 2]) -> Case {
    let [a, b] = now;
    let spec = json!({ "containers": [
        { "name": "a", "image": "i", "resources": a },
        { "name": "b", "image": "i", "resources": b },
    ] });
    let mut case = Case::new(&spec)
        .sandbox()
        .has(running("a"))
        .has(running("b"));
    let [a, b] = before.map(|one| serde_json::from_value(one).unwrap());
    let containers = [("a".to_owned(), a), ("b".to_owned(), b)].into();
    case.memory.actuated = Some(Arc::new(PodResources {
        containers,
        pod: None,
    }));
    case
}

fn resize(case: &Case) -> Resize {
    match case.plan() {
        Plan::Resize(resize) => resize,
        other => panic!("{other:?}"),
    }
}

fn names(updates: &[resize::Update]) -> Vec<&str> {
    updates
        .iter()
        .map(|update| update.container.as_str())
        .collect()
}

#[test]
fn nothing_is_done_for_who_has_what_it_is_allowed() {
    let same = || [resources("1", "1Mi"), resources("500m", "2Mi")];
    let other_words = [resources("1000m", "1024Ki"), resources("0.5", "2Mi")];
    assert!(matches!(two(same(), same()).plan(), Plan::Rest(_)));
    assert!(matches!(two(same(), other_words).plan(), Plan::Rest(_)));
}

#[test]
fn those_that_get_less_come_first() {
    let case = two(
        [resources("2", "1Mi"), resources("1", "2Mi")],
        [resources("1", "2Mi"), resources("2", "1Mi")],
    );
    let resize = resize(&case);
    assert_eq!(names(&resize.cpu), ["b", "a"]);
    assert_eq!(names(&resize.memory), ["a", "b"]);
    let update = &resize.cpu[0];
    assert_eq!(update.id, "b-0");
    assert_eq!(
        (update.current.cpu_request, update.desired.cpu_request),
        (2000, 1000)
    );
    assert!(!resize.starting && !resize.pod_level);
}

#[test]
fn who_was_given_nothing_that_is_known_is_told_once_more() {
    let mut case = two(
        [resources("1", "1Mi"), json!({})],
        [resources("1", "1Mi"), json!({})],
    );
    case.memory.actuated = None;
    let resize = resize(&case);
    assert_eq!(names(&resize.cpu), ["a"]);
    assert_eq!(names(&resize.memory), ["a"]);
}

#[test]
fn a_container_is_replaced_where_its_policy_says_so() {
    for (policy, cpu, memory, restarts) in [
        ("cpu", "2", "1Mi", true),
        ("memory", "2", "1Mi", false),
        ("memory", "1", "2Mi", true),
        ("cpu", "1", "2Mi", false),
    ] {
        let mut case = two(
            [resources(cpu, memory), json!({})],
            [resources("1", "1Mi"), json!({})],
        );
        let mut pod = serde_json::to_value(&*case.slot.pod).unwrap();
        pod["spec"]["containers"][0]["resizePolicy"] =
            json!([{ "resourceName": policy, "restartPolicy": "RestartContainer" }]);
        case.slot.pod = Arc::new(serde_json::from_value(pod).unwrap());
        match case.plan() {
            Plan::Kill(kills) => {
                assert!(restarts, "{policy} {cpu} {memory}");
                assert_eq!(kills.len(), 1);
                assert_eq!(kills[0].message, "Container a resize requires restart");
            }
            Plan::Resize(resize) => {
                assert!(!restarts, "{policy} {cpu} {memory}");
                assert_eq!(resize.cpu.len() + resize.memory.len(), 1);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_cannot_be_resized_is_tried_again_and_keeps_nobody_from_starting() {
    let waits =
        |case: Case| case.remembers(|memory| memory.retry_resize_at = Some(seconds(NOW + 7)));
    let before = || [resources("1", "1Mi"), json!({})];
    let case = waits(two([resources("2", "1Mi"), json!({})], before()));
    match case.plan() {
        Plan::Rest(rest) => assert_eq!(rest.until, Some(seconds(NOW + 7))),
        other => panic!("{other:?}"),
    }
    assert!(matches!(case.plan_at(NOW + 8), Plan::Resize(_)));
    let mut case = waits(two([resources("2", "1Mi"), json!({})], before()));
    case.observed.containers.retain(|one| one.name == "a");
    assert_eq!(case.starts(), [("b".to_owned(), None)]);
}

#[test]
fn a_pod_is_resized_as_a_whole() {
    let mut case = two([json!({}), json!({})], [json!({}), json!({})]);
    let mut pod = serde_json::to_value(&*case.slot.pod).unwrap();
    pod["spec"]["resources"] = json!({ "requests": { "cpu": "1" } });
    case.slot.pod = Arc::new(serde_json::from_value(pod).unwrap());
    let resize = resize(&case);
    assert!(resize.pod_level && resize.cpu.is_empty() && resize.memory.is_empty());
}

#[test]
fn a_resize_goes_on_as_long_as_something_that_runs_has_not_got_it() {
    let now = || [resources("2", "1Mi"), json!({})];
    let case = two(now(), [resources("1", "1Mi"), json!({})]);
    let actuated = case.memory.actuated.as_deref();
    let goes_on = |case: &Case| is_in_progress(&case.slot.pod, &case.observed, actuated, true);
    assert!(goes_on(&case));
    let mut ended = case.clone();
    ended.observed.containers.retain(|one| one.name == "b");
    assert!(!goes_on(&ended), "it will have it when it starts");
    let done = two(now(), now());
    let actuated = done.memory.actuated.as_deref();
    assert!(!is_in_progress(
        &done.slot.pod,
        &done.observed,
        actuated,
        true
    ));
}

#[test]
fn a_pod_follows_before_a_container_starts_that_is_another() {
    let case = two(
        [resources("2", "1Mi"), json!({})],
        [resources("1", "1Mi"), json!({})],
    );
    let actuated = case.memory.actuated.as_deref();
    for (name, resized) in [("a", true), ("b", false)] {
        let starts = [Start {
            container: name.to_owned(),
            kind: Kind::Regular,
            before: None,
        }];
        assert_eq!(
            is_starting_resized(&case.slot.pod, &starts, actuated),
            resized
        );
    }
}

#[test]
fn a_sidecar_is_resized_while_the_pod_begins_and_runs() {
    let spec = json!({
        "initContainers": [{
            "name": "s", "image": "i", "restartPolicy": "Always", "resources": resources("2", "1Mi"),
        }],
        "containers": [{ "name": "c", "image": "i" }],
    });
    let mut case = Case::new(&spec)
        .sandbox()
        .has(running("s"))
        .has(running("c"));
    let old = serde_json::from_value(resources("1", "1Mi")).unwrap();
    case.memory.actuated = Some(Arc::new(PodResources {
        containers: [("s".to_owned(), old)].into(),
        pod: None,
    }));
    assert_eq!(names(&resize(&case).cpu), ["s"]);
}
