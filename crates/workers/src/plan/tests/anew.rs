//! Pods whose containers all begin anew.

use super::*;

/// A container whose end with 42 starts all again.
fn restarts_all(name: &str) -> Value {
    json!({ "name": name, "restartPolicy": "Never", "restartPolicyRules": [{
        "action": "RestartAllContainers",
        "exitCodes": { "operator": "In", "values": [42] },
    }] })
}

/// Init container `i`, containers `a`, `b` (whose end may start all again) and `c`.
fn restarting() -> Case {
    let mut case = Case::new(&json!({
        "restartPolicy": "Never",
        "initContainers": [restarts_all("i")],
        "containers": [{ "name": "a" }, restarts_all("b"), { "name": "c" }],
        "ephemeralContainers": [{ "name": "e" }],
    }));
    case.restarting_all = true;
    case
}

fn reset(name: &str, kind: Kind, kill: bool) -> Reset {
    Reset {
        id: format!("{name}-0"),
        container: name.to_owned(),
        kind,
        kill,
    }
}

#[test]
fn all_containers_go_for_all_to_begin_anew_and_the_reason_goes_last() {
    let case = restarting()
        .sandbox()
        .has(exited("i", 0))
        .has(running("e"))
        .has(running("a"))
        .has(exited("b", 42))
        .has(exited("c", 0));
    let expected = vec![
        reset("a", Kind::Regular, true),
        reset("c", Kind::Regular, false),
        reset("i", Kind::Init, false),
        reset("b", Kind::Regular, false),
    ];
    assert_eq!(case.plan(), Plan::Reset(expected));
    let init = restarting().sandbox().has(exited("i", 42));
    let expected = vec![reset("i", Kind::Init, false)];
    assert_eq!(init.plan(), Plan::Reset(expected));
}

#[test]
fn what_is_left_of_former_runs_goes_too() {
    let mut former = exited("b", 1);
    former.id = "former".to_owned();
    let case = restarting().sandbox().has(former).has(exited("b", 42));
    let Plan::Reset(resets) = case.plan() else {
        panic!("{:?}", case.plan());
    };
    let ids: Vec<&str> = resets.iter().map(|reset| reset.id.as_str()).collect();
    assert_eq!(ids, ["former", "b-0"]);
}

#[test]
fn after_a_reset_a_pod_begins_with_its_first_init_container() {
    let mut case = restarting().sandbox().has(running("e"));
    case.restarting_all = false;
    assert_eq!(case.starts(), named(&["i"]));
}

#[test]
fn a_pod_that_begins_anew_gets_a_sandbox_if_it_lost_its_own() {
    let mut case = restarting().sandbox().has(exited("b", 42));
    case.observed.sandboxes[0].ready = false;
    assert_eq!(case.plan(), Plan::Sandbox { attempt: 1 });
    // One that is to end does not begin anew.
    let ending = restarting().sandbox().has(exited("b", 42)).ending(true);
    assert_eq!(ending.plan(), kill_pod(7, PodKill::Ending));
}

#[test]
fn an_init_container_of_which_nothing_is_known_is_retried_by_its_own_policy() {
    let case = |pods: &str, own: Option<&str>| {
        Case::new(&json!({
            "restartPolicy": pods,
            "initContainers": [{ "name": "i", "restartPolicy": own }],
            "containers": [{ "name": "c" }],
        }))
        .sandbox()
        .has(container("i", ContainerState::Unknown))
    };
    for (pods, own, again) in [
        ("Always", None, true),
        ("Never", None, false),
        ("Never", Some("OnFailure"), true),
        ("Always", Some("Never"), false),
    ] {
        let planned = case(pods, own).plan();
        let Plan::Kill(kills) = &planned else {
            assert!(!again, "{pods} {own:?} {planned:?}");
            continue;
        };
        assert!(again, "{pods} {own:?} {planned:?}");
        let messages: Vec<&str> = kills.iter().map(|kill| kill.message.as_str()).collect();
        let expected = "Init container is in \"unknown\" state, try killing it before restart";
        assert_eq!(messages, [expected]);
    }
}

#[test]
fn a_container_is_in_one_of_three_lists() {
    let case = restarting();
    let spec = spec_of(&case.slot.pod);
    for (name, kind) in [
        ("i", Kind::Init),
        ("a", Kind::Regular),
        ("e", Kind::Ephemeral),
        ("gone", Kind::Regular),
    ] {
        assert_eq!(Kind::of(&spec, name), kind, "{name}");
    }
}
