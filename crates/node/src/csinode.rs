//! The node's `CSINode`: what it can mount. Until it is there the node is not
//! ready, as the scheduler would not know what fits on it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, CSINodeSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use seams::SharedClock;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::config::Config;
use crate::lease::owned_by;
use crate::readiness::CsiNodeState;

const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// Kinds of volumes that CSI drivers have taken over for good.
const MIGRATED_PLUGINS: &str = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,\
    kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd,\
    kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume";

/// How often the API server is asked whether it is there.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// A series of tries, each followed by a longer pause.
const SERIES: Pauses = Pauses {
    tries: 6,
    first: Duration::from_millis(30),
    factor: 8,
};
/// Quick tries within one of those: an object of another node is deleted by one
/// and made by the next.
const QUICK: Pauses = Pauses {
    tries: 4,
    first: Duration::from_millis(10),
    factor: 5,
};
const JITTER: f64 = 0.1;

struct Pauses {
    tries: u32,
    first: Duration,
    factor: u32,
}

/// Makes the `CSINode`.
pub struct CsiNodeMaker {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: SharedClock,
    pub(crate) client: Client,
    pub(crate) registered: watch::Receiver<bool>,
    pub(crate) state: watch::Sender<CsiNodeState>,
}

/// How a series ended.
enum Series {
    Done,
    /// There is no node yet to own it: that is no failure.
    NoNode,
    GaveUp,
}

/// Why a try failed.
#[derive(Debug, Error)]
enum MakeError {
    #[error("the Node object cannot be read: {0}")]
    Node(kube::Error),
    #[error("there is no Node object yet")]
    NoNode,
    #[error("the CSINode cannot be read: {0}")]
    Read(kube::Error),
    #[error("the CSINode cannot be written: {0}")]
    Write(kube::Error),
    #[error("the CSINode of an earlier node cannot be deleted: {0}")]
    Delete(kube::Error),
    #[error("the CSINode was owned by a different node and is deleted")]
    Deleted,
}

impl fmt::Debug for CsiNodeMaker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CsiNodeMaker")
            .finish_non_exhaustive()
    }
}

impl Pauses {
    fn after(&self, attempt: u32, random: f64) -> Duration {
        let pause = self.first * self.factor.saturating_pow(attempt);
        pause.mul_f64(1.0 + JITTER * random)
    }
}

impl CsiNodeMaker {
    /// Tries until the `CSINode` is there, or told to stop. Upstream ends its
    /// process after one series without success, to begin anew; we begin anew.
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.make()).await;
    }

    /// Does not wait for the registration: where the node is there already this
    /// is done before the first status is sent, which then says so.
    async fn make(&mut self) {
        loop {
            self.until_answered().await;
            match self.series().await {
                Series::Done => return,
                Series::NoNode => self.registered_or_patience().await,
                Series::GaveUp => {}
            }
        }
    }

    /// Waits until there may be a node.
    async fn registered_or_patience(&mut self) {
        let patience = self.clock.sleep(ASK_EVERY);
        if *self.registered.borrow() {
            patience.await;
            return;
        }
        tokio::select! {
            () = patience => {}
            _ = self.registered.wait_for(|registered| *registered) => {}
        }
    }

    /// Waits for an API server that lets us look.
    async fn until_answered(&self) {
        let name = &self.config.identity.node_name;
        while let Err(error) = self.csi_nodes().get_opt(name).await {
            debug!(csinode = name, err = %error, "the CSINode cannot be read, will try again");
            self.clock.sleep(ASK_EVERY).await;
        }
    }

    async fn series(&self) -> Series {
        let name = &self.config.identity.node_name;
        for attempt in 0..SERIES.tries {
            let error = match self.quick().await {
                Ok(()) => {
                    self.state.send_replace(CsiNodeState::Done);
                    return Series::Done;
                }
                Err(MakeError::NoNode) => return Series::NoNode,
                Err(error) => error,
            };
            warn!(csinode = name, err = %error, "the CSINode cannot be made, will try again");
            self.state
                .send_replace(CsiNodeState::Failed(error.to_string()));
            let pause = SERIES.after(attempt, self.clock.random());
            self.clock.sleep(pause).await;
        }
        Series::GaveUp
    }

    async fn quick(&self) -> Result<(), MakeError> {
        let mut attempt = 0;
        loop {
            let Err(error) = self.attempt().await else {
                return Ok(());
            };
            if attempt + 1 == QUICK.tries || matches!(error, MakeError::NoNode) {
                return Err(error);
            }
            let pause = QUICK.after(attempt, self.clock.random());
            self.clock.sleep(pause).await;
            attempt += 1;
        }
    }

    async fn attempt(&self) -> Result<(), MakeError> {
        let name = &self.config.identity.node_name;
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = nodes.get_opt(name).await.map_err(MakeError::Node)?;
        let uid = node.and_then(|node| node.metadata.uid);
        let uid = uid.ok_or(MakeError::NoNode)?;
        let csi_nodes = self.csi_nodes();
        let existing = csi_nodes.get_opt(name).await.map_err(MakeError::Read)?;
        let params = PostParams::default();
        match existing {
            None => {
                let made = csi_nodes.create(&params, &new(name, &uid)).await;
                made.map_err(MakeError::Write)?;
                info!(csinode = name, "the CSINode is made");
                Ok(())
            }
            Some(existing) if !is_owned(&existing, name, &uid) => {
                let deleted = csi_nodes.delete(name, &DeleteParams::default()).await;
                deleted.map_err(MakeError::Delete)?;
                Err(MakeError::Deleted)
            }
            Some(existing) => match annotated(existing) {
                None => Ok(()),
                Some(fitting) => {
                    let written = csi_nodes.replace(name, &params, &fitting).await;
                    written.map(drop).map_err(MakeError::Write)
                }
            },
        }
    }

    fn csi_nodes(&self) -> Api<CSINode> {
        Api::all(self.client.clone())
    }
}

fn new(node_name: &str, uid: &str) -> CSINode {
    let annotations = [(MIGRATED.to_owned(), MIGRATED_PLUGINS.to_owned())];
    CSINode {
        metadata: ObjectMeta {
            name: Some(node_name.to_owned()),
            owner_references: Some(vec![owned_by(node_name, uid)]),
            annotations: Some(annotations.into()),
            ..ObjectMeta::default()
        },
        spec: CSINodeSpec {
            drivers: Vec::new(),
        },
    }
}

fn is_owned(csi_node: &CSINode, node_name: &str, uid: &str) -> bool {
    let owners = csi_node.metadata.owner_references.iter().flatten();
    owners
        .filter(|owner| owner.kind == "Node")
        .any(|owner| owner.name == node_name && owner.uid == uid)
}

/// With the right annotation; `None` if it has it, in whatever order.
fn annotated(mut csi_node: CSINode) -> Option<CSINode> {
    let annotations = csi_node.metadata.annotations.get_or_insert_default();
    let sorted = |list: &str| {
        let mut list: Vec<String> = list.split(',').map(str::to_owned).collect();
        list.sort();
        list
    };
    let present = annotations.get(MIGRATED).map(|list| sorted(list));
    if present == Some(sorted(MIGRATED_PLUGINS)) {
        return None;
    }
    annotations.insert(MIGRATED.to_owned(), MIGRATED_PLUGINS.to_owned());
    Some(csi_node)
}
