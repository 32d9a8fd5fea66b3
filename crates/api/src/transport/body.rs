//! Response bodies: they hold their place on the connection until they end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use seams::{SharedClock, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::lane::SendError;
use super::pool::Ticket;
use crate::metrics::ClientMetrics;

/// The body of a response. Dropping it ends the request.
#[derive(Debug)]
pub struct ResponseBody {
    // The order matters: the stream ends before its place is given away.
    open: Option<Open>,
    server: Arc<str>,
    deadline: Option<Deadline>,
    watch: Option<Watch>,
    tally: Option<Tally>,
}

#[derive(Debug)]
struct Open {
    incoming: Incoming,
    #[expect(dead_code, reason = "held for its drop")]
    ticket: Ticket,
}

/// When the whole request has to be done.
pub(super) struct Deadline {
    pub(super) sleep: Sleep,
    pub(super) after: Duration,
}

impl std::fmt::Debug for Deadline {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.after.fmt(formatter)
    }
}

/// How a watch is ended when its connection is: between two lines, so that the watcher has only
/// whole events and resumes behind the last one.
#[derive(Debug)]
struct Watch {
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    ending: bool,
    at_line_end: bool,
}

/// What is counted when a body that is not a watch's has ended.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) metrics: ClientMetrics,
    pub(super) clock: SharedClock,
    pub(super) verb: http::Method,
    pub(super) host: Arc<str>,
    pub(super) started: Duration,
    pub(super) bytes: usize,
}

impl Drop for Tally {
    fn drop(&mut self) {
        let took = self.clock.uptime().saturating_sub(self.started);
        self.metrics.took(took, self.verb.as_str(), &self.host);
        self.metrics
            .received(self.bytes, self.verb.as_str(), &self.host);
    }
}

impl ResponseBody {
    pub(super) fn new(incoming: Incoming, ticket: Ticket, server: Arc<str>) -> Self {
        Self {
            open: Some(Open { incoming, ticket }),
            server,
            deadline: None,
            watch: None,
            tally: None,
        }
    }

    /// Given up when it takes too long.
    pub(super) fn due(mut self, deadline: Deadline) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Counted when it ends.
    pub(super) fn counted(mut self, tally: Tally) -> Self {
        self.tally = Some(tally);
        self
    }

    /// Ended, between two lines, when `end` is cancelled.
    pub(super) fn ended_by(mut self, end: CancellationToken) -> Self {
        self.watch = Some(Watch {
            end: Box::pin(end.cancelled_owned()),
            ending: false,
            at_line_end: true,
        });
        self
    }

    fn finish(&mut self) {
        self.open = None;
        self.deadline = None;
        self.watch = None;
        self.tally = None;
    }

    /// Takes note of what is passed on; true if it was the last.
    fn pass(&mut self, data: &mut Bytes) -> bool {
        if let Some(watch) = &mut self.watch {
            if watch.ending
                && let Some(end) = data.iter().position(|byte| *byte == b'\n')
            {
                data.truncate(end + 1);
                return true;
            }
            watch.at_line_end = data.last().map_or(watch.at_line_end, |byte| *byte == b'\n');
        }
        if let Some(tally) = &mut self.tally {
            tally.bytes += data.len();
        }
        false
    }
}

impl Watch {
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        if !self.ending {
            self.ending = self.end.as_mut().poll(context).is_ready();
        }
        self.ending && self.at_line_end
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let this = &mut *self;
        if let Some(deadline) = &mut this.deadline
            && deadline.sleep.as_mut().poll(context).is_ready()
        {
            let error = SendError::Timeout {
                server: Arc::clone(&this.server),
                after: deadline.after,
            };
            this.finish();
            return Poll::Ready(Some(Err(error)));
        }
        if this.watch.as_mut().is_some_and(|it| it.is_over(context)) {
            this.finish();
        }
        let Some(open) = &mut this.open else {
            return Poll::Ready(None);
        };
        match std::task::ready!(Pin::new(&mut open.incoming).poll_frame(context)) {
            None => {
                this.finish();
                Poll::Ready(None)
            }
            Some(Err(error)) => {
                this.finish();
                Poll::Ready(Some(Err(SendError::broken(&this.server, error))))
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(mut data) => {
                    if this.pass(&mut data) {
                        this.finish();
                    }
                    Poll::Ready(Some(Ok(Frame::data(data))))
                }
                Err(frame) => Poll::Ready(Some(Ok(frame))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.open
            .as_ref()
            .is_none_or(|open| open.incoming.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.open {
            None => SizeHint::with_exact(0),
            // It may end early.
            Some(_) if self.watch.is_some() => SizeHint::new(),
            Some(open) => open.incoming.size_hint(),
        }
    }
}
