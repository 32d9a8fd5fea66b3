//! What is in a request, when it is sent again, and how long it may take.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::transport::{Credentials, LaneOptions, Limits, Transport};
use futures_util::TryStreamExt as _;
use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::client::Body;

use crate::support::certificates::Authority;
use crate::support::clock::TurnableClock;
use crate::support::server::{Kind, TestServer};
use crate::support::{
    config, eventually, get, open_lane, options, piece, send, text, transport, trusting,
};

#[tokio::test]
async fn the_servers_path_comes_before_the_requests_own() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let clock = TurnableClock::new();
    for (path, expected) in [
        ("", "/version?a=b"),
        ("/", "/version?a=b"),
        ("/k8s/clusters/c-1/", "/k8s/clusters/c-1/version?a=b"),
    ] {
        let address = format!("{}{path}", server.address());
        let transport = transport(&config(&address, &trusting(&authority), ""), &clock);
        assert_eq!(
            text(&open_lane(&transport), "/version?a=b").await.unwrap(),
            expected
        );
    }
}

#[tokio::test]
async fn headers_say_who_we_are_and_for_whom_we_speak() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let clock = TurnableClock::new();
    let user = "token: s3cret, as: jane, as-uid: '7', as-groups: [a, b], as-user-extra: {'example.org/scope': [one, two]}";
    let configured = config(&server.address(), &trusting(&authority), user);
    let transport = transport(&configured, &clock);
    let lane = open_lane(&transport);
    text(&lane, "/short").await.unwrap();
    let headers = server.last_request().headers;
    let all = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values
            .map(|value| value.to_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(all("authorization"), ["Bearer s3cret"]);
    assert_eq!(all("user-agent"), ["ferrolet-test/1"]);
    assert_eq!(all("impersonate-user"), ["jane"]);
    assert_eq!(all("impersonate-uid"), ["7"]);
    assert_eq!(all("impersonate-group"), ["a", "b"]);
    assert_eq!(all("impersonate-extra-example.org%2fscope"), ["one", "two"]);
    assert!(!format!("{transport:?} {lane:?}").contains("s3cret"));

    let own = Request::get("/short").header("authorization", "Bearer own");
    send(&lane, own.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(server.last_request().headers["authorization"], "Bearer own");
}

#[tokio::test]
async fn a_password_and_a_token_file_become_headers() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    fs::write(&path, "from-a-file\n").unwrap();
    let file = format!("tokenFile: {}", path.display());
    for (user, expected) in [
        ("username: me, password: hunter2", "Basic bWU6aHVudGVyMg=="),
        (file.as_str(), "Bearer from-a-file"),
    ] {
        let clock = TurnableClock::new();
        let transport = transport(
            &config(&server.address(), &trusting(&authority), user),
            &clock,
        );
        text(&open_lane(&transport), "/short").await.unwrap();
        assert_eq!(server.last_request().headers["authorization"], expected);
    }
}

#[tokio::test]
async fn a_plugin_is_asked_again_when_the_server_refuses_its_credential() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let directory = tempfile::tempdir().unwrap();
    let plugin = directory.path().join("plugin.sh");
    let answer = |name: &str, pair: &str| {
        let pair = serde_json::to_string(pair).unwrap();
        format!(
            "{{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{{\"token\":\"{name}\",\"clientCertificateData\":{pair},\"clientKeyData\":{pair}}}}}"
        )
    };
    for name in ["first", "second"] {
        let pair = authority.sign(name, &[]).pem();
        fs::write(directory.path().join(name), answer(name, &pair)).unwrap();
    }
    let script = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\nif [ -e asked ]; then cat second; else cat first; fi\ntouch asked\n";
    fs::write(&plugin, script).unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o700)).unwrap();
    let user = format!(
        "exec: {{command: {}, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}",
        plugin.display()
    );
    let clock = TurnableClock::new();
    let options = options(&clock);
    let registry = prometheus::Registry::new();
    options.metrics.register(&registry).unwrap();
    let config = config(&server.address(), &trusting(&authority), &user);
    let transport = Transport::new(&config, Credentials::Configured, options).unwrap();
    let lane = open_lane(&transport);
    let refused = get(&lane, "/unauthorized").await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    drop(refused);
    assert_eq!(server.last_request().client.as_deref(), Some("first"));
    let accepted = get(&lane, "/unauthorized").await.unwrap();
    assert_eq!(accepted.status(), StatusCode::OK);
    drop(accepted);
    let request = server.last_request();
    assert_eq!(request.client.as_deref(), Some("second"));
    assert_eq!(request.headers["authorization"], "Bearer second");
    eventually("the first connection is closed", || server.open() == 1).await;
    let shown = shown(&registry);
    assert!(
        shown.contains("rest_client_exec_plugin_call_total{call_status=\"no_error\",code=\"0\"} 2"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_server_that_asks_to_come_back_later_is_obeyed_ten_times() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let clock = TurnableClock::new();
    let options = options(&clock);
    let registry = prometheus::Registry::new();
    options.metrics.register(&registry).unwrap();
    let config = config(&server.address(), &trusting(&authority), "");
    let transport = Transport::new(&config, Credentials::Configured, options).unwrap();
    let lane = open_lane(&transport);

    let asked = tokio::spawn({
        let lane = lane.clone();
        let request = Request::post("/again/1/429")
            .body(Body::from(b"{}".to_vec()))
            .unwrap();
        async move { send(&lane, request).await.unwrap().status() }
    });
    eventually("it waits for seven seconds", || clock.begun(7) == 1).await;
    assert_eq!(server.requests().len(), 1);
    clock.turn(Duration::from_secs(8));
    assert_eq!(asked.await.unwrap(), StatusCode::OK);

    let asked = tokio::spawn({
        let lane = lane.clone();
        async move { get(&lane, "/again/99/503").await.unwrap().status() }
    });
    for waits in 2..=11 {
        eventually("it waits again", || clock.begun(7) == waits).await;
        clock.turn(Duration::from_secs(8));
    }
    assert_eq!(asked.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(server.requests().len(), 2 + 11);

    let host = format!("host=\"127.0.0.1:{}\"", server.port);
    let shown = shown(&registry);
    for line in [
        format!("rest_client_request_retries_total{{code=\"429\",{host},verb=\"POST\"}} 1"),
        format!("rest_client_request_retries_total{{code=\"503\",{host},verb=\"GET\"}} 10"),
        format!("rest_client_requests_total{{code=\"200\",{host},method=\"POST\"}} 1"),
        format!("rest_client_requests_total{{code=\"503\",{host},method=\"GET\"}} 11"),
        format!("rest_client_request_duration_seconds_count{{{host},verb=\"POST\"}} 1"),
        format!("rest_client_request_size_bytes_sum{{{host},verb=\"POST\"}} 4"),
    ] {
        assert!(shown.contains(&line), "{line} is not in\n{shown}");
    }
}

#[tokio::test]
async fn a_failed_request_is_counted_as_an_error() {
    let clock = TurnableClock::new();
    let options = options(&clock);
    let registry = prometheus::Registry::new();
    options.metrics.register(&registry).unwrap();
    let config = config("http://127.0.0.1:1", "", "");
    let transport = Transport::new(&config, Credentials::Configured, options).unwrap();
    text(&open_lane(&transport), "/short").await.unwrap_err();
    let line = "rest_client_requests_total{code=\"<error>\",host=\"127.0.0.1:1\",method=\"GET\"} 1";
    assert!(shown(&registry).contains(line), "{}", shown(&registry));
}

#[tokio::test]
async fn a_lanes_patience_covers_the_headers_and_the_body() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let clock = TurnableClock::new();
    let transport = transport(
        &config(&server.address(), &trusting(&authority), ""),
        &clock,
    );
    let lane = transport.lane(LaneOptions {
        name: "heartbeat",
        limits: None,
        timeout: Some(Duration::from_secs(10)),
        own_connections: true,
    });
    let asked = tokio::spawn({
        let lane = lane.clone();
        async move { text(&lane, "/held").await }
    });
    let seen = Arc::clone(&server.seen);
    eventually("it is held", || seen.held.load(Ordering::SeqCst) == 1).await;
    clock.turn(Duration::from_secs(11));
    let error = asked.await.unwrap().unwrap_err().to_string();
    assert_eq!(
        error,
        format!("{} gave no whole answer within 10 s", server.address())
    );

    let mut body = get(&lane, "/x?watch=true").await.unwrap().into_body();
    server.tell_watches("line\n");
    assert_eq!(piece(&mut body).await.unwrap().unwrap(), "line\n");
    clock.turn(Duration::from_secs(11));
    let error = piece(&mut body).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("within 10 s"), "{error}");
    assert!(piece(&mut body).await.is_none());
    eventually("the server sees the end", || server.watches() == 0).await;
    assert_eq!(server.connections(), 1, "only the request is given up");
}

#[tokio::test]
async fn a_lanes_rate_holds_requests_and_lets_watches_pass() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let clock = TurnableClock::new();
    let transport = transport(
        &config(&server.address(), &trusting(&authority), ""),
        &clock,
    );
    let lane = transport.lane(LaneOptions {
        name: "slow",
        limits: Limits::from_settings(0.01, 2),
        timeout: None,
        own_connections: false,
    });
    for _ in 0..2 {
        text(&lane, "/short").await.unwrap();
    }
    let third = tokio::spawn({
        let lane = lane.clone();
        async move { text(&lane, "/third").await }
    });
    let _watch = get(&lane, "/x?watch=true").await.unwrap();
    assert_eq!(
        text(&open_lane(&transport), "/other").await.unwrap(),
        "/other"
    );
    assert!(!third.is_finished());
    clock.turn(Duration::from_secs(101));
    assert_eq!(third.await.unwrap().unwrap(), "/third");
}

#[tokio::test]
async fn kubes_client_lists_and_watches_through_a_lane() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let clock = TurnableClock::new();
    let transport = transport(
        &config(&server.address(), &trusting(&authority), ""),
        &clock,
    );
    let client = open_lane(&transport).client("default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let list = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items[0].metadata.name.as_deref(), Some("one"));
    let mut events = Box::pin(maps.watch(&WatchParams::default(), "7").await.unwrap());
    server.tell_watches("{\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"two\"}}}\n");
    let event = events.try_next().await.unwrap().unwrap();
    let WatchEvent::Added(map) = event else {
        panic!("{event:?}");
    };
    assert_eq!(map.metadata.name.as_deref(), Some("two"));

    // A drained connection ends the watch as the server would.
    open_lane(&transport).reconnect();
    clock.turn(Duration::from_secs(6));
    assert!(events.try_next().await.unwrap().is_none());
    assert_eq!(
        maps.list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
}

fn shown(registry: &prometheus::Registry) -> String {
    prometheus::TextEncoder::new()
        .encode_to_string(&registry.gather())
        .unwrap()
}
