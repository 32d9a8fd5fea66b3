//! One node: the parts that make it, wired together, without logic of its own.
//!
//! In: what each part is to be ([`Config`]), and what it stands on ([`Seams`]).
//! Out: a node that runs until it is told to stop, or cannot go on.
//!
//! It must not know which machine it runs on, nor read the command line, the
//! environment or the clock: the binary chooses and passes them in.

mod announce;
mod node;
mod parts;
mod serving;
mod standalone;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use api::transport::Options;
use identity::client::{Dial, Establish, EstablishError, Wanted};
use identity::keeper::{GaveUp, Outlet};
use identity::metrics::KeeperMetrics;
use identity::request::Purpose;
use prometheus::Registry;
use seams::{SharedHost, SharedRuntime};
use server::Healthz;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use node::Rates;
pub use serving::{ServingSource, StartServingError};

use announce::Announcement;
use parts::Parts;

/// How long the parts of a node are given to end.
const FAREWELL: Duration = Duration::from_secs(1);

/// What the node is to be.
#[derive(Clone, Debug)]
pub struct Config {
    pub place: Place,
    pub serving: ServingSource,
    /// Where health is asked for; `None`: nowhere.
    pub healthz: Option<SocketAddr>,
}

/// Where a node belongs.
#[derive(Clone, Debug)]
pub enum Place {
    Cluster(Box<Membership>),
    /// No API server knows of it.
    Standalone {
        /// `podCIDR`.
        pod_cidr: Option<String>,
    },
}

/// What a node of a cluster is there.
#[derive(Clone, Debug)]
pub struct Membership {
    pub identity: Wanted,
    pub node: ::node::Config,
    pub rates: Rates,
}

/// What the node stands on.
#[derive(Clone)]
pub struct Seams {
    /// The clock, the crypto provider and the rest of what connections need.
    pub options: Options,
    /// The same, with the proxy for a server.
    pub dial: Dial,
    pub host: SharedHost,
    pub runtime: SharedRuntime,
    pub registry: Registry,
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
    #[error("figures cannot be set up: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Runs a node. Ends with `Ok` when it was told to stop. `started` is told when
/// all its parts run.
pub async fn run(
    config: Config,
    seams: Seams,
    started: oneshot::Sender<()>,
    shutdown: CancellationToken,
) -> Result<(), AgentError> {
    let mut parts = Parts::new(shutdown.child_token());
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
    started: oneshot::Sender<()>,
    parts: &mut Parts,
) -> Result<(), AgentError> {
    if let Some(address) = config.healthz {
        let clock = seams.options.clock.clone();
        let healthz = Healthz { address, clock };
        parts.start("health port", |ending| healthz.run(ending));
    }
    match config.place {
        Place::Cluster(membership) => join(*membership, config.serving, seams, parts).await?,
        Place::Standalone { pod_cidr } => {
            standalone::start(pod_cidr, config.serving, seams, parts)?;
        }
    }
    // Nobody may want to know.
    let _ = started.send(());
    Err(parts.until_one_fails().await)
}

/// Starts the parts of a node of a cluster, once it has its identity there.
async fn join(
    membership: Membership,
    serving: ServingSource,
    seams: &Seams,
    parts: &mut Parts,
) -> Result<(), AgentError> {
    let Membership {
        identity: wanted,
        node,
        rates,
    } = membership;
    let clock = seams.options.clock.clone();
    let (outlet, findings) = Outlet::new(Purpose::Client);
    let metrics = KeeperMetrics::new(Purpose::Client)?;
    if wanted.rotate {
        let (registry, state) = (&seams.registry, findings.state.clone());
        metrics.register(registry, Purpose::Client, state, clock.clone())?;
    }
    seams.options.metrics.register(&seams.registry)?;

    let channels = serving.channels();
    let announcement = Announcement {
        directory: wanted.directory.clone(),
        node_name: wanted.node_name.clone(),
        process_id: seams.process_id,
        clock: clock.clone(),
        rotates: wanted.rotate,
        client: findings.state.clone(),
        serving: channels
            .as_ref()
            .map(|(_, findings)| findings.state.clone()),
    };
    parts.start("announcement", |ending| announcement.run(ending));

    let establish = Establish {
        wanted: &wanted,
        dial: seams.dial.clone(),
        outlet,
        findings: findings.clone(),
        metrics,
    };
    let identity = establish.run(&seams.options).await?;
    parts.close_at_end(identity.transport.clone());
    // After the kubeconfig, as upstream: who cannot reach the cluster makes no
    // certificates for it.
    let serving = serving.start(channels, seams, parts)?;
    let managed = identity.managed.is_some();
    if let Some(managed) = identity.managed {
        let keeper = managed.keeper;
        parts.start_fallible("client certificate", |ending| keeper.run(ending));
        // Asked as nobody, the API server would only refuse.
        let mut certificate = managed.findings.certificate;
        let arrived = async move { certificate.wait_for(Option::is_some).await.is_ok() };
        if !parts.unless_one_fails(arrived).await? {
            // Its keeper has ended, and is about to say why.
            return Err(parts.until_one_fails().await);
        }
    }
    info!(
        node = wanted.node_name,
        rotates = managed,
        "the node has an identity"
    );

    let started = node::start(node, &identity.transport, rates, seams, parts)?;
    serving.connect(&wanted, started, &seams.options, parts);
    Ok(())
}
