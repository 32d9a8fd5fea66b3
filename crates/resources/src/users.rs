//! Users of their own for pods (`hostUsers: false`): ids of the machine that are
//! nobody else's stand for a pod's ids from 0 on.
//!
//! Which are a pod's is kept in a file in its directory, upstream's: whoever runs the
//! node next gives them to nobody else. These files are read when the first pod asks,
//! so that a node without such pods pays nothing.

mod assigned;
mod file;
mod pool;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use seams::host::HostError;
use seams::storage::perform;
use seams::{SharedClock, SharedHost, SharedStorage};
use thiserror::Error;
use types::PodUid;

use assigned::Assigned;
pub use assigned::{NotAssigned, Unfit};
pub use file::BadFile;
pub use pool::{BadPool, Pool};

/// Whose ids are handed on, if the machine has this account.
const ACCOUNT: &str = "kubelet";
const FILE: &str = "userns";
const FILE_MODE: u32 = 0o600;

/// Ids of the machine that a pod's ids from 0 on stand for: its users' and its
/// groups'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    pub first: u32,
    pub length: u32,
}

/// What a node was told of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsersConfig {
    /// Where the directories of pods are.
    pub pods: PathBuf,
    /// `userNamespaces.idsPerPod`.
    pub ids_per_pod: u32,
    /// `maxPods`: for so many there must be ids.
    pub most_pods: u32,
}

/// Why a pod has no users of its own.
#[derive(Debug, Error)]
pub enum UsersError {
    #[error("the ids that the kubelet may give to pods are not known: kubelet mappings: {0}")]
    Asking(HostError),
    #[error("no pod can have users of its own: {0}")]
    Pool(#[from] BadPool),
    #[error("read pods from disk: {0}")]
    Listing(HostError),
    #[error("record pod mappings for existing pod {:?}: {cause}", uid.as_str())]
    Other { uid: PodUid, cause: Box<UsersError> },
    #[error("user namespace: {0}")]
    File(#[from] BadFile),
    #[error("user namespace: {0}")]
    Unfit(#[from] Unfit),
    #[error("create user namespace: {0}")]
    NotAssigned(#[from] NotAssigned),
    #[error(transparent)]
    Reading(HostError),
    #[error("create user namespace: {0}")]
    Writing(HostError),
}

/// Gives ids to the pods of one node.
#[derive(Debug)]
pub struct PodUsers {
    config: UsersConfig,
    host: SharedHost,
    storage: SharedStorage,
    clock: SharedClock,
    /// `None` until a pod asks. Held for single looks and changes, never over an await.
    assigned: Mutex<Option<Assigned>>,
}

impl PodUsers {
    pub fn new(
        config: UsersConfig,
        host: SharedHost,
        storage: SharedStorage,
        clock: SharedClock,
    ) -> Self {
        Self {
            config,
            host,
            storage,
            clock,
            assigned: Mutex::new(None),
        }
    }

    /// The ids of a pod: those that it has, or some that nobody has. They are on the
    /// disk before anybody hears of them.
    pub async fn give(&self, uid: &PodUid) -> Result<IdRange, UsersError> {
        self.look_around().await?;
        if let Some(range) = self.on_disk(uid).await? {
            self.with(|assigned| assigned.record(uid, range))
                .transpose()?;
            return Ok(range);
        }
        let random = self.clock.random();
        let range = self.with(|assigned| assigned.assign(uid, random));
        // Somebody has looked around: see above.
        let range = range.unwrap_or(Err(NotAssigned))?;
        if let Err(cause) = self.write(uid, range).await {
            self.with(|assigned| assigned.release(uid));
            return Err(UsersError::Writing(cause));
        }
        Ok(range)
    }

    /// To be done when nothing of a pod runs any more.
    pub async fn release(&self, uid: &PodUid) -> Result<(), HostError> {
        let path = self.path(uid);
        let removed = perform(&self.storage, move |storage| storage.remove_file(&path));
        removed.await??;
        self.forget(uid);
        Ok(())
    }

    /// The same for a pod whose directory is gone, and what was in it.
    pub fn forget(&self, uid: &PodUid) {
        self.with(|assigned| assigned.release(uid));
    }

    /// What may be given, and what has been, by whomever.
    async fn look_around(&self) -> Result<(), UsersError> {
        if self.lock().is_some() {
            return Ok(());
        }
        let told = self.host.subordinate_ids(ACCOUNT).await;
        let told = told.map_err(UsersError::Asking)?;
        let UsersConfig {
            ids_per_pod,
            most_pods,
            ..
        } = self.config;
        let pool = Pool::new(told.as_ref(), ids_per_pod, most_pods)?;
        let mut assigned = Assigned::new(pool);
        for uid in self.pods_on_disk().await? {
            let other = |cause: UsersError| UsersError::Other {
                uid: uid.clone(),
                cause: Box::new(cause),
            };
            if let Some(range) = self.on_disk(&uid).await.map_err(other)? {
                let recorded = assigned.record(&uid, range);
                recorded.map_err(|unfit| other(unfit.into()))?;
            }
        }
        // Whoever was first may have given some since.
        self.lock().get_or_insert(assigned);
        Ok(())
    }

    async fn pods_on_disk(&self) -> Result<Vec<PodUid>, UsersError> {
        let pods = self.config.pods.clone();
        let entries = perform(&self.storage, move |storage| storage.entries(&pods)).await;
        let entries = entries.and_then(|entries| entries);
        let entries = entries.map_err(UsersError::Listing)?.unwrap_or_default();
        let pods = entries.into_iter().filter(|entry| entry.is_directory);
        Ok(pods.map(|entry| PodUid::new(&entry.name)).collect())
    }

    async fn on_disk(&self, uid: &PodUid) -> Result<Option<IdRange>, UsersError> {
        let (host, path) = (self.host.clone(), self.path(uid));
        let content = perform(&self.storage, move |_| host.read(&path)).await;
        let content = content.and_then(|content| content);
        let content = content.map_err(UsersError::Reading)?.unwrap_or_default();
        Ok(file::parse(&content)?)
    }

    async fn write(&self, uid: &PodUid, range: IdRange) -> Result<(), HostError> {
        let (host, path) = (self.host.clone(), self.path(uid));
        let content = file::text(range);
        let written = perform(&self.storage, move |_| {
            host.write(&path, content.as_bytes(), FILE_MODE)
        });
        written.await?
    }

    fn path(&self, uid: &PodUid) -> PathBuf {
        self.config.pods.join(uid.as_str()).join(FILE)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Assigned) -> T) -> Option<T> {
        self.lock().as_mut().map(change)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Assigned>> {
        self.assigned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
