//! The nodes that run, and how they become those that are wanted.
//!
//! [`crate::plan`] says what differs; here it is done, a node at a time: no faster
//! than the ramp allows, and a node that goes takes its object with it. How a node
//! is run is in `launch`, how its object goes in `removal`.

mod launch;
mod removal;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::hollow::HollowError;
use agent::{AgentError, Member};
use kube::Client;
use seams::{Clock, SharedClock, timeout};
use sim::Faults;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::JoinMap;
use tracing::warn;

use crate::addresses::Addresses;
use crate::hollow::{Common, Doors};
use crate::plan::{Step, steps};
use crate::seat::{Seat, Seats};
use crate::spec::{Ailment, FLEET_LABEL, Fleet, NodeSpec};

pub use self::removal::{RemovalError, remove_all};

/// How long all nodes together are given to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// Why a node does not run.
#[derive(Debug, Error)]
pub enum RosterError {
    #[error(transparent)]
    Config(#[from] HollowError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(
        "there is no address or port left for it: widen the range of ports, or have fewer nodes"
    )]
    NoAddress,
    #[error(
        "a node of this name is there that is not of this fleet; it is left alone: delete it, or choose other names"
    )]
    Foreign,
    #[error("whether there is a node of this name cannot be asked: {0}")]
    Unasked(#[from] kube::Error),
}

type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs a node until it is told to end.
type Launch = Box<dyn Fn(Launched) -> Task<Outcome> + Send + Sync>;

/// Removes the object of a node, however long that takes.
type Remove = Box<dyn Fn(String) -> Task<()> + Send + Sync>;

/// How a node has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Ended,
    /// Somebody else has its port.
    PortTaken,
}

/// What a node is started with.
struct Launched {
    spec: NodeSpec,
    address: Option<SocketAddr>,
    faults: watch::Receiver<Faults>,
    member: watch::Sender<Option<Member>>,
    left: watch::Sender<Option<Duration>>,
    end: CancellationToken,
}

/// Keeps a fleet.
pub struct Roster {
    launch: Launch,
    remove: Remove,
    clock: SharedClock,
    /// The least time between the starts of two nodes.
    pace: Duration,
    seats: Seats,
    slots: BTreeMap<String, Slot>,
    /// Whose turn comes, in this order: to be started, or to be ended for a change.
    queue: VecDeque<String>,
    addresses: Addresses,
    agents: JoinMap<String, Outcome>,
    removals: JoinMap<String, ()>,
}

/// One node, wanted or on its way out.
struct Slot {
    spec: NodeSpec,
    wanted: bool,
    queued: bool,
    change: Change,
    address: Option<SocketAddr>,
    faults: watch::Sender<Faults>,
    ailment: watch::Sender<Ailment>,
    member: watch::Sender<Option<Member>>,
    left: watch::Sender<Option<Duration>>,
    life: Life,
}

/// What of a node is not as it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Nothing,
    /// Its agent.
    Agent,
    /// Its object, which has to go before the next start; and its agent.
    Object,
}

/// What a node does at the moment.
enum Life {
    /// Nothing, or waits for its turn.
    Idle,
    Running(CancellationToken),
    /// Its object is being removed.
    Removing,
}

impl std::fmt::Debug for Roster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Roster").finish_non_exhaustive()
    }
}

impl Roster {
    /// `client` looks at objects that are there and removes those of nodes that go;
    /// `pace` is the least time between two starts.
    pub fn new(common: Common, client: Client, fleet: &str, pace: Duration) -> Self {
        let clock = common.options.clock.clone();
        let remove = removal::one_by_one(client.clone(), clock.clone(), fleet.to_owned());
        let addresses = Addresses::new(common.doors.as_ref().map(Doors::places));
        let launch = launch::agents(common, client);
        Self::with(launch, remove, addresses, clock, pace)
    }

    fn with(
        launch: Launch,
        remove: Remove,
        addresses: Addresses,
        clock: SharedClock,
        pace: Duration,
    ) -> Self {
        Self {
            launch,
            remove,
            clock,
            pace,
            seats: Seats::default(),
            slots: BTreeMap::new(),
            queue: VecDeque::new(),
            addresses,
            agents: JoinMap::new(),
            removals: JoinMap::new(),
        }
    }

    pub fn seats(&self) -> Seats {
        self.seats.clone()
    }

    /// Follows what is wanted until told to stop. The objects stay.
    pub async fn run(
        mut self,
        mut wanted: watch::Receiver<Arc<Fleet>>,
        shutdown: CancellationToken,
    ) {
        let clock = self.clock.clone();
        let mut next_turn = clock.uptime();
        self.apply(&wanted.borrow_and_update().clone());
        loop {
            let pause = next_turn.saturating_sub(clock.uptime());
            tokio::select! {
                () = shutdown.cancelled() => break,
                Ok(()) = wanted.changed() => {
                    let fleet = wanted.borrow_and_update().clone();
                    self.apply(&fleet);
                }
                Some((name, outcome)) = self.agents.join_next() => {
                    if matches!(outcome, Ok(Outcome::PortTaken)) {
                        self.move_on(&name);
                    }
                    self.ended(&name);
                }
                Some((name, _)) = self.removals.join_next() => self.removed(&name),
                () = clock.sleep(pause), if !self.queue.is_empty() => {
                    next_turn = clock.uptime() + self.pace;
                    self.take_turn();
                }
            }
        }
        self.end(&*clock).await;
    }

    fn apply(&mut self, fleet: &Fleet) {
        let wanted = fleet.nodes().map(|node| (node.name.clone(), node));
        let wanted: BTreeMap<String, NodeSpec> = wanted.collect();
        let there = self.slots.iter().filter(|(_, slot)| slot.wanted);
        let there = there.map(|(name, slot)| (name.clone(), slot.spec.clone()));
        let there: BTreeMap<String, NodeSpec> = there.collect();
        for step in steps(&there, &wanted) {
            match step {
                Step::Add(node) => self.add(node),
                Step::Replace(node) => self.change(node, Change::Agent),
                Step::Remake(node) => self.change(node, Change::Object),
                Step::Ail(name, ailment) => self.ail(&name, ailment),
                Step::Remove(name) => self.remove(&name),
            }
        }
    }

    fn add(&mut self, spec: NodeSpec) {
        if let Some(slot) = self.slots.get_mut(&spec.name) {
            // It was on its way out, and comes back when it is through with that.
            slot.wanted = true;
            let change = if slot.spec.has_same_marks(&spec) {
                Change::Agent
            } else {
                Change::Object
            };
            self.change(spec, change);
            return;
        }
        let name = spec.name.clone();
        let slot = Slot::new(spec);
        self.seats.put(&name, slot.seat());
        self.slots.insert(name.clone(), slot);
        self.queue_up(&name);
    }

    /// The node is to be another from its next start on, which comes in its turn.
    fn change(&mut self, spec: NodeSpec, change: Change) {
        let (name, ailment) = (spec.name.clone(), spec.ailment);
        let Some(slot) = self.slots.get_mut(&name) else {
            return;
        };
        slot.spec = spec;
        slot.change = slot.change.max(change);
        self.seats.put(&name, slot.seat());
        self.ail(&name, ailment);
        self.queue_up(&name);
    }

    fn ail(&mut self, name: &str, ailment: Ailment) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        slot.spec.ailment = ailment;
        slot.ailment.send_replace(ailment);
        slot.faults.send_replace(ailment.machine);
        match &slot.life {
            Life::Running(end) if ailment.stopped => end.cancel(),
            _ => self.queue_up(name),
        }
    }

    fn remove(&mut self, name: &str) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        slot.wanted = false;
        self.seats.take(name);
        match &slot.life {
            Life::Running(end) => end.cancel(),
            Life::Idle => self.remove_object(name),
            Life::Removing => {}
        }
    }

    /// Waits for its turn, if there is anything to do for it then.
    fn queue_up(&mut self, name: &str) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        let due = match slot.life {
            Life::Idle => slot.wanted && !slot.spec.ailment.stopped,
            Life::Running(_) => slot.change > Change::Nothing,
            Life::Removing => false,
        };
        if due && !slot.queued {
            slot.queued = true;
            self.queue.push_back(name.to_owned());
        }
    }

    fn take_turn(&mut self) {
        let Some(name) = self.queue.pop_front() else {
            return;
        };
        let Some(slot) = self.slots.get_mut(&name) else {
            return;
        };
        slot.queued = false;
        match &slot.life {
            Life::Running(end) if slot.change > Change::Nothing => end.cancel(),
            Life::Idle if !slot.wanted || slot.spec.ailment.stopped => {}
            Life::Idle if slot.change == Change::Object => self.remove_object(&name),
            Life::Idle => self.start(&name),
            Life::Running(_) | Life::Removing => {}
        }
    }

    fn start(&mut self, name: &str) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        if slot.address.is_none() {
            slot.address = self.addresses.take();
        }
        slot.change = Change::Nothing;
        let end = CancellationToken::new();
        slot.life = Life::Running(end.clone());
        let launched = Launched {
            spec: slot.spec.clone(),
            address: slot.address,
            faults: slot.faults.subscribe(),
            member: slot.member.clone(),
            left: slot.left.clone(),
            end,
        };
        let running = (self.launch)(launched);
        self.agents.spawn(name.to_owned(), running);
    }

    /// Gives a node another address, if there is one. The last is not handed out again:
    /// whoever else has it is not of this fleet.
    fn move_on(&mut self, name: &str) {
        if let Some(slot) = self.slots.get_mut(name)
            && let Some(other) = self.addresses.take()
        {
            slot.address = Some(other);
        }
    }

    fn ended(&mut self, name: &str) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        slot.life = Life::Idle;
        // It may have ended without a word.
        slot.member.send_replace(None);
        if !slot.wanted || slot.change == Change::Object {
            self.remove_object(name);
        } else {
            self.queue_up(name);
        }
    }

    fn remove_object(&mut self, name: &str) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        slot.life = Life::Removing;
        let removing = (self.remove)(name.to_owned());
        self.removals.spawn(name.to_owned(), removing);
    }

    /// The object of a node is gone, and with it the node, unless it is wanted
    /// (again).
    fn removed(&mut self, name: &str) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        slot.life = Life::Idle;
        slot.change = Change::Nothing;
        slot.left.send_replace(None);
        if slot.wanted {
            self.queue_up(name);
            return;
        }
        if let Some(address) = slot.address {
            self.addresses.give_back(address);
        }
        self.slots.remove(name);
    }

    async fn end(mut self, clock: &dyn Clock) {
        for slot in self.slots.values() {
            if let Life::Running(end) = &slot.life {
                end.cancel();
            }
        }
        let all = async { while self.agents.join_next().await.is_some() {} };
        if timeout(clock, FAREWELL, all).await.is_err() {
            warn!(nodes = self.agents.len(), "nodes did not end in time");
        }
        if !self.removals.is_empty() {
            warn!(
                nodes = self.removals.len(),
                "Node objects of nodes that were to go are still there; see the label {FLEET_LABEL}"
            );
        }
    }
}

impl Slot {
    fn new(spec: NodeSpec) -> Self {
        Self {
            wanted: true,
            queued: false,
            change: Change::Nothing,
            address: None,
            faults: watch::channel(spec.ailment.machine).0,
            ailment: watch::channel(spec.ailment).0,
            member: watch::channel(None).0,
            left: watch::channel(None).0,
            life: Life::Idle,
            spec,
        }
    }

    fn seat(&self) -> Seat {
        Seat {
            group: self.spec.group.clone(),
            zone: self.spec.zone.clone(),
            ailment: self.ailment.subscribe(),
            member: self.member.subscribe(),
            left: self.left.subscribe(),
        }
    }
}

#[cfg(test)]
mod tests;
