//! `ferrolet heartbeat`: keeps Nodes alive with no agent behind them, to see and
//! to teach what a heartbeat is. [`claim`] says whose lease it is, [`ready`] what
//! the node's condition must say; both decide, and write nothing.

mod claim;
mod ready;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use cluster::{CallError, CallProblem};
use futures_util::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use seams::{SharedClock, timeout};
use thiserror::Error;

use self::claim::{Claim, NAMESPACE};
use crate::cluster_access::{self, ClusterAccess, ClusterArguments};
use crate::given;
use crate::kubelet::say;
use crate::output::{Failure, age, ended, printable};

/// Between two beats: a quarter of the lease's life, as a kubelet's.
const BEAT: Duration = Duration::from_secs(10);

/// How long a lease that looks alive is watched for its holder's next beat.
const LISTEN: Duration = Duration::from_secs(15);

const LOOK: Duration = Duration::from_secs(1);

/// The node controller's default patience.
const GRACE: &str = "50 s";

#[derive(Args)]
#[command(
    after_help = "Example:\n  ferrolet heartbeat worker-1 --for 10m\n\nThe nodes must exist, and no kubelet may run for them."
)]
pub(crate) struct Arguments {
    /// The nodes to keep alive
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    /// For how long [default: until it is told to end]
    #[arg(long = "for", value_name = "SPAN", value_parser = given::span)]
    span: Option<Duration>,
    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Why a node is not kept alive, or no more.
#[derive(Debug, Error)]
enum HeartbeatError {
    #[error("there is no node {0}; `kubectl get nodes` lists those that there are")]
    NoNode(String),
    #[error("node {0} has been deleted")]
    Deleted(String),
    #[error(
        "node {node} is alive: {holder} renews its lease; end the kubelet there first, or leave the node to it"
    )]
    Alive { node: String, holder: String },
    #[error(
        "the lease of node {node} is held by {holder}, which is not that node; wait until it expires in {} s, or delete it: kubectl --namespace {NAMESPACE} delete lease {node}",
        left.as_secs()
    )]
    Held {
        node: String,
        holder: String,
        left: Duration,
    },
    #[error(transparent)]
    Call(#[from] CallError),
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let wards = Wards::default();
    let outcome = cluster_access::run(&arguments.cluster, async |access| {
        keep_all(arguments, access, &wards).await
    });
    for node in wards.held.borrow().iter() {
        say(&format!(
            "{node}: no more heartbeats; it will be NotReady in about {GRACE} unless its kubelet starts"
        ));
    }
    ended(match outcome {
        // Each was told of when it happened.
        _ if wards.lost.get() => Err(Failure::Told),
        // The usual end of what has no end of its own.
        Err(Failure::Interrupted(_)) => Ok(()),
        outcome => outcome,
    })
}

/// The nodes that live by us.
#[derive(Default)]
struct Wards {
    held: RefCell<BTreeSet<String>>,
    /// Whether one could not be kept.
    lost: Cell<bool>,
}

async fn keep_all(
    arguments: &Arguments,
    access: &ClusterAccess,
    wards: &Wards,
) -> Result<(), Failure> {
    let names: BTreeSet<&String> = arguments.nodes.iter().collect();
    let hearts: Vec<Heart<'_>> = names
        .into_iter()
        .map(|name| Heart::new(name, access, wards))
        .collect();
    // All of them before the first is touched.
    for heart in &hearts {
        heart.node().await?;
    }
    let beating = join_all(hearts.iter().map(Heart::keep));
    let span = arguments.span.unwrap_or(Duration::MAX);
    // When the time is up, they have been kept; before, none is left.
    let _ = timeout(&*access.clock, span, beating).await;
    Ok(())
}

/// What keeps one node alive.
struct Heart<'a> {
    name: &'a str,
    nodes: Api<Node>,
    leases: Api<Lease>,
    clock: SharedClock,
    wards: &'a Wards,
}

impl<'a> Heart<'a> {
    fn new(name: &'a str, access: &ClusterAccess, wards: &'a Wards) -> Self {
        Self {
            name,
            nodes: Api::all(access.client.clone()),
            leases: Api::namespaced(access.client.clone(), NAMESPACE),
            clock: access.clock.clone(),
            wards,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::try_from(self.clock.now()).unwrap_or_default()
    }

    fn say(&self, line: &str) {
        say(&printable(&format!("{}: {line}", self.name)));
    }

    /// Beats until there is no node to keep, or somebody else keeps it.
    async fn keep(&self) {
        let reason = match self.take_over().await {
            Ok(lease) => self.beat(lease).await,
            Err(reason) => reason,
        };
        self.wards.held.borrow_mut().remove(self.name);
        self.wards.lost.set(true);
        say(&printable(&format!("error: {reason}")));
    }

    /// The lease, ours now.
    async fn take_over(&self) -> Result<Lease, HeartbeatError> {
        let Some(lease) = self.lease().await? else {
            let made = self.make(&self.node().await?).await?;
            self.say("lease made");
            self.hold();
            return Ok(made);
        };
        let lease = match claim::claim(&lease, self.name, self.now()) {
            Claim::Ours => self.silent(lease).await?,
            Claim::Expired { holder, since } => {
                let since = age(since);
                self.say(&format!(
                    "lease taken over: {holder} let it expire {since} ago"
                ));
                lease
            }
            Claim::Foreign { holder, left } => {
                return Err(HeartbeatError::Held {
                    node: self.name.to_owned(),
                    holder,
                    left,
                });
            }
        };
        self.hold();
        Ok(lease)
    }

    fn hold(&self) {
        self.wards.held.borrow_mut().insert(self.name.to_owned());
    }

    async fn make(&self, node: &Node) -> Result<Lease, HeartbeatError> {
        let lease = claim::made(node, self.name, self.now());
        let made = self.leases.create(&PostParams::default(), &lease).await;
        Ok(made.map_err(|error| self.failed("create", "lease", &error))?)
    }

    /// The lease, if nobody renews it for a while.
    async fn silent(&self, lease: Lease) -> Result<Lease, HeartbeatError> {
        let renewed = claim::renewed(&lease);
        let until = self.clock.uptime() + LISTEN;
        let seconds = LISTEN.as_secs();
        self.say(&format!(
            "its lease is fresh: watching for {seconds} s whether a kubelet renews it"
        ));
        while self.clock.uptime() < until {
            self.clock.sleep(LOOK).await;
            let Some(newer) = self.lease().await? else {
                break;
            };
            if claim::renewed(&newer) != renewed {
                return Err(self.alive(&newer));
            }
        }
        self.say("lease taken over: nobody renews it");
        Ok(lease)
    }

    async fn beat(&self, mut lease: Lease) -> HeartbeatError {
        let mut last_problem = String::new();
        loop {
            let problem = match self.beat_once(&mut lease).await {
                Ok(()) => String::new(),
                Err(HeartbeatError::Call(error)) => error.to_string(),
                Err(reason) => return reason,
            };
            // Once per problem, not once per beat.
            if problem != last_problem {
                self.say(match problem.as_str() {
                    "" => "heartbeats go through again",
                    problem => problem,
                });
            }
            last_problem = problem;
            self.clock.sleep(BEAT).await;
        }
    }

    async fn beat_once(&self, lease: &mut Lease) -> Result<(), HeartbeatError> {
        let node = match self.node().await {
            Err(HeartbeatError::NoNode(name)) => return Err(HeartbeatError::Deleted(name)),
            node => node?,
        };
        self.renew(&node, lease).await?;
        let Some(change) = ready::change(&node, self.now()) else {
            return Ok(());
        };
        let patch = Patch::Strategic(&change.patch);
        let parameters = PatchParams::default();
        let patched = self.nodes.patch_status(self.name, &parameters, &patch);
        patched
            .await
            .map_err(|error| self.failed("patch", "node", &error))?;
        if let Some(from) = change.from {
            self.say(&format!("Ready: {from} -> True ({})", ready::REASON));
        }
        Ok(())
    }

    async fn renew(&self, node: &Node, lease: &mut Lease) -> Result<(), HeartbeatError> {
        // What the server has seen stays as it is until it has seen more.
        let mut beat = lease.clone();
        claim::renew(&mut beat, self.name, self.now());
        let parameters = PostParams::default();
        let error = match self.leases.replace(self.name, &parameters, &beat).await {
            Ok(renewed) => {
                *lease = renewed;
                return Ok(());
            }
            Err(error) => self.failed("renew", "lease", &error),
        };
        match error.problem {
            CallProblem::NotFound => {
                *lease = self.make(node).await?;
                self.say("lease made again: somebody has deleted it");
                Ok(())
            }
            CallProblem::Conflict => {
                let newer = self.lease().await?;
                if let Some(newer) = newer {
                    // Renewed by another; or by us, and the answer was lost.
                    let moved = claim::renewed(&newer) != claim::renewed(lease);
                    *lease = if moved {
                        self.silent(newer).await?
                    } else {
                        newer
                    };
                }
                Ok(())
            }
            _ => Err(error.into()),
        }
    }

    async fn node(&self) -> Result<Node, HeartbeatError> {
        let node = self.nodes.get_opt(self.name).await;
        node.map_err(|error| self.failed("read", "node", &error))?
            .ok_or_else(|| HeartbeatError::NoNode(self.name.to_owned()))
    }

    async fn lease(&self) -> Result<Option<Lease>, HeartbeatError> {
        let lease = self.leases.get_opt(self.name).await;
        Ok(lease.map_err(|error| self.failed("read", "lease", &error))?)
    }

    fn failed(&self, verb: &'static str, kind: &str, cause: &kube::Error) -> CallError {
        CallError::new(verb, format!("{kind} {}", self.name), cause)
    }

    fn alive(&self, lease: &Lease) -> HeartbeatError {
        HeartbeatError::Alive {
            node: self.name.to_owned(),
            holder: claim::holder(lease),
        }
    }
}
