//! The node's own affairs at the API server: what crate `node` needs, from what
//! the agent has.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use api::objects::OwnNode;
use api::transport::{LaneOptions, Limits, Transport};
use config::settings::Settings;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use node::capacity::Devices;
use node::conditions::Pressure;
use node::config::Timing;
use node::observe::Reports;
use node::readiness::Ailments;
use node::{Clients, Inputs, Metrics, NodeParts, Outputs, RuntimeFacts, RuntimeWatch};
use tokio::sync::watch;

use crate::parts::Parts;
use crate::pods::OfNode;
use crate::{AgentError, Seams};

/// Rates of requests.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// `kubeAPIQPS` and `kubeAPIBurst`.
    pub requests: Option<Limits>,
    /// `eventRecordQPS` and `eventBurst`.
    pub events: Option<Limits>,
}

impl Rates {
    pub fn from_settings(settings: &Settings) -> Self {
        Self {
            requests: rate(settings, "kubeAPIQPS", "kubeAPIBurst"),
            events: rate(settings, "eventRecordQPS", "eventBurst"),
        }
    }
}

fn rate(settings: &Settings, qps: &str, burst: &str) -> Option<Limits> {
    let qps = f64::from(i32::try_from(settings.int(qps)).unwrap_or(i32::MAX));
    let burst = u32::try_from(settings.int(burst)).unwrap_or_default();
    Limits::from_settings(qps, burst)
}

/// Follows the node's own object.
pub(crate) fn follow(
    config: &node::Config,
    clients: &Clients,
    seams: &Seams,
    parts: &mut Parts,
) -> watch::Receiver<Option<Arc<Node>>> {
    let (seen, own_node) = watch::channel(None);
    let following = OwnNode {
        name: config.identity.node_name.clone(),
        client: clients.requests.clone(),
        clock: seams.options.clock.clone(),
        seen,
    };
    parts.start("own node", |ending| following.run(ending));
    own_node
}

/// Starts what tells the API server of this node.
pub(crate) fn start(
    config: node::Config,
    clients: Clients,
    own_node: watch::Receiver<Option<Arc<Node>>>,
    seams: &Seams,
    parts: &mut Parts,
) -> Result<(Outputs, OfNode), AgentError> {
    let clock = &seams.options.clock;
    let (ailments, ailing) = watch::channel(Ailments::default());
    let (in_use, volumes_in_use) = watch::channel(None);
    let (facts, runtime_facts) = watch::channel(RuntimeFacts::default());
    let inputs = Inputs {
        host: seams.host.clone(),
        clock: clock.clone(),
        reports: reports(runtime_facts.clone(), ailing, volumes_in_use),
        own_node,
        metrics: Metrics::new(&seams.figures.node, booted(seams), clock.now()),
    };
    let name = config.identity.node_name.clone();
    let (tasks, outputs) = NodeParts::build(config, clients, inputs)?;
    let runtime = RuntimeWatch {
        runtime: seams.runtime.clone(),
        clock: clock.clone(),
        facts,
        pod_cidrs: outputs.pod_cidrs.clone(),
    };
    parts.start("runtime", |ending| runtime.run(ending));
    parts.start("registration", |ending| tasks.register.run(ending));
    parts.start("node status", |ending| tasks.status.run(ending));
    parts.start("lease", |ending| tasks.lease.run(ending));
    parts.start("CSINode", |ending| tasks.csi_node.run(ending));
    parts.start("events", |ending| tasks.recording.run(ending));
    let of_node = OfNode {
        name,
        runtime: runtime_facts,
        preview: Arc::clone(&outputs.preview),
        ailments,
        in_use,
    };
    Ok((outputs, of_node))
}

/// When the machine was started, where it tells.
fn booted(seams: &Seams) -> Option<SystemTime> {
    let stat = seams.host.read(Path::new("/proc/stat")).ok().flatten()?;
    let stat = String::from_utf8(stat).ok()?;
    let mut lines = stat.lines();
    let seconds = lines.find_map(|line| line.strip_prefix("btime "))?;
    let seconds: u64 = seconds.trim().parse().ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Ways to the API server over connections of the node's own.
pub(crate) fn clients(transport: &Transport, rates: Rates, timing: Timing) -> Clients {
    let heartbeat = timing.update.min(timing.lease);
    let lane = |name, limits, timeout, own_connections| {
        transport.lane(LaneOptions {
            name,
            limits,
            timeout,
            own_connections,
        })
    };
    // Neither throttled nor behind others: what is late here is taken for dead.
    let heartbeats = lane("heartbeats", None, Some(heartbeat), true);
    Clients {
        requests: lane("requests", rates.requests, None, false).client("default"),
        heartbeats: heartbeats.client("default"),
        events: lane("events", rates.events, None, false).client("default"),
        reconnect: Arc::new(move || heartbeats.reconnect()),
    }
}

/// The way for questions about those who ask the node: with a rate of its own, so that a
/// crowd of strangers keeps nothing else waiting.
pub(crate) fn reviews(transport: &Transport, rates: Rates) -> Client {
    let lane = transport.lane(LaneOptions {
        name: "reviews",
        limits: rates.requests,
        timeout: None,
        own_connections: false,
    });
    lane.client("default")
}

/// What has no part yet that would tell of it is told of as well.
pub(crate) fn reports(
    runtime: watch::Receiver<RuntimeFacts>,
    ailments: watch::Receiver<Ailments>,
    volumes_in_use: watch::Receiver<Option<Vec<String>>>,
) -> Reports {
    Reports {
        runtime,
        pressure: watch::channel(Pressure::default()).1,
        ailments,
        devices: watch::channel(Devices::default()).1,
        volumes_in_use,
    }
}
