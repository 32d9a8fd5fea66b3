//! What is counted while pods live and end; and that its names are those of the table
//! that says which of upstream's names a node serves.

use std::collections::BTreeMap;

use serde_json::json;
use types::figures::{Family, Kind, Page};

use crate::scenes::Scene;

/// Name, type, labels, whether it is served, and by which crate or why not.
const TABLE: &str = include_str!("../../crates/server/testdata/metrics.tsv");

/// The crates that a pod loop is made of.
const LOOP: [&str; 7] = [
    "images",
    "pleg",
    "probes",
    "resources",
    "seams",
    "volumes",
    "workers",
];

fn rows() -> impl Iterator<Item = [&'static str; 5]> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        columns.try_into().unwrap()
    })
}

/// As the table has it.
fn described(page: &Page) -> BTreeMap<String, (String, String)> {
    let own = |family: &&Family| !family.name.starts_with("ferrolet_");
    let families = page.described().iter().filter(own);
    let entry = |family: &Family| {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let shape = (kind.to_owned(), family.labels.join(","));
        (family.name.to_owned(), shape)
    };
    families.map(entry).collect()
}

#[test]
fn every_name_of_upstreams_is_served_or_it_is_said_why_not() {
    let mut last = "";
    for [name, kind, labels, served, why] in rows() {
        assert!(last < name, "{name} is not in order");
        last = name;
        let kinds = ["counter", "gauge", "histogram"];
        assert!(kinds.contains(&kind) || name.ends_with('*'), "{name}");
        let mut sorted: Vec<&str> = labels.split(',').collect();
        sorted.sort_unstable();
        assert_eq!(sorted.join(","), labels, "{name}");
        assert!(["yes", "no"].contains(&served), "{name}");
        assert!(!why.is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_pod_loop_have_the_figures_that_the_table_says() {
    let scene = Scene::new();
    scene.pass(5).await;
    let boards = &scene.node.figures;
    let mut found = described(&boards.node.page());
    found.extend(described(&boards.probes.page()));
    let wanted = rows().filter(|[.., served, by]| *served == "yes" && LOOP.contains(by));
    let wanted = wanted
        .map(|[name, kind, labels, ..]| (name.to_owned(), (kind.to_owned(), labels.to_owned())));
    let wanted: BTreeMap<String, (String, String)> = wanted.collect();
    for (name, shape) in &wanted {
        assert_eq!(found.get(name), Some(shape), "{name}");
    }
    for name in found.keys() {
        assert!(wanted.contains_key(name), "{name} is not in the table");
    }
    for family in boards.node.page().described() {
        let mut labels = family.labels.to_vec();
        labels.sort_unstable();
        assert_eq!(labels, family.labels, "{}", family.name);
    }
}

#[tokio::test(start_paused = true)]
async fn lives_and_ends_of_pods_are_counted() {
    let mut scene = Scene::new();
    scene.pass(20).await;
    let live = json!({
        "periodSeconds": 1, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3,
        "exec": { "command": ["true"] },
    });
    let spec = json!({
        "containers": [{
            "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent", "livenessProbe": live,
            "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
        }],
        "volumes": [{ "name": "v", "emptyDir": {} }],
    });
    scene.put("well", &json!({}), &spec, 10).await;
    let crash = json!({ "sim.ferrolet.dev/run-time": "1s", "sim.ferrolet.dev/exit-code": "3" });
    let once = json!({
        "restartPolicy": "Never",
        "containers": [{ "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent" }],
    });
    scene.put("once", &crash, &once, 10).await;
    let greedy = json!({
        "containers": [{ "name": "c", "image": "i:1", "resources": { "requests": { "cpu": "99" } } }],
    });
    scene.put("greedy", &json!({}), &greedy, 10).await;
    let shown = |scene: &Scene| scene.node.figures.node.page().finish();
    let text = shown(&scene);
    let has = |text: &str, line: &str| {
        assert!(
            text.lines().any(|one| one == line),
            "{line} is not in\n{text}"
        );
    };
    for line in [
        "kubelet_running_pods 1",
        "kubelet_running_containers{container_state=\"running\"} 1",
        "kubelet_running_containers{container_state=\"exited\"} 1",
        "kubelet_started_pods_total 2",
        "kubelet_started_pods_errors_total 0",
        "kubelet_started_containers_total{container_type=\"container\"} 2",
        "kubelet_terminated_containers_total{container_type=\"container\",exit_code=\"3\",reason=\"Error\"} 1",
        "kubelet_admission_rejections_total{reason=\"OutOfcpu\"} 1",
        "kubelet_desired_pods{static=\"\"} 3",
        "kubelet_active_pods{static=\"\"} 1",
        "kubelet_working_pods{config=\"desired\",lifecycle=\"sync\",static=\"\"} 1",
        "kubelet_working_pods{config=\"desired\",lifecycle=\"terminated\",static=\"\"} 2",
        "kubelet_containers_per_pod_count_count 2",
        "kubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 2",
        "kubelet_run_podsandbox_duration_seconds_count{runtime_handler=\"\"} 2",
        "kubelet_pod_start_duration_seconds_count 2",
        "volume_manager_total_volumes{plugin_name=\"kubernetes.io/empty-dir\",state=\"actual_state_of_world\"} 1",
    ] {
        has(&text, line);
    }
    for beginning in [
        "kubelet_cgroup_manager_duration_seconds_count{operation_type=\"destroy\"}",
        "kubelet_image_pull_duration_seconds_count{image_size_in_bytes=",
        "kubelet_pod_worker_duration_seconds_count{operation_type=\"create\"}",
        "kubelet_pod_worker_duration_seconds_count{operation_type=\"terminated\"}",
    ] {
        let any = text.lines().any(|line| line.starts_with(beginning));
        assert!(any, "{beginning} is not in\n{text}");
    }
    let probed = scene.node.figures.probes.page().finish();
    assert!(probed.contains("prober_probe_total{container=\"c\",namespace=\"shop\",pod=\"well\",pod_uid=\"well\",probe_type=\"Liveness\",result=\"successful\"}"), "{probed}");
    for uid in ["well", "once", "greedy"] {
        scene.take_away(uid);
    }
    scene.pass(60).await;
    let text = shown(&scene);
    for line in [
        "kubelet_running_pods 0",
        "kubelet_desired_pods{static=\"\"} 0",
        "kubelet_working_pods{config=\"desired\",lifecycle=\"terminated\",static=\"\"} 0",
    ] {
        has(&text, line);
    }
    assert!(!text.contains("volume_manager_total_volumes{"), "{text}");
    assert_eq!(scene.node.figures.probes.page().finish(), "");
}

#[tokio::test(start_paused = true)]
async fn a_pod_to_which_nothing_happens_is_looked_at_each_minute_or_somewhat_later() {
    let mut scene = Scene::new();
    let spec = json!({
        "containers": [{ "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent" }],
    });
    scene.put("p", &json!({}), &spec, 60).await;
    let looks = |scene: &Scene| {
        let name = "kubelet_pod_worker_duration_seconds_count{operation_type=\"sync\"} ";
        let text = scene.node.figures.node.page().finish();
        let count = text.lines().find_map(|line| line.strip_prefix(name));
        count.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    let before = looks(&scene);
    scene.pass(600).await;
    // After sixty to ninety seconds each.
    let more = looks(&scene) - before;
    assert!((6..=10).contains(&more), "{more}");
}
