//! A runtime that answers as one with nothing to do.

use std::sync::Arc;

use seams::cri::{
    ImageFsInfoRequest, ImageFsInfoResponse, ImageStatusRequest, ImageStatusResponse,
    LinuxRuntimeConfiguration, ListImagesRequest, ListImagesResponse, RuntimeCondition,
    RuntimeConfigRequest, RuntimeConfigResponse, RuntimeStatus, StatusRequest, StatusResponse,
    UpdateRuntimeConfigRequest, UpdateRuntimeConfigResponse, VersionRequest, VersionResponse,
};
use seams::runtime::Answer;
use seams::{RuntimeError, SharedClock};
use tokio::sync::watch;

use crate::faults::{Faults, pass};

/// What runtimes of one kind have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeShape {
    pub name: String,
    pub version: String,
}

impl Default for RuntimeShape {
    fn default() -> Self {
        Self {
            name: "ferrolet-sim".to_owned(),
            version: "0.1.0".to_owned(),
        }
    }
}

/// One runtime.
#[derive(Debug)]
pub struct Runtime {
    shape: Arc<RuntimeShape>,
    clock: SharedClock,
    faults: watch::Receiver<Faults>,
}

impl Runtime {
    pub fn new(
        shape: Arc<RuntimeShape>,
        clock: SharedClock,
        faults: watch::Receiver<Faults>,
    ) -> Self {
        Self {
            shape,
            clock,
            faults,
        }
    }

    /// The answer to a call, once it has passed the faults of its moment.
    fn answer<T: Send + 'static>(
        &self,
        call: &'static str,
        made: impl FnOnce(&Self) -> Result<T, RuntimeError> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(async move {
            pass(&self.faults, &self.clock, call).await?;
            made(self)
        })
    }
}

impl seams::Runtime for Runtime {
    fn version(&self, _: VersionRequest) -> Answer<'_, VersionResponse> {
        self.answer("Version", |runtime| {
            Ok(VersionResponse {
                version: "0.1.0".to_owned(),
                runtime_name: runtime.shape.name.clone(),
                runtime_version: runtime.shape.version.clone(),
                runtime_api_version: "v1".to_owned(),
            })
        })
    }

    fn status(&self, _: StatusRequest) -> Answer<'_, StatusResponse> {
        let good = |kind: &str| RuntimeCondition {
            r#type: kind.to_owned(),
            status: true,
            ..RuntimeCondition::default()
        };
        let conditions = vec![good("RuntimeReady"), good("NetworkReady")];
        self.answer("Status", |_| {
            Ok(StatusResponse {
                status: Some(RuntimeStatus { conditions }),
                ..StatusResponse::default()
            })
        })
    }

    fn runtime_config(&self, _: RuntimeConfigRequest) -> Answer<'_, RuntimeConfigResponse> {
        self.answer("RuntimeConfig", |_| {
            Ok(RuntimeConfigResponse {
                linux: Some(LinuxRuntimeConfiguration::default()),
            })
        })
    }

    fn update_runtime_config(
        &self,
        _: UpdateRuntimeConfigRequest,
    ) -> Answer<'_, UpdateRuntimeConfigResponse> {
        self.answer("UpdateRuntimeConfig", |_| {
            Ok(UpdateRuntimeConfigResponse {})
        })
    }

    fn list_images(&self, _: ListImagesRequest) -> Answer<'_, ListImagesResponse> {
        self.answer("ListImages", |_| Ok(ListImagesResponse::default()))
    }

    fn image_status(&self, _: ImageStatusRequest) -> Answer<'_, ImageStatusResponse> {
        self.answer("ImageStatus", |_| Ok(ImageStatusResponse::default()))
    }

    fn image_fs_info(&self, _: ImageFsInfoRequest) -> Answer<'_, ImageFsInfoResponse> {
        self.answer("ImageFsInfo", |_| Ok(ImageFsInfoResponse::default()))
    }
}
