//! What every cluster has: its namespaces, the service `kubernetes`, and `cluster-info`.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tracing::warn;

use super::bootstrap::{CLUSTER_INFO, PUBLIC_NAMESPACE, cluster_info};
use super::settled;
use crate::failure::Failure;
use crate::kinds::{CONFIG_MAPS, NAMESPACES, SERVICES};
use crate::rest::{Objects, Part};
use crate::store::Key;

const NAMES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// What somebody takes away comes back.
const PERIOD: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) objects: Objects,
    /// Where the server is reached, `https://host:port`.
    pub(crate) server: String,
    pub(crate) port: u16,
    pub(crate) service_address: IpAddr,
    pub(crate) ca: String,
}

impl System {
    pub(crate) async fn run(self) {
        loop {
            if let Err(failure) = self.furnish().await {
                warn!(err = %failure, "what every cluster has could not be made, it is tried again");
            }
            self.objects.clock().sleep(PERIOD).await;
        }
    }

    /// Makes what is not there; one thing that cannot be made does not hold up the others.
    pub(crate) async fn furnish(&self) -> Result<(), Failure> {
        let made = [
            self.make_namespaces().await,
            self.make_service().await,
            self.make_cluster_info().await,
        ];
        made.into_iter().collect()
    }

    async fn make_namespaces(&self) -> Result<(), Failure> {
        for name in NAMES {
            if self
                .objects
                .store()
                .get(&Key::global(&NAMESPACES, name))
                .is_none()
            {
                let namespace =
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                settled(self.objects.create(&NAMESPACES, "", namespace).await)?;
            }
        }
        Ok(())
    }

    async fn make_service(&self) -> Result<(), Failure> {
        let service = Key::new(&SERVICES, "default", "kubernetes");
        if self.objects.store().get(&service).is_some() {
            return Ok(());
        }
        let made = self.objects.create(&SERVICES, "default", self.service());
        settled(made.await)
    }

    async fn make_cluster_info(&self) -> Result<(), Failure> {
        let wanted = cluster_info(&self.server, &self.ca);
        let key = Key::new(&CONFIG_MAPS, PUBLIC_NAMESPACE, CLUSTER_INFO);
        match self.objects.store().get(&key) {
            None => settled(
                self.objects
                    .create(&CONFIG_MAPS, PUBLIC_NAMESPACE, wanted)
                    .await,
            ),
            // After a start with another address it has to say that one; the signatures follow.
            Some(found) if found.value()["data"]["kubeconfig"] != wanted["data"]["kubeconfig"] => {
                let kept = self.objects.modify(&key, Part::Whole, |object| {
                    object["data"]["kubeconfig"] = wanted["data"]["kubeconfig"].clone();
                    true
                });
                settled(kept.await)
            }
            Some(_) => Ok(()),
        }
    }

    fn service(&self) -> Value {
        let (address, family) = match self.service_address {
            IpAddr::V4(address) => (address.to_string(), "IPv4"),
            IpAddr::V6(address) => (address.to_string(), "IPv6"),
        };
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": address, "clusterIPs": [address],
                "ipFamilies": [family], "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster", "sessionAffinity": "None", "type": "ClusterIP",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": self.port}],
            },
        })
    }
}
