//! `cargo xtask bench`: what our agent costs, beside the upstream kubelet, in
//! one run on equal lab nodes. Prints a table, keeps it in `bench/`, and fails
//! where a bar of the design is missed.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::command;
use testkit::lab::{Agent, InstanceId, KUBERNETES, Lab, Layout, Node, Options, Runtime, workspace};

const READY: Duration = Duration::from_secs(60);
/// What a start leaves behind is gone by then.
const SETTLED: Duration = Duration::from_secs(30);
const MIB: f64 = 1024.0 * 1024.0;

/// What an idle agent costs.
struct Figures {
    resident: u64,
    anonymous: u64,
    cpu: Duration,
    threads: u64,
    connections: u64,
    program: u64,
}

/// One line of the table.
struct Row {
    figure: &'static str,
    ours: f64,
    upstreams: f64,
    decimals: usize,
    /// The largest part of upstream's that is allowed.
    bar: Option<f64>,
}

/// Measures both, idle, for so many seconds.
pub(crate) fn idle(seconds: u64) -> Result<()> {
    let layout = Layout::new(InstanceId::from_env()?)?;
    let was_up = Lab::open(&layout)?.is_some();
    let lab = Lab::up(layout.clone(), &Options::default())?;
    let outcome = measure(&lab, Duration::from_secs(seconds));
    let down = if was_up { Ok(()) } else { Lab::down(&layout) };
    let rows = outcome?;
    down?;
    let table = table(&rows);
    println!("{table}");
    keep(seconds, &table)?;
    let missed: Vec<&str> = rows
        .iter()
        .filter(|row| row.missed())
        .map(|row| row.figure)
        .collect();
    ensure!(missed.is_empty(), "over the bar: {}", missed.join(", "));
    Ok(())
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
    let status = fs::read_to_string(format!("{process}/status"))?;
    let field = |name: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|line| line.split_whitespace().next());
        let value = value.with_context(|| format!("no {name} in {process}/status"))?;
        Ok(value.parse()?)
    };
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
        resident: field("VmRSS:")? * 1024,
        anonymous: field("RssAnon:")? * 1024,
        cpu: cpu(node)?.saturating_sub(cpu_before),
        threads: field("Threads:")?,
        connections: u64::try_from(listed.lines().filter(agents).count())?,
        program: fs::metadata(format!("{process}/exe"))?.len(),
    })
}

/// CPU time of the agent since its start, threads that have ended included.
fn cpu(node: &Node) -> Result<Duration> {
    // The kernel's unit towards programs, on every architecture that we run on.
    const TICK: Duration = Duration::from_millis(10);
    let stat = fs::read_to_string(format!("{}/stat", process(node)?))?;
    // The name before may hold anything, and ends at the last bracket.
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |index: usize| -> Result<u32> {
        let field = fields.get(index).context("a short stat")?;
        Ok(field.parse()?)
    };
    Ok(TICK * (ticks(11)? + ticks(12)?))
}

fn process(node: &Node) -> Result<String> {
    let pid = node.kubelet().pid();
    let pid = pid.with_context(|| format!("the agent of {} has ended", node.name()))?;
    Ok(format!("/proc/{}", pid.as_raw_nonzero()))
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

impl Row {
    fn ratio(&self) -> f64 {
        self.ours / self.upstreams
    }

    fn missed(&self) -> bool {
        self.bar.is_some_and(|bar| self.ratio() > bar)
    }
}

fn table(rows: &[Row]) -> String {
    let mut table = format!(
        "| figure | ferrolet | kubelet {KUBERNETES} | ratio | bar |\n|---|---:|---:|---:|---:|\n"
    );
    for row in rows {
        let bar = row.bar.map(|bar| format!("≤ {bar:.2}")).unwrap_or_default();
        let _ = writeln!(
            table,
            "| {} | {:.*} | {:.*} | {:.3} | {bar} |",
            row.figure,
            row.decimals,
            row.ours,
            row.decimals,
            row.upstreams,
            row.ratio(),
        );
    }
    table
}

/// The last run, for whoever wants to know without running it.
fn keep(seconds: u64, table: &str) -> Result<()> {
    let date = command::run(Command::new("date").args(["--utc", "+%Y-%m-%d"]))?;
    let cores = std::thread::available_parallelism()?;
    let system = command::run(Command::new("uname").args(["--kernel-name", "--machine"]))?;
    let text = format!(
        "# An idle node\n\nWritten by `cargo xtask bench idle --seconds {seconds}` on {}, {cores} cores, {}: both \
         agents in one run, on equal lab nodes\nwithout pods, {} s after they were Ready.\n\n{table}",
        date.trim(),
        system.trim(),
        SETTLED.as_secs(),
    );
    let place = workspace().join("bench");
    fs::create_dir_all(&place)?;
    let file = place.join("idle.md");
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    println!("kept in {}", file.display());
    Ok(())
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
    fn the_table_shows_each_figure_with_its_ratio() {
        let shown = table(&rows(&figures(10 << 20), &figures(100 << 20)));
        assert!(
            shown.contains("| resident memory, MiB | 10.0 | 100.0 | 0.100 | ≤ 0.20 |"),
            "{shown}"
        );
    }
}
