//! What keeps a node usable: pulls, eviction, kernel settings, gates, swap,
//! container logs.

use super::row::row;
use crate::schema::{Field, Kind};

pub(super) const ROWS: &[Field] = &[
    row("serializeImagePulls", Kind::Bool)
        .optional()
        .depends("true, or false if maxParallelImagePulls is 2 or more")
        .flag("serialize-image-pulls")
        .allowed("false while maxParallelImagePulls is above 1")
        .about(
            "Pulls one image at a time. Set it to false to pull side by side, which fills a new \
             node faster but can keep its disk and network busy; cap it with \
             maxParallelImagePulls.",
        ),
    row("maxParallelImagePulls", Kind::Int32)
        .optional()
        .allowed("1 or more, and at most 1 while serializeImagePulls is true")
        .about("The most image pulls at once when they are not serialized. Unset means no cap."),
    row("evictionHard", Kind::StringMap)
        .emptiable()
        .depends(
            "with a --config file memory.available 100Mi, nodefs.available 10%, nodefs.inodesFree \
             5%, imagefs.available 15% and imagefs.inodesFree 5%; without one nothing",
        )
        .flag("eviction-hard")
        .allowed(
            "a map of eviction signals to a quantity above zero or a percentage from `0%` to \
             `100%`",
        )
        .about(
            "How little free memory, disk, inodes or process ids may get before pods are evicted \
             at once, without their grace period. It replaces all the defaults unless \
             mergeDefaultEvictionSettings is on, so name each signal that you want.",
        ),
    row("evictionSoft", Kind::StringMap)
        .flag("eviction-soft")
        .allowed(
            "a map of eviction signals to a quantity above zero or a percentage, each with an \
             entry in evictionSoftGracePeriod",
        )
        .about(
            "Like evictionHard, but pods are evicted only when the shortage lasts, and get time \
             to end. Choose limits that are reached before the hard ones.",
        ),
    row("evictionSoftGracePeriod", Kind::StringMap)
        .flag("eviction-soft-grace-period")
        .allowed("a map of eviction signals to durations of zero or longer")
        .about(
            "For each signal of evictionSoft, how long the shortage must last before pods are \
             evicted.",
        ),
    row("evictionPressureTransitionPeriod", Kind::Duration)
        .json(r#""5m0s""#)
        .flag("eviction-pressure-transition-period")
        .about(
            "How long a shortage must be over before the node says so. When too short, pods come \
             back only to be evicted again.",
        ),
    row("evictionMaxPodGracePeriod", Kind::Int32)
        .flag("eviction-max-pod-grace-period")
        .about(
            "The most seconds that a pod gets to end when a soft limit evicts it; a shorter grace \
             period of its own still counts. 0 gives it none.",
        ),
    row("evictionMinimumReclaim", Kind::StringMap)
        .flag("eviction-minimum-reclaim")
        .allowed("a map of eviction signals to a quantity or percentage of zero or more")
        .about(
            "For each signal, how much to free beyond its limit once eviction has begun, so that \
             the next shortage does not follow at once.",
        ),
    row("mergeDefaultEvictionSettings", Kind::Bool)
        .optional()
        .json("false")
        .about(
            "Keeps the default limit of each signal that evictionHard does not name. This works \
             on the main file only, not on a drop-in's evictionHard.",
        ),
    row("podsPerCore", Kind::Int32)
        .flag("pods-per-core")
        .allowed("zero or more")
        .about(
            "Caps the pods at this many per CPU, with maxPods as the cap over all; 0 turns it \
             off.",
        ),
    row("enableControllerAttachDetach", Kind::Bool)
        .optional()
        .json("true")
        .flag("enable-controller-attach-detach")
        .about(
            "Leaves attaching and detaching of disks to the controller manager. Turn it off only \
             where no such controller runs.",
        ),
    row("protectKernelDefaults", Kind::Bool)
        .flag("protect-kernel-defaults")
        .about(
            "Refuses to start if kernel settings are not what the kubelet needs, instead of \
             changing them. For machines whose sysctls somebody else looks after.",
        ),
    row("makeIPTablesUtilChains", Kind::Bool)
        .optional()
        .json("true")
        .flag("make-iptables-util-chains")
        .about(
            "Keeps an empty iptables chain, KUBE-IPTABLES-HINT, from which other programs see \
             which variant of iptables is in use. Nothing else depends on it any more.",
        ),
    row("iptablesMasqueradeBit", Kind::Int32)
        .optional()
        .json("14")
        .deprecated("it has no effect: kube-proxy marks packets by a setting of its own")
        .allowed("from 0 to 31")
        .about("Used to choose the packet mark for source NAT."),
    row("iptablesDropBit", Kind::Int32)
        .optional()
        .json("15")
        .deprecated("it has no effect: packets are no longer marked to be dropped")
        .allowed("from 0 to 31")
        .about("Used to choose the packet mark for packets to drop."),
    row("featureGates", Kind::BoolMap)
        .flag("feature-gates")
        .allowed(
            "a map of known feature gates to true or false, in which a locked gate keeps its \
             value",
        )
        .about(
            "Turns features on or off by name. AllAlpha and AllBeta stand for all features of a \
             stage, and a gate that is named itself wins over them.",
        ),
    row("failSwapOn", Kind::Bool)
        .optional()
        .json("true")
        .flag("fail-swap-on")
        .about(
            "Refuses to start on a machine with swap. Set it to false to run with swap on; \
             memorySwap.swapBehavior then says whether pods may use it.",
        ),
    row("memorySwap", Kind::Object)
        .about("Whether pods may use the machine's swap, where failSwapOn is false."),
    row("memorySwap.swapBehavior", Kind::String)
        .allowed("empty, `NoSwap` or `LimitedSwap`")
        .about(
            "NoSwap (also meant by empty) keeps pods out of swap. LimitedSwap gives Burstable \
             pods a share that goes by their memory requests; it needs cgroup v2.",
        ),
    row("containerLogMaxSize", Kind::String)
        .json(r#""10Mi""#)
        .flag("container-log-max-size")
        .allowed("a quantity of whole bytes such as `10Mi`; `1.5Mi` is none")
        .about(
            "How big a container's log may grow before a new file is begun. Sizes are looked at \
             now and then (containerLogMonitorInterval), so a fast writer gets past it; a \
             negative size turns rotation off.",
        ),
    row("containerLogMaxFiles", Kind::Int32)
        .optional()
        .json("5")
        .flag("container-log-max-files")
        .allowed("2 or more")
        .about(
            "How many files of a container's log are kept, the current one included. At worst a \
             container's logs take this times containerLogMaxSize of disk.",
        ),
    row("containerLogMaxWorkers", Kind::Int32)
        .optional()
        .json("1")
        .allowed("1 or more")
        .about(
            "How many logs are rotated at the same time. Raise it on nodes with many containers \
             that write a lot.",
        ),
    row("containerLogMonitorInterval", Kind::Duration)
        .optional()
        .json(r#""10s""#)
        .allowed("3s or longer")
        .about(
            "How often the sizes of logs are looked at. Shorter keeps fast writers nearer to \
             containerLogMaxSize, at some cost in disk reads.",
        ),
    row("configMapAndSecretChangeDetectionStrategy", Kind::String)
        .json(r#""Watch""#)
        .allowed("`Get`, `Cache` or `Watch`")
        .about(
            "How changes of the configMaps and secrets in use are noticed. Watch is told of them; \
             Cache asks again when its copy is old; Get asks every time, which loads the API \
             server most.",
        ),
];
