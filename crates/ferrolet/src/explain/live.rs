//! What is seen of this machine's node, for the walks.

use std::path::PathBuf;
use std::time::Duration;

use cluster::csr::{Described, NODE_CLIENT_SIGNER, NODE_SERVING_SIGNER};
use config::settings::Settings;
use identity::Purpose;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, NodeCondition, Pod};

use crate::certs::Places;
use crate::certs::look::{CertificateLook, Looked};
use crate::certs::span::{Moment, relative};
use crate::local_node::look::Look;
use crate::local_node::{LocalNode, Remedies};
use crate::output::age;

/// The objects of a node; what could not be seen is missing.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) name: String,
    pub(super) now: Timestamp,
    pub(super) settings: Settings,
    pub(super) places: Places,
    /// Where its pods' files are; `None`: its machine is a story, and there are none.
    pub(super) root_directory: Option<PathBuf>,
    pub(super) looked: Looked,
    pub(super) node: Option<Node>,
    pub(super) lease: Option<Lease>,
    pub(super) requests: Vec<Described>,
    /// The pod that is told of.
    pub(super) pod: Option<Pod>,
    pub(super) events: Look<Vec<Event>>,
    pub(super) remedies: Remedies,
}

impl Live {
    pub(super) fn new(node: &LocalNode, looked: Looked, now: Timestamp) -> Self {
        Self {
            name: node.name.clone(),
            now,
            settings: node.settings.clone(),
            places: node.places.clone(),
            root_directory: match &node.embedded {
                Some(embedded) if embedded.simulated => None,
                _ => Some(node.root_directory.clone()),
            },
            looked,
            node: None,
            lease: None,
            requests: Vec::new(),
            pod: None,
            events: Look::Skipped,
            remedies: node.remedies.clone(),
        }
    }

    pub(super) fn when(&self, moment: Timestamp) -> String {
        let moment = Moment::of(moment.into());
        format!("{moment} ({})", relative(moment.0, self.now))
    }

    pub(super) fn ready(&self) -> Option<&NodeCondition> {
        let conditions = self.node.as_ref()?.status.as_ref()?.conditions.as_ref()?;
        conditions
            .iter()
            .find(|condition| condition.type_ == "Ready")
    }

    /// The requests for one purpose, a line each, the newest first and not too many.
    pub(super) fn requests_for(&self, purpose: Purpose) -> Vec<String> {
        let signer = match purpose {
            Purpose::Client => NODE_CLIENT_SIGNER,
            Purpose::Serving => NODE_SERVING_SIGNER,
        };
        let requests = self.requests.iter().filter(|one| one.signer == signer);
        let line = |request: &Described| {
            let made = request.age(self.now.into()).unwrap_or_default();
            format!(
                "CSR {}: {}, made {} ago by {}",
                request.name,
                request.condition,
                age(made),
                request.requester
            )
        };
        let lines: Vec<String> = requests.take(3).map(line).collect();
        if lines.is_empty() {
            return vec!["no CSR is left of it: the cluster removes them after an hour".to_owned()];
        }
        lines
    }

    /// Where a certificate is, and how long it is good for.
    pub(super) fn certificate(&self, look: &CertificateLook) -> Vec<String> {
        let mut lines = vec![match &look.target {
            Some(target) => format!(
                "{} -> {}",
                look.file.display(),
                target.file_name().unwrap_or_default().to_string_lossy()
            ),
            None => look.file.display().to_string(),
        }];
        match look.details() {
            None => lines.push("no certificate can be read there".to_owned()),
            Some(details) => {
                lines.push(format!("subject {}", details.subject));
                lines.push(format!("until {}", self.when(details.not_after.0)));
            }
        }
        lines
    }
}

/// What shows the node's certificates.
pub(super) fn certs_status(live: Option<&Live>) -> String {
    live.map_or_else(
        || "ferrolet certs status".to_owned(),
        |live| live.places.status_command(),
    )
}

/// A field of the settings that is a time, in Go's way.
pub(super) fn span(settings: Option<&Settings>, field: &str, usual: &str) -> String {
    settings.map_or_else(
        || usual.to_owned(),
        |settings| settings.duration(field).to_string(),
    )
}

/// How long a heartbeat counts.
pub(super) fn lease_life(live: Option<&Live>) -> Duration {
    let seconds = live.map(|live| live.settings.int("nodeLeaseDurationSeconds"));
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Duration::from_secs(seconds.filter(|seconds| *seconds > 0).unwrap_or(40))
}
