//! What a container mounts in a volume: seen where it may be, and gone with the pod.

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::lab::{BUSYBOX_IMAGE, Runtime};
use testkit::wait;

use super::{PODS, on_node, uid, wait_no_trace};
use crate::pods::stage::{SOON, Stage, shell};

const MOUNT: &str = "\
trap 'exit 0' TERM
mkdir -p /v/inner && mount -t tmpfs mine /v/inner && touch /v/inner/seen
while :; do sleep 0.2; done";

const WATCH: &str = "\
trap 'exit 0' TERM
until test -f /v/inner/seen; do sleep 0.2; done
touch /tmp/found
while :; do sleep 0.2; done";

#[test]
fn what_a_container_mounts_is_seen_where_it_is_asked_for_and_gone_with_the_pod() -> Result<()> {
    let stage = Stage::ours("volumes-propagation", Runtime::Containerd2)?;
    let other = |name: &str, script: &str, propagation: &str, privileged: bool| {
        let mount = json!({"name": "v", "mountPath": "/v", "mountPropagation": propagation});
        json!({
            "name": name, "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script],
            "volumeMounts": [mount], "securityContext": {"privileged": privileged},
        })
    };
    let spec = stage.spec(
        shell("exit 0"),
        json!({
            "containers": [
                // In this order: who begins later has all that is there by then.
                other("private", WATCH, "None", false),
                other("sees", WATCH, "HostToContainer", false),
                other("mounts", MOUNT, "Bidirectional", true),
            ],
            "volumes": [{"name": "v", "emptyDir": {}}],
        }),
    );
    stage.create(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec,
    }))?;
    let pod = stage.wait_ready("p")?;
    let uid = uid(&pod)?.to_owned();
    let inner = format!("{PODS}/{uid}/volumes/kubernetes.io~empty-dir/v/inner/seen");
    wait::until("the mount to be seen on the node", SOON, || {
        on_node(&stage, &format!("test -f {inner}"))
    })?;
    let id = |name: &str| {
        let label = format!("io.kubernetes.container.name={name}");
        let found = stage.node.crictl(["ps", "-q", "--label", &label]);
        found.map(|id| id.trim().to_owned())
    };
    let sees = id("sees")?;
    wait::until("the mount to be seen by the other container", SOON, || {
        stage.node.crictl(["exec", &sees, "cat", "/tmp/found"])
    })?;
    // Whoever has begun before it, and did not ask for it, has not got it.
    let private = id("private")?;
    let mounted = stage
        .node
        .crictl(["exec", &private, "cat", "/proc/mounts"])?;
    ensure!(!mounted.contains("/v/inner"), "{mounted}");
    stage.run(&["delete", "pod", "p", "--timeout=60s"])?;
    wait_no_trace(&stage, &uid)?;
    stage.end()
}
