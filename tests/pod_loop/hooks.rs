//! Hooks, and the order in which containers end, to the second.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::scenes::Scene;
use crate::story::Init;

/// When something happens to the pods of these plays.
const THEN: u64 = 50;

/// A pod that comes in the tenth second and to which something happens later.
fn play(story: impl FnOnce(&mut Story), events: &[(u64, Event)]) -> Vec<runtime::Call> {
    let mut script = one(0, events.to_vec());
    story(&mut script.stories[0]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let played = script.play().await;
        settled(&played).unwrap();
        quiet(&played).await.unwrap();
        played.node.runtime.calls()
    })
}

/// Who was asked to end, how long after it happened, and with which grace.
fn stops(calls: &[runtime::Call]) -> Vec<(&str, u64, i64)> {
    let stops = calls.iter().filter(|call| call.act == Act::Stop);
    let stops = stops.map(|call| {
        let after = call.at.saturating_sub(Duration::from_secs(THEN));
        (call.container.as_str(), after.as_secs(), call.grace)
    });
    stops.collect()
}

fn when(calls: &[runtime::Call], act: Act, container: &str) -> Vec<u64> {
    let fits = |call: &&runtime::Call| call.act == act && call.container == container;
    let calls = calls.iter().filter(fits);
    calls.map(|call| call.at.as_secs()).collect()
}

fn with_sidecars(story: &mut Story) {
    story.init = vec![Init::Sidecar(Life::RunsOn); 2];
}

#[test]
fn sidecars_are_asked_to_end_when_those_before_them_have() {
    let calls = play(
        |story| {
            with_sidecars(story);
            story.stop_delay = 1;
        },
        &[(THEN, Event::Vanish(0))],
    );
    assert_eq!(stops(&calls), [("c0", 0, 5), ("i1", 1, 4), ("i0", 2, 3)]);
}

#[test]
fn sidecars_wait_no_longer_than_the_grace() {
    let calls = play(
        |story| {
            with_sidecars(story);
            story.stop_delay = 7;
        },
        &[(THEN, Event::Vanish(0))],
    );
    let mut stops = stops(&calls);
    stops.sort_unstable();
    assert_eq!(stops, [("c0", 0, 5), ("i0", 5, 2), ("i1", 5, 2)]);
}

#[test]
fn a_hook_before_the_end_is_counted() {
    for (hook, after, grace) in [
        (Hook::Nothing, 0, 5),
        (Hook::Sleeps(0), 0, 5),
        (Hook::Sleeps(2), 2, 3),
        (Hook::Runs(2), 2, 3),
        (Hook::Sleeps(4), 4, 2),
        (Hook::Sleeps(30), 5, 2),
        (Hook::Runs(30), 5, 2),
        (Hook::Fails, 0, 5),
        (Hook::Asks, 0, 5),
    ] {
        let calls = play(|story| story.pre_stop = hook, &[(THEN, Event::Vanish(0))]);
        assert_eq!(stops(&calls), [("c0", after, grace)], "{hook:?}");
    }
}

#[test]
fn hooks_before_the_end_begin_all_at_once_and_count_for_those_who_wait() {
    let calls = play(
        |story| {
            with_sidecars(story);
            story.pre_stop = Hook::Sleeps(2);
            story.stop_delay = 1;
        },
        &[(THEN, Event::Vanish(0))],
    );
    assert_eq!(stops(&calls), [("c0", 2, 3), ("i1", 3, 2), ("i0", 4, 2)]);
}

#[test]
fn a_pod_that_is_to_end_sooner_does_not_wait_for_its_hook() {
    for hook in [Hook::Sleeps(30), Hook::Runs(30)] {
        let events = [(THEN, Event::Delete(0)), (THEN + 1, Event::Hurry(0))];
        let calls = play(|story| story.pre_stop = hook, &events);
        assert_eq!(stops(&calls), [("c0", 1, 2)], "{hook:?}");
    }
}

#[test]
fn a_hook_before_the_end_is_not_begun_again_when_its_pod_is_to_end_sooner() {
    for (seconds, asked) in [
        (0, vec![("c0", 0, 3), ("c0", 2, 2)]),
        (30, vec![("c0", 2, 2)]),
    ] {
        let events = [(THEN, Event::Delete(0)), (THEN + 2, Event::Hurry(0))];
        let calls = play(
            |story| {
                story.pre_stop = Hook::Runs(seconds);
                story.stop_delay = 7;
            },
            &events,
        );
        assert_eq!(when(&calls, Act::Exec, "c0"), [THEN], "{seconds} s");
        assert_eq!(stops(&calls), asked, "{seconds} s");
    }
}

#[test]
fn a_container_that_is_replaced_runs_its_hook_too() {
    let calls = play(
        |story| story.pre_stop = Hook::Sleeps(2),
        &[(THEN, Event::Edit(0))],
    );
    assert_eq!(stops(&calls), [("c0", 2, 3)]);
}

#[test]
fn a_container_that_ends_by_itself_runs_no_hook_before_its_end() {
    for (policy, starts) in [(Policy::Never, 1), (Policy::Always, 2)] {
        let calls = play(
            |story| {
                story.policy = policy;
                story.containers = vec![Life::Ends { after: 20, code: 0 }];
                story.pre_stop = Hook::Runs(1);
            },
            &[],
        );
        assert!(when(&calls, Act::Start, "c0").len() >= starts, "{policy:?}");
        assert_eq!(when(&calls, Act::Exec, "c0"), [0; 0], "{policy:?}");
        assert_eq!(stops(&calls), [], "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_is_said_to_run_when_its_first_hook_is_over() {
    let mut scene = Scene::new();
    let hook = json!({ "postStart": { "sleep": { "seconds": 3 } } });
    let container = json!({
        "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent", "lifecycle": hook,
    });
    let spec = json!({ "containers": [container] });
    scene.put("p", &json!({}), &spec, 1).await;
    let said = |scene: &Scene| scene.said("p")["containerStatuses"][0].clone();
    assert_eq!(scene.look().running("p", "c").len(), 1);
    scene.pass(2).await;
    let during = said(&scene);
    assert_eq!(during["state"]["waiting"]["reason"], "ContainerCreating");
    assert_eq!(
        (&during["started"], &during["ready"]),
        (&json!(false), &json!(false))
    );
    scene.pass(2).await;
    let after = said(&scene);
    assert!(after["state"]["running"].is_object(), "{after}");
    assert_eq!(
        (&after["started"], &after["ready"]),
        (&json!(true), &json!(true))
    );
}

#[test]
fn the_next_container_waits_for_the_hook_of_the_one_before() {
    for (hook, waits) in [(Hook::Sleeps(3), 3), (Hook::Runs(3), 3), (Hook::Asks, 0)] {
        let calls = play(
            |story| {
                story.containers = vec![Life::RunsOn; 2];
                story.post_start = hook;
            },
            &[],
        );
        let first = when(&calls, Act::Start, "c0");
        let second = when(&calls, Act::Start, "c1");
        assert_eq!((first.len(), second.len()), (1, 1), "{hook:?}");
        assert_eq!(second[0] - first[0], waits, "{hook:?}");
    }
}

#[test]
fn a_container_whose_first_hook_fails_is_ended() {
    let calls = play(
        |story| {
            story.policy = Policy::Never;
            // So it is said that it does not run on.
            story.containers = vec![Life::Ends {
                after: 250,
                code: 0,
            }];
            story.post_start = Hook::Fails;
            story.pre_stop = Hook::Sleeps(1);
        },
        &[],
    );
    let started = when(&calls, Act::Start, "c0");
    let stopped = when(&calls, Act::Stop, "c0");
    assert_eq!((started.len(), stopped.len()), (1, 1));
    assert_eq!(stopped[0] - started[0], 1);
}

#[test]
fn a_first_hook_does_not_keep_a_pod_from_ending() {
    for hook in [Hook::Sleeps(100), Hook::Runs(100)] {
        let calls = play(|story| story.post_start = hook, &[(THEN, Event::Delete(0))]);
        assert_eq!(stops(&calls), [("c0", 0, 3)], "{hook:?}");
    }
}

#[test]
fn a_pod_that_nobody_knows_any_more_ends_without_its_hook() {
    // As upstream: of such a pod only the names of its containers are known.
    let events = [
        (THEN, Event::Restart { away: 5, late: 0 }),
        (THEN + 2, Event::Vanish(0)),
    ];
    let calls = play(|story| story.pre_stop = Hook::Runs(1), &events);
    assert_eq!(when(&calls, Act::Exec, "c0"), [0; 0]);
    let graces: Vec<i64> = stops(&calls).iter().map(|(.., grace)| *grace).collect();
    assert_eq!(graces, [2]);
}
