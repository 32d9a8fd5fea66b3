//! The node's own object.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use seams::SharedClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Following, Selection, Told};

/// The node's own object as the API server has it. `None` until it has been
/// seen, and when it is gone.
pub struct OwnNode {
    pub name: String,
    pub client: Client,
    pub clock: SharedClock,
    pub seen: watch::Sender<Option<Arc<Node>>>,
}

impl fmt::Debug for OwnNode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OwnNode").finish_non_exhaustive()
    }
}

impl OwnNode {
    /// Follows the object until told to stop.
    pub async fn run(self, shutdown: CancellationToken) {
        let own = Selection::Fields(format!("metadata.name={}", self.name));
        let following = Following::new(&self.client, &self.clock, own, &self);
        shutdown.run_until_cancelled(following.run()).await;
    }

    fn publish(&self, node: Option<Arc<Node>>) {
        let before = self.seen.borrow().is_some();
        match &node {
            Some(_) if !before => info!(node = self.name, "the own Node object is there"),
            None if before => info!(node = self.name, "the own Node object is gone"),
            _ => {}
        }
        self.seen.send_replace(node);
    }
}

impl Told<Node> for OwnNode {
    fn all(&self, mut nodes: Vec<Node>) {
        self.publish(nodes.pop().map(Arc::new));
    }

    fn changed(&self, node: Node) {
        self.publish(Some(Arc::new(node)));
    }

    fn gone(&self, _: Node) {
        self.publish(None);
    }
}
