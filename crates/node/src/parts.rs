//! The tasks of this crate, wired. Each is a struct with a `run`; whoever builds
//! them spawns them where it can join them.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::events::{Recorder, Recording};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use seams::{SharedClock, SharedHost};
use tokio::sync::watch;

use crate::allocatable::OverReserved;
use crate::announce::Announcer;
use crate::config::Config;
use crate::csinode::CsiNodeMaker;
use crate::lease::LeaseKeeper;
use crate::metrics::Metrics;
use crate::observe::{Observer, Reports};
use crate::preview::Preview;
use crate::readiness::CsiNodeState;
use crate::register::Register;
use crate::status::{Reconnect, Status};

/// Ways to the API server.
#[derive(Clone)]
pub struct Clients {
    /// For ordinary requests.
    pub requests: Client,
    /// For the status and the lease: not throttled, on connections of its own,
    /// with a timeout of ten seconds.
    pub heartbeats: Client,
    /// For events: with a rate of its own, so that they keep nothing waiting.
    pub events: Client,
    /// Makes new connections for heartbeats.
    pub reconnect: Reconnect,
}

/// What the node stands on, and what other parts publish.
#[derive(Clone, Debug)]
pub struct Inputs {
    pub host: SharedHost,
    pub clock: SharedClock,
    pub reports: Reports,
    /// The node's own object, as `api::objects::OwnNode` follows it.
    pub own_node: watch::Receiver<Option<Arc<Node>>>,
    pub metrics: Metrics,
}

/// What other parts can know of the node.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// The node's object is there and in shape.
    pub registered: watch::Receiver<bool>,
    /// What the API server was last told.
    pub ready: watch::Receiver<bool>,
    /// When the API server last took a heartbeat, by the clock's uptime.
    pub lease_renewed: watch::Receiver<Option<Duration>>,
    pub csi_node: watch::Receiver<CsiNodeState>,
    /// `spec.podCIDRs`, with commas between them: for the runtime.
    pub pod_cidrs: watch::Receiver<Option<String>>,
    /// What the API server was told is in use: such volumes may be mounted.
    pub volumes_reported: watch::Receiver<Vec<String>>,
    pub recorder: Recorder,
    /// What the node's object will be.
    pub preview: Arc<Preview>,
}

/// The tasks.
#[derive(Debug)]
pub struct NodeParts {
    pub register: Register,
    pub status: Status,
    pub lease: LeaseKeeper,
    pub csi_node: CsiNodeMaker,
    pub recording: Recording,
}

impl fmt::Debug for Clients {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Clients").finish_non_exhaustive()
    }
}

impl NodeParts {
    /// Builds everything; nothing runs yet. Refuses a configuration that keeps
    /// more from pods than the machine has.
    pub fn build(
        config: Config,
        clients: Clients,
        inputs: Inputs,
    ) -> Result<(Self, Outputs), OverReserved> {
        config.resources.check(&*inputs.host)?;
        let config = Arc::new(config);
        let clock = inputs.clock;
        let node_name = &config.identity.node_name;
        let (recorder, recording) = Recorder::new(node_name, clients.events, clock.clone());
        let announcer = Arc::new(Announcer::new(node_name, recorder.clone()));
        let (registering, registered) = watch::channel(false);
        let (readying, ready) = watch::channel(false);
        let (renewing, lease_renewed) = watch::channel(None);
        let (csi_making, csi_node) = watch::channel(CsiNodeState::default());
        let (cidrs_taking, pod_cidrs) = watch::channel(None);
        let (volumes_reporting, volumes_reported) = watch::channel(Vec::new());
        let observer = Arc::new(Observer {
            config: config.clone(),
            host: inputs.host,
            clock: clock.clone(),
            reports: inputs.reports,
            csi_node: csi_node.clone(),
            said: Mutex::default(),
        });
        let preview = Arc::new(Preview {
            observer: observer.clone(),
        });
        let parts = Self {
            register: Register {
                observer: observer.clone(),
                announcer: announcer.clone(),
                client: clients.requests.clone(),
                registered: registering,
                metrics: inputs.metrics.clone(),
            },
            status: Status {
                observer,
                announcer,
                heartbeats: clients.heartbeats.clone(),
                own_node: inputs.own_node,
                registered: registered.clone(),
                reconnect: clients.reconnect.clone(),
                ready: readying,
                pod_cidrs: cidrs_taking,
                volumes_reported: volumes_reporting,
                metrics: inputs.metrics,
            },
            lease: LeaseKeeper {
                config: config.clone(),
                clock: clock.clone(),
                heartbeats: clients.heartbeats,
                registered: registered.clone(),
                reconnect: clients.reconnect,
                renewed: renewing,
            },
            csi_node: CsiNodeMaker {
                config,
                clock,
                client: clients.requests,
                registered: registered.clone(),
                state: csi_making,
            },
            recording,
        };
        let outputs = Outputs {
            registered,
            ready,
            lease_renewed,
            csi_node,
            pod_cidrs,
            volumes_reported,
            recorder,
            preview,
        };
        Ok((parts, outputs))
    }
}
