//! A hundred nodes for a minute: the short form of `cargo xtask bench fleet`.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use testkit::wait;

use crate::cluster::{Cluster, SOON};

const NODES: usize = 100;
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);
/// Seconds.
const LATE: f64 = 20.0;

#[test]
fn a_hundred_nodes_are_ready_and_stay_so_for_a_minute() -> Result<()> {
    let cluster = Cluster::take("standing")?;
    let report = cluster.path("report.json");
    let mut fleet = cluster.start(&[
        "--nodes=100",
        "--name=standing",
        "--name-pattern=standing-{:05}",
        "--capacity=cpu=4,memory=16Gi,pods=42",
        "--node-info=kernel=6.1.0-test,os-image=Test OS,runtime=containerd://2.1.9,kubelet=v1.35.1",
        "--zones=a,b",
        "--labels=tier=gold",
        "--taints=test=fleet:NoSchedule",
        "--for=75s",
        "--interval=5s",
        "--metrics-bind=127.0.0.1:18099",
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
    figures_are_served()?;

    let mut oldest: f64 = 0.0;
    // By the API server's word, until the fleet ends by itself.
    while fleet.is_running()? {
        let leases = cluster.leases("standing-")?;
        let nodes = cluster.nodes()?;
        // It may have ended, and removed them, between the look at it and theirs.
        if !fleet.is_running()? {
            break;
        }
        ensure!(leases.len() == NODES, "{} leases", leases.len());
        oldest = leases.values().copied().fold(oldest, f64::max);
        let ready = nodes.values().filter(|node| node.ready == "True").count();
        ensure!(ready == NODES, "{ready} of {NODES} are Ready");
        sleep(BETWEEN_LOOKS);
    }
    fleet.ended()?;
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

fn figures_are_served() -> Result<()> {
    let figures = testkit::command::run(
        std::process::Command::new("curl").args(["--silent", "http://127.0.0.1:18099/metrics"]),
    )?;
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
