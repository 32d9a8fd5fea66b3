//! What is answered when there are no streams to be had: upstream's words and codes.

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use seams::RuntimeError;
use seams::runtime::Code;

use crate::body::{Body, full};

/// How long a runtime keeps a place for streams that nobody has come for.
const PLACES_KEPT: HeaderValue = HeaderValue::from_static("60");

/// Just the words.
pub(crate) fn plain(status: StatusCode, words: impl Into<String>) -> Response<Body> {
    let mut answer = Response::new(full(words.into()));
    *answer.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, text);
    answer
}

/// What went wrong between us and the runtime's streams.
pub(crate) fn broken(words: &str) -> Response<Body> {
    let mut answer = plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{words}\n"));
    let no_guess = HeaderValue::from_static("nosniff");
    let headers = answer.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, no_guess);
    answer
}

/// What the runtime said when it was asked for streams.
pub(crate) fn of_runtime(error: &RuntimeError) -> Response<Body> {
    let status = match error.code {
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut answer = plain(status, words(error));
    if status == StatusCode::TOO_MANY_REQUESTS {
        answer.headers_mut().insert(RETRY_AFTER, PLACES_KEPT);
    }
    answer
}

/// As Go's gRPC has it.
pub(crate) fn words(error: &RuntimeError) -> String {
    let code = match error.code {
        Code::Cancelled => "Canceled".to_owned(),
        code => code.to_string(),
    };
    format!("rpc error: code = {code} desc = {}", error.message)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn body(answer: Response<Body>) -> String {
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_runtimes_no_has_the_code_of_its_reason() {
        for (code, status, retry, words) in [
            (
                Code::NotFound,
                404,
                None,
                "rpc error: code = NotFound desc = no",
            ),
            (
                Code::ResourceExhausted,
                429,
                Some("60"),
                "rpc error: code = ResourceExhausted desc = no",
            ),
            (
                Code::Unavailable,
                500,
                None,
                "rpc error: code = Unavailable desc = no",
            ),
            (
                Code::Cancelled,
                500,
                None,
                "rpc error: code = Canceled desc = no",
            ),
        ] {
            let answer = of_runtime(&RuntimeError::new("Exec", code, "no"));
            assert_eq!(answer.status(), status);
            let header = answer.headers().get(RETRY_AFTER);
            assert_eq!(header.and_then(|value| value.to_str().ok()), retry);
            assert_eq!(body(answer).await, words);
        }
    }

    #[tokio::test]
    async fn what_broke_in_between_ends_with_a_line() {
        let answer = broken("Upgrade request required");
        assert_eq!(answer.status(), 500);
        assert_eq!(answer.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(body(answer).await, "Upgrade request required\n");
    }
}
