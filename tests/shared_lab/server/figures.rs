//! Figures: names, types and labels of our node beside those of an upstream one that has
//! lived the same, and beside the table that says which of them a node serves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::lab::{Agent, BUSYBOX_IMAGE, Lab, Node, Runtime};
use testkit::workload::Workload;
use testkit::{command, wait};

const READY: Duration = Duration::from_secs(90);
const SOON: Duration = Duration::from_secs(60);

const PODS: usize = 3;

/// Name, type, labels, whether it is served, and by which crate or why not.
const TABLE: &str = include_str!("../../../crates/server/testdata/metrics.tsv");

/// Where nobody has to say who he is; and volumes are counted soon.
const CONFIG: &str = "readOnlyPort: 10255\nvolumeStatsAggPeriod: 5s\n";

/// Where a claim's volume is on its node.
const KEPT: &str = "/var/kept";

/// The type of a family, and the names of its labels, as far as it has samples.
type Shape = (String, BTreeSet<String>);

#[test]
fn names_types_and_labels_of_figures_are_upstreams() -> Result<()> {
    let lab = Lab::shared()?;
    let ours = lab.node("figures-ours", Runtime::Containerd2)?;
    let theirs = lab.node("figures-theirs", Runtime::Containerd2)?;
    ours.start_agent(Agent::Ferrolet, CONFIG, &[])?;
    theirs.start_agent(Agent::Upstream, CONFIG, &[])?;
    let mut workloads = Vec::new();
    for node in [&ours, &theirs] {
        node.wait_ready(READY)?;
        ask(&lab, node)?;
        let script = "sleep 1; exit 3";
        let ending = Workload::create(
            lab.kubectl(),
            &format!("{}-end", node.name()),
            node,
            1,
            script,
        )?;
        let script = "exec sleep 100000";
        let staying = Workload::create(lab.kubectl(), node.name(), node, PODS, script)?;
        staying.wait_running(PODS, SOON)?;
        claim(&lab, node, staying.namespace())?;
        workloads.extend([ending, staying]);
    }
    // Some of them come with something that each side does in its own time.
    wait::until("the same figures on both nodes", SOON, || {
        let differences = differences(&lived(&ours)?, &lived(&theirs)?);
        ensure!(differences.is_empty(), "{}", differences.join("\n"));
        Ok(())
    })?;
    for workload in workloads {
        workload.delete()?;
    }
    for node in [&ours, &theirs] {
        lab.kubectl().run(["delete", "pv", node.name()])?;
    }
    for node in [ours, theirs] {
        node.remove()?;
    }
    Ok(())
}

/// All figures of a node on which pods have run with a claim, and one has ended.
fn lived(node: &Node) -> Result<BTreeMap<String, Shape>> {
    let metrics = page(node, "/metrics")?;
    for family in [
        "kubelet_terminated_containers_total{",
        "kubelet_container_log_filesystem_used_bytes{",
        "kubelet_volume_stats_used_bytes{",
    ] {
        ensure!(metrics.contains(family), "{} has no {family}", node.name());
    }
    let running = running(&metrics);
    ensure!(
        running.is_some_and(|running| running >= PODS),
        "{running:?} pods run"
    );
    let mut shapes = shapes(&metrics);
    for path in ["/metrics/probes", "/metrics/slis"] {
        shapes.extend(self::shapes(&page(node, path)?));
    }
    Ok(shapes)
}

/// Somebody with a certificate and somebody with a token: what is counted of those is on the
/// pages only where somebody came.
fn ask(lab: &Lab, node: &Node) -> Result<()> {
    let path = format!("/api/v1/nodes/{}/proxy/healthz", node.name());
    wait::until("an answer through the API server", SOON, || {
        lab.kubectl().run(["get", "--raw", &path])
    })?;
    // The node asks for half a minute whose token it is.
    wait::until("an answer to a token", SOON, || {
        let mut curl = node.machine().command("curl");
        curl.args(["--silent", "--show-error", "--insecure", "--max-time", "45"]);
        curl.args(["--header", "Authorization: Bearer made-up"]);
        command::run(curl.arg("https://127.0.0.1:10250/healthz"))
    })?;
    Ok(())
}

/// A pod that has a directory of its node by a claim.
fn claim(lab: &Lab, node: &Node, namespace: &str) -> Result<()> {
    node.machine().run("mkdir", ["-p", KEPT])?;
    let name = node.name();
    let term = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [name] });
    let affinity = json!({ "nodeSelectorTerms": [{ "matchExpressions": [term] }] });
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": "1Mi" }, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "", "persistentVolumeReclaimPolicy": "Retain",
            "local": { "path": KEPT }, "nodeAffinity": { "required": affinity },
        },
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "kept", "namespace": namespace },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name,
            "resources": { "requests": { "storage": "1Mi" } },
        },
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "keeper", "namespace": namespace },
        "spec": {
            "nodeName": name, "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": BUSYBOX_IMAGE, "command": ["sleep", "100000"],
                "volumeMounts": [{ "name": "kept", "mountPath": "/kept" }],
            }],
            "volumes": [{ "name": "kept", "persistentVolumeClaim": { "claimName": "kept" } }],
        },
    });
    for object in [volume, claim, pod] {
        lab.kubectl().apply(&object.to_string())?;
    }
    Ok(())
}

fn differences(ours: &BTreeMap<String, Shape>, theirs: &BTreeMap<String, Shape>) -> Vec<String> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split('\t').collect()).collect();
    let row = |name: &str| {
        let of_many = |row: &&Vec<&str>| {
            let beginning = row[0].strip_suffix('*');
            beginning.is_some_and(|beginning| name.starts_with(beginning))
        };
        let own = rows.iter().find(|row| row[0] == name);
        own.or_else(|| rows.iter().find(of_many))
    };
    let mut found = Vec::new();
    for (name, (kind, labels)) in theirs {
        let Some(row) = row(name) else {
            found.push(format!("{name} is upstream's and not in the table"));
            continue;
        };
        if row[0].ends_with('*') {
            continue;
        }
        let told: BTreeSet<String> = words(row[2]);
        if row[1] != kind || told != *labels {
            found.push(format!(
                "{name} is a {kind} by {labels:?}, the table says {row:?}"
            ));
        }
        if row[3] == "yes" && !ours.contains_key(name) && !tells_of_trouble(name) {
            found.push(format!("{name} is upstream's, to be served, and not ours"));
        }
    }
    for (name, (kind, labels)) in ours {
        // Our own are in a room of their own.
        if name.starts_with("ferrolet_") {
            continue;
        }
        let Some(row) = row(name) else {
            found.push(format!("{name} is ours and not in the table"));
            continue;
        };
        if row[1] != kind || words(row[2]) != *labels || row[3] != "yes" {
            found.push(format!(
                "our {name} is a {kind} by {labels:?}, the table says {row:?}"
            ));
        }
    }
    found
}

/// Those that are there once something has gone wrong, which it may on one node and not on the
/// other. Their types and labels are compared where they are there.
fn tells_of_trouble(name: &str) -> bool {
    name.contains("_errors") || name.contains("_retries")
}

fn words(list: &str) -> BTreeSet<String> {
    let words = list.split(',').filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

fn page(node: &Node, path: &str) -> Result<String> {
    let mut curl = node.machine().command("curl");
    let place = format!("http://127.0.0.1:10255{path}");
    curl.args(["--silent", "--show-error", "--fail", "--max-time", "10"]);
    command::run(curl.arg(place))
}

fn running(page: &str) -> Option<usize> {
    let mut lines = page.lines();
    let count = lines.find_map(|line| line.strip_prefix("kubelet_running_pods "))?;
    count.parse().ok()
}

fn shapes(page: &str) -> BTreeMap<String, Shape> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    let mut current = String::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            name.clone_into(&mut current);
            shapes.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
        } else if !line.starts_with('#')
            && let Some((_, labels)) = &mut shapes.get_mut(&current)
        {
            labels.extend(label_names(line));
        }
    }
    shapes
}

/// But for those of buckets.
fn label_names(sample: &str) -> Vec<String> {
    let Some((_, rest)) = sample.split_once('{') else {
        return Vec::new();
    };
    let mut names = Vec::new();
    let (mut name, mut quoted, mut escaped) = (String::new(), false, false);
    for letter in rest.chars() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '}' => break,
            '=' => names.push(std::mem::take(&mut name)),
            ',' => {}
            other => name.push(other),
        }
    }
    names.retain(|name| name != "le" && name != "quantile");
    names
}
