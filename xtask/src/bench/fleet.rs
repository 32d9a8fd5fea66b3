//! `cargo xtask bench fleet`: hollow nodes in one process, beside kubemark's,
//! in one run. What they do is seen from outside, at the API server; what they
//! cost, at the kernel.

use std::fmt::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use jiff::Timestamp;
use testkit::lab::{Daemon, KUBERNETES, Lab, Node, Runtime, saved_logs_dir};
use testkit::{cargo, wait};

use super::embedded;
use super::heartbeats::{Heartbeats, Look};
use super::process::Process;
use super::{KIB, MIB, SETTLED, circumstances, keep};
use crate::long_run::in_lab;

const BETWEEN_LOOKS: Duration = Duration::from_secs(5);
const BETWEEN_FIRST_LOOKS: Duration = Duration::from_secs(1);
/// Until every node is Ready, or gone.
const ALL: Duration = Duration::from_secs(300);
const KUBEMARKS: usize = 3;
/// Nodes with certificates of their own need not be as many to be measured.
const OWN_IDENTITIES: usize = 200;
/// For the crowds that have no bar on their heartbeats.
const WITHOUT_BAR: Duration = Duration::from_secs(120);
/// For CI: each lease is renewed once in it, and most are seen to be.
const SHORT: Duration = Duration::from_secs(11);
/// For CI, and those without a bar.
const SHORTEST: Duration = Duration::from_secs(2);
const LARGEST_NODE: f64 = 300.0;
const LATEST_LEASE: f64 = 20.0;

/// What is measured.
#[derive(Args)]
pub(crate) struct Plan {
    /// How many nodes [default: 1000; with --embedded, 5000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// For how long [default: 10; with --embedded, 2]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// At the API server of `ferrolet up` instead of the lab's, as an ordinary user
    #[arg(long)]
    embedded: bool,
    /// For CI: 20 nodes (with --embedded, 200) for some seconds, as tests build them, without
    /// kubemark; of the bars only that all are Ready, and nothing is kept
    #[arg(long, conflicts_with_all = ["nodes", "minutes"])]
    short: bool,
}

/// Nodes that begin, live and end together.
struct Crowd {
    prefix: &'static str,
    count: usize,
}

/// What was seen of a crowd.
struct Seen {
    count: usize,
    /// All Ready, after the start of their processes.
    ready_after: Duration,
    heartbeats: Heartbeats,
    /// Of all its processes, the most that was met.
    resident: u64,
    cpu: Duration,
    /// For how long that CPU time was counted.
    period: Duration,
    threads: u64,
}

struct Measured {
    /// Resident memory of a fleet without nodes.
    empty: u64,
    shared: Seen,
    own: Seen,
    kubemark: Option<Seen>,
}

/// How long each crowd is looked at.
struct Periods {
    settle: Duration,
    shared: Duration,
    others: Duration,
}

/// How a figure of the shared fleet is judged.
#[derive(Clone, Copy)]
enum Bar {
    None,
    AtMost(f64),
    AtLeast(f64),
}

/// One line of the table.
struct Row {
    figure: &'static str,
    decimals: usize,
    shared: f64,
    own: Option<f64>,
    kubemark: Option<f64>,
    bar: Bar,
    /// Whether it says something beside kubemark's: not of crowds that differ
    /// in number.
    compared: bool,
}

pub(crate) fn run(plan: &Plan) -> Result<()> {
    if plan.embedded {
        return embedded::run(&plan.embedded());
    }
    let measured = in_lab(|lab| {
        let outcome = plan.measure(lab);
        if outcome.is_err() {
            lab.save_logs(&saved_logs_dir())?;
            println!("logs of the lab: {}", saved_logs_dir().display());
        }
        outcome
    })?;
    let mut rows = rows(&measured);
    if plan.short {
        rows.iter_mut().for_each(Row::without_cost);
    }
    let table = table(&rows, &measured);
    println!("{table}");
    if !plan.short {
        keep("fleet.md", &plan.text(&table, &measured)?)?;
    }
    let missed: Vec<&str> = rows
        .iter()
        .filter(|row| row.missed())
        .map(|row| row.figure)
        .collect();
    ensure!(
        missed.is_empty(),
        "the bar is missed by: {} (the latest lease was that of {})",
        missed.join(", "),
        measured.shared.heartbeats.latest_node
    );
    Ok(())
}

impl Plan {
    /// The short form, for `cargo xtask test`: in the lab, or at the API server of `ferrolet up`.
    pub(crate) fn short(embedded: bool) -> Self {
        Self {
            nodes: None,
            minutes: None,
            embedded,
            short: true,
        }
    }

    fn embedded(&self) -> embedded::Plan {
        let period = Duration::from_mins(self.minutes.unwrap_or(2));
        embedded::Plan {
            nodes: self.nodes.unwrap_or(if self.short { 200 } else { 5000 }),
            period: if self.short { SHORT } else { period },
            short: self.short,
        }
    }

    fn nodes(&self) -> usize {
        let nodes = self.nodes.unwrap_or(if self.short { 20 } else { 1000 });
        usize::try_from(nodes).unwrap_or(usize::MAX)
    }

    fn minutes(&self) -> u64 {
        self.minutes.unwrap_or(10)
    }

    fn periods(&self) -> Periods {
        if self.short {
            return Periods {
                settle: SHORTEST,
                shared: SHORT,
                others: SHORTEST,
            };
        }
        let shared = Duration::from_mins(self.minutes());
        Periods {
            settle: SETTLED,
            shared,
            others: shared.min(WITHOUT_BAR),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<Measured> {
        println!("building …");
        let program = if self.short {
            cargo::program("ferrolet")?
        } else {
            cargo::release_program("ferrolet")?
        };
        let node = lab.node("bench-fleet", Runtime::Containerd2)?;
        // Nothing here is for it, and it takes its share of the machine.
        node.runtime().stop()?;
        let fleet = |crowd: &Crowd, identity: &str| {
            let flags = [
                format!("--nodes={}", crowd.count),
                format!("--name-pattern={}{{:05}}", crowd.prefix),
                format!("--identity={identity}"),
            ];
            node.start_fleet(&program, &flags)
        };

        let Periods {
            settle,
            shared,
            others,
        } = self.periods();
        let crowd = |prefix, count| Crowd { prefix, count };
        let empty = without_nodes(&fleet(&crowd("fleet-none-", 0), "shared")?, settle)?;
        let many = crowd("fleet-shared-", self.nodes());
        let shared = many.observe(lab, [settle, shared], || Ok(vec![fleet(&many, "shared")?]))?;
        let kubemark = if self.short {
            None
        } else {
            Some(kubemark(lab, &node, [settle, others])?)
        };
        let some = crowd("fleet-own-", self.nodes().min(OWN_IDENTITIES));
        let own = some.observe(lab, [settle, others], || {
            Ok(vec![fleet(&some, "per-node")?])
        })?;
        node.remove()?;
        Ok(Measured {
            empty,
            shared,
            own,
            kubemark,
        })
    }

    fn text(&self, table: &str, measured: &Measured) -> Result<String> {
        Ok(format!(
            "# A fleet of hollow nodes\n\nWritten by `cargo xtask bench fleet --nodes {} --minutes {}` {}, which the \
             lab's API server\nshares: nodes without pods, one crowd after the other. Memory per node of a fleet is \
             the most that was\nresident, less what a fleet of 0 has ({:.1} MiB), by its nodes. Leases and conditions \
             were looked at every\n{} s, at the API server, from the moment that all were Ready; CPU time is counted \
             from {} s later.\n\n{table}",
            self.nodes(),
            self.minutes(),
            circumstances()?,
            mib(measured.empty),
            BETWEEN_LOOKS.as_secs(),
            SETTLED.as_secs(),
        ))
    }
}

/// Resident memory of a fleet of none.
fn without_nodes(fleet: &Daemon, settle: Duration) -> Result<u64> {
    println!("a fleet without nodes …");
    sleep(settle);
    let resident = Process::of(fleet)
        .and_then(|process| process.resident())
        .with_context(|| last_words(fleet))?;
    fleet.stop()?;
    Ok(resident)
}

fn kubemark(lab: &Lab, node: &Node, periods: [Duration; 2]) -> Result<Seen> {
    let crowd = Crowd {
        prefix: "kubemark-",
        count: KUBEMARKS,
    };
    let names: Vec<String> = (0..crowd.count)
        .map(|index| format!("{}{index}", crowd.prefix))
        .collect();
    crowd.observe(lab, periods, || node.start_kubemark(&names))
}

impl Crowd {
    /// Lets them live until they have settled, and then for that long, and removes their
    /// Node objects, whatever came of them.
    fn observe(
        &self,
        lab: &Lab,
        [settle, period]: [Duration; 2],
        start: impl FnOnce() -> Result<Vec<Daemon>>,
    ) -> Result<Seen> {
        println!("{} nodes {}… for {period:?} …", self.count, self.prefix);
        // What an earlier run left would be counted; and who cannot look must
        // not start to wait.
        self.remove(lab)?;
        let started = Instant::now();
        let daemons = start()?;
        let seen = self.observe_running(lab, &daemons, started, [settle, period]);
        let stopped = daemons.iter().try_for_each(Daemon::stop);
        let removed = self.remove(lab);
        let seen = seen?;
        stopped.and(removed)?;
        Ok(seen)
    }

    fn observe_running(
        &self,
        lab: &Lab,
        daemons: &[Daemon],
        started: Instant,
        [settle, period]: [Duration; 2],
    ) -> Result<Seen> {
        self.wait_ready(lab, daemons)?;
        let ready_after = started.elapsed();
        println!("all Ready after {:.1} s", ready_after.as_secs_f64());
        let mut heartbeats = Heartbeats::default();
        self.look_for(lab, daemons, settle, &mut heartbeats)?;
        let (cpu_before, counted) = (cpu(daemons)?, Instant::now());
        let resident = self.look_for(lab, daemons, period, &mut heartbeats)?;
        Ok(Seen {
            count: self.count,
            ready_after,
            heartbeats,
            resident,
            cpu: cpu(daemons)?.saturating_sub(cpu_before),
            period: counted.elapsed(),
            threads: sum(daemons, Process::threads)?,
        })
    }

    fn wait_ready(&self, lab: &Lab, daemons: &[Daemon]) -> Result<()> {
        let what = format!("{} nodes {}… to be Ready", self.count, self.prefix);
        wait::until(&what, ALL, || {
            if let Some(daemon) = daemons.iter().find(|daemon| !daemon.is_running()) {
                // Waiting longer would not help.
                return Ok(Err(last_words(daemon)));
            }
            let alive = self.look(lab)?.alive();
            if alive < self.count {
                // A look has its price, which the nodes would pay.
                sleep(BETWEEN_FIRST_LOOKS);
                bail!("{alive} are");
            }
            Ok(Ok(()))
        })?
        .map_err(anyhow::Error::msg)
    }

    /// Looks at them at regular intervals for that long, and answers the most
    /// memory that they were met with.
    fn look_for(
        &self,
        lab: &Lab,
        daemons: &[Daemon],
        period: Duration,
        heartbeats: &mut Heartbeats,
    ) -> Result<u64> {
        let start = Instant::now();
        let mut resident = 0;
        let mut next = start;
        while start.elapsed() < period {
            heartbeats.add(self.look(lab)?);
            resident = resident.max(sum(daemons, Process::resident)?);
            next += BETWEEN_LOOKS;
            let end = next.min(start + period);
            sleep(end.saturating_duration_since(Instant::now()));
        }
        Ok(resident)
    }

    fn look(&self, lab: &Lab) -> Result<Look> {
        // From the API server's cache: what it lags behind makes leases look
        // older, never younger.
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let at = Timestamp::now();
        let leases = lab.get_raw(&format!("{leases}?resourceVersion=0"))?;
        let nodes = lab.get_raw("/api/v1/nodes?resourceVersion=0")?;
        Look::read(at, &nodes, &leases, self.prefix)
    }

    fn remove(&self, lab: &Lab) -> Result<()> {
        let what = format!("the nodes {}… to be gone", self.prefix);
        self.look(lab)?;
        wait::until(&what, ALL, || {
            let names = Vec::from_iter(self.look(lab)?.names);
            if names.is_empty() {
                return Ok(());
            }
            lab.delete_nodes(&names)?;
            bail!("{} are there", names.len())
        })
    }
}

fn cpu(daemons: &[Daemon]) -> Result<Duration> {
    sum(daemons, Process::cpu)
}

fn sum<T: std::iter::Sum>(daemons: &[Daemon], of: impl Fn(&Process) -> Result<T>) -> Result<T> {
    daemons
        .iter()
        .map(|daemon| {
            Process::of(daemon)
                .and_then(|process| of(&process))
                .with_context(|| last_words(daemon))
        })
        .sum()
}

/// What a daemon that has ended said of it.
fn last_words(daemon: &Daemon) -> String {
    const LINES: usize = 10;
    let log = daemon.log();
    let mut lines: Vec<&str> = log.lines().rev().take(LINES).collect();
    lines.reverse();
    format!("{} has ended:\n{}", daemon.name(), lines.join("\n"))
}

#[allow(clippy::cast_precision_loss, reason = "figures for people")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

#[allow(clippy::cast_precision_loss, reason = "figures for people")]
impl Seen {
    /// KiB of each node, beside what there is without any.
    fn resident_per_node(&self, empty: u64) -> f64 {
        self.resident.saturating_sub(empty) as f64 / KIB / self.count as f64
    }

    /// Milliseconds of each node in a minute.
    fn cpu_per_node(&self) -> f64 {
        let minutes = self.period.as_secs_f64() / 60.0;
        self.cpu.as_secs_f64() * 1000.0 / minutes / self.count as f64
    }

    /// How many nodes were alive at the worst look.
    fn fewest_alive(&self) -> f64 {
        self.heartbeats.fewest_alive.unwrap_or(0) as f64
    }
}

#[allow(clippy::cast_precision_loss, reason = "figures for people")]
fn rows(measured: &Measured) -> Vec<Row> {
    let Measured {
        empty,
        shared,
        own,
        kubemark,
    } = measured;
    let row = |figure, decimals, bar, of: &dyn Fn(&Seen) -> f64| Row {
        figure,
        decimals,
        shared: of(shared),
        own: Some(of(own)),
        kubemark: kubemark.as_ref().map(of),
        bar,
        compared: false,
    };
    let memory = row(
        "resident memory per node, KiB",
        0,
        Bar::AtMost(LARGEST_NODE),
        &|seen| seen.resident_per_node(*empty),
    );
    let memory = Row {
        // Its processes share nothing: each is a node whole.
        kubemark: kubemark.as_ref().map(|seen| seen.resident_per_node(0)),
        compared: true,
        ..memory
    };
    let cpu = row("CPU time per node, ms a minute", 1, Bar::None, &|seen| {
        seen.cpu_per_node()
    });
    let lease = row("latest lease, s", 1, Bar::AtMost(LATEST_LEASE), &|seen| {
        seen.heartbeats.latest.as_secs_f64()
    });
    let all = Bar::AtLeast(shared.count as f64);
    vec![
        memory,
        Row {
            compared: true,
            ..cpu
        },
        Row {
            compared: true,
            ..lease
        },
        row("fewest nodes Ready at a look", 0, all, &Seen::fewest_alive),
        row("all Ready after, s", 1, Bar::None, &|seen| {
            seen.ready_after.as_secs_f64()
        }),
        row("resident memory of all, MiB", 1, Bar::None, &|seen| {
            mib(seen.resident)
        }),
        row("threads of all", 0, Bar::None, &|seen| seen.threads as f64),
        row("looks", 0, Bar::None, &|seen| seen.heartbeats.looks as f64),
    ]
}

impl Row {
    /// Of a few nodes, as tests build them, on a machine that others work on, only that they
    /// live is held to a bar.
    fn without_cost(&mut self) {
        if let Bar::AtMost(_) = self.bar {
            self.bar = Bar::None;
        }
    }

    fn missed(&self) -> bool {
        match self.bar {
            Bar::None => false,
            Bar::AtMost(bar) => self.shared > bar,
            Bar::AtLeast(bar) => self.shared < bar,
        }
    }

    fn shown_bar(&self) -> String {
        match self.bar {
            Bar::None => String::new(),
            Bar::AtMost(bar) => format!("≤ {bar:.0}"),
            Bar::AtLeast(bar) => format!("≥ {bar:.0}"),
        }
    }
}

fn table(rows: &[Row], measured: &Measured) -> String {
    let mut table = format!(
        "| figure | fleet of {}, shared identity | fleet of {}, identity per node | kubemark {KUBERNETES}, {KUBEMARKS} \
         processes | ratio | bar |\n|---|---:|---:|---:|---:|---:|\n",
        measured.shared.count, measured.own.count
    );
    for row in rows {
        let shown = |value: Option<f64>| {
            value.map_or_else(String::new, |value| format!("{value:.*}", row.decimals))
        };
        let compared = row.kubemark.filter(|_| row.compared);
        let ratio = compared.map(|kubemark| row.shared / kubemark);
        let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.4}"));
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {ratio} | {} |",
            row.figure,
            shown(Some(row.shared)),
            shown(row.own),
            shown(row.kubemark),
            row.shown_bar(),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(count: usize, resident_mib: u64) -> Seen {
        let mut heartbeats = Heartbeats::default();
        heartbeats.latest = Duration::from_secs(11);
        heartbeats.fewest_alive = Some(count);
        Seen {
            count,
            ready_after: Duration::from_secs(3),
            heartbeats,
            resident: resident_mib << 20,
            cpu: Duration::from_secs(6),
            period: Duration::from_secs(120),
            threads: 3,
        }
    }

    fn measured(shared: Seen) -> Measured {
        Measured {
            empty: 10 << 20,
            shared,
            own: seen(200, 60),
            kubemark: Some(seen(3, 213)),
        }
    }

    fn missed(shared: Seen) -> Vec<&'static str> {
        let rows = rows(&measured(shared));
        let missed = rows.iter().filter(|row| row.missed());
        missed.map(|row| row.figure).collect()
    }

    #[test]
    fn memory_per_node_is_what_the_nodes_add_to_an_empty_fleet() {
        let seen = seen(1024, 110);
        assert!((seen.resident_per_node(10 << 20) - 100.0).abs() < 1e-9);
        // A fleet that is smaller with nodes than without has none to show.
        assert!(seen.resident_per_node(200 << 20).abs() < 1e-9);
    }

    #[test]
    fn cpu_time_is_that_of_one_node_in_one_minute() {
        assert!((seen(100, 1).cpu_per_node() - 30.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_over_its_bar_is_missed_and_nothing_else() {
        assert_eq!(missed(seen(1000, 110)), Vec::<&str>::new());
        assert_eq!(missed(seen(1000, 310)), ["resident memory per node, KiB"]);
        let mut late = seen(1000, 110);
        late.heartbeats.latest = Duration::from_millis(20_001);
        assert_eq!(missed(late), ["latest lease, s"]);
        let mut lost = seen(1000, 110);
        lost.heartbeats.fewest_alive = Some(999);
        assert_eq!(missed(lost), ["fewest nodes Ready at a look"]);
    }

    #[test]
    fn in_short_what_nodes_cost_is_no_bar_and_that_they_live_is() {
        let mut poor = seen(20, 500);
        poor.heartbeats.latest = Duration::from_secs(30);
        poor.heartbeats.fewest_alive = Some(19);
        let mut rows = rows(&measured(poor));
        rows.iter_mut().for_each(Row::without_cost);
        let missed = rows.iter().filter(|row| row.missed());
        let missed: Vec<&str> = missed.map(|row| row.figure).collect();
        assert_eq!(missed, ["fewest nodes Ready at a look"]);
    }

    #[test]
    fn the_table_shows_every_crowd_with_kubemarks_processes_whole() {
        let measured = measured(seen(1024, 110));
        let shown = table(&rows(&measured), &measured);
        let line = "| resident memory per node, KiB | 100 | 256 | 72704 | 0.0014 | ≤ 300 |";
        assert!(shown.contains(line), "{shown}");
    }

    #[test]
    fn without_kubemark_its_column_is_empty() {
        let measured = Measured {
            kubemark: None,
            ..measured(seen(1000, 110))
        };
        let shown = table(&rows(&measured), &measured);
        assert!(
            shown.contains("| latest lease, s | 11.0 | 11.0 |  |  | ≤ 20 |"),
            "{shown}"
        );
    }
}
