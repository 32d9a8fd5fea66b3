//! The nodes that run, and how they become those that are wanted.
//!
//! [`crate::plan`] says what differs; here it is done, a node at a time: no faster
//! than the ramp allows, and a node that goes takes its object with it.

mod removal;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use agent::{AgentError, Member, Running};
use kube::Client;
use node::config::ConfigError;
use seams::{Clock, SharedClock, timeout};
use sim::Faults;
use thiserror::Error;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::JoinMap;
use tracing::warn;

use self::removal::Removal;
use crate::addresses::Addresses;
use crate::hollow::Common;
use crate::plan::{Step, steps};
use crate::seat::{Seat, Seats};
use crate::spec::{Ailment, Fleet, NodeSpec};

pub use self::removal::{RemovalError, remove_all};

/// A node that failed is started again after this time, as service managers do.
const AGAIN: Duration = Duration::from_secs(10);

/// How long all nodes together are given to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// Why a node does not run.
#[derive(Debug, Error)]
pub enum RosterError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("there are no addresses left for it")]
    NoAddress,
}

/// Keeps a fleet.
pub struct Roster {
    common: Common,
    /// For what is removed.
    client: Client,
    /// The least time between the starts of two nodes.
    pace: Duration,
    seats: Seats,
    slots: BTreeMap<String, Slot>,
    /// To be started, in this order.
    queue: VecDeque<String>,
    addresses: Addresses,
    agents: JoinMap<String, Result<(), RosterError>>,
    removals: JoinMap<String, ()>,
}

/// One node, wanted or on its way out.
struct Slot {
    spec: NodeSpec,
    wanted: bool,
    address: Option<IpAddr>,
    faults: watch::Sender<Faults>,
    ailment: watch::Sender<Ailment>,
    member: watch::Sender<Option<Member>>,
    life: Life,
}

/// What a node does at the moment.
enum Life {
    /// Nothing, or waits for its start.
    Idle,
    Running(CancellationToken),
    /// Its object is being removed.
    Removed,
}

impl std::fmt::Debug for Roster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Roster").finish_non_exhaustive()
    }
}

impl Roster {
    /// `client` removes objects; `pace` is the least time between two starts.
    pub fn new(common: Common, client: Client, pace: Duration) -> Self {
        Self {
            common,
            client,
            pace,
            seats: Seats::default(),
            slots: BTreeMap::new(),
            queue: VecDeque::new(),
            addresses: Addresses::default(),
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
        let clock = self.clock();
        let mut next_start = clock.uptime();
        self.apply(&wanted.borrow_and_update().clone());
        loop {
            let pause = next_start.saturating_sub(clock.uptime());
            tokio::select! {
                () = shutdown.cancelled() => break,
                Ok(()) = wanted.changed() => {
                    let fleet = wanted.borrow_and_update().clone();
                    self.apply(&fleet);
                }
                Some((name, outcome)) = self.agents.join_next() => {
                    let outcome = outcome.unwrap_or_else(|panic| {
                        let cause = panic.to_string();
                        Err(AgentError::Died { part: "agent", cause }.into())
                    });
                    self.ended(&name, outcome);
                }
                Some((name, _)) = self.removals.join_next() => self.removed(&name),
                () = clock.sleep(pause), if !self.queue.is_empty() => {
                    next_start = clock.uptime() + self.pace;
                    self.start_next();
                }
            }
        }
        self.end(&*clock).await;
    }

    fn clock(&self) -> SharedClock {
        self.common.options.clock.clone()
    }

    fn apply(&mut self, fleet: &Fleet) {
        let wanted: BTreeMap<String, NodeSpec> = fleet
            .nodes()
            .map(|node| (node.name.clone(), node))
            .collect();
        let there = self.slots.iter().filter(|(_, slot)| slot.wanted);
        let there: BTreeMap<String, NodeSpec> = there
            .map(|(name, slot)| (name.clone(), slot.spec.clone()))
            .collect();
        for step in steps(&there, &wanted) {
            match step {
                Step::Add(node) => self.add(node),
                Step::Replace(node) => self.replace(node),
                Step::Ail(name, ailment) => self.ail(&name, ailment),
                Step::Remove(name) => self.remove(&name),
            }
        }
    }

    fn add(&mut self, spec: NodeSpec) {
        let name = spec.name.clone();
        if let Some(slot) = self.slots.get_mut(&name) {
            // It was on its way out, and comes back when it is through with that.
            slot.wanted = true;
            slot.spec = spec;
            return;
        }
        let slot = Slot {
            wanted: true,
            address: None,
            faults: watch::channel(spec.ailment.machine).0,
            ailment: watch::channel(spec.ailment).0,
            member: watch::channel(None).0,
            life: Life::Idle,
            spec,
        };
        self.seats.put(&name, slot.seat());
        let waits = !slot.spec.ailment.stopped;
        self.slots.insert(name.clone(), slot);
        if waits {
            self.queue.push_back(name);
        }
    }

    /// Its agent ends, and starts again as another.
    fn replace(&mut self, spec: NodeSpec) {
        let Some(slot) = self.slots.get_mut(&spec.name) else {
            return;
        };
        let (name, ailment) = (spec.name.clone(), spec.ailment);
        slot.spec = spec;
        self.seats.put(&name, slot.seat());
        if let Life::Running(end) = &slot.life {
            end.cancel();
        }
        self.ail(&name, ailment);
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
            Life::Idle if !ailment.stopped && !self.queue.iter().any(|waits| waits == name) => {
                self.queue.push_back(name.to_owned());
            }
            _ => {}
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
            Life::Removed => {}
        }
    }

    fn remove_object(&mut self, name: &str) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        slot.life = Life::Removed;
        let fleet = slot.spec.kind.labels.get(crate::spec::FLEET_LABEL);
        let removal = Removal {
            name: name.to_owned(),
            fleet: fleet.cloned().unwrap_or_default(),
            client: self.client.clone(),
            clock: self.common.options.clock.clone(),
        };
        self.removals.spawn(name.to_owned(), removal.run());
    }

    /// The object of a node is gone, and with it the node, unless it is wanted
    /// again.
    fn removed(&mut self, name: &str) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        if slot.wanted {
            slot.life = Life::Idle;
            self.seats.put(name, slot.seat());
            let ailment = slot.spec.ailment;
            self.ail(name, ailment);
            return;
        }
        if let Some(address) = slot.address {
            self.addresses.give_back(address);
        }
        self.slots.remove(name);
    }

    fn start_next(&mut self) {
        let Some(name) = self.queue.pop_front() else {
            return;
        };
        let Some(slot) = self.slots.get_mut(&name) else {
            return;
        };
        let idle = matches!(slot.life, Life::Idle);
        if !slot.wanted || slot.spec.ailment.stopped || !idle {
            return;
        }
        if slot.address.is_none() {
            slot.address = self.addresses.take();
        }
        let end = CancellationToken::new();
        let started = match slot.address {
            Some(address) => {
                let faults = slot.faults.subscribe();
                self.common
                    .node(&slot.spec, address, faults)
                    .map_err(RosterError::from)
            }
            None => Err(RosterError::NoAddress),
        };
        slot.life = Life::Running(end.clone());
        let member = slot.member.clone();
        let clock = self.common.options.clock.clone();
        self.agents.spawn(name, async move {
            let (config, seams) = match started {
                Ok(started) => started,
                Err(error) => return failed(error, &clock, &end).await,
            };
            let (tell, told) = oneshot::channel();
            let telling = async {
                if let Ok(Running { member: seen }) = told.await {
                    member.send_replace(seen);
                }
            };
            let running = agent::run(config, seams, tell, end.clone());
            let (outcome, ()) = tokio::join!(running, telling);
            member.send_replace(None);
            match outcome {
                Ok(()) => Ok(()),
                Err(error) => failed(error.into(), &clock, &end).await,
            }
        });
    }

    fn ended(&mut self, name: &str, outcome: Result<(), RosterError>) {
        if let Err(error) = outcome {
            warn!(node = name, err = %error, "the node has failed, and is started again");
        }
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        slot.life = Life::Idle;
        if slot.wanted {
            let ailment = slot.spec.ailment;
            self.ail(name, ailment);
        } else {
            self.remove_object(name);
        }
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
    }
}

impl Slot {
    fn seat(&self) -> Seat {
        Seat {
            group: self.spec.group.clone(),
            zone: self.spec.zone.clone(),
            ailment: self.ailment.subscribe(),
            member: self.member.subscribe(),
        }
    }
}

/// Waits before a node that has failed may start again.
async fn failed(
    error: RosterError,
    clock: &SharedClock,
    end: &CancellationToken,
) -> Result<(), RosterError> {
    warn!(err = %error, "a node cannot go on");
    end.run_until_cancelled(clock.sleep(AGAIN)).await;
    Err(error)
}
