//! An agent that is killed over and over while pods come, run and go, and what
//! must hold all the same: nobody's container is touched, no container is made
//! twice, and nothing is left of pods that are gone.

mod canary;
mod held;
mod pods;
mod record;
mod remains;
mod script;
mod worlds;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

pub use self::worlds::World;

use self::canary::Canary;
use self::pods::{Identity, Stage, UNTOUCHED, changes};
use self::record::Record;
use self::remains::Remains;
use self::script::{BETWEEN_KILLS, BETWEEN_QUICK_KILLS, Group, Life, Turns, lives};
use crate::lab::{Agent, Daemon, Lab, Node, Runtime, Spec};
use crate::wait;

const NODE_READY: Duration = Duration::from_secs(60);
const PODS_READY: Duration = Duration::from_secs(180);
const PODS_GONE: Duration = Duration::from_secs(120);
/// Some things wait for the minute in which the agent keeps house.
const CLEAN: Duration = Duration::from_secs(150);
/// By then the agent has kept house: what it did not get rid of, it cannot.
const KEPT_HOUSE: Duration = Duration::from_secs(70);

/// How much chaos, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub agent: Agent,
    pub kills: usize,
    pub seed: u64,
    pub world: World,
}

/// What was seen, where all that must hold held.
#[derive(Debug)]
pub struct Report {
    kills: usize,
    turns: usize,
    pods: usize,
    containers: usize,
    made_in_vain: usize,
    /// Containers of which containerd had to be freed.
    held: usize,
    /// Files that were watched over.
    watched: usize,
    /// All pods Ready, after the last kill.
    ready: Duration,
    /// All pods gone, after they were deleted; and then all that was left of them.
    gone: Duration,
    clean: Duration,
}

/// A node with an agent that will be killed, and a witness.
struct Scene {
    plan: Plan,
    node: Node,
    stage: Stage,
    before: Remains,
    canary: Canary,
}

/// What the runtime did not let go of by itself.
#[derive(Default)]
struct Held {
    containers: usize,
    /// What had happened until it was started anew.
    record: Option<Record>,
}

/// What the chaos itself has shown.
struct Lived {
    turns: usize,
    /// Pods of the script that are there in the end.
    left: usize,
    /// Deaths that were not ours.
    faults: Vec<String>,
}

impl Plan {
    /// Runs it on a node of its own, which is removed if all went well.
    pub fn run(self, lab: &Lab, node: &str) -> Result<Report> {
        let scene = Scene::set(self, lab, node)?;
        scene
            .play()
            .with_context(|| format!("chaos of {} kills, seed {}", self.kills, self.seed))
    }
}

impl Scene {
    fn set(plan: Plan, lab: &Lab, name: &str) -> Result<Self> {
        let node = lab.node(name, Runtime::Containerd2)?;
        node.start_agent(plan.agent, "", &[])?;
        node.wait_ready(NODE_READY)?;
        let before = Remains::take(&node)?;
        witness(&node).start(&Spec {
            program: "crictl".to_owned(),
            arguments: vec!["events".to_owned()],
            ..Spec::default()
        })?;
        let canary = Canary::hatch(&node)?;
        let stage = Stage::make(lab.kubectl(), &node, plan.world)?;
        Ok(Self {
            plan,
            node,
            stage,
            before,
            canary,
        })
    }

    /// Goes on after a fault: the first one alone rarely tells enough.
    fn play(self) -> Result<Report> {
        let untouched = self.untouched()?;
        let Lived {
            turns,
            left,
            mut faults,
        } = self.chaos()?;
        // The others may still be called Ready from before: with this one, the
        // last agent has looked around.
        self.stage.make_last()?;
        let count = UNTOUCHED + left + 1;
        let ready = timed(&mut faults, || self.stage.wait_ready(count, PODS_READY));
        faults.extend(changes(&untouched, &self.stage.untouched()?));
        // While pods have it, and when they are gone.
        faults.extend(self.canary.faults(&self.node)?);
        let gone = timed(&mut faults, || self.stage.clear(PODS_GONE));
        let mut held = Held::default();
        let clean = timed(&mut faults, || self.wait_clean(&mut held));
        faults.extend(self.canary.faults(&self.node)?);
        let record = match held.record {
            Some(record) => record,
            None => self.record()?,
        };
        faults.extend(record.faults());
        ensure!(
            faults.is_empty(),
            "what must hold did not:\n{}",
            faults.join("\n")
        );
        self.node.remove()?;
        Ok(Report {
            kills: self.plan.kills,
            turns,
            pods: record.pods(),
            containers: record.containers(),
            made_in_vain: record.made_in_vain(),
            held: held.containers,
            watched: self.canary.files(),
            ready,
            gone,
            clean,
        })
    }

    /// The containers that nobody will touch. They are there before the chaos
    /// begins, and leave everything whose absence is looked for later.
    fn untouched(&self) -> Result<BTreeMap<String, Identity>> {
        self.stage.make_untouched()?;
        self.stage.wait_ready(UNTOUCHED, PODS_READY)?;
        let unseen = Remains::take(&self.node)?.beyond(&self.before).unseen();
        ensure!(
            unseen.is_empty(),
            "pods run, and nothing is seen of their {}: no leak would be found",
            unseen.join(", ")
        );
        self.stage.untouched()
    }

    /// Kills on this thread, pods on another.
    fn chaos(&self) -> Result<Lived> {
        let between = match self.plan.world {
            World::Pods => BETWEEN_KILLS,
            World::Volumes => BETWEEN_QUICK_KILLS,
        };
        let lives = lives(self.plan.seed, self.plan.kills, between);
        let mut turns = Turns::new(self.plan.seed);
        let (over, is_over) = channel::<()>();
        let script = &mut turns;
        thread::scope(|scope| {
            let pods = scope.spawn(move || self.come_and_go(script, &is_over));
            // A script that failed will say why: no need to kill on.
            let lives = lives.iter().take_while(|_| !pods.is_finished());
            let faults = self.kill(lives);
            drop(over);
            let taken = pods.join().map_err(|_| anyhow!("the script panicked"))?;
            Ok((faults?, taken?))
        })
        .map(|(faults, taken)| Lived {
            turns: taken,
            left: turns.there().map(Group::pods).sum(),
            faults,
        })
    }

    /// Takes turns until it is over, and answers how many. What has been
    /// created may be a moment old when it is deleted, or whole.
    fn come_and_go(&self, turns: &mut Turns, over: &Receiver<()>) -> Result<usize> {
        let mut taken = 0;
        loop {
            let Some(turn) = turns.next() else {
                bail!("the script has ended");
            };
            self.stage.carry_out(turn)?;
            taken += 1;
            // Never in the middle: what the script thinks is there is there.
            if over.recv_timeout(turn.after) != Err(RecvTimeoutError::Timeout) {
                return Ok(taken);
            }
        }
    }

    fn kill<'a>(&self, lives: impl Iterator<Item = &'a Life>) -> Result<Vec<String>> {
        let agent = self.node.kubelet();
        let mut faults = Vec::new();
        for (number, life) in lives.enumerate() {
            thread::sleep(life.lasts);
            if !agent.is_running() {
                faults.push(format!("the agent ended by itself before kill {number}"));
            }
            agent.kill()?;
            thread::sleep(life.away);
            agent.start_again()?;
        }
        Ok(faults)
    }

    fn wait_clean(&self, held: &mut Held) -> Result<()> {
        let start = Instant::now();
        wait::until("what pods left to be taken away", CLEAN, || {
            let left = Remains::take(&self.node)?.beyond(&self.before);
            if left.is_nothing() {
                return Ok(());
            }
            if held.containers == 0 && start.elapsed() > KEPT_HOUSE {
                *held = self.free(&left)?;
            }
            bail!("left behind: {left}")
        })
    }

    /// Does what an operator would do about containers that the runtime holds: starts it anew.
    fn free(&self, left: &Remains) -> Result<Held> {
        let containers = held::count(&self.node, left)?;
        if containers == 0 {
            return Ok(Held::default());
        }
        // The witness does not outlive the runtime.
        let record = self.record()?;
        self.node.runtime().stop()?;
        self.node.runtime().start_again()?;
        Ok(Held {
            containers,
            record: Some(record),
        })
    }

    fn record(&self) -> Result<Record> {
        let witness = witness(&self.node);
        ensure!(
            witness.is_running(),
            "crictl events has ended, so containers were not seen: {}",
            witness.log_file().display()
        );
        let record = Record::read(&witness.log())?;
        ensure!(
            record.pods() > UNTOUCHED,
            "the runtime told of {} pods only",
            record.pods()
        );
        Ok(record)
    }
}

/// How long it took; a failure is noted.
fn timed(faults: &mut Vec<String>, wait: impl FnOnce() -> Result<()>) -> Duration {
    let start = Instant::now();
    if let Err(error) = wait() {
        faults.push(format!("{error:#}"));
    }
    start.elapsed()
}

/// It writes down what the runtime tells.
fn witness(node: &Node) -> Daemon {
    node.machine().daemon("events")
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kills,
            turns,
            pods,
            containers,
            made_in_vain,
            held,
            watched,
            ..
        } = self;
        writeln!(
            formatter,
            "{kills} kills, {turns} turns of the script: {pods} pods, {containers} containers, {made_in_vain} of them \
             made and never run"
        )?;
        writeln!(
            formatter,
            "{UNTOUCHED} untouched pods as they were; no attempt twice; no mount, no directory and nothing else left; the \
             {watched} facts of the canary as they were"
        )?;
        if *held > 0 {
            writeln!(
                formatter,
                "{held} containers whose start was cut off were held by containerd until it was started anew (its \
                 issue 11037)"
            )?;
        }
        write!(
            formatter,
            "all Ready {:.1?} after the last kill, all gone {:.1?} after their deletion, all clean {:.1?} later",
            self.ready, self.gone, self.clean
        )
    }
}
