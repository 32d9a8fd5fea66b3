//! How a node comes into its cluster: as itself, with an identity that it keeps,
//! or over connections that others have made.

use std::sync::Arc;
use std::time::Duration;

use api::transport::Transport;
use identity::client::{ClientIdentity, Establish, Wanted};
use identity::keeper::Outlet;
use identity::metrics::KeeperMetrics;
use identity::request::Purpose;
use k8s_openapi::api::core::v1::Node;
use node::Clients;
use server::DoorConfig;
use tokio::sync::watch;
use tracing::info;

use crate::announce::Announcement;
use crate::door;
use crate::node::{self as own_affairs, Rates};
use crate::parts::Parts;
use crate::pods::{self, ClusterSide, PodsConfig, SharedObjects};
use crate::serving::{Channels, Connected, ServingSource};
use crate::{AgentError, Seams};

/// What a node of a cluster is there.
#[derive(Clone, Debug)]
pub struct Membership {
    pub access: Access,
    pub node: node::Config,
}

/// How a node reaches its cluster.
#[derive(Clone, Debug)]
pub enum Access {
    /// As itself, over connections of its own.
    Own { identity: Wanted, rates: Rates },
    /// Over connections that it shares with other nodes of this process, as
    /// whoever they speak for.
    Shared {
        clients: Clients,
        /// The node's object: it is followed for all of them at once.
        own_node: watch::Receiver<Option<Arc<Node>>>,
        /// What else is followed for all of them.
        objects: Box<SharedObjects>,
    },
}

/// What a node knows of its place in the cluster.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its object is there and in shape.
    pub registered: watch::Receiver<bool>,
    /// Its object as the API server has it.
    pub own_node: watch::Receiver<Option<Arc<Node>>>,
    /// When the API server last took a heartbeat, by the clock's uptime.
    pub lease_renewed: watch::Receiver<Option<Duration>>,
}

impl Membership {
    /// Starts the parts of a node of a cluster, once it has its identity there.
    pub(crate) async fn join(
        self,
        (serving, door): (Option<ServingSource>, Option<DoorConfig>),
        pods: PodsConfig,
        seams: &Seams,
        parts: &mut Parts,
    ) -> Result<Member, AgentError> {
        let Self { access, node } = self;
        let channels = serving.as_ref().and_then(ServingSource::channels);
        let (clients, own_node, shared, reviews) = match access {
            Access::Shared {
                clients,
                own_node,
                objects,
            } => {
                let reviews = clients.requests.clone();
                (clients, own_node, Some(*objects), reviews)
            }
            Access::Own { identity, rates } => {
                let transport = become_somebody(identity, channels.as_ref(), seams, parts).await?;
                let clients = own_affairs::clients(&transport, rates, node.timing);
                let own_node = own_affairs::follow(&node, &clients, seams, parts);
                let reviews = own_affairs::reviews(&transport, rates);
                (clients, own_node, None, reviews)
            }
        };
        // After the kubeconfig, as upstream: who cannot reach the cluster makes no
        // certificates for it.
        let serving = serving.map(|serving| serving.start(channels, seams, parts));
        let serving = serving.transpose()?;
        let node_name = node.identity.node_name.clone();
        let (outputs, of_node) =
            own_affairs::start(node, clients.clone(), own_node.clone(), seams, parts)?;
        let side = ClusterSide {
            client: clients.requests.clone(),
            own_node: own_node.clone(),
            recorder: outputs.recorder.clone(),
            shared,
        };
        let of_pods = pods::start(pods, &of_node, Some(side), seams, parts)?;
        let member = Member {
            registered: outputs.registered,
            own_node: own_node.clone(),
            lease_renewed: outputs.lease_renewed,
        };
        if let Some(serving) = serving {
            if let Some(door) = door {
                let from = (serving.certificate(), Some(reviews));
                door::start(door, node_name.clone(), from, of_pods, seams, parts)?;
            }
            let connected = Connected {
                node_name,
                requests: clients.requests,
                own_node,
                recorder: outputs.recorder,
            };
            serving.connect(connected, &seams.options, parts);
        }
        Ok(member)
    }
}

/// Gets the identity that is wanted, and has it kept: the connections that carry
/// it.
async fn become_somebody(
    wanted: Wanted,
    serving: Option<&Channels>,
    seams: &Seams,
    parts: &mut Parts,
) -> Result<Transport, AgentError> {
    let clock = seams.options.clock.clone();
    let (outlet, findings) = Outlet::new(Purpose::Client);
    let metrics = KeeperMetrics::new(Purpose::Client)?;
    if wanted.rotate {
        let (registry, state) = (&seams.registry, findings.state.clone());
        metrics.register(registry, Purpose::Client, state, clock.clone())?;
    }
    seams.options.metrics.register(&seams.registry)?;
    let announcement = Announcement {
        directory: wanted.directory.clone(),
        node_name: wanted.node_name.clone(),
        process_id: seams.process_id,
        clock,
        rotates: wanted.rotate,
        client: findings.state.clone(),
        serving: serving.map(|(_, findings)| findings.state.clone()),
    };
    parts.start("announcement", |ending| announcement.run(ending));
    let establish = Establish {
        wanted: &wanted,
        dial: seams.dial.clone(),
        outlet,
        findings,
        metrics,
    };
    let ClientIdentity { transport, managed } = establish.run(&seams.options).await?;
    parts.close_at_end(transport.clone());
    let rotates = managed.is_some();
    if let Some(managed) = managed {
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
    info!(node = wanted.node_name, rotates, "the node has an identity");
    Ok(transport)
}
