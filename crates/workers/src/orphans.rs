//! What pods that are gone have left on the machine: directories with volumes in them,
//! and cgroups.
//!
//! Removing it may take as long as a disk likes, so the node goes on meanwhile, and
//! pods come: whether one is gone is asked again before each step.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use resources::garbage::Wanted;
use seams::Clock;
use tokio::sync::watch;
use tracing::{info, warn};
use types::{PodRef, PodUid};
use volumes::Volumes;

use crate::foundations::Foundations;

/// What takes longer goes on by itself, and is looked for again with the next pass.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who is known at this moment: wanted by somebody, or in the runtime's hands.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) wanted: watch::Receiver<Arc<Wanted>>,
    pub(crate) observed: watch::Receiver<Option<Arc<BTreeSet<PodRef>>>>,
}

impl Known {
    fn has(&self, uid: &PodUid) -> bool {
        let observed = self.observed.borrow();
        let mut observed = observed.iter().flat_map(|pods| pods.iter());
        self.wanted.borrow().existing.contains(uid) || observed.any(|pod| pod.uid == *uid)
    }

    /// Ends when it is, at once if it is already.
    async fn comes(&self, uid: &PodUid) {
        let Self {
            mut wanted,
            mut observed,
        } = self.clone();
        while !self.has(uid) {
            let told = tokio::select! {
                told = wanted.changed() => told,
                told = observed.changed() => told,
            };
            if told.is_err() {
                // The agent is ending.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// One pass. To be polled by the task that makes pods known: none comes between the
/// question and the step that follows it.
pub(crate) async fn remove(on: Arc<Foundations>, known: Known) {
    let is_known = |uid: &PodUid| known.has(uid);
    on.actuated.retain(is_known);
    // The record went with the directory.
    let forget = |uid: &PodUid| on.users.forget(uid);
    if let Some(found) = directories(&on.volumes, &*on.clock, &is_known, &forget).await {
        let metrics = &on.metrics;
        metrics.orphan_directories.set_count(found.all);
        metrics.orphan_directories_failed.set_count(found.failed);
    }
    on.volumes.settle();
    cgroups(&on, &known).await;
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    all: usize,
    /// So many of them are still there.
    failed: usize,
}

/// `forget` is called with each pod at the moment when its directory is gone. `None`:
/// they cannot be looked at.
async fn directories(
    volumes: &Volumes,
    clock: &dyn Clock,
    is_known: &(dyn Fn(&PodUid) -> bool + Sync),
    forget: &(dyn Fn(&PodUid) + Sync),
) -> Option<Found> {
    let pods = match seams::timeout(clock, PATIENCE, volumes.on_disk()).await {
        Ok(Ok(pods)) => pods,
        Ok(Err(error)) => {
            warn!(%error, "directories of pods cannot be looked at");
            return None;
        }
        Err(_) => {
            warn!("directories of pods cannot be looked at: the disk does not answer");
            return None;
        }
    };
    let mut found = Found::default();
    for uid in pods.into_iter().map(|pod| pod.uid) {
        let removing = directory(volumes, &uid, is_known);
        match seams::timeout(clock, PATIENCE, removing).await {
            Ok(Ok(false)) => continue,
            Ok(Ok(true)) => {
                forget(&uid);
                info!(%uid, "the directory of a pod that is gone was removed");
            }
            Ok(Err(error)) => {
                warn!(%uid, %error, "the directory of a pod that is gone stays");
                found.failed += 1;
            }
            Err(_) => {
                warn!(%uid, "the directory of a pod that is gone is not removed yet: the disk takes its time");
                found.failed += 1;
            }
        }
        found.all += 1;
    }
    Some(found)
}

/// Whether it is gone: not if its pod is known, or becomes so in between.
async fn directory(
    volumes: &Volumes,
    uid: &PodUid,
    is_known: &(dyn Fn(&PodUid) -> bool + Sync),
) -> Result<bool, volumes::UnmountError> {
    if is_known(uid) {
        return Ok(false);
    }
    volumes.unmount(uid).await?;
    if is_known(uid) {
        return Ok(false);
    }
    volumes.remove_pod(uid).await?;
    Ok(true)
}

async fn cgroups(on: &Foundations, known: &Known) {
    let Some(cgroups) = &on.cgroups else {
        return;
    };
    let groups = match cgroups.list() {
        Ok(groups) => groups,
        Err(error) => {
            warn!(%error, "cgroups of pods cannot be looked at");
            return;
        }
    };
    for (uid, group) in &groups {
        // What is in a group is killed, again and again: not what a pod has begun since.
        tokio::select! {
            biased;
            () = known.comes(uid) => {}
            removed = cgroups.remove(&group.name) => {
                if let Err(error) = removed {
                    warn!(%uid, %error, "the cgroup of a pod that is gone stays");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::time::UNIX_EPOCH;

    use testkit::clock::TokioClock;
    use testkit::host::LinuxHost;
    use types::PodName;
    use volumes::{InUse, Layout, Metrics, Objects};

    use super::*;

    fn volumes(root: &std::path::Path, clock: seams::SharedClock) -> Volumes {
        Volumes::new(volumes::Foundations {
            layout: Layout::new(root),
            storage: Arc::new(LinuxHost::new(PathBuf::from("/"))),
            clock,
            objects: Objects::Standalone,
            allocatable: watch::channel(Arc::default()).1,
            in_use: InUse::new(watch::channel(None).0),
            metrics: Metrics::default(),
        })
    }

    #[tokio::test]
    async fn a_pod_that_comes_while_others_are_removed_keeps_what_it_has() {
        let root = tempfile::tempdir().unwrap();
        for name in ["early", "gone", "late"] {
            let own = root.path().join("pods").join(name);
            std::fs::create_dir_all(own.join("volumes/kubernetes.io~empty-dir/v")).unwrap();
        }
        let clock: seams::SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        let volumes = volumes(root.path(), Arc::clone(&clock));
        // One is known from the start, and one when the first question is over.
        let asked = Mutex::new(Vec::new());
        let is_known = |uid: &PodUid| {
            let mut asked = asked.lock().unwrap();
            asked.push(uid.to_string());
            uid.as_str() == "early" || (uid.as_str() == "late" && asked.len() > 3)
        };
        let forgotten = Mutex::new(Vec::new());
        let forget = |uid: &PodUid| forgotten.lock().unwrap().push(uid.to_string());
        let found = directories(&volumes, &*clock, &is_known, &forget).await;
        assert_eq!(found, Some(Found { all: 1, failed: 0 }));
        assert_eq!(*forgotten.lock().unwrap(), ["gone"]);
        let left = ["early", "gone", "late"].map(|name| root.path().join("pods").join(name));
        assert_eq!(left.map(|path| path.exists()), [true, false, true]);
        assert_eq!(*asked.lock().unwrap(), ["early", "gone", "gone", "late"]);
    }

    #[tokio::test]
    async fn who_is_wanted_or_in_the_runtimes_hands_is_known_at_once() {
        let (wanted, observed) = (watch::channel(Arc::default()), watch::channel(None));
        let known = Known {
            wanted: wanted.1,
            observed: observed.1,
        };
        let uid = PodUid::new("1-2");
        assert!(!known.has(&uid));
        let pod = PodRef {
            name: PodName {
                namespace: "ns".to_owned(),
                name: "p".to_owned(),
            },
            uid: uid.clone(),
        };
        observed.0.send_replace(Some(Arc::new([pod].into())));
        assert!(known.has(&uid));
        observed.0.send_replace(Some(Arc::default()));
        assert!(!known.has(&uid));
        let existing = Wanted {
            existing: [uid.clone()].into(),
            ..Wanted::default()
        };
        let mut coming = Box::pin(known.comes(&uid));
        assert!(futures_util::poll!(&mut coming).is_pending());
        wanted.0.send_replace(Arc::new(existing));
        assert!(known.has(&uid));
        coming.await;
        known.comes(&uid).await;
    }
}
