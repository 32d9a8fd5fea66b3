//! Single scenes: what a pod does to another, and what is done to a pod that runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use seams::{Clock as _, Runtime as _, Storage as _, cri};
use serde_json::{Value, json};
use types::PodUid;
use types::desired::{Desired, DesiredPod, Source};
use workers::NodeView;

use crate::node::{Node, ROOT, view};
use crate::runtime::{Act, Meddling, Snapshot};

/// A node, and what its source has.
pub(crate) struct Scene {
    pub(crate) node: Node,
    desired: Desired,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::on(Node::new())
    }

    pub(crate) fn on(mut node: Node) -> Self {
        node.begin();
        let desired = Desired {
            ready: true,
            ..Desired::default()
        };
        Self { node, desired }
    }

    /// Puts a pod with these parts, and lets some time pass.
    pub(crate) async fn put(&mut self, uid: &str, notes: &Value, spec: &Value, seconds: u64) {
        // As the API server has it, which fills that in.
        let mut spec = spec.clone();
        spec["enableServiceLinks"] = json!(true);
        let pod = json!({
            "metadata": {
                "name": uid, "namespace": "shop", "uid": uid, "annotations": notes,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": spec,
        });
        let pod = DesiredPod {
            pod: Arc::new(serde_json::from_value(pod).unwrap()),
            source: Source::Api,
            mirror: None,
        };
        self.desired.pods.insert(PodUid::new(uid), pod);
        self.node.tell(self.desired.clone());
        self.pass(seconds).await;
    }

    /// Gives a pod these labels, and lets some time pass.
    pub(crate) async fn label(&mut self, uid: &str, labels: &Value, seconds: u64) {
        let known = self.desired.pods.get_mut(&PodUid::new(uid)).unwrap();
        let mut pod = Pod::clone(&known.pod);
        pod.metadata.labels = Some(serde_json::from_value(labels.clone()).unwrap());
        known.pod = Arc::new(pod);
        self.node.tell(self.desired.clone());
        self.pass(seconds).await;
    }

    /// Nobody wants a pod any more.
    pub(crate) fn take_away(&mut self, uid: &str) {
        self.desired.pods.remove(&PodUid::new(uid));
        self.node.tell(self.desired.clone());
    }

    /// The agent dies, and another begins.
    pub(crate) async fn begin_anew(&mut self, seconds: u64) {
        self.node.end().await;
        self.node.begin();
        self.node.tell(self.desired.clone());
        self.pass(seconds).await;
    }

    /// Whether all sources have been heard, from now on.
    pub(crate) fn hear_all(&mut self, ready: bool) {
        self.desired.ready = ready;
        self.node.tell(self.desired.clone());
    }

    /// What was last said of a pod, as the API has it.
    pub(crate) fn said(&self, uid: &str) -> Value {
        let said = self.node.said(uid);
        said.map_or(Value::Null, |said| serde_json::to_value(said).unwrap())
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        self.node.pass(Duration::from_secs(seconds)).await;
    }

    pub(crate) fn look(&self) -> Snapshot {
        self.node.runtime.look().unwrap()
    }

    pub(crate) fn count(&self, act: Act, uid: &str, container: &str) -> usize {
        let calls = self.node.runtime.calls();
        let of = |call: &&crate::runtime::Call| {
            call.act == act && call.uid == uid && call.container == container
        };
        calls.iter().filter(of).count()
    }
}

/// Asks for most of the node's CPUs.
fn greedy(priority: i32) -> Value {
    json!({
        "priority": priority,
        "terminationGracePeriodSeconds": 20,
        "containers": [{
            "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent",
            "resources": { "requests": { "cpu": "20" } },
        }],
    })
}

const CRITICAL: i32 = 2_000_000_000;

#[tokio::test(start_paused = true)]
async fn a_critical_pod_begins_when_the_one_that_makes_room_has_ended() {
    let mut scene = Scene::new();
    let slow = json!({ "sim.ferrolet.dev/stop-delay": "10s" });
    scene.put("low", &slow, &greedy(5), 5).await;
    assert!(scene.look().is_running("low"));
    scene.put("high", &json!({}), &greedy(CRITICAL), 5).await;
    assert!(scene.look().is_running("low") && !scene.look().has("high"));
    scene.pass(20).await;
    assert!(!scene.look().is_running("low") && scene.look().is_running("high"));
    // One that is not critical makes nobody go.
    scene
        .put("other", &json!({}), &greedy(CRITICAL - 1), 60)
        .await;
    assert!(scene.look().is_running("high") && !scene.look().has("other"));
}

#[tokio::test(start_paused = true)]
async fn a_critical_pod_does_not_wait_for_ever_for_one_that_does_not_end() {
    let mut scene = Scene::new();
    scene.put("low", &json!({}), &greedy(5), 5).await;
    // Whatever is asked for fails: it is given half as long again as it has.
    scene.node.runtime.meddle(Meddling::FailsBefore(1));
    scene.put("high", &json!({}), &greedy(CRITICAL), 28).await;
    assert_eq!(scene.count(Act::RunSandbox, "high", ""), 0);
    scene.pass(4).await;
    assert!(scene.count(Act::RunSandbox, "high", "") > 0);
    assert!(scene.look().is_running("low"));
    // Others are told why, and what is the matter.
    let told = |reason| scene.node.told.of("low", reason);
    assert_eq!(
        told("Preempting"),
        ["Preempted in order to admit critical pod"]
    );
    let late = "Container runtime did not kill the pod within specified grace period.";
    assert_eq!(told("ExceededGracePeriod"), [late]);
    let failed = told("FailedKillPod");
    for part in [
        "error killing pod: [failed to \"KillContainer\" for \"c\" with KillContainerError: ",
        "failed to \"KillPodSandbox\" for \"low\" with KillPodSandboxError: ",
    ] {
        assert!(failed.iter().any(|text| text.contains(part)), "{failed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn however_little_grace_a_pod_has_a_critical_one_waits_ten_seconds_for_it() {
    let mut scene = Scene::new();
    let mut hasty = greedy(5);
    hasty["terminationGracePeriodSeconds"] = json!(2);
    scene.put("low", &json!({}), &hasty, 5).await;
    scene.node.runtime.meddle(Meddling::FailsBefore(1));
    scene.put("high", &json!({}), &greedy(CRITICAL), 9).await;
    let told = |scene: &Scene| scene.node.told.of("low", "ExceededGracePeriod").len();
    assert_eq!(scene.count(Act::RunSandbox, "high", ""), 0);
    assert_eq!(told(&scene), 0);
    scene.pass(2).await;
    assert!(scene.count(Act::RunSandbox, "high", "") > 0);
    assert_eq!(told(&scene), 1);
}

#[tokio::test(start_paused = true)]
async fn all_containers_begin_anew_in_the_sandbox_that_there_is() {
    let mut scene = Scene::new();
    let notes = json!({
        "sim.ferrolet.dev/run-time.c": "10s",
        "sim.ferrolet.dev/exit-code.c": "42",
        "sim.ferrolet.dev/run-time.i": "1s",
        "sim.ferrolet.dev/exit-code.i": "0",
    });
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [{ "name": "i", "image": "i:1", "imagePullPolicy": "IfNotPresent" }],
        "containers": [
            { "name": "side", "image": "i:1", "imagePullPolicy": "IfNotPresent" },
            {
                "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent",
                "restartPolicy": "Never", "restartPolicyRules": [{
                    "action": "RestartAllContainers",
                    "exitCodes": { "operator": "In", "values": [42] },
                }],
            },
        ],
    });
    scene.put("p", &notes, &spec, 5).await;
    let logs = Path::new("/var/log/pods/shop_p_p/c");
    for round in 1..4 {
        for name in ["i", "side", "c"] {
            assert_eq!(scene.count(Act::Start, "p", name), round, "{name}");
            assert_eq!(scene.count(Act::Remove, "p", name), round - 1, "{name}");
        }
        assert_eq!(scene.count(Act::Stop, "p", "side"), round - 1);
        let calls = scene.node.runtime.calls();
        let mut stops = calls.iter().filter(|call| call.act == Act::Stop);
        assert!(stops.all(|call| call.grace == 2), "{calls:?}");
        // The logs of those that were stay: the next one's comes behind them.
        let log = logs.join(format!("{}.log", round - 1));
        let running = scene.look().running("p", "c")[0].id.clone();
        let path = &scene.look().container_states[&running].log_path;
        assert_eq!(Path::new(path), log);
        // As the runtime would.
        scene
            .node
            .machine
            .write_file(&log, b"words", 0o640)
            .unwrap();
        scene.pass(12).await;
    }
    let files = scene.node.machine.entries(logs).unwrap().unwrap();
    let mut files: Vec<String> = files.into_iter().map(|file| file.name).collect();
    files.sort_unstable();
    assert_eq!(files, ["0.log", "1.log", "2.log"]);
    assert_eq!(scene.count(Act::RunSandbox, "p", ""), 1);
    // Of all that was, only what is now is left.
    assert_eq!(scene.look().containers_of("p").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_added_is_started_once() {
    let mut scene = Scene::new();
    let notes = json!({
        "sim.ferrolet.dev/run-time.e": "5s", "sim.ferrolet.dev/exit-code.e": "1",
    });
    let mut spec = json!({
        "containers": [{ "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent" }],
    });
    scene.put("p", &notes, &spec, 5).await;
    spec["ephemeralContainers"] = json!([{
        "name": "e", "image": "i:1", "imagePullPolicy": "IfNotPresent", "targetContainerName": "c",
    }]);
    scene.put("p", &notes, &spec, 2).await;
    assert_eq!(scene.look().running("p", "e").len(), 1);
    scene.pass(600).await;
    assert!(scene.look().running("p", "e").is_empty());
    assert_eq!(scene.count(Act::Start, "p", "e"), 1);
    assert_eq!(scene.count(Act::Start, "p", "c"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_a_pod_is_given_by_an_edit_is_there_for_its_next_container() {
    let mut scene = Scene::new();
    let notes = json!({ "sim.ferrolet.dev/run-time.c": "30s" });
    let mut spec = json!({
        "containers": [{ "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent" }],
    });
    scene.put("p", &notes, &spec, 5).await;
    spec["volumes"] = json!([{ "name": "data", "emptyDir": {} }]);
    spec["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    scene.put("p", &notes, &spec, 120).await;
    assert!(scene.count(Act::Start, "p", "c") > 1);
    let directory = Path::new(ROOT).join("pods/p/volumes/kubernetes.io~empty-dir/data");
    assert!(scene.node.machine.entries(&directory).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_there_keeps_nothing_waiting_though_it_could_not_be_had_again() {
    let mut scene = Scene::new();
    let directory = Path::new(ROOT).join("pods/p/volumes/kubernetes.io~empty-dir/data");
    let machine = Arc::clone(&scene.node.machine);
    let with = |name: &str| {
        json!({
            "name": name, "image": "i:1", "imagePullPolicy": "IfNotPresent",
            "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
        })
    };
    let notes = json!({ "sim.ferrolet.dev/run-time.c": "30s" });
    let mut spec = json!({
        "containers": [with("c")],
        "volumes": [{ "name": "data", "emptyDir": {} }],
    });
    scene.put("p", &notes, &spec, 5).await;
    assert!(scene.look().is_running("p"));
    machine.remove_tree(&directory).unwrap();
    machine.write_file(&directory, b"", 0o644).unwrap();
    spec["ephemeralContainers"] = json!([with("e")]);
    scene.put("p", &notes, &spec, 5).await;
    assert_eq!(scene.look().running("p", "e").len(), 1);
    let told = scene.node.told.of("p", "FailedMount");
    assert!(told.iter().any(|one| one.contains("data")), "{told:?}");
    scene.pass(60).await;
    assert!(scene.count(Act::Start, "p", "c") > 1);
    // An agent that knows of no volume waits for all of them, as upstream does.
    scene.begin_anew(5).await;
    let before = scene.count(Act::Start, "p", "c");
    scene.pass(120).await;
    assert_eq!(scene.count(Act::Start, "p", "c"), before);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_outside_its_cgroup_begins_anew_inside() {
    let mut scene = Scene::new();
    scene.put("p", &json!({}), &greedy(5), 5).await;
    scene.node.lose_cgroup("p").await;
    scene.begin_anew(60).await;
    assert!(scene.node.has_cgroup("p") && scene.look().is_running("p"));
    assert_eq!(scene.count(Act::Start, "p", "c"), 2);
    scene.begin_anew(600).await;
    assert_eq!(scene.count(Act::Start, "p", "c"), 2);
    // One that is not begun twice is over.
    let mut once = greedy(5);
    once["restartPolicy"] = json!("Never");
    once["containers"][0]["resources"] = json!({});
    scene.put("once", &json!({}), &once, 5).await;
    scene.node.lose_cgroup("once").await;
    scene.begin_anew(60).await;
    assert!(!scene.look().is_running("once") && !scene.node.has_cgroup("once"));
    assert_eq!(scene.count(Act::Start, "once", "c"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_pods_that_are_over_is_removed_when_nobody_waits() {
    let mut scene = Scene::new();
    let spec = json!({
        "containers": [{ "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent" }],
    });
    let old = |number: u32| format!("old-{number}");
    for number in 0..4 {
        scene.put(&old(number), &json!({}), &spec, 5).await;
    }
    // A runtime that takes its time has more to do than it can at once.
    let second = Duration::from_secs(1);
    scene.node.runtime.meddle(Meddling::Late(second));
    for number in 0..4 {
        scene.take_away(&old(number));
    }
    for number in 0..40 {
        let new = format!("new-{number}");
        scene.put(&new, &json!({}), &spec, 0).await;
    }
    scene.pass(300).await;
    let calls = scene.node.runtime.calls();
    let is = |call: &crate::runtime::Call, act, kind: &str| {
        call.act == act && call.uid.starts_with(kind)
    };
    let begun = calls
        .iter()
        .rposition(|call| is(call, Act::RunSandbox, "new-"));
    let removed = calls.iter().position(|call| is(call, Act::Remove, "old-"));
    assert!(begun.is_some() && removed.is_some());
    assert!(begun < removed, "{begun:?} {removed:?}");
    assert!((0..4).all(|number| !scene.look().has(&old(number))));
}

/// One container that runs on.
fn plain() -> Value {
    json!({
        "containers": [{ "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent" }],
    })
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_cgroup_cannot_be_made_waits_and_says_so() {
    let mut scene = Scene::new();
    scene.node.machine.refuse_cgroups(true);
    scene.put("p", &json!({}), &plain(), 5).await;
    let told = scene.node.told.of("p", "FailedCreatePodContainer");
    let words = "unable to ensure pod container exists: ";
    assert!(!told.is_empty(), "nobody was told");
    assert!(told.iter().all(|text| text.starts_with(words)), "{told:?}");
    assert!(!scene.look().has("p"));
    scene.node.machine.refuse_cgroups(false);
    scene.pass(20).await;
    assert!(scene.look().is_running("p") && scene.node.has_cgroup("p"));
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_has_no_cgroup_of_its_pod_where_pods_have_none() {
    let mut scene = Scene::new();
    scene.put("p", &json!({}), &plain(), 5).await;
    let parent = scene.node.runtime.parent("p").unwrap();
    assert_eq!(parent, "/kubepods/besteffort/podp");
    let mut node = Node::new();
    node.with_cgroups = false;
    let mut scene = Scene::on(node);
    scene.put("p", &json!({}), &plain(), 5).await;
    assert_eq!(scene.node.runtime.parent("p").as_deref(), Some(""));
    assert!(scene.look().is_running("p") && !scene.node.has_cgroup("p"));
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_when_it_is_stopped_has_ended() {
    let mut scene = Scene::new();
    scene.put("p", &json!({}), &plain(), 5).await;
    scene.node.runtime.meddle(Meddling::StopsNobody);
    scene.take_away("p");
    scene.pass(60).await;
    assert!(!scene.look().has("p"));
    assert_eq!(scene.count(Act::Stop, "p", "c"), 1);
    assert_eq!(scene.node.told.of("p", "FailedKillPod"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_cannot_be_made_leaves_no_file_for_each_try() {
    let mut scene = Scene::new();
    let mut spec = plain();
    spec["containers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
    scene.put("well", &json!({}), &spec, 5).await;
    spec["containers"][0]["securityContext"] = json!({ "runAsNonRoot": true, "runAsUser": 0 });
    scene.put("p", &json!({}), &spec, 300).await;
    assert!(!scene.node.told.of("p", "Failed").is_empty());
    assert_eq!(scene.count(Act::Start, "p", "c"), 0);
    let files = |uid: &str| {
        let own = format!("{ROOT}/pods/{uid}/containers/c");
        let entries = scene.node.machine.entries(Path::new(&own)).unwrap();
        entries.map_or(0, |entries| entries.len())
    };
    assert_eq!((files("well"), files("p")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn of_a_container_that_crashes_over_and_over_people_hear_each_time_that_it_waits() {
    let mut scene = Scene::new();
    let notes = json!({ "sim.ferrolet.dev/run-time.c": "1s", "sim.ferrolet.dev/exit-code.c": "1" });
    scene.put("p", &notes, &plain(), 3600).await;
    let starts = scene.count(Act::Start, "p", "c");
    let told = scene.node.told.times("p", "BackOff");
    // After the first crash it does not wait.
    assert!(starts > 12 && told + 2 >= starts, "{starts} {told}");
}

#[tokio::test(start_paused = true)]
async fn people_are_told_of_containers_by_their_names() {
    let mut scene = Scene::new();
    scene.node.runtime.meddle(Meddling::StartsNothing);
    scene.put("p", &json!({}), &plain(), 5).await;
    let told = scene.node.told.of("p", "Failed");
    assert_eq!(told, ["Error: cannot start c: no such file"]);
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_after_ten_seconds_and_half_as_many_more() {
    let mut scene = Scene::new();
    scene.node.runtime.meddle(Meddling::FailsBefore(1));
    scene.put("p", &json!({}), &plain(), 100).await;
    let tries = scene.count(Act::RunSandbox, "p", "");
    // The first at once; then pauses of ten to fifteen seconds.
    assert!((7..=11).contains(&tries), "{tries}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_while_its_worker_looks_does_not_wait_for_the_next_try() {
    let mut scene = Scene::new();
    let in_the_way = Path::new(ROOT).join("pods/p/volumes");
    let machine = Arc::clone(&scene.node.machine);
    machine.write_file(&in_the_way, b"", 0o644).unwrap();
    // What fails is tried again after ten seconds; the look before that takes some.
    let slow = Duration::from_secs(1);
    scene.node.runtime.meddle(Meddling::Late(slow));
    scene.put("p", &json!({}), &plain(), 0).await;
    let moment = Duration::from_millis(100);
    while scene.node.told.most() == 0 {
        scene.node.pass(moment).await;
    }
    machine.remove_file(&in_the_way).unwrap();
    scene.node.pass(moment).await;
    scene.take_away("p");
    let begun = scene.node.clock.uptime();
    while !scene.node.traces("p").is_empty() {
        scene.node.pass(moment).await;
    }
    let took = scene.node.clock.uptime().saturating_sub(begun);
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_network_is_looked_at_again_each_second() {
    let mut scene = Scene::new();
    let away = NodeView {
        network_problem: Some("no plugin".to_owned()),
        ..view("32")
    };
    scene.node.view.send_replace(Arc::new(away));
    scene.put("p", &json!({}), &plain(), 12).await;
    assert!(!scene.look().has("p"));
    let words = "network is not ready: no plugin";
    assert_eq!(scene.node.told.of("p", "NetworkNotReady"), [words]);
    let looks = scene.node.told.most();
    assert!((8..=13).contains(&looks), "{looks}");
    scene.node.view.send_replace(Arc::new(view("32")));
    scene.pass(2).await;
    assert!(scene.look().is_running("p"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_directories_cannot_be_made_gets_no_sandbox_and_says_so() {
    let mut scene = Scene::new();
    let in_the_way = Path::new(ROOT).join("pods/p/volumes");
    let machine = Arc::clone(&scene.node.machine);
    machine.write_file(&in_the_way, b"", 0o644).unwrap();
    scene.put("p", &json!({}), &plain(), 20).await;
    assert!(!scene.look().has("p"));
    let told = scene.node.told.of("p", "FailedToMakePodDataDirectories");
    assert_eq!(told.len(), 1, "{told:?}");
    let begins = "error making pod data directories: ";
    assert!(told[0].starts_with(begins), "{told:?}");
    machine.remove_file(&in_the_way).unwrap();
    scene.pass(20).await;
    assert!(scene.look().is_running("p"));
}

#[tokio::test(start_paused = true)]
async fn of_a_container_that_crashes_only_the_last_is_kept() {
    let mut scene = Scene::new();
    let notes = json!({
        "sim.ferrolet.dev/run-time.c": "1s", "sim.ferrolet.dev/exit-code.c": "3",
        "sim.ferrolet.dev/run-time.i": "1s", "sim.ferrolet.dev/exit-code.i": "3",
    });
    scene.put("p", &notes, &plain(), 40).await;
    let mut first = plain();
    first["initContainers"] =
        json!([{ "name": "i", "image": "i:1", "imagePullPolicy": "IfNotPresent" }]);
    scene.put("q", &notes, &first, 40).await;
    scene.pass(200).await;
    for (pod, name) in [("p", "c"), ("q", "i")] {
        let starts = scene.count(Act::Start, pod, name);
        assert!(starts >= 4, "{pod}: {starts}");
        // The last two: one may have ended since the other took its place.
        assert_eq!(scene.count(Act::Remove, pod, name), starts - 2, "{pod}");
        assert_eq!(scene.look().containers_of(pod).len(), 2, "{pod}");
    }
}

#[tokio::test(start_paused = true)]
async fn that_containers_can_start_is_told_while_their_images_are_on_the_way() {
    let mut scene = Scene::new();
    let slow = json!({ "sim.ferrolet.dev/pull-delay": "60s" });
    scene.put("p", &slow, &plain(), 5).await;
    assert_eq!(scene.count(Act::Create, "p", "c"), 0);
    let said = scene.said("p");
    let conditions = said["conditions"].as_array().unwrap();
    let ready = conditions
        .iter()
        .find(|condition| condition["type"] == "PodReadyToStartContainers");
    assert_eq!(ready.unwrap()["status"], "True", "{said}");
    assert!(said["podIP"].is_string(), "{said}");
    let state = &said["containerStatuses"][0]["state"];
    assert_eq!(state["waiting"]["reason"], "ContainerCreating");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_a_pod_that_only_the_runtime_knows() {
    let mut scene = Scene::new();
    let slow = json!({ "sim.ferrolet.dev/stop-delay": "10s" });
    scene.put("p", &slow, &plain(), 5).await;
    assert_eq!(scene.said("p")["phase"], "Running");
    scene.node.end().await;
    scene.take_away("p");
    scene.begin_anew(0).await;
    let stopped = || scene.count(Act::Stop, "p", "c") > 0;
    let mut ended_by_us = false;
    for _ in 0..20 {
        scene.pass(1).await;
        ended_by_us |= stopped();
        assert_eq!(scene.said("p"), Value::Null);
    }
    assert!(ended_by_us && !scene.look().has("p"));
}

#[tokio::test(start_paused = true)]
async fn a_cgroup_in_which_nothing_is_left_goes_with_what_its_pod_had() {
    let mut scene = Scene::new();
    scene.put("p", &json!({}), &plain(), 5).await;
    scene.put("q", &json!({}), &plain(), 5).await;
    scene.node.end().await;
    // While nobody looked, the pod was deleted, and the runtime has forgotten it.
    scene.take_away("p");
    scene.node.runtime.lose("p");
    assert!(!scene.look().has("p") && scene.node.has_cgroup("p"));
    scene.begin_anew(60).await;
    assert_eq!(scene.node.traces("p"), [""; 0]);
    assert!(scene.node.has_cgroup("q"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_removed_after_it_has_ended_with_every_sandbox_that_it_had() {
    let mut scene = Scene::new();
    scene.put("p", &json!({}), &plain(), 5).await;
    scene.node.runtime.lose_sandbox("p");
    scene.pass(60).await;
    assert!(scene.look().is_running("p"));
    assert_eq!(scene.count(Act::RunSandbox, "p", ""), 2);
    let before = scene.node.runtime.calls().len();
    scene.take_away("p");
    scene.pass(60).await;
    assert!(!scene.look().has("p"));
    let calls = scene.node.runtime.calls().split_off(before);
    let acts: Vec<Act> = calls.iter().map(|call| call.act).collect();
    // Each is stopped with the pod, and once more before it goes: only that is sure to give
    // back its network.
    assert_eq!(
        acts,
        [
            Act::Stop,
            Act::StopSandbox,
            Act::StopSandbox,
            Act::Remove,
            Act::Remove,
            Act::StopSandbox,
            Act::RemoveSandbox,
            Act::StopSandbox,
            Act::RemoveSandbox,
        ]
    );
    for range in [1..3, 3..5] {
        let [one, other] = &calls[range] else {
            panic!("there are two");
        };
        assert_ne!(one.id, other.id, "{:?}", one.act);
    }
}

/// Gives a pod a second sandbox that is ready: it has to have one that is right, and only that.
async fn spoil_sandbox(scene: &Scene, uid: &str) {
    let found = scene.look().sandboxes.into_iter();
    let mut found = found.filter(|sandbox| {
        let metadata = sandbox.metadata.as_ref();
        metadata.is_some_and(|metadata| metadata.uid == uid)
    });
    let sandbox = found.next().unwrap();
    let mut metadata = sandbox.metadata.unwrap();
    metadata.attempt += 1;
    let config = cri::PodSandboxConfig {
        metadata: Some(metadata),
        labels: sandbox.labels,
        annotations: sandbox.annotations,
        ..cri::PodSandboxConfig::default()
    };
    let request = cri::RunPodSandboxRequest {
        config: Some(config),
        ..cri::RunPodSandboxRequest::default()
    };
    let made = scene.node.runtime.run_pod_sandbox(request).await;
    made.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_is_ended_for_the_sake_of_its_sandbox_has_not_done_its_work() {
    // Asked to end, it ends well, as it would have by itself.
    let story = json!({
        "sim.ferrolet.dev/run-time": "60s", "sim.ferrolet.dev/stop-delay": "60s",
    });
    let mut scene = Scene::new();
    let mut spec = plain();
    spec["restartPolicy"] = json!("OnFailure");
    spec["terminationGracePeriodSeconds"] = json!(100);
    scene.put("p", &story, &spec, 30).await;
    assert_eq!(scene.count(Act::Start, "p", "c"), 1);
    spoil_sandbox(&scene, "p").await;
    scene.pass(45).await;
    assert_eq!(scene.count(Act::Start, "p", "c"), 2);
    assert_eq!(scene.said("p")["phase"], "Running");
    scene.pass(60).await;
    assert_eq!(scene.said("p")["phase"], "Succeeded");
    assert_eq!(scene.count(Act::Start, "p", "c"), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_of_containers_before_it_is_known_which_runtime_has_them() {
    let mut scene = Scene::new();
    scene.put("p", &json!({}), &plain(), 30).await;
    let id = |scene: &Scene| scene.said("p")["containerStatuses"][0]["containerID"].clone();
    let before = id(&scene);
    assert!(before.as_str().unwrap().starts_with("containerd://"));
    // The runtime has begun to answer, and was not asked for its name yet.
    let known = Arc::clone(&scene.node.view.borrow());
    let nameless = NodeView {
        runtime_name: String::new(),
        ..NodeView::clone(&known)
    };
    scene.node.view.send_replace(Arc::new(nameless));
    scene.begin_anew(4).await;
    assert_eq!(scene.said("p"), Value::Null);
    scene.node.view.send_replace(known);
    scene.pass(4).await;
    assert_eq!(id(&scene), before);
}
