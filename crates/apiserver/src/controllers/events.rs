//! Events: what controllers tell people about objects. The same event again is counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use tracing::debug;

use crate::kinds::{EVENTS, Kind};
use crate::rest::{Objects, Part};
use crate::store::Key;

/// Events that are remembered to be counted; beyond that all are begun anew.
const MOST: usize = 4096;

/// Who tells, of what.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    objects: Objects,
    component: &'static str,
    /// By what was told, the name of the event. Behind a plain lock that is never held
    /// while something is written.
    told: Arc<Mutex<HashMap<[String; 3], String>>>,
}

/// What is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) kind: &'static Kind,
    pub(crate) regarding: &'a ObjectMeta,
    /// `Normal` or `Warning`.
    pub(crate) severity: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

impl Recorder {
    pub(crate) fn new(objects: Objects, component: &'static str) -> Self {
        Self {
            objects,
            component,
            told: Arc::default(),
        }
    }

    /// An event that cannot be kept is not worth a failure.
    pub(crate) async fn tell(&self, event: Event<'_>) {
        let namespace = event.regarding.namespace.as_deref().unwrap_or("default");
        let now = self.objects.clock().seconds();
        let key = [
            event.regarding.uid.clone().unwrap_or_default(),
            event.reason.to_owned(),
            event.message.to_owned(),
        ];
        let known = self.told().get(&key).cloned();
        if let Some(name) = &known {
            let key = Key::new(&EVENTS, namespace, name);
            let counted = self.objects.modify(&key, Part::Whole, |event| {
                event["count"] = json!(event["count"].as_i64().unwrap_or(1) + 1);
                event["lastTimestamp"] = json!(now);
                true
            });
            if counted.await.is_ok() {
                return;
            }
        }
        let object = self.object(&event, namespace, &now);
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        match self.objects.create(&EVENTS, namespace, object).await {
            Ok(_) => {
                let mut told = self.told();
                if told.len() >= MOST {
                    told.clear();
                }
                told.insert(key, name);
            }
            Err(failure) => debug!(reason = event.reason, err = %failure, "an event is lost"),
        }
    }

    fn told(&self) -> MutexGuard<'_, HashMap<[String; 3], String>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(&self, event: &Event<'_>, namespace: &str, now: &str) -> Value {
        let Event {
            kind,
            regarding,
            severity,
            reason,
            message,
        } = event;
        let name = regarding.name.as_deref().unwrap_or_default();
        let nanoseconds = self.objects.clock().timestamp().as_nanosecond();
        let mut involved = json!({
            "kind": kind.kind,
            "apiVersion": kind.api_version(),
            "name": name,
            "uid": regarding.uid,
            "resourceVersion": regarding.resource_version,
        });
        if let Some(namespace) = &regarding.namespace {
            involved["namespace"] = json!(namespace);
        }
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{name}.{nanoseconds:x}"), "namespace": namespace},
            "involvedObject": involved,
            "reason": reason,
            "message": message,
            "type": severity,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": self.component},
            "reportingComponent": self.component,
            "reportingInstance": "",
        })
    }
}
