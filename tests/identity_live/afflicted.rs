//! Nodes whose API server answers badly: with 429, with 500, slowly.
//!
//! The agent runs in process, on a simulated machine (the real one is the host, whose
//! cgroups and logs are none of a test's), and its way to the real API server is a
//! [`FaultyWay`]. There every request and connection of its
//! own is counted, and here every task.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use agent::{Access, AgentError, Config, Membership, Place, Rates};
use anyhow::{Context, Result, anyhow};
use api::transport::{LaneOptions, Limits as RateLimits};
use http::StatusCode;
use identity::client::Wanted;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use node::config::Timing;
use tempfile::TempDir;
use testkit::lab::Lab;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::control_plane::{Swept, unique};
use crate::fault::{Fault, FaultyWay};
use crate::in_process::{node_config, pods_config, seams};
use crate::node::{LiveNode, options};
use crate::outage::{Held, Outage, RATE, Sufferer};

const BURST: u32 = 100;

const TIMING: Timing = Timing {
    update: Duration::from_secs(10),
    // Every look is told.
    report: Duration::from_secs(5),
    lease: Duration::from_secs(40),
};

/// For each fault a node of its own, all at the same time.
pub(crate) fn afflict<'a>(lab: &Lab, outage: impl Fn(&str) -> Outage<'a>) -> Result<()> {
    let refuses = Fault::Refuses;
    let faults = [
        ("429", refuses(StatusCode::TOO_MANY_REQUESTS, Some(1))),
        ("500", refuses(StatusCode::INTERNAL_SERVER_ERROR, None)),
        ("late", Fault::Slow(Duration::from_secs(5))),
    ];
    thread::scope(|scope| {
        let stories = faults.map(|(how, fault)| {
            let outage = outage(&format!("the API server answers {how}"));
            scope.spawn(move || {
                let story = AfflictedNode::suffers(lab, how, fault, &outage);
                story.with_context(|| outage.what.clone())
            })
        });
        let stories = stories.map(|story| {
            let died = |_| anyhow!("the test itself has died");
            story.join().map_err(died).flatten()
        });
        stories.into_iter().collect()
    })
}

/// A node of ours in this process, behind a way that may be faulty.
struct AfflictedNode {
    name: String,
    way: FaultyWay,
    /// Of the agent alone: its tasks are those of this runtime.
    runtime: Runtime,
    running: JoinHandle<Result<(), AgentError>>,
    shutdown: CancellationToken,
}

impl AfflictedNode {
    fn suffers(lab: &Lab, how: &str, fault: Fault, outage: &Outage<'_>) -> Result<()> {
        let name = unique(&format!("outage-{how}"));
        let mut swept = Swept::new(lab);
        swept.later("node", "", &name);
        swept.later("lease", "kube-node-lease", &name);
        let beside = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        // Its certificate is the one that the way shows to the API server.
        let owner = beside.block_on(LiveNode::join(lab, &name))?;
        let directory = TempDir::new()?;
        let onward = owner.transport.lane(LaneOptions {
            name: "onward",
            limits: None,
            timeout: None,
            own_connections: false,
        });
        let way = beside.block_on(FaultyWay::open(onward))?;
        let node = Self::start(name, way, directory.path())?;
        let begin = || {
            node.way.answer_with(fault);
            Ok(())
        };
        let end = || {
            node.way.answer_with(Fault::None);
            Ok(())
        };
        let outcome = outage.story(&node, begin, end);
        let ended = node.end();
        let gone = beside.block_on(owner.end());
        outcome.and(ended).and(gone)
    }

    fn start(name: String, way: FaultyWay, directory: &Path) -> Result<Self> {
        let kubeconfig = directory.join("kubelet.conf");
        let authority = directory.join("ca.crt");
        fs::write(&authority, &way.authority)?;
        fs::write(&kubeconfig, kubeconfig_of(&way, &authority))?;
        let limits = RateLimits::from_settings(f64::from(u32::try_from(RATE)?), BURST);
        let membership = Membership {
            access: Access::Own {
                identity: Wanted {
                    node_name: name.clone(),
                    kubeconfig,
                    bootstrap_kubeconfig: None,
                    directory: directory.join("pki"),
                    rotate: false,
                    zone: TimeZone::UTC,
                },
                rates: Rates {
                    requests: limits,
                    events: limits,
                },
            },
            node: node_config(&name, directory, TIMING),
        };
        let config = Config {
            place: Place::Cluster(Box::new(membership)),
            serving: None,
            door: None,
            healthz: None,
            pods: pods_config()?,
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let inside = runtime.enter();
        let (seams, _) = seams(&name, options());
        drop(inside);
        let shutdown = CancellationToken::new();
        let (started, _) = oneshot::channel();
        let running = runtime.spawn(agent::run(config, seams, started, shutdown.clone()));
        Ok(Self {
            name,
            way,
            runtime,
            running,
            shutdown,
        })
    }

    fn end(self) -> Result<()> {
        self.shutdown.cancel();
        Ok(self.runtime.block_on(self.running)??)
    }
}

impl Sufferer for AfflictedNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn held(&self) -> Result<Held> {
        anyhow::ensure!(!self.running.is_finished(), "the agent has ended");
        Ok(Held::from([
            ("tasks", self.runtime.metrics().num_alive_tasks()),
            ("connections", self.way.connections()),
        ]))
    }

    fn arrivals(&self, since: Timestamp) -> Result<Vec<Timestamp>> {
        let arrivals = self.way.arrivals().into_iter();
        Ok(arrivals.filter(|&arrived| arrived >= since).collect())
    }
}

/// Nobody in particular: the way knows whose requests these are.
fn kubeconfig_of(way: &FaultyWay, authority: &Path) -> String {
    serde_json::json!({
        "clusters": [{ "name": "way", "cluster": {
            "server": format!("https://{}", way.address),
            "certificate-authority": authority,
        }}],
        "users": [{ "name": "nobody", "user": {} }],
        "contexts": [{ "name": "way", "context": { "cluster": "way", "user": "nobody" } }],
        "current-context": "way",
    })
    .to_string()
}
