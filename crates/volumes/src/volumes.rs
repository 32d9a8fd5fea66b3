//! The volumes of a node's pods: set up, kept fresh, taken away.
//!
//! What is where is on the disk and nowhere else: after a restart, and after work
//! that was cut short, the next call finds what is there and does the rest. Of a
//! pod only the references to its objects are held, until its volumes are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::{Pod, Volume};
use seams::host::HostError;
use seams::storage::{SubPathError, perform};
use seams::{SharedClock, SharedStorage, Storage};
use tokio::sync::{OwnedMutexGuard, Semaphore, watch};
use types::PodUid;

use crate::attached::InUse;
use crate::figures::{self, Countable};
use crate::kind::Kind;
use crate::layout::{Layout, is_plain};
use crate::metrics::{Held, Metrics};
use crate::notice::Notice;
use crate::objects::{Objects, References};
use crate::on_disk::{self, PodOnDisk, UnmountError};
use crate::one_at_a_time::OneAtATime;
use crate::ownership::{Progress, told_if_slow};
use crate::resource_field::Allocatable;
use crate::setup::{Given, MountedVolume, SetUp, VolumeProblem};
use crate::snapshot::Needed;
use crate::sub_path::{SubPathFailure, SubPathProblem};
use crate::{downward_api, pod};

/// So many pods have their volumes set up or taken away at a time.
const AT_ONCE: usize = 8;

/// Who takes longer lets another in, and goes on: a disk of the network that does not
/// answer, or a volume of many files, must not keep all pods waiting. There is still
/// no more than one piece of work for each pod.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where nobody says that objects change, they are looked at so often, spread: as often
/// as upstream looks at a pod.
const SILENCE: Duration = Duration::from_secs(60);

/// What volumes stand on.
#[derive(Debug)]
pub struct Foundations {
    pub layout: Layout,
    pub storage: SharedStorage,
    pub clock: SharedClock,
    pub objects: Objects,
    /// What the node can give to pods; nothing until it is known.
    pub allocatable: watch::Receiver<Arc<Allocatable>>,
    pub in_use: InUse,
    pub metrics: Metrics,
}

/// A pod's volumes, ready for its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// In the order of the pod's spec.
    pub volumes: Vec<MountedVolume>,
    /// When they have to be looked at again, whatever else happens.
    pub refresh_at: Option<SystemTime>,
    /// What the pod's people should know.
    pub notices: Vec<Notice>,
}

/// A volume that could not be set up.
#[derive(Debug)]
pub struct VolumeFailure {
    pub volume: String,
    /// What upstream calls it: a persistent volume goes by its own name.
    pub spec_name: String,
    pub problem: VolumeProblem,
}

/// As the event of the pod says it.
impl fmt::Display for VolumeFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (volume, problem) = (&self.spec_name, &self.problem);
        let step = problem.step();
        write!(formatter, "{step} for volume {volume:?} : {problem}")
    }
}

/// Volumes of a pod could not be set up; the others were.
#[derive(Debug)]
pub struct MountError {
    /// At least one.
    pub failures: Vec<VolumeFailure>,
    /// The others.
    pub volumes: Vec<MountedVolume>,
    /// What people should know of the others.
    pub notices: Vec<Notice>,
}

impl MountError {
    /// What to do for some volume is not known: people are told at once.
    pub fn is_unprocessed(&self) -> bool {
        let mut failures = self.failures.iter();
        failures.any(|failure| failure.problem.is_unprocessed())
    }
}

/// As upstream sums it up, behind `Unable to attach or mount volumes: `: at once, if it
/// does not know what to do; else when it has waited long enough.
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
        let unattached = names(&VolumeProblem::is_awaited);
        let unprocessed = names(&VolumeProblem::is_unprocessed);
        let failures = self.failures.iter().map(|failure| &failure.problem);
        let causes = failures.filter(|problem| problem.is_unprocessed());
        let causes: BTreeSet<String> = causes.map(ToString::to_string).collect();
        let cause = match causes.len() {
            0 => "context deadline exceeded".to_owned(),
            _ => causes.into_iter().collect::<Vec<_>>().join("; "),
        };
        write!(
            formatter,
            "unmounted volumes=[{unmounted}], unattached volumes=[{unattached}], failed to process volumes=[{unprocessed}]: {cause}"
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
    /// Directories of the machine that pods share.
    shared: OneAtATime,
    /// What of pods' volumes can be counted. Held for one access.
    countable: Arc<Mutex<BTreeMap<PodUid, Vec<Countable>>>>,
}

/// One pod: whoever works on its volumes holds it, until the work is really done,
/// even if nobody waits for it any more. Hence a lock that is held over awaits.
type Slot = Arc<tokio::sync::Mutex<References>>;

/// What came of the work on a pod's volumes.
#[derive(Debug, Default)]
struct Done {
    /// With the kind of each.
    outcomes: Vec<(&'static str, Result<MountedVolume, VolumeFailure>)>,
    notices: Vec<Notice>,
}

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
            shared: OneAtATime::default(),
            countable: Arc::default(),
        }
    }

    /// Makes the directories that all of a pod is below, whether it has volumes or not: by
    /// them it is known whose pod it is. They go with the pod. May be dropped, and repeated.
    pub async fn make_room(&self, uid: &PodUid) -> Result<(), HostError> {
        let directories = self.directories(uid);
        if !is_plain(uid.as_str()) {
            let cause = std::io::ErrorKind::InvalidFilename;
            return Err(HostError::at(&self.on.layout.pod(uid), cause.into()));
        }
        let held = self.hold(uid).await;
        let work = perform(&self.on.storage, move |storage| {
            let made = make_directories(storage, &directories);
            drop(held);
            made
        });
        self.in_turn(work).await?
    }

    /// Of a pod, made before anything is in them.
    fn directories(&self, uid: &PodUid) -> [PathBuf; 2] {
        let layout = &self.on.layout;
        [layout.volumes(uid), layout.plugins(uid)]
    }

    /// Sets up all volumes that the pod's containers use. What is already so is
    /// left alone, and what changed is brought up to date. May be dropped.
    pub async fn mount(&self, pod: &Pod) -> Result<Mounted, MountError> {
        self.mount_and_tell(pod, &|_| {}).await
    }

    /// The same; `tell` gets what events say while a volume is given to the pod's group
    /// and that takes long, with the reason [`crate::ownership::IN_PROGRESS`].
    pub async fn mount_and_tell(
        &self,
        pod: &Pod,
        tell: &(dyn Fn(String) + Sync),
    ) -> Result<Mounted, MountError> {
        self.set_up(pod, Which::All, tell).await
    }

    /// Brings those volumes up to date that are made of objects.
    pub async fn refresh(&self, pod: &Pod) -> Result<Mounted, MountError> {
        self.set_up(pod, Which::Published, &|_| {}).await
    }

    /// What the pod's volumes say of the pod itself and may have to say otherwise while
    /// it runs. No object that is followed tells of that: when it is not what it was at
    /// the last [`Self::mount`] or [`Self::refresh`], it is time for another.
    pub fn said_of_itself(&self, pod: &Pod) -> Vec<String> {
        let allocatable = self.on.allocatable.borrow();
        let volumes = pod::used_volumes(pod).into_iter();
        let sources = volumes.flat_map(|volume| match Kind::of(volume) {
            Ok(Kind::DownwardApi(source)) => vec![source.items.as_deref()],
            Ok(Kind::Projected(source)) => {
                let sources = source.sources.iter().flatten();
                let own = sources.filter_map(|source| source.downward_api.as_ref());
                own.map(|source| source.items.as_deref()).collect()
            }
            _ => Vec::new(),
        });
        let items = sources.flatten();
        items
            .flat_map(|items| downward_api::changeable(items, pod, &allocatable))
            .collect()
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
        if let Some(name) = [uid.as_str(), &volume.spec_name, container]
            .into_iter()
            .find(|name| !is_plain(name))
        {
            let name = name.to_owned();
            return Err(failed(SubPathProblem::Name { name }));
        }
        let layout = &self.on.layout;
        let at = layout.subpath(uid, &volume.spec_name, container, mount);
        let held = self.hold(uid).await;
        let (source, part, target) = (volume.path.clone(), sub_path.to_owned(), at.clone());
        let outcome = perform(&self.on.storage, move |storage| {
            let outcome = storage.bind_sub_path(&source, &part, &target);
            drop(held);
            outcome
        });
        match self.in_turn(outcome).await {
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
        let (volumes, uid) = (self.clone(), uid.clone());
        let outcome = perform(&self.on.storage, move |storage| {
            let began = volumes.on.clock.uptime();
            let outcome = take_away(storage, &volumes.on.layout, &uid);
            let took = volumes.on.clock.uptime().saturating_sub(began);
            let metrics = &volumes.on.metrics;
            metrics.unmounted(&uid, took, outcome.is_ok());
            if outcome.is_ok() {
                volumes.on.objects.forget(&uid);
                volumes.with(|pods| pods.remove(&uid));
                volumes.count(&uid, None);
                volumes.on.in_use.set(&uid, BTreeSet::new());
            }
            drop(held);
            outcome
        });
        self.in_turn(outcome).await?
    }

    /// What there is on the disk, of pods that are known and of others.
    pub async fn on_disk(&self) -> Result<Vec<PodOnDisk>, HostError> {
        let on = Arc::clone(&self.on);
        perform(&self.on.storage, move |storage| {
            on_disk::pods(storage, &on.layout)
        })
        .await?
    }

    /// What is not in the hands of a pod that is known by now is in nobody's.
    pub fn settle(&self) {
        self.on.in_use.settle();
    }

    /// The pods that something is held for.
    pub fn held(&self) -> Vec<PodUid> {
        self.with(|pods| pods.keys().cloned().collect())
    }

    async fn set_up(
        &self,
        pod: &Pod,
        which: Which,
        tell: &(dyn Fn(String) + Sync),
    ) -> Result<Mounted, MountError> {
        let reference = pod::reference(pod);
        let uid = &reference.uid;
        if !is_plain(uid.as_str()) {
            return Err(all_failed(pod, || VolumeProblem::Name {
                name: uid.to_string(),
            }));
        }
        let began = self.on.clock.uptime();
        let mut held = self.hold(uid).await;
        let mut needed = Needed::of(pod);
        if which == Which::Published {
            // What a claim is bound to is so for the pod's life.
            needed.claims.clear();
        }
        let snapshot = self.on.objects.look(pod, &needed, &mut held).await;
        if which == Which::All {
            self.on.in_use.set(uid, snapshot.used());
        }
        let allocatable = Arc::clone(&self.on.allocatable.borrow());
        let given = Given {
            layout: &self.on.layout,
            pod,
            uid,
            snapshot: &snapshot,
            allocatable: &allocatable,
        };
        let (decided, mut failures) = decide(&given, which);
        let done = self.act(uid, held, decided, tell).await;
        let done = done.map_err(|cause| {
            all_failed(pod, || VolumeProblem::Directories {
                problem: cause.to_string(),
            })
        })?;
        let mut volumes = Vec::new();
        let mut there = Vec::new();
        let took = self.on.clock.uptime().saturating_sub(began);
        for (plugin, outcome) in done.outcomes {
            match outcome {
                Ok(mounted) => {
                    self.on.metrics.ready(plugin, took);
                    there.push(plugin);
                    volumes.push(mounted);
                }
                Err(failure) => failures.push(failure),
            }
        }
        if which == Which::All {
            self.note(pod, uid, there, &volumes);
        }
        let notices = done.notices;
        if !failures.is_empty() {
            return Err(MountError {
                failures,
                volumes,
                notices,
            });
        }
        let look_again = self.on.objects.is_silent(&needed).then(|| {
            let clock = &self.on.clock;
            clock.now() + SILENCE.mul_f64(1.0 + 0.5 * clock.random())
        });
        Ok(Mounted {
            volumes,
            refresh_at: snapshot.renew_at().into_iter().chain(look_again).min(),
            notices,
        })
    }

    /// A pod goes on with these, though not all of them could be set up anew: they are
    /// counted as before.
    pub fn goes_on_with(&self, pod: &Pod, volumes: &[MountedVolume]) {
        let there = pod::used_volumes(pod).into_iter();
        let there = there.filter(|volume| volumes.iter().any(|one| one.name == volume.name));
        let there = there.map(kind_of).collect();
        self.note(pod, &pod::reference(pod).uid, there, volumes);
    }

    /// For figures, and for who holds pods to limits.
    fn note(&self, pod: &Pod, uid: &PodUid, there: Vec<&'static str>, volumes: &[MountedVolume]) {
        let wanted = pod::used_volumes(pod).into_iter().map(kind_of).collect();
        self.on.metrics.hold(uid, Held { wanted, there });
        self.count(uid, Some(figures::countable(pod, volumes)));
    }

    /// Does on the disk what was decided; the pod is held until it is done.
    async fn act(
        &self,
        uid: &PodUid,
        held: OwnedMutexGuard<References>,
        decided: Vec<(String, SetUp)>,
        tell: &(dyn Fn(String) + Sync),
    ) -> Result<Done, HostError> {
        if decided.is_empty() {
            return Ok(Done::default());
        }
        let shared = decided.iter().filter_map(|(_, set_up)| set_up.shared());
        let alone = self.shared.at(shared.map(Path::to_owned).collect()).await;
        let (on, now) = (Arc::clone(&self.on), self.on.clock.now());
        let directories = self.directories(uid);
        let progress = Arc::new(Progress::default());
        let counted = Arc::clone(&progress);
        let work = perform(&self.on.storage, move |storage| {
            make_directories(storage, &directories)?;
            let mut done = Done::default();
            for (volume, set_up) in decided {
                let (plugin, began) = (set_up.plugin(), on.clock.uptime());
                let outcome = set_up.act(storage, &volume, now, &counted, &mut done.notices);
                let took = on.clock.uptime().saturating_sub(began);
                on.metrics.mounted(plugin, took, outcome.is_ok());
                let outcome = outcome.map_err(|problem| VolumeFailure {
                    spec_name: set_up.spec_name().unwrap_or(&volume).to_owned(),
                    volume,
                    problem,
                });
                done.outcomes.push((plugin, outcome));
            }
            drop((alone, held));
            Ok(done)
        });
        let work = told_if_slow(&self.on.clock, uid, &progress, work, tell);
        self.in_turn(work).await?
    }

    /// Work on the disk when it is its turn. What it holds of its pod goes with the work
    /// itself, which goes on if nobody waits for it; the turn goes with who waits.
    async fn in_turn<T>(&self, work: impl Future<Output = T>) -> T {
        let turn = self.at_once.acquire().await;
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = self.on.clock.sleep(PATIENCE) => drop(turn),
        }
        work.await
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

    pub(crate) fn foundations(&self) -> &Foundations {
        &self.on
    }

    /// What can be counted of the volumes that pods have now.
    pub(crate) fn countable(&self) -> BTreeMap<PodUid, Vec<Countable>> {
        let countable = self.countable.lock();
        countable.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, uid: &PodUid, volumes: Option<Vec<Countable>>) {
        let countable = self.countable.lock();
        let mut countable = countable.unwrap_or_else(PoisonError::into_inner);
        match volumes {
            Some(volumes) => drop(countable.insert(uid.clone(), volumes)),
            None => drop(countable.remove(uid)),
        }
    }

    fn with<T>(&self, access: impl FnOnce(&mut BTreeMap<PodUid, Slot>) -> T) -> T {
        access(&mut self.pods.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn kind_of(volume: &Volume) -> &'static str {
    Kind::of(volume).map_or("N/A", Kind::name)
}

/// Nobody but root looks into these.
fn make_directories(storage: &dyn Storage, directories: &[PathBuf]) -> Result<(), HostError> {
    let mut directories = directories.iter();
    directories.try_for_each(|directory| storage.make_room(directory, 0o750))
}

/// What to do for each volume, and for which nothing can be done.
fn decide(given: &Given<'_>, which: Which) -> (Vec<(String, SetUp)>, Vec<VolumeFailure>) {
    let (mut decided, mut failures) = (Vec::new(), Vec::new());
    for volume in pod::used_volumes(given.pod) {
        let is_claim = matches!(Kind::of(volume), Ok(Kind::Claim));
        if is_claim && which == Which::Published {
            continue;
        }
        match given.decide(volume) {
            Ok(set_up) if which == Which::All || set_up.is_published() => {
                decided.push((volume.name.clone(), set_up));
            }
            Ok(_) => {}
            Err(problem) => failures.push(VolumeFailure {
                volume: volume.name.clone(),
                spec_name: given.snapshot.spec_name(given.pod, volume),
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
        spec_name: volume.name.clone(),
        problem: problem(),
    });
    MountError {
        failures: failures.collect(),
        volumes: Vec::new(),
        notices: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
