//! `cargo xtask bench idle`: what our agent costs without pods, beside the
//! upstream kubelet, in one run on equal lab nodes.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::lab::{Agent, Lab, Node, Runtime};

use super::process::Process;
use super::table::{FERROLET, Row, expect_no_missed_bar, table};
use super::{MIB, SETTLED, circumstances, keep};
use crate::long_run::in_lab;

const READY: Duration = Duration::from_secs(60);

/// What an idle agent costs.
struct Figures {
    resident: u64,
    anonymous: u64,
    cpu: Duration,
    threads: u64,
    connections: u64,
    program: u64,
}

/// Measures both, idle, for so many seconds.
pub(crate) fn run(seconds: u64) -> Result<()> {
    let rows = in_lab(|lab| measure(lab, Duration::from_secs(seconds)))?;
    let table = table(FERROLET, &rows);
    println!("{table}");
    keep("idle.md", &text(seconds, &table)?)?;
    expect_no_missed_bar(&rows)
}

fn measure(lab: &Lab, period: Duration) -> Result<Vec<Row>> {
    let ours = lab.node("bench-ours", Runtime::Containerd2)?;
    let upstreams = lab.node("bench-upstream", Runtime::Containerd2)?;
    println!("building, and starting both agents …");
    ours.start_agent(Agent::FerroletRelease, "", &[])?;
    upstreams.start_agent(Agent::Upstream, "", &[])?;
    let nodes = [&ours, &upstreams];
    for node in nodes {
        node.wait_ready(READY)?;
    }
    sleep(SETTLED);
    println!("measuring for {period:?} …");
    let before = [cpu(&ours)?, cpu(&upstreams)?];
    sleep(period);
    let [ours_now, upstreams_now] = [figures(&ours, before[0])?, figures(&upstreams, before[1])?];
    ours.remove()?;
    upstreams.remove()?;
    Ok(rows(&ours_now, &upstreams_now))
}

fn figures(node: &Node, cpu_before: Duration) -> Result<Figures> {
    let process = process(node)?;
    let listed = [
        "--no-header",
        "--tcp",
        "--numeric",
        "--processes",
        "state",
        "established",
    ];
    let listed = node.machine().run("ss", listed)?;
    let agents = |line: &&str| line.contains("\"kubelet\"") || line.contains("\"ferrolet\"");
    Ok(Figures {
        resident: process.resident()?,
        anonymous: process.anonymous()?,
        cpu: process.cpu()?.saturating_sub(cpu_before),
        threads: process.threads()?,
        connections: u64::try_from(listed.lines().filter(agents).count())?,
        program: process.program()?,
    })
}

fn cpu(node: &Node) -> Result<Duration> {
    process(node)?.cpu()
}

fn process(node: &Node) -> Result<Process> {
    Process::of(&node.kubelet()).with_context(|| format!("the agent of {}", node.name()))
}

#[allow(clippy::cast_precision_loss, reason = "figures for people")]
fn rows(ours: &Figures, upstreams: &Figures) -> Vec<Row> {
    let row = |figure, decimals, bar, of: &dyn Fn(&Figures) -> f64| Row {
        figure,
        ours: of(ours),
        upstreams: of(upstreams),
        decimals,
        bar,
    };
    vec![
        row("resident memory, MiB", 1, Some(1.0 / 5.0), &|seen| {
            seen.resident as f64 / MIB
        }),
        row("of it anonymous, MiB", 1, None, &|seen| {
            seen.anonymous as f64 / MIB
        }),
        row("CPU time, s", 2, Some(1.0 / 4.0), &|seen| {
            seen.cpu.as_secs_f64()
        }),
        row("threads", 0, None, &|seen| seen.threads as f64),
        row("TCP connections", 0, None, &|seen| seen.connections as f64),
        row("program, MiB", 1, None, &|seen| seen.program as f64 / MIB),
    ]
}

fn text(seconds: u64, table: &str) -> Result<String> {
    Ok(format!(
        "# An idle node\n\nWritten by `cargo xtask bench idle --seconds {seconds}` {}: both agents in one run, on \
         equal lab nodes\nwithout pods, {} s after they were Ready.\n\n{table}",
        circumstances()?,
        SETTLED.as_secs(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(resident: u64) -> Figures {
        Figures {
            resident,
            anonymous: 1,
            cpu: Duration::from_secs(1),
            threads: 1,
            connections: 1,
            program: 1,
        }
    }

    #[test]
    fn what_is_over_its_bar_is_missed_and_nothing_else() {
        let hundred = figures(100 << 20);
        let missed = |resident: u64| {
            let rows = rows(&figures(resident << 20), &hundred);
            rows.iter()
                .filter(|row| row.missed())
                .map(|row| row.figure)
                .collect::<Vec<_>>()
        };
        assert_eq!(missed(20), ["CPU time, s"]);
        assert_eq!(missed(21), ["resident memory, MiB", "CPU time, s"]);
    }
}
