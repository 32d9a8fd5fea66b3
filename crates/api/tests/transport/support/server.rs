//! An API server in this process: real TLS, real HTTP/2 or HTTP/1.1, and answers that a test
//! holds in its hand.
//!
//! | path | answer |
//! |---|---|
//! | any, with `watch=true` | whatever the test sends with [`TestServer::tell_watches`] |
//! | `/held` | nothing until [`TestServer::release`], then `held` |
//! | `/again/N/CODE` | CODE with Retry-After 7 for the first N times, then `again` |
//! | `/unauthorized` | 401 unless the token is `second` |
//! | `/api/v1/…/configmaps` | a list of one, for kube |
//! | other | the path |

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::certificates::{Authority, Signed};

type ResponseBody = Pin<Box<dyn Body<Data = Bytes, Error = Infallible> + Send>>;

pub(crate) struct TestServer {
    pub(crate) port: u16,
    pub(crate) seen: Arc<Seen>,
    tls: Arc<Mutex<Option<Arc<ServerConfig>>>>,
    control: Arc<Control>,
    _tasks: JoinSet<()>,
}

/// What the server has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Connections that were ever made, and that are open.
    pub(crate) connections: AtomicUsize,
    pub(crate) open: AtomicUsize,
    /// The most requests at once on any connection.
    pub(crate) most_streams: AtomicUsize,
    pub(crate) watches: AtomicUsize,
    pub(crate) held: AtomicUsize,
    pub(crate) requests: Mutex<Vec<SeenRequest>>,
}

#[derive(Debug, Clone)]
pub(crate) struct SeenRequest {
    pub(crate) connection: usize,
    /// The common name of the certificate that was shown.
    pub(crate) client: Option<String>,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
}

#[derive(Debug)]
struct Control {
    max_streams: Option<u32>,
    goaway: watch::Sender<u64>,
    watch_lines: broadcast::Sender<Bytes>,
    released: watch::Sender<bool>,
    paused: AtomicBool,
    resumed: Notify,
    answered: Mutex<BTreeMap<String, usize>>,
}

/// How the server differs from the usual one.
#[derive(Default)]
pub(crate) struct Kind {
    pub(crate) max_streams: Option<u32>,
    pub(crate) http1_only: bool,
    pub(crate) plain: bool,
}

impl TestServer {
    /// A server at 127.0.0.1 with a certificate of `authority`, which also vouches for clients.
    pub(crate) async fn start(authority: &Authority, kind: Kind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let signed = authority.sign("server", &["127.0.0.1", "localhost"]);
        let tls = (!kind.plain).then(|| tls(&signed, authority, kind.http1_only));
        let tls = Arc::new(Mutex::new(tls));
        let control = Arc::new(Control {
            max_streams: kind.max_streams,
            goaway: watch::Sender::new(0),
            watch_lines: broadcast::Sender::new(64),
            released: watch::Sender::new(false),
            paused: AtomicBool::new(false),
            resumed: Notify::new(),
            answered: Mutex::default(),
        });
        let seen = Arc::new(Seen::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(
            listener,
            Arc::clone(&tls),
            Arc::clone(&seen),
            Arc::clone(&control),
        ));
        Self {
            port,
            seen,
            tls,
            control,
            _tasks: tasks,
        }
    }

    pub(crate) fn address(&self) -> String {
        let tls = self.tls.lock().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// From now on it shows a certificate of another authority.
    pub(crate) fn move_to(&self, authority: &Authority) {
        let signed = authority.sign("server", &["127.0.0.1", "localhost"]);
        *self.tls.lock().unwrap() = Some(tls(&signed, authority, false));
    }

    /// Says on every connection that it goes away.
    pub(crate) fn go_away(&self) {
        self.control.goaway.send_modify(|count| *count += 1);
    }

    pub(crate) fn tell_watches(&self, text: &str) {
        let _ = self
            .control
            .watch_lines
            .send(Bytes::copy_from_slice(text.as_bytes()));
    }

    pub(crate) fn release(&self) {
        self.control.released.send_replace(true);
    }

    /// Takes connections, and says nothing on them.
    pub(crate) fn pause(&self) {
        self.control.paused.store(true, Ordering::SeqCst);
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn open(&self) -> usize {
        self.seen.open.load(Ordering::SeqCst)
    }

    pub(crate) fn watches(&self) -> usize {
        self.seen.watches.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<SeenRequest> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// The last request came with a certificate of this name, or with none.
    pub(crate) fn last_client_is(&self, name: Option<&str>) -> bool {
        let requests = self.seen.requests.lock().unwrap();
        requests
            .last()
            .is_some_and(|request| request.client.as_deref() == name)
    }

    pub(crate) fn last_request(&self) -> SeenRequest {
        self.requests().pop().unwrap()
    }
}

pub(crate) fn tls(signed: &Signed, clients: &Authority, http1_only: bool) -> Arc<ServerConfig> {
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(clients.der()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(
            signed.certified(),
        )));
    config.alpn_protocols = if http1_only {
        vec![b"http/1.1".to_vec()]
    } else {
        vec![b"h2".to_vec(), b"http/1.1".to_vec()]
    };
    Arc::new(config)
}

async fn accept(
    listener: TcpListener,
    tls: Arc<Mutex<Option<Arc<ServerConfig>>>>,
    seen: Arc<Seen>,
    control: Arc<Control>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let tls = tls.lock().unwrap().clone();
        let (seen, control) = (Arc::clone(&seen), Arc::clone(&control));
        connections.spawn(async move {
            if control.paused.load(Ordering::SeqCst) {
                control.resumed.notified().await;
            }
            handshake(stream, tls, seen, control).await;
        });
    }
}

async fn handshake(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    seen: Arc<Seen>,
    control: Arc<Control>,
) {
    let Some(tls) = tls else {
        return serve(stream, false, None, seen, control).await;
    };
    let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await else {
        return;
    };
    let session = stream.get_ref().1;
    let client = session
        .peer_certificates()
        .and_then(|chain| chain.first())
        .map(|der| common_name(der));
    let http2 = session.alpn_protocol() == Some(b"h2");
    serve(stream, http2, client, seen, control).await;
}

fn common_name(der: &[u8]) -> String {
    let (_, certificate) = X509Certificate::from_der(der).unwrap();
    let name = certificate.subject().iter_common_name().last().unwrap();
    name.as_str().unwrap().to_owned()
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    http2: bool,
    client: Option<String>,
    seen: Arc<Seen>,
    control: Arc<Control>,
) {
    let connection = seen.connections.fetch_add(1, Ordering::SeqCst);
    seen.open.fetch_add(1, Ordering::SeqCst);
    let streams = Arc::new(AtomicUsize::new(0));
    let used = Arc::new(Notify::new());
    let mut goaway = control.goaway.subscribe();
    let max_streams = control.max_streams;
    let answers = {
        let (seen, used) = (Arc::clone(&seen), Arc::clone(&used));
        service_fn(move |request: Request<Incoming>| {
            used.notify_one();
            let answer = Answer {
                stream: Counted::new(&streams, &seen.most_streams),
                seen: Arc::clone(&seen),
                control: Arc::clone(&control),
            };
            let client = client.clone();
            async move { Ok::<_, Infallible>(answer.give(request, connection, client).await) }
        })
    };
    if http2 {
        let (io, lingering) = linger(stream);
        let mut builder =
            hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
        builder.max_concurrent_streams(max_streams);
        let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(io), answers));
        let serving = async {
            tokio::select! {
                _ = &mut serving => {}
                () = asked_to_go(&mut goaway, &used) => {
                    serving.as_mut().graceful_shutdown();
                    let _ = serving.await;
                }
            }
        };
        tokio::join!(serving, lingering);
    } else {
        let serving = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), answers);
        let _ = serving.await;
    }
    seen.open.fetch_sub(1, Ordering::SeqCst);
}

/// Nobody is sent away before the first request: a server that closes in the handshake is one
/// that cannot be reached.
async fn asked_to_go(goaway: &mut watch::Receiver<u64>, used: &Notify) {
    used.notified().await;
    let _ = goaway.changed().await;
}

/// What hyper is to serve, and what carries it: as Go's server, it reads on after the last word
/// until the client has closed. A socket that is closed with something unread in it would take
/// its farewell back.
fn linger(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> (DuplexStream, impl Future<Output = ()>) {
    let (io, far) = tokio::io::duplex(64 << 10);
    let (mut from_client, mut to_client) = tokio::io::split(stream);
    let (mut from_server, mut to_server) = tokio::io::split(far);
    let carry = async move {
        let answers = tokio::io::copy(&mut from_server, &mut to_client);
        let questions = async {
            let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
            let _ = tokio::io::copy(&mut from_client, &mut tokio::io::sink()).await;
            let _ = to_server.shutdown().await;
        };
        let _ = tokio::join!(answers, questions);
    };
    (io, carry)
}

/// Counts a request on its connection for as long as its answer lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(streams: &Arc<AtomicUsize>, most: &AtomicUsize) -> Self {
        let now = streams.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(streams))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Answer {
    stream: Counted,
    seen: Arc<Seen>,
    control: Arc<Control>,
}

impl Answer {
    async fn give(
        self,
        request: Request<Incoming>,
        connection: usize,
        client: Option<String>,
    ) -> Response<ResponseBody> {
        let target = request.uri().path_and_query().unwrap().to_string();
        let headers = request.headers().clone();
        let token = headers.get("authorization").cloned();
        self.seen.requests.lock().unwrap().push(SeenRequest {
            connection,
            client,
            target: target.clone(),
            headers,
        });
        let path = request.uri().path().to_owned();
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        request.into_body().collect().await.unwrap();
        if is_watch {
            return self.watch();
        }
        if path == "/held" {
            self.seen.held.fetch_add(1, Ordering::SeqCst);
            let mut released = self.control.released.subscribe();
            released.wait_for(|released| *released).await.unwrap();
            return whole(StatusCode::OK, "held");
        }
        if path == "/unauthorized" && token.is_none_or(|token| token != "Bearer second") {
            return whole(StatusCode::UNAUTHORIZED, "who are you?");
        }
        if path.ends_with("/configmaps") {
            return whole(
                StatusCode::OK,
                r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"one","namespace":"default","resourceVersion":"7"}}]}"#,
            );
        }
        if let Some(rest) = path.strip_prefix("/again/") {
            let (times, code) = rest.split_once('/').unwrap();
            let mut answered = self.control.answered.lock().unwrap();
            let count = answered.entry(path.clone()).or_default();
            *count += 1;
            if *count <= times.parse().unwrap() {
                let mut response = whole(StatusCode::from_bytes(code.as_bytes()).unwrap(), "later");
                response
                    .headers_mut()
                    .insert("retry-after", http::HeaderValue::from_static("7"));
                return response;
            }
            return whole(StatusCode::OK, "again");
        }
        whole(StatusCode::OK, &target)
    }

    fn watch(self) -> Response<ResponseBody> {
        let lines = self.control.watch_lines.subscribe();
        let watching = Watching {
            seen: Arc::clone(&self.seen),
            _stream: self.stream,
        };
        watching.seen.watches.fetch_add(1, Ordering::SeqCst);
        let stream = futures_util::stream::unfold((lines, watching), |(mut lines, it)| async {
            let line = lines.recv().await.ok()?;
            Some((Ok(Frame::data(line)), (lines, it)))
        });
        let mut response = Response::new(Box::pin(StreamBody::new(stream)) as ResponseBody);
        response.headers_mut().insert(
            "content-type",
            http::HeaderValue::from_static("application/json"),
        );
        response
    }
}

struct Watching {
    seen: Arc<Seen>,
    _stream: Counted,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.seen.watches.fetch_sub(1, Ordering::SeqCst);
    }
}

fn whole(status: StatusCode, text: &str) -> Response<ResponseBody> {
    let body = Full::new(Bytes::copy_from_slice(text.as_bytes()));
    let mut response = Response::new(Box::pin(body) as ResponseBody);
    *response.status_mut() = status;
    response
}
