//! A way for requests of one kind: its own rate, its own patience, perhaps its own connections.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode, request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use kube::client::Body;

use super::Inner;
use super::body::{Deadline, ResponseBody, Tally};
use super::dial::{DialError, causes};
use super::identity::CredentialError;
use super::limit::{Limits, TokenBucket};
use super::link::Reach;
use super::pool::{Choice, Lease, NoConnection, Pool, Ticket};
use super::request::{self as addressing, AddressingError, is_watch};

/// How often a request is sent again on another connection when one was closed under it.
const MOST_RESENDS: usize = 2;
/// How often a server may ask to come back later, as client-go.
const MOST_RETRIES: usize = 10;
/// A server, or something in its place, that asks for more is asked again before.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// What is read of a response that asks to come back later, to keep its connection.
const DISCARDED: usize = 64 << 10;

/// What a lane is like.
#[derive(Debug, Clone)]
pub struct LaneOptions {
    /// For the log.
    pub name: &'static str,
    /// None: no limit.
    pub limits: Option<Limits>,
    /// For one attempt at a request, its body included, as Go's `http.Client.Timeout`.
    pub timeout: Option<Duration>,
    /// Connections that no other lane uses: heartbeats must not wait behind anything.
    pub own_connections: bool,
}

/// A way for requests to the API server. A [`tower::Service`]; clones share everything.
#[derive(Debug, Clone)]
pub struct Lane {
    inner: Arc<Inner>,
    pool: Arc<Pool>,
    bucket: Option<Arc<TokenBucket>>,
    options: LaneOptions,
}

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Dial(Arc<DialError>),
    #[error("{server} gave no whole answer within {} s", after.as_secs_f64())]
    Timeout { server: Arc<str>, after: Duration },
    #[error("the connection to {server} broke: {cause}")]
    Broken {
        server: Arc<str>,
        cause: String,
        source: hyper::Error,
    },
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error(transparent)]
    Addressing(#[from] AddressingError),
    #[error("the request's body cannot be read: {0}")]
    Body(Box<kube::Error>),
    #[error("the way to {server} is closed: the node is stopping")]
    Closed { server: Arc<str> },
}

impl SendError {
    pub(super) fn broken(server: &Arc<str>, source: hyper::Error) -> Self {
        Self::Broken {
            server: Arc::clone(server),
            cause: causes(&source),
            source,
        }
    }
}

/// A request that can be sent again.
struct Call {
    parts: request::Parts,
    body: Full<Bytes>,
    size: usize,
    watch: bool,
    started: Duration,
}

impl Lane {
    pub(super) fn new(inner: Arc<Inner>, options: LaneOptions) -> Self {
        let pool = if options.own_connections {
            inner.new_pool()
        } else {
            Arc::clone(&inner.common)
        };
        let bucket = options
            .limits
            .map(|limits| Arc::new(TokenBucket::new(limits, Arc::clone(&inner.clock))));
        Self {
            inner,
            pool,
            bucket,
            options,
        }
    }

    /// A client whose requests go this way. To be called inside a runtime: kube keeps a task for
    /// each client, for as long as that lives.
    pub fn client(&self, namespace: &str) -> kube::Client {
        kube::Client::new(self.clone(), namespace)
    }

    /// Retires this lane's connections (the common ones, if it has none of its own): requests
    /// from now on go over a new one.
    pub fn reconnect(&self) {
        tracing::debug!(lane = self.options.name, server = %self.inner.server, "making new connections to the API server");
        self.pool.reconnect();
    }

    async fn send(self, request: Request<Body>) -> Result<Response<ResponseBody>, SendError> {
        let call = self.prepare(request).await?;
        let verb = call.parts.method.as_str();
        let (metrics, host) = (&self.inner.metrics, &*self.inner.host);
        let mut retries = 0;
        loop {
            self.throttle(&call).await;
            let outcome = self.attempt(&call).await;
            let status = outcome.as_ref().ok().map(Response::status);
            let code = status.as_ref().map_or("<error>", StatusCode::as_str);
            metrics.requested(code, verb, host);
            metrics.sent(call.size, verb, host);
            let response = match outcome {
                Ok(response) => response,
                Err(error) => {
                    if !call.watch {
                        let took = self.inner.clock.uptime().saturating_sub(call.started);
                        metrics.took(took, verb, host);
                    }
                    return Err(error);
                }
            };
            match come_back(&response) {
                Some(wait) if retries < MOST_RETRIES => {
                    retries += 1;
                    metrics.retried(code, verb, host);
                    discard(response.into_body()).await;
                    self.inner.clock.sleep(wait).await;
                }
                _ => return Ok(self.counted(response, &call)),
            }
        }
    }

    async fn prepare(&self, request: Request<Body>) -> Result<Call, SendError> {
        let started = self.inner.clock.uptime();
        let (mut parts, body) = request.into_parts();
        let body = body.collect_bytes().await;
        let body = body.map_err(|error| SendError::Body(Box::new(error)))?;
        self.inner.addressing.address(&mut parts)?;
        Ok(Call {
            watch: is_watch(&parts),
            size: body.len(),
            body: Full::new(body),
            parts,
            started,
        })
    }

    /// Waits for the lane's rate. Watches do not, as upstream: they are few, and each stands for
    /// many requests saved.
    async fn throttle(&self, call: &Call) {
        if let (Some(bucket), false) = (&self.bucket, call.watch) {
            let waited = bucket.take().await;
            let verb = call.parts.method.as_str();
            self.inner.metrics.waited(waited, verb, &self.inner.host);
        }
    }

    /// One attempt, within the lane's patience, which goes on into the body.
    async fn attempt(&self, call: &Call) -> Result<Response<ResponseBody>, SendError> {
        let clock = &*self.inner.clock;
        let Some(after) = self.options.timeout else {
            return self.exchange(call).await;
        };
        let until = clock.uptime() + after;
        let Ok(outcome) = seams::timeout(clock, after, self.exchange(call)).await else {
            return Err(SendError::Timeout {
                server: Arc::clone(&self.inner.server),
                after,
            });
        };
        let sleep = clock.sleep(until.saturating_sub(clock.uptime()));
        let deadline = Deadline { sleep, after };
        outcome.map(|response| response.map(|body| body.due(deadline)))
    }

    /// Sends the request until a connection has carried it.
    async fn exchange(&self, call: &Call) -> Result<Response<ResponseBody>, SendError> {
        let signature = self.inner.sign().await?;
        let mut resends = 0;
        loop {
            let lease = self.lease(resends).await?;
            let (mut ticket, fresh) = (lease.ticket, lease.fresh);
            let multiplexed = lease.sender.is_multiplexed();
            let request = addressing::on_the_wire(&call.parts, &call.body, &signature, multiplexed);
            let failure = match lease.sender.send(request, &ticket.cut).await {
                Ok((response, returned)) => {
                    ticket.returned = returned;
                    if response.status() == StatusCode::UNAUTHORIZED {
                        self.inner.identity.rejected(&signature).await;
                    }
                    return Ok(self.answered(response, ticket, call));
                }
                Err(failure) => failure,
            };
            if failure.reach.loses_connection() {
                ticket.retire_connection();
            }
            if self.inner.tasks.ending.is_cancelled() {
                return Err(self.closed());
            }
            let lost = Lost {
                reach: failure.reach,
                fresh,
                cut: ticket.cut.is_cancelled(),
            };
            if resends >= MOST_RESENDS || !call.may_be_resent(&lost) {
                return Err(SendError::broken(&self.inner.server, failure.error));
            }
            resends += 1;
        }
    }

    async fn lease(&self, resends: usize) -> Result<Lease, SendError> {
        // The last try is on a connection of which nothing bad is known.
        let choice = if resends < MOST_RESENDS {
            Choice::Any
        } else {
            Choice::New
        };
        self.pool.lease(choice).await.map_err(|none| match none {
            NoConnection::Dial(error) => SendError::Dial(error),
            NoConnection::Closed => self.closed(),
        })
    }

    fn closed(&self) -> SendError {
        SendError::Closed {
            server: Arc::clone(&self.inner.server),
        }
    }

    fn answered(
        &self,
        response: Response<Incoming>,
        ticket: Ticket,
        call: &Call,
    ) -> Response<ResponseBody> {
        let (parts, incoming) = response.into_parts();
        let end_watches = ticket.end_watches.clone();
        let mut body = ResponseBody::new(incoming, ticket, Arc::clone(&self.inner.server));
        if call.watch && is_lines(&parts) {
            body = body.ended_by(end_watches);
        }
        Response::from_parts(parts, body)
    }

    /// With its size and duration counted when it has ended.
    fn counted(&self, response: Response<ResponseBody>, call: &Call) -> Response<ResponseBody> {
        if call.watch {
            return response;
        }
        let tally = Tally {
            metrics: self.inner.metrics.clone(),
            clock: Arc::clone(&self.inner.clock),
            verb: call.parts.method.clone(),
            host: Arc::clone(&self.inner.host),
            started: call.started,
            bytes: 0,
        };
        response.map(|body| body.counted(tally))
    }
}

impl tower::Service<Request<Body>> for Lane {
    type Response = Response<ResponseBody>;
    type Error = SendError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, SendError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// How a request was lost.
struct Lost {
    reach: Reach,
    /// On a connection that nobody had used before.
    fresh: bool,
    /// Because we gave the connection up.
    cut: bool,
}

impl Call {
    /// A request that the server has not looked at can always be sent again; one that it may have
    /// processed only if that does no harm, and if the connection may have been dead before.
    fn may_be_resent(&self, lost: &Lost) -> bool {
        let harmless = matches!(self.parts.method, Method::GET | Method::HEAD);
        match lost.reach {
            Reach::Unsent | Reach::Refused => true,
            // The server could do nothing without the body.
            Reach::Bodiless => !lost.cut && (harmless || self.size > 0),
            Reach::Reset => false,
            Reach::Unknown => !lost.fresh && harmless,
        }
    }
}

/// How long the server asks us to wait before we come again.
fn come_back<B>(response: &Response<B>) -> Option<Duration> {
    let status = response.status();
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let wait = seconds.parse().ok().map(Duration::from_secs)?;
    Some(wait.min(LONGEST_WAIT))
}

/// Events one in a line; anything else cannot be ended between two of them.
fn is_lines(parts: &http::response::Parts) -> bool {
    parts.status.is_success()
        && !parts.headers.contains_key(http::header::CONTENT_ENCODING)
        && parts.headers.get(CONTENT_TYPE).is_none_or(|kind| {
            kind.to_str()
                .is_ok_and(|kind| kind.starts_with("application/json"))
        })
}

/// Reads a short body to its end, so that an HTTP/1.1 connection can be used again.
async fn discard(mut body: ResponseBody) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > DISCARDED {
            break;
        }
    }
}
