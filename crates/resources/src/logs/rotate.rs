//! Rotates one log. Whenever it is broken off, no line is lost: what the runtime still
//! writes to is neither packed nor removed before it has been told to open another.

use std::path::Path;

use jiff::tz::TimeZone;
use seams::cri::ReopenContainerLogRequest;
use seams::host::HostError;
use seams::{RuntimeError, SharedClock, SharedRuntime, SharedStorage, Storage, storage};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::plan::{Packing, Plan, plan, second};

/// Why a log was not rotated, or not to the end.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    #[error("its old parts cannot be cleared away, so it grows on until they can: {0}")]
    Clear(HostError),
    #[error("it cannot be renamed, so it grows on until it can: {0}")]
    Rename(HostError),
    #[error("the runtime did not open another, so it grows on; the next look tries again: {0}")]
    Reopen(RuntimeError),
    #[error(
        "the runtime did not open another ({reopen}), and it did not get its name back ({rename}): its last lines are in {rotated}"
    )]
    Lost {
        reopen: RuntimeError,
        rename: HostError,
        rotated: String,
    },
    #[error("its old parts were not compressed, the next rotation tries again: {0}")]
    Compress(HostError),
}

/// Whether a log was rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Rotated,
    /// It was, a moment ago: the next has to have another name.
    NotYet,
}

/// What rotating takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation<'a> {
    pub(super) runtime: &'a SharedRuntime,
    pub(super) storage: &'a SharedStorage,
    pub(super) clock: &'a SharedClock,
    pub(super) zone: &'a TimeZone,
    pub(super) most_files: usize,
}

impl Rotation<'_> {
    /// `ending` cuts it short where that leaves nothing half-done.
    pub(super) async fn rotate(
        &self,
        id: &str,
        directory: &Path,
        log: &str,
        ending: &CancellationToken,
    ) -> Result<Turn, RotateError> {
        let cleared = ending.run_until_cancelled(self.clear(directory, log));
        let Some(plan) = cleared.await.transpose()?.flatten() else {
            return Ok(Turn::NotYet);
        };
        let turn = self.switch(id, directory, log, &plan).await?;
        if turn == Turn::Rotated {
            let packed = ending.run_until_cancelled(self.pack(directory, plan.compress));
            packed.await.transpose()?;
        }
        Ok(turn)
    }

    /// Looks, decides, and makes room.
    async fn clear(&self, directory: &Path, log: &str) -> Result<Option<Plan>, RotateError> {
        let second = second(self.clock.now(), self.zone);
        let (directory, log) = (directory.to_owned(), log.to_owned());
        let most_files = self.most_files;
        let clear = move |disks: &dyn Storage| {
            let entries = disks.entries(&directory)?.into_iter().flatten();
            let files = entries.filter(|entry| !entry.is_directory);
            let files: Vec<String> = files.map(|entry| entry.name).collect();
            let plan = plan(&files, &log, &second, most_files);
            for name in plan.iter().flat_map(|plan| &plan.remove) {
                disks.remove_file(&directory.join(name))?;
            }
            Ok(plan)
        };
        let cleared = storage::perform(self.storage, clear).await.flatten();
        cleared.map_err(RotateError::Clear)
    }

    /// From its new name to the runtime's answer it is not cut short. Should the agent
    /// die in between, the next finds no log, and tells the runtime to open one.
    async fn switch(
        &self,
        id: &str,
        directory: &Path,
        log: &str,
        plan: &Plan,
    ) -> Result<Turn, RotateError> {
        let (current, rotated) = (directory.join(log), directory.join(&plan.rotated));
        let renamed = self.rename(&current, &rotated).await;
        if !renamed.map_err(RotateError::Rename)? {
            return Ok(Turn::NotYet);
        }
        let reopened = reopen(self.runtime, id).await;
        let Err(error) = reopened else {
            return Ok(Turn::Rotated);
        };
        match self.rename(&rotated, &current).await {
            Ok(true) => Err(RotateError::Reopen(error)),
            // It has opened another after all: that one is written to now, and what
            // took its place would be lost.
            Ok(false) => {
                warn!(container = id, %error, "a log was rotated, though the runtime says otherwise");
                Ok(Turn::Rotated)
            }
            Err(rename) => Err(RotateError::Lost {
                reopen: error,
                rename,
                rotated: rotated.display().to_string(),
            }),
        }
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<bool, HostError> {
        let (from, to) = (from.to_owned(), to.to_owned());
        let rename = move |disks: &dyn Storage| disks.rename(&from, &to);
        storage::perform(self.storage, rename).await?
    }

    async fn pack(&self, directory: &Path, names: Vec<String>) -> Result<(), RotateError> {
        if names.is_empty() {
            return Ok(());
        }
        let directory = directory.to_owned();
        let pack = move |disks: &dyn Storage| {
            let mut packings = names.iter().map(|name| Packing::of(&directory, name));
            packings.try_for_each(|it| disks.compress(&it.file, &it.beside, &it.into))
        };
        let packed = storage::perform(self.storage, pack).await.flatten();
        packed.map_err(RotateError::Compress)
    }
}

pub(super) async fn reopen(runtime: &SharedRuntime, id: &str) -> Result<(), RuntimeError> {
    let container_id = id.to_owned();
    let request = ReopenContainerLogRequest { container_id };
    runtime.reopen_container_log(request).await.map(drop)
}
