//! Events: what a node tells people about, as objects of the API. Each one is
//! posted once; aggregation and the spam filter come with the parts that tell of
//! the same thing again and again.

use std::time::SystemTime;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};

/// Whether somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

/// What happened to a node.
#[derive(Clone, Debug)]
pub struct NodeEvent<'a> {
    pub node_name: &'a str,
    pub severity: Severity,
    /// One word in camel case, for machines.
    pub reason: &'a str,
    /// A sentence, for people.
    pub message: String,
}

impl NodeEvent<'_> {
    /// Posts the event. A node may tell of itself in the namespace `default`, as
    /// nodes have none.
    pub async fn post(&self, client: Client, now: SystemTime) -> Result<(), kube::Error> {
        let events: Api<Event> = Api::namespaced(client, "default");
        let event = self.object(now);
        events.create(&PostParams::default(), &event).await?;
        Ok(())
    }

    fn object(&self, now: SystemTime) -> Event {
        let now = Timestamp::try_from(now).unwrap_or_default();
        let name = self.node_name;
        let severity = match self.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        Event {
            metadata: ObjectMeta {
                // As client-go names them: no two within a nanosecond.
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: Some("default".to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                // As upstream: by name only, so that events of a node that was
                // made anew are found together.
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            },
            type_: Some(severity.to_owned()),
            reason: Some(self.reason.to_owned()),
            message: Some(self.message.clone()),
            source: Some(EventSource {
                component: Some("kubelet".to_owned()),
                host: Some(name.to_owned()),
            }),
            reporting_component: Some("kubelet".to_owned()),
            reporting_instance: Some(name.to_owned()),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        }
    }
}
