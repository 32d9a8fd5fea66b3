//! local: a directory of this machine that a persistent volume names, mounted into the
//! pod's own.
//!
//! What is behind the mount is its owner's, whatever becomes of the pod: nothing here
//! or in what takes volumes away removes more than the empty directory that it was
//! mounted upon.

use std::path::{Component, Path, PathBuf};

use seams::Storage;
use seams::host::HostError;
use seams::storage::{Bind, PathKind};
use thiserror::Error;

use crate::notice::Notice;
use crate::on_disk;
use crate::ownership::{ChangePolicy, Ownership, Progress};
use crate::persistent::Refusal;

const MARKER: u32 = 0o644;
const MARKERS: u32 = 0o750;

/// A local volume, and where a pod gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    /// Of the persistent volume.
    pub(crate) name: String,
    pub(crate) bind: Bind,
    /// The marker of one that is being given to the pod's group.
    pub(crate) begun: PathBuf,
    /// What the pods of this node have is below.
    pub(crate) pods: PathBuf,
    /// The pod's group, and whether a root that has it stands for the rest.
    pub(crate) group: Option<u32>,
    pub(crate) policy: ChangePolicy,
    pub(crate) one_pod: bool,
}

/// Why a pod does not get a directory of the machine. The words are upstream's.
#[derive(Debug, Error)]
pub enum LocalError {
    #[error("path {path:?} does not exist")]
    Absent { path: PathBuf },
    #[error("only directory and block device are supported")]
    OtherKind,
    #[error(
        "{path} is a block device, which this kubelet cannot format and mount yet: mount it yourself, and let the volume name a directory in it"
    )]
    Device { path: String },
    #[error("invalid path: {path} must not contain '..'")]
    BackStep { path: String },
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Host(#[from] HostError),
}

impl LocalError {
    /// Whether upstream finds it before it begins to set the volume up.
    pub(crate) fn is_of_the_source(&self) -> bool {
        matches!(
            self,
            Self::Absent { .. } | Self::OtherKind | Self::Device { .. }
        )
    }
}

impl Local {
    /// Mounts it, once. What there is to say of it that is no failure.
    pub(crate) fn set_up(
        &self,
        storage: &dyn Storage,
        progress: &Progress,
    ) -> Result<Option<Notice>, LocalError> {
        let source = &self.bind.directory;
        self.check(storage)?;
        let others = self.others(storage)?;
        let same_volume = |path: &PathBuf| path.file_name() == self.bind.at.file_name();
        if self.one_pod && others.iter().any(same_volume) {
            return Err(Refusal::InUse.into());
        }
        let is_given = self.begin(storage, others.is_empty())?;
        let is_new = storage.bind(&self.bind)?;
        let Some(group) = self.group else {
            return Ok(None);
        };
        if is_given {
            let ownership = Ownership {
                group,
                read_only: false,
                policy: self.policy,
                told: true,
            };
            ownership.apply(storage, &self.bind.at, progress)?;
            storage.remove_file(&self.begun)?;
        }
        if !is_new || others.is_empty() {
            return Ok(None);
        }
        let before = storage.group(source)?;
        let differs = before != group;
        Ok(differs.then(|| Notice::other_group(&self.name, group, before)))
    }

    /// Whether it is to be given to the pod's group: once, when it is mounted first. What
    /// the pod makes of it later is the pod's affair, whatever group that has. A marker
    /// tells of one that was mounted, and not given to its end, because the agent died.
    fn begin(&self, storage: &dyn Storage, is_alone: bool) -> Result<bool, HostError> {
        if self.group.is_none() || self.bind.read_only {
            return Ok(false);
        }
        let mounts = storage.mounts_below(&self.bind.at)?;
        if mounts.iter().any(|mount| mount.path == self.bind.at) {
            return Ok(on_disk::entry(storage, &self.begun)?.is_some());
        }
        if !is_alone {
            // It may have been begun before the machine was restarted.
            storage.remove_file(&self.begun)?;
            return Ok(false);
        }
        if let Some(markers) = self.begun.parent() {
            storage.make_directory(markers, MARKERS, MARKERS)?;
        }
        storage.make_file(&self.begun, MARKER)?;
        Ok(true)
    }

    fn check(&self, storage: &dyn Storage) -> Result<(), LocalError> {
        let path = &self.bind.directory;
        if !storage.exists(path)? {
            let path = path.clone();
            return Err(LocalError::Absent { path });
        }
        if !storage.has(path, PathKind::Directory, false)? {
            if storage.has(path, PathKind::BlockDevice, false)? {
                let path = path.display().to_string();
                return Err(LocalError::Device { path });
            }
            return Err(LocalError::OtherKind);
        }
        if path.components().any(|part| part == Component::ParentDir) {
            let path = path.display().to_string();
            return Err(LocalError::BackStep { path });
        }
        Ok(())
    }

    /// Where other pods have it.
    fn others(&self, storage: &dyn Storage) -> Result<Vec<PathBuf>, HostError> {
        if self.group.is_none() && !self.one_pod {
            return Ok(Vec::new());
        }
        let places = storage.also_mounted(&self.bind.directory, &self.pods)?;
        let own = own_pod(&self.pods, &self.bind.at);
        let others = places.into_iter().filter(|place| {
            let is_own = own.as_ref().is_some_and(|own| place.starts_with(own));
            !is_own
        });
        Ok(others.collect())
    }
}

/// The directory of the pod that a path is in.
fn own_pod(pods: &Path, path: &Path) -> Option<PathBuf> {
    let uid = path.strip_prefix(pods).ok()?.components().next()?;
    Some(pods.join(uid))
}
