use std::sync::Mutex as SyncMutex;
use std::time::UNIX_EPOCH;

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use testkit::clock::TokioClock;

use super::*;
use crate::objects::Referenced;

/// A server with one configMap or none: its version, and the queries that it was asked.
#[derive(Clone, Default)]
struct Server {
    version: Arc<SyncMutex<Option<u64>>>,
    away: Arc<SyncMutex<bool>>,
    asked: Arc<SyncMutex<Vec<String>>>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = server.answer(&request);
            async { answer }
        });
        Client::new(service, "default")
    }

    fn answer(&self, request: &Request<Body>) -> Result<Response<Body>, std::io::Error> {
        if *self.away.lock().unwrap() {
            return Err(std::io::Error::other("connection refused"));
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        self.asked.lock().unwrap().push(query);
        let found = self.version.lock().unwrap().map(|version| {
            let version = version.to_string();
            let metadata = json!({"name": "c", "resourceVersion": version});
            (200, json!({"metadata": metadata, "data": {"k": version}}))
        });
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
            "message": "configmaps \"c\" not found", "reason": "NotFound", "code": 404});
        let (code, object) = found.unwrap_or((404, status));
        let body = Body::from(serde_json::to_vec(&object).unwrap());
        Ok(Response::builder().status(code).body(body).unwrap())
    }

    fn put(&self, version: Option<u64>) {
        *self.version.lock().unwrap() = version;
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn clock() -> SharedClock {
    Arc::new(TokioClock::starting_at(UNIX_EPOCH))
}

fn value(object: Option<Arc<ConfigMap>>) -> Option<String> {
    object.map(|object| object.data.as_ref().unwrap()["k"].clone())
}

fn node(ttl: Option<&str>) -> Arc<Node> {
    let annotations = ttl.map(|ttl| json!({FRESH_FOR: ttl}));
    let node = json!({"metadata": {"annotations": annotations}});
    Arc::new(serde_json::from_value(node).unwrap())
}

#[test]
fn an_answer_is_believed_as_long_as_the_node_says_and_a_minute_if_it_does_not() {
    for (node, seconds) in [
        (None, 60),
        (Some(node(None)), 60),
        (Some(node(Some("15"))), 15),
        (Some(node(Some("0"))), 0),
        (Some(node(Some("-3"))), 0),
        (Some(node(Some("soon"))), 60),
    ] {
        let told = Freshness::Told(watch::channel(node.clone()).1);
        assert_eq!(told.lasts(), Duration::from_secs(seconds), "{node:?}");
    }
    assert_eq!(Freshness::Never.lasts(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_asked_for_again_when_the_answer_is_too_old_or_somebody_else_comes() {
    let (server, clock) = (Server::default(), clock());
    server.put(Some(1));
    let (_tell, own_node) = watch::channel(Some(node(Some("30"))));
    let objects: Referenced<ConfigMap> =
        Referenced::asked(server.client(), clock.clone(), Freshness::Told(own_node));
    let mut first = objects.register("ns", "c");
    for _ in 0..3 {
        assert_eq!(value(first.get().await.unwrap()).unwrap(), "1");
    }
    assert_eq!(server.asked(), 1);
    server.put(Some(2));
    clock.sleep(Duration::from_secs(31)).await;
    assert_eq!(value(first.get().await.unwrap()).unwrap(), "2");
    let query = server.asked.lock().unwrap()[1].clone();
    assert!(query.contains("resourceVersion=0"), "{query}");
    server.put(Some(3));
    let mut second = objects.register("ns", "c");
    assert_eq!(value(second.get().await.unwrap()).unwrap(), "3");
    assert_eq!(server.asked(), 3);
    // What is older is not believed, and what cannot be asked for stays.
    server.put(Some(1));
    clock.sleep(Duration::from_secs(31)).await;
    assert_eq!(value(first.get().await.unwrap()).unwrap(), "3");
    *server.away.lock().unwrap() = true;
    clock.sleep(Duration::from_secs(31)).await;
    assert_eq!(value(first.get().await.unwrap()).unwrap(), "3");
    drop((first, second));
    assert_eq!(objects.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn that_there_is_none_is_asked_each_time() {
    let (server, clock) = (Server::default(), clock());
    let (_tell, own_node) = watch::channel(None);
    let objects: Referenced<ConfigMap> =
        Referenced::asked(server.client(), clock, Freshness::Told(own_node));
    let mut reference = objects.register("ns", "c");
    for asked in 1..4 {
        assert_eq!(reference.get().await.unwrap(), None);
        assert_eq!(server.asked(), asked);
    }
    server.put(Some(7));
    assert_eq!(value(reference.get().await.unwrap()).unwrap(), "7");
}

#[tokio::test(start_paused = true)]
async fn without_any_belief_each_reading_asks_and_fails_with_the_server() {
    let (server, clock) = (Server::default(), clock());
    server.put(Some(1));
    let objects: Referenced<ConfigMap> =
        Referenced::asked(server.client(), clock, Freshness::Never);
    let mut reference = objects.register("ns", "c");
    for version in 1..4 {
        server.put(Some(version));
        let found = value(reference.get().await.unwrap());
        assert_eq!(found, Some(version.to_string()));
    }
    let asked = server.asked.lock().unwrap().clone();
    let from_memory = |query: &String| query.contains("resourceVersion");
    assert!(!asked.iter().any(from_memory), "{asked:?}");
    // A server that was put back to an earlier day is believed, too.
    server.put(Some(1));
    assert_eq!(value(reference.get().await.unwrap()).unwrap(), "1");
    server.put(None);
    assert_eq!(reference.get().await.unwrap(), None);
    *server.away.lock().unwrap() = true;
    let error = reference.get().await.unwrap_err().to_string();
    assert!(error.contains("connection refused"), "{error}");
}
