//! The calls: each goes to its service's socket, under a time limit, and not too
//! many at once.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use seams::cri::{
    ImageFsInfoRequest, ImageFsInfoResponse, ImageStatusRequest, ImageStatusResponse,
    ListImagesRequest, ListImagesResponse, RuntimeConfigRequest, RuntimeConfigResponse,
    StatusRequest, StatusResponse, UpdateRuntimeConfigRequest, UpdateRuntimeConfigResponse,
    VersionRequest, VersionResponse, image_service, runtime_service,
};
use seams::runtime::{Answer, Code};
use seams::{Elapsed, Runtime, RuntimeError, SharedClock};
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;

use crate::channel::{Channel, Requests, Tasks};
use crate::endpoint::{Endpoint, EndpointError};

/// An answer that is longer is refused, as upstream does it: it would be kept
/// in memory as a whole.
const LONGEST_ANSWER: usize = 16 * 1024 * 1024;

/// How a node reaches its runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `containerRuntimeEndpoint`.
    pub runtime_endpoint: String,
    /// `imageServiceEndpoint`; empty: the runtime's.
    pub image_endpoint: String,
    /// `runtimeRequestTimeout`: how long a call may take, its wait for a place
    /// included.
    pub request_timeout: Duration,
    /// How many calls may be under way at once; the others wait.
    pub calls_at_once: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            runtime_endpoint: "unix:///run/containerd/containerd.sock".to_owned(),
            image_endpoint: String::new(),
            request_timeout: Duration::from_secs(120),
            // What one HTTP/2 connection carries by custom, less some air.
            calls_at_once: 64,
        }
    }
}

/// A runtime at the other end of a socket. It connects when it is first asked,
/// and again when the runtime has been away.
#[derive(Debug)]
pub struct Client {
    runtime: Arc<Channel>,
    images: Arc<Channel>,
    places: Semaphore,
    request_timeout: Duration,
    clock: SharedClock,
    tasks: Tasks,
}

impl Client {
    /// Dials nothing yet.
    pub fn new(config: &Config, clock: SharedClock) -> Result<Self, EndpointError> {
        let tasks = Tasks::default();
        let runtime_endpoint = read(&config.runtime_endpoint)?;
        let runtime = Arc::new(Channel::new(runtime_endpoint.clone(), tasks.clone()));
        let images = if config.image_endpoint.is_empty() {
            Arc::clone(&runtime)
        } else {
            match read(&config.image_endpoint)? {
                endpoint if endpoint.path() == runtime_endpoint.path() => Arc::clone(&runtime),
                endpoint => Arc::new(Channel::new(endpoint, tasks.clone())),
            }
        };
        Ok(Self {
            runtime,
            images,
            places: Semaphore::new(config.calls_at_once.max(1)),
            request_timeout: config.request_timeout,
            clock,
            tasks,
        })
    }

    /// Ends the connections, and with them the calls under way; answers when
    /// nothing of them runs any more.
    pub async fn close(&self) {
        self.tasks.end().await;
    }

    fn runtime_call<Q, A>(&self, path: &'static str, request: Q) -> Answer<'_, A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        Box::pin(self.call(&self.runtime, path, request))
    }

    fn image_call<Q, A>(&self, path: &'static str, request: Q) -> Answer<'_, A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        Box::pin(self.call(&self.images, path, request))
    }

    async fn call<Q, A>(
        &self,
        channel: &Arc<Channel>,
        path: &'static str,
        request: Q,
    ) -> Result<A, RuntimeError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let limit = self.request_timeout;
        let work = async {
            // Nobody closes it, so there is always a place in the end.
            let _place = self.places.acquire().await;
            ask(channel, path, request, limit).await
        };
        let (code, message) = match seams::timeout(&*self.clock, limit, work).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(status)) => (Code::from_number(status.code().into()), words(&status)),
            Err(Elapsed) => (
                Code::DeadlineExceeded,
                format!(
                    "no answer within {} s from the container runtime at {}; look at its log and \
                     load",
                    limit.as_secs_f64(),
                    channel.endpoint()
                ),
            ),
        };
        Err(RuntimeError::new(name(path), code, message))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.tasks.cut();
    }
}

impl Runtime for Client {
    fn version(&self, request: VersionRequest) -> Answer<'_, VersionResponse> {
        self.runtime_call(runtime_service::VERSION, request)
    }

    fn status(&self, request: StatusRequest) -> Answer<'_, StatusResponse> {
        self.runtime_call(runtime_service::STATUS, request)
    }

    fn runtime_config(&self, request: RuntimeConfigRequest) -> Answer<'_, RuntimeConfigResponse> {
        self.runtime_call(runtime_service::RUNTIME_CONFIG, request)
    }

    fn update_runtime_config(
        &self,
        request: UpdateRuntimeConfigRequest,
    ) -> Answer<'_, UpdateRuntimeConfigResponse> {
        self.runtime_call(runtime_service::UPDATE_RUNTIME_CONFIG, request)
    }

    fn list_images(&self, request: ListImagesRequest) -> Answer<'_, ListImagesResponse> {
        self.image_call(image_service::LIST_IMAGES, request)
    }

    fn image_status(&self, request: ImageStatusRequest) -> Answer<'_, ImageStatusResponse> {
        Box::pin(async move {
            let path = image_service::IMAGE_STATUS;
            let answer: ImageStatusResponse = self.image_call(path, request).await?;
            match &answer.image {
                Some(image) if image.id.is_empty() || image.size == 0 => Err(RuntimeError::new(
                    name(path),
                    Code::Internal,
                    format!(
                        "the runtime answered an image without id or size: {:?}",
                        image.id
                    ),
                )),
                _ => Ok(answer),
            }
        })
    }

    fn image_fs_info(&self, request: ImageFsInfoRequest) -> Answer<'_, ImageFsInfoResponse> {
        self.image_call(image_service::IMAGE_FS_INFO, request)
    }
}

fn read(text: &str) -> Result<Endpoint, EndpointError> {
    let endpoint = Endpoint::parse(text)?;
    if let Some(notice) = endpoint.notice() {
        tracing::warn!(endpoint = text, "{notice}");
    }
    Ok(endpoint)
}

/// One request and its answer, over tonic.
async fn ask<Q, A>(
    channel: &Arc<Channel>,
    path: &'static str,
    message: Q,
    limit: Duration,
) -> Result<A, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let requests = Requests(Arc::clone(channel));
    let mut grpc = Grpc::with_origin(requests, Uri::from_static("http://localhost"))
        .max_decoding_message_size(LONGEST_ANSWER);
    let mut request = tonic::Request::new(message);
    // So that the runtime gives up too, should it not see that we did.
    request.set_timeout(limit);
    let path = PathAndQuery::from_static(path);
    let answer = grpc.unary(request, path, ProstCodec::default()).await?;
    Ok(answer.into_inner())
}

fn words(status: &Status) -> String {
    if status.message().is_empty() {
        "the runtime gave no reason".to_owned()
    } else {
        status.message().to_owned()
    }
}

/// The last part of a path.
fn name(path: &'static str) -> &'static str {
    path.rsplit('/').next().unwrap_or(path)
}
