use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use api::events::{Recorder, Severity, about_node};
use http::Method;
use k8s_openapi::api::core::v1::ObjectReference;
use seams::SharedClock;
use testkit::clock::TokioClock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::testapi::TestApi;

/// As client-go has them.
const MOST_WAITING: usize = 1000;
const TRIES: usize = 12;
const BETWEEN_TRIES: Duration = Duration::from_secs(10);

const EVENTS: &str = "/api/v1/namespaces/default/events";

struct Bench {
    api: TestApi,
    clock: SharedClock,
    recorder: Recorder,
    _running: JoinSet<()>,
}

fn bench() -> Bench {
    let start = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let clock: SharedClock = Arc::new(TokioClock::starting_at(start));
    let api = TestApi::new(clock.clone());
    let (recorder, recording) = Recorder::new("up1", api.client("events"), clock.clone());
    let mut running = JoinSet::new();
    running.spawn(recording.run(CancellationToken::new()));
    Bench {
        api,
        clock,
        recorder,
        _running: running,
    }
}

impl Bench {
    async fn says(&self, message: &str) {
        let (reason, message) = ("Reason", message.to_owned());
        self.recorder
            .record(about_node("up1"), Severity::Normal, reason, message);
        self.clock.sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_again_is_patched() {
    let bench = bench();
    bench.says("a").await;
    bench.says("a").await;
    let events = bench.api.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["count"], 2);
    assert_ne!(events[0]["firstTimestamp"], events[0]["lastTimestamp"]);
    assert_eq!(bench.api.calls(&Method::PATCH, EVENTS).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_ended_meanwhile_is_made_anew_with_its_count() {
    let bench = bench();
    bench.says("a").await;
    bench
        .api
        .refuse(Method::PATCH, EVENTS, (404, "NotFound"), 1);
    // The server has forgotten the first.
    bench.api.clear();
    bench.says("a").await;
    let events = bench.api.events();
    assert_eq!(
        (events.len(), &events[0]["count"]),
        (1, &serde_json::json!(2))
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_asked_twelve_times() {
    let bench = bench();
    bench.api.set_away(true);
    bench.says("a").await;
    bench.clock.sleep(Duration::from_secs(600)).await;
    let calls = bench.api.calls(&Method::POST, EVENTS);
    assert_eq!(calls.len(), TRIES);
    let apart = |pair: &[crate::testapi::Call]| pair[1].at.saturating_sub(pair[0].at);
    assert!(apart(&calls[..2]) <= BETWEEN_TRIES);
    assert!(
        calls[1..]
            .windows(2)
            .all(|pair| apart(pair) == BETWEEN_TRIES)
    );
    bench.api.set_away(false);
    bench.says("b").await;
    assert_eq!(bench.api.events().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_is_not_sent_again() {
    let bench = bench();
    bench
        .api
        .refuse(Method::POST, EVENTS, (403, "Forbidden"), 1);
    bench.says("a").await;
    bench.says("b").await;
    assert_eq!(bench.api.calls(&Method::POST, EVENTS).len(), 2);
    assert_eq!(bench.api.events().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_what_comes_and_keeps_nobody_waiting() {
    let bench = bench();
    bench.api.set_away(true);
    for number in 0..2 * MOST_WAITING {
        let message = number.to_string();
        bench
            .recorder
            .record(about_node("up1"), Severity::Normal, "Reason", message);
    }
    bench.api.set_away(false);
    bench.clock.sleep(Duration::from_secs(1)).await;
    // Of those that waited, the spam filter let its burst pass.
    assert_eq!(bench.api.calls(&Method::POST, EVENTS).len(), 10);
    assert_eq!(bench.api.calls(&Method::PATCH, EVENTS).len(), 15);
}

#[tokio::test(start_paused = true)]
async fn an_event_about_a_pod_lives_in_its_namespace() {
    let bench = bench();
    let pod = ObjectReference {
        kind: Some("Pod".to_owned()),
        name: Some("p".to_owned()),
        namespace: Some("ns".to_owned()),
        ..ObjectReference::default()
    };
    bench
        .recorder
        .record(pod, Severity::Warning, "BackOff", "x".to_owned());
    bench.clock.sleep(Duration::from_secs(1)).await;
    let calls = bench
        .api
        .calls(&Method::POST, "/api/v1/namespaces/ns/events");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].body["type"], "Warning");
}
