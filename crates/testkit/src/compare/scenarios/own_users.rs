//! Pods with users of their own: ids that are only theirs.

use anyhow::Result;
use serde_json::json;

use super::super::manifest::{FOREVER, Pod, config_map, container, pod, secret};
use super::super::scenario::Scenario;
use super::super::stage::Stage;
use super::sandboxes::{of_class, remove_class};

/// The handler of the lab's nodes that can map the ids of mounts.
const ABLE: &str = "upstream-runc";

/// Which ids there are; whose they are outside is chance.
const IDS: &str = "awk '{print $1, $3}' /proc/self/uid_map /proc/self/gid_map; id -u; id -g; id -G; \
    grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; cat /proc/self/oom_score_adj";

/// All that a pod is given, as it looks from inside.
const GIVEN: &str = "stat -L -c '%n %u:%g %a' / /room /memory /map /map/word /secret /secret/word /part \
    /etc/hosts /dev/termination-log /etc/hostname /etc/resolv.conf /proc/1 /dev/null /bin/busybox \
    /var/run/secrets/kubernetes.io/serviceaccount/token; \
    for file in /room/x /memory/x /part/x /etc/hosts /dev/termination-log /map/x /secret/x; do \
    echo x 2>/dev/null >> $file && stat -c '%n %u:%g %a' $file || echo $file refused; done; \
    chown 7:8 /room/x; chmod 4711 /room/x; stat -c '%u:%g %a' /room/x";

/// What is on the node of the play's pod `p`, and what is noted of it: its ids are chance.
fn on_disk(namespace: &str) -> String {
    format!(
        "sandbox=$(crictl pods --namespace {namespace} --name p -q | head -n 1)
         uid=$(crictl inspectp $sandbox | sed -n 's/.*\"io.kubernetes.pod.uid\": \"\\(.*\\)\".*/\\1/p' | head -n 1)
         cd /var/lib/kubelet/pods/$uid
         sed 's/\"hostId\":[0-9]*/\"hostId\":N/g' userns; echo
         stat -c '%n %u:%g %a' . userns etc-hosts containers volumes
         cd volumes; find . -mindepth 2 -type f -o -type d | grep -v '/\\.\\.2' | sort | xargs stat -c '%n %u:%g %a'"
    )
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "own-users",
        "users of its own, on a runtime that has none to give",
        |stage| {
            stage.create(pod("p", FOREVER).spec(&json!({"hostUsers": false})))?;
            stage.said("FailedCreatePodSandBox")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "own-users-by-class",
        "users of its own, of a handler that has none to give",
        |stage| {
            let pod = of_class(stage, "runc", FOREVER)?;
            stage.create(pod.spec(&json!({"hostUsers": false})))?;
            stage.said("FailedCreatePodSandBox")?;
            stage.end("p")?;
            remove_class(stage)
        },
    ),
    Scenario::new(
        "own-users-given",
        "who a pod with users of its own is, and what it can do",
        |stage| {
            let pod = of_class(stage, ABLE, IDS)?;
            stage.see(pod.spec(&json!({"hostUsers": false})))?;
            remove_class(stage)
        },
    ),
    Scenario::new(
        "own-users-volumes",
        "volumes of a pod with users of its own: its root's",
        |stage| {
            make_objects(stage)?;
            let script = format!("{GIVEN}; {FOREVER}");
            let pod = with_volumes(of_class(stage, ABLE, &script)?);
            stage.create(pod.spec(&json!({"hostUsers": false})))?;
            look_and_end(stage)
        },
    ),
    Scenario::new(
        "own-users-groups",
        "the same of one who is not root, with a group for volumes",
        |stage| {
            make_objects(stage)?;
            let script = format!("{IDS}; {GIVEN}; {FOREVER}");
            let pod = with_volumes(of_class(stage, ABLE, &script)?);
            let context = json!({
                "runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [4000],
            });
            stage.create(pod.spec(&json!({"hostUsers": false, "securityContext": context})))?;
            look_and_end(stage)
        },
    ),
    Scenario::new(
        "own-users-all",
        "all containers of a pod have the same users: first ones, later ones, commands in them",
        |stage| {
            let lasting = format!("{IDS}; {FOREVER}");
            let hook = json!({"exec": {"command": ["sh", "-c", "id -u > /tmp/hook"]}});
            let probe = json!({"exec": {"command": ["grep", "-x", "0", "/tmp/hook"]}});
            let pod = of_class(stage, ABLE, &lasting)?.main(&json!({
                "lifecycle": {"postStart": hook}, "readinessProbe": probe,
                "securityContext": {"procMount": "Unmasked"},
            }));
            stage.create(pod.spec(&json!({
                "hostUsers": false, "shareProcessNamespace": true,
                "initContainers": [container("first", IDS)],
            })))?;
            stage.running("p")?;
            stage.add_container("p", &container("later", IDS))?;
            stage.state("p", "later", "terminated:Completed:0")?;
            for name in ["first", "main", "later"] {
                stage.print("p", name)?;
            }
            stage.end("p")?;
            remove_class(stage)
        },
    ),
];

fn make_objects(stage: &Stage<'_>) -> Result<()> {
    stage.make(
        "/api/v1",
        "configmaps",
        &config_map("c", &json!({"word": "one"})),
    )?;
    stage.make("/api/v1", "secrets", &secret("s", &json!({"word": "two"})))
}

fn with_volumes(pod: Pod) -> Pod {
    let pod = pod
        .volume("/room", &json!({"emptyDir": {}}))
        .volume("/memory", &json!({"emptyDir": {"medium": "Memory"}}))
        .volume("/map", &json!({"configMap": {"name": "c"}}))
        .volume(
            "/secret",
            &json!({"secret": {"secretName": "s", "defaultMode": 0o400}}),
        );
    let part = json!({"name": "v0", "mountPath": "/part", "subPath": "a/b"});
    let mut mounts = pod.0["spec"]["containers"][0]["volumeMounts"].clone();
    if let Some(mounts) = mounts.as_array_mut() {
        mounts.push(part);
    }
    pod.main(&json!({"volumeMounts": mounts}))
}

fn look_and_end(stage: &mut Stage<'_>) -> Result<()> {
    stage.running("p")?;
    // It says all before it waits.
    stage.on_node("sleep 1")?;
    stage.print("p", "main")?;
    let script = on_disk(stage.namespace());
    stage.keep("disk", &script)?;
    stage.end("p")?;
    remove_class(stage)
}
