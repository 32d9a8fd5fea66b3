//! Every command of both READMEs, executed as it is written there, and in its order. The table
//! here and the READMEs are the same list: a line that is in one of them only fails the test.
//!
//! In: README.md, README.zh-CN.md, the release build, the lab with two nodes: a machine that
//! joins it, and one that kubeadm has set up. Out: verdicts on what the commands print and do.

#![allow(
    clippy::disallowed_methods,
    reason = "a test reads the clock, and waits for programs"
)]

mod first_pod;
mod places;
mod terminal;
mod written;

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testkit::lab::{Lab, workspace};
use testkit::wait;

use self::How::{Administrator, Here, Joins, Kubelet, Measured, Stays, ThisRun};
use self::places::Places;

/// How a line is executed.
#[derive(Clone, Copy, Debug)]
enum How {
    /// In a terminal of its own, which it keeps; it is up when it has said this. It is ended
    /// by Ctrl-C: now, or with everything.
    Stays(&'static str, Ended),
    /// In a second terminal on the same machine; it says this.
    Here(&'static str),
    /// By the administrator of the cluster that is joined.
    Administrator(&'static str),
    /// As root on the machine that joins it.
    Joins(&'static str),
    /// As root on the node that kubeadm has set up. What a service needs a moment for is
    /// tried again, as people do.
    Kubelet(&'static str),
    /// It runs this test, and cannot be run by it.
    ThisRun,
    /// It takes long, and wrote the file that is named beside it. `cargo xtask test` runs its
    /// short form; here its words are taken for what they are.
    Measured,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Now,
    Last,
}

const RESTART: &str = "systemctl daemon-reload && systemctl restart kubelet";
const INSTALL: &str = "install -m 755 target/release/ferrolet /usr/local/bin/ferrolet";

/// The READMEs' commands, in their order.
const COMMANDS: &[(&str, How)] = &[
    (
        "cargo run --release -- up",
        Stays("Ctrl-C ends it.", Ended::Last),
    ),
    ("cargo xtask test", ThisRun),
    (
        "export KUBECONFIG=~/.local/state/ferrolet/up/kubeconfig PATH=$PWD/target/release:$PATH",
        Here(""),
    ),
    ("kubectl get nodes", Here(" Ready ")),
    (
        "kubectl run hello --image=busybox --annotations=sim.ferrolet.dev/log-lines=1/s -- sh -c 'while true; do date; sleep 1; done'",
        Here("pod/hello created"),
    ),
    (
        "kubectl wait --for=condition=Ready pod/hello",
        Here("pod/hello condition met"),
    ),
    ("kubectl logs hello", Here("")),
    ("kubectl exec hello -- echo hello", Here("hello\n")),
    (
        "ferrolet explain pod hello",
        Here("pod default/hello, from the API"),
    ),
    ("ferrolet explain bootstrap", Here("Approved,Issued")),
    ("ferrolet doctor", Here("nothing found")),
    ("kubectl delete pod hello", Here("pod \"hello\" deleted")),
    (
        "ferrolet token create --print-join-command",
        Administrator("ferrolet join "),
    ),
    (INSTALL, Joins("")),
    (
        "ferrolet join $SERVER --token $TOKEN --discovery-token-ca-cert-hash $HASH",
        Joins("has joined the cluster"),
    ),
    ("ferrolet certs status", Joins("system:node:readme-joins")),
    ("ferrolet reset --node --yes", Joins("the join is undone")),
    (INSTALL, Kubelet("")),
    (
        "install -D -m 644 deploy/systemd/20-ferrolet.conf /etc/systemd/system/kubelet.service.d/20-ferrolet.conf",
        Kubelet(""),
    ),
    (RESTART, Kubelet("")),
    ("ferrolet doctor", Kubelet("ferrolet, process ")),
    (
        "rm /etc/systemd/system/kubelet.service.d/20-ferrolet.conf",
        Kubelet(""),
    ),
    (RESTART, Kubelet("")),
    (
        "ferrolet fleet --nodes 100 --zones a,b,c --for 20s --remove-at-end",
        Here("100"),
    ),
    (
        "ferrolet sim --listen /tmp/ferrolet-sim.sock",
        Stays("listening on unix:///tmp/ferrolet-sim.sock", Ended::Now),
    ),
    (
        "ferrolet config validate /var/lib/kubelet/config.yaml",
        Kubelet(""),
    ),
    (
        "ferrolet config explain maxPods -- --config /var/lib/kubelet/config.yaml --max-pods=50",
        Kubelet("50"),
    ),
    (
        "ferrolet config convert -- --max-pods=50 --cluster-dns=10.96.0.10",
        Kubelet("maxPods: 50"),
    ),
    ("ferrolet config explain --not-effective", Kubelet("")),
    ("cargo xtask bench idle --seconds 120", Measured),
    (
        "cargo xtask bench density --rounds 3 --seconds 20",
        Measured,
    ),
    (
        "cargo xtask bench probes --containers 500 --seconds 60",
        Measured,
    ),
    ("cargo xtask bench server --seconds 4", Measured),
    (
        "cargo xtask bench fleet --nodes 1000 --minutes 10",
        Measured,
    ),
    ("cargo xtask bench pods --nodes 1000 --pods 10", Measured),
];

/// What issue 12 promises of a start, by the program's own clock.
const READY: Duration = Duration::from_secs(5);

/// Who measures has the machine.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn every_command_of_the_readmes_is_in_the_table_in_its_place() -> Result<()> {
    let table: Vec<&str> = COMMANDS.iter().map(|(line, _)| *line).collect();
    for name in ["README.md", "README.zh-CN.md"] {
        let readme = fs::read_to_string(workspace().join(name))?;
        let commands = written::commands(&readme);
        ensure!(
            commands == table,
            "{name} and the table, by which commands are executed, part here: {:?}",
            written::first_difference(&commands, &table)
        );
    }
    Ok(())
}

#[test]
fn every_command_of_the_table_does_what_it_says() -> Result<()> {
    let _alone = alone();
    let lab = Lab::shared()?;
    let mut places = Places::furnish(&lab)?;
    for (line, how) in COMMANDS {
        println!("$ {line}");
        let began = Instant::now();
        let done = execute(&mut places, line, *how);
        println!("  {:.1} s", began.elapsed().as_secs_f64());
        done.with_context(|| format!("{how:?}: `{line}`"))?;
    }
    places.end()
}

fn execute(places: &mut Places, line: &str, how: How) -> Result<()> {
    let (said, expected) = match how {
        Stays(up, Ended::Now) => (places.stay(line, up)?, up),
        Stays(up, Ended::Last) => {
            let said = wait::promised("the node of a new `up` to be Ready", READY, || {
                let said = places.keep(line, up)?;
                Ok((ready_after(&said)?, said))
            })?;
            (said, up)
        }
        Here(expected) => (places.here(line)?, expected),
        Administrator(expected) => (places.administrator(line)?, expected),
        Joins(expected) => (places.joins(line)?, expected),
        Kubelet(expected) => (places.kubelet(line)?, expected),
        ThisRun => return is_what_ci_runs(line),
        Measured => return has_measured(line),
    };
    ensure!(
        said.contains(expected),
        "no {expected:?} in what it said:\n{said}"
    );
    if line == RESTART {
        places.is_swapped()?;
    }
    Ok(())
}

/// When its first node was, by the clock of `up`: `   1.23s  sim-0 is Ready`.
fn ready_after(said: &str) -> Result<Duration> {
    let line = said.lines().find(|line| line.ends_with(" is Ready"));
    let line = line.with_context(|| format!("no node is Ready: {said}"))?;
    let seconds = line
        .split_once('s')
        .and_then(|(time, _)| time.trim().parse().ok());
    let seconds = seconds.context("no time before a step")?;
    Ok(Duration::from_secs_f64(seconds))
}

/// CI runs it, and it runs this test: its own end is what shows that it works.
fn is_what_ci_runs(line: &str) -> Result<()> {
    let ci = fs::read_to_string(workspace().join(".ci/run"))?;
    let last = ci.lines().last().unwrap_or_default();
    ensure!(last == format!("exec {line}"), "CI runs {last:?}");
    let tasks = fs::read_to_string(workspace().join("xtask/src/test.rs"))?;
    ensure!(
        tasks.contains("\"readme\""),
        "`{line}` does not run this test"
    );
    Ok(())
}

/// A benchmark's file says which command wrote it; that command is still one.
fn has_measured(line: &str) -> Result<()> {
    let written = format!("Written by `{line}`");
    let mut files = fs::read_dir(workspace().join("bench"))?;
    let is_written_by_it = |entry: std::io::Result<fs::DirEntry>| -> Result<bool> {
        Ok(fs::read_to_string(entry?.path())?.contains(&written))
    };
    if !files.any(|entry| is_written_by_it(entry).unwrap_or_default()) {
        bail!("no file in bench/ was written by it");
    }
    let words = line.split_whitespace().skip(1).chain(["--help"]);
    testkit::command::run(testkit::cargo::cargo().args(words))?;
    Ok(())
}
