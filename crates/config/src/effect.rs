//! What is accepted and has no effect. A setting has none until the part of
//! the node that reads it takes it up in [`EFFECTIVE`]: so what is printed as
//! not effective can only shrink, and nothing new is forgotten.

use std::fmt;

use crate::schema::{CADVISOR, FLAGS, Flag};
use crate::settings::leaves;

/// Fields and flags that do something today.
const EFFECTIVE: &[&str] = &[
    "apiVersion",
    "kind",
    "address",
    "allowedUnsafeSysctls",
    "authentication.anonymous.enabled",
    "authentication.webhook.cacheTTL",
    "authentication.webhook.enabled",
    "authentication.x509.clientCAFile",
    "authorization.mode",
    "authorization.webhook.cacheAuthorizedTTL",
    "authorization.webhook.cacheUnauthorizedTTL",
    "cgroupDriver",
    "cgroupRoot",
    "cgroupsPerQOS",
    "clusterDNS",
    "clusterDomain",
    "configMapAndSecretChangeDetectionStrategy",
    "containerLogMaxFiles",
    "containerLogMaxSize",
    "containerLogMaxWorkers",
    "containerLogMonitorInterval",
    "containerRuntimeEndpoint",
    "cpuCFSQuota",
    "cpuCFSQuotaPeriod",
    "crashLoopBackOff.maxContainerRestartPeriod",
    "enableDebugFlagsHandler",
    "enableDebuggingHandlers",
    "enableProfilingHandler",
    "enableServer",
    "enableSystemLogHandler",
    "enableSystemLogQuery",
    "enforceNodeAllocatable",
    "eventBurst",
    "eventRecordQPS",
    "failCgroupV1",
    "featureGates",
    "fileCheckFrequency",
    "healthzBindAddress",
    "healthzPort",
    "httpCheckFrequency",
    "imagePullCredentialsVerificationPolicy",
    "imageServiceEndpoint",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "kubeReserved",
    "localStorageCapacityIsolation",
    "logging.format",
    "logging.verbosity",
    "logging.vmodule",
    "maxOpenFiles",
    "maxParallelImagePulls",
    "maxPods",
    "memoryReservationPolicy",
    "memorySwap.swapBehavior",
    "memoryThrottlingFactor",
    "mergeDefaultEvictionSettings",
    "nodeLeaseDurationSeconds",
    "nodeStatusMaxImages",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "oomScoreAdj",
    "podCIDR",
    "podLogsDir",
    "podPidsLimit",
    "podsPerCore",
    "port",
    "preloadedImagesVerificationAllowlist",
    "providerID",
    "readOnlyPort",
    "registerNode",
    "registerWithTaints",
    "registryBurst",
    "registryPullQPS",
    "reservedSystemCPUs",
    "resolvConf",
    "rotateCertificates",
    "runtimeRequestTimeout",
    "seccompDefault",
    "serializeImagePulls",
    "serverTLSBootstrap",
    "singleProcessOOMKill",
    "staticPodPath",
    "staticPodURL",
    "staticPodURLHeader",
    "syncFrequency",
    "systemReserved",
    "tlsCertFile",
    "tlsCipherSuites",
    "tlsCurvePreferences",
    "tlsMinVersion",
    "tlsPrivateKeyFile",
    "userNamespaces.idsPerPod",
    "volumeStatsAggPeriod",
    "--bootstrap-kubeconfig",
    "--cert-dir",
    "--cloud-provider",
    "--config",
    "--config-dir",
    "--experimental-allocatable-ignore-eviction",
    "--help",
    "--hostname-override",
    "--image-credential-provider-bin-dir",
    "--image-credential-provider-config",
    "--kubeconfig",
    "--maximum-dead-containers",
    "--maximum-dead-containers-per-container",
    "--minimum-container-ttl-duration",
    "--node-ip",
    "--node-labels",
    "--root-dir",
    "--runtime-cgroups",
    "--version",
];

/// Fields that will never do anything, and why.
const NEVER: &[(&str, &str)] = &[
    (
        "contentType",
        "we speak JSON with the API server, which answers both",
    ),
    (
        "enableContentionProfiling",
        "there is no Go runtime to profile",
    ),
    ("hairpinMode", "the network plugin decides it"),
    ("iptablesDropBit", "the chain that it marked is gone"),
    ("iptablesMasqueradeBit", "the chain that it marked is gone"),
    ("logging.flushFrequency", "lines are written at once"),
    (
        "logging.options.json.infoBufferSize",
        "lines are written at once",
    ),
    (
        "logging.options.json.splitStream",
        "log lines go to standard error only",
    ),
    (
        "logging.options.text.infoBufferSize",
        "lines are written at once",
    ),
    (
        "logging.options.text.splitStream",
        "log lines go to standard error only",
    ),
    ("runOnce", "refused when true, as upstream refuses it"),
    (
        "streamingConnectionIdleTimeout",
        "upstream has no use for it either",
    ),
];

const WINDOWS: &str = "it is for Windows only";

/// Gates that upstream's kubelet reads and ours does not, and why not, if that is not to
/// change. Those of other programs are not in here, nor those that cannot be set.
const GATES: &[(&str, Option<&str>)] = &[
    ("CPUManagerPolicyAlphaOptions", None),
    ("CPUManagerPolicyBetaOptions", None),
    ("CRIListStreaming", None),
    ("CSIVolumeHealth", None),
    ("ChangeContainerStatusOnKubeletRestart", None),
    ("DRAExtendedResource", None),
    ("DRAWorkloadResourceClaims", None),
    ("DisableCPUQuotaWithExclusiveCPUs", None),
    (
        "EventedPLEG",
        Some("the runtime's events are always heard, as hints"),
    ),
    ("GracefulNodeShutdown", None),
    ("GracefulNodeShutdownBasedOnPodPriority", None),
    ("ImageVolumeWithDigest", None),
    ("KubeletInUserNamespace", None),
    ("KubeletPodResourcesListUseActivePods", None),
    ("KubeletRegistrationGetOnExistsOnly", None),
    ("KubeletSeparateDiskGC", None),
    ("LocalStorageCapacityIsolationFSQuotaMonitoring", None),
    (
        "PLEGOnDemandRelist",
        Some("a pod that is worked on is always looked at anew"),
    ),
    (
        "PodAndContainerStatsFromCRI",
        Some("cgroups are read, and the runtime is asked for what they lack"),
    ),
    ("PodCertificateRequest", None),
    ("PodLevelResourceManagers", None),
    ("PodReadyToStartContainersCondition", None),
    ("PodsAPI", None),
    ("QOSReserved", None),
    ("ReloadKubeletClientCAFile", None),
    ("ResourceHealthStatus", None),
    ("ResourceHealthStatusMessage", None),
    ("SELinuxMount", None),
    ("TaintTolerationComparisonOperators", None),
    ("TopologyManagerPolicyAlphaOptions", None),
    ("TopologyManagerPolicyBetaOptions", None),
    ("UserNamespacesHostNetworkSupport", None),
    ("WindowsCPUAndMemoryAffinity", Some(WINDOWS)),
    ("WindowsGracefulNodeShutdown", Some(WINDOWS)),
];

/// Values that are accepted and never do what they say.
const BY_VALUE: &[(&str, &str)] = &[
    (
        "tlsMinVersion: VersionTLS10 or VersionTLS11",
        "TLS below 1.2 is not offered",
    ),
    (
        "tlsCipherSuites with CBC, RC4, 3DES or RSA key exchange",
        "weak cipher suites are not offered",
    ),
];

/// Whether a cipher suite is one that we do not offer.
pub(crate) fn is_weak_cipher(name: &str) -> bool {
    let marks = ["_CBC_", "_RC4_", "_3DES_", "TLS_RSA_WITH_"];
    marks.iter().any(|mark| name.contains(mark))
}

/// Why a setting does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The part of the node that reads it is not there yet.
    NotYet,
    Never(&'static str),
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYet => formatter.write_str("not yet"),
            Self::Never(reason) => write!(formatter, "never: {reason}"),
        }
    }
}

/// Why a field does nothing; nothing if it does something.
pub fn of_field(path: &str) -> Option<Why> {
    if EFFECTIVE.contains(&path) {
        return None;
    }
    let never = NEVER.iter().find(|(name, _)| *name == path);
    Some(never.map_or(Why::NotYet, |(_, reason)| Why::Never(reason)))
}

/// The same for a flag that has no field.
fn of_flag(flag: &Flag) -> Option<Why> {
    if EFFECTIVE
        .iter()
        .any(|name| name.strip_prefix("--") == Some(flag.name))
    {
        return None;
    }
    let of_cadvisor = flag.about == CADVISOR;
    Some(if of_cadvisor {
        Why::Never("it belonged to a library inside upstream's kubelet")
    } else {
        Why::NotYet
    })
}

/// Everything that is accepted and does nothing: its name, and why.
pub fn not_effective() -> impl Iterator<Item = (String, Why)> {
    let fields = leaves().filter_map(|field| Some((field.path.to_owned(), of_field(field.path)?)));
    let flags = FLAGS
        .iter()
        .filter(|flag| flag.field.is_none())
        .filter_map(|flag| Some((format!("--{}", flag.name), of_flag(flag)?)));
    let by_value = BY_VALUE
        .iter()
        .map(|&(value, reason)| (value.to_owned(), Why::Never(reason)));
    let gates = GATES.iter().map(|&(name, reason)| {
        let why = reason.map_or(Why::NotYet, Why::Never);
        (format!("featureGates.{name}"), why)
    });
    fields.chain(flags).chain(by_value).chain(gates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{FIELDS, gate};

    /// Whether a name is in the tables at all.
    fn exists(name: &str) -> bool {
        match name.strip_prefix("--") {
            Some(flag) => FLAGS.iter().any(|row| row.name == flag),
            None => FIELDS.iter().any(|row| row.path == name),
        }
    }

    #[test]
    fn the_lists_name_what_exists_and_nothing_twice() {
        let never = NEVER.iter().map(|(name, _)| name);
        let mut names: Vec<&str> = EFFECTIVE.iter().chain(never).copied().collect();
        for name in &names {
            assert!(exists(name), "{name}");
        }
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn what_does_nothing_only_gets_less() {
        // Lower this with each setting that comes to life; never raise it.
        let of_gates = |name: &str| name.starts_with("featureGates.");
        let all: Vec<String> = not_effective().map(|(name, _)| name).collect();
        let gates = all.iter().filter(|name| of_gates(name)).count();
        assert_eq!((all.len() - gates, gates), (72, 34));
    }

    #[test]
    fn gates_without_effect_can_be_set_and_are_in_order() {
        for (name, _) in GATES {
            let gate = gate(name);
            assert!(gate.is_some_and(|gate| !gate.locked), "{name}");
        }
        assert!(GATES.is_sorted_by_key(|(name, _)| *name));
    }
}
