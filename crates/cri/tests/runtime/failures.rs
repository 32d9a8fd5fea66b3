//! What becomes of calls when the runtime is away, refuses, hangs, dies or says
//! too much.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cri::Client;
use seams::cri::{ListImagesRequest, StatusRequest, VersionRequest};
use seams::runtime::Code;
use seams::{Runtime, RuntimeError};
use tokio::task::JoinSet;

use crate::support::{Manner, Place, Server, clock, eventually};

async fn status(client: &Client) -> Result<(), RuntimeError> {
    client.status(StatusRequest::default()).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_away_is_an_error_at_once() {
    let place = Place::new();
    let client = place.client();
    let before = tokio::time::Instant::now();
    let error = status(&client).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert_eq!(error.call, "Status");
    assert!(
        error.message.contains("is the runtime installed"),
        "{error}"
    );
    let socket = place.socket("runtime");
    assert!(
        error.message.contains(&socket.display().to_string()),
        "{error}"
    );

    // A socket that nobody listens at any more.
    drop(UnixListener::bind(&socket).unwrap());
    let error = status(&client).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.message.contains("is the runtime running?"), "{error}");
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_refusal_keeps_the_runtimes_code_and_words() {
    for (sent, received) in [
        (tonic::Code::Unimplemented, Code::Unimplemented),
        (tonic::Code::NotFound, Code::NotFound),
        (tonic::Code::DeadlineExceeded, Code::DeadlineExceeded),
        (tonic::Code::Unavailable, Code::Unavailable),
        (tonic::Code::Unknown, Code::Unknown),
    ] {
        let place = Place::new();
        let manner = Manner::Refuses(sent, "for a reason of its own");
        let _server = Server::start(&place.socket("runtime"), manner);
        let error = status(&place.client()).await.unwrap_err();
        let expected = RuntimeError::new("Status", received, "for a reason of its own");
        assert_eq!(error, expected);
    }
}

#[tokio::test]
async fn a_restarted_runtime_is_found_again_by_the_next_call() {
    let place = Place::new();
    let socket = place.socket("runtime");
    let client = place.client();
    for _ in 0..3 {
        let server = Server::start(&socket, Manner::Answers);
        status(&client).await.unwrap();
        status(&client).await.unwrap();
        assert_eq!(server.seen.connections(), 1);
        server.stop().await;
    }
    let error = status(&client).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
}

#[tokio::test]
async fn a_call_under_way_when_the_runtime_dies_ends_with_it() {
    let place = Place::new();
    let server = Server::start(&place.socket("runtime"), Manner::Hangs);
    let client = Arc::new(place.client());
    let mut calls = JoinSet::new();
    let caller = Arc::clone(&client);
    calls.spawn(async move { status(&caller).await });
    eventually("the call", || server.seen.under_way() == 1).await;
    server.kill().await;
    let error = calls.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.message.contains("broke"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_answered_ends_when_its_time_is_up() {
    let place = Place::new();
    let server = Server::start(&place.socket("runtime"), Manner::Hangs);
    let client = place.client();
    let before = tokio::time::Instant::now();
    let error = status(&client).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert!(error.message.contains("no answer within 120 s"), "{error}");
    assert_eq!(before.elapsed().as_secs(), 120);
    // It is given up at the other end too, and the connection lives on.
    eventually("the end of the call", || server.seen.under_way() == 0).await;
    status(&client).await.unwrap_err();
    assert_eq!(server.seen.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_are_under_way_than_there_are_places() {
    let place = Place::new();
    let server = Server::start(&place.socket("runtime"), Manner::Hangs);
    let mut config = place.config();
    config.calls_at_once = 2;
    let client = Arc::new(Client::new(&config, clock()).unwrap());
    let mut calls = JoinSet::new();
    for _ in 0..5 {
        let caller = Arc::clone(&client);
        calls.spawn(async move { status(&caller).await });
    }
    let before = tokio::time::Instant::now();
    for outcome in calls.join_all().await {
        let error = outcome.unwrap_err();
        assert!(error.is_timeout(), "{error}");
    }
    assert_eq!(server.seen.most_under_way.load(Ordering::SeqCst), 2);
    // The wait for a place is part of the time that a call may take.
    assert_eq!(before.elapsed().as_secs(), 120);
}

#[tokio::test]
async fn an_answer_of_more_than_sixteen_mebibytes_is_refused() {
    const MEBIBYTE: usize = 1024 * 1024;
    for (length, fits) in [(15 * MEBIBYTE, true), (17 * MEBIBYTE, false)] {
        let place = Place::new();
        let _server = Server::start(&place.socket("runtime"), Manner::Talks(length));
        let client = place.client();
        let outcome = client.list_images(ListImagesRequest::default()).await;
        match outcome {
            Ok(images) => assert!(fits && images.images[0].id.len() == length),
            Err(error) => {
                assert!(!fits, "{error}");
                assert!(error.message.contains("16777216"), "{error}");
            }
        }
        client.version(VersionRequest::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_closed_client_leaves_nothing_behind_and_refuses_calls() {
    let place = Place::new();
    let server = Server::start(&place.socket("runtime"), Manner::Hangs);
    let client = Arc::new(place.client());
    let mut calls = JoinSet::new();
    let caller = Arc::clone(&client);
    calls.spawn(async move { status(&caller).await });
    eventually("the call", || server.seen.under_way() == 1).await;
    let limit = Duration::from_secs(10);
    let closed = tokio::time::timeout(limit, client.close()).await;
    closed.expect("something of it runs on");
    calls.join_next().await.unwrap().unwrap().unwrap_err();
    let error = status(&client).await.unwrap_err();
    assert_eq!(error.code, Code::Cancelled, "{error}");
    eventually("the end of the call", || server.seen.under_way() == 0).await;
}
