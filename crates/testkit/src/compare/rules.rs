//! When two records are the same: the rules, and what breaks them. Pure.
//!
//! A watcher may miss what was only for a moment, and upstream itself does not
//! show it every time. So a sequence may lack an entry of the other one that
//! lasted less than [`MOMENT`] there, unless it is the last. A container that ran
//! only briefly, by the runtime's clock, and its pod may have been seen running or
//! not, however long a busy machine showed it, and so may its end be if it was started
//! again at once. How often a thing was
//! said depends on how often its cause was met: events count as one or many, and
//! those that a retry repeats ([`REPEATED`]) as said or not said; some
//! ([`CHANCE`]) do not count. All else is equal or is a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::story::{PodStory, Record, Span};

/// What lasted less may be missing.
const MOMENT: Duration = Duration::from_millis(1500);

/// Reasons of events that come again with every try: how many tries there were
/// when the play ended is chance.
const REPEATED: [&str; 13] = [
    "ErrImageNeverPull",
    "InspectFailed",
    "BackOff",
    "Failed",
    "FailedMount",
    "FailedCreatePodSandBox",
    "Pulled",
    "Pulling",
    "FailedToRetrieveImagePullSecret",
    "Unhealthy",
    "ProbeWarning",
    // Upstream now and then looks at a pod twice before it has noted that a resize is over.
    "ResizeCompleted",
    // One for each figure of what is used.
    "ResizeError",
];

/// Parts of messages that upstream says or does not say, as chance will have it.
const CHANCE: [&str; 6] = [
    // A volume is tried once more when its pod was just forgotten.
    "not registered",
    // Either side may be the slower one, by a second.
    "failed to sync configmap cache: timed out waiting for the condition",
    // A pod that a rollout takes away while it begins.
    "failed to fetch token: pod",
    // A command of a probe is under way when its pod is to end, or its container does, or
    // it is not; and a server that ends resets its connections, or closes them.
    "code = Canceled desc = context canceled",
    "failed to exec in container: container is in CONTAINER_EXITED state",
    "connection reset by peer",
];

/// One thing that two records do not agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which: `pod p/container main`, `event …`, `print p/main`.
    pub path: String,
    pub first: String,
    pub second: String,
}

const NOTHING: &str = "–";

pub(super) fn compare(first: &Record, second: &Record) -> Vec<Difference> {
    let mut found = Found::default();
    let failure = |record: &Record| record.failure.clone().unwrap_or_else(|| NOTHING.to_owned());
    found.equal("play", failure(first), failure(second));
    for name in keys(&first.pods, &second.pods) {
        let path = format!("pod {name}");
        match (first.pods.get(name), second.pods.get(name)) {
            (Some(first), Some(second)) => compare_pods(&mut found, &path, first, second),
            (first, second) => found.equal(&path, there(first), there(second)),
        }
    }
    for key in keys(&first.events, &second.events) {
        if CHANCE.iter().any(|chance| key.contains(chance)) || is_premature(key, first, second) {
            continue;
        }
        let said = |record: &Record| said(key, record.events.get(key).copied());
        found.equal(&format!("event {key}"), said(first), said(second));
    }
    compare_maps(&mut found, "print ", &first.prints, &second.prints);
    found.differences
}

/// Upstream may look at a pod between the grant of a resize and its beginning, and takes that
/// for its end: it tells of what there was before, beside what both tell of.
fn is_premature(key: &str, upstream: &Record, second: &Record) -> bool {
    const COMPLETED: &str = "Normal ResizeCompleted ";
    let both = |other: &&String| other.starts_with(COMPLETED) && second.events.contains_key(*other);
    key.starts_with(COMPLETED)
        && !second.events.contains_key(key)
        && upstream.events.keys().any(|other| both(&other))
}

fn compare_pods(found: &mut Found, path: &str, first: &PodStory, second: &PodStory) {
    for topic in keys(&first.sequences, &second.sequences) {
        let of = |story: &PodStory| story.sequences.get(topic).cloned().unwrap_or_default();
        let brief = was_brief(first, topic) && was_brief(second, topic);
        let mirror = first.mirror && second.mirror;
        let (first, second) = (of(first), of(second));
        if !compatible(&first, &second, Leave { brief, mirror }) {
            found.push(format!("{path}/{topic}"), shown(&first), shown(&second));
        }
    }
    // A message belongs to a state that one side may have missed, and changes while
    // the state lasts: the moment between is as easily missed.
    for key in keys(&first.messages, &second.messages) {
        if let (Some(first), Some(second)) = (first.messages.get(key), second.messages.get(key))
            && first.is_disjoint(second)
        {
            let all = |messages: &BTreeSet<String>| {
                let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
                messages.join(" | ")
            };
            found.push(format!("{path}/message of {key}"), all(first), all(second));
        }
    }
    compare_maps(found, &format!("{path}/last "), &first.last, &second.last);
    let gone = |story: &PodStory| if story.gone { "gone" } else { "there" }.to_owned();
    found.equal(&format!("{path}/object"), gone(first), gone(second));
}

fn compare_maps(
    found: &mut Found,
    prefix: &str,
    first: &BTreeMap<String, String>,
    second: &BTreeMap<String, String>,
) {
    for key in keys(first, second) {
        let of = |map: &BTreeMap<String, String>| {
            map.get(key).cloned().unwrap_or_else(|| NOTHING.to_owned())
        };
        found.equal(&format!("{prefix}{key}"), of(first), of(second));
    }
}

/// Whether a topic is of a container that ran only briefly, or of a pod with one.
fn was_brief(story: &PodStory, topic: &str) -> bool {
    match topic.strip_prefix("container ") {
        Some(container) => story.brief.contains(container),
        None => !story.brief.is_empty(),
    }
}

/// What else than a moment may be missing.
#[derive(Clone, Copy, Default)]
struct Leave {
    /// That something ran.
    brief: bool,
    /// The beginning: a mirror may be made when its pod runs already.
    mirror: bool,
}

/// Whether two sequences tell the same story; see the head of this file.
fn compatible(first: &[Span], second: &[Span], leave: Leave) -> bool {
    if leave.mirror {
        // One of them only: the other has seen it.
        let leave = Leave {
            mirror: false,
            ..leave
        };
        let lacks = |late: &[Span], whole: &[Span]| {
            (0..=whole.len()).any(|start| compatible(late, &whole[start..], leave))
        };
        return lacks(first, second) || lacks(second, first);
    }
    let mut seen = BTreeSet::new();
    let mut open = vec![(0, 0, None)];
    while let Some(state) = open.pop() {
        if !seen.insert(state) {
            continue;
        }
        let (one, other, before) = state;
        match (first.get(one), second.get(other)) {
            (None, None) => return true,
            (Some(a), Some(b)) if a.what == b.what => {
                open.push((one + 1, other + 1, Some(a.what.as_str())));
            }
            _ => {}
        }
        let may_miss = |span: &Span| may_miss(span, before, leave);
        let may_lack = |spans: &[Span], index: usize| {
            spans.get(index).is_some_and(may_miss)
                || shares_a_wait(spans, index)
                || leave.brief && starts_again(spans, index)
        };
        if may_lack(first, one) {
            open.push((one + 1, other, before));
        }
        if may_lack(second, other) {
            open.push((one, other + 1, before));
        }
    }
    false
}

/// Whether a state is the end of a container after which it was started again without a
/// wait: how long it lasted is how long the machine took for that.
fn starts_again(spans: &[Span], index: usize) -> bool {
    let (Some(end), Some(next)) = (spans.get(index), spans.get(index + 1)) else {
        return false;
    };
    let starts = attempt(end).is_some_and(|before| attempt(next) == Some(before + 1));
    end.what.starts_with("terminated:") && starts
}

/// How often a container had been started again.
fn attempt(span: &Span) -> Option<u32> {
    let (_, count) = span.what.split_once(" restarts=")?;
    count.parse().ok()
}

/// Whether a state is the end of a container, or its wait after a crash, and the other
/// of the two is beside it. Upstream shows now the one and now the other for most of the
/// wait, as its looks fall; which it is says nothing.
fn shares_a_wait(spans: &[Span], index: usize) -> bool {
    let is_pair = |end: Option<&Span>, wait: Option<&Span>| {
        let (Some(end), Some(wait)) = (end, wait) else {
            return false;
        };
        end.what.starts_with("terminated:")
            && wait.what.starts_with("waiting:CrashLoopBackOff ")
            && attempt(end) == attempt(wait)
    };
    let before = index.checked_sub(1).and_then(|before| spans.get(before));
    is_pair(spans.get(index), spans.get(index + 1)) || is_pair(before, spans.get(index))
}

/// A moment may be missed, and that something ran if it was brief; what follows is
/// then perhaps what was before, and no change at all.
fn may_miss(span: &Span, before: Option<&str>, leave: Leave) -> bool {
    let Some(lasted) = span.lasted else {
        return before == Some(span.what.as_str());
    };
    let ran = span.what == "Running" || span.what == "True" || span.what.starts_with("running ");
    lasted < MOMENT || leave.brief && ran || before == Some(span.what.as_str())
}

fn said(key: &str, count: Option<u64>) -> String {
    let repeated = REPEATED
        .iter()
        .any(|reason| key.split(' ').nth(1) == Some(reason));
    match count {
        None | Some(0) => "not said",
        Some(1) if !repeated => "said once",
        Some(_) if repeated => "said",
        Some(_) => "said more than once",
    }
    .to_owned()
}

fn there<T>(value: Option<T>) -> String {
    value.map_or(NOTHING, |_| "there").to_owned()
}

fn shown(sequence: &[Span]) -> String {
    let span = |span: &Span| match span.lasted {
        Some(lasted) => format!("{} ({:.1} s)", span.what, lasted.as_secs_f64()),
        None => span.what.clone(),
    };
    if sequence.is_empty() {
        return NOTHING.to_owned();
    }
    sequence.iter().map(span).collect::<Vec<_>>().join(" → ")
}

fn keys<'a, T>(
    first: &'a BTreeMap<String, T>,
    second: &'a BTreeMap<String, T>,
) -> BTreeSet<&'a String> {
    first.keys().chain(second.keys()).collect()
}

#[derive(Default)]
struct Found {
    differences: Vec<Difference>,
}

impl Found {
    fn equal(&mut self, path: &str, first: String, second: String) {
        if first != second {
            self.push(path.to_owned(), first, second);
        }
    }

    fn push(&mut self, path: String, first: String, second: String) {
        self.differences.push(Difference {
            path,
            first,
            second,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resize_that_upstream_calls_done_too_soon_is_no_difference() {
        let record = |said: &[&str]| {
            let key = |text: &&str| (format!("Normal ResizeCompleted of Pod p : {text}"), 1);
            Record {
                events: said.iter().map(key).collect(),
                ..Record::default()
            }
        };
        let both = record(&["new"]);
        let hasty = record(&["new", "old"]);
        assert_eq!(compare(&hasty, &both), []);
        // Ours has no such excuse, and nobody has who tells of nothing else.
        assert_eq!(compare(&both, &hasty).len(), 1);
        assert_eq!(compare(&record(&["old"]), &both).len(), 2);
    }

    /// `a 500, b` is `a` for half a second, then `b` for good.
    fn sequence(text: &str) -> Vec<Span> {
        text.split(", ")
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (what, lasted) = match part.rsplit_once(' ') {
                    Some((what, millis)) => {
                        let millis = millis.parse().expect("milliseconds");
                        (what, Some(Duration::from_millis(millis)))
                    }
                    None => (part, None),
                };
                let what = what.to_owned();
                Span { what, lasted }
            })
            .collect()
    }

    #[test]
    fn sequences_are_compatible_but_for_moments() {
        let cases = [
            ("", "", true),
            ("a", "a", true),
            ("a", "b", false),
            ("a", "", false),
            ("a 9000, b", "a 100, b", true),
            ("a 500, b", "b", true),
            ("b", "a 500, b", true),
            ("a 5000, b", "b", false),
            ("b", "a 5000, b", false),
            // The last one stays, however short the play was.
            ("a 500, b", "a", false),
            // What was between two equal states.
            ("a 9000, x 200, a", "a", true),
            ("a 9000, x 2000, a", "a", false),
            ("a 9000, x 200, a 9000, b", "a 9000, b", true),
            // Each missed one of its own.
            ("a 10, c 9000, d", "b 10, c 9000, d", true),
            // The order counts.
            ("a 9000, b 9000, c", "b 9000, a 9000, c", false),
        ];
        for (first, second, expected) in cases {
            let answer = compatible(&sequence(first), &sequence(second), Leave::default());
            assert_eq!(answer, expected, "{first:?} and {second:?}");
        }
    }

    #[test]
    fn of_an_end_and_the_wait_after_it_either_may_be_missing() {
        let end = "terminated:Error:3 restarts=1 9000";
        let wait = "waiting:CrashLoopBackOff restarts=1 9000";
        let other = "waiting:CrashLoopBackOff restarts=2 9000";
        let both = format!("{end}, {wait}, z");
        for (second, expected) in [
            (format!("{end}, z"), true),
            (format!("{wait}, z"), true),
            (format!("{other}, z"), false),
        ] {
            let (first, second) = (sequence(&both), sequence(&second));
            let answer = compatible(&first, &second, Leave::default());
            assert_eq!(answer, expected, "{second:?}");
        }
        let alone = compatible(
            &sequence(&format!("{end}, z")),
            &sequence("z"),
            Leave::default(),
        );
        assert!(!alone);
    }

    #[test]
    fn who_ran_briefly_may_not_have_been_seen_running() {
        let cases = [
            (
                "Pending 9000, Running 9000, Failed",
                "Pending 9000, Failed",
                true,
            ),
            ("Pending 9000, Running", "Pending", false),
            ("Pending 9000, Failed", "Failed", false),
        ];
        let brief = Leave {
            brief: true,
            ..Leave::default()
        };
        for (first, second, expected) in cases {
            let (first, second) = (sequence(first), sequence(second));
            assert_eq!(compatible(&first, &second, brief), expected, "{first:?}");
            assert!(!compatible(&first, &second, Leave::default()), "{first:?}");
        }
        let at_once = "terminated:Error:3 restarts=0 9000, running restarts=1 9000, z";
        let after_a_wait = "terminated:Error:3 restarts=0 9000, running restarts=2 9000, z";
        let ran = sequence("running restarts=1 9000, z");
        assert!(compatible(&sequence(at_once), &ran, brief));
        assert!(!compatible(&sequence(at_once), &ran, Leave::default()));
        let ran = sequence("running restarts=2 9000, z");
        assert!(!compatible(&sequence(after_a_wait), &ran, brief));
        let story = PodStory {
            brief: BTreeSet::from(["main".to_owned()]),
            ..PodStory::default()
        };
        assert!(was_brief(&story, "phase") && was_brief(&story, "container main"));
        assert!(!was_brief(&story, "container other"));
    }

    #[test]
    fn a_mirror_may_come_after_the_beginning_of_its_pod() {
        let mirror = Leave {
            mirror: true,
            ..Leave::default()
        };
        let cases = [
            ("False 9000, True", "True", true),
            ("True 9000, False 9000, True", "True", true),
            ("False", "True", false),
            ("A 9000, False 9000, True", "A 9000, True", false),
        ];
        for (first, second, expected) in cases {
            let answer = compatible(&sequence(first), &sequence(second), mirror);
            assert_eq!(answer, expected, "{first:?} and {second:?}");
        }
    }

    #[test]
    fn events_count_as_one_or_many_and_those_of_retries_as_said() {
        let cases = [
            ("Started", None, "not said"),
            ("Started", Some(1), "said once"),
            ("Started", Some(2), "said more than once"),
            ("Started", Some(9), "said more than once"),
            ("BackOff", Some(1), "said"),
            ("BackOff", Some(7), "said"),
            ("BackOff", None, "not said"),
        ];
        for (reason, count, expected) in cases {
            let key = format!("Normal {reason} of Pod p : text");
            assert_eq!(said(&key, count), expected, "{key} {count:?}");
        }
    }

    type Change = fn(&mut Record);

    #[test]
    fn everything_in_a_record_is_compared() {
        let pod = PodStory {
            sequences: BTreeMap::from([("phase".to_owned(), sequence("Pending 9000, Running"))]),
            messages: BTreeMap::from([(
                "container main waiting".to_owned(),
                BTreeSet::from(["m".to_owned()]),
            )]),
            last: BTreeMap::from([("qosClass".to_owned(), "Burstable".to_owned())]),
            gone: false,
            brief: BTreeSet::new(),
            mirror: false,
        };
        let record = Record {
            pods: BTreeMap::from([("p".to_owned(), pod)]),
            events: BTreeMap::from([("Normal Started of Pod p : t".to_owned(), 1)]),
            prints: BTreeMap::from([("p/main".to_owned(), "hello".to_owned())]),
            failure: None,
        };
        assert_eq!(compare(&record, &record), []);
        let mut chance = record.clone();
        let key = "Warning FailedMount of Pod p : object not registered";
        chance.events.insert(key.to_owned(), 1);
        assert_eq!(compare(&record, &chance), []);
        let changes: [(&str, Change); 8] = [
            ("play", |record| record.failure = Some("late".to_owned())),
            ("pod p", |record| record.pods.clear()),
            ("event Normal Started of Pod p : t", |record| {
                record.events.clear();
            }),
            ("print p/main", |record| {
                record.prints.insert("p/main".to_owned(), "bye".to_owned());
            }),
            ("pod p/phase", |record| {
                of_pod(record).sequences.clear();
            }),
            ("pod p/message of container main waiting", |record| {
                let key = "container main waiting".to_owned();
                let other = BTreeSet::from(["n".to_owned()]);
                of_pod(record).messages.insert(key, other);
            }),
            ("pod p/last qosClass", |record| of_pod(record).last.clear()),
            ("pod p/object", |record| of_pod(record).gone = true),
        ];
        for (path, change) in changes {
            let mut other = record.clone();
            change(&mut other);
            for differences in [compare(&record, &other), compare(&other, &record)] {
                let paths: Vec<_> = differences.iter().map(|found| &found.path).collect();
                assert_eq!(paths, [path]);
            }
        }
    }

    fn of_pod(record: &mut Record) -> &mut PodStory {
        record.pods.get_mut("p").expect("pod p")
    }
}
