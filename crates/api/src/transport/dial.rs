//! Making a connection: TCP, perhaps a proxy, TLS, HTTP.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use rustls::{AlertDescription, CertificateError};
use seams::{Clock, Elapsed, SharedClock};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::identity::Identity;
use super::link::{ConnectionTasks, Driver, Http2Link, Link, Tasks};
use super::proxy::{self, Stream};
use super::trust::ServerTrust;
use crate::kubeconfig::{Proxy, ProxyScheme};

// Upstream's figures.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_secs(30);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// How long one address is given. The kernel asks it again after ever longer pauses: whoever
/// waits for that finds a network that has come back many seconds too late.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(5);

/// How often we look whether the server has told its settings: hyper tells nobody.
const SETTINGS_POLL: Duration = Duration::from_millis(1);
/// Files are not read more often than this, however often handshakes fail.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// What one stream may receive unread: a list of objects in a few round trips, and no more
/// memory than that for a watcher that stalls.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
const BUFFER: usize = 64 << 10;

/// Counts changes of what handshakes are made with. Connections from before a change are
/// drained.
#[derive(Debug, Default)]
pub(super) struct Changes {
    epoch: AtomicU64,
    /// Wakes the keeper.
    pub(super) wake: Notify,
}

impl Changes {
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    pub(super) fn happened(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.wake.notify_one();
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[error("{server} cannot be reached{}: {problem}", via.as_ref().map(|proxy| format!(" through {proxy}")).unwrap_or_default())]
pub struct DialError {
    /// `https://HOST:PORT`
    pub server: String,
    /// The proxy, if there is one.
    pub via: Option<String>,
    pub problem: DialProblem,
}

/// What went wrong on the way.
#[derive(Debug, thiserror::Error)]
pub enum DialProblem {
    #[error("the name {host} cannot be resolved: {source}")]
    Resolve { host: String, source: io::Error },
    #[error("{}: {address}", said(source))]
    Connect {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("no connection to {target} within {} s; check the address, routes and firewalls", after.as_secs())]
    ConnectTimeout { target: String, after: Duration },
    #[error("the proxy did not pass us on: {0}")]
    Proxy(String),
    #[error("{0}")]
    Certificate(String),
    #[error("the server refused us in the TLS handshake: {0}; check the client certificate")]
    Refused(String),
    #[error("the TLS handshake failed: {0}")]
    Tls(String),
    #[error("no TLS handshake with {target} within {} s", after.as_secs())]
    TlsTimeout { target: String, after: Duration },
    #[error("it does not speak HTTP with us: {0}")]
    Http(String),
    #[error("it said nothing in HTTP/2 within {} s", after.as_secs())]
    Silent { after: Duration },
}

impl DialProblem {
    /// Other files may help.
    fn is_about_identity(&self) -> bool {
        matches!(
            self,
            Self::Certificate(_) | Self::Refused(_) | Self::Tls(_) | Self::Http(_)
        )
    }
}

/// Makes connections to one server.
#[derive(Debug)]
pub(super) struct Dialer {
    target: Target,
    proxy: Option<Proxy>,
    tls: Option<TlsSide>,
    clock: SharedClock,
    pub(super) changes: Arc<Changes>,
    // When files were last read because of a failed handshake. Held for a comparison.
    looked: Mutex<Option<Duration>>,
}

/// Where the server is.
#[derive(Debug)]
pub(super) struct Target {
    /// Without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) label: String,
}

impl Target {
    fn authority(host: &str, port: u16) -> String {
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }

    pub(super) fn new(uri: &http::Uri) -> Self {
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let scheme = uri.scheme_str().unwrap_or("https");
        let port = uri.port_u16();
        let port = port.unwrap_or(if scheme == "http" { 80 } else { 443 });
        Self {
            label: format!("{scheme}://{}", Self::authority(host, port)),
            host: host.to_owned(),
            port,
        }
    }
}

/// How TLS is spoken.
pub(super) struct TlsSide {
    pub(super) to_server: TlsConnector,
    /// As Go: whom the server's CA vouches for. The node's own certificate is not shown there.
    pub(super) to_proxy: TlsConnector,
    pub(super) server_name: ServerName<'static>,
    pub(super) trust: ServerTrust,
    pub(super) identity: Arc<Identity>,
}

impl std::fmt::Debug for TlsSide {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("TlsSide")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

impl TlsSide {
    pub(super) fn is_reloadable(&self) -> bool {
        self.trust.is_reloadable() || self.identity.is_reloadable()
    }

    /// Looks at every file again; true if something is new.
    pub(super) fn reload(&self) -> bool {
        let trust = self.trust.reload();
        self.identity.reload() || trust
    }
}

/// A connection that the server has answered on.
pub(super) struct Dialed {
    pub(super) link: Link,
    pub(super) driver: Driver,
    /// Ends everything on it at once.
    pub(super) cut: CancellationToken,
    /// What [`Changes::epoch`] was before the handshake.
    pub(super) epoch: u64,
}

impl Dialer {
    pub(super) fn new(
        target: Target,
        proxy: Option<Proxy>,
        tls: Option<TlsSide>,
        clock: SharedClock,
    ) -> Self {
        Self {
            target,
            proxy,
            tls,
            clock,
            changes: Arc::default(),
            looked: Mutex::new(None),
        }
    }

    /// The server as errors name it.
    pub(super) fn server(&self) -> &str {
        &self.target.label
    }

    pub(super) fn is_reloadable(&self) -> bool {
        self.tls.as_ref().is_some_and(TlsSide::is_reloadable)
    }

    /// Looks at the files again, and has connections drained if one has changed.
    pub(super) fn reload(&self) -> bool {
        let changed = self.tls.as_ref().is_some_and(TlsSide::reload);
        if changed {
            self.changes.happened();
        }
        changed
    }

    pub(super) async fn dial(&self, tasks: &Tasks) -> Result<Dialed, DialError> {
        let mut outcome = self.attempt(tasks).await;
        if let Err(problem) = &outcome
            && problem.is_about_identity()
            && self.may_look_again()
            && self.reload()
        {
            outcome = self.attempt(tasks).await;
        }
        outcome.map_err(|problem| DialError {
            server: self.target.label.clone(),
            via: self.proxy.as_ref().map(ToString::to_string),
            problem,
        })
    }

    fn may_look_again(&self) -> bool {
        let now = self.clock.uptime();
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let may = looked.is_none_or(|last| now.saturating_sub(last) >= LOOK_AGAIN);
        if may {
            *looked = Some(now);
        }
        may
    }

    async fn attempt(&self, tasks: &Tasks) -> Result<Dialed, DialProblem> {
        let epoch = self.changes.epoch();
        let stream = self.reach().await?;
        let (stream, http2) = match &self.tls {
            None => (stream, false),
            Some(tls) => {
                let stream = self
                    .handshake(&tls.to_server, tls.server_name.clone(), stream)
                    .await?;
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                (Box::new(stream) as Stream, http2)
            }
        };
        let cut = tasks.ending.child_token();
        let (link, driver) = if http2 {
            // Whatever hyper has started for it ends if nobody wants it.
            let abandoned = cut.clone().drop_guard();
            let connection_tasks = ConnectionTasks {
                tasks: tasks.clone(),
                cut: cut.clone(),
            };
            let (link, driver) = self.speak_http2(stream, connection_tasks).await?;
            abandoned.disarm();
            (Link::Http2(link), driver)
        } else {
            speak_http1(stream).await?
        };
        Ok(Dialed {
            link,
            driver,
            cut,
            epoch,
        })
    }

    /// Bytes to the server, through the proxy if there is one.
    async fn reach(&self) -> Result<Stream, DialProblem> {
        let target = &self.target;
        let Some(proxy) = &self.proxy else {
            return Ok(Box::new(self.connect(&target.host, target.port).await?));
        };
        let mut stream: Stream = Box::new(self.connect(&proxy.host, proxy.port).await?);
        if proxy.scheme == ProxyScheme::Https {
            let Some(tls) = &self.tls else {
                return Err(DialProblem::Proxy(
                    "an https proxy needs a server that speaks https".to_owned(),
                ));
            };
            let name = server_name(&proxy.host).map_err(|error| {
                DialProblem::Proxy(format!("{} is no name of a server: {error}", proxy.host))
            })?;
            stream = Box::new(self.handshake(&tls.to_proxy, name, stream).await?);
        }
        let authority = Target::authority(&target.host, target.port);
        let passed = proxy::through(proxy, stream, &authority);
        seams::timeout(&*self.clock, CONNECT_TIMEOUT, passed)
            .await
            .map_err(|Elapsed| DialProblem::ConnectTimeout {
                target: authority.clone(),
                after: CONNECT_TIMEOUT,
            })?
            .map_err(|error| DialProblem::Proxy(causes(&*error)))
    }

    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, DialProblem> {
        let stream = seams::timeout(
            &*self.clock,
            CONNECT_TIMEOUT,
            connect(host, port, &*self.clock),
        )
        .await
        .map_err(|Elapsed| DialProblem::ConnectTimeout {
            target: Target::authority(host, port),
            after: CONNECT_TIMEOUT,
        })??;
        // A connection works without them.
        let _ = stream.set_nodelay(true);
        let _ = sockopt::set_socket_keepalive(&stream, true);
        let _ = sockopt::set_tcp_keepidle(&stream, KEEPALIVE);
        let _ = sockopt::set_tcp_keepintvl(&stream, KEEPALIVE);
        Ok(stream)
    }

    async fn handshake(
        &self,
        connector: &TlsConnector,
        name: ServerName<'static>,
        stream: Stream,
    ) -> Result<tokio_rustls::client::TlsStream<Stream>, DialProblem> {
        let target = name.to_str().into_owned();
        seams::timeout(
            &*self.clock,
            HANDSHAKE_TIMEOUT,
            connector.connect(name, stream),
        )
        .await
        .map_err(|Elapsed| DialProblem::TlsTimeout {
            target,
            after: HANDSHAKE_TIMEOUT,
        })?
        .map_err(|error| tls_problem(&error))
    }

    /// Waits for the server's settings: before, nobody knows how many streams it takes, and TLS
    /// 1.3 has not told whether it takes our certificate.
    async fn speak_http2(
        &self,
        stream: Stream,
        tasks: ConnectionTasks,
    ) -> Result<(Http2Link, Driver), DialProblem> {
        let (sender, connection) = http2::Builder::new(tasks)
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(BUFFER)
            // None, so that the server's word shows.
            .initial_max_send_streams(0)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| http_problem(&error))?;
        let (link, mut driver) = Http2Link::new(sender, connection);
        tokio::select! {
            outcome = &mut driver => Err(match outcome {
                Ok(()) => DialProblem::Http("it closed the connection".to_owned()),
                Err(error) => http_problem(&error),
            }),
            told = settings(&*self.clock, &link) => match told {
                Ok(()) => Ok((link, driver)),
                Err(Elapsed) => Err(DialProblem::Silent { after: HANDSHAKE_TIMEOUT }),
            },
        }
    }
}

async fn settings(clock: &dyn Clock, link: &Http2Link) -> Result<(), Elapsed> {
    seams::timeout(clock, HANDSHAKE_TIMEOUT, async {
        while link.announced_limit() == 0 {
            clock.sleep(SETTINGS_POLL).await;
        }
    })
    .await
}

async fn speak_http1(stream: Stream) -> Result<(Link, Driver), DialProblem> {
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(BUFFER)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| http_problem(&error))?;
    Ok((Link::Http1(sender), Box::pin(connection)))
}

/// The first address of the host that answers. Each gets its share of the time, so that one that
/// swallows everything does not stand for all.
async fn connect(host: &str, port: u16, clock: &dyn Clock) -> Result<TcpStream, DialProblem> {
    let addresses = lookup_host((host, port))
        .await
        .map_err(|source| DialProblem::Resolve {
            host: host.to_owned(),
            source,
        })?;
    let mut failure = DialProblem::Resolve {
        host: host.to_owned(),
        source: io::Error::other("the name has no address"),
    };
    let addresses: Vec<SocketAddr> = addresses.collect();
    let share = CONNECT_TIMEOUT / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let share = share.min(ADDRESS_TIMEOUT);
    for address in addresses {
        failure = match seams::timeout(clock, share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(source)) => DialProblem::Connect { address, source },
            Err(_) => DialProblem::Connect {
                address,
                source: io::ErrorKind::TimedOut.into(),
            },
        };
    }
    Err(failure)
}

pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, InvalidDnsNameError> {
    ServerName::try_from(host.to_owned())
}

fn tls_problem(error: &io::Error) -> DialProblem {
    let inner = error.get_ref().map(|inner| inner as &(dyn Error + 'static));
    match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(reason)) => {
            DialProblem::Certificate(unbelievable(reason))
        }
        Some(rustls::Error::AlertReceived(alert)) => DialProblem::Refused(alert_name(*alert)),
        _ => DialProblem::Tls(said(error)),
    }
}

/// What is wrong with the server's certificate, in the words that operators search for.
fn unbelievable(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => "its certificate is signed by an unknown authority; check certificate-authority in the kubeconfig".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "its certificate is not valid for {}, but for {}; check the server's address, or set tls-server-name",
            expected.to_str(),
            if presented.is_empty() { "no name".to_owned() } else { presented.join(", ") }
        ),
        CertificateError::NotValidForName => "its certificate is not valid for this name; check the server's address, or set tls-server-name".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => format!("its certificate has expired ({reason}); check the clock, then renew it"),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => format!("its certificate is not valid yet ({reason}); check the clock"),
        other => format!("its certificate cannot be believed: {other}"),
    }
}

fn alert_name(alert: AlertDescription) -> String {
    format!("{alert:?}")
}

/// An error that may come from below HTTP.
fn http_problem(error: &hyper::Error) -> DialProblem {
    let text = causes(error);
    if text.contains("fatal alert") {
        DialProblem::Refused(text)
    } else {
        DialProblem::Http(text)
    }
}

/// An I/O error in lower case and without its number, as Go prints it.
fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        _ => error.to_string(),
    }
}

/// The error and what lies below it, in one line.
pub(super) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = cause.source();
    }
    text
}
