//! Flags of older kubelets that v1.36 does not know, in name order. Old unit
//! files still hold them, so most are accepted with a warning.

use super::Handling::{AcceptOnly, Ignore, MapTo, Refuse};
use super::{Handling, RemovedFlag};

/// Every flag that a kubelet since v1.10 had and v1.36 has not.
pub static REMOVED_FLAGS: &[RemovedFlag] = &[
    switch(
        "add-dir-header",
        "1.25",
        Ignore,
        "Remove it: the head of a log line is fixed. For lines that programs read, use \
         --logging-format=json.",
    ),
    switch(
        "allow-privileged",
        "1.14",
        Ignore,
        "Remove it: privileged pods are allowed here always. Keep them out by Pod Security \
         admission in the API server.",
    ),
    switch(
        "alsologtostderr",
        "1.25",
        Ignore,
        "Remove it: logs go to stderr only. To keep them in files, let the service manager do it.",
    ),
    valued(
        "azure-container-registry-config",
        "1.29",
        Ignore,
        "Remove it, and use a credential provider program: --image-credential-provider-config and \
         --image-credential-provider-bin-dir.",
    ),
    valued(
        "bootstrap-checkpoint-path",
        "1.18",
        Ignore,
        "Remove it: pods are not checkpointed. For pods that start without the API server, use \
         static pods.",
    ),
    valued(
        "cadvisor-port",
        "1.11",
        Ignore,
        "Remove it: the metrics library's own page is gone. Read /metrics/cadvisor of the HTTPS \
         API instead.",
    ),
    valued(
        "chaos-chance",
        "1.21",
        Ignore,
        "Remove it: it served tests only.",
    ),
    valued(
        "cloud-config",
        "1.33",
        Ignore,
        "Remove it: no cloud is built in. Give the file to the cloud's own controller, and use \
         --cloud-provider=external.",
    ),
    valued(
        "cni-bin-dir",
        "1.23",
        Ignore,
        "Remove it, and set the directory in the container runtime's configuration, which calls \
         CNI now.",
    ),
    valued(
        "cni-cache-dir",
        "1.23",
        Ignore,
        "Remove it, and set the directory in the container runtime's configuration, which calls \
         CNI now.",
    ),
    valued(
        "cni-conf-dir",
        "1.23",
        Ignore,
        "Remove it, and set the directory in the container runtime's configuration, which calls \
         CNI now.",
    ),
    valued(
        "container-runtime",
        "1.26",
        AcceptOnly("remote"),
        "Remove it: every runtime is reached through --container-runtime-endpoint. Docker needs \
         cri-dockerd between.",
    ),
    switch(
        "containerized",
        "1.15",
        Ignore,
        "Remove it: a kubelet inside a container needs the host's mounts shared with it, and no \
         flag.",
    ),
    valued(
        "docker",
        "1.23",
        Ignore,
        "Remove it: figures are no longer taken from Docker.",
    ),
    switch(
        "docker-disable-shared-pid",
        "1.11",
        Ignore,
        "Remove it: a pod shares its process ids only if its spec says shareProcessNamespace.",
    ),
    valued(
        "docker-endpoint",
        "1.23",
        Ignore,
        "Remove it: Docker is no longer reached directly. Use containerd or CRI-O, or cri-dockerd \
         between.",
    ),
    valued(
        "docker-env-metadata-whitelist",
        "1.23",
        Ignore,
        "Remove it: figures are no longer taken from Docker.",
    ),
    switch(
        "docker-only",
        "1.23",
        Ignore,
        "Remove it: figures are no longer taken from Docker.",
    ),
    valued(
        "docker-root",
        "1.23",
        Ignore,
        "Remove it: figures are no longer taken from Docker.",
    ),
    switch(
        "docker-tls",
        "1.23",
        Ignore,
        "Remove it: figures are no longer taken from Docker.",
    ),
    valued(
        "docker-tls-ca",
        "1.23",
        Ignore,
        "Remove it: figures are no longer taken from Docker.",
    ),
    valued(
        "docker-tls-cert",
        "1.23",
        Ignore,
        "Remove it: figures are no longer taken from Docker.",
    ),
    valued(
        "docker-tls-key",
        "1.23",
        Ignore,
        "Remove it: figures are no longer taken from Docker.",
    ),
    valued(
        "dynamic-config-dir",
        "1.23",
        Ignore,
        "Remove it: settings are no longer read from the API. Use --config and --config-dir.",
    ),
    switch(
        "enable-cadvisor-json-endpoints",
        "1.20",
        Ignore,
        "Remove it, and read /stats/summary or /metrics/cadvisor instead.",
    ),
    switch(
        "enable-custom-metrics",
        "1.10",
        Ignore,
        "Remove it: custom metrics come from monitoring, through the custom metrics API.",
    ),
    valued(
        "experimental-allowed-unsafe-sysctls",
        "1.10",
        MapTo("allowed-unsafe-sysctls"),
        "Use the field allowedUnsafeSysctls, or --allowed-unsafe-sysctls.",
    ),
    valued(
        "experimental-bootstrap-kubeconfig",
        "1.22",
        MapTo("bootstrap-kubeconfig"),
        "Use --bootstrap-kubeconfig.",
    ),
    switch(
        "experimental-check-node-capabilities-before-mount",
        "1.23",
        Ignore,
        "Remove it: mount programs are looked for when a volume needs them.",
    ),
    switch(
        "experimental-dockershim",
        "1.18",
        Refuse,
        "There is no Docker shim any more. Use containerd or CRI-O, or run cri-dockerd by itself.",
    ),
    valued(
        "experimental-dockershim-root-directory",
        "1.23",
        Ignore,
        "Remove it: Docker is no longer reached directly. Use containerd or CRI-O, or cri-dockerd \
         between.",
    ),
    switch(
        "experimental-fail-swap-on",
        "1.13",
        MapTo("fail-swap-on"),
        "Use the field failSwapOn, or --fail-swap-on.",
    ),
    switch(
        "experimental-kernel-memcg-notification",
        "1.24",
        MapTo("kernel-memcg-notification"),
        "Use the field kernelMemcgNotification, or --kernel-memcg-notification.",
    ),
    switch(
        "experimental-logging-sanitization",
        "1.23",
        Ignore,
        "Remove it: log lines are written without secrets in the first place.",
    ),
    valued(
        "experimental-qos-reserved",
        "1.10",
        MapTo("qos-reserved"),
        "Use the field qosReserved, or --qos-reserved.",
    ),
    valued(
        "host-ipc-sources",
        "1.14",
        Ignore,
        "Remove it: pods from every source may use the host's namespaces. Limit this by Pod \
         Security admission in the API server.",
    ),
    valued(
        "host-network-sources",
        "1.14",
        Ignore,
        "Remove it: pods from every source may use the host's namespaces. Limit this by Pod \
         Security admission in the API server.",
    ),
    valued(
        "host-pid-sources",
        "1.14",
        Ignore,
        "Remove it: pods from every source may use the host's namespaces. Limit this by Pod \
         Security admission in the API server.",
    ),
    valued(
        "image-pull-progress-deadline",
        "1.23",
        Ignore,
        "Remove it: the container runtime decides when a pull has stalled; containerd has a \
         setting for it.",
    ),
    valued(
        "iptables-drop-bit",
        "1.30",
        Ignore,
        "Remove it: the kubelet marks no packets any more; kube-proxy has its own setting.",
    ),
    valued(
        "iptables-masquerade-bit",
        "1.30",
        Ignore,
        "Remove it: the kubelet marks no packets any more; kube-proxy has its own setting.",
    ),
    switch(
        "keep-terminated-pod-volumes",
        "1.30",
        Ignore,
        "Remove it: the volumes of an ended pod are always unmounted.",
    ),
    valued(
        "log-backtrace-at",
        "1.25",
        Ignore,
        "Remove it. To see more of one part, raise its verbosity with --vmodule.",
    ),
    valued(
        "log-dir",
        "1.25",
        Ignore,
        "Remove it: logs go to stderr. To keep them in a file, let the service manager do it.",
    ),
    valued(
        "log-file",
        "1.25",
        Ignore,
        "Remove it: logs go to stderr. To keep them in a file, let the service manager do it.",
    ),
    valued(
        "log-file-max-size",
        "1.25",
        Ignore,
        "Remove it: logs go to stderr. To keep them in a file, let the service manager do it.",
    ),
    switch(
        "logtostderr",
        "1.25",
        Ignore,
        "Remove it: logs always go to stderr.",
    ),
    valued(
        "master-service-namespace",
        "1.26",
        Ignore,
        "Remove it: the kubernetes service is always taken from the namespace default.",
    ),
    valued(
        "network-plugin",
        "1.23",
        Ignore,
        "Remove it: pods are connected by the container runtime, through CNI, and kubenet is \
         gone.",
    ),
    valued(
        "network-plugin-mtu",
        "1.23",
        Ignore,
        "Remove it, and set the MTU in the CNI configuration.",
    ),
    valued(
        "non-masquerade-cidr",
        "1.23",
        Ignore,
        "Remove it: the network plugin or ip-masq-agent decides which addresses are masqueraded.",
    ),
    switch(
        "one-output",
        "1.25",
        Ignore,
        "Remove it: logs go to stderr only. To keep them in files, let the service manager do it.",
    ),
    valued(
        "pod-infra-container-image",
        "1.34",
        Ignore,
        "Remove it (also from kubeadm-flags.env), and set the pause image in the container \
         runtime's configuration.",
    ),
    switch(
        "really-crash-for-testing",
        "1.23",
        Ignore,
        "Remove it: it served tests only.",
    ),
    switch(
        "redirect-container-streaming",
        "1.21",
        Ignore,
        "Remove it: exec, attach and port-forward always pass through the kubelet.",
    ),
    switch(
        "register-schedulable",
        "1.33",
        AcceptOnly("true"),
        "Remove it. To keep pods off a new node, register it with a taint of your own, such as \
         --register-with-taints=example.com/new=:NoSchedule, and take the taint off later.",
    ),
    valued(
        "rkt-api-endpoint",
        "1.10",
        Refuse,
        "The runtime rkt is gone. Move the node to containerd or CRI-O and set \
         --container-runtime-endpoint.",
    ),
    valued(
        "rkt-path",
        "1.10",
        Refuse,
        "The runtime rkt is gone. Move the node to containerd or CRI-O and set \
         --container-runtime-endpoint.",
    ),
    valued(
        "rkt-stage1-image",
        "1.10",
        Refuse,
        "The runtime rkt is gone. Move the node to containerd or CRI-O and set \
         --container-runtime-endpoint.",
    ),
    valued(
        "seccomp-profile-root",
        "1.22",
        Ignore,
        "Remove it, and put the profiles into the directory seccomp below --root-dir.",
    ),
    switch(
        "skip-headers",
        "1.25",
        Ignore,
        "Remove it: the head of a log line is fixed. For lines that programs read, use \
         --logging-format=json.",
    ),
    switch(
        "skip-log-headers",
        "1.25",
        Ignore,
        "Remove it: the head of a log line is fixed. For lines that programs read, use \
         --logging-format=json.",
    ),
    valued(
        "stderrthreshold",
        "1.25",
        Ignore,
        "Remove it: logs go to stderr only. To keep them in files, let the service manager do it.",
    ),
];

/// A flag that needs a value, and takes the next argument for it.
const fn valued(
    name: &'static str,
    last: &'static str,
    handling: Handling,
    advice: &'static str,
) -> RemovedFlag {
    RemovedFlag {
        name,
        takes_value: true,
        last,
        handling,
        advice,
    }
}

/// A flag that stands alone; a value only comes after `=`.
const fn switch(
    name: &'static str,
    last: &'static str,
    handling: Handling,
    advice: &'static str,
) -> RemovedFlag {
    RemovedFlag {
        name,
        takes_value: false,
        last,
        handling,
        advice,
    }
}
