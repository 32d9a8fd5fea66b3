use super::*;
use Purpose::{Liveness, Readiness, Startup};
use Verdict::{Failure, Success, Unknown};

const AGENT: i64 = 1000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn rules(purpose: Purpose) -> Rules {
    Rules {
        purpose,
        sidecar: false,
        initial_delay: 0,
        success_threshold: 1,
        failure_threshold: 3,
    }
}

/// A container that began after the agent; `started` is what its status says.
fn running(id: &str, started: bool) -> Seen {
    Seen {
        id: Arc::from(id),
        running_since: Some(at(AGENT + 100)),
        started,
        ready: false,
    }
}

fn stopped(id: &str) -> Seen {
    Seen {
        running_since: None,
        ..running(id, false)
    }
}

fn begun(rules: &Rules, seen: &Seen) -> Course {
    let mut course = Course::default();
    course.see(rules, seen, at(AGENT));
    course
}

#[test]
fn before_anything_was_asked_a_container_lives_is_not_ready_and_may_have_started() {
    for (purpose, wanted) in [
        (Liveness, Success),
        (Readiness, Failure),
        (Startup, Unknown),
    ] {
        let course = begun(&rules(purpose), &running("a", false));
        assert_eq!(course.result(), Some(wanted), "{purpose}");
        assert_eq!(course.id().map(AsRef::as_ref), Some("a"));
    }
}

#[test]
fn of_a_container_that_an_earlier_agent_has_probed_nothing_is_said_at_first() {
    // (purpose, sidecar, began, started) → what is said
    for (purpose, sidecar, began, started, wanted) in [
        (Readiness, false, AGENT - 11, true, None),
        (Liveness, false, AGENT - 11, true, None),
        (Startup, false, AGENT - 11, true, None),
        (Startup, true, AGENT - 11, true, Some(Success)),
        (Startup, true, AGENT - 11, false, None),
        (Readiness, true, AGENT - 11, true, None),
        // So shortly before that the one before may not have come to it.
        (Readiness, false, AGENT - 10, true, Some(Failure)),
        (Startup, true, AGENT - 10, false, Some(Unknown)),
        // But it has.
        (Startup, false, AGENT - 10, true, None),
        (Startup, true, AGENT - 10, true, Some(Success)),
    ] {
        let rules = Rules {
            sidecar,
            ..rules(purpose)
        };
        let seen = Seen {
            running_since: Some(at(began)),
            ..running("a", started)
        };
        let told = format!("{purpose} {sidecar} {began} {started}");
        assert_eq!(begun(&rules, &seen).result(), wanted, "{told}");
    }
}

#[test]
fn who_was_ready_when_it_was_first_seen_stays_so_however_young_it_is() {
    let rules = rules(Readiness);
    let seen = Seen {
        ready: true,
        ..running("a", true)
    };
    assert_eq!(begun(&rules, &seen).result(), None);
}

#[test]
fn a_verdict_takes_as_many_answers_in_a_row_as_its_threshold() {
    // (purpose, success, failure, answers) → what is said after each
    let cases: [(Purpose, i32, i32, &str, &str); 9] = [
        (Readiness, 1, 3, "+", "+"),
        (Readiness, 1, 3, "+---", "+++-"),
        (Readiness, 1, 3, "+--+---", "++++++-"),
        (Readiness, 3, 1, "+++-+++", "--+---+"),
        (Readiness, 2, 2, "+-+--++", "------+"),
        (Liveness, 1, 1, "+-", "+-"),
        (Liveness, 1, 3, "--+---", "+++++-"),
        (Startup, 1, 3, "---", "??-"),
        (Startup, 1, 3, "--+", "??+"),
    ];
    for (purpose, success_threshold, failure_threshold, answers, wanted) in cases {
        let rules = Rules {
            success_threshold,
            failure_threshold,
            ..rules(purpose)
        };
        let mut course = begun(&rules, &running("a", purpose != Startup));
        let said: String = answers
            .chars()
            .map(|answer| {
                course.hear(&rules, answer == '+');
                match course.result() {
                    Some(Success) => '+',
                    Some(Failure) => '-',
                    Some(Unknown) => '?',
                    None => ' ',
                }
            })
            .collect();
        let told = format!("{purpose} {success_threshold}/{failure_threshold} {answers}");
        assert_eq!(said, wanted, "{told}");
    }
}

#[test]
fn an_adopted_container_keeps_what_was_said_until_the_threshold_is_reached() {
    let rules = rules(Readiness);
    let seen = Seen {
        running_since: Some(at(AGENT - 60)),
        ..running("a", true)
    };
    let mut course = begun(&rules, &seen);
    for wanted in [None, None, Some(Failure)] {
        course.hear(&rules, false);
        assert_eq!(course.result(), wanted);
    }
}

#[test]
fn after_its_last_word_a_probe_waits_for_another_container() {
    for (purpose, well, held) in [
        (Liveness, false, true),
        (Liveness, true, false),
        (Startup, false, true),
        (Startup, true, true),
        (Readiness, false, false),
        (Readiness, true, false),
    ] {
        let rules = Rules {
            failure_threshold: 1,
            ..rules(purpose)
        };
        let started = purpose != Startup;
        let mut course = begun(&rules, &running("a", started));
        course.hear(&rules, well);
        let standing =
            |course: &Course, id| course.standing(&rules, &running(id, started), at(AGENT + 200));
        let wanted = if held { Standing::Idle } else { Standing::Due };
        assert_eq!(standing(&course, "a"), wanted, "{purpose} {well}");
        course.see(&rules, &running("b", started), at(AGENT));
        assert_eq!(standing(&course, "b"), Standing::Due, "{purpose} {well}");
    }
}

#[test]
fn another_container_begins_with_the_first_word_again() {
    for (purpose, first) in [
        (Liveness, Success),
        (Readiness, Failure),
        (Startup, Unknown),
    ] {
        let rules = Rules {
            failure_threshold: 1,
            ..rules(purpose)
        };
        let mut course = begun(&rules, &running("a", false));
        course.hear(&rules, purpose == Readiness);
        assert_ne!(course.result(), Some(first), "{purpose}");
        course.see(&rules, &running("b", false), at(AGENT));
        assert_eq!(course.result(), Some(first), "{purpose}");
    }
}

#[test]
fn answers_are_counted_on_over_containers_as_upstream_does_it() {
    let rules = rules(Liveness);
    let mut course = begun(&rules, &running("a", true));
    course.hear(&rules, false);
    course.hear(&rules, false);
    course.see(&rules, &running("b", true), at(AGENT));
    course.hear(&rules, false);
    assert_eq!(course.result(), Some(Failure));
    // But not past a last word.
    course.see(&rules, &running("c", true), at(AGENT));
    course.hear(&rules, false);
    assert_eq!(course.result(), Some(Success));
}

#[test]
fn until_a_container_has_started_only_that_is_asked_and_then_never_again() {
    for (purpose, started, wanted) in [
        (Startup, false, Standing::Due),
        (Startup, true, Standing::Idle),
        (Liveness, false, Standing::Idle),
        (Liveness, true, Standing::Due),
        (Readiness, false, Standing::Idle),
        (Readiness, true, Standing::Due),
    ] {
        let rules = rules(purpose);
        let seen = running("a", started);
        let course = begun(&rules, &seen);
        let found = course.standing(&rules, &seen, at(AGENT + 200));
        assert_eq!(found, wanted, "{purpose} {started}");
    }
}

#[test]
fn a_container_that_does_not_run_is_not_asked_and_is_not_ready() {
    for (purpose, wanted) in [
        (Liveness, Success),
        (Readiness, Failure),
        (Startup, Unknown),
    ] {
        let rules = rules(purpose);
        let mut course = begun(&rules, &running("a", purpose != Startup));
        if purpose == Readiness {
            course.hear(&rules, true);
            assert_eq!(course.result(), Some(Success));
        }
        course.see(&rules, &stopped("a"), at(AGENT));
        let standing = course.standing(&rules, &stopped("a"), at(AGENT + 200));
        assert_eq!(standing, Standing::Idle);
        assert_eq!(course.result(), Some(wanted), "{purpose}");
    }
}

#[test]
fn the_first_question_comes_after_the_delay() {
    let rules = Rules {
        initial_delay: 5,
        ..rules(Readiness)
    };
    let seen = running("a", true);
    let course = begun(&rules, &seen);
    for (since, wanted) in [
        (0, Standing::NotBefore(at(AGENT + 105))),
        (4, Standing::NotBefore(at(AGENT + 105))),
        (5, Standing::Due),
        (500, Standing::Due),
    ] {
        let found = course.standing(&rules, &seen, at(AGENT + 100 + since));
        assert_eq!(found, wanted, "{since}");
    }
}
