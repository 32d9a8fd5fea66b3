//! One connection to the server: what sends requests over it, and the tasks that keep it going.

use std::error::Error as _;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::TokioIo;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::proxy::Stream;

/// Whole, so that it can be sent again.
pub(super) type RequestBody = Full<Bytes>;

/// More streams than this are not put on one connection, whatever the server allows: they share
/// one TCP flow.
const MOST_STREAMS: usize = 1000;

/// Where the transport's tasks run, and how they end.
#[derive(Debug, Clone)]
pub(super) struct Tasks {
    pub(super) tracker: TaskTracker,
    pub(super) runtime: Handle,
    pub(super) ending: CancellationToken,
}

impl Tasks {
    /// A task that ends with the transport.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_until(self.ending.clone(), task);
    }

    fn spawn_until<F>(&self, end: CancellationToken, task: F)
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.tracker.spawn_on(
            async move {
                end.run_until_cancelled_owned(task).await;
            },
            &self.runtime,
        );
    }
}

/// Where hyper's tasks for one connection run: they can be cut together.
#[derive(Debug, Clone)]
pub(super) struct ConnectionTasks {
    pub(super) tasks: Tasks,
    pub(super) cut: CancellationToken,
}

impl<F> hyper::rt::Executor<F> for ConnectionTasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.tasks.spawn_until(self.cut.clone(), task);
    }
}

/// What requests are sent with.
pub(super) enum Link {
    Http2(Http2Link),
    /// One request at a time.
    Http1(http1::SendRequest<RequestBody>),
}

/// What runs a connection, until it ends.
pub(super) type Driver = Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send>>;

type Http2Connection = http2::Connection<TokioIo<Stream>, RequestBody, ConnectionTasks>;

#[derive(Clone)]
pub(super) struct Http2Link {
    pub(super) sender: http2::SendRequest<RequestBody>,
    // Shared with the driver, which holds the lock while it polls and never across an await;
    // only hyper's connection knows the server's stream limit.
    connection: Arc<Mutex<Option<Http2Connection>>>,
}

impl Http2Link {
    pub(super) fn new(
        sender: http2::SendRequest<RequestBody>,
        connection: Http2Connection,
    ) -> (Self, Driver) {
        let connection = Arc::new(Mutex::new(Some(connection)));
        let shared = Arc::clone(&connection);
        let driver = poll_fn(move |context| {
            let mut slot = lock(&shared);
            let Some(connection) = slot.as_mut() else {
                return Poll::Ready(Ok(()));
            };
            let outcome = ready!(Pin::new(connection).poll(context));
            *slot = None;
            Poll::Ready(outcome)
        });
        (Self { sender, connection }, Box::pin(driver))
    }

    /// How many streams the server takes at once; zero until it has said so.
    pub(super) fn announced_limit(&self) -> usize {
        lock(&self.connection)
            .as_ref()
            .map_or(0, http2::Connection::current_max_send_streams)
    }

    pub(super) fn capacity(&self) -> Capacity {
        Capacity::of(self.announced_limit())
    }
}

fn lock(connection: &Mutex<Option<Http2Connection>>) -> MutexGuard<'_, Option<Http2Connection>> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How far a connection is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capacity {
    /// From here on another connection is opened, while this one still takes requests.
    pub(super) comfortable: usize,
    /// Here the server's limit is reached.
    pub(super) limit: usize,
}

impl Capacity {
    pub(super) const ONE: Self = Self {
        comfortable: 1,
        limit: 1,
    };

    fn of(announced: usize) -> Self {
        let limit = announced.clamp(1, MOST_STREAMS);
        // Room for what comes while the next connection is being made.
        let headroom = if limit < 3 { 0 } else { (limit / 10).max(1) };
        Self {
            comfortable: limit - headroom,
            limit,
        }
    }
}

/// The sender of one request.
pub(super) enum Sender {
    Http2(http2::SendRequest<RequestBody>),
    Http1(http1::SendRequest<RequestBody>),
}

/// An HTTP/1.1 connection is handed back when its response has been read.
pub(super) type Returned = Option<http1::SendRequest<RequestBody>>;

impl Sender {
    pub(super) fn is_multiplexed(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// `ended` is cancelled when an HTTP/1.1 connection has ended.
    ///
    /// A request that is handed over in the moment in which hyper's end of the channel goes away
    /// can stay in the channel, unseen, for as long as a sender lives. So no sender is kept that
    /// is not needed: without one the channel gives the request back.
    pub(super) async fn send(
        self,
        request: Request<RequestBody>,
        ended: &CancellationToken,
    ) -> Result<(Response<Incoming>, Returned), Failure> {
        match self {
            Self::Http2(mut sender) => {
                let response = sender.try_send_request(request);
                drop(sender);
                Ok((response.await?, None))
            }
            Self::Http1(mut sender) => {
                sender.ready().await.map_err(|error| Failure {
                    error,
                    reach: Reach::Unsent,
                })?;
                let mut response = pin!(sender.try_send_request(request));
                tokio::select! {
                    biased;
                    response = &mut response => Ok((response?, Some(sender))),
                    () = ended.cancelled() => {
                        drop(sender);
                        Ok((response.await?, None))
                    }
                }
            }
        }
    }
}

/// A request that got no response.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: hyper::Error,
    pub(super) reach: Reach,
}

/// How far the request got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// It was not processed, and the connection takes no more.
    Unsent,
    /// It was not processed; the connection goes on.
    Refused,
    /// Its head may have been sent, its body was not: hyper gives up the request that it is
    /// about to open a stream for when the server goes away. Or we have cut the connection.
    Bodiless,
    /// It may have been processed; the server ended it alone, and the connection goes on.
    Reset,
    /// It may have been processed, and the connection is lost.
    Unknown,
}

impl Reach {
    pub(super) fn loses_connection(self) -> bool {
        matches!(self, Self::Unsent | Self::Bodiless | Self::Unknown)
    }
}

impl<B> From<TrySendError<Request<B>>> for Failure {
    fn from(mut failed: TrySendError<Request<B>>) -> Self {
        let unsent = failed.take_message().is_some();
        let error = failed.into_error();
        let reach = if unsent { Reach::Unsent } else { reach(&error) };
        Self { error, reach }
    }
}

fn reach(error: &hyper::Error) -> Reach {
    // Our bodies never fail, so this is hyper's task that is gone.
    if error.is_user() {
        return Reach::Bodiless;
    }
    let Some(cause) = error
        .source()
        .and_then(|cause| cause.downcast_ref::<h2::Error>())
    else {
        return Reach::Unknown;
    };
    match cause.reason() {
        Some(h2::Reason::REFUSED_STREAM) if cause.is_remote() => Reach::Refused,
        // The server goes away, and says that it has not looked at this stream.
        Some(h2::Reason::NO_ERROR) if cause.is_remote() && cause.is_go_away() => Reach::Unsent,
        _ if cause.is_reset() => Reach::Reset,
        _ => Reach::Unknown,
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Http2(_) => "Http2",
            Self::Http1(_) => "Http1",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_headroom_below_the_servers_limit() {
        for (announced, comfortable, limit) in [
            (0, 1, 1),
            (1, 1, 1),
            (2, 2, 2),
            (3, 2, 3),
            (10, 9, 10),
            (100, 90, 100),
            (250, 225, 250),
            (usize::MAX, 900, 1000),
        ] {
            assert_eq!(Capacity::of(announced), Capacity { comfortable, limit });
        }
    }
}
