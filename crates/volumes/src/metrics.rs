//! Figures about volumes, under upstream's names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use types::PodUid;
use types::figures;
use types::figures::{Board, Family, Page, SECONDS, Shown};

const OPERATIONS: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
];

figures! {
    /// What is counted of work on volumes.
    struct Work {
        operations: Vector = Family::histogram(
            "storage_operation_duration_seconds",
            "[ALPHA] Seconds of work on a volume, by kind of volume, work and outcome",
            OPERATIONS,
        )
        .by(&["migrated", "operation_name", "status", "volume_plugin"]),
        totals: Vector = Family::histogram(
            "volume_operation_total_seconds",
            "[ALPHA] Seconds from the wish for a volume until it was there, by kind of volume",
            OPERATIONS,
        )
        .by(&["operation_name", "plugin_name"]),
        counts: Vector = Family::histogram(
            "kubelet_volume_metric_collection_duration_seconds",
            "[ALPHA] Seconds it took to learn what a volume takes up, by how it is learnt",
            SECONDS,
        )
        .by(&["metric_source"]),
    }
}

const TOTAL: Family = Family::gauge(
    "volume_manager_total_volumes",
    "[ALPHA] Volumes of the node's pods, by kind, and by whether they are wanted or there",
)
.by(&["plugin_name", "state"]);

/// The volumes of a pod, by the names of their kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) wanted: Vec<&'static str>,
    pub(crate) there: Vec<&'static str>,
}

/// The figures of a node's volumes. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    work: Arc<Work>,
    volumes: Arc<Volumes>,
}

/// A mutex: an entry is changed under it, and nobody waits while holding it.
#[derive(Debug, Default)]
struct Volumes(Mutex<BTreeMap<PodUid, Held>>);

impl Metrics {
    pub fn new(figures: &Board) -> Self {
        let metrics = Self::default();
        figures.hang(metrics.work.clone());
        figures.hang(metrics.volumes.clone());
        metrics
    }

    pub(crate) fn mounted(&self, plugin: &str, took: Duration, well: bool) {
        self.worked("volume_mount", plugin, took, well);
    }

    /// All that a pod had was taken away, or was not.
    pub(crate) fn unmounted(&self, uid: &PodUid, took: Duration, well: bool) {
        let held = if well {
            self.volumes.lock().remove(uid)
        } else {
            self.volumes.lock().get(uid).cloned()
        };
        for plugin in held.unwrap_or_default().there {
            self.worked("volume_unmount", plugin, took, well);
        }
    }

    fn worked(&self, work: &str, plugin: &str, took: Duration, well: bool) {
        let outcome = if well { "success" } else { "fail-unknown" };
        let labels = ["false", work, outcome, plugin];
        self.work.operations.took(&labels, took);
    }

    pub(crate) fn ready(&self, plugin: &str, took: Duration) {
        self.work
            .totals
            .took(&["overall_volume_mount", plugin], took);
    }

    /// It was counted what a volume takes up, by a walk or by its file system.
    pub(crate) fn counted(&self, walked: bool, took: Duration) {
        let source = if walked { "du" } else { "statfs" };
        self.work.counts.took(&[source], took);
    }

    pub(crate) fn hold(&self, uid: &PodUid, held: Held) {
        self.volumes.lock().insert(uid.clone(), held);
    }
}

impl Volumes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown for Volumes {
    fn show(&self, page: &mut Page) {
        let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for held in self.lock().values() {
            for plugin in &held.wanted {
                *counts
                    .entry((*plugin, "desired_state_of_world"))
                    .or_default() += 1;
            }
            for plugin in &held.there {
                *counts
                    .entry((*plugin, "actual_state_of_world"))
                    .or_default() += 1;
            }
        }
        page.family(&TOTAL, |family| {
            for ((plugin, state), count) in counts {
                family.count(&[plugin, state], count);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_counted_as_long_as_their_pod_has_them() {
        let figures = Board::default();
        let metrics = Metrics::new(&figures);
        let uid = PodUid::new("u-1");
        let (secret, disk) = ("kubernetes.io/secret", "kubernetes.io/empty-dir");
        let held = Held {
            wanted: vec![secret, disk],
            there: vec![disk],
        };
        metrics.hold(&uid, held);
        metrics.mounted(secret, Duration::from_secs(1), false);
        let shown = |line: &str| {
            let text = figures.page().finish();
            text.lines().any(|one| one == line)
        };
        let total = |plugin: &str, state: &str| {
            format!("volume_manager_total_volumes{{plugin_name=\"{plugin}\",state=\"{state}\"}} 1")
        };
        assert!(shown(&total(secret, "desired_state_of_world")));
        assert!(!shown(&total(secret, "actual_state_of_world")));
        assert!(shown(&total(disk, "actual_state_of_world")));
        metrics.unmounted(&uid, Duration::from_secs(1), true);
        assert!(!shown(&total(disk, "actual_state_of_world")));
        let operation = |work: &str, status: &str, plugin: &str| {
            format!(
                "storage_operation_duration_seconds_count{{migrated=\"false\",operation_name=\"{work}\",status=\"{status}\",volume_plugin=\"{plugin}\"}} 1"
            )
        };
        assert!(shown(&operation("volume_mount", "fail-unknown", secret)));
        assert!(shown(&operation("volume_unmount", "success", disk)));
        metrics.counted(true, Duration::from_millis(1));
        assert!(shown(
            "kubelet_volume_metric_collection_duration_seconds_count{metric_source=\"du\"} 1"
        ));
    }
}
