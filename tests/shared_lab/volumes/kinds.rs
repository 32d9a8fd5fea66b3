//! Every kind and its options, looked at from inside.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::lab::Agent;

use super::{on_node, printed, uid, wait_no_trace};
use crate::pods::stage::{Stage, shell};

const PLACE: &str = "/var/lib/of-the-node";

/// Looks at everything, and ends.
const LOOK: &str = "\
look() { stat -L -c '%a %u %g' $1; }
echo plain $(look /plain)
echo fast $(look /fast) $(grep ' /fast ' /proc/mounts | cut -d' ' -f3) $(df -k /fast | tail -1 | awk '{print $2}')
echo node $(cat /node/file) $(look /node/file) $(look /node/made)
echo config $(cat /config/dir/a) $(look /config/dir/a) $(cat /config/b) $(look /config/b) $(ls /config | wc -l)
echo secret $(cat /secret/key) $(look /secret/key)
echo self $(cat /self/labels) $(cat /self/cpu) $(cat /self/memory) $(look /self/cpu)
echo token $(look /access/token) $(test -r /access/token && wc -c < /access/token | awk '{print ($1 > 500)}')
echo access $(cat /access/map) $(cat /access/name)
echo part $(look /part) $(cat /one-key) $(look /named)
touch /plain/x /fast/x /part/x && echo written
for d in config secret self access; do touch /$d/x 2>/dev/null && echo $d can be written; done
dd if=/dev/zero of=/fast/much bs=64k count=64 2>/dev/null || echo full
echo from a pod > /node/left";

fn volumes() -> Value {
    let field = |path: &str, field: &str| json!({"path": path, "fieldRef": {"fieldPath": field}});
    let resource = |path: &str, resource: &str, divisor: &str| {
        let of = json!({"containerName": "main", "resource": resource, "divisor": divisor});
        json!({"path": path, "resourceFieldRef": of})
    };
    let items = json!([{"key": "a", "path": "dir/a", "mode": 0o400}, {"key": "b", "path": "b"}]);
    json!([
        {"name": "plain", "emptyDir": {}},
        {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "2Mi"}},
        {"name": "node", "hostPath": {"path": PLACE, "type": "Directory"}},
        {"name": "made", "hostPath": {"path": format!("{PLACE}/made"), "type": "DirectoryOrCreate"}},
        {"name": "config", "configMap": {"name": "c", "defaultMode": 0o644, "items": items}},
        {"name": "whole", "configMap": {"name": "c"}},
        {"name": "secret", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "self", "downwardAPI": {"items": [
            field("labels", "metadata.labels"),
            resource("cpu", "limits.cpu", "1m"),
            resource("memory", "limits.memory", "1Mi"),
        ]}},
        {"name": "access", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
            {"configMap": {"name": "c", "items": [{"key": "a", "path": "map"}]}},
            {"downwardAPI": {"items": [field("name", "metadata.name")]}},
        ]}},
    ])
}

fn mounts() -> Value {
    let names = [
        "plain", "fast", "node", "config", "secret", "self", "access",
    ];
    let whole = names.map(|name| json!({"name": name, "mountPath": format!("/{name}")}));
    let parts = [
        json!({"name": "made", "mountPath": "/made"}),
        json!({"name": "plain", "mountPath": "/part", "subPath": "deep/part"}),
        json!({"name": "whole", "mountPath": "/one-key", "subPath": "b"}),
        json!({"name": "plain", "mountPath": "/named", "subPathExpr": "of-$(WHO)"}),
    ];
    Value::Array(whole.into_iter().chain(parts).collect())
}

#[test]
fn every_kind_is_right_from_inside_and_nothing_of_it_is_left_on_the_node() -> Result<()> {
    look(Agent::Ferrolet, "volumes")
}

#[test]
fn every_kind_is_the_same_in_a_pod_of_upstreams() -> Result<()> {
    look(Agent::Upstream, "volumes-upstream")
}

fn look(agent: Agent, name: &str) -> Result<()> {
    let stage = Stage::of(agent, name)?;
    on_node(
        &stage,
        &format!(
            "mkdir -p {PLACE}; chmod 777 {PLACE}; echo here > {PLACE}/file; chmod 604 {PLACE}/file"
        ),
    )?;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
        "data": {"a": "one", "b": "two", "unasked": "three"},
    });
    stage.create(&map)?;
    stage.create(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "word"},
    }))?;
    let mut container = shell(LOOK);
    container["volumeMounts"] = mounts();
    container["env"] = json!([
        {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]);
    container["resources"] = json!({"limits": {"cpu": "250m", "memory": "64Mi"}});
    let spec = stage.spec(
        container,
        json!({
            "restartPolicy": "Never",
            "volumes": volumes(),
            "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000},
        }),
    );
    stage.create(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "all", "labels": {"app": "x"}}, "spec": spec,
    }))?;
    let is_over = |pod: &Value| pod["status"]["phase"] == "Succeeded";
    let pod = stage.wait_pod("all", "over", is_over)?;
    let wanted = "\
plain 2777 0 2000
fast 3777 0 2000 tmpfs 2048
node here 604 0 0 755 0 0
config one 440 0 2000 two 644 0 2000 2
secret word 440 0 2000
self app=\"x\" 250 64 644 0 2000
token 640 1000 2000 1
access one all
part 2777 0 2000 two 2777 0 2000
written
full
";
    let found = printed(&stage, "all")?;
    ensure!(found == wanted, "it printed\n{found}and not\n{wanted}");
    let uid = uid(&pod)?.to_owned();
    stage.run(&["delete", "pod", "all", "--timeout=60s"])?;
    wait_no_trace(&stage, &uid)?;
    let kept = on_node(
        &stage,
        &format!("cd {PLACE}; cat file left; stat -c '%a %u %g' . file"),
    )?;
    ensure!(
        kept == "here\nfrom a pod\n777 0 0\n604 0 0\n",
        "what is the node's stays as it was: {kept}"
    );
    stage.end()
}
