//! Pods whose resources change while they run. All are of the CPUs' lane: others that
//! fill the node would make any of them wait.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::manifest::{FOREVER, Pod, container, pod};
use super::super::scenario::{Lane, Scenario};
use super::super::stage::{Stage, View, restarts};
use super::super::story::items;

/// Has more memory than it may have later, and says when.
const HOARDER: &str = "hoard=$(dd if=/dev/zero bs=1M count=48 | tr '\\0' x); touch /tmp/full; \
                       trap 'exit 0' TERM; sleep 100000 & wait; echo $hoard";
/// Upstream's figure of a pod may be a quarter of a minute old.
const IS_FULL: &str = "until test -f /tmp/full; do sleep 0.1; done; sleep 20";

/// Ends soon, and again, and goes on at last.
const CRASHES_TWICE: &str = "echo >> /v/runs; test $(wc -l < /v/runs) -gt 2 || { sleep 2; exit 3; }; \
                             trap 'exit 0' TERM; sleep 100000 & wait";

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

/// A container that starts again to have another amount of something.
fn restarting(resource: &str) -> Value {
    json!({"resizePolicy": [{"resourceName": resource, "restartPolicy": "RestartContainer"}]})
}

fn sidecar(name: &str, resources: &Value) -> Value {
    let mut sidecar = container(name, FOREVER);
    sidecar["restartPolicy"] = json!("Always");
    sidecar["resources"] = resources.clone();
    sidecar
}

/// Changes what pods may have.
fn resize(stage: &Stage<'_>, spec: &Value) -> Result<()> {
    stage.patch("/api/v1", "pods/p/resize", &json!({"spec": spec}))
}

/// What is asked for one container.
fn of(name: &str, resources: &Value) -> Value {
    json!({"containers": [{"name": name, "resources": resources}]})
}

fn of_main(resources: &Value) -> Value {
    of("main", resources)
}

fn has_condition(view: &View<'_>, kind: &str) -> bool {
    let pod = view.pod("p");
    pod.is_some_and(|pod| {
        items(&pod["status"]["conditions"]).any(|condition| condition["type"] == kind)
    })
}

/// Waits until a resize is done with, and `shows` in the status.
fn resized(stage: &Stage<'_>, shows: impl Fn(&Value) -> bool) -> Result<()> {
    stage.said("ResizeCompleted")?;
    stage.until("the new resources in the status", |view| {
        let there = view.pod("p").is_some_and(|pod| shows(&pod["status"]));
        let told = |kind| has_condition(view, kind);
        there && !told("PodResizePending") && !told("PodResizeInProgress")
    })
}

/// A container of this name shows an amount.
fn shows(name: &str, amount: (&str, &str), value: &str) -> impl Fn(&Value) -> bool {
    let (kind, resource) = amount;
    move |status| {
        let lists = ["containerStatuses", "initContainerStatuses"];
        let mut containers = lists.into_iter().flat_map(|list| items(&status[list]));
        let container = containers.find(|container| container["name"] == name);
        container.is_some_and(|container| container["resources"][kind][resource] == value)
    }
}

/// Waits until a resize waits.
fn pending(stage: &Stage<'_>) -> Result<()> {
    stage.said("ResizeDeferred")?;
    stage.until("PodResizePending", |view| {
        let seen = view.pod("p").is_some_and(|pod| {
            pod["status"]["observedGeneration"] == pod["metadata"]["generation"]
        });
        seen && has_condition(view, "PodResizePending")
    })
}

fn restarted(stage: &Stage<'_>) -> Result<()> {
    stage.until("main to be started again", |view| {
        view.pod("p").is_some_and(|pod| restarts(pod, "main") == 1)
    })?;
    stage.running("p")
}

/// A pod that has most of the node, beside one that has little and asks for more.
fn crowded(stage: &Stage<'_>) -> Result<()> {
    let most = requests(&format!("{}m", stage.cpus()? * 1000 - 800));
    stage.create(pod("other", FOREVER).main(&json!({"resources": most})))?;
    stage.running("other")?;
    stage.create(with(&requests("100m")))?;
    stage.running("p")?;
    resize(stage, &of_main(&requests("900m")))
}

/// A container with these resources gets others, and goes on.
fn plain(stage: &Stage<'_>, from: &Value, to: &Value, amount: (&str, &str)) -> Result<()> {
    stage.create(with(from))?;
    stage.running("p")?;
    resize(stage, &of_main(to))?;
    let (kind, resource) = amount;
    let value = to[kind][resource].as_str().unwrap_or_default();
    resized(stage, shows("main", amount, value))?;
    stage.end("p")
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("resize-cpu-up", "a container gets more CPUs", |stage| {
        let (from, to) = (both("100m", "32Mi"), both("200m", "32Mi"));
        plain(stage, &from, &to, ("limits", "cpu"))
    })
    .lane(Lane::Cpus),
    Scenario::new("resize-cpu-down", "a container gets fewer CPUs", |stage| {
        let (from, to) = (both("200m", "32Mi"), both("100m", "32Mi"));
        plain(stage, &from, &to, ("limits", "cpu"))
    })
    .lane(Lane::Cpus),
    Scenario::new(
        "resize-memory-up",
        "a container gets more memory",
        |stage| {
            let (from, to) = (both("100m", "32Mi"), both("100m", "64Mi"));
            plain(stage, &from, &to, ("limits", "memory"))
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "resize-memory-down",
        "a container gets less memory, and more than it uses",
        |stage| {
            let (from, to) = (both("100m", "64Mi"), both("200m", "48Mi"));
            // Upstream has no figure of a young pod's memory, and says so.
            let counted = json!({"exec": {"command": ["sh", "-c", "sleep 20"]}});
            stage.create(with(&from).main(&json!({"lifecycle": {"postStart": counted}})))?;
            stage.running("p")?;
            resize(stage, &of_main(&to))?;
            resized(stage, shows("main", ("limits", "memory"), "48Mi"))?;
            stage.end("p")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "resize-requests",
        "a container without limits asks for more",
        |stage| {
            let (from, to) = (requests("100m"), requests("150m"));
            plain(stage, &from, &to, ("requests", "cpu"))
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "resize-memory-down-anew",
        "a container starts again to have less memory",
        |stage| {
            let pod = with(&both("100m", "64Mi")).main(&restarting("memory"));
            stage.create(pod)?;
            stage.running("p")?;
            resize(stage, &of_main(&both("100m", "48Mi")))?;
            restarted(stage)?;
            resized(stage, shows("main", ("limits", "memory"), "48Mi"))?;
            stage.end("p")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "resize-below-usage",
        "a container is not given less memory than it uses",
        |stage| {
            let full = json!({"exec": {"command": ["sh", "-c", IS_FULL]}});
            let more = json!({
                "resources": both("500m", "256Mi"), "lifecycle": {"postStart": full},
            });
            stage.create(pod("p", HOARDER).main(&more))?;
            stage.running("p")?;
            resize(stage, &of_main(&both("500m", "32Mi")))?;
            stage.said("ResizeError")?;
            stage.until("the error in the status", |view| {
                let pod = view.pod("p");
                pod.is_some_and(|pod| {
                    items(&pod["status"]["conditions"])
                        .any(|condition| condition["reason"] == "Error")
                })
            })?;
            stage.end("p")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "resize-one-of-two",
        "one of two containers gets more",
        |stage| {
            let mut other = container("other", FOREVER);
            other["resources"] = both("100m", "32Mi");
            stage.create(with(&both("100m", "32Mi")).and(other))?;
            stage.running("p")?;
            resize(stage, &of("other", &both("200m", "64Mi")))?;
            resized(stage, shows("other", ("limits", "cpu"), "200m"))?;
            stage.end("p")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new("resize-sidecar", "a sidecar gets more", |stage| {
        let sidecars = json!({"initContainers": [sidecar("side", &both("100m", "32Mi"))]});
        stage.create(with(&both("100m", "32Mi")).spec(&sidecars))?;
        stage.running("p")?;
        let more = json!({"name": "side", "resources": both("150m", "48Mi")});
        resize(stage, &json!({"initContainers": [more]}))?;
        resized(stage, shows("side", ("limits", "cpu"), "150m"))?;
        stage.end("p")
    })
    .lane(Lane::Cpus),
    Scenario::new(
        "resize-beside-sidecar",
        "a container gets more beside a sidecar that does not",
        |stage| {
            let sidecars = json!({"initContainers": [sidecar("side", &both("100m", "32Mi"))]});
            stage.create(with(&both("100m", "32Mi")).spec(&sidecars))?;
            stage.running("p")?;
            resize(stage, &of_main(&both("200m", "32Mi")))?;
            resized(stage, shows("main", ("limits", "cpu"), "200m"))?;
            stage.end("p")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "resize-init",
        "an init container gets more while it runs",
        |stage| {
            let mut init = container("one", FOREVER);
            init["resources"] = both("100m", "32Mi");
            let init = json!({"initContainers": [init]});
            stage.create(with(&both("100m", "32Mi")).spec(&init))?;
            stage.state("p", "one", "running")?;
            let more = json!({"name": "one", "resources": both("150m", "48Mi")});
            resize(stage, &json!({"initContainers": [more]}))?;
            resized(stage, shows("one", ("limits", "cpu"), "150m"))?;
            stage.end("p")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new("resize-whole-pod", "a pod as a whole gets more", |stage| {
        let before = json!({"resources": both("100m", "48Mi")});
        stage.create(pod("p", FOREVER).spec(&before))?;
        stage.running("p")?;
        resize(stage, &json!({"resources": both("200m", "64Mi")}))?;
        resized(stage, |status| {
            status["resources"]["limits"]["cpu"] == "200m"
        })?;
        stage.end("p")
    })
    .lane(Lane::Cpus),
    Scenario::new(
        "resize-in-crash-loop",
        "a container that waits after a crash gets more, and starts with it",
        |stage| {
            let resources = json!({"resources": both("100m", "32Mi")});
            let pod = pod("p", CRASHES_TWICE).volume("/v", &json!({"emptyDir": {}}));
            stage.create(pod.main(&resources))?;
            stage.state("p", "main", "waiting:CrashLoopBackOff")?;
            // Nothing runs that could be resized: whether upstream calls that in progress
            // for a moment is chance.
            stage.look_away("p")?;
            resize(stage, &of_main(&both("200m", "32Mi")))?;
            resized(stage, shows("main", ("limits", "cpu"), "200m"))?;
            stage.state("p", "main", "running restarts=2")?;
            stage.end("p")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "resize-waits",
        "a container asks for more than the node has left",
        |stage| {
            crowded(stage)?;
            pending(stage)?;
            // By force: upstream tells once more of what a pod waits for that ends in its time.
            stage.delete("p", Some(0))?;
            stage.gone("p")?;
            stage.end("other")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "resize-undone",
        "a resize that waits is taken back",
        |stage| {
            crowded(stage)?;
            pending(stage)?;
            resize(stage, &of_main(&requests("100m")))?;
            stage.until("PodResizePending to go", |view| {
                view.pod("p").is_some() && !has_condition(view, "PodResizePending")
            })?;
            stage.end("p")?;
            stage.end("other")
        },
    )
    .lane(Lane::Cpus),
    Scenario::new(
        "resize-finds-room",
        "a resize that waits is carried out when another pod has gone",
        |stage| {
            crowded(stage)?;
            pending(stage)?;
            stage.end("other")?;
            resized(stage, shows("main", ("requests", "cpu"), "900m"))?;
            stage.end("p")
        },
    )
    .lane(Lane::Cpus),
];
