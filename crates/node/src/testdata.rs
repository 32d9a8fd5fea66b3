//! A machine, a runtime and a configuration of which upstream's status is known.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use seams::Host;
use seams::host::{
    Answer, DefaultRoute, DiskFigures, Hint, HostError, HugePages, Interface, Listing, MachineFacts,
};
use serde_json::Value;

use crate::addresses::{Identity, Network, NodeIp};
use crate::allocatable::{Reservations, Threshold};
use crate::capacity::PodLimit;
use crate::config::{Config, Registration, ResourceConfig, Timing};
use crate::observe::Observed;
use crate::readiness::CsiNodeState;
use crate::resources::Resources;
use crate::runtime::{
    NETWORK_READY, RUNTIME_READY, RuntimeCondition, RuntimeFacts, RuntimeHandler, RuntimeImage,
};

/// The Node object that an upstream kubelet made of this machine.
pub(crate) fn oracle() -> Value {
    serde_json::from_str(include_str!("../testdata/node.json")).unwrap()
}

pub(crate) fn machine() -> MachineFacts {
    let pages = |size| HugePages { size, count: 0 };
    MachineFacts {
        hostname: "up1".to_owned(),
        machine_id: "3d1219c7c4c5404aaa1f6d2a48adfda4".to_owned(),
        system_uuid: "3d1219c7c4c5404aaa1f6d2a48adfda4".to_owned(),
        boot_id: "bff9b12a-90bb-47c4-a928-59cdc4b916f9".to_owned(),
        kernel_release: "6.18.44-fc-v490".to_owned(),
        os_image: "Debian GNU/Linux 12 (bookworm)".to_owned(),
        architecture: "amd64".to_owned(),
        cpus: 2,
        memory: 24_684_100 * 1024,
        swap: 0,
        page: 4096,
        huge_pages: vec![pages(2 << 20), pages(1 << 30)],
        cgroup_v1: true,
        selinux: false,
        app_armor: false,
    }
}

pub(crate) fn interfaces() -> Vec<Interface> {
    let interface = |name: &str, address: &str| Interface {
        name: name.to_owned(),
        up: true,
        loopback: name == "lo",
        point_to_point: false,
        addresses: vec![address.parse().unwrap()],
    };
    vec![interface("lo", "127.0.0.1"), interface("eth0", "10.86.0.1")]
}

pub(crate) fn routes() -> Vec<DefaultRoute> {
    vec![DefaultRoute {
        ipv6: false,
        interface: "eth0".to_owned(),
    }]
}

/// A runtime that was asked and did not answer.
pub(crate) fn no_runtime() -> RuntimeFacts {
    RuntimeFacts {
        probed: true,
        ..RuntimeFacts::default()
    }
}

/// A runtime that was ready at `uptime`.
pub(crate) fn runtime(uptime: Duration) -> RuntimeFacts {
    let handler = |name: &str| RuntimeHandler {
        name: name.to_owned(),
        recursive_read_only_mounts: true,
        user_namespaces: false,
    };
    RuntimeFacts {
        probed: true,
        name: "containerd".to_owned(),
        version: Some("v2.1.9+unknown".to_owned()),
        last_good_status: Some(uptime),
        conditions: Some(vec![
            RuntimeCondition::ready(RUNTIME_READY),
            RuntimeCondition::ready(NETWORK_READY),
        ]),
        handlers: vec![handler("runc"), handler("")],
        supplemental_groups_policy: Some(true),
        images: images(),
    }
}

/// The oracle's, in another order and with digests apart.
fn images() -> Vec<RuntimeImage> {
    let mut images: Vec<RuntimeImage> = oracle()["status"]["images"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(index, image)| {
            let names = image["names"].as_array().unwrap().iter();
            RuntimeImage {
                id: format!("sha256:{index}"),
                repo_digests: Vec::new(),
                repo_tags: names
                    .map(|name| name.as_str().unwrap().to_owned())
                    .collect(),
                size: image["sizeBytes"].as_u64().unwrap(),
            }
        })
        .collect();
    images.reverse();
    images
}

pub(crate) fn config() -> Config {
    let features = oracle()["status"]["declaredFeatures"].clone();
    Config {
        identity: Identity {
            node_name: "up1".to_owned(),
            hostname: "up1".to_owned(),
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
            reservations: Reservations {
                memory_threshold: Threshold::read("100Mi"),
                // As that kubelet was configured.
                storage_threshold: Threshold::read("1%"),
                ..Reservations::default()
            },
            tell_storage: true,
            root_directory: PathBuf::from("/var/lib/kubelet"),
        },
        timing: Timing {
            update: Duration::from_secs(10),
            report: Duration::from_secs(300),
            lease: Duration::from_secs(40),
        },
        kubelet_version: "v1.36.4".to_owned(),
        port: 10_250,
        most_images: Some(50),
        declared_features: serde_json::from_value(features).unwrap(),
    }
}

pub(crate) fn observed() -> Observed {
    let uptime = Duration::from_secs(100);
    Observed {
        now: Timestamp::from_second(1_800_000_000).unwrap(),
        uptime,
        machine: Some(machine()),
        storage: Some(264_212_084 * 1024),
        network: Network {
            interfaces: interfaces(),
            routes: Some(routes()),
            looked_up: Vec::new(),
        },
        runtime: runtime(uptime),
        csi_node: CsiNodeState::Done,
        ..Observed::default()
    }
}

/// Reads `cpu=2 memory=1Gi`.
pub(crate) fn resources(text: &str) -> Resources {
    let pairs = text
        .split_whitespace()
        .map(|pair| pair.split_once('=').unwrap());
    pairs
        .map(|(name, amount)| (name.to_owned(), amount.parse().unwrap()))
        .collect()
}

pub(crate) fn printed(resources: &Resources) -> String {
    let pairs = resources.iter();
    let pairs: Vec<String> = pairs
        .map(|(name, amount)| format!("{name}={amount}"))
        .collect();
    pairs.join(" ")
}

/// The machine above, behind the seam.
#[derive(Debug)]
pub(crate) struct TestHost {
    pub(crate) machine: Mutex<Option<MachineFacts>>,
}

impl TestHost {
    pub(crate) fn new() -> Self {
        Self {
            machine: Mutex::new(Some(machine())),
        }
    }
}

impl Host for TestHost {
    fn machine(&self) -> Result<MachineFacts, HostError> {
        let machine = self.machine.lock().unwrap().clone();
        machine.ok_or_else(|| HostError::new("/proc", io::Error::other("gone")))
    }

    fn disk(&self, path: &Path) -> Result<DiskFigures, HostError> {
        assert_eq!(path, Path::new("/var/lib/kubelet"));
        Ok(DiskFigures {
            capacity: 264_212_084 * 1024,
            ..DiskFigures::default()
        })
    }

    fn interfaces(&self) -> Result<Vec<Interface>, HostError> {
        Ok(interfaces())
    }

    fn default_routes(&self) -> Result<Option<Vec<DefaultRoute>>, HostError> {
        Ok(Some(routes()))
    }

    fn resolve<'a>(&'a self, name: &'a str) -> Answer<'a, Vec<IpAddr>> {
        Box::pin(async move { Err(HostError::new(name, io::Error::other("unknown name"))) })
    }

    fn read(&self, _path: &Path) -> Result<Option<Vec<u8>>, HostError> {
        Ok(None)
    }

    fn list(&self, _path: &Path) -> Result<Option<Listing>, HostError> {
        Ok(None)
    }

    fn hint(&self, _path: &Path) -> Hint {
        Box::pin(std::future::pending())
    }

    fn write(&self, path: &Path, _content: &[u8], _mode: u32) -> Result<(), HostError> {
        Err(HostError::at(path, io::Error::other("read only")))
    }
}
