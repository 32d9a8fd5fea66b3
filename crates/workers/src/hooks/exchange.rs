//! One GET, over a connection of its own: plain or with TLS, redirects followed as
//! long as they stay with the host. Errors are in Go's words: users see them.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HOST, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use seams::SharedNet;
use seams::net::{Connection, Destination, DialError};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;

use super::redirect::{Next, next};
use super::request::Get;
use super::tls::trusting;

/// An answer is read so far, and a longer one not at all.
const LONGEST_BODY: usize = 10 * 1024;

/// Where a request ends up at last.
const MOST_REDIRECTS: usize = 10;

/// What a plain server's answer begins with.
const PLAIN: &[u8; 5] = b"HTTP/";

/// Who asks, and over what.
#[derive(Clone, Debug)]
pub(super) struct Web {
    net: SharedNet,
    /// Made when it is first needed, which is never on most nodes.
    tls: Arc<OnceLock<Arc<ClientConfig>>>,
}

/// Why there was no answer.
#[derive(Debug, Error)]
#[error("Get {url:?}: {cause}")]
pub(crate) struct NoAnswer {
    url: String,
    cause: Cause,
}

#[derive(Debug, Error)]
enum Cause {
    #[error("dial tcp: lookup {host}: {}", words(.cause))]
    Lookup { host: String, cause: io::Error },
    #[error("dial tcp {address}: connect: {}", words(.cause))]
    Connect {
        address: std::net::SocketAddr,
        cause: io::Error,
    },
    #[error("http: server gave HTTP response to HTTPS client")]
    Plain,
    #[error("tls: {0}")]
    Tls(io::Error),
    #[error("EOF")]
    End,
    #[error("{0}")]
    Exchange(String),
    #[error("stopped after {MOST_REDIRECTS} redirects")]
    Redirects,
}

impl NoAnswer {
    /// One who was asked for TLS has answered without.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.cause, Cause::Plain)
    }
}

impl Web {
    pub(super) fn new(net: SharedNet) -> Self {
        let tls = Arc::default();
        Self { net, tls }
    }

    /// The status of the last answer.
    pub(super) async fn get(&self, first: &Get) -> Result<StatusCode, NoAnswer> {
        let mut get = first.clone();
        for _ in 0..MOST_REDIRECTS {
            let failed = |cause| NoAnswer {
                url: get.url(),
                cause,
            };
            let (status, location) = self.ask(&get).await.map_err(failed)?;
            match next(&get, status, location.as_deref()) {
                Next::Stay => return Ok(status),
                Next::Go(elsewhere) => get = *elsewhere,
            }
        }
        Err(NoAnswer {
            url: get.url(),
            cause: Cause::Redirects,
        })
    }

    /// The status, and where it points.
    async fn ask(&self, get: &Get) -> Result<(StatusCode, Option<String>), Cause> {
        let to = Destination {
            host: &get.host,
            port: get.port,
            linger: None,
        };
        let connection = self.net.dial(to).await?;
        if !get.https {
            return exchange(connection, get).await;
        }
        let name = ServerName::try_from(get.host.clone());
        let name = name.map_err(|cause| Cause::Exchange(cause.to_string()))?;
        let mut overheard = Overheard::new(connection);
        let connector = TlsConnector::from(self.tls()?);
        let cause = match connector.connect(name, &mut overheard).await {
            Ok(secure) => return exchange(secure, get).await,
            Err(cause) => cause,
        };
        if overheard.first == PLAIN {
            return Err(Cause::Plain);
        }
        Err(Cause::Tls(cause))
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, Cause> {
        if let Some(config) = self.tls.get() {
            return Ok(Arc::clone(config));
        }
        let config = trusting().map_err(|error| Cause::Exchange(error.to_string()))?;
        // Of two that are made at once either will do.
        Ok(Arc::clone(self.tls.get_or_init(|| config)))
    }
}

impl From<DialError> for Cause {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Lookup { host, cause } => Self::Lookup { host, cause },
            DialError::Connect { address, cause } => Self::Connect { address, cause },
        }
    }
}

/// As Go says it: without a number, and not as if a sentence began.
fn words(cause: &io::Error) -> String {
    let text = cause.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    get: &Get,
) -> Result<(StatusCode, Option<String>), Cause> {
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.title_case_headers(true);
    let handshake = builder.handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|error| fault(&error))?;
    let request = request(get)?;
    let talk = async move {
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| fault(&error))?;
        let location = answer.headers().get(LOCATION);
        let location = location.and_then(|value| value.to_str().ok());
        let (status, location) = (answer.status(), location.map(str::to_owned));
        hear_out(answer).await;
        Ok((status, location))
    };
    tokio::select! {
        outcome = talk => outcome,
        // The talk has the last word, even on how the connection ended.
        () = async {
            let _ = connection.await;
            std::future::pending::<()>().await;
        } => Err(Cause::End),
    }
}

fn request(get: &Get) -> Result<http::Request<Empty<Bytes>>, Cause> {
    let bad = |error: http::Error| Cause::Exchange(error.to_string());
    let path = match get.path.as_str() {
        "" => "/".to_owned(),
        query if query.starts_with('?') => format!("/{query}"),
        path => path.to_owned(),
    };
    let mut request = http::Request::get(path).body(Empty::new()).map_err(bad)?;
    let host = match &get.host_header {
        Some(host) => host.clone(),
        None => HeaderValue::try_from(get.authority()).map_err(|error| bad(error.into()))?,
    };
    let headers = request.headers_mut();
    headers.insert(HOST, host);
    headers.extend(get.headers.clone());
    if !headers.contains_key(ACCEPT_ENCODING) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(request)
}

/// A short answer is read to its end, for the sake of who sends it.
async fn hear_out(answer: Response<Incoming>) {
    let length = answer.headers().get(CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > LONGEST_BODY) {
        return;
    }
    let mut body = answer.into_body();
    let mut heard = 0;
    while let Some(Ok(frame)) = body.frame().await {
        heard += frame.data_ref().map_or(0, Bytes::len);
        if heard >= LONGEST_BODY {
            return;
        }
    }
}

fn fault(error: &hyper::Error) -> Cause {
    if error.is_incomplete_message() {
        return Cause::End;
    }
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<io::Error>());
    match source {
        Some(source) if source.kind() == io::ErrorKind::UnexpectedEof => Cause::End,
        Some(source) => Cause::Exchange(format!("read: {}", words(source))),
        None => Cause::Exchange(error.to_string()),
    }
}

/// A connection whose first bytes are kept: what is no TLS may be plain HTTP.
#[derive(Debug)]
struct Overheard {
    inner: Box<dyn Connection>,
    first: Vec<u8>,
}

impl Overheard {
    fn new(inner: Box<dyn Connection>) -> Self {
        Self {
            inner,
            first: Vec::with_capacity(PLAIN.len()),
        }
    }
}

impl AsyncRead for Overheard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let missing = PLAIN.len().saturating_sub(self.first.len());
        let fresh = &buffer.filled()[before..];
        self.first.extend(fresh.iter().take(missing));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Overheard {
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
