//! The streaming server on a port, for those who are not on the simulated machine.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::super::{Core, Runtime};
use super::http;

/// At once; who comes later waits in the kernel's queue.
const CONNECTIONS: usize = 1000;

/// After a connection that the machine could not give us: it has no room now.
const BREATH: Duration = Duration::from_secs(1);

/// A port on which a runtime serves its streams.
#[derive(Debug)]
pub struct StreamsPort {
    core: Arc<Core>,
    listener: TcpListener,
}

impl Runtime {
    /// From now on streams are served there, once somebody does: on a free port of the
    /// loopback, as other runtimes do it.
    pub async fn open_streams_port(&self) -> io::Result<StreamsPort> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address: SocketAddr = listener.local_addr()?;
        // A second port is as good as the first.
        let _ = self.core.streams_at.set(address);
        Ok(StreamsPort {
            core: Arc::clone(&self.core),
            listener,
        })
    }
}

impl StreamsPort {
    /// Serves until told to end; streams end with it.
    pub async fn serve(self, shutdown: CancellationToken) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        while let Some((stream, place)) = shutdown.run_until_cancelled(self.accept(&room)).await {
            while connections.try_join_next().is_some() {}
            // Keys that somebody types do not wait for each other.
            let _ = stream.set_nodelay(true);
            let core = Arc::clone(&self.core);
            connections.spawn(async move {
                http::serve(core, stream).await;
                drop(place);
            });
        }
        connections.shutdown().await;
    }

    async fn accept(&self, room: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
        // It is never closed, so there always is a place, sooner or later.
        let place = Arc::clone(room).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return (stream, place),
                Err(error) => {
                    warn!(err = %error, "a connection to the runtime's streams was lost");
                    self.core.clock.sleep(BREATH).await;
                }
            }
        }
    }
}
