//! How soon the release is of use on a machine with containerd: its node is Ready, and runs a
//! first busybox pod.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::lab::{FERROLET, Lab, Runtime, Spec};
use testkit::{cargo, wait};

/// What is promised for each of the two.
const SOON: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_release_is_ready_and_runs_a_first_pod_within_five_seconds_each() -> Result<()> {
    let _alone = super::alone();
    let node = Lab::shared()?.node("readme-pod", Runtime::Containerd2)?;
    let machine = node.machine();
    let release = cargo::release_program("ferrolet")?;
    cargo::install(&release, &machine.file(FERROLET))?;
    let up = machine.daemon("up");
    let began = Instant::now();
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
    let ready = began.elapsed();
    ensure!(said.contains("runs containers with containerd"), "{said}");
    let (_, kubeconfig) = said
        .split_once("export KUBECONFIG=")
        .context("a kubeconfig")?;
    let kubeconfig = kubeconfig.lines().next().unwrap_or_default().to_owned();
    let kubectl = |line: &str| {
        let words = ["--kubeconfig", &kubeconfig];
        machine.run("kubectl", words.into_iter().chain(line.split(' ')))
    };
    let began = Instant::now();
    kubectl("run hello --image=busybox --image-pull-policy=IfNotPresent -- sleep 1000")?;
    kubectl("wait --for=condition=Ready pod/hello --timeout=60s")?;
    let running = began.elapsed();
    println!("the cluster after {ready:.2?}, a first pod {running:.2?} later");
    ensure!(ready <= SOON && running <= SOON, "{ready:?}, {running:?}");
    up.stop()?;
    node.remove()
}
