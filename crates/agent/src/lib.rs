//! One node: the parts that make it, wired together, without logic of its own.
//!
//! In: what each part is to be ([`Config`]), and what it stands on ([`Seams`]).
//! Out: a node that runs until it is told to stop, or cannot go on.
//!
//! It must not know which machine it runs on, nor read the command line, the
//! environment or the clock: the binary chooses and passes them in.

mod announce;
mod door;
mod membership;
mod node;
mod parts;
mod pods;
mod serving;
mod standalone;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::transport::Options;
use identity::client::{Dial, EstablishError};
use identity::keeper::GaveUp;
use prometheus::Registry;
use seams::runtime::Counted;
use seams::{SharedHost, SharedNet, SharedRuntime, SharedStorage};
use server::{BindError, DoorError, PlainPort, Purpose};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use types::figures::Boards;

pub use membership::{Access, Member, Membership};
pub use node::Rates;
pub use pods::{PodFlags, PodsConfig, PodsConfigError, SharedObjects};
pub use server::DoorConfig;
pub use serving::{ServingSource, StartServingError};

use parts::Parts;

/// How long the parts of a node are given to end.
const FAREWELL: Duration = Duration::from_secs(1);

/// What the node is to be.
#[derive(Clone, Debug)]
pub struct Config {
    pub place: Place,
    /// The certificate of the node's own port; `None`: it has no port.
    pub serving: Option<ServingSource>,
    /// The node's own port; `None`: it has none.
    pub door: Option<DoorConfig>,
    /// Where health is asked for; `None`: nowhere.
    pub healthz: Option<SocketAddr>,
    pub pods: PodsConfig,
}

/// Where a node belongs.
#[derive(Clone, Debug)]
pub enum Place {
    Cluster(Box<Membership>),
    /// No API server knows of it.
    Standalone {
        /// `podCIDR`.
        pod_cidr: Option<String>,
        /// What its object would be made of.
        node: Box<::node::Config>,
    },
}

/// What can be known of a node while it runs.
#[derive(Clone, Debug)]
pub struct Running {
    /// `None`: it belongs to no cluster.
    pub member: Option<Member>,
}

/// What the node stands on.
#[derive(Clone)]
pub struct Seams {
    /// The clock, the crypto provider and the rest of what connections need.
    pub options: Options,
    /// The same, with the proxy for a server.
    pub dial: Dial,
    pub host: SharedHost,
    pub storage: SharedStorage,
    pub net: SharedNet,
    pub runtime: SharedRuntime,
    /// For figures that are kept by [`prometheus`].
    pub registry: Registry,
    /// For the others: those that each node has of its own.
    pub figures: Boards,
    /// For the state that is left on disk for tools.
    pub process_id: u32,
}

impl fmt::Debug for Seams {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Seams").finish_non_exhaustive()
    }
}

/// Why a node could not start, or could not go on.
#[derive(Debug, Error)]
pub enum AgentError {
    #[error(transparent)]
    Identity(#[from] EstablishError),
    #[error(transparent)]
    Serving(#[from] StartServingError),
    #[error(transparent)]
    GaveUp(#[from] GaveUp),
    #[error(transparent)]
    OverReserved(#[from] ::node::allocatable::OverReserved),
    #[error(
        "a part of the node has died ({part}): {cause}; this is a fault of ours, please report it"
    )]
    Died { part: &'static str, cause: String },
    #[error("staticPodURL: {0}")]
    ManifestUrl(#[from] sources::http::UrlError),
    #[error("certificates for staticPodURL cannot be used: {0}")]
    Trust(#[from] rustls::Error),
    #[error(transparent)]
    Restore(#[from] workers::allocation::actuated::RestoreError),
    #[error("the node's own port: {0}")]
    Door(#[from] DoorError),
    #[error("figures cannot be set up: {0}")]
    Metrics(#[from] prometheus::Error),
}

impl AgentError {
    /// Somebody else has the node's port.
    pub fn is_port_taken(&self) -> bool {
        matches!(self, Self::Door(DoorError::Bind(BindError::Taken { .. })))
    }
}

/// Runs a node. Ends with `Ok` when it was told to stop. `started` is told when
/// all its parts run.
pub async fn run(
    config: Config,
    mut seams: Seams,
    started: oneshot::Sender<Running>,
    shutdown: CancellationToken,
) -> Result<(), AgentError> {
    let mut parts = Parts::new(shutdown.child_token());
    let (runtime, clock) = (seams.runtime, seams.options.clock.clone());
    seams.runtime = Arc::new(Counted::new(runtime, clock, &seams.figures.node));
    let outcome = tokio::select! {
        outcome = start_and_wait(config, &seams, started, &mut parts) => outcome,
        () = shutdown.cancelled() => Ok(()),
    };
    parts.end(&*seams.options.clock, FAREWELL).await;
    outcome
}

async fn start_and_wait(
    config: Config,
    seams: &Seams,
    started: oneshot::Sender<Running>,
    parts: &mut Parts,
) -> Result<(), AgentError> {
    if let Some(address) = config.healthz {
        let healthz = PlainPort {
            purpose: Purpose::Health,
            address,
            clock: seams.options.clock.clone(),
        };
        parts.start("health port", |ending| healthz.run(ending));
    }
    let Config {
        place,
        serving,
        door,
        pods,
        ..
    } = config;
    let port = (serving, door);
    let member = match place {
        Place::Cluster(membership) => {
            // Large, and there is only one.
            let joining = Box::pin(membership.join(port, pods, seams, parts));
            Some(joining.await?)
        }
        Place::Standalone { pod_cidr, node } => {
            standalone::start(pod_cidr, *node, port, pods, seams, parts)?;
            None
        }
    };
    // Nobody may want to know.
    let _ = started.send(Running { member });
    Err(parts.until_one_fails().await)
}
