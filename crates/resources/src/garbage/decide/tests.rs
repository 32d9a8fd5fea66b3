use super::super::testing::{container, sandbox};
use super::*;

/// Times are seconds after the beginning; the clock shows 1000.
const NOW: u64 = 1000;

fn at(seconds: i64) -> i64 {
    seconds * 1_000_000_000
}

fn uids(uids: &[&str]) -> BTreeSet<PodUid> {
    uids.iter().map(|uid| PodUid::new(uid)).collect()
}

/// Every source was heard, and these pods are there.
fn existing(pods: &[&str]) -> Wanted {
    Wanted {
        existing: uids(pods),
        ready: true,
        ..Wanted::default()
    }
}

fn limits(in_all: Option<usize>, per_container: Option<usize>) -> Limits {
    Limits {
        in_all,
        per_container,
        least_age: Duration::ZERO,
    }
}

/// An ended container, from `pod/name/time`, which is its id as well.
fn ended(id: &str) -> Container {
    let parts: Vec<&str> = id.split('/').collect();
    Container {
        created_at: at(parts[2].parse().unwrap()),
        ..container(parts[0], parts[1], id)
    }
}

fn in_state(id: &str, state: ContainerState) -> Container {
    Container {
        state: state.into(),
        ..ended(id)
    }
}

fn removed(listed: &[Container], wanted: &Wanted, limits: &Limits) -> Vec<String> {
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    containers(listed, wanted, limits, now)
}

fn removed_of(ids: &[&str], wanted: &Wanted, limits: &Limits) -> Vec<String> {
    let listed: Vec<Container> = ids.iter().map(|id| ended(id)).collect();
    removed(&listed, wanted, limits)
}

#[test]
fn of_each_container_the_newest_dead_stay_up_to_the_limit() {
    let listed = ["a/x/3", "a/x/1", "a/x/2", "a/y/1", "b/x/1", "b/x/2"];
    let wanted = existing(&["a", "b"]);
    let cases: [(Option<usize>, &[&str]); 5] = [
        (Some(1), &["a/x/1", "b/x/1", "a/x/2"]),
        (Some(2), &["a/x/1"]),
        (Some(3), &[]),
        (
            Some(0),
            &["a/x/1", "a/y/1", "b/x/1", "a/x/2", "b/x/2", "a/x/3"],
        ),
        (None, &[]),
    ];
    for (most, expected) in cases {
        let found = removed_of(&listed, &wanted, &limits(None, most));
        assert_eq!(found, expected, "{most:?}");
    }
}

#[test]
fn in_all_each_container_keeps_an_equal_share_and_then_the_oldest_go() {
    let wanted = existing(&["a", "b", "c"]);
    let many = ["a/x/1", "a/x/2", "a/x/3", "a/x/4", "b/x/5", "b/x/6"];
    let single = ["a/x/1", "b/x/2", "c/x/3"];
    let cases: [(&[&str], usize, &[&str]); 8] = [
        (&many, 6, &[]),
        // Two for each, and no more is needed.
        (&many, 5, &["a/x/1", "a/x/2"]),
        (&many, 4, &["a/x/1", "a/x/2"]),
        // One for each.
        (&many, 3, &["a/x/1", "a/x/2", "a/x/3", "b/x/5"]),
        // A share is one at least, and then the oldest goes.
        (&many, 1, &["a/x/1", "a/x/2", "a/x/3", "a/x/4", "b/x/5"]),
        (&single, 2, &["a/x/1"]),
        (&single, 0, &["a/x/1", "b/x/2", "c/x/3"]),
        (&[], 0, &[]),
    ];
    for (listed, most, expected) in cases {
        let found = removed_of(listed, &wanted, &limits(Some(most), None));
        assert_eq!(found, expected, "{listed:?} {most}");
    }
}

#[test]
fn the_limit_in_all_counts_what_the_limit_of_each_has_left() {
    let listed = ["a/x/1", "a/x/2", "a/x/3", "b/x/4"];
    let wanted = existing(&["a", "b"]);
    let found = removed_of(&listed, &wanted, &limits(Some(2), Some(1)));
    assert_eq!(found, ["a/x/1", "a/x/2"]);
}

#[test]
fn nothing_goes_before_it_is_old_enough_not_even_of_a_pod_that_is_gone() {
    let listed = [
        "gone/x/939",
        "gone/x/940",
        "gone/x/941",
        "a/x/940",
        "a/x/941",
    ];
    let limits = Limits {
        least_age: Duration::from_secs(60),
        ..limits(None, Some(0))
    };
    let found = removed_of(&listed, &existing(&["a"]), &limits);
    assert_eq!(found, ["gone/x/939", "a/x/940", "gone/x/940"]);
}

#[test]
fn what_was_made_after_now_is_young_as_after_a_clock_that_was_set_back() {
    let found = removed_of(&["gone/x/1001"], &existing(&[]), &Limits::default());
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_container_that_runs_stays_and_does_not_count() {
    let listed = [
        in_state("gone/x/1", ContainerState::ContainerRunning),
        in_state("a/x/3", ContainerState::ContainerRunning),
        ended("a/x/2"),
        ended("a/x/1"),
    ];
    let found = removed(&listed, &existing(&["a"]), &Limits::default());
    assert_eq!(found, ["a/x/1"]);
}

#[test]
fn one_that_never_started_or_whose_state_is_lost_counts_as_dead() {
    let listed = [
        in_state("a/x/3", ContainerState::ContainerCreated),
        in_state("a/x/2", ContainerState::ContainerUnknown),
        ended("a/x/1"),
    ];
    let found = removed(&listed, &existing(&["a"]), &Limits::default());
    assert_eq!(found, ["a/x/1", "a/x/2"]);
}

#[test]
fn what_is_known_of_its_pod_decides_what_a_dead_container_may_keep() {
    let pods = |ready: bool| Wanted {
        existing: uids(&["there", "evicted", "busy"]),
        removable: uids(&["evicted", "deleted", "busy"]),
        busy: uids(&["busy"]),
        ready,
    };
    let cases = [
        ("there", false, false),
        ("there", true, false),
        ("evicted", false, true),
        ("evicted", true, true),
        ("deleted", false, true),
        ("deleted", true, true),
        ("busy", false, false),
        ("busy", true, false),
        ("unknown", false, false),
        ("unknown", true, true),
    ];
    for (pod, ready, goes) in cases {
        let wanted = pods(ready);
        let id = format!("{pod}/x/1");
        let found = removed_of(&[&id], &wanted, &Limits::default());
        assert_eq!(!found.is_empty(), goes, "container of {pod}, {ready}");
        let last = idle_sandbox(pod, "s", 1);
        let found = sandboxes(&[last], &[], &wanted);
        assert_eq!(!found.is_empty(), goes, "sandbox of {pod}, {ready}");
        let found = log_directories(&[format!("default_web_{pod}")], &wanted);
        assert_eq!(!found.is_empty(), goes, "logs of {pod}, {ready}");
    }
}

#[test]
fn even_the_spare_things_of_a_busy_pod_are_left_alone() {
    let mut wanted = existing(&["a"]);
    wanted.busy = uids(&["a"]);
    let found = removed_of(&["a/x/1", "a/x/2"], &wanted, &limits(Some(0), Some(0)));
    assert!(found.is_empty(), "{found:?}");
    let listed = [idle_sandbox("a", "s1", 1), idle_sandbox("a", "s2", 2)];
    let found = sandboxes(&listed, &[], &wanted);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn what_others_run_in_the_same_runtime_is_not_touched() {
    let mut foreign = ended("gone/x/1");
    foreign.labels.clear();
    let found = removed(&[foreign], &existing(&[]), &limits(Some(0), Some(0)));
    assert!(found.is_empty(), "{found:?}");
    let mut foreign = idle_sandbox("gone", "s", 1);
    foreign.labels.clear();
    let found = sandboxes(&[foreign], &[], &existing(&[]));
    assert!(found.is_empty(), "{found:?}");
    let names = ["journal", "1-2-3", "a_b"].map(str::to_owned);
    let found = log_directories(&names, &existing(&[]));
    assert!(found.is_empty(), "{found:?}");
}

fn idle_sandbox(uid: &str, id: &str, created_at: i64) -> PodSandbox {
    PodSandbox {
        state: PodSandboxState::SandboxNotready.into(),
        created_at,
        ..sandbox(uid, id)
    }
}

fn ready_sandbox(uid: &str, id: &str, created_at: i64) -> PodSandbox {
    PodSandbox {
        state: PodSandboxState::SandboxReady.into(),
        ..idle_sandbox(uid, id, created_at)
    }
}

#[test]
fn sandboxes_go_when_they_are_neither_ready_nor_used_nor_the_last_of_a_pod() {
    let used = Container {
        pod_sandbox_id: "used".to_owned(),
        ..ended("a/x/1")
    };
    let cases: [(&str, &[PodSandbox], &[&str]); 6] = [
        (
            "the newest of a pod that is there stays",
            &[idle_sandbox("a", "s2", 2), idle_sandbox("a", "s1", 1)],
            &["s1"],
        ),
        (
            "so it does if it is ready",
            &[ready_sandbox("a", "s2", 2), idle_sandbox("a", "s1", 1)],
            &["s1"],
        ),
        (
            "an older one that is ready stays, and does not cost the newest its place",
            &[idle_sandbox("a", "s2", 2), ready_sandbox("a", "s1", 1)],
            &[],
        ),
        (
            "one with containers stays",
            &[idle_sandbox("a", "s2", 2), idle_sandbox("a", "used", 1)],
            &[],
        ),
        (
            "of a pod that is gone all idle ones go",
            &[
                idle_sandbox("gone", "s3", 3),
                ready_sandbox("gone", "s2", 2),
                idle_sandbox("gone", "s1", 1),
            ],
            &["s1", "s3"],
        ),
        (
            "but for those with containers",
            &[idle_sandbox("gone", "used", 1)],
            &[],
        ),
    ];
    for (rule, listed, expected) in cases {
        let found = sandboxes(listed, std::slice::from_ref(&used), &existing(&["a"]));
        assert_eq!(found, expected, "{rule}");
    }
}
