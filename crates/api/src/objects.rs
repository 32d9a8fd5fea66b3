//! Objects of the API that the node follows: the newest version of each, for
//! everybody who needs it.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use seams::{SharedClock, timeout};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

/// The pauses after failures: doubled from the first to the last. The first is
/// also the least time between two looks, whatever the server does.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// A server that takes longer than this for one object is away.
const ANSWER: Duration = Duration::from_secs(60);

/// How long one watch is asked to last, in seconds; then the object is looked at
/// anew.
const WATCH_SECONDS: u32 = 290;
/// How long it may last by our clock: a watch that says nothing ends here.
const WATCH_LIMIT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 30);

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

    /// Looks, watches until the watch ends, and looks again.
    async fn follow(&self) {
        let api: Api<Node> = Api::all(self.client.clone());
        let mut pause = FIRST_PAUSE;
        let mut last_problem = None;
        let mut first = true;
        loop {
            let problem = match self.look(&api, first).await {
                Ok(version) => {
                    first = false;
                    self.watch(&api, &version).await.err()
                }
                Err(problem) => Some(problem),
            };
            pause = match &problem {
                Some(_) => (pause * 2).min(LAST_PAUSE),
                None => FIRST_PAUSE,
            };
            if let Some(problem) = &problem {
                // Once per problem, not once per attempt.
                let err = problem.as_str();
                if last_problem.as_ref() == Some(problem) {
                    debug!(
                        node = self.name,
                        err, "the own Node object cannot be followed"
                    );
                } else {
                    info!(
                        node = self.name,
                        err, "the own Node object cannot be followed, will try again"
                    );
                }
            }
            last_problem = problem;
            let jitter = 1.0 + 0.1 * self.clock.random();
            self.clock.sleep(pause.mul_f64(jitter)).await;
        }
    }

    /// The object as it is, and the version to watch from.
    async fn look(&self, api: &Api<Node>, first: bool) -> Result<String, String> {
        let selected = ListParams::default().fields(&self.selector());
        let listed = timeout(&*self.clock, ANSWER, api.list(&selected)).await;
        let listed = listed.map_err(|_| "the API server does not answer".to_owned())?;
        let mut listed = listed.map_err(|error| error.to_string())?;
        let node = listed.items.pop();
        if first && node.is_none() {
            info!(node = self.name, "there is no Node object of this name yet");
        }
        self.publish(node);
        Ok(listed.metadata.resource_version.unwrap_or_default())
    }

    /// Ends in peace when it is time to look again.
    async fn watch(&self, api: &Api<Node>, version: &str) -> Result<(), String> {
        let parameters = WatchParams::default()
            .fields(&self.selector())
            .timeout(WATCH_SECONDS);
        let watched = async {
            let events = api.watch(&parameters, version).await?;
            let mut events = pin!(events);
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(node) | WatchEvent::Modified(node) => {
                        self.publish(Some(node));
                    }
                    WatchEvent::Deleted(_) => self.publish(None),
                    WatchEvent::Bookmark(_) => {}
                    // Too old to go on from, most likely: the next look tells.
                    WatchEvent::Error(_) => break,
                }
            }
            Ok::<(), kube::Error>(())
        };
        match timeout(&*self.clock, WATCH_LIMIT, watched).await {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(_) => Ok(()),
        }
    }

    fn selector(&self) -> String {
        format!("metadata.name={}", self.name)
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
