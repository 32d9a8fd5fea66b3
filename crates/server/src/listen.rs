//! The health port: plain HTTP/1 with bounds on everything that a client chooses.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use seams::{SharedClock, timeout};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::healthz::answer;

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

/// Why nobody can ask for the node's health.
#[derive(Debug, Error)]
pub enum BindError {
    #[error(
        "{address} is taken, perhaps by another kubelet: `ss -ltnp sport = :{port}` says by \
         whom; end it, or choose another healthzPort",
        port = .0.port(), address = .0
    )]
    Taken(SocketAddr),
    #[error("cannot listen on {address}: {cause}; see healthzPort and healthzBindAddress")]
    Refused {
        address: SocketAddr,
        cause: io::Error,
    },
}

/// The health port, not yet open.
#[derive(Clone, Debug)]
pub struct Healthz {
    /// `healthzBindAddress` and `healthzPort`.
    pub address: SocketAddr,
    pub clock: SharedClock,
}

impl Healthz {
    /// Answers until told to end. A port that cannot be had is asked for again, as
    /// upstream does: a node without it is still a node.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.serve()).await;
    }

    async fn serve(&self) {
        let listener = self.listener().await;
        info!(address = %self.address, "the health port is open");
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
                    let clock = Arc::clone(&self.clock);
                    connections.spawn(async move {
                        converse(stream, &clock).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    warn!(err = %error, "a connection to the health port was lost");
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
                error!(
                    err = problem,
                    "the health port cannot be opened, will try again"
                );
            }
            last_problem = problem;
            self.clock.sleep(RETRY).await;
        }
    }

    async fn bind(&self) -> Result<TcpListener, BindError> {
        let address = self.address;
        TcpListener::bind(address)
            .await
            .map_err(|cause| match cause.kind() {
                io::ErrorKind::AddrInUse => BindError::Taken(address),
                _ => BindError::Refused { address, cause },
            })
    }
}

async fn converse(stream: TcpStream, clock: &SharedClock) {
    let service = service_fn(async |request: http::Request<hyper::body::Incoming>| {
        Ok::<_, Infallible>(answer(&request.into_parts().0))
    });
    let connection = http1::Builder::new()
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut ended = timeout(&**clock, LIFETIME, connection.as_mut()).await;
    if ended.is_err() {
        connection.as_mut().graceful_shutdown();
        ended = timeout(&**clock, LAST_ANSWER, connection).await;
    }
    if let Ok(Err(error)) = ended {
        debug!(err = %error, "a connection to the health port broke");
    }
}

#[cfg(test)]
mod tests;
