//! Single scenes: what a pod does to another, and what is done to a pod that runs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use types::PodUid;
use types::desired::{Desired, DesiredPod, Source};

use crate::node::Node;
use crate::runtime::{Act, Meddling, Snapshot};

/// A node, and what its source has.
pub(crate) struct Scene {
    pub(crate) node: Node,
    desired: Desired,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let mut node = Node::new();
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

    /// The agent dies, and another begins.
    pub(crate) async fn begin_anew(&mut self, seconds: u64) {
        self.node.end().await;
        self.node.begin();
        self.node.tell(self.desired.clone());
        self.pass(seconds).await;
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
    for round in 1..4 {
        for name in ["i", "side", "c"] {
            assert_eq!(scene.count(Act::Start, "p", name), round, "{name}");
            assert_eq!(scene.count(Act::Remove, "p", name), round - 1, "{name}");
        }
        assert_eq!(scene.count(Act::Stop, "p", "side"), round - 1);
        scene.pass(12).await;
    }
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
