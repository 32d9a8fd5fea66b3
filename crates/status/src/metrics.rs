//! A figure about reports, under upstream's name.

use types::figures;
use types::figures::Family;

figures! {
    /// What the sender of reports counts.
    pub struct Metrics {
        pub(crate) told: Histogram = Family::histogram(
            "kubelet_pod_status_sync_duration_seconds",
            "[ALPHA] Seconds from a change of a pod's status until the API server has it",
            &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0],
        ),
    }
}
