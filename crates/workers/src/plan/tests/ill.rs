//! Containers that probes have found ill, and what waits for those that start.

use super::*;

/// `c` with both probes, which give it other times than its pod, and `d`.
fn pod(policy: &str, own: Option<&str>) -> Case {
    let spec = json!({
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": 9,
        "containers": [
            {
                "name": "c", "image": "i", "restartPolicy": own,
                "livenessProbe": { "terminationGracePeriodSeconds": 3 },
                "startupProbe": {},
            },
            { "name": "d", "image": "i" },
        ],
    });
    Case::new(&spec)
        .sandbox()
        .has(running("c"))
        .has(running("d"))
}

fn ill(case: Case, name: &str, purpose: Purpose) -> Case {
    case.remembers(|memory| {
        memory.ill.insert(format!("{name}-0"), purpose);
    })
}

fn kill(message: &str, grace: u64, again: bool) -> Plan {
    Plan::Kill(vec![Kill {
        id: "c-0".to_owned(),
        container: "c".to_owned(),
        kind: Kind::Regular,
        message: message.to_owned(),
        grace: seconds(grace),
        again,
    }])
}

#[test]
fn who_is_ill_is_ended_in_its_probes_time_and_replaced_as_its_policy_says() {
    let (live, start) = (Purpose::Liveness, Purpose::Startup);
    for (policy, own, purpose, message, grace, again) in [
        (
            "Always",
            None,
            live,
            "Container c failed liveness probe, will be restarted",
            3,
            true,
        ),
        (
            "OnFailure",
            None,
            live,
            "Container c failed liveness probe, will be restarted",
            3,
            true,
        ),
        (
            "Never",
            None,
            live,
            "Container c failed liveness probe",
            3,
            false,
        ),
        (
            "Never",
            Some("OnFailure"),
            live,
            "Container c failed liveness probe, will be restarted",
            3,
            true,
        ),
        (
            "Always",
            Some("Never"),
            live,
            "Container c failed liveness probe",
            3,
            false,
        ),
        (
            "Always",
            None,
            start,
            "Container c failed startup probe, will be restarted",
            9,
            true,
        ),
        (
            "Never",
            None,
            start,
            "Container c failed startup probe",
            9,
            false,
        ),
    ] {
        let case = ill(pod(policy, own), "c", purpose);
        let wanted = kill(message, grace, again);
        assert_eq!(case.plan(), wanted, "{policy} {own:?} {purpose}");
    }
}

#[test]
fn what_is_found_of_another_container_says_nothing_of_this_one() {
    let case = pod("Always", None).remembers(|memory| {
        memory.ill.insert("c-9".to_owned(), Purpose::Liveness);
    });
    assert_eq!(case.plan(), rest());
}

#[test]
fn a_change_counts_before_an_illness() {
    let mut case = ill(pod("Always", None), "c", Purpose::Liveness);
    let changed = (HASH.to_owned(), "other".to_owned());
    let containers = &mut case.observed.containers;
    let c = containers.iter_mut().find(|one| one.name == "c").unwrap();
    c.annotations.extend([changed]);
    let message = "Container c definition changed, will be restarted";
    assert_eq!(case.plan(), kill(message, 9, true));
}

#[test]
fn a_pod_whose_only_container_is_ill_and_not_to_be_replaced_ends() {
    let case = Case::simple("Never").sandbox().has(running("c"));
    let case = ill(case, "c", Purpose::Liveness);
    assert_eq!(case.plan(), kill_pod(30, PodKill::NothingToRun));
}

/// `c` was ended so that another takes its place, a second ago; the one before it ended
/// this many seconds before.
fn replaced(policy: &str, code: i32, before: Option<u64>) -> Case {
    let mut case = Case::simple(policy).sandbox();
    if let Some(before) = before {
        let mut earlier = exited("c", 1);
        earlier.id = "c-before".to_owned();
        earlier.finished_at -= i64::try_from(seconds(before).as_nanos()).unwrap();
        case = case.has(earlier);
    }
    case.has(exited("c", code)).remembers(|memory| {
        memory.replaced.insert("c-0".to_owned());
    })
}

#[test]
fn the_place_of_one_that_was_ended_is_taken_at_once_whatever_its_code() {
    for (policy, code) in [("Always", 137), ("OnFailure", 0), ("Never", 137)] {
        let case = replaced(policy, code, None);
        let Plan::Start(starts, _) = case.plan_at(NOW - 1) else {
            panic!("{policy} {code}: {:?}", case.plan_at(NOW - 1));
        };
        // It did not end by itself, and there is none before it.
        assert_eq!(starts[0].before.as_ref().unwrap().ended, None);
    }
}

#[test]
fn the_wait_for_a_place_is_counted_from_the_end_of_the_one_before() {
    let what = |case: &Case| backoff_key(&spec_of(&case.slot.pod).containers[0]);
    // It ended so long before; with the first wait of ten seconds.
    for (before, code, policy, starts_at) in [
        (11, 137, "Always", Some(NOW - 1)),
        (10, 137, "Always", Some(NOW - 1)),
        (9, 137, "Always", Some(NOW + 9)),
        // Then it counts as one that has ended by itself.
        (9, 0, "OnFailure", None),
        (9, 1, "OnFailure", Some(NOW + 9)),
    ] {
        let case = replaced(policy, code, Some(before));
        let what = what(&case);
        let case = case.remembers(|memory| {
            let (ended, now) = (seconds(NOW - 60), seconds(NOW - 50));
            memory
                .backoff
                .started("c", &what, ended, now, Pace::default());
        });
        let told = format!("{before} {code} {policy}");
        match starts_at {
            None => assert_eq!(case.plan(), kill_pod(30, PodKill::NothingToRun), "{told}"),
            Some(at) => {
                let Plan::Start(starts, _) = case.plan_at(at) else {
                    panic!("{told}: {:?}", case.plan_at(at));
                };
                assert_eq!(starts.len(), 1, "{told}");
                let early = case.plan_at(at - 1);
                assert!(
                    at < NOW || matches!(early, Plan::Rest(_)),
                    "{told}: {early:?}"
                );
            }
        }
    }
}

/// Two sidecars, the first of which has probes, and `c`.
fn sidecars() -> Case {
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [
            {
                "name": "s", "image": "i", "restartPolicy": "Always",
                "startupProbe": { "terminationGracePeriodSeconds": 5 },
                "livenessProbe": { "terminationGracePeriodSeconds": 6 },
            },
            { "name": "t", "image": "i", "restartPolicy": "Always" },
        ],
        "containers": [{ "name": "c", "image": "i" }],
    });
    Case::new(&spec).sandbox().has(running("s"))
}

fn has_started(case: Case) -> Case {
    case.remembers(|memory| {
        memory.started.insert("s-0".to_owned());
    })
}

#[test]
fn those_behind_a_sidecar_wait_until_it_has_started() {
    assert_eq!(sidecars().plan(), rest());
    assert_eq!(has_started(sidecars()).starts(), named(&["t"]));
}

#[test]
fn a_sidecar_that_is_ill_is_replaced_whatever_the_policy() {
    let killed = |message: &str, grace: u64| {
        Plan::Kill(vec![Kill {
            id: "s-0".to_owned(),
            container: "s".to_owned(),
            kind: Kind::Init,
            message: message.to_owned(),
            grace: seconds(grace),
            again: true,
        }])
    };
    let case = ill(sidecars(), "s", Purpose::Startup);
    let message = "Init container s failed startup probe";
    assert_eq!(case.plan(), killed(message, 5));
    let case = has_started(ill(sidecars(), "s", Purpose::Liveness));
    let message = "Init container s failed liveness probe";
    assert_eq!(case.plan(), killed(message, 6));
    // Before it has started nobody asks whether it lives.
    let case = ill(sidecars(), "s", Purpose::Liveness);
    assert_eq!(case.plan(), rest());
}

#[test]
fn a_sidecar_whose_definition_changed_is_replaced_in_its_pods_time() {
    let mut case = has_started(sidecars());
    case.observed.containers[0]
        .annotations
        .extend([(HASH.to_owned(), "other".to_owned())]);
    let Plan::Kill(kills) = case.plan() else {
        panic!("{:?}", case.plan());
    };
    let [kill] = kills.as_slice() else {
        panic!("{kills:?}");
    };
    assert_eq!(kill.message, "Init container s definition changed");
    assert_eq!((kill.container.as_str(), kill.kind), ("s", Kind::Init));
    assert_eq!((kill.grace, kill.again), (case.slot.own_grace(), true));
}
