//! How a node begins and ends, and what it reports while it runs: system logs,
//! shutdown, restarts, taints, traces, runtime.

use super::row::row;
use crate::schema::{Field, Kind};

pub(super) const ROWS: &[Field] = &[
    row("enableSystemLogHandler", Kind::Bool)
        .optional()
        .json("true")
        .allowed("true while enableSystemLogQuery is true")
        .about(
            "Serves the files of /var/log under /logs/ of the HTTPS API, to callers who may read \
             them.",
        ),
    row("enableSystemLogQuery", Kind::Bool)
        .optional()
        .json("false")
        .allowed("false unless enableSystemLogHandler is true")
        .about(
            "Lets callers of /logs/ ask for the log of one service, from the journal for example, \
             without access to the machine.",
        ),
    row("shutdownGracePeriod", Kind::Duration)
        .gated("GracefulNodeShutdown")
        .allowed("zero, or 1s or longer")
        .about(
            "How long to hold up the machine's shutdown so that pods can end, \
             shutdownGracePeriodCriticalPods included; 0s turns it off. systemd-logind must allow \
             as long a delay.",
        ),
    row("shutdownGracePeriodCriticalPods", Kind::Duration)
        .gated("GracefulNodeShutdown")
        .allowed("zero, or 1s or longer, and not longer than shutdownGracePeriod")
        .about(
            "The last part of shutdownGracePeriod, kept for critical pods, such as the network \
             plugin.",
        ),
    row("shutdownGracePeriodByPodPriority", Kind::Objects)
        .gated("GracefulNodeShutdownBasedOnPodPriority")
        .allowed("empty while shutdownGracePeriod or shutdownGracePeriodCriticalPods is set")
        .about(
            "A shutdown in steps by pod priority, in place of the two periods above; pods of \
             lower priority end first.",
        ),
    row("shutdownGracePeriodByPodPriority[].priority", Kind::Int32)
        .printed()
        .gated("GracefulNodeShutdownBasedOnPodPriority")
        .about("The lowest priority of pods in this step; the next step's priority ends it."),
    row(
        "shutdownGracePeriodByPodPriority[].shutdownGracePeriodSeconds",
        Kind::Int64,
    )
    .printed()
    .gated("GracefulNodeShutdownBasedOnPodPriority")
    .about("How many seconds the pods of this step get to end."),
    row("crashLoopBackOff", Kind::Object)
        .gated("KubeletCrashLoopBackOffMax")
        .about("How long a container that keeps failing waits before it is started again."),
    row("crashLoopBackOff.maxContainerRestartPeriod", Kind::Duration)
        .optional()
        .depends("5m0s while the gate KubeletCrashLoopBackOffMax is on, else unset")
        .gated("KubeletCrashLoopBackOffMax")
        .allowed("from 1s to 300s, and unset while the gate KubeletCrashLoopBackOffMax is off")
        .about(
            "The longest wait between two starts of a failing container. Shorter brings it back \
             sooner after a fault is gone, and makes broken pods cost more.",
        ),
    row("reservedMemory", Kind::Objects)
        .flag("reserved-memory")
        .allowed("a list that names each NUMA node and resource once")
        .about(
            "How the memory kept from pods is spread over NUMA nodes, for the Static memory \
             policy. It must add up to kubeReserved, systemReserved and the hard eviction limit \
             of memory together.",
        ),
    row("reservedMemory[].numaNode", Kind::Int32)
        .printed()
        .allowed("a NUMA node of this machine")
        .about("The number of the NUMA node."),
    row("reservedMemory[].limits", Kind::QuantityMap)
        .printed()
        .allowed("a map of `memory` or `hugepages-<size>` to a quantity other than zero")
        .about("How much of each kind of memory is reserved on that node."),
    row("enableProfilingHandler", Kind::Bool)
        .optional()
        .json("true")
        .about(
            "Serves profiles under /debug/pprof/ of the HTTPS API, to callers who may read them.",
        ),
    row("enableDebugFlagsHandler", Kind::Bool)
        .optional()
        .json("true")
        .about(
            "Serves /debug/flags/v of the HTTPS API, where the log verbosity can be changed \
             without a restart.",
        ),
    row("seccompDefault", Kind::Bool)
        .optional()
        .json("false")
        .about(
            "Gives containers that name no seccomp profile the runtime's default one instead of \
             none. It is safer, but rare system calls then fail, so try it on a few nodes first. \
             The flag --seccomp-default turns it on too.",
        ),
    row("memoryThrottlingFactor", Kind::Float64)
        .optional()
        .json("0.9")
        .gated("MemoryQoS")
        .allowed("above 0 and at most 1")
        .about(
            "How far between a container's memory request and its limit the kernel begins to slow \
             the container down, as a fraction. Lower begins sooner.",
        ),
    row("memoryReservationPolicy", Kind::String)
        .json(r#""None""#)
        .gated("MemoryQoS")
        .allowed("`None`, or `TieredReservation` while the gate MemoryQoS is on")
        .about(
            "Whether the kernel keeps the memory that pods requested from being reclaimed. \
             TieredReservation promises it to Guaranteed pods and favours Burstable ones; None \
             does neither, and leaves the node more room to save itself.",
        ),
    row("registerWithTaints", Kind::Objects)
        .flag("register-with-taints")
        .allowed("a list of taints")
        .about(
            "Taints that the node object gets when the node registers for the first time. A node \
             object that is there already keeps its own.",
        ),
    row("registerWithTaints[].key", Kind::String)
        .printed()
        .allowed("a name such as `dedicated` or `example.com/gpu`")
        .about("The name of the taint."),
    row("registerWithTaints[].value", Kind::String)
        .allowed("empty or a valid label value")
        .about("The value of the taint, which tolerations can ask for."),
    row("registerWithTaints[].effect", Kind::String)
        .printed()
        .allowed("empty, `NoSchedule`, `PreferNoSchedule` or `NoExecute`")
        .about(
            "What happens to pods that do not tolerate the taint: NoSchedule keeps new ones away, \
             PreferNoSchedule tries to, NoExecute evicts those that run, too.",
        ),
    row("registerWithTaints[].timeAdded", Kind::Time)
        .optional()
        .allowed("absent")
        .about("When the taint was put on. The cluster fills it in."),
    row("registerNode", Kind::Bool)
        .optional()
        .json("true")
        .flag("register-node")
        .about(
            "Creates the node object if there is none. Turn it off where somebody else creates \
             it; without a kubeconfig it does nothing.",
        ),
    row("tracing", Kind::Object).optional().about(
        "Sends traces of the node's work to an OpenTelemetry collector; leave it out to send \
             none.",
    ),
    row("tracing.endpoint", Kind::String)
        .optional()
        .allowed(
            "an address without a scheme, or one that begins with `dns:`, `unix:` or \
             `unix-abstract:`",
        )
        .about("Where the collector takes OTLP over gRPC. Unset means localhost:4317."),
    row("tracing.samplingRatePerMillion", Kind::Int32)
        .optional()
        .allowed("from 0 to 1000000")
        .about(
            "How many of a million traces are recorded. Unset goes by the caller's choice and \
             records nothing that begins here.",
        ),
    row("localStorageCapacityIsolation", Kind::Bool)
        .optional()
        .json("true")
        .flag("local-storage-capacity-isolation")
        .about(
            "Treats local disk as a resource that pods request, and evicts pods that use more \
             than their limit. Turn it off where disk use cannot be measured, as on rootless \
             nodes.",
        ),
    row("containerRuntimeEndpoint", Kind::String)
        .printed()
        .json(r#""unix:///run/containerd/containerd.sock""#)
        .flag("container-runtime-endpoint")
        .allowed("not empty")
        .about("The socket of the container runtime; unix:///var/run/crio/crio.sock for CRI-O."),
    row("imageServiceEndpoint", Kind::String)
        .flag("image-service-endpoint")
        .about(
            "The socket of the image service, where that is not the container runtime itself. \
             containerd and CRI-O need none.",
        ),
    row("failCgroupV1", Kind::Bool)
        .optional()
        .json("true")
        .flag("fail-cgroupv1")
        .allowed("false on a machine with cgroup v1")
        .about(
            "Refuses to start on a machine with cgroup v1, whose days are counted. Set it to \
             false to run there for now.",
        ),
    row("userNamespaces", Kind::Object)
        .optional()
        .about("The ids given to pods that run in a user namespace of their own."),
    row("userNamespaces.idsPerPod", Kind::Int64)
        .optional()
        .allowed("a multiple of 65536 from 65536 to 4294901760")
        .about(
            "How many ids each such pod gets. More lets images with high user ids run, and leaves \
             room for fewer such pods. Unset means 65536.",
        ),
];
