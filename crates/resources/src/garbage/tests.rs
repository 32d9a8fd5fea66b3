//! Passes over a runtime and disks in memory.

use std::path::Path;
use std::time::UNIX_EPOCH;

use seams::cri::{ContainerState, PodSandboxState};
use testkit::clock::TokioClock;
use tokio::task::JoinSet;
use types::{PodName, PodRef};

use super::testing::{TestDisk, TestRuntime, container, log_path, sandbox};
use super::*;

const LINKS: &str = "/links";
const LOGS: &str = "/logs";

/// A node with a housekeeping that runs.
struct Node {
    runtime: Arc<TestRuntime>,
    disk: Arc<TestDisk>,
    clock: SharedClock,
    wanted: watch::Sender<Arc<Wanted>>,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
}

impl Node {
    fn new(wanted: Wanted) -> Self {
        let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        Self {
            runtime: TestRuntime::new(Arc::clone(&clock)),
            disk: Arc::default(),
            clock,
            wanted: watch::Sender::new(Arc::new(wanted)),
            shutdown: CancellationToken::new(),
            tasks: JoinSet::new(),
        }
    }

    fn housekeeping(&self) -> Housekeeping {
        Housekeeping {
            runtime: Arc::clone(&self.runtime) as SharedRuntime,
            storage: Arc::clone(&self.disk) as SharedStorage,
            clock: Arc::clone(&self.clock),
            wanted: self.wanted.subscribe(),
            limits: Limits::default(),
            logs: LOGS.into(),
            links: LINKS.into(),
        }
    }

    fn start(&mut self) {
        let run = self.housekeeping().run(self.shutdown.clone());
        self.tasks.spawn(run);
    }

    /// A dead container with its sandbox, its log, a rotated one, and the link.
    fn add_dead(&self, uid: &str, id: &str, created_at: i64) {
        let ended = Container {
            created_at,
            ..container(uid, "app", id)
        };
        let log = log_path(&ended);
        self.disk.add(&log);
        self.disk.add(format!("{}.20260102-030405", log.display()));
        self.disk.add_link(link(uid, id), &log);
        let mut state = self.runtime.state();
        state.containers.push(ended);
        let sandbox_id = format!("s-{uid}");
        if !state.sandboxes.iter().any(|one| one.id == sandbox_id) {
            state.sandboxes.push(PodSandbox {
                state: PodSandboxState::SandboxNotready.into(),
                ..sandbox(uid, &sandbox_id)
            });
        }
    }

    fn want(&self, wanted: Wanted) {
        self.wanted.send_replace(Arc::new(wanted));
    }

    fn acts(&self) -> Vec<String> {
        std::mem::take(&mut self.runtime.state().acts)
    }

    /// A time in which there is a pass.
    async fn a_minute(&self) {
        self.clock.sleep(PERIOD).await;
    }

    async fn remove_pod(&self, uid: &str) -> Result<(), RemoveError> {
        let pod = PodRef {
            name: PodName {
                namespace: "default".to_owned(),
                name: format!("pod-{uid}"),
            },
            uid: PodUid::new(uid),
        };
        let runtime = Arc::clone(&self.runtime) as SharedRuntime;
        let storage = Arc::clone(&self.disk) as SharedStorage;
        remove_pod(&runtime, &storage, &pod, Path::new(LOGS), Path::new(LINKS)).await
    }
}

fn link(uid: &str, id: &str) -> String {
    format!("{LINKS}/pod-{uid}_default_app-{id}.log")
}

fn uids(uids: &[&str]) -> BTreeSet<PodUid> {
    uids.iter().map(|uid| PodUid::new(uid)).collect()
}

fn existing(pods: &[&str]) -> Wanted {
    Wanted {
        existing: uids(pods),
        ready: true,
        ..Wanted::default()
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_pod_that_is_gone_nothing_is_left() {
    let mut node = Node::new(existing(&[]));
    node.add_dead("a", "c1", 1);
    node.add_dead("a", "c2", 2);
    node.start();
    node.a_minute().await;
    let acts = [
        "RemoveContainer c1",
        "RemoveContainer c2",
        "StopPodSandbox s-a",
        "RemovePodSandbox s-a",
    ];
    assert_eq!(node.acts(), acts);
    assert_eq!(node.runtime.ids(), [""; 0]);
    assert_eq!(node.disk.paths(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn of_a_pod_that_is_there_the_last_container_stays_with_its_logs_and_its_sandbox() {
    let mut node = Node::new(existing(&["a"]));
    node.add_dead("a", "c1", 1);
    node.add_dead("a", "c2", 2);
    node.start();
    node.a_minute().await;
    assert_eq!(node.acts(), ["RemoveContainer c1"]);
    assert_eq!(node.runtime.ids(), ["c2", "s-a"]);
    let left = [
        link("a", "c2"),
        "/logs/default_pod-a_a/app/c2.log".to_owned(),
        "/logs/default_pod-a_a/app/c2.log.20260102-030405".to_owned(),
    ];
    assert_eq!(node.disk.paths(), left);
}

#[tokio::test(start_paused = true)]
async fn unknown_pods_are_nobodys_only_once_every_source_was_heard() {
    let mut node = Node::new(Wanted::default());
    node.add_dead("a", "c1", 1);
    let before = node.disk.paths();
    node.start();
    for _ in 0..3 {
        node.a_minute().await;
    }
    assert_eq!(node.acts(), [""; 0]);
    assert_eq!(node.disk.paths(), before);
    node.want(existing(&[]));
    node.a_minute().await;
    assert_eq!(node.runtime.ids(), [""; 0]);
    assert_eq!(node.disk.paths(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_removed_holds_up_nobody_and_is_tried_again() {
    let mut node = Node::new(existing(&[]));
    node.add_dead("a", "c1", 1);
    node.add_dead("b", "c2", 2);
    node.runtime.state().stuck.insert("c1".to_owned());
    node.start();
    node.a_minute().await;
    assert_eq!(node.runtime.ids(), ["c1", "s-a"]);
    node.runtime.state().stuck.clear();
    node.a_minute().await;
    assert_eq!(node.runtime.ids(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_hangs_lets_the_others_go_on_and_the_next_pass_comes() {
    let mut node = Node::new(existing(&[]));
    for (pod, id) in [("a", "c1"), ("b", "c2"), ("c", "c3")] {
        node.add_dead(pod, id, 1);
    }
    node.runtime.state().hanging.insert("c1".to_owned());
    node.start();
    node.a_minute().await;
    let containers = |node: &Node| node.runtime.state().containers.len();
    assert_eq!(containers(&node), 1, "while the first still hangs");
    node.runtime.state().hanging.clear();
    for _ in 0..4 {
        node.a_minute().await;
    }
    assert_eq!(node.runtime.ids(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_container_stays_as_long_as_its_log_cannot_be_removed() {
    let mut node = Node::new(existing(&["a"]));
    node.add_dead("a", "c1", 1);
    node.add_dead("a", "c2", 2);
    let log = "/logs/default_pod-a_a/app/c1.log";
    node.disk.set_stuck(log);
    node.start();
    node.a_minute().await;
    assert_eq!(node.acts(), [""; 0]);
    node.disk.set_loose();
    node.a_minute().await;
    assert_eq!(node.acts(), ["RemoveContainer c1"]);
    assert!(!node.disk.paths().contains(&log.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_container_whose_state_is_lost_is_stopped_with_its_grace_before_it_is_removed() {
    let mut node = Node::new(existing(&[]));
    node.add_dead("a", "c1", 1);
    let lost = |container: &mut Container| {
        container.state = ContainerState::ContainerUnknown.into();
        for (name, value) in [
            ("io.kubernetes.pod.terminationGracePeriod", "30"),
            // Nobody knows whether it was asked already: on purpose it is not asked here.
            (
                "io.kubernetes.container.preStopHandler",
                r#"{"exec":{"command":["bye"]}}"#,
            ),
        ] {
            container
                .annotations
                .insert(name.to_owned(), value.to_owned());
        }
    };
    lost(&mut node.runtime.state().containers[0]);
    node.start();
    node.a_minute().await;
    let acts = node.acts();
    assert_eq!(acts[..2], ["StopContainer c1", "RemoveContainer c1"]);
    assert!(acts.iter().all(|act| !act.contains("Exec")), "{acts:?}");
    assert_eq!(node.runtime.state().grace, 30);
}

#[tokio::test]
async fn a_container_that_has_begun_to_run_or_whose_pod_is_busy_by_now_stays() {
    let node = Node::new(existing(&[]));
    node.add_dead("a", "c1", 1);
    let housekeeping = node.housekeeping();
    let dead = || vec!["c1".to_owned()];
    node.runtime.state().containers[0].state = ContainerState::ContainerRunning.into();
    housekeeping.remove_containers(dead()).await;
    node.runtime.state().containers[0].state = ContainerState::ContainerExited.into();
    node.want(Wanted {
        busy: uids(&["a"]),
        ..existing(&[])
    });
    housekeeping.remove_containers(dead()).await;
    let listed = node.runtime.state().sandboxes.clone();
    let idle = vec!["s-a".to_owned()];
    housekeeping.remove_sandboxes(&listed, idle).await;
    assert_eq!(node.acts(), [""; 0]);
    assert_eq!(node.disk.paths().len(), 3);
    node.want(existing(&[]));
    housekeeping.remove_containers(dead()).await;
    assert_eq!(node.acts(), ["RemoveContainer c1"]);
    assert_eq!(node.disk.paths(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn files_are_cleared_while_the_runtime_is_away() {
    let mut node = Node::new(existing(&["here"]));
    node.disk.add("/logs/default_web_gone/app/0.log");
    node.disk.add("/logs/default_web_here/app/0.log");
    node.disk.add("/logs/journal/system");
    node.runtime.state().away = true;
    node.start();
    node.a_minute().await;
    let left = ["/logs/default_web_here/app/0.log", "/logs/journal/system"];
    assert_eq!(node.disk.paths(), left);
}

#[tokio::test(start_paused = true)]
async fn links_that_lead_nowhere_go_and_a_runtime_that_is_away_keeps_them() {
    let mut node = Node::new(existing(&["a"]));
    node.add_dead("a", "c1", 1);
    let running = Container {
        state: ContainerState::ContainerRunning.into(),
        ..container("a", "app", "c2")
    };
    // Its log is being rotated.
    node.disk.add_link(link("a", "c2"), log_path(&running));
    node.disk.add_link(link("b", "c3"), "/logs/gone");
    node.runtime.state().containers.push(running);
    node.runtime.state().away = true;
    node.start();
    node.a_minute().await;
    let links = || {
        node.disk
            .paths()
            .into_iter()
            .filter(|path| path.starts_with(LINKS))
    };
    assert_eq!(links().count(), 3);
    node.runtime.state().away = false;
    node.a_minute().await;
    let left: Vec<String> = links().collect();
    assert_eq!(left, [link("a", "c1"), link("a", "c2")]);
}

#[tokio::test(start_paused = true)]
async fn a_pass_over_a_clean_node_is_two_lists_a_minute() {
    let mut node = Node::new(existing(&["a"]));
    node.add_dead("a", "c1", 1);
    node.start();
    node.a_minute().await;
    node.runtime.state().lists = 0;
    for _ in 0..10 {
        node.a_minute().await;
    }
    assert_eq!(node.runtime.state().lists, 20);
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_told_to_even_if_a_removal_hangs() {
    let mut node = Node::new(existing(&[]));
    node.add_dead("a", "c1", 1);
    node.runtime.state().hanging.insert("c1".to_owned());
    node.start();
    node.a_minute().await;
    node.shutdown.cancel();
    let ended = node.tasks.join_next();
    let ended = seams::timeout(&*node.clock, Duration::from_secs(1), ended).await;
    ended.expect("it goes on").unwrap().unwrap();
}

#[tokio::test]
async fn an_ended_pod_is_removed_at_once_and_others_are_not_touched() {
    let node = Node::new(existing(&["a", "b"]));
    node.add_dead("a", "c1", 1);
    node.add_dead("a", "c2", 2);
    node.add_dead("b", "c3", 3);
    node.remove_pod("a").await.unwrap();
    assert_eq!(node.runtime.ids(), ["c3", "s-b"]);
    let paths = node.disk.paths();
    assert_eq!(paths.len(), 3, "{paths:?}");
    assert!(paths.iter().all(|path| path.contains("pod-b")), "{paths:?}");
    node.remove_pod("a").await.unwrap();
}

#[tokio::test]
async fn a_pod_of_which_a_container_runs_keeps_that_its_sandbox_and_its_logs() {
    let node = Node::new(existing(&[]));
    node.add_dead("a", "c1", 1);
    node.add_dead("a", "c2", 2);
    node.runtime.state().containers[0].state = ContainerState::ContainerRunning.into();
    let error = node.remove_pod("a").await.unwrap_err();
    let expected = "container c1 of pod pod-a_default(a) still runs: \
                    stop the pod before it is removed";
    assert_eq!(error.to_string(), expected);
    assert_eq!(node.runtime.ids(), ["c1", "s-a"]);
    assert!(node.disk.paths().contains(&link("a", "c1")));
    let log = "/logs/default_pod-a_a/app/c1.log".to_owned();
    assert!(node.disk.paths().contains(&log));
}

#[tokio::test]
async fn a_pod_that_could_not_be_removed_says_why() {
    let node = Node::new(existing(&[]));
    node.add_dead("a", "c1", 1);
    node.runtime.state().stuck.insert("s-a".to_owned());
    let error = node.remove_pod("a").await.unwrap_err();
    let expected = "CRI call StopPodSandbox failed: device busy";
    assert_eq!(error.to_string(), expected);
}
