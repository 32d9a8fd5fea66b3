//! The API server restarted under a fleet. In full with 500 nodes (`cargo xtask
//! restart`), here with fewer.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::lab::Component;
use testkit::wait;

use crate::cluster::Cluster;

/// All must be heard of again by then.
const AGAIN: Duration = Duration::from_secs(60);

/// Seconds: what is renewed by now was renewed after the return.
const FRESH: f64 = 15.0;

fn nodes() -> Result<usize> {
    match std::env::var("FERROLET_FLEET_NODES") {
        Ok(text) => text.parse().context("FERROLET_FLEET_NODES"),
        Err(_) => Ok(100),
    }
}

#[test]
fn a_restarted_api_server_has_the_whole_fleet_again_soon_and_without_a_herd() -> Result<()> {
    let cluster = Cluster::take("outage")?;
    let count = nodes()?;
    let mut fleet = cluster.start(&[
        &format!("--nodes={count}"),
        "--name=outage",
        "--name-pattern=outage-{:05}",
        "--taints=test=fleet:NoSchedule",
        "--interval=1s",
        "--json",
    ])?;
    wait::until("the fleet to be Ready", AGAIN * 2, || {
        let ready = fleet.figures()?["ready"].clone();
        ensure!(ready == count, "{ready} are");
        Ok(())
    })?;
    let started = seconds(&fleet.figures()?)?;

    cluster.lab.component(Component::ApiServer).restart()?;
    let returned = Instant::now();
    wait::until("every node to be heard of again", AGAIN, || {
        let leases = cluster.leases("outage-")?;
        let nodes = cluster.nodes()?;
        let fresh = leases.values().filter(|age| **age < FRESH).count();
        let ready = nodes.values().filter(|node| node.ready == "True").count();
        ensure!(
            returned.elapsed().as_secs_f64() > FRESH,
            "too early to tell"
        );
        ensure!(
            fresh == count && ready == count,
            "{fresh} are fresh, {ready} Ready"
        );
        Ok(())
    })?;
    println!(
        "{count} nodes: all heard of again after {:.1?}",
        returned.elapsed()
    );

    let (before, after) = fleet.peaks(started)?;
    println!(
        "requests in a second, at most: {before:.0} while they came, {after:.0} after the restart"
    );
    ensure!(
        after <= f64::from(most(count)),
        "{after:.0} requests in one second, and {} are the most",
        most(count)
    );
    fleet.terminate()
}

/// What a fleet may ask in one second: each node once, and what all of them
/// together are allowed beside their heartbeats.
fn most(count: usize) -> u32 {
    u32::try_from(count).map_or(u32::MAX, |count| count + 200)
}

fn seconds(figures: &serde_json::Value) -> Result<f64> {
    figures["elapsed"]
        .as_f64()
        .context("no time in the figures")
}
