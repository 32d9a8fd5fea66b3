//! Pods that start, end, fail, and are started again.

use anyhow::Result;
use serde_json::json;

use super::super::manifest::{FOREVER, container, pod};
use super::super::scenario::Scenario;
use super::super::stage::{Stage, restarts};
use super::super::story::items;

/// A condition that is not the node's.
const GATE: &str = "lab.test/gate";

fn open_gate(stage: &Stage<'_>, status: &str) -> Result<()> {
    let condition = json!({"type": GATE, "status": status});
    let change = json!({"status": {"conditions": [condition]}});
    stage.patch("/api/v1", "pods/p/status", &change)
}

/// Waits until its containers are ready and the pod is not, and why.
fn unready(stage: &Stage<'_>, why: &str) -> Result<()> {
    stage.until(&format!("p to be unready: {why}"), |view| {
        let status = view.pod("p").map(|pod| &pod["status"]["conditions"]);
        status.is_some_and(|conditions| {
            let named = |kind: &str| items(conditions).find(|one| one["type"] == kind);
            let ready = named("Ready").and_then(|ready| ready["message"].as_str());
            named("ContainersReady").is_some_and(|ready| ready["status"] == "True")
                && ready.is_some_and(|message| message.contains(why))
        })
    })
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("plain", "a pod runs and is deleted", |stage| {
        stage.create(pod("p", FOREVER))?;
        stage.running("p")?;
        stage.end("p")
    })
    .ci(),
    Scenario::new(
        "crash-loop",
        "a container that fails is started again, later each time",
        |stage| {
            stage.create(pod("p", "exit 3"))?;
            stage.state("p", "main", "terminated:Error:3 restarts=2")?;
            stage.end("p")
        },
    )
    .ci(),
    Scenario::new(
        "exits-well-always",
        "a container that ends well is started again too",
        |stage| {
            stage.create(pod("p", "sleep 2"))?;
            stage.state("p", "main", "terminated:Completed:0 restarts=1")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "on-failure-succeeds",
        "what ends well is not started again",
        |stage| {
            stage.create(pod("p", "sleep 2").spec(&json!({"restartPolicy": "OnFailure"})))?;
            stage.phase("p", "Succeeded")
        },
    ),
    Scenario::new(
        "on-failure-fails",
        "what fails is started again until it ends well",
        |stage| {
            let script = "test -f /v/done || { touch /v/done; sleep 2; exit 5; }; sleep 2";
            let pod = pod("p", script).volume("/v", &json!({"emptyDir": {}}));
            stage.create(pod.spec(&json!({"restartPolicy": "OnFailure"})))?;
            stage.phase("p", "Succeeded")
        },
    )
    .ci(),
    Scenario::new(
        "never-succeeds",
        "a pod that ends well is Succeeded",
        |stage| stage.see(pod("p", "echo done")),
    ),
    Scenario::new("never-fails", "a pod that ends badly is Failed", |stage| {
        stage.see(pod("p", "echo sorry; sleep 2; exit 7"))
    }),
    Scenario::new(
        "killed-by-signal",
        "a container that a signal ends",
        |stage| {
            stage.create(pod("p", "sleep 2; kill -9 $$; sleep 1; exit 9").once())?;
            stage.phase("p", "Failed")
        },
    ),
    Scenario::new(
        "one-of-two-fails",
        "one container fails, the other goes on",
        |stage| {
            stage.create(
                pod("p", "sleep 2; exit 1")
                    .and(container("side", FOREVER))
                    .once(),
            )?;
            stage.state("p", "main", "terminated:Error:1")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "two-end-one-after-the-other",
        "a pod ends with its last container",
        |stage| {
            let pod = pod("p", "sleep 2; exit 1").and(container("side", "sleep 5"));
            stage.create(pod.once())?;
            stage.phase("p", "Failed")
        },
    ),
    Scenario::new(
        "init-containers",
        "they run one after the other, before the others",
        |stage| {
            let init = [container("one", "sleep 2"), container("two", "sleep 2")];
            stage.create(pod("p", FOREVER).spec(&json!({"initContainers": init})))?;
            stage.running("p")?;
            stage.end("p")
        },
    )
    .ci(),
    Scenario::new(
        "init-fails-never",
        "a pod fails with its init container",
        |stage| {
            let init = [
                container("one", "sleep 2; exit 4"),
                container("two", "sleep 1"),
            ];
            stage.create(
                pod("p", FOREVER)
                    .spec(&json!({"initContainers": init}))
                    .once(),
            )?;
            stage.phase("p", "Failed")
        },
    ),
    Scenario::new(
        "init-fails-always",
        "an init container that fails is tried again",
        |stage| {
            let init = [container("one", "sleep 4; exit 4")];
            stage.create(pod("p", FOREVER).spec(&json!({"initContainers": init})))?;
            // Upstream may say that it waits only when the wait is nearly over: an end that
            // came then would meet the next run, or not.
            stage.state("p", "one", "waiting:CrashLoopBackOff restarts=1")?;
            stage.state("p", "one", "running restarts=2")?;
            stage.end("p")
        },
    ),
    Scenario::new("start-error", "a program that is not there", |stage| {
        stage.create(
            pod("p", "")
                .main(&json!({"command": ["/no/such/program"]}))
                .once(),
        )?;
        stage.phase("p", "Failed")
    })
    .ci(),
    Scenario::new(
        "start-error-again",
        "a program that is not there, tried again",
        |stage| {
            stage.create(pod("p", "").main(&json!({"command": ["/no/such/program"]})))?;
            stage.until("main to be tried again", |view| {
                view.pod("p").is_some_and(|pod| restarts(pod, "main") >= 1)
            })?;
            stage.end("p")
        },
    ),
    Scenario::new("deadline", "activeDeadlineSeconds ends a pod", |stage| {
        stage.create(pod("p", FOREVER).spec(&json!({"activeDeadlineSeconds": 15})))?;
        stage.phase("p", "Failed")?;
        stage.said("DeadlineExceeded")
    })
    .ci(),
    Scenario::new(
        "out-of-memory",
        "a container that takes more than its limit is killed",
        |stage| {
            let limits = json!({"resources": {"limits": {"memory": "24Mi"}}});
            stage.create(pod("p", "sleep 2; tail /dev/zero").main(&limits).once())?;
            stage.phase("p", "Failed")
        },
    ),
    Scenario::new(
        "termination-message",
        "what a container leaves in its message file",
        |stage| {
            let script = "sleep 2; echo last words > /dev/termination-log; exit 2";
            stage.create(pod("p", script).once())?;
            stage.phase("p", "Failed")
        },
    ),
    Scenario::new(
        "termination-message-path",
        "the message file at another path",
        |stage| {
            let script = "sleep 2; echo well said > /tmp-message; exit 0";
            let path = json!({"terminationMessagePath": "/tmp-message"});
            stage.create(pod("p", script).main(&path).once())?;
            stage.phase("p", "Succeeded")
        },
    ),
    Scenario::new(
        "termination-message-of-logs",
        "the end of the log is the message",
        |stage| {
            let policy = json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
            let script = "sleep 2; for i in $(seq 1 200); do echo line $i; done; exit 2";
            stage.create(pod("p", script).main(&policy).once())?;
            stage.phase("p", "Failed")
        },
    ),
    Scenario::new("long-log-line", "a line of one MiB in the log", |stage| {
        stage.see(pod(
            "p",
            "head -c 1048576 /dev/zero | tr '\\0' x; echo; echo end",
        ))
    }),
    Scenario::new(
        "labels-edited",
        "other labels start nothing again",
        |stage| {
            stage.create(pod("p", FOREVER))?;
            stage.running("p")?;
            let change = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}});
            stage.patch_pod("p", &change)?;
            stage.until("the label", |view| {
                view.pod("p")
                    .is_some_and(|pod| pod["metadata"]["labels"]["a"] == "b")
            })?;
            stage.on_node("sleep 3")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-gate",
        "a pod is ready when somebody else says so, too",
        |stage| {
            let gates = json!({"readinessGates": [{"conditionType": GATE}]});
            stage.create(pod("p", FOREVER).spec(&gates))?;
            unready(stage, "does not exist")?;
            for status in ["False", "True", "Unknown"] {
                open_gate(stage, status)?;
                if status == "True" {
                    stage.running("p")?;
                } else {
                    unready(stage, &format!("but {status}"))?;
                }
            }
            stage.end("p")
        },
    ),
    Scenario::new(
        "image-edited",
        "another image starts its container again",
        |stage| {
            let two = pod("p", FOREVER)
                .main(&json!({"imagePullPolicy": "IfNotPresent"}))
                .and(container("side", FOREVER));
            stage.create(two)?;
            stage.running("p")?;
            let image = json!([{"name": "main", "image": "busybox:latest"}]);
            stage.patch_pod("p", &json!({"spec": {"containers": image}}))?;
            stage.state("p", "main", "running restarts=1")?;
            stage.running("p")?;
            stage.end("p")
        },
    )
    .ci(),
];
