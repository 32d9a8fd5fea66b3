//! Asks the container runtime how it fares, and publishes what it says.

use std::time::Duration;

use seams::cri::{
    Image, ListImagesRequest, NetworkConfig, RuntimeConfig, StatusRequest, StatusResponse,
    UpdateRuntimeConfigRequest, VersionResponse,
};
use seams::start::{self, StartError};
use seams::{SharedClock, SharedRuntime};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::runtime::{RUNTIME_READY, RuntimeCondition, RuntimeFacts, RuntimeHandler, RuntimeImage};

/// How often the runtime is asked how it fares.
const PROBE: Duration = Duration::from_secs(5);

/// How often it is asked what images it holds.
const IMAGES: Duration = Duration::from_secs(30);

/// How old what it says of itself may be. A runtime that is replaced between two questions
/// never fails to answer one: its socket is dialled anew by itself.
const VERSION: Duration = Duration::from_secs(60);

/// When to tell or ask again what failed.
const TOLD_AGAIN: Duration = Duration::from_secs(10);

/// One that asks, at intervals. The questions do not wait for each other.
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
            tokio::join!(
                asking.status(),
                asking.renew(),
                asking.images(),
                asking.tell(pod_cidrs)
            );
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
                    let met = self.meet().await;
                    // What one says that does not keep to CRI v1 does not count.
                    if met.is_ok() {
                        self.take(status);
                    }
                    met.err()
                }
                Err(error) => {
                    // Who comes back may be another.
                    self.facts.send_modify(|facts| facts.version = None);
                    Some(StartError::Call(error))
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

    /// Asked until it is known, of one that keeps to CRI v1; forgotten when the runtime goes
    /// away.
    async fn meet(&self) -> Result<(), StartError> {
        if self.facts.borrow().version.is_some() {
            return Ok(());
        }
        let version = start::check(&*self.runtime).await?;
        self.facts.send_modify(|facts| introduce(facts, version));
        Ok(())
    }

    /// Asks again who a known one is. How it fares does not wait for that: it says so itself.
    async fn renew(&self) {
        let mut pause = VERSION;
        loop {
            self.clock.sleep(pause).await;
            pause = VERSION;
            if self.facts.borrow().version.is_none() {
                continue;
            }
            let answer = start::version(&*self.runtime).await;
            self.facts.send_if_modified(|facts| {
                let before = (facts.name.clone(), facts.version.clone());
                match answer {
                    // It went away meanwhile, and is met anew.
                    _ if before.1.is_none() => {}
                    Ok(version) => introduce(facts, version),
                    Err(StartError::Call(_)) => pause = PROBE,
                    Err(_) => facts.version = None,
                }
                before != (facts.name.clone(), facts.version.clone())
            });
        }
    }

    async fn images(&self) {
        loop {
            // What it cannot list, it does not hold; the status says why.
            let answer = self.runtime.list_images(ListImagesRequest::default()).await;
            // One that comes back is not kept waiting for half a minute.
            let pause = if answer.is_ok() { IMAGES } else { TOLD_AGAIN };
            let images = match answer {
                Ok(listed) => listed.images.into_iter().map(image).collect(),
                Err(_) => Vec::new(),
            };
            self.facts.send_if_modified(|facts| {
                let changed = facts.images != images;
                facts.images = images;
                changed
            });
            self.clock.sleep(pause).await;
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
                let told = self.runtime.update_runtime_config(request).await;
                match told {
                    Ok(_) => info!(
                        cidrs = pod_cidr,
                        "the runtime knows the node's pod addresses"
                    ),
                    Err(error) => {
                        warn!(err = %error, "the runtime cannot be told the node's pod addresses");
                        self.clock.sleep(TOLD_AGAIN).await;
                        continue;
                    }
                }
            }
            if pod_cidrs.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

fn introduce(facts: &mut RuntimeFacts, version: VersionResponse) {
    facts.name = version.runtime_name;
    facts.version = Some(version.runtime_version);
}

fn image(image: Image) -> RuntimeImage {
    RuntimeImage {
        id: image.id,
        repo_digests: image.repo_digests,
        repo_tags: image.repo_tags,
        size: image.size,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::SystemTime;

    use seams::cri::{
        ImageFsInfoRequest, ImageFsInfoResponse, ImageStatusRequest, ImageStatusResponse,
        ListImagesResponse, RuntimeConfigRequest, RuntimeConfigResponse, RuntimeFeatures,
        RuntimeStatus, UpdateRuntimeConfigResponse, VersionRequest,
    };
    use seams::runtime::{Answer, Code, Runtime, RuntimeError};
    use testkit::clock::TokioClock;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::runtime::NETWORK_READY;

    /// A runtime that says what it is told to say.
    #[derive(Debug, Default)]
    struct Told {
        /// `None`: it is away.
        ready: Mutex<Option<bool>>,
        version: Mutex<String>,
        /// Of the interface.
        spoken: Mutex<String>,
        /// It says how it fares, and not who it is.
        shy: Mutex<bool>,
        /// It says how it fares, and never answers what else it is asked.
        mute: Mutex<bool>,
        images: Mutex<Vec<Image>>,
        cidrs: Mutex<Vec<String>>,
        asked: Mutex<u32>,
    }

    impl Told {
        fn answer<T: Send + 'static>(
            &self,
            call: &'static str,
            answer: impl FnOnce() -> T,
        ) -> Answer<'_, T> {
            let away = self.ready.lock().unwrap().is_none();
            let answer = if away {
                Err(RuntimeError::new(call, Code::Unavailable, "away"))
            } else {
                Ok(answer())
            };
            Box::pin(async move { answer })
        }
    }

    impl Runtime for Told {
        fn version(&self, _: VersionRequest) -> Answer<'_, VersionResponse> {
            if *self.mute.lock().unwrap() {
                return Box::pin(std::future::pending());
            }
            if *self.shy.lock().unwrap() {
                let late = RuntimeError::new("Version", Code::DeadlineExceeded, "late");
                return Box::pin(async move { Err(late) });
            }
            self.answer("Version", || VersionResponse {
                runtime_name: "containerd".to_owned(),
                runtime_version: self.version.lock().unwrap().clone(),
                runtime_api_version: "v1".to_owned(),
                version: self.spoken.lock().unwrap().clone(),
            })
        }

        fn status(&self, _: StatusRequest) -> Answer<'_, StatusResponse> {
            *self.asked.lock().unwrap() += 1;
            let ready = self.ready.lock().unwrap().unwrap_or_default();
            self.answer("Status", || {
                let condition = |kind: &str, status| seams::cri::RuntimeCondition {
                    r#type: kind.to_owned(),
                    status,
                    ..seams::cri::RuntimeCondition::default()
                };
                let conditions = vec![
                    condition(RUNTIME_READY, ready),
                    condition(NETWORK_READY, false),
                ];
                StatusResponse {
                    status: Some(RuntimeStatus { conditions }),
                    features: Some(RuntimeFeatures {
                        supplemental_groups_policy: true,
                        ..RuntimeFeatures::default()
                    }),
                    runtime_handlers: vec![seams::cri::RuntimeHandler {
                        name: "vm".to_owned(),
                        features: Some(seams::cri::RuntimeHandlerFeatures {
                            recursive_read_only_mounts: true,
                            user_namespaces: true,
                        }),
                    }],
                    ..StatusResponse::default()
                }
            })
        }

        fn runtime_config(&self, _: RuntimeConfigRequest) -> Answer<'_, RuntimeConfigResponse> {
            self.answer("RuntimeConfig", RuntimeConfigResponse::default)
        }

        fn update_runtime_config(
            &self,
            request: UpdateRuntimeConfigRequest,
        ) -> Answer<'_, UpdateRuntimeConfigResponse> {
            let network = request
                .runtime_config
                .and_then(|config| config.network_config);
            let cidrs = network.unwrap_or_default().pod_cidr;
            self.cidrs.lock().unwrap().push(cidrs);
            self.answer("UpdateRuntimeConfig", UpdateRuntimeConfigResponse::default)
        }

        fn list_images(&self, _: ListImagesRequest) -> Answer<'_, ListImagesResponse> {
            self.answer("ListImages", || ListImagesResponse {
                images: self.images.lock().unwrap().clone(),
            })
        }

        fn image_status(&self, _: ImageStatusRequest) -> Answer<'_, ImageStatusResponse> {
            self.answer("ImageStatus", ImageStatusResponse::default)
        }

        fn image_fs_info(&self, _: ImageFsInfoRequest) -> Answer<'_, ImageFsInfoResponse> {
            self.answer("ImageFsInfo", ImageFsInfoResponse::default)
        }
    }

    struct Watching {
        runtime: Arc<Told>,
        clock: SharedClock,
        facts: watch::Receiver<RuntimeFacts>,
        cidrs: watch::Sender<Option<String>>,
        running: JoinHandle<()>,
        ending: CancellationToken,
    }

    impl Watching {
        fn start(ready: Option<bool>) -> Self {
            let runtime = Arc::new(Told::default());
            *runtime.ready.lock().unwrap() = ready;
            *runtime.spoken.lock().unwrap() = "0.1.0".to_owned();
            *runtime.version.lock().unwrap() = "2.1.9".to_owned();
            let clock: SharedClock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
            let (facts, seen) = watch::channel(RuntimeFacts::default());
            let (cidrs, pod_cidrs) = watch::channel(None);
            let watching = RuntimeWatch {
                runtime: runtime.clone(),
                clock: clock.clone(),
                facts,
                pod_cidrs,
            };
            let ending = CancellationToken::new();
            #[expect(clippy::disallowed_methods, reason = "the test joins it")]
            let running = tokio::spawn(watching.run(ending.clone()));
            Self {
                runtime,
                clock,
                facts: seen,
                cidrs,
                running,
                ending,
            }
        }

        async fn after(&self, seconds: u64) -> RuntimeFacts {
            self.clock.sleep(Duration::from_secs(seconds)).await;
            self.facts.borrow().clone()
        }

        async fn stop(self) {
            self.ending.cancel();
            self.running.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_runtime_says_is_published_and_kept_fresh() {
        let watching = Watching::start(Some(true));
        let facts = watching.after(1).await;
        assert!(facts.probed);
        assert_eq!(facts.name, "containerd");
        assert_eq!(facts.version.as_deref(), Some("2.1.9"));
        assert_eq!(facts.last_good_status, Some(Duration::ZERO));
        assert_eq!(facts.supplemental_groups_policy, Some(true));
        let [handler] = facts.handlers.as_slice() else {
            panic!("{:?}", facts.handlers);
        };
        assert_eq!(handler.name, "vm");
        assert!(handler.recursive_read_only_mounts && handler.user_namespaces);
        assert_eq!(facts.conditions.unwrap().len(), 2);
        let later = watching.after(60).await;
        assert_eq!(later.last_good_status, Some(Duration::from_secs(60)));
        assert_eq!(
            *watching.runtime.asked.lock().unwrap(),
            13,
            "every five seconds"
        );
        watching.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_is_away_or_not_ready_is_not_good() {
        let watching = Watching::start(None);
        let facts = watching.after(1).await;
        assert!(facts.probed && facts.conditions.is_none());
        assert_eq!(facts.last_good_status, None);
        *watching.runtime.ready.lock().unwrap() = Some(false);
        let facts = watching.after(5).await;
        assert!(facts.conditions.is_some());
        assert_eq!(facts.last_good_status, None, "it answers, and is not ready");
        assert_eq!(facts.supplemental_groups_policy, None);
        *watching.runtime.ready.lock().unwrap() = Some(true);
        assert!(watching.after(5).await.last_good_status.is_some());
        watching.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_comes_back_is_asked_again_who_it_is() {
        let watching = Watching::start(Some(true));
        watching.after(1).await;
        *watching.runtime.ready.lock().unwrap() = None;
        assert_eq!(watching.after(5).await.version, None);
        *watching.runtime.version.lock().unwrap() = "2.2.0".to_owned();
        *watching.runtime.ready.lock().unwrap() = Some(true);
        assert_eq!(watching.after(5).await.version.as_deref(), Some("2.2.0"));
        watching.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_was_replaced_between_two_looks_is_known_within_a_minute() {
        let watching = Watching::start(Some(true));
        watching.after(1).await;
        let spoken = |spoken: &str| *watching.runtime.spoken.lock().unwrap() = spoken.to_owned();
        *watching.runtime.version.lock().unwrap() = "2.2.0".to_owned();
        let facts = watching.after(58).await;
        assert_eq!(facts.version.as_deref(), Some("2.1.9"), "at 59 seconds");
        // What it does not say just then is asked again at the next look.
        *watching.runtime.shy.lock().unwrap() = true;
        let facts = watching.after(3).await;
        assert_eq!(facts.version.as_deref(), Some("2.1.9"), "at 62 seconds");
        assert_eq!(facts.last_good_status, Some(Duration::from_secs(60)));
        *watching.runtime.shy.lock().unwrap() = false;
        let facts = watching.after(4).await;
        assert_eq!(facts.version.as_deref(), Some("2.2.0"), "at 66 seconds");
        assert_eq!(facts.last_good_status, Some(Duration::from_secs(65)));
        // One that does not keep to the interface is no good, however it says it fares.
        spoken("0.2.0");
        let facts = watching.after(60).await;
        assert_eq!(facts.version, None);
        let good = facts.last_good_status;
        assert!(good < Some(Duration::from_secs(126)), "{good:?}");
        assert_eq!(watching.after(10).await.last_good_status, good);
        spoken("0.1.0");
        let facts = watching.after(5).await;
        assert_eq!(facts.version.as_deref(), Some("2.2.0"));
        watching.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_says_how_it_fares_is_good_whatever_else_it_does_not_answer() {
        let watching = Watching::start(Some(true));
        watching.after(1).await;
        *watching.runtime.mute.lock().unwrap() = true;
        let facts = watching.after(300).await;
        assert_eq!(facts.version.as_deref(), Some("2.1.9"));
        assert_eq!(facts.last_good_status, Some(Duration::from_secs(300)));
        watching.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_does_not_keep_to_the_interface_is_not_taken_for_one() {
        let watching = Watching::start(Some(true));
        // It has no version of its own, then it speaks another version, then all is well.
        for (spoken, version, taken) in [
            ("0.1.0", "", false),
            ("0.2.0", "2.1.9", false),
            ("0.1.0", "2.1.9", true),
        ] {
            *watching.runtime.spoken.lock().unwrap() = spoken.to_owned();
            *watching.runtime.version.lock().unwrap() = version.to_owned();
            let facts = watching.after(7).await;
            assert_eq!(facts.version.is_some(), taken, "{spoken} {version}");
            assert_eq!(facts.name.is_empty(), !taken, "{spoken} {version}");
            assert_eq!(facts.last_good_status.is_some(), taken, "{spoken}");
        }
        watching.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn images_are_listed_every_half_minute_and_pod_addresses_told_once() {
        let watching = Watching::start(Some(true));
        assert!(watching.after(1).await.images.is_empty());
        watching.runtime.images.lock().unwrap().push(Image {
            id: "sha256:1".to_owned(),
            size: 7,
            ..Image::default()
        });
        watching.cidrs.send_replace(Some("10.1.0.0/24".to_owned()));
        let facts = watching.after(30).await;
        assert_eq!(facts.images[0].size, 7);
        watching.after(60).await;
        assert_eq!(*watching.runtime.cidrs.lock().unwrap(), ["10.1.0.0/24"]);
        watching.stop().await;
    }
}
