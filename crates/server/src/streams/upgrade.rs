//! Whether a request wants another protocol, and which.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::body::{Body, full};

/// In which SPDY's users name the protocol that they want to speak over it.
pub(crate) const PROTOCOL_VERSION: HeaderName =
    HeaderName::from_static("x-stream-protocol-version");

pub(crate) const SPDY: &str = "SPDY/3.1";

/// The WebSocket protocol in which one of several streams can be closed.
pub(crate) const V5: &str = "v5.channel.k8s.io";

/// SPDY itself, inside a WebSocket.
pub(crate) const TUNNEL_PREFIX: &str = "SPDY/3.1+";
const TUNNEL_SUFFIX: &str = ".k8s.io";

/// What every WebSocket server adds to a client's key (RFC 6455).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    let mut connection = headers.get_all(CONNECTION).iter();
    connection.any(|value| lower(value).contains("upgrade"))
}

pub(crate) fn is_websocket(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(UPGRADE).map(lower);
    upgrade.as_deref() == Some("websocket") && is_upgrade(headers)
}

/// Whether a WebSocket is offered whose streams we translate.
pub(crate) fn is_translatable(headers: &HeaderMap) -> bool {
    is_websocket(headers) && offered(headers).any(|protocol| protocol == V5)
}

/// The protocols that are to be spoken over SPDY inside a WebSocket; none if that is
/// not wanted.
pub(crate) fn tunnelled(headers: &HeaderMap) -> Vec<&str> {
    if !is_websocket(headers) {
        return Vec::new();
    }
    let tunnelled = offered(headers).filter_map(|protocol| {
        let inner = protocol.strip_prefix(TUNNEL_PREFIX)?;
        inner.ends_with(TUNNEL_SUFFIX).then_some(inner)
    });
    tunnelled.collect()
}

fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let first = headers.get(SEC_WEBSOCKET_PROTOCOL);
    let text = first.and_then(|value| value.to_str().ok());
    text.unwrap_or_default().split(',').map(str::trim)
}

fn lower(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase()
}

/// The answer by which a connection becomes a WebSocket; or why it does not.
pub(crate) fn accept(request: &Parts, protocol: Option<&str>) -> Result<Response<Body>, Refused> {
    let key = accepted_key(request)?;
    let mut answer = Response::new(full(""));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if let Ok(key) = HeaderValue::from_str(&key) {
        headers.insert(http::header::SEC_WEBSOCKET_ACCEPT, key);
    }
    if let Some(Ok(protocol)) = protocol.map(HeaderValue::from_str) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(answer)
}

/// What is wrong with a request for a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Method,
    Version,
    Key,
}

impl Refused {
    pub(crate) fn answer(self) -> Response<Body> {
        let (status, words) = match self {
            Self::Method => (
                StatusCode::METHOD_NOT_ALLOWED,
                "a WebSocket is asked for with GET",
            ),
            Self::Version => (
                StatusCode::BAD_REQUEST,
                "missing or bad WebSocket Version: 13 is spoken here",
            ),
            Self::Key => (
                StatusCode::BAD_REQUEST,
                "challenge/response: Sec-WebSocket-Key is missing",
            ),
        };
        let mut answer = super::refusal::plain(status, words);
        if self == Self::Version {
            let ours = HeaderValue::from_static("13");
            answer.headers_mut().insert(SEC_WEBSOCKET_VERSION, ours);
        }
        answer
    }
}

/// Whether a request for a WebSocket is one, before anything is done for it.
pub(crate) fn check(request: &Parts) -> Result<(), Refused> {
    accepted_key(request).map(drop)
}

fn accepted_key(request: &Parts) -> Result<String, Refused> {
    if request.method != Method::GET {
        return Err(Refused::Method);
    }
    let version = request.headers.get(SEC_WEBSOCKET_VERSION);
    if version.is_none_or(|version| version != "13") {
        return Err(Refused::Version);
    }
    let key = request.headers.get(SEC_WEBSOCKET_KEY);
    let key = key.map(HeaderValue::as_bytes).unwrap_or_default();
    // Upstream takes any: it proves to clients that they were understood, to nobody else.
    if key.is_empty() {
        return Err(Refused::Key);
    }
    let mut text = key.to_vec();
    text.extend(GUID);
    Ok(STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text)))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn request(headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::get("/exec/a/b/c");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_request_wants_another_protocol_as_go_sees_it() {
        for (headers, upgrade, websocket) in [
            (&[][..], false, false),
            (&[("Connection", "keep-alive, UPGRADE")], true, false),
            (&[("Upgrade", "websocket")], false, false),
            (
                &[("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")],
                true,
                false,
            ),
            (
                &[("Connection", "Upgrade"), ("Upgrade", "WebSocket")],
                true,
                true,
            ),
        ] {
            let headers = request(headers).headers;
            assert_eq!(
                (is_upgrade(&headers), is_websocket(&headers)),
                (upgrade, websocket)
            );
        }
    }

    #[test]
    fn protocols_are_found_among_those_offered() {
        for (offered, translatable, through) in [
            ("v5.channel.k8s.io", true, &[][..]),
            ("v4.channel.k8s.io, v5.channel.k8s.io", true, &[]),
            ("v4.channel.k8s.io", false, &[]),
            (
                "SPDY/3.1+portforward.k8s.io",
                false,
                &["portforward.k8s.io"],
            ),
            (
                "SPDY/3.1+a.k8s.io,SPDY/3.1+b,SPDY/3.1+c.k8s.io",
                false,
                &["a.k8s.io", "c.k8s.io"],
            ),
        ] {
            let mut parts = request(&[("Connection", "Upgrade"), ("Upgrade", "websocket")]);
            let value = HeaderValue::from_static(offered);
            parts.headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
            assert_eq!(is_translatable(&parts.headers), translatable, "{offered}");
            assert_eq!(tunnelled(&parts.headers), through, "{offered}");
            parts.headers.remove(UPGRADE);
            assert!(!is_translatable(&parts.headers));
            assert!(tunnelled(&parts.headers).is_empty());
        }
    }

    #[test]
    fn the_key_is_answered_as_the_standard_has_it() {
        let key = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
        let version = ("Sec-WebSocket-Version", "13");
        let answer = accept(&request(&[key, version]), Some(V5)).unwrap();
        assert_eq!(answer.status(), 101);
        let accepted = &answer.headers()["Sec-WebSocket-Accept"];
        assert_eq!(accepted, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(answer.headers()["Sec-WebSocket-Protocol"], V5);
        let refused = |headers: &[_]| check(&request(headers)).unwrap_err();
        assert_eq!(refused(&[key]), Refused::Version);
        assert_eq!(refused(&[version]), Refused::Key);
        assert_eq!(refused(&[version, ("Sec-WebSocket-Key", "")]), Refused::Key);
        assert_eq!(
            check(&request(&[version, ("Sec-WebSocket-Key", "short")])),
            Ok(())
        );
        let mut post = request(&[key, version]);
        post.method = Method::POST;
        assert_eq!(check(&post), Err(Refused::Method));
        assert_eq!(
            Refused::Version.answer().headers()["Sec-WebSocket-Version"],
            "13"
        );
    }
}
