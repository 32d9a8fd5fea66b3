//! An API server in memory, as far as pods' statuses need one: it holds pods by
//! name, notes every call, and can be away, slow, or refuse.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use seams::SharedClock;
use serde_json::{Value, json};

type Answer = Response<Full<Bytes>>;

const PODS: &str = "/api/v1/namespaces/default/pods/";

#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// `PATCH web`.
    pub(crate) what: String,
    pub(crate) body: Value,
    pub(crate) at: Duration,
}

#[derive(Default)]
pub(crate) struct State {
    pods: BTreeMap<String, Value>,
    calls: Vec<Call>,
    pub(crate) away: bool,
    /// How long each answer takes.
    pub(crate) slow: Duration,
    answering: usize,
    pub(crate) most_at_once: usize,
    version: u64,
}

#[derive(Clone)]
pub(crate) struct TestApi {
    state: Arc<Mutex<State>>,
    clock: SharedClock,
}

impl TestApi {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            state: Arc::default(),
            clock,
        }
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = api.clone();
            async move { api.answer(request).await }
        });
        Client::new(service, "default")
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Puts a pod there, or changes one, as somebody else does.
    pub(crate) fn plant(&self, name: &str, uid: &str, status: &Value) {
        let mut state = self.state();
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": uid},
            "spec": {"containers": [{"name": "a"}]},
            "status": status,
        });
        state.store(name, pod);
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        let mut pod = state.pods[name].clone();
        change(&mut pod);
        state.store(name, pod);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.state().pods.remove(name);
    }

    pub(crate) fn json(&self, name: &str) -> Option<Value> {
        self.state().pods.get(name).cloned()
    }

    pub(crate) fn pod(&self, name: &str) -> Arc<Pod> {
        Arc::new(serde_json::from_value(self.json(name).unwrap()).unwrap())
    }

    /// The calls since the last time it was asked.
    pub(crate) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state().calls)
    }

    pub(crate) fn words(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.what).collect()
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Result<Answer, std::io::Error> {
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let name = path.strip_prefix(PODS).unwrap();
        let bare = name.strip_suffix("/status").unwrap_or(name).to_owned();
        let slow = {
            let mut state = self.state();
            state.calls.push(Call {
                what: format!("{method} {name}"),
                body: body.clone(),
                at: self.clock.uptime(),
            });
            state.answering += 1;
            state.most_at_once = state.most_at_once.max(state.answering);
            state.slow
        };
        if slow > Duration::ZERO {
            self.clock.sleep(slow).await;
        }
        let mut state = self.state();
        state.answering -= 1;
        if state.away {
            return Err(std::io::Error::other("connection refused"));
        }
        Ok(state.serve(&method, &bare, &body))
    }
}

impl State {
    fn serve(&mut self, method: &Method, name: &str, body: &Value) -> Answer {
        let Some(pod) = self.pods.get(name).cloned() else {
            return refused(404, "NotFound");
        };
        let uid = match *method {
            Method::PATCH => &body["metadata"]["uid"],
            _ => &body["preconditions"]["uid"],
        };
        if !uid.is_null() && *uid != pod["metadata"]["uid"] {
            return refused(409, "Conflict");
        }
        match *method {
            Method::PATCH => {
                let mut pod = pod;
                merge(&mut pod, body);
                answered(StatusCode::OK, &self.store(name, pod))
            }
            Method::DELETE => {
                self.pods.remove(name);
                answered(StatusCode::OK, &pod)
            }
            _ => answered(StatusCode::OK, &pod),
        }
    }

    fn store(&mut self, name: &str, mut pod: Value) -> Value {
        self.version += 1;
        pod["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.pods.insert(name.to_owned(), pod.clone());
        pod
    }
}

/// A strategic merge, as far as pods' statuses need it.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        match (key.as_str(), value) {
            (_, Value::Null) => drop(target.as_object_mut().unwrap().remove(key)),
            ("conditions", Value::Array(elements)) => merge_by_type(&mut target[key], elements),
            (key, _) if key.starts_with("$setElementOrder/") => {}
            (_, Value::Object(_)) => merge(&mut target[key], value),
            _ => target[key] = value.clone(),
        }
    }
}

fn merge_by_type(target: &mut Value, elements: &[Value]) {
    if target.is_null() {
        *target = json!([]);
    }
    let list = target.as_array_mut().unwrap();
    for element in elements {
        let mut places = list.iter();
        let place = places.position(|other| other["type"] == element["type"]);
        match place {
            Some(place) => merge(&mut list[place], element),
            None => list.push(element.clone()),
        }
    }
}

fn refused(code: u16, reason: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "by the test", "reason": reason, "code": code,
    });
    answered(StatusCode::from_u16(code).unwrap(), &status)
}

fn answered(code: StatusCode, body: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    *answer.status_mut() = code;
    answer
}
