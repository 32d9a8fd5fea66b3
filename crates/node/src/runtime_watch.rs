//! Asks the container runtime how it fares, and publishes what it says.

use std::time::Duration;

use seams::cri::{
    Image, ListImagesRequest, NetworkConfig, RuntimeConfig, StatusRequest, StatusResponse,
    UpdateRuntimeConfigRequest, VersionRequest,
};
use seams::{SharedClock, SharedRuntime};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::runtime::{RUNTIME_READY, RuntimeCondition, RuntimeFacts, RuntimeHandler, RuntimeImage};

/// How often the runtime is asked how it fares.
const PROBE: Duration = Duration::from_secs(5);

/// How often it is asked what images it holds.
const IMAGES: Duration = Duration::from_secs(30);

/// What the kubelet has always said that it speaks.
const SPOKEN: &str = "0.1.0";

/// One that asks, at intervals. The three questions do not wait for each other.
#[derive(Debug)]
pub struct RuntimeWatch {
    pub runtime: SharedRuntime,
    pub clock: SharedClock,
    pub facts: watch::Sender<RuntimeFacts>,
    /// To be told to the runtime.
    pub pod_cidrs: watch::Receiver<Option<String>>,
}

impl RuntimeWatch {
    pub async fn run(self, shutdown: CancellationToken) {
        let Self {
            runtime,
            clock,
            facts,
            pod_cidrs,
        } = self;
        let asking = Asking {
            runtime,
            clock,
            facts,
        };
        let all = async {
            tokio::join!(asking.status(), asking.images(), asking.tell(pod_cidrs));
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = all => {}
        }
    }
}

struct Asking {
    runtime: SharedRuntime,
    clock: SharedClock,
    facts: watch::Sender<RuntimeFacts>,
}

impl Asking {
    async fn status(&self) {
        let mut said = None;
        loop {
            let answer = self.runtime.status(StatusRequest::default()).await;
            let problem = match answer {
                Ok(status) => {
                    let problem = self.version().await.err();
                    self.take(status);
                    problem
                }
                Err(error) => {
                    // Who comes back may be another.
                    self.facts.send_modify(|facts| facts.version = None);
                    Some(error)
                }
            };
            self.facts.send_modify(|facts| facts.probed = true);
            // Once per problem, not once per question.
            let problem = problem.map(|error| error.to_string());
            if let Some(err) = problem.as_ref().filter(|_| problem != said) {
                warn!(err, "the container runtime does not answer as it should");
            }
            if problem.is_none() && said.is_some() {
                info!("the container runtime answers again");
            }
            said = problem;
            self.clock.sleep(PROBE).await;
        }
    }

    fn take(&self, status: StatusResponse) {
        let uptime = self.clock.uptime();
        let conditions = status.status.unwrap_or_default().conditions;
        let conditions: Vec<_> = conditions
            .into_iter()
            .map(|condition| RuntimeCondition {
                kind: condition.r#type,
                status: condition.status,
                reason: condition.reason,
                message: condition.message,
            })
            .collect();
        let ready =
            |condition: &RuntimeCondition| condition.kind == RUNTIME_READY && condition.status;
        let handlers = status.runtime_handlers.into_iter().map(|handler| {
            let features = handler.features.unwrap_or_default();
            RuntimeHandler {
                name: handler.name,
                recursive_read_only_mounts: features.recursive_read_only_mounts,
                user_namespaces: features.user_namespaces,
            }
        });
        let handlers: Vec<_> = handlers.collect();
        self.facts.send_modify(|facts| {
            // What a runtime that is not ready says of its abilities does not count.
            if conditions.iter().any(ready) {
                facts.last_good_status = Some(uptime);
                facts.handlers = handlers;
                let features = status.features;
                facts.supplemental_groups_policy =
                    features.map(|features| features.supplemental_groups_policy);
            }
            facts.conditions = Some(conditions);
        });
    }

    /// Asked until it is known; forgotten when the runtime goes away.
    async fn version(&self) -> Result<(), seams::runtime::RuntimeError> {
        if self.facts.borrow().version.is_some() {
            return Ok(());
        }
        let request = VersionRequest {
            version: SPOKEN.to_owned(),
        };
        let version = self.runtime.version(request).await?;
        self.facts.send_modify(|facts| {
            facts.name = version.runtime_name;
            facts.version = Some(version.runtime_version);
        });
        Ok(())
    }

    async fn images(&self) {
        loop {
            // What it cannot list, it does not hold; the status says why.
            let images = match self.runtime.list_images(ListImagesRequest::default()).await {
                Ok(listed) => listed.images.into_iter().map(image).collect(),
                Err(_) => Vec::new(),
            };
            self.facts.send_if_modified(|facts| {
                let changed = facts.images != images;
                facts.images = images;
                changed
            });
            self.clock.sleep(IMAGES).await;
        }
    }

    async fn tell(&self, mut pod_cidrs: watch::Receiver<Option<String>>) {
        loop {
            let pod_cidr = pod_cidrs.borrow_and_update().clone();
            if let Some(pod_cidr) = pod_cidr {
                let request = UpdateRuntimeConfigRequest {
                    runtime_config: Some(RuntimeConfig {
                        network_config: Some(NetworkConfig {
                            pod_cidr: pod_cidr.clone(),
                        }),
                    }),
                };
                match self.runtime.update_runtime_config(request).await {
                    Ok(_) => info!(
                        cidrs = pod_cidr,
                        "the runtime knows the node's pod addresses"
                    ),
                    Err(error) => {
                        warn!(err = %error, "the runtime cannot be told the node's pod addresses")
                    }
                }
            }
            if pod_cidrs.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

fn image(image: Image) -> RuntimeImage {
    RuntimeImage {
        id: image.id,
        repo_digests: image.repo_digests,
        repo_tags: image.repo_tags,
        size: image.size,
    }
}
