//! What pods run in: cgroups, CPUs, memory and NUMA nodes, limits of a pod and
//! of the process.

use super::row::row;
use crate::schema::{Field, Kind};

pub(super) const ROWS: &[Field] = &[
    row("kubeletCgroups", Kind::String)
        .flag("kubelet-cgroups")
        .about(
            "A cgroup to move this process into, made if it is missing. Leave it empty to stay \
             where the service manager put it.",
        ),
    row("systemCgroups", Kind::String)
        .flag("system-cgroups")
        .allowed("empty unless cgroupRoot is set")
        .about(
            "A cgroup to move all processes into that are in no other. Only a restart of the \
             machine undoes it; empty moves nothing.",
        ),
    row("cgroupRoot", Kind::String)
        .flag("cgroup-root")
        .allowed("a cgroup that exists")
        .about(
            "The cgroup below which pods' cgroups are made. Leave it empty for the root of the \
             hierarchy.",
        ),
    row("cgroupsPerQOS", Kind::Bool)
        .optional()
        .json("true")
        .flag("cgroups-per-qos")
        .allowed("true unless enforceNodeAllocatable is empty or `none`")
        .about(
            "Makes a cgroup for each class of service and each pod, which limits and reservations \
             stand on. Turn it off only together with enforceNodeAllocatable `none`.",
        ),
    row("cgroupDriver", Kind::String)
        .json(r#""cgroupfs""#)
        .flag("cgroup-driver")
        .allowed("`cgroupfs` or `systemd`")
        .about(
            "Who makes the cgroups: the kubelet by itself (cgroupfs) or systemd. It has to be \
             what the container runtime uses; a runtime that can tell is asked, and overrules \
             this.",
        ),
    row("cpuManagerPolicy", Kind::String)
        .json(r#""none""#)
        .flag("cpu-manager-policy")
        .allowed("`none` or `static`")
        .about(
            "static gives Guaranteed pods that ask for whole CPUs those CPUs alone; some CPU must \
             then be reserved for the system. To change it, drain the node, stop the kubelet and \
             delete cpu_manager_state.",
        ),
    row("singleProcessOOMKill", Kind::Bool)
        .optional()
        .allowed("true or unset on a machine with cgroup v1")
        .about(
            "When a container runs out of memory, true kills one of its processes and false all \
             of them together. Unset means true on cgroup v1 and false on v2.",
        ),
    row("cpuManagerPolicyOptions", Kind::StringMap)
        .flag("cpu-manager-policy-options")
        .allowed("a map of known options to `true` or `false`")
        .about(
            "Refinements of the static CPU policy, such as full-pcpus-only or \
             strict-cpu-reservation. The alpha and beta ones need the gates \
             CPUManagerPolicyAlphaOptions and CPUManagerPolicyBetaOptions.",
        ),
    row("cpuManagerReconcilePeriod", Kind::Duration)
        .json(r#""10s""#)
        .flag("cpu-manager-reconcile-period")
        .about(
            "How often the CPU sets of running containers are compared with what was assigned, \
             and put right.",
        ),
    row("memoryManagerPolicy", Kind::String)
        .json(r#""None""#)
        .flag("memory-manager-policy")
        .allowed("`None` or `Static`")
        .about(
            "Static takes the memory of Guaranteed pods from chosen NUMA nodes, and needs \
             reservedMemory; None leaves that to the kernel.",
        ),
    row("topologyManagerPolicy", Kind::String)
        .json(r#""none""#)
        .flag("topology-manager-policy")
        .allowed("`none`, `best-effort`, `restricted` or `single-numa-node`")
        .about(
            "How hard to try to give a container CPUs, memory and devices from one NUMA node. \
             best-effort only prefers it; restricted and single-numa-node turn pods away that \
             cannot have it.",
        ),
    row("topologyManagerScope", Kind::String)
        .json(r#""container""#)
        .flag("topology-manager-scope")
        .allowed("`container` or `pod`")
        .about(
            "Whether NUMA placement is chosen for each container alone or for the whole pod. pod \
             suits pods whose containers work on the same data.",
        ),
    row("topologyManagerPolicyOptions", Kind::StringMap)
        .flag("topology-manager-policy-options")
        .allowed(
            "a map with `prefer-closest-numa-nodes` (true or false) or `max-allowable-numa-nodes` \
             (a number)",
        )
        .about(
            "Refinements of the topology policy. Machines with more than 8 NUMA nodes need \
             max-allowable-numa-nodes, or start-up is refused.",
        ),
    row("qosReserved", Kind::StringMap)
        .flag("qos-reserved")
        .gated("QOSReserved")
        .allowed("a map with the one key `memory` and a whole percentage from `0%` to `100%`")
        .about(
            "How much of the memory that pods request is kept from pods of lower classes, in \
             percent. At 100% a best-effort pod can never take what a guaranteed pod was \
             promised.",
        ),
    row("runtimeRequestTimeout", Kind::Duration)
        .json(r#""2m0s""#)
        .flag("runtime-request-timeout")
        .about(
            "How long to wait for an answer of the container runtime, except for pulls, logs, \
             exec and attach. On slow disks raise it rather than see container starts fail and \
             repeat.",
        ),
    row("hairpinMode", Kind::String)
        .json(r#""promiscuous-bridge""#)
        .flag("hairpin-mode")
        .deprecated("nothing reads it: the network plugin decides")
        .allowed("`promiscuous-bridge`, `hairpin-veth` or `none`")
        .about("Used to say how a pod reaches itself through its own service."),
    row("maxPods", Kind::Int32)
        .json("110")
        .flag("max-pods")
        .allowed("zero or more")
        .about(
            "The most pods that may run here; more are turned away. Check first that the pod \
             network has that many addresses for a node.",
        ),
    row("podCIDR", Kind::String).flag("pod-cidr").about(
        "The range of pods' addresses on a node without an API server. Otherwise the cluster \
             assigns it, and this is not read.",
    ),
    row("podPidsLimit", Kind::Int64)
        .optional()
        .json("-1")
        .flag("pod-max-pids")
        .about(
            "The most processes and threads that one pod may have, so that a fork bomb stays \
             inside its pod. -1 lets a pod have as many as the node can give.",
        ),
    row("resolvConf", Kind::String)
        .optional()
        .json(r#""/etc/resolv.conf""#)
        .flag("resolv-conf")
        .about(
            "The resolver file that containers' DNS settings start from. With systemd-resolved \
             use /run/systemd/resolve/resolv.conf, because its stub address makes cluster DNS ask \
             itself; an empty string takes nothing from the node.",
        ),
    row("runOnce", Kind::Bool)
        .flag("runonce")
        .deprecated("the mode is gone and true is refused")
        .allowed("false")
        .about("Used to run the static pods once and exit."),
    row("cpuCFSQuota", Kind::Bool)
        .optional()
        .json("true")
        .flag("cpu-cfs-quota")
        .about(
            "Holds containers to their CPU limits. When off, limits are not enforced and a busy \
             container takes whatever is free.",
        ),
    row("cpuCFSQuotaPeriod", Kind::Duration)
        .optional()
        .json(r#""100ms""#)
        .flag("cpu-cfs-quota-period")
        .allowed("from 1ms to 1s, and 100ms while the gate CustomCPUCFSQuotaPeriod is off")
        .about(
            "The slice of time in which a CPU limit is counted. A shorter one makes the pauses of \
             throttled containers shorter and costs CPU; leave it unless such pauses hurt.",
        ),
    row("nodeStatusMaxImages", Kind::Int32)
        .optional()
        .json("50")
        .flag("node-status-max-images")
        .allowed("-1 or more")
        .about(
            "How many images the node's status names, by which the scheduler prefers nodes that \
             have an image already; -1 names all. Lower it if node objects grow too big.",
        ),
    row("maxOpenFiles", Kind::Int64)
        .json("1000000")
        .flag("max-open-files")
        .allowed("zero or more")
        .about("How many files this process may have open at once."),
    row("contentType", Kind::String)
        .json(r#""application/vnd.kubernetes.protobuf""#)
        .flag("kube-api-content-type")
        .about(
            "The encoding of requests to the API server. The default is compact; application/json \
             is of use only to read the traffic.",
        ),
    row("kubeAPIQPS", Kind::Int32)
        .optional()
        .json("50")
        .flag("kube-api-qps")
        .allowed("zero or more")
        .about(
            "How many requests per second this node may send to the API server, heartbeats aside. \
             Raise it for nodes with many pods, with the API server's load in mind.",
        ),
    row("kubeAPIBurst", Kind::Int32)
        .json("100")
        .flag("kube-api-burst")
        .allowed("zero or more")
        .about(
            "How many requests may go to the API server at once before kubeAPIQPS slows them \
             down.",
        ),
];
