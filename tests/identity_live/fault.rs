//! An API server that answers badly when it is told to: a way to the real one, which
//! counts what arrives.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use api::transport::{Lane, ResponseBody};
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

type Cause = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, Cause>>;

/// How requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Refused with this code, and told to come back after so many seconds.
    Refuses(StatusCode, Option<u64>),
    /// Each answer is so late.
    Slow(Duration),
}

/// Listens until it is dropped.
pub(crate) struct FaultyWay {
    pub(crate) address: SocketAddr,
    /// The certificate that it shows, PEM.
    pub(crate) authority: String,
    counts: Arc<Counts>,
    stop: CancellationToken,
}

struct Counts {
    // Each held for a moment; nothing waits on them.
    fault: Mutex<Fault>,
    arrivals: Mutex<Vec<Timestamp>>,
    connections: AtomicUsize,
}

impl FaultyWay {
    /// What is not refused goes on over `onward`, with whatever credentials that has.
    pub(crate) async fn open(onward: Lane) -> Result<Self> {
        let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der());
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], PrivateKeyDer::from(key))?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let way = Self {
            address: listener.local_addr()?,
            authority: pair.cert.pem(),
            counts: Arc::new(Counts {
                fault: Mutex::new(Fault::None),
                arrivals: Mutex::default(),
                connections: AtomicUsize::new(0),
            }),
            stop: CancellationToken::new(),
        };
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let accepting = accept(listener, acceptor, onward, Arc::clone(&way.counts));
        tokio::spawn(way.stop.clone().run_until_cancelled_owned(accepting));
        Ok(way)
    }

    /// From now on.
    pub(crate) fn answer_with(&self, fault: Fault) {
        *lock(&self.counts.fault) = fault;
    }

    pub(crate) fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn arrivals(&self) -> Vec<Timestamp> {
        lock(&self.counts.arrivals).clone()
    }
}

impl Drop for FaultyWay {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Ends, with every connection, when it is dropped.
async fn accept(listener: TcpListener, tls: TlsAcceptor, onward: Lane, counts: Arc<Counts>) {
    let connections = TaskTracker::new();
    let stop = CancellationToken::new();
    let _ends_all = stop.clone().drop_guard();
    while let Ok((stream, _)) = listener.accept().await {
        let serving = serve(stream, tls.clone(), onward.clone(), Arc::clone(&counts));
        connections.spawn(stop.clone().run_until_cancelled_owned(serving));
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, onward: Lane, counts: Arc<Counts>) {
    counts.connections.fetch_add(1, Ordering::SeqCst);
    if let Ok(stream) = tls.accept(stream).await {
        let answers = service_fn(|request| {
            let answer = answer(request, onward.clone(), Arc::clone(&counts));
            async { Ok::<_, Infallible>(answer.await) }
        });
        let connection = http2::Builder::new(TokioExecutor::new());
        // However it ended: the client says what it thinks of it.
        let _ = connection
            .serve_connection(TokioIo::new(stream), answers)
            .await;
    }
    counts.connections.fetch_sub(1, Ordering::SeqCst);
}

async fn answer(request: Request<Incoming>, onward: Lane, counts: Arc<Counts>) -> Answer {
    lock(&counts.arrivals).push(Timestamp::now());
    let fault = *lock(&counts.fault);
    match fault {
        Fault::Refuses(code, after) => return refusal(code, after),
        Fault::Slow(late) => tokio::time::sleep(late).await,
        Fault::None => {}
    }
    match pass_on(request, onward).await {
        Ok(response) => response.map(|body| body.map_err(Into::into).boxed_unsync()),
        Err(_) => refusal(StatusCode::BAD_GATEWAY, None),
    }
}

async fn pass_on(request: Request<Incoming>, onward: Lane) -> Result<Response<ResponseBody>> {
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(HOST);
    let body = kube::client::Body::from(body.collect().await?.to_bytes());
    Ok(onward.oneshot(Request::from_parts(parts, body)).await?)
}

/// As the API server puts it.
fn refusal(code: StatusCode, after: Option<u64>) -> Answer {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a fault on purpose", "code": code.as_u16(),
    });
    let body = Full::new(Bytes::from(status.to_string()));
    let mut response = Response::new(body.map_err(Into::into).boxed_unsync());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    if let Some(seconds) = after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
