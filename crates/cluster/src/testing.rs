//! What the tests of this crate share: moments, certificates, and an API server
//! in memory behind kube's client.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use serde_json::{Value, json};

/// The certificate authority of the recorded cluster-info.
pub(crate) const CA_PEM: &str = include_str!("../testdata/ca.crt");
pub(crate) const CA_PIN: &str =
    "sha256:0ee6305f65d45bec480c959251e20a89c0c1caa799a4285161b1c6c18971ae6e";

pub(crate) fn at(time: &str) -> SystemTime {
    time.parse::<Timestamp>().unwrap().into()
}

/// A fresh certificate authority, PEM.
pub(crate) fn authority(common_name: &str) -> String {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters
        .distinguished_name
        .push(DnType::CommonName, common_name);
    let key = KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    pem::encode(&pem::Pem::new("CERTIFICATE", certificate.der().to_vec())).replace('\r', "")
}

/// Objects by their paths, and what was asked. Subresources are written to the
/// object that they belong to.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeApi {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Value>,
    forbidden: BTreeSet<String>,
    /// Reviews are answered with `allowed` for these subresources.
    allowed_subresources: BTreeSet<String>,
    requests: Vec<String>,
    /// How many writes to come find the object changed by somebody else.
    conflicts: usize,
    created: u64,
}

impl FakeApi {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let sent = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (code, answer) = api.answer(&head.method, &head.uri, sent);
                let text = serde_json::to_vec(&answer).unwrap();
                let response = Response::builder().status(code).body(Body::from(text));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        Client::new(service, "default")
    }

    pub(crate) fn put(&self, path: &str, object: Value) {
        let mut state = self.state.lock().unwrap();
        state.objects.insert(path.to_owned(), object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state.lock().unwrap().objects.get(path).cloned()
    }

    /// Every request to a path that begins so is forbidden.
    pub(crate) fn forbid(&self, path: &str) {
        let mut state = self.state.lock().unwrap();
        state.forbidden.insert(path.to_owned());
    }

    pub(crate) fn allow_subresource(&self, subresource: &str) {
        let mut state = self.state.lock().unwrap();
        state.allowed_subresources.insert(subresource.to_owned());
    }

    /// The next writes find the object changed by somebody else.
    pub(crate) fn conflict(&self, times: usize) {
        self.state.lock().unwrap().conflicts = times;
    }

    /// Method and path with query, in their order.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }

    fn answer(&self, method: &Method, uri: &http::Uri, mut sent: Value) -> (u16, Value) {
        let mut state = self.state.lock().unwrap();
        state.requests.push(format!("{method} {uri}"));
        let path = uri.path();
        if state.forbidden.iter().any(|start| path.starts_with(start)) {
            return failure(403, "Forbidden", "user \"nobody\" cannot do that");
        }
        if path.ends_with("/subjectaccessreviews") {
            let subresource = sent["spec"]["resourceAttributes"]["subresource"].as_str();
            let allowed = state
                .allowed_subresources
                .contains(subresource.unwrap_or_default());
            sent["status"] = json!({ "allowed": allowed });
            return (201, sent);
        }
        match *method {
            Method::GET => state.read(path),
            Method::POST => state.create(path, sent),
            Method::PUT => state.replace(path, sent),
            Method::DELETE => match state.objects.remove(path) {
                Some(object) => (200, object),
                None => failure(404, "NotFound", "not found"),
            },
            _ => failure(405, "MethodNotAllowed", "not here"),
        }
    }
}

impl State {
    fn read(&self, path: &str) -> (u16, Value) {
        if let Some(object) = self.objects.get(path) {
            return (200, object.clone());
        }
        // A collection's last part is a plural word; an object's is a name.
        let collection = path.rsplit('/').next().unwrap_or_default();
        if !collection.ends_with('s') || collection.contains('-') {
            return failure(404, "NotFound", "not found");
        }
        let below = format!("{path}/");
        let items: Vec<_> = self
            .objects
            .iter()
            .filter(|(key, _)| key.starts_with(&below))
            .map(|(_, object)| object.clone())
            .collect();
        (
            200,
            json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": items }),
        )
    }

    fn create(&mut self, path: &str, mut sent: Value) -> (u16, Value) {
        self.created += 1;
        if let Some(prefix) = sent["metadata"]["generateName"].as_str() {
            sent["metadata"]["name"] = json!(format!("{prefix}{}", self.created));
        }
        sent["metadata"]["uid"] = json!(format!("uid-{}", self.created));
        sent["metadata"]["resourceVersion"] = json!("1");
        let name = sent["metadata"]["name"].as_str().unwrap_or_default();
        let key = format!("{path}/{name}");
        if self.objects.contains_key(&key) {
            return failure(409, "AlreadyExists", "already exists");
        }
        self.objects.insert(key, sent.clone());
        (201, sent)
    }

    fn replace(&mut self, path: &str, sent: Value) -> (u16, Value) {
        let key = path
            .strip_suffix("/approval")
            .or_else(|| path.strip_suffix("/status"))
            .unwrap_or(path);
        let Some(object) = self.objects.get_mut(key) else {
            return failure(404, "NotFound", "not found");
        };
        let outdated = object["metadata"]["resourceVersion"] != sent["metadata"]["resourceVersion"];
        if outdated || self.conflicts > 0 {
            self.conflicts = self.conflicts.saturating_sub(1);
            return failure(409, "Conflict", "the object has been modified");
        }
        *object = sent.clone();
        (200, sent)
    }
}

fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    });
    (code, status)
}
