//! What to do on the disk for one volume: decided from what the pod says and what
//! its objects are, then done.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use k8s_openapi::api::core::v1::{HostPathVolumeSource, Pod, Volume};
use seams::Storage;
use seams::host::HostError;
use seams::storage::Tree;
use thiserror::Error;
use types::PodUid;

use crate::attached::AttachError;
use crate::claimed::{Claimed, Place};
use crate::claims::ClaimError;
use crate::empty_dir::{self, EmptyDir, Medium, MediumError};
use crate::figures::Counted;
use crate::host_path::{self, HostPathError};
use crate::kind::{self, Kind, UnsupportedKind};
use crate::layout::{Layout, Plugin, is_plain};
use crate::local::LocalError;
use crate::nested::{self, BadMountPoint};
use crate::notice::Notice;
use crate::ownership::Progress;
use crate::payload::{DEFAULT_MODE, Payload, PayloadError};
use crate::persistent::Refusal;
use crate::resource_field::Allocatable;
use crate::snapshot::Snapshot;
use crate::{config_map, downward_api, pod, projected, secret};

/// Why a volume cannot be set up.
#[derive(Debug, Error)]
pub enum VolumeProblem {
    #[error(transparent)]
    Unsupported(#[from] UnsupportedKind),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Attach(#[from] AttachError),
    #[error(transparent)]
    Local(#[from] LocalError),
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
    #[error(
        "git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the feature-gate `GitRepoVolumeDriver`"
    )]
    GitRepo,
    #[error("{}", .0.in_gos_words())]
    Host(#[from] HostError),
}

impl VolumeProblem {
    /// Nothing was tried: what to do is not known, and is asked for again with all that
    /// a pod needs.
    pub fn is_unprocessed(&self) -> bool {
        matches!(self, Self::Unsupported(_) | Self::Claim(_))
    }

    /// Nothing failed: the cluster has something to do first.
    pub fn is_awaited(&self) -> bool {
        matches!(self, Self::Attach(AttachError::Awaited))
    }

    /// What failed, in upstream's words.
    pub(crate) fn step(&self) -> &'static str {
        match self {
            Self::Refused(Refusal::OtherNodes) => "MountVolume.NodeAffinity check failed",
            Self::Refused(Refusal::Options) => "MountVolume.MountOptionSupport check failed",
            Self::Local(error) if error.is_of_the_source() => {
                "MountVolume.NewMounter initialization failed"
            }
            Self::Attach(AttachError::NoDriver { .. }) => "MountVolume.MountDevice failed",
            Self::Attach(_) => "MountVolume.WaitForAttach failed",
            _ => "MountVolume.SetUp failed",
        }
    }
}

/// A volume, ready for containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedVolume {
    pub name: String,
    /// The persistent volume's, if it is one: else the same. Parts of it are found by
    /// this.
    pub spec_name: String,
    /// On the machine. An image's is empty: where that is, its runtime knows.
    pub path: PathBuf,
    /// Whatever the container asks for.
    pub read_only: bool,
    /// The group that it was given to.
    pub fs_group: Option<u32>,
    /// The runtime may label it for the pod.
    pub relabel: bool,
    /// A group that the pod's programs get for it.
    pub extra_group: Option<i64>,
    pub(crate) counted: Counted,
}

/// What to do on the disk.
#[derive(Debug)]
pub(crate) enum SetUp {
    Claimed(Claimed),
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
        if volume.git_repo.is_some() {
            return Err(VolumeProblem::GitRepo);
        }
        let kind = Kind::of(volume)?;
        let name = &volume.name;
        if let Kind::Claim = kind {
            return self.claimed(volume).map(SetUp::Claimed);
        }
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
            Kind::Projected(_) if !self.snapshot.has_api => {
                let volume = name.clone();
                return Err(PayloadError::NoClient { volume }.into());
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
            Kind::Claim | Kind::EmptyDir(_) | Kind::HostPath(_) | Kind::Image => Ok(Payload::new()),
        }
    }
}

impl SetUp {
    /// What upstream calls the volume.
    pub(crate) fn spec_name(&self) -> Option<&str> {
        match self {
            Self::Claimed(claimed) => Some(&claimed.name),
            _ => None,
        }
    }

    /// As upstream calls the kind.
    pub(crate) fn plugin(&self) -> &'static str {
        let of_directory = |path: &Path| {
            let name = path.parent().and_then(Path::file_name);
            let plugin = name.and_then(|name| Plugin::of_directory(&name.to_string_lossy()));
            plugin.map_or(kind::HOST_PATH, Plugin::name)
        };
        match self {
            Self::Claimed(claimed) => match &claimed.place {
                Place::HostPath(_) => kind::HOST_PATH,
                Place::Local(_) => Plugin::LocalVolume.name(),
            },
            Self::EmptyDir(on) | Self::Published { on, .. } => of_directory(&on.path),
            Self::HostPath(_) => kind::HOST_PATH,
            Self::Image => kind::IMAGE,
        }
    }

    /// The directory of the machine that other pods may have, too, and of which it
    /// counts who came first.
    pub(crate) fn shared(&self) -> Option<&Path> {
        match self {
            Self::Claimed(claimed) => match &claimed.place {
                Place::Local(local) => Some(&local.bind.directory),
                Place::HostPath(_) => None,
            },
            _ => None,
        }
    }

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
        progress: &Progress,
        notices: &mut Vec<Notice>,
    ) -> Result<MountedVolume, VolumeProblem> {
        let mounted = |path, read_only, fs_group| MountedVolume {
            name: name.to_owned(),
            spec_name: name.to_owned(),
            path,
            read_only,
            fs_group,
            relabel: true,
            extra_group: None,
            counted: Counted::Walked,
        };
        match self {
            Self::Claimed(claimed) => claimed.act(storage, name, progress, notices),
            Self::EmptyDir(empty_dir) => {
                empty_dir.set_up(storage, progress)?;
                Ok(mounted(empty_dir.path.clone(), false, empty_dir.group))
            }
            // It is the machine's, and stays as it is.
            Self::HostPath(source) => Ok(MountedVolume {
                relabel: false,
                counted: Counted::Not,
                ..mounted(host_path::set_up(storage, source)?, false, None)
            }),
            Self::Image => Ok(MountedVolume {
                relabel: false,
                counted: Counted::Not,
                ..mounted(PathBuf::new(), true, None)
            }),
            Self::Published {
                on,
                tree,
                mount_points,
            } => {
                on.set_up(storage, progress)?;
                for inside in mount_points {
                    storage.make_directory(&on.path.join(inside), 0o755, 0o755)?;
                }
                storage.publish(&on.path, tree, now)?;
                Ok(mounted(on.path.clone(), true, on.group))
            }
        }
    }
}
