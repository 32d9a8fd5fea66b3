//! What to do on the disk for one volume: decided from what the pod says and what
//! its objects are, then done.

use std::path::PathBuf;
use std::time::SystemTime;

use k8s_openapi::api::core::v1::{HostPathVolumeSource, Pod, Volume};
use seams::Storage;
use seams::host::HostError;
use seams::storage::Tree;
use thiserror::Error;
use types::PodUid;

use crate::empty_dir::{self, EmptyDir, Medium, MediumError};
use crate::host_path::{self, HostPathError};
use crate::kind::{Kind, UnsupportedKind};
use crate::layout::{Layout, Plugin, is_plain};
use crate::nested::{self, BadMountPoint};
use crate::payload::{DEFAULT_MODE, Payload, PayloadError};
use crate::resource_field::Allocatable;
use crate::snapshot::Snapshot;
use crate::{config_map, downward_api, pod, projected, secret};

/// Why a volume cannot be set up.
#[derive(Debug, Error)]
pub enum VolumeProblem {
    #[error(transparent)]
    Unsupported(#[from] UnsupportedKind),
    #[error(transparent)]
    Medium(#[from] MediumError),
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error(transparent)]
    HostPath(#[from] HostPathError),
    #[error(transparent)]
    MountPoint(#[from] BadMountPoint),
    #[error(
        "{name:?} is not a name for a directory: rename the volume, its name has to be a DNS label"
    )]
    Name { name: String },
    #[error("the pod's directories cannot be made: {problem}")]
    Directories { problem: String },
    #[error(transparent)]
    Host(#[from] HostError),
}

/// A volume, ready for containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedVolume {
    pub name: String,
    /// On the machine. An image's is empty: where that is, its runtime knows.
    pub path: PathBuf,
    /// Whatever the container asks for.
    pub read_only: bool,
    /// The group that it was given to.
    pub fs_group: Option<u32>,
    /// The runtime may label it for the pod.
    pub relabel: bool,
}

/// What to do on the disk.
#[derive(Debug)]
pub(crate) enum SetUp {
    EmptyDir(EmptyDir),
    HostPath(HostPathVolumeSource),
    /// Nothing: it is the runtime's.
    Image,
    Published {
        on: EmptyDir,
        tree: Tree,
        /// Directories for what is mounted inside.
        mount_points: Vec<PathBuf>,
    },
}

/// What volumes of a pod are decided from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) pod: &'a Pod,
    pub(crate) uid: &'a PodUid,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) allocatable: &'a Allocatable,
}

impl Given<'_> {
    pub(crate) fn decide(&self, volume: &Volume) -> Result<SetUp, VolumeProblem> {
        let kind = Kind::of(volume)?;
        let name = &volume.name;
        let (Some(plugin), true) = (kind.plugin(), is_plain(name)) else {
            return match kind {
                Kind::HostPath(source) => Ok(SetUp::HostPath(source.clone())),
                Kind::Image => Ok(SetUp::Image),
                _ => Err(VolumeProblem::Name { name: name.clone() }),
            };
        };
        let payload = match kind {
            Kind::EmptyDir(source) => {
                let medium = empty_dir::medium(source, self.pod, self.allocatable)?;
                return Ok(SetUp::EmptyDir(self.empty_dir(plugin, name, medium)));
            }
            kind => self.payload(kind)?,
        };
        // ConfigMaps are no secrets: what they take is the disk's, not the pod's.
        let medium = match plugin {
            Plugin::ConfigMap => Medium::Disk,
            _ => empty_dir::memory(self.pod, self.allocatable, None),
        };
        let on = self.empty_dir(plugin, name, medium);
        Ok(SetUp::Published {
            tree: Tree {
                files: payload,
                group: on.group,
            },
            on,
            mount_points: nested::mount_points(self.pod, name)?,
        })
    }

    fn empty_dir(&self, plugin: Plugin, name: &str, medium: Medium) -> EmptyDir {
        EmptyDir {
            path: self.layout.volume(self.uid, plugin, name),
            ready: self.layout.ready(self.uid, plugin, name),
            medium,
            group: pod::file_owners(self.pod).group,
        }
    }

    /// What is in a volume that is made of objects.
    fn payload(&self, kind: Kind<'_>) -> Result<Payload, PayloadError> {
        match kind {
            Kind::ConfigMap(source) => {
                let items = source.items.as_deref().unwrap_or_default();
                let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
                let object = self.snapshot.config_map(&source.name)?;
                let optional = source.optional == Some(true);
                config_map::payload(&source.name, object.as_deref(), items, mode, optional)
            }
            Kind::Secret(source) => {
                let items = source.items.as_deref().unwrap_or_default();
                let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
                let name = source.secret_name.as_deref().unwrap_or_default();
                let object = self.snapshot.secret(name)?;
                let optional = source.optional == Some(true);
                secret::payload(name, object.as_deref(), items, mode, optional)
            }
            Kind::DownwardApi(source) => {
                let items = source.items.as_deref().unwrap_or_default();
                let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
                downward_api::payload(items, self.pod, self.allocatable, mode)
            }
            Kind::Projected(source) => {
                projected::payload(source, self.pod, self.snapshot, self.allocatable)
            }
            Kind::EmptyDir(_) | Kind::HostPath(_) | Kind::Image => Ok(Payload::new()),
        }
    }
}

impl SetUp {
    /// Made of objects, which may change.
    pub(crate) fn is_published(&self) -> bool {
        matches!(self, Self::Published { .. })
    }

    /// Does it. What is already so is left alone.
    pub(crate) fn act(
        &self,
        storage: &dyn Storage,
        name: &str,
        now: SystemTime,
    ) -> Result<MountedVolume, VolumeProblem> {
        let mounted = |path, read_only, fs_group| MountedVolume {
            name: name.to_owned(),
            path,
            read_only,
            fs_group,
            relabel: true,
        };
        match self {
            Self::EmptyDir(empty_dir) => {
                empty_dir.set_up(storage)?;
                Ok(mounted(empty_dir.path.clone(), false, empty_dir.group))
            }
            // It is the machine's, and stays as it is.
            Self::HostPath(source) => Ok(MountedVolume {
                relabel: false,
                ..mounted(host_path::set_up(storage, source)?, false, None)
            }),
            Self::Image => Ok(MountedVolume {
                relabel: false,
                ..mounted(PathBuf::new(), true, None)
            }),
            Self::Published {
                on,
                tree,
                mount_points,
            } => {
                on.set_up(storage)?;
                for inside in mount_points {
                    storage.make_directory(&on.path.join(inside), 0o755, 0o755)?;
                }
                storage.publish(&on.path, tree, now)?;
                Ok(mounted(on.path.clone(), true, on.group))
            }
        }
    }
}
