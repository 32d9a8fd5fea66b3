//! Pods that have more on the disk than they may: found by what is really counted on the
//! simulated machine, and ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pleg::Observations;
use resources::eviction::EvictionLoop;
use seams::{SharedClock, SharedRuntime, Storage as _};
use serde_json::{Value, json};
use server::stats::{Directories, Sources, Stats, SystemGroups};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use types::desired::Desired;
use types::eviction::Evictions;
use volumes::{Counting, Volumes};

use crate::node::{LOGS, Node, ROOT};
use crate::runtime::Act;
use crate::scenes::Scene;

/// `volumeStatsAggPeriod`. A volume is counted after twice that, at the latest.
const PERIOD: Duration = Duration::from_secs(60);

/// Long enough for a volume to be counted, and for its pod to end.
const LONG: u64 = 150;

/// Who counts, and who judges by it, as the agent wires them.
pub(crate) fn start(
    node: &Node,
    (runtime, observations): (SharedRuntime, Observations),
    volumes: Volumes,
    desired: watch::Receiver<Desired>,
    tasks: &mut JoinSet<()>,
) -> watch::Receiver<Arc<Evictions>> {
    let clock: SharedClock = node.clock.clone();
    let (counted, volumes_seen) = watch::channel(Arc::default());
    let (disks, disks_seen) = watch::channel(Arc::default());
    let (evictions, seen) = watch::channel(Arc::default());
    let (asked, asks) = watch::channel(());
    let (_, looks) = Stats::new(Sources {
        node_name: "n1".to_owned(),
        host: node.machine.clone(),
        storage: node.machine.clone(),
        runtime,
        clock: clock.clone(),
        pods: Arc::new(move || {
            let known = observations.known().borrow().clone().unwrap_or_default();
            let pods = known.iter().filter_map(|pod| observations.last(&pod.uid));
            pods.collect()
        }),
        places: watch::channel(None).1,
        directories: Directories {
            root: PathBuf::from(ROOT),
            logs: PathBuf::from(LOGS),
        },
        system: SystemGroups::default(),
        volumes: volumes_seen.clone(),
        asked: asked.clone(),
        disks,
    });
    let counting = Counting::new(volumes, PERIOD, asks, counted);
    let looping = EvictionLoop {
        clock,
        desired,
        volumes: volumes_seen,
        disks: disks_seen,
        asked,
        evictions,
        metrics: node.hung(),
    };
    tasks.spawn(looks.run(CancellationToken::new()));
    tasks.spawn(counting.run(CancellationToken::new()));
    tasks.spawn(looping.run(CancellationToken::new()));
    seen
}

/// One container that runs on, with one directory.
fn spec(source: &Value, limits: &Value) -> Value {
    json!({
        "terminationGracePeriodSeconds": 600,
        "containers": [{
            "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent",
            "resources": { "limits": limits },
            "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
        }],
        "volumes": [{ "name": "v", "emptyDir": source }],
    })
}

/// As the container would.
fn write(scene: &Scene, uid: &str, bytes: usize) {
    let directory = format!("{ROOT}/pods/{uid}/volumes/kubernetes.io~empty-dir/v");
    let file = Path::new(&directory).join("file");
    let machine = &scene.node.machine;
    machine.write_file(&file, &vec![7; bytes], 0o640).unwrap();
}

fn figures(scene: &Scene) -> String {
    scene.node.figures.node.page().finish()
}

/// How often the runtime was asked what containers write.
fn looks(scene: &Scene) -> u64 {
    let name = "kubelet_runtime_operations_total{operation_type=\"list_container_stats\"} ";
    let text = figures(scene);
    let count = text.lines().find_map(|line| line.strip_prefix(name));
    count.map_or(0, |count| count.parse().unwrap())
}

/// It was ended by the node, with these words, and is not begun again.
async fn is_evicted(scene: &Scene, uid: &str, message: &str) {
    assert!(!scene.look().is_running(uid), "{uid}");
    let said = scene.said(uid);
    assert_eq!(said["phase"], "Failed", "{said}");
    assert_eq!(said["reason"], "Evicted", "{said}");
    assert_eq!(said["message"], message, "{said}");
    let conditions = said["conditions"].as_array().unwrap();
    let mut kinds = conditions.iter().map(|condition| &condition["type"]);
    assert!(kinds.all(|kind| kind != "DisruptionTarget"), "{said}");
    assert_eq!(scene.node.told.of(uid, "Evicted"), [message]);
    assert_eq!(scene.node.told.times(uid, "Evicted"), 1);
    let calls = scene.node.runtime.calls();
    let stops = calls
        .iter()
        .filter(|call| call.act == Act::Stop && call.uid == uid);
    let graces: Vec<_> = stops.map(|call| call.grace).collect();
    assert_eq!(graces, [2], "the least that anybody is given");
    scene.pass(600).await;
    assert!(!scene.look().is_running(uid));
    assert_eq!(scene.count(Act::Start, uid, "c"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_directory_is_larger_than_it_may_be_goes_and_others_stay() {
    let mut scene = Scene::new();
    let limit = json!({ "sizeLimit": "64Ki" });
    scene
        .put("large", &json!({}), &spec(&limit, &json!({})), 5)
        .await;
    scene
        .put("small", &json!({}), &spec(&limit, &json!({})), 5)
        .await;
    scene
        .put("free", &json!({}), &spec(&json!({}), &json!({})), 5)
        .await;
    let mut critical = spec(&limit, &json!({}));
    critical["priority"] = json!(2_000_000_000);
    scene.put("critical", &json!({}), &critical, 5).await;
    write(&scene, "small", 64 << 10);
    for uid in ["large", "free", "critical"] {
        write(&scene, uid, (64 << 10) + 1);
    }
    scene.pass(LONG).await;
    let message = "Usage of EmptyDir volume \"v\" exceeds the limit \"64Ki\". ";
    is_evicted(&scene, "large", message).await;
    for uid in ["small", "free", "critical"] {
        assert!(scene.look().is_running(uid), "{uid}");
        assert_eq!(scene.node.told.times(uid, "Evicted"), 0);
    }
    let text = figures(&scene);
    let line = "kubelet_evictions{eviction_signal=\"emptydirfs.limit\"} 1";
    assert!(text.lines().any(|one| one == line), "{text}");
}

#[tokio::test(start_paused = true)]
async fn all_that_write_too_much_go_within_some_seconds() {
    let mut scene = Scene::new();
    scene
        .put("sound", &json!({}), &spec(&json!({}), &json!({})), 5)
        .await;
    // Its layer has 16 KiB.
    for (uid, limit) in [("a", "10Ki"), ("b", "10Ki"), ("c", "17Ki")] {
        let limits = json!({ "ephemeral-storage": limit });
        scene
            .put(uid, &json!({}), &spec(&json!({}), &limits), 0)
            .await;
    }
    scene.pass(25).await;
    let message = "Pod ephemeral local storage usage exceeds the total limit of containers 10Ki. ";
    for uid in ["a", "b"] {
        is_evicted(&scene, uid, message).await;
    }
    assert!(scene.look().is_running("sound") && scene.look().is_running("c"));
    let text = figures(&scene);
    let line = "kubelet_evictions{eviction_signal=\"ephemeralpodfs.limit\"} 2";
    assert!(text.lines().any(|one| one == line), "{text}");
}

#[tokio::test(start_paused = true)]
async fn one_container_may_be_too_much_though_the_pod_is_not() {
    let mut scene = Scene::new();
    let mut spec = spec(&json!({}), &json!({ "ephemeral-storage": "10Ki" }));
    let roomy = json!({ "ephemeral-storage": "1Gi" });
    let other = json!({
        "name": "roomy", "image": "i:1", "imagePullPolicy": "IfNotPresent",
        "resources": { "limits": roomy },
    });
    spec["containers"].as_array_mut().unwrap().push(other);
    scene.put("p", &json!({}), &spec, 30).await;
    assert!(!scene.look().is_running("p"));
    assert_eq!(
        scene.said("p")["message"],
        "Container c exceeded its local ephemeral storage limit \"10Ki\". "
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_looks_at_disks_while_no_pod_that_lives_has_a_limit() {
    let mut scene = Scene::new();
    let limits = json!({ "ephemeral-storage": "1Gi" });
    let once = |mut spec: Value| {
        spec["restartPolicy"] = json!("Never");
        spec
    };
    scene
        .put("free", &json!({}), &spec(&json!({}), &json!({})), 600)
        .await;
    assert_eq!(looks(&scene), 0);
    let limited = once(spec(&json!({}), &limits));
    scene.put("limited", &json!({}), &limited, 100).await;
    let asked = looks(&scene);
    assert!((5..=10).contains(&asked), "{asked}");
    scene.take_away("limited");
    scene.pass(30).await;
    let asked = looks(&scene);
    scene.pass(600).await;
    assert_eq!(looks(&scene), asked);
}
