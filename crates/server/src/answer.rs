//! Answers as Go's servers shape them.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, LOCATION, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode, Uri, Version};
use http_body_util::Full;

pub(crate) type Answer = Response<Full<Bytes>>;

/// What who names no host is told.
pub(crate) fn no_host(request: &Parts) -> Option<Answer> {
    no_host_in(request.version, &request.headers)
}

pub(crate) fn no_host_in(version: Version, headers: &HeaderMap) -> Option<Answer> {
    let named = version != Version::HTTP_11 || headers.contains_key(HOST);
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

/// Sends a client to the same place, written as it should be.
pub(crate) fn moved(path: &str, method: &Method, uri: &Uri) -> Answer {
    let place = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let readable = matches!(*method, Method::GET | Method::HEAD);
    let body = if method == Method::GET {
        let shown = place.replace('&', "&amp;").replace('<', "&lt;");
        let shown = shown.replace('>', "&gt;").replace('"', "&#34;");
        let shown = shown.replace('\'', "&#39;");
        format!("<a href=\"{shown}\">Temporary Redirect</a>.\n\n")
    } else {
        String::new()
    };
    let mut answer = text(StatusCode::TEMPORARY_REDIRECT, body);
    if let Ok(place) = HeaderValue::from_str(&place) {
        answer.headers_mut().insert(LOCATION, place);
    }
    if readable {
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        answer.headers_mut().insert(CONTENT_TYPE, html);
    } else {
        answer.headers_mut().remove(CONTENT_TYPE);
    }
    answer
}
