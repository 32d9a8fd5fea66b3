//! Pods on the simulated runtime, from their creation to their end, while watches break off,
//! lists are old and writes are refused.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use apiserver::faults::{Effect, Meets, Rule};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use seams::Runtime as _;
use seams::cri::{ListContainersRequest, ListPodSandboxRequest};
use serde_json::json;
use testkit::wait;

use super::server::{Agent, Embedded, PATIENCE};

const PODS: usize = 20;

fn faults() -> Vec<Rule> {
    let rule = |verb, subresource: &str, share, effect| {
        let usual = Rule::new(verb, "pods", effect);
        Rule {
            meets: Meets {
                subresource: subresource.to_owned(),
                ..usual.meets
            },
            share,
            ..usual
        }
    };
    vec![
        rule("watch", "", 0.5, Effect::DropWatch(1)),
        rule("list", "", 0.5, Effect::StaleList(5)),
        rule("patch", "status", 0.2, Effect::Error(429)),
        rule("patch", "status", 0.2, Effect::Error(500)),
        rule("get", "", 0.3, Effect::Latency(Duration::from_millis(200))),
        // These are met, whatever the dice say.
        rule("watch", "", 1.0, Effect::DropWatch(1)).times(2),
        rule("patch", "status", 1.0, Effect::Conflict).times(1),
        rule("delete", "", 1.0, Effect::Error(503)).times(1),
    ]
}

#[test]
fn pods_run_once_each_and_end_though_watches_break_and_lists_are_old() -> Result<()> {
    let cluster = Embedded::start()?;
    // From the beginning: a watch that stands is not met any more.
    cluster.faults.set(faults());
    let agent = cluster.agent("worker")?;
    cluster.wait_ready("worker")?;
    let pods: Api<Pod> = Api::namespaced(cluster.admin.clone(), "default");
    for number in 0..PODS {
        let pod = pod(&format!("pod-{number:02}"))?;
        // The first comes before the service account that it is to have.
        wait::until("a pod to be made", PATIENCE, || {
            let made = cluster.run(pods.create(&PostParams::default(), &pod));
            made.map(drop)
        })?;
    }
    wait_running(&cluster, &pods, PODS)?;
    let going = DeleteParams::default().grace_period(1);
    wait::until("a pod to be told to go", PATIENCE, || {
        cluster.run(pods.delete("pod-07", &going)).map(drop)
    })?;
    wait::until("a pod to be gone", PATIENCE, || {
        let left = cluster.run(pods.get_opt("pod-07"))?;
        ensure!(left.is_none(), "it is there");
        let held = held(&cluster, &agent)?;
        ensure!(!held.contains_key("pod-07"), "the runtime has it");
        anyhow::Ok(())
    })?;
    cluster.wait_faults_met()?;
    cluster.faults.clear();
    wait_running(&cluster, &pods, PODS - 1)?;
    let held = held(&cluster, &agent)?;
    ensure!(held.len() == PODS - 1, "{held:?}");
    for (pod, attempts) in &held {
        // One sandbox and one container, neither of them a second try.
        ensure!(*attempts == [0, 0], "{pod} was made {attempts:?}");
    }
    cluster.end(agent)?;
    cluster.stop()
}

fn pod(name: &str) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }))?)
}

/// Waits until so many run, as the API server tells it, on our node and with an address.
fn wait_running(cluster: &Embedded, pods: &Api<Pod>, count: usize) -> Result<()> {
    wait::until(&format!("{count} pods to run"), PATIENCE, || {
        let all = cluster.run(pods.list(&ListParams::default()))?;
        let running = all.items.iter().filter(|pod| is_running(pod)).count();
        ensure!(running == count, "{running} of {} run", all.items.len());
        anyhow::Ok(())
    })
}

fn is_running(pod: &Pod) -> bool {
    let on_ours = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some("worker");
    let Some(status) = pod.status.as_ref() else {
        return false;
    };
    let conditions = status.conditions.iter().flatten();
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    on_ours
        && pod.metadata.deletion_timestamp.is_none()
        && status.phase.as_deref() == Some("Running")
        && status.pod_ip.is_some()
        && ready.any(|condition| condition.status == "True")
}

/// By pod, the attempts of all that was ever made of it and is not removed: sandboxes, then
/// containers, dead or alive.
fn held(cluster: &Embedded, agent: &Agent) -> Result<BTreeMap<String, Vec<u32>>> {
    let sandboxes = agent
        .pods
        .list_pod_sandbox(ListPodSandboxRequest::default());
    let sandboxes = cluster.run(sandboxes)?.items;
    let containers = agent.pods.list_containers(ListContainersRequest::default());
    let containers = cluster.run(containers)?.containers;
    let mut held: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for sandbox in sandboxes {
        let metadata = sandbox.metadata.unwrap_or_default();
        names.insert(sandbox.id, metadata.name.clone());
        held.entry(metadata.name)
            .or_default()
            .push(metadata.attempt);
    }
    for container in containers {
        let name = names.get(&container.pod_sandbox_id).cloned();
        let metadata = container.metadata.unwrap_or_default();
        let pod = name.unwrap_or_else(|| format!("a pod without a sandbox: {}", container.id));
        held.entry(pod).or_default().push(metadata.attempt);
    }
    Ok(held)
}
