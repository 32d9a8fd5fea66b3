//! What a node asks its runtime before it starts: whether it speaks CRI v1, who
//! it is, and who makes the cgroups. These are functions over the seam, so that
//! whoever wires a node can ask any runtime.

use thiserror::Error;

use crate::cri::{
    CgroupDriver, ImageFsInfoRequest, RuntimeConfigRequest, VersionRequest, VersionResponse,
};
use crate::{Runtime, RuntimeError};

/// The version of the interface that kubelets have asked for since the first.
const API_VERSION: &str = "0.1.0";

/// A runtime that a node cannot start with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StartError {
    /// Asking again later may help.
    #[error("{0}")]
    Call(RuntimeError),
    #[error(
        "the container runtime does not serve CRI v1 ({0}): use containerd 1.6 or newer, or a \
         CRI-O; if it is new enough, its configuration disables CRI: remove \"cri\" from \
         disabled_plugins in /etc/containerd/config.toml and restart it"
    )]
    NoV1(RuntimeError),
    #[error(
        "the container runtime answers version {0:?} of the Container Runtime Interface, the \
         node speaks {API_VERSION:?}: upgrade the older of the two"
    )]
    OtherVersion(String),
    #[error(
        "the container runtime's answer to Version lacks its {0}: it does not keep to CRI v1; \
         upgrade it"
    )]
    Incomplete(&'static str),
    #[error(
        "the container runtime names a cgroup driver that is not known, {0}: upgrade the node, \
         or tell the runtime to use systemd or cgroupfs"
    )]
    CgroupDriver(i32),
}

/// Whether both services answer in CRI v1; and who the runtime is.
pub async fn check(runtime: &dyn Runtime) -> Result<VersionResponse, StartError> {
    let version = version(runtime).await?;
    let images = runtime.image_fs_info(ImageFsInfoRequest {}).await;
    images.map_err(without_v1)?;
    Ok(version)
}

/// Who the runtime is, if it keeps to CRI v1.
pub async fn version(runtime: &dyn Runtime) -> Result<VersionResponse, StartError> {
    let request = VersionRequest {
        version: API_VERSION.to_owned(),
    };
    let version = runtime.version(request).await.map_err(without_v1)?;
    if version.version != API_VERSION {
        return Err(StartError::OtherVersion(version.version));
    }
    for (value, what) in [
        (&version.runtime_name, "name"),
        (&version.runtime_version, "version"),
        (&version.runtime_api_version, "API version"),
    ] {
        if value.is_empty() {
            return Err(StartError::Incomplete(what));
        }
    }
    Ok(version)
}

/// The cgroup driver that the runtime uses and the node must use too. `None`
/// where it does not say: then the node's own setting counts.
pub async fn cgroup_driver(runtime: &dyn Runtime) -> Result<Option<CgroupDriver>, StartError> {
    let answer = match runtime.runtime_config(RuntimeConfigRequest {}).await {
        Ok(answer) => answer,
        Err(error) if error.is_unimplemented() => return Ok(None),
        Err(error) => return Err(StartError::Call(error)),
    };
    let Some(linux) = answer.linux else {
        return Ok(None);
    };
    CgroupDriver::try_from(linux.cgroup_driver)
        .map(Some)
        .map_err(|_| StartError::CgroupDriver(linux.cgroup_driver))
}

fn without_v1(error: RuntimeError) -> StartError {
    if error.is_unimplemented() {
        StartError::NoV1(error)
    } else {
        StartError::Call(error)
    }
}
