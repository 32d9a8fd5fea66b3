//! Pods that write more than they may: what is told of them, and what is left.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{BUSYBOX_IMAGE, Runtime};
use testkit::wait;

use super::{PODS, on_node, uid};
use crate::pods::stage::{SOON, Stage, condition, main_of};

/// Volumes are counted every ten to twenty seconds, not every one to two minutes.
const OFTEN: &str = "volumeStatsAggPeriod: 10s\n";

/// Fills a file with three mebibytes, and runs on.
fn writer(file: &str) -> Value {
    let script = format!("dd if=/dev/zero of={file} bs=64k count=48 && sleep 100000");
    json!({ "name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script] })
}

fn limited(mut container: Value, limit: &str) -> Value {
    container["resources"] = json!({ "limits": { "ephemeral-storage": limit } });
    container
}

/// It was ended by its node, with these words.
fn is_evicted(stage: &Stage, name: &str, message: &str) -> Result<()> {
    // Its volumes are counted now and then, and it is ended after that.
    let pod = wait::until(&format!("pod {name} to be Failed"), 2 * SOON, || {
        let pod = stage.pod(name)?;
        ensure!(pod["status"]["phase"] == "Failed", "{}", pod["status"]);
        Ok(pod)
    })?;
    let status = &pod["status"];
    ensure!(status["reason"] == "Evicted", "{status}");
    ensure!(status["message"] == message, "{status}");
    ensure!(
        condition(&pod, "DisruptionTarget").is_null(),
        "nothing is said of a disruption: {status}"
    );
    let ended = &main_of(&pod)["state"]["terminated"];
    ensure!(ended["exitCode"] == 137, "it is not asked twice: {status}");
    stage.wait_event(name, "Evicted", message)?;
    let fields = format!("involvedObject.name={name},reason=Evicted");
    let events = stage.json(&["get", "events", "--field-selector", &fields])?;
    let event = &events["items"][0];
    ensure!(event["type"] == "Warning", "{events}");
    ensure!(event["message"] == message, "{events}");
    ensure!(event["source"]["component"] == "kubelet", "{events}");
    ensure!(event["count"] == 1, "{events}");
    ensure!(event["metadata"]["annotations"].is_null(), "{events}");
    // The disk is free again, and the pod's object stays.
    let volumes = format!("{PODS}/{}/volumes", uid(&pod)?);
    wait::until("its volumes to be gone", SOON, || {
        on_node(stage, &format!("! ls {volumes}/*/v"))
    })?;
    ensure!(!stage.running()?.contains_key(name), "it runs");
    Ok(())
}

#[test]
fn a_pod_that_writes_more_than_it_may_is_evicted_and_its_disk_is_free() -> Result<()> {
    let stage = Stage::told("volumes-limits", Runtime::Containerd2, OFTEN)?;
    let with_volume = |mut container: Value, source: &Value| {
        container["volumeMounts"] = json!([{ "name": "v", "mountPath": "/v" }]);
        let volumes = json!({ "volumes": [{ "name": "v", "emptyDir": source }] });
        (container, volumes)
    };
    // As large as it may be, with the blocks that its directory takes up.
    let (container, volumes) = with_volume(
        limited(writer("/v/file"), "8Mi"),
        &json!({ "sizeLimit": "4Mi" }),
    );
    stage.create_pod("modest", container, volumes)?;
    let (container, volumes) = with_volume(writer("/v/file"), &json!({ "sizeLimit": "1Mi" }));
    stage.create_pod("directory", container, volumes)?;
    let whole = limited(writer("/file"), "1Mi");
    stage.create_pod("whole", whole.clone(), json!({}))?;
    let mut roomy = limited(writer("/file"), "1Gi");
    roomy["name"] = json!("roomy");
    let both = json!({ "containers": [whole, roomy] });
    stage.create_pod("container", Value::Null, both)?;
    is_evicted(
        &stage,
        "directory",
        "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ",
    )?;
    is_evicted(
        &stage,
        "whole",
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
    )?;
    is_evicted(
        &stage,
        "container",
        "Container main exceeded its local ephemeral storage limit \"1Mi\". ",
    )?;
    let modest = stage.wait_ready("modest")?;
    ensure!(main_of(&modest)["restartCount"] == 0, "{modest}");
    // What is dead of them goes within a minute or so.
    wait::until("their containers to be gone", 2 * SOON, || {
        let listed = stage.node.crictl(["ps", "-a", "-o", "json"])?;
        for name in ["directory", "whole", "container"] {
            let label = format!("\"io.kubernetes.pod.name\": \"{name}\"");
            ensure!(!listed.contains(&label), "{name} has one");
        }
        Ok(())
    })?;
    stage.end()
}
