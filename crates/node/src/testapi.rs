//! An API server in memory, in place of the transport: it holds objects by path,
//! notes every call, and can be away or refuse.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use seams::SharedClock;
use serde_json::{Value, json};
use tokio::sync::watch;

type Answer = Response<Full<Bytes>>;

pub(crate) const NODE: &str = "/api/v1/nodes/up1";
pub(crate) const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/up1";
pub(crate) const CSI_NODE: &str = "/apis/storage.k8s.io/v1/csinodes/up1";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// A call that reached the server, or would have.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
    pub(crate) at: Duration,
    /// Whose client it came through.
    pub(crate) by: &'static str,
}

/// Refuses calls of one kind.
struct Refusal {
    method: Method,
    path: &'static str,
    code: u16,
    reason: &'static str,
    times: usize,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    calls: Vec<Call>,
    refusals: Vec<Refusal>,
    away: bool,
    made: u64,
    version: u64,
}

#[derive(Clone)]
pub(crate) struct TestApi {
    state: Arc<Mutex<State>>,
    clock: SharedClock,
    /// What an informer of the node would show, without delay.
    own_node: watch::Sender<Option<Arc<Node>>>,
}

impl TestApi {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            state: Arc::default(),
            clock,
            own_node: watch::channel(None).0,
        }
    }

    pub(crate) fn client(&self, by: &'static str) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = api.clone();
            async move { api.answer(request, by).await }
        });
        Client::new(service, "default")
    }

    pub(crate) fn own_node(&self) -> watch::Receiver<Option<Arc<Node>>> {
        self.own_node.subscribe()
    }

    pub(crate) fn set_away(&self, away: bool) {
        self.lock().away = away;
    }

    /// Refuses the next calls of this kind.
    pub(crate) fn refuse(
        &self,
        method: Method,
        path: &'static str,
        (code, reason): (u16, &'static str),
        times: usize,
    ) {
        self.lock().refusals.push(Refusal {
            method,
            path,
            code,
            reason,
            times,
        });
    }

    /// Puts an object there that somebody else made, or changes one.
    pub(crate) fn plant(&self, path: &str, object: Value) {
        let mut state = self.lock();
        state.store(path, object);
        self.show(&state);
    }

    pub(crate) fn object(&self, path: &str) -> Option<Value> {
        self.lock().objects.get(path).cloned()
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let state = self.lock();
        let events = state.objects.iter();
        let mut events: Vec<Value> = events
            .filter(|(path, _)| path.starts_with(EVENTS))
            .map(|(_, event)| event.clone())
            .collect();
        events.sort_by_key(|event| event["metadata"]["uid"].as_str().unwrap().to_owned());
        events
    }

    pub(crate) fn calls(&self, method: &Method, path: &str) -> Vec<Call> {
        let state = self.lock();
        let calls = state.calls.iter();
        calls
            .filter(|call| call.method == method && call.path.starts_with(path))
            .cloned()
            .collect()
    }

    pub(crate) fn all_calls(&self) -> usize {
        self.lock().calls.len()
    }

    pub(crate) fn clear(&self) {
        self.lock().objects.clear();
    }

    pub(crate) fn forget_calls(&self) {
        self.lock().calls.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn show(&self, state: &State) {
        let node = state.objects.get(NODE).cloned();
        let node = node.map(|node| Arc::new(serde_json::from_value(node).unwrap()));
        self.own_node.send_replace(node);
    }

    async fn answer(
        &self,
        request: Request<kube::client::Body>,
        by: &'static str,
    ) -> Result<Answer, std::io::Error> {
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut state = self.lock();
        state.calls.push(Call {
            method: method.clone(),
            path: path.clone(),
            body: body.clone(),
            at: self.clock.uptime(),
            by,
        });
        if state.away {
            return Err(std::io::Error::other("connection refused"));
        }
        if let Some((code, reason)) = state.refusal(&method, &path) {
            return Ok(refused(code, reason));
        }
        let answer = state.serve(&method, &path, body);
        self.show(&state);
        Ok(answer)
    }
}

impl State {
    fn refusal(&mut self, method: &Method, path: &str) -> Option<(u16, &'static str)> {
        let refusal = self.refusals.iter_mut().find(|refusal| {
            refusal.times > 0 && refusal.method == method && path.starts_with(refusal.path)
        })?;
        refusal.times -= 1;
        Some((refusal.code, refusal.reason))
    }

    fn serve(&mut self, method: &Method, path: &str, body: Value) -> Answer {
        let path = path.strip_suffix("/status").unwrap_or(path);
        match *method {
            Method::POST => {
                let name = body["metadata"]["name"].as_str().unwrap();
                let path = format!("{path}/{name}");
                if self.objects.contains_key(&path) {
                    return refused(409, "AlreadyExists");
                }
                answered(StatusCode::CREATED, &self.store(&path, body))
            }
            Method::DELETE => match self.objects.remove(path) {
                Some(object) => answered(StatusCode::OK, &object),
                None => refused(404, "NotFound"),
            },
            _ => {
                let Some(object) = self.objects.get(path).cloned() else {
                    return refused(404, "NotFound");
                };
                let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
                match *method {
                    Method::PATCH => {
                        let mut object = object;
                        merge(&mut object, &body);
                        answered(StatusCode::OK, &self.store(path, object))
                    }
                    Method::PUT if version(&object) != version(&body) => refused(409, "Conflict"),
                    Method::PUT => answered(StatusCode::OK, &self.store(path, body)),
                    _ => answered(StatusCode::OK, &object),
                }
            }
        }
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = json!(self.version.to_string());
        if metadata["uid"].is_null() {
            self.made += 1;
            metadata["uid"] = json!(format!("uid-{:04}", self.made));
        }
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

/// A strategic merge, as far as nodes and events need it.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.as_object_mut().unwrap().remove(key);
            }
            _ if key.starts_with("$setElementOrder/") => {}
            Value::Array(elements) if key == "conditions" || key == "addresses" => {
                merge_by_type(&mut target[key], elements);
            }
            Value::Object(_) => merge(&mut target[key], value),
            _ => target[key] = value.clone(),
        }
    }
}

fn merge_by_type(target: &mut Value, elements: &[Value]) {
    if elements.contains(&json!({"$patch": "replace"})) {
        let kept = elements
            .iter()
            .filter(|element| element.get("$patch").is_none());
        *target = kept.cloned().collect();
        return;
    }
    if target.is_null() {
        *target = json!([]);
    }
    let list = target.as_array_mut().unwrap();
    for element in elements {
        let place = list
            .iter()
            .position(|other| other["type"] == element["type"]);
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
