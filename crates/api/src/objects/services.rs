//! The services of the cluster, of which pods are told by variables.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Service;
use kube::Client;
use seams::SharedClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Following, Selection, Told};

/// All services, in the order of their names; `None` until the API server has told
/// once which there are.
pub type ServicesSeen = watch::Receiver<Option<Arc<Vec<Service>>>>;

/// Follows the services of all namespaces.
pub struct Services {
    client: Client,
    clock: SharedClock,
    seen: watch::Sender<Option<Arc<Vec<Service>>>>,
    /// By namespace and name. Held for one access.
    known: Mutex<BTreeMap<(String, String), Service>>,
}

impl fmt::Debug for Services {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Services").finish_non_exhaustive()
    }
}

impl Services {
    pub fn new(client: Client, clock: SharedClock) -> (Self, ServicesSeen) {
        let (seen, services) = watch::channel(None);
        let following = Self {
            client,
            clock,
            seen,
            known: Mutex::default(),
        };
        (following, services)
    }

    /// Follows the services until told to stop.
    pub async fn run(self, shutdown: CancellationToken) {
        let all = Selection::Fields(String::new());
        let following = Following::new(&self.client, &self.clock, all, &self);
        shutdown.run_until_cancelled(following.run()).await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Service>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self) {
        let services = self.lock().values().cloned().collect();
        self.seen.send_replace(Some(Arc::new(services)));
    }
}

impl Told<Service> for Services {
    fn all(&self, services: Vec<Service>) {
        *self.lock() = services.into_iter().map(entry).collect();
        self.publish();
    }

    fn changed(&self, service: Service) {
        let (key, service) = entry(service);
        self.lock().insert(key, service);
        self.publish();
    }

    fn gone(&self, service: Service) {
        let (key, _) = entry(service);
        self.lock().remove(&key);
        self.publish();
    }
}

/// Without what nobody here reads.
fn entry(mut service: Service) -> ((String, String), Service) {
    service.metadata.managed_fields = None;
    service.status = None;
    let metadata = &service.metadata;
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let name = metadata.name.clone().unwrap_or_default();
    ((namespace, name), service)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(namespace: &str, name: &str) -> Service {
        let mut service = Service::default();
        service.metadata.namespace = Some(namespace.to_owned());
        service.metadata.name = Some(name.to_owned());
        service.metadata.managed_fields = Some(Vec::new());
        service
    }

    #[tokio::test]
    async fn services_are_known_by_namespace_and_name() {
        let client = Client::new(
            tower::service_fn(|_: http::Request<kube::client::Body>| {
                std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
            }),
            "default",
        );
        let clock = Arc::new(testkit::clock::TokioClock::starting_at(
            std::time::UNIX_EPOCH,
        ));
        let (services, seen) = Services::new(client, clock);
        assert!(seen.borrow().is_none());
        services.all(vec![service("b", "x"), service("a", "y")]);
        services.changed(service("a", "x"));
        services.gone(service("b", "x"));
        let names: Vec<_> = seen
            .borrow()
            .iter()
            .flat_map(|all| all.iter())
            .map(|one| (one.metadata.namespace.clone(), one.metadata.name.clone()))
            .collect();
        let pair =
            |namespace: &str, name: &str| (Some(namespace.to_owned()), Some(name.to_owned()));
        assert_eq!(names, [pair("a", "x"), pair("a", "y")]);
        let kept = seen.borrow().clone().unwrap();
        assert!(kept.iter().all(|one| one.metadata.managed_fields.is_none()));
    }
}
