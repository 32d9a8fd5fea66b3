//! All probes of a node, over a runtime that does as it is told, in time that passes at
//! once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use k8s_openapi::api::core::v1::PodStatus;
use seams::cri::{ExecSyncRequest, ExecSyncResponse};
use seams::net::{Destination, Dialing};
use seams::runtime::{Answer, Code};
use seams::{Clock as _, Net, Runtime, RuntimeError, SharedClock};
use serde_json::{Value, json};
use testkit::clock::TokioClock;
use tokio::task::JoinSet;

use super::lane::AT_ONCE;
use super::*;
use crate::course::Verdict;
use crate::desk::{Finding, Place};
use crate::view::{End, View};
use Verdict::{Failure, Success, Unknown};

/// Before that the agent is young: first questions are spread.
const SETTLED: Duration = Duration::from_secs(60);

/// Commands: by their first word, what they come to and how long that takes.
#[derive(Debug)]
struct Commands {
    clock: SharedClock,
    answers: Mutex<BTreeMap<String, (i32, Duration)>>,
    /// These cannot be run at all.
    absent: Mutex<BTreeSet<String>>,
    /// When which command was asked of which container.
    asked: Mutex<Vec<(Duration, String, String)>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl Runtime for Commands {
    fn exec_sync(&self, request: ExecSyncRequest) -> Answer<'_, ExecSyncResponse> {
        let word = request.cmd.first().cloned().unwrap_or_default();
        let now = self.clock.uptime();
        let asked = (now, word.clone(), request.container_id);
        self.asked.lock().unwrap().push(asked);
        let answer = self.answers.lock().unwrap().get(&word).copied();
        let (exit_code, lasts) = answer.unwrap_or_default();
        let absent = self.absent.lock().unwrap().contains(&word);
        Box::pin(async move {
            let running = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
            self.most_at_once.fetch_max(running, Ordering::Relaxed);
            let running = Running(&self.at_once);
            if !lasts.is_zero() {
                self.clock.sleep(lasts).await;
            }
            drop(running);
            if absent {
                let text = "executable file not found";
                return Err(RuntimeError::new("ExecSync", Code::Unknown, text));
            }
            Ok(ExecSyncResponse {
                exit_code,
                ..ExecSyncResponse::default()
            })
        })
    }
}

/// A command that runs until it has ended, or is given up.
struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Nobody is there.
#[derive(Debug)]
struct Nowhere;

impl Net for Nowhere {
    fn dial<'a>(&'a self, _: Destination<'a>) -> Dialing<'a> {
        Box::pin(std::future::pending())
    }
}

struct Rig {
    clock: Arc<TokioClock>,
    commands: Arc<Commands>,
    probes: Probes,
    metrics: Metrics,
    figures: Boards,
    tasks: JoinSet<()>,
}

impl Rig {
    /// With an agent that has been there for a while.
    async fn new() -> Self {
        let rig = Self::young();
        rig.pass(SETTLED).await;
        rig
    }

    fn young() -> Self {
        let clock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        let commands = Arc::new(Commands {
            clock: clock.clone(),
            answers: Mutex::default(),
            absent: Mutex::default(),
            asked: Mutex::default(),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        });
        let means = Means::new(commands.clone(), Arc::new(Nowhere), clock.clone());
        let figures = Boards::default();
        let (prober, side) = Prober::new(means, None, &figures);
        let metrics = prober.metrics.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(prober.run(CancellationToken::new()));
        Self {
            clock,
            commands,
            probes: side,
            metrics,
            figures,
            tasks,
        }
    }

    async fn pass(&self, time: Duration) {
        self.clock.sleep(time).await;
        self.settle().await;
    }

    /// Lets the others do what they have to do now.
    async fn settle(&self) {
        for _ in 0..2000 {
            tokio::task::yield_now().await;
        }
    }

    fn answer(&self, word: &str, code: i32, lasts: u64) {
        let answer = (code, Duration::from_millis(lasts));
        self.commands
            .answers
            .lock()
            .unwrap()
            .insert(word.to_owned(), answer);
    }

    /// Whether a command can be run.
    fn install(&self, word: &str, there: bool) {
        let mut absent = self.commands.absent.lock().unwrap();
        if there {
            absent.remove(word);
        } else {
            absent.insert(word.to_owned());
        }
    }

    /// When a command was asked, in milliseconds since the last time.
    fn asked(&self, word: &str) -> Vec<u128> {
        let mut asked = self.commands.asked.lock().unwrap();
        let own = asked.extract_if(.., |(_, known, _)| known == word);
        own.map(|(at, ..)| at.as_millis()).collect()
    }

    fn place(&self, uid: &str) -> Place {
        self.probes.place(&PodUid::new(uid))
    }
}

fn probe(word: &str, more: &Value) -> Value {
    let mut probe = json!({ "exec": { "command": [word] }, "periodSeconds": 10 });
    let more = more.as_object().unwrap().clone();
    probe.as_object_mut().unwrap().extend(more);
    probe
}

fn pod(uid: &str, container: &Value) -> Arc<Pod> {
    let mut container = container.clone();
    container["name"] = json!("app");
    let pod = json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": uid },
        "spec": { "containers": [container] },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// A container that began at this second.
fn status(id: &str, began: u64, started: bool) -> PodStatus {
    let began = Timestamp::from_second(i64::try_from(began).unwrap()).unwrap();
    let status = json!({ "phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [{
        "name": "app", "containerID": format!("containerd://{id}"), "started": started,
        "state": { "running": { "startedAt": began.to_string() } },
        "image": "", "imageID": "", "ready": false, "restartCount": 0,
    }] });
    serde_json::from_value(status).unwrap()
}

fn tell(place: &mut Place, pod: &Arc<Pod>, status: &PodStatus) {
    place.tell(View::of(pod, status, End::No).unwrap(), true);
}

fn found(place: &mut Place) -> Option<Finding> {
    place.findings().into_iter().next()
}

#[tokio::test(start_paused = true)]
async fn a_container_is_asked_in_periods_from_when_its_pod_was_told_of() {
    let rig = Rig::new().await;
    let pod = pod(
        "u-1",
        &json!({ "livenessProbe": probe("live", &json!({})) }),
    );
    let mut place = rig.place("u-1");
    tell(&mut place, &pod, &PodStatus::default());
    rig.pass(Duration::from_secs(3)).await;
    tell(&mut place, &pod, &status("c-1", 63, true));
    rig.pass(Duration::from_secs(29)).await;
    assert_eq!(rig.asked("live"), [70_000, 80_000, 90_000]);
    assert_eq!(found(&mut place).unwrap().liveness, Some(Success));
}

#[tokio::test(start_paused = true)]
async fn who_is_not_ready_is_asked_as_soon_as_it_runs_and_in_periods_from_then_on() {
    let rig = Rig::new().await;
    rig.answer("ready", 1, 0);
    let pod = pod(
        "u-1",
        &json!({ "readinessProbe": probe("ready", &json!({})) }),
    );
    let mut place = rig.place("u-1");
    tell(&mut place, &pod, &PodStatus::default());
    rig.pass(Duration::from_secs(3)).await;
    tell(&mut place, &pod, &status("c-1", 63, true));
    rig.settle().await;
    assert_eq!(found(&mut place).unwrap().readiness, Some(Failure));
    rig.pass(Duration::from_secs(10)).await;
    assert_eq!(rig.asked("ready"), [63_000, 73_000]);
    rig.answer("ready", 0, 0);
    rig.pass(Duration::from_secs(10)).await;
    assert_eq!(found(&mut place).unwrap().readiness, Some(Success));
    // Who is ready is not asked out of turn.
    tell(&mut place, &pod, &status("c-1", 63, true));
    rig.pass(Duration::from_secs(12)).await;
    assert_eq!(rig.asked("ready"), [83_000, 93_000]);
}

#[tokio::test(start_paused = true)]
async fn nothing_else_is_asked_before_a_container_has_started() {
    let rig = Rig::new().await;
    rig.answer("start", 1, 0);
    let pod = pod(
        "u-1",
        &json!({
            "startupProbe": probe("start", &json!({ "failureThreshold": 9 })),
            "livenessProbe": probe("live", &json!({})),
            "readinessProbe": probe("ready", &json!({})),
        }),
    );
    let mut place = rig.place("u-1");
    tell(&mut place, &pod, &status("c-1", 60, false));
    rig.pass(Duration::from_secs(25)).await;
    assert_eq!(rig.asked("start"), [60_000, 70_000, 80_000]);
    assert_eq!(found(&mut place).unwrap().startup, Some(Unknown));
    rig.answer("start", 0, 0);
    rig.pass(Duration::from_secs(7)).await;
    assert_eq!(rig.asked("start"), [90_000]);
    assert_eq!(found(&mut place).unwrap().startup, Some(Success));
    assert!(rig.asked("live").is_empty() && rig.asked("ready").is_empty());
    tell(&mut place, &pod, &status("c-1", 60, true));
    rig.pass(Duration::from_secs(20)).await;
    assert_eq!(rig.asked("live"), [100_000, 110_000]);
    assert_eq!(rig.asked("ready"), [92_000, 102_000, 112_000]);
    assert!(rig.asked("start").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_ill_is_left_alone_until_another_takes_its_place() {
    let rig = Rig::new().await;
    rig.answer("live", 1, 0);
    let live = probe("live", &json!({ "failureThreshold": 2 }));
    let pod = pod("u-1", &json!({ "livenessProbe": live }));
    let mut place = rig.place("u-1");
    tell(&mut place, &pod, &status("c-1", 60, true));
    rig.pass(Duration::from_secs(35)).await;
    assert_eq!(rig.asked("live"), [60_000, 70_000]);
    let ill = found(&mut place).unwrap();
    assert_eq!((&*ill.id, ill.liveness), ("c-1", Some(Failure)));
    tell(&mut place, &pod, &status("c-2", 95, true));
    rig.settle().await;
    let fresh = found(&mut place).unwrap();
    assert_eq!((&*fresh.id, fresh.liveness), ("c-2", Some(Success)));
    rig.pass(Duration::from_secs(6)).await;
    assert_eq!(rig.asked("live"), [100_000]);
}

#[tokio::test(start_paused = true)]
async fn who_could_not_be_asked_is_neither_well_nor_ill_for_it() {
    let rig = Rig::new().await;
    let live = probe("live", &json!({ "failureThreshold": 2 }));
    let pod = pod("u-1", &json!({ "livenessProbe": live }));
    let mut place = rig.place("u-1");
    // However often: at 60, 70 and 80 seconds, with three attempts each.
    rig.install("live", false);
    tell(&mut place, &pod, &status("c-1", 60, true));
    rig.pass(Duration::from_secs(25)).await;
    let thrice = |at: u128| [at; 3];
    let all = [60_000, 70_000, 80_000].map(thrice).concat();
    assert_eq!(rig.asked("live"), all);
    assert_eq!(found(&mut place).unwrap().liveness, Some(Success));
    // A failure is counted, and still is after one that does not count.
    rig.answer("live", 1, 0);
    for (there, verdict) in [(true, Success), (false, Success), (true, Failure)] {
        rig.install("live", there);
        rig.pass(Duration::from_secs(10)).await;
        let found = found(&mut place).unwrap().liveness;
        assert_eq!(found, Some(verdict), "it can be asked: {there}");
    }
    let times = [&[90_000][..], &thrice(100_000), &[110_000]].concat();
    assert_eq!(rig.asked("live"), times);
}

#[tokio::test(start_paused = true)]
async fn an_initial_delay_puts_off_the_first_question_to_a_beat_after_it() {
    let rig = Rig::new().await;
    let live = probe("live", &json!({ "initialDelaySeconds": 15 }));
    let pod = pod("u-1", &json!({ "livenessProbe": live }));
    let mut place = rig.place("u-1");
    tell(&mut place, &pod, &status("c-1", 60, true));
    rig.pass(Duration::from_secs(31)).await;
    assert_eq!(rig.asked("live"), [80_000, 90_000]);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_takes_long_is_asked_again_at_once_and_is_not_late() {
    let rig = Rig::new().await;
    rig.answer("live", 0, 2_500);
    let live = probe("live", &json!({ "periodSeconds": 1, "timeoutSeconds": 5 }));
    let pod = pod("u-1", &json!({ "livenessProbe": live }));
    let mut place = rig.place("u-1");
    tell(&mut place, &pod, &status("c-1", 60, true));
    rig.pass(Duration::from_secs(6)).await;
    assert_eq!(rig.asked("live"), [60_000, 62_500, 65_000]);
    assert_eq!(rig.metrics.late_so_far(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_told_of_while_it_is_asked_is_asked_once_more() {
    let rig = Rig::new().await;
    rig.answer("ready", 1, 500);
    let pod = pod(
        "u-1",
        &json!({ "readinessProbe": probe("ready", &json!({})) }),
    );
    let mut place = rig.place("u-1");
    tell(&mut place, &pod, &status("c-1", 60, true));
    rig.pass(Duration::from_millis(100)).await;
    for _ in 0..3 {
        tell(&mut place, &pod, &status("c-1", 60, true));
    }
    rig.pass(Duration::from_secs(5)).await;
    assert_eq!(rig.asked("ready"), [60_000, 60_500]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_a_container_that_was_replaced_meanwhile_says_nothing() {
    let rig = Rig::new().await;
    rig.answer("live", 1, 3_000);
    let live = probe(
        "live",
        &json!({ "failureThreshold": 1, "timeoutSeconds": 5 }),
    );
    let pod = pod("u-1", &json!({ "livenessProbe": live }));
    let mut place = rig.place("u-1");
    tell(&mut place, &pod, &status("c-1", 60, true));
    rig.pass(Duration::from_secs(1)).await;
    tell(&mut place, &pod, &status("c-2", 61, true));
    rig.pass(Duration::from_secs(5)).await;
    let fresh = found(&mut place).unwrap();
    assert_eq!((&*fresh.id, fresh.liveness), ("c-2", Some(Success)));
}

#[tokio::test(start_paused = true)]
async fn of_a_pod_that_is_to_end_only_readiness_is_asked() {
    let rig = Rig::new().await;
    let mut pod = pod(
        "u-1",
        &json!({
            "livenessProbe": probe("live", &json!({})),
            "readinessProbe": probe("ready", &json!({})),
        }),
    );
    // Sidecars go on until the others have ended, and whoever is ill meanwhile is started
    // anew: upstream goes on asking them, too.
    let sidecar = json!([{
        "name": "side", "restartPolicy": "Always",
        "livenessProbe": probe("side-live", &json!({})),
    }]);
    let spec = Arc::get_mut(&mut pod).unwrap().spec.as_mut().unwrap();
    spec.init_containers = Some(serde_json::from_value(sidecar).unwrap());
    let mut running = status("c-1", 60, true);
    let mut side = running.container_statuses.as_ref().unwrap()[0].clone();
    "side".clone_into(&mut side.name);
    side.container_id = Some("containerd://s-1".to_owned());
    running.init_container_statuses = Some(vec![side]);
    let mut place = rig.place("u-1");
    tell(&mut place, &pod, &running);
    rig.pass(Duration::from_secs(5)).await;
    let ending = View::of(&pod, &running, End::Own).unwrap();
    place.tell(ending, true);
    rig.pass(Duration::from_secs(20)).await;
    assert_eq!(rig.asked("live"), [60_000]);
    assert_eq!(rig.asked("ready"), [60_000, 70_000, 80_000]);
    assert_eq!(rig.asked("side-live"), [60_000, 70_000, 80_000]);
    let over = json!({ "phase": "Succeeded" });
    let over: PodStatus = serde_json::from_value(over).unwrap();
    tell(&mut place, &pod, &over);
    rig.pass(Duration::from_secs(20)).await;
    assert!(rig.asked("ready").is_empty() && rig.asked("side-live").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_leaves_nothing_behind() {
    let rig = Rig::new().await;
    let pod = pod(
        "u-1",
        &json!({ "livenessProbe": probe("live", &json!({})) }),
    );
    let mut place = rig.place("u-1");
    tell(&mut place, &pod, &status("c-1", 60, true));
    rig.pass(Duration::from_secs(5)).await;
    let shown = || {
        let page = rig.figures.probes.page().finish();
        page.contains("prober_probe_total")
    };
    assert!(shown());
    drop(place);
    rig.pass(Duration::from_secs(20)).await;
    assert_eq!(rig.asked("live"), [60_000]);
    assert!(!shown());
    // The next of that name begins anew.
    let mut place = rig.place("u-1");
    tell(&mut place, &pod, &status("c-2", 85, true));
    rig.settle().await;
    assert_eq!(rig.asked("live"), [85_000]);
}

#[tokio::test(start_paused = true)]
async fn of_a_pod_that_is_edited_what_is_new_is_asked_and_what_is_as_it_was_goes_on() {
    let rig = Rig::new().await;
    let slow = probe("ready", &json!({ "periodSeconds": 30 }));
    let live = probe("live", &json!({}));
    let first = json!({ "readinessProbe": slow, "livenessProbe": live });
    let mut place = rig.place("u-1");
    let running = status("c-1", 60, true);
    tell(&mut place, &pod("u-1", &first), &running);
    rig.pass(Duration::from_secs(5)).await;
    assert_eq!(rig.asked("live"), [60_000]);
    assert_eq!(rig.asked("ready"), [60_000]);
    // Another readiness probe, one for its start, none of its life, and a sidecar that has one.
    let edited = json!({
        "startupProbe": probe("start", &json!({})),
        "readinessProbe": probe("ready-now", &json!({})),
    });
    let mut edited = pod("u-1", &edited);
    let sidecar = json!([{
        "name": "side", "restartPolicy": "Always", "livenessProbe": probe("side", &json!({})),
    }]);
    let spec = Arc::get_mut(&mut edited).unwrap().spec.as_mut().unwrap();
    spec.init_containers = Some(serde_json::from_value(sidecar).unwrap());
    let mut running = status("c-2", 65, false);
    let mut side = running.container_statuses.as_ref().unwrap()[0].clone();
    "side".clone_into(&mut side.name);
    (side.container_id, side.started) = (Some("containerd://s-1".to_owned()), Some(true));
    running.init_container_statuses = Some(vec![side]);
    tell(&mut place, &edited, &running);
    rig.pass(Duration::from_secs(2)).await;
    assert_eq!(rig.asked("start"), [65_000]);
    assert_eq!(rig.asked("side"), [65_000]);
    assert_eq!(found(&mut place).unwrap().startup, Some(Success));
    for started in running.container_statuses.as_mut().unwrap() {
        started.started = Some(true);
    }
    tell(&mut place, &edited, &running);
    rig.pass(Duration::from_secs(10)).await;
    assert_eq!(rig.asked("ready-now"), [67_000, 77_000]);
    assert_eq!(found(&mut place).unwrap().readiness, Some(Success));
    assert_eq!(rig.asked("side"), [75_000]);
    // An edit of something else changes nothing for who is asked.
    let mut other = Pod::clone(&edited);
    other.spec.as_mut().unwrap().containers[0].image = Some("v2".to_owned());
    tell(&mut place, &Arc::new(other), &running);
    rig.pass(Duration::from_secs(10)).await;
    assert_eq!(rig.asked("ready-now"), [87_000]);
    assert_eq!(rig.asked("side"), [85_000]);
    assert!(rig.asked("live").is_empty() && rig.asked("ready").is_empty());
}

#[tokio::test(start_paused = true)]
async fn failures_are_counted_on_over_an_edit_of_something_else() {
    let rig = Rig::new().await;
    rig.answer("live", 1, 0);
    let live = probe("live", &json!({ "failureThreshold": 2 }));
    let mut place = rig.place("u-1");
    let before = pod("u-1", &json!({ "livenessProbe": live }));
    tell(&mut place, &before, &status("c-1", 60, true));
    rig.pass(Duration::from_secs(5)).await;
    let ready = probe("ready", &json!({}));
    let after = json!({ "livenessProbe": live, "readinessProbe": ready });
    tell(&mut place, &pod("u-1", &after), &status("c-1", 60, true));
    rig.pass(Duration::from_secs(10)).await;
    assert_eq!(rig.asked("live"), [60_000, 70_000]);
    assert_eq!(found(&mut place).unwrap().liveness, Some(Failure));
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_probe_that_there_is_no_more_is_not_waited_for() {
    let ready = json!({ "readinessProbe": probe("ready", &json!({})) });
    let mut both = ready.clone();
    both["livenessProbe"] = probe("hang", &json!({}));
    // Edited, and taken away and put back in between two looks of the prober.
    for anew in [true, false] {
        let rig = Rig::new().await;
        rig.answer("hang", 1, 3_000);
        let mut place = rig.place("u-1");
        tell(&mut place, &pod("u-1", &both), &status("c-1", 60, true));
        rig.pass(Duration::from_secs(1)).await;
        assert_eq!(rig.asked("hang"), [60_000]);
        if anew {
            place.give_up();
        }
        tell(&mut place, &pod("u-1", &ready), &status("c-1", 60, true));
        rig.settle().await;
        assert_eq!(rig.commands.at_once.load(Ordering::Relaxed), 0, "{anew}");
        rig.asked("ready");
        rig.pass(Duration::from_secs(20)).await;
        assert!(rig.asked("hang").is_empty());
        assert_eq!(rig.asked("ready").len(), 2, "{anew}");
        let page = rig.figures.probes.page().finish();
        assert!(!page.contains("Liveness"), "{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_young_agent_spreads_its_first_questions_and_says_nothing_before() {
    let rig = Rig::young();
    let pods: Vec<Arc<Pod>> = (0..50)
        .map(|number| {
            let ready = json!({ "readinessProbe": probe("ready", &json!({})) });
            pod(&format!("u-{number}"), &ready)
        })
        .collect();
    let mut places: Vec<Place> = pods
        .iter()
        .map(|pod| rig.place(pod.metadata.uid.as_deref().unwrap()))
        .collect();
    for (place, pod) in places.iter_mut().zip(&pods) {
        let mut adopted = status("c-1", 0, true);
        let state = &mut adopted.container_statuses.as_mut().unwrap()[0].state;
        let running = state.as_mut().unwrap().running.as_mut().unwrap();
        let before = Timestamp::from_second(-3600).unwrap();
        running.started_at = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(before));
        tell(place, pod, &adopted);
    }
    rig.settle().await;
    let said = places
        .iter_mut()
        .map(|place| found(place).unwrap().readiness);
    assert!(said.filter(Option::is_none).count() > 40);
    rig.pass(Duration::from_secs(10)).await;
    let times = rig.asked("ready");
    assert_eq!(times.len(), 50);
    let early = times.iter().filter(|at| **at < 5_000).count();
    assert!((10..40).contains(&early), "{times:?}");
    for place in &mut places {
        assert_eq!(found(place).unwrap().readiness, Some(Success));
    }
}

/// So many pods, all of whose probes are due in the same moment.
async fn crowd(rig: &Rig, count: usize, word: &str) -> Vec<Place> {
    let live = probe(
        word,
        &json!({ "timeoutSeconds": 30, "failureThreshold": 1 }),
    );
    let mut places = Vec::new();
    for number in 0..count {
        let uid = format!("u-{number}");
        let pod = pod(&uid, &json!({ "livenessProbe": live }));
        let mut place = rig.place(&uid);
        tell(&mut place, &pod, &status("c-1", 60, true));
        places.push(place);
    }
    rig.settle().await;
    places
}

#[tokio::test(start_paused = true)]
async fn five_hundred_in_the_same_moment_are_all_asked_and_not_too_many_at_once() {
    let rig = Rig::new().await;
    rig.answer("live", 0, 20);
    let places = crowd(&rig, 500, "live").await;
    rig.pass(Duration::from_millis(100)).await;
    let times = rig.asked("live");
    assert_eq!(times.len(), 500);
    assert!(times.iter().all(|at| *at <= 60_020), "{times:?}");
    let most = rig.commands.most_at_once.load(Ordering::Relaxed);
    assert_eq!(most, AT_ONCE);
    assert_eq!(rig.metrics.late_so_far(), 0);
    drop(places);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_others_is_late_and_not_ill() {
    let rig = Rig::new().await;
    rig.answer("hang", 1, 5_000);
    let hanging = crowd(&rig, AT_ONCE, "hang").await;
    let pod = pod(
        "u-x",
        &json!({ "livenessProbe": probe("live", &json!({})) }),
    );
    let mut place = rig.place("u-x");
    tell(&mut place, &pod, &status("c-1", 60, true));
    rig.pass(Duration::from_secs(4)).await;
    // Being told of again does not cost it its turn.
    tell(&mut place, &pod, &status("c-1", 60, true));
    rig.pass(Duration::from_secs(2)).await;
    assert_eq!(rig.asked("live"), [65_000]);
    assert_eq!(found(&mut place).unwrap().liveness, Some(Success));
    assert_eq!(rig.metrics.late_so_far(), 1);
    drop(hanging);
}

#[tokio::test(start_paused = true)]
async fn commands_that_hang_keep_nobody_from_being_asked_over_the_network() {
    let rig = Rig::new().await;
    rig.answer("hang", 1, 3_600_000);
    let hanging = crowd(&rig, AT_ONCE + 10, "hang").await;
    let knock = json!({
        "tcpSocket": { "port": 80 }, "periodSeconds": 10, "timeoutSeconds": 2, "failureThreshold": 2,
    });
    let pod = pod("u-x", &json!({ "livenessProbe": knock }));
    let mut place = rig.place("u-x");
    tell(&mut place, &pod, &status("c-1", 60, true));
    rig.pass(Duration::from_secs(11)).await;
    assert_eq!(found(&mut place).unwrap().liveness, Some(Success));
    rig.pass(Duration::from_secs(2)).await;
    assert_eq!(found(&mut place).unwrap().liveness, Some(Failure));
    assert_eq!(rig.metrics.late_so_far(), 0);
    assert_eq!(rig.commands.at_once.load(Ordering::Relaxed), AT_ONCE);
    drop(hanging);
}

#[tokio::test(start_paused = true)]
async fn while_nothing_is_due_nothing_runs() {
    let mut rig = Rig::new().await;
    rig.answer("start", 0, 0);
    let pod = pod(
        "u-1",
        &json!({ "startupProbe": probe("start", &json!({})) }),
    );
    let mut place = rig.place("u-1");
    tell(&mut place, &pod, &status("c-1", 60, false));
    rig.settle().await;
    tell(&mut place, &pod, &status("c-1", 60, true));
    rig.pass(Duration::from_secs(600)).await;
    assert_eq!(rig.asked("start"), [60_000]);
    assert_eq!(rig.tasks.len(), 1);
    assert!(rig.tasks.try_join_next().is_none());
}

#[test]
fn people_are_told_in_upstreams_words() {
    let text = || "why".to_owned();
    let state = "unknown";
    let cause = text();
    for (outcome, wanted) in [
        (Outcome::Success, None),
        (Outcome::Late(Duration::ZERO), None),
        (
            Outcome::Warning(text()),
            Some(("ProbeWarning", "Readiness probe warning: why")),
        ),
        (
            Outcome::Failure(text()),
            Some(("Unhealthy", "Readiness probe failed: why")),
        ),
        (
            Outcome::Errored { state, cause },
            Some((
                "Unhealthy",
                "Readiness probe errored and resulted in unknown state: why",
            )),
        ),
    ] {
        let said = words(Purpose::Readiness, &outcome);
        let said = said
            .as_ref()
            .map(|(reason, message)| (*reason, message.as_str()));
        assert_eq!(said, wanted);
    }
}

#[test]
fn an_event_is_about_the_part_of_the_pod_that_was_asked() {
    let pod = json!({ "spec": {
        "initContainers": [{ "name": "side", "restartPolicy": "Always", "livenessProbe": {} }],
        "containers": [{ "name": "app", "livenessProbe": {} }],
    } });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    for (name, path) in [
        ("app", Some("spec.containers{app}")),
        ("side", Some("spec.initContainers{side}")),
        ("gone", None),
    ] {
        assert_eq!(field_path(&pod, name).as_deref(), path);
    }
}

#[tokio::test(start_paused = true)]
async fn questions_whose_times_are_near_are_asked_together_and_none_before_its_time() {
    let rig = Rig::new().await;
    let mut places = Vec::new();
    for number in 0..3 {
        let uid = format!("u-{number}");
        let pod = pod(&uid, &json!({ "livenessProbe": probe("live", &json!({})) }));
        let mut place = rig.place(&uid);
        tell(&mut place, &pod, &status("c-1", 1, true));
        places.push(place);
        // Told of after 60.000, 60.007 and 60.014 seconds.
        rig.pass(Duration::from_millis(7)).await;
    }
    rig.pass(Duration::from_secs(11)).await;
    assert_eq!(
        rig.asked("live"),
        [60_000, 60_020, 60_020, 70_000, 70_020, 70_020]
    );
}
