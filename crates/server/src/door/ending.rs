//! The end of an answer: known when its last byte has been given on, which is not to say
//! sent, or when nobody wants it any more.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::line::Line;
use crate::body::Body;

/// Something to be done at the end, when nobody holds it any more.
pub(crate) struct AtEnd(Option<Box<dyn FnOnce() + Send + Sync>>);

impl std::fmt::Debug for AtEnd {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("AtEnd")
    }
}

impl AtEnd {
    pub(crate) fn new(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(end)))
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

struct Guarded {
    body: Body,
    _end: Arc<AtEnd>,
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Does something when the answer has been given on.
pub(crate) fn then(answer: Response<Body>, end: Arc<AtEnd>) -> Response<Body> {
    answer.map(|body| Guarded { body, _end: end }.boxed_unsync())
}

/// The connection is busy until then, and until it has sent all of it: see
/// [`super::metered`].
pub(crate) fn while_sent(answer: Response<Body>, line: Line) -> Response<Body> {
    let end = AtEnd::new(move || line.seat().answered());
    then(answer, Arc::new(end))
}
