//! Options that are rarely asked for, looked at from inside: on our node, and the same
//! manifests on one of upstream's.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{Agent, BUSYBOX_IMAGE};

use super::{on_node, printed, uid, wait_no_trace};
use crate::pods::stage::{Stage, shell};

const PLACE: &str = "/var/options";

/// Claims, by the directory on the node that is behind each: one whose root is the pod's
/// group's already, one whose root is not, and one that is nobody's to change.
const CLAIMS: [(&str, Kind); 3] = [
    ("same", Kind::Local),
    ("other", Kind::Local),
    ("host", Kind::HostPath),
];

/// What is behind the claim that comes and goes with the pod.
const EPHEMERAL: (&str, Kind) = ("own", Kind::Local);

#[derive(Clone, Copy)]
enum Kind {
    Local,
    HostPath,
}

/// What the node has beforehand. Nothing is behind the device.
const FURNISH: &str = "\
mkdir -p same other host own
echo text > file
mknod block b 7 200
for d in same other host own; do echo kept > $d/file; chown 5:999 $d/file; done
chgrp 2000 same
chmod 2775 same";

/// Mounts something in a volume before `main` begins, and takes it away after it.
const MOUNTS: &str = "\
trap 'umount /v/inner; exit 0' TERM
mkdir /v/inner && mount -t tmpfs mine /v/inner && touch /v/inner/seen
while :; do sleep 0.2; done";

/// Looks at everything, and ends.
const LOOK: &str = "\
try() { touch $1/new 2>/dev/null && echo $1 can be written || echo $1 cannot be written; }
stat -c '%n: %F' /block /null /socket /file /made
cat /file
for d in /deep /deep/inner /shallow /shallow/inner; do try $d; done
stat -c '%n: %u %g' /same /same/file /other /other/file /host /host/file /own /own/file
for d in /same /other /host /own; do try $d; done
for d in /no-map /no-secret /some /mixed /frozen /sealed; do echo $d: $(ls $d); done
cat /some/here /mixed/here /frozen/key /sealed/key
try /no-map
ls /image/bin/busybox
try /image";

const WANTED: &str = "\
/block: block special file
/null: character special file
/socket: socket
/file: regular file
/made: regular empty file
text
/deep cannot be written
/deep/inner cannot be written
/shallow cannot be written
/shallow/inner can be written
/same: 0 2000
/same/file: 5 999
/other: 0 2000
/other/file: 5 2000
/host: 0 0
/host/file: 5 999
/own: 0 2000
/own/file: 5 2000
/same can be written
/other can be written
/host can be written
/own can be written
/no-map:
/no-secret:
/some: here
/mixed: here
/frozen: key
/sealed: key
word
word
word
secret word
/no-map cannot be written
/image/bin/busybox
/image cannot be written
";

fn volumes(namespace: &str) -> Value {
    let path = |name: &str, path: &str, kind: &str| json!({"name": name, "hostPath": {"path": path, "type": kind}});
    let own = |name: &str, kind: &str| path(name, &format!("{PLACE}/{name}"), kind);
    let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    let missing = json!([{"key": "nope", "path": "nope"}, {"key": "key", "path": "here"}]);
    let template = claim_for(namespace, EPHEMERAL.0);
    let image = json!({"reference": BUSYBOX_IMAGE, "pullPolicy": "IfNotPresent"});
    json!([
        own("block", "BlockDevice"),
        path("null", "/dev/null", "CharDevice"),
        path("socket", "/run/containerd/containerd.sock", "Socket"),
        own("file", "File"),
        own("made", "FileOrCreate"),
        {"name": "deep", "emptyDir": {}},
        {"name": "image", "image": image},
        claim("same"),
        claim("other"),
        claim("host"),
        {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": template}}},
        {"name": "no-map", "configMap": {"name": "nobody", "optional": true}},
        {"name": "no-secret", "secret": {"secretName": "nobody", "optional": true}},
        {"name": "some", "configMap": {"name": "frozen", "optional": true, "items": missing}},
        {"name": "mixed", "projected": {"sources": [
            {"configMap": {"name": "nobody", "optional": true}},
            {"configMap": {"name": "frozen", "optional": true, "items": missing}},
        ]}},
        {"name": "frozen", "configMap": {"name": "frozen"}},
        {"name": "sealed", "secret": {"secretName": "sealed"}},
    ])
}

/// A config map and a secret that nobody can change.
fn unchangeable(stage: &Stage) -> Result<()> {
    stage.create(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "frozen"},
        "immutable": true, "data": {"key": "word\n"},
    }))?;
    stage.create(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sealed"},
        "immutable": true, "stringData": {"key": "secret word\n"},
    }))
}

fn mounts() -> Value {
    let whole = [
        "block",
        "null",
        "socket",
        "file",
        "made",
        "same",
        "other",
        "host",
        "own",
        "image",
        "no-map",
        "no-secret",
        "some",
        "mixed",
        "frozen",
        "sealed",
    ];
    let whole = whole.map(|name| json!({"name": name, "mountPath": format!("/{name}")}));
    let others = [
        json!({"name": "deep", "mountPath": "/deep", "readOnly": true, "recursiveReadOnly": "Enabled"}),
        json!({"name": "deep", "mountPath": "/shallow", "readOnly": true}),
    ];
    Value::Array(whole.into_iter().chain(others).collect())
}

/// A persistent volume is in no namespace: it goes with the test.
struct Persistent<'a> {
    stage: &'a Stage,
    names: Vec<String>,
}

impl Drop for Persistent<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            // No API server to ask: nothing to do.
            let _ = self.stage.run(&["delete", "pv", name, "--wait=false"]);
        }
    }
}

impl Persistent<'_> {
    /// A volume of a directory of the node.
    fn make(&mut self, (directory, kind): (&str, Kind)) -> Result<()> {
        let stage = self.stage;
        let name = volume_of(stage.namespace(), directory);
        let here = json!({
            "key": "kubernetes.io/hostname", "operator": "In", "values": [stage.node.name()],
        });
        let mut spec = json!({
            "capacity": amount(), "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        });
        let kind = match kind {
            Kind::Local => "local",
            Kind::HostPath => "hostPath",
        };
        spec[kind] = json!({"path": format!("{PLACE}/{directory}")});
        stage.create(&json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec,
        }))?;
        self.names.push(name);
        Ok(())
    }
}

fn amount() -> Value {
    json!({"storage": "1Mi"})
}

fn volume_of(namespace: &str, directory: &str) -> String {
    format!("{namespace}-{directory}")
}

/// What a claim asks for that is to get the volume of a directory.
fn claim_for(namespace: &str, directory: &str) -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "volumeName": volume_of(namespace, directory), "resources": {"requests": amount()},
    })
}

#[test]
fn options_that_are_rarely_asked_for_are_right_from_inside() -> Result<()> {
    look(Agent::Ferrolet, "options")
}

#[test]
fn options_that_are_rarely_asked_for_are_the_same_in_a_pod_of_upstreams() -> Result<()> {
    look(Agent::Upstream, "options-upstream")
}

fn look(agent: Agent, name: &str) -> Result<()> {
    let stage = Stage::of(agent, name)?;
    on_node(
        &stage,
        &format!("set -e; mkdir -p {PLACE}; cd {PLACE}\n{FURNISH}"),
    )?;
    let mut persistent = Persistent {
        stage: &stage,
        names: Vec::new(),
    };
    for behind in CLAIMS {
        persistent.make(behind)?;
        stage.create(&json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": behind.0},
            "spec": claim_for(stage.namespace(), behind.0),
        }))?;
    }
    persistent.make(EPHEMERAL)?;
    unchangeable(&stage)?;
    let mut container = shell(LOOK);
    container["volumeMounts"] = mounts();
    let mut before = shell(MOUNTS);
    before["name"] = json!("mounts");
    before["restartPolicy"] = json!("Always");
    before["securityContext"] = json!({"privileged": true});
    before["volumeMounts"] =
        json!([{"name": "deep", "mountPath": "/v", "mountPropagation": "Bidirectional"}]);
    let seen = json!({"command": ["test", "-f", "/v/inner/seen"]});
    before["startupProbe"] = json!({"exec": seen, "periodSeconds": 1, "failureThreshold": 60});
    let more = json!({
        "restartPolicy": "Never",
        "initContainers": [before],
        "volumes": volumes(stage.namespace()),
        "securityContext": {"fsGroup": 2000, "fsGroupChangePolicy": "OnRootMismatch"},
    });
    stage.create_pod("p", container, more)?;
    let pod = stage.wait_pod("p", "over", |pod| pod["status"]["phase"] == "Succeeded")?;
    let found = printed(&stage, "p")?;
    ensure!(found == WANTED, "it printed\n{found}and not\n{WANTED}");
    let uid = uid(&pod)?.to_owned();
    stage.run(&["delete", "pod", "p", "--timeout=60s"])?;
    wait_no_trace(&stage, &uid)?;
    let kept = format!(
        "cd {PLACE}; cat same/file other/file host/file own/file; stat -c '%n %u %g' same/file; ls"
    );
    let kept = on_node(&stage, &kept)?;
    let wanted =
        "kept\nkept\nkept\nkept\nsame/file 5 999\nblock\nfile\nhost\nmade\nother\nown\nsame\n";
    ensure!(kept == wanted, "what is the node's stays: {kept}");
    drop(persistent);
    stage.end()
}
