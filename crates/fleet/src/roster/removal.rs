//! Removes the Node objects of a fleet, and no others. Leases and `CSINode`s go with
//! them: they are theirs.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client};
use seams::SharedClock;
use thiserror::Error;
use tokio::sync::Semaphore;
use tracing::warn;

use super::Remove;
use crate::spec::FLEET_LABEL;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// By how much of itself a pause may be longer.
const SPREAD: f64 = 0.5;

/// Removals under way at once.
const AT_ONCE: usize = 10;

/// Why objects are still there.
#[derive(Debug, Error)]
pub enum RemovalError {
    #[error(
        "the nodes of fleet {fleet} cannot be removed: {cause}; later: kubectl delete nodes --selector {FLEET_LABEL}={fleet}"
    )]
    All { fleet: String, cause: kube::Error },
}

/// Removes every Node object of a fleet at once.
pub async fn remove_all(client: &Client, fleet: &str) -> Result<(), RemovalError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let ours = ListParams::default().labels(&format!("{FLEET_LABEL}={fleet}"));
    let failed = |cause| RemovalError::All {
        fleet: fleet.to_owned(),
        cause,
    };
    // A server with much to do may end such a request before it is through.
    loop {
        let removed = nodes
            .delete_collection(&DeleteParams::default(), &ours)
            .await;
        let left = nodes
            .list_metadata(&ours.clone().limit(1))
            .await
            .map_err(failed)?;
        if left.items.is_empty() {
            return Ok(());
        }
        removed.map_err(failed)?;
    }
}

/// Removes the objects of single nodes of a fleet, a few at a time.
pub(super) fn one_by_one(client: Client, clock: SharedClock, fleet: String) -> Remove {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    Box::new(move |name| {
        let removal = Removal {
            name,
            fleet: fleet.clone(),
            client: client.clone(),
            clock: clock.clone(),
        };
        let places = places.clone();
        Box::pin(async move {
            // Nobody closes it, so there is always a place in the end.
            let _place = places.acquire().await;
            removal.run().await;
        })
    })
}

/// Removes the object of one node.
struct Removal {
    name: String,
    fleet: String,
    client: Client,
    clock: SharedClock,
}

impl Removal {
    /// Tries until it is gone.
    async fn run(self) {
        let mut pause = FIRST_PAUSE;
        while let Err(error) = self.attempt().await {
            if pause == FIRST_PAUSE {
                warn!(node = self.name, err = %error, "the Node object cannot be removed, will try again");
            }
            let spread = 1.0 + SPREAD * self.clock.random();
            self.clock.sleep(pause.mul_f64(spread)).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn attempt(&self) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let Some(node) = nodes.get_metadata_opt(&self.name).await? else {
            return Ok(());
        };
        let labels = node.metadata.labels.unwrap_or_default();
        if labels.get(FLEET_LABEL) != Some(&self.fleet) {
            warn!(
                node = self.name,
                "the Node object is not this fleet's: left as it is"
            );
            return Ok(());
        }
        // Whoever has made another of this name meanwhile keeps it.
        let preconditions = Preconditions {
            uid: node.metadata.uid,
            resource_version: None,
        };
        let parameters = DeleteParams::default().preconditions(preconditions);
        match nodes.delete(&self.name, &parameters).await {
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}
