//! What people are told: an API server in memory that takes events and has nothing else.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use kube::Client;
use serde_json::Value;

/// All that was told. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    events: Arc<Mutex<Vec<Value>>>,
}

impl Told {
    pub(crate) fn client(&self) -> Client {
        let told = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let told = told.clone();
            async move { Ok::<_, Infallible>(told.take(request).await) }
        });
        Client::new(service, "default")
    }

    async fn take(&self, request: Request<kube::client::Body>) -> Response<Full<Bytes>> {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let event: Value = serde_json::from_slice(&body).unwrap();
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
        drop(events);
        let answer = Response::builder().status(StatusCode::CREATED);
        answer.body(Full::new(body)).unwrap()
    }

    /// How often at most anything was told.
    pub(crate) fn most(&self) -> u64 {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = events.iter().filter_map(|event| event["count"].as_u64());
        counts.max().unwrap_or_default()
    }

    /// How often something with a reason was told about a pod.
    pub(crate) fn times(&self, pod: &str, reason: &str) -> usize {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let own = events
            .iter()
            .filter(|event| event["reason"] == reason && event["involvedObject"]["name"] == pod);
        let counts = own.filter_map(|event| event["count"].as_u64());
        usize::try_from(counts.max().unwrap_or_default()).unwrap_or(usize::MAX)
    }

    /// The different messages with a reason about a pod, each once.
    pub(crate) fn of(&self, pod: &str, reason: &str) -> Vec<String> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let mut messages: Vec<String> = events
            .iter()
            .filter(|event| event["reason"] == reason && event["involvedObject"]["name"] == pod)
            .filter_map(|event| event["message"].as_str().map(str::to_owned))
            .collect();
        messages.dedup();
        messages
    }
}
