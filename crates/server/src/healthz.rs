//! The answers of the health port. Upstream has one check there, `ping`, which
//! says no more than that somebody answers; the check of the pod loop is on the
//! node's authenticated port.

use std::collections::BTreeSet;

use http::request::Parts;
use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;

use crate::answer::{Answer, moved, no_host, not_found, text, unguessed};
use crate::door::{cleaned, words};

const PING: &str = "ping";

/// To any method, as upstream answers: who checks health with POST is told, too.
pub(crate) fn answer(request: &Parts) -> Answer {
    if let Some(refusal) = no_host(request) {
        return refusal;
    }
    let path = request.uri.path();
    let cleaned = cleaned(path);
    if cleaned != path && request.method != Method::CONNECT {
        return moved(&cleaned, &request.method, &request.uri);
    }
    // A slash at the end is of another place.
    let words = if path.ends_with('/') {
        Vec::new()
    } else {
        words(path)
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["healthz"] => {
            let query = request.uri.query().unwrap_or_default();
            unguessed(text(StatusCode::OK, health(query)))
        }
        ["healthz", "ping"] => text(StatusCode::OK, "ok"),
        _ => not_found(),
    }
}

/// `ok`, or with `?verbose` a line per check; `?exclude=NAME` leaves one out.
fn health(query: &str) -> String {
    let asked = asked(query);
    if !asked.iter().any(|(name, _)| name == "verbose") {
        return "ok".to_owned();
    }
    let excluded = asked.iter().filter(|(name, _)| name == "exclude");
    let mut excluded: BTreeSet<&str> = excluded.map(|(_, value)| value.as_str()).collect();
    let left_out = if excluded.remove(PING) {
        " excluded:"
    } else {
        ""
    };
    let mut lines = format!("[+]{PING}{left_out} ok\n");
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        lines.push_str("warn: some health checks cannot be excluded: no matches for ");
        lines.push_str(&names.join(","));
        lines.push('\n');
    }
    lines + "healthz check passed\n"
}

/// The names and values of a query.
pub(crate) fn asked(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

/// As forms write it.
fn decoded(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_TYPE, HOST, LOCATION, X_CONTENT_TYPE_OPTIONS};
    use http::{Request, Version};

    use super::*;

    fn answered(method: Method, target: &str) -> Answer {
        let request = Request::builder().method(method).uri(target);
        let request = request.header(HOST, "node").body(()).unwrap();
        answer(&request.into_parts().0)
    }

    fn header(answer: &Answer, name: http::HeaderName) -> Option<&str> {
        answer
            .headers()
            .get(name)
            .map(|text| text.to_str().unwrap())
    }

    #[test]
    fn every_method_is_told_the_nodes_health() {
        for method in [Method::GET, Method::HEAD, Method::POST, Method::DELETE] {
            let answer = answered(method.clone(), "/healthz");
            assert_eq!(answer.status(), StatusCode::OK, "{method}");
            let plain = Some("text/plain; charset=utf-8");
            assert_eq!(header(&answer, CONTENT_TYPE), plain);
            assert_eq!(header(&answer, X_CONTENT_TYPE_OPTIONS), Some("nosniff"));
        }
    }

    #[test]
    fn one_check_alone_has_no_header_against_guessing() {
        let answer = answered(Method::GET, "/healthz/ping");
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(header(&answer, X_CONTENT_TYPE_OPTIONS), None);
    }

    #[test]
    fn nothing_else_is_there() {
        for target in ["/", "/healthz/", "/healthz/syncloop", "/readyz", "/metrics"] {
            let answer = answered(Method::GET, target);
            assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{target}");
            assert_eq!(header(&answer, X_CONTENT_TYPE_OPTIONS), Some("nosniff"));
        }
    }

    #[test]
    fn a_path_is_read_as_it_is_meant_or_told_how_to_be_written() {
        for (target, place) in [
            ("//healthz?verbose", "/healthz?verbose"),
            ("/./healthz", "/healthz"),
            ("/nope/../healthz", "/healthz"),
            ("/healthz//ping/", "/healthz/ping/"),
            ("/nope/..", "/"),
        ] {
            let answer = answered(Method::GET, target);
            assert_eq!(answer.status(), StatusCode::TEMPORARY_REDIRECT, "{target}");
            assert_eq!(header(&answer, LOCATION), Some(place), "{target}");
        }
        for (target, status) in [
            ("/%68ealthz", StatusCode::OK),
            ("/healthz/%70ing", StatusCode::OK),
            ("/healthz%2fping", StatusCode::NOT_FOUND),
            ("/%2e%2e/healthz", StatusCode::NOT_FOUND),
        ] {
            assert_eq!(answered(Method::GET, target).status(), status, "{target}");
        }
    }

    #[test]
    fn the_query_asks_for_a_line_per_check_and_leaves_checks_out() {
        let passed = "healthz check passed\n";
        let unknown = "warn: some health checks cannot be excluded: no matches for";
        for (query, lines) in [
            ("", "ok".to_owned()),
            ("exclude=ping", "ok".to_owned()),
            ("verbose", format!("[+]ping ok\n{passed}")),
            ("verbose=false", format!("[+]ping ok\n{passed}")),
            (
                "verbose&exclude=pin%67",
                format!("[+]ping excluded: ok\n{passed}"),
            ),
            (
                "exclude=b+c&verbose&exclude=a",
                format!("[+]ping ok\n{unknown} \"a\",\"b c\"\n{passed}"),
            ),
        ] {
            assert_eq!(health(query), lines, "{query}");
        }
    }

    #[test]
    fn a_request_of_http_1_1_names_its_host() {
        let bare = Request::builder().uri("/healthz").body(()).unwrap();
        assert_eq!(
            answer(&bare.into_parts().0).status(),
            StatusCode::BAD_REQUEST
        );
        let old = Request::builder().version(Version::HTTP_10).uri("/healthz");
        let old = old.body(()).unwrap();
        assert_eq!(answer(&old.into_parts().0).status(), StatusCode::OK);
    }
}
