//! Ports for the machine's own tools, health and figures: plain HTTP/1 with bounds
//! on everything that a client chooses.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus::Registry;
use seams::{SharedClock, timeout};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::answer::Answer;
use crate::{healthz, metrics};

/// At once; who comes later waits in the kernel's queue.
const CONNECTIONS: usize = 100;

/// How long a connection may last: a check takes an instant, and who sends or
/// reads slowly must not keep others out.
const LIFETIME: Duration = Duration::from_secs(10);

/// For the answer under way when that time is up.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// For the head of a request.
const LARGEST_HEAD: usize = 16 * 1024;

/// Between two attempts to listen; upstream's.
const RETRY: Duration = Duration::from_secs(5);

/// After a connection that the machine could not give us: it has no room now.
const BREATH: Duration = Duration::from_secs(1);

/// Why nobody can ask.
#[derive(Debug, Error)]
pub enum BindError {
    #[error(
        "{address} is taken, perhaps by another kubelet: `ss -ltnp sport = :{port}` says by \
         whom; end it, or choose another {setting}",
        port = address.port()
    )]
    Taken {
        address: SocketAddr,
        setting: &'static str,
    },
    #[error("cannot listen on {address}: {cause}; see {setting}")]
    Refused {
        address: SocketAddr,
        setting: &'static str,
        cause: io::Error,
    },
}

impl BindError {
    pub(crate) fn of(address: SocketAddr, setting: &'static str, cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::AddrInUse => Self::Taken { address, setting },
            _ => Self::Refused {
                address,
                setting,
                cause,
            },
        }
    }
}

/// What a port is for.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// `healthzBindAddress` and `healthzPort`.
    Health,
    /// What a registry holds, for Prometheus.
    Metrics(Registry),
}

impl Purpose {
    fn word(&self) -> &'static str {
        match self {
            Self::Health => "the health port",
            Self::Metrics(_) => "the metrics port",
        }
    }

    fn setting(&self) -> &'static str {
        match self {
            Self::Health => "healthzPort",
            Self::Metrics(_) => "--metrics-bind",
        }
    }

    fn answer(&self, request: &Parts) -> Answer {
        match self {
            Self::Health => healthz::answer(request),
            Self::Metrics(registry) => metrics::answer(request, registry),
        }
    }
}

/// A port, not yet open.
#[derive(Clone, Debug)]
pub struct PlainPort {
    pub purpose: Purpose,
    pub address: SocketAddr,
    pub clock: SharedClock,
}

impl PlainPort {
    /// Answers until told to end. A port that cannot be had is asked for again, as
    /// upstream does: a node without it is still a node.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.serve()).await;
    }

    async fn serve(&self) {
        let listener = self.listener().await;
        let port = self.purpose.word();
        info!(address = %self.address, "{port} is open");
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        // Aborts what is left when it goes with this future.
        let mut connections = JoinSet::new();
        loop {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, _)) => {
                    let port = self.clone();
                    connections.spawn(async move {
                        port.converse(stream).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    warn!(err = %error, "a connection to {port} was lost");
                    self.clock.sleep(BREATH).await;
                }
            }
        }
    }

    async fn listener(&self) -> TcpListener {
        let mut last_problem = String::new();
        loop {
            let problem = match self.bind().await {
                Ok(listener) => return listener,
                Err(problem) => problem.to_string(),
            };
            // Once per problem, not once per attempt.
            if problem != last_problem {
                let port = self.purpose.word();
                error!(err = problem, "{port} cannot be opened, will try again");
            }
            last_problem = problem;
            self.clock.sleep(RETRY).await;
        }
    }

    async fn bind(&self) -> Result<TcpListener, BindError> {
        let (address, setting) = (self.address, self.purpose.setting());
        let bound = TcpListener::bind(address).await;
        bound.map_err(|cause| BindError::of(address, setting, cause))
    }

    async fn converse(&self, stream: TcpStream) {
        let service = service_fn(async |request: http::Request<hyper::body::Incoming>| {
            Ok::<_, Infallible>(self.purpose.answer(&request.into_parts().0))
        });
        let connection = http1::Builder::new()
            .max_buf_size(LARGEST_HEAD)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let mut ended = timeout(&*self.clock, LIFETIME, connection.as_mut()).await;
        if ended.is_err() {
            connection.as_mut().graceful_shutdown();
            ended = timeout(&*self.clock, LAST_ANSWER, connection).await;
        }
        if let Ok(Err(error)) = ended {
            debug!(err = %error, "a connection to {} broke", self.purpose.word());
        }
    }
}

#[cfg(test)]
mod tests;
