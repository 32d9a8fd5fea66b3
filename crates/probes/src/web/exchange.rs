//! One GET, over a connection of its own: plain or with TLS, redirects followed as
//! long as they stay with the host. Errors are in Go's words: users see them.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use seams::net::{Connection, Destination, DialError};
use seams::{Clock, SharedNet, Sleep};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;

use super::redirect::{Next, next};
use super::request::{Asker, Get};
use super::tls::trusting;

/// An answer is read so far.
const LONGEST_BODY: usize = 10 * 1024;

/// Where a request ends up at last.
const MOST_REDIRECTS: usize = 10;

/// Go counts bytes, not headers; for each there is room set aside with every answer.
const MOST_HEADERS: usize = 512;

/// So long a server may take to close what it was asked to close.
const FAREWELL: Duration = Duration::from_millis(50);

/// What a plain server's answer begins with.
const PLAIN: &[u8; 5] = b"HTTP/";

/// Who asks, and over what.
#[derive(Clone, Debug)]
pub struct Web {
    net: SharedNet,
    /// Made when it is first needed, which is never on most nodes.
    tls: Arc<OnceLock<Arc<ClientConfig>>>,
}

/// The last answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub status: StatusCode,
    /// The beginning of it; a hook's is nobody's.
    pub body: Vec<u8>,
}

/// Why there was no answer.
#[derive(Debug, Error)]
pub enum NoAnswer {
    #[error("Get {url:?}: {cause}")]
    None { url: String, cause: Cause },
    /// It began, and did not end.
    #[error(transparent)]
    Half(#[from] Half),
}

#[derive(Debug, Error)]
pub enum Cause {
    #[error("{}", dial_words(.0))]
    Dial(#[from] DialError),
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
    #[error("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    Time,
}

/// Why an answer did not come to its end.
#[derive(Debug, Error)]
pub enum Half {
    #[error(
        "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
    )]
    Time,
    #[error("unexpected EOF")]
    End,
    #[error("{0}")]
    Broken(String),
}

/// What came of one request.
enum Answered {
    Last(Heard),
    /// It points elsewhere: where to, and in which words.
    Elsewhere(Box<Get>, String),
}

/// A talk that is over: what came of it, and the connection, if both sides have said all.
struct Over {
    answered: Answered,
    connection: Option<Box<dyn Connection>>,
}

/// Why nothing came of one request.
enum Failed {
    Before(Cause),
    /// Where it was sent nobody can go.
    Astray {
        url: String,
        why: String,
    },
    Amid(Half),
}

impl From<Cause> for Failed {
    fn from(cause: Cause) -> Self {
        Self::Before(cause)
    }
}

impl NoAnswer {
    /// One who was asked for TLS has answered without.
    pub fn is_plain(&self) -> bool {
        matches!(self.cause(), Some(Cause::Plain))
    }

    /// The time was up before anything was heard.
    pub fn is_timeout(&self) -> bool {
        matches!(self.cause(), Some(Cause::Time))
    }

    fn cause(&self) -> Option<&Cause> {
        match self {
            Self::None { cause, .. } => Some(cause),
            Self::Half(_) => None,
        }
    }
}

impl Web {
    pub fn new(net: SharedNet) -> Self {
        let tls = Arc::default();
        Self { net, tls }
    }

    /// Takes as long as it takes.
    pub async fn get(&self, first: &Get) -> Result<Heard, NoAnswer> {
        self.follow(first, None).await
    }

    /// The same, with this time for all of it.
    pub async fn get_within(
        &self,
        first: &Get,
        clock: &dyn Clock,
        limit: Duration,
    ) -> Result<Heard, NoAnswer> {
        self.follow(first, Some((clock, clock.sleep(limit)))).await
    }

    async fn follow(
        &self,
        first: &Get,
        mut time: Option<(&dyn Clock, Sleep)>,
    ) -> Result<Heard, NoAnswer> {
        let mut get = first.clone();
        let mut last_place = String::new();
        for _ in 0..MOST_REDIRECTS {
            let begun = AtomicBool::new(false);
            let over = tokio::select! {
                // What has come counts, however late it is looked at.
                biased;
                over = self.ask(&get, &begun) => over,
                () = up(time.as_mut()) => Err(if begun.load(Relaxed) {
                    Failed::Amid(Half::Time)
                } else {
                    Failed::Before(Cause::Time)
                }),
            };
            let over = over.map_err(|failed| match failed {
                Failed::Before(cause) => NoAnswer::None {
                    url: get.url(),
                    cause,
                },
                Failed::Astray { url, why } => NoAnswer::None {
                    url,
                    cause: Cause::Exchange(why),
                },
                Failed::Amid(half) => half.into(),
            })?;
            // The answer is there: what follows is not in its time.
            if let (Some(connection), Some((clock, _))) = (over.connection, &time) {
                part(connection, *clock).await;
            }
            match over.answered {
                Answered::Last(heard) => return Ok(heard),
                Answered::Elsewhere(elsewhere, place) => (get, last_place) = (*elsewhere, place),
            }
        }
        Err(NoAnswer::None {
            url: last_place,
            cause: Cause::Redirects,
        })
    }

    /// `begun` is told when an answer comes.
    async fn ask(&self, get: &Get, begun: &AtomicBool) -> Result<Over, Failed> {
        let to = Destination {
            host: &get.host,
            port: get.port,
        };
        let connection = self.net.dial(to).await.map_err(Cause::Dial)?;
        if !get.https {
            return exchange(connection, get, begun).await;
        }
        let name = ServerName::try_from(get.host.clone());
        let name = name.map_err(|cause| Cause::Exchange(cause.to_string()))?;
        let connector = TlsConnector::from(self.tls()?);
        let secure = connector.connect(name, Overheard::new(connection));
        let (cause, overheard) = match secure.into_fallible().await {
            Ok(secure) => return exchange(Box::new(secure), get, begun).await,
            Err(failed) => failed,
        };
        if overheard.first == PLAIN {
            return Err(Cause::Plain.into());
        }
        Err(Cause::Tls(cause).into())
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

async fn up(time: Option<&mut (&dyn Clock, Sleep)>) {
    match time {
        Some((_, limit)) => limit.await,
        None => std::future::pending().await,
    }
}

/// Lets the other side close first, if it does so soon: the kernel keeps the port of whoever
/// was first for a minute, and those of a thousand probes a second are all that a node has.
async fn part(mut connection: Box<dyn Connection>, clock: &dyn Clock) {
    let mut rest = [0];
    tokio::select! {
        biased;
        _ = connection.read(&mut rest) => {}
        () = clock.sleep(FAREWELL) => {}
    }
}

/// Why nobody was reached, as Go says it.
pub(crate) fn dial_words(error: &DialError) -> String {
    match error {
        DialError::Lookup { host, cause } => format!("dial tcp: lookup {host}: {}", words(cause)),
        DialError::Connect { address, cause } => {
            format!("dial tcp {address}: connect: {}", words(cause))
        }
    }
}

/// Without a number, and not as if a sentence began.
fn words(cause: &io::Error) -> String {
    let text = cause.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

async fn exchange(
    stream: Box<dyn Connection>,
    get: &Get,
    begun: &AtomicBool,
) -> Result<Over, Failed> {
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.title_case_headers(true);
    // As Go has it: heads of many lines, and lines that go on in the next one, are read.
    builder.max_headers(MOST_HEADERS);
    builder.allow_obsolete_multiline_headers_in_responses(true);
    let handshake = builder.handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|error| fault(&error))?;
    let request = request(get)?;
    let talk = async move {
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| fault(&error))?;
        begun.store(true, Relaxed);
        let location = answer.headers().get(LOCATION);
        let location = location.map(|value| value.as_bytes().to_vec());
        let status = answer.status();
        match next(get, status, location.as_deref()) {
            Next::Stay => {}
            Next::Go(elsewhere) => {
                let place = String::from_utf8_lossy(&location.unwrap_or_default()).into_owned();
                return Ok(Answered::Elsewhere(elsewhere, place));
            }
            Next::Nowhere { url, why } => return Err(Failed::Astray { url, why }),
        }
        let body = match get.asker {
            Asker::Hook => {
                hear_out(answer).await;
                Vec::new()
            }
            Asker::Probe => read(answer).await.map_err(Failed::Amid)?,
        };
        Ok(Answered::Last(Heard { status, body }))
    };
    // It moves only while it is asked to; it does not close what it was given.
    let mut connection = pin!(connection.without_shutdown());
    let mut talk = pin!(talk);
    let mut ended = None;
    let answered = poll_fn(|context| {
        let mut go_on = |context: &mut Context<'_>| {
            if ended.is_none()
                && let Poll::Ready(end) = connection.as_mut().poll(context)
            {
                ended = Some(end);
            }
        };
        go_on(context);
        // The talk has the last word, even on how the connection ended.
        let answered: Result<Answered, Failed> = ready!(talk.as_mut().poll(context));
        go_on(context);
        Poll::Ready(answered)
    });
    let answered = answered.await?;
    let connection = ended.and_then(Result::ok);
    Ok(Over {
        answered,
        connection: connection.map(|parts| parts.io.into_inner()),
    })
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
    // Upstream's hooks leave the connection open and take what is packed; its probes
    // do neither.
    let (name, value) = match get.asker {
        Asker::Hook => (ACCEPT_ENCODING, "gzip"),
        Asker::Probe => (CONNECTION, "close"),
    };
    if !headers.contains_key(&name) {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(request)
}

/// A short answer is read to its end, for the sake of who sends it; a longer one not at
/// all.
async fn hear_out(answer: Response<Incoming>) {
    let length = answer.headers().get(CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_none_or(|length| length <= LONGEST_BODY) {
        let _ = read(answer).await;
    }
}

/// The beginning of an answer; the rest is not waited for.
async fn read(answer: Response<Incoming>) -> Result<Vec<u8>, Half> {
    let mut body = answer.into_body();
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match fault(&error) {
            Cause::End => Half::End,
            cause => Half::Broken(cause.to_string()),
        })?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        let room = LONGEST_BODY - read.len();
        read.extend_from_slice(&data[..data.len().min(room)]);
        if read.len() == LONGEST_BODY {
            break;
        }
    }
    Ok(read)
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
