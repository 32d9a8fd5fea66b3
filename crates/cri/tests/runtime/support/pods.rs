//! What it answers of pods, containers, their events, and pulled images.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{self, Stream, StreamExt as _};
use http::{Request, Response};
use hyper::body::Incoming;
use seams::cri::{
    AttachRequest, AttachResponse, CheckpointContainerRequest, CheckpointContainerResponse,
    ContainerEventResponse, ContainerEventType, ContainerStatus, ContainerStatusRequest,
    ContainerStatusResponse, CreateContainerRequest, CreateContainerResponse, ExecRequest,
    ExecResponse, ExecSyncRequest, ExecSyncResponse, GetEventsRequest, PodSandboxStatus,
    PodSandboxStatusRequest, PodSandboxStatusResponse, PortForwardRequest, PortForwardResponse,
    PullImageRequest, PullImageResponse, RunPodSandboxRequest, RunPodSandboxResponse,
    StopContainerRequest, StopContainerResponse, image_service, runtime_service,
};
use tonic::Status;
use tonic::body::Body;
use tonic::server::{Grpc, ServerStreamingService};
use tonic_prost::ProstCodec;

use super::{Manner, Seen, unary};

pub(super) async fn route(
    manner: Manner,
    seen: Arc<Seen>,
    path: &str,
    request: Request<Incoming>,
) -> Response<Body> {
    if matches!(manner, Manner::Forgets) {
        return forgetful(path, request).await;
    }
    match path {
        runtime_service::RUN_POD_SANDBOX => unary(request, run_pod_sandbox).await,
        runtime_service::CREATE_CONTAINER => unary(request, create_container).await,
        runtime_service::STOP_CONTAINER => {
            unary(request, |_: StopContainerRequest| StopContainerResponse {}).await
        }
        runtime_service::EXEC_SYNC => unary(request, exec_sync).await,
        runtime_service::CHECKPOINT_CONTAINER => {
            unary(request, |asked: CheckpointContainerRequest| {
                *seen.checkpoint_timeout.lock().unwrap() = asked.timeout;
                CheckpointContainerResponse {}
            })
            .await
        }
        runtime_service::GET_CONTAINER_EVENTS => events(&manner, request).await,
        image_service::PULL_IMAGE => unary(request, pull_image).await,
        _ => Status::unimplemented("no such call").into_http(),
    }
}

async fn forgetful(path: &str, request: Request<Incoming>) -> Response<Body> {
    match path {
        runtime_service::RUN_POD_SANDBOX => {
            let answer = |_: RunPodSandboxRequest| RunPodSandboxResponse::default();
            unary(request, answer).await
        }
        runtime_service::CREATE_CONTAINER => {
            let answer = |_: CreateContainerRequest| CreateContainerResponse::default();
            unary(request, answer).await
        }
        runtime_service::POD_SANDBOX_STATUS => {
            let answer = |_: PodSandboxStatusRequest| PodSandboxStatusResponse {
                status: Some(PodSandboxStatus::default()),
                ..PodSandboxStatusResponse::default()
            };
            unary(request, answer).await
        }
        runtime_service::CONTAINER_STATUS => {
            let answer = |_: ContainerStatusRequest| ContainerStatusResponse {
                status: Some(ContainerStatus::default()),
                ..ContainerStatusResponse::default()
            };
            unary(request, answer).await
        }
        runtime_service::EXEC => {
            let answer = |_: ExecRequest| ExecResponse::default();
            unary(request, answer).await
        }
        runtime_service::ATTACH => {
            let answer = |_: AttachRequest| AttachResponse::default();
            unary(request, answer).await
        }
        runtime_service::PORT_FORWARD => {
            let answer = |_: PortForwardRequest| PortForwardResponse::default();
            unary(request, answer).await
        }
        image_service::PULL_IMAGE => {
            let answer = |_: PullImageRequest| PullImageResponse::default();
            unary(request, answer).await
        }
        _ => Status::unimplemented("no such call").into_http(),
    }
}

fn run_pod_sandbox(asked: RunPodSandboxRequest) -> RunPodSandboxResponse {
    let metadata = asked.config.unwrap().metadata.unwrap();
    RunPodSandboxResponse {
        pod_sandbox_id: format!("{} by {}", metadata.uid, asked.runtime_handler),
    }
}

fn create_container(asked: CreateContainerRequest) -> CreateContainerResponse {
    let metadata = asked.config.unwrap().metadata.unwrap();
    CreateContainerResponse {
        container_id: format!("{} in {}", metadata.name, asked.pod_sandbox_id),
    }
}

fn exec_sync(asked: ExecSyncRequest) -> ExecSyncResponse {
    ExecSyncResponse {
        stdout: asked.cmd.join(" ").into_bytes(),
        stderr: asked.container_id.into_bytes(),
        exit_code: 3,
    }
}

fn pull_image(asked: PullImageRequest) -> PullImageResponse {
    PullImageResponse {
        image_ref: format!("{}@sha256:0", asked.image.unwrap().image),
    }
}

type Events = Pin<Box<dyn Stream<Item = Result<ContainerEventResponse, Status>> + Send>>;

async fn events(manner: &Manner, request: Request<Incoming>) -> Response<Body> {
    struct Call(Option<Events>);
    impl ServerStreamingService<GetEventsRequest> for Call {
        type Response = ContainerEventResponse;
        type ResponseStream = Events;
        type Future = std::future::Ready<Result<tonic::Response<Events>, Status>>;
        fn call(&mut self, _: tonic::Request<GetEventsRequest>) -> Self::Future {
            let events = self.0.take().expect("a call is made once");
            std::future::ready(Ok(tonic::Response::new(events)))
        }
    }
    let told = ["first", "second"].map(|container| {
        Ok(ContainerEventResponse {
            container_id: container.to_owned(),
            container_event_type: ContainerEventType::ContainerStartedEvent.into(),
            ..ContainerEventResponse::default()
        })
    });
    let told = stream::iter(told);
    let events: Events = match manner {
        Manner::Tells { ends: true } => Box::pin(told),
        _ => Box::pin(told.chain(stream::pending())),
    };
    let mut grpc = Grpc::new(ProstCodec::default());
    grpc.server_streaming(Call(Some(events)), request).await
}
