//! Pods that are to have other resources, on bad days: an agent is killed while it gives
//! them, the next one finishes, and no container notices; or they can never have them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{Agent, Runtime};

use super::stage::{SOON, Stage, condition, identity, main_of, sleeper};

/// As many rounds: in each the agent is killed after another one of them was asked for.
const PODS: usize = 4;

#[test]
fn resizes_that_a_killed_agent_has_begun_are_finished_by_the_next() -> Result<()> {
    let stage = Stage::ours("pods-resize", Runtime::Containerd2)?;
    let names: Vec<String> = (0..PODS).map(|number| format!("grows-{number}")).collect();
    for name in &names {
        let mut container = sleeper();
        container["resources"] = amounts(0);
        stage.create_pod(name, container, json!({}))?;
    }
    let mut before = Vec::new();
    for name in &names {
        before.push(identity(&stage.wait_ready(name)?));
    }
    for round in 1..=PODS {
        for (asked, name) in names.iter().enumerate() {
            resize(&stage, name, &amounts(round))?;
            if asked + 1 == round {
                // One has just begun, and the rest is asked for while nobody is there.
                stage.node.kubelet().kill()?;
            }
        }
        stage.node.kubelet().start_again()?;
        for name in &names {
            wait_resized(&stage, name, &amounts(round))?;
        }
    }
    for (name, before) in names.iter().zip(&before) {
        let now = identity(&stage.wait_ready(name)?);
        for field in ["uid", "container", "restarts", "address"] {
            let (before, now) = (&before[field], &now[field]);
            ensure!(before == now, "{name}: {before} became {now}");
        }
    }
    stage.end()
}

/// Of all that makes a resize impossible, only this can be had in the lab.
const EXCLUSIVE: &str = "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n";

/// So often two nodes are compared that tell of it differently.
const PLAYS: usize = 3;

#[test]
fn a_resize_that_can_never_be_is_told_of_as_by_upstream() -> Result<()> {
    let play = |number: usize| -> Result<(Value, Value)> {
        let upstream = infeasible(&format!("pods-never-u{number}"), Agent::Upstream)?;
        let ours = infeasible(&format!("pods-never-o{number}"), Agent::Ferrolet)?;
        Ok((upstream, ours))
    };
    let (mut upstream, mut ours) = play(1)?;
    // How often it has been told of by the time of the look is chance; a fault differs each time.
    for number in 2..=PLAYS {
        if upstream == ours {
            break;
        }
        println!("upstream: {upstream}\nours: {ours}");
        (upstream, ours) = play(number)?;
    }
    ensure!(upstream == ours, "upstream: {upstream}\nours: {ours}");
    let reason = &ours["condition"]["reason"];
    ensure!(reason == "Infeasible", "{ours}");
    Ok(())
}

/// What the cluster sees of one on a node that gives CPUs away for good.
fn infeasible(name: &str, agent: Agent) -> Result<Value> {
    let stage = Stage::bare(name, Runtime::Containerd2)?;
    stage.node.start_agent(agent, EXCLUSIVE, &[])?;
    stage.node.wait_ready(SOON)?;
    let mut container = sleeper();
    container["resources"] = amounts(0);
    stage.create_pod("never", container, json!({}))?;
    stage.wait_ready("never")?;
    resize(&stage, "never", &amounts(1))?;
    let pod = stage.wait_pod("never", "told of", |pod| {
        !condition(pod, "PodResizePending").is_null()
    })?;
    let mut pending = condition(&pod, "PodResizePending").clone();
    let fields = pending.as_object_mut().context("no condition")?;
    for time in ["lastProbeTime", "lastTransitionTime"] {
        fields.remove(time).with_context(|| format!("no {time}"))?;
    }
    let reason = "ResizeInfeasible";
    stage.wait_event("never", reason, "")?;
    let fields = format!("involvedObject.name=never,reason={reason}");
    let events = stage.json(&["get", "events", "--field-selector", &fields])?;
    let event = &events["items"][0];
    let told = json!({
        "condition": pending,
        "has": main_of(&pod)["resources"],
        "event": [event["type"], event["message"], event["count"]],
    });
    stage.end()?;
    Ok(told)
}

fn amounts(round: usize) -> Value {
    let cpu = format!("{}m", 30 + 10 * round);
    let memory = format!("{}Mi", 32 + 8 * round);
    let amounts = json!({ "cpu": cpu, "memory": memory });
    json!({ "requests": amounts, "limits": amounts })
}

fn resize(stage: &Stage, name: &str, resources: &Value) -> Result<()> {
    let container = json!({ "name": "main", "resources": resources });
    let change = json!({ "spec": { "containers": [container] } }).to_string();
    let words = [
        "patch",
        "pod",
        name,
        "--subresource=resize",
        "--patch",
        &change,
    ];
    stage.run(&words).map(drop)
}

/// The runtime has it, and nothing is left to do.
fn wait_resized(stage: &Stage, name: &str, resources: &Value) -> Result<()> {
    stage.wait_pod(name, "resized", |pod| {
        let told = ["PodResizePending", "PodResizeInProgress"];
        let done = told.iter().all(|kind| condition(pod, kind).is_null());
        done && main_of(pod)["resources"] == *resources
    })?;
    Ok(())
}
