//! The way through a proxy.

use std::error::Error;
use std::future::{Ready, ready};
use std::io;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::Service;

use super::identity::basic;
use crate::kubeconfig::{Proxy, ProxyScheme};

/// Bytes to and from somebody.
pub(super) type Stream = Box<dyn Bytes>;

pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// Asks the proxy at the other end of `stream` to connect us to `target` (`HOST:PORT`).
///
/// Plain HTTP servers are reached by CONNECT too, so that every server is spoken to the same way.
pub(super) async fn through(
    proxy: &Proxy,
    stream: Stream,
    target: &str,
) -> Result<Stream, Box<dyn Error + Send + Sync>> {
    let target: Uri = format!("http://{target}").parse()?;
    let connected = Connected(Some(TokioIo::new(stream)));
    // Where the proxy is does not matter any more: we stand before it.
    let tunnel = match proxy.scheme {
        ProxyScheme::Http | ProxyScheme::Https => {
            let mut tunnel = Tunnel::new(Uri::default(), connected);
            if let Some((user, password)) = &proxy.credentials {
                tunnel = tunnel.with_auth(basic(user, password)?);
            }
            tunnel.call(target).await?
        }
        ProxyScheme::Socks5 => {
            let mut socks = SocksV5::new(Uri::default(), connected);
            if let Some((user, password)) = &proxy.credentials {
                socks = socks.with_auth(user.clone(), password.expose().clone());
            }
            socks.call(target).await?
        }
    };
    Ok(tunnel.into_inner())
}

/// A connector that hands out what is connected already.
struct Connected(Option<TokioIo<Stream>>);

impl Service<Uri> for Connected {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Ready<Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _target: Uri) -> Self::Future {
        ready(
            self.0
                .take()
                .ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)),
        )
    }
}
