//! What the workers of one node stand on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::events::Recorder;
use images::Images;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Service};
use pleg::Observations;
use probes::Probes;
use resources::{Amounts, Enforcement, PodCgroups, PodUsers};
use seams::{SharedClock, SharedHost, SharedRuntime, SharedStorage};
use status::Reports;
use tokio::sync::watch;
use volumes::{Layout, Volumes};

use crate::admission;
use crate::allocation::Actuated;
use crate::backoff::Pace;
use crate::hooks::Hooks;
use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::own_policies::OwnPolicies;
use crate::spec::dns::DnsSettings;
use crate::spec::security::SecuritySettings;
use crate::telling::Telling;
use crate::turns::Turns;

/// What of the node's configuration is about running pods.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What a pod's files are below.
    pub layout: Layout,
    /// `podLogsDir`.
    pub logs: PathBuf,
    /// Where links to the logs of all containers are.
    pub log_links: PathBuf,
    /// `resolvConf`; `None`: pods do not get the node's.
    pub resolv_conf: Option<PathBuf>,
    /// The node's `/etc/hosts`.
    pub hosts_file: PathBuf,
    pub dns: DnsSettings,
    pub security: SecuritySettings,
    /// The gate `EnvFiles`.
    pub env_files: bool,
    pub admission: admission::Settings,
    pub own_policies: OwnPolicies,
    pub resize: admission::ResizeRules,
    /// `crashLoopBackOff.maxContainerRestartPeriod`, `ReduceDefaultCrashLoopBackOffDecay`.
    pub backoff: Pace,
    /// `syncFrequency`.
    pub resync: Duration,
    /// When this agent began.
    pub started: Timestamp,
    /// `ContainerStopSignals`: containers may choose what they are asked to end with.
    pub stop_signals: bool,
    /// How many dead ones of a container are kept; `None`: nobody has said.
    pub dead_kept: Option<usize>,
}

/// What is known of the node, from time to time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    /// As the API server has it, or as it will be.
    pub node: Option<Arc<Node>>,
    /// `containerd`; empty until the runtime has told it.
    pub runtime_name: String,
    /// Why pods cannot have a network.
    pub network_problem: Option<String>,
    /// The first one is the node's.
    pub host_ips: Vec<IpAddr>,
    /// Runtime handlers that can mount read-only all the way down; the default one has
    /// no name.
    pub recursive_read_only: BTreeSet<String>,
    /// By the name of each runtime handler, whether it can give pods users of their own.
    pub user_namespaces: BTreeMap<String, bool>,
    /// What the node can give to pods.
    pub allocatable: Amounts,
    /// What the node's machine has.
    pub capacity: Amounts,
}

/// What workers stand on.
#[derive(Debug)]
pub struct Foundations {
    pub settings: Settings,
    pub clock: SharedClock,
    pub runtime: SharedRuntime,
    pub host: SharedHost,
    pub storage: SharedStorage,
    pub observations: Observations,
    pub images: Images,
    pub volumes: Volumes,
    /// `None` without `cgroupsPerQOS`.
    pub cgroups: Option<PodCgroups>,
    pub enforcement: Enforcement,
    /// Ids for pods with users of their own.
    pub users: PodUsers,
    /// What containers were given.
    pub actuated: Actuated,
    pub reports: Reports,
    pub telling: Telling,
    /// `None` without an API server.
    pub objects: Option<Objects>,
    /// All of the cluster; `None` until they have been read once.
    pub services: watch::Receiver<Option<Arc<Vec<Service>>>>,
    pub node: watch::Receiver<Arc<NodeView>>,
    pub turns: Turns,
    pub hooks: Hooks,
    pub probes: Probes,
    pub metrics: Arc<Metrics>,
}

impl Foundations {
    /// The wall clock, since 1970.
    pub(crate) fn now(&self) -> Duration {
        let since = self.clock.now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap_or_default()
    }

    /// A pause of at least this, and at most half as much more.
    pub(crate) fn spread(&self, pause: Duration) -> Duration {
        spread(pause, self.clock.random())
    }
}

/// By a number from nothing to one.
fn spread(pause: Duration, random: f64) -> Duration {
    pause.mul_f64(1.0 + 0.5 * random)
}

impl Telling {
    pub fn new(recorder: Option<Recorder>) -> Self {
        Self { recorder }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_by_half() {
        let pause = Duration::from_secs(60);
        for (random, expected) in [(0.0, 60), (0.5, 75), (1.0, 90)] {
            assert_eq!(spread(pause, random), Duration::from_secs(expected));
        }
    }
}
