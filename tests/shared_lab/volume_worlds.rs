//! The world around volumes, as users of a real node see it: claims that come and go,
//! data that outlives pods, agents that die in between, and mounts that somebody holds.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use testkit::lab::Runtime;
use testkit::wait;

use crate::pods::stage::{SOON, Stage, sleeper};

/// A directory on the node that persistent volumes are made of.
const DATA: &str = "/var/precious";

/// A persistent volume and a claim `data` for it, in the test's own names.
struct Volume<'a> {
    stage: &'a Stage,
    name: String,
}

impl<'a> Volume<'a> {
    fn new(stage: &'a Stage) -> Result<Self> {
        let script = format!("mkdir -p {DATA}; echo kept > {DATA}/file");
        stage.node.machine().run("sh", ["-c", &script])?;
        Ok(Self {
            stage,
            name: stage.namespace().to_owned(),
        })
    }

    fn make(&self) -> Result<()> {
        self.make_of("local", &json!({ "path": DATA }))
    }

    fn make_of(&self, kind: &str, source: &Value) -> Result<()> {
        let here = json!({
            "key": "kubernetes.io/hostname", "operator": "In", "values": [self.stage.node.name()],
        });
        self.stage.create(&json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": self.name },
            "spec": {
                "capacity": { "storage": "1Mi" }, "accessModes": ["ReadWriteOnce"],
                "storageClassName": "", "persistentVolumeReclaimPolicy": "Retain",
                kind: source,
                "nodeAffinity": { "required": { "nodeSelectorTerms": [
                    { "matchExpressions": [here] },
                ]}},
            },
        }))
    }

    fn claim(&self) -> Result<()> {
        self.stage.create(&json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data" },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": self.name,
                "resources": { "requests": { "storage": "1Mi" } },
            },
        }))
    }

    /// A pod that has it at `/data`, beside a directory in memory.
    fn pod(&self, name: &str) -> Result<()> {
        let mut container = sleeper();
        container["volumeMounts"] = json!([
            { "name": "data", "mountPath": "/data" },
            { "name": "memory", "mountPath": "/memory" },
        ]);
        let volumes = json!([
            { "name": "data", "persistentVolumeClaim": { "claimName": "data" } },
            { "name": "memory", "emptyDir": { "medium": "Memory" } },
        ]);
        self.stage
            .create_pod(name, container, json!({ "volumes": volumes }))
    }

    fn assert_kept(&self) -> Result<()> {
        let file = format!("{DATA}/file");
        let kept = self.stage.node.machine().run("cat", [file.as_str()])?;
        ensure!(kept == "kept\n", "{kept:?}");
        Ok(())
    }
}

impl Drop for Volume<'_> {
    fn drop(&mut self) {
        // It is in no namespace, and goes with none.
        let words = ["delete", "persistentvolume", &self.name];
        let more = ["--ignore-not-found", "--wait=false", "--request-timeout=5s"];
        let _ = self.stage.kubectl().run([&words[..], &more].concat());
    }
}

/// What a pod has on the node's disk and what is mounted in it.
fn left_of(stage: &Stage, uid: &str) -> Result<String> {
    let script = format!(
        "ls -d /var/lib/kubelet/pods/{uid} 2>/dev/null; grep -o '[^ ]*/pods/{uid}/[^ ]*' /proc/self/mountinfo; true"
    );
    stage.node.machine().run("sh", ["-c", &script])
}

fn wait_nothing_left(stage: &Stage, uid: &str) -> Result<()> {
    let minute = Duration::from_secs(90);
    wait::until("all of the pod to be taken away", minute, || {
        let left = left_of(stage, uid)?;
        ensure!(left.trim().is_empty(), "{left}");
        Ok(())
    })
}

fn uid(pod: &Value) -> Result<String> {
    let uid = pod["metadata"]["uid"].as_str();
    Ok(uid.context("a pod without a uid")?.to_owned())
}

#[test]
fn a_pod_waits_for_its_claim_in_upstreams_words_and_its_data_outlives_it() -> Result<()> {
    let stage = Stage::ours("vol-claim", Runtime::Containerd2)?;
    let volume = Volume::new(&stage)?;
    volume.pod("p")?;
    let namespace = stage.namespace();
    let missing = format!(
        "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: \
         error processing PVC {namespace}/data: failed to fetch PVC from API server: persistentvolumeclaims \"data\" not found"
    );
    stage.wait_event("p", "FailedMount", &missing)?;
    volume.claim()?;
    stage.wait_event("p", "FailedMount", "PVC is not bound")?;
    volume.make()?;
    let pod = stage.wait_ready("p")?;
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str();
    let id = id.unwrap_or_default().trim_start_matches("containerd://");
    let seen = stage.node.crictl(["exec", id, "cat", "/data/file"])?;
    ensure!(seen == "kept\n", "{seen:?}");
    stage.run(&["delete", "pod", "p", "--timeout=60s"])?;
    wait_nothing_left(&stage, &uid(&pod)?)?;
    volume.assert_kept()?;
    drop(volume);
    stage.end()
}

/// What the node says that the cluster has to attach to it.
fn in_use(stage: &Stage) -> Result<Value> {
    let node = stage.json(&["get", "node", stage.node.name()])?;
    Ok(node["status"]["volumesInUse"].clone())
}

#[test]
fn a_volume_of_a_driver_is_in_use_while_its_pod_waits_and_is_let_go_with_it() -> Result<()> {
    let stage = Stage::ours("vol-attached", Runtime::Containerd2)?;
    let volume = Volume::new(&stage)?;
    let driver = stage.namespace();
    volume.make_of("csi", &json!({ "driver": driver, "volumeHandle": "it" }))?;
    volume.claim()?;
    volume.pod("p")?;
    let name = format!("kubernetes.io/csi/{driver}^it");
    wait::until("the volume to be in use", SOON, || {
        let in_use = in_use(&stage)?;
        ensure!(in_use == json!([name]), "in use: {in_use}");
        Ok(())
    })?;
    let attachment = || -> Result<Option<String>> {
        let list = stage.json(&["get", "volumeattachments"])?;
        let mut all = list["items"].as_array().into_iter().flatten();
        let own = all.find(|one| one["spec"]["attacher"] == driver);
        Ok(own.and_then(|own| Some(own["metadata"]["name"].as_str()?.to_owned())))
    };
    let asked = wait::until("the cluster to attach it", SOON, || {
        attachment()?.context("nobody is asked for it")
    })?;
    // What a driver's controller would do.
    let attached = [
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"attached":true}}"#,
    ];
    stage.run(&[&["patch", "volumeattachment", &asked][..], &attached].concat())?;
    let missed = format!(
        "MountVolume.MountDevice failed for volume \"{driver}\" : kubernetes.io/csi: attacher.MountDevice failed to create \
         newCsiDriverClient: driver name {driver} not found in the list of registered CSI drivers"
    );
    stage.wait_event("p", "FailedMount", &missed)?;
    stage.run(&["delete", "pod", "p", "--timeout=60s"])?;
    wait::until("the volume to be let go", SOON, || {
        let in_use = in_use(&stage)?;
        ensure!(in_use.is_null(), "in use: {in_use}");
        let left = attachment()?;
        ensure!(left.is_none(), "still attached by {left:?}");
        Ok(())
    })?;
    drop(volume);
    stage.end()
}

#[test]
fn an_agent_that_comes_back_takes_away_what_pods_left_that_nobody_wants_any_more() -> Result<()> {
    let stage = Stage::ours("vol-left", Runtime::Containerd2)?;
    let volume = Volume::new(&stage)?;
    volume.make()?;
    volume.claim()?;
    volume.pod("stays")?;
    volume.pod("goes")?;
    let stays = uid(&stage.wait_ready("stays")?)?;
    let goes = uid(&stage.wait_ready("goes")?)?;
    let agent = stage.node.kubelet();
    agent.kill()?;
    let forced = ["--force", "--grace-period=0", "--wait=false"];
    stage.run(&[&["delete", "pod", "goes"], &forced[..]].concat())?;
    stage.wait_gone("goes")?;
    // Its containers end without anybody to notice.
    let pods = stage.node.crictl(["pods", "--name", "goes", "--quiet"])?;
    stage.node.crictl(["rmp", "--force", pods.trim()])?;
    ensure!(left_of(&stage, &goes)?.contains("kubernetes.io~local-volume"));
    let before = left_of(&stage, &stays)?;
    agent.start_again()?;
    wait_nothing_left(&stage, &goes)?;
    let after = left_of(&stage, &stays)?;
    ensure!(before == after, "{before}\nbecame\n{after}");
    volume.assert_kept()?;
    stage.run(&["delete", "pod", "stays", "--timeout=60s"])?;
    wait_nothing_left(&stage, &stays)?;
    volume.assert_kept()?;
    drop(volume);
    stage.end()
}

#[test]
fn a_volume_that_somebody_holds_is_taken_away_when_it_is_let_go() -> Result<()> {
    let stage = Stage::ours("vol-busy", Runtime::Containerd2)?;
    let volume = Volume::new(&stage)?;
    volume.make()?;
    volume.claim()?;
    volume.pod("p")?;
    let uid = uid(&stage.wait_ready("p")?)?;
    let place = format!(
        "/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~local-volume/{}",
        volume.name
    );
    let hold = format!("cd {place}; sleep 100000 > /dev/null 2>&1 & echo $!");
    let holder = stage.node.machine().run("sh", ["-c", &hold]);
    let holder = holder?.trim().to_owned();
    stage.run(&["delete", "pod", "p", "--wait=false"])?;
    wait::until("the agent to say that it is busy", SOON, || {
        let log = stage.node.kubelet().log();
        let wanted = "UnmountVolume.TearDown failed for volume";
        if log.contains(wanted) {
            return Ok(());
        }
        bail!("it has not said so")
    })?;
    ensure!(left_of(&stage, &uid)?.contains(&place));
    // As long as it is there the pod is, too.
    let pod = stage.pod("p")?;
    ensure!(pod["metadata"]["uid"] == uid, "{}", pod["metadata"]);
    stage.node.machine().run("kill", [holder.as_str()])?;
    wait_nothing_left(&stage, &uid)?;
    stage.wait_gone("p")?;
    volume.assert_kept()?;
    drop(volume);
    stage.end()
}

#[test]
fn without_watches_a_changed_config_map_reaches_the_pod_with_the_next_look() -> Result<()> {
    changes_without_watches("vol-get", "Get")
}

#[test]
fn a_config_map_that_is_kept_for_its_time_reaches_the_pod_with_the_next_look_too() -> Result<()> {
    changes_without_watches("vol-cache", "Cache")
}

fn changes_without_watches(name: &str, strategy: &str) -> Result<()> {
    let config = format!("configMapAndSecretChangeDetectionStrategy: {strategy}\n");
    let stage = Stage::told(name, Runtime::Containerd2, &config)?;
    let map = |value: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" },
            "data": { "key": value },
        })
    };
    stage.create(&map("one"))?;
    let mut container = sleeper();
    container["volumeMounts"] = json!([{ "name": "c", "mountPath": "/c" }]);
    let volumes = json!([{ "name": "c", "configMap": { "name": "c" } }]);
    stage.create_pod("p", container, json!({ "volumes": volumes }))?;
    let uid = uid(&stage.wait_ready("p")?)?;
    let file = format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~configmap/c/key");
    let read = || stage.node.machine().run("cat", [file.as_str()]);
    ensure!(read()? == "one");
    let change = json!({ "data": { "key": "two" } }).to_string();
    stage.run(&["patch", "configmap", "c", "--type=merge", "-p", &change])?;
    // As upstream: a minute, and half as much again.
    wait::until("the new value", Duration::from_secs(120), || {
        let found = read()?;
        ensure!(found == "two", "{found}");
        Ok(())
    })?;
    stage.end()
}
