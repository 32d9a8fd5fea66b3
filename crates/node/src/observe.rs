//! One look at everything that a node tells of itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use seams::host::MachineFacts;
use seams::{SharedClock, SharedHost};
use tokio::sync::watch;
use tracing::warn;

use crate::addresses::Network;
use crate::capacity::Devices;
use crate::conditions::Pressure;
use crate::config::Config;
use crate::readiness::{Ailments, CsiNodeState, Signs};
use crate::runtime::RuntimeFacts;

/// How long the resolver may take over the node's name.
const LOOKUP_PATIENCE: Duration = Duration::from_secs(5);

/// How long the first words about the node wait for the runtime.
const FIRST_PROBE: Duration = Duration::from_secs(10);

/// What was seen at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub now: Timestamp,
    pub uptime: Duration,
    /// `None`: the machine cannot be looked at.
    pub machine: Option<MachineFacts>,
    /// Bytes of the file system with the node's files, where that is told of.
    pub storage: Option<u64>,
    pub network: Network,
    pub runtime: RuntimeFacts,
    pub pressure: Pressure,
    pub csi_node: CsiNodeState,
    pub ailments: Ailments,
    pub devices: Devices,
    /// `None`: not known yet; what the object says stays.
    pub volumes_in_use: Option<Vec<String>>,
    /// What could not be looked at.
    pub problems: Vec<String>,
}

/// What other parts publish about the node.
#[derive(Clone, Debug)]
pub struct Reports {
    pub runtime: watch::Receiver<RuntimeFacts>,
    pub pressure: watch::Receiver<Pressure>,
    pub ailments: watch::Receiver<Ailments>,
    pub devices: watch::Receiver<Devices>,
    pub volumes_in_use: watch::Receiver<Option<Vec<String>>>,
}

/// Looks at the machine and at what other parts publish.
#[derive(Debug)]
pub struct Observer {
    pub(crate) config: Arc<Config>,
    pub(crate) host: SharedHost,
    pub(crate) clock: SharedClock,
    pub(crate) reports: Reports,
    pub(crate) csi_node: watch::Receiver<CsiNodeState>,
    /// Problems said last, so that each is said once. Held for a comparison only.
    pub(crate) said: Mutex<Vec<String>>,
}

impl Observed {
    /// What readiness depends on.
    pub fn signs(&self) -> Signs<'_> {
        Signs {
            runtime: &self.runtime,
            uptime: self.uptime,
            csi_node: &self.csi_node,
            ailments: &self.ailments,
        }
    }
}

impl Observer {
    /// Looks at everything. What cannot be seen is left out and named.
    pub async fn look(&self) -> Observed {
        let mut problems = Vec::new();
        let machine = kept(self.host.machine(), "the machine", &mut problems);
        let root = &self.config.resources.root_directory;
        let storage = self.config.resources.tell_storage.then(|| {
            kept(self.host.disk(root), "the disk", &mut problems).map(|disk| disk.capacity)
        });
        let network = self.network(&mut problems).await;
        Observed {
            machine,
            problems,
            storage: storage.flatten(),
            network,
            ..self.published()
        }
    }

    /// The part of it that costs nothing: what others publish.
    pub(crate) fn published(&self) -> Observed {
        Observed {
            now: seconds(&self.clock),
            uptime: self.clock.uptime(),
            runtime: self.reports.runtime.borrow().clone(),
            pressure: *self.reports.pressure.borrow(),
            csi_node: self.csi_node.borrow().clone(),
            ailments: self.reports.ailments.borrow().clone(),
            devices: self.reports.devices.borrow().clone(),
            volumes_in_use: self.reports.volumes_in_use.borrow().clone(),
            ..Observed::default()
        }
    }

    /// Whether nothing that is published keeps the node from being ready.
    pub(crate) fn may_be_ready(&self) -> bool {
        let (runtime, csi_node) = (self.reports.runtime.borrow(), self.csi_node.borrow());
        let signs = Signs {
            runtime: &runtime,
            uptime: self.clock.uptime(),
            csi_node: &csi_node,
            ailments: &self.reports.ailments.borrow(),
        };
        signs.problems().is_empty()
    }

    /// Waits for the first answer of the runtime, or its first silence; but not
    /// for ever, as the node has other things to tell.
    pub(crate) async fn first_probe(&self) {
        let mut runtime = self.reports.runtime.clone();
        let probed = runtime.wait_for(|runtime| runtime.probed);
        if seams::timeout(&*self.clock, FIRST_PROBE, probed)
            .await
            .is_err()
        {
            warn!(
                node = self.config.identity.node_name,
                "the container runtime has not answered yet; the node is registered without it"
            );
        }
    }

    async fn network(&self, problems: &mut Vec<String>) -> Network {
        let identity = &self.config.identity;
        let looked_up = if identity.needs_lookup() {
            // A name that nobody knows is nothing to speak of: the route decides.
            let answer = self.host.resolve(&identity.node_name);
            let answer = seams::timeout(&*self.clock, LOOKUP_PATIENCE, answer).await;
            answer.ok().and_then(Result::ok).unwrap_or_default()
        } else {
            Vec::new()
        };
        let interfaces = kept(self.host.interfaces(), "the interfaces", problems);
        let routes = kept(self.host.default_routes(), "the routes", problems);
        Network {
            interfaces: interfaces.unwrap_or_default(),
            // Routes that cannot be read are none, not a reason to guess.
            routes: routes.unwrap_or_else(|| Some(Vec::new())),
            looked_up,
        }
    }

    /// Once per change, not once per look.
    pub(crate) fn say(&self, problems: Vec<String>) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        for problem in problems.iter().filter(|problem| !said.contains(problem)) {
            warn!(
                node = self.config.identity.node_name,
                err = problem,
                "a part of the node's status cannot be told"
            );
        }
        *said = problems;
    }
}

fn kept<T>(
    answer: Result<T, seams::host::HostError>,
    what: &str,
    problems: &mut Vec<String>,
) -> Option<T> {
    answer
        .map_err(|error| problems.push(format!("{what} cannot be looked at: {error}")))
        .ok()
}

/// The wall clock as the API's objects hold it.
pub(crate) fn seconds(clock: &SharedClock) -> Timestamp {
    let now = Timestamp::try_from(clock.now()).unwrap_or_default();
    Timestamp::from_second(now.as_second()).unwrap_or_default()
}

/// The pod networks of a node, as the runtime is told of them.
pub fn pod_cidrs(node: &Node) -> Option<String> {
    let cidrs = node.spec.as_ref()?.pod_cidrs.as_ref()?;
    (!cidrs.is_empty()).then(|| cidrs.join(","))
}
