//! How the nodes of a fleet reach the cluster: all as one, or each as itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::objects::Nodes;
use api::transport::{LaneOptions, Limits};
use cluster::kubeconfig;
use cluster::token::{Token, TokenId, TokenSpec, create, delete};
use config::settings::Settings;
use fleet::spec::{FLEET_LABEL, Fleet};
use fleet::{Connections, SharedConnections};
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use node::Clients;
use seams::SharedClock;

use super::arguments::{Arguments, Identity};
use crate::cluster_access::ClusterAccess;
use crate::kubelet::{say, working_directory};
use crate::output::Failure;

/// How many names are listed where there may be thousands.
const NAMED: usize = 3;

/// Nodes as one lose their heartbeats' connections all at once: it is enough
/// that one of them asks for new ones.
const BETWEEN_RECONNECTS: Duration = Duration::from_secs(5);

/// What a fleet has of the cluster, to be given back at the end.
pub(super) struct Joined {
    pub(super) connections: Connections,
    /// Made for this run.
    token: Option<(Client, TokenId)>,
    directory: Option<PathBuf>,
}

impl Joined {
    /// The objects of nodes that speak as one.
    pub(super) fn nodes(&self) -> Option<Nodes> {
        match &self.connections {
            Connections::Shared(shared) => Some(shared.nodes.clone()),
            Connections::Own { .. } => None,
        }
    }

    /// Removes what was made for this run.
    pub(super) async fn leave(self) {
        if let Some((client, id)) = &self.token
            && let Err(error) = delete(client, id).await
        {
            say(&format!(
                "warning: bootstrap token {} stays: {error}",
                id.as_str()
            ));
        }
        if let Some(directory) = &self.directory
            && let Err(error) = std::fs::remove_dir_all(directory)
        {
            say(&format!("warning: {} stays: {error}", directory.display()));
        }
    }
}

/// Makes what the nodes need. Refuses names that are somebody else's.
pub(super) async fn join(
    arguments: &Arguments,
    access: &ClusterAccess,
    fleet: &Fleet,
    settings: &Settings,
) -> Result<Joined, Failure> {
    refuse_foreign(&access.client, fleet).await?;
    match arguments.identity {
        Identity::Shared => Ok(shared(arguments, access, fleet, settings)),
        Identity::PerNode => per_node(arguments, access, fleet).await,
    }
}

fn shared(
    arguments: &Arguments,
    access: &ClusterAccess,
    fleet: &Fleet,
    settings: &Settings,
) -> Joined {
    let lane = |name, limits, timeout, own_connections| {
        access.lane(LaneOptions {
            name,
            limits,
            timeout,
            own_connections,
        })
    };
    let timing = node::config::Timing::from_settings(settings);
    let heartbeats = lane(
        "heartbeats",
        None,
        Some(timing.update.min(timing.lease)),
        true,
    );
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the command line allows no other"
    )]
    let limits = Limits::from_settings(arguments.qps, arguments.qps.ceil() as u32);
    let requests = lane("requests", limits, None, false).client("default");
    let clients = Clients {
        requests: requests.clone(),
        heartbeats: heartbeats.client("default"),
        events: lane("events", limits, None, false).client("default"),
        reconnect: Arc::new(seldom(access.clock.clone(), move || heartbeats.reconnect())),
    };
    let ours = format!("{FLEET_LABEL}={}", fleet.name);
    let nodes = Nodes::new(requests, access.clock.clone(), ours);
    let shared = SharedConnections { clients, nodes };
    Joined {
        connections: Connections::Shared(Box::new(shared)),
        token: None,
        directory: None,
    }
}

/// `work`, but not again soon after.
fn seldom(clock: SharedClock, work: impl Fn() + Send + Sync) -> impl Fn() + Send + Sync {
    let last = std::sync::Mutex::new(None::<Duration>);
    move || {
        let now = clock.uptime();
        // Held for a comparison only.
        let mut last = last
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if last.is_some_and(|last| now.saturating_sub(last) < BETWEEN_RECONNECTS) {
            return;
        }
        *last = Some(now);
        drop(last);
        work();
    }
}

async fn per_node(
    arguments: &Arguments,
    access: &ClusterAccess,
    fleet: &Fleet,
) -> Result<Joined, Failure> {
    let here = working_directory();
    let (state, directory) = if let Some(path) = &arguments.state_dir {
        (here.join(path), None)
    } else {
        let name = format!("ferrolet-fleet-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        (path.clone(), Some(path))
    };
    private_directory(&state)?;
    let (bootstrap_kubeconfig, token) = if let Some(path) = &arguments.bootstrap_kubeconfig {
        (here.join(path), None)
    } else {
        let path = state.join("bootstrap-kubelet.conf");
        let id = make_token(access, &fleet.name, &path).await?;
        (path, Some((access.client.clone(), id)))
    };
    Ok(Joined {
        connections: Connections::Own {
            bootstrap_kubeconfig,
            state,
            zone: TimeZone::system(),
        },
        token,
        directory,
    })
}

/// A directory for keys.
fn private_directory(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(|error| {
        Failure::Failed(format!(
            "the directory {} cannot be made: {error}; choose another with --state-dir",
            path.display()
        ))
    })
}

async fn make_token(access: &ClusterAccess, fleet: &str, path: &Path) -> Result<TokenId, Failure> {
    let token = Token::generate()?;
    let spec = TokenSpec {
        description: format!("for the nodes of fleet {fleet}"),
        ..TokenSpec::default()
    };
    create(&access.client, &token, &spec, access.now()).await?;
    let text = kubeconfig::bootstrap(&access.endpoint()?, &access.cluster_name, &token)?;
    text.write(path)?;
    Ok(token.id().clone())
}

/// Nodes that others have made are not taken over.
async fn refuse_foreign(client: &Client, fleet: &Fleet) -> Result<(), Failure> {
    let nodes: Api<Node> = Api::all(client.clone());
    let listed = nodes.list_metadata(&ListParams::default()).await;
    let listed = listed.map_err(|error| {
        Failure::Failed(format!("the cluster's nodes cannot be listed: {error}"))
    })?;
    let ours = |labels: Option<&std::collections::BTreeMap<String, String>>| {
        labels.and_then(|labels| labels.get(FLEET_LABEL)) == Some(&fleet.name)
    };
    let others = listed.items.into_iter().map(|node| node.metadata);
    let others = others.filter(|metadata| !ours(metadata.labels.as_ref()));
    let others: BTreeSet<String> = others.filter_map(|metadata| metadata.name).collect();
    let taken: Vec<String> = fleet
        .nodes()
        .map(|node| node.name)
        .filter(|name| others.contains(name))
        .collect();
    if taken.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "{} nodes of these names are there and not of fleet {}: {}{}; choose another --name-pattern, or delete them",
        taken.len(),
        fleet.name,
        taken[..taken.len().min(NAMED)].join(", "),
        if taken.len() > NAMED { " …" } else { "" }
    )))
}
