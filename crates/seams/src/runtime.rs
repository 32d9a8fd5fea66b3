//! The container runtime: what runs the pods of a node.
//!
//! The calls are those of the Container Runtime Interface, in its own messages
//! ([`crate::cri`]), so that nothing is lost between a runtime and whoever asks
//! it. A call that fails says so with the code that gRPC has for it.

mod counted;
mod error;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;

pub use counted::Counted;
pub use error::{Code, RuntimeError};

use crate::cri::{
    AttachRequest, AttachResponse, CheckpointContainerRequest, CheckpointContainerResponse,
    ContainerEventResponse, ContainerStatsRequest, ContainerStatsResponse, ContainerStatusRequest,
    ContainerStatusResponse, CreateContainerRequest, CreateContainerResponse, ExecRequest,
    ExecResponse, ExecSyncRequest, ExecSyncResponse, GetEventsRequest, ImageFsInfoRequest,
    ImageFsInfoResponse, ImageStatusRequest, ImageStatusResponse, ListContainerStatsRequest,
    ListContainerStatsResponse, ListContainersRequest, ListContainersResponse, ListImagesRequest,
    ListImagesResponse, ListMetricDescriptorsRequest, ListMetricDescriptorsResponse,
    ListPodSandboxMetricsRequest, ListPodSandboxMetricsResponse, ListPodSandboxRequest,
    ListPodSandboxResponse, ListPodSandboxStatsRequest, ListPodSandboxStatsResponse,
    PodSandboxStatsRequest, PodSandboxStatsResponse, PodSandboxStatusRequest,
    PodSandboxStatusResponse, PortForwardRequest, PortForwardResponse, PullImageRequest,
    PullImageResponse, RemoveContainerRequest, RemoveContainerResponse, RemoveImageRequest,
    RemoveImageResponse, RemovePodSandboxRequest, RemovePodSandboxResponse,
    ReopenContainerLogRequest, ReopenContainerLogResponse, RunPodSandboxRequest,
    RunPodSandboxResponse, RuntimeConfigRequest, RuntimeConfigResponse, StartContainerRequest,
    StartContainerResponse, StatusRequest, StatusResponse, StopContainerRequest,
    StopContainerResponse, StopPodSandboxRequest, StopPodSandboxResponse,
    UpdateContainerResourcesRequest, UpdateContainerResourcesResponse,
    UpdatePodSandboxResourcesRequest, UpdatePodSandboxResourcesResponse,
    UpdateRuntimeConfigRequest, UpdateRuntimeConfigResponse, VersionRequest, VersionResponse,
};

/// The runtime that the parts of one node share.
pub type SharedRuntime = Arc<dyn Runtime>;

/// An answer that takes its time. Dropping it gives the call up.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, RuntimeError>> + Send + 'a>>;

/// Events as they happen. It ends when the runtime ends it, or after an error,
/// and then has to be asked for anew: what happened meanwhile is not told.
pub type ContainerEvents =
    Pin<Box<dyn Stream<Item = Result<ContainerEventResponse, RuntimeError>> + Send>>;

/// What runs pods. A call ends by an answer, or by an error when its time is up;
/// so nobody has to guard it with a limit of their own, but where it says so.
///
/// A runtime that lacks a call answers [`Code::Unimplemented`], and so does
/// whatever stands in for one. The calls that bring a list in parts are not
/// here: the whole list does.
pub trait Runtime: fmt::Debug + Send + Sync + 'static {
    fn version(&self, request: VersionRequest) -> Answer<'_, VersionResponse> {
        lacking("Version", request)
    }

    fn status(&self, request: StatusRequest) -> Answer<'_, StatusResponse> {
        lacking("Status", request)
    }

    /// [`Code::Unimplemented`] where the runtime leaves the cgroup driver to the
    /// node's own configuration: containerd before 2.0.
    fn runtime_config(&self, request: RuntimeConfigRequest) -> Answer<'_, RuntimeConfigResponse> {
        lacking("RuntimeConfig", request)
    }

    fn update_runtime_config(
        &self,
        request: UpdateRuntimeConfigRequest,
    ) -> Answer<'_, UpdateRuntimeConfigResponse> {
        lacking("UpdateRuntimeConfig", request)
    }

    /// Takes twice the time of others, at most: it waits for the pod's network.
    fn run_pod_sandbox(&self, request: RunPodSandboxRequest) -> Answer<'_, RunPodSandboxResponse> {
        lacking("RunPodSandbox", request)
    }

    /// Ends what still runs in it, too; and it is no error if there is nothing any
    /// more.
    fn stop_pod_sandbox(
        &self,
        request: StopPodSandboxRequest,
    ) -> Answer<'_, StopPodSandboxResponse> {
        lacking("StopPodSandbox", request)
    }

    fn remove_pod_sandbox(
        &self,
        request: RemovePodSandboxRequest,
    ) -> Answer<'_, RemovePodSandboxResponse> {
        lacking("RemovePodSandbox", request)
    }

    fn pod_sandbox_status(
        &self,
        request: PodSandboxStatusRequest,
    ) -> Answer<'_, PodSandboxStatusResponse> {
        lacking("PodSandboxStatus", request)
    }

    fn list_pod_sandbox(
        &self,
        request: ListPodSandboxRequest,
    ) -> Answer<'_, ListPodSandboxResponse> {
        lacking("ListPodSandbox", request)
    }

    fn update_pod_sandbox_resources(
        &self,
        request: UpdatePodSandboxResourcesRequest,
    ) -> Answer<'_, UpdatePodSandboxResourcesResponse> {
        lacking("UpdatePodSandboxResources", request)
    }

    fn create_container(
        &self,
        request: CreateContainerRequest,
    ) -> Answer<'_, CreateContainerResponse> {
        lacking("CreateContainer", request)
    }

    fn start_container(
        &self,
        request: StartContainerRequest,
    ) -> Answer<'_, StartContainerResponse> {
        lacking("StartContainer", request)
    }

    /// Answers when the container has ended: its grace comes on top of the time
    /// of others.
    fn stop_container(&self, request: StopContainerRequest) -> Answer<'_, StopContainerResponse> {
        lacking("StopContainer", request)
    }

    /// Ends it first if it runs, and without grace.
    fn remove_container(
        &self,
        request: RemoveContainerRequest,
    ) -> Answer<'_, RemoveContainerResponse> {
        lacking("RemoveContainer", request)
    }

    fn container_status(
        &self,
        request: ContainerStatusRequest,
    ) -> Answer<'_, ContainerStatusResponse> {
        lacking("ContainerStatus", request)
    }

    fn list_containers(
        &self,
        request: ListContainersRequest,
    ) -> Answer<'_, ListContainersResponse> {
        lacking("ListContainers", request)
    }

    fn update_container_resources(
        &self,
        request: UpdateContainerResourcesRequest,
    ) -> Answer<'_, UpdateContainerResourcesResponse> {
        lacking("UpdateContainerResources", request)
    }

    /// After the log's file was moved away.
    fn reopen_container_log(
        &self,
        request: ReopenContainerLogRequest,
    ) -> Answer<'_, ReopenContainerLogResponse> {
        lacking("ReopenContainerLog", request)
    }

    /// A `timeout` below the time of others counts as that.
    fn checkpoint_container(
        &self,
        request: CheckpointContainerRequest,
    ) -> Answer<'_, CheckpointContainerResponse> {
        lacking("CheckpointContainer", request)
    }

    /// What becomes of containers from now on. A runtime may say nothing before
    /// the first event: that it has no such call can come as an error of this
    /// answer, or as the first item.
    fn get_container_events(&self, request: GetEventsRequest) -> Answer<'_, ContainerEvents> {
        lacking("GetContainerEvents", request)
    }

    /// A command's own `timeout` comes on top of the time of others; without one
    /// the call has no end but its answer.
    fn exec_sync(&self, request: ExecSyncRequest) -> Answer<'_, ExecSyncResponse> {
        lacking("ExecSync", request)
    }

    fn exec(&self, request: ExecRequest) -> Answer<'_, ExecResponse> {
        lacking("Exec", request)
    }

    fn attach(&self, request: AttachRequest) -> Answer<'_, AttachResponse> {
        lacking("Attach", request)
    }

    fn port_forward(&self, request: PortForwardRequest) -> Answer<'_, PortForwardResponse> {
        lacking("PortForward", request)
    }

    fn container_stats(
        &self,
        request: ContainerStatsRequest,
    ) -> Answer<'_, ContainerStatsResponse> {
        lacking("ContainerStats", request)
    }

    fn list_container_stats(
        &self,
        request: ListContainerStatsRequest,
    ) -> Answer<'_, ListContainerStatsResponse> {
        lacking("ListContainerStats", request)
    }

    fn pod_sandbox_stats(
        &self,
        request: PodSandboxStatsRequest,
    ) -> Answer<'_, PodSandboxStatsResponse> {
        lacking("PodSandboxStats", request)
    }

    fn list_pod_sandbox_stats(
        &self,
        request: ListPodSandboxStatsRequest,
    ) -> Answer<'_, ListPodSandboxStatsResponse> {
        lacking("ListPodSandboxStats", request)
    }

    fn list_metric_descriptors(
        &self,
        request: ListMetricDescriptorsRequest,
    ) -> Answer<'_, ListMetricDescriptorsResponse> {
        lacking("ListMetricDescriptors", request)
    }

    fn list_pod_sandbox_metrics(
        &self,
        request: ListPodSandboxMetricsRequest,
    ) -> Answer<'_, ListPodSandboxMetricsResponse> {
        lacking("ListPodSandboxMetrics", request)
    }

    fn list_images(&self, request: ListImagesRequest) -> Answer<'_, ListImagesResponse> {
        lacking("ListImages", request)
    }

    fn image_status(&self, request: ImageStatusRequest) -> Answer<'_, ImageStatusResponse> {
        lacking("ImageStatus", request)
    }

    /// Takes as long as it takes: whoever waits watches over it.
    fn pull_image(&self, request: PullImageRequest) -> Answer<'_, PullImageResponse> {
        lacking("PullImage", request)
    }

    /// It is no error if it is not there.
    fn remove_image(&self, request: RemoveImageRequest) -> Answer<'_, RemoveImageResponse> {
        lacking("RemoveImage", request)
    }

    fn image_fs_info(&self, request: ImageFsInfoRequest) -> Answer<'_, ImageFsInfoResponse> {
        lacking("ImageFsInfo", request)
    }
}

/// The answer to a call that a runtime does not have.
fn lacking<'a, Q, A: Send + 'a>(call: &'static str, _request: Q) -> Answer<'a, A> {
    let error = RuntimeError::new(call, Code::Unimplemented, "the runtime has no such call");
    Box::pin(std::future::ready(Err(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::{image_service, runtime_service};

    #[derive(Debug)]
    struct Bare;

    impl Runtime for Bare {}

    #[tokio::test]
    async fn a_call_that_a_runtime_does_not_have_is_refused_by_its_name() {
        let refused = Bare.pull_image(PullImageRequest::default()).await;
        let error = refused.unwrap_err();
        assert!(error.is_unimplemented(), "{error}");
        assert_eq!(error.call, "PullImage");
        let refused = Bare.get_container_events(GetEventsRequest {}).await;
        let error = refused.err().unwrap();
        assert!(error.is_unimplemented(), "{error}");
        assert_eq!(error.call, "GetContainerEvents");
    }

    #[test]
    fn paths_are_those_of_the_interface() {
        assert_eq!(
            runtime_service::UPDATE_RUNTIME_CONFIG,
            "/runtime.v1.RuntimeService/UpdateRuntimeConfig"
        );
        assert_eq!(
            image_service::IMAGE_FS_INFO,
            "/runtime.v1.ImageService/ImageFsInfo"
        );
    }
}
