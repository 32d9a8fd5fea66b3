//! What this crate needs to be told, taken from the settings and flags.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use config::settings::Settings;
use k8s_openapi::api::core::v1::Taint;
use seams::Host;
use serde_json::Value;
use thiserror::Error;
use types::quantity::Format;
use types::{CpuSet, GoDuration, Quantity};

use crate::addresses::{Identity, NodeIp, NodeIpError};
use crate::allocatable::{OverReserved, Reservations, Threshold};
use crate::capacity::{self, PodLimit};
use crate::resources::{CPU, Resources};

/// What a node tells of itself, and how often.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub identity: Identity,
    pub registration: Registration,
    pub resources: ResourceConfig,
    pub timing: Timing,
    /// `v1.36.4`.
    pub kubelet_version: String,
    /// Of the node's own API.
    pub port: i32,
    /// `nodeStatusMaxImages`; `None`: all.
    pub most_images: Option<usize>,
    /// What the node can do that not every node can: sorted, each once.
    pub declared_features: Vec<String>,
}

/// What the node's object is given when it is made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registration {
    /// `registerNode`: whether the node makes its object.
    pub wanted: bool,
    /// `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// `registerWithTaints`.
    pub taints: Vec<Taint>,
    /// `providerID`.
    pub provider_id: Option<String>,
    /// `enableControllerAttachDetach`.
    pub attach_detach: bool,
}

/// What is told of the machine's resources.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceConfig {
    pub pods: PodLimit,
    pub reservations: Reservations,
    /// `localStorageCapacityIsolation`.
    pub tell_storage: bool,
    /// `--root-dir`: the file system that is told of.
    pub root_directory: PathBuf,
}

/// How often what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// `nodeStatusUpdateFrequency`: how often the node looks at itself.
    pub update: Duration,
    /// `nodeStatusReportFrequency`: how often it says that nothing changed.
    pub report: Duration,
    /// `nodeLeaseDurationSeconds`.
    pub lease: Duration,
}

/// Flags that no field stands for, and what the binary knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlagValues {
    pub node_name: String,
    /// `--hostname-override`, else the machine's name.
    pub hostname: String,
    /// `--node-ip`.
    pub node_ip: String,
    /// `--node-labels`.
    pub node_labels: BTreeMap<String, String>,
    /// `--cloud-provider`.
    pub cloud_provider: String,
    /// `--root-dir`, absolute.
    pub root_directory: PathBuf,
    /// `--experimental-allocatable-ignore-eviction`.
    pub ignore_eviction: bool,
    /// Told of in the status: `v1.36.4`.
    pub kubelet_version: String,
    /// Of those that this build really has.
    pub declared_features: Vec<String>,
}

/// Why a node cannot be configured so.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error(transparent)]
    NodeIp(#[from] NodeIpError),
    #[error("--cloud-provider {0:?} is not known: leave it out, or use external")]
    CloudProvider(String),
    #[error("{field}: {cause}")]
    Value { field: &'static str, cause: String },
}

impl Config {
    /// Takes what is needed. Beside it texts to warn of: addresses in `--node-ip`
    /// that are none.
    pub fn from_settings(
        settings: &Settings,
        flags: FlagValues,
    ) -> Result<(Self, Vec<String>), ConfigError> {
        let external_cloud = match flags.cloud_provider.as_str() {
            "" => false,
            "external" => true,
            other => return Err(ConfigError::CloudProvider(other.to_owned())),
        };
        let (node_ip, ignored) = NodeIp::read(&flags.node_ip)?;
        let ignored = ignored.into_iter();
        let notices = ignored.map(|text| format!("--node-ip: {text:?} is no IP address, ignored"));
        let mut declared_features = flags.declared_features;
        declared_features.sort();
        declared_features.dedup();
        let config = Self {
            identity: Identity {
                node_name: flags.node_name,
                hostname: flags.hostname,
                node_ip,
                external_cloud,
            },
            registration: Registration::from_settings(settings, flags.node_labels),
            resources: ResourceConfig {
                pods: PodLimit {
                    most: amount(settings, "maxPods"),
                    per_core: amount(settings, "podsPerCore"),
                },
                reservations: reservations(settings, flags.ignore_eviction)?,
                tell_storage: settings.bool("localStorageCapacityIsolation"),
                root_directory: flags.root_directory,
            },
            timing: Timing::from_settings(settings),
            kubelet_version: flags.kubelet_version,
            port: i32::try_from(settings.int("port")).unwrap_or_default(),
            // -1: all of them.
            most_images: usize::try_from(settings.int("nodeStatusMaxImages")).ok(),
            declared_features,
        };
        Ok((config, notices.collect()))
    }
}

impl ResourceConfig {
    /// Whether the machine has what it is told to reserve. One that cannot be
    /// looked at now is given the benefit of the doubt.
    pub(crate) fn check(&self, host: &dyn Host) -> Result<(), OverReserved> {
        let Ok(machine) = host.machine() else {
            return Ok(());
        };
        let disk = self.tell_storage.then(|| host.disk(&self.root_directory));
        let storage = disk.and_then(Result::ok).map(|disk| disk.capacity);
        let capacity = capacity::of_machine(&machine, self.pods, storage);
        self.reservations.check(&capacity)
    }
}

impl Registration {
    fn from_settings(settings: &Settings, labels: BTreeMap<String, String>) -> Self {
        let provider_id = settings.text("providerID");
        Self {
            wanted: settings.bool("registerNode"),
            labels,
            taints: settings
                .list("registerWithTaints")
                .iter()
                .map(taint)
                .collect(),
            provider_id: (!provider_id.is_empty()).then(|| provider_id.to_owned()),
            attach_detach: settings.bool("enableControllerAttachDetach"),
        }
    }
}

impl Timing {
    pub fn from_settings(settings: &Settings) -> Self {
        let lease = settings.int("nodeLeaseDurationSeconds");
        Self {
            update: span(settings.duration("nodeStatusUpdateFrequency")),
            report: span(settings.duration("nodeStatusReportFrequency")),
            lease: Duration::from_secs(u64::try_from(lease).unwrap_or_default()),
        }
    }

    /// How often the lease is renewed: a quarter of its life.
    pub fn renewal(&self) -> Duration {
        self.lease / 4
    }
}

fn span(duration: GoDuration) -> Duration {
    duration.to_std().unwrap_or_default()
}

fn amount(settings: &Settings, path: &str) -> u32 {
    u32::try_from(settings.int(path)).unwrap_or_default()
}

/// Validation has seen to it that it is one.
fn taint(value: &Value) -> Taint {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    Taint {
        key: text("key"),
        value: Some(text("value")).filter(|value| !value.is_empty()),
        effect: text("effect"),
        time_added: None,
    }
}

fn reservations(settings: &Settings, ignore_eviction: bool) -> Result<Reservations, ConfigError> {
    let mut system = reserved(settings, "systemReserved")?;
    let mut kube = reserved(settings, "kubeReserved")?;
    let cpus = settings.text("reservedSystemCPUs");
    let cpus: CpuSet = cpus.parse().map_err(|error| ConfigError::Value {
        field: "reservedSystemCPUs",
        cause: format!("{error}"),
    })?;
    if !cpus.is_empty() {
        let count = i64::try_from(cpus.len()).unwrap_or(i64::MAX);
        system.insert(CPU.to_owned(), Quantity::new(count, Format::DecimalSi));
        kube.remove(CPU);
    }
    let threshold = |signal: &str| {
        let mut entries = settings.entries("evictionHard");
        let value = entries.find(|(key, _)| *key == signal && !ignore_eviction);
        value.and_then(|(_, value)| Threshold::read(value.as_str()?))
    };
    Ok(Reservations {
        memory_threshold: threshold("memory.available"),
        storage_threshold: threshold("nodefs.available"),
        system,
        kube,
    })
}

fn reserved(settings: &Settings, field: &'static str) -> Result<Resources, ConfigError> {
    let entries = settings.entries(field);
    let read = entries.map(|(name, value)| {
        let text = value.as_str().unwrap_or_default();
        let amount = text.parse().map_err(|error| ConfigError::Value {
            field,
            cause: format!("{name}: {error}"),
        })?;
        Ok((name.to_owned(), amount))
    });
    read.collect()
}

#[cfg(test)]
mod tests;
