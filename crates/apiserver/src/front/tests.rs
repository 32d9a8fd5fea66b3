//! Requests as they come from a connection, without one.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::access::{Authenticator, Authorizer, ClientTrust, Pki, ServingNames};
use crate::clock::Clock;
use crate::faults::{Effect, Faults, Rule};
use crate::kinds::{CONFIG_MAPS, NAMESPACES};
use crate::rest::{DeleteOptions, Objects, Part};
use crate::store::{Key, Store, Window};

const MAPS: &str = "/api/v1/namespaces/x/configmaps";

struct Front {
    desk: Desk,
    admin: [CertificateDer<'static>; 1],
    objects: Objects,
    faults: Faults,
}

async fn with_front<F: Future>(window: Window, work: impl FnOnce(Front) -> F) -> F::Output {
    let (store, writer) = Store::open(None, window).unwrap();
    let shutdown = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(writer.run(shutdown.clone()));
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let clock = Clock::starting_at(start);
    let objects = Objects::new(store.clone(), clock.clone());
    let namespace = json!({"metadata": {"name": "x"}});
    objects.create(&NAMESPACES, "", namespace).await.unwrap();
    let names = ServingNames {
        names: Vec::new(),
        addresses: Vec::new(),
        service_address: IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)),
        cluster_domain: "cluster.local".to_owned(),
    };
    let pki = Pki::open(None, &names, clock.timestamp()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trust = ClientTrust::new(pki.ca.certificate_der(), &provider).unwrap();
    let token_key = Arc::clone(&pki.token_key);
    let issuer = "https://issuer".to_owned();
    let client = &pki.kubelet_client;
    let client = KubeletClient::new(client.certificate_der().clone(), client.key_tls()).unwrap();
    let faults = Faults::default();
    let desk = Desk::new(DeskParts {
        objects: objects.clone(),
        authenticator: Authenticator::new(trust, token_key, issuer, store, clock),
        authorizer: Authorizer::default(),
        kubelets: client,
        faults: faults.clone(),
        address: "127.0.0.1:6443".to_owned(),
        shutdown: shutdown.clone(),
    });
    let admin = [pki.admin.certificate_der().clone()];
    let front = Front {
        desk,
        admin,
        objects,
        faults,
    };
    let output = work(front).await;
    shutdown.cancel();
    running.join_all().await;
    output
}

async fn front<F: Future>(work: impl FnOnce(Front) -> F) -> F::Output {
    with_front(Window::default(), work).await
}

impl Front {
    async fn send(&self, request: http::request::Builder, body: &str) -> Answer {
        let request = request.body(answer::full(body.to_owned())).unwrap();
        let peer = (Ipv4Addr::LOCALHOST, 1).into();
        self.desk.answer(request, &self.admin, peer, &|_| {}).await
    }

    async fn ask(&self, method: Method, uri: &str, body: &str) -> (StatusCode, Value) {
        let answer = self
            .send(Request::builder().method(method).uri(uri), body)
            .await;
        let code = answer.status();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let value = serde_json::from_slice(&bytes);
        (
            code,
            value.unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()),
        )
    }

    async fn get(&self, uri: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, uri, "").await
    }

    async fn make(&self, name: &str) -> u64 {
        let object = json!({"metadata": {"name": name, "labels": {"of": name}}});
        let made = self.objects.create(&CONFIG_MAPS, "x", object).await;
        made.unwrap().revision()
    }

    async fn watch(&self, parameters: &str) -> Events {
        let uri = format!("{MAPS}?watch=true&{parameters}");
        self.watch_as(&uri, "application/json").await
    }

    async fn watch_as(&self, uri: &str, accept: &str) -> Events {
        let request = Request::builder().uri(uri).header(header::ACCEPT, accept);
        let answer = self.send(request, "").await;
        assert_eq!(answer.status(), StatusCode::OK);
        Events {
            body: answer.into_body(),
            text: Vec::new(),
        }
    }
}

struct Events {
    body: Body,
    text: Vec<u8>,
}

impl Events {
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.text.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// Its word, and the name of the object.
    async fn told(&mut self) -> (String, String) {
        let event = self.next().await.unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&event["type"]),
            text(&event["object"]["metadata"]["name"]),
        )
    }
}

fn told(word: &str, name: &str) -> (String, String) {
    (word.to_owned(), name.to_owned())
}

#[tokio::test(start_paused = true)]
async fn what_there_is_not_is_said_as_upstream_does() {
    front(async |front: Front| {
        for (method, uri, code, reason) in [
            (Method::GET, "/api/v1/bananas", 404, "NotFound"),
            (Method::GET, "/api/v1/pods/a", 404, "NotFound"),
            (Method::GET, "/api/v1/namespaces/x/nodes", 404, "NotFound"),
            (
                Method::GET,
                "/api/v1/namespaces/x/pods/a/colour",
                404,
                "NotFound",
            ),
            (Method::GET, "/api/v1/namespaces/x/pods/a", 404, "NotFound"),
            (Method::POST, "/api/v1/pods", 405, "MethodNotAllowed"),
            (
                Method::DELETE,
                "/api/v1/namespaces",
                405,
                "MethodNotAllowed",
            ),
            (Method::POST, MAPS, 400, "BadRequest"),
            (Method::GET, "/banana", 404, "NotFound"),
            (
                Method::GET,
                "/api/v1/namespaces/x/configmaps?resourceVersion=x",
                400,
                "BadRequest",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/x/configmaps?resourceVersionMatch=Exact",
                422,
                "Invalid",
            ),
        ] {
            let (found, status) = front.ask(method, uri, "").await;
            assert_eq!(
                (found.as_u16(), &status["reason"]),
                (code, &json!(reason)),
                "{uri}: {status}"
            );
            assert_eq!(status["code"], code);
            assert_eq!(status["status"], "Failure");
        }
        assert_eq!(front.get("/readyz").await.1, json!("ok"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_is_not_believed_or_may_not_is_told_so() {
    front(async |front: Front| {
        let peer = (Ipv4Addr::LOCALHOST, 1).into();
        let with = |token: Option<&str>| {
            let mut request = Request::builder().uri(MAPS);
            if let Some(token) = token {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            request.body(answer::full("")).unwrap()
        };
        let answer = front.desk.answer(with(Some("none")), &[], peer, &|_| {}).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        let answer = front.desk.answer(with(None), &[], peer, &|_| {}).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let status: Value = serde_json::from_slice(&bytes).unwrap();
        let words = "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"x\"";
        assert_eq!(status["message"], words);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn json_is_spoken_and_protobuf_understood() {
    front(async |front: Front| {
        let protobuf = "application/vnd.kubernetes.protobuf";
        let request = Request::builder()
            .uri(MAPS)
            .header(header::ACCEPT, protobuf);
        assert_eq!(
            front.send(request, "").await.status(),
            StatusCode::NOT_ACCEPTABLE
        );
        let request = Request::builder().method(Method::POST).uri(MAPS);
        let answer = front
            .send(request.header(header::CONTENT_TYPE, "application/cbor"), "")
            .await;
        assert_eq!(answer.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
        // What clients insist on writing is read; answers are JSON.
        let request = Request::builder().method(Method::POST).uri(MAPS);
        let object = "k8s\0\n\u{f}\n\u{2}v1\u{12}\u{9}ConfigMap\u{12}\u{5}\n\u{3}\n\u{1}a";
        let answer = front
            .send(request.header(header::CONTENT_TYPE, protobuf), object)
            .await;
        assert_eq!(answer.status(), StatusCode::CREATED);
        let long = "x".repeat(4 << 20);
        let (code, status) = front.ask(Method::POST, MAPS, &long).await;
        assert_eq!(
            (code, &status["reason"]),
            (
                StatusCode::PAYLOAD_TOO_LARGE,
                &json!("RequestEntityTooLarge")
            )
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_begins_with_what_there_is_and_goes_on() {
    front(async |front: Front| {
        front.make("a").await;
        let mut events = front.watch("").await;
        assert_eq!(events.told().await, told("ADDED", "a"));
        front.make("b").await;
        assert_eq!(events.told().await, told("ADDED", "b"));
        let key = Key::new(&CONFIG_MAPS, "x", "a");
        let change = |object: &mut Value| {
            object["data"] = json!({"a": "b"});
            true
        };
        front
            .objects
            .modify(&key, Part::Main, change)
            .await
            .unwrap();
        assert_eq!(events.told().await, told("MODIFIED", "a"));
        let gone = front
            .objects
            .delete(&key, DeleteOptions::default())
            .await
            .unwrap();
        let event = events.next().await.unwrap();
        assert_eq!(event["type"], "DELETED");
        assert_eq!(
            event["object"]["metadata"]["resourceVersion"],
            gone.revision().to_string()
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_revision_tells_what_came_after_it() {
    front(async |front: Front| {
        let first = front.make("a").await;
        front.make("b").await;
        let mut events = front
            .watch(&format!("resourceVersion={first}&timeoutSeconds=5&limit=1"))
            .await;
        assert_eq!(events.told().await, told("ADDED", "b"));
        assert_eq!(events.next().await, None, "its time is up");
        let forever = format!("labelSelector=of%3Db&timeoutSeconds={}", u64::MAX);
        let mut events = front.watch(&format!("resourceVersion=0&{forever}")).await;
        assert_eq!(events.told().await, told("ADDED", "b"));
        // It is taken out of what is selected: gone, as far as this watch is concerned.
        let key = Key::new(&CONFIG_MAPS, "x", "b");
        let change = |object: &mut Value| {
            object["metadata"]["labels"] = json!({"of": "c"});
            true
        };
        let changed = front
            .objects
            .modify(&key, Part::Main, change)
            .await
            .unwrap();
        let event = events.next().await.unwrap();
        assert_eq!(event["type"], "DELETED");
        assert_eq!(event["object"]["metadata"]["labels"]["of"], "b");
        assert_eq!(
            event["object"]["metadata"]["resourceVersion"],
            changed.revision().to_string()
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn bookmarks_tell_how_far_a_watch_is() {
    front(async |front: Front| {
        let first = front.make("a").await;
        let parameters = format!(
            "resourceVersion={first}&allowWatchBookmarks=true&fieldSelector=metadata.name%3Da"
        );
        let mut events = front.watch(&parameters).await;
        let other = front.make("b").await;
        let event = events.next().await.unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(
            event["object"]["metadata"]["resourceVersion"],
            other.to_string()
        );
        assert_eq!(event["object"]["kind"], "ConfigMap");

        let list =
            "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
        let mut events = front.watch(list).await;
        assert_eq!(events.told().await, told("ADDED", "a"));
        assert_eq!(events.told().await, told("ADDED", "b"));
        let event = events.next().await.unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(
            event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
            "true"
        );
        let (code, _) = front
            .get(&format!("{MAPS}?watch=true&sendInitialEvents=true"))
            .await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_too_long_ago_is_told_to_begin_anew() {
    let window = Window {
        changes: 1,
        ..Window::default()
    };
    with_front(window, async |front: Front| {
        let first = front.make("a").await;
        front.make("b").await;
        front.make("c").await;
        let mut events = front.watch(&format!("resourceVersion={first}")).await;
        let event = events.next().await.unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["code"]),
            (&json!("ERROR"), &json!(410))
        );
        assert_eq!(event["object"]["reason"], "Expired");
        assert_eq!(events.next().await, None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn tables_of_a_watch_name_their_columns_once() {
    front(async |front: Front| {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        front.make("a").await;
        front.make("b").await;
        let mut events = front.watch_as(&format!("{MAPS}?watch=1"), table).await;
        let (first, second) = (events.next().await.unwrap(), events.next().await.unwrap());
        assert_eq!(first["object"]["kind"], "Table");
        assert!(first["object"]["columnDefinitions"].is_array());
        assert!(!second["object"]["columnDefinitions"].is_array());
        assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn faults_are_late_and_cut_off_as_they_are_told() {
    front(async |front: Front| {
        let minute = Duration::from_secs(30);
        front.faults.set(vec![
            Rule::new("list", "configmaps", Effect::Latency(minute)).times(1),
            Rule::new("watch", "configmaps", Effect::DropWatch(1)),
            Rule::new("update", "configmaps", Effect::Conflict),
        ]);
        let before = tokio::time::Instant::now();
        front.get(MAPS).await;
        assert!(before.elapsed() >= minute);
        let mut events = front.watch("resourceVersion=1").await;
        front.make("a").await;
        front.make("b").await;
        assert_eq!(events.told().await, told("ADDED", "a"));
        assert_eq!(events.next().await, None);
        let (code, status) = front.ask(Method::PUT, &format!("{MAPS}/a"), "{}").await;
        assert_eq!(
            (code, &status["reason"]),
            (StatusCode::CONFLICT, &json!("Conflict"))
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages() {
    front(async |front: Front| {
        for name in ["a", "b", "c"] {
            front.make(name).await;
        }
        let (_, page) = front.get(&format!("{MAPS}?limit=2")).await;
        assert_eq!(page["kind"], "ConfigMapList");
        assert_eq!(page["items"].as_array().map(Vec::len), Some(2));
        assert_eq!(page["metadata"]["remainingItemCount"], 1);
        let token = page["metadata"]["continue"].as_str().unwrap();
        let (_, rest) = front.get(&format!("{MAPS}?limit=2&continue={token}")).await;
        assert_eq!(rest["items"][0]["metadata"]["name"], "c");
        assert_eq!(
            rest["metadata"]["resourceVersion"],
            page["metadata"]["resourceVersion"]
        );
        assert!(rest["metadata"]["continue"].is_null());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_by_selector() {
    front(async |front: Front| {
        for name in ["a", "b"] {
            front.make(name).await;
        }
        let (code, list) = front
            .ask(Method::DELETE, &format!("{MAPS}?labelSelector=of%3Da"), "")
            .await;
        assert_eq!(
            (code, &list["kind"]),
            (StatusCode::OK, &json!("ConfigMapList"))
        );
        let (_, left) = front.get(MAPS).await;
        assert_eq!(left["items"].as_array().map(Vec::len), Some(1));
        let (code, status) = front
            .ask(
                Method::DELETE,
                &format!("{MAPS}/b"),
                r#"{"propagationPolicy": "Background"}"#,
            )
            .await;
        assert_eq!(
            (code, &status["status"]),
            (StatusCode::OK, &json!("Success"))
        );
        assert_eq!(status["details"]["name"], "b");
    })
    .await;
}
