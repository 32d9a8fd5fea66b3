//! Makes the node's object, or brings one that is there into shape; once in the
//! life of the process, however long that takes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::announce::Announcer;
use crate::metrics::Metrics;
use crate::observe::Observer;
use crate::patch;
use crate::posted::posted;
use crate::reconcile::reconciled;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(7);

/// Where device plugins leave what they have handed out.
const DEVICE_CHECKPOINT: &str = "device-plugins/kubelet_internal_checkpoint";

/// Registers the node.
pub struct Register {
    pub(crate) observer: Arc<Observer>,
    pub(crate) announcer: Arc<Announcer>,
    pub(crate) client: Client,
    pub(crate) registered: watch::Sender<bool>,
    pub(crate) metrics: Metrics,
}

/// Why an attempt failed.
#[derive(Debug, Error)]
enum RegisterError {
    #[error("the Node object cannot be created: {0}")]
    Create(kube::Error),
    #[error("the Node object that is there cannot be read: {0}")]
    Read(kube::Error),
    #[error("the Node object that is there cannot be brought into shape: {0}")]
    Reconcile(kube::Error),
}

impl fmt::Debug for Register {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Register").finish_non_exhaustive()
    }
}

impl Register {
    /// Tries until it is done or told to stop.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.register()).await;
    }

    async fn register(&self) {
        let machine = self.observer.host.machine().ok();
        self.announcer.starting(machine.as_ref());
        self.observer.first_probe().await;
        let config = &self.observer.config;
        let name = &config.identity.node_name;
        if !config.registration.wanted {
            self.registered.send_replace(true);
            return;
        }
        let clock = &self.observer.clock;
        let mut pause = FIRST_PAUSE;
        let mut last_problem = String::new();
        loop {
            clock.sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
            let Err(error) = self.attempt(name).await else {
                self.registered.send_replace(true);
                return;
            };
            let problem = error.to_string();
            // Once per problem, not once per attempt.
            if problem == last_problem {
                debug!(node = name, err = problem, "the node cannot be registered");
            } else {
                warn!(
                    node = name,
                    err = problem,
                    "the node cannot be registered, will try again"
                );
            }
            last_problem = problem;
        }
    }

    async fn attempt(&self, name: &str) -> Result<(), RegisterError> {
        let config = &self.observer.config;
        self.metrics.attempt(self.observer.clock.now());
        let wanted = posted(config, &self.observer.look().await);
        self.observer.say(wanted.problems.clone());
        self.announcer.announce(&wanted);
        let nodes: Api<Node> = Api::all(self.client.clone());
        match nodes.create(&PostParams::default(), &wanted.node).await {
            Ok(_) => {
                info!(node = name, "the node is registered");
                self.metrics.registered(self.observer.clock.now());
                return Ok(());
            }
            // Who may not create nodes may still have one.
            Err(kube::Error::Api(status)) if status.is_already_exists() || status.code == 403 => {}
            Err(error) => return Err(RegisterError::Create(error)),
        }
        let existing = nodes.get(name).await.map_err(RegisterError::Read)?;
        let reconciled = reconciled(&existing, &wanted.node, self.is_fresh());
        if let Some(node) = &reconciled {
            let patch = Patch::Strategic(patch::two_way(&existing, node));
            let params = PatchParams::default();
            let patched = nodes.patch_status(name, &params, &patch).await;
            patched.map_err(RegisterError::Reconcile)?;
        }
        let changed = reconciled.is_some();
        info!(node = name, changed, "the node was registered before");
        Ok(())
    }

    /// No device plugin has been here. A file that cannot be read is one.
    fn is_fresh(&self) -> bool {
        let root = &self.observer.config.resources.root_directory;
        let checkpoint = self.observer.host.read(&root.join(DEVICE_CHECKPOINT));
        matches!(checkpoint, Ok(None))
    }
}
