//! How the nodes of a fleet reach the cluster: all as one, or each as itself.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::transport::{LaneOptions, Limits};
use cluster::kubeconfig;
use cluster::token::{Token, TokenId, TokenSpec, create, delete};
use config::settings::Settings;
use fleet::spec::{FLEET_LABEL, Fleet};
use fleet::{Connections, Followers, SharedConnections};
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use node::Clients;
use seams::SharedClock;
use tempfile::TempDir;

use super::arguments::{Arguments, Identity};
use crate::cluster_access::ClusterAccess;
use crate::kubelet::{say, working_directory};
use crate::output::Failure;

/// For one request.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many names are listed where there may be thousands.
const NAMED: usize = 3;

/// Nodes as one lose their heartbeats' connections all at once: it is enough
/// that one of them asks for new ones.
const BETWEEN_RECONNECTS: Duration = Duration::from_secs(5);

/// What a fleet has of the cluster, to be given back at the end.
pub(super) struct Joined {
    pub(super) connections: Connections,
    followers: Option<Followers>,
    /// Made for this run.
    token: Option<(Client, TokenId)>,
    _directory: Option<TempDir>,
}

impl Joined {
    /// What nodes that speak as one follow; to be run once.
    pub(super) fn followers(&mut self) -> Option<Followers> {
        self.followers.take()
    }

    /// Removes what was made for this run; the directory goes by itself.
    pub(super) async fn leave(&mut self) {
        if let Some((client, id)) = &self.token.take()
            && let Err(error) = delete(client, id).await
        {
            say(&format!(
                "warning: bootstrap token {} stays: {error}",
                id.as_str()
            ));
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
    let limits = limits(arguments);
    let clients = Clients {
        requests: lane("requests", limits, None, false).client("default"),
        heartbeats: heartbeats.client("default"),
        events: lane("events", limits, None, false).client("default"),
        reconnect: Arc::new(seldom(access.clock.clone(), move || heartbeats.reconnect())),
    };
    let ours = format!("{FLEET_LABEL}={}", fleet.name);
    let (shared, followers) = SharedConnections::new(clients, &access.clock, ours);
    Joined {
        followers: Some(followers),
        connections: Connections::Shared(Box::new(shared)),
        token: None,
        _directory: None,
    }
}

/// For looks at single nodes and for their removal: as slow as everything else
/// that is not a heartbeat.
pub(super) fn limited(arguments: &Arguments, access: &ClusterAccess) -> Client {
    let lane = access.lane(LaneOptions {
        name: "roster",
        limits: limits(arguments),
        timeout: Some(PATIENCE),
        own_connections: false,
    });
    lane.client("default")
}

fn limits(arguments: &Arguments) -> Option<Limits> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the command line allows no other"
    )]
    Limits::from_settings(arguments.qps, arguments.qps.ceil() as u32)
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
        let path = here.join(path);
        private_directory(&path)?;
        (path, None)
    } else {
        let made = tempfile::Builder::new().prefix("ferrolet-fleet-").tempdir();
        let made = made.map_err(|error| {
            Failure::Failed(format!(
                "no directory can be made for the nodes' keys: {error}; give one with --state-dir"
            ))
        })?;
        (made.path().to_owned(), Some(made))
    };
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
        followers: None,
        token,
        _directory: directory,
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
    // Everything that can fail here goes before the token that would be left.
    let text = kubeconfig::bootstrap(&access.endpoint()?, &access.cluster_name, &token)?;
    text.write(path)?;
    create(&access.client, &token, &spec, access.now()).await?;
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
