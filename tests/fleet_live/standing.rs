//! A hundred nodes for a minute: what `cargo xtask bench fleet` asks of them, and what they were
//! told to be.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;
use testkit::{command, wait};

use crate::cluster::{Cluster, SOON};

const NODES: usize = 100;
const WATCHED: Duration = Duration::from_secs(60);
/// The fleet's own time, at least: it is told to end when it has been looked at.
const LASTING: Duration = Duration::from_secs(100);
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);
/// Seconds.
const LATE: f64 = 20.0;

#[test]
fn a_hundred_nodes_are_ready_and_stay_so_for_a_minute() -> Result<()> {
    let cluster = Cluster::take("standing")?;
    let report = cluster.path("report.json");
    // Free a moment ago; whoever takes it meanwhile is told of in the log.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let started = Instant::now();
    let mut fleet = cluster.start(&[
        "--nodes=100",
        "--name=standing",
        "--name-pattern=standing-{:05}",
        "--capacity=cpu=4,memory=16Gi,pods=42",
        "--node-info=kernel=6.1.0-test,os-image=Test OS,runtime=containerd://2.1.9,kubelet=v1.35.1",
        "--zones=a,b",
        "--labels=tier=gold",
        "--taints=test=fleet:NoSchedule",
        "--interval=5s",
        &format!("--metrics-bind={port}"),
        "--remove-at-end",
        &format!("--report={}", report.display()),
    ])?;
    cluster.wait_ready(NODES)?;
    wait::until("a lease for each", SOON, || {
        let leases = cluster.leases("standing-")?.len();
        ensure!(leases == NODES, "{leases} leases");
        Ok(())
    })?;
    one_is_what_it_was_told_to_be(&cluster)?;
    wait::until("figures for Prometheus", SOON, || figures_are_served(port))?;

    let mut oldest: f64 = 0.0;
    // By the API server's word.
    let began = Instant::now();
    while began.elapsed() < WATCHED || started.elapsed() < LASTING {
        let leases = cluster.leases("standing-")?;
        let nodes = cluster.nodes()?;
        ensure!(leases.len() == NODES, "{} leases", leases.len());
        oldest = leases.values().copied().fold(oldest, f64::max);
        let ready = nodes.values().filter(|node| node.ready == "True").count();
        ensure!(ready == NODES, "{ready} of {NODES} are Ready");
        sleep(BETWEEN_LOOKS);
    }
    fleet.terminate()?;
    println!("oldest lease, by the API server: {oldest:.1} s");
    ensure!(
        oldest > 0.0 && oldest <= LATE,
        "a lease was {oldest:.1} s old"
    );
    the_report_agrees(&serde_json::from_str(&fs::read_to_string(&report)?)?)?;
    println!(
        "{}",
        fleet
            .said()
            .lines()
            .rev()
            .take(13)
            .collect::<Vec<_>>()
            .join("\n")
    );
    wait::until("the fleet's objects to be gone", SOON, || {
        let (nodes, leases) = (cluster.nodes()?.len(), cluster.leases("standing-")?.len());
        ensure!(nodes == 0 && leases == 0, "{nodes} nodes, {leases} leases");
        Ok(())
    })
}

fn one_is_what_it_was_told_to_be(cluster: &Cluster) -> Result<()> {
    let nodes = cluster.nodes()?;
    let node = &nodes["standing-00001"].node;
    let status = &node["status"];
    for (found, wanted) in [
        (&status["capacity"]["cpu"], "4"),
        (&status["capacity"]["memory"], "16Gi"),
        (&status["capacity"]["pods"], "42"),
        (&status["nodeInfo"]["kernelVersion"], "6.1.0-test"),
        (&status["nodeInfo"]["osImage"], "Test OS"),
        (
            &status["nodeInfo"]["containerRuntimeVersion"],
            "containerd://2.1.9",
        ),
        (&status["nodeInfo"]["kubeletVersion"], "v1.35.1"),
        (
            &node["metadata"]["labels"]["topology.kubernetes.io/zone"],
            "b",
        ),
        (&node["metadata"]["labels"]["tier"], "gold"),
        (
            &node["metadata"]["labels"]["kubernetes.io/hostname"],
            "standing-00001",
        ),
        (&node["spec"]["taints"][0]["key"], "test"),
    ] {
        let same = match wanted {
            "16Gi" => found == "16777216Ki" || found == "16Gi",
            _ => found == wanted,
        };
        ensure!(same, "{found} is not {wanted}");
    }
    Ok(())
}

fn figures_are_served(port: SocketAddr) -> Result<()> {
    let address = format!("http://{port}/metrics");
    let figures = command::run(Command::new("curl").args(["--silent", &address]))?;
    for line in ["ferrolet_fleet_nodes 100", "ferrolet_fleet_nodes_ready 100"] {
        ensure!(figures.contains(line), "{line} is not in:\n{figures}");
    }
    ensure!(figures.contains("rest_client_requests_total{"), "{figures}");
    Ok(())
}

fn the_report_agrees(report: &Value) -> Result<()> {
    ensure!(report["figures"]["ready"] == NODES, "{report:#}");
    ensure!(report["figures"]["late_leases"] == 0, "{report:#}");
    ensure!(report["samples_not_ready"] == 0, "{report:#}");
    let worst = report["worst_lease"]["seconds"]
        .as_f64()
        .unwrap_or(f64::MAX);
    ensure!(worst <= LATE, "{report:#}");
    ensure!(report["requests"].as_u64() > Some(1000), "{report:#}");
    Ok(())
}
