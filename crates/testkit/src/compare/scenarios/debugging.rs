//! Containers that are added to pods that run, to look into them.

use serde_json::{Value, json};

use super::super::manifest::{FOREVER, config_map, container, pod};
use super::super::scenario::Scenario;

/// An ephemeral container that looks at the processes of another.
fn looking_at(target: &str, script: &str) -> Value {
    let mut container = container("look", script);
    container["targetContainerName"] = json!(target);
    container
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "ephemeral",
        "a container is added to a pod that runs",
        |stage| {
            stage.create(pod("p", FOREVER))?;
            stage.running("p")?;
            stage.add_container("p", &container("look", FOREVER))?;
            stage.state("p", "look", "running")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "ephemeral-ends",
        "a container that was added is not started again",
        |stage| {
            stage.create(pod("p", FOREVER))?;
            stage.running("p")?;
            stage.add_container("p", &container("look", "sleep 4; exit 3"))?;
            stage.state("p", "look", "terminated:Error:3")?;
            stage.on_node("sleep 15")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "ephemeral-target",
        "a container that sees another's processes",
        |stage| {
            stage.create(pod("p", FOREVER))?;
            stage.running("p")?;
            let script = "tr '\\0' ' ' < /proc/1/cmdline; sleep 4";
            stage.add_container("p", &looking_at("main", script))?;
            stage.state("p", "look", "terminated:Completed:0")?;
            stage.print("p", "look")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "ephemeral-target-shared",
        "a target where all processes are shared anyway",
        |stage| {
            let shared = json!({"shareProcessNamespace": true});
            stage.create(pod("p", FOREVER).spec(&shared))?;
            stage.running("p")?;
            let script = "cat /proc/1/comm; sleep 4";
            stage.add_container("p", &looking_at("main", script))?;
            stage.state("p", "look", "terminated:Completed:0")?;
            stage.print("p", "look")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "ephemeral-while-it-begins",
        "an init container is looked into, and a container that is not there",
        |stage| {
            let init = [container("one", FOREVER)];
            stage.create(pod("p", FOREVER).spec(&json!({"initContainers": init})))?;
            stage.state("p", "one", "running")?;
            stage.add_container("p", &container("see", FOREVER))?;
            stage.state("p", "see", "running")?;
            stage.add_container("p", &looking_at("main", FOREVER))?;
            stage.state("p", "look", "waiting:CreateContainerConfigError")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "ephemeral-without-image",
        "a container whose image is not there is added",
        |stage| {
            stage.create(pod("p", FOREVER))?;
            stage.running("p")?;
            let mut look = container("look", FOREVER);
            look["image"] = json!("registry.lab:5000/open/none:1");
            look["imagePullPolicy"] = json!("Never");
            stage.add_container("p", &look)?;
            stage.state("p", "look", "waiting:ErrImageNeverPull")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "ephemeral-with-more",
        "variables and a volume that no other container has",
        |stage| {
            stage.make(
                "/api/v1",
                "configmaps",
                &config_map("m", &json!({"A": "from the map"})),
            )?;
            let volume = json!({"volumes": [{"name": "v", "emptyDir": {}}]});
            stage.create(pod("p", FOREVER).spec(&volume))?;
            stage.running("p")?;
            let mut look = container("look", "touch /v/a; ls -a /v; echo $A; hostname; sleep 4");
            look["envFrom"] = json!([{"configMapRef": {"name": "m"}}]);
            look["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
            stage.add_container("p", &look)?;
            stage.state("p", "look", "terminated:Completed:0")?;
            stage.print("p", "look")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "ephemeral-does-not-count",
        "a pod ends while somebody looks into it",
        |stage| {
            stage.create(pod("p", "sleep 12").once())?;
            stage.state("p", "main", "running")?;
            stage.add_container("p", &container("look", FOREVER))?;
            stage.state("p", "look", "running")?;
            stage.phase("p", "Succeeded")
        },
    ),
];
