//! Before a cluster goes for good, its pods go: nobody would end their containers after it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt as _};
use seams::{Clock, timeout};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// For all of them to be gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// Removes all pods; how many are left.
pub(super) async fn remove_pods(client: &Client, clock: &dyn Clock) -> Result<(), String> {
    let removing = async {
        let all: Api<Pod> = Api::all(client.clone());
        let soon = DeleteParams::default().grace_period(1);
        loop {
            let pods = all.list(&ListParams::default()).await?.items;
            if pods.is_empty() {
                return Ok::<(), kube::Error>(());
            }
            for pod in pods {
                if pod.metadata.deletion_timestamp.is_some() {
                    continue;
                }
                let namespace = pod.namespace().unwrap_or_default();
                let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
                match pods.delete(&pod.name_any(), &soon).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => return Err(error),
                }
            }
            clock.sleep(LOOK).await;
        }
    };
    match timeout(clock, PATIENCE, removing).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("they did not end in time".to_owned()),
    }
}
