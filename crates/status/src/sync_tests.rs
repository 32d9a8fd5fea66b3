//! Reports on their way to an API server in memory, with a paused clock.

use std::time::SystemTime;

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Value, json};
use testkit::clock::TokioClock;
use tokio::task::JoinHandle;
use types::PodName;

use super::*;
use crate::reports::Report;
use crate::testapi::TestApi;

struct Syncing {
    api: TestApi,
    clock: SharedClock,
    reports: Reports,
    running: JoinHandle<()>,
    ending: CancellationToken,
}

impl Syncing {
    fn start() -> Self {
        let clock: SharedClock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        let api = TestApi::new(clock.clone());
        let (sync, reports) = StatusSync::new(api.client(), clock.clone(), &Board::default());
        let ending = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "the test joins it")]
        let running = tokio::spawn(sync.run(ending.clone()));
        Self {
            api,
            clock,
            reports,
            running,
            ending,
        }
    }

    async fn pass(&self, millis: u64) {
        self.clock.sleep(Duration::from_millis(millis)).await;
    }

    fn report(&self, name: &str, status: Value) {
        self.hand_in(name, report(name, status));
    }

    fn hand_in(&self, name: &str, report: Report) {
        let uid = PodUid::new(&format!("u-{name}"));
        self.reports.report(&uid, report, None, self.clock.uptime());
    }

    fn phase(&self, name: &str) -> Value {
        self.api.json(name).unwrap()["status"]["phase"].clone()
    }

    async fn stop(self) {
        self.ending.cancel();
        self.running.await.unwrap();
    }
}

/// Of a pod whose uid is the same here and there, and which still runs.
fn report(name: &str, status: Value) -> Report {
    Report {
        name: PodName {
            namespace: "default".to_owned(),
            name: name.to_owned(),
        },
        api_uid: Some(PodUid::new(&format!("u-{name}"))),
        status: serde_json::from_value::<PodStatus>(status).unwrap(),
        may_run: true,
        gone: false,
    }
}

fn ready(status: &str) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": status}]})
}

#[tokio::test(start_paused = true)]
async fn changes_that_nobody_waits_for_are_sent_together_and_the_newest_wins() {
    let node = Syncing::start();
    node.api.plant("web", "u-web", &json!({"phase": "Pending"}));
    node.report("web", json!({"phase": "Pending", "message": "zero"}));
    node.pass(1).await;
    let first = node.api.words();
    assert_eq!(
        first,
        ["GET web", "PATCH web/status"],
        "the first is prompt"
    );
    for message in ["one", "two", "three"] {
        node.report("web", json!({"phase": "Pending", "message": message}));
        node.pass(100).await;
    }
    node.pass(1_000).await;
    let calls = node.api.calls();
    let words: Vec<_> = calls.iter().map(|call| call.what.as_str()).collect();
    assert_eq!(words, ["PATCH web/status"]);
    assert_eq!(
        calls[0].body,
        json!({"metadata": {"uid": "u-web"}, "status": {"message": "three"}})
    );
    // The API's answer is the next one's basis: it need not be asked for.
    node.report("web", json!({"phase": "Pending", "message": "four"}));
    node.pass(1_000).await;
    assert_eq!(node.api.words(), ["PATCH web/status"]);
    node.report("web", json!({"phase": "Pending", "message": "four"}));
    node.pass(30_000).await;
    assert!(node.api.words().is_empty(), "the same is not said twice");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn readiness_and_ends_do_not_wait() {
    let node = Syncing::start();
    node.api.plant("web", "u-web", &json!({"phase": "Pending"}));
    node.report("web", ready("False"));
    node.pass(1_000).await;
    node.api.calls();
    node.report("web", ready("True"));
    node.pass(1).await;
    let calls = node.api.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].at, Duration::from_millis(1_000));
    // An end is held back while anything may run, then told at once.
    let mut end = report("web", json!({"phase": "Succeeded"}));
    node.hand_in("web", end.clone());
    node.pass(1).await;
    assert_eq!(node.phase("web"), "Running");
    end.may_run = false;
    node.hand_in("web", end);
    node.pass(1).await;
    assert_eq!(node.phase("web"), "Succeeded");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_is_over_in_a_moment_has_been_told_of() {
    let node = Syncing::start();
    node.api.plant("web", "u-web", &json!({"phase": "Running"}));
    let plain = json!({"phase": "Running"});
    let kind = json!({"type": "PodResizeInProgress", "status": "True"});
    let resizing = json!({"phase": "Running", "conditions": [kind]});
    node.report("web", plain.clone());
    node.pass(1_000).await;
    node.api.calls();
    node.report("web", resizing);
    node.pass(5).await;
    node.report("web", plain);
    node.pass(1_000).await;
    let calls = node.api.calls();
    let said: Vec<bool> = calls
        .iter()
        .map(|call| {
            let text = call.body.to_string();
            text.contains(r#""status":"True""#)
        })
        .collect();
    assert_eq!(said, [true, false], "{calls:?}");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_urgent_goes_first_and_not_all_at_once() {
    let node = Syncing::start();
    node.api.state().slow = Duration::from_millis(100);
    for pod in 0..40 {
        let name = format!("pod-{pod:02}");
        node.api
            .plant(&name, &format!("u-{name}"), &json!({"phase": "Pending"}));
        node.report(&name, json!({"phase": "Pending", "message": "x"}));
    }
    node.pass(50).await;
    node.api
        .plant("last", "u-last", &json!({"phase": "Running"}));
    let mut end = report("last", json!({"phase": "Failed"}));
    end.may_run = false;
    node.hand_in("last", end);
    node.pass(5_000).await;
    let words = node.api.words();
    let last = words.iter().position(|word| word == "GET last").unwrap();
    assert!(last <= 20, "behind those that were under way: {last}");
    assert_eq!(node.api.state().most_at_once, AT_ONCE);
    assert_eq!(words.len(), 82);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_is_told_when_it_is_back() {
    let node = Syncing::start();
    node.api.plant("web", "u-web", &json!({"phase": "Pending"}));
    node.api.state().away = true;
    node.report("web", ready("True"));
    node.pass(60_000).await;
    let tries = node.api.words().len();
    assert!((6..12).contains(&tries), "not in a hurry: {tries}");
    node.api.state().away = false;
    node.pass(10_000).await;
    assert_eq!(node.phase("web"), "Running");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_removed_when_it_has_ended_and_somebody_deleted_it() {
    let node = Syncing::start();
    node.api.plant("web", "u-web", &json!({"phase": "Running"}));
    let mut gone = report("web", json!({"phase": "Succeeded"}));
    (gone.may_run, gone.gone) = (false, true);
    node.hand_in("web", gone);
    node.pass(1_000).await;
    assert_eq!(
        node.phase("web"),
        "Succeeded",
        "nobody asked for its removal yet"
    );
    node.api.change("web", |pod| {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    node.api.calls();
    let pod = node.api.pod("web");
    node.reports
        .seen(&PodUid::new("u-web"), &pod, node.clock.uptime());
    node.pass(1).await;
    let calls = node.api.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0].what, "DELETE web");
    assert_eq!(calls[0].body["gracePeriodSeconds"], 0);
    assert_eq!(calls[0].body["preconditions"]["uid"], "u-web");
    assert!(node.api.json("web").is_none());
    assert!(node.reports.is_empty(), "and its memory is freed");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_still_there_is_not_removed() {
    let cases = [
        ("containers run", json!({}), "Succeeded", false),
        ("it has not ended", json!({}), "Running", true),
        (
            "it is a mirror",
            json!({"kubernetes.io/config.mirror": "x"}),
            "Succeeded",
            true,
        ),
    ];
    for (why, annotations, phase, is_gone) in cases {
        let node = Syncing::start();
        node.api.plant("web", "u-web", &json!({"phase": "Running"}));
        node.api.change("web", |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            pod["metadata"]["annotations"] = annotations;
        });
        let mut gone = report("web", json!({"phase": phase}));
        (gone.may_run, gone.gone) = (!is_gone, is_gone);
        node.hand_in("web", gone);
        node.pass(60_000).await;
        assert!(node.api.json("web").is_some(), "{why}");
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_or_another_by_now_is_not_told_of() {
    let node = Syncing::start();
    node.report("never", ready("True"));
    node.api
        .plant("other", "u-new", &json!({"phase": "Pending"}));
    node.report("other", ready("True"));
    node.pass(20_000).await;
    assert_eq!(node.phase("other"), "Pending");
    assert!(node.reports.is_empty());
    assert_eq!(node.api.words().len(), 2, "asked for once each");
    // Replaced behind our back: the patch's uid keeps it from the new one.
    node.api.plant("web", "u-web", &json!({"phase": "Pending"}));
    node.report("web", ready("False"));
    node.pass(1_000).await;
    node.api.plant("web", "u-new", &json!({"phase": "Pending"}));
    node.report("web", ready("True"));
    node.pass(20_000).await;
    assert_eq!(node.phase("web"), "Pending");
    assert!(node.reports.is_empty());
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_finds_nobody_is_done() {
    let node = Syncing::start();
    node.api.plant("web", "u-web", &json!({"phase": "Running"}));
    node.report("web", ready("True"));
    node.pass(1_000).await;
    node.api.remove("web");
    let mut gone = report("web", json!({"phase": "Failed"}));
    (gone.may_run, gone.gone) = (false, true);
    node.hand_in("web", gone);
    node.pass(1_000).await;
    assert!(node.reports.is_empty());
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_wrote_is_put_right_within_ten_seconds() {
    let node = Syncing::start();
    node.api.plant("web", "u-web", &json!({"phase": "Pending"}));
    node.report("web", ready("True"));
    node.pass(1_000).await;
    node.api
        .change("web", |pod| pod["status"]["phase"] = json!("Unknown"));
    let uid = PodUid::new("u-web");
    let pod = node.api.pod("web");
    node.reports.seen(&uid, &pod, node.clock.uptime());
    node.pass(10_000).await;
    assert_eq!(node.phase("web"), "Running");
    // An older sight of it changes nothing.
    node.api.calls();
    node.reports.seen(&uid, &pod, node.clock.uptime());
    node.pass(20_000).await;
    assert!(node.api.words().is_empty());
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_is_told_of_by_its_mirror_once_there_is_one() {
    let node = Syncing::start();
    let mut of_static = report("etcd", ready("True"));
    of_static.api_uid = None;
    node.hand_in("static", of_static.clone());
    node.pass(20_000).await;
    assert!(node.api.words().is_empty());
    node.api
        .plant("etcd", "u-mirror", &json!({"phase": "Pending"}));
    of_static.api_uid = Some(PodUid::new("u-mirror"));
    node.hand_in("static", of_static);
    node.pass(1_000).await;
    assert_eq!(node.phase("etcd"), "Running");
    node.reports.forget(&PodUid::new("u-static"));
    assert_eq!(node.reports.len(), 0);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_mirror_is_told_what_became_of_a_static_pod_that_is_over() {
    let node = Syncing::start();
    let uid = PodUid::new("u-static");
    node.api
        .plant("etcd", "u-first", &json!({"phase": "Running"}));
    let mut of_static = report("etcd", json!({"phase": "Succeeded"}));
    (of_static.may_run, of_static.gone) = (false, true);
    of_static.api_uid = Some(PodUid::new("u-first"));
    // The mirror is gone before its last word comes.
    node.api.remove("etcd");
    node.hand_in("static", of_static);
    node.pass(1_000).await;
    assert_eq!(node.reports.len(), 1, "there will be another");
    for mirror in ["u-second", "u-third"] {
        node.api.plant("etcd", mirror, &json!({"phase": "Pending"}));
        let pod = node.api.pod("etcd");
        node.reports.seen(&uid, &pod, node.clock.uptime());
        node.pass(1_000).await;
        assert_eq!(node.phase("etcd"), "Succeeded", "{mirror}");
    }
    node.stop().await;
}
