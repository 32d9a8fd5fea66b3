//! `cargo xtask bench idle`: what our agent costs without pods, beside the
//! upstream kubelet, in one run on equal lab nodes.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use testkit::lab::{Agent, Lab, Node, Runtime};

use super::process::Process;
use super::table::{FERROLET, Row, expect_no_missed_bar, table};
use super::{MIB, SETTLED, circumstances, keep};
use crate::long_run::in_lab;

const READY: Duration = Duration::from_secs(60);

/// What is measured.
#[derive(Args)]
pub(crate) struct Plan {
    /// For CI: some seconds, as tests build the agent; without bars, and nothing is kept
    #[arg(long)]
    short: bool,
    /// For how long
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(10..), conflicts_with = "short")]
    seconds: u64,
}

/// What an idle agent costs.
#[derive(Debug)]
struct Figures {
    resident: u64,
    anonymous: u64,
    cpu: Duration,
    threads: u64,
    connections: u64,
    program: u64,
}

/// Measures both, idle, side by side.
pub(crate) fn run(plan: &Plan) -> Result<()> {
    let both = in_lab(|lab| plan.measure(lab))?;
    let mut rows = rows(&both[0], &both[1]);
    if plan.short {
        for row in &mut rows {
            row.bar = None;
        }
    }
    let table = table(FERROLET, &rows);
    println!("{table}");
    both.iter().try_for_each(Figures::are_whole)?;
    if plan.short {
        return Ok(());
    }
    keep("idle.md", &text(plan.seconds, &table)?)?;
    expect_no_missed_bar(&rows)
}

impl Plan {
    /// The short form, for `cargo xtask test`.
    pub(crate) fn short() -> Self {
        Self {
            short: true,
            seconds: 10,
        }
    }

    /// What ours costs, and what upstream's does.
    fn measure(&self, lab: &Lab) -> Result<[Figures; 2]> {
        let (agent, settle) = if self.short {
            (Agent::Ferrolet, Duration::from_secs(3))
        } else {
            (Agent::FerroletRelease, SETTLED)
        };
        let ours = lab.node("bench-ours", Runtime::Containerd2)?;
        let upstreams = lab.node("bench-upstream", Runtime::Containerd2)?;
        println!("building, and starting both agents …");
        ours.start_agent(agent, "", &[])?;
        upstreams.start_agent(Agent::Upstream, "", &[])?;
        let nodes = [&ours, &upstreams];
        for node in nodes {
            node.wait_ready(READY)?;
        }
        sleep(settle);
        let period = Duration::from_secs(self.seconds);
        println!("measuring for {period:?} …");
        let before = [cpu(&ours)?, cpu(&upstreams)?];
        sleep(period);
        let both = [figures(&ours, before[0])?, figures(&upstreams, before[1])?];
        ours.remove()?;
        upstreams.remove()?;
        Ok(both)
    }
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

impl Figures {
    /// Whether every figure is there that cannot be nothing; in some seconds an idle agent may
    /// well use less CPU time than the kernel counts.
    fn are_whole(&self) -> Result<()> {
        let memory = self.resident > self.anonymous && self.anonymous > 0;
        let counts = [self.threads, self.connections, self.program];
        ensure!(
            memory && counts.iter().all(|figure| *figure > 0),
            "a figure is missing: {self:?}"
        );
        Ok(())
    }
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

    #[test]
    fn a_figure_that_cannot_be_nothing_is_missed() {
        let whole = figures(2);
        assert!(whole.are_whole().is_ok());
        let still = Figures {
            cpu: Duration::ZERO,
            ..figures(2)
        };
        assert!(still.are_whole().is_ok());
        let alone = Figures {
            connections: 0,
            ..figures(2)
        };
        assert!(figures(0).are_whole().is_err() && alone.are_whole().is_err());
    }
}
