//! The node's lease: the heartbeat by which the cluster knows that it lives.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::api::PostParams;
use kube::{Api, Client};
use seams::SharedClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::config::Config;
use crate::status::{JITTER, Reconnect, is_connections_fault};

const NAMESPACE: &str = "kube-node-lease";
/// Tries per renewal, without a pause between them.
const TRIES: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(7);
/// By how much of itself a pause after a failure may be shorter.
const SPREAD: f64 = 0.5;

/// Keeps the lease.
pub struct LeaseKeeper {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: SharedClock,
    /// On connections of its own.
    pub(crate) heartbeats: Client,
    pub(crate) registered: watch::Receiver<bool>,
    pub(crate) reconnect: Reconnect,
    /// When the server last took a renewal, by the clock's uptime.
    pub(crate) renewed: watch::Sender<Option<Duration>>,
}

/// What asking for the lease gave.
enum Found {
    There(Lease),
    Made(Lease),
    /// There is none, and none can be made yet: the node has no object to own it.
    NoOwner,
}

impl fmt::Debug for LeaseKeeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LeaseKeeper")
            .finish_non_exhaustive()
    }
}

impl LeaseKeeper {
    /// Renews until told to stop. The lease stays: it ends by itself.
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.keep()).await;
    }

    async fn keep(&mut self) {
        if self
            .registered
            .wait_for(|registered| *registered)
            .await
            .is_err()
        {
            return;
        }
        let mut latest = None;
        loop {
            let began = self.clock.uptime();
            latest = self.renew(latest).await;
            let interval = self.config.timing.renewal();
            let late = self.clock.uptime().saturating_sub(began) > interval;
            let part = if late {
                // Whoever waited for the same server is heard of at this moment, too.
                1.0 - SPREAD * self.clock.random()
            } else {
                1.0 + JITTER * self.clock.random()
            };
            self.clock.sleep(interval.mul_f64(part)).await;
        }
    }

    /// One renewal. What the server holds now, if that is known.
    async fn renew(&self, latest: Option<Lease>) -> Option<Lease> {
        // Nobody else writes it, so the last copy is as good as a fresh one.
        if let Some(lease) = latest {
            let renewed = self.update(lease).await;
            if renewed.is_some() {
                return renewed;
            }
        }
        match self.ensure().await {
            Found::NoOwner => None,
            Found::Made(lease) => Some(lease),
            Found::There(lease) => {
                let renewed = self.update(lease.clone()).await;
                Some(renewed.unwrap_or(lease))
            }
        }
    }

    /// `lease`, renewed at the server; `None` if that would not do it.
    async fn update(&self, mut lease: Lease) -> Option<Lease> {
        let leases = self.leases();
        for number in 0..TRIES {
            self.assert(&mut lease).await;
            let error = match leases
                .replace(&self.name(), &PostParams::default(), &lease)
                .await
            {
                Ok(renewed) => {
                    self.renewed.send_replace(Some(self.clock.uptime()));
                    return Some(renewed);
                }
                Err(error) => error,
            };
            debug!(lease = self.name(), attempt = number + 1, err = %error, "the lease cannot be renewed");
            // Somebody has written it: only the newest version will do.
            if matches!(&error, kube::Error::Api(status) if status.code == 409) {
                match self.ensure().await {
                    Found::There(newest) | Found::Made(newest) => lease = newest,
                    Found::NoOwner => return None,
                }
                continue;
            }
            if number > 0 && is_connections_fault(&error) {
                (self.reconnect)();
            }
            if number + 1 == TRIES {
                warn!(lease = self.name(), err = %error, "the lease could not be renewed");
            }
        }
        None
    }

    /// The lease that is there, or a new one. Asks until it is answered.
    async fn ensure(&self) -> Found {
        let mut pause = FIRST_PAUSE;
        let mut last_problem = String::new();
        loop {
            let problem = match self.find().await {
                Ok(found) => return found,
                Err(error) => error.to_string(),
            };
            // Once per problem, not once per attempt.
            if problem != last_problem {
                warn!(
                    lease = self.name(),
                    err = problem,
                    "the lease cannot be had, will try again"
                );
            }
            last_problem = problem;
            // Nodes that lost their server together must not come back together.
            let spread = pause.mul_f64(1.0 - SPREAD * self.clock.random());
            self.clock.sleep(spread).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn find(&self) -> Result<Found, kube::Error> {
        let leases = self.leases();
        if let Some(lease) = leases.get_opt(&self.name()).await? {
            return Ok(Found::There(lease));
        }
        let mut lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.name()),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.name()),
                ..LeaseSpec::default()
            }),
        };
        if !self.assert(&mut lease).await {
            return Ok(Found::NoOwner);
        }
        let made = leases.create(&PostParams::default(), &lease).await?;
        self.renewed.send_replace(Some(self.clock.uptime()));
        info!(lease = self.name(), "the lease is made");
        Ok(Found::Made(made))
    }

    /// Writes into `lease` what it must say now. Whether it has an owner.
    async fn assert(&self, lease: &mut Lease) -> bool {
        let owners = lease.metadata.owner_references.get_or_insert_default();
        if owners.is_empty() {
            owners.extend(self.owner().await);
        }
        let owned = !owners.is_empty();
        let now = Timestamp::try_from(self.clock.now()).unwrap_or_default();
        let spec = lease.spec.get_or_insert_default();
        let seconds = self.config.timing.lease.as_secs();
        spec.lease_duration_seconds = i32::try_from(seconds).ok();
        spec.renew_time = Some(MicroTime(now));
        owned
    }

    async fn owner(&self) -> Option<OwnerReference> {
        let nodes: Api<Node> = Api::all(self.heartbeats.clone());
        match nodes.get(&self.name()).await {
            Ok(node) => Some(owned_by(&self.name(), node.metadata.uid.as_deref()?)),
            Err(error) => {
                debug!(lease = self.name(), err = %error, "the node that owns the lease cannot be read");
                None
            }
        }
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.heartbeats.clone(), NAMESPACE)
    }

    fn name(&self) -> String {
        self.config.identity.node_name.clone()
    }
}

/// What makes an object go when the node's object goes.
pub(crate) fn owned_by(node_name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node_name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}
