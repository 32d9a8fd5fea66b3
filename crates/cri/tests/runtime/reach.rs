//! That each call of the seam reaches its own path, with its own message, and
//! that an answer without what it must have is refused.

use cri::Client;
use seams::Runtime;
use seams::cri::{
    AttachRequest, CheckpointContainerRequest, ContainerConfig, ContainerMetadata,
    ContainerStatsRequest, ContainerStatusRequest, CreateContainerRequest, ExecRequest,
    ExecSyncRequest, ImageFsInfoRequest, ImageSpec, ImageStatusRequest, ListContainerStatsRequest,
    ListContainersRequest, ListImagesRequest, ListMetricDescriptorsRequest,
    ListPodSandboxMetricsRequest, ListPodSandboxRequest, ListPodSandboxStatsRequest,
    PodSandboxConfig, PodSandboxMetadata, PodSandboxStatsRequest, PodSandboxStatusRequest,
    PortForwardRequest, PullImageRequest, RemoveContainerRequest, RemoveImageRequest,
    RemovePodSandboxRequest, ReopenContainerLogRequest, RunPodSandboxRequest, RuntimeConfigRequest,
    StartContainerRequest, StatusRequest, StopContainerRequest, StopPodSandboxRequest,
    UpdateContainerResourcesRequest, UpdatePodSandboxResourcesRequest, UpdateRuntimeConfigRequest,
    VersionRequest, image_service, runtime_service,
};
use seams::runtime::{Answer, Code};

use crate::support::{Manner, Place, Server, bare};

/// Every call but the stream of events, and its path.
fn every_call(client: &Client) -> Vec<(&'static str, Answer<'_, ()>)> {
    vec![
        (
            runtime_service::VERSION,
            bare(client.version(VersionRequest::default())),
        ),
        (
            runtime_service::STATUS,
            bare(client.status(StatusRequest::default())),
        ),
        (
            runtime_service::RUNTIME_CONFIG,
            bare(client.runtime_config(RuntimeConfigRequest::default())),
        ),
        (
            runtime_service::UPDATE_RUNTIME_CONFIG,
            bare(client.update_runtime_config(UpdateRuntimeConfigRequest::default())),
        ),
        (
            runtime_service::RUN_POD_SANDBOX,
            bare(client.run_pod_sandbox(RunPodSandboxRequest::default())),
        ),
        (
            runtime_service::STOP_POD_SANDBOX,
            bare(client.stop_pod_sandbox(StopPodSandboxRequest::default())),
        ),
        (
            runtime_service::REMOVE_POD_SANDBOX,
            bare(client.remove_pod_sandbox(RemovePodSandboxRequest::default())),
        ),
        (
            runtime_service::POD_SANDBOX_STATUS,
            bare(client.pod_sandbox_status(PodSandboxStatusRequest::default())),
        ),
        (
            runtime_service::LIST_POD_SANDBOX,
            bare(client.list_pod_sandbox(ListPodSandboxRequest::default())),
        ),
        (
            runtime_service::UPDATE_POD_SANDBOX_RESOURCES,
            bare(client.update_pod_sandbox_resources(UpdatePodSandboxResourcesRequest::default())),
        ),
        (
            runtime_service::CREATE_CONTAINER,
            bare(client.create_container(CreateContainerRequest::default())),
        ),
        (
            runtime_service::START_CONTAINER,
            bare(client.start_container(StartContainerRequest::default())),
        ),
        (
            runtime_service::STOP_CONTAINER,
            bare(client.stop_container(StopContainerRequest::default())),
        ),
        (
            runtime_service::REMOVE_CONTAINER,
            bare(client.remove_container(RemoveContainerRequest::default())),
        ),
        (
            runtime_service::CONTAINER_STATUS,
            bare(client.container_status(ContainerStatusRequest::default())),
        ),
        (
            runtime_service::LIST_CONTAINERS,
            bare(client.list_containers(ListContainersRequest::default())),
        ),
        (
            runtime_service::UPDATE_CONTAINER_RESOURCES,
            bare(client.update_container_resources(UpdateContainerResourcesRequest::default())),
        ),
        (
            runtime_service::REOPEN_CONTAINER_LOG,
            bare(client.reopen_container_log(ReopenContainerLogRequest::default())),
        ),
        (
            runtime_service::CHECKPOINT_CONTAINER,
            bare(client.checkpoint_container(CheckpointContainerRequest::default())),
        ),
        (
            runtime_service::EXEC_SYNC,
            bare(client.exec_sync(ExecSyncRequest::default())),
        ),
        (
            runtime_service::EXEC,
            bare(client.exec(ExecRequest::default())),
        ),
        (
            runtime_service::ATTACH,
            bare(client.attach(AttachRequest::default())),
        ),
        (
            runtime_service::PORT_FORWARD,
            bare(client.port_forward(PortForwardRequest::default())),
        ),
        (
            runtime_service::CONTAINER_STATS,
            bare(client.container_stats(ContainerStatsRequest::default())),
        ),
        (
            runtime_service::LIST_CONTAINER_STATS,
            bare(client.list_container_stats(ListContainerStatsRequest::default())),
        ),
        (
            runtime_service::POD_SANDBOX_STATS,
            bare(client.pod_sandbox_stats(PodSandboxStatsRequest::default())),
        ),
        (
            runtime_service::LIST_POD_SANDBOX_STATS,
            bare(client.list_pod_sandbox_stats(ListPodSandboxStatsRequest::default())),
        ),
        (
            runtime_service::LIST_METRIC_DESCRIPTORS,
            bare(client.list_metric_descriptors(ListMetricDescriptorsRequest::default())),
        ),
        (
            runtime_service::LIST_POD_SANDBOX_METRICS,
            bare(client.list_pod_sandbox_metrics(ListPodSandboxMetricsRequest::default())),
        ),
        (
            image_service::LIST_IMAGES,
            bare(client.list_images(ListImagesRequest::default())),
        ),
        (
            image_service::IMAGE_STATUS,
            bare(client.image_status(ImageStatusRequest::default())),
        ),
        (
            image_service::PULL_IMAGE,
            bare(client.pull_image(PullImageRequest::default())),
        ),
        (
            image_service::REMOVE_IMAGE,
            bare(client.remove_image(RemoveImageRequest::default())),
        ),
        (
            image_service::IMAGE_FS_INFO,
            bare(client.image_fs_info(ImageFsInfoRequest::default())),
        ),
    ]
}

#[tokio::test]
async fn every_call_reaches_its_own_path_and_is_named_in_its_error() {
    let place = Place::new();
    let manner = Manner::Refuses(tonic::Code::Aborted, "not today");
    let server = Server::start(&place.socket("runtime"), manner);
    let client = place.client();
    let mut paths = Vec::new();
    for (path, answer) in every_call(&client) {
        let error = answer.await.unwrap_err();
        assert_eq!(error.code, Code::Aborted, "{path}: {error}");
        assert_eq!(Some(error.call), path.rsplit('/').next());
        paths.push(path);
    }
    assert_eq!(paths, server.seen.paths());
    assert_eq!(paths.len(), 34, "all but events and lists in parts");
}

#[tokio::test]
async fn pods_containers_and_images_are_asked_for_in_the_words_of_the_caller() {
    let place = Place::new();
    let server = Server::start(&place.socket("runtime"), Manner::Answers);
    let client = place.client();

    let run = RunPodSandboxRequest {
        config: Some(PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                uid: "uid-1".to_owned(),
                ..PodSandboxMetadata::default()
            }),
            ..PodSandboxConfig::default()
        }),
        runtime_handler: "runc".to_owned(),
    };
    let sandbox = client.run_pod_sandbox(run).await.unwrap();
    assert_eq!(sandbox.pod_sandbox_id, "uid-1 by runc");

    let create = CreateContainerRequest {
        pod_sandbox_id: "pod".to_owned(),
        config: Some(ContainerConfig {
            metadata: Some(ContainerMetadata {
                name: "web".to_owned(),
                attempt: 0,
            }),
            ..ContainerConfig::default()
        }),
        sandbox_config: None,
    };
    let container = client.create_container(create).await.unwrap();
    assert_eq!(container.container_id, "web in pod");

    let exec = ExecSyncRequest {
        container_id: "web".to_owned(),
        cmd: vec!["cat".to_owned(), "/ready".to_owned()],
        timeout: 1,
    };
    let output = client.exec_sync(exec).await.unwrap();
    assert_eq!(output.stdout, b"cat /ready");
    assert_eq!(output.stderr, b"web");
    assert_eq!(
        output.exit_code, 3,
        "a command that fails is no failed call"
    );

    let pull = PullImageRequest {
        image: Some(ImageSpec {
            image: "busybox".to_owned(),
            ..ImageSpec::default()
        }),
        ..PullImageRequest::default()
    };
    let pulled = client.pull_image(pull).await.unwrap();
    assert_eq!(pulled.image_ref, "busybox@sha256:0");

    // A grace without end is one that the protocol cannot carry.
    let stop = StopContainerRequest {
        container_id: "web".to_owned(),
        timeout: i64::MAX,
    };
    client.stop_container(stop).await.unwrap();
    assert_eq!(server.seen.connections(), 1);
}

#[tokio::test]
async fn a_checkpoint_may_take_as_long_as_other_calls_at_least() {
    let place = Place::new();
    let server = Server::start(&place.socket("runtime"), Manner::Answers);
    let client = place.client();
    for (asked, sent) in [(0, 120), (119, 120), (121, 121)] {
        let request = CheckpointContainerRequest {
            timeout: asked,
            ..CheckpointContainerRequest::default()
        };
        client.checkpoint_container(request).await.unwrap();
        assert_eq!(*server.seen.checkpoint_timeout.lock().unwrap(), sent);
    }
    let request = CheckpointContainerRequest {
        timeout: -1,
        ..CheckpointContainerRequest::default()
    };
    let error = client.checkpoint_container(request).await.unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
}

#[tokio::test]
async fn an_answer_without_what_it_must_have_is_an_error() {
    let place = Place::new();
    let _server = Server::start(&place.socket("runtime"), Manner::Forgets);
    let client = place.client();
    for (answer, words) in [
        (
            bare(client.run_pod_sandbox(RunPodSandboxRequest::default())),
            "a pod sandbox without id",
        ),
        (
            bare(client.create_container(CreateContainerRequest::default())),
            "a container without id",
        ),
        (
            bare(client.pod_sandbox_status(PodSandboxStatusRequest::default())),
            "pod sandbox \"\" without id",
        ),
        (
            bare(client.container_status(ContainerStatusRequest::default())),
            "container \"\" without id",
        ),
        (
            bare(client.exec(ExecRequest::default())),
            "no URL for the streams of exec",
        ),
        (
            bare(client.attach(AttachRequest::default())),
            "no URL for the streams of attach",
        ),
        (
            bare(client.port_forward(PortForwardRequest::default())),
            "no URL for the streams of port-forward",
        ),
        (
            bare(client.pull_image(PullImageRequest::default())),
            "a pulled image without reference",
        ),
    ] {
        let error = answer.await.unwrap_err();
        assert_eq!(error.code, Code::Internal, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}
