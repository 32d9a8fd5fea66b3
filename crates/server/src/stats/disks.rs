//! What pods have on disks: looked at beside the requests that ask for it, so that a
//! slow disk or runtime holds up no answer, and only while somebody asks.
//!
//! A request says that it asks; the task looks, at most every [`PERIOD`], and publishes.
//! So who asks now and then gets figures of the last time while new ones are made, with
//! their time in them. The same is published for those who hold pods to their limits.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use seams::cri::{FilesystemUsage, ImageFsInfoRequest, ListContainerStatsRequest};
use seams::storage::{FileSystem, Storage, Usage, perform};
use seams::{SharedClock, SharedRuntime, SharedStorage, timeout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use types::PodUid;
use types::disk_figures::{ContainerDiskFigures, DiskFigures, PodDiskFigures};
use types::observed::{ContainerState, ObservedContainer, ObservedPod};

use super::ObservedPods;
use super::from_runtime::time;

/// Runtimes count what containers write about as often.
const PERIOD: Duration = Duration::from_secs(10);

/// A disk that takes longer is asked again the next time.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was found on disks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DiskLook {
    /// `None`: nobody has looked yet.
    pub(super) at: Option<SystemTime>,
    /// Where images are.
    pub(super) images: Option<Layer>,
    /// What containers write beside volumes, by their ids.
    pub(super) layers: HashMap<String, Layer>,
    /// The logs of containers, by their ids.
    pub(super) logs: HashMap<String, Usage>,
    /// Files of pods: those beside the logs of containers, and `etc-hosts`.
    pub(super) pods: HashMap<PodUid, PodFiles>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodFiles {
    pub(super) logs: Option<Usage>,
    pub(super) hosts: Option<Usage>,
}

/// A part of a file system that a runtime keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Layer {
    pub(super) at: Option<SystemTime>,
    pub(super) used: Option<u64>,
    pub(super) inodes_used: Option<u64>,
    pub(super) on: Option<FileSystem>,
}

/// Where a node keeps things of pods.
#[derive(Clone, Debug)]
pub struct Directories {
    /// `--root-dir`.
    pub root: PathBuf,
    /// `podLogsDir`.
    pub logs: PathBuf,
}

/// Looks at disks. Runs as one task.
pub struct DiskLooks {
    pub(super) runtime: SharedRuntime,
    pub(super) storage: SharedStorage,
    pub(super) clock: SharedClock,
    pub(super) directories: Directories,
    pub(super) pods: ObservedPods,
    pub(super) asked: watch::Receiver<()>,
    pub(super) published: watch::Sender<Arc<DiskLook>>,
    pub(super) figures: watch::Sender<Arc<DiskFigures>>,
}

impl std::fmt::Debug for DiskLooks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DiskLooks").finish_non_exhaustive()
    }
}

impl DiskLooks {
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.look_on()).await;
    }

    async fn look_on(&mut self) {
        // A look at a disk that hangs goes on when nobody waits for it any more: until it has
        // ended no other one begins, or each would keep a thread.
        let turn = Arc::new(Semaphore::new(1));
        while self.asked.changed().await.is_ok() {
            let Ok(turn) = Arc::clone(&turn).try_acquire_owned() else {
                debug!("a look at the disks still waits for one of them");
                self.clock.sleep(PERIOD).await;
                continue;
            };
            // On nodes of which nobody asks this its room is not taken.
            let look = Box::pin(self.look(turn));
            match timeout(&*self.clock, PATIENCE, look).await {
                Ok((look, figures)) => {
                    self.published.send_replace(Arc::new(look));
                    self.figures.send_replace(Arc::new(figures));
                }
                Err(elapsed) => debug!(%elapsed, "disks do not answer, the next look tries again"),
            }
            self.clock.sleep(PERIOD).await;
        }
    }

    async fn look(&self, turn: OwnedSemaphorePermit) -> (DiskLook, DiskFigures) {
        let images = self.images().await;
        let layers = self.layers().await;
        let (pods, directories) = ((self.pods)(), self.directories.clone());
        let at = self.clock.now();
        let looked = perform(&self.storage, move |storage| {
            let _turn = turn;
            let mut look = DiskLook {
                at: Some(at),
                ..DiskLook::default()
            };
            look.images = images.map(|images| layer(storage, &images, &mut None));
            let mut last = None;
            for (id, usage) in layers {
                look.layers.insert(id, layer(storage, &usage, &mut last));
            }
            for pod in pods.iter().filter(|pod| pod.is_running()) {
                look.pod(storage, &directories, pod);
            }
            let root = storage.file_system(&directories.root).ok();
            let figures = look.figures(root, &pods);
            (look, figures)
        });
        looked.await.unwrap_or_default()
    }

    async fn images(&self) -> Option<FilesystemUsage> {
        let answer = self.runtime.image_fs_info(ImageFsInfoRequest {}).await;
        match answer {
            // There may be several: the first counts, as with upstream.
            Ok(answer) => answer.image_filesystems.into_iter().next(),
            Err(error) => {
                debug!(%error, "the runtime does not say where images are");
                None
            }
        }
    }

    async fn layers(&self) -> Vec<(String, FilesystemUsage)> {
        let all = ListContainerStatsRequest { filter: None };
        let answer = match self.runtime.list_container_stats(all).await {
            Ok(answer) => answer,
            Err(error) => {
                debug!(%error, "the runtime does not say what containers write");
                return Vec::new();
            }
        };
        let layers = answer.stats.into_iter().filter_map(|stats| {
            let id = stats.attributes?.id;
            Some((id, stats.writable_layer?))
        });
        layers.collect()
    }
}

impl DiskLook {
    fn pod(&mut self, storage: &dyn Storage, directories: &Directories, pod: &ObservedPod) {
        let files = |path: &Path| storage.usage_of_files(path).ok().flatten();
        let (name, uid) = (&pod.pod.name, &pod.pod.uid);
        let logs = format!("{}_{}_{uid}", name.namespace, name.name);
        let logs = directories.logs.join(logs);
        for container in running(pod) {
            if let Some(usage) = files(&logs.join(&container.name)) {
                self.logs.insert(container.id.clone(), usage);
            }
        }
        let own = PodFiles {
            logs: files(&logs),
            // Everything else that is there is in directories.
            hosts: files(&directories.root.join("pods").join(uid.as_str())),
        };
        self.pods.insert(uid.clone(), own);
    }

    /// What pods have that run. `root` is where the node keeps its own files.
    pub(super) fn figures(
        &self,
        root: Option<FileSystem>,
        pods: &[Arc<ObservedPod>],
    ) -> DiskFigures {
        let images = self.images.and_then(|images| images.on);
        let apart = images.zip(root);
        let bytes = |usage: Option<&Usage>| usage.map_or(0, |usage| usage.bytes);
        let of_pod = |pod: &Arc<ObservedPod>| {
            let containers = running(pod).map(|container| {
                let layer = self.layers.get(&container.id);
                let figures = ContainerDiskFigures {
                    logs: bytes(self.logs.get(&container.id)),
                    layer: layer.and_then(|layer| layer.used).unwrap_or_default(),
                };
                (container.name.clone(), figures)
            });
            let containers: BTreeMap<_, _> = containers.collect();
            let uid = &pod.pod.uid;
            let own = self.pods.get(uid).copied().unwrap_or_default();
            let files = bytes(own.logs.as_ref()) + bytes(own.hosts.as_ref());
            let figures = PodDiskFigures { containers, files };
            (!figures.containers.is_empty()).then(|| (uid.clone(), figures))
        };
        DiskFigures {
            images_apart: apart.map(|(images, root)| images.device != root.device),
            pods: pods.iter().filter_map(of_pod).collect(),
        }
    }
}

fn running(pod: &ObservedPod) -> impl Iterator<Item = &ObservedContainer> {
    let containers = pod.containers.iter();
    containers.filter(|container| container.state == ContainerState::Running)
}

/// Most layers are on the same file system, which is `last`.
fn layer(
    storage: &dyn Storage,
    usage: &FilesystemUsage,
    last: &mut Option<(String, Option<FileSystem>)>,
) -> Layer {
    let place = usage.fs_id.as_ref().map(|id| &id.mountpoint);
    let on = place.and_then(|place| match last {
        Some((known, on)) if known == place => *on,
        _ => {
            let on = storage.file_system(Path::new(place)).ok();
            *last = Some((place.clone(), on));
            on
        }
    });
    let value = |told: Option<&seams::cri::UInt64Value>| told.map(|told| told.value);
    Layer {
        at: time(usage.timestamp),
        used: value(usage.used_bytes.as_ref()),
        inodes_used: value(usage.inodes_used.as_ref()),
        on,
    }
}
