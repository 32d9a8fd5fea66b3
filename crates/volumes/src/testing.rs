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

const CERTIFICATES: &str = "certificates.k8s.io/v1beta1";

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
    /// How often a token was asked for, in vain or not.
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
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!("ns");
        object["metadata"]["resourceVersion"] = json!(version);
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

    pub(crate) fn come_back(&self) {
        self.state.lock().unwrap().away = false;
    }

    /// How often it was asked for a token, away or not.
    pub(crate) fn token_requests(&self) -> u64 {
        self.state.lock().unwrap().tokens
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
        let path = request.uri().path().to_owned();
        {
            let mut state = self.state.lock().unwrap();
            state.tokens += u64::from(path.ends_with("/token"));
            if state.away {
                return Err(std::io::Error::other("connection refused"));
            }
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut place = path.rsplit('/');
        let (name, kind) = (place.next().unwrap(), place.next().unwrap());
        if kind.starts_with("persistentvolume") || path.contains("/storage.k8s.io/") {
            return Ok(self.get(kind, name));
        }
        let answer = if path.ends_with("/token") {
            self.token(serde_json::from_slice(&body).unwrap())
        } else if query.contains("watch=true") {
            return Ok(Response::new(Body::empty()));
        } else if path.ends_with(CERTIFICATES) {
            let resource = json!({
                "name": "clustertrustbundles", "singularName": "", "namespaced": false,
                "kind": "ClusterTrustBundle", "verbs": [],
            });
            json!({"kind": "APIResourceList", "groupVersion": CERTIFICATES, "resources": [resource]})
        } else {
            self.list(path.rsplit('/').next().unwrap(), &query)
        };
        let answer = serde_json::to_vec(&answer).unwrap();
        Ok(Response::new(Body::from(answer)))
    }

    fn get(&self, kind: &str, name: &str) -> Response<Body> {
        let state = self.state.lock().unwrap();
        let object = state.objects.get(&(kind.to_owned(), name.to_owned()));
        let message = format!("{kind} {name:?} not found");
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
            "message": message, "reason": "NotFound", "code": 404});
        let found = object.map(|object| (200, object.clone()));
        let (code, answer) = found.unwrap_or((404, status));
        let answer = serde_json::to_vec(&answer).unwrap();
        let response = Response::builder().status(code);
        response.body(Body::from(answer)).unwrap()
    }

    fn list(&self, kind: &str, query: &str) -> Value {
        let selector = query.split("metadata.name%3D").nth(1);
        let name = selector.map(|selector| selector.split('&').next().unwrap());
        let state = self.state.lock().unwrap();
        let version = state.version.to_string();
        let objects = state.objects.iter().filter(|((of, own), _)| {
            of.as_str() == kind && name.is_none_or(|name| name == own.as_str())
        });
        let items: Vec<_> = objects.map(|(_, object)| object).collect();
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
    }

    /// Tokens are numbered by the requests.
    fn token(&self, mut request: Value) -> Value {
        let state = self.state.lock().unwrap();
        let life = request["spec"]["expirationSeconds"].as_u64().unwrap();
        let expires = self.clock.now() + Duration::from_secs(life);
        let expires = k8s_openapi::jiff::Timestamp::try_from(expires).unwrap();
        let token = format!("token-{}", state.tokens);
        request["status"] = json!({"token": token, "expirationTimestamp": expires.to_string()});
        request
    }
}
