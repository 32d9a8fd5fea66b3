//! What tests of this crate share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use seams::SharedClock;
use seams::storage::TreeFile;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::payload::Payload;

pub(crate) fn from_json<T: DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Files by path, content and mode.
pub(crate) fn files(files: Vec<(&'static str, &'static [u8], u32)>) -> Payload {
    let file = |(path, content, mode): (&str, &[u8], u32)| {
        let file = TreeFile {
            content: content.to_vec(),
            mode,
            owner: None,
        };
        (path.to_owned(), file)
    };
    files.into_iter().map(file).collect()
}

/// An API server in memory: objects of one namespace, and tokens. Its watches end
/// at once, so that what changes is seen at the next look.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    clock: SharedClock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// By kind and name.
    objects: BTreeMap<(String, String), Value>,
    version: u64,
    tokens: u64,
    away: bool,
}

impl Server {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            state: Arc::default(),
        }
    }

    pub(crate) fn put(&self, kind: &str, name: &str, mut object: Value) {
        let mut state = self.state.lock().unwrap();
        state.version += 1;
        let version = state.version.to_string();
        object["metadata"] = json!({"name": name, "namespace": "ns", "resourceVersion": version});
        state
            .objects
            .insert((kind.to_owned(), name.to_owned()), object);
    }

    pub(crate) fn remove(&self, kind: &str, name: &str) {
        let key = (kind.to_owned(), name.to_owned());
        self.state.lock().unwrap().objects.remove(&key);
    }

    pub(crate) fn be_away(&self) {
        self.state.lock().unwrap().away = true;
    }

    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.answer(request).await }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        if self.state.lock().unwrap().away {
            return Err(std::io::Error::other("connection refused"));
        }
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let answer = if path.ends_with("/token") {
            self.token(serde_json::from_slice(&body).unwrap())
        } else if query.contains("watch=true") {
            return Ok(Response::new(Body::empty()));
        } else {
            self.list(path.rsplit('/').next().unwrap(), &query)
        };
        let answer = serde_json::to_vec(&answer).unwrap();
        Ok(Response::new(Body::from(answer)))
    }

    fn list(&self, kind: &str, query: &str) -> Value {
        let selector = query.split("metadata.name%3D").nth(1).unwrap();
        let name = selector.split('&').next().unwrap();
        let state = self.state.lock().unwrap();
        let object = state.objects.get(&(kind.to_owned(), name.to_owned()));
        let version = state.version.to_string();
        let items: Vec<_> = object.into_iter().collect();
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
    }

    /// Tokens are numbered.
    fn token(&self, mut request: Value) -> Value {
        let mut state = self.state.lock().unwrap();
        state.tokens += 1;
        let life = request["spec"]["expirationSeconds"].as_u64().unwrap();
        let expires = self.clock.now() + Duration::from_secs(life);
        let expires = k8s_openapi::jiff::Timestamp::try_from(expires).unwrap();
        let token = format!("token-{}", state.tokens);
        request["status"] = json!({"token": token, "expirationTimestamp": expires.to_string()});
        request
    }
}
