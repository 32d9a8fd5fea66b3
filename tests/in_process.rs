//! An agent in the test's own process, on a simulated machine: what it is given. The real
//! machine is the host, whose cgroups and logs are none of a test's.
//!
//! Shared by the test targets that run one: each takes it in as a module.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::{PodFlags, PodsConfig, Seams};
use anyhow::{Result, anyhow};
use api::kubeconfig::Surroundings;
use api::metrics::ClientMetrics;
use api::transport::Options;
use config::flags::CommandLine;
use config::load;
use identity::client::Dial;
use images::records::Records;
use jiff::tz::TimeZone;
use node::addresses::{Identity, NodeIp};
use node::allocatable::Reservations;
use node::capacity::PodLimit;
use node::config::{Registration, ResourceConfig, Timing};
use prometheus::Registry;
use resources::garbage::Limits;
use rustls::crypto::ring;
use seams::SharedClock;
use sim::{Faults, Machine};
use testkit::lab::KUBERNETES;
use tokio::sync::watch;
use types::figures::Boards;

/// What every connection here is made with.
pub(crate) fn options(clock: SharedClock) -> Options {
    Options {
        clock,
        provider: Arc::new(ring::default_provider()),
        user_agent: "ferrolet-in-process".to_owned(),
        surroundings: Surroundings {
            environment: BTreeMap::new(),
            terminal: false,
            timeout: Duration::from_secs(60),
        },
        environment_proxy: None,
        metrics: ClientMetrics::new(),
    }
}

pub(crate) fn node_config(name: &str, directory: &Path, timing: Timing) -> node::Config {
    node::Config {
        identity: Identity {
            node_name: name.to_owned(),
            hostname: name.to_owned(),
            node_ip: NodeIp::Unset,
            external_cloud: false,
        },
        registration: Registration {
            wanted: true,
            attach_detach: true,
            ..Registration::default()
        },
        resources: ResourceConfig {
            pods: PodLimit {
                most: 110,
                per_core: 0,
            },
            reservations: Reservations::default(),
            tell_storage: true,
            root_directory: directory.to_owned(),
        },
        timing,
        kubelet_version: KUBERNETES.to_owned(),
        port: 10_250,
        most_images: Some(50),
        declared_features: Vec::new(),
    }
}

/// As a kubelet without any configuration.
pub(crate) fn pods_config() -> Result<PodsConfig> {
    let line = CommandLine::parse(&[]).map_err(|error| anyhow!("{error}"))?;
    let loaded = load::resolve(&line, Path::new("/")).map_err(|error| anyhow!("{error}"))?;
    let flags = PodFlags {
        root_directory: "/var/lib/kubelet".into(),
        home: None,
        working: None,
        kernel: "6.12".to_owned(),
        cpus: 2,
        records: Arc::new(Records::in_memory()),
        plugins: None,
        garbage: Limits::default(),
        pod_resources: None,
        runtime_group: None,
        zone: TimeZone::UTC,
    };
    let pods = PodsConfig::from_settings(&loaded.settings, &loaded.gates, &flags)?;
    Ok(pods)
}

/// To be called inside the agent's runtime. Beside the seams, what runs the pods: it can be
/// looked at from outside.
pub(crate) fn seams(name: &str, options: Options) -> (Seams, Arc<sim::Runtime>) {
    let dialed = options.clone();
    let dial: Dial = Arc::new(move |_| Ok(dialed.clone()));
    let address = IpAddr::from([198, 18, 0, 1]);
    let machine = Arc::new(Machine::new(name, Arc::default(), address));
    let healthy = watch::channel(Faults::default()).1;
    let runtime = sim::Runtime::new(Arc::default(), options.clock.clone(), healthy);
    let runtime = Arc::new(runtime);
    let seams = Seams {
        options,
        dial,
        storage: machine.clone(),
        host: machine,
        net: runtime.clone(),
        runtime: runtime.clone(),
        registry: Registry::new(),
        figures: Boards::default(),
        process_id: std::process::id(),
    };
    (seams, runtime)
}
