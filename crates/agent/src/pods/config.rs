//! What of a node's configuration is about its pods.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::gates::FeatureGates;
use config::settings::Settings;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use images::credentials::{Places, plugins};
use images::records::Records;
use jiff::tz::TimeZone;
use resources::cgroups::NotAName;
use resources::garbage::Limits;
use resources::logs::Policy;
use resources::users::UsersConfig;
use resources::{Amounts, CgroupDriver, CgroupName};
use server::stats::SystemGroups;
use thiserror::Error;
use types::quantity::Format;
use types::{CpuSet, Quantity};
use volumes::Layout;
use workers::OwnPolicies;
use workers::admission;
use workers::allocation::Scope;
use workers::backoff::Pace;
use workers::spec::dns::DnsSettings;
use workers::spec::security::SecuritySettings;

/// Where nothing else is said.
const DEFAULT_IDS_PER_POD: u32 = 65_536;

/// What a node is to do with pods.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct PodsConfig {
    pub(crate) sources: SourcesConfig,
    pub(crate) directories: Directories,
    pub(crate) dns: DnsSettings,
    pub(crate) security: SecuritySettings,
    pub(crate) admission: admission::Settings,
    pub(crate) images: images::Config,
    pub(crate) docker: Places,
    pub(crate) records: Arc<Records>,
    pub(crate) plugins: Option<plugins::Loaded>,
    pub(crate) cgroups: Option<CgroupConfig>,
    pub(crate) enforcing: Enforcing,
    /// What is not for pods: `kubeReserved` and `systemReserved`.
    pub(crate) reserved: Vec<Amounts>,
    pub(crate) users: UsersConfig,
    pub(crate) env_files: bool,
    /// `ClusterTrustBundleProjection`.
    pub(crate) trust_bundles: bool,
    pub(crate) garbage: Limits,
    pub(crate) own_policies: OwnPolicies,
    /// `None`: logs are not rotated.
    pub(crate) rotation: Option<Policy>,
    pub(crate) zone: TimeZone,
    pub(crate) resize: admission::ResizeRules,
    pub(crate) backoff: Pace,
    pub(crate) resync: Duration,
    /// `ContainerStopSignals`.
    pub(crate) stop_signals: bool,
    /// So many pods are in the runtime's hands at a time.
    pub(crate) at_once: usize,
    pub(crate) changes: Changes,
    /// `volumeStatsAggPeriod`; `None`: volumes are not counted.
    pub(crate) volume_figures: Option<Duration>,
    /// `localStorageCapacityIsolation`: pods are held to their limits of the disk.
    pub(crate) local_storage: bool,
    /// Groups beside those of pods that are told of.
    pub(crate) system: SystemGroups,
    pub(crate) pod_resources: Option<PathBuf>,
    /// For those who ask what is on.
    pub(crate) gates: FeatureGates,
}

/// `configMapAndSecretChangeDetectionStrategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    Watched,
    /// Asked for, and believed for as long as the node's object says.
    Cached,
    Asked,
}

/// Where pods come from, beside the API server.
#[derive(Clone, Debug)]
pub(crate) struct SourcesConfig {
    pub(crate) path: Option<PathBuf>,
    pub(crate) path_period: Duration,
    pub(crate) url: Option<(String, HeaderMap)>,
    pub(crate) url_period: Duration,
    pub(crate) forbid_references: bool,
}

/// Where things are on the machine.
#[derive(Clone, Debug)]
pub(crate) struct Directories {
    pub(crate) layout: Layout,
    pub(crate) logs: PathBuf,
    pub(crate) log_links: PathBuf,
    pub(crate) resolv_conf: Option<PathBuf>,
    pub(crate) hosts_file: PathBuf,
}

/// `cgroupsPerQOS` and what goes with it.
#[derive(Clone, Debug)]
pub(crate) struct CgroupConfig {
    /// Where the runtime does not say.
    pub(crate) driver: CgroupDriver,
    pub(crate) root: CgroupName,
    pub(crate) processes: i64,
    /// `enforceNodeAllocatable` has `pods`.
    pub(crate) enforce_pods: bool,
}

/// What pods are kept to.
#[derive(Clone, Debug)]
pub(crate) struct Enforcing {
    pub(crate) cpu_quota: bool,
    pub(crate) quota_period: Duration,
    pub(crate) kill_single_process: Option<bool>,
    pub(crate) limited_swap: bool,
    pub(crate) memory_qos: Option<MemoryQosConfig>,
}

/// The gate `MemoryQoS` and what goes with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryQosConfig {
    pub(crate) throttling: f64,
    pub(crate) reserve: bool,
}

/// What the process knows and the settings do not.
#[derive(Clone, Debug)]
pub struct PodFlags {
    pub root_directory: PathBuf,
    /// Where the process's user keeps docker's configuration, and where it runs.
    pub home: Option<PathBuf>,
    pub working: Option<PathBuf>,
    pub kernel: String,
    pub cpus: usize,
    pub records: Arc<Records>,
    /// Credential provider plugins, if some are configured.
    pub plugins: Option<plugins::Loaded>,
    pub garbage: Limits,
    /// The socket on which programs of the machine ask what pods were given; `None`:
    /// there is none.
    pub pod_resources: Option<PathBuf>,
    /// The group that the container runtime is in, for its figures.
    pub runtime_group: Option<PathBuf>,
    /// In which the node's people tell the time.
    pub zone: TimeZone,
}

/// Why pods cannot be run like this.
#[derive(Debug, Error)]
pub enum PodsConfigError {
    #[error("cgroupRoot: {0}")]
    CgroupRoot(#[from] NotAName),
    #[error("staticPodURLHeader {name:?} is no header: {cause}")]
    Header { name: String, cause: http::Error },
}

impl PodsConfig {
    /// Takes what is needed; the configuration has been validated.
    pub fn from_settings(
        settings: &Settings,
        gates: &FeatureGates,
        flags: &PodFlags,
    ) -> Result<Self, PodsConfigError> {
        let duration = |path| settings.duration(path).to_std().unwrap_or_default();
        let path = |path| Some(settings.text(path)).filter(|text| !text.is_empty());
        let list = |path| {
            let texts = settings.list(path).iter().filter_map(|one| one.as_str());
            texts.map(str::to_owned).collect::<Vec<String>>()
        };
        let number = |path: &str, otherwise: u32| {
            let given = settings.value(path).and_then(serde_json::Value::as_i64);
            given
                .and_then(|given| u32::try_from(given).ok())
                .unwrap_or(otherwise)
        };
        let url = match path("staticPodURL") {
            None => None,
            Some(url) => Some((url.to_owned(), headers(settings)?)),
        };
        let root = &flags.root_directory;
        Ok(Self {
            sources: SourcesConfig {
                path: path("staticPodPath").map(sources::file::place),
                path_period: duration("fileCheckFrequency"),
                url,
                url_period: duration("httpCheckFrequency"),
                forbid_references: gates.enabled("PreventStaticPodAPIReferences"),
            },
            directories: Directories {
                layout: Layout::new(root.clone()),
                logs: PathBuf::from(settings.text("podLogsDir")),
                log_links: PathBuf::from("/var/log/containers"),
                resolv_conf: path("resolvConf").map(PathBuf::from),
                hosts_file: PathBuf::from("/etc/hosts"),
            },
            dns: DnsSettings {
                servers: list("clusterDNS")
                    .iter()
                    .filter_map(|text| text.parse::<IpAddr>().ok())
                    .collect(),
                domain: settings.text("clusterDomain").to_owned(),
                node_ips: Vec::new(),
                hostname_override: gates.enabled("HostnameOverride"),
            },
            security: SecuritySettings {
                seccomp_root: root.join("seccomp"),
                seccomp_default: settings.bool("seccompDefault"),
                ..SecuritySettings::default()
            },
            admission: admission::Settings {
                allowed_unsafe_sysctls: list("allowedUnsafeSysctls"),
                kernel: flags.kernel.clone(),
                supplemental_groups_policy: false,
                app_armor: false,
                operating_system: "linux",
                pod_level_resources: gates.enabled("PodLevelResources"),
            },
            images: images::Config::from_settings(settings, gates),
            docker: Places {
                root: root.clone(),
                working: flags.working.clone(),
                home: flags.home.clone(),
            },
            records: Arc::clone(&flags.records),
            plugins: flags.plugins.clone(),
            cgroups: cgroups(settings)?,
            enforcing: Enforcing {
                cpu_quota: settings.bool("cpuCFSQuota"),
                quota_period: duration("cpuCFSQuotaPeriod"),
                kill_single_process: settings
                    .value("singleProcessOOMKill")
                    .and_then(serde_json::Value::as_bool),
                limited_swap: settings.text("memorySwap.swapBehavior") == "LimitedSwap",
                memory_qos: memory_qos(settings, gates),
            },
            reserved: reserved(settings),
            users: UsersConfig {
                pods: Layout::new(root.clone()).pods(),
                ids_per_pod: number("userNamespaces.idsPerPod", DEFAULT_IDS_PER_POD),
                most_pods: number("maxPods", 0),
            },
            env_files: gates.enabled("EnvFiles"),
            trust_bundles: gates.enabled("ClusterTrustBundleProjection"),
            garbage: flags.garbage,
            own_policies: OwnPolicies {
                of_containers: gates.enabled("ContainerRestartRules"),
                restart_all: gates.enabled("RestartAllContainersOnContainerExits"),
            },
            rotation: Policy::from_settings(settings),
            zone: flags.zone.clone(),
            resize: resize_rules(settings, gates),
            backoff: backoff(settings, gates),
            resync: duration("syncFrequency"),
            stop_signals: gates.enabled("ContainerStopSignals"),
            at_once: (flags.cpus * 2).max(4),
            changes: match settings.text("configMapAndSecretChangeDetectionStrategy") {
                "Cache" => Changes::Cached,
                "Get" => Changes::Asked,
                _ => Changes::Watched,
            },
            volume_figures: Some(duration("volumeStatsAggPeriod"))
                .filter(|period| !period.is_zero()),
            local_storage: settings.bool("localStorageCapacityIsolation"),
            system: SystemGroups {
                kubelet: path("kubeletCgroups").map(PathBuf::from),
                runtime: flags.runtime_group.clone(),
                misc: path("systemCgroups").map(PathBuf::from),
            },
            pod_resources: flags.pod_resources.clone(),
            gates: gates.clone(),
        })
    }
}

fn cgroups(settings: &Settings) -> Result<Option<CgroupConfig>, NotAName> {
    if !settings.bool("cgroupsPerQOS") {
        return Ok(None);
    }
    let driver = match settings.text("cgroupDriver") {
        "systemd" => CgroupDriver::Systemd,
        _ => CgroupDriver::Cgroupfs,
    };
    let mut enforced = settings.list("enforceNodeAllocatable").iter();
    Ok(Some(CgroupConfig {
        driver,
        root: CgroupName::parse(settings.text("cgroupRoot"))?,
        processes: settings.int("podPidsLimit"),
        enforce_pods: enforced.any(|one| one.as_str() == Some("pods")),
    }))
}

/// CPUs that are reserved by number come before those that are by amount. What is no
/// quantity is refused elsewhere.
fn reserved(settings: &Settings) -> Vec<Amounts> {
    let amounts = |field: &str| -> Amounts {
        let entries = settings.entries(field);
        let read = entries
            .filter_map(|(name, value)| Some((name.to_owned(), value.as_str()?.parse().ok()?)));
        read.collect()
    };
    let (mut kube, mut system) = (amounts("kubeReserved"), amounts("systemReserved"));
    let cpus: Option<CpuSet> = settings.text("reservedSystemCPUs").parse().ok();
    if let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) {
        let count = i64::try_from(cpus.len()).unwrap_or(i64::MAX);
        system.insert("cpu".to_owned(), Quantity::new(count, Format::DecimalSi));
        kube.remove("cpu");
    }
    vec![kube, system]
}

fn memory_qos(settings: &Settings, gates: &FeatureGates) -> Option<MemoryQosConfig> {
    let factor = settings.value("memoryThrottlingFactor");
    let factor = factor.and_then(serde_json::Value::as_f64)?;
    gates.enabled("MemoryQoS").then(|| MemoryQosConfig {
        throttling: factor,
        reserve: settings.text("memoryReservationPolicy") == "TieredReservation",
    })
}

/// What cannot be resized here.
fn resize_rules(settings: &Settings, gates: &FeatureGates) -> admission::ResizeRules {
    let exclusive =
        |setting, policy, gate| settings.text(setting) == policy && !gates.enabled(gate);
    admission::ResizeRules {
        scope: Scope {
            pod_level: gates.enabled("InPlacePodLevelResourcesVerticalScaling"),
            init_containers: gates.enabled("InPlacePodVerticalScalingInitContainers"),
        },
        exclusive_cpus: exclusive(
            "cpuManagerPolicy",
            "static",
            "InPlacePodVerticalScalingExclusiveCPUs",
        ),
        exclusive_memory: exclusive(
            "memoryManagerPolicy",
            "Static",
            "InPlacePodVerticalScalingExclusiveMemory",
        ),
    }
}

/// What somebody has set counts; unset, it is as the gate says.
fn backoff(settings: &Settings, gates: &FeatureGates) -> Pace {
    let usual = if gates.enabled("ReduceDefaultCrashLoopBackOffDecay") {
        Pace {
            first: Duration::from_secs(1),
            most: Duration::from_secs(60),
        }
    } else {
        Pace::default()
    };
    let path = "crashLoopBackOff.maxContainerRestartPeriod";
    let given = settings.value(path).filter(|value| {
        // Filled in from the file's gates, which flags may have changed since.
        !value.is_null() && gates.enabled("KubeletCrashLoopBackOffMax")
    });
    let most = given.and_then(|_| settings.duration(path).to_std());
    Pace {
        most: most.unwrap_or(usual.most),
        ..usual
    }
}

fn headers(settings: &Settings) -> Result<HeaderMap, PodsConfigError> {
    let mut headers = HeaderMap::new();
    for (name, values) in settings.entries("staticPodURLHeader") {
        let bad = |cause: http::Error| PodsConfigError::Header {
            name: name.to_owned(),
            cause,
        };
        let key = HeaderName::try_from(name).map_err(|cause| bad(cause.into()))?;
        for value in values.as_array().into_iter().flatten() {
            let value = HeaderValue::try_from(value.as_str().unwrap_or_default());
            headers.append(key.clone(), value.map_err(|cause| bad(cause.into()))?);
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ::config::flags::CommandLine;
    use ::config::load;

    use super::*;

    fn paced(gates: &str) -> (u64, u64) {
        let words = [format!("--feature-gates={gates}")];
        let words = &words[..usize::from(!gates.is_empty())];
        let line = CommandLine::parse(words).unwrap();
        let resolved = load::resolve(&line, Path::new("/")).unwrap();
        let Pace { first, most } = backoff(&resolved.settings, &resolved.gates);
        (first.as_secs(), most.as_secs())
    }

    fn flags() -> PodFlags {
        PodFlags {
            root_directory: PathBuf::from("/var/lib/kubelet"),
            home: None,
            working: None,
            kernel: "6.1.0".to_owned(),
            cpus: 2,
            records: Arc::new(Records::in_memory()),
            plugins: None,
            garbage: Limits::default(),
            pod_resources: None,
            runtime_group: None,
            zone: TimeZone::UTC,
        }
    }

    #[test]
    fn trust_bundles_are_followed_where_their_gate_is_on() {
        let gate =
            "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true".to_owned();
        for (words, followed) in [(&[][..], false), (&[gate][..], true)] {
            let line = CommandLine::parse(words).unwrap();
            let resolved = load::resolve(&line, Path::new("/")).unwrap();
            let pods = PodsConfig::from_settings(&resolved.settings, &resolved.gates, &flags());
            assert_eq!(pods.unwrap().trust_bundles, followed, "{words:?}");
        }
    }

    #[test]
    fn pods_are_held_to_their_limits_of_the_disk_unless_somebody_says_otherwise() {
        let off = "--local-storage-capacity-isolation=false".to_owned();
        for (words, held) in [(&[][..], true), (&[off][..], false)] {
            let line = CommandLine::parse(words).unwrap();
            let resolved = load::resolve(&line, Path::new("/")).unwrap();
            let pods = PodsConfig::from_settings(&resolved.settings, &resolved.gates, &flags());
            assert_eq!(pods.unwrap().local_storage, held, "{words:?}");
        }
    }

    #[test]
    fn a_gate_lets_containers_start_again_sooner() {
        for (gates, expected) in [
            ("", (10, 300)),
            ("KubeletCrashLoopBackOffMax=false", (10, 300)),
            // The other gate has filled in the most.
            ("ReduceDefaultCrashLoopBackOffDecay=true", (1, 300)),
            (
                "ReduceDefaultCrashLoopBackOffDecay=true,KubeletCrashLoopBackOffMax=false",
                (1, 60),
            ),
        ] {
            assert_eq!(paced(gates), expected, "{gates}");
        }
    }
}
