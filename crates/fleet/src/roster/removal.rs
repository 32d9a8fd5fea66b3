//! Removes the Node objects of a fleet, and no others. Leases and `CSINode`s go with
//! them: they are theirs.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client};
use seams::SharedClock;
use thiserror::Error;
use tracing::{debug, warn};

use crate::spec::FLEET_LABEL;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);

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
    let removed = nodes
        .delete_collection(&DeleteParams::default(), &ours)
        .await;
    removed.map(drop).map_err(|cause| RemovalError::All {
        fleet: fleet.to_owned(),
        cause,
    })
}

/// Removes the object of one node.
pub(super) struct Removal {
    pub(super) name: String,
    pub(super) fleet: String,
    pub(super) client: Client,
    pub(super) clock: SharedClock,
}

impl Removal {
    /// Tries until it is gone.
    pub(super) async fn run(self) {
        let mut pause = FIRST_PAUSE;
        while let Err(error) = self.attempt().await {
            debug!(node = self.name, err = %error, "the Node object cannot be removed, will try again");
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn attempt(&self) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let Some(node) = nodes.get_opt(&self.name).await? else {
            return Ok(());
        };
        let labels = node.metadata.labels.unwrap_or_default();
        if labels.get(FLEET_LABEL) != Some(&self.fleet) {
            warn!(
                node = self.name,
                "the Node object is not this fleet's any more: left as it is"
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
