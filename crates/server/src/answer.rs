//! Answers as Go's servers shape them.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{Response, StatusCode, Version};
use http_body_util::Full;

pub(crate) type Answer = Response<Full<Bytes>>;

/// What who names no host is told.
pub(crate) fn no_host(request: &Parts) -> Option<Answer> {
    let named = request.version != Version::HTTP_11 || request.headers.contains_key(HOST);
    let body = "400 Bad Request: missing required Host header";
    (!named).then(|| text(StatusCode::BAD_REQUEST, body))
}

pub(crate) fn not_found() -> Answer {
    unguessed(text(StatusCode::NOT_FOUND, "404 page not found\n"))
}

pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, plain);
    answer
}

/// With the header by which browsers take the content for what it is said to be.
pub(crate) fn unguessed(mut answer: Answer) -> Answer {
    let no_guess = HeaderValue::from_static("nosniff");
    answer
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, no_guess);
    answer
}
