//! `cargo xtask bench pods`: hollow nodes with pods, in one process. How soon all of
//! them run is seen at the API server; what a pod costs, at the kernel.

use std::fmt::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use testkit::lab::{Daemon, Kubectl, Lab, Runtime, saved_logs_dir};
use testkit::{cargo, command, wait};

use super::process::Process;
use super::{KIB, MIB, SETTLED, circumstances, keep};
use crate::long_run::in_lab;

const PREFIX: &str = "pods-";
const NAMESPACE: &str = "bench-pods";
/// Until all nodes are Ready, or all pods run.
const ALL: Duration = Duration::from_secs(900);
/// A look at ten thousand pods has its price, which the fleet would pay.
const BETWEEN_LOOKS: Duration = Duration::from_secs(3);
/// Objects in one call of kubectl.
const AT_ONCE: usize = 1000;

/// What is measured.
#[derive(Args)]
pub(crate) struct Plan {
    /// How many nodes
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// How many pods each has
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=110))]
    pods: u32,
    /// For CI: 20 nodes with 5 pods each, as tests build them; nothing is kept
    #[arg(long, conflicts_with_all = ["nodes", "pods"])]
    short: bool,
}

struct Measured {
    nodes: u64,
    pods: u64,
    /// Resident, with nodes and without pods.
    before: u64,
    /// Resident, with all pods running.
    after: u64,
    /// From the first pod's creation until all ran.
    took: Duration,
    cpu: Duration,
}

pub(crate) fn run(plan: &Plan) -> Result<()> {
    let measured = in_lab(|lab| {
        let outcome = plan.measure(lab);
        if outcome.is_err() {
            lab.save_logs(&saved_logs_dir())?;
            println!("logs of the lab: {}", saved_logs_dir().display());
        }
        outcome
    })?;
    let table = measured.table();
    println!("{table}");
    if !plan.short {
        let text = format!(
            "# Hollow nodes with pods\n\nWritten by `cargo xtask bench pods --nodes {} --pods {}` {}, which the lab's \
             API server shares: pods bound\nby name, with a service account's token each, made by kubectl one after \
             the other; how soon they run is\nmostly how soon they are made. Memory per pod is what the process has \
             more with pods than without, by\nthe pods.\n\n{table}",
            plan.nodes,
            plan.pods,
            circumstances()?,
        );
        keep("pods.md", &text)?;
    }
    Ok(())
}

impl Plan {
    /// The short form, for `cargo xtask test`.
    pub(crate) fn short() -> Self {
        Self {
            nodes: 20,
            pods: 5,
            short: true,
        }
    }

    fn shape(&self) -> (u64, u64) {
        if self.short {
            return (20, 5);
        }
        (self.nodes.into(), self.pods.into())
    }

    fn measure(&self, lab: &Lab) -> Result<Measured> {
        println!("building …");
        let program = if self.short {
            cargo::program("ferrolet")?
        } else {
            cargo::release_program("ferrolet")?
        };
        let (nodes, each) = self.shape();
        let node = lab.node("bench-pods", Runtime::Containerd2)?;
        // Nothing here is for it, and it takes its share of the machine.
        node.runtime().stop()?;
        let flags = [
            format!("--nodes={nodes}"),
            format!("--name-pattern={PREFIX}{{:05}}"),
            "--qps=5000".to_owned(),
        ];
        let fleet = node.start_fleet(&program, &flags)?;
        let kubectl = lab.kubectl();
        // Nobody judges the figures of the short form.
        let settle = if self.short {
            Duration::from_secs(2)
        } else {
            SETTLED
        };
        let measured = measure(&kubectl, &fleet, [nodes, each], settle);
        let stopped = fleet.stop();
        let removed = remove(&kubectl);
        let measured = measured?;
        stopped.and(removed)?;
        node.remove()?;
        Ok(measured)
    }
}

fn measure(
    kubectl: &Kubectl,
    fleet: &Daemon,
    [nodes, each]: [u64; 2],
    settle: Duration,
) -> Result<Measured> {
    println!("{nodes} nodes …");
    until(fleet, "nodes to be Ready", nodes, || ready_nodes(kubectl))?;
    sleep(settle);
    let process = Process::of(fleet)?;
    let (before, cpu) = (process.resident()?, process.cpu()?);
    let pods = nodes * each;
    println!("{pods} pods …");
    let started = Instant::now();
    create(kubectl, nodes, each)?;
    println!("made after {:.1} s", started.elapsed().as_secs_f64());
    until(fleet, "pods to run", pods, || running_pods(kubectl))?;
    let took = started.elapsed();
    let cpu = process.cpu()?.saturating_sub(cpu);
    println!("all run after {:.1} s", took.as_secs_f64());
    sleep(settle);
    Ok(Measured {
        nodes,
        pods,
        before,
        after: process.resident()?,
        took,
        cpu,
    })
}

fn until(fleet: &Daemon, what: &str, wanted: u64, count: impl Fn() -> Result<u64>) -> Result<()> {
    wait::until(&format!("{wanted} {what}"), ALL, || {
        if !fleet.is_running() {
            // Waiting longer would not help.
            return Ok(false);
        }
        let found = count()?;
        if found < wanted {
            sleep(BETWEEN_LOOKS);
            bail!("{found} do");
        }
        Ok(true)
    })?
    .then_some(())
    .ok_or_else(|| anyhow::anyhow!("the fleet has ended"))
}

fn ready_nodes(kubectl: &Kubectl) -> Result<u64> {
    let listed = kubectl.run(["get", "nodes", "--no-headers"])?;
    let ours = listed.lines().filter(|line| line.starts_with(PREFIX));
    let ready = ours.filter(|line| line.split_whitespace().nth(1) == Some("Ready"));
    Ok(u64::try_from(ready.count())?)
}

fn running_pods(kubectl: &Kubectl) -> Result<u64> {
    let running = "--field-selector=status.phase=Running";
    let place = ["--namespace", NAMESPACE];
    let what = ["get", "pods", running, "--output=name"];
    let listed = kubectl.run([&place[..], &what].concat())?;
    Ok(u64::try_from(listed.lines().count())?)
}

fn create(kubectl: &Kubectl, nodes: u64, each: u64) -> Result<()> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
    });
    kubectl.apply(&namespace.to_string())?;
    wait::until("the service account", ALL, || {
        kubectl.run(["--namespace", NAMESPACE, "get", "serviceaccount", "default"])
    })?;
    let pods: Vec<_> = (0..nodes * each)
        .map(|number| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": format!("p-{number}"), "namespace": NAMESPACE },
                "spec": {
                    "nodeName": format!("{PREFIX}{:05}", number % nodes),
                    "containers": [{ "name": "main", "image": "nginx" }],
                },
            })
        })
        .collect();
    for part in pods.chunks(AT_ONCE) {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": part });
        let mut create = kubectl.command();
        create.args(["create", "--filename", "-", "--output=name"]);
        command::run_with_input(&mut create, list.to_string().as_bytes())?;
    }
    Ok(())
}

/// Nobody is there any more to end the pods.
fn remove(kubectl: &Kubectl) -> Result<()> {
    // All of them with one call: one for each would take minutes.
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0");
    kubectl.run(["delete", "--raw", &pods])?;
    kubectl.run(["delete", "namespace", NAMESPACE, "--wait=false"])?;
    let fleet = "--selector=ferrolet.dev/fleet=fleet";
    kubectl.run(["delete", "nodes", fleet]).map(drop)
}

impl Measured {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn table(&self) -> String {
        let pods = self.pods as f64;
        let more = self.after.saturating_sub(self.before) as f64;
        let rows = [
            ("nodes", self.nodes as f64, 0),
            ("pods, all Running", pods, 0),
            ("resident without pods, MiB", self.before as f64 / MIB, 1),
            ("resident with pods, MiB", self.after as f64 / MIB, 1),
            ("memory per pod, KiB", more / pods / KIB, 1),
            ("pods per second", pods / self.took.as_secs_f64(), 1),
            (
                "CPU time per pod, ms",
                self.cpu.as_secs_f64() * 1000.0 / pods,
                2,
            ),
        ];
        let mut table = "| figure | |\n|---|---:|\n".to_owned();
        for (figure, value, decimals) in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "| {figure} | {value:.decimals$} |");
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_costs_what_the_process_has_more_with_pods() {
        let measured = Measured {
            nodes: 10,
            pods: 100,
            before: 10 << 20,
            after: (10 << 20) + (100 * 2048),
            took: Duration::from_secs(5),
            cpu: Duration::from_millis(250),
        };
        let table = measured.table();
        for row in [
            "| memory per pod, KiB | 2.0 |",
            "| pods per second | 20.0 |",
            "| CPU time per pod, ms | 2.50 |",
        ] {
            assert!(table.contains(row), "{table}");
        }
    }
}
