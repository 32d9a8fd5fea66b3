//! What changes in a pod's volumes while it runs is seen from inside, and soon: objects
//! that others change, and what the pod is told of itself.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use testkit::compare::Api;
use testkit::lab::Runtime;
use testkit::wait;

use super::{uid, wait_no_trace};
use crate::pods::stage::{SOON, Stage, identity, shell};

const ROUNDS: usize = 3;
/// As is promised of what is followed by a watch.
const AT_MOST: Duration = Duration::from_secs(2);

/// Tells of what it sees whenever that is something else.
const WATCH: &str = "\
trap 'exit 0' TERM
last=
while sleep 0.05; do
    read -r map < /map/key
    read -r secret < /secret/key
    read -r labels < /self/labels
    read -r note < /all/note
    read -r cpu < /all/cpu
    now=\"$map $secret $labels $note $cpu\"
    [ \"$now\" = \"$last\" ] || echo \"$now\"
    last=$now
done 2>/dev/null";

/// How much of a CPU it has at first, in thousandths.
const CPU: usize = 300;

fn volumes() -> Value {
    let limit = json!({"containerName": "main", "resource": "limits.cpu", "divisor": "1m"});
    let note = json!({"fieldPath": "metadata.annotations['note']"});
    let items =
        json!([{"path": "note", "fieldRef": note}, {"path": "cpu", "resourceFieldRef": limit}]);
    let labels = json!([{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]);
    json!([
        {"name": "map", "configMap": {"name": "c"}},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "self", "downwardAPI": {"items": labels}},
        {"name": "all", "projected": {"sources": [{"downwardAPI": {"items": items}}]}},
    ])
}

/// What changes in each round: where it is asked for, and with what.
fn changes(round: usize) -> [(&'static str, Value); 5] {
    let cpu = json!({"cpu": format!("{}m", CPU + round)});
    let main = json!({"name": "main", "resources": {"requests": cpu, "limits": cpu}});
    [
        (
            "configmaps/c",
            json!({"data": {"key": format!("map-{round}")}}),
        ),
        (
            "secrets/s",
            json!({"stringData": {"key": format!("secret-{round}")}}),
        ),
        (
            "pods/p",
            json!({"metadata": {"labels": {"round": round.to_string()}}}),
        ),
        (
            "pods/p",
            json!({"metadata": {"annotations": {"note": format!("note-{round}")}}}),
        ),
        ("pods/p/resize", json!({"spec": {"containers": [main]}})),
    ]
}

/// What it sees then, when so many of a round's changes were made.
fn view(round: usize, made: usize) -> String {
    let of = |which: usize| if which < made { round } else { round - 1 };
    let [map, secret, label, note, cpu] = [0, 1, 2, 3, 4].map(of);
    let cpu = CPU + cpu;
    format!("map-{map} secret-{secret} round=\"{label}\" note-{note} {cpu}")
}

/// When the container has said this, by the runtime's clock, which is ours.
fn said_at(log: &Path, wanted: &str) -> Result<SystemTime> {
    let log = fs::read_to_string(log)?;
    let mut lines = log.lines().rev().filter_map(|line| {
        let (at, rest) = line.split_once(' ')?;
        Some((at, rest.strip_prefix("stdout F ")?))
    });
    let found = lines.find(|(_, said)| *said == wanted);
    let (at, _) = found.with_context(|| format!("it has not said {wanted:?}: {log}"))?;
    Ok(SystemTime::from(at.parse::<Timestamp>()?))
}

#[test]
fn what_changes_while_a_pod_runs_is_seen_from_inside_within_two_seconds() -> Result<()> {
    let stage = Stage::ours("volumes-seen", Runtime::Containerd2)?;
    let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let mut map = object("ConfigMap", "c");
    map["data"] = json!({"key": "map-0"});
    let mut secret = object("Secret", "s");
    secret["stringData"] = json!({"key": "secret-0"});
    let mut container = shell(WATCH);
    let names = ["map", "secret", "self", "all"];
    let mounts = names.map(|name| json!({"name": name, "mountPath": format!("/{name}")}));
    container["volumeMounts"] = json!(mounts);
    container["resources"] = json!({"limits": {"cpu": format!("{CPU}m"), "memory": "64Mi"}});
    let mut pod = object("Pod", "p");
    pod["metadata"]["labels"] = json!({"round": "0"});
    pod["metadata"]["annotations"] = json!({"note": "note-0"});
    pod["spec"] = stage.spec(container, json!({"volumes": volumes()}));
    for object in [&map, &secret, &pod] {
        stage.create(object)?;
    }
    let before = stage.wait_ready("p")?;
    let uid = uid(&before)?.to_owned();
    let log = format!("/var/log/pods/{}_p_{uid}/main/0.log", stage.namespace());
    let log = stage.node.machine().file(&log);
    let wait_said =
        |wanted: &str| wait::until("a change to be seen", SOON, || said_at(&log, wanted));
    wait_said(&view(1, 0))?;

    let api = Api::open(&stage.lab, "volumes-seen")?;
    let mut rounds = 1..;
    wait::promised("the slowest of the changes in the median", AT_MOST, || {
        let mut took: [Vec<Duration>; 5] = Default::default();
        for round in rounds.by_ref().take(ROUNDS) {
            for (number, (path, patch)) in changes(round).into_iter().enumerate() {
                let path = format!("/api/v1/namespaces/{}/{path}", stage.namespace());
                api.patch(&path, &patch)?;
                let changed = SystemTime::now();
                let said = wait_said(&view(round, number + 1))?;
                // It may have been seen before curl had ended.
                took[number].push(said.duration_since(changed).unwrap_or_default());
            }
        }
        let mut slowest = Duration::ZERO;
        let names = ["configMap", "secret", "labels", "annotation", "limit"];
        for (what, took) in names.iter().zip(&mut took) {
            took.sort();
            println!("{what}: seen from inside after {took:?}");
            slowest = slowest.max(took[ROUNDS / 2]);
        }
        Ok((slowest, ()))
    })?;
    let (before, after) = (identity(&before), identity(&stage.pod("p")?));
    for field in ["uid", "container", "restarts"] {
        let (before, after) = (&before[field], &after[field]);
        ensure!(before == after, "{before} became {after}");
    }
    stage.run(&["delete", "pod", "p", "--timeout=60s"])?;
    wait_no_trace(&stage, &uid)?;
    stage.end()
}
