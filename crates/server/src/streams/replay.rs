//! The client's request as the runtime sees it, and the runtime's answer as the client
//! does.

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HeaderName, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};
use http_body_util::Empty;

use super::runtime_end::Location;
use super::upgrade::{PROTOCOL_VERSION, SPDY, tunnelled};
use crate::body::{Body, full};
use crate::door::Line;

/// A request for the runtime.
pub(crate) type Replayed = Request<Empty<Bytes>>;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// How streams of commands are told apart, and how a command's end is told.
const V4: &str = "v4.channel.k8s.io";

/// The same request, for the runtime's path.
pub(crate) fn as_it_came(request: &Parts, location: &Location) -> Replayed {
    let mut replayed = Request::new(Empty::new());
    *replayed.method_mut() = request.method.clone();
    *replayed.uri_mut() = location.target();
    *replayed.version_mut() = Version::HTTP_11;
    let mut headers = request.headers.clone();
    // A body would be the other protocol's beginning, and there is none.
    headers.remove(CONTENT_LENGTH);
    headers.remove(TRANSFER_ENCODING);
    // Who was let in here need not show the runtime how.
    headers.remove(AUTHORIZATION);
    forwarded_for(&mut headers, request.extensions.get::<Line>());
    *replayed.headers_mut() = headers;
    replayed
}

/// A request for a WebSocket with SPDY inside, as one for SPDY.
pub(crate) fn without_websocket(request: &Parts, location: &Location) -> Replayed {
    let mut replayed = as_it_came(request, location);
    *replayed.method_mut() = Method::POST;
    let headers = replayed.headers_mut();
    for websockets in [
        SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_KEY,
        SEC_WEBSOCKET_VERSION,
        SEC_WEBSOCKET_EXTENSIONS,
    ] {
        headers.remove(websockets);
    }
    headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
    headers.remove(PROTOCOL_VERSION);
    for protocol in tunnelled(&request.headers) {
        if let Ok(protocol) = HeaderValue::from_str(protocol) {
            headers.append(PROTOCOL_VERSION, protocol);
        }
    }
    replayed
}

/// Our own request for the streams of a command.
pub(crate) fn for_command(location: &Location) -> Replayed {
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = location.target();
    let headers = request.headers_mut();
    headers.extend(location.host_header());
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
    headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(V4));
    request
}

/// Whether a runtime speaks what was asked for.
pub(crate) fn agreed(answer: &Response<()>) -> Result<(), String> {
    let chosen = answer.headers().get(PROTOCOL_VERSION);
    let chosen = chosen.map(|value| String::from_utf8_lossy(value.as_bytes()));
    if chosen.as_deref() == Some(V4) {
        return Ok(());
    }
    let chosen = chosen.unwrap_or_default();
    Err(format!(
        "the runtime chose the protocol {chosen:?} for its streams, where {V4} was asked for"
    ))
}

/// Why a runtime did not want to, in its own words.
pub(crate) fn refused(answer: &Response<Bytes>) -> String {
    let words = String::from_utf8_lossy(answer.body());
    let words = words.trim_end();
    if words.is_empty() {
        let status = answer.status();
        return format!("unable to upgrade connection: {status}");
    }
    format!("unable to upgrade connection: {words}")
}

/// The answer by which the protocol changes.
pub(crate) fn passed_on(mut answer: Response<()>) -> Response<()> {
    *answer.version_mut() = Version::HTTP_11;
    answer
}

/// The answer of a runtime that did not change the protocol. The connection has seen
/// half of a change: it is not used again.
pub(crate) fn echo(answer: Response<Bytes>) -> Response<Body> {
    let mut answer = answer.map(full);
    let headers = answer.headers_mut();
    headers.remove(TRANSFER_ENCODING);
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

fn forwarded_for(headers: &mut HeaderMap, line: Option<&Line>) {
    let Some(line) = line else {
        return;
    };
    let before = headers.get_all(&FORWARDED_FOR).iter();
    let mut all: Vec<String> = before
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect();
    all.push(line.peer().ip().to_canonical().to_string());
    if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(FORWARDED_FOR, value);
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;

    fn location() -> Location {
        Location::parse("http://127.0.0.1:4444/exec/token").unwrap()
    }

    #[test]
    fn the_runtime_sees_the_request_but_not_who_was_let_in_by_what() {
        let request = Request::post("/exec/shop/web/app?command=ls")
            .header("Host", "node:10250")
            .header("Connection", "Upgrade")
            .header("Upgrade", "SPDY/3.1")
            .header("X-Stream-Protocol-Version", "v4.channel.k8s.io")
            .header("X-Stream-Protocol-Version", "v3.channel.k8s.io")
            .header("X-Forwarded-For", "10.0.0.1")
            .header("Authorization", "Bearer secret")
            .header("Content-Length", "0")
            .extension(Line::of_test(
                "192.0.2.7:1234".parse().unwrap(),
                &TaskTracker::new(),
            ));
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let replayed = as_it_came(&parts, &location());
        assert_eq!(replayed.method(), Method::POST);
        assert_eq!(replayed.uri(), "/exec/token");
        let headers = replayed.headers();
        assert_eq!(headers["host"], "node:10250");
        assert_eq!(headers["x-forwarded-for"], "10.0.0.1, 192.0.2.7");
        assert_eq!(headers.get_all(PROTOCOL_VERSION).iter().count(), 2);
        assert!(!headers.contains_key(AUTHORIZATION));
        assert!(!headers.contains_key(CONTENT_LENGTH));
    }

    #[test]
    fn what_is_inside_a_websocket_is_asked_for_without_it() {
        let request = Request::get("/portForward/shop/web")
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Key", "x")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Protocol", "SPDY/3.1+portforward.k8s.io");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let replayed = without_websocket(&parts, &location());
        assert_eq!(replayed.method(), Method::POST);
        let headers = replayed.headers();
        assert_eq!(headers["upgrade"], "SPDY/3.1");
        assert_eq!(headers["connection"], "Upgrade");
        assert_eq!(headers[PROTOCOL_VERSION], "portforward.k8s.io");
        assert_eq!(headers.len(), 3);
    }

    #[test]
    fn a_runtime_has_to_speak_the_fourth_version() {
        let answer = |chosen: Option<&str>| {
            let mut answer = Response::builder().status(101);
            if let Some(chosen) = chosen {
                answer = answer.header(PROTOCOL_VERSION, chosen);
            }
            agreed(&answer.body(()).unwrap())
        };
        assert_eq!(answer(Some("v4.channel.k8s.io")), Ok(()));
        assert!(answer(Some("channel.k8s.io")).is_err());
        assert!(answer(None).is_err());
    }
}
