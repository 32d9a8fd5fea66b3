//! The health protocol of gRPC (`grpc.health.v1`), without TLS.
//!
//! As upstream's client does it, a connection that does not come about is tried again
//! until the time is up; one counts when the server has spoken HTTP/2.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::GRPCAction;
use seams::net::{Connection, Destination};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use types::GoDuration;

use super::{Answer, Means, Outcome, Subject, unknown};
use crate::web::{Asker, authority};

const CHECK: &str = "/grpc.health.v1.Health/Check";

/// Pauses between attempts to connect: the first, how they grow, and how they are spread.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const GROWTH: f64 = 1.6;
const SPREAD: f64 = 0.2;

/// What is asked: the health of one service, or of all if it has no name.
#[derive(Clone, PartialEq, prost::Message)]
struct Question {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Health {
    #[prost(enumeration = "State", tag = "1")]
    status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum State {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}

impl Means {
    pub(super) async fn grpc(
        &self,
        action: &GRPCAction,
        subject: Subject<'_>,
        limit: Duration,
    ) -> Answer {
        let Ok(port) = u16::try_from(action.port) else {
            return unknown(&format!("invalid port number: {}", action.port)).into();
        };
        let service = action.service.as_deref().unwrap_or_default();
        let connected = Arc::new(AtomicBool::new(false));
        let asking = self.ask(subject.ip, port, service, &connected);
        let shown = GoDuration::try_from(limit).unwrap_or_default();
        match seams::timeout(&*self.clock, limit, asking).await {
            Ok(Ok(health)) => verdict(health).into(),
            Ok(Err(status)) => refusal(&status, shown).into(),
            Err(_) if connected.load(Relaxed) => Answer::TimedOut(format!(
                "timeout: health rpc did not complete within {shown}"
            )),
            Err(_) => {
                let address = authority(subject.ip, port);
                Answer::TimedOut(format!(
                    "timeout: failed to connect service {address:?} within {shown}: context deadline exceeded"
                ))
            }
        }
    }

    /// Until there is an answer; `connected` is told when a server speaks HTTP/2.
    async fn ask(
        &self,
        host: &str,
        port: u16,
        service: &str,
        connected: &Arc<AtomicBool>,
    ) -> Result<Health, Status> {
        let to = Destination { host, port };
        let mut pause = FIRST_PAUSE;
        loop {
            if let Ok(connection) = self.net.dial(to).await {
                let listened = Listened {
                    inner: connection,
                    first: Vec::with_capacity(FRAME_HEAD),
                    is_http2: Arc::clone(connected),
                };
                let asked = talk(listened, &authority(host, port), service).await;
                if asked.is_ok() || connected.load(Relaxed) {
                    return asked;
                }
            }
            let spread = 1.0 + SPREAD * (2.0 * self.clock.random() - 1.0);
            self.clock.sleep(pause.mul_f64(spread)).await;
            pause = pause.mul_f64(GROWTH);
        }
    }
}

async fn talk(connection: Listened, address: &str, service: &str) -> Result<Health, Status> {
    let broken = |error: hyper::Error| Status::unavailable(error.to_string());
    let tasks = Tasks::default();
    let handshake = http2::handshake(tasks.clone(), TokioIo::new(connection));
    let (sender, connection) = handshake.await.map_err(broken)?;
    let origin: Uri = format!("http://{address}")
        .parse()
        .map_err(|error| Status::invalid_argument(format!("{address}: {error}")))?;
    let ask = async {
        let mut client = Grpc::with_origin(Requests(sender), origin);
        client.ready().await.map_err(broken)?;
        let question = Question {
            service: service.to_owned(),
        };
        let path = PathAndQuery::from_static(CHECK);
        let answer = client
            .unary(
                tonic::Request::new(question),
                path,
                ProstCodec::<Question, Health>::default(),
            )
            .await?;
        Ok(answer.into_inner())
    };
    tokio::select! {
        outcome = ask => outcome,
        // Who asked has the last word, even on how the connection ended.
        () = async {
            let _ = connection.await;
            std::future::pending::<()>().await;
        } => Err(Status::unavailable("the connection was closed")),
    }
}

fn verdict(health: Health) -> Outcome {
    let shown = match State::try_from(health.status) {
        Ok(State::Serving) => return Outcome::Success,
        Ok(State::Unknown) => "UNKNOWN".to_owned(),
        Ok(State::NotServing) => "NOT_SERVING".to_owned(),
        Ok(State::ServiceUnknown) => "SERVICE_UNKNOWN".to_owned(),
        Err(_) => health.status.to_string(),
    };
    Outcome::Failure(format!("service unhealthy (responded with {shown:?})"))
}

fn refusal(status: &Status, limit: GoDuration) -> Outcome {
    let text = match status.code() {
        Code::Unimplemented => format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
            status.message()
        ),
        Code::DeadlineExceeded => format!("timeout: health rpc did not complete within {limit}"),
        code => {
            // Go writes it with one l.
            let code = match code {
                Code::Cancelled => "Canceled".to_owned(),
                code => format!("{code:?}"),
            };
            format!(
                "error: health rpc probe failed: rpc error: code = {code} desc = {}",
                status.message()
            )
        }
    };
    Outcome::Failure(text)
}

/// Where the parts of a connection run; they end with it.
#[derive(Clone, Debug)]
struct Tasks {
    tracker: TaskTracker,
    ending: Arc<Ending>,
}

/// Ends all when the last who holds it is gone.
#[derive(Debug, Default)]
struct Ending(CancellationToken);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            tracker: TaskTracker::new(),
            ending: Arc::default(),
        }
    }
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        let ending = self.ending.0.clone();
        self.tracker.spawn(async move {
            ending.run_until_cancelled_owned(task).await;
        });
    }
}

/// The connection as tonic wants it.
struct Requests(SendRequest<Body>);

impl tower::Service<Request<Body>> for Requests {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let agent = HeaderValue::from_static(Asker::Probe.agent());
        request.headers_mut().insert(USER_AGENT, agent);
        Box::pin(self.0.send_request(request))
    }
}

/// What a frame begins with: its length, and its kind.
const FRAME_HEAD: usize = 4;
const SETTINGS: u8 = 4;

/// A connection that tells when the other side begins to speak HTTP/2, which a server
/// does with a frame of settings.
#[derive(Debug)]
struct Listened {
    inner: Box<dyn Connection>,
    first: Vec<u8>,
    is_http2: Arc<AtomicBool>,
}

impl AsyncRead for Listened {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let missing = FRAME_HEAD.saturating_sub(self.first.len());
        let fresh = &buffer.filled()[before..];
        self.first.extend(fresh.iter().take(missing));
        if missing > 0 && self.first.get(FRAME_HEAD - 1) == Some(&SETTINGS) {
            self.is_http2.store(true, Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Listened {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
