//! Wishes for other resources: who is asked first, who waits, and what is written down.

use std::cell::RefCell;

use jiff::Timestamp;

use super::*;
use crate::allocation::Scope;
use crate::allocation::checkpoint::Entries;

/// A node that has so many CPUs, and a record of who was asked about.
struct Room {
    cpus: i64,
    asked: RefCell<Vec<String>>,
}

impl Room {
    fn of(cpus: i64) -> Self {
        Self {
            cpus,
            asked: RefCell::default(),
        }
    }

    fn permit(&self, wish: &Wish<'_>, others: &[&Pod]) -> Result<Admitted, Rejection> {
        let name = wish.wanted.metadata.name.clone().unwrap_or_default();
        self.asked.borrow_mut().push(name);
        let taken: i64 = others.iter().map(|pod| cpus(pod)).sum();
        let refused = |reason: &str| Rejection {
            reason: reason.to_owned(),
            message: format!("{taken} are taken"),
        };
        match cpus(wish.wanted) {
            0 => Err(refused("Infeasible")),
            wanted if wanted + taken > self.cpus => Err(refused("OutOfcpu")),
            _ => Ok(Admitted::default()),
        }
    }
}

fn cpus(pod: &Pod) -> i64 {
    let spec = pod.spec.as_ref().unwrap();
    let resources = spec.containers[0].resources.as_ref();
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    requests.map_or(0, |requests| requests["cpu"].0.parse().unwrap())
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

impl Case {
    fn wants(&mut self, uid: &str, cpu: i64, generation: i64) {
        self.wants_as(uid, cpu, generation, &json!({}));
    }

    fn wants_as(&mut self, uid: &str, cpu: i64, generation: i64, spec: &Value) {
        let resources = json!({ "requests": { "cpu": cpu.to_string() } });
        let mut spec = spec.clone();
        spec["containers"] = json!([{ "name": "c", "resources": resources }]);
        let parts = json!({ "metadata": { "generation": generation }, "spec": spec });
        self.sources.put(Source::Api, uid, uid, &parts);
    }

    fn retried(&mut self, room: &Room, second: i64) -> Vec<Order> {
        let permit = |wish: &Wish<'_>, others: &[&Pod]| room.permit(wish, others);
        self.fold.retry(&self.sources.desired, &permit, at(second))
    }

    fn has(&self, uid: &str) -> i64 {
        cpus(&self.slot(uid).pod)
    }

    fn pending(&self, uid: &str) -> Option<(String, Option<i64>)> {
        let pending = self.slot(uid).resize.pending.clone()?;
        Some((pending.reason.unwrap(), pending.observed_generation))
    }
}

fn verdict(uid: &str, verdict: Verdict) -> Order {
    Order::Resize(PodUid::new(uid), verdict)
}

#[test]
fn a_pod_keeps_what_it_was_let_in_with_until_it_is_granted_more() {
    let mut case = Case::new();
    case.wants("p", 1, 1);
    case.told();
    assert!(case.fold.take_allocations().is_some());
    assert!(case.fold.take_allocations().is_none());
    case.fold.allocations_unwritten();
    assert!(case.fold.take_allocations().is_some());
    assert!(!case.fold.take_retry());
    case.wants("p", 3, 2);
    assert_eq!(case.told(), [changed("p")]);
    assert_eq!(case.has("p"), 1);
    assert_eq!(case.slot("p").pod.metadata.generation, Some(2));
    assert_eq!(case.fold.take_allocations(), None);
    assert!(case.fold.take_retry());
    let orders = case.retried(&Room::of(4), 1);
    assert_eq!(orders, [verdict("p", Verdict::Started)]);
    assert_eq!(case.has("p"), 3);
    assert_eq!(case.slot("p").resize.granted, Some(2));
    assert!(!case.fold.has_waiting());
    let written = case.fold.take_allocations().unwrap();
    let of_container = &written[&PodUid::new("p")].containers["c"];
    assert_eq!(of_container.requests.as_ref().unwrap()["cpu"].0, "3");
}

#[test]
fn who_finds_no_room_waits_and_is_told_of_once() {
    let mut case = Case::new();
    case.wants("p", 1, 1);
    case.wants("q", 2, 1);
    case.told();
    case.wants("p", 3, 2);
    case.told();
    let room = Room::of(4);
    assert_eq!(
        case.retried(&room, 1),
        [verdict("p", Verdict::Deferred("OutOfcpu".to_owned()))]
    );
    assert_eq!(case.pending("p"), Some(("Deferred".to_owned(), Some(2))));
    assert_eq!(case.retried(&room, 2), [changed("p")]);
    // Another wish, and another word.
    case.wants("p", 4, 3);
    case.told();
    assert_eq!(
        case.retried(&room, 3),
        [verdict("p", Verdict::Deferred("OutOfcpu".to_owned()))]
    );
    assert_eq!(case.pending("p"), Some(("Deferred".to_owned(), Some(3))));
    assert!(case.fold.has_waiting());
    // Another pod ends.
    case.fold.take_retry();
    case.kept("q");
    assert!(case.fold.take_retry());
    assert_eq!(case.retried(&room, 4), [verdict("p", Verdict::Started)]);
    assert_eq!((case.has("p"), case.pending("p")), (4, None));
}

#[test]
fn who_waits_for_room_gets_what_another_gives_up() {
    let mut case = Case::new();
    case.wants("p", 1, 1);
    case.wants("q", 3, 1);
    case.told();
    case.wants("p", 2, 2);
    case.told();
    let room = Room::of(4);
    case.retried(&room, 1);
    assert_eq!(case.pending("p"), Some(("Deferred".to_owned(), Some(2))));
    case.fold.take_retry();
    case.wants("q", 2, 2);
    case.told();
    assert!(case.fold.take_retry());
    // In one go: who asks for less comes first, and what it has given up counts.
    assert_eq!(
        case.retried(&room, 2),
        [
            verdict("q", Verdict::Started),
            verdict("p", Verdict::Started)
        ]
    );
    assert_eq!((case.has("p"), case.has("q")), (2, 2));
    assert!(!case.fold.has_waiting());
}

#[test]
fn who_was_taken_away_while_it_waited_is_asked_about_no_more() {
    let mut case = Case::new();
    case.wants("p", 1, 1);
    case.wants("q", 3, 1);
    case.told();
    case.wants("p", 2, 2);
    case.told();
    case.retried(&Room::of(4), 1);
    assert!(case.fold.has_waiting());
    case.sources.take("p");
    case.told();
    case.kept("q");
    let room = Room::of(4);
    assert_eq!(case.retried(&room, 2), []);
    assert!(room.asked.borrow().is_empty());
    assert!(!case.fold.has_waiting());
}

#[test]
fn what_can_never_be_is_not_asked_again() {
    let mut case = Case::new();
    case.wants("p", 1, 1);
    case.told();
    case.wants("p", 0, 2);
    case.told();
    let room = Room::of(4);
    assert_eq!(case.retried(&room, 1), [verdict("p", Verdict::Infeasible)]);
    assert!(!case.fold.has_waiting());
    assert_eq!(case.has("p"), 1);
    assert_eq!(case.pending("p"), Some(("Infeasible".to_owned(), Some(2))));
}

#[test]
fn a_wish_that_is_taken_back_is_forgotten() {
    let mut case = Case::new();
    case.wants("p", 1, 1);
    case.told();
    case.wants("p", 9, 2);
    case.told();
    case.retried(&Room::of(4), 1);
    assert!(case.pending("p").is_some());
    case.wants("p", 1, 3);
    assert_eq!(case.told(), [changed("p")]);
    assert_eq!(case.pending("p"), None);
    let room = Room::of(4);
    assert_eq!(case.retried(&room, 2), []);
    assert!(room.asked.borrow().is_empty() && !case.fold.has_waiting());
}

#[test]
fn who_asks_for_no_more_comes_first_then_priority_class_and_age() {
    let mut case = Case::new();
    let limited = |cpu: i64| {
        let amounts = json!({ "cpu": cpu.to_string(), "memory": "1Mi" });
        json!({ "requests": amounts, "limits": amounts })
    };
    for uid in ["late", "early", "shrinks", "important", "guaranteed"] {
        case.wants(uid, 2, 1);
    }
    let container = |cpu| json!([{ "name": "c", "resources": limited(cpu) }]);
    let whole = |generation: i64, cpu| json!({ "metadata": { "generation": generation }, "spec": { "containers": container(cpu) } });
    case.sources
        .put(Source::Api, "guaranteed", "guaranteed", &whole(1, 2));
    case.told();
    let room = Room::of(0);
    case.wants("early", 3, 2);
    case.told();
    case.retried(&room, 1);
    case.wants("late", 3, 2);
    case.told();
    case.retried(&room, 2);
    case.wants_as("important", 3, 2, &json!({ "priority": 5 }));
    case.wants("shrinks", 1, 2);
    case.sources
        .put(Source::Api, "guaranteed", "guaranteed", &whole(2, 3));
    case.told();
    let room = Room::of(0);
    case.retried(&room, 3);
    assert_eq!(
        *room.asked.borrow(),
        ["shrinks", "important", "guaranteed", "early", "late"]
    );
}

#[test]
fn what_an_earlier_agent_allowed_counts() {
    let mut before = Case::new();
    before.wants("p", 1, 1);
    before.wants("gone", 1, 1);
    before.told();
    let written: Entries = before.fold.take_allocations().unwrap();
    let mut case = Case::new();
    case.fold = Fold::restored(Scope::default(), written);
    case.wants("p", 3, 2);
    let conditions = json!([{
        "type": "PodResizePending", "status": "True", "reason": "Deferred", "observedGeneration": 2,
    }]);
    let parts = json!({ "status": { "conditions": conditions } });
    let wanted = case
        .sources
        .desired
        .pods
        .get_mut(&PodUid::new("p"))
        .unwrap();
    let mut pod = serde_json::to_value(&*wanted.pod).unwrap();
    pod["status"] = parts["status"].clone();
    wanted.pod = Arc::new(serde_json::from_value(pod).unwrap());
    let asked = RefCell::new(0);
    let admit = |pod: &Pod, _: &[&Pod]| {
        *asked.borrow_mut() = cpus(pod);
        Ok(Admitted::default())
    };
    case.fold.desired(&case.sources.desired, &admit);
    assert_eq!(*asked.borrow(), 1, "it is let in with what it has");
    assert_eq!(case.has("p"), 1);
    assert_eq!(case.pending("p"), Some(("Deferred".to_owned(), Some(2))));
    assert_eq!(
        case.fold.take_allocations(),
        None,
        "it stands there already"
    );
    assert!(case.fold.take_retry());
    // It was told of already.
    assert_eq!(case.retried(&Room::of(1), 1), [changed("p")]);
    assert_eq!(
        case.retried(&Room::of(3), 2),
        [verdict("p", Verdict::Started)]
    );
    let written = case.fold.take_allocations().unwrap();
    assert_eq!(written.len(), 1, "who is gone is forgotten");
}

#[test]
fn who_was_not_let_in_is_allowed_nothing() {
    let mut case = Case::new();
    case.wants("p", 1, 1);
    let nobody = |_: &Pod, _: &[&Pod]| {
        Err(Rejection {
            reason: "Full".to_owned(),
            message: String::new(),
        })
    };
    case.fold.desired(&case.sources.desired, &nobody);
    assert_eq!(case.fold.take_allocations(), None);
    case.wants("p", 2, 2);
    case.fold.desired(&case.sources.desired, &nobody);
    assert!(!case.fold.has_waiting());
}
