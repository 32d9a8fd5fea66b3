//! A runtime whose calls are counted and timed, for all who ask it.

use std::sync::Arc;

use types::figures;
use types::figures::{Board, Family, SECONDS};

use super::{Answer, ContainerEvents, Runtime, SharedRuntime};
use crate::SharedClock;
use crate::cri::{
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
};

/// From 5 ms on, each two and a half times the one before.
const CALLS: &[f64] = &[
    0.005,
    0.0125,
    0.031_25,
    0.078_125,
    0.195_312_5,
    0.488_281_25,
    1.220_703_125,
    3.051_757_812_5,
    7.629_394_531_25,
    19.073_486_328_125,
    47.683_715_820_312_5,
    119.209_289_550_781_25,
    298.023_223_876_953_1,
    745.058_059_692_382_8,
];

figures! {
    /// What is counted of a runtime.
    struct Metrics {
        calls: Vector = Family::counter(
            "kubelet_runtime_operations_total",
            "[ALPHA] Calls of the container runtime, by call",
        )
        .by(&["operation_type"]),
        durations: Vector = Family::histogram(
            "kubelet_runtime_operations_duration_seconds",
            "[ALPHA] Seconds that calls of the container runtime took, by call",
            CALLS,
        )
        .by(&["operation_type"]),
        failures: Vector = Family::counter(
            "kubelet_runtime_operations_errors_total",
            "[ALPHA] Calls of the container runtime that failed, by call",
        )
        .by(&["operation_type"]),
        sandboxes: Vector = Family::histogram(
            "kubelet_run_podsandbox_duration_seconds",
            "[ALPHA] Seconds that sandboxes took to start, by the handler of their runtime class",
            SECONDS,
        )
        .by(&["runtime_handler"]),
        sandbox_failures: Vector = Family::counter(
            "kubelet_run_podsandbox_errors_total",
            "[ALPHA] Sandboxes that did not start, by the handler of their runtime class",
        )
        .by(&["runtime_handler"]),
    }
}

/// A runtime, with figures. A call that nobody waits for any more is not in them.
#[derive(Clone, Debug)]
pub struct Counted {
    runtime: SharedRuntime,
    clock: SharedClock,
    metrics: Arc<Metrics>,
}

impl Counted {
    pub fn new(runtime: SharedRuntime, clock: SharedClock, figures: &Board) -> Self {
        let metrics = Arc::<Metrics>::default();
        figures.hang(metrics.clone());
        Self {
            runtime,
            clock,
            metrics,
        }
    }

    fn count<'a, T: 'a>(&'a self, call: &'static str, answer: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let began = self.clock.uptime();
            let answer = answer.await;
            let took = self.clock.uptime().saturating_sub(began);
            self.metrics.calls.inc(&[call]);
            self.metrics.durations.took(&[call], took);
            if answer.is_err() {
                self.metrics.failures.inc(&[call]);
            }
            answer
        })
    }
}

/// Passes calls on, and counts them under upstream's names.
macro_rules! counted {
    ($($call:ident($request:ty) -> $answer:ty = $name:literal,)*) => {
        $(fn $call(&self, request: $request) -> Answer<'_, $answer> {
            self.count($name, self.runtime.$call(request))
        })*
    };
}

impl Runtime for Counted {
    fn run_pod_sandbox(&self, request: RunPodSandboxRequest) -> Answer<'_, RunPodSandboxResponse> {
        Box::pin(async move {
            let handler = request.runtime_handler.clone();
            let began = self.clock.uptime();
            let calling = self.runtime.run_pod_sandbox(request);
            let answer = self.count("run_podsandbox", calling).await;
            let took = self.clock.uptime().saturating_sub(began);
            self.metrics.sandboxes.took(&[&handler], took);
            if answer.is_err() {
                self.metrics.sandbox_failures.inc(&[&handler]);
            }
            answer
        })
    }

    counted! {
        version(VersionRequest) -> VersionResponse = "version",
        status(StatusRequest) -> StatusResponse = "status",
        runtime_config(RuntimeConfigRequest) -> RuntimeConfigResponse = "runtime_config",
        update_runtime_config(UpdateRuntimeConfigRequest) -> UpdateRuntimeConfigResponse = "update_runtime_config",
        stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse = "stop_podsandbox",
        remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse = "remove_podsandbox",
        pod_sandbox_status(PodSandboxStatusRequest) -> PodSandboxStatusResponse = "podsandbox_status",
        list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse = "list_podsandbox",
        update_pod_sandbox_resources(UpdatePodSandboxResourcesRequest) -> UpdatePodSandboxResourcesResponse = "update_podsandbox_resources",
        create_container(CreateContainerRequest) -> CreateContainerResponse = "create_container",
        start_container(StartContainerRequest) -> StartContainerResponse = "start_container",
        stop_container(StopContainerRequest) -> StopContainerResponse = "stop_container",
        remove_container(RemoveContainerRequest) -> RemoveContainerResponse = "remove_container",
        container_status(ContainerStatusRequest) -> ContainerStatusResponse = "container_status",
        list_containers(ListContainersRequest) -> ListContainersResponse = "list_containers",
        update_container_resources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse = "update_container",
        reopen_container_log(ReopenContainerLogRequest) -> ReopenContainerLogResponse = "reopen_container_log",
        checkpoint_container(CheckpointContainerRequest) -> CheckpointContainerResponse = "checkpoint_container",
        get_container_events(GetEventsRequest) -> ContainerEvents = "get_container_events",
        exec_sync(ExecSyncRequest) -> ExecSyncResponse = "exec_sync",
        exec(ExecRequest) -> ExecResponse = "exec",
        attach(AttachRequest) -> AttachResponse = "attach",
        port_forward(PortForwardRequest) -> PortForwardResponse = "port_forward",
        container_stats(ContainerStatsRequest) -> ContainerStatsResponse = "container_stats",
        list_container_stats(ListContainerStatsRequest) -> ListContainerStatsResponse = "list_container_stats",
        pod_sandbox_stats(PodSandboxStatsRequest) -> PodSandboxStatsResponse = "podsandbox_stats",
        list_pod_sandbox_stats(ListPodSandboxStatsRequest) -> ListPodSandboxStatsResponse = "list_podsandbox_stats",
        list_metric_descriptors(ListMetricDescriptorsRequest) -> ListMetricDescriptorsResponse = "list_metric_descriptors",
        list_pod_sandbox_metrics(ListPodSandboxMetricsRequest) -> ListPodSandboxMetricsResponse = "list_podsandbox_metrics",
        list_images(ListImagesRequest) -> ListImagesResponse = "list_images",
        image_status(ImageStatusRequest) -> ImageStatusResponse = "image_status",
        pull_image(PullImageRequest) -> PullImageResponse = "pull_image",
        remove_image(RemoveImageRequest) -> RemoveImageResponse = "remove_image",
        image_fs_info(ImageFsInfoRequest) -> ImageFsInfoResponse = "image_fs_info",
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::{RuntimeError, Sleep, runtime::Code};

    #[derive(Debug)]
    struct Moment;

    impl crate::Clock for Moment {
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }
        fn uptime(&self) -> Duration {
            Duration::ZERO
        }
        fn sleep(&self, _: Duration) -> Sleep {
            Box::pin(std::future::ready(()))
        }
        fn random(&self) -> f64 {
            0.0
        }
    }

    /// Knows its version, and no sandbox.
    #[derive(Debug)]
    struct Small;

    impl Runtime for Small {
        fn version(&self, _: VersionRequest) -> Answer<'_, VersionResponse> {
            Box::pin(std::future::ready(Ok(VersionResponse::default())))
        }
        fn run_pod_sandbox(&self, _: RunPodSandboxRequest) -> Answer<'_, RunPodSandboxResponse> {
            let error = RuntimeError::new("RunPodSandbox", Code::Unknown, "no");
            Box::pin(std::future::ready(Err(error)))
        }
    }

    #[tokio::test]
    async fn calls_are_counted_by_upstreams_names_and_failures_twice() {
        let figures = Board::default();
        let counted = Counted::new(Arc::new(Small), Arc::new(Moment), &figures);
        counted.version(VersionRequest::default()).await.unwrap();
        let sandbox = RunPodSandboxRequest {
            runtime_handler: "kata".to_owned(),
            ..RunPodSandboxRequest::default()
        };
        counted.run_pod_sandbox(sandbox).await.unwrap_err();
        let text = figures.page().finish();
        for line in [
            "kubelet_runtime_operations_total{operation_type=\"version\"} 1",
            "kubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 1",
            "kubelet_runtime_operations_errors_total{operation_type=\"run_podsandbox\"} 1",
            "kubelet_runtime_operations_duration_seconds_count{operation_type=\"version\"} 1",
            "kubelet_runtime_operations_duration_seconds_bucket{operation_type=\"version\",le=\"745.0580596923828\"} 1",
            "kubelet_run_podsandbox_duration_seconds_count{runtime_handler=\"kata\"} 1",
            "kubelet_run_podsandbox_errors_total{runtime_handler=\"kata\"} 1",
        ] {
            assert!(
                text.lines().any(|one| one == line),
                "{line} is not in\n{text}"
            );
        }
        assert!(!text.contains("errors_total{operation_type=\"version\"}"));
    }
}
