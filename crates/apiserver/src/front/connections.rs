//! Connections: accepted, bounded in number and in time, and led to the desk.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use super::desk::Desk;

/// At once; who comes later waits in the kernel's queue. Nodes keep several.
const CONNECTIONS: usize = 65_536;

const HANDSHAKE: Duration = Duration::from_secs(10);

/// Of one HTTP/2 connection; upstream's.
const STREAMS: u32 = 100;

/// For what is under way when the server ends.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// After a connection that the machine could not give us: it has no room now.
const BREATH: Duration = Duration::from_millis(200);

/// Why nobody can ask.
#[derive(Debug, Error)]
pub enum BindError {
    #[error(
        "{address} is taken, perhaps by another API server: `ss -ltnp sport = :{port}` says by \
         whom; end it, or choose another --port",
        port = address.port()
    )]
    Taken { address: SocketAddr },
    #[error("cannot listen on {address}: {cause}; choose another --port or address")]
    Refused {
        address: SocketAddr,
        cause: io::Error,
    },
}

/// A port that is open; who comes waits until it is served.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
}

impl Port {
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let refused = |cause: io::Error| match cause.kind() {
            io::ErrorKind::AddrInUse => BindError::Taken { address },
            _ => BindError::Refused { address, cause },
        };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(Self { listener, address })
    }

    /// With the number that was given, if any was to do.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A port with those who answer.
#[derive(Debug)]
pub struct Connections {
    port: Port,
    tls: Arc<ServerConfig>,
    desk: Arc<Desk>,
}

/// Those who speak for one connection.
struct Peer {
    address: SocketAddr,
    certificates: Arc<[CertificateDer<'static>]>,
}

impl Connections {
    pub fn new(port: Port, tls: Arc<ServerConfig>, desk: Arc<Desk>) -> Self {
        Self { port, tls, desk }
    }

    /// Answers until told to end; what is under way then has a moment.
    pub async fn run(self, shutdown: CancellationToken) {
        info!(address = %self.port.address, "the API server's port is open");
        let tasks = TaskTracker::new();
        let ending = CancellationToken::new();
        let accepting = self.accept(&tasks, &shutdown, &ending);
        shutdown.run_until_cancelled(accepting).await;
        tasks.close();
        let clock = self.desk.clock().clone();
        tokio::select! {
            () = tasks.wait() => return,
            () = clock.sleep(LAST_ANSWERS) => {}
        }
        ending.cancel();
        tasks.wait().await;
    }

    async fn accept(
        &self,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
        ending: &CancellationToken,
    ) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            let (stream, peer) = match self.port.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(err = %error, "a connection to the API server was lost");
                    self.desk.clock().sleep(BREATH).await;
                    continue;
                }
            };
            let conversation = Conversation {
                desk: Arc::clone(&self.desk),
                tls: TlsAcceptor::from(Arc::clone(&self.tls)),
                executor: Executor {
                    tasks: tasks.clone(),
                    ending: ending.clone(),
                },
                shutdown: shutdown.clone(),
                _place: place,
            };
            let ending = ending.clone();
            tasks.spawn(async move {
                ending
                    .run_until_cancelled(conversation.hold(stream, peer))
                    .await;
            });
        }
    }
}

struct Conversation {
    desk: Arc<Desk>,
    tls: TlsAcceptor,
    executor: Executor,
    shutdown: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl Conversation {
    async fn hold(self, stream: TcpStream, address: SocketAddr) {
        let _ = stream.set_nodelay(true);
        let handshake = self.tls.accept(stream);
        let stream = match tokio::time::timeout(HANDSHAKE, handshake).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return debug!(peer = %address, err = %error, "a TLS handshake failed");
            }
            Err(_) => return debug!(peer = %address, "a TLS handshake took too long"),
        };
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificates = certificates.iter().map(|one| one.clone().into_owned());
        let peer = Arc::new(Peer {
            address,
            certificates: certificates.collect(),
        });
        let executor = self.executor.clone();
        let service = {
            let desk = Arc::clone(&self.desk);
            service_fn(move |request: Request<Incoming>| {
                let (desk, peer, executor) =
                    (Arc::clone(&desk), Arc::clone(&peer), executor.clone());
                async move {
                    let request = request.map(|body| body.map_err(io::Error::other).boxed_unsync());
                    let carry_on = move |work| executor.carry_on(work);
                    let answer = desk.answer(request, &peer.certificates, peer.address, &carry_on);
                    Ok::<_, Infallible>(answer.await)
                }
            })
        };
        let mut builder = auto::Builder::new(self.executor.clone());
        builder.http1().timer(TokioTimer::new());
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .keep_alive_interval(Duration::from_secs(30));
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(peer = %address, err = %error, "a connection to the API server broke");
        }
    }
}

/// Runs what a connection needs, as tasks that the server joins.
#[derive(Clone, Debug)]
struct Executor {
    tasks: TaskTracker,
    ending: CancellationToken,
}

impl Executor {
    /// What goes on over a connection that was upgraded.
    fn carry_on(&self, work: super::proxy::Work) {
        hyper::rt::Executor::execute(self, work);
    }
}

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, work: F) {
        let ending = self.ending.clone();
        self.tasks.spawn(async move {
            ending.run_until_cancelled(work).await;
        });
    }
}
