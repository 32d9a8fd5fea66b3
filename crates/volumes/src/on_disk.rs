//! What is on the disk of pods, whoever left it; and how it is taken away.

use std::io;
use std::path::{Path, PathBuf};

use seams::Storage;
use seams::host::HostError;
use seams::storage::Entry;
use thiserror::Error;
use types::PodUid;

use crate::layout::{Layout, Plugin, is_plain, unescaped};

/// What the disk has of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodOnDisk {
    pub uid: PodUid,
    pub volumes: Vec<VolumeOnDisk>,
    /// What is mounted in its directory, the latest first.
    pub mounts: Vec<PathBuf>,
}

/// A volume that is on the disk, as a whole or in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeOnDisk {
    /// The kind, as upstream registers it: `kubernetes.io/empty-dir`.
    pub plugin: String,
    pub name: String,
    pub path: PathBuf,
}

/// Why volumes of a pod are still there.
#[derive(Debug, Error)]
pub enum UnmountError {
    #[error("UnmountVolume.TearDown failed for volume {volume:?} : {cause}")]
    Volume { volume: String, cause: HostError },
    #[error(
        "volume {volume:?} of pod {uid} is of kind {plugin}, which this kubelet cannot unmount: it is left at {path}"
    )]
    OtherKind {
        uid: PodUid,
        volume: String,
        plugin: String,
        path: PathBuf,
    },
    #[error("orphaned pod {:?} found, but failed to rmdir() volume at path {}: {cause}", uid.as_str(), path.display())]
    Directory {
        uid: PodUid,
        path: PathBuf,
        cause: io::Error,
    },
    #[error("{uid:?} is not a pod's uid")]
    Uid { uid: String },
    #[error(transparent)]
    Host(#[from] HostError),
}

/// All pods that have a directory.
pub(crate) fn pods(storage: &dyn Storage, layout: &Layout) -> Result<Vec<PodOnDisk>, HostError> {
    let mounts = storage.mounts_below(&layout.pods())?;
    let entries = storage.entries(&layout.pods())?.unwrap_or_default();
    let directories = entries.into_iter().filter(|entry| entry.is_directory);
    let pods = directories.map(|entry| {
        let uid = PodUid::new(&entry.name);
        let own = layout.pod(&uid);
        let mounts = mounts.iter().map(|mount| &mount.path);
        Ok(PodOnDisk {
            volumes: volumes(storage, layout, &uid)?,
            mounts: mounts
                .filter(|path| path.starts_with(&own))
                .cloned()
                .collect(),
            uid,
        })
    });
    pods.collect()
}

/// The volumes of a pod.
pub(crate) fn volumes(
    storage: &dyn Storage,
    layout: &Layout,
    uid: &PodUid,
) -> Result<Vec<VolumeOnDisk>, HostError> {
    let all = layout.volumes(uid);
    let mut volumes = Vec::new();
    for plugin in storage.entries(&all)?.unwrap_or_default() {
        let directory = all.join(&plugin.name);
        if !plugin.is_directory {
            continue;
        }
        for volume in storage.entries(&directory)?.unwrap_or_default() {
            volumes.push(VolumeOnDisk {
                plugin: unescaped(&plugin.name),
                path: directory.join(&volume.name),
                name: volume.name,
            });
        }
    }
    Ok(volumes)
}

/// What is at a path itself: links are not followed. Asked of the directory that it is
/// in, which for what is ours is short.
pub(crate) fn entry(storage: &dyn Storage, path: &Path) -> Result<Option<Entry>, HostError> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(None);
    };
    let entries = storage.entries(directory)?.unwrap_or_default();
    Ok(entries
        .into_iter()
        .find(|entry| entry.name.as_str() == name))
}

/// Takes the volumes of a pod away: parts that were mounted one by one first. What
/// cannot be taken away does not keep the others.
pub(crate) fn tear_down(
    storage: &dyn Storage,
    layout: &Layout,
    uid: &PodUid,
) -> Result<(), UnmountError> {
    checked(uid)?;
    let parts = layout.subpaths(uid);
    unmount_below(storage, &parts)?;
    remove_parts(storage, &parts)?;
    let mut problem = None;
    for volume in volumes(storage, layout, uid)? {
        if let Err(found) = tear_down_one(storage, uid, &volume) {
            problem.get_or_insert(found);
        }
    }
    if let Some(problem) = problem {
        return Err(problem);
    }
    clear(storage, &layout.plugins(uid))?;
    remove_emptied(storage, &layout.volumes(uid))?;
    Ok(())
}

fn tear_down_one(
    storage: &dyn Storage,
    uid: &PodUid,
    volume: &VolumeOnDisk,
) -> Result<(), UnmountError> {
    let directory = volume.path.parent().and_then(Path::file_name);
    let directory = directory.unwrap_or_default().to_string_lossy();
    let outcome = match Plugin::of_directory(&directory) {
        // What is behind it is not the pod's.
        Some(Plugin::LocalVolume) => release(storage, &volume.path),
        Some(_) => clear(storage, &volume.path),
        None => {
            // Whoever made it knows how to end it; if it was ended, this is all.
            let ended = storage.mounts_below(&volume.path)?.is_empty()
                && storage.remove_directory(&volume.path).is_ok();
            if ended {
                return Ok(());
            }
            return Err(UnmountError::OtherKind {
                uid: uid.clone(),
                volume: volume.name.clone(),
                plugin: volume.plugin.clone(),
                path: volume.path.clone(),
            });
        }
    };
    outcome.map_err(|cause| UnmountError::Volume {
        volume: volume.name.clone(),
        cause,
    })
}

/// Unmounts what was mounted at a path, and removes the directory that it was mounted
/// upon. What is mounted inside of it is others', and may be seen in more than one
/// place: it keeps it.
fn release(storage: &dyn Storage, path: &Path) -> Result<(), HostError> {
    let mounts = storage.mounts_below(path)?;
    for mount in mounts.iter().filter(|mount| mount.path == *path) {
        storage.unmount(&mount.path)?;
    }
    storage.remove_directory(path)
}

/// Unmounts all that is mounted in a directory, and removes it.
fn clear(storage: &dyn Storage, path: &Path) -> Result<(), HostError> {
    unmount_below(storage, path)?;
    storage.remove_tree(path)
}

/// Unmounts all that is mounted at a path and below it. A container may have bound parts of
/// the machine there, with all that is mounted on them: those lose nothing.
fn unmount_below(storage: &dyn Storage, path: &Path) -> Result<(), HostError> {
    let mounts = storage.mounts_below(path)?;
    for mount in &mounts {
        storage.make_private(&mount.path)?;
    }
    for (index, mount) in mounts.iter().enumerate() {
        storage.unmount(&mount.path)?;
        // What this one has covered was not to be reached before.
        if mounts[index + 1..]
            .iter()
            .any(|other| other.path == mount.path)
        {
            storage.make_private(&mount.path)?;
        }
    }
    Ok(())
}

/// Removes what parts of volumes were mounted upon: directories that are empty, or
/// files. By volume, container and number.
fn remove_parts(storage: &dyn Storage, parts: &Path) -> Result<(), HostError> {
    for volume in storage.entries(parts)?.unwrap_or_default() {
        let volume = parts.join(volume.name);
        for container in storage.entries(&volume)?.unwrap_or_default() {
            let container = volume.join(container.name);
            for part in storage.entries(&container)?.unwrap_or_default() {
                let path = container.join(&part.name);
                if part.is_directory {
                    storage.remove_directory(&path)?;
                } else {
                    storage.remove_file(&path)?;
                }
            }
            storage.remove_directory(&container)?;
        }
        storage.remove_directory(&volume)?;
    }
    storage.remove_directory(parts)
}

/// Removes the directories that volumes were in. A file among them is nobody's that we
/// know: it keeps them.
fn remove_emptied(storage: &dyn Storage, volumes: &Path) -> Result<(), HostError> {
    for plugin in storage.entries(volumes)?.unwrap_or_default() {
        storage.remove_directory(&volumes.join(plugin.name))?;
    }
    storage.remove_directory(volumes)
}

/// Removes the directory of a pod that has no volumes any more, as upstream does:
/// where a volume may be, only directories that are empty; and nothing of another file
/// system.
pub(crate) fn remove_pod(
    storage: &dyn Storage,
    layout: &Layout,
    uid: &PodUid,
) -> Result<(), UnmountError> {
    checked(uid)?;
    for volume in volumes(storage, layout, uid)? {
        let removed = storage.remove_directory(&volume.path);
        removed.map_err(|cause| UnmountError::Directory {
            uid: uid.clone(),
            path: volume.path,
            cause: cause.cause,
        })?;
    }
    remove_parts(storage, &layout.subpaths(uid))?;
    remove_emptied(storage, &layout.volumes(uid))?;
    let pod = layout.pod(uid);
    for entry in storage.entries(&pod)?.unwrap_or_default() {
        // What is mounted inside makes this fail, and stays.
        storage.remove_tree(&pod.join(entry.name))?;
    }
    Ok(storage.remove_directory(&pod)?)
}

/// A uid becomes part of paths.
fn checked(uid: &PodUid) -> Result<(), UnmountError> {
    if is_plain(uid.as_str()) {
        return Ok(());
    }
    Err(UnmountError::Uid {
        uid: uid.to_string(),
    })
}
