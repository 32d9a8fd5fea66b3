//! An API server that knows certificate signing requests and nothing else, in
//! place of the transport: for days that a real one does not have on demand.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::Client;
use rcgen::{CertificateParams, CertificateSigningRequestParams, DnType, Issuer, KeyPair};
use seams::SharedClock;
use serde_json::{Value, json};
use tokio::sync::watch;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What becomes of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pending,
    Issued {
        life: Duration,
    },
    /// Approved by somebody, signed by nobody.
    ApprovedOnly,
    Denied,
    Failed,
}

/// How the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    /// Connections are refused.
    Down,
    /// Nothing is ever answered.
    Hanging,
    /// Every call is refused by the API itself.
    Refusing(u16),
}

#[derive(Clone)]
pub(crate) struct TestApi {
    state: Arc<Mutex<State>>,
    changes: watch::Sender<u64>,
    clock: SharedClock,
}

struct State {
    objects: BTreeMap<String, Value>,
    fate: Fate,
    health: Health,
    calls: Vec<Call>,
    made: u64,
    version: u64,
    /// How far the signer's clock is from the node's.
    signer_ahead: i64,
}

/// A call that reached the server, or would have.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) verb: &'static str,
    /// As whom; see `client`.
    pub(crate) as_whom: &'static str,
}

impl TestApi {
    pub(crate) fn new(clock: SharedClock, fate: Fate) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                objects: BTreeMap::new(),
                fate,
                health: Health::Up,
                calls: Vec::new(),
                made: 0,
                version: 1,
                signer_ahead: 0,
            })),
            changes: watch::channel(0).0,
            clock,
        }
    }

    /// A client whose calls are noted as `as_whom`'s.
    pub(crate) fn client(&self, as_whom: &'static str) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = api.clone();
            async move { api.answer(request, as_whom).await }
        });
        Client::new(service, "default")
    }

    pub(crate) fn set_fate(&self, fate: Fate) {
        self.change(|state| state.fate = fate);
    }

    pub(crate) fn set_health(&self, health: Health) {
        self.change(|state| state.health = health);
    }

    pub(crate) fn set_signer_ahead(&self, seconds: i64) {
        self.change(|state| state.signer_ahead = seconds);
    }

    /// Lets the fate befall requests that are there already.
    pub(crate) fn decide(&self) {
        let now = self.clock.now();
        self.change(|state| {
            let names: Vec<String> = state.objects.keys().cloned().collect();
            for name in names {
                state.befall(&name, now);
            }
        });
    }

    /// Puts a request there that somebody else made.
    pub(crate) fn plant(&self, name: &str, mut object: Value) {
        object["metadata"] = json!({"name": name, "uid": "planted"});
        self.change(|state| {
            state.objects.insert(name.to_owned(), object);
        });
    }

    pub(crate) fn delete_all(&self) {
        self.change(|state| state.objects.clear());
    }

    pub(crate) fn objects(&self) -> Vec<Value> {
        self.lock().objects.values().cloned().collect()
    }

    pub(crate) fn calls(&self, verb: &str) -> Vec<Call> {
        let state = self.lock();
        let of_verb = state.calls.iter().filter(|call| call.verb == verb);
        of_verb.cloned().collect()
    }

    pub(crate) fn all_calls(&self) -> usize {
        self.lock().calls.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changes.send_modify(|count| *count += 1);
    }

    async fn answer(
        &self,
        request: Request<kube::client::Body>,
        as_whom: &'static str,
    ) -> Result<Answer, std::io::Error> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let path = request.uri().path().to_owned();
        let watching = query.contains("watch=true");
        let verb = match *request.method() {
            Method::POST => "create",
            _ if path == "/healthz" => "healthz",
            _ if watching => "watch",
            _ if query.contains("fieldSelector") => "list",
            _ => "get",
        };
        let health = {
            let mut state = self.lock();
            state.calls.push(Call { verb, as_whom });
            state.health
        };
        match health {
            Health::Up => {}
            Health::Down => return Err(std::io::Error::other("connection refused")),
            Health::Hanging => std::future::pending::<()>().await,
            Health::Refusing(code) => return Ok(refusal(code, "no")),
        }
        let name = query
            .split("metadata.name%3D")
            .nth(1)
            .map(|rest| rest.split('&').next().unwrap_or_default().to_owned());
        let name = name.unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default().to_owned());
        Ok(match verb {
            "create" => {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                self.create(&body)
            }
            "list" => {
                let state = self.lock();
                let items: Vec<&Value> = state.objects.get(&name).into_iter().collect();
                let version = state.version.to_string();
                whole(
                    StatusCode::OK,
                    &json!({"metadata": {"resourceVersion": version}, "items": items}),
                )
            }
            "watch" => self.watch(name),
            "healthz" => whole(StatusCode::OK, &json!("ok")),
            _ => match self.lock().objects.get(&name) {
                Some(object) => whole(StatusCode::OK, object),
                None => refusal(404, "not found"),
            },
        })
    }

    fn create(&self, body: &[u8]) -> Answer {
        let mut object: Value = serde_json::from_slice(body).unwrap();
        let now = self.clock.now();
        let mut state = self.lock();
        let name = match object.pointer("/metadata/name").and_then(Value::as_str) {
            Some(name) => name.to_owned(),
            None => format!("csr-{:05}", state.made),
        };
        if state.objects.contains_key(&name) {
            return refusal(409, "already exists");
        }
        state.made += 1;
        object["metadata"]["uid"] = json!(format!("uid-{}", state.made));
        object["metadata"]["name"] = json!(name);
        let created = object.clone();
        state.objects.insert(name.clone(), object);
        state.befall(&name, now);
        drop(state);
        self.changes.send_modify(|count| *count += 1);
        whole(StatusCode::CREATED, &created)
    }

    /// Events about one object, until the server's health changes.
    fn watch(&self, name: String) -> Answer {
        let last = self.lock().objects.get(&name).cloned();
        let events = stream::unfold(
            (self.clone(), self.changes.subscribe(), name, last, true),
            |(api, mut changes, name, last, first)| async move {
                if !first && changes.changed().await.is_err() {
                    return None;
                }
                let (now, health) = {
                    let state = api.lock();
                    (state.objects.get(&name).cloned(), state.health)
                };
                if health != Health::Up {
                    return None;
                }
                let line = match (&last, &now) {
                    (Some(_), None) => {
                        json!({"type": "DELETED", "object": last}).to_string() + "\n"
                    }
                    (old, Some(new)) if first || old.as_ref() != Some(new) => {
                        json!({"type": "MODIFIED", "object": new}).to_string() + "\n"
                    }
                    _ => String::new(),
                };
                Some((line, (api, changes, name, now, false)))
            },
        );
        let frames = events.map(|line| Ok(Frame::data(Bytes::from(line))));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }
}

impl State {
    fn befall(&mut self, name: &str, now: SystemTime) {
        self.version += 1;
        let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason, "message": "by the test"});
        let (fate, ahead) = (self.fate, self.signer_ahead);
        let Some(object) = self.objects.get_mut(name) else {
            return;
        };
        let status = match fate {
            Fate::Pending => json!({}),
            Fate::ApprovedOnly => json!({"conditions": [condition("Approved", "AutoApproved")]}),
            Fate::Denied => json!({"conditions": [condition("Denied", "NotWanted")]}),
            Fate::Failed => {
                json!({"conditions": [condition("Approved", "AutoApproved"), condition("Failed", "SignerValidationFailure")]})
            }
            Fate::Issued { life } => {
                let text = object["spec"]["request"].as_str().unwrap();
                let pem = String::from_utf8(STANDARD.decode(text).unwrap()).unwrap();
                let offset = Duration::from_secs(ahead.unsigned_abs());
                let signer_now = if ahead < 0 {
                    now - offset
                } else {
                    now + offset
                };
                let certificate = STANDARD.encode(sign(&pem, signer_now, life));
                json!({"conditions": [condition("Approved", "AutoApproved")], "certificate": certificate})
            }
        };
        object["status"] = status;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
    }
}

/// As the real signer does it: from five minutes ago.
fn sign(request: &str, now: SystemTime, life: Duration) -> String {
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::CommonName, "test CA");
    let issuer = Issuer::new(authority, key);
    let mut request = CertificateSigningRequestParams::from_pem(request).unwrap();
    request.params.not_before = (now - Duration::from_secs(300)).into();
    request.params.not_after = (now + life).into();
    request.signed_by(&issuer).unwrap().pem()
}

fn refusal(code: u16, message: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": message, "reason": "Test", "code": code,
    });
    whole(StatusCode::from_u16(code).unwrap(), &status)
}

fn whole(code: StatusCode, body: &Value) -> Answer {
    let body = http_body_util::Full::new(Bytes::from(body.to_string()));
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = code;
    answer
}
