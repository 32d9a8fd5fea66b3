//! How soon the release is of use on a machine with containerd: its node is Ready, and runs a
//! first busybox pod.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::lab::{Daemon, FERROLET, Lab, Node, Runtime, Spec};
use testkit::{cargo, wait};

/// What is promised for each of the two.
const SOON: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_release_is_ready_and_runs_a_first_pod_within_five_seconds_each() -> Result<()> {
    let _alone = super::alone();
    let node = Lab::shared()?.node("readme-pod", Runtime::Containerd2)?;
    let release = cargo::release_program("ferrolet")?;
    cargo::install(&release, &node.machine().file(FERROLET))?;
    for (what, play) in [
        ("a cluster of the release", ready as fn(&Node) -> _),
        ("a first pod on it", running),
    ] {
        wait::promised(what, SOON, || Ok((play(&node)?, ())))?;
    }
    node.remove()
}

/// How long a new cluster takes until its node is Ready.
fn ready(node: &Node) -> Result<Duration> {
    let began = Instant::now();
    let (up, _) = start(node)?;
    let took = began.elapsed();
    up.stop()?;
    Ok(took)
}

/// How long the first pod of a new cluster takes from kubectl's call until it is Ready.
fn running(node: &Node) -> Result<Duration> {
    let (up, kubeconfig) = start(node)?;
    let kubectl = |line: &str| {
        let words = ["--kubeconfig", &kubeconfig];
        let words = words.into_iter().chain(line.split(' '));
        node.machine().run("kubectl", words)
    };
    let began = Instant::now();
    kubectl("run hello --image=busybox --image-pull-policy=IfNotPresent -- sleep 1000")?;
    kubectl("wait --for=condition=Ready pod/hello --timeout=60s")?;
    let took = began.elapsed();
    up.stop()?;
    Ok(took)
}

/// A cluster that leaves nothing behind, and its kubeconfig.
fn start(node: &Node) -> Result<(Daemon, String)> {
    let up = node.machine().daemon("up");
    // What the one before said is still there.
    let _ = fs::remove_file(up.log_file());
    up.start(&Spec {
        program: FERROLET.to_owned(),
        arguments: vec!["up".to_owned(), "--ephemeral".to_owned()],
        ..Spec::default()
    })?;
    let said = wait::until("the cluster", PATIENCE, || {
        let said = up.log();
        let is_there = said.contains("Ctrl-C ends it.");
        is_there.then_some(said.clone()).context(said)
    })?;
    ensure!(said.contains("runs containers with containerd"), "{said}");
    let (_, kubeconfig) = said
        .split_once("export KUBECONFIG=")
        .context("a kubeconfig")?;
    let kubeconfig = kubeconfig.lines().next().unwrap_or_default();
    Ok((up, kubeconfig.to_owned()))
}
