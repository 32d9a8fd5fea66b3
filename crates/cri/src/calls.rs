//! The client as the seam wants it: which call goes where, on which terms, and
//! what its answer must have.

use seams::cri::{
    AttachRequest, AttachResponse, CheckpointContainerRequest, CheckpointContainerResponse,
    ContainerStatsRequest, ContainerStatsResponse, ContainerStatusRequest, ContainerStatusResponse,
    CreateContainerRequest, CreateContainerResponse, ExecRequest, ExecResponse, ExecSyncRequest,
    ExecSyncResponse, GetEventsRequest, ImageFsInfoRequest, ImageFsInfoResponse,
    ImageStatusRequest, ImageStatusResponse, ListContainerStatsRequest, ListContainerStatsResponse,
    ListContainersRequest, ListContainersResponse, ListImagesRequest, ListImagesResponse,
    ListMetricDescriptorsRequest, ListMetricDescriptorsResponse, ListPodSandboxMetricsRequest,
    ListPodSandboxMetricsResponse, ListPodSandboxRequest, ListPodSandboxResponse,
    ListPodSandboxStatsRequest, ListPodSandboxStatsResponse, PodSandboxStatsRequest,
    PodSandboxStatsResponse, PodSandboxStatusRequest, PodSandboxStatusResponse, PortForwardRequest,
    PortForwardResponse, PullImageRequest, PullImageResponse, RemoveContainerRequest,
    RemoveContainerResponse, RemoveImageRequest, RemoveImageResponse, RemovePodSandboxRequest,
    RemovePodSandboxResponse, ReopenContainerLogRequest, ReopenContainerLogResponse,
    RunPodSandboxRequest, RunPodSandboxResponse, RuntimeConfigRequest, RuntimeConfigResponse,
    StartContainerRequest, StartContainerResponse, StatusRequest, StatusResponse,
    StopContainerRequest, StopContainerResponse, StopPodSandboxRequest, StopPodSandboxResponse,
    UpdateContainerResourcesRequest, UpdateContainerResourcesResponse,
    UpdatePodSandboxResourcesRequest, UpdatePodSandboxResourcesResponse,
    UpdateRuntimeConfigRequest, UpdateRuntimeConfigResponse, VersionRequest, VersionResponse,
    image_service, runtime_service,
};
use seams::runtime::{Answer, Code, ContainerEvents};
use seams::{Runtime, RuntimeError};

use crate::answers;
use crate::client::{Client, name};
use crate::terms::Terms;

impl Runtime for Client {
    fn version(&self, request: VersionRequest) -> Answer<'_, VersionResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::VERSION, terms, request)
    }

    fn status(&self, request: StatusRequest) -> Answer<'_, StatusResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::STATUS, terms, request)
    }

    fn runtime_config(&self, request: RuntimeConfigRequest) -> Answer<'_, RuntimeConfigResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::RUNTIME_CONFIG, terms, request)
    }

    fn update_runtime_config(
        &self,
        request: UpdateRuntimeConfigRequest,
    ) -> Answer<'_, UpdateRuntimeConfigResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::UPDATE_RUNTIME_CONFIG, terms, request)
    }

    fn run_pod_sandbox(&self, request: RunPodSandboxRequest) -> Answer<'_, RunPodSandboxResponse> {
        let path = runtime_service::RUN_POD_SANDBOX;
        let terms = Terms::run_pod_sandbox(self.time());
        let answer = self.runtime_call(path, terms, request);
        checked(path, answer, answers::run_pod_sandbox)
    }

    fn stop_pod_sandbox(
        &self,
        request: StopPodSandboxRequest,
    ) -> Answer<'_, StopPodSandboxResponse> {
        let terms = Terms::stop_pod_sandbox(self.time());
        self.runtime_call(runtime_service::STOP_POD_SANDBOX, terms, request)
    }

    fn remove_pod_sandbox(
        &self,
        request: RemovePodSandboxRequest,
    ) -> Answer<'_, RemovePodSandboxResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::REMOVE_POD_SANDBOX, terms, request)
    }

    fn pod_sandbox_status(
        &self,
        request: PodSandboxStatusRequest,
    ) -> Answer<'_, PodSandboxStatusResponse> {
        let path = runtime_service::POD_SANDBOX_STATUS;
        let terms = Terms::usual(self.time());
        let answer = self.runtime_call(path, terms, request);
        checked(path, answer, answers::pod_sandbox_status)
    }

    fn list_pod_sandbox(
        &self,
        request: ListPodSandboxRequest,
    ) -> Answer<'_, ListPodSandboxResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::LIST_POD_SANDBOX, terms, request)
    }

    fn update_pod_sandbox_resources(
        &self,
        request: UpdatePodSandboxResourcesRequest,
    ) -> Answer<'_, UpdatePodSandboxResourcesResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(
            runtime_service::UPDATE_POD_SANDBOX_RESOURCES,
            terms,
            request,
        )
    }

    fn create_container(
        &self,
        request: CreateContainerRequest,
    ) -> Answer<'_, CreateContainerResponse> {
        let path = runtime_service::CREATE_CONTAINER;
        let terms = Terms::usual(self.time());
        let answer = self.runtime_call(path, terms, request);
        checked(path, answer, answers::create_container)
    }

    fn start_container(
        &self,
        request: StartContainerRequest,
    ) -> Answer<'_, StartContainerResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::START_CONTAINER, terms, request)
    }

    fn stop_container(&self, request: StopContainerRequest) -> Answer<'_, StopContainerResponse> {
        let terms = Terms::stop_container(self.time(), &request);
        self.runtime_call(runtime_service::STOP_CONTAINER, terms, request)
    }

    fn remove_container(
        &self,
        request: RemoveContainerRequest,
    ) -> Answer<'_, RemoveContainerResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::REMOVE_CONTAINER, terms, request)
    }

    fn container_status(
        &self,
        request: ContainerStatusRequest,
    ) -> Answer<'_, ContainerStatusResponse> {
        let path = runtime_service::CONTAINER_STATUS;
        let terms = Terms::usual(self.time());
        let answer = self.runtime_call(path, terms, request);
        checked(path, answer, answers::container_status)
    }

    fn list_containers(
        &self,
        request: ListContainersRequest,
    ) -> Answer<'_, ListContainersResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::LIST_CONTAINERS, terms, request)
    }

    fn update_container_resources(
        &self,
        request: UpdateContainerResourcesRequest,
    ) -> Answer<'_, UpdateContainerResourcesResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::UPDATE_CONTAINER_RESOURCES, terms, request)
    }

    fn reopen_container_log(
        &self,
        request: ReopenContainerLogRequest,
    ) -> Answer<'_, ReopenContainerLogResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::REOPEN_CONTAINER_LOG, terms, request)
    }

    fn checkpoint_container(
        &self,
        mut request: CheckpointContainerRequest,
    ) -> Answer<'_, CheckpointContainerResponse> {
        let path = runtime_service::CHECKPOINT_CONTAINER;
        if request.timeout < 0 {
            let words = format!("a timeout of {} s is none: use 0 or more", request.timeout);
            let error = RuntimeError::new(name(path), Code::InvalidArgument, words);
            return Box::pin(std::future::ready(Err(error)));
        }
        let terms = Terms::checkpoint(self.time(), &request);
        // The runtime may take as long as is waited for it.
        let usual = i64::try_from(self.time().as_secs()).unwrap_or(i64::MAX);
        request.timeout = request.timeout.max(usual);
        self.runtime_call(path, terms, request)
    }

    fn get_container_events(&self, request: GetEventsRequest) -> Answer<'_, ContainerEvents> {
        Box::pin(self.events(request))
    }

    fn exec_sync(&self, request: ExecSyncRequest) -> Answer<'_, ExecSyncResponse> {
        let terms = Terms::exec_sync(self.time(), &request);
        self.runtime_call(runtime_service::EXEC_SYNC, terms, request)
    }

    fn exec(&self, request: ExecRequest) -> Answer<'_, ExecResponse> {
        let path = runtime_service::EXEC;
        let terms = Terms::usual(self.time());
        let answer = self.runtime_call(path, terms, request);
        checked(path, answer, answers::exec)
    }

    fn attach(&self, request: AttachRequest) -> Answer<'_, AttachResponse> {
        let path = runtime_service::ATTACH;
        let terms = Terms::usual(self.time());
        let answer = self.runtime_call(path, terms, request);
        checked(path, answer, answers::attach)
    }

    fn port_forward(&self, request: PortForwardRequest) -> Answer<'_, PortForwardResponse> {
        let path = runtime_service::PORT_FORWARD;
        let terms = Terms::usual(self.time());
        let answer = self.runtime_call(path, terms, request);
        checked(path, answer, answers::port_forward)
    }

    fn container_stats(
        &self,
        request: ContainerStatsRequest,
    ) -> Answer<'_, ContainerStatsResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::CONTAINER_STATS, terms, request)
    }

    fn list_container_stats(
        &self,
        request: ListContainerStatsRequest,
    ) -> Answer<'_, ListContainerStatsResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::LIST_CONTAINER_STATS, terms, request)
    }

    fn pod_sandbox_stats(
        &self,
        request: PodSandboxStatsRequest,
    ) -> Answer<'_, PodSandboxStatsResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::POD_SANDBOX_STATS, terms, request)
    }

    fn list_pod_sandbox_stats(
        &self,
        request: ListPodSandboxStatsRequest,
    ) -> Answer<'_, ListPodSandboxStatsResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::LIST_POD_SANDBOX_STATS, terms, request)
    }

    fn list_metric_descriptors(
        &self,
        request: ListMetricDescriptorsRequest,
    ) -> Answer<'_, ListMetricDescriptorsResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::LIST_METRIC_DESCRIPTORS, terms, request)
    }

    fn list_pod_sandbox_metrics(
        &self,
        request: ListPodSandboxMetricsRequest,
    ) -> Answer<'_, ListPodSandboxMetricsResponse> {
        let terms = Terms::usual(self.time());
        self.runtime_call(runtime_service::LIST_POD_SANDBOX_METRICS, terms, request)
    }

    fn list_images(&self, request: ListImagesRequest) -> Answer<'_, ListImagesResponse> {
        let terms = Terms::usual(self.time());
        self.image_call(image_service::LIST_IMAGES, terms, request)
    }

    fn image_status(&self, request: ImageStatusRequest) -> Answer<'_, ImageStatusResponse> {
        let path = image_service::IMAGE_STATUS;
        let terms = Terms::usual(self.time());
        let answer = self.image_call(path, terms, request);
        checked(path, answer, answers::image_status)
    }

    fn pull_image(&self, request: PullImageRequest) -> Answer<'_, PullImageResponse> {
        let path = image_service::PULL_IMAGE;
        let terms = Terms::endless();
        let answer = self.image_call(path, terms, request);
        checked(path, answer, answers::pull_image)
    }

    fn remove_image(&self, request: RemoveImageRequest) -> Answer<'_, RemoveImageResponse> {
        let terms = Terms::usual(self.time());
        self.image_call(image_service::REMOVE_IMAGE, terms, request)
    }

    fn image_fs_info(&self, request: ImageFsInfoRequest) -> Answer<'_, ImageFsInfoResponse> {
        let terms = Terms::usual(self.time());
        self.image_call(image_service::IMAGE_FS_INFO, terms, request)
    }
}

/// The answer, unless `fault` finds one in it.
fn checked<'a, A: Send + 'a>(
    path: &'static str,
    answer: Answer<'a, A>,
    fault: fn(&A) -> Option<String>,
) -> Answer<'a, A> {
    Box::pin(async move {
        let answer = answer.await?;
        match fault(&answer) {
            None => Ok(answer),
            Some(fault) => Err(RuntimeError::new(
                name(path),
                Code::Internal,
                format!("the runtime answered {fault}; it does not keep to CRI v1: upgrade it"),
            )),
        }
    })
}
