//! Figures about images, under upstream's names.

use types::figures;
use types::figures::{Family, SECONDS};

use crate::policy::PullPolicy;

/// Seconds of a pull, up to an hour.
const PULLS: &[f64] = &[
    1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0,
    1200.0, 1800.0, 2700.0, 3600.0,
];

/// From which size on, in MiB, an image counts as so large.
const SIZES: [(u64, &str); 12] = [
    (100 << 10, "GT100GB"),
    (60 << 10, "60GB-100GB"),
    (40 << 10, "40GB-60GB"),
    (30 << 10, "30GB-40GB"),
    (20 << 10, "20GB-30GB"),
    (10 << 10, "10GB-20GB"),
    (5 << 10, "5GB-10GB"),
    (1 << 10, "1GB-5GB"),
    (500, "500MB-1GB"),
    (100, "100MB-500MB"),
    (10, "10MB-100MB"),
    (0, "0-10MB"),
];

figures! {
    /// What the images of one node count.
    pub struct Metrics {
        pub(crate) pulls: Vector = Family::histogram(
            "kubelet_image_pull_duration_seconds",
            "[ALPHA] Seconds from the wish for an image to its arrival, by its size",
            PULLS,
        )
        .by(&["image_size_in_bytes"]),
        pub(crate) requests: Vector = Family::counter(
            "kubelet_image_manager_ensure_image_requests_total",
            "[ALPHA] Images that containers were to have, by policy, and by whether they were here and had to be pulled",
        )
        .by(&["present_locally", "pull_policy", "pull_required"]),
        pub(crate) checks: Vector = Family::counter(
            "kubelet_imagemanager_image_mustpull_checks_total",
            "[ALPHA] How often it was judged whether a pod may use an image that is here, by verdict",
        )
        .by(&["result"]),
        pub(crate) intents: Gauge = Family::gauge(
            "kubelet_imagemanager_ondisk_pullintents",
            "[ALPHA] Pulls that are recorded as begun and not as ended",
        ),
        pub(crate) records: Gauge = Family::gauge(
            "kubelet_imagemanager_ondisk_pulledrecords",
            "[ALPHA] Images that are recorded with the credentials that they were pulled with",
        ),
        pub(crate) plugin_failures: Vector = Family::counter(
            "kubelet_credential_provider_plugin_errors_total",
            "[ALPHA] Runs of credential provider plugins that failed, by plugin",
        )
        .by(&["plugin_name"]),
        pub(crate) plugin_runs: Vector = Family::histogram(
            "kubelet_credential_provider_plugin_duration",
            "[ALPHA] Seconds that runs of credential provider plugins took, by plugin",
            SECONDS,
        )
        .by(&["plugin_name"]),
        pub(crate) plugin_config: Vector = Family::gauge(
            "kubelet_credential_provider_config_info",
            "[ALPHA] 1 for the configuration of credential provider plugins that is in use, by its digest",
        )
        .by(&["hash"]),
    }
}

/// What one request came to, as far as it came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Course {
    pub(crate) present: Option<bool>,
    pub(crate) pulled: Option<bool>,
}

impl Metrics {
    pub(crate) fn requested(&self, policy: PullPolicy, course: Course) {
        let word = |known: Option<bool>| match known {
            None => "unknown",
            Some(true) => "true",
            Some(false) => "false",
        };
        let policy = match policy {
            PullPolicy::Always => "always",
            PullPolicy::IfNotPresent => "ifnotpresent",
            PullPolicy::Never => "never",
        };
        let labels = [word(course.present), policy, word(course.pulled)];
        self.requests.inc(&labels);
    }
}

/// As which size an image counts.
pub(crate) fn size_class(bytes: u64) -> &'static str {
    let mut sizes = SIZES.iter();
    let class = sizes.find(|(from, _)| bytes > from << 20);
    class.map_or("N/A", |(_, class)| class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_classed_by_size() {
        for (bytes, class) in [
            (0, "N/A"),
            (1, "0-10MB"),
            (10 << 20, "0-10MB"),
            ((10 << 20) + 1, "10MB-100MB"),
            (700 << 20, "500MB-1GB"),
            (3 << 30, "1GB-5GB"),
            (100 << 30, "60GB-100GB"),
            (101 << 30, "GT100GB"),
        ] {
            assert_eq!(size_class(bytes), class, "{bytes}");
        }
    }
}
