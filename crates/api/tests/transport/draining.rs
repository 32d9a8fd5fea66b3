//! Connections that are given up without anybody's harm.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use api::transport::{Credentials, Lane, Transport};
use futures_util::FutureExt as _;
use http::Request;
use kube::client::Body;
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::certificates::Authority;
use crate::support::clock::TurnableClock;
use crate::support::server::{Kind, TestServer};
use crate::support::{
    config, eventually, get, open_lane, options, piece, send, text, transport, trusting,
};

const WATCH: &str = "/api/v1/configmaps?watch=true";

struct Managed {
    authority: Authority,
    server: TestServer,
    clock: Arc<TurnableClock>,
    certificate: watch::Sender<Option<Arc<CertifiedKey>>>,
    transport: Transport,
}

impl Managed {
    async fn start(max_streams: u32) -> Self {
        let authority = Authority::new("ca");
        let kind = Kind {
            max_streams: Some(max_streams),
            ..Kind::default()
        };
        let server = TestServer::start(&authority, kind).await;
        let clock = TurnableClock::new();
        let first = authority.sign("first", &[]).certified();
        let certificate = watch::Sender::new(Some(first));
        let config = config(&server.address(), &trusting(&authority), "").anonymous();
        let credentials = Credentials::Managed(certificate.subscribe());
        let transport = Transport::new(&config, credentials, options(&clock)).unwrap();
        Self {
            authority,
            server,
            clock,
            certificate,
            transport,
        }
    }

    fn show(&self, name: &str) {
        let certificate = self.authority.sign(name, &[]).certified();
        self.certificate.send_replace(Some(certificate));
    }
}

/// Requests without a pause, of both kinds that matter for sending again.
struct Load {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
}

impl Load {
    fn start(lane: &Lane) -> Self {
        let (stop, done) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let mut tasks = JoinSet::new();
        for worker in 0..8 {
            let (lane, stop, done) = (lane.clone(), Arc::clone(&stop), Arc::clone(&done));
            tasks.spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let request = if worker % 2 == 0 {
                        Request::get("/load").body(Body::empty())
                    } else {
                        Request::post("/load").body(Body::from(vec![b'x'; 100]))
                    };
                    let exchange = async {
                        let response = send(&lane, request.unwrap()).await.unwrap();
                        http_body_util::BodyExt::collect(response.into_body())
                            .await
                            .unwrap();
                    };
                    let answered = tokio::time::timeout(Duration::from_secs(8), exchange).await;
                    assert!(answered.is_ok(), "no answer: {lane:?}");
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Self { tasks, stop, done }
    }

    fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }

    async fn some_more(&self) {
        let before = self.done();
        eventually("the load goes on", || self.done() > before + 50).await;
    }

    /// Fails if a request has failed.
    async fn end(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(worker) = self.tasks.join_next().await {
            worker.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_certificate_replaces_every_connection_and_no_request_fails() {
    let cluster = Managed::start(20).await;
    let lane = open_lane(&cluster.transport);
    let mut open = Vec::new();
    for _ in 0..30 {
        open.push(get(&lane, WATCH).await.unwrap().into_body());
    }
    let load = Load::start(&lane);
    load.some_more().await;
    assert!(cluster.server.last_client_is(Some("first")));
    let old = cluster.server.connections();
    assert!(old >= 2);

    for name in ["second", "third"] {
        cluster.show(name);
        eventually("the new certificate is shown", || {
            cluster.server.last_client_is(Some(name))
        })
        .await;
        load.some_more().await;
    }
    assert_eq!(cluster.server.watches(), 30, "watches have their grace");

    cluster.clock.turn(Duration::from_secs(6));
    for body in &mut open {
        assert!(piece(body).await.is_none(), "a watch ends cleanly");
    }
    let new = cluster.server.connections() - old;
    eventually("the old connections are gone", || {
        cluster.server.open() <= new && cluster.server.open() < 3
    })
    .await;
    load.some_more().await;
    load.end().await;
    let seen = cluster.server.requests();
    let last_of_first = seen
        .iter()
        .rposition(|it| it.client.as_deref() == Some("first"));
    let first_of_third = seen
        .iter()
        .position(|it| it.client.as_deref() == Some("third"));
    assert!(last_of_first < first_of_third);
    assert_eq!(cluster.transport.connections(), cluster.server.open());
}

#[tokio::test]
async fn a_certificate_can_come_later_and_go_again() {
    let cluster = Managed::start(100).await;
    cluster.certificate.send_replace(None);
    let load = Load::start(&open_lane(&cluster.transport));
    let is = |name: Option<&str>| cluster.server.last_client_is(name);
    eventually("nothing is shown", || is(None)).await;
    cluster.show("late");
    eventually("it is shown", || is(Some("late"))).await;
    cluster.certificate.send_replace(None);
    eventually("nothing is shown again", || is(None)).await;
    load.end().await;
}

#[tokio::test]
async fn a_watch_is_ended_between_two_events() {
    let cluster = Managed::start(100).await;
    let lane = open_lane(&cluster.transport);
    let mut body = get(&lane, WATCH).await.unwrap().into_body();
    cluster.server.tell_watches("{\"one\":1}\n{\"tw");
    assert_eq!(
        piece(&mut body).await.unwrap().unwrap(),
        "{\"one\":1}\n{\"tw"
    );

    // One that has heard nothing yet is ended at once.
    let mut silent = get(&lane, WATCH).await.unwrap().into_body();
    lane.reconnect();
    cluster.clock.turn(Duration::from_secs(6));
    assert!(piece(&mut silent).await.is_none());
    assert!(
        piece(&mut body).now_or_never().is_none(),
        "half an event is no end"
    );
    cluster.server.tell_watches("o\":2}\n{\"three\":3}\n");
    assert_eq!(piece(&mut body).await.unwrap().unwrap(), "o\":2}\n");
    assert!(piece(&mut body).await.is_none());
    eventually("the connection is closed", || cluster.server.open() == 0).await;
}

#[tokio::test]
async fn a_request_in_flight_outlives_its_connections_retirement_but_not_for_ever() {
    let cluster = Managed::start(100).await;
    let lane = open_lane(&cluster.transport);
    let held = |lane: &Lane| {
        let lane = lane.clone();
        tokio::spawn(async move { text(&lane, "/held").await })
    };
    let seen = Arc::clone(&cluster.server.seen);
    let mut watching = get(&lane, WATCH).await.unwrap().into_body();
    let (first, second) = (held(&lane), held(&lane));
    eventually("both are held", || seen.held.load(Ordering::SeqCst) == 2).await;
    lane.reconnect();
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
    assert_eq!(cluster.server.connections(), 2);
    cluster.clock.turn(Duration::from_secs(60));
    assert!(piece(&mut watching).await.is_none(), "its grace is over");
    assert!(!first.is_finished() && cluster.transport.connections() == 2);

    cluster.server.release();
    assert_eq!(first.await.unwrap().unwrap(), "held");
    assert_eq!(second.await.unwrap().unwrap(), "held");
    eventually("the old connection is closed", || {
        cluster.server.open() == 1
    })
    .await;
}

#[tokio::test]
async fn what_is_left_on_a_retired_connection_after_five_minutes_is_cut() {
    let cluster = Managed::start(100).await;
    let lane = open_lane(&cluster.transport);
    let request = Request::post("/held").body(Body::empty()).unwrap();
    let held = tokio::spawn({
        let lane = lane.clone();
        async move { send(&lane, request).await.map(|_| ()) }
    });
    let seen = Arc::clone(&cluster.server.seen);
    eventually("it is held", || seen.held.load(Ordering::SeqCst) == 1).await;
    lane.reconnect();
    cluster.clock.turn(Duration::from_secs(301));
    let held = tokio::time::timeout(Duration::from_secs(10), held).await;
    let error = held.unwrap().unwrap().unwrap_err().to_string();
    assert!(error.contains("broke"), "{error}");
    assert_eq!(
        seen.held.load(Ordering::SeqCst),
        1,
        "a POST is not sent again"
    );
    eventually("it is gone", || cluster.transport.connections() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_away_fails_no_request() {
    let authority = Authority::new("ca");
    let kind = Kind {
        max_streams: Some(6),
        ..Kind::default()
    };
    let server = TestServer::start(&authority, kind).await;
    let clock = TurnableClock::new();
    let transport = transport(
        &config(&server.address(), &trusting(&authority), ""),
        &clock,
    );
    let lane = open_lane(&transport);
    let load = Load::start(&lane);
    for _ in 0..20 {
        load.some_more().await;
        let before = server.connections();
        server.go_away();
        eventually("a new connection", || server.connections() > before).await;
    }
    load.some_more().await;
    load.end().await;
}
