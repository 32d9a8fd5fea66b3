//! Figures about probes, under upstream's names.
//!
//! Each probe has figures of its own, and a fleet has many probes: they are kept small
//! here, and written out when somebody asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use types::PodRef;
use types::figures::{Boards, Counter, Family, Figure as _, Page, SECONDS, Shown};

use crate::view::Purpose;

const TOTAL: Family = Family::counter(
    "prober_probe_total",
    "[BETA] How often containers were probed, by what came of it",
)
.by(&[
    "container",
    "namespace",
    "pod",
    "pod_uid",
    "probe_type",
    "result",
]);

const TOOK: Family = Family::histogram(
    "prober_probe_duration_seconds",
    "[ALPHA] How long probes took that went well",
    SECONDS,
)
.by(&["container", "namespace", "pod", "probe_type"]);

const LATE: Family = Family::counter(
    "ferrolet_prober_late_total",
    "Probes that the agent began or ended later than it should have",
);

/// Whose figures.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) pod: PodRef,
    pub(crate) container: String,
    pub(crate) purpose: Purpose,
}

/// What the probes of one node count.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    figures: Arc<Figures>,
    late: Arc<Late>,
}

/// Beside the node's other figures.
#[derive(Debug)]
struct Late(Counter);

impl Shown for Late {
    fn show(&self, page: &mut Page) {
        self.0.show(page);
    }
}

/// A mutex: a number is added under it, and nobody waits while holding it.
#[derive(Debug, Default)]
struct Figures {
    tallies: Mutex<BTreeMap<Key, Tally>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    successful: u32,
    failed: u32,
    seconds: f64,
    /// How many took at most so long, each counted once.
    buckets: [u32; SECONDS.len()],
}

impl Metrics {
    pub(crate) fn new(boards: &Boards) -> Self {
        let figures = Arc::<Figures>::default();
        let late = Arc::new(Late(Counter::new(&LATE)));
        boards.probes.hang(figures.clone());
        boards.node.hang(late.clone());
        Self { figures, late }
    }

    pub(crate) fn count(&self, key: &Key, well: bool, took: Duration) {
        let mut tallies = self.figures.lock();
        if !tallies.contains_key(key) {
            tallies.insert(key.clone(), Tally::default());
        }
        let Some(tally) = tallies.get_mut(key) else {
            return;
        };
        if !well {
            tally.failed += 1;
            return;
        }
        let took = took.as_secs_f64();
        tally.successful += 1;
        tally.seconds += took;
        if let Some(bucket) = SECONDS.iter().position(|most| took <= *most) {
            tally.buckets[bucket] += 1;
        }
    }

    pub(crate) fn late(&self, count: usize) {
        self.late.0.add(u64::try_from(count).unwrap_or_default());
    }

    /// Of one that is probed no more nothing is told.
    pub(crate) fn forget(&self, key: &Key) {
        self.figures.lock().remove(key);
    }

    #[cfg(test)]
    pub(crate) fn late_so_far(&self) -> u64 {
        self.late.0.get()
    }
}

impl Figures {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Tally>> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown for Figures {
    fn show(&self, page: &mut Page) {
        let tallies = self.lock();
        page.family(&TOTAL, |family| {
            for (key, tally) in tallies.iter() {
                let [container, namespace, pod, purpose] = key.labels();
                let uid = key.pod.uid.as_str();
                for (result, count) in [("failed", tally.failed), ("successful", tally.successful)]
                {
                    if count > 0 {
                        let labels = [container, namespace, pod, uid, purpose, result];
                        family.count(&labels, count.into());
                    }
                }
            }
        });
        page.family(&TOOK, |family| {
            let successful = tallies.iter().filter(|(_, tally)| tally.successful > 0);
            for (key, tally) in successful {
                family.spread(&key.labels(), &tally.numbers());
            }
        });
    }
}

impl Key {
    /// Container, namespace, pod and kind.
    fn labels(&self) -> [&str; 4] {
        let name = &self.pod.name;
        let purpose = match self.purpose {
            Purpose::Liveness => "Liveness",
            Purpose::Readiness => "Readiness",
            Purpose::Startup => "Startup",
        };
        [&self.container, &name.namespace, &name.name, purpose]
    }
}

impl Tally {
    /// One for each bucket, the infinite one, and the bits of the sum.
    fn numbers(&self) -> [u64; SECONDS.len() + 2] {
        let mut numbers = [0; SECONDS.len() + 2];
        for (number, count) in numbers.iter_mut().zip(self.buckets) {
            *number = count.into();
        }
        let within: u64 = numbers.iter().sum();
        numbers[SECONDS.len()] = u64::from(self.successful) - within;
        numbers[SECONDS.len() + 1] = self.seconds.to_bits();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use types::{PodName, PodUid};

    use super::*;

    fn shown(boards: &Boards) -> String {
        boards.probes.page().finish()
    }

    #[test]
    fn each_probe_has_upstreams_figures_as_long_as_there_is_one() {
        let boards = Boards::default();
        let metrics = Metrics::new(&boards);
        let key = Key {
            pod: PodRef {
                name: PodName {
                    namespace: "shop".to_owned(),
                    name: "web".to_owned(),
                },
                uid: PodUid::new("u-1"),
            },
            container: "app".to_owned(),
            purpose: Purpose::Liveness,
        };
        metrics.count(&key, true, Duration::from_millis(20));
        metrics.count(&key, true, Duration::from_secs(60));
        metrics.count(&key, false, Duration::from_secs(1));
        let text = shown(&boards);
        let (total, took) = (TOTAL.name, TOOK.name);
        let own = "container=\"app\",namespace=\"shop\",pod=\"web\"";
        let kind = "probe_type=\"Liveness\"";
        for line in [
            format!("{total}{{{own},pod_uid=\"u-1\",{kind},result=\"successful\"}} 2"),
            format!("{total}{{{own},pod_uid=\"u-1\",{kind},result=\"failed\"}} 1"),
            format!("{took}_bucket{{{own},{kind},le=\"0.01\"}} 0"),
            format!("{took}_bucket{{{own},{kind},le=\"0.025\"}} 1"),
            format!("{took}_bucket{{{own},{kind},le=\"10\"}} 1"),
            format!("{took}_bucket{{{own},{kind},le=\"+Inf\"}} 2"),
            format!("{took}_count{{{own},{kind}}} 2"),
        ] {
            assert!(text.contains(&line), "{line} is not in {text}");
        }
        metrics.forget(&key);
        assert!(!shown(&boards).contains("web"));
    }
}
