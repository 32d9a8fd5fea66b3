//! `cargo xtask bench server`: what the answers of a node with a hundred pods cost, how
//! fast it gives out logs, and how soon it tells of its pods while it is asked, beside
//! the upstream kubelet, in one run on equal lab nodes.

mod client;
mod log_file;
mod status_changes;

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use testkit::lab::{Agent, Daemon, Lab, Node, Runtime};
use testkit::watch::PodWatch;

use super::crowd::{Crowd, Restart};
use super::process::Process;
use super::table::{FERROLET, Row, expect_no_missed_bar, median, table};
use super::{KIB, MIB, SETTLED, circumstances, keep};
use crate::long_run::in_lab;
use client::Client;
use status_changes::Mortal;

const NODE_READY: Duration = Duration::from_secs(60);
const PODS_READY: Duration = Duration::from_secs(180);

/// So that a log of gigabytes stays one.
const CONFIG: &str = "containerLogMaxSize: 8Gi\n";

/// Requests before those that count.
const WARM_UP: u32 = 10;

/// Of one core: what is asked for while pods change.
const PESTERED: f64 = 0.5;

/// What is aimed at beyond that: the last pods cost less than the first.
const MARGIN: f64 = 0.04;

/// Who asks, at most, and how long each is looked at before the next one comes.
const MOST_PESTERERS: usize = 8;
const PESTERED_FOR: Duration = Duration::from_secs(3);

/// What makes the agent work while pods change. It costs the same when they have ended.
const PESTERED_WITH: &str = "/metrics";

/// What of changes is well while somebody asks.
#[derive(Clone, Copy, Debug)]
struct Tolerance {
    /// A change may be heard of as much later, or twice as late.
    slack: Duration,
    /// Of a core that the agent was kept busy with: less would show nothing.
    least: f64,
}

const TOLERANCE: Tolerance = Tolerance {
    slack: Duration::from_millis(500),
    least: PESTERED,
};

/// In the short form: of few pods the slowest counts, of an agent that is not built for speed, on
/// a machine that may have other work. Who is starved by those who ask is later than that.
const SHORT_TOLERANCE: Tolerance = Tolerance {
    slack: Duration::from_secs(3),
    least: 0.1,
};

/// Our agent gives this out again for a second: it is also asked for so rarely that each answer
/// is made anew.
const MADE_ANEW: &str = "/stats/summary";
const RARELY: [&str; 2] = ["--rate", "40/m"];

/// Something that is asked for.
struct Endpoint {
    path: &'static str,
    /// Of curl.
    flags: &'static [&'static str],
    cpu: &'static str,
    size: &'static str,
    bar: Option<f64>,
}

const QUARTER: Option<f64> = Some(1.0 / 4.0);

const ENDPOINTS: [Endpoint; 6] = [
    Endpoint {
        path: "/metrics",
        flags: &[],
        cpu: "`/metrics`, ms of CPU",
        size: "its size, KiB",
        bar: QUARTER,
    },
    Endpoint {
        path: "/stats/summary",
        flags: &[],
        cpu: "`/stats/summary`, ms of CPU",
        size: "its size, KiB",
        bar: QUARTER,
    },
    Endpoint {
        path: "/pods",
        flags: &[],
        cpu: "`/pods`, ms of CPU",
        size: "its size, KiB",
        bar: QUARTER,
    },
    Endpoint {
        path: "/metrics",
        flags: &["--compressed"],
        cpu: "`/metrics`, packed, ms of CPU",
        size: "its size, KiB",
        bar: None,
    },
    Endpoint {
        path: "/metrics/resource",
        flags: &[],
        cpu: "`/metrics/resource`, ms of CPU",
        size: "its size, KiB",
        bar: None,
    },
    Endpoint {
        path: "/metrics/cadvisor",
        flags: &[],
        cpu: "`/metrics/cadvisor`, ms of CPU",
        size: "its size, KiB",
        bar: None,
    },
];

/// What is measured.
#[derive(Args)]
pub(crate) struct Plan {
    /// To see that it works: a few pods and an instant for each endpoint, as tests build the agent; without bars but for changes under load, and nothing is kept
    #[arg(long)]
    short: bool,
    /// For how long each endpoint is asked for
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=60), conflicts_with = "short")]
    seconds: u32,
}

/// How much of it.
struct Size {
    pods: usize,
    /// Before anything is measured.
    settle: Duration,
    /// For how long it is looked at unasked.
    idle: Duration,
    /// For each endpoint.
    spell: Duration,
    log: u64,
    long_log: u64,
    reads: u32,
    /// Requests that are made rarely.
    rare: u32,
    /// Pods that end, once with and once without anybody who asks.
    changes: usize,
}

/// What one agent has shown.
#[derive(Debug)]
struct Figures {
    /// Of each endpoint.
    asked: Vec<Asked>,
    rarely: Rarely,
    log: LogRead,
    tail: TailRead,
    changes: Changes,
    resident: u64,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Seconds of CPU for one request.
    cpu: f64,
    bytes: u64,
}

/// [`MADE_ANEW`], asked for so rarely that our agent looks anew for each: seconds of CPU for
/// one request.
#[derive(Clone, Copy, Debug)]
struct Rarely {
    /// Without what the agent takes unasked.
    asked: f64,
    /// With all that it takes from one request to the next: who looks all the time so that
    /// answers are cheap has its looking counted.
    whole: f64,
}

#[derive(Debug)]
struct LogRead {
    /// For all of it.
    seconds: f64,
    /// As it was given out.
    mebibytes: f64,
    /// Seconds of CPU for all of it.
    cpu: f64,
}

/// The last lines of a log that is too long to be read.
#[derive(Debug)]
struct TailRead {
    seconds: f64,
    /// Bytes of memory.
    grown: u64,
}

/// How soon the API server hears of pods that have ended.
#[derive(Debug)]
struct Changes {
    unasked: Duration,
    asked: Duration,
    /// Of one core, while it was asked.
    share: f64,
}

pub(crate) fn run(plan: &Plan) -> Result<()> {
    let [ours, upstreams] = in_lab(|lab| plan.measure(lab))?;
    let mut rows = rows(&ours, &upstreams);
    if plan.short {
        for row in &mut rows {
            row.bar = None;
        }
    }
    let table = table(FERROLET, &rows);
    println!("{table}");
    [&ours, &upstreams]
        .into_iter()
        .try_for_each(Figures::is_whole)?;
    if plan.short {
        return ours.changes.judge(SHORT_TOLERANCE);
    }
    keep("server.md", &plan.text(&table)?)?;
    expect_no_missed_bar(&rows)?;
    ours.changes.judge(TOLERANCE)
}

impl Plan {
    /// Of tests.
    pub(crate) fn short() -> Self {
        Self {
            short: true,
            seconds: 1,
        }
    }

    fn size(&self) -> Size {
        if self.short {
            let moment = Duration::from_millis(200);
            return Size {
                pods: 9,
                settle: moment,
                idle: moment,
                spell: moment,
                log: 4 << 20,
                long_log: 2 << 30,
                reads: 1,
                rare: 2,
                changes: 4,
            };
        }
        Size {
            pods: 100,
            settle: SETTLED,
            idle: 2 * SETTLED / 3,
            spell: Duration::from_secs(self.seconds.into()),
            log: 256 << 20,
            long_log: 2 << 30,
            reads: 5,
            rare: 20,
            changes: 50,
        }
    }

    /// Ours, and upstream's, one after the other.
    fn measure(&self, lab: &Lab) -> Result<[Figures; 2]> {
        let size = self.size();
        let agent = if self.short {
            Agent::Ferrolet
        } else {
            Agent::FerroletRelease
        };
        let ours = measure(lab, "server-ours", agent, &size)?;
        let upstreams = measure(lab, "server-upstream", Agent::Upstream, &size)?;
        Ok([ours, upstreams])
    }

    fn text(&self, table: &str) -> Result<String> {
        let Size {
            pods, changes, log, ..
        } = self.size();
        Ok(format!(
            "# A node that is asked\n\nWritten by `cargo xtask bench server --seconds {}` {}, which the lab's API \
             server, containerd and who\nasks share: {pods} pods of the pause image on equal lab nodes, one agent \
             after the other. curl asks over one\nHTTPS connection with a service account's token, as fast as \
             it is answered; CPU time is the agent's own for one\nrequest, without what it takes unasked. The log is \
             {} MiB as the runtime writes it, read whole, the median of {}\ntimes; the long one 2 GiB. Changes are \
             {changes} pods that are killed one after the other, until the API server says so,\nwhile nobody asks, and \
             while `{PESTERED_WITH}` is asked for as often as takes our agent half a core. Our agent looks at its pods\n\
             when it is asked, and gives the same answer for a second; upstream looks all the time, and its figures \
             are\nten seconds old and more. Rarely is every 1.5 s: every answer of ours has a look of its own. The whole \
             of it counts all\nthat an agent takes meanwhile, upstream's looking with it.\n\n{table}",
            self.seconds,
            circumstances()?,
            log >> 20,
            self.size().reads,
        ))
    }
}

/// Everything of one agent, on a node of its own.
fn measure(lab: &Lab, name: &str, agent: Agent, size: &Size) -> Result<Figures> {
    println!("{name}: {} pods …", size.pods);
    let node = lab.node(name, Runtime::Containerd2)?;
    node.start_agent(agent, CONFIG, &[])?;
    node.wait_ready(NODE_READY)?;
    let crowd = Crowd::prepare(lab.kubectl(), &node, size.pods, 0, Restart::Never)?;
    let mut watch = PodWatch::start(&crowd.kubectl, &crowd.namespace)?;
    crowd.create()?;
    watch.until_ready(size.pods, PODS_READY)?;
    let mortals = Mortal::all(&node, &crowd.namespace)?;
    ensure!(
        mortals.len() == size.pods,
        "{} containers run, not {}",
        mortals.len(),
        size.pods
    );
    let process = Process::of(&node.kubelet())?;
    let client = Client::new(&crowd.kubectl, &node, &crowd.namespace)?;
    let subject = Subject {
        node: &node,
        process: &process,
        client: &client,
        size,
        namespace: &crowd.namespace,
    };
    sleep(size.settle);
    let figures = subject.measure(&mut watch, &mortals)?;
    drop(client);
    crowd.remove()?;
    node.remove()?;
    Ok(figures)
}

/// An agent whose pods run, and who asks it.
struct Subject<'a> {
    node: &'a Node,
    process: &'a Process,
    client: &'a Client<'a>,
    size: &'a Size,
    namespace: &'a str,
}

impl Subject<'_> {
    fn measure(&self, watch: &mut PodWatch, mortals: &[Mortal]) -> Result<Figures> {
        let asked: Vec<Asked> = ENDPOINTS
            .iter()
            .map(|endpoint| self.ask(endpoint))
            .collect::<Result<_>>()?;
        let rarely = self.ask_rarely()?;
        let log = self.log_of(mortals)?;
        let read = self.read(&log)?;
        let tail = self.tail(&log)?;
        log_file::fill(&log.file, 0)?;
        let pestered = ENDPOINTS
            .iter()
            .position(|endpoint| endpoint.path == PESTERED_WITH);
        let pestered = pestered.and_then(|index| asked.get(index));
        let cost = pestered.context("nothing to ask for")?.cpu;
        Ok(Figures {
            changes: self.changes(watch, mortals, cost)?,
            asked,
            rarely,
            log: read,
            tail,
            resident: self.process.resident()?,
        })
    }

    /// What it takes unasked, of one core.
    fn idle(&self) -> Result<f64> {
        let (begun, cpu) = (Instant::now(), self.process.cpu()?);
        sleep(self.size.idle);
        let cpu = self.process.cpu()?.saturating_sub(cpu);
        Ok(cpu.as_secs_f64() / begun.elapsed().as_secs_f64())
    }

    fn ask(&self, endpoint: &Endpoint) -> Result<Asked> {
        let Endpoint { path, flags, .. } = *endpoint;
        // The first may have something to make that the others find.
        self.client.ask(path, WARM_UP, flags)?;
        let warm = self.client.ask(path, WARM_UP, flags)?;
        let idle = self.idle()?;
        let count = requests_in(self.size.spell, warm.seconds / f64::from(WARM_UP));
        let (begun, cpu) = (Instant::now(), self.process.cpu()?);
        let answers = self.client.ask(path, count, flags)?;
        let took = begun.elapsed().as_secs_f64();
        let cpu = self.process.cpu()?.saturating_sub(cpu).as_secs_f64();
        let asked = Asked {
            cpu: (cpu - idle * took).max(0.0) / f64::from(count),
            bytes: answers.bytes,
        };
        println!(
            "  {path} {}: {count} requests in {took:.1} s, {cpu:.2} s of CPU, {:.2} % of a core unasked",
            flags.join(" "),
            100.0 * idle
        );
        Ok(asked)
    }

    fn ask_rarely(&self) -> Result<Rarely> {
        let (count, idle) = (self.size.rare, self.idle()?);
        let (begun, cpu) = (Instant::now(), self.process.cpu()?);
        self.client.ask(MADE_ANEW, count, &RARELY)?;
        let took = begun.elapsed().as_secs_f64();
        let cpu = self.process.cpu()?.saturating_sub(cpu).as_secs_f64();
        println!("  {MADE_ANEW} rarely: {count} requests in {took:.1} s, {cpu:.2} s of CPU");
        let count = f64::from(count);
        Ok(Rarely {
            asked: (cpu - idle * took).max(0.0) / count,
            whole: cpu / count,
        })
    }

    /// That of the last pod: it goes last, too.
    fn log_of(&self, mortals: &[Mortal]) -> Result<Log> {
        let pod = mortals.last().context("no pods")?.pod();
        let logs = self.node.machine().file("/var/log/pods");
        let prefix = format!("{}_{pod}_", self.namespace);
        for entry in fs::read_dir(&logs)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                return Ok(Log {
                    file: entry.path().join("main/0.log"),
                    path: format!("/containerLogs/{}/{pod}/main", self.namespace),
                });
            }
        }
        anyhow::bail!("{pod} has no logs in {}", logs.display())
    }

    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    fn read(&self, log: &Log) -> Result<LogRead> {
        log_file::fill(&log.file, self.size.log)?;
        let idle = self.idle()?;
        let (begun, cpu) = (Instant::now(), self.process.cpu()?);
        let reads = (0..self.size.reads)
            .map(|_| self.client.ask(&log.path, 1, &[]))
            .collect::<Result<Vec<_>>>()?;
        let took = begun.elapsed().as_secs_f64();
        let cpu = self.process.cpu()?.saturating_sub(cpu).as_secs_f64();
        let given = reads.first().context("nothing was read")?.bytes;
        let written = fs::metadata(&log.file)?.len();
        ensure!(
            given > written / 2 && given < written,
            "{given} bytes of a log of {written} were given out"
        );
        let seconds: Vec<f64> = reads.iter().map(|read| read.seconds).collect();
        println!("  a log of {given} bytes: {seconds:.2?} s, {cpu:.2} s of CPU");
        Ok(LogRead {
            seconds: median(seconds.into_iter()),
            mebibytes: given as f64 / MIB,
            cpu: (cpu - idle * took).max(0.0) / f64::from(self.size.reads),
        })
    }

    fn tail(&self, log: &Log) -> Result<TailRead> {
        log_file::stretch(&log.file, self.size.long_log)?;
        let path = format!("{}?tailLines=100", log.path);
        let before = self.process.resident()?;
        let read = self.client.ask(&path, WARM_UP, &[])?;
        ensure!(
            (100 * 40..=100 * 201).contains(&read.bytes),
            "the last hundred lines are {} bytes",
            read.bytes
        );
        Ok(TailRead {
            seconds: read.seconds / f64::from(read.count),
            grown: self.process.resident()?.saturating_sub(before),
        })
    }

    fn changes(&self, watch: &mut PodWatch, mortals: &[Mortal], cost: f64) -> Result<Changes> {
        let changes = self.size.changes;
        let (first, rest) = mortals.split_at(changes.min(mortals.len()));
        let (second, _) = rest.split_at(changes.min(rest.len()));
        let unasked = status_changes::end(self.node, watch, first)?;
        let pesterers = self.pester(cost)?;
        let (asked, share) = self.busy(|| status_changes::end(self.node, watch, second))?;
        pesterers.iter().try_for_each(Daemon::stop)?;
        let p95 = |times: &[Duration]| status_changes::p95(times).context("no pod has ended");
        let changes = Changes {
            unasked: p95(&unasked)?,
            asked: p95(&asked)?,
            share,
        };
        println!("  {changes:.2?}");
        Ok(changes)
    }

    /// Keeps the agent busy with half a core and a little more: with as many who ask as that
    /// takes, since one curl asks a thousand times a second at most and waits for each answer.
    fn pester(&self, cost: f64) -> Result<Vec<Daemon>> {
        let mut pesterers = Vec::new();
        loop {
            pesterers.push(
                self.client
                    .pester(PESTERED_WITH, rate(cost), pesterers.len())?,
            );
            // It has to start, and to be known, before it asks.
            sleep(PESTERED_FOR / 3);
            let ((), share) = self.busy(|| {
                sleep(PESTERED_FOR);
                Ok(())
            })?;
            println!("  {} who ask take {share:.2} of a core", pesterers.len());
            if share >= PESTERED + MARGIN || pesterers.len() == MOST_PESTERERS {
                return Ok(pesterers);
            }
        }
    }

    /// What share of a core the agent has used meanwhile.
    fn busy<T>(&self, meanwhile: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
        let (begun, cpu) = (Instant::now(), self.process.cpu()?);
        let done = meanwhile()?;
        let cpu = self.process.cpu()?.saturating_sub(cpu).as_secs_f64();
        Ok((done, cpu / begun.elapsed().as_secs_f64()))
    }
}

/// A container's.
struct Log {
    /// On the host.
    file: PathBuf,
    /// At the node's port.
    path: String,
}

/// As many as fit, but enough to be measured.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is between the bounds"
)]
fn requests_in(spell: Duration, each: f64) -> u32 {
    (spell.as_secs_f64() / each).clamp(5.0, 20_000.0) as u32
}

/// Requests in a second that take a quarter of a core.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is between the bounds"
)]
fn rate(cost: f64) -> u32 {
    (PESTERED / 2.0 / cost).ceil().clamp(1.0, 1000.0) as u32
}

impl Changes {
    fn judge(&self, Tolerance { slack, least }: Tolerance) -> Result<()> {
        let most = (2 * self.unasked).max(self.unasked + slack);
        ensure!(
            self.asked <= most,
            "changes are heard of after {:?}, {:?} when nobody asks",
            self.asked,
            self.unasked
        );
        ensure!(
            self.share >= least,
            "it was asked too little: {:.2} of a core",
            self.share
        );
        Ok(())
    }
}

impl Figures {
    /// Whether every figure is there that cannot be nothing.
    fn is_whole(&self) -> Result<()> {
        let asked = self.asked.iter().all(|asked| asked.bytes > 0);
        let log = self.log.seconds > 0.0 && self.log.mebibytes > 0.0;
        let changes = !self.changes.unasked.is_zero() && !self.changes.asked.is_zero();
        ensure!(
            asked && log && self.tail.seconds > 0.0 && changes,
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
    let mut rows = Vec::new();
    for (index, endpoint) in ENDPOINTS.iter().enumerate() {
        let asked = |figures: &Figures| figures.asked.get(index).copied();
        rows.push(row(endpoint.cpu, 3, endpoint.bar, &|figures| {
            1000.0 * asked(figures).map_or(f64::NAN, |asked| asked.cpu)
        }));
        rows.push(row(endpoint.size, 0, None, &|figures| {
            asked(figures).map_or(f64::NAN, |asked| asked.bytes as f64 / KIB)
        }));
    }
    rows.extend([
        row("`/stats/summary` rarely, ms of CPU", 3, None, &|figures| {
            1000.0 * figures.rarely.asked
        }),
        row("the whole of it, ms of CPU", 3, QUARTER, &|figures| {
            1000.0 * figures.rarely.whole
        }),
        // Twice as fast.
        row("a log read whole, s", 2, Some(1.0 / 2.0), &|figures| {
            figures.log.seconds
        }),
        row("MiB in a second", 0, None, &|figures| {
            figures.log.mebibytes / figures.log.seconds
        }),
        row("ms of CPU for a MiB", 2, None, &|figures| {
            1000.0 * figures.log.cpu / figures.log.mebibytes
        }),
        row(
            "the last 100 lines of a long one, ms",
            2,
            None,
            &|figures| 1000.0 * figures.tail.seconds,
        ),
        row("memory grown with it, KiB", 0, None, &|figures| {
            figures.tail.grown as f64 / KIB
        }),
        row(
            "95 of 100 changes are told within, ms",
            0,
            None,
            &|figures| 1000.0 * figures.changes.unasked.as_secs_f64(),
        ),
        row("while it is asked, ms", 0, None, &|figures| {
            1000.0 * figures.changes.asked.as_secs_f64()
        }),
        row("CPU meanwhile, % of a core", 0, None, &|figures| {
            100.0 * figures.changes.share
        }),
        row("resident memory in the end, MiB", 1, None, &|figures| {
            figures.resident as f64 / MIB
        }),
    ]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(part: u32) -> Figures {
        let part = f64::from(part);
        let asked = Asked {
            cpu: part,
            bytes: 1,
        };
        Figures {
            asked: vec![asked; ENDPOINTS.len()],
            rarely: Rarely {
                asked: 1.0,
                whole: part,
            },
            log: LogRead {
                seconds: part,
                mebibytes: 1.0,
                cpu: 1.0,
            },
            tail: TailRead {
                seconds: 1.0,
                grown: 0,
            },
            changes: changes(100, 100),
            resident: 1,
        }
    }

    fn changes(unasked: u64, asked: u64) -> Changes {
        Changes {
            unasked: Duration::from_millis(unasked),
            asked: Duration::from_millis(asked),
            share: 0.5,
        }
    }

    #[test]
    fn requests_cost_a_quarter_at_most_and_a_log_takes_half_the_time() {
        let missed = |part| {
            let rows = rows(&figures(part), &figures(100));
            let missed = rows.iter().filter(|row| row.missed());
            missed.map(|row| row.figure).collect::<Vec<_>>()
        };
        assert!(missed(25).is_empty());
        assert_eq!(missed(26).len(), 4);
        assert_eq!(missed(50).len(), 4);
        assert!(missed(51).contains(&"a log read whole, s"));
    }

    #[test]
    fn changes_may_be_heard_of_half_a_second_later_or_twice_as_late() {
        for (unasked, asked, well) in [
            (100, 600, true),
            (100, 601, false),
            (900, 1800, true),
            (900, 1801, false),
        ] {
            assert_eq!(changes(unasked, asked).judge(TOLERANCE).is_ok(), well);
        }
        let idle = Changes {
            share: 0.1,
            ..changes(1, 1)
        };
        assert!(idle.judge(TOLERANCE).is_err());
        assert!(idle.judge(SHORT_TOLERANCE).is_ok());
        assert!(changes(100, 3100).judge(SHORT_TOLERANCE).is_ok());
        assert!(changes(100, 3101).judge(SHORT_TOLERANCE).is_err());
    }

    #[test]
    fn there_are_as_many_requests_as_fit() {
        let second = Duration::from_secs(1);
        assert_eq!(requests_in(second, 0.01), 100);
        assert_eq!(requests_in(second, 10.0), 5);
        assert_eq!(requests_in(second, 0.0), 20_000);
        assert_eq!(rate(0.01), 25);
        assert_eq!(rate(10.0), 1);
        assert_eq!(rate(0.0), 1000);
    }

    #[test]
    fn what_has_not_answered_is_not_whole() {
        assert!(figures(1).is_whole().is_ok());
        assert!(figures(0).is_whole().is_err());
    }
}
