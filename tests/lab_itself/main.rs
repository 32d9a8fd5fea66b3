//! The lab's own promises: it starts, bends, ends, and leaves nothing behind.
//! One test, in a lab of its own, since the steps build on each other and the
//! counts are of the whole machine.

#![allow(clippy::disallowed_methods, reason = "a test reads the clock")]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testkit::lab::census::Census;
use testkit::lab::{
    Component, InstanceId, Lab, Layout, Node, Options, Runtime, saved_logs_dir, workspace,
};
use testkit::workload::{Pod, Workload};
use testkit::{cargo, pace, wait};

#[test]
fn starts_bends_ends_and_leaves_nothing_behind() -> Result<()> {
    let shared = Lab::shared()?;
    let layout = Layout::new(InstanceId::from_env()?.beside("x")?)?;
    Lab::down(&layout)?;
    let _guard = TakenDown(layout.clone());
    let before = Census::take(&layout)?;

    let options = Options {
        signing_duration: "15m".to_owned(),
    };
    a_killed_start_is_cleaned_up(&layout)?;
    let lab = pace::promised("a warm start", Duration::from_secs(20), || {
        Lab::down(&layout)?;
        let start = Instant::now();
        let lab = Lab::up(layout.clone(), &options)?;
        Ok((start.elapsed(), lab))
    })?;

    two_labs_are_two_clusters(&shared, &lab)?;
    a_second_start_finds_the_first(&layout, &options, &lab)?;
    components_bend(&lab)?;
    certificates_live_as_long_as_the_lab_was_told(&lab)?;
    nodes_come_and_go_quickly(&lab)?;
    a_cut_off_node_is_silent(&lab)?;

    let mut node = lab.node("left-behind", Runtime::Containerd2)?;
    node.keep();
    node.start_upstream_kubelet("")?;
    node.wait_ready(Duration::from_secs(60))?;
    let workload = Workload::create(lab.kubectl(), "left", &node, 2, "exec sleep 100000")?;
    let pods = workload.wait_running(2, Duration::from_secs(60))?;
    pause_a_container(&node, &pods)?;
    let during = Census::take(&layout)?.beyond(&before);
    for (what, count) in [
        ("processes", during.processes.len()),
        ("namespaces", during.namespaces.len()),
        ("cgroups", during.cgroups.len()),
    ] {
        ensure!(count >= 10, "the count sees only {count} {what}");
    }

    Lab::down(&layout)?;
    ensure!(
        !layout.dir.exists(),
        "{} is still there",
        layout.dir.display()
    );
    // Network namespaces are taken down by the kernel a moment after their
    // last process.
    wait::until("everything to be gone", Duration::from_secs(60), || {
        let left = Census::take(&layout)?.beyond(&before);
        if left != Census::default() {
            bail!("left behind: {left:#?}");
        }
        Ok(())
    })
}

/// A frozen process cannot be killed until it is thawed: `down` must manage.
fn pause_a_container(node: &Node, pods: &[Pod]) -> Result<()> {
    let id = pods.first().map_or("", Pod::container_id);
    let id = id.trim_start_matches("containerd://");
    let words = ["--namespace", "k8s.io", "tasks", "pause", id];
    node.machine().run("ctr", words).map(drop)
}

/// Whatever becomes of the test, its lab does not stay.
struct TakenDown(Layout);

impl Drop for TakenDown {
    fn drop(&mut self) {
        if let Ok(Some(lab)) = Lab::open(&self.0) {
            // Only a test that failed left it up.
            let _ = lab.save_logs(&saved_logs_dir());
        }
        let _ = Lab::down(&self.0);
    }
}

/// `cargo xtask lab up`, killed when half of the control plane stands: the
/// next start must not stumble over it.
fn a_killed_start_is_cleaned_up(layout: &Layout) -> Result<()> {
    let xtask = cargo::build("xtask")?;
    let xtask = xtask.first().context("no program in package xtask")?;
    let mut victim: Child = Command::new(xtask)
        .args(["lab", "up"])
        .current_dir(workspace())
        .env("FERROLET_LAB", layout.id.to_string())
        .stdout(Stdio::null())
        .spawn()?;
    let etcd = layout
        .machine_dir("control-plane")
        .join("fs/opt/lab/run/etcd.pid");
    let seen = wait::until("a half-made lab", Duration::from_secs(120), || {
        etcd.metadata().map(drop)
    });
    victim.kill()?;
    victim.wait()?;
    seen?;
    ensure!(
        Lab::open(layout)?.is_none(),
        "half a lab was taken for a whole one"
    );
    Ok(())
}

fn two_labs_are_two_clusters(one: &Lab, other: &Lab) -> Result<()> {
    let uid = |lab: &Lab| -> Result<String> {
        let namespace = lab.kubectl().json(["get", "namespace", "kube-system"])?;
        Ok(namespace["metadata"]["uid"].to_string())
    };
    ensure!(
        uid(one)? != uid(other)?,
        "both labs answer from one cluster"
    );
    Ok(())
}

fn a_second_start_finds_the_first(layout: &Layout, options: &Options, lab: &Lab) -> Result<()> {
    // What has ended of it is started again, and nothing else is touched.
    lab.component(Component::Scheduler).kill()?;
    let again = Lab::up(layout.clone(), options)?;
    ensure!(
        again.component(Component::Scheduler).is_running(),
        "the scheduler was left dead"
    );
    let other = Lab::up(layout.clone(), &Options::default());
    ensure!(other.is_err(), "other options were taken for the same");
    let init = |lab: &Lab| lab.control_plane().init();
    ensure!(init(&again) == init(lab), "the lab was started anew");
    Ok(())
}

fn components_bend(lab: &Lab) -> Result<()> {
    let answers = || {
        lab.kubectl()
            .run(["--request-timeout=2s", "get", "--raw", "/readyz"])
    };
    let api_server = lab.component(Component::ApiServer);
    answers().context("before")?;

    api_server.freeze()?;
    ensure!(answers().is_err(), "a frozen API server answers");
    api_server.thaw()?;
    lab.wait_ready().context("after the thaw")?;

    api_server.cut_off()?;
    ensure!(answers().is_err(), "an API server that is cut off answers");
    api_server.reconnect()?;
    lab.wait_ready().context("after the cut")?;

    lab.component(Component::Etcd).stop()?;
    ensure!(answers().is_err(), "the API server is ready without etcd");
    lab.component(Component::Etcd).start_again()?;
    lab.wait_ready().context("after etcd came back")?;

    for component in Component::ALL {
        let daemon = lab.component(component);
        let before = daemon.pid();
        daemon.kill()?;
        ensure!(!daemon.is_running(), "{} survived", component.name());
        daemon.start_again()?;
        let after = daemon.pid();
        ensure!(
            after.is_some() && after != before,
            "{}: {before:?}, then {after:?}",
            component.name()
        );
        lab.wait_serving()
            .with_context(|| format!("after the restart of {}", component.name()))?;
    }
    Ok(())
}

fn certificates_live_as_long_as_the_lab_was_told(lab: &Lab) -> Result<()> {
    a_certificate_lives(lab, 15 * 60)?;
    lab.component(Component::ControllerManager)
        .restart_with(&["--cluster-signing-duration=1h"])?;
    a_certificate_lives(lab, 60 * 60)
}

fn a_certificate_lives(lab: &Lab, seconds: u64) -> Result<()> {
    let node = lab.node(&format!("sign-{seconds}"), Runtime::Containerd2)?;
    node.start_upstream_kubelet("")?;
    let valid_for = |seconds: u64| {
        let seconds = seconds.to_string();
        let file = "/var/lib/kubelet/pki/kubelet-client-current.pem";
        let words = ["x509", "-noout", "-checkend", &seconds, "-in", file];
        node.machine().run("openssl", words)
    };
    wait::until("the node's certificate", Duration::from_secs(60), || {
        valid_for(0)
    })?;
    ensure!(
        valid_for(seconds).is_err(),
        "valid for more than {seconds} s"
    );
    ensure!(
        valid_for(seconds / 2).is_ok(),
        "valid for less than {} s",
        seconds / 2
    );
    Ok(())
}

fn nodes_come_and_go_quickly(lab: &Lab) -> Result<()> {
    let node = pace::promised("making a node", Duration::from_secs(3), || {
        let start = Instant::now();
        let node = lab.node("quick", Runtime::Containerd2)?;
        Ok((start.elapsed(), node))
    })?;
    node.remove()?;
    pace::promised("making and removing one", Duration::from_secs(5), || {
        let start = Instant::now();
        lab.node("quick", Runtime::Containerd2)?.remove()?;
        Ok((start.elapsed(), ()))
    })
}

fn a_cut_off_node_is_silent(lab: &Lab) -> Result<()> {
    let node = lab.node("silent", Runtime::Containerd2)?;
    let url = format!("{}/healthz", lab.inner_url());
    let answers = || {
        node.machine()
            .run("curl", ["--silent", "--insecure", "--max-time", "2", &url])
    };
    ensure!(
        answers()? == "ok",
        "a new node does not reach the API server"
    );
    node.cut_off()?;
    ensure!(
        answers().is_err(),
        "a node that is cut off reaches the API server"
    );
    node.reconnect()?;
    wait::until("the node to be back", Duration::from_secs(60), answers)?;
    Ok(())
}
