mod added;
mod anew;
mod ill;
mod resizes;

use std::sync::Arc;

use serde_json::{Value, json};
use types::observed::ObservedSandbox;

use super::*;
use crate::admission::Rejection;
use crate::backoff::Pace;
use crate::slot::Ending;
use crate::spec::hash::hash_text;
use crate::spec::labels::HASH;

const NOW: u64 = 1000;
const SANDBOX: &str = "sandbox-0";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A pod, what the runtime has of it, and what its worker remembers.
#[derive(Clone)]
struct Case {
    slot: Slot,
    observed: ObservedPod,
    memory: Memory,
    restarting_all: bool,
}

impl Case {
    /// With these parts of its spec, prepared, and with nothing in the runtime.
    fn new(spec: &Value) -> Self {
        let pod = json!({
            "metadata": { "name": "web", "namespace": "shop", "uid": "u-1" },
            "spec": spec,
        });
        let slot = Slot {
            pod: Arc::new(serde_json::from_value(pod).unwrap()),
            source: Some(types::desired::Source::Api),
            mirror: None,
            ending: None,
            rejected: None,
            evicted: None,
            resize: crate::slot::Resize::default(),
        };
        let memory = Memory {
            prepared: true,
            ..Memory::default()
        };
        Self {
            slot,
            observed: ObservedPod::default(),
            memory,
            restarting_all: false,
        }
    }

    /// One container `c`, and this policy.
    fn simple(policy: &str) -> Self {
        Self::new(&json!({
            "restartPolicy": policy,
            "containers": [{ "name": "c", "image": "i" }],
        }))
    }

    fn sandbox(mut self) -> Self {
        self.observed.sandboxes.push(sandbox());
        self
    }

    /// The newest so far.
    fn has(mut self, container: ObservedContainer) -> Self {
        self.observed.containers.insert(0, container);
        self
    }

    fn remembers(mut self, change: impl FnOnce(&mut Memory)) -> Self {
        change(&mut self.memory);
        self
    }

    fn ending(mut self, for_good: bool) -> Self {
        self.slot.ending = Some(Ending {
            grace: seconds(7),
            for_good,
        });
        self
    }

    fn plan(&self) -> Plan {
        self.plan_at(NOW)
    }

    fn plan_at(&self, now: u64) -> Plan {
        plan(&Given {
            slot: &self.slot,
            observed: &self.observed,
            memory: &self.memory,
            restarting_all: self.restarting_all,
            now: seconds(now),
            longest_backoff: seconds(300),
        })
    }

    /// The names of what is started, with the attempts before them.
    fn starts(&self) -> Vec<(String, Option<u32>)> {
        match self.plan() {
            Plan::Start(starts, _) => starts
                .into_iter()
                .map(|start| (start.container, start.before.map(|before| before.attempt)))
                .collect(),
            other => panic!("{other:?}"),
        }
    }
}

fn sandbox() -> ObservedSandbox {
    ObservedSandbox {
        id: SANDBOX.to_owned(),
        ready: true,
        ips: vec!["10.0.0.1".to_owned()],
        ..ObservedSandbox::default()
    }
}

fn container(name: &str, state: ContainerState) -> ObservedContainer {
    ObservedContainer {
        id: format!("{name}-0"),
        name: name.to_owned(),
        sandbox_id: SANDBOX.to_owned(),
        state,
        started_at: 1,
        ..ObservedContainer::default()
    }
}

fn running(name: &str) -> ObservedContainer {
    container(name, ContainerState::Running)
}

/// It ended a second ago.
fn exited(name: &str, code: i32) -> ObservedContainer {
    ObservedContainer {
        exit_code: code,
        finished_at: i64::try_from(seconds(NOW - 1).as_nanos()).unwrap(),
        ..container(name, ContainerState::Exited)
    }
}

fn rest() -> Plan {
    Plan::Rest(Rest::default())
}

fn kill_pod(grace: u64, why: PodKill) -> Plan {
    Plan::KillPod {
        grace: seconds(grace),
        why,
    }
}

fn named(names: &[&str]) -> Vec<(String, Option<u32>)> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), None))
        .collect()
}

#[test]
fn a_sandbox_is_made_when_there_is_none_that_is_right() {
    let with = |change: fn(&mut ObservedSandbox)| {
        let mut case = Case::simple("Always").sandbox();
        change(&mut case.observed.sandboxes[0]);
        case
    };
    let attempt = |attempt| Plan::Sandbox { attempt };
    let changed = kill_pod(30, PodKill::SandboxChanged);
    let mut two_ready = Case::simple("Always").sandbox().sandbox();
    two_ready.observed.sandboxes[0].attempt = 1;
    for (what, case, expected) in [
        ("none", Case::simple("Always"), attempt(0)),
        (
            "it has ended",
            with(|one| {
                one.ready = false;
                one.attempt = 4;
            }),
            attempt(5),
        ),
        (
            "on the host's network",
            with(|one| one.host_network = true),
            changed.clone(),
        ),
        (
            "without an address",
            with(|one| one.ips.clear()),
            changed.clone(),
        ),
        ("two are ready", two_ready, changed),
    ] {
        assert_eq!(case.plan(), expected, "{what}");
    }
    let right = Case::simple("Always").sandbox();
    assert_eq!(right.starts(), named(&["c"]));
}

#[test]
fn a_pod_on_the_hosts_network_needs_no_address() {
    let mut case = Case::new(&json!({ "hostNetwork": true, "containers": [{ "name": "c" }] }));
    case = case.sandbox();
    case.observed.sandboxes[0].host_network = true;
    case.observed.sandboxes[0].ips.clear();
    assert_eq!(case.starts(), named(&["c"]));
}

#[test]
fn a_pod_whose_sandbox_ended_gets_another_only_if_something_is_to_run_in_it() {
    let ended = |policy: &str| {
        let mut case = Case::simple(policy).sandbox();
        case.observed.sandboxes[0].ready = false;
        case
    };
    // Its container's own policy counts, whatever the pod's.
    let by_itself = |code: i32| {
        let containers = json!([{ "name": "c", "image": "i", "restartPolicy": "OnFailure" }]);
        let case = Case::new(&json!({ "restartPolicy": "Always", "containers": containers }));
        let mut case = case.sandbox().has(exited("c", code));
        case.observed.sandboxes[0].ready = false;
        case
    };
    let another = Plan::Sandbox { attempt: 1 };
    for (case, expected) in [
        (by_itself(0), rest()),
        (by_itself(1), another.clone()),
        (ended("Always").has(exited("c", 0)), another.clone()),
        (ended("OnFailure").has(exited("c", 1)), another.clone()),
        (ended("OnFailure").has(exited("c", 0)), rest()),
        (ended("Never").has(exited("c", 1)), rest()),
        // None of its containers ever was.
        (ended("Never"), another),
        // What still runs has to end first.
        (
            ended("Always").has(running("c")),
            kill_pod(30, PodKill::SandboxChanged),
        ),
        (
            ended("Never").has(running("c")),
            kill_pod(30, PodKill::NothingToRun),
        ),
    ] {
        let shown = format!("{:?} {:?}", case.slot.pod.spec, case.observed);
        assert_eq!(case.plan(), expected, "{shown}");
    }
}

#[test]
fn all_begin_anew_in_another_sandbox_but_those_that_have_succeeded_for_good() {
    let case = |policy: &str, init: &Value, code: i32| {
        let containers = json!([
            { "name": "c", "image": "i", "restartPolicy": policy },
            { "name": "d", "image": "i" },
        ]);
        let spec =
            json!({ "restartPolicy": "Always", "initContainers": init, "containers": containers });
        let before = |container: ObservedContainer| ObservedContainer {
            sandbox_id: "before".to_owned(),
            ..container
        };
        let case = Case::new(&spec).sandbox().has(before(exited("c", code)));
        if init.as_array().is_some_and(Vec::is_empty) {
            case
        } else {
            case.has(exited("i", 0))
        }
    };
    let (none, init) = (json!([]), json!([{ "name": "i", "image": "i" }]));
    for (case, expected) in [
        (case("Never", &none, 0), &["c", "d"][..]),
        (case("Never", &none, 1), &["c", "d"]),
        (case("Always", &none, 0), &["c", "d"]),
        (case("OnFailure", &none, 1), &["c", "d"]),
        (case("OnFailure", &none, 0), &["d"]),
        // Upstream, too, asks the policy once init containers have ended.
        (case("Never", &init, 1), &["d"]),
    ] {
        let shown = format!("{:?} {:?}", case.slot.pod.spec, case.observed);
        let Plan::Start(starts, _) = case.plan() else {
            panic!("{shown}");
        };
        let started = starts.iter().map(|start| &start.container);
        assert_eq!(started.collect::<Vec<_>>(), expected, "{shown}");
    }
}

#[test]
fn a_container_that_ended_is_started_again_as_its_policy_says() {
    for (policy, code, again) in [
        ("Always", 0, true),
        ("Always", 1, true),
        ("OnFailure", 0, false),
        ("OnFailure", 1, true),
        ("Never", 0, false),
        ("Never", 1, false),
    ] {
        let case = Case::simple(policy).sandbox().has(exited("c", code));
        let expected = if again {
            Plan::Start(
                vec![Start {
                    container: "c".to_owned(),
                    kind: Kind::Regular,
                    before: Some(Before {
                        attempt: 0,
                        ended: Some(seconds(NOW - 1)),
                        unstarted: None,
                    }),
                }],
                Rest::default(),
            )
        } else {
            // Nothing keeps the pod: its sandbox goes.
            kill_pod(30, PodKill::NothingToRun)
        };
        assert_eq!(case.plan(), expected, "{policy} {code}");
    }
}

#[test]
fn a_container_that_has_just_ended_may_be_the_first_of_its_sandbox_to_end() {
    let case = Case::simple("Always").sandbox().has(exited("c", 1));
    let waits = Plan::Rest(Rest {
        until: Some(seconds(NOW)),
        ..Rest::default()
    });
    assert_eq!(case.plan_at(NOW - 1), waits);
    assert!(matches!(case.plan_at(NOW), Plan::Start(..)));
    let replaced = case.remembers(|memory| {
        memory.replaced.insert("c-0".to_owned());
    });
    assert!(matches!(replaced.plan_at(NOW - 1), Plan::Start(..)));
}

#[test]
fn the_policy_of_a_container_beats_that_of_its_pod() {
    let case = |own: &str| {
        Case::new(&json!({
            "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": "i", "restartPolicy": own }, { "name": "d" }],
        }))
        .sandbox()
        .has(exited("c", 1))
        .has(running("d"))
    };
    assert_eq!(case("Never").plan(), rest());
    let again = vec![("c".to_owned(), Some(0))];
    assert_eq!(case("OnFailure").starts(), again);
    assert_eq!(case("Always").starts(), again);
}

#[test]
fn a_pod_rests_while_what_should_run_does() {
    let case = Case::new(&json!({
        "restartPolicy": "OnFailure",
        "containers": [{ "name": "c" }, { "name": "d" }],
    }));
    let case = case.sandbox().has(running("c")).has(exited("d", 0));
    assert_eq!(case.plan(), rest());
}

#[test]
fn a_container_that_the_runtime_made_and_did_not_start_is_taken_away_for_another() {
    let mut created = container("c", ContainerState::Created);
    created.attempt = 2;
    for policy in ["Always", "Never"] {
        let case = Case::simple(policy).sandbox().has(created.clone());
        let before = Before {
            attempt: 2,
            ended: None,
            unstarted: Some("c-0".to_owned()),
        };
        match case.plan() {
            Plan::Start(starts, _) => assert_eq!(starts[0].before, Some(before), "{policy}"),
            other => panic!("{policy}: {other:?}"),
        }
    }
}

#[test]
fn a_container_of_which_nothing_is_known_is_ended_first() {
    let case = Case::simple("Never")
        .sandbox()
        .has(container("c", ContainerState::Unknown));
    let kill = Kill {
        id: "c-0".to_owned(),
        container: "c".to_owned(),
        kind: Kind::Regular,
        message: "Container is in \"unknown\" state, try killing it before restart".to_owned(),
        grace: seconds(30),
        again: true,
    };
    assert_eq!(case.plan(), Plan::Kill(vec![kill]));
    // Once it has ended, another takes its place whatever the policy.
    let mut case = Case::simple("Never").sandbox().has(exited("c", 137));
    case.memory.replaced.insert("c-0".to_owned());
    assert_eq!(case.starts(), vec![("c".to_owned(), Some(0))]);
}

#[test]
fn a_container_of_another_image_is_replaced() {
    let case = Case::new(&json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 4,
        "containers": [{ "name": "c", "image": "new" }],
    }));
    let of = |hash: String| {
        let mut one = running("c");
        one.annotations.insert(HASH.to_owned(), hash);
        one
    };
    let spec = spec_of(&case.slot.pod).into_owned();
    let same = case
        .clone()
        .sandbox()
        .has(of(hash_text(&spec.containers[0])));
    assert_eq!(same.plan(), rest());
    let other = case.clone().sandbox().has(of("another".to_owned()));
    match other.plan() {
        Plan::Kill(kills) => {
            let message = "Container c definition changed, will be restarted";
            assert_eq!(kills[0].message, message);
            assert_eq!(kills[0].grace, seconds(4));
        }
        other => panic!("{other:?}"),
    }
    // One that another agent wrote nothing on is not judged.
    assert_eq!(case.sandbox().has(running("c")).plan(), rest());
}

/// Two init containers and `c`, in a sandbox.
fn with_init(policy: &str) -> Case {
    Case::new(&json!({
        "restartPolicy": policy,
        "initContainers": [{ "name": "first" }, { "name": "second" }],
        "containers": [{ "name": "c" }],
    }))
    .sandbox()
}

#[test]
fn init_containers_run_one_after_the_other_before_the_others() {
    for (case, expected) in [
        (with_init("Always"), "first"),
        (with_init("Always").has(exited("first", 0)), "second"),
        (
            with_init("Always")
                .has(exited("first", 0))
                .has(exited("second", 0)),
            "c",
        ),
        // The first one's traces may be gone.
        (with_init("Always").has(exited("second", 0)), "c"),
    ] {
        assert_eq!(case.starts(), named(&[expected]));
    }
    let busy = with_init("Always").has(running("first"));
    assert_eq!(busy.plan(), rest());
    let done = with_init("Always")
        .has(exited("second", 0))
        .has(running("c"));
    assert_eq!(done.plan(), rest());
    let long_done = with_init("Always").has(running("c"));
    assert_eq!(long_done.plan(), rest());
}

#[test]
fn an_init_container_that_failed_is_tried_again_or_is_the_end_of_the_pod() {
    for policy in ["Always", "OnFailure"] {
        let case = with_init(policy).has(exited("first", 3));
        assert_eq!(
            case.starts(),
            vec![("first".to_owned(), Some(0))],
            "{policy}"
        );
        let lost = with_init(policy).has(container("first", ContainerState::Unknown));
        assert!(matches!(lost.plan(), Plan::Kill(_)), "{policy}");
    }
    for state in [
        exited("first", 3),
        container("first", ContainerState::Unknown),
    ] {
        let case = with_init("Never").has(state);
        assert_eq!(case.plan(), kill_pod(30, PodKill::NothingToRun));
    }
    // A good end in which something was killed for want of memory is none.
    let starved = || ObservedContainer {
        reason: "OOMKilled".to_owned(),
        ..exited("first", 0)
    };
    let again = with_init("Always").has(starved());
    assert_eq!(again.starts(), vec![("first".to_owned(), Some(0))]);
    for policy in ["OnFailure", "Never"] {
        let case = with_init(policy).has(starved());
        assert_eq!(case.plan(), kill_pod(30, PodKill::NothingToRun), "{policy}");
    }
}

#[test]
fn in_another_sandbox_init_containers_run_again() {
    let mut case = with_init("Always")
        .has(exited("first", 0))
        .has(exited("second", 0))
        .has(exited("c", 137));
    case.observed.sandboxes.insert(
        0,
        ObservedSandbox {
            id: "sandbox-1".to_owned(),
            attempt: 1,
            ..sandbox()
        },
    );
    case.observed.sandboxes[1].ready = false;
    assert_eq!(case.starts(), vec![("first".to_owned(), Some(0))]);
}

/// A sidecar, an init container, another sidecar, and `c`, in a sandbox.
fn with_sidecars(policy: &str) -> Case {
    Case::new(&json!({
        "restartPolicy": policy,
        "initContainers": [
            { "name": "a", "restartPolicy": "Always" },
            { "name": "init" },
            { "name": "b", "restartPolicy": "Always" },
        ],
        "containers": [{ "name": "c" }],
    }))
    .sandbox()
}

#[test]
fn what_comes_after_a_sidecar_starts_when_it_runs() {
    let mut case = with_sidecars("Never");
    for (next, becomes) in [
        ("a", running("a")),
        ("init", exited("init", 0)),
        ("b", running("b")),
        ("c", running("c")),
    ] {
        assert_eq!(case.starts(), named(&[next]));
        case = case.has(becomes);
    }
    assert_eq!(case.plan(), rest());
}

#[test]
fn a_sidecar_is_started_again_as_long_as_the_pod_needs_it() {
    let again = |case: Case| {
        case.starts()
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    // While the init containers behind it are at work.
    let case = with_sidecars("Never")
        .has(exited("a", 1))
        .has(running("init"));
    assert_eq!(again(case), ["a"]);
    let case = with_sidecars("Never")
        .has(exited("a", 1))
        .has(exited("init", 0));
    assert_eq!(again(case), ["a", "b"]);
    // While the pod is.
    let begun = |a, b| {
        let init = exited("init", 0);
        with_sidecars("Never")
            .has(a)
            .has(init)
            .has(b)
            .has(running("c"))
    };
    assert_eq!(again(begun(exited("a", 0), exited("b", 1))), ["a", "b"]);
    assert_eq!(again(begun(running("a"), exited("b", 0))), ["b"]);
    // Even if the runtime has forgotten it.
    let case = with_sidecars("Never").has(running("b")).has(running("c"));
    assert_eq!(again(case), ["a"]);
}

#[test]
fn sidecars_do_not_keep_a_pod_whose_work_is_done() {
    let done = with_sidecars("Never")
        .has(exited("init", 0))
        .has(exited("c", 0));
    let over = kill_pod(30, PodKill::NothingToRun);
    assert_eq!(
        done.clone().has(running("a")).has(running("b")).plan(),
        over
    );
    // Nor does one that waits to be started again.
    let waits = done
        .has(exited("a", 1))
        .has(running("b"))
        .remembers(|memory| {
            let key = backoff_key(&Container::default());
            memory.backoff.started(
                "a",
                &key,
                seconds(NOW - 5),
                seconds(NOW - 5),
                Pace::default(),
            );
        });
    assert_eq!(waits.plan(), over);
}

#[test]
fn what_crashed_waits_longer_each_time() {
    let case = Case::simple("Always").sandbox().has(exited("c", 1));
    let case = case.remembers(|memory| {
        let container = Container {
            image: Some("i".to_owned()),
            ..Container::default()
        };
        let (key, then) = (backoff_key(&container), seconds(NOW - 5));
        memory
            .backoff
            .started("c", &key, then, then, Pace::default());
    });
    let waits = BackingOff {
        container: "c".to_owned(),
        kind: Kind::Regular,
        wait: seconds(10),
    };
    let until = NOW - 1 + 10;
    let expected = Rest {
        until: Some(seconds(until)),
        backing_off: vec![waits],
    };
    assert_eq!(case.plan_at(NOW), Plan::Rest(expected));
    assert!(matches!(case.plan_at(until), Plan::Start(..)));
    // One that made room for another does not wait.
    let replaced = case.remembers(|memory| memory.replaced.extend(["c-0".to_owned()]));
    assert!(matches!(replaced.plan_at(NOW), Plan::Start(..)));
}

#[test]
fn one_container_that_cannot_start_keeps_no_other_waiting() {
    let case = Case::new(&json!({ "containers": [{ "name": "c" }, { "name": "d" }] }));
    let case = case.sandbox().remembers(|memory| {
        let retry = &mut memory.retry_container_at;
        retry.insert("c".to_owned(), seconds(NOW + 8));
    });
    let wakes = Rest {
        until: Some(seconds(NOW + 8)),
        ..Rest::default()
    };
    match case.plan() {
        Plan::Start(starts, rest) => {
            assert_eq!(starts.len(), 1);
            assert_eq!(starts[0].container, "d");
            assert_eq!(rest, wakes);
        }
        other => panic!("{other:?}"),
    }
    let alone = case.has(running("d"));
    assert_eq!(alone.plan(), Plan::Rest(wakes));
    assert!(matches!(alone.plan_at(NOW + 8), Plan::Start(..)));
}

#[test]
fn after_a_failure_of_the_whole_pod_nothing_is_done_until_its_time() {
    let case = Case::simple("Always").remembers(|memory| memory.retry_at = Some(seconds(NOW + 3)));
    let wakes = Rest {
        until: Some(seconds(NOW + 3)),
        ..Rest::default()
    };
    assert_eq!(case.plan(), Plan::Rest(wakes));
    assert_eq!(case.plan_at(NOW + 3), Plan::Sandbox { attempt: 0 });
    // Nothing waits for hours: the clock was put back.
    let case = Case::simple("Always").remembers(|memory| memory.retry_at = Some(seconds(30_000)));
    assert_eq!(case.plan(), Plan::Sandbox { attempt: 0 });
}

#[test]
fn what_containers_need_is_there_before_they_are_and_after_an_agents_restart() {
    let unprepared = |case: Case| case.remembers(|memory| memory.prepared = false).plan();
    let simple = || Case::simple("Always");
    assert_eq!(unprepared(simple()), Plan::Prepare);
    assert_eq!(unprepared(simple().sandbox()), Plan::Prepare);
    // Its volumes have to be kept fresh, though nothing is started.
    assert_eq!(
        unprepared(simple().sandbox().has(running("c"))),
        Plan::Prepare
    );
    // Nobody ends for another that could not come.
    let other = || {
        let mut other = running("c");
        other.annotations.insert(HASH.to_owned(), "0".to_owned());
        other
    };
    assert_eq!(unprepared(simple().sandbox().has(other())), Plan::Prepare);
    let mut changed = simple().sandbox().has(running("c"));
    changed.observed.sandboxes[0].ready = false;
    assert!(matches!(
        changed.plan(),
        Plan::KillPod {
            why: PodKill::SandboxChanged,
            ..
        }
    ));
    assert_eq!(unprepared(changed), Plan::Prepare);
    // What only has to end needs nothing.
    let over = Case::simple("Never").sandbox().has(exited("c", 0));
    assert_eq!(unprepared(over), kill_pod(30, PodKill::NothingToRun));
    let mut gone = Case::simple("Never").sandbox().has(exited("c", 0));
    gone.observed.sandboxes[0].ready = false;
    assert_eq!(unprepared(gone), rest());
}

#[test]
fn a_pod_that_ends_is_killed_then_cleaned_and_if_it_was_deleted_removed() {
    for for_good in [false, true] {
        let case = Case::simple("Always").ending(for_good);
        let alive = case.clone().sandbox().has(running("c"));
        assert_eq!(alive.plan(), kill_pod(7, PodKill::Ending));
        // A container outlives its sandbox.
        let remains = case.clone().has(running("c"));
        assert_eq!(remains.plan(), kill_pod(7, PodKill::Ending));
        let dead = case.has(exited("c", 0));
        assert_eq!(dead.plan(), Plan::Clean);
        let clean = dead.remembers(|memory| memory.cleaned = true);
        let expected = if for_good { Plan::Remove } else { Plan::Finish };
        assert_eq!(clean.plan(), expected);
        let removed = clean.remembers(|memory| memory.removed = true);
        assert_eq!(removed.plan(), Plan::Finish);
    }
}

#[test]
fn a_pod_that_is_over_or_not_let_in_ends_with_its_own_grace_and_is_kept() {
    let over = Case::simple("Never").remembers(|memory| memory.over = true);
    let mut rejected = Case::simple("Always");
    rejected.slot.rejected = Some(Rejection {
        reason: "OutOfcpu".to_owned(),
        message: "no room".to_owned(),
    });
    for case in [over, rejected] {
        let alive = case.clone().sandbox();
        assert_eq!(alive.plan(), kill_pod(30, PodKill::Ending));
        assert_eq!(case.plan(), Plan::Clean);
        let clean = case.remembers(|memory| memory.cleaned = true);
        assert_eq!(clean.plan(), Plan::Finish);
        // Until it is deleted.
        assert_eq!(clean.ending(true).plan(), Plan::Remove);
    }
}
