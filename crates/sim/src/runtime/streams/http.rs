//! How streams are asked for: an HTTP request for a place, and SPDY from then on.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::http::header::{CONNECTION, CONTENT_TYPE, HeaderName, UPGRADE, X_CONTENT_TYPE_OPTIONS};
use ::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use seams::timeout;
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::Core;
use super::place::Wanted;
use super::talk::Talk;
use super::{command, forward};

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED_VERSIONS: HeaderName =
    HeaderName::from_static("x-accepted-stream-protocol-versions");

const SPDY: &str = "SPDY/3.1";

/// What is spoken over the streams of a command: the version in which its exit code is
/// told. Every client since 2016 has it.
const COMMAND: &str = "v4.channel.k8s.io";
/// And over those of a port.
const PORT: &str = "portforward.k8s.io";

/// For a request to come, and the answer to go.
const ASKING: Duration = Duration::from_secs(30);

/// What was agreed on with a client.
type Agreed = Arc<Mutex<Option<(Wanted, OnUpgrade)>>>;

/// Serves one connection, to its end.
pub(super) async fn serve<C>(core: Arc<Core>, connection: C)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let agreed = Agreed::default();
    let service = service_fn(|mut request: Request<hyper::body::Incoming>| {
        let answer = match wanted(&core, &request) {
            Ok((wanted, answer)) => {
                let switched = hyper::upgrade::on(&mut request);
                let mut agreed = agreed.lock().unwrap_or_else(PoisonError::into_inner);
                *agreed = Some((wanted, switched));
                answer
            }
            Err(refused) => refused.answer(),
        };
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let asked = http1::Builder::new()
        .serve_connection(TokioIo::new(connection), service)
        .with_upgrades();
    // Who breaks off, or stays silent, has not asked.
    let _ = timeout(&*core.clock, ASKING, asked).await;
    let agreed = agreed.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((wanted, switched)) = agreed else {
        return;
    };
    let Ok(switched) = switched.await else {
        return;
    };
    let Ok(talk) = Talk::new(TokioIo::new(switched)) else {
        return;
    };
    match wanted {
        Wanted::Exec(request) => command::exec(&core, request, talk).await,
        Wanted::Attach(request) => command::attach(&core, request, talk).await,
        Wanted::PortForward(request) => forward::forward(&core, &request, talk).await,
    }
}

/// Why there are no streams, in the words of other runtimes.
#[derive(Debug)]
enum Refused {
    NoPlace,
    NoSpdy,
    NoProtocol,
    OtherProtocol {
        offered: Vec<String>,
        spoken: &'static str,
    },
}

impl Refused {
    fn answer(self) -> Response<Full<Bytes>> {
        let (status, words) = match &self {
            Self::NoPlace => (StatusCode::NOT_FOUND, "404 page not found".to_owned()),
            Self::NoSpdy => (
                StatusCode::BAD_REQUEST,
                format!(
                    "unable to upgrade: the simulated runtime speaks {SPDY}, which was not asked \
                     for"
                ),
            ),
            Self::NoProtocol => (
                StatusCode::BAD_REQUEST,
                "unable to upgrade: header X-Stream-Protocol-Version does not exist in request"
                    .to_owned(),
            ),
            Self::OtherProtocol { offered, spoken } => {
                let offered = offered.join(" ");
                let words = format!(
                    "unable to upgrade: unable to negotiate protocol: client supports \
                     [{offered}], server accepts [{spoken}]"
                );
                (StatusCode::FORBIDDEN, words)
            }
        };
        let mut answer = Response::new(Full::from(format!("{words}\n")));
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(CONTENT_TYPE, text);
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Self::OtherProtocol { spoken, .. } = self {
            headers.insert(ACCEPTED_VERSIONS, HeaderValue::from_static(spoken));
        }
        answer
    }
}

/// What a request is for, and the answer by which the protocol changes.
fn wanted<B>(
    core: &Core,
    request: &Request<B>,
) -> Result<(Wanted, Response<Full<Bytes>>), Refused> {
    let path = request.uri().path().strip_prefix('/');
    let path = path.and_then(|path| path.split_once('/'));
    let (path, token) = path.ok_or(Refused::NoPlace)?;
    let wanted = {
        let (mut state, now) = core.look();
        state.take_place(path, token, now)
    };
    let wanted = wanted.ok_or(Refused::NoPlace)?;
    let headers = request.headers();
    if !wants_spdy(headers) {
        return Err(Refused::NoSpdy);
    }
    let spoken = match wanted {
        Wanted::Exec(_) | Wanted::Attach(_) => COMMAND,
        Wanted::PortForward(_) => PORT,
    };
    let offered: Vec<String> = offered(headers).collect();
    if offered.is_empty() {
        return Err(Refused::NoProtocol);
    }
    if !offered.iter().any(|one| one == spoken) {
        return Err(Refused::OtherProtocol { offered, spoken });
    }
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
    headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(spoken));
    Ok((wanted, answer))
}

fn wants_spdy(headers: &HeaderMap) -> bool {
    let has = |name: HeaderName, wanted: &str| {
        let value = headers.get(name).map(HeaderValue::as_bytes);
        let value = String::from_utf8_lossy(value.unwrap_or_default());
        value.to_ascii_lowercase().contains(wanted)
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, "spdy/3.1")
}

fn offered(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let values = headers.get_all(PROTOCOL_VERSION).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let protocols = texts.flat_map(|text| text.split(',')).map(str::trim);
    protocols.filter(|one| !one.is_empty()).map(str::to_owned)
}
