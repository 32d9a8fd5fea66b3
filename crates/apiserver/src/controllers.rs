//! What happens by itself in a cluster: certificates are issued, nodes that are silent
//! are marked, pods find their nodes. Each controller looks at the state of things and
//! brings it a step further; what it decides is a pure function.

mod agenda;
mod bootstrap;
mod certificates;
mod events;
mod evictions;
mod mirror;
mod namespaces;
mod nodes;
mod pod_garbage;
mod pods;
mod references;
mod scheduler;
mod system;

use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::error;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::access::{Authorizer, Pki};
use crate::failure::Failure;
use crate::rest::Objects;
use crate::store::Stored;

/// How long a certificate lives at most: upstream's year.
const LONGEST: SignedDuration = SignedDuration::from_hours(8760);
/// Ended pods that are kept, as upstream.
const ENDED_PODS: usize = 12_500;

/// What the controllers work with.
#[derive(Clone, Debug)]
pub struct Controllers {
    pub objects: Objects,
    pub authorizer: Authorizer,
    pub pki: Arc<Pki>,
    /// Where the server is reached, `https://host:port`; nodes that join are told so.
    pub server: String,
    pub port: u16,
    pub service_address: IpAddr,
}

impl Controllers {
    /// Makes what every cluster has, before anybody asks for it.
    pub async fn furnish(&self) -> Result<(), Failure> {
        self.system().furnish().await
    }

    /// Starts all of them; they end when `shutdown` is cancelled, and whoever started
    /// them waits for that. None of them ends by itself.
    pub fn start(&self, tasks: &mut JoinSet<&'static str>, shutdown: &CancellationToken) {
        let objects = || self.objects.clone();
        let mut start =
            |name: &'static str, work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
                let shutdown = shutdown.clone();
                tasks.spawn(async move {
                    if shutdown.run_until_cancelled(work).await.is_some() {
                        error!(task = name, "a controller has ended by itself");
                    }
                    name
                });
            };
        let follower = references::Follower {
            store: self.objects.store().clone(),
            authorizer: self.authorizer.clone(),
        };
        start("references", Box::pin(follower.run()));
        let certificates = certificates::Certificates {
            objects: objects(),
            authorizer: self.authorizer.clone(),
            pki: Arc::clone(&self.pki),
            rules: certificates::decide::Rules {
                longest: LONGEST,
                ca_end: ca_end(&self.pki),
            },
        };
        start("certificates", Box::pin(certificates.run()));
        let ca = self.pki.ca.certificate_pem();
        let namespaces = namespaces::Namespaces {
            objects: objects(),
            ca,
        };
        start("namespaces", Box::pin(namespaces.run()));
        start("system", Box::pin(self.system().run()));
        start(
            "bootstrap",
            Box::pin(bootstrap::Bootstrap { objects: objects() }.run()),
        );
        let nodes = nodes::Nodes::new(objects(), nodes::health::Patience::default());
        start("nodes", Box::pin(nodes.run()));
        start(
            "evictions",
            Box::pin(evictions::Evictions::new(objects()).run()),
        );
        let pod_garbage = pod_garbage::PodGarbage {
            objects: objects(),
            kept: ENDED_PODS,
        };
        start("pod-garbage", Box::pin(pod_garbage.run()));
        start(
            "scheduler",
            Box::pin(scheduler::Scheduler::new(objects()).run()),
        );
    }

    fn system(&self) -> system::System {
        system::System {
            objects: self.objects.clone(),
            server: self.server.clone(),
            port: self.port,
            service_address: self.service_address,
            ca: self.pki.ca.certificate_pem(),
        }
    }
}

fn ca_end(pki: &Pki) -> Timestamp {
    let parsed = X509Certificate::from_der(pki.ca.certificate_der());
    let end = parsed.map(|(_, ca)| ca.validity().not_after.timestamp());
    end.ok()
        .and_then(|second| Timestamp::from_second(second).ok())
        .unwrap_or(Timestamp::MAX)
}

/// What is gone, or was changed by somebody else meanwhile, is not a failure: the change
/// has been noticed, or will be.
fn settled(outcome: Result<Stored, Failure>) -> Result<(), Failure> {
    match outcome {
        Ok(_) => Ok(()),
        Err(failure) if matches!(failure.reason, "NotFound" | "Conflict" | "AlreadyExists") => {
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

/// Whether an object is the one that was judged: another may have come under its name since.
fn is_still(object: &Value, judged: &ObjectMeta) -> bool {
    object["metadata"]["uid"].as_str() == judged.uid.as_deref()
}

#[cfg(test)]
mod tests;
