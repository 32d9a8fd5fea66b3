//! A runtime on a socket: CRI v1 over gRPC, for whoever speaks it. Any runtime
//! behind the seam will do; [`bridge`] has the way of each call.

mod bridge;

use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use seams::{SharedClock, SharedRuntime, timeout};
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use self::bridge::Bridge;
use crate::record::Recorder;

/// At once; who comes later waits in the kernel's queue. A kubelet has two.
const CONNECTIONS: usize = 64;

/// Under way at once on one connection: more than a kubelet of 110 pods has.
const CALLS: u32 = 512;

/// For the owner and its group, as other runtimes have it.
const MODE: u32 = 0o660;

/// For the answers under way when it is told to end.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// After a connection that the machine could not give us: it has no room now.
const BREATH: Duration = Duration::from_secs(1);

/// Why nobody can reach the runtime.
#[derive(Debug, Error)]
pub enum BindError {
    #[error(
        "somebody listens on {} already: end that one, or choose another socket",
        .0.display()
    )]
    Taken(PathBuf),
    #[error(
        "{} is there, and is no socket: it is left as it is; choose another path for the socket",
        .0.display()
    )]
    NoSocket(PathBuf),
    #[error(
        "there is no directory for the socket {}: make it first (mkdir -p {})",
        path.display(), directory.display()
    )]
    NoDirectory { path: PathBuf, directory: PathBuf },
    #[error("cannot listen on {}: {cause}; choose a path that can be written", path.display())]
    Refused { path: PathBuf, cause: io::Error },
}

/// A socket that is listened on. Its file goes with it.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// The file's, which says whether it still is this socket's.
    inode: (u64, u64),
}

impl Socket {
    /// Takes the place of a socket that somebody left behind when he died; one
    /// that somebody listens on is his.
    pub async fn bind(path: &Path) -> Result<Self, BindError> {
        clear(path).await?;
        let refused = |cause: io::Error| match path.parent() {
            Some(directory) if cause.kind() == io::ErrorKind::NotFound => BindError::NoDirectory {
                path: path.to_owned(),
                directory: directory.to_owned(),
            },
            _ => BindError::Refused {
                path: path.to_owned(),
                cause,
            },
        };
        let socket = Self {
            listener: UnixListener::bind(path).map_err(refused)?,
            path: path.to_owned(),
            inode: inode(path).map_err(refused)?,
        };
        let permissions = fs::Permissions::from_mode(MODE);
        fs::set_permissions(path, permissions).map_err(refused)?;
        Ok(socket)
    }

    /// Answers until told to end. Calls that are under way then have an instant
    /// to be answered; none is left when this is done.
    pub async fn serve(
        self,
        runtime: SharedRuntime,
        recorder: Option<Recorder>,
        clock: SharedClock,
        shutdown: CancellationToken,
    ) {
        let bridge = Arc::new(Bridge {
            runtime,
            recorder,
            shutdown: shutdown.clone(),
        });
        let calls = Calls::default();
        // Calls end with this future, too, if it is dropped before its time.
        let _cut = calls.cut.clone().drop_guard();
        let mut connections = JoinSet::new();
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        while let Some((stream, place)) = shutdown
            .run_until_cancelled(self.accept(&room, &clock))
            .await
        {
            while connections.try_join_next().is_some() {}
            let service = Arc::clone(&bridge);
            let (calls, clock, shutdown) = (calls.clone(), clock.clone(), shutdown.clone());
            connections.spawn(async move {
                converse(stream, service, calls, &clock, shutdown).await;
                drop(place);
            });
        }
        // Nobody finds it any more; those who have are seen off.
        drop(self);
        while connections.join_next().await.is_some() {}
        calls.end().await;
    }

    async fn accept(
        &self,
        room: &Arc<Semaphore>,
        clock: &SharedClock,
    ) -> (UnixStream, Option<OwnedSemaphorePermit>) {
        // It is never closed, so there always is a place, sooner or later.
        let place = Arc::clone(room).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return (stream, place),
                Err(error) => {
                    warn!(err = %error, "a connection to the runtime's socket was lost");
                    clock.sleep(BREATH).await;
                }
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let ours = inode(&self.path).is_ok_and(|found| found == self.inode);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            warn!(socket = %self.path.display(), err = %error, "the socket's file stays behind");
        }
    }
}

async fn converse(
    stream: UnixStream,
    bridge: Arc<Bridge>,
    calls: Calls,
    clock: &SharedClock,
    shutdown: CancellationToken,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let bridge = Arc::clone(&bridge);
        async move { Ok::<_, Infallible>(bridge.answer(request).await) }
    });
    let connection = http2::Builder::new(calls)
        .max_concurrent_streams(CALLS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Ok(ended),
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            timeout(&**clock, LAST_ANSWERS, connection).await
        }
    };
    if let Ok(Err(error)) = ended {
        debug!(err = %error, "a connection to the runtime's socket broke");
    }
}

/// The calls that are under way, each a task.
#[derive(Clone, Debug, Default)]
struct Calls {
    tracker: TaskTracker,
    cut: CancellationToken,
}

impl Calls {
    async fn end(&self) {
        self.cut.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl<F> hyper::rt::Executor<F> for Calls
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, call: F) {
        let cut = self.cut.clone();
        self.tracker.spawn(async move {
            cut.run_until_cancelled_owned(call).await;
        });
    }
}

/// Makes room for a socket, if nobody is there.
async fn clear(path: &Path) -> Result<(), BindError> {
    let refused = |cause| BindError::Refused {
        path: path.to_owned(),
        cause,
    };
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(refused(cause)),
    };
    if !metadata.file_type().is_socket() {
        return Err(BindError::NoSocket(path.to_owned()));
    }
    match UnixStream::connect(path).await {
        Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(refused)
        }
        // One that has no room for another caller is alive, too.
        Ok(_) => Err(BindError::Taken(path.to_owned())),
        Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
            Err(BindError::Taken(path.to_owned()))
        }
        Err(cause) => Err(refused(cause)),
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests;
