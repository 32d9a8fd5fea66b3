//! Pods that are deleted, in the ways and at the moments there are.

use serde_json::json;

use super::super::manifest::{FOREVER, container, pod};
use super::super::scenario::{Lane, Scenario};
use super::images::FORGET_PULLED;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "term-ignored",
        "who does not hear SIGTERM is killed after the grace",
        |stage| {
            let grace = json!({"terminationGracePeriodSeconds": 3});
            stage.create(pod("p", "trap '' TERM; while true; do sleep 1; done").spec(&grace))?;
            stage.running("p")?;
            stage.end("p")
        },
    )
    .ci(),
    Scenario::new(
        "deleted-with-less-grace",
        "the grace of the call counts",
        |stage| {
            stage.create(pod("p", "trap '' TERM; while true; do sleep 1; done"))?;
            stage.running("p")?;
            stage.delete("p", Some(2))?;
            stage.gone("p")
        },
    ),
    Scenario::new(
        "deleted-twice",
        "a second deletion shortens the first",
        |stage| {
            stage.create(pod("p", "trap '' TERM; while true; do sleep 1; done"))?;
            stage.running("p")?;
            stage.delete("p", None)?;
            stage.said("Killing")?;
            stage.delete("p", Some(1))?;
            stage.gone("p")
        },
    ),
    Scenario::new(
        "deleted-by-force",
        "a pod without grace is gone at once",
        |stage| {
            stage.create(pod("p", FOREVER))?;
            stage.running("p")?;
            stage.delete("p", Some(0))?;
            stage.gone("p")?;
            stage.said("Killing")
        },
    ),
    Scenario::new(
        "deleted-when-done",
        "a pod that has ended is deleted",
        |stage| {
            stage.create(pod("p", "sleep 2").once())?;
            stage.phase("p", "Succeeded")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "deleted-in-init",
        "a pod is deleted while an init container runs",
        |stage| {
            let init = [container("one", FOREVER)];
            stage.create(pod("p", FOREVER).spec(&json!({"initContainers": init})))?;
            stage.state("p", "one", "running")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "deleted-while-pulling",
        "a pod is deleted while its image comes",
        |stage| {
            stage.on_node(FORGET_PULLED)?;
            let image = json!({"image": "registry.lab:5000/slow/pulled:1"});
            stage.create(pod("p", FOREVER).main(&image))?;
            stage.said("Pulling")?;
            stage.end("p")
        },
    )
    .lane(Lane::PulledImage),
    Scenario::new(
        "same-name-again",
        "a name that is free is taken by another pod",
        |stage| {
            stage.create(pod("p", FOREVER))?;
            stage.running("p")?;
            stage.end("p")?;
            stage.create(pod("p", FOREVER))?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "same-name-at-once",
        "a name is taken while its first pod still ends",
        |stage| {
            stage.create(pod("p", FOREVER))?;
            stage.running("p")?;
            stage.delete("p", Some(0))?;
            // The object, not what it stood for.
            stage.gone("p")?;
            stage.create(pod("p", FOREVER))?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
];
