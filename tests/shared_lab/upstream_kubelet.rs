//! The upstream kubelet in lab nodes: this proves the lab, before and beside
//! our own agent.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use testkit::lab::{KUBERNETES, Lab, Runtime};
use testkit::wait;
use testkit::workload::{Pod, Workload};

use crate::server::door;

const READY: Duration = Duration::from_secs(60);
const RUNNING: Duration = Duration::from_secs(120);

#[test]
fn joins_with_a_token_and_runs_a_deployment_on_containerd_2() -> Result<()> {
    joins_and_runs_a_deployment("up-ctd2", Runtime::Containerd2, "containerd://2.")
}

#[test]
fn joins_with_a_token_and_runs_a_deployment_on_debians_containerd() -> Result<()> {
    joins_and_runs_a_deployment("up-ctd16", Runtime::Containerd16, "containerd://1.6.")
}

fn joins_and_runs_a_deployment(name: &str, runtime: Runtime, version: &str) -> Result<()> {
    let lab = Lab::shared()?;
    let kubectl = lab.kubectl();
    let node = lab.node(name, runtime)?;
    node.start_upstream_kubelet("")?;
    node.wait_ready(READY)?;
    let info = kubectl.json(["get", "node", name])?["status"]["nodeInfo"].take();
    assert_eq!(info["kubeletVersion"], KUBERNETES);
    let reported = info["containerRuntimeVersion"].as_str().unwrap_or_default();
    assert!(reported.starts_with(version), "{reported}");

    let script = "echo started on $(hostname); exec sleep 100000";
    let workload = Workload::create(lab.kubectl(), name, &node, 3, script)?;
    for pod in workload.wait_running(3, RUNNING)? {
        let place = ["--namespace", workload.namespace()];
        // What it says may come a moment after it runs.
        wait::until("what the pod says", READY, || {
            let logs = kubectl.run([&place[..], &["logs", pod.name()]].concat())?;
            let expected = format!("started on {}", pod.name());
            ensure!(logs.trim() == expected, "{logs:?}");
            Ok(())
        })?;
        let exec = ["exec", pod.name(), "--", "cat", "/etc/hostname"];
        let said = door::made(|| kubectl.run([&place[..], &exec].concat()))?;
        assert_eq!(said.trim(), pod.name());
        assert!(pod.address().starts_with("10.245."), "{}", pod.address());
    }
    workload.delete()?;
    node.remove()
}

#[test]
fn two_nodes_with_twenty_pods_each_do_not_disturb_each_other() -> Result<()> {
    const PODS: usize = 20;
    let lab = Lab::shared()?;
    let nodes = [
        lab.node("pair-a", Runtime::Containerd2)?,
        lab.node("pair-b", Runtime::Containerd2)?,
    ];
    for node in &nodes {
        node.start_upstream_kubelet("")?;
    }
    let mut workloads = Vec::new();
    for node in &nodes {
        node.wait_ready(READY)?;
        let script = "exec sleep 100000";
        workloads.push(Workload::create(
            lab.kubectl(),
            node.name(),
            node,
            PODS,
            script,
        )?);
    }
    let mut before = Vec::new();
    for workload in &workloads {
        before.push(ids(&workload.wait_running(PODS, RUNNING)?));
    }

    // A kubelet that starts looks at everything its runtime holds, and removes
    // what it does not know: here it must see its own pods only.
    for node in &nodes {
        node.kubelet().restart()?;
    }
    for (node, workload) in nodes.iter().zip(&workloads) {
        let kubelet = node.kubelet();
        wait::until("the restarted kubelet to look around", READY, || {
            if kubelet
                .log()
                .matches("Starting to sync pod status with apiserver")
                .count()
                < 2
            {
                bail!("not yet in {}", kubelet.log_file().display());
            }
            Ok(())
        })?;
        node.wait_ready(READY)?;
        workload.wait_running(PODS, RUNNING)?;
    }
    for ((node, workload), before) in nodes.iter().zip(&workloads).zip(&before) {
        let pods = workload.pods()?;
        assert_eq!(&ids(&pods), before, "containers of {}", node.name());
        assert_eq!(pods.iter().map(Pod::restarts).sum::<u64>(), 0);
        let listed = node.crictl(["ps", "--quiet"])?;
        assert_eq!(
            listed.lines().count(),
            PODS,
            "containers in {}",
            node.name()
        );
    }
    for workload in workloads {
        workload.delete()?;
    }
    Ok(())
}

fn ids(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter()
        .map(|pod| pod.container_id().to_owned())
        .collect()
}

#[test]
fn metrics_server_reads_its_figures_through_the_aggregated_api() -> Result<()> {
    let lab = Lab::shared()?;
    let node = lab.node("metrics", Runtime::Containerd2)?;
    node.start_upstream_kubelet("")?;
    node.wait_ready(READY)?;
    lab.start_metrics_server()?;
    let figures = wait::until("figures of the node", Duration::from_secs(90), || {
        lab.kubectl()
            .run(["top", "node", node.name(), "--no-headers"])
    })?;
    let mut words = figures.split_whitespace();
    assert_eq!(words.next(), Some("metrics"));
    let cpu = words.next().unwrap_or_default();
    assert!(cpu.ends_with('m') && cpu != "0m", "{figures}");
    Ok(())
}
