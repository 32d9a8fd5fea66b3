//! One hollow node: a whole agent on a simulated machine.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use agent::{
    Access, Config, DoorConfig, Membership, Place, PodFlags, PodsConfig, PodsConfigError, Rates,
    Seams, ServingSource, SharedObjects,
};
use api::objects::{Nodes, PodsByNode, Referenced, RuntimeClasses, Services, ServicesSeen};
use api::transport::Options;
use config::gates::FeatureGates;
use config::settings::Settings;
use identity::client::{Dial, Wanted};
use images::records::Records;
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use node::config::ConfigError;
use node::{Clients, FlagValues};
use prometheus::Registry;
use resources::garbage::Limits;
use seams::SharedClock;
use sim::{Faults, Machine};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use types::figures::Boards;

use crate::spec::{NodeSpec, ZONE_LABEL};

/// What the nodes of a fleet have in common.
#[derive(Clone)]
pub struct Common {
    /// The kubelet's configuration, which holds for each of them.
    pub settings: Settings,
    pub gates: FeatureGates,
    /// Said by nodes that are not told otherwise.
    pub kubelet_version: String,
    pub options: Options,
    pub dial: Dial,
    pub connections: Connections,
    /// `None`: nobody listens.
    pub doors: Option<Doors>,
    pub process_id: u32,
}

/// The ports of nodes: each has its own, at the address of the machine that all run on.
#[derive(Clone, Debug)]
pub struct Doors {
    /// What they have in common: all but the number.
    pub config: DoorConfig,
    /// Where the API server reaches them.
    pub address: IpAddr,
    pub ports: RangeInclusive<u16>,
    /// What each finds on its machine: the CA of clients.
    pub files: Arc<BTreeMap<PathBuf, Vec<u8>>>,
}

impl Doors {
    pub(crate) fn places(&self) -> (IpAddr, RangeInclusive<u16>) {
        (self.address, self.ports.clone())
    }

    fn at(&self, port: u16) -> DoorConfig {
        let mut config = self.config.clone();
        config.address.set_port(port);
        // There is one number for it, and there are many nodes.
        config.read_only = None;
        config
    }
}

/// As whom the nodes speak with the API server, and over what.
#[derive(Clone, Debug)]
pub enum Connections {
    /// All as one.
    Shared(Box<SharedConnections>),
    /// Each as itself, with a certificate that it asks for.
    Own {
        bootstrap_kubeconfig: PathBuf,
        /// A directory for each node is made below it.
        state: PathBuf,
        zone: TimeZone,
    },
}

/// What nodes that speak as one have in common.
#[derive(Clone, Debug)]
pub struct SharedConnections {
    pub clients: Clients,
    /// Their objects.
    pub nodes: Nodes,
    /// Their pods, and what these refer to.
    pods: PodsByNode,
    services: ServicesSeen,
    config_maps: Referenced<ConfigMap>,
    secrets: Referenced<Secret>,
    runtime_classes: RuntimeClasses,
}

/// Follows what nodes that speak as one have in common. Runs as one task.
#[derive(Debug)]
pub struct Followers {
    nodes: Nodes,
    pods: PodsByNode,
    services: Services,
    /// The watches of what pods refer to.
    tasks: TaskTracker,
    ending: CancellationToken,
}

impl SharedConnections {
    /// `ours` is the label of the fleet's nodes.
    pub fn new(clients: Clients, clock: &SharedClock, ours: String) -> (Self, Followers) {
        let requests = || clients.requests.clone();
        let nodes = Nodes::new(requests(), clock.clone(), ours);
        let pods = PodsByNode::new(requests(), clock.clone(), Arc::new(|_| true));
        let (services, services_seen) = Services::new(requests(), clock.clone());
        let (tasks, ending) = (TaskTracker::new(), CancellationToken::new());
        let shared = Self {
            nodes: nodes.clone(),
            pods: pods.clone(),
            services: services_seen,
            config_maps: Referenced::new(requests(), clock.clone(), tasks.clone(), ending.clone()),
            secrets: Referenced::new(requests(), clock.clone(), tasks.clone(), ending.clone()),
            runtime_classes: RuntimeClasses::new(
                requests(),
                clock.clone(),
                tasks.clone(),
                ending.clone(),
            ),
            clients,
        };
        let followers = Followers {
            nodes,
            pods,
            services,
            tasks,
            ending,
        };
        (shared, followers)
    }

    fn objects(&self, node: &str) -> SharedObjects {
        SharedObjects {
            pods: self.pods.follow(node),
            services: self.services.clone(),
            config_maps: self.config_maps.clone(),
            secrets: self.secrets.clone(),
            runtime_classes: self.runtime_classes.clone(),
        }
    }
}

impl Followers {
    /// Follows until told to stop.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::join!(
            self.nodes.run(shutdown.clone()),
            self.pods.run(shutdown.clone()),
            self.services.run(shutdown),
        );
        self.ending.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Why there cannot be such a node.
#[derive(Debug, Error)]
pub enum HollowError {
    #[error(transparent)]
    Node(#[from] ConfigError),
    #[error(transparent)]
    Pods(#[from] PodsConfigError),
}

impl fmt::Debug for Common {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Common").finish_non_exhaustive()
    }
}

impl Common {
    /// What an agent is given to be this node.
    pub(crate) fn node(
        &self,
        spec: &NodeSpec,
        address: SocketAddr,
        faults: watch::Receiver<Faults>,
    ) -> Result<(Config, Seams), HollowError> {
        let membership = Membership {
            access: self.access(&spec.name),
            node: self.config(spec, address)?,
        };
        let config = Config {
            place: Place::Cluster(Box::new(membership)),
            serving: self.serving(&spec.name),
            door: self.doors.as_ref().map(|doors| doors.at(address.port())),
            // Thousands of nodes have one address, and there is one number for it.
            healthz: None,
            pods: self.pods(spec)?,
        };
        let clock = self.options.clock.clone();
        let runtime = sim::Runtime::new(spec.kind.runtime.clone(), clock, faults.clone());
        let runtime = Arc::new(runtime);
        let files = self.doors.as_ref().map(|doors| doors.files.clone());
        let machine = Machine::new(&spec.name, spec.kind.machine.clone(), address.ip())
            .with_files(files.unwrap_or_default())
            .ailing(faults)
            .running(runtime.clone());
        let machine = Arc::new(machine);
        let seams = Seams {
            options: self.options.clone(),
            dial: self.dial.clone(),
            storage: machine.clone(),
            host: machine,
            net: runtime.clone(),
            runtime,
            registry: Registry::new(),
            figures: Boards::default(),
            process_id: self.process_id,
        };
        Ok((config, seams))
    }

    fn pods(&self, spec: &NodeSpec) -> Result<PodsConfig, PodsConfigError> {
        let machine = &spec.kind.machine;
        let flags = PodFlags {
            root_directory: PathBuf::from("/var/lib/kubelet"),
            home: None,
            working: None,
            kernel: machine.kernel_release.clone(),
            cpus: usize::try_from(machine.cpus).unwrap_or(1),
            records: Arc::new(Records::in_memory()),
            plugins: None,
            garbage: Limits::default(),
            // A hollow node's directories are in memory.
            pod_resources: None,
            runtime_group: None,
            zone: TimeZone::UTC,
        };
        PodsConfig::from_settings(&self.settings, &self.gates, &flags)
    }

    fn config(&self, spec: &NodeSpec, address: SocketAddr) -> Result<node::Config, ConfigError> {
        let kind = &spec.kind;
        let zone = spec.zone.clone().map(|zone| (ZONE_LABEL.to_owned(), zone));
        let flags = FlagValues {
            node_name: spec.name.clone(),
            hostname: spec.name.clone(),
            node_ip: address.ip().to_string(),
            node_labels: kind.labels.clone().into_iter().chain(zone).collect(),
            root_directory: PathBuf::from("/var/lib/kubelet"),
            kubelet_version: match &kind.kubelet_version {
                Some(version) => version.clone(),
                None => self.kubelet_version.clone(),
            },
            ..FlagValues::default()
        };
        let (mut config, _) = node::Config::from_settings(&self.settings, flags)?;
        config
            .registration
            .taints
            .extend(kind.taints.iter().cloned());
        if let Some(pods) = kind.pods {
            config.resources.pods.most = pods;
        }
        config.port = address.port().into();
        Ok(config)
    }

    fn access(&self, name: &str) -> Access {
        match &self.connections {
            Connections::Shared(shared) => Access::Shared {
                clients: shared.clients.clone(),
                own_node: shared.nodes.follow(name),
                objects: Box::new(shared.objects(name)),
            },
            Connections::Own {
                bootstrap_kubeconfig,
                state,
                zone,
            } => Access::Own {
                identity: Wanted {
                    node_name: name.to_owned(),
                    kubeconfig: state.join(name).join("kubelet.conf"),
                    bootstrap_kubeconfig: Some(bootstrap_kubeconfig.clone()),
                    directory: state.join(name).join("pki"),
                    rotate: true,
                    zone: zone.clone(),
                },
                rates: Rates::from_settings(&self.settings),
            },
        }
    }

    /// Only those who are somebody can ask for a certificate. The others sign their own, and
    /// those without a place for it each time anew.
    fn serving(&self, name: &str) -> Option<ServingSource> {
        let directory = match &self.connections {
            Connections::Own { state, zone, .. } => {
                let directory = state.join(name).join("pki");
                if self.settings.bool("serverTLSBootstrap") {
                    return Some(ServingSource::Signer {
                        dns_only: false,
                        directory,
                        zone: zone.clone(),
                    });
                }
                Some(directory)
            }
            Connections::Shared(_) => None,
        };
        self.doors.is_some().then(|| ServingSource::SelfSigned {
            host: name.to_owned(),
            directory,
        })
    }
}
