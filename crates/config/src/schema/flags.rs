//! The flags of the kubelet, in name order.

use super::{Flag, FlagKind};

/// The whole meaning of flags that only cadvisor, inside upstream, ever read.
pub(crate) const CADVISOR: &str =
    "Belonged to the metrics library inside the kubelet. Accepted and ignored.";

/// Every flag that v1.36 knows.
pub static FLAGS: &[Flag] = &[
    row("address", FlagKind::Ip, "0.0.0.0")
        .field("address")
        .deprecated(),
    row("allowed-unsafe-sysctls", FlagKind::Strings, "[]")
        .field("allowedUnsafeSysctls")
        .deprecated(),
    row("anonymous-auth", FlagKind::Bool, "true")
        .field("authentication.anonymous.enabled")
        .deprecated(),
    row("application-metrics-count-limit", FlagKind::Int, "100")
        .deprecated()
        .about(CADVISOR),
    row("authentication-token-webhook", FlagKind::Bool, "false")
        .field("authentication.webhook.enabled")
        .deprecated(),
    row(
        "authentication-token-webhook-cache-ttl",
        FlagKind::Duration,
        "2m0s",
    )
    .field("authentication.webhook.cacheTTL")
    .deprecated(),
    row("authorization-mode", FlagKind::String, "AlwaysAllow")
        .field("authorization.mode")
        .deprecated(),
    row(
        "authorization-webhook-cache-authorized-ttl",
        FlagKind::Duration,
        "5m0s",
    )
    .field("authorization.webhook.cacheAuthorizedTTL")
    .deprecated(),
    row(
        "authorization-webhook-cache-unauthorized-ttl",
        FlagKind::Duration,
        "30s",
    )
    .field("authorization.webhook.cacheUnauthorizedTTL")
    .deprecated(),
    row(
        "boot-id-file",
        FlagKind::String,
        "/proc/sys/kernel/random/boot_id",
    )
    .deprecated()
    .about(CADVISOR),
    row("bootstrap-kubeconfig", FlagKind::String, "").about(
        "A kubeconfig with just enough rights to ask for a client certificate. It is used \
             when the one of --kubeconfig is missing or no longer good; what it gets is written \
             there, and its keys to --cert-dir.",
    ),
    row("cert-dir", FlagKind::String, "/var/lib/kubelet/pki").about(
        "Where certificates and keys that the node makes or is given are kept. Not read for \
             the HTTPS API when both TLS files are set.",
    ),
    row("cgroup-driver", FlagKind::String, "cgroupfs")
        .field("cgroupDriver")
        .deprecated(),
    row("cgroup-root", FlagKind::String, "")
        .field("cgroupRoot")
        .deprecated(),
    row("cgroups-per-qos", FlagKind::Bool, "true")
        .field("cgroupsPerQOS")
        .deprecated(),
    row("client-ca-file", FlagKind::String, "")
        .field("authentication.x509.clientCAFile")
        .deprecated(),
    row("cloud-provider", FlagKind::String, "").about(
        "`external` if a cloud controller runs in the cluster and is to complete the node \
             object; the node then starts with a taint until that is done. Else leave it empty.",
    ),
    row("cluster-dns", FlagKind::Strings, "[]")
        .field("clusterDNS")
        .deprecated(),
    row("cluster-domain", FlagKind::String, "")
        .field("clusterDomain")
        .deprecated(),
    row("config", FlagKind::String, "")
        .about("The configuration file, YAML or JSON. A flag that sets a field wins over it."),
    row("config-dir", FlagKind::String, "").about(
        "A directory of files ending in .conf, each a part of a configuration. They are laid \
             over the --config file one after the other, in name order; the later one wins.",
    ),
    row(
        "container-hints",
        FlagKind::String,
        "/etc/cadvisor/container_hints.json",
    )
    .deprecated()
    .about(CADVISOR),
    row("container-log-max-files", FlagKind::Int32, "5")
        .field("containerLogMaxFiles")
        .deprecated(),
    row("container-log-max-size", FlagKind::String, "10Mi")
        .field("containerLogMaxSize")
        .deprecated(),
    row(
        "container-runtime-endpoint",
        FlagKind::String,
        "unix:///run/containerd/containerd.sock",
    )
    .field("containerRuntimeEndpoint")
    .deprecated(),
    row(
        "containerd",
        FlagKind::String,
        "/run/containerd/containerd.sock",
    )
    .deprecated()
    .about(CADVISOR),
    row("containerd-namespace", FlagKind::String, "k8s.io")
        .deprecated()
        .about(CADVISOR),
    row("contention-profiling", FlagKind::Bool, "false")
        .field("enableContentionProfiling")
        .deprecated(),
    row("cpu-cfs-quota", FlagKind::Bool, "true")
        .field("cpuCFSQuota")
        .deprecated(),
    row("cpu-cfs-quota-period", FlagKind::Duration, "100ms")
        .field("cpuCFSQuotaPeriod")
        .deprecated(),
    row("cpu-manager-policy", FlagKind::String, "none")
        .field("cpuManagerPolicy")
        .deprecated(),
    row("cpu-manager-policy-options", FlagKind::MapOnePair, "")
        .field("cpuManagerPolicyOptions")
        .deprecated(),
    row("cpu-manager-reconcile-period", FlagKind::Duration, "10s")
        .field("cpuManagerReconcilePeriod")
        .deprecated(),
    row("enable-controller-attach-detach", FlagKind::Bool, "true")
        .field("enableControllerAttachDetach")
        .deprecated(),
    row("enable-debugging-handlers", FlagKind::Bool, "true")
        .field("enableDebuggingHandlers")
        .deprecated(),
    row("enable-load-reader", FlagKind::Bool, "false")
        .deprecated()
        .about(CADVISOR),
    row("enable-server", FlagKind::Bool, "true")
        .field("enableServer")
        .deprecated(),
    row("enforce-node-allocatable", FlagKind::Strings, "[pods]")
        .field("enforceNodeAllocatable")
        .deprecated(),
    row("event-burst", FlagKind::Int32, "100")
        .field("eventBurst")
        .deprecated(),
    row("event-qps", FlagKind::Int32, "50")
        .field("eventRecordQPS")
        .deprecated(),
    row("event-storage-age-limit", FlagKind::String, "default=0")
        .deprecated()
        .about(CADVISOR),
    row("event-storage-event-limit", FlagKind::String, "default=0")
        .deprecated()
        .about(CADVISOR),
    row("eviction-hard", FlagKind::MapLessThan, "")
        .field("evictionHard")
        .deprecated(),
    row("eviction-max-pod-grace-period", FlagKind::Int32, "0")
        .field("evictionMaxPodGracePeriod")
        .deprecated(),
    row("eviction-minimum-reclaim", FlagKind::MapStringString, "")
        .field("evictionMinimumReclaim")
        .deprecated(),
    row(
        "eviction-pressure-transition-period",
        FlagKind::Duration,
        "5m0s",
    )
    .field("evictionPressureTransitionPeriod")
    .deprecated(),
    row("eviction-soft", FlagKind::MapLessThan, "")
        .field("evictionSoft")
        .deprecated(),
    row("eviction-soft-grace-period", FlagKind::MapStringString, "")
        .field("evictionSoftGracePeriod")
        .deprecated(),
    row("exit-on-lock-contention", FlagKind::Bool, "false").about(
        "Ends the program when another one opens the --lock-file, as an upgrade may want. It \
             needs --lock-file.",
    ),
    row(
        "experimental-allocatable-ignore-eviction",
        FlagKind::Bool,
        "false",
    )
    .deprecated()
    .about(
        "Leaves the hard eviction limits out when the room for pods is worked out. Pods may \
             then be given memory that eviction takes back.",
    ),
    row("experimental-mounter-path", FlagKind::String, "")
        .deprecated()
        .about("A program to mount volumes with, in place of mount(8). Use a CSI driver instead."),
    row("fail-cgroupv1", FlagKind::Bool, "true").field("failCgroupV1"),
    row("fail-swap-on", FlagKind::Bool, "true")
        .field("failSwapOn")
        .deprecated(),
    row("feature-gates", FlagKind::MapStringBool, "")
        .field("featureGates")
        .deprecated(),
    row("file-check-frequency", FlagKind::Duration, "20s")
        .field("fileCheckFrequency")
        .deprecated(),
    row("global-housekeeping-interval", FlagKind::Duration, "1m0s")
        .deprecated()
        .about(CADVISOR),
    row("hairpin-mode", FlagKind::String, "promiscuous-bridge")
        .field("hairpinMode")
        .deprecated(),
    row("healthz-bind-address", FlagKind::Ip, "127.0.0.1")
        .field("healthzBindAddress")
        .deprecated(),
    row("healthz-port", FlagKind::Int32, "10248")
        .field("healthzPort")
        .deprecated(),
    row("help", FlagKind::Bool, "false")
        .shorthand('h')
        .about("Prints the flags and ends."),
    row("hostname-override", FlagKind::String, "").about(
        "The name of the node, in place of the machine's host name. It is lower-cased, and \
             must be what the node's credentials were made out for.",
    ),
    row("housekeeping-interval", FlagKind::Duration, "10s")
        .about("How often figures of running containers are taken."),
    row("http-check-frequency", FlagKind::Duration, "20s")
        .field("httpCheckFrequency")
        .deprecated(),
    row("image-credential-provider-bin-dir", FlagKind::String, "").about(
        "The directory of the programs that fetch registry credentials. Set it together with \
             --image-credential-provider-config.",
    ),
    row("image-credential-provider-config", FlagKind::String, "").about(
        "A file, or a directory of files taken in name order, that says which programs fetch \
             credentials for which images.",
    ),
    row("image-gc-high-threshold", FlagKind::Int32, "85")
        .field("imageGCHighThresholdPercent")
        .deprecated(),
    row("image-gc-low-threshold", FlagKind::Int32, "80")
        .field("imageGCLowThresholdPercent")
        .deprecated(),
    row("image-service-endpoint", FlagKind::String, "")
        .field("imageServiceEndpoint")
        .deprecated(),
    row("kernel-memcg-notification", FlagKind::Bool, "false")
        .field("kernelMemcgNotification")
        .deprecated(),
    row("kube-api-burst", FlagKind::Int32, "100")
        .field("kubeAPIBurst")
        .deprecated(),
    row(
        "kube-api-content-type",
        FlagKind::String,
        "application/vnd.kubernetes.protobuf",
    )
    .field("contentType")
    .deprecated(),
    row("kube-api-qps", FlagKind::Int32, "50")
        .field("kubeAPIQPS")
        .deprecated(),
    row("kube-reserved", FlagKind::MapStringString, "")
        .field("kubeReserved")
        .deprecated(),
    row("kube-reserved-cgroup", FlagKind::String, "")
        .field("kubeReservedCgroup")
        .deprecated(),
    row("kubeconfig", FlagKind::String, "").about(
        "How to reach the API server, and as whom. Without it the node stands alone and runs \
             static pods only.",
    ),
    row("kubelet-cgroups", FlagKind::String, "")
        .field("kubeletCgroups")
        .deprecated(),
    row("local-storage-capacity-isolation", FlagKind::Bool, "true")
        .field("localStorageCapacityIsolation")
        .deprecated(),
    row("lock-file", FlagKind::String, "")
        .about("A file to lock, so that only one kubelet runs at a time."),
    row("log-cadvisor-usage", FlagKind::Bool, "false")
        .deprecated()
        .about(CADVISOR),
    row("log-flush-frequency", FlagKind::Duration, "5s").field("logging.flushFrequency"),
    row("log-json-info-buffer-size", FlagKind::Quantity, "0")
        .field("logging.options.json.infoBufferSize")
        .deprecated(),
    row("log-json-split-stream", FlagKind::Bool, "false")
        .field("logging.options.json.splitStream")
        .deprecated(),
    row("log-text-info-buffer-size", FlagKind::Quantity, "0")
        .field("logging.options.text.infoBufferSize")
        .deprecated(),
    row("log-text-split-stream", FlagKind::Bool, "false")
        .field("logging.options.text.splitStream")
        .deprecated(),
    row("logging-format", FlagKind::String, "text")
        .field("logging.format")
        .deprecated(),
    row(
        "machine-id-file",
        FlagKind::String,
        "/etc/machine-id,/var/lib/dbus/machine-id",
    )
    .deprecated()
    .about(CADVISOR),
    row("make-iptables-util-chains", FlagKind::Bool, "true")
        .field("makeIPTablesUtilChains")
        .deprecated(),
    row("manifest-url", FlagKind::String, "")
        .field("staticPodURL")
        .deprecated(),
    row("manifest-url-header", FlagKind::Headers, "")
        .field("staticPodURLHeader")
        .deprecated(),
    row("max-open-files", FlagKind::Int64, "1000000")
        .field("maxOpenFiles")
        .deprecated(),
    row("max-pods", FlagKind::Int32, "110")
        .field("maxPods")
        .deprecated(),
    row("maximum-dead-containers", FlagKind::Int32, "-1")
        .deprecated()
        .about(
            "How many dead containers are kept on the node in all; negative keeps any number. \
             Eviction limits look after disk space now.",
        ),
    row(
        "maximum-dead-containers-per-container",
        FlagKind::Int32,
        "1",
    )
    .deprecated()
    .about(
        "How many dead instances are kept of each container, for their logs. Eviction limits \
             look after disk space now.",
    ),
    row("memory-manager-policy", FlagKind::String, "None")
        .field("memoryManagerPolicy")
        .deprecated(),
    row("minimum-container-ttl-duration", FlagKind::Duration, "0s")
        .deprecated()
        .about(
            "How long a dead container is kept at least. Eviction limits look after disk space \
             now.",
        ),
    row("minimum-image-ttl-duration", FlagKind::Duration, "2m0s")
        .field("imageMinimumGCAge")
        .deprecated(),
    row("node-ip", FlagKind::String, "").about(
        "The address of the node, or one IPv4 and one IPv6 address with a comma between. \
             `0.0.0.0` or `::` picks the machine's own of that family; unset picks by itself.",
    ),
    row("node-labels", FlagKind::Labels, "").about(
        "Labels that the node object gets when the node registers, `key=value` with commas \
             between. Of the kubernetes.io and k8s.io names only some are allowed.",
    ),
    row("node-status-max-images", FlagKind::Int32, "50")
        .field("nodeStatusMaxImages")
        .deprecated(),
    row("node-status-update-frequency", FlagKind::Duration, "10s")
        .field("nodeStatusUpdateFrequency")
        .deprecated(),
    row("oom-score-adj", FlagKind::Int32, "-999")
        .field("oomScoreAdj")
        .deprecated(),
    row("pod-cidr", FlagKind::String, "")
        .field("podCIDR")
        .deprecated(),
    row("pod-manifest-path", FlagKind::String, "")
        .field("staticPodPath")
        .deprecated(),
    row("pod-max-pids", FlagKind::Int64, "-1")
        .field("podPidsLimit")
        .deprecated(),
    row("pods-per-core", FlagKind::Int32, "0")
        .field("podsPerCore")
        .deprecated(),
    row("port", FlagKind::Int32, "10250")
        .field("port")
        .deprecated(),
    row("protect-kernel-defaults", FlagKind::Bool, "false")
        .field("protectKernelDefaults")
        .deprecated(),
    row("provider-id", FlagKind::String, "").field("providerID"),
    row("qos-reserved", FlagKind::MapStringString, "")
        .field("qosReserved")
        .deprecated(),
    row("read-only-port", FlagKind::Int32, "10255")
        .field("readOnlyPort")
        .deprecated(),
    row("register-node", FlagKind::Bool, "true")
        .field("registerNode")
        .deprecated(),
    row("register-with-taints", FlagKind::Taints, "")
        .field("registerWithTaints")
        .deprecated(),
    row("registry-burst", FlagKind::Int32, "10")
        .field("registryBurst")
        .deprecated(),
    row("registry-qps", FlagKind::Int32, "5")
        .field("registryPullQPS")
        .deprecated(),
    row("reserved-cpus", FlagKind::String, "")
        .field("reservedSystemCPUs")
        .deprecated(),
    row("reserved-memory", FlagKind::ReservedMemory, "")
        .field("reservedMemory")
        .deprecated(),
    row("resolv-conf", FlagKind::String, "/etc/resolv.conf")
        .field("resolvConf")
        .deprecated(),
    row("root-dir", FlagKind::String, "/var/lib/kubelet").about(
        "Where the node keeps its files: pods' volumes, plugin sockets, checkpoints. Drain \
             the node before you move it.",
    ),
    row("rotate-certificates", FlagKind::Bool, "false")
        .field("rotateCertificates")
        .deprecated(),
    row("rotate-server-certificates", FlagKind::Bool, "false")
        .field("serverTLSBootstrap")
        .deprecated(),
    row("runonce", FlagKind::Bool, "false")
        .field("runOnce")
        .deprecated(),
    row("runtime-cgroups", FlagKind::String, "")
        .about("The cgroup of the container runtime, for its figures in the statistics."),
    row("runtime-request-timeout", FlagKind::Duration, "2m0s")
        .field("runtimeRequestTimeout")
        .deprecated(),
    row("seccomp-default", FlagKind::Bool, "false").about(
        "Gives containers that name no seccomp profile the runtime's default one. Turns it on \
             also where the field seccompDefault says no.",
    ),
    row("serialize-image-pulls", FlagKind::Bool, "true")
        .field("serializeImagePulls")
        .deprecated(),
    row("storage-driver-buffer-duration", FlagKind::Duration, "1m0s")
        .deprecated()
        .about(CADVISOR),
    row("storage-driver-db", FlagKind::String, "cadvisor")
        .deprecated()
        .about(CADVISOR),
    row("storage-driver-host", FlagKind::String, "localhost:8086")
        .deprecated()
        .about(CADVISOR),
    row("storage-driver-password", FlagKind::String, "root")
        .deprecated()
        .about(CADVISOR),
    row("storage-driver-secure", FlagKind::Bool, "false")
        .deprecated()
        .about(CADVISOR),
    row("storage-driver-table", FlagKind::String, "stats")
        .deprecated()
        .about(CADVISOR),
    row("storage-driver-user", FlagKind::String, "root")
        .deprecated()
        .about(CADVISOR),
    row(
        "streaming-connection-idle-timeout",
        FlagKind::Duration,
        "4h0m0s",
    )
    .field("streamingConnectionIdleTimeout")
    .deprecated(),
    row("sync-frequency", FlagKind::Duration, "1m0s")
        .field("syncFrequency")
        .deprecated(),
    row("system-cgroups", FlagKind::String, "")
        .field("systemCgroups")
        .deprecated(),
    row("system-reserved", FlagKind::MapStringString, "")
        .field("systemReserved")
        .deprecated(),
    row("system-reserved-cgroup", FlagKind::String, "")
        .field("systemReservedCgroup")
        .deprecated(),
    row("tls-cert-file", FlagKind::String, "")
        .field("tlsCertFile")
        .deprecated(),
    row("tls-cipher-suites", FlagKind::Strings, "[]")
        .field("tlsCipherSuites")
        .deprecated(),
    row("tls-min-version", FlagKind::String, "")
        .field("tlsMinVersion")
        .deprecated(),
    row("tls-private-key-file", FlagKind::String, "")
        .field("tlsPrivateKeyFile")
        .deprecated(),
    row("topology-manager-policy", FlagKind::String, "none")
        .field("topologyManagerPolicy")
        .deprecated(),
    row(
        "topology-manager-policy-options",
        FlagKind::MapStringString,
        "",
    )
    .field("topologyManagerPolicyOptions")
    .deprecated(),
    row("topology-manager-scope", FlagKind::String, "container")
        .field("topologyManagerScope")
        .deprecated(),
    row("v", FlagKind::Level, "0")
        .shorthand('v')
        .field("logging.verbosity"),
    row("version", FlagKind::Version, "false")
        .about("Prints the version and ends; `raw` prints all of its parts."),
    row("vmodule", FlagKind::Vmodule, "").field("logging.vmodule"),
    row(
        "volume-plugin-dir",
        FlagKind::String,
        "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
    )
    .field("volumePluginDir")
    .deprecated(),
    row("volume-stats-agg-period", FlagKind::Duration, "1m0s")
        .field("volumeStatsAggPeriod")
        .deprecated(),
];

const fn row(name: &'static str, kind: FlagKind, default: &'static str) -> Flag {
    Flag {
        name,
        shorthand: None,
        kind,
        default,
        field: None,
        deprecated: false,
        about: "",
    }
}

impl Flag {
    const fn shorthand(mut self, letter: char) -> Self {
        self.shorthand = Some(letter);
        self
    }

    const fn field(mut self, path: &'static str) -> Self {
        self.field = Some(path);
        self
    }

    const fn deprecated(mut self) -> Self {
        self.deprecated = true;
        self
    }

    const fn about(mut self, text: &'static str) -> Self {
        self.about = text;
        self
    }
}
