//! `cargo xtask bench density`: what our agent costs with a hundred pods, and
//! how fast it starts and ends them, beside the upstream kubelet, in one run on
//! equal lab nodes.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use testkit::lab::{Agent, Lab, Node, Runtime};
use testkit::wait;
use testkit::watch::PodWatch;

use super::crowd::{Crowd, Restart};
use super::process::Process;
use super::table::{FERROLET, Row, expect_no_missed_bar, median, table};
use super::{MIB, SETTLED, circumstances, keep};
use crate::agent::Who;
use crate::long_run::in_lab;

const NODE_READY: Duration = Duration::from_secs(60);
const PODS_READY: Duration = Duration::from_secs(180);
const PODS_GONE: Duration = Duration::from_secs(180);
/// Sandboxes wait for the minute in which the agent keeps house.
const RUNTIME_EMPTY: Duration = Duration::from_secs(150);

/// What is measured.
#[derive(Args)]
pub(crate) struct Plan {
    /// For CI: 10 pods, one round, as tests build the agent; without bars, and nothing is kept
    #[arg(long)]
    short: bool,
    /// For how long it keeps the pods, in each round
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..), conflicts_with = "short")]
    seconds: u64,
    /// How often; the medians count
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "short")]
    rounds: u32,
    /// Who stands on our node; without bars, and nothing is kept, if it is not ours
    #[arg(long, value_enum, default_value_t = Who::Ferrolet)]
    agent: Who,
}

/// How much of it.
struct Size {
    pods: usize,
    rounds: u32,
    /// Before the pods come.
    settle_idle: Duration,
    /// Before their cost is looked at.
    settle_full: Duration,
    keep: Duration,
}

/// What one round has shown of one agent.
#[derive(Clone, Debug)]
struct Round {
    resident: u64,
    private: u64,
    start_cpu: Duration,
    /// Of everything on the node: the agent, the runtime and what it starts.
    start_node_cpu: Duration,
    /// Of one core, while nothing happens.
    keep_share: f64,
    delete_cpu: Duration,
    delete_node_cpu: Duration,
    start_half: Duration,
    start_all: Duration,
    delete_all: Duration,
}

/// An agent on its node, in turn with the other: it runs in its own rounds only.
struct Contestant {
    node: Node,
    agent: Agent,
    rounds: Vec<Round>,
}

pub(crate) fn run(plan: &Plan) -> Result<()> {
    let [ours, upstreams] = in_lab(|lab| plan.measure(lab))?;
    let is_judged = plan.agent == Who::Ferrolet && !plan.short;
    let mut rows = rows(&ours, &upstreams);
    if !is_judged {
        for row in &mut rows {
            row.bar = None;
        }
    }
    let title = match plan.agent {
        Who::Ferrolet => FERROLET,
        Who::Upstream => "kubelet in its place",
    };
    let table = table(title, &rows);
    println!("{table}");
    ours.iter()
        .chain(&upstreams)
        .try_for_each(Round::is_whole)?;
    if !is_judged {
        return Ok(());
    }
    keep("density.md", &plan.text(&table)?)?;
    expect_no_missed_bar(&rows)
}

impl Plan {
    /// The short form, for `cargo xtask test`.
    pub(crate) fn short() -> Self {
        Self {
            short: true,
            seconds: 10,
            rounds: 1,
            agent: Who::Ferrolet,
        }
    }

    fn size(&self) -> Size {
        if self.short {
            let moment = Duration::from_secs(3);
            return Size {
                pods: 10,
                rounds: 1,
                settle_idle: moment,
                settle_full: moment,
                keep: moment,
            };
        }
        Size {
            pods: 100,
            rounds: self.rounds,
            settle_idle: SETTLED,
            settle_full: 2 * SETTLED,
            keep: Duration::from_secs(self.seconds),
        }
    }

    /// The rounds of ours, and of upstream's.
    fn measure(&self, lab: &Lab) -> Result<[Vec<Round>; 2]> {
        let size = self.size();
        let ours = if self.short {
            self.agent.as_tested()
        } else {
            self.agent.as_released()
        };
        let mut contestants = [
            Contestant::new(lab, "density-ours", ours)?,
            Contestant::new(lab, "density-upstream", Agent::Upstream)?,
        ];
        for number in 0..size.rounds {
            for (turn, contestant) in contestants.iter_mut().enumerate() {
                let name = contestant.node.name();
                println!("round {} of {}, {name} …", number + 1, size.rounds);
                let is_last = number + 1 == size.rounds && turn == 1;
                contestant
                    .round(lab, &size, number)
                    .and_then(|()| contestant.stop(is_last))
                    .with_context(|| {
                        format!("round {} on {}", number + 1, contestant.node.name())
                    })?;
            }
        }
        let [ours, upstreams] = contestants;
        Ok([ours.finish()?, upstreams.finish()?])
    }

    fn text(&self, table: &str) -> Result<String> {
        let Size { pods, rounds, .. } = self.size();
        Ok(format!(
            "# A node with a hundred pods\n\nWritten by `cargo xtask bench density --rounds {rounds} --seconds {}` {}, which\nthe lab's \
             API server and containerd share: {pods} pods of the pause image on equal lab nodes, one agent after the\n\
             other, started anew for each of {rounds} rounds; medians. CPU time is the agent's own: to start, from the \
             first\ncreation until all are Ready; to keep, from {} s later; to delete, from the call until all objects \
             are gone.\nWhere the rest goes: the whole node is the agent, containerd, its shims, runc, the CNI plugins and \
             the containers;\nwhat is left of the machine's time is the API server's, and kubectl's.\n\n{table}",
            self.seconds,
            circumstances()?,
            self.size().settle_full.as_secs(),
        ))
    }
}

impl Contestant {
    fn new(lab: &Lab, name: &str, agent: Agent) -> Result<Self> {
        Ok(Self {
            node: lab.node(name, Runtime::Containerd2)?,
            agent,
            rounds: Vec::new(),
        })
    }

    fn finish(self) -> Result<Vec<Round>> {
        self.node.remove()?;
        Ok(self.rounds)
    }

    fn round(&mut self, lab: &Lab, size: &Size, number: u32) -> Result<()> {
        self.start()?;
        sleep(size.settle_idle);
        let crowd = Crowd::prepare(
            lab.kubectl(),
            &self.node,
            size.pods,
            number,
            Restart::Always,
        )?;
        let mut watch = PodWatch::start(&crowd.kubectl, &crowd.namespace)?;
        let process = self.process()?;

        let (start, cpu, node) = (Instant::now(), process.cpu()?, self.node.cpu()?);
        crowd.create()?;
        let ready = watch.until_ready(size.pods, PODS_READY)?;
        let start_cpu = process.cpu()?.saturating_sub(cpu);
        let start_node_cpu = self.node.cpu()?.saturating_sub(node);
        let [start_half, start_all] = half_and_all(start, &ready).context("no pod was Ready")?;

        sleep(size.settle_full);
        let (resident, private) = (process.resident()?, process.anonymous()?);
        let (start, cpu) = (Instant::now(), process.cpu()?);
        sleep(size.keep);
        let kept = process.cpu()?.saturating_sub(cpu);
        let keep_share = kept.as_secs_f64() / start.elapsed().as_secs_f64();

        let (start, cpu, node) = (Instant::now(), process.cpu()?, self.node.cpu()?);
        crowd.delete()?;
        let gone = watch.until_gone(size.pods, PODS_GONE)?;
        let delete_cpu = process.cpu()?.saturating_sub(cpu);
        let delete_node_cpu = self.node.cpu()?.saturating_sub(node);
        let [_, delete_all] = half_and_all(start, &gone).context("no pod went")?;

        let round = Round {
            resident,
            private,
            start_cpu,
            start_node_cpu,
            keep_share,
            delete_cpu,
            delete_node_cpu,
            start_half,
            start_all,
            delete_all,
        };
        println!("{round}");
        self.rounds.push(round);
        crowd.remove()
    }

    fn start(&self) -> Result<()> {
        if self.rounds.is_empty() {
            self.node.start_agent(self.agent, "", &[])?;
        } else {
            self.node.kubelet().start_again()?;
        }
        self.node.wait_ready(NODE_READY)
    }

    /// When nothing is left for it to do: the next round, and the other's,
    /// begin on a quiet machine. After the last one nothing begins.
    fn stop(&self, is_last: bool) -> Result<()> {
        if is_last {
            return self.node.kubelet().stop();
        }
        wait::until("the runtime to be empty", RUNTIME_EMPTY, || {
            match self.node.crictl(["pods", "--quiet"])?.lines().count() {
                0 => Ok(()),
                left => bail!("{left} sandboxes are left"),
            }
        })?;
        self.node.kubelet().stop()
    }

    fn process(&self) -> Result<Process> {
        Process::of(&self.node.kubelet())
    }
}

/// How long until half of these moments had come, and until all; they are in
/// order.
fn half_and_all(start: Instant, moments: &[Instant]) -> Option<[Duration; 2]> {
    let all = moments.last()?;
    let half = moments.get(moments.len().div_ceil(2) - 1)?;
    Some([half, all].map(|moment| moment.saturating_duration_since(start)))
}

impl fmt::Display for Round {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "  all Ready after {:.1?} ({:.1?} CPU), all gone after {:.1?} ({:.1?} CPU)",
            self.start_all, self.start_cpu, self.delete_all, self.delete_cpu
        )
    }
}

impl Round {
    /// Whether every figure is there that cannot be nothing.
    fn is_whole(&self) -> Result<()> {
        let memory = self.resident > self.private && self.private > 0;
        let times = [self.start_half, self.start_all, self.delete_all];
        let cpu = [self.start_cpu, self.delete_cpu];
        let agents_part =
            self.start_cpu <= self.start_node_cpu && self.delete_cpu <= self.delete_node_cpu;
        let some = times.iter().chain(&cpu).all(|figure| !figure.is_zero());
        ensure!(
            memory && some && agents_part,
            "a figure is missing: {self:?}"
        );
        Ok(())
    }
}

#[allow(clippy::cast_precision_loss, reason = "figures for people")]
fn rows(ours: &[Round], upstreams: &[Round]) -> Vec<Row> {
    let row = |figure, decimals, bar, of: &dyn Fn(&Round) -> f64| Row {
        figure,
        ours: median(ours.iter().map(of)),
        upstreams: median(upstreams.iter().map(of)),
        decimals,
        bar,
    };
    vec![
        row("resident memory, MiB", 1, Some(1.0 / 4.0), &|round| {
            round.resident as f64 / MIB
        }),
        row("of it private, MiB", 1, None, &|round| {
            round.private as f64 / MIB
        }),
        row("CPU time to start, s", 2, Some(1.0 / 2.0), &|round| {
            round.start_cpu.as_secs_f64()
        }),
        row("CPU to keep, % of a core", 2, Some(1.0 / 4.0), &|round| {
            100.0 * round.keep_share
        }),
        row("CPU time to delete, s", 2, None, &|round| {
            round.delete_cpu.as_secs_f64()
        }),
        row(
            "CPU time of the whole node to start, s",
            2,
            None,
            &|round| round.start_node_cpu.as_secs_f64(),
        ),
        row(
            "CPU time of the whole node to delete, s",
            2,
            None,
            &|round| round.delete_node_cpu.as_secs_f64(),
        ),
        row("half are Ready, s", 1, None, &|round| {
            round.start_half.as_secs_f64()
        }),
        row("all are Ready, s", 1, Some(0.9), &|round| {
            round.start_all.as_secs_f64()
        }),
        row("all are gone, s", 1, Some(0.9), &|round| {
            round.delete_all.as_secs_f64()
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(seconds: u64) -> Round {
        let time = Duration::from_secs(seconds);
        Round {
            resident: seconds << 20,
            private: seconds << 19,
            start_cpu: time,
            start_node_cpu: time,
            keep_share: time.as_secs_f64(),
            delete_cpu: time,
            delete_node_cpu: time,
            start_half: time,
            start_all: time,
            delete_all: time,
        }
    }

    #[test]
    fn half_have_come_with_the_larger_half() {
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let after = |list: &[u64]| list.iter().map(|&s| start + seconds(s)).collect::<Vec<_>>();
        let cases: [(&[u64], Option<[u64; 2]>); 4] = [
            (&[1, 2, 3, 9], Some([2, 9])),
            (&[1, 2, 9], Some([2, 9])),
            (&[4], Some([4, 4])),
            (&[], None),
        ];
        for (moments, expected) in cases {
            let found = half_and_all(start, &after(moments));
            assert_eq!(found, expected.map(|pair| pair.map(seconds)), "{moments:?}");
        }
    }

    #[test]
    fn each_bar_holds_the_figure_that_it_is_for() {
        let missed = |part: u64| {
            let rows = rows(&[round(part)], &[round(100)]);
            let missed = rows.iter().filter(|row| row.missed());
            missed.map(|row| row.figure).collect::<Vec<_>>()
        };
        assert!(missed(25).is_empty());
        assert_eq!(
            missed(26),
            ["resident memory, MiB", "CPU to keep, % of a core"]
        );
        assert!(missed(51).contains(&"CPU time to start, s"));
        assert!(missed(90).len() == 3 && missed(91).len() == 5);
    }

    #[test]
    fn one_bad_round_of_three_does_not_decide() {
        let rows = rows(&[round(10), round(1000), round(12)], &[round(100)]);
        assert!(rows.iter().all(|row| !row.missed()));
    }

    #[test]
    fn a_round_without_a_figure_is_not_whole() {
        assert!(round(1).is_whole().is_ok());
        assert!(round(0).is_whole().is_err());
        let lost = Round {
            delete_cpu: Duration::ZERO,
            ..round(1)
        };
        assert!(lost.is_whole().is_err());
    }
}
