//! What an answer carries: at once, or bit by bit.

use std::io;

use bytes::Bytes;
use http::Response;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};

use crate::answer::Answer;

/// The body of every answer.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// All of it at once.
pub fn full(content: impl Into<Bytes>) -> Body {
    let whole = Full::new(content.into());
    whole.map_err(|never| match never {}).boxed_unsync()
}

/// An answer that is there as a whole.
pub(crate) fn whole(answer: Answer) -> Response<Body> {
    answer.map(|body| body.map_err(|never| match never {}).boxed_unsync())
}
