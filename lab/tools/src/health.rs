//! A server of gRPC's health protocol for lab nodes: what it says can be changed while
//! it runs.
//!
//! In: a listening address and a directory. Out: `grpc.health.v1.Health/Check` over plain
//! HTTP/2. What is said of a service is in the file of its name: `SERVING`, `NOT_SERVING`,
//! or anything else for no answer at all; a service without a file is not known. It must
//! not know who asks.

#![allow(
    clippy::disallowed_methods,
    reason = "a lab tool owns its process, and its tasks end with it"
)]

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body::Frame;
use http_body_util::StreamBody;

const CHECK: &str = "/grpc.health.v1.Health/Check";

/// gRPC's code for what is not there.
const NOT_FOUND: &str = "5";

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// With the number that the protocol has for it.
    Health(u8),
    Unknown,
    Nothing,
}

fn word(file: Option<&str>) -> Word {
    match file.map(str::trim) {
        Some("SERVING") => Word::Health(1),
        Some("NOT_SERVING") => Word::Health(2),
        Some(_) => Word::Nothing,
        None => Word::Unknown,
    }
}

/// The name in a request: a message with one string, of less than 128 bytes, in gRPC's
/// five bytes.
fn service(request: &[u8]) -> Option<&str> {
    let message = request.get(5..)?;
    let name = match message {
        [] => message,
        [0x0a, length, name @ ..] => name.get(..usize::from(*length))?,
        _ => return None,
    };
    let name = std::str::from_utf8(name).ok()?;
    (!name.contains('/')).then_some(name)
}

async fn check(State(states): State<Arc<PathBuf>>, request: Bytes) -> Response {
    let file = match service(&request) {
        Some(name) => tokio::fs::read_to_string(states.join(name)).await.ok(),
        None => None,
    };
    match word(file.as_deref()) {
        Word::Health(number) => answer(
            Some(Bytes::copy_from_slice(&[0, 0, 0, 0, 2, 8, number])),
            "0",
        ),
        Word::Unknown => answer(None, NOT_FOUND),
        Word::Nothing => std::future::pending().await,
    }
}

fn answer(message: Option<Bytes>, code: &'static str) -> Response {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    let frames = message.map(Frame::data).into_iter();
    let frames = frames.chain([Frame::trailers(trailers)]);
    let frames = futures_util::stream::iter(frames.map(Ok::<_, std::convert::Infallible>));
    let body = Body::new(StreamBody::new(frames));
    ([(CONTENT_TYPE, "application/grpc")], body).into_response()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: lab-health ADDRESS:PORT DIRECTORY";
    let address = arguments.next().context(usage)?;
    let states = PathBuf::from(arguments.next().context(usage)?);
    let router = Router::new().route(CHECK, post(check));
    let router = router.with_state(Arc::new(states));
    let listener = tokio::net::TcpListener::bind(&address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    axum::serve(listener, router).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_is_said() {
        assert_eq!(word(Some("SERVING\n")), Word::Health(1));
        assert_eq!(word(Some("NOT_SERVING")), Word::Health(2));
        assert_eq!(word(Some("")), Word::Nothing);
        assert_eq!(word(None), Word::Unknown);
    }

    #[test]
    fn the_name_is_read_from_the_message() {
        assert_eq!(service(&[0, 0, 0, 0, 0]), Some(""));
        assert_eq!(service(b"\0\0\0\0\x04\x0a\x02abc"), Some("ab"));
        assert_eq!(service(b"\0\0\0\0\x04\x0a\x02a"), None);
        assert_eq!(service(b"\0\0\0\0\x04\x0a\x02a/"), None);
        assert_eq!(service(b"\0\0"), None);
    }
}
