//! Containers with policies and rules of their own.

use serde_json::{Value, json};

use super::super::manifest::{FOREVER, Pod, container, pod};
use super::super::scenario::Scenario;

/// Ends with a code the first time, and goes on the second time.
fn once_then(code: u32, then: &str) -> String {
    format!("test -f /v/{code} && {{ {then}; }}; touch /v/{code}; sleep 4; exit {code}")
}

fn rule(action: &str, operator: &str, code: u32) -> Value {
    json!({
        "restartPolicy": "Never",
        "restartPolicyRules": [
            {"action": action, "exitCodes": {"operator": operator, "values": [code]}},
        ],
    })
}

/// With a volume `/v` in `main`.
fn noting(script: &str) -> Pod {
    pod("p", script).volume("/v", &json!({"emptyDir": {}}))
}

/// A container that has the volume too, and what else it is given.
fn beside(name: &str, script: &str, more: &Value) -> Value {
    let mut container = container(name, script);
    container["volumeMounts"] = json!([{"name": "v0", "mountPath": "/v"}]);
    for (key, value) in more.as_object().into_iter().flatten() {
        container[key] = value.clone();
    }
    container
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "rule-restarts",
        "an exit code starts a container again, whatever the policy",
        |stage| {
            let pod = noting(&once_then(42, "sleep 4; exit 0"));
            stage.create(pod.main(&rule("Restart", "In", 42)).once())?;
            stage.phase("p", "Succeeded")
        },
    ),
    Scenario::new(
        "rule-of-other-code",
        "an exit code that the rule leaves out ends the container",
        |stage| {
            let pod = noting(&once_then(42, "sleep 4; exit 7"));
            stage.create(pod.main(&rule("Restart", "NotIn", 7)).once())?;
            stage.phase("p", "Failed")
        },
    ),
    Scenario::new(
        "own-policy-restarts",
        "a container is started again in a pod that is not",
        |stage| {
            let own = json!({"restartPolicy": "OnFailure"});
            let pod = noting(&once_then(5, "sleep 4; exit 0"));
            stage.create(pod.main(&own).once())?;
            stage.phase("p", "Succeeded")
        },
    ),
    Scenario::new(
        "own-policy-ends",
        "a container ends for good in a pod that goes on",
        |stage| {
            let own = json!({"restartPolicy": "Never"});
            let pod = pod("p", "sleep 4; exit 5").main(&own);
            stage.create(pod.and(container("side", FOREVER)))?;
            stage.state("p", "main", "terminated:Error:5")?;
            stage.on_node("sleep 5")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "own-policy-of-init",
        "an init container is tried again in a pod that is not",
        |stage| {
            let own = json!({"restartPolicy": "OnFailure"});
            let init = [beside("one", &once_then(5, "exit 0"), &own)];
            stage.create(
                noting(FOREVER)
                    .spec(&json!({"initContainers": init}))
                    .once(),
            )?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "restart-all",
        "the end of one container starts all again, init containers first",
        |stage| {
            let init = [beside("one", "sleep 2", &json!({}))];
            let main = noting(&once_then(42, FOREVER));
            let main = main.main(&rule("RestartAllContainers", "In", 42));
            let pod = main.and(container("side", FOREVER)).once();
            stage.create(pod.spec(&json!({"initContainers": init})))?;
            stage.state("p", "main", "running restarts=1")?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "restart-all-by-init",
        "the end of an init container starts all again",
        |stage| {
            let rule = rule("RestartAllContainers", "In", 42);
            let init = [
                beside("one", "sleep 2", &json!({})),
                beside("two", &once_then(42, "exit 0"), &rule),
            ];
            stage.create(
                noting(FOREVER)
                    .spec(&json!({"initContainers": init}))
                    .once(),
            )?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "restart-all-with-sidecar",
        "sidecars and what was added: the first go, the others stay",
        |stage| {
            let init = [beside("car", FOREVER, &json!({"restartPolicy": "Always"}))];
            let script = "test -f /v/42 && { trap 'exit 0' TERM; sleep 100000 & wait; }; \
                while ! test -f /v/go; do sleep 1; done; touch /v/42; exit 42";
            let main = noting(script).main(&rule("RestartAllContainers", "In", 42));
            stage.create(main.spec(&json!({"initContainers": init})).once())?;
            stage.running("p")?;
            let look = beside("look", &format!("touch /v/go; {FOREVER}"), &json!({}));
            stage.add_container("p", &look)?;
            stage.state("p", "main", "running restarts=1")?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
];
