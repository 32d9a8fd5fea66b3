//! Answers that are packed while they are sent, for those who say that they can read
//! them so. What scrapers get is mostly the same words again: a fiftieth of it is left.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Response;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, VARY};
use http_body::Frame;
use http_body_util::BodyExt as _;

use crate::body::Body;

const GZIP: &str = "gzip";

/// Packs an answer if whoever asked can unpack it.
pub(crate) fn packed(answer: Response<Body>, request: &HeaderMap) -> Response<Body> {
    if !accepts_gzip(request) {
        return answer;
    }
    let mut answer = answer.map(|inner| {
        let packing = Packing {
            inner,
            encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())),
        };
        packing.boxed_unsync()
    });
    let headers = answer.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(GZIP));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    answer
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    let values = request.get_all(ACCEPT_ENCODING).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let mut words = values.flat_map(|value| value.split(','));
    words.any(|word| {
        let mut parts = word.split(';').map(str::trim);
        let is_gzip = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case(GZIP));
        is_gzip && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

struct Packing {
    inner: Body,
    /// `None`: all of it has been sent.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl http_body::Body for Packing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        let Some(encoder) = &mut this.encoder else {
            return Poll::Ready(None);
        };
        let out = match ready!(Pin::new(&mut this.inner).poll_frame(context)) {
            Some(Ok(frame)) => {
                let piece = frame.into_data().unwrap_or_default();
                encoder
                    .write_all(&piece)
                    .map(|()| std::mem::take(encoder.get_mut()))
            }
            Some(Err(error)) => Err(error),
            None => this
                .encoder
                .take()
                .map_or_else(|| Ok(Vec::new()), GzEncoder::finish),
        };
        match out {
            // It was kept for the next piece. Others may have their turn first.
            Ok(out) if out.is_empty() => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            out => Poll::Ready(Some(out.map(|out| Frame::data(Bytes::from(out))))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::body::full;

    fn asking(values: &[&'static str]) -> HeaderMap {
        let values = values.iter();
        let values = values.map(|value| (ACCEPT_ENCODING, HeaderValue::from_static(value)));
        values.collect()
    }

    #[test]
    fn who_can_read_it_packed_says_so() {
        for (values, wanted) in [
            (&["gzip"][..], true),
            (&["deflate, GZIP;q=0.5"], true),
            (&["deflate", "gzip"], true),
            (&["gzip;q=0"], false),
            (&["xgzip", "identity"], false),
            (&[], false),
        ] {
            assert_eq!(accepts_gzip(&asking(values)), wanted, "{values:?}");
        }
    }

    #[tokio::test]
    async fn what_is_packed_is_the_same_when_unpacked() {
        let text = "the same words again\n".repeat(100_000);
        let answer = packed(Response::new(full(text.clone())), &asking(&["gzip"]));
        assert_eq!(answer.headers()[CONTENT_ENCODING], GZIP);
        let sent = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(sent.len() * 20 < text.len(), "{}", sent.len());
        let mut found = String::new();
        GzDecoder::new(&sent[..])
            .read_to_string(&mut found)
            .unwrap();
        assert_eq!(found, text);
        let plain = packed(Response::new(full(text.clone())), &asking(&[]));
        assert!(!plain.headers().contains_key(CONTENT_ENCODING));
        let sent = plain.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(sent, text.as_bytes());
    }
}
