//! Answers: JSON of one kind or another.

use std::io;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;

use crate::failure::Failure;

/// Whatever is sent.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;
pub type Answer = Response<Body>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

pub(super) fn json(code: StatusCode, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(full(bytes));
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, JSON);
    // Objects change: nobody between keeps them.
    let fresh = HeaderValue::from_static("no-cache, private");
    answer.headers_mut().insert(header::CACHE_CONTROL, fresh);
    answer
}

pub(super) fn value(code: StatusCode, value: &Value) -> Answer {
    json(code, value.to_string())
}

pub(super) fn text(code: StatusCode, words: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(full(words));
    *answer.status_mut() = code;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    let asis = HeaderValue::from_static("nosniff");
    answer
        .headers_mut()
        .insert(header::X_CONTENT_TYPE_OPTIONS, asis);
    answer
}

pub(super) fn failure(failure: &Failure) -> Answer {
    let mut answer = value(failure.code, &failure.status());
    if let Some(seconds) = failure.retry_after {
        answer
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    if failure.code == StatusCode::UNAUTHORIZED {
        // Without it some clients would not say who they are.
        let scheme = HeaderValue::from_static("Bearer realm=\"kubernetes\"");
        answer
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, scheme);
    }
    with_warnings(answer, &failure.warnings)
}

/// What the client should know, whether it got what it wanted or not.
pub(super) fn with_warnings(mut answer: Answer, warnings: &[String]) -> Answer {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(line) = format!("299 - \"{quoted}\"").parse() {
            answer.headers_mut().append(header::WARNING, line);
        }
    }
    answer
}
