//! The node's own affairs at the API server: what crate `node` needs, from what
//! the agent has.

use std::sync::Arc;
use std::time::Duration;

use api::objects::OwnNode;
use api::transport::{LaneOptions, Limits, Transport};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use node::capacity::Devices;
use node::conditions::Pressure;
use node::observe::Reports;
use node::readiness::Ailments;
use node::{Clients, Inputs, NodeParts, Outputs, Recorder, RuntimeFacts, RuntimeWatch};
use tokio::sync::watch;

use crate::parts::Parts;
use crate::{AgentError, Seams};

/// Rates of requests.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// `kubeAPIQPS` and `kubeAPIBurst`.
    pub requests: Option<Limits>,
    /// `eventRecordQPS` and `eventBurst`.
    pub events: Option<Limits>,
}

/// What the rest of the agent takes from here.
pub(crate) struct Started {
    pub(crate) requests: Client,
    pub(crate) own_node: watch::Receiver<Option<Arc<Node>>>,
    pub(crate) recorder: Recorder,
}

/// Starts what tells the API server of this node.
pub(crate) fn start(
    config: node::Config,
    transport: &Transport,
    rates: Rates,
    seams: &Seams,
    parts: &mut Parts,
) -> Result<Started, AgentError> {
    let clock = &seams.options.clock;
    let clients = clients(
        transport,
        rates,
        config.timing.update.min(config.timing.lease),
    );
    let requests = clients.requests.clone();
    let (seen, own_node) = watch::channel(None);
    let following = OwnNode {
        name: config.identity.node_name.clone(),
        client: requests.clone(),
        clock: clock.clone(),
        seen,
    };
    let (facts, runtime_facts) = watch::channel(RuntimeFacts::default());
    let inputs = Inputs {
        host: seams.host.clone(),
        clock: clock.clone(),
        reports: reports(runtime_facts),
        own_node: own_node.clone(),
    };
    let (tasks, outputs) = NodeParts::build(config, clients, inputs)?;
    let Outputs {
        pod_cidrs,
        recorder,
        ..
    } = outputs;
    let runtime = RuntimeWatch {
        runtime: seams.runtime.clone(),
        clock: clock.clone(),
        facts,
        pod_cidrs,
    };
    parts.start("own node", |ending| following.run(ending));
    parts.start("runtime", |ending| runtime.run(ending));
    parts.start("registration", |ending| tasks.register.run(ending));
    parts.start("node status", |ending| tasks.status.run(ending));
    parts.start("lease", |ending| tasks.lease.run(ending));
    parts.start("CSINode", |ending| tasks.csi_node.run(ending));
    parts.start("events", |ending| tasks.recording.run(ending));
    Ok(Started {
        requests,
        own_node,
        recorder,
    })
}

fn clients(transport: &Transport, rates: Rates, heartbeat: Duration) -> Clients {
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

/// What has no part yet that would tell of it is told of as well.
fn reports(runtime: watch::Receiver<RuntimeFacts>) -> Reports {
    Reports {
        runtime,
        pressure: watch::channel(Pressure::default()).1,
        ailments: watch::channel(Ailments::default()).1,
        devices: watch::channel(Devices::default()).1,
        volumes_in_use: watch::channel(Some(Vec::new())).1,
    }
}
