use std::fs::OpenOptions;
use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt as _;

use super::testing::Node;

async fn refused(node: &Node, (pod, container): (&str, &str), query: &str) -> (StatusCode, String) {
    let answer = node.logs.answer("shop", pod, container, query);
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn what_cannot_be_shown_is_refused_in_upstreams_words() {
    let node = Node::new(false);
    let main = ("web", "main");
    for (which, query, status, words) in [
        (
            main,
            "tailLines=x",
            400,
            r#"{"message": "Unable to decode query."}"#,
        ),
        (
            main,
            "limitBytes=0",
            422,
            r#"{"message": "Invalid request."}"#,
        ),
        (("other", "main"), "", 404, "pod \"other\" does not exist"),
        (
            ("web", "other"),
            "",
            404,
            "container \"other\" not found in pod \"web\"",
        ),
        (
            ("web", "late"),
            "",
            400,
            "container \"late\" in pod \"web\" is not available",
        ),
        (
            main,
            "stream=Stderr",
            400,
            "unable to return the given log stream: \"Stderr\". Please enable \
             PodLogsQuerySplitStreams feature gate in kubelet",
        ),
    ] {
        let wanted = (StatusCode::from_u16(status).unwrap(), words.to_owned());
        assert_eq!(refused(&node, which, query).await, wanted);
    }
}

#[tokio::test]
async fn the_gate_lets_one_output_through() {
    let node = Node::new(true);
    node.print(["to stdout".to_owned()]);
    let shown = |query| refused(&node, ("web", "main"), query);
    assert_eq!(shown("stream=Stdout").await.1, "to stdout\n");
    assert_eq!(
        shown("stream=Stderr").await,
        (StatusCode::OK, String::new())
    );
}

/// As Go answers once it was told that the length is not known.
#[tokio::test]
async fn an_answer_has_neither_a_length_nor_a_type() {
    let node = Node::new(false);
    node.print(["line".to_owned()]);
    for container in ["main", "late"] {
        let answer = node.logs.answer("shop", "web", container, "");
        assert!(!answer.headers().contains_key(CONTENT_TYPE));
        assert!(!answer.headers().contains_key(CONTENT_LENGTH));
        let hint = http_body::Body::size_hint(answer.body());
        assert_eq!(hint.exact(), None, "{container}");
    }
}

/// Before the hole there is what nobody may get to read for the last lines.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "it is about real time")]
async fn the_last_lines_of_two_gibibytes_are_there_at_once() {
    let node = Node::new(false);
    node.print(["long ago".to_owned()]);
    let file = OpenOptions::new().write(true).open(node.log(1)).unwrap();
    file.set_len(2 << 30).unwrap();
    node.print([String::new()]);
    node.print((0..1000).map(|number| format!("line {number}")));
    let wanted: Vec<String> = (500..1000).map(|number| format!("line {number}")).collect();
    let mut took = Vec::new();
    for _ in 0..3 {
        let begun = Instant::now();
        let (status, shown) = refused(&node, ("web", "main"), "tailLines=500").await;
        took.push(begun.elapsed());
        assert_eq!(status, StatusCode::OK);
        assert_eq!(shown.lines().collect::<Vec<_>>(), wanted);
    }
    // Milliseconds, on a machine that has time for it; to read all takes longer on any.
    let least = took.iter().min().unwrap();
    assert!(*least < Duration::from_secs(1), "{took:?}");
}
