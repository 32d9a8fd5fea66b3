//! How many connections there are, and who waits for one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use api::transport::{Lane, LaneOptions, ResponseBody};
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::support::certificates::Authority;
use crate::support::clock::TurnableClock;
use crate::support::server::{Kind, TestServer};
use crate::support::{config, eventually, get, open_lane, text, transport, trusting};

const WATCH: &str = "/api/v1/configmaps?watch=true";

async fn watches(lane: &Lane, count: usize) -> Vec<ResponseBody> {
    let opening = join_all((0..count).map(|_| get(lane, WATCH)));
    let opened = timeout(Duration::from_secs(10), opening).await;
    opened
        .expect("watches wait for room")
        .into_iter()
        .map(|response| response.unwrap().into_body())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_watches_need_three_connections_and_short_requests_never_wait() {
    let authority = Authority::new("ca");
    let kind = Kind {
        max_streams: Some(100),
        ..Kind::default()
    };
    let server = TestServer::start(&authority, kind).await;
    let clock = TurnableClock::new();
    let transport = transport(
        &config(&server.address(), &trusting(&authority), ""),
        &clock,
    );
    let lane = open_lane(&transport);

    let mut open = Vec::new();
    for _ in 0..200 {
        open.push(get(&lane, WATCH).await.unwrap().into_body());
        let short = timeout(Duration::from_secs(2), text(&lane, "/short"));
        assert_eq!(
            short.await.expect("a short request waited").unwrap(),
            "/short"
        );
    }
    assert_eq!(server.watches(), 200);
    assert!(server.connections() <= 4, "{}", server.connections());
    assert!(server.seen.most_streams.load(Ordering::SeqCst) <= 100);
    assert_eq!(transport.connections(), server.connections());

    // Surplus connections go when they have been idle for long.
    drop(open);
    eventually("the watches end", || server.watches() == 0).await;
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
    clock.turn(Duration::from_secs(91));
    eventually("one connection is left", || server.open() == 1).await;
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
    assert_eq!(transport.connections(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_limit_is_kept_even_when_everything_comes_at_once() {
    let authority = Authority::new("ca");
    let kind = Kind {
        max_streams: Some(10),
        ..Kind::default()
    };
    let server = TestServer::start(&authority, kind).await;
    let clock = TurnableClock::new();
    let transport = transport(
        &config(&server.address(), &trusting(&authority), ""),
        &clock,
    );
    let open = watches(&open_lane(&transport), 95).await;
    assert_eq!(server.watches(), 95);
    assert_eq!(open.len(), 95);
    let most = server.seen.most_streams.load(Ordering::SeqCst);
    assert!(most <= 10, "{most} streams on a connection");
    assert!(server.connections() <= 14, "{}", server.connections());
}

#[tokio::test]
async fn requests_that_come_together_wait_for_the_same_connection() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let clock = TurnableClock::new();
    let transport = transport(
        &config(&server.address(), &trusting(&authority), ""),
        &clock,
    );
    let lane = open_lane(&transport);
    for answer in join_all((0..50).map(|_| text(&lane, "/short"))).await {
        assert_eq!(answer.unwrap(), "/short");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn heartbeats_pass_while_everything_else_is_stuck() {
    let authority = Authority::new("ca");
    let kind = Kind {
        max_streams: Some(5),
        ..Kind::default()
    };
    let server = TestServer::start(&authority, kind).await;
    let clock = TurnableClock::new();
    let transport = transport(
        &config(&server.address(), &trusting(&authority), ""),
        &clock,
    );
    let heartbeats = transport.lane(LaneOptions {
        name: "heartbeat",
        limits: None,
        timeout: Some(Duration::from_secs(10)),
        own_connections: true,
    });
    assert_eq!(text(&heartbeats, "/beat").await.unwrap(), "/beat");
    let lane = open_lane(&transport);
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
    assert_eq!(server.connections(), 2);

    // No further connection comes about, and the one that is there fills up.
    server.pause();
    let _open = watches(&lane, 5).await;
    let waiting = tokio::spawn({
        let lane = lane.clone();
        async move { text(&lane, "/short").await }
    });
    for _ in 0..20 {
        assert_eq!(text(&heartbeats, "/beat").await.unwrap(), "/beat");
    }
    assert!(!waiting.is_finished(), "the shared connection has no room");
    let beats = server.requests();
    let beats = beats.iter().filter(|request| request.target == "/beat");
    assert_eq!(
        beats
            .map(|request| request.connection)
            .collect::<std::collections::BTreeSet<_>>(),
        [0].into()
    );
    waiting.abort();
}

#[tokio::test]
async fn closing_ends_every_connection_and_every_request() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let clock = TurnableClock::new();
    let transport = transport(
        &config(&server.address(), &trusting(&authority), ""),
        &clock,
    );
    let lane = open_lane(&transport);
    let mut open = watches(&lane, 3).await;
    transport.close().await;
    eventually("the server sees it", || server.open() == 0).await;
    let end = crate::support::piece(&mut open[0]).await.unwrap();
    assert!(end.is_err(), "a cut watch is not a clean end");
    let error = text(&lane, "/short").await.unwrap_err().to_string();
    assert!(error.ends_with("the node is stopping"), "{error}");
}

#[tokio::test]
async fn connections_end_with_the_last_handle() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let clock = TurnableClock::new();
    let transport = transport(
        &config(&server.address(), &trusting(&authority), ""),
        &clock,
    );
    let lane = open_lane(&transport);
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
    drop(transport);
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
    drop(lane);
    eventually("the server sees it", || server.open() == 0).await;
}
