//! Figures about cgroups, under upstream's names.

use types::figures;
use types::figures::{Family, SECONDS};

figures! {
    /// What is counted of the cgroups of one node.
    pub struct Metrics {
        pub(crate) changes: Vector = Family::histogram(
            "kubelet_cgroup_manager_duration_seconds",
            "[ALPHA] Seconds that it took to make, change or remove a cgroup",
            SECONDS,
        )
        .by(&["operation_type"]),
        pub(crate) version: Gauge = Family::gauge(
            "kubelet_cgroup_version",
            "[ALPHA] The version of the machine's cgroups",
        ),
    }
}
