//! The machine's disks behind their seam.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use seams::Storage;
use seams::host::HostError;
use seams::storage::{Entry, GroupShare, MountPoint, PathKind, Tree, Work, WorkDone};

use crate::host::LinuxHost;
use crate::{mounts, publish, trees};

impl Storage for LinuxHost {
    fn make_directory(&self, path: &Path, mode: u32, parents: u32) -> Result<bool, HostError> {
        let path = self.path(path);
        trees::make_directory(&path, mode, parents).map_err(|cause| HostError::at(&path, cause))
    }

    fn make_file(&self, path: &Path, mode: u32) -> Result<(), HostError> {
        let path = self.path(path);
        trees::make_file(&path, mode).map_err(|cause| HostError::at(&path, cause))
    }

    fn publish(&self, directory: &Path, tree: &Tree, now: SystemTime) -> Result<bool, HostError> {
        publish::publish(&self.path(directory), tree, now)
    }

    fn share(&self, directory: &Path, share: GroupShare) -> Result<(), HostError> {
        let path = self.path(directory);
        trees::share(&path, share).map_err(|cause| HostError::at(&path, cause))
    }

    fn mount_tmpfs(&self, path: &Path, size: Option<u64>) -> Result<bool, HostError> {
        let path = self.path(path);
        let mounted = || -> io::Result<bool> {
            let fresh = !mounts::is_tmpfs(&path)?;
            if fresh {
                mounts::mount_tmpfs(&path, size)?;
            }
            Ok(fresh)
        };
        mounted().map_err(|cause| HostError::at(&path, cause))
    }

    fn unmount(&self, path: &Path) -> Result<(), HostError> {
        let path = self.path(path);
        mounts::unmount(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn mounts_below(&self, path: &Path) -> Result<Vec<MountPoint>, HostError> {
        let mounts = mounts::below(&self.path(path))?;
        let theirs = mounts.into_iter().map(|mount| MountPoint {
            path: self.path_within(&mount.path),
            ..mount
        });
        Ok(theirs.collect())
    }

    fn remove_tree(&self, path: &Path) -> Result<(), HostError> {
        let path = self.path(path);
        if let Some(mount) = mounts::below(&path)?.first() {
            return Err(mounts::in_the_way(&mount.path));
        }
        trees::remove(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn entries(&self, path: &Path) -> Result<Option<Vec<Entry>>, HostError> {
        let path = self.path(path);
        trees::listed(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn has(&self, path: &Path, kind: PathKind, make: bool) -> Result<bool, HostError> {
        let path = self.path(path);
        trees::has(&path, kind, make).map_err(|cause| HostError::at(&path, cause))
    }

    fn run(&self, work: Work) -> WorkDone<'_> {
        // Once begun it goes on, whoever waits; a panic in it is the waiter's loss.
        let work = tokio::task::spawn_blocking(work);
        Box::pin(async move { drop(work.await) })
    }
}

#[cfg(test)]
mod tests;
