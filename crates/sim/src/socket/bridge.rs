//! From a path of the interface to a call of the seam, and back.

use std::pin::Pin;

use futures_util::{Stream, StreamExt as _};
use http::{Request, Response};
use hyper::body::Incoming;
use prost::Message;
use seams::cri::{
    ContainerEventResponse, GetEventsRequest, image_service as image, runtime_service as runtime,
};
use seams::runtime::Answer;
use seams::{Runtime, RuntimeError, SharedRuntime};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic_prost::ProstCodec;

use crate::record::{Entry, Recorder};

/// The largest request that is taken: a pod's is a few hundred KiB at most.
pub(super) const LARGEST_REQUEST: usize = 16 * 1024 * 1024;

/// A call of the seam.
type Call<Q, A> = for<'r> fn(&'r (dyn Runtime + 'static), Q) -> Answer<'r, A>;

/// A runtime, and who writes down what it is asked.
pub(super) struct Bridge {
    pub(super) runtime: SharedRuntime,
    pub(super) recorder: Option<Recorder>,
    /// Ends the streams, which have no end of their own.
    pub(super) shutdown: CancellationToken,
}

impl Bridge {
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let asked = Asked {
            bridge: self,
            path: &path,
            request,
        };
        match path.strip_prefix("/runtime.v1.ImageService/") {
            Some(_) => asked.of_images().await,
            None => asked.of_the_runtime().await,
        }
    }

    /// Makes the call, and has it written down; `keep` sees the answer before.
    async fn call<Q: Message, A>(
        &self,
        path: &str,
        request: Q,
        call: Call<Q, A>,
        keep: impl FnOnce(&mut Entry, &A),
    ) -> Result<A, Status> {
        let entry = match &self.recorder {
            Some(recorder) => recorder.begin(path, Some(&request)).await,
            None => None,
        };
        let answer = call(&*self.runtime, request).await;
        if let Some(mut entry) = entry {
            if let Ok(answer) = &answer {
                keep(&mut entry, answer);
            }
            entry.end(answer.as_ref().err());
        }
        answer.map_err(|error| status(&error))
    }
}

/// A request whose path has not been looked at.
struct Asked<'a> {
    bridge: &'a Bridge,
    path: &'a str,
    request: Request<Incoming>,
}

impl Asked<'_> {
    async fn of_the_runtime(self) -> Response<Body> {
        match self.path {
            runtime::VERSION => self.unary(Runtime::version).await,
            runtime::STATUS => self.unary(Runtime::status).await,
            runtime::RUNTIME_CONFIG => self.unary(Runtime::runtime_config).await,
            runtime::UPDATE_RUNTIME_CONFIG => self.unary(Runtime::update_runtime_config).await,

            runtime::RUN_POD_SANDBOX => self.unary(Runtime::run_pod_sandbox).await,
            runtime::STOP_POD_SANDBOX => self.unary(Runtime::stop_pod_sandbox).await,
            runtime::REMOVE_POD_SANDBOX => self.unary(Runtime::remove_pod_sandbox).await,
            runtime::POD_SANDBOX_STATUS => self.unary(Runtime::pod_sandbox_status).await,
            runtime::LIST_POD_SANDBOX => self.unary(Runtime::list_pod_sandbox).await,
            runtime::UPDATE_POD_SANDBOX_RESOURCES => {
                self.unary(Runtime::update_pod_sandbox_resources).await
            }

            runtime::CREATE_CONTAINER => self.unary(Runtime::create_container).await,
            runtime::START_CONTAINER => self.unary(Runtime::start_container).await,
            runtime::STOP_CONTAINER => self.unary(Runtime::stop_container).await,
            runtime::REMOVE_CONTAINER => self.unary(Runtime::remove_container).await,
            runtime::CONTAINER_STATUS => self.unary(Runtime::container_status).await,
            runtime::LIST_CONTAINERS => self.unary(Runtime::list_containers).await,
            runtime::UPDATE_CONTAINER_RESOURCES => {
                self.unary(Runtime::update_container_resources).await
            }
            runtime::REOPEN_CONTAINER_LOG => self.unary(Runtime::reopen_container_log).await,
            runtime::CHECKPOINT_CONTAINER => self.unary(Runtime::checkpoint_container).await,
            runtime::GET_CONTAINER_EVENTS => self.events().await,

            runtime::EXEC_SYNC => self.unary(Runtime::exec_sync).await,
            runtime::EXEC => self.unary(Runtime::exec).await,
            runtime::ATTACH => self.unary(Runtime::attach).await,
            runtime::PORT_FORWARD => self.unary(Runtime::port_forward).await,

            runtime::CONTAINER_STATS => self.unary(Runtime::container_stats).await,
            runtime::LIST_CONTAINER_STATS => self.unary(Runtime::list_container_stats).await,
            runtime::POD_SANDBOX_STATS => self.unary(Runtime::pod_sandbox_stats).await,
            runtime::LIST_POD_SANDBOX_STATS => self.unary(Runtime::list_pod_sandbox_stats).await,
            runtime::LIST_METRIC_DESCRIPTORS => self.unary(Runtime::list_metric_descriptors).await,
            runtime::LIST_POD_SANDBOX_METRICS => {
                self.unary(Runtime::list_pod_sandbox_metrics).await
            }
            _ => self.unknown().await,
        }
    }

    async fn of_images(self) -> Response<Body> {
        match self.path {
            image::LIST_IMAGES => self.unary(Runtime::list_images).await,
            image::IMAGE_STATUS => self.unary(Runtime::image_status).await,
            image::PULL_IMAGE => self.unary(Runtime::pull_image).await,
            image::REMOVE_IMAGE => self.unary(Runtime::remove_image).await,
            image::IMAGE_FS_INFO => self.unary(Runtime::image_fs_info).await,
            _ => self.unknown().await,
        }
    }

    async fn unary<Q, A>(self, call: Call<Q, A>) -> Response<Body>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let service = Unary {
            bridge: self.bridge,
            path: self.path,
            call,
        };
        Grpc::new(ProstCodec::<A, Q>::default())
            .max_decoding_message_size(LARGEST_REQUEST)
            .unary(service, self.request)
            .await
    }

    async fn events(self) -> Response<Body> {
        let service = Events {
            bridge: self.bridge,
            path: self.path,
        };
        Grpc::new(ProstCodec::default())
            .max_decoding_message_size(LARGEST_REQUEST)
            .server_streaming(service, self.request)
            .await
    }

    /// The lists that come in parts are among these: callers then ask for the
    /// whole.
    async fn unknown(self) -> Response<Body> {
        let error = RuntimeError::new(
            "unknown",
            seams::runtime::Code::Unimplemented,
            format!("the simulated runtime does not know {}", self.path),
        );
        if let Some(recorder) = &self.bridge.recorder
            && let Some(entry) = recorder.begin::<()>(self.path, None).await
        {
            entry.end(Some(&error));
        }
        status(&error).into_http()
    }
}

/// A call of one question and one answer, as tonic wants it.
struct Unary<'a, Q, A> {
    bridge: &'a Bridge,
    path: &'a str,
    call: Call<Q, A>,
}

impl<'a, Q: Message + 'static, A: Message + 'static> UnaryService<Q> for Unary<'a, Q, A> {
    type Response = A;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<A>, Status>> + Send + 'a>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        let Self { bridge, path, call } = *self;
        Box::pin(async move {
            let request = request.into_inner();
            let answer = bridge.call(path, request, call, Entry::answered).await;
            answer.map(tonic::Response::new)
        })
    }
}

/// The one call that is answered by a stream.
struct Events<'a> {
    bridge: &'a Bridge,
    path: &'a str,
}

type EventStream = Pin<Box<dyn Stream<Item = Result<ContainerEventResponse, Status>> + Send>>;

impl<'a> ServerStreamingService<GetEventsRequest> for Events<'a> {
    type Response = ContainerEventResponse;
    type ResponseStream = EventStream;
    type Future =
        Pin<Box<dyn Future<Output = Result<tonic::Response<EventStream>, Status>> + Send + 'a>>;

    fn call(&mut self, request: tonic::Request<GetEventsRequest>) -> Self::Future {
        let Self { bridge, path } = *self;
        Box::pin(async move {
            let request = request.into_inner();
            let events = bridge
                .call(path, request, Runtime::get_container_events, |_, _| ())
                .await?;
            let events = events
                .map(|event| event.map_err(|error| status(&error)))
                .take_until(bridge.shutdown.clone().cancelled_owned());
            Ok(tonic::Response::new(Box::pin(events) as EventStream))
        })
    }
}

/// The runtime's own words, under the code's number.
fn status(error: &RuntimeError) -> Status {
    Status::new(
        tonic::Code::from_i32(error.code.number()),
        error.message.clone(),
    )
}
