//! One GET: plain or with TLS, over a connection of its own. Redirects are not
//! followed and no proxy is asked, as nothing here reads the environment.

use std::sync::Arc;

use http::header::{HOST, HeaderMap, HeaderValue};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::decode::MAX_SIZE;

/// A URL that cannot be asked.
#[derive(Debug, Error)]
pub enum UrlError {
    #[error("staticPodURL {url:?} is no URL: write http:// or https://, a host and a path")]
    Malformed { url: String },
    #[error(
        "staticPodURL has a user and password: put them into staticPodURLHeader as Authorization"
    )]
    Credentials,
}

/// Why nothing came.
#[derive(Debug, Error)]
pub(crate) enum FetchError {
    #[error("cannot connect to {authority}: {cause}")]
    Connect {
        authority: String,
        cause: std::io::Error,
    },
    #[error("the request failed: {0}")]
    Exchange(#[from] hyper::Error),
    #[error("the request cannot be made: {0}")]
    Request(#[from] http::Error),
    #[error("the answer cannot be read, or is larger than 10 MiB: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    #[error("the answer is {0}: only 200 OK is taken")]
    Status(StatusCode),
    #[error("no answer within 10 seconds")]
    Timeout,
}

/// Whom to ask, and how.
#[derive(Debug)]
pub(crate) struct Page {
    uri: Uri,
    headers: HeaderMap,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Page {
    pub(crate) fn new(
        url: &str,
        headers: HeaderMap,
        tls: Arc<ClientConfig>,
    ) -> Result<Self, UrlError> {
        let malformed = || UrlError::Malformed {
            url: url.to_owned(),
        };
        let uri: Uri = url.parse().map_err(|_| malformed())?;
        let host = uri
            .host()
            .filter(|host| !host.is_empty())
            .ok_or_else(malformed)?;
        if uri
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'))
        {
            return Err(UrlError::Credentials);
        }
        let tls = match uri.scheme_str() {
            Some("http") => None,
            Some("https") => {
                let name = bare(host).to_owned();
                Some((tls, ServerName::try_from(name).map_err(|_| malformed())?))
            }
            _ => return Err(malformed()),
        };
        Ok(Self { uri, headers, tls })
    }

    pub(crate) async fn get(&self) -> Result<Vec<u8>, FetchError> {
        let host = bare(self.uri.host().unwrap_or_default());
        let default = if self.tls.is_some() { 443 } else { 80 };
        let port = self.uri.port_u16().unwrap_or(default);
        let connect = |cause| FetchError::Connect {
            authority: format!("{host}:{port}"),
            cause,
        };
        let stream = TcpStream::connect((host, port)).await.map_err(connect)?;
        match &self.tls {
            None => self.exchange(stream).await,
            Some((config, name)) => {
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector
                    .connect(name.clone(), stream)
                    .await
                    .map_err(connect)?;
                self.exchange(stream).await
            }
        }
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Vec<u8>, FetchError> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = self.request()?;
        let exchange = async move {
            let answer = sender.send_request(request).await?;
            if answer.status() != StatusCode::OK {
                return Err(FetchError::Status(answer.status()));
            }
            let body = Limited::new(answer.into_body(), MAX_SIZE).collect().await;
            Ok(body.map_err(FetchError::Body)?.to_bytes().to_vec())
        };
        tokio::select! {
            outcome = exchange => outcome,
            // The exchange has the last word, even on how the connection ended.
            () = async {
                let _ = connection.await;
                std::future::pending::<()>().await;
            } => Err(FetchError::Timeout),
        }
    }

    fn request(&self) -> Result<Request<Empty<bytes::Bytes>>, FetchError> {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::get(path).body(Empty::new())?;
        request.headers_mut().extend(self.headers.clone());
        let authority = self
            .uri
            .authority()
            .map_or("", |authority| authority.as_str());
        let authority = HeaderValue::from_str(authority).map_err(http::Error::from)?;
        request.headers_mut().insert(HOST, authority);
        Ok(request)
    }
}

/// Without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}
