//! Keeps the status of the node's object true: looks every ten seconds, sends
//! what changed, and now and then that nothing did. Until the node has been ready
//! once it looks more often, so that a new node does not wait for the next look;
//! and a runtime that comes back, or a cluster that takes the node for dead, is a
//! reason to look at once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::announce::Announcer;
use crate::metrics::Metrics;
use crate::observe::{Observer, pod_cidrs};
use crate::patch;
use crate::readiness::CsiNodeState;
use crate::report::{Report, has_changed};
use crate::update::{Updated, is_ready, update};

/// Tries per look, without a pause between them.
const TRIES: usize = 5;
/// Tries per look when the one before could not be told either: looks are then twice
/// as frequent, so that a server that returns is not waited for, and ask no more of it.
const TRIES_AGAIN: usize = 2;
/// By how much a look may be later than it should: so that nodes spread.
pub(crate) const JITTER: f64 = 0.04;
/// The least time between two looks, however often there is a reason for one:
/// somebody else may hold another opinion of this node, and say it each time.
const SOONEST: Duration = Duration::from_secs(1);
/// How often a node that was never ready is looked at, and for how long.
const FAST: Duration = Duration::from_millis(100);
const FAST_FOR: Duration = Duration::from_secs(120);

/// How long the first look waits for the `CSINode`.
const CSI_NODE_PATIENCE: Duration = Duration::from_secs(1);

/// What is done when heartbeats fail again and again: the connections may be
/// dead and not know it.
pub type Reconnect = Arc<dyn Fn() + Send + Sync>;

/// Keeps the status.
pub struct Status {
    pub(crate) observer: Arc<Observer>,
    pub(crate) announcer: Arc<Announcer>,
    pub(crate) heartbeats: Client,
    pub(crate) own_node: watch::Receiver<Option<Arc<Node>>>,
    pub(crate) registered: watch::Receiver<bool>,
    pub(crate) reconnect: Reconnect,
    pub(crate) ready: watch::Sender<bool>,
    pub(crate) pod_cidrs: watch::Sender<Option<String>>,
    pub(crate) volumes_reported: watch::Sender<Vec<String>>,
    pub(crate) metrics: Metrics,
}

/// Why a status could not be sent.
#[derive(Debug, Error)]
enum SyncError {
    #[error("there is no Node object of this name yet")]
    NotSeen,
    #[error("the Node object cannot be read: {0}")]
    Read(kube::Error),
    #[error("the status cannot be sent: {0}")]
    Send(kube::Error),
}

impl SyncError {
    fn is_connections_fault(&self) -> bool {
        match self {
            Self::NotSeen => false,
            Self::Read(error) | Self::Send(error) => is_connections_fault(error),
        }
    }
}

/// Whether other connections might do better. An answer that is about the object,
/// or about us, would be the same on any; a server that is sick may have a healthy
/// one beside it.
pub(crate) fn is_connections_fault(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500 || status.code == 401,
        _ => true,
    }
}

/// The first phase: until the node has been ready once, or for two minutes.
enum Phase {
    Fast { until: Duration },
    Settled,
}

/// What is remembered from look to look.
struct Memory {
    report: Report,
    /// Of the last look, and said in the log; empty: none.
    last_problem: String,
}

impl Memory {
    /// Whether the last look came to its end.
    fn told(&self) -> bool {
        self.last_problem.is_empty()
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Status").finish_non_exhaustive()
    }
}

impl Status {
    /// Runs until told to stop.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.keep()).await;
    }

    async fn keep(mut self) {
        if self
            .registered
            .wait_for(|registered| *registered)
            .await
            .is_err()
        {
            return;
        }
        let clock = self.observer.clock.clone();
        let timing = self.observer.config.timing;
        self.csi_node_or_patience().await;
        let mut memory = Memory {
            report: Report::new(timing.report),
            last_problem: String::new(),
        };
        let mut phase = Phase::Fast {
            until: clock.uptime() + FAST_FOR,
        };
        let mut seen = self.own_node.clone();
        let mut volumes = self.observer.reports.volumes_in_use.clone();
        let mut next = clock.uptime();
        let mut looked = next;
        loop {
            if clock.uptime() >= next {
                self.sync(&mut memory).await;
                looked = clock.uptime();
                let period = if memory.told() {
                    timing.update
                } else {
                    timing.update / 2
                };
                next = clock.uptime() + period.mul_f64(1.0 + JITTER * clock.random());
            } else if self.fast(&mut phase, &mut memory).await {
                phase = Phase::Settled;
            }
            let left = next.saturating_sub(clock.uptime());
            match phase {
                Phase::Fast { .. } => clock.sleep(left.min(FAST)).await,
                Phase::Settled => {
                    let sooner = async {
                        tokio::select! {
                            () = self.runtime_back() => {}
                            () = self.called_unready(&mut seen) => {}
                            () = changed(&mut volumes) => {}
                        }
                    };
                    if seams::timeout(&*clock, left, sooner).await.is_ok() {
                        next = next.min(clock.uptime().max(looked + SOONEST));
                    }
                }
            }
        }
    }

    /// Waits until the runtime no longer keeps the node from being ready: whoever
    /// waits for the node need not wait for the next look as well. Never comes if
    /// nothing keeps it from that now.
    async fn runtime_back(&self) {
        let mut runtime = self.observer.reports.runtime.clone();
        if self.observer.may_be_ready() {
            return std::future::pending().await;
        }
        while runtime.changed().await.is_ok() {
            if self.observer.may_be_ready() {
                return;
            }
        }
        // Nobody publishes any more: the looks go on.
        std::future::pending::<()>().await;
    }

    /// Waits until the object says that the node is unready, and it is not: the
    /// cluster has missed it for a while.
    async fn called_unready(&self, seen: &mut watch::Receiver<Option<Arc<Node>>>) {
        while seen.changed().await.is_ok() {
            let node = seen.borrow_and_update().clone();
            let unready = node.is_some_and(|node| !is_ready(&node));
            if unready && self.observer.may_be_ready() {
                // The cluster says it of many nodes at once, after an outage.
                let clock = &self.observer.clock;
                clock.sleep(SOONEST.mul_f64(clock.random())).await;
                return;
            }
        }
        // Nobody follows the object any more: the looks go on.
        std::future::pending::<()>().await;
    }

    /// Lets the `CSINode` be found: a node that was ready before its agent started
    /// must not be called unready for the first tenths of a second.
    async fn csi_node_or_patience(&self) {
        let mut csi_node = self.observer.csi_node.clone();
        let known = csi_node.wait_for(|state| *state != CsiNodeState::Waiting);
        let known = seams::timeout(&*self.observer.clock, CSI_NODE_PATIENCE, known).await;
        if known.is_err() {
            debug!("the CSINode is not known yet, the status is sent without it");
        }
    }

    /// One look: several tries, unless there is nothing to send.
    async fn sync(&self, memory: &mut Memory) {
        let node = &self.observer.config.identity.node_name;
        let tries = if memory.told() { TRIES } else { TRIES_AGAIN };
        for number in 0..tries {
            let Err(error) = self.attempt(number, &mut memory.report).await else {
                memory.last_problem.clear();
                return;
            };
            debug!(node, attempt = number + 1, err = %error, "the status could not be kept");
            if number > 0 && error.is_connections_fault() {
                (self.reconnect)();
            }
            let problem = error.to_string();
            // Once per problem, not once per look.
            if number + 1 == tries && memory.last_problem != problem {
                warn!(
                    node,
                    err = problem,
                    "the status could not be kept, will try again"
                );
                memory.last_problem = problem;
            }
        }
    }

    async fn attempt(&self, number: usize, report: &mut Report) -> Result<(), SyncError> {
        let original = self.original(number).await?;
        let updated = self.up_to_date(&original).await;
        let cidrs = self.take_cidrs(&original);
        let changed = cidrs || updated.labels_fixed || has_changed(&original, &updated.node);
        let clock = &self.observer.clock;
        if !report.is_due(changed, clock.uptime(), clock.random()) {
            self.publish(&updated.node);
            return Ok(());
        }
        self.send(&original, &updated.node, report).await
    }

    /// The object as it was followed; if that did not do, as the server has it.
    async fn original(&self, number: usize) -> Result<Arc<Node>, SyncError> {
        if number == 0 {
            let seen = self.own_node.borrow().clone();
            return seen.ok_or(SyncError::NotSeen);
        }
        let nodes: Api<Node> = Api::all(self.heartbeats.clone());
        let node = nodes.get(&self.observer.config.identity.node_name).await;
        node.map(Arc::new).map_err(SyncError::Read)
    }

    async fn up_to_date(&self, original: &Node) -> Updated {
        let observed = self.observer.look().await;
        let updated = update(original, &self.observer.config, &observed);
        self.observer.say(updated.problems.clone());
        self.announcer.announce(&updated);
        updated
    }

    async fn send(&self, old: &Node, new: &Node, report: &mut Report) -> Result<(), SyncError> {
        let nodes: Api<Node> = Api::all(self.heartbeats.clone());
        let name = &self.observer.config.identity.node_name;
        let patch = Patch::Strategic(patch::two_way(old, new));
        let params = PatchParams::default();
        let patched = nodes.patch_status(name, &params, &patch).await;
        let stored = patched.map_err(SyncError::Send)?;
        report.sent(self.observer.clock.uptime());
        self.publish(&stored);
        Ok(())
    }

    /// One look of the first phase. Whether that is over.
    async fn fast(&self, phase: &mut Phase, memory: &mut Memory) -> bool {
        let Phase::Fast { until } = phase else {
            return true;
        };
        let node = &self.observer.config.identity.node_name;
        if self.observer.clock.uptime() >= *until {
            warn!(
                node,
                "the node did not become ready in time after its start"
            );
            return true;
        }
        let Some(original) = self.own_node.borrow().clone() else {
            return false;
        };
        if is_ready(&original) {
            return true;
        }
        // What others publish is asked first: it costs nothing, and the machine
        // need not be looked at ten times a second.
        if !self.observer.may_be_ready() {
            return false;
        }
        let updated = self.up_to_date(&original).await;
        if !is_ready(&updated.node) {
            return false;
        }
        info!(node, "the node became ready");
        let sent = self
            .send(&original, &updated.node, &mut memory.report)
            .await;
        if let Err(error) = sent {
            debug!(node, err = %error, "the status could not be sent, will read the object anew");
            self.sync(memory).await;
        }
        true
    }

    /// Lets others know what the API server holds now.
    fn publish(&self, node: &Node) {
        if is_ready(node) {
            self.metrics.ready(self.observer.clock.now());
        }
        replace(&self.ready, is_ready(node));
        let status = node.status.as_ref();
        let volumes = status.and_then(|status| status.volumes_in_use.clone());
        replace(&self.volumes_reported, volumes.unwrap_or_default());
    }

    /// Passes the pod networks on. Whether they are new.
    fn take_cidrs(&self, node: &Node) -> bool {
        let Some(cidrs) = pod_cidrs(node) else {
            return false;
        };
        replace(&self.pod_cidrs, Some(cidrs))
    }
}

/// Waits for something else to be published.
async fn changed<T>(channel: &mut watch::Receiver<T>) {
    if channel.changed().await.is_err() {
        // Nobody publishes any more: the looks go on.
        std::future::pending::<()>().await;
    }
}

/// Publishes a value if it is new. Whether it is.
fn replace<T: PartialEq>(channel: &watch::Sender<T>, value: T) -> bool {
    channel.send_if_modified(|known| {
        let new = *known != value;
        *known = value;
        new
    })
}
