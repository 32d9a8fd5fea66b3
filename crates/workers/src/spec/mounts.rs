//! What is mounted into a container.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};
use seams::cri::{self, MountPropagation};
use thiserror::Error;
use types::expand::{NoText, expand_text};

use super::env::Environment;
use super::{spec_of, uses_host_network};

#[cfg(test)]
mod tests;

pub const HOSTS: &str = "/etc/hosts";

/// A volume of a pod that can be mounted into its containers.
#[derive(Clone, Debug, PartialEq)]
pub struct MountedVolume {
    pub content: VolumeContent,
    /// Its kind is never written to: configMaps, secrets, ….
    pub read_only: bool,
    /// It is to get the pod's `SELinux` label: the kind is managed, can have labels,
    /// and was not mounted with one. Upstream says so for each mount of it.
    pub relabel: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum VolumeContent {
    /// A directory or file of the machine.
    Path(PathBuf),
    /// An image that was pulled.
    Image(cri::ImageSpec),
}

/// What a container's mounts are made of.
#[derive(Clone, Copy, Debug)]
pub struct MountSources<'a> {
    /// By name.
    pub volumes: &'a BTreeMap<String, MountedVolume>,
    /// The paths that stand for parts of volumes, by the index of their mount: see
    /// [`sub_path`].
    pub sub_paths: &'a BTreeMap<usize, PathBuf>,
    /// The pod's own `/etc/hosts`.
    pub hosts_file: &'a Path,
    /// Where the container leaves its last words; see [`termination_file`].
    pub termination_file: Option<&'a Path>,
    /// Whether the pod has addresses.
    pub has_addresses: bool,
    /// Whether the pod's runtime handler can do it.
    pub recursive_read_only: bool,
    /// Whether the machine has `SELinux`.
    pub selinux: bool,
}

/// Why a container cannot have its mounts.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MountError {
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    NoVolume { volume: String, container: String },
    #[error("failed to prepare subPath for volumeMount {volume:?} of container {container:?}")]
    NoSubPath { volume: String, container: String },
    #[error("missing value for {0}")]
    NoValue(String),
    #[error("error SubPath `{0}` must not be an absolute path")]
    Absolute(String),
    #[error("unable to provision SubPath `{0}`: must not contain '..'")]
    BackStep(String),
    #[error(transparent)]
    NoText(#[from] NoText),
    #[error("invalid MountPropagation mode: {0:?}")]
    Propagation(String),
    #[error(
        "failed to resolve recursive read-only mode: volume {0:?} requested recursive read-only mode, but it is not read-only"
    )]
    NotReadOnly(String),
    #[error(
        "failed to resolve recursive read-only mode: volume {volume:?} requested recursive read-only mode, but it is not compatible with propagation {propagation:?}"
    )]
    Propagated { volume: String, propagation: String },
    #[error(
        "failed to resolve recursive read-only mode: volume {0:?} requested recursive read-only mode, but it is not supported by the runtime"
    )]
    NotSupported(String),
    #[error("failed to resolve recursive read-only mode: unknown recursive read-only mode {0:?}")]
    UnknownMode(String),
}

/// The part of a volume that a mount is of, if it is not the whole. Whoever mounts
/// volumes makes it reachable before the container is made.
pub fn sub_path(mount: &VolumeMount, env: &Environment) -> Result<Option<String>, MountError> {
    let expression = mount.sub_path_expr.as_deref().unwrap_or_default();
    let path = if expression.is_empty() {
        mount.sub_path.clone().unwrap_or_default()
    } else {
        expanded(expression, env)?
    };
    if path.is_empty() {
        return Ok(None);
    }
    if path.starts_with('/') {
        return Err(MountError::Absolute(path));
    }
    if Path::new(&path)
        .components()
        .any(|part| part == Component::ParentDir)
    {
        return Err(MountError::BackStep(path));
    }
    Ok(Some(path))
}

/// Every variable must be there, and say something.
fn expanded(expression: &str, env: &Environment) -> Result<String, MountError> {
    let missing = std::cell::RefCell::new(BTreeSet::new());
    let text = expand_text(expression, |name| {
        let value = env.get(name).filter(|value| !value.is_empty());
        if value.is_none() {
            missing.borrow_mut().insert(name.to_owned());
        }
        value.or(Some(&[]))
    })?;
    let missing: Vec<String> = missing.into_inner().into_iter().collect();
    if missing.is_empty() {
        Ok(text)
    } else {
        Err(MountError::NoValue(missing.join(", ")))
    }
}

/// Where a container leaves its last words: a file of its own for each start.
/// `random` tells them apart.
pub fn termination_file(container_directory: &Path, random: u32) -> PathBuf {
    container_directory.join(format!("{random:08x}"))
}

/// Whether a container gets the pod's `/etc/hosts`: not if it mounts its own, nor
/// before the pod has a network.
pub fn wants_hosts_file(pod: &Pod, container: &Container, has_addresses: bool) -> bool {
    let mut mounts = container.volume_mounts.iter().flatten();
    let has_own = mounts.any(|mount| mount.mount_path == HOSTS);
    !has_own && (has_addresses || uses_host_network(&spec_of(pod)))
}

/// The mounts of a container, in upstream's order: volumes, `/etc/hosts`, the file
/// for its last words. `users` are the pod's own, if it has some.
pub fn mounts(
    pod: &Pod,
    container: &Container,
    env: &Environment,
    sources: &MountSources<'_>,
    users: Option<&cri::UserNamespace>,
) -> Result<Vec<cri::Mount>, MountError> {
    let mut mounts = Vec::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        mounts.push(volume_mount(container, index, mount, env, sources)?);
    }
    let mount_file = |host_path: &Path, container_path: &str| cri::Mount {
        host_path: host_path.display().to_string(),
        container_path: absolute(container_path),
        selinux_relabel: sources.selinux,
        ..Default::default()
    };
    if wants_hosts_file(pod, container, sources.has_addresses) {
        mounts.push(mount_file(sources.hosts_file, HOSTS));
    }
    let message_path = container
        .termination_message_path
        .as_deref()
        .unwrap_or_default();
    if let Some(file) = sources
        .termination_file
        .filter(|_| !message_path.is_empty())
    {
        mounts.push(mount_file(file, message_path));
    }
    for mount in &mut mounts {
        let users = users.cloned().unwrap_or_default();
        mount.uid_mappings = users.uids;
        mount.gid_mappings = users.gids;
    }
    Ok(mounts)
}

fn volume_mount(
    container: &Container,
    index: usize,
    mount: &VolumeMount,
    env: &Environment,
    sources: &MountSources<'_>,
) -> Result<cri::Mount, MountError> {
    let names = || (mount.name.clone(), container.name.clone());
    let volume = sources.volumes.get(&mount.name).ok_or_else(|| {
        let (volume, container) = names();
        MountError::NoVolume { volume, container }
    })?;
    let sub_path = sub_path(mount, env)?;
    let mut made = cri::Mount {
        container_path: absolute(&mount.mount_path),
        readonly: mount.read_only == Some(true) || volume.read_only,
        selinux_relabel: volume.relabel && sources.selinux,
        propagation: propagation(mount)?.into(),
        recursive_read_only: is_recursive(mount, sources.recursive_read_only)?,
        ..Default::default()
    };
    // Upstream says it of every mount of a pod that has an image among its volumes.
    let is_image = |volume: &MountedVolume| matches!(volume.content, VolumeContent::Image(_));
    if sources.volumes.values().any(is_image) {
        made.image_sub_path = sub_path.clone().unwrap_or_default();
    }
    match &volume.content {
        VolumeContent::Image(image) => {
            made.image = Some(image.clone());
        }
        VolumeContent::Path(path) if sub_path.is_none() => {
            made.host_path = path.display().to_string();
        }
        VolumeContent::Path(_) => {
            let prepared = sources.sub_paths.get(&index).ok_or_else(|| {
                let (volume, container) = names();
                MountError::NoSubPath { volume, container }
            })?;
            made.host_path = prepared.display().to_string();
        }
    }
    Ok(made)
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    }
}

fn propagation(mount: &VolumeMount) -> Result<MountPropagation, MountError> {
    match mount.mount_propagation.as_deref() {
        None | Some("None") => Ok(MountPropagation::PropagationPrivate),
        Some("HostToContainer") => Ok(MountPropagation::PropagationHostToContainer),
        Some("Bidirectional") => Ok(MountPropagation::PropagationBidirectional),
        Some(unknown) => Err(MountError::Propagation(unknown.to_owned())),
    }
}

fn is_recursive(mount: &VolumeMount, supported: bool) -> Result<bool, MountError> {
    let volume = || mount.name.clone();
    let mode = match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => return Ok(false),
        Some(mode) => mode,
    };
    if mount.read_only != Some(true) {
        return Err(MountError::NotReadOnly(volume()));
    }
    let propagation = mount.mount_propagation.as_deref();
    if let Some(propagation) = propagation.filter(|propagation| *propagation != "None") {
        return Err(MountError::Propagated {
            volume: volume(),
            propagation: propagation.to_owned(),
        });
    }
    match mode {
        "IfPossible" => Ok(supported),
        "Enabled" if supported => Ok(true),
        "Enabled" => Err(MountError::NotSupported(volume())),
        unknown => Err(MountError::UnknownMode(unknown.to_owned())),
    }
}
