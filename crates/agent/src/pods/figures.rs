//! What is told of the use that pods make of the machine: where their groups are, and
//! what their volumes take up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use resources::{Layout, QosClass};
use server::stats::{Directories, GroupPlaces, ObservedPods, Sources, Stats, SystemGroups};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use types::disk_figures::DiskFigures;
use types::volume_figures::PodVolumeFigures;
use types::{PodBook, PodUid};
use volumes::{Counting, Volumes};

use super::PodsConfig;
use crate::Seams;
use crate::parts::Parts;

const CLASSES: [QosClass; 3] = [
    QosClass::Guaranteed,
    QosClass::Burstable,
    QosClass::BestEffort,
];

/// What those who answer for figures read.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) places: watch::Receiver<Option<Arc<GroupPlaces>>>,
    pub(super) volumes: watch::Receiver<Arc<PodVolumeFigures>>,
    /// Told whenever somebody wants to know what is on disks.
    pub(super) asked: watch::Sender<()>,
    /// What is found there.
    pub(super) disks: watch::Sender<Arc<DiskFigures>>,
    pub(super) directories: Directories,
    pub(super) system: SystemGroups,
}

/// What those who know tell.
#[derive(Debug)]
pub(super) struct Tellers {
    pub(super) places: watch::Sender<Option<Arc<GroupPlaces>>>,
    volumes: watch::Sender<Arc<PodVolumeFigures>>,
    asked: watch::Receiver<()>,
    /// `None`: volumes are not counted.
    period: Option<Duration>,
}

pub(super) fn channels(config: &PodsConfig) -> (Tellers, Figures) {
    let (places, places_seen) = watch::channel(None);
    let (volumes, volumes_seen) = watch::channel(Arc::default());
    let (asked, asks) = watch::channel(());
    let tellers = Tellers {
        places,
        volumes,
        asked: asks,
        period: config.volume_figures,
    };
    let figures = Figures {
        places: places_seen,
        volumes: volumes_seen,
        asked,
        disks: watch::channel(Arc::default()).0,
        directories: Directories {
            root: config.directories.layout.root().to_owned(),
            logs: config.directories.logs.clone(),
        },
        system: config.system.clone(),
    };
    (tellers, figures)
}

impl Tellers {
    /// Counts volumes when somebody asks.
    pub(super) async fn count(self, volumes: Volumes, shutdown: CancellationToken) {
        let Some(period) = self.period else {
            return;
        };
        let counting = Counting::new(volumes, period, self.asked, self.volumes);
        counting.run(shutdown).await;
    }
}

/// What pods use, with the task that looks at disks for it.
pub(super) fn stats(
    node_name: &str,
    book: &PodBook,
    figures: Figures,
    seams: &Seams,
    parts: &mut Parts,
) -> Stats {
    let book = book.clone();
    let pods: ObservedPods = Arc::new(move || {
        let known = book.known();
        let observed = known.iter().filter_map(|pod| book.observed(&pod.uid));
        observed.collect()
    });
    let (stats, looks) = Stats::new(Sources {
        node_name: node_name.to_owned(),
        host: seams.host.clone(),
        storage: seams.storage.clone(),
        runtime: seams.runtime.clone(),
        clock: seams.options.clock.clone(),
        pods,
        places: figures.places,
        directories: figures.directories,
        system: figures.system,
        volumes: figures.volumes,
        asked: figures.asked,
        disks: figures.disks,
    });
    parts.start("disk figures", |ending| looks.run(ending));
    stats
}

/// Where the groups of pods are that are made so.
pub(super) fn group_places(layout: &Layout) -> GroupPlaces {
    let own = [QosClass::Burstable, QosClass::BestEffort];
    let layout = layout.clone();
    GroupPlaces {
        pods: layout.path(layout.pods()),
        classes: own.map(|class| layout.path(&layout.class(class))).into(),
        of_pod: Arc::new(move |uid: &PodUid| {
            CLASSES.map(|class| -> PathBuf { layout.path(&layout.pod(class, uid)) })
        }),
    }
}
