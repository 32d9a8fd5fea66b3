//! The whole observation over a runtime in memory, with a paused clock.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use seams::SharedClock;
use seams::cri::ContainerEventResponse;
use seams::cri::ContainerState as Cri;
use testkit::clock::TokioClock;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use types::PodUid;
use types::observed::ContainerState;

use super::*;
use crate::testruntime::{CALL_LIMIT, TestRuntime};

struct Observing {
    runtime: Arc<TestRuntime>,
    clock: SharedClock,
    seen: Observations,
    running: JoinHandle<()>,
    ending: CancellationToken,
}

impl Observing {
    fn start(prepare: impl FnOnce(&TestRuntime)) -> Self {
        let clock: SharedClock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        let runtime = TestRuntime::new(clock.clone());
        prepare(&runtime);
        let (pleg, seen) = Pleg::new(runtime.clone(), clock.clone(), &Board::default());
        let ending = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "the test joins it")]
        let running = tokio::spawn(pleg.run(ending.clone()));
        Self {
            runtime,
            clock,
            seen,
            running,
            ending,
        }
    }

    async fn pass(&self, millis: u64) {
        self.clock.sleep(Duration::from_millis(millis)).await;
    }

    fn follow(&self, uid: &str) -> watch::Receiver<Observed> {
        self.seen.follow(&PodUid::new(uid))
    }

    /// The state of the pod's newest container, in a word.
    fn word(&self, uid: &str) -> String {
        let pod = self.follow(uid).borrow().clone();
        pod.map_or_else(|| "unseen".to_owned(), |pod| word(&pod))
    }

    fn known(&self) -> Option<Vec<String>> {
        let known = self.seen.known().borrow().clone()?;
        Some(known.iter().map(|pod| pod.uid.to_string()).collect())
    }

    async fn stop(self) {
        self.ending.cancel();
        self.running.await.unwrap();
        let ended = self.seen.look(&PodUid::new("1")).await;
        assert_eq!(ended.unwrap_err(), Ended);
    }
}

fn word(pod: &types::observed::ObservedPod) -> String {
    if pod.is_gone() {
        return "gone".to_owned();
    }
    let state = pod.container("main").map(|container| container.state);
    state.map_or_else(|| "bare".to_owned(), |state| format!("{state:?}"))
}

#[tokio::test(start_paused = true)]
async fn what_changes_is_seen_within_a_second_and_what_went_is_gone() {
    let node = Observing::start(|runtime| runtime.run_pod("1"));
    assert_eq!(
        node.known(),
        None,
        "nothing is claimed before the first list"
    );
    assert_eq!(node.word("1"), "unseen");
    node.pass(1).await;
    assert_eq!(node.word("1"), "Running");
    let pod = node.follow("1").borrow().clone().unwrap();
    assert_eq!(pod.pod.to_string(), "pod-1_default(1)");
    assert_eq!(pod.containers[0].sandbox_id, "s-1");
    assert_eq!(node.known().unwrap(), ["1"]);
    node.runtime.set_state("c-1", Cri::ContainerExited);
    node.runtime.run_pod("2");
    node.pass(1_000).await;
    assert_eq!(
        (node.word("1"), node.word("2")),
        ("Exited".into(), "Running".into())
    );
    node.runtime.remove_pod("1");
    let mut followed = node.follow("1");
    node.pass(1_000).await;
    assert!(followed.has_changed().unwrap());
    assert_eq!(word(followed.borrow_and_update().as_ref().unwrap()), "gone");
    assert_eq!(node.known().unwrap(), ["2"]);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_costs_two_lists_a_second_and_a_tenth_of_it_with_events() {
    for (tells_events, lists) in [(false, 60), (true, 6)] {
        let node = Observing::start(|runtime| {
            for pod in 0..100 {
                runtime.run_pod(&pod.to_string());
            }
            runtime.state().tells_events = tells_events;
        });
        node.pass(15_500).await;
        assert_eq!(node.known().unwrap().len(), 100);
        node.runtime.calls();
        node.pass(60_000).await;
        let calls: Vec<_> = node.runtime.calls().into_iter().collect();
        assert_eq!(
            calls,
            [("ListContainers", lists), ("ListPodSandbox", lists)]
        );
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn only_pods_that_changed_are_asked_about() {
    let node = Observing::start(|runtime| {
        runtime.run_pod("1");
        runtime.run_pod("2");
    });
    node.pass(500).await;
    node.runtime.calls();
    node.runtime.set_state("c-2", Cri::ContainerExited);
    node.pass(1_000).await;
    let calls = node.runtime.calls();
    assert_eq!(
        (calls["PodSandboxStatus"], calls["ContainerStatus"]),
        (1, 1)
    );
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_brings_a_look_long_before_the_next_list() {
    let node = Observing::start(|runtime| {
        runtime.run_pod("1");
        runtime.state().tells_events = true;
    });
    node.pass(11_500).await;
    node.runtime.set_state("c-1", Cri::ContainerExited);
    // Doubled, and it costs nothing.
    node.runtime.calls();
    node.runtime.tell("1");
    node.runtime.tell("1");
    node.pass(100).await;
    assert_eq!(node.word("1"), "Exited");
    assert_eq!(node.runtime.calls()["ContainerStatus"], 1);
    // Of a pod that no list has had yet.
    node.runtime.run_pod("2");
    node.runtime.tell("2");
    node.pass(100).await;
    assert_eq!(node.word("2"), "Running");
    assert_eq!(node.known().unwrap(), ["1", "2"]);
    // Without a word of whose it is.
    node.runtime.remove_pod("2");
    node.runtime.tell_that(ContainerEventResponse {
        container_id: "c-2".to_owned(),
        ..ContainerEventResponse::default()
    });
    node.pass(100).await;
    assert_eq!(node.word("2"), "gone");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_lost_costs_ten_seconds_at_most() {
    let node = Observing::start(|runtime| {
        runtime.run_pod("1");
        runtime.state().tells_events = true;
    });
    node.pass(11_500).await;
    node.runtime.set_state("c-1", Cri::ContainerExited);
    node.pass(5_000).await;
    assert_eq!(node.word("1"), "Running", "nobody told");
    node.pass(5_000).await;
    assert_eq!(node.word("1"), "Exited");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_is_asked_for_again_and_the_list_is_quick_meanwhile() {
    let node = Observing::start(|runtime| {
        runtime.run_pod("1");
        runtime.state().tells_events = true;
    });
    node.pass(11_500).await;
    node.runtime.end_events();
    node.runtime.set_state("c-1", Cri::ContainerExited);
    node.pass(10).await;
    assert_eq!(
        node.word("1"),
        "Exited",
        "what was not told is looked for at once"
    );
    node.runtime.calls();
    node.pass(5_000).await;
    let calls = node.runtime.calls();
    assert_eq!(calls["ListContainers"], 5, "the new one is not trusted yet");
    assert_eq!(calls["GetContainerEvents"], 1);
    node.pass(20_000).await;
    node.runtime.calls();
    node.pass(20_000).await;
    assert_eq!(node.runtime.calls()["ListContainers"], 2);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_without_events_is_seldom_asked_for_them() {
    let node = Observing::start(|runtime| runtime.run_pod("1"));
    node.pass(100_000).await;
    assert_eq!(node.runtime.calls()["GetContainerEvents"], 1);
    // It is replaced by one that has them.
    node.runtime.state().tells_events = true;
    node.pass(400_000).await;
    assert_eq!(node.runtime.calls()["GetContainerEvents"], 1);
    node.runtime.set_state("c-1", Cri::ContainerExited);
    node.runtime.tell("1");
    node.pass(100).await;
    assert_eq!(node.word("1"), "Exited");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_look_holds_everything_that_was_done_before_it() {
    let node = Observing::start(|runtime| {
        runtime.run_pod("1");
        runtime.state().slow_lists = Duration::from_millis(300);
    });
    node.pass(5_500).await;
    // Whatever is under way at each of these moments is too old.
    for step in 0..20 {
        node.pass(170).await;
        let id = format!("step-{step}");
        node.runtime
            .state()
            .add_container("1", &id, Cri::ContainerCreated);
        let asked = node.clock.uptime();
        let pod = node.seen.look(&PodUid::new("1")).await.unwrap();
        assert_eq!(pod.containers[0].id, id, "newest first");
        assert!(pod.at >= asked);
        let published = node.follow("1").borrow().clone().unwrap();
        assert!(
            published.at >= pod.at,
            "and older lists do not take it back"
        );
        node.pass(700).await;
        let published = node.follow("1").borrow().clone().unwrap();
        assert_eq!(published.containers[0].id, id);
    }
    let pod = node.seen.look(&PodUid::new("nobody")).await.unwrap();
    assert!(pod.is_gone());
    assert_eq!(pod.pod.uid.as_str(), "nobody");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn looks_that_are_asked_for_together_are_one() {
    let node = Observing::start(|runtime| runtime.run_pod("1"));
    node.pass(500).await;
    node.runtime.calls();
    let uid = PodUid::new("1");
    let look = || node.seen.look(&uid);
    let (one, two, three) = tokio::join!(look(), look(), look());
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    let calls = node.runtime.calls();
    assert!(
        calls["ListContainers"] <= 2,
        "the first, and the rest: {calls:?}"
    );
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_away_keeps_what_was_seen_and_is_looked_at_when_it_is_back() {
    let node = Observing::start(|runtime| runtime.run_pod("1"));
    node.pass(500).await;
    node.runtime.state().away = true;
    node.runtime.set_state("c-1", Cri::ContainerExited);
    let uid = PodUid::new("1");
    let seen = node.seen.clone();
    let look = seen.look(&uid);
    let mut look = std::pin::pin!(look);
    tokio::select! {
        _ = &mut look => panic!("there is nobody to look at"),
        () = node.pass(200_000) => {}
    }
    assert_eq!(node.word("1"), "Running");
    let health = node.seen.health().borrow().clone();
    let said = health.check(node.clock.uptime()).unwrap_err().to_string();
    assert_eq!(
        said,
        "pleg was last seen active 3m20.5s ago; threshold is 3m0s"
    );
    assert!(health.stuck.is_empty(), "it is not this pod's problem");
    node.runtime.state().away = false;
    let pod = look.await.unwrap();
    assert_eq!(pod.containers[0].state, ContainerState::Exited);
    node.pass(1_000).await;
    let health = node.seen.health().borrow().clone();
    assert_eq!(health.check(node.clock.uptime()), Ok(()));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_came_and_went_between_two_lists_harms_nothing() {
    let node = Observing::start(|runtime| runtime.run_pod("1"));
    node.pass(500).await;
    let followed = node.follow("1");
    node.runtime
        .state()
        .add_container("1", "short", Cri::ContainerRunning);
    node.runtime.state().containers.remove("short");
    node.pass(1_000).await;
    assert!(!followed.has_changed().unwrap());
    // Listed, and gone before it is asked about.
    node.runtime
        .state()
        .add_container("1", "short", Cri::ContainerRunning);
    node.runtime.state().slow_lists = Duration::from_millis(300);
    node.pass(700).await;
    node.runtime.state().containers.remove("short");
    node.pass(3_000).await;
    let pod = node.follow("1").borrow().clone().unwrap();
    let ids: Vec<_> = pod
        .containers
        .iter()
        .map(|container| &container.id)
        .collect();
    assert_eq!(ids, ["c-1"]);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_look_that_failed_is_tried_again() {
    let node = Observing::start(|runtime| runtime.run_pod("1"));
    node.pass(500).await;
    node.runtime.state().failing.insert("c-1".to_owned());
    node.runtime.set_state("c-1", Cri::ContainerExited);
    node.pass(3_000).await;
    assert_eq!(node.word("1"), "Running");
    node.runtime.calls();
    node.pass(3_000).await;
    assert_eq!(node.runtime.calls()["ContainerStatus"], 3, "once a second");
    node.runtime.state().failing.clear();
    node.pass(1_100).await;
    assert_eq!(node.word("1"), "Exited");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_its_pods_problem_and_nobody_elses() {
    let node = Observing::start(|runtime| {
        // More than are looked at at once.
        for pod in 0..30 {
            runtime.run_pod(&format!("stuck-{pod:02}"));
            let id = format!("c-stuck-{pod:02}");
            runtime.state().hanging.insert(id);
        }
    });
    node.pass(35_000).await;
    node.runtime.run_pod("fine");
    node.pass(1_100).await;
    assert_eq!(node.word("fine"), "Running");
    let health = node.seen.health().borrow().clone();
    assert_eq!(health.check(node.clock.uptime()), Ok(()));
    assert_eq!(health.stuck.len(), 30);
    let first = &health.stuck[0];
    assert_eq!(first.call, "ContainerStatus");
    assert_eq!(first.pod.to_string(), "pod-stuck-00_default(stuck-00)");
    assert_eq!(first.since, Duration::ZERO);
    // The call's time is up, and it hangs again: the pod's problem is as old as it is.
    node.clock.sleep(CALL_LIMIT).await;
    let health = node.seen.health().borrow().clone();
    assert_eq!(health.stuck[0].since, Duration::ZERO);
    node.runtime.state().hanging.clear();
    node.clock.sleep(CALL_LIMIT * 2).await;
    assert!(node.seen.health().borrow().stuck.is_empty());
    assert_eq!(node.word("stuck-29"), "Running");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_ended_keeps_its_address() {
    let node = Observing::start(|runtime| runtime.run_pod("1"));
    node.pass(500).await;
    let ips = |node: &Observing| node.follow("1").borrow().clone().unwrap().ips().to_vec();
    assert_eq!(ips(&node), ["10.0.0.1"]);
    let end = |sandbox: &mut crate::testruntime::Sandbox| {
        sandbox.ready = false;
        sandbox.ip.clear();
    };
    end(node.runtime.state().sandboxes.get_mut("s-1").unwrap());
    node.pass(1_000).await;
    assert_eq!(ips(&node), ["10.0.0.1"]);
    node.runtime.set_state("c-1", Cri::ContainerExited);
    node.pass(1_000).await;
    assert_eq!(ips(&node), ["10.0.0.1"], "by each further look, too");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn memory_is_freed_with_the_pod_and_its_last_follower() {
    let node = Observing::start(|_| {});
    for round in 0..50 {
        let uid = round.to_string();
        node.runtime.run_pod(&uid);
        node.seen.look(&PodUid::new(&uid)).await.unwrap();
        node.runtime.remove_pod(&uid);
        node.seen.look(&PodUid::new(&uid)).await.unwrap();
    }
    let followed = node.follow("49");
    node.seen.look(&PodUid::new("never")).await.unwrap();
    node.pass(2_000).await;
    assert_eq!(node.seen.places(), 1, "the one that is followed");
    drop(followed);
    node.pass(2_000).await;
    assert_eq!(node.seen.places(), 0);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_a_look_has_overtaken_takes_nothing_back() {
    let node = Observing::start(|runtime| runtime.run_pod("1"));
    node.pass(500).await;
    node.runtime.state().slow_lists = Duration::from_millis(300);
    // The list at 1 s asks for containers at 1.3 s, and is through at 1.6 s.
    node.pass(850).await;
    node.runtime.state().slow_lists = Duration::ZERO;
    let add = |uid: &str, id: &str| {
        let mut state = node.runtime.state();
        state.add_container(uid, id, Cri::ContainerCreated);
    };
    add("1", "new");
    add("2", "other");
    for uid in ["1", "2"] {
        node.seen.look(&PodUid::new(uid)).await.unwrap();
    }
    node.pass(300).await;
    let pod = node.follow("1").borrow().clone().unwrap();
    assert_eq!(pod.containers[0].id, "new");
    assert_eq!(node.word("2"), "Created");
    assert_eq!(node.seen.known().borrow().as_ref().unwrap().len(), 2);
    node.stop().await;
}
