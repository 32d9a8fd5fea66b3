//! What pods use: our node and an upstream one run the same pods and are asked the same.
//! Shapes are compared, with a list of what may differ and why; values are compared with
//! what the pods are known to do.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use testkit::lab::{BUSYBOX_IMAGE, Kubectl, Lab, Node, Runtime};
use testkit::wait;

use super::door;

const READY: Duration = Duration::from_secs(60);
const RUNNING: Duration = Duration::from_secs(120);
const PATIENCE: Duration = Duration::from_secs(120);
const SHAPED: Duration = Duration::from_secs(90);

/// So that upstream counts volumes while we wait.
const CONFIG: &str = "volumeStatsAggPeriod: 5s\n";

const MEBIBYTE: u64 = 1 << 20;

/// What one of the pods has in memory.
const KNOWN: u64 = 64 * MEBIBYTE;

/// Names of `/metrics/cadvisor` that only upstream has.
const ONLY_UPSTREAM: &[(&str, &str)] = &[
    (
        "container_cpu_load_average_10s",
        "its reader is off in a kubelet: always 0",
    ),
    (
        "container_cpu_load_d_average_10s",
        "its reader is off in a kubelet: always 0",
    ),
    (
        "container_tasks_state",
        "its reader is off in a kubelet: always 0",
    ),
    (
        "container_health_state",
        "health checks are docker's: always -1",
    ),
    ("machine_cpu_books", "of mainframes: always 0 elsewhere"),
    ("machine_cpu_drawers", "of mainframes: always 0 elsewhere"),
    (
        "machine_nvm_avg_power_budget_watts",
        "needs a library that kubelets are built without",
    ),
    (
        "machine_nvm_capacity",
        "needs a library that kubelets are built without",
    ),
];

/// Names that only we have.
const ONLY_OURS: &[(&str, &str)] = &[];

/// Paths of the summary that differ.
const SUMMARY: &[(&str, &str)] = &[];

/// A node with the pods of this test.
struct Scene<'a> {
    kubectl: Kubectl,
    node: &'a Node,
    namespace: String,
}

impl<'a> Scene<'a> {
    fn begin(lab: &Lab, node: &'a Node) -> Result<Self> {
        let scene = Self {
            kubectl: lab.kubectl(),
            node,
            namespace: format!("{}-{}", node.name(), std::process::id()),
        };
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": scene.namespace },
        });
        scene.kubectl.apply(&namespace.to_string())?;
        let account = ["get", "serviceaccount", "default", "--namespace"];
        wait::until("the namespace's service account", READY, || {
            let words = [&account[..], &[&scene.namespace]].concat();
            scene.kubectl.run(words)
        })?;
        let fill = format!(
            "dd if=/dev/zero of=/memory/file bs=1M count={}; exec sleep 100000",
            KNOWN / MEBIBYTE
        );
        scene.pod(
            "busy",
            "while :; do :; done",
            &json!({}),
            &json!([{ "name": "scratch", "emptyDir": {} }]),
        )?;
        scene.pod(
            "holding",
            &fill,
            &json!({
                "requests": { "memory": "32Mi", "cpu": "10m" },
                "limits": { "memory": "128Mi", "cpu": "500m" },
            }),
            &json!([{ "name": "memory", "emptyDir": { "medium": "Memory" } }]),
        )?;
        Ok(scene)
    }

    fn pod(&self, name: &str, script: &str, resources: &Value, volumes: &Value) -> Result<()> {
        let volume = volumes[0]["name"].as_str().unwrap_or_default();
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "namespace": self.namespace },
            "spec": {
                "nodeName": self.node.name(),
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script],
                    "resources": resources,
                    "volumeMounts": [{ "name": volume, "mountPath": format!("/{volume}") }],
                }],
                "volumes": volumes,
            },
        });
        self.kubectl.apply(&pod.to_string())?;
        Ok(())
    }

    fn wait_running(&self) -> Result<()> {
        wait::until("two pods that run", RUNNING, || {
            let pods = self
                .kubectl
                .json(["--namespace", &self.namespace, "get", "pods"])?;
            let phases = pods["items"].as_array().context("items")?.iter();
            let phases: Vec<_> = phases.map(|pod| &pod["status"]["phase"]).collect();
            ensure!(phases == ["Running", "Running"], "{phases:?}");
            Ok(())
        })
    }

    fn raw(&self, path: &str) -> Result<String> {
        door::through_api(&self.kubectl, self.node, path)
    }

    fn summary(&self, query: &str) -> Result<Value> {
        Ok(serde_json::from_str(
            &self.raw(&format!("/stats/summary{query}"))?,
        )?)
    }

    fn pod_stats(&self, name: &str) -> Result<Value> {
        let mut summary = self.summary("")?;
        let pods = summary["pods"].as_array_mut().context("pods")?;
        let own = |pod: &&mut Value| {
            pod["podRef"]["name"] == name && pod["podRef"]["namespace"] == self.namespace
        };
        let pod = pods.iter_mut().find(own);
        Ok(pod.with_context(|| format!("no {name}"))?.take())
    }

    fn end(self) -> Result<()> {
        let wait = ["--wait=true", "--timeout=180s"];
        let words = ["delete", "namespace", &self.namespace, wait[0], wait[1]];
        self.kubectl.run(words)?;
        Ok(())
    }
}

#[test]
fn what_pods_use_is_told_as_upstream_tells_it() -> Result<()> {
    let lab = Lab::shared()?;
    let theirs = lab.node("stats-theirs", Runtime::Containerd2)?;
    let ours = lab.node("stats-ours", Runtime::Containerd2)?;
    theirs.start_upstream_kubelet(CONFIG)?;
    ours.start_ferrolet(CONFIG)?;
    for node in [&theirs, &ours] {
        node.wait_ready(READY)?;
    }
    let (theirs, ours) = (Scene::begin(&lab, &theirs)?, Scene::begin(&lab, &ours)?);
    for scene in [&theirs, &ours] {
        scene.wait_running()?;
    }
    for query in ["", "?only_cpu_and_memory=true"] {
        wait::until("summaries of one shape", SHAPED, || {
            let shapes = (shape(&theirs.summary(query)?), shape(&ours.summary(query)?));
            no_difference(&shapes.0, &shapes.1, SUMMARY, SUMMARY)
        })
        .with_context(|| format!("/stats/summary{query}"))?;
    }
    for (path, only_theirs, only_ours) in [
        ("/metrics/resource", &[][..], &[][..]),
        ("/metrics/cadvisor", ONLY_UPSTREAM, ONLY_OURS),
    ] {
        wait::until("the same families", SHAPED, || {
            let (theirs, ours) = (families(&theirs.raw(path)?), families(&ours.raw(path)?));
            no_difference(&theirs, &ours, only_theirs, only_ours)
        })
        .with_context(|| path.to_owned())?;
    }
    let rows = |scene: &Scene<'_>| rows(&scene.raw("/metrics/cadvisor")?, &scene.namespace);
    wait::until("the same rows", SHAPED, || {
        let (ours, theirs) = (rows(&ours)?, rows(&theirs)?);
        ensure!(ours == theirs, "ours {ours:?}, upstream's {theirs:?}");
        Ok(())
    })?;
    values_are_what_the_pods_do(&ours)?;
    for scene in [theirs, ours] {
        scene.end()?;
    }
    Ok(())
}

/// The paths of everything that is in a value.
fn shape(value: &Value) -> BTreeSet<String> {
    fn walk(path: &str, value: &Value, paths: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    walk(&format!("{path}.{name}"), value, paths);
                }
            }
            Value::Array(items) => {
                for item in items {
                    walk(&format!("{path}[]"), item, paths);
                }
            }
            Value::String(_) => _ = paths.insert(format!("{path}: text")),
            Value::Number(_) => _ = paths.insert(format!("{path}: number")),
            Value::Bool(_) => _ = paths.insert(format!("{path}: bool")),
            Value::Null => _ = paths.insert(format!("{path}: null")),
        }
    }
    let mut paths = BTreeSet::new();
    walk("", value, &mut paths);
    paths
}

/// Names with their type and the names of their labels.
fn families(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let types: BTreeMap<&str, &str> = types.filter_map(|line| line.split_once(' ')).collect();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let families = samples.filter_map(|line| {
        let name = line.split(['{', ' ']).next()?;
        let labels: Vec<String> = labels(line).into_keys().collect();
        let kind = types.get(name)?;
        let values = line.rsplit('}').next()?.split_whitespace().count();
        let timed = if values == 2 { " timed" } else { "" };
        Some(format!("{name} {kind} {}{timed}", labels.join(",")))
    });
    families.collect()
}

fn labels(line: &str) -> BTreeMap<String, String> {
    let labels = line
        .split_once('{')
        .and_then(|(_, rest)| rest.rsplit_once('}'));
    let labels = labels.map_or("", |(labels, _)| labels).split("\",");
    let pairs = labels.filter_map(|pair| pair.split_once("=\""));
    pairs
        .map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned()))
        .collect()
}

/// Whose memory is told of in a namespace, and of which image that is.
fn rows(text: &str, namespace: &str) -> Result<BTreeSet<[String; 3]>> {
    let lines = text.lines();
    let memory = lines.filter(|line| line.starts_with("container_memory_working_set_bytes{"));
    let mut rows = BTreeSet::new();
    for line in memory {
        let labels = labels(line);
        let of = |name: &str| labels.get(name).cloned().context(name.to_owned());
        if of("namespace")? == namespace {
            rows.insert([of("pod")?, of("container")?, of("image")?]);
        }
    }
    Ok(rows)
}

fn no_difference(
    theirs: &BTreeSet<String>,
    ours: &BTreeSet<String>,
    only_theirs: &[(&str, &str)],
    only_ours: &[(&str, &str)],
) -> Result<()> {
    let listed = |list: &[(&str, &str)], found: &str| {
        let name = found.split(' ').next().unwrap_or_default();
        list.iter().any(|(listed, _)| *listed == name)
    };
    let missing = theirs.difference(ours);
    let missing: Vec<_> = missing.filter(|one| !listed(only_theirs, one)).collect();
    let more = ours.difference(theirs);
    let more: Vec<_> = more.filter(|one| !listed(only_ours, one)).collect();
    if missing.is_empty() && more.is_empty() {
        return Ok(());
    }
    bail!("only upstream has {missing:#?}; only we have {more:#?}")
}

/// One uses what it gets of a CPU, the other holds a known amount of memory.
fn values_are_what_the_pods_do(scene: &Scene<'_>) -> Result<()> {
    let number = |value: &Value| value.as_u64().context("a number");
    let holding = scene.pod_stats("holding")?;
    let memory = &holding["containers"][0]["memory"];
    for bytes in [
        &holding["memory"]["workingSetBytes"],
        &memory["workingSetBytes"],
    ] {
        let bytes = number(bytes)?;
        ensure!(
            (KNOWN..=KNOWN + KNOWN / 10).contains(&bytes),
            "{bytes} bytes are not {KNOWN}"
        );
    }
    let used = number(&memory["workingSetBytes"])?;
    assert_eq!(number(&memory["availableBytes"])? + used, 128 * MEBIBYTE);
    let volume = &holding["volume"].as_array().context("volumes")?;
    let volume = volume.iter().find(|one| one["name"] == "memory");
    let volume = number(&volume.context("the volume")?["usedBytes"])?;
    assert_eq!(volume, KNOWN);

    // Others use this machine, too: what counts is that two ways to ask agree.
    let cpu = |scene: &Scene<'_>| -> Result<(f64, f64)> {
        let text = scene.raw("/metrics/resource")?;
        let line = text.lines().find(|line| {
            line.starts_with("pod_cpu_usage_seconds_total{") && {
                let labels = labels(line);
                labels["pod"] == "busy" && labels["namespace"] == scene.namespace
            }
        });
        let line = line.context("the busy pod")?;
        let mut words = line.rsplit(' ');
        let millis: f64 = words.next().context("a time")?.parse()?;
        let seconds: f64 = words.next().context("a value")?.parse()?;
        Ok((millis / 1000.0, seconds))
    };
    // The spans of the two overlap, and are not the same: on a machine on which a pod gets a
    // core in one moment and none in the next they agree only now and then.
    wait::until("two ways to ask that agree", PATIENCE, || {
        let before = cpu(scene)?;
        sleep(Duration::from_secs(10));
        let busy = scene.pod_stats("busy")?;
        let after = cpu(scene)?;
        let rate = (after.1 - before.1) / (after.0 - before.0);
        ensure!((0.01..=1.1).contains(&rate), "{rate} of a core");
        let told = busy["cpu"]["usageNanoCores"].as_f64().context("a rate")? / 1e9;
        ensure!(
            (told / rate - 1.0).abs() < 0.3,
            "{told} of a core, and {rate} by what was used"
        );
        Ok(())
    })
}

#[test]
fn kubectl_top_works_with_our_node() -> Result<()> {
    let lab = Lab::shared()?;
    let node = lab.node("stats-top", Runtime::Containerd2)?;
    node.start_ferrolet("")?;
    node.wait_ready(READY)?;
    let scene = Scene::begin(&lab, &node)?;
    scene.wait_running()?;
    lab.start_metrics_server()?;
    let figures = wait::until("figures of the node", PATIENCE, || {
        scene
            .kubectl
            .run(["top", "node", node.name(), "--no-headers"])
    })?;
    let words: Vec<&str> = figures.split_whitespace().collect();
    ensure!(
        words[0] == node.name() && words[1].ends_with('m'),
        "{figures}"
    );
    let figures = wait::until("figures of the pods", PATIENCE, || {
        let namespace = ["--namespace", &scene.namespace];
        let top = [namespace[0], namespace[1], "top", "pod", "--no-headers"];
        let said = scene.kubectl.run(top)?;
        ensure!(said.lines().count() == 2, "{said}");
        Ok(said)
    })?;
    for line in figures.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0] == "holding" {
            let memory: u64 = words[2].trim_end_matches("Mi").parse()?;
            ensure!((64..=70).contains(&memory), "{line}");
        } else {
            let cpu: u64 = words[1].trim_end_matches('m').parse()?;
            ensure!((1..=1100).contains(&cpu), "{line}");
        }
    }
    scene.end()
}
