//! The machine's disks behind their seam.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use seams::Storage;
use seams::host::HostError;
use seams::storage::{
    Bind, Entry, FileSystem, GroupShare, MountPoint, PathKind, Shared, SubPathError, Tree, Usage,
    Work, WorkDone, checked_sub_path,
};

use crate::host::LinuxHost;
use crate::lone_files::{self, End};
use crate::{
    binds, compressed, host_paths, inside, mounts, ownership, publish, sub_path, trees, usage,
};

impl Storage for LinuxHost {
    fn make_directory(&self, path: &Path, mode: u32, parents: u32) -> Result<bool, HostError> {
        let path = self.path(path);
        trees::make_directory(&path, mode, parents).map_err(|cause| HostError::at(&path, cause))
    }

    fn make_file(&self, path: &Path, mode: u32) -> Result<(), HostError> {
        let path = self.path(path);
        trees::make_file(&path, mode).map_err(|cause| HostError::at(&path, cause))
    }

    fn write_file(&self, path: &Path, content: &[u8], mode: u32) -> Result<bool, HostError> {
        let path = self.path(path);
        lone_files::write(&path, content, mode).map_err(|cause| HostError::at(&path, cause))
    }

    fn read_end(&self, path: &Path, most: usize) -> Result<Option<Vec<u8>>, HostError> {
        let path = self.path(path);
        lone_files::read(&path, End::Last, most).map_err(|cause| HostError::at(&path, cause))
    }

    fn read_inside(
        &self,
        volume: &Path,
        path: &str,
        most: usize,
    ) -> Result<Option<Vec<u8>>, HostError> {
        let volume = self.path(volume);
        inside::read(&volume, Path::new(path), most)
            .map_err(|cause| HostError::at(&volume.join(path), cause))
    }

    fn remove_file(&self, path: &Path) -> Result<(), HostError> {
        let path = self.path(path);
        lone_files::remove(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn size(&self, path: &Path) -> Result<Option<u64>, HostError> {
        let path = self.path(path);
        lone_files::size(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<bool, HostError> {
        let (from, to) = (self.path(from), self.path(to));
        lone_files::rename(&from, &to).map_err(|cause| HostError::at(&from, cause))
    }

    fn compress(&self, file: &Path, beside: &Path, into: &Path) -> Result<(), HostError> {
        let [file, beside, into] = [file, beside, into].map(|path| self.path(path));
        compressed::compress(&file, &beside, &into).map_err(|cause| HostError::at(&file, cause))
    }

    /// The link says what the machine calls its target.
    fn link(&self, target: &Path, at: &Path) -> Result<(), HostError> {
        let at = self.path(at);
        lone_files::link(target, &at).map_err(|cause| HostError::at(&at, cause))
    }

    fn dangling_links(&self, directory: &Path) -> Result<Vec<PathBuf>, HostError> {
        let path = self.path(directory);
        let names = lone_files::dangling(&path, |target| self.path(target));
        let names = names.map_err(|cause| HostError::at(&path, cause))?;
        Ok(names.iter().map(|name| directory.join(name)).collect())
    }

    fn publish(&self, directory: &Path, tree: &Tree, now: SystemTime) -> Result<bool, HostError> {
        publish::publish(&self.path(directory), tree, now)
    }

    fn share(
        &self,
        directory: &Path,
        share: GroupShare,
        done: &AtomicU64,
    ) -> Result<Shared, HostError> {
        let path = self.path(directory);
        ownership::share(&path, share, done).map_err(|cause| HostError::at(&path, cause))
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

    fn mount_huge_pages(&self, path: &Path, page: u64) -> Result<bool, HostError> {
        let path = self.path(path);
        mounts::mount_huge_pages(&path, page).map_err(|cause| HostError::at(&path, cause))
    }

    fn keeps_from_swap(&self, directory: &Path) -> bool {
        mounts::keeps_from_swap(&self.path(directory))
    }

    fn make_shared(&self, directory: &Path) -> Result<(), HostError> {
        let path = self.path(directory);
        mounts::make_shared(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn bind_sub_path(
        &self,
        volume: &Path,
        sub_path: &str,
        at: &Path,
    ) -> Result<bool, SubPathError> {
        let part = checked_sub_path(sub_path).map_err(SubPathError::Make)?;
        let (volume, at) = (self.path(volume), self.path(at));
        let whole = volume.join(&part);
        sub_path::make(&volume, &part)
            .map_err(|cause| SubPathError::Make(HostError::at(&whole, cause)))?;
        sub_path::bind(&volume, &part, &at)
            .map_err(|cause| SubPathError::Bind(HostError::at(&whole, cause)))
    }

    fn make_private(&self, path: &Path) -> Result<(), HostError> {
        let path = self.path(path);
        mounts::make_private(&path).map_err(|cause| HostError::at(&path, cause))
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
        host_paths::has(&self.path(path), kind, make)
    }

    fn exists(&self, path: &Path) -> Result<bool, HostError> {
        let path = self.path(path);
        std::fs::exists(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn bind(&self, bind: &Bind) -> Result<bool, HostError> {
        let bind = Bind {
            directory: self.path(&bind.directory),
            at: self.path(&bind.at),
            ..bind.clone()
        };
        binds::bind(&bind)
    }

    fn also_mounted(&self, directory: &Path, below: &Path) -> Result<Vec<PathBuf>, HostError> {
        let places = mounts::also(&self.path(directory), &self.path(below))?;
        Ok(places.iter().map(|place| self.path_within(place)).collect())
    }

    fn group(&self, path: &Path) -> Result<u32, HostError> {
        let path = self.path(path);
        let metadata = std::fs::metadata(&path).map_err(|cause| HostError::at(&path, cause))?;
        Ok(metadata.gid())
    }

    fn remove_directory(&self, path: &Path) -> Result<(), HostError> {
        let path = self.path(path);
        trees::remove_directory(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn usage(&self, directory: &Path) -> Result<Usage, HostError> {
        let path = self.path(directory);
        usage::of(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn usage_of_files(&self, directory: &Path) -> Result<Option<Usage>, HostError> {
        let path = self.path(directory);
        usage::of_files(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn file_system(&self, path: &Path) -> Result<FileSystem, HostError> {
        let path = self.path(path);
        usage::file_system(&path).map_err(|cause| HostError::at(&path, cause))
    }

    fn run(&self, work: Work) -> WorkDone<'_> {
        // Once begun it goes on, whoever waits; a panic in it is the waiter's loss.
        let work = tokio::task::spawn_blocking(work);
        Box::pin(async move { drop(work.await) })
    }
}

#[cfg(test)]
mod tests;
