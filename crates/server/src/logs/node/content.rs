//! A file as an answer: whole or in parts, or not at all if the client has it already.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream;
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED,
    RANGE,
};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use seams::Clock;
use seams::host::OpenFile;

use super::kind;
use super::ranges::{self, Part, RangeError};
use crate::body::{Body, full};
use crate::logs::tail::BLOCK;

/// A file that is open, and the name it was asked for by.
pub(super) struct NamedFile {
    pub(super) file: Arc<dyn OpenFile>,
    pub(super) name: String,
}

/// As HTTP writes times.
pub(super) fn date(time: SystemTime) -> HeaderValue {
    let date = httpdate::fmt_http_date(time);
    HeaderValue::from_str(&date).unwrap_or(HeaderValue::from_static(""))
}

/// What who has it already is told.
pub(super) fn unmodified(request: &Parts, modified: SystemTime) -> Option<Response<Body>> {
    let newer =
        since(&request.headers, IF_MODIFIED_SINCE).is_none_or(|time| in_seconds(modified) > time);
    (!newer).then(|| empty(StatusCode::NOT_MODIFIED))
}

pub(super) async fn answer(named: NamedFile, request: &Parts, clock: &dyn Clock) -> Response<Body> {
    let failed = |_| {
        super::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "500 Internal Server Error",
        )
    };
    let facts = match named.file.facts() {
        Ok(facts) => facts,
        Err(cause) => return failed(cause),
    };
    let mut answer = if let Some(status) = condition(&request.headers, facts.modified) {
        empty(status)
    } else {
        let kind = match kind::by_name(&named.name) {
            Some(kind) => kind,
            None => match named.file.read_at(0, kind::SAMPLE).await {
                Ok(sample) => kind::by_content(&sample),
                Err(cause) => return failed(cause),
            },
        };
        let range = range(&request.headers, facts.modified);
        match ranges::read(range, facts.size) {
            Err(RangeError::NoOverlap) if facts.size == 0 => {
                parts_of(named.file, kind, facts.size, &[], clock)
            }
            Err(problem) => return refused(problem, facts.size),
            Ok(parts) => parts_of(named.file, kind, facts.size, &parts, clock),
        }
    };
    let headers = answer.headers_mut();
    headers.insert(LAST_MODIFIED, date(facts.modified));
    answer
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(full(""));
    *answer.status_mut() = status;
    answer
}

fn refused(problem: RangeError, size: u64) -> Response<Body> {
    let mut answer = super::error(StatusCode::RANGE_NOT_SATISFIABLE, problem.words());
    if problem == RangeError::NoOverlap
        && let Ok(range) = HeaderValue::from_str(&format!("bytes */{size}"))
    {
        answer.headers_mut().insert(CONTENT_RANGE, range);
    }
    answer
}

/// What keeps the file from being sent. It has no tag: conditions on one hold for any.
fn condition(headers: &HeaderMap, modified: SystemTime) -> Option<StatusCode> {
    let modified = in_seconds(modified);
    let any = |value: &HeaderValue| {
        let mut tags = value.as_bytes().split(|byte| *byte == b',');
        tags.any(|tag| tag.trim_ascii() == b"*")
    };
    let matches = match headers.get(IF_MATCH) {
        Some(tags) => any(tags),
        None => since(headers, IF_UNMODIFIED_SINCE).is_none_or(|time| modified <= time),
    };
    if !matches {
        return Some(StatusCode::PRECONDITION_FAILED);
    }
    let newer = match headers.get(IF_NONE_MATCH) {
        Some(tags) => !any(tags),
        None => since(headers, IF_MODIFIED_SINCE).is_none_or(|time| modified > time),
    };
    (!newer).then_some(StatusCode::NOT_MODIFIED)
}

/// The parts that are asked for, if the client's copy is of this file.
fn range(headers: &HeaderMap, modified: SystemTime) -> &str {
    let same = headers
        .get(IF_RANGE)
        .is_none_or(|_| since(headers, IF_RANGE).is_some_and(|time| time == in_seconds(modified)));
    let range = headers.get(RANGE).filter(|_| same);
    range
        .and_then(|range| range.to_str().ok())
        .unwrap_or_default()
}

fn since(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let value = headers.get(name)?.to_str().ok()?;
    httpdate::parse_http_date(value).ok()
}

/// No finer than headers can tell.
fn in_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.map_or(0, |since| since.as_secs()))
}

/// What is sent, one after the other.
enum Piece {
    Text(String),
    Of(Part),
}

fn parts_of(
    file: Arc<dyn OpenFile>,
    kind: &'static str,
    size: u64,
    parts: &[Part],
    clock: &dyn Clock,
) -> Response<Body> {
    let mut headers = HeaderMap::new();
    let mut status = StatusCode::PARTIAL_CONTENT;
    let mut header = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    header(ACCEPT_RANGES, "bytes");
    header(CONTENT_TYPE, kind);
    let pieces = match parts {
        [] => {
            status = StatusCode::OK;
            vec![Piece::Of(Part {
                start: 0,
                length: size,
            })]
        }
        [part] => {
            header(CONTENT_RANGE, &part.of(size));
            vec![Piece::Of(*part)]
        }
        parts => {
            let boundary = boundary(clock);
            let together = format!("multipart/byteranges; boundary={boundary}");
            header(CONTENT_TYPE, &together);
            between(parts, kind, size, &boundary)
        }
    };
    let length: u64 = pieces.iter().map(Piece::length).sum();
    header(CONTENT_LENGTH, &length.to_string());
    let mut answer = Response::new(sent(file, pieces));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

/// A text that is in no file, as far as chance goes.
fn boundary(clock: &dyn Clock) -> String {
    let word = || clock.random().to_bits();
    format!("{:016x}{:016x}{:016x}", word(), word(), word())
}

fn between(parts: &[Part], kind: &str, size: u64, boundary: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut before = "";
    for part in parts {
        let range = part.of(size);
        pieces.push(Piece::Text(format!(
            "{before}--{boundary}\r\nContent-Range: {range}\r\nContent-Type: {kind}\r\n\r\n"
        )));
        pieces.push(Piece::Of(*part));
        before = "\r\n";
    }
    pieces.push(Piece::Text(format!("\r\n--{boundary}--\r\n")));
    pieces
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Of(part) => part.length,
        }
    }
}

/// Read as it is taken. A file that is shorter by then breaks the answer off.
fn sent(file: Arc<dyn OpenFile>, mut pieces: Vec<Piece>) -> Body {
    pieces.reverse();
    let blocks = stream::try_unfold((file, pieces), async |(file, mut pieces)| {
        loop {
            let block = match pieces.pop() {
                None => return Ok::<_, io::Error>(None),
                Some(Piece::Text(text)) => text.into_bytes(),
                Some(Piece::Of(part)) if part.length == 0 => continue,
                Some(Piece::Of(part)) => {
                    let most = usize::try_from(part.length).unwrap_or(usize::MAX);
                    let block = file.read_at(part.start, most.min(BLOCK)).await?;
                    if block.is_empty() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    let read = block.len() as u64;
                    pieces.push(Piece::Of(Part {
                        start: part.start + read,
                        length: part.length - read,
                    }));
                    block
                }
            };
            return Ok(Some((Frame::data(Bytes::from(block)), (file, pieces))));
        }
    });
    StreamBody::new(blocks).boxed_unsync()
}
