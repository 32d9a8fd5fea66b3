//! What pods were given, for programs of the machine that watch devices: the gRPC socket
//! `pod-resources/kubelet.sock`, v1 and v1alpha1.
//!
//! There are no managers of devices, CPUs and memory on this node yet, so nothing is
//! given to a container for itself: its lists are empty, as upstream's are without them.

mod answers;
mod messages;
mod metrics;
mod rate;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs, io};

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use seams::{SharedClock, timeout};
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};
use types::figures::Board;

use crate::seats::{Place, Seats};
use answers::Answers;
use metrics::Metrics;
use rate::Rate;

/// At once. Few programs ask, but some make a connection for each question and forget to
/// close it: who has not asked for the longest makes room.
const CONNECTIONS: usize = 256;

/// Under way at once on one connection.
const CALLS: u32 = 16;

/// Upstream's: a hundred a second, ten at once.
const PER_SECOND: u32 = 100;
const AT_ONCE: u32 = 10;

const DIRECTORY_MODE: u32 = 0o750;
const SOCKET_MODE: u32 = 0o600;

/// For the answers under way when it is told to end.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// After a connection that the machine could not give us, or a path that it refused.
const BREATH: Duration = Duration::from_secs(5);

/// A pod of the node.
#[derive(Clone, Debug)]
pub struct GivenPod {
    pub pod: Arc<Pod>,
    /// It has not ended.
    pub active: bool,
}

/// The pods of the node, looked up when somebody asks.
pub type GivenPods = Arc<dyn Fn() -> Vec<GivenPod> + Send + Sync>;

/// A socket, not yet open.
pub struct PodResources {
    pub path: PathBuf,
    pub pods: GivenPods,
    pub clock: SharedClock,
    pub figures: Board,
}

impl fmt::Debug for PodResources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("PodResources");
        shown.field("path", &self.path).finish_non_exhaustive()
    }
}

/// Why nobody can ask.
#[derive(Debug, Error)]
#[error("{} cannot be listened on: {cause}; see that the node can write there", path.display())]
struct ListenError {
    path: PathBuf,
    cause: io::Error,
}

impl PodResources {
    /// Answers until told to end. A path that cannot be listened on is tried again: the
    /// node runs its pods all the same.
    pub async fn run(self, shutdown: CancellationToken) {
        let metrics = Arc::<Metrics>::default();
        self.figures.hang(metrics.clone());
        let answers = Arc::new(Answers {
            pods: self.pods.clone(),
            metrics,
            rate: Rate::new(PER_SECOND, AT_ONCE, self.clock.clone()),
        });
        let listening = shutdown.run_until_cancelled(self.listen()).await;
        if let Some(listener) = listening {
            info!(socket = %self.path.display(), "programs of the machine can ask what pods were given");
            self.serve(&listener, &answers, &shutdown).await;
        }
    }

    async fn listen(&self) -> UnixListener {
        let mut told = false;
        loop {
            match listen(&self.path) {
                Ok(listener) => return listener,
                Err(error) if told => debug!(%error, "nobody can ask what pods were given"),
                Err(error) => {
                    warn!(%error, "nobody can ask what pods were given, will try again");
                    told = true;
                }
            }
            self.clock.sleep(BREATH).await;
        }
    }

    async fn serve(
        &self,
        listener: &UnixListener,
        answers: &Arc<Answers>,
        shutdown: &CancellationToken,
    ) {
        let calls = Calls::default();
        // Calls end with this future, too, if it is dropped before its time.
        let _cut = calls.cut.clone().drop_guard();
        let mut connections = JoinSet::new();
        let seats = Seats::new(CONNECTIONS, 0);
        while let Some(stream) = shutdown.run_until_cancelled(self.accept(listener)).await {
            while connections.try_join_next().is_some() {}
            // Nobody is ever busy here, so there is room.
            let Some(place) = seats.take(self.clock.uptime()) else {
                continue;
            };
            let (answers, calls) = (Arc::clone(answers), calls.clone());
            let (clock, shutdown) = (self.clock.clone(), shutdown.clone());
            connections.spawn(converse(stream, place, answers, calls, clock, shutdown));
        }
        while connections.join_next().await.is_some() {}
        calls.end().await;
    }

    async fn accept(&self, listener: &UnixListener) -> UnixStream {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return stream,
                Err(error) => {
                    warn!(err = %error, "a connection was lost");
                    self.clock.sleep(BREATH).await;
                }
            }
        }
    }
}

/// Made beside and put in its place: whoever finds it may ask, and nobody else can. One
/// that an earlier agent left goes.
fn listen(path: &Path) -> Result<UnixListener, ListenError> {
    let failed = |cause: io::Error| ListenError {
        path: path.to_owned(),
        cause,
    };
    if let Some(directory) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(DIRECTORY_MODE);
        builder.create(directory).map_err(failed)?;
    }
    let beside = path.with_extension("sock.new");
    match fs::remove_file(&beside) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(failed(cause)),
        _ => {}
    }
    let listener = UnixListener::bind(&beside).map_err(failed)?;
    let permissions = fs::Permissions::from_mode(SOCKET_MODE);
    fs::set_permissions(&beside, permissions).map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)?;
    Ok(listener)
}

async fn converse(
    stream: UnixStream,
    place: Place,
    answers: Arc<Answers>,
    calls: Calls,
    clock: SharedClock,
    shutdown: CancellationToken,
) {
    let seat = Arc::clone(place.seat());
    let service = {
        let (seat, clock) = (Arc::clone(&seat), clock.clone());
        service_fn(move |request: Request<Incoming>| {
            seat.mark(false, clock.uptime());
            let answers = Arc::clone(&answers);
            async move { Ok::<_, Infallible>(answers.answer(request).await) }
        })
    };
    let connection = http2::Builder::new(calls)
        .max_concurrent_streams(CALLS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let over = shutdown.run_until_cancelled(seat.asked_to_leave());
    let ended = tokio::select! {
        ended = connection.as_mut() => Ok(ended),
        _ = over => {
            connection.as_mut().graceful_shutdown();
            timeout(&*clock, LAST_ANSWERS, connection).await
        }
    };
    if let Ok(Err(error)) = ended {
        debug!(err = %error, "a connection broke");
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
