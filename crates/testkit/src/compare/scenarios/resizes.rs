//! Pods whose resources change while they run.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::manifest::{FOREVER, Pod, container, pod};
use super::super::scenario::{Lane, Scenario};
use super::super::stage::Stage;

fn both(cpu: &str, memory: &str) -> Value {
    let amounts = json!({"cpu": cpu, "memory": memory});
    json!({"requests": amounts, "limits": amounts})
}

fn requests(cpu: &str) -> Value {
    json!({"requests": {"cpu": cpu}})
}

fn with(resources: &Value) -> Pod {
    pod("p", FOREVER).main(&json!({"resources": resources}))
}

/// Asks for other resources of one container.
fn resize(stage: &Stage<'_>, name: &str, resources: &Value) -> Result<()> {
    let change = json!({"spec": {"containers": [{"name": name, "resources": resources}]}});
    stage.patch("/api/v1", "pods/p/resize", &change)
}

/// Waits until a resize is done with, and shows.
fn resized(
    stage: &Stage<'_>,
    container: usize,
    resource: (&str, &str),
    amount: &str,
) -> Result<()> {
    stage.said("ResizeCompleted")?;
    stage.until("the new resources in the status", |view| {
        let (kind, name) = resource;
        view.pod("p").is_some_and(|pod| {
            let status = &pod["status"];
            let shown = &status["containerStatuses"][container]["resources"][kind][name];
            let conditions = status["conditions"].to_string();
            *shown == amount && !conditions.contains("PodResize")
        })
    })
}

fn pending(stage: &Stage<'_>) -> Result<()> {
    stage.said("ResizeDeferred")?;
    stage.until("PodResizePending", |view| {
        let conditions = view
            .pod("p")
            .map(|pod| pod["status"]["conditions"].to_string());
        conditions.is_some_and(|conditions| conditions.contains("PodResizePending"))
    })
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("resize-cpu-up", "a container gets more CPUs", |stage| {
        stage.create(with(&both("100m", "32Mi")))?;
        stage.running("p")?;
        resize(stage, "main", &both("200m", "32Mi"))?;
        resized(stage, 0, ("limits", "cpu"), "200m")?;
        stage.end("p")
    }),
    Scenario::new("resize-cpu-down", "a container gets fewer CPUs", |stage| {
        stage.create(with(&both("200m", "32Mi")))?;
        stage.running("p")?;
        resize(stage, "main", &both("100m", "32Mi"))?;
        resized(stage, 0, ("limits", "cpu"), "100m")?;
        stage.end("p")
    }),
    Scenario::new(
        "resize-memory-up",
        "a container gets more memory",
        |stage| {
            stage.create(with(&both("100m", "32Mi")))?;
            stage.running("p")?;
            resize(stage, "main", &both("100m", "64Mi"))?;
            resized(stage, 0, ("limits", "memory"), "64Mi")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "resize-memory-down",
        "a container gets less memory, and more than it uses",
        |stage| {
            stage.create(with(&both("100m", "64Mi")))?;
            stage.running("p")?;
            resize(stage, "main", &both("200m", "48Mi"))?;
            resized(stage, 0, ("limits", "memory"), "48Mi")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "resize-requests",
        "a container without limits asks for more",
        |stage| {
            stage.create(with(&requests("100m")))?;
            stage.running("p")?;
            resize(stage, "main", &requests("150m"))?;
            resized(stage, 0, ("requests", "cpu"), "150m")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "resize-restarts",
        "a container starts again to be resized",
        |stage| {
            let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
            let pod = with(&both("100m", "32Mi")).main(&json!({"resizePolicy": policy}));
            stage.create(pod)?;
            stage.running("p")?;
            resize(stage, "main", &both("200m", "32Mi"))?;
            stage.until("main to be started again", |view| {
                view.pod("p")
                    .is_some_and(|pod| super::super::stage::restarts(pod, "main") == 1)
            })?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "resize-one-of-two",
        "one of two containers gets more",
        |stage| {
            let mut other = container("other", FOREVER);
            other["resources"] = both("100m", "32Mi");
            stage.create(with(&both("100m", "32Mi")).and(other))?;
            stage.running("p")?;
            resize(stage, "other", &both("200m", "64Mi"))?;
            resized(stage, 1, ("limits", "cpu"), "200m")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "resize-beyond-the-node",
        "a container asks for more than the node has",
        |stage| {
            stage.create(with(&requests("100m")))?;
            stage.running("p")?;
            resize(stage, "main", &requests("500"))?;
            pending(stage)?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "resize-undone",
        "a resize that waits is taken back",
        |stage| {
            stage.create(with(&requests("100m")))?;
            stage.running("p")?;
            resize(stage, "main", &requests("500"))?;
            pending(stage)?;
            resize(stage, "main", &requests("100m"))?;
            stage.until("PodResizePending to go", |view| {
                let conditions = view
                    .pod("p")
                    .map(|pod| pod["status"]["conditions"].to_string());
                conditions.is_some_and(|conditions| !conditions.contains("PodResizePending"))
            })?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "resize-and-delete",
        "a pod is deleted while a resize of it waits",
        |stage| {
            stage.create(with(&requests("100m")))?;
            stage.running("p")?;
            resize(stage, "main", &requests("500"))?;
            stage.said("ResizeDeferred")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "resize-finds-room",
        "a resize that waits is carried out when another pod has gone",
        |stage| {
            let milli = stage.cpus()? * 1000;
            let most = requests(&format!("{}m", milli - 600));
            stage.create(pod("other", FOREVER).main(&json!({"resources": most})))?;
            stage.running("other")?;
            stage.create(with(&requests("100m")))?;
            stage.running("p")?;
            resize(stage, "main", &requests("700m"))?;
            pending(stage)?;
            stage.end("other")?;
            resized(stage, 0, ("requests", "cpu"), "700m")?;
            stage.end("p")
        },
    )
    .lane(Lane::Cpus),
];
