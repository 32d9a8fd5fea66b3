//! The way of a call: to its service's socket, on its terms, and not too many at
//! once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{poll_immediate, ready};
use futures_util::{StreamExt as _, TryFutureExt as _};
use http::Uri;
use http::uri::PathAndQuery;
use seams::cri::{ContainerEventResponse, GetEventsRequest, runtime_service};
use seams::runtime::{Answer, Code, ContainerEvents};
use seams::{Elapsed, RuntimeError, SharedClock};
use tokio::sync::Semaphore;
use tonic::client::Grpc;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

use crate::channel::{Channel, Requests, Tasks};
use crate::endpoint::{Endpoint, EndpointError};
use crate::terms::Terms;

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
    /// `runtimeRequestTimeout`: how long most calls may take, the wait for a
    /// place included.
    pub request_timeout: Duration,
    /// How many calls may be under way at once; the others wait. Those that
    /// themselves wait for others than the runtime, as pulls do, do not count.
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

    /// How long most calls may take.
    pub(crate) fn time(&self) -> Duration {
        self.request_timeout
    }

    pub(crate) fn runtime_call<Q, A>(
        &self,
        path: &'static str,
        terms: Terms,
        request: Q,
    ) -> Answer<'_, A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        Box::pin(self.call(&self.runtime, path, terms, request))
    }

    pub(crate) fn image_call<Q, A>(
        &self,
        path: &'static str,
        terms: Terms,
        request: Q,
    ) -> Answer<'_, A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        Box::pin(self.call(&self.images, path, terms, request))
    }

    async fn call<Q, A>(
        &self,
        channel: &Arc<Channel>,
        path: &'static str,
        terms: Terms,
        request: Q,
    ) -> Result<A, RuntimeError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let work = async {
            let _place = if terms.place {
                // Nobody closes it, so there is always a place in the end.
                self.places.acquire().await.ok()
            } else {
                None
            };
            ask(channel, path, request, terms.limit).await
        };
        if let Some(limit) = terms.limit {
            return self.within(limit, channel, path, work).await;
        }
        self.connect(channel, path).await?;
        work.await.map_err(|status| failure(path, &status))
    }

    /// Connecting has an end, also for a call that has none.
    async fn connect(&self, channel: &Channel, path: &'static str) -> Result<(), RuntimeError> {
        let limit = self.request_timeout;
        self.within(limit, channel, path, channel.connect()).await
    }

    async fn within<T>(
        &self,
        limit: Duration,
        channel: &Channel,
        path: &'static str,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, RuntimeError> {
        let late = |Elapsed| {
            let message = format!(
                "no answer within {} s from the container runtime at {}; look at its log and load",
                limit.as_secs_f64(),
                channel.endpoint()
            );
            RuntimeError::new(name(path), Code::DeadlineExceeded, message)
        };
        let outcome = seams::timeout(&*self.clock, limit, work).await;
        outcome
            .map_err(late)?
            .map_err(|status| failure(path, &status))
    }

    pub(crate) async fn events(
        &self,
        request: GetEventsRequest,
    ) -> Result<ContainerEvents, RuntimeError> {
        let path = runtime_service::GET_CONTAINER_EVENTS;
        self.connect(&self.runtime, path).await?;
        let mut opening = Box::pin(subscribe(Arc::clone(&self.runtime), path, request));
        // A server in Go sends nothing, not even that it agrees, before the
        // first event; so its answer is not waited for. The look at it sends
        // the request: what happens from here on is told.
        let early = poll_immediate(&mut opening).await;
        let events = match early {
            Some(Ok(events)) => events.left_stream(),
            Some(Err(status)) => return Err(failure(path, &status)),
            None => opening.try_flatten_stream().right_stream(),
        };
        // A broken stream would tell of it for ever.
        let events = events.scan(false, move |broken, event| {
            let over = std::mem::replace(broken, event.is_err());
            let event = event.map_err(|status| failure(path, &status));
            ready((!over).then_some(event))
        });
        Ok(Box::pin(events))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.tasks.cut();
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
    limit: Option<Duration>,
) -> Result<A, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let mut request = tonic::Request::new(message);
    if let Some(limit) = limit {
        // So that the runtime gives up too, should it not see that we did.
        request.set_timeout(limit);
    }
    let path = PathAndQuery::from_static(path);
    let answer = grpc(channel)
        .unary(request, path, ProstCodec::default())
        .await?;
    Ok(answer.into_inner())
}

/// One request and what comes of it, over tonic.
async fn subscribe(
    channel: Arc<Channel>,
    path: &'static str,
    message: GetEventsRequest,
) -> Result<Streaming<ContainerEventResponse>, Status> {
    let request = tonic::Request::new(message);
    let path = PathAndQuery::from_static(path);
    let answer = grpc(&channel)
        .server_streaming(request, path, ProstCodec::default())
        .await?;
    Ok(answer.into_inner())
}

fn grpc(channel: &Arc<Channel>) -> Grpc<Requests> {
    let requests = Requests(Arc::clone(channel));
    Grpc::with_origin(requests, Uri::from_static("http://localhost"))
        .max_decoding_message_size(LONGEST_ANSWER)
}

fn failure(path: &'static str, status: &Status) -> RuntimeError {
    let code = Code::from_number(status.code().into());
    RuntimeError::new(name(path), code, words(status))
}

fn words(status: &Status) -> String {
    if status.message().is_empty() {
        "the runtime gave no reason".to_owned()
    } else {
        status.message().to_owned()
    }
}

/// The last part of a path.
pub(crate) fn name(path: &'static str) -> &'static str {
    path.rsplit('/').next().unwrap_or(path)
}
