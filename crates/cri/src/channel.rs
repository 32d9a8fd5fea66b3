//! One HTTP/2 connection to a socket, made when a call needs it and made anew
//! when it has ended. There is no loop that reconnects: a runtime that is away
//! costs one refused `connect` for each call.

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::body::Body;

use crate::endpoint::Endpoint;

/// Where the tasks of connections run, and how they end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    ending: CancellationToken,
}

impl Tasks {
    /// Cuts what is left, and waits until it has ended.
    pub(crate) async fn end(&self) {
        self.cut();
        self.tracker.close();
        self.tracker.wait().await;
    }

    pub(crate) fn cut(&self) {
        self.ending.cancel();
    }
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        let ending = self.ending.clone();
        self.tracker.spawn(async move {
            ending.run_until_cancelled_owned(task).await;
        });
    }
}

pub(crate) struct Channel {
    endpoint: Endpoint,
    tasks: Tasks,
    // Held while dialling, so that calls that find no connection share one
    // dial. A `connect` to a unix socket is answered or refused at once, and
    // whoever dials has a time limit around it.
    link: Mutex<Option<SendRequest<Body>>>,
}

impl Channel {
    pub(crate) fn new(endpoint: Endpoint, tasks: Tasks) -> Self {
        Self {
            endpoint,
            tasks,
            link: Mutex::new(None),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Makes the connection that the next call needs, if there is none.
    pub(crate) async fn connect(&self) -> Result<(), Status> {
        self.link().await.map(drop)
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let mut failure = match self.link().await?.try_send_request(request).await {
            Ok(response) => return Ok(self.watched(response)),
            Err(failure) => failure,
        };
        // A connection may have ended unnoticed, with the runtime that was
        // restarted. What was not sent over it is sent over another, once.
        let Some(request) = failure.take_message() else {
            return Err(self.broken(failure.error()));
        };
        match self.link().await?.try_send_request(request).await {
            Ok(response) => Ok(self.watched(response)),
            Err(failure) => Err(self.broken(failure.error())),
        }
    }

    /// The connection can break amid the answer, too.
    fn watched(&self, response: Response<Incoming>) -> Response<Body> {
        let endpoint = self.endpoint.clone();
        response.map(|body| Body::new(body.map_err(move |cause| broken(&endpoint, &cause))))
    }

    async fn link(&self) -> Result<SendRequest<Body>, Status> {
        let mut link = self.link.lock().await;
        if let Some(link) = link.as_ref().filter(|link| !link.is_closed()) {
            return Ok(link.clone());
        }
        Ok(link.insert(self.dial().await?).clone())
    }

    async fn dial(&self) -> Result<SendRequest<Body>, Status> {
        if self.tasks.ending.is_cancelled() {
            return Err(Status::cancelled("the node is ending"));
        }
        let stream = UnixStream::connect(self.endpoint.path())
            .await
            .map_err(|cause| self.unreachable(&cause))?;
        let (link, connection) = http2::handshake(self.tasks.clone(), TokioIo::new(stream))
            .await
            .map_err(|cause| self.broken(&cause))?;
        let endpoint = self.endpoint.clone();
        hyper::rt::Executor::execute(&self.tasks, async move {
            if let Err(error) = connection.await {
                tracing::debug!(%endpoint, error = chain(&error), "connection to the runtime ended");
            }
        });
        Ok(link)
    }

    fn unreachable(&self, cause: &io::Error) -> Status {
        let step = match cause.kind() {
            io::ErrorKind::NotFound => {
                "is the runtime installed and running, and is this the endpoint it is told to \
                 listen at?"
            }
            io::ErrorKind::ConnectionRefused => "is the runtime running?",
            io::ErrorKind::PermissionDenied => "the node must run as root",
            _ => "look at the runtime's log",
        };
        Status::unavailable(format!(
            "cannot connect to the container runtime at {}: {cause}; {step}",
            self.endpoint
        ))
    }

    fn broken(&self, cause: &hyper::Error) -> Status {
        broken(&self.endpoint, cause)
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Channel")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// A connection that ends amid a call. The runtime may have heard the call.
fn broken(endpoint: &Endpoint, cause: &hyper::Error) -> Status {
    Status::unavailable(format!(
        "the connection to the container runtime at {endpoint} broke: {}",
        chain(cause)
    ))
}

/// An error with its causes: hyper's own words stop at the first.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The channel as tonic wants it.
#[derive(Clone)]
pub(crate) struct Requests(pub(crate) Arc<Channel>);

impl tower::Service<Request<Body>> for Requests {
    type Response = Response<Body>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    /// A connection is made, if need be, by the call itself.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let channel = Arc::clone(&self.0);
        Box::pin(async move { channel.send(request).await })
    }
}
