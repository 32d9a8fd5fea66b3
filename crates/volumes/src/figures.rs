//! Counts what the volumes of pods take up, from time to time, and publishes it.
//! Nothing is counted while nobody asks: who does gets what was counted last, and is the
//! reason for the next count.
//!
//! One task for all pods: each has its own time, spread so that a disk is not asked for
//! everything at once. A pod whose disk does not answer holds up no other, and is not
//! asked again before it has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::{Pod, Volume};
use seams::Storage;
use seams::host::HostError;
use seams::storage::perform;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use types::PodUid;
use types::volume_figures::{PodVolumeFigures, VolumeFigures};

use crate::claims::ClaimAsk;
use crate::pod;
use crate::setup::MountedVolume;
use crate::volumes::Volumes;

/// Where nobody says how often.
pub const DEFAULT_PERIOD: Duration = Duration::from_secs(60);

/// How it is known what a volume takes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// It is the machine's own, or the runtime's.
    Not,
    /// By a walk through it.
    Walked,
    /// Its file system tells: it is all of it.
    Whole,
}

/// A volume that can be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Countable {
    pub(crate) name: String,
    path: PathBuf,
    claim: Option<String>,
    on_local_disk: bool,
    whole: bool,
}

/// Those of a pod's volumes that can be counted: not what is the machine's own.
pub(crate) fn countable(pod: &Pod, mounted: &[MountedVolume]) -> Vec<Countable> {
    let volumes = pod::used_volumes(pod).into_iter();
    let countable = volumes.filter_map(|volume| {
        let found = mounted.iter().find(|found| found.name == volume.name)?;
        let whole = match found.counted {
            Counted::Not => return None,
            Counted::Walked => false,
            Counted::Whole => true,
        };
        Some(Countable {
            name: volume.name.clone(),
            path: found.path.clone(),
            claim: ClaimAsk::of(pod, volume).map(|ask| ask.claim),
            on_local_disk: is_on_local_disk(volume),
            whole,
        })
    });
    countable.collect()
}

/// What upstream counts for the pod's use of the node's disk.
fn is_on_local_disk(volume: &Volume) -> bool {
    let empty_dir = volume.empty_dir.as_ref();
    let on_disk = |medium: Option<&str>| medium.is_none_or(str::is_empty);
    volume.config_map.is_some()
        || volume.git_repo.is_some()
        || empty_dir.is_some_and(|source| on_disk(source.medium.as_deref()))
}

impl Countable {
    fn count(&self, storage: &dyn Storage, now: SystemTime) -> Result<VolumeFigures, HostError> {
        let of_disk = storage.file_system(&self.path)?;
        let (used, inodes_used) = if self.whole {
            let inodes = of_disk.inodes.saturating_sub(of_disk.inodes_free);
            (of_disk.used, inodes)
        } else {
            let usage = storage.usage(&self.path)?;
            (usage.bytes, usage.inodes)
        };
        Ok(VolumeFigures {
            name: self.name.clone(),
            claim: self.claim.clone(),
            on_local_disk: self.on_local_disk,
            counted_at: now,
            capacity: of_disk.capacity,
            available: of_disk.available,
            used,
            inodes: of_disk.inodes,
            inodes_free: of_disk.inodes_free,
            inodes_used,
        })
    }
}

/// Counts volumes. Runs as one task.
#[derive(Debug)]
pub struct Counting {
    volumes: Volumes,
    period: Duration,
    asked: watch::Receiver<()>,
    published: watch::Sender<Arc<PodVolumeFigures>>,
    /// By the uptime.
    due: BTreeMap<PodUid, Due>,
}

#[derive(Debug)]
struct Due {
    at: Duration,
    /// Taken while its disk is asked.
    free: Arc<Semaphore>,
}

impl Counting {
    /// `period` is `volumeStatsAggPeriod`; `asked` is told by those who want to know.
    pub fn new(
        volumes: Volumes,
        period: Duration,
        asked: watch::Receiver<()>,
        published: watch::Sender<Arc<PodVolumeFigures>>,
    ) -> Self {
        Self {
            volumes,
            period,
            asked,
            published,
            due: BTreeMap::new(),
        }
    }

    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.count_on()).await;
    }

    async fn count_on(&mut self) {
        let clock = Arc::clone(&self.volumes.foundations().clock);
        while self.asked.changed().await.is_ok() {
            self.count_due().await;
            let now = clock.uptime();
            let first = self.due.values().map(|due| due.at).min();
            let pause = first.map(|at| at.saturating_sub(now));
            // Pods that are new are found by then.
            let pause = pause.map_or(self.period, |pause| pause.min(self.period));
            clock.sleep(pause).await;
        }
    }

    /// Those whose time has come, one after the other.
    async fn count_due(&mut self) {
        let countable = self.volumes.countable();
        self.forget_all_but(&countable.keys().cloned().collect());
        let clock = Arc::clone(&self.volumes.foundations().clock);
        for (uid, volumes) in countable {
            let now = clock.uptime();
            let due = self.due.entry(uid.clone()).or_insert_with(|| Due {
                at: now,
                free: Arc::new(Semaphore::new(1)),
            });
            if due.at > now {
                continue;
            }
            due.at = now + self.period.mul_f64(1.0 + clock.random());
            let Ok(permit) = Arc::clone(&due.free).try_acquire_owned() else {
                debug!(%uid, "volumes are not counted: their disk does not answer");
                continue;
            };
            let on = self.volumes.foundations();
            let (metrics, at) = (on.metrics.clone(), clock.now());
            let watch = Arc::clone(&clock);
            let counted = perform(&on.storage, move |storage| {
                let counted = volumes.iter().map(|volume| {
                    let begun = watch.uptime();
                    let counted = volume.count(storage, at);
                    let took = watch.uptime().saturating_sub(begun);
                    metrics.counted(!volume.whole, took);
                    counted
                });
                let counted: Vec<_> = counted.collect();
                drop(permit);
                counted
            });
            let Ok(Ok(counted)) = seams::timeout(&*clock, self.period, counted).await else {
                continue;
            };
            let mut figures = Vec::new();
            for outcome in counted {
                match outcome {
                    Ok(volume) => figures.push(volume),
                    Err(error) => debug!(%uid, %error, "a volume cannot be counted"),
                }
            }
            self.published.send_modify(|all| {
                Arc::make_mut(all).insert(uid.clone(), Arc::new(figures));
            });
        }
    }

    fn forget_all_but(&mut self, there: &BTreeSet<PodUid>) {
        self.due.retain(|uid, _| there.contains(uid));
        self.published.send_if_modified(|all| {
            let gone = all.keys().any(|uid| !there.contains(uid));
            if gone {
                Arc::make_mut(all).retain(|uid, _| there.contains(uid));
            }
            gone
        });
    }
}
