//! Connections: accepted, bounded in number and in time, and led to the desk.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use seams::timeout;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use super::line::Line;
use super::metered::Metered;
use super::routes::Side;
use super::tls::{Handshakes, TlsSetupError};
use super::trust::Trusted;
use super::{Desk, DoorError};
use crate::listen::BindError;
use crate::seats::Seats;

/// At once, over each of the two ports.
const CONNECTIONS: usize = 2048;

/// For what heads are read into over all connections, beyond what each may have: without
/// it, strangers could have the largest head over each.
const LARGEST_HEADS: usize = 32 << 20;

/// For the head of a request; upstream's.
const LARGEST_HEAD: usize = 1 << 20;

/// Upstream gives four hours, which is no limit for who wants to do harm.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a connection is silent before its client is asked for a sign of life, and how
/// often in vain until it counts as gone; Go's.
const SILENCE: Duration = Duration::from_secs(15);
const SIGNS_OF_LIFE: u32 = 9;

/// Between two requests, and for the head of one; upstream's.
const IDLE: Duration = Duration::from_secs(90);

/// For one request and its answer; upstream's.
const LONGEST: Duration = Duration::from_secs(4 * 60 * 60);

/// For what is under way when a connection has to end.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// After a connection that the machine could not give us: it has no room now.
const BREATH: Duration = Duration::from_secs(1);

/// The ports, not yet open.
#[derive(Debug)]
pub(crate) struct Listening {
    address: SocketAddr,
    read_only: Option<SocketAddr>,
    handshakes: Handshakes,
    trusted: Option<Trusted>,
    tls: Arc<ServerConfig>,
    desk: Arc<Desk>,
}

impl Listening {
    pub(crate) fn new(
        address: SocketAddr,
        read_only: Option<SocketAddr>,
        (handshakes, trusted): (Handshakes, Option<Trusted>),
        desk: Arc<Desk>,
    ) -> Result<Self, TlsSetupError> {
        let who = trusted.as_ref().map(|trusted| trusted.borrow().clone());
        Ok(Self {
            address,
            read_only,
            tls: handshakes.with_clients(who)?,
            handshakes,
            trusted,
            desk,
        })
    }

    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> Result<(), DoorError> {
        let listener = bind(self.address, "port").await?;
        info!(address = %self.address, "the node's port is open");
        let read_only = match self.read_only {
            None => None,
            Some(address) => {
                let listener = bind(address, "readOnlyPort").await?;
                info!(%address, "the read-only port is open, to everybody");
                Some(listener)
            }
        };
        let desk = Arc::clone(&self.desk);
        // What goes on over upgraded connections; joined at the end.
        let tasks = TaskTracker::new();
        let plain = async {
            if let Some(listener) = read_only {
                let port = Port::new(Side::ReadOnly, &desk, &tasks, &shutdown);
                port.accept(&listener, || None).await;
            }
        };
        let port = Port::new(Side::ReadWrite, &desk, &tasks, &shutdown);
        let secure = port.accept(&listener, || Some(self.current_tls()));
        let both = async { tokio::join!(plain, secure) };
        shutdown.run_until_cancelled(both).await;
        tasks.close();
        tasks.wait().await;
        Ok(())
    }

    /// Whom clients are asked for changes with the CA file.
    fn current_tls(&mut self) -> Arc<ServerConfig> {
        if let Some(trusted) = &mut self.trusted
            && trusted.has_changed().unwrap_or(false)
        {
            let who = trusted.borrow_and_update().clone();
            match self.handshakes.with_clients(Some(who)) {
                Ok(tls) => self.tls = tls,
                Err(error) => warn!(err = %error, "clients are asked for certificates as before"),
            }
        }
        Arc::clone(&self.tls)
    }
}

/// One port, open.
struct Port {
    side: Side,
    desk: Arc<Desk>,
    seats: Seats,
    tasks: TaskTracker,
    ending: CancellationToken,
}

impl Port {
    fn new(side: Side, desk: &Arc<Desk>, tasks: &TaskTracker, ending: &CancellationToken) -> Self {
        Self {
            side,
            desk: Arc::clone(desk),
            seats: Seats::new(CONNECTIONS, LARGEST_HEADS),
            tasks: tasks.clone(),
            ending: ending.clone(),
        }
    }

    async fn accept(
        &self,
        listener: &TcpListener,
        mut tls: impl FnMut() -> Option<Arc<ServerConfig>>,
    ) {
        let clock = self.desk.clock();
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(err = %error, "a connection to the node was lost");
                    clock.sleep(BREATH).await;
                    continue;
                }
            };
            let Some(place) = self.seats.take(clock.uptime()) else {
                info!(v = 2, %peer, "a connection was turned away: all others are busy");
                continue;
            };
            let line = Line::new(peer, place, self.tasks.clone(), self.ending.clone());
            let (desk, side, tls) = (Arc::clone(&self.desk), self.side, tls());
            let ending = self.ending.clone();
            self.tasks.spawn(async move {
                let conversation = converse(desk, side, tls, stream, line);
                ending.run_until_cancelled(conversation).await;
            });
        }
    }
}

async fn converse(
    desk: Arc<Desk>,
    side: Side,
    tls: Option<Arc<ServerConfig>>,
    stream: TcpStream,
    line: Line,
) {
    // A connection works without it, too.
    let _ = prepare(&stream);
    let Some(tls) = tls else {
        return exchange(desk, side, Arc::from([]), stream, line).await;
    };
    let clock = desk.clock();
    let handshake = TlsAcceptor::from(tls).accept(stream);
    let seat = line.seat();
    let handshake = async {
        tokio::select! {
            done = handshake => done,
            () = seat.asked_to_leave() => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    };
    let stream = match timeout(&**clock, HANDSHAKE, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return info!(v = 2, peer = %line.peer(), err = %error, "a TLS handshake failed");
        }
        Err(_) => return debug!(peer = %line.peer(), "a TLS handshake took too long"),
    };
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificates: Arc<[CertificateDer<'static>]> = certificates
        .iter()
        .map(|certificate| certificate.clone().into_owned())
        .collect();
    exchange(desk, side, certificates, stream, line).await;
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    // Answers are whole; nothing is gained by waiting for more.
    stream.set_nodelay(true)?;
    // A client that vanished without a word would keep its place, and what runs for it.
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, SILENCE)?;
    sockopt::set_tcp_keepcnt(stream, SIGNS_OF_LIFE)?;
    Ok(())
}

async fn exchange<S>(
    desk: Arc<Desk>,
    side: Side,
    certificates: Arc<[CertificateDer<'static>]>,
    stream: S,
    line: Line,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let clock = Arc::clone(desk.clock());
    let service = {
        let (clock, line) = (Arc::clone(&clock), line.clone());
        service_fn(move |request: http::Request<Incoming>| {
            let (desk, line, clock) = (Arc::clone(&desk), line.clone(), Arc::clone(&clock));
            let certificates = Arc::clone(&certificates);
            async move {
                line.begins(clock.uptime());
                let answer = desk.answer(side, &line, &certificates, request).await;
                Ok::<_, Infallible>(super::ending::while_sent(answer, line))
            }
        })
    };
    let metered = Metered::new(stream, line.clone(), Arc::clone(&clock));
    let connection = http1::Builder::new()
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(metered), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    loop {
        let seat = line.seat();
        let limit = if seat.is_busy() { LONGEST } else { IDLE };
        let left = limit.saturating_sub(seat.lasts(clock.uptime()));
        if left.is_zero() {
            break;
        }
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(peer = %line.peer(), err = %error, "a connection to the node broke");
                }
                return;
            }
            // Nothing is owed to who has not asked yet, and what they have said takes room; nor
            // to who does not take what there is.
            () = seat.asked_to_leave() => {
                if seat.is_asking() || seat.is_left_lying() {
                    return;
                }
                break;
            }
            // A request may have come or gone meanwhile: it is looked at again.
            () = clock.sleep(left.min(IDLE)) => {}
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(&*clock, LAST_ANSWER, connection).await;
}

async fn bind(address: SocketAddr, setting: &'static str) -> Result<TcpListener, BindError> {
    let bound = match address.ip() {
        // All addresses are those of both families, as Go has it.
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => {
            let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port()));
            match TcpListener::bind(all).await {
                Err(cause) if cause.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind(address).await
                }
                bound => bound,
            }
        }
        _ => TcpListener::bind(address).await,
    };
    bound.map_err(|cause| BindError::of(address, setting, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clients_that_vanish_are_noticed_as_go_does() {
        let listener = bind((Ipv4Addr::LOCALHOST, 0).into(), "port").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (accepted, _client) = tokio::join!(listener.accept(), client);
        let (stream, _) = accepted.unwrap();
        prepare(&stream).unwrap();
        assert_eq!(sockopt::socket_keepalive(&stream), Ok(true));
        assert_eq!(sockopt::tcp_keepidle(&stream), Ok(Duration::from_secs(15)));
        assert_eq!(sockopt::tcp_keepintvl(&stream), Ok(Duration::from_secs(15)));
        assert_eq!(sockopt::tcp_keepcnt(&stream), Ok(9));
    }
}
