//! The way to pods and to other hosts, as probes and hooks take it: one connection,
//! and nothing is known of what is said over it.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// The network that the parts of one node share.
pub type SharedNet = Arc<dyn Net>;

/// A connection that is being made. Dropped, it is not made.
pub type Dialing<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn Connection>, DialError>> + Send + 'a>>;

/// Whom to reach, and how to part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination<'a> {
    /// An address, or a name; IPv6 without brackets.
    pub host: &'a str,
    pub port: u16,
}

/// Both ways. Dropped, it is closed.
pub trait Connection: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin + 'static {}

impl<C: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin + 'static> Connection for C {}

/// Why nobody could be reached.
#[derive(Debug)]
pub enum DialError {
    /// Nobody has that name.
    Lookup { host: String, cause: io::Error },
    /// The one at this address could not be reached.
    Connect {
        address: SocketAddr,
        cause: io::Error,
    },
}

impl fmt::Display for DialError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup { host, cause } => write!(formatter, "lookup {host}: {cause}"),
            Self::Connect { address, cause } => write!(formatter, "{address}: {cause}"),
        }
    }
}

impl std::error::Error for DialError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lookup { cause, .. } | Self::Connect { cause, .. } => Some(cause),
        }
    }
}

/// The network.
pub trait Net: fmt::Debug + Send + Sync + 'static {
    /// Connects. It takes as long as the network lets it: whoever has less time drops
    /// it.
    fn dial<'a>(&'a self, to: Destination<'a>) -> Dialing<'a>;
}
