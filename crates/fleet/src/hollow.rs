//! One hollow node: a whole agent on a simulated machine.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use agent::{Access, Config, Membership, Place, Rates, Seams, ServingSource};
use api::objects::Nodes;
use api::transport::Options;
use config::settings::Settings;
use identity::client::{Dial, Wanted};
use jiff::tz::TimeZone;
use node::config::ConfigError;
use node::{Clients, FlagValues};
use prometheus::Registry;
use sim::{Faults, Machine};
use tokio::sync::watch;

use crate::spec::{NodeSpec, ZONE_LABEL};

/// What the nodes of a fleet have in common.
#[derive(Clone)]
pub struct Common {
    /// The kubelet's configuration, which holds for each of them.
    pub settings: Settings,
    /// Said by nodes that are not told otherwise.
    pub kubelet_version: String,
    pub options: Options,
    pub dial: Dial,
    pub connections: Connections,
    pub process_id: u32,
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
        address: IpAddr,
        faults: watch::Receiver<Faults>,
    ) -> Result<(Config, Seams), ConfigError> {
        let membership = Membership {
            access: self.access(&spec.name),
            node: self.config(spec, address)?,
        };
        let config = Config {
            place: Place::Cluster(Box::new(membership)),
            serving: self.serving(&spec.name),
            healthz: None,
        };
        let clock = self.options.clock.clone();
        let machine =
            Machine::new(&spec.name, spec.kind.machine.clone(), address).ailing(faults.clone());
        let runtime = sim::Runtime::new(spec.kind.runtime.clone(), clock, faults);
        let seams = Seams {
            options: self.options.clone(),
            dial: self.dial.clone(),
            host: Arc::new(machine),
            runtime: Arc::new(runtime),
            registry: Registry::new(),
            process_id: self.process_id,
        };
        Ok((config, seams))
    }

    fn config(&self, spec: &NodeSpec, address: IpAddr) -> Result<node::Config, ConfigError> {
        let kind = &spec.kind;
        let zone = spec.zone.clone().map(|zone| (ZONE_LABEL.to_owned(), zone));
        let flags = FlagValues {
            node_name: spec.name.clone(),
            hostname: spec.name.clone(),
            node_ip: address.to_string(),
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
        // Nobody listens there yet.
        config.port = 0;
        Ok(config)
    }

    fn access(&self, name: &str) -> Access {
        match &self.connections {
            Connections::Shared(shared) => Access::Shared {
                clients: shared.clients.clone(),
                own_node: shared.nodes.follow(name),
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

    /// A certificate of its own is for those who are somebody.
    fn serving(&self, name: &str) -> Option<ServingSource> {
        let Connections::Own { state, zone, .. } = &self.connections else {
            return None;
        };
        let wanted = self.settings.bool("serverTLSBootstrap");
        wanted.then(|| ServingSource::Signer {
            dns_only: false,
            directory: state.join(name).join("pki"),
            zone: zone.clone(),
        })
    }
}
