//! Where the runtime serves streams: reached through the node's network, and asked over
//! HTTP/1.1 to change the protocol.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use seams::net::{Connection, Destination, DialError};
use seams::{SharedClock, SharedNet, timeout};
use thiserror::Error;
use tokio_rustls::TlsConnector;

/// For the runtime to answer. It is on the same machine, and has been told what is to
/// be streamed before.
const ANSWER: Duration = Duration::from_secs(30);

/// Of the answer of a runtime that does not want to; it is a line of text.
const LONGEST_REFUSAL: usize = 64 * 1024;

/// Why there is nothing to be streamed from.
#[derive(Debug, Error)]
pub(crate) enum NoStreams {
    #[error(
        "the runtime serves streams at {url:?}, which is no URL: {cause}; see how its streaming \
         server is configured"
    )]
    Url { url: String, cause: String },
    #[error("error dialing backend: {0}")]
    Dial(#[from] DialError),
    #[error("error dialing backend: tls: {0}")]
    Tls(String),
    #[error("error sending request: {0}")]
    Exchange(String),
    #[error(
        "the runtime's streaming server did not answer within {} s; the runtime's log may say why",
        ANSWER.as_secs()
    )]
    Silent,
}

/// A URL of the runtime's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    https: bool,
    host: String,
    port: u16,
    /// Path and query.
    target: PathAndQuery,
    authority: Authority,
}

impl Location {
    pub(crate) fn parse(url: &str) -> Result<Self, NoStreams> {
        let fault = |cause: &dyn fmt::Display| NoStreams::Url {
            url: url.to_owned(),
            cause: cause.to_string(),
        };
        // Upstream takes plain HTTP where no scheme is named.
        let whole = match url.strip_prefix("//") {
            Some(rest) => format!("http://{rest}"),
            None => url.to_owned(),
        };
        let uri: Uri = whole.parse().map_err(|cause| fault(&cause))?;
        let https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            other => {
                let other = other.map_or("", Scheme::as_str);
                return Err(fault(&format!("unknown scheme: {other}")));
            }
        };
        let parts = uri.into_parts();
        let authority = parts.authority.ok_or_else(|| fault(&"it names no host"))?;
        let host = authority.host();
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        Ok(Self {
            https,
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(if https { 443 } else { 80 }),
            target: parts
                .path_and_query
                .unwrap_or_else(|| PathAndQuery::from_static("/")),
            authority,
        })
    }

    /// What a request line says of it.
    pub(crate) fn target(&self) -> Uri {
        Uri::from(self.target.clone())
    }

    /// What a request that is our own names as its host.
    pub(crate) fn host_header(&self) -> Option<(http::HeaderName, HeaderValue)> {
        let value = HeaderValue::from_str(self.authority.as_str()).ok()?;
        Some((HOST, value))
    }
}

/// What a runtime answered.
#[derive(Debug)]
pub(crate) enum Answered {
    /// From now on its streams go over this.
    Switched(Response<()>, TokioIo<Upgraded>),
    Not(Response<Bytes>),
}

/// The way to the runtime's streaming server.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeEnd {
    net: SharedNet,
    clock: SharedClock,
    /// Made when it is first needed, which is never on most nodes.
    tls: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl RuntimeEnd {
    pub(crate) fn new(net: SharedNet, clock: SharedClock) -> Self {
        Self {
            net,
            clock,
            tls: Arc::default(),
        }
    }

    /// Sends a request that wants another protocol.
    pub(crate) async fn ask(
        &self,
        location: &Location,
        request: Request<Empty<Bytes>>,
    ) -> Result<Answered, NoStreams> {
        let asking = async {
            let to = Destination {
                host: &location.host,
                port: location.port,
            };
            let connection = self.net.dial(to).await?;
            let connection: Box<dyn Connection> = if location.https {
                Box::new(self.with_tls(connection, &location.host).await?)
            } else {
                connection
            };
            exchange(connection, request).await
        };
        // Boxed, so that what waits for it is small.
        match timeout(&*self.clock, ANSWER, Box::pin(asking)).await {
            Ok(answered) => answered,
            Err(_) => Err(NoStreams::Silent),
        }
    }

    async fn with_tls(
        &self,
        connection: Box<dyn Connection>,
        host: &str,
    ) -> Result<impl Connection + use<>, NoStreams> {
        let fault = |cause: &dyn fmt::Display| NoStreams::Tls(cause.to_string());
        let name = ServerName::try_from(host.to_owned()).map_err(|cause| fault(&cause))?;
        let config = if let Some(config) = self.tls.get() {
            config.clone()
        } else {
            let config = tokio::task::spawn_blocking(system_trust).await;
            let config = config.map_err(|cause| fault(&cause))?;
            let config = config.map_err(|cause| fault(&cause))?;
            self.tls.get_or_init(|| config).clone()
        };
        let connecting = TlsConnector::from(config).connect(name, connection);
        connecting.await.map_err(|cause| fault(&cause))
    }
}

/// Trusts whom the machine trusts, as upstream does: a runtime whose certificate nobody
/// vouches for cannot be streamed from.
fn system_trust() -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

async fn exchange(
    connection: Box<dyn Connection>,
    request: Request<Empty<Bytes>>,
) -> Result<Answered, NoStreams> {
    let fault = |cause: &dyn fmt::Display| NoStreams::Exchange(cause.to_string());
    let handshake = http1::Builder::new().handshake(TokioIo::new(connection));
    let (mut sender, connection) = handshake.await.map_err(|cause| fault(&cause))?;
    let mut connection = std::pin::pin!(connection.with_upgrades());
    let answer = {
        let mut sent = std::pin::pin!(sender.send_request(request));
        tokio::select! {
            biased;
            answer = sent.as_mut() => answer,
            // It is over for the connection, when an answer may be waiting for us.
            _ = connection.as_mut() => sent.await,
        }
    };
    let mut answer: Response<Incoming> = answer.map_err(|cause| fault(&cause))?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let mut switching = std::pin::pin!(hyper::upgrade::on(&mut answer));
        let switched = tokio::select! {
            biased;
            switched = switching.as_mut() => switched,
            _ = connection => switching.await,
        };
        let switched = switched.map_err(|cause| fault(&cause))?;
        return Ok(Answered::Switched(answer.map(drop), TokioIo::new(switched)));
    }
    let (parts, body) = answer.into_parts();
    let mut reading = std::pin::pin!(Limited::new(body, LONGEST_REFUSAL).collect());
    let body = tokio::select! {
        biased;
        body = reading.as_mut() => body,
        _ = connection => reading.await,
    };
    let body = body.map_err(|cause| fault(&cause))?.to_bytes();
    Ok(Answered::Not(Response::from_parts(parts, body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_what_runtimes_say() {
        let parsed = |url: &str| {
            let location = Location::parse(url).map_err(|error| error.to_string())?;
            let target = location.target().to_string();
            Ok((location.https, location.host, location.port, target))
        };
        let of = |https, host: &str, port, target: &str| {
            Ok::<_, String>((https, host.to_owned(), port, target.to_owned()))
        };
        for (url, expected) in [
            (
                "http://127.0.0.1:34567/exec/aBcD_-12",
                of(false, "127.0.0.1", 34567, "/exec/aBcD_-12"),
            ),
            (
                "https://node.local/attach/x?y=1",
                of(true, "node.local", 443, "/attach/x?y=1"),
            ),
            (
                "//[::1]:80/portforward/x",
                of(false, "::1", 80, "/portforward/x"),
            ),
            ("http://127.0.0.1", of(false, "127.0.0.1", 80, "/")),
        ] {
            assert_eq!(parsed(url), expected, "{url}");
        }
        for url in [
            "",
            "/exec/x",
            "unix:///run/x",
            "ftp://a/b",
            "http://",
            "not a url",
        ] {
            assert!(parsed(url).is_err(), "{url}");
        }
    }
}
