//! What the node tells the cluster and keeps on disk: images, events, health,
//! status.

use super::row::row;
use crate::schema::{Field, Kind};

pub(super) const ROWS: &[Field] = &[
    row("registryPullQPS", Kind::Int32)
        .optional()
        .json("5")
        .flag("registry-qps")
        .allowed("zero or more")
        .about("How many image pulls may start per second; 0 lifts the limit."),
    row("registryBurst", Kind::Int32)
        .json("10")
        .flag("registry-burst")
        .allowed("zero or more")
        .about(
            "How many image pulls may start at once before registryPullQPS slows them down. It \
             does nothing while registryPullQPS is 0.",
        ),
    row("imagePullCredentialsVerificationPolicy", Kind::String)
        .depends(
            "NeverVerifyPreloadedImages while the gate KubeletEnsureSecretPulledImages is on, \
             else unset",
        )
        .gated("KubeletEnsureSecretPulledImages")
        .allowed(
            "`NeverVerify`, `NeverVerifyPreloadedImages`, `NeverVerifyAllowlistedImages` or \
             `AlwaysVerify`, and unset while the gate KubeletEnsureSecretPulledImages is off",
        )
        .about(
            "Whether a pod must show pull credentials for an image that is already on the node. \
             The default asks for images that were pulled here with credentials and trusts those \
             that were put on the machine beforehand; choose AlwaysVerify on nodes shared by \
             tenants who must not use each other's images.",
        ),
    row("preloadedImagesVerificationAllowlist", Kind::Strings)
        .gated("KubeletEnsureSecretPulledImages")
        .allowed(
            "a list of image names without tag and digest, or of prefixes that end in `/*`, and \
             only with the policy NeverVerifyAllowlistedImages",
        )
        .about(
            "Images put on the machine beforehand that every pod may use without credentials. It \
             is read only with the policy NeverVerifyAllowlistedImages.",
        ),
    row("eventRecordQPS", Kind::Int32)
        .optional()
        .json("50")
        .flag("event-qps")
        .allowed("zero or more")
        .about(
            "How many events per second this node may write to the API. Lower it where events \
             weigh on etcd; events above it come late.",
        ),
    row("eventBurst", Kind::Int32)
        .json("100")
        .flag("event-burst")
        .allowed("zero or more")
        .about("How many events may be written at once before eventRecordQPS slows them down."),
    row("enableDebuggingHandlers", Kind::Bool)
        .optional()
        .json("true")
        .flag("enable-debugging-handlers")
        .about(
            "Serves logs, exec, attach, port-forward and the debug pages. Without it kubectl logs \
             and kubectl exec do not work on this node.",
        ),
    row("enableContentionProfiling", Kind::Bool)
        .flag("contention-profiling")
        .about(
            "Records where threads wait for locks, to be read from the profiling pages. It costs \
             some CPU, and does nothing where those pages are not served.",
        ),
    row("healthzPort", Kind::Int32)
        .optional()
        .json("10248")
        .flag("healthz-port")
        .allowed("0 (off) or a port number from 1 to 65535")
        .about(
            "The port of the plain-HTTP page /healthz, which kubeadm and service checks ask. 0 \
             turns it off.",
        ),
    row("healthzBindAddress", Kind::String)
        .json(r#""127.0.0.1""#)
        .flag("healthz-bind-address")
        .allowed("an IP address")
        .about(
            "The address that the health page listens on. Keep it on localhost unless something \
             off the machine has to ask.",
        ),
    row("oomScoreAdj", Kind::Int32)
        .optional()
        .json("-999")
        .flag("oom-score-adj")
        .allowed("from -1000 to 1000")
        .about(
            "How readily the kernel kills this process when memory runs out; lower is safer. The \
             default spares it for nearly everything else, so that it can still evict pods.",
        ),
    row("clusterDomain", Kind::String)
        .flag("cluster-domain")
        .about(
            "The DNS domain of the cluster, usually cluster.local. It goes into the search list \
             of containers; empty leaves it out.",
        ),
    row("clusterDNS", Kind::Strings)
        .flag("cluster-dns")
        .allowed("a list of IP addresses")
        .about(
            "The addresses of the cluster's DNS service, which go into containers' resolver \
             files. Without them, pods that want cluster DNS get the node's own resolver.",
        ),
    row("streamingConnectionIdleTimeout", Kind::Duration)
        .json(r#""4h0m0s""#)
        .flag("streaming-connection-idle-timeout")
        .deprecated("it has no effect: the container runtime decides when an idle stream is cut")
        .about("Used to say how long an idle exec, attach or port-forward stayed open."),
    row("nodeStatusUpdateFrequency", Kind::Duration)
        .json(r#""10s""#)
        .flag("node-status-update-frequency")
        .about(
            "How often the node's own state is looked at, to be written to the API if it changed. \
             Setting it also sets nodeStatusReportFrequency, unless you set that as well.",
        ),
    row("nodeStatusReportFrequency", Kind::Duration)
        .depends("nodeStatusUpdateFrequency if that is set, else 5m0s")
        .about(
            "How often the node's state is written to the API although nothing changed. Short \
             periods make big clusters write a lot; the lease already says that the node lives.",
        ),
    row("nodeLeaseDurationSeconds", Kind::Int32)
        .json("40")
        .allowed("greater than zero")
        .about(
            "How many seconds the node's lease, its heartbeat, is good for; it is renewed each \
             quarter of that. Shorter lets the cluster notice a dead node sooner and costs more \
             writes.",
        ),
    row("imageMinimumGCAge", Kind::Duration)
        .json(r#""2m0s""#)
        .flag("minimum-image-ttl-duration")
        .allowed("zero or longer")
        .about("How long an unused image is kept even when the disk is too full."),
    row("imageMaximumGCAge", Kind::Duration)
        .allowed("zero, or longer than imageMinimumGCAge")
        .about(
            "Removes images that were unused for this long even when the disk has room; 0s turns \
             this off. The count starts anew when the kubelet restarts.",
        ),
    row("imageGCHighThresholdPercent", Kind::Int32)
        .optional()
        .json("85")
        .flag("image-gc-high-threshold")
        .allowed("from 0 to 100, and above imageGCLowThresholdPercent")
        .about(
            "How full the image disk may get, in percent, before unused images are removed. 100 \
             turns removal by space off.",
        ),
    row("imageGCLowThresholdPercent", Kind::Int32)
        .optional()
        .json("80")
        .flag("image-gc-low-threshold")
        .allowed("from 0 to 100, and below imageGCHighThresholdPercent")
        .about("How full the image disk may still be, in percent, when removal stops again."),
    row("volumeStatsAggPeriod", Kind::Duration)
        .json(r#""1m0s""#)
        .flag("volume-stats-agg-period")
        .about(
            "How often the disk use of pods' volumes is added up. Longer spares the disk where \
             volumes hold many files; a negative value turns these figures off.",
        ),
];
