//! Eviction: pods that take more of the node than they may have to go.
//!
//! In: the pods that are wanted, and what they have on disks, as others count it. Out:
//! which of them have to go and why ([`Evictions`]), for whoever runs pods to take into
//! what is wanted. Nobody is called.
//!
//! [`local_storage`] is the one judge there is: it holds pods to the limits that they set
//! themselves. That a node runs short of something is to be judged beside it, in the same
//! pass.
//!
//! While no pod has such limits nothing is done, and nobody is asked to count anything.

pub mod local_storage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use seams::{SharedClock, timeout};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use types::PodUid;
use types::desired::{Desired, has_ended};
use types::disk_figures::DiskFigures;
use types::eviction::{Eviction, Evictions};
use types::figures;
use types::figures::Family;
use types::volume_figures::PodVolumeFigures;

use local_storage::Excess;

/// The pause between two passes: upstream's.
const PERIOD: Duration = Duration::from_secs(10);

/// How long who is evicted has to end.
const GRACE: Duration = Duration::from_secs(1);

/// Of the event, and of the pod's status.
const REASON: &str = "Evicted";

figures! {
    /// What is counted of evictions.
    pub struct Metrics {
        evictions: Vector = Family::counter(
            "kubelet_evictions",
            "[ALPHA] How many pods were evicted, by what there was too much or too little of",
        )
        .by(&["eviction_signal"]),
    }
}

/// Finds the pods that have to go. Runs as one task.
#[derive(Debug)]
pub struct EvictionLoop {
    pub clock: SharedClock,
    pub desired: watch::Receiver<Desired>,
    pub volumes: watch::Receiver<Arc<PodVolumeFigures>>,
    pub disks: watch::Receiver<Arc<DiskFigures>>,
    /// Told when both are to be counted anew.
    pub asked: watch::Sender<()>,
    pub evictions: watch::Sender<Arc<Evictions>>,
    pub metrics: Arc<Metrics>,
}

impl EvictionLoop {
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.passes()).await;
    }

    async fn passes(&mut self) {
        loop {
            if self.limited().is_empty() {
                self.publish(&BTreeMap::new());
                if self.desired.changed().await.is_err() {
                    return;
                }
                continue;
            }
            self.disks.mark_unchanged();
            self.asked.send_replace(());
            // Who does not answer is judged by what was known before.
            let _ = timeout(&*self.clock, PERIOD, self.disks.changed()).await;
            let found = self.judge();
            self.publish(&found);
            self.clock.sleep(PERIOD).await;
        }
    }

    /// Pods that can have too much, and have not ended.
    fn limited(&mut self) -> Vec<(PodUid, Arc<Pod>)> {
        let desired = self.desired.borrow_and_update();
        let limited = desired.pods.iter().filter(|(_, desired)| {
            let pod = &desired.pod;
            local_storage::is_limited(pod) && !has_ended(pod)
        });
        let pods = limited.map(|(uid, desired)| (uid.clone(), Arc::clone(&desired.pod)));
        pods.collect()
    }

    fn judge(&mut self) -> BTreeMap<PodUid, Excess> {
        let limited = self.limited();
        let (volumes, disks) = (self.volumes.borrow(), self.disks.borrow());
        let found = limited.into_iter().filter_map(|(uid, pod)| {
            let own = volumes.get(&uid).map(|own| own.as_slice());
            let own = own.unwrap_or_default();
            let excess = local_storage::excess((&uid, &pod), own, &disks)?;
            Some((uid, excess))
        });
        found.collect()
    }

    /// Who has to go is told again in every pass: it may not have been heard.
    fn publish(&self, found: &BTreeMap<PodUid, Excess>) {
        self.evictions.send_if_modified(|before| {
            let is_news = !found.is_empty() || !before.is_empty();
            for (uid, excess) in found {
                if !before.contains_key(uid) {
                    self.metrics.evictions.inc(&[excess.signal()]);
                }
            }
            if is_news {
                let found = found.iter();
                let evictions = found.map(|(uid, excess)| (uid.clone(), eviction(excess)));
                *before = Arc::new(evictions.collect());
            }
            is_news
        });
    }
}

/// As upstream: it says nothing of a disruption.
fn eviction(excess: &Excess) -> Eviction {
    Eviction {
        reason: REASON,
        message: excess.to_string(),
        disruption: None,
        grace: Some(GRACE),
    }
}
