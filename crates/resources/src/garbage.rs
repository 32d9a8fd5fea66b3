//! Housekeeping: what dead containers leave behind is taken away, so that a node
//! does not fill up with them.
//!
//! In: what the runtime lists, and [`Wanted`], what is known of the pods. Out: calls
//! that remove containers and sandboxes, and files that are gone: logs, the
//! directories of pods that nobody knows, links that lead nowhere.
//!
//! What goes is said by pure functions ([`containers`], [`sandboxes`],
//! [`log_directories`]); a pass looks, decides, removes, and looks again. Whatever
//! does not work out is logged, and is the next pass's business.

mod decide;
mod labels;
mod limits;
pub(crate) mod logs;
mod remove;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use seams::cri::{Container, ListContainersRequest, ListPodSandboxRequest, PodSandbox};
use seams::host::HostError;
use seams::{RuntimeError, SharedClock, SharedRuntime, SharedStorage, storage};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use types::PodUid;

pub use decide::{containers, log_directories, sandboxes};
pub use limits::{Limits, LimitsError};
pub use remove::{RemoveError, remove_dead, remove_pod};

use remove::Removal;

/// The pause between two passes: upstream's.
const PERIOD: Duration = Duration::from_secs(60);

/// How many removals are under way at once: one that hangs until its time is up
/// does not hold up the rest, and the runtime keeps its hands free for pods.
const AT_ONCE: usize = 4;

/// What is known of the pods. Whoever publishes it does so before anything is made
/// for a pod: what is found on the node and is not in here is taken for nobody's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Pods that are not gone: their last containers stay, for those who ask how
    /// they ended.
    pub existing: BTreeSet<PodUid>,
    /// Ended, and deleted or evicted: all that is dead of them goes.
    pub removable: BTreeSet<PodUid>,
    /// A worker acts on them now: their things are left alone.
    pub busy: BTreeSet<PodUid>,
    /// Every source of pods has been heard: unknown pods are nobody's.
    pub ready: bool,
}

impl Wanted {
    /// Whether nothing that is dead of a pod has to stay.
    fn is_gone(&self, uid: &PodUid) -> bool {
        let unknown = !self.existing.contains(uid);
        !self.busy.contains(uid) && (self.removable.contains(uid) || (self.ready && unknown))
    }
}

/// The task that keeps a node clean.
#[derive(Debug)]
pub struct Housekeeping {
    pub runtime: SharedRuntime,
    pub storage: SharedStorage,
    pub clock: SharedClock,
    pub wanted: watch::Receiver<Arc<Wanted>>,
    pub limits: Limits,
    /// `podLogsDir`.
    pub logs: PathBuf,
    /// `/var/log/containers`.
    pub links: PathBuf,
}

/// What the runtime has.
struct Look {
    sandboxes: Vec<PodSandbox>,
    containers: Vec<Container>,
}

impl Housekeeping {
    /// Cleans up once a minute until `shutdown`. What is under way then is given up:
    /// the next agent finds it again.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.passes()).await;
    }

    async fn passes(&self) {
        // The nodes of a fleet begin together; they need not clean up together.
        let mut pause = PERIOD.mul_f64(self.clock.random());
        loop {
            self.clock.sleep(pause).await;
            self.pass().await;
            pause = PERIOD;
        }
    }

    /// One failure does not keep the other steps from being taken.
    async fn pass(&self) {
        if let Err(error) = self.clear_runtime().await {
            warn!(%error, "cannot look for dead containers, the next pass tries again");
        }
        if let Err(error) = self.clear_log_directories().await {
            warn!(%error, "cannot look for the logs of pods that are gone, the next pass tries again");
        }
        if let Err(error) = self.clear_links().await {
            warn!(%error, "cannot look for links to logs that are gone, the next pass tries again");
        }
    }

    async fn clear_runtime(&self) -> Result<(), RuntimeError> {
        let mut look = self.look().await?;
        let now = self.clock.now();
        let dead = containers(&look.containers, &self.wanted(), &self.limits, now);
        if !dead.is_empty() {
            self.remove_containers(dead).await;
            look = self.look().await?;
        }
        let empty = sandboxes(&look.sandboxes, &look.containers, &self.wanted());
        self.remove_sandboxes(&look.sandboxes, empty).await;
        Ok(())
    }

    /// Sandboxes first: one that is listed as empty has got nothing since.
    async fn look(&self) -> Result<Look, RuntimeError> {
        let listed = ListPodSandboxRequest::default();
        let sandboxes = self.runtime.list_pod_sandbox(listed).await?.items;
        let containers = self.list_containers().await?;
        Ok(Look {
            sandboxes,
            containers,
        })
    }

    async fn list_containers(&self) -> Result<Vec<Container>, RuntimeError> {
        let listed = ListContainersRequest::default();
        Ok(self.runtime.list_containers(listed).await?.containers)
    }

    /// As it is now. It is asked for after the look that it judges: what a look has
    /// found was made for a pod that had been published by then.
    fn wanted(&self) -> Arc<Wanted> {
        Arc::clone(&self.wanted.borrow())
    }

    async fn remove_containers(&self, ids: Vec<String>) {
        let removal = self.removal();
        let remove = async |id: String| {
            let is_busy = |uid: &PodUid| self.wanted().busy.contains(uid);
            match removal.dead_container(&id, is_busy).await {
                Ok(()) => debug!(container = id, "removed a dead container"),
                Err(error) => warn!(container = id, %error, "a dead container stays"),
            }
        };
        stream::iter(ids).for_each_concurrent(AT_ONCE, remove).await;
    }

    async fn remove_sandboxes(&self, listed: &[PodSandbox], ids: Vec<String>) {
        let removal = self.removal();
        let remove = async |id: String| {
            let sandbox = listed.iter().find(|sandbox| sandbox.id == id);
            let owner = sandbox.and_then(|sandbox| labels::owner(&sandbox.labels));
            // Removals take their time: its worker may have begun to use it.
            if owner.is_some_and(|uid| self.wanted().busy.contains(&uid)) {
                return;
            }
            match removal.sandbox(&id).await {
                Ok(()) => debug!(sandbox = id, "removed a dead sandbox"),
                Err(error) => warn!(sandbox = id, %error, "a dead sandbox stays"),
            }
        };
        stream::iter(ids).for_each_concurrent(AT_ONCE, remove).await;
    }

    fn removal(&self) -> Removal<'_> {
        Removal {
            runtime: &self.runtime,
            storage: &self.storage,
            links: &self.links,
        }
    }

    async fn clear_log_directories(&self) -> Result<(), HostError> {
        let logs = self.logs.clone();
        let entries = storage::perform(&self.storage, move |disks| disks.entries(&logs)).await??;
        let directories = entries.into_iter().flatten();
        let directories = directories.filter(|entry| entry.is_directory);
        let names: Vec<String> = directories.map(|entry| entry.name).collect();
        for name in log_directories(&names, &self.wanted()) {
            let path = self.logs.join(&name);
            let removed = storage::perform(&self.storage, move |disks| disks.remove_tree(&path));
            match removed.await.flatten() {
                Ok(()) => debug!(directory = name, "removed the logs of a pod that is gone"),
                Err(error) => {
                    warn!(directory = name, %error, "the logs of a pod that is gone stay");
                }
            }
        }
        Ok(())
    }

    async fn clear_links(&self) -> Result<(), ClearLinksError> {
        let directory = self.links.clone();
        let dangling = move |disks: &dyn seams::Storage| disks.dangling_links(&directory);
        let dangling = storage::perform(&self.storage, dangling).await??;
        if dangling.is_empty() {
            return Ok(());
        }
        // Asked for after the links: a container that is made meanwhile has its own.
        let listed = self.list_containers().await?;
        for link in logs::dead_links(dangling, &listed) {
            let path = link.clone();
            let removed = storage::perform(&self.storage, move |disks| disks.remove_file(&path));
            match removed.await.flatten() {
                Ok(()) => debug!(link = %link.display(), "removed a link to a log that is gone"),
                Err(error) => {
                    warn!(link = %link.display(), %error, "a link to a log that is gone stays");
                }
            }
        }
        Ok(())
    }
}

/// Why links were not looked at.
#[derive(Debug, thiserror::Error)]
enum ClearLinksError {
    #[error(transparent)]
    Disk(#[from] HostError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}
