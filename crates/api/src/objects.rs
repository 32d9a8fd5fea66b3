//! Objects of the API that the node follows: the newest version of each, for
//! everybody who needs it.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher;
use kube::{Api, Client};
use seams::SharedClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

/// The pauses after failures: doubled from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);

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
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&self) {
        let api: Api<Node> = Api::all(self.client.clone());
        let mut pause = FIRST_PAUSE;
        let mut last_problem = String::new();
        let mut first = true;
        loop {
            let mut versions = pin!(watcher::watch_object(api.clone(), &self.name));
            while let Some(version) = versions.next().await {
                match version {
                    Ok(node) => {
                        pause = FIRST_PAUSE;
                        last_problem.clear();
                        if first && node.is_none() {
                            info!(node = self.name, "there is no Node object of this name yet");
                        }
                        first = false;
                        self.publish(node);
                    }
                    Err(error) => {
                        let problem = error.to_string();
                        // Once per problem, not once per attempt.
                        if problem == last_problem {
                            debug!(
                                node = self.name,
                                err = problem,
                                "the own Node object cannot be followed"
                            );
                        } else {
                            info!(
                                node = self.name,
                                err = problem,
                                "the own Node object cannot be followed, will try again"
                            );
                        }
                        last_problem = problem;
                        self.clock
                            .sleep(pause.mul_f64(1.0 + 0.1 * self.clock.random()))
                            .await;
                        pause = (pause * 2).min(LAST_PAUSE);
                    }
                }
            }
            self.clock.sleep(pause).await;
        }
    }

    fn publish(&self, node: Option<Node>) {
        let before = self.seen.borrow().is_some();
        match &node {
            Some(_) if !before => info!(node = self.name, "the own Node object is there"),
            None if before => info!(node = self.name, "the own Node object is gone"),
            _ => {}
        }
        let node = node.map(|mut node| {
            // The largest part of the object, and nobody here reads it.
            node.metadata.managed_fields = None;
            Arc::new(node)
        });
        self.seen.send_replace(node);
    }
}
