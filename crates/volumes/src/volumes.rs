//! The volumes of a node's pods: set up, kept fresh, taken away.
//!
//! What is where is on the disk and nowhere else: after a restart, and after work
//! that was cut short, the next call finds what is there and does the rest. Of a
//! pod only the references to its objects are held, until its volumes are gone.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use k8s_openapi::api::core::v1::Pod;
use seams::host::HostError;
use seams::storage::{SubPathError, perform};
use seams::{SharedClock, SharedStorage, Storage};
use tokio::sync::{OwnedMutexGuard, Semaphore, watch};
use types::PodUid;

use crate::layout::{Layout, is_plain};
use crate::objects::{Objects, References};
use crate::on_disk::{self, PodOnDisk, UnmountError};
use crate::payload::aggregate;
use crate::pod;
use crate::resource_field::Allocatable;
use crate::setup::{Given, MountedVolume, SetUp, VolumeProblem};
use crate::snapshot::Needed;
use crate::sub_path::{SubPathFailure, SubPathProblem};

/// So many pods have their volumes set up or taken away at a time.
const AT_ONCE: usize = 8;

/// What volumes stand on.
#[derive(Debug)]
pub struct Foundations {
    pub layout: Layout,
    pub storage: SharedStorage,
    pub clock: SharedClock,
    pub objects: Objects,
    /// What the node can give to pods; nothing until it is known.
    pub allocatable: watch::Receiver<Arc<Allocatable>>,
}

/// A pod's volumes, ready for its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// In the order of the pod's spec.
    pub volumes: Vec<MountedVolume>,
    /// When they have to be looked at again, whatever else happens.
    pub refresh_at: Option<SystemTime>,
}

/// A volume that could not be set up.
#[derive(Debug)]
pub struct VolumeFailure {
    pub volume: String,
    pub problem: VolumeProblem,
}

/// As the event of the pod says it.
impl fmt::Display for VolumeFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (volume, problem) = (&self.volume, &self.problem);
        write!(
            formatter,
            "MountVolume.SetUp failed for volume {volume:?} : {problem}"
        )
    }
}

/// Volumes of a pod could not be set up; the others were.
#[derive(Debug)]
pub struct MountError {
    /// At least one.
    pub failures: Vec<VolumeFailure>,
}

/// As upstream sums it up, behind `Unable to attach or mount volumes: `.
impl fmt::Display for MountError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |of: &dyn Fn(&VolumeProblem) -> bool| {
            let failures = self.failures.iter();
            let mut names: Vec<_> = failures
                .filter(|failure| of(&failure.problem))
                .map(|failure| failure.volume.as_str())
                .collect();
            names.sort_unstable();
            names.join(" ")
        };
        let unmounted = names(&|_| true);
        let unprocessed = names(&|problem| matches!(problem, VolumeProblem::Unsupported(_)));
        let problems: Vec<_> = self
            .failures
            .iter()
            .map(|failure| &failure.problem)
            .collect();
        let cause = aggregate(&problems);
        write!(
            formatter,
            "unmounted volumes=[{unmounted}], unattached volumes=[], failed to process volumes=[{unprocessed}]: {cause}"
        )
    }
}

impl std::error::Error for MountError {}

/// The volumes of a node's pods. Clones are the same.
#[derive(Clone, Debug)]
pub struct Volumes {
    on: Arc<Foundations>,
    /// Held for one access.
    pods: Arc<Mutex<BTreeMap<PodUid, Slot>>>,
    at_once: Arc<Semaphore>,
}

/// One pod: whoever works on its volumes holds it, until the work is really done,
/// even if nobody waits for it any more. Hence a lock that is held over awaits.
type Slot = Arc<tokio::sync::Mutex<References>>;

type TakeAway = fn(&dyn Storage, &Layout, &PodUid) -> Result<(), UnmountError>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    Published,
}

impl Volumes {
    pub fn new(on: Foundations) -> Self {
        Self {
            on: Arc::new(on),
            pods: Arc::default(),
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Sets up all volumes that the pod's containers use. What is already so is
    /// left alone, and what changed is brought up to date. May be dropped.
    pub async fn mount(&self, pod: &Pod) -> Result<Mounted, MountError> {
        self.set_up(pod, Which::All).await
    }

    /// Brings those volumes up to date that are made of objects.
    pub async fn refresh(&self, pod: &Pod) -> Result<Mounted, MountError> {
        self.set_up(pod, Which::Published).await
    }

    /// Makes a part of a mounted volume ready for the mount of this number of a
    /// container: where it is then. A part that is not there is made. May be dropped,
    /// and repeated; goes with the volumes.
    pub async fn bind_sub_path(
        &self,
        uid: &PodUid,
        volume: &MountedVolume,
        container: &str,
        mount: usize,
        sub_path: &str,
    ) -> Result<PathBuf, SubPathFailure> {
        let failed = |problem| SubPathFailure {
            volume: volume.name.clone(),
            container: container.to_owned(),
            problem,
        };
        if let Some(name) = [uid.as_str(), &volume.name, container]
            .into_iter()
            .find(|name| !is_plain(name))
        {
            let name = name.to_owned();
            return Err(failed(SubPathProblem::Name { name }));
        }
        let at = self.on.layout.subpath(uid, &volume.name, container, mount);
        let held = self.hold(uid).await;
        let permit = Arc::clone(&self.at_once).acquire_owned().await;
        let (source, part, target) = (volume.path.clone(), sub_path.to_owned(), at.clone());
        let outcome = perform(&self.on.storage, move |storage| {
            let outcome = storage.bind_sub_path(&source, &part, &target);
            drop((held, permit));
            outcome
        });
        match outcome.await {
            Ok(Ok(_)) => Ok(at),
            Ok(Err(cause)) => Err(failed(SubPathProblem::Storage(cause))),
            Err(cause) => Err(failed(SubPathProblem::Storage(SubPathError::Bind(cause)))),
        }
    }

    /// Ends when an object that the pod's volumes are made of is not as it was at
    /// the last [`Self::mount`] or [`Self::refresh`].
    pub async fn changed(&self, uid: &PodUid) {
        let slot = self.with(|pods| pods.get(uid).cloned());
        let references = match slot {
            Some(slot) => slot.lock().await.clone(),
            None => References::default(),
        };
        references.changed().await;
    }

    /// Unmounts and removes the volumes of a pod whose containers are gone, those
    /// that an earlier kubelet left included. May be dropped, and repeated.
    pub async fn unmount(&self, uid: &PodUid) -> Result<(), UnmountError> {
        self.end(uid, on_disk::tear_down).await
    }

    /// Removes the directory of a pod that is gone: not while there are volumes or
    /// mounts in it.
    pub async fn remove_pod(&self, uid: &PodUid) -> Result<(), UnmountError> {
        self.end(uid, on_disk::remove_pod).await
    }

    /// Takes something of a pod away, and what is held for it if that works.
    async fn end(&self, uid: &PodUid, take_away: TakeAway) -> Result<(), UnmountError> {
        let held = self.hold(uid).await;
        let permit = Arc::clone(&self.at_once).acquire_owned().await;
        let (volumes, uid) = (self.clone(), uid.clone());
        let outcome = perform(&self.on.storage, move |storage| {
            let outcome = take_away(storage, &volumes.on.layout, &uid);
            if outcome.is_ok() {
                volumes.on.objects.forget(&uid);
                volumes.with(|pods| pods.remove(&uid));
            }
            drop((held, permit));
            outcome
        });
        outcome.await?
    }

    /// What there is on the disk, of pods that are known and of others.
    pub async fn on_disk(&self) -> Result<Vec<PodOnDisk>, HostError> {
        let on = Arc::clone(&self.on);
        perform(&self.on.storage, move |storage| {
            on_disk::pods(storage, &on.layout)
        })
        .await?
    }

    /// The pods that something is held for.
    pub fn held(&self) -> Vec<PodUid> {
        self.with(|pods| pods.keys().cloned().collect())
    }

    async fn set_up(&self, pod: &Pod, which: Which) -> Result<Mounted, MountError> {
        let reference = pod::reference(pod);
        let uid = &reference.uid;
        if !is_plain(uid.as_str()) {
            return Err(all_failed(pod, || VolumeProblem::Name {
                name: uid.to_string(),
            }));
        }
        let mut held = self.hold(uid).await;
        let needed = Needed::of(pod);
        let objects = &self.on.objects;
        let snapshot = objects.look(&reference.name.namespace, &needed, &mut held);
        let snapshot = snapshot.await;
        let allocatable = Arc::clone(&self.on.allocatable.borrow());
        let given = Given {
            layout: &self.on.layout,
            pod,
            uid,
            snapshot: &snapshot,
            allocatable: &allocatable,
        };
        let (decided, mut failures) = decide(&given, which);
        let done = self.act(uid, held, decided).await;
        let done = done.map_err(|cause| {
            all_failed(pod, || VolumeProblem::Directories {
                problem: cause.to_string(),
            })
        })?;
        let mut volumes = Vec::new();
        for (volume, outcome) in done {
            match outcome {
                Ok(mounted) => volumes.push(mounted),
                Err(problem) => failures.push(VolumeFailure { volume, problem }),
            }
        }
        if !failures.is_empty() {
            return Err(MountError { failures });
        }
        Ok(Mounted {
            volumes,
            refresh_at: snapshot.renew_at(),
        })
    }

    /// Does on the disk what was decided; the pod is held until it is done.
    async fn act(
        &self,
        uid: &PodUid,
        held: OwnedMutexGuard<References>,
        decided: Vec<(String, SetUp)>,
    ) -> Result<Vec<(String, Result<MountedVolume, VolumeProblem>)>, HostError> {
        if decided.is_empty() {
            return Ok(Vec::new());
        }
        let permit = Arc::clone(&self.at_once).acquire_owned().await;
        let (on, uid, now) = (Arc::clone(&self.on), uid.clone(), self.on.clock.now());
        perform(&self.on.storage, move |storage| {
            // Nobody but root looks into these.
            for directory in [on.layout.volumes(&uid), on.layout.plugins(&uid)] {
                storage.make_directory(&directory, 0o750, 0o750)?;
            }
            let done = decided.into_iter().map(|(volume, set_up)| {
                let outcome = set_up.act(storage, &volume, now);
                (volume, outcome)
            });
            let done = done.collect();
            drop((held, permit));
            Ok(done)
        })
        .await?
    }

    /// The pod, as soon as nobody else works on it.
    async fn hold(&self, uid: &PodUid) -> OwnedMutexGuard<References> {
        loop {
            let slot = self.with(|pods| Arc::clone(pods.entry(uid.clone()).or_default()));
            let held = Arc::clone(&slot).lock_owned().await;
            // Whoever held it before may have been the last to do so.
            let current = self.with(|pods| pods.get(uid).cloned());
            if current.is_some_and(|current| Arc::ptr_eq(&current, &slot)) {
                return held;
            }
        }
    }

    fn with<T>(&self, access: impl FnOnce(&mut BTreeMap<PodUid, Slot>) -> T) -> T {
        access(&mut self.pods.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What to do for each volume, and for which nothing can be done.
fn decide(given: &Given<'_>, which: Which) -> (Vec<(String, SetUp)>, Vec<VolumeFailure>) {
    let (mut decided, mut failures) = (Vec::new(), Vec::new());
    for volume in pod::used_volumes(given.pod) {
        match given.decide(volume) {
            Ok(set_up) if which == Which::All || set_up.is_published() => {
                decided.push((volume.name.clone(), set_up));
            }
            Ok(_) => {}
            Err(problem) => failures.push(VolumeFailure {
                volume: volume.name.clone(),
                problem,
            }),
        }
    }
    (decided, failures)
}

fn all_failed(pod: &Pod, problem: impl Fn() -> VolumeProblem) -> MountError {
    let volumes = pod::used_volumes(pod).into_iter();
    let failures = volumes.map(|volume| VolumeFailure {
        volume: volume.name.clone(),
        problem: problem(),
    });
    MountError {
        failures: failures.collect(),
    }
}

#[cfg(test)]
mod tests;
