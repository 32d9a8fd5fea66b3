mod resizes;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use types::desired::Source;
use types::eviction::Eviction;

use super::*;

/// What the sources have, as a test goes on.
struct Sources {
    desired: Desired,
}

impl Sources {
    fn new() -> Self {
        let desired = Desired {
            ready: true,
            ..Desired::default()
        };
        Self { desired }
    }

    fn put(&mut self, source: Source, name: &str, uid: &str, parts: &Value) {
        let mut pod = json!({
            "metadata": { "name": name, "namespace": "shop", "uid": uid },
            "spec": { "containers": [{ "name": "c" }] },
        });
        for (key, part) in parts.as_object().into_iter().flatten() {
            for (inner, value) in part.as_object().into_iter().flatten() {
                pod[key][inner] = value.clone();
            }
        }
        let pod = DesiredPod {
            pod: Arc::new(serde_json::from_value(pod).unwrap()),
            source,
            mirror: None,
        };
        self.desired.pods.insert(PodUid::new(uid), pod);
    }

    fn api(&mut self, uid: &str) {
        self.put(Source::Api, uid, uid, &json!({}));
    }

    fn file(&mut self, name: &str, uid: &str) {
        self.put(Source::File, name, uid, &json!({}));
    }

    fn delete(&mut self, uid: &str) {
        let parts = json!({ "metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5,
        } });
        self.put(Source::Api, uid, uid, &parts);
    }

    fn take(&mut self, uid: &str) {
        self.desired.pods.remove(&PodUid::new(uid));
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the signature is that of `Admit`")]
fn everyone(_: &Pod, _: &[&Pod]) -> Result<Admitted, Rejection> {
    Ok(Admitted::default())
}

fn start(uid: &str) -> Order {
    Order::Start(PodUid::new(uid))
}

fn changed(uid: &str) -> Order {
    Order::Changed(PodUid::new(uid))
}

fn forget(uid: &str) -> Order {
    Order::Forget(PodUid::new(uid))
}

/// A fold, and what it is told of.
struct Case {
    sources: Sources,
    fold: Fold,
}

impl Case {
    fn new() -> Self {
        Self {
            sources: Sources::new(),
            fold: Fold::default(),
        }
    }

    fn told(&mut self) -> Vec<Order> {
        self.fold.desired(&self.sources.desired, &everyone)
    }

    /// Its worker has nothing more to do, and has removed the pod.
    fn removed(&mut self, uid: &str) -> Vec<Order> {
        let (uid, desired) = (PodUid::new(uid), &self.sources.desired);
        self.fold.finished(&uid, true, desired, &everyone)
    }

    /// Its worker has nothing more to do, and has left what tells of the pod.
    fn kept(&mut self, uid: &str) -> Vec<Order> {
        let (uid, desired) = (PodUid::new(uid), &self.sources.desired);
        self.fold.finished(&uid, false, desired, &everyone)
    }

    fn runtime_has(&mut self, uids: &[&str]) -> Vec<Order> {
        let pod = |uid: &&str| PodRef {
            name: PodName {
                namespace: "shop".to_owned(),
                name: (*uid).to_owned(),
            },
            uid: PodUid::new(uid),
        };
        let known = uids.iter().map(pod).collect();
        self.fold.observed(&known, &self.sources.desired)
    }

    fn slot(&self, uid: &str) -> &Slot {
        self.fold.slot(&PodUid::new(uid)).unwrap()
    }

    fn ending(&self, uid: &str) -> Option<(u64, bool)> {
        let ending = self.slot(uid).ending?;
        Some((ending.grace.as_secs(), ending.for_good))
    }

    fn at_work(&self) -> Vec<(String, bool)> {
        let at_work = self.fold.statics_at_work().pods.into_iter();
        at_work
            .map(|(pod, ending)| (pod.uid.to_string(), ending))
            .collect()
    }
}

#[test]
fn a_pod_gets_one_worker_and_that_one_the_newest_of_it() {
    let mut case = Case::new();
    case.sources.api("a");
    assert_eq!(case.told(), [start("a")]);
    assert_eq!(case.told(), []);
    for image in ["v2", "v3"] {
        let parts = json!({ "spec": { "containers": [{ "name": "c", "image": image }] } });
        case.sources.put(Source::Api, "a", "a", &parts);
        assert_eq!(case.told(), [changed("a")]);
    }
    let spec = case.slot("a").pod.spec.clone().unwrap();
    assert_eq!(spec.containers[0].image.as_deref(), Some("v3"));
}

#[test]
fn an_end_is_not_taken_back_by_what_is_said_later() {
    let mut case = Case::new();
    case.sources.api("a");
    case.told();
    case.sources.delete("a");
    assert_eq!(case.told(), [changed("a")]);
    assert_eq!(case.ending("a"), Some((5, true)));
    case.sources.api("a");
    case.told();
    assert_eq!(case.ending("a"), Some((5, true)));
}

#[test]
fn what_is_not_there_is_not_wanted_once_all_sources_were_heard() {
    let mut case = Case::new();
    case.sources.api("a");
    case.told();
    case.sources.take("a");
    case.sources.desired.ready = false;
    assert_eq!(case.told(), []);
    assert_eq!(case.ending("a"), None);
    case.sources.desired.ready = true;
    assert_eq!(case.told(), [changed("a")]);
    assert_eq!(case.ending("a"), Some((30, true)));
    assert_eq!(case.told(), []);
    assert_eq!(case.removed("a"), [forget("a")]);
    assert_eq!(case.fold.slot(&PodUid::new("a")), None);
}

#[test]
fn a_pod_that_was_deleted_is_forgotten_when_the_api_has_it_no_more() {
    let mut case = Case::new();
    case.sources.delete("a");
    assert_eq!(case.told(), [start("a")]);
    assert_eq!(case.removed("a"), []);
    assert_eq!(case.told(), []);
    case.sources.take("a");
    assert_eq!(case.told(), [forget("a")]);
}

#[test]
fn a_pod_that_ended_is_kept_until_it_is_deleted_or_gone() {
    for vanishes in [false, true] {
        let mut case = Case::new();
        case.sources.api("a");
        case.told();
        assert_eq!(case.kept("a"), []);
        assert_eq!(case.told(), []);
        if vanishes {
            case.sources.take("a");
        } else {
            case.sources.delete("a");
        }
        assert_eq!(case.told(), [start("a")], "vanishes: {vanishes}");
        assert!(case.ending("a").is_some_and(|(_, for_good)| for_good));
        let orders = case.removed("a");
        let expected: &[Order] = if vanishes { &[forget("a")] } else { &[] };
        assert_eq!(orders, expected, "vanishes: {vanishes}");
    }
}

#[test]
fn a_pod_that_is_deleted_while_its_worker_finishes_is_still_removed() {
    for vanishes in [false, true] {
        let mut case = Case::new();
        case.sources.api("a");
        case.told();
        if vanishes {
            case.sources.take("a");
        } else {
            case.sources.delete("a");
        }
        assert_eq!(case.told(), [changed("a")]);
        // The worker had finished with what it knew before.
        assert_eq!(case.kept("a"), [start("a")], "vanishes: {vanishes}");
        let expected: &[Order] = if vanishes { &[forget("a")] } else { &[] };
        assert_eq!(case.removed("a"), expected, "vanishes: {vanishes}");
    }
}

#[test]
fn a_pod_that_was_taken_away_and_is_wanted_again_begins_anew() {
    let mut case = Case::new();
    case.sources.file("web", "a");
    case.told();
    case.sources.take("a");
    assert_eq!(case.told(), [changed("a")]);
    case.sources.file("web", "a");
    assert_eq!(case.told(), []);
    assert_eq!(case.ending("a"), Some((30, true)));
    assert_eq!(case.removed("a"), [start("a")]);
    assert_eq!(case.ending("a"), None);
}

#[test]
fn static_pods_of_one_name_follow_each_other() {
    let mut case = Case::new();
    case.sources.file("web", "a");
    assert_eq!(case.told(), [start("a")]);
    case.sources.take("a");
    case.sources.file("web", "b");
    assert_eq!(case.told(), [changed("a")]);
    assert_eq!(case.at_work(), [("a".to_owned(), true)]);
    // One that waits and is gone before its turn never runs.
    case.sources.take("b");
    case.sources.file("web", "c");
    assert_eq!(case.told(), [forget("b")]);
    assert_eq!(case.removed("a"), [forget("a"), start("c")]);
    assert_eq!(case.at_work(), [("c".to_owned(), false)]);
}

#[test]
fn static_pods_of_one_name_come_in_the_order_in_which_they_were_wanted() {
    let mut case = Case::new();
    case.sources.file("web", "a");
    assert_eq!(case.told(), [start("a")]);
    case.sources.put(Source::Http, "web", "c", &json!({}));
    assert_eq!(case.told(), []);
    case.sources.take("a");
    case.sources.file("web", "b");
    assert_eq!(case.told(), [changed("a")]);
    assert_eq!(case.removed("a"), [forget("a"), start("c")]);
    case.sources.take("c");
    case.told();
    assert_eq!(case.removed("c"), [forget("c"), start("b")]);
}

#[test]
fn the_next_static_pod_waits_for_one_that_ended_and_has_to_be_removed() {
    let mut case = Case::new();
    case.sources.file("web", "a");
    case.told();
    case.kept("a");
    case.sources.take("a");
    case.sources.file("web", "b");
    assert_eq!(case.told(), [start("a")]);
    assert_eq!(case.removed("a"), [forget("a"), start("b")]);
}

#[test]
fn pods_of_the_api_do_not_wait_for_others_of_their_name() {
    let mut case = Case::new();
    case.sources.put(Source::Api, "web", "a", &json!({}));
    case.sources.put(Source::Api, "web", "b", &json!({}));
    assert_eq!(case.told(), [start("a"), start("b")]);
}

#[test]
fn what_the_runtime_has_and_nobody_wants_is_ended() {
    let mut case = Case::new();
    case.sources.api("a");
    case.told();
    case.sources.desired.ready = false;
    assert_eq!(case.runtime_has(&["a", "x"]), []);
    case.sources.desired.ready = true;
    assert_eq!(case.runtime_has(&["a", "x"]), [start("x")]);
    assert_eq!(case.runtime_has(&["a", "x"]), []);
    assert_eq!(case.slot("x").source, None);
    assert_eq!(case.ending("x"), Some((1, true)));
    assert_eq!(case.told(), []);
    assert_eq!(case.removed("x"), [forget("x")]);
}

#[test]
fn one_of_nobody_that_is_wanted_meanwhile_begins_when_it_is_gone() {
    for deleted in [false, true] {
        let mut case = Case::new();
        case.runtime_has(&["x"]);
        if deleted {
            case.sources.delete("x");
        } else {
            case.sources.api("x");
        }
        assert_eq!(case.told(), []);
        // One that is deleted has to be told of, at least.
        assert_eq!(case.removed("x"), [start("x")], "deleted: {deleted}");
        assert_eq!(case.slot("x").source, Some(Source::Api));
        assert_eq!(case.slot("x").ending.is_some(), deleted);
    }
}

#[test]
fn a_pod_is_let_in_or_rejected_beside_those_that_are_there() {
    let full = |_: &Pod, others: &[&Pod]| match others.len() {
        0 => Ok(Admitted::default()),
        _ => Err(Rejection {
            reason: "OutOfpods".to_owned(),
            message: "one is enough".to_owned(),
        }),
    };
    let mut case = Case::new();
    let made = |when: &str| json!({ "metadata": { "creationTimestamp": when } });
    // The oldest first, whatever they are called.
    let (early, late) = (made("2026-01-01T00:00:00Z"), made("2026-01-02T00:00:00Z"));
    case.sources.put(Source::Api, "a", "a", &late);
    case.sources.put(Source::Api, "b", "b", &early);
    let orders = case.fold.desired(&case.sources.desired, &full);
    assert_eq!(orders, [start("b"), start("a")]);
    let is_rejected = |case: &Case, uid: &str| case.slot(uid).rejected.is_some();
    assert!(is_rejected(&case, "a") && !is_rejected(&case, "b"));
    // Once rejected it stays so, and takes nothing from others.
    let (uid, desired) = (PodUid::new("b"), &case.sources.desired);
    case.fold.finished(&uid, false, desired, &full);
    case.fold.desired(&case.sources.desired, &full);
    assert!(is_rejected(&case, "a"));
    case.sources.api("c");
    case.fold.desired(&case.sources.desired, &full);
    assert!(!is_rejected(&case, "c"));
}

#[test]
fn nobody_is_asked_to_let_in_a_pod_that_is_ending_or_over() {
    let nobody = |_: &Pod, _: &[&Pod]| {
        Err(Rejection {
            reason: "OutOfpods".to_owned(),
            message: "none is wanted".to_owned(),
        })
    };
    let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let in_phase = |phase: &str| json!({ "status": { "phase": phase } });
    for (source, parts, asked) in [
        (Source::Api, json!({}), true),
        (Source::Api, in_phase("Running"), true),
        (Source::Api, in_phase("Failed"), false),
        (Source::Api, in_phase("Succeeded"), false),
        (Source::Api, deleted, false),
        // What is said of a static pod in its manifest has not happened.
        (Source::File, in_phase("Failed"), true),
    ] {
        let mut case = Case::new();
        case.sources.put(source, "a", "a", &parts);
        let orders = case.fold.desired(&case.sources.desired, &nobody);
        assert_eq!(orders, [start("a")], "{source:?} {parts}");
        let rejected = case.slot("a").rejected.is_some();
        assert_eq!(rejected, asked, "{source:?} {parts}");
    }
}

#[test]
fn a_pod_that_was_deleted_and_gone_in_one_moment_has_the_time_it_was_given() {
    for (departed, grace) in [(None, 30), (Some(4), 4), (Some(0), 1)] {
        let mut case = Case::new();
        case.sources.api("a");
        case.fold.desired(&case.sources.desired, &everyone);
        case.sources.take("a");
        let departed = departed.map(|grace| (PodUid::new("a"), Duration::from_secs(grace)));
        case.sources.desired.departed.extend(departed);
        case.fold.desired(&case.sources.desired, &everyone);
        let ending = case.slot("a").ending.unwrap();
        assert_eq!(ending.grace, Duration::from_secs(grace));
        assert!(ending.for_good);
    }
}

#[test]
fn a_pod_that_no_source_has_takes_nothing_from_the_one_that_follows_it() {
    let same_port = |_: &Pod, others: &[&Pod]| match others.len() {
        0 => Ok(Admitted::default()),
        _ => Err(Rejection {
            reason: "NodePorts".to_owned(),
            message: "the port is taken".to_owned(),
        }),
    };
    let mut case = Case::new();
    case.sources.file("web", "a");
    case.fold.desired(&case.sources.desired, &same_port);
    case.sources.take("a");
    case.sources.file("web", "b");
    case.fold.desired(&case.sources.desired, &same_port);
    assert_eq!(case.slot("b").rejected, None);
    // One that is being deleted still has what it has.
    let mut case = Case::new();
    case.sources.delete("a");
    case.fold.desired(&case.sources.desired, &same_port);
    case.sources.api("b");
    case.fold.desired(&case.sources.desired, &same_port);
    assert!(case.slot("b").rejected.is_some());
}

/// Pods `k…` need the places of `victims`.
fn for_critical<'a>(
    victims: &'a [&'a str],
) -> impl Fn(&Pod, &[&Pod]) -> Result<Admitted, Rejection> + 'a {
    move |pod, others| {
        let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
        if !uid(pod).starts_with('k') {
            return Ok(Admitted::default());
        }
        let here = others.iter().map(|pod| PodUid::new(&uid(pod)));
        let victims = here.filter(|uid| victims.contains(&uid.as_str()));
        Ok(Admitted {
            victims: victims.collect(),
            scarce: None,
        })
    }
}

fn preempt(uid: &str) -> Order {
    Order::Preempt(PodUid::new(uid))
}

#[test]
fn a_critical_pod_begins_when_those_who_make_room_have_ended() {
    let mut case = Case::new();
    for uid in ["a", "b", "c"] {
        case.sources.api(uid);
    }
    case.told();
    let admit = for_critical(&["a", "b"]);
    case.sources.api("k1");
    let told = case.fold.desired(&case.sources.desired, &admit);
    assert_eq!(told, [preempt("a"), preempt("b")]);
    assert_eq!(case.ending("a"), Some((30, false)));
    assert!(case.slot("b").evicted.is_some() && case.slot("c").evicted.is_none());
    // Who is on the way out is no place for the next.
    case.sources.api("k2");
    let told = case.fold.desired(&case.sources.desired, &admit);
    assert_eq!(told, [start("k2")]);
    assert!(case.fold.is_in_the_way(&PodUid::new("a")));
    assert_eq!(case.kept("a"), []);
    assert!(!case.fold.is_in_the_way(&PodUid::new("a")));
    assert_eq!(case.kept("b"), [start("k1")]);
    assert_eq!(case.told(), []);
}

/// Lets nobody in but those who are alone.
fn alone(_: &Pod, others: &[&Pod]) -> Result<Admitted, Rejection> {
    if others.is_empty() {
        return Ok(Admitted::default());
    }
    Err(Rejection {
        reason: "OutOfpods".to_owned(),
        message: String::new(),
    })
}

#[test]
fn who_had_ended_before_the_agent_began_takes_no_room() {
    for (source, phase, takes) in [
        (Source::Api, "Succeeded", false),
        (Source::Api, "Failed", false),
        (Source::Api, "Running", true),
        // What a manifest says of it is nothing that the node has said.
        (Source::File, "Succeeded", true),
    ] {
        let mut case = Case::new();
        let made = |second: u32| json!(format!("2026-01-01T00:00:{second:02}Z"));
        let done =
            json!({ "metadata": { "creationTimestamp": made(1) }, "status": { "phase": phase } });
        case.sources.put(source, "done", "done", &done);
        let runs = json!({ "metadata": { "creationTimestamp": made(2) } });
        case.sources.put(Source::Api, "runs", "runs", &runs);
        let told = case.fold.desired(&case.sources.desired, &alone);
        assert_eq!(told, [start("done"), start("runs")]);
        assert_eq!(
            case.slot("runs").rejected.is_some(),
            takes,
            "{source} {phase}"
        );
    }
}

#[test]
fn one_that_has_ended_gives_its_place_away_before_it_is_cleaned_up() {
    let runs = json!([{ "name": "c", "state": { "running": {} } }]);
    let done = json!([{ "name": "c", "state": { "terminated": { "exitCode": 1 } } }]);
    for (phase, containers, takes) in [
        ("Running", &runs, true),
        ("Failed", &json!(null), false),
        ("Failed", &done, false),
        // Somebody else said so, and it has its grace to end.
        ("Failed", &runs, true),
    ] {
        let mut case = Case::new();
        case.sources.api("done");
        assert_eq!(case.told(), [start("done")]);
        // A scheduler has seen it, and sends the next.
        let said = json!({ "status": { "phase": phase, "containerStatuses": containers } });
        case.sources.put(Source::Api, "done", "done", &said);
        case.sources.api("next");
        case.fold.desired(&case.sources.desired, &alone);
        assert_eq!(case.slot("next").rejected.is_some(), takes, "{phase}");
    }
}

#[test]
fn what_is_left_of_one_that_ended_takes_no_room_while_it_is_removed() {
    let mut case = Case::new();
    case.sources.api("done");
    case.told();
    case.kept("done");
    case.sources.delete("done");
    assert_eq!(case.told(), [start("done")]);
    // Its place was given away when it had ended.
    case.sources.api("next");
    let told = case.fold.desired(&case.sources.desired, &alone);
    assert_eq!(told, [start("next")]);
    assert_eq!(case.slot("next").rejected, None);
}

#[test]
fn who_has_to_go_is_told_once_and_only_if_it_is_at_work() {
    let mut case = Case::new();
    for uid in ["a", "b", "over", "deleted"] {
        case.sources.api(uid);
    }
    case.told();
    case.kept("over");
    case.sources.delete("deleted");
    case.sources.api("no");
    let nobody = |_: &Pod, _: &[&Pod]| {
        let (reason, message) = ("Full".to_owned(), String::new());
        Err(Rejection { reason, message })
    };
    case.fold.desired(&case.sources.desired, &nobody);
    let eviction = |message: &str| Eviction {
        reason: "Evicted",
        message: message.to_owned(),
        disruption: None,
        grace: Some(Duration::from_secs(1)),
    };
    let all = ["a", "over", "deleted", "no", "stranger"];
    let evictions = all.map(|uid| (PodUid::new(uid), eviction("one")));
    let mut evictions = Evictions::from(evictions);
    let evict = |uid| Order::Evict(PodUid::new(uid));
    assert_eq!(
        case.fold.evicted(&evictions),
        [evict("a"), evict("deleted")]
    );
    assert_eq!(case.ending("a"), Some((1, false)));
    assert_eq!(case.ending("deleted"), Some((1, true)));
    assert_eq!(case.ending("b"), None);
    // It is said again, and in other words, until it is gone.
    evictions.insert(PodUid::new("a"), eviction("two"));
    assert_eq!(case.fold.evicted(&evictions), []);
    assert_eq!(case.slot("a").evicted, Some(eviction("one")));
    assert_eq!(case.fold.evicted(&Evictions::new()), []);
    assert!(case.slot("a").evicted.is_some());
}

#[test]
fn nobody_waits_for_ever_for_room() {
    let mut case = Case::new();
    for uid in ["a", "b"] {
        case.sources.api(uid);
    }
    case.told();
    let admit = for_critical(&["a", "b"]);
    case.sources.file("critical", "k");
    case.fold.desired(&case.sources.desired, &admit);
    assert_eq!(case.fold.made_room(&PodUid::new("a")), []);
    assert_eq!(case.fold.made_room(&PodUid::new("b")), [start("k")]);
    // Its end is told of later, and starts nothing twice.
    assert_eq!(case.kept("b"), []);
}

#[test]
fn a_static_pod_waits_for_room_and_for_its_name() {
    let mut case = Case::new();
    case.sources.api("a");
    case.sources.file("s", "old");
    case.told();
    case.sources.take("old");
    case.sources.file("s", "k");
    let admit = for_critical(&["a"]);
    let told = case.fold.desired(&case.sources.desired, &admit);
    assert_eq!(told, [changed("old"), preempt("a")]);
    assert_eq!(case.removed("old"), [forget("old")]);
    assert_eq!(case.kept("a"), [start("k")]);
}
