//! How soon the release is of use on a machine with containerd: its node is Ready, and runs a
//! first busybox pod; and for an ordinary user of that machine, whose node is simulated.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::lab::{Daemon, FERROLET, Lab, Node, Runtime, Spec};
use testkit::{cargo, wait};

/// What is promised for each of them.
const SOON: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// Somebody who owns nothing on the machine but a directory.
const ORDINARY_USER: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];
const HOME: &str = "/opt/lab/home-of-65534";

#[test]
fn the_release_is_ready_and_runs_a_first_pod_and_is_ready_for_anybody_within_five_seconds_each()
-> Result<()> {
    let _alone = super::alone();
    let node = Lab::shared()?.node("readme-pod", Runtime::Containerd2)?;
    let release = cargo::release_program("ferrolet")?;
    cargo::install(&release, &node.machine().file(FERROLET))?;
    for (what, play) in [
        ("a cluster of the release", ready as fn(&Node) -> _),
        ("a first pod on it", running),
        ("a cluster of an ordinary user", ready_for_anybody),
    ] {
        wait::promised(what, SOON, || Ok((play(&node)?, ())))?;
    }
    node.remove()
}

/// How long a new cluster takes until its node is Ready.
fn ready(node: &Node) -> Result<Duration> {
    let began = Instant::now();
    let (up, _) = start_as_root(node)?;
    let took = began.elapsed();
    up.stop()?;
    Ok(took)
}

/// How long the first pod of a new cluster takes from kubectl's call until it is Ready.
fn running(node: &Node) -> Result<Duration> {
    let (up, kubeconfig) = start_as_root(node)?;
    let kubectl = |line: &str| {
        let words = ["--kubeconfig", &kubeconfig];
        let words = words.into_iter().chain(line.split(' '));
        node.machine().run("kubectl", words)
    };
    // What kubectl needs to start at all is none of the pod's time.
    let began = Instant::now();
    kubectl("version --client")?;
    let start = began.elapsed();
    let began = Instant::now();
    kubectl("run hello --image=busybox --image-pull-policy=IfNotPresent -- sleep 1000")?;
    kubectl("wait --for=condition=Ready pod/hello --timeout=60s")?;
    let took = began.elapsed().saturating_sub(start);
    up.stop()?;
    Ok(took)
}

/// How long the node of somebody who is not root takes until it is Ready, by the program's own
/// clock.
fn ready_for_anybody(node: &Node) -> Result<Duration> {
    let owned = ["--owner=65534", "--group=65534", "--directory", HOME];
    node.machine().run("install", owned)?;
    let words = [FERROLET, "up", "--ephemeral", "--runtime=sim"];
    let words = ORDINARY_USER.iter().chain(&words);
    let (up, said) = start(
        node,
        &Spec {
            program: "setpriv".to_owned(),
            arguments: words.map(|&word| word.to_owned()).collect(),
            environment: ["HOME", "TMPDIR"]
                .map(|name| (name.to_owned(), HOME.to_owned()))
                .to_vec(),
            ..Spec::default()
        },
    )?;
    ensure!(said.contains("sim-0 is simulated, as asked"), "{said}");
    ensure!(
        said.contains(&format!("export KUBECONFIG={HOME}/")),
        "{said}"
    );
    up.stop()?;
    super::ready_after(&said)
}

/// A cluster that leaves nothing behind, and its kubeconfig.
fn start_as_root(node: &Node) -> Result<(Daemon, String)> {
    let (up, said) = start(
        node,
        &Spec {
            program: FERROLET.to_owned(),
            arguments: vec!["up".to_owned(), "--ephemeral".to_owned()],
            ..Spec::default()
        },
    )?;
    ensure!(said.contains("runs containers with containerd"), "{said}");
    let (_, kubeconfig) = said
        .split_once("export KUBECONFIG=")
        .context("a kubeconfig")?;
    let kubeconfig = kubeconfig.lines().next().unwrap_or_default();
    Ok((up, kubeconfig.to_owned()))
}

/// A cluster whose nodes are Ready, and what it said until then.
fn start(node: &Node, spec: &Spec) -> Result<(Daemon, String)> {
    let up = node.machine().daemon("up");
    // What the one before said is still there.
    let _ = fs::remove_file(up.log_file());
    up.start(spec)?;
    let said = wait::until("the cluster", PATIENCE, || {
        let said = up.log();
        let is_there = said.contains("Ctrl-C ends it.");
        is_there.then_some(said.clone()).context(said)
    })?;
    Ok((up, said))
}
