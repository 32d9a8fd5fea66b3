//! What is told of the use that pods make of the machine: where their groups are, and
//! what their volumes take up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use resources::{Layout, QosClass};
use server::stats::{Directories, GroupPlaces, SystemGroups};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use types::PodUid;
use types::volume_figures::PodVolumeFigures;
use volumes::{Counting, Volumes};

use super::PodsConfig;

const CLASSES: [QosClass; 3] = [
    QosClass::Guaranteed,
    QosClass::Burstable,
    QosClass::BestEffort,
];

/// What those who answer for figures read.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) places: watch::Receiver<Option<Arc<GroupPlaces>>>,
    pub(crate) volumes: watch::Receiver<Arc<PodVolumeFigures>>,
    /// Told whenever somebody wants to know what is on disks.
    pub(crate) asked: watch::Sender<()>,
    pub(crate) directories: Directories,
    pub(crate) system: SystemGroups,
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
