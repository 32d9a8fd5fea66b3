//! Does what the mirrors need, one after another.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client};
use seams::{SharedClock, timeout};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use types::{PodName, PodRef};

use super::failures::Failures;
use super::{Step, decide, is_mirror_of, mirror_of};
use crate::annotations::{name_of, ref_of};
use types::desired::{Desired, StaticsAtWork};

/// A look that backs the channels.
const PERIOD: Duration = Duration::from_secs(60);

/// After a failure.
const RETRY: Duration = Duration::from_secs(10);

/// A server that takes longer for one request is away.
const ANSWER: Duration = Duration::from_secs(30);

const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;

/// Keeps the mirrors of the static pods. Runs as one task.
pub struct MirrorKeeper {
    pub client: Client,
    pub clock: SharedClock,
    pub own_node: watch::Receiver<Option<Arc<Node>>>,
    pub desired: watch::Receiver<Desired>,
    pub at_work: watch::Receiver<StaticsAtWork>,
}

impl fmt::Debug for MirrorKeeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MirrorKeeper")
            .finish_non_exhaustive()
    }
}

/// Why a mirror is not as it should be. It is tried again.
#[derive(Debug, Error)]
enum MirrorError {
    #[error("the API server does not answer")]
    Silence,
    #[error("{0}")]
    Refused(#[from] kube::Error),
    #[error("another pod has this name: rename the static pod, or delete the other")]
    Taken,
}

impl MirrorKeeper {
    /// Keeps the mirrors until told to stop.
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.keep()).await;
    }

    async fn keep(&mut self) {
        let mut failures = Failures::default();
        loop {
            self.look(&mut failures).await;
            let now = self.clock.uptime();
            let pause = failures.next().map(|next| next.saturating_sub(now));
            let pause = pause.unwrap_or(PERIOD);
            tokio::select! {
                () = self.clock.sleep(pause) => {}
                () = changed(&mut self.desired) => {}
                () = changed(&mut self.own_node) => {}
                () = changed(&mut self.at_work) => {}
            }
        }
    }

    /// One look, and what it asks for, but for what has failed just before.
    async fn look(&mut self, failures: &mut Failures) {
        failures.pass(self.clock.uptime());
        let node = self.own_node.borrow_and_update().clone();
        let steps = decide(
            &self.desired.borrow_and_update(),
            node.as_deref(),
            &self.at_work.borrow_and_update(),
        );
        for step in steps {
            if !failures.may_try(&step) {
                continue;
            }
            let (name, purpose) = (step.name(), step.purpose());
            // Boxed, so that a keeper that waits is small.
            if let Err(error) = Box::pin(self.act(step, node.as_deref())).await {
                warn!(pod = %name, err = %error, "a mirror pod is not as it should be, will try again");
                let pause = RETRY.mul_f64(1.0 + 0.5 * self.clock.random());
                failures.failed(name, purpose, self.clock.uptime() + pause);
            } else {
                failures.succeeded(&name);
            }
        }
    }

    async fn act(&self, step: Step, node: Option<&Node>) -> Result<(), MirrorError> {
        match step {
            Step::Create(pod) => self.create(&pod, node).await,
            Step::Remove(mirror) => self.remove(&mirror).await.map(drop),
            // Who was not the one that we saw is left to the next look.
            Step::Replace(mirror, pod) => {
                if self.remove(&mirror).await? {
                    self.create(&pod, node).await?;
                }
                Ok(())
            }
        }
    }

    async fn create(&self, pod: &Pod, node: Option<&Node>) -> Result<(), MirrorError> {
        let Some(mirror) = node.and_then(|node| mirror_of(pod, node)) else {
            return Ok(());
        };
        let name = name_of(pod);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &name.namespace);
        let params = PostParams::default();
        match self.answered(api.create(&params, &mirror)).await {
            Ok(made) => {
                info!(pod = %ref_of(pod), mirror = %ref_of(&made), "a mirror pod was made");
                Ok(())
            }
            Err(MirrorError::Refused(kube::Error::Api(status))) if status.code == CONFLICT => {
                // We, most likely, and have not seen it yet.
                match self.answered(api.get(&name.name)).await? {
                    there if is_mirror_of(&there, pod) => Ok(()),
                    _ => Err(MirrorError::Taken),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Whether it is gone now. False if another is there under its name.
    async fn remove(&self, mirror: &PodRef) -> Result<bool, MirrorError> {
        let PodName { namespace, name } = &mirror.name;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: Some(mirror.uid.to_string()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.answered(api.delete(name, &params)).await {
            Ok(_) => {
                info!(%mirror, "a mirror pod was removed");
                Ok(true)
            }
            Err(MirrorError::Refused(kube::Error::Api(status))) if status.code == NOT_FOUND => {
                Ok(true)
            }
            Err(MirrorError::Refused(kube::Error::Api(status))) if status.code == CONFLICT => {
                debug!(%mirror, "another pod has the name of a mirror pod by now");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn answered<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, MirrorError> {
        match timeout(&*self.clock, ANSWER, request).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(MirrorError::Silence),
        }
    }
}

/// A channel that nobody writes any more does not change.
async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::time::UNIX_EPOCH;

    use http::{Method, Request, Response, StatusCode};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::{Value, json};
    use testkit::clock::TokioClock;

    use super::*;
    use crate::mirror::tests::{desired, mirror_pod, node, static_pod};

    /// Pods by name, and every call.
    #[derive(Default)]
    struct Server {
        pods: BTreeMap<String, Value>,
        calls: Vec<String>,
        made: u32,
        /// So many calls get no answer.
        away: u32,
    }

    type Shared = Arc<Mutex<Server>>;

    fn client(server: &Shared) -> Client {
        let server = Arc::clone(server);
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&server);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let mut server = server.lock().unwrap();
                server.answer(&parts.method, parts.uri.path(), body)
            }
        });
        Client::new(service, "default")
    }

    impl Server {
        fn answer(
            &mut self,
            method: &Method,
            path: &str,
            mut body: Value,
        ) -> Result<Response<Body>, std::io::Error> {
            let name = path
                .strip_prefix("/api/v1/namespaces/default/pods")
                .unwrap();
            let name = name.trim_start_matches('/').to_owned();
            self.calls
                .push(format!("{method} {name}").trim().to_owned());
            if self.away > 0 {
                self.away -= 1;
                return Err(std::io::Error::other("away"));
            }
            let (code, answer) = match *method {
                Method::POST => {
                    let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                    if self.pods.contains_key(&name) {
                        status(409)
                    } else {
                        self.made += 1;
                        body["metadata"]["uid"] = json!(format!("made-{}", self.made));
                        self.pods.insert(name, body.clone());
                        (201, body)
                    }
                }
                Method::DELETE => match self.pods.get(&name) {
                    None => status(404),
                    Some(pod) if pod["metadata"]["uid"] != body["preconditions"]["uid"] => {
                        status(409)
                    }
                    Some(_) => {
                        assert_eq!(body["gracePeriodSeconds"], 0);
                        (200, self.pods.remove(&name).unwrap())
                    }
                },
                _ => self
                    .pods
                    .get(&name)
                    .map_or_else(|| status(404), |pod| (200, pod.clone())),
            };
            let mut answer = Response::new(Body::from(answer.to_string().into_bytes()));
            *answer.status_mut() = StatusCode::from_u16(code).unwrap();
            Ok(answer)
        }

        fn pods(&self) -> Vec<Pod> {
            let pods = self.pods.values().cloned();
            pods.map(|pod| serde_json::from_value(pod).unwrap())
                .collect()
        }
    }

    fn status(code: u16) -> (u16, Value) {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "message": "by the test", "reason": "Test",
        });
        (code, status)
    }

    struct Stage {
        server: Shared,
        desired: watch::Sender<Desired>,
        own_node: watch::Sender<Option<Arc<Node>>>,
        _at_work: watch::Sender<StaticsAtWork>,
        clock: SharedClock,
    }

    fn stage(wanted: Desired) -> (Stage, MirrorKeeper) {
        let server = Shared::default();
        let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        let (desired, wanted) = watch::channel(wanted);
        let (own_node, seen_node) = watch::channel(Some(Arc::new(node())));
        let (at_work, working) = watch::channel(StaticsAtWork::default());
        let keeper = MirrorKeeper {
            client: client(&server),
            clock: clock.clone(),
            own_node: seen_node,
            desired: wanted,
            at_work: working,
        };
        let stage = Stage {
            server,
            desired,
            own_node,
            _at_work: at_work,
            clock,
        };
        (stage, keeper)
    }

    impl Stage {
        /// What was called since, once nothing more is going on.
        async fn calls(&self, wait: Duration) -> Vec<String> {
            self.clock.sleep(wait).await;
            std::mem::take(&mut self.server.lock().unwrap().calls)
        }

        fn plant(&self, pod: &Pod) {
            let name = pod.metadata.name.clone().unwrap();
            let pod = serde_json::to_value(pod).unwrap();
            self.server.lock().unwrap().pods.insert(name, pod);
        }

        /// The API source shows what the server has.
        fn show(&self, statics: &[Pod]) {
            let pods = self.server.lock().unwrap().pods();
            self.desired.send_replace(desired(statics, Some(&pods)));
        }
    }

    const MOMENT: Duration = Duration::from_millis(1);

    async fn play(keeper: MirrorKeeper, story: impl AsyncFnOnce()) {
        let shutdown = CancellationToken::new();
        let story = async {
            story().await;
            shutdown.cancel();
        };
        tokio::join!(keeper.run(shutdown.clone()), story);
    }

    #[tokio::test(start_paused = true)]
    async fn a_mirror_is_made_and_made_again_when_it_was_deleted() {
        let statics = [static_pod("a", "1")];
        let (stage, keeper) = stage(desired(&statics, Some(&[])));
        play(keeper, async || {
            assert_eq!(stage.calls(MOMENT).await, ["POST"]);
            stage.show(&statics);
            assert!(stage.calls(MOMENT).await.is_empty());
            // By somebody, at once.
            stage.server.lock().unwrap().pods.clear();
            stage.show(&statics);
            assert_eq!(stage.calls(MOMENT).await, ["POST"]);
            // Seen twice before the watch has shown it.
            stage.desired.send_replace(desired(&statics, Some(&[])));
            assert_eq!(stage.calls(MOMENT).await, ["POST", "GET a"]);
            assert_eq!(stage.server.lock().unwrap().made, 2);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_mirror_of_a_former_version_is_replaced_and_an_orphan_is_removed() {
        let statics = [static_pod("a", "2")];
        let (stage, keeper) = stage(Desired::default());
        stage.plant(&mirror_pod("a", "1"));
        stage.plant(&mirror_pod("gone", "7"));
        stage.show(&statics);
        play(keeper, async || {
            assert_eq!(
                stage.calls(MOMENT).await,
                ["DELETE a", "POST", "DELETE gone"]
            );
            // What it saw is older than what it did: the new one is not touched.
            let old = [mirror_pod("a", "1")];
            stage.desired.send_replace(desired(&statics, Some(&old)));
            assert_eq!(stage.calls(MOMENT).await, ["DELETE a"]);
            let pods = stage.server.lock().unwrap().pods();
            assert_eq!(pods.len(), 1);
            assert!(is_mirror_of(&pods[0], &statics[0]));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_is_tried_again_and_another_pod_of_the_name_is_not_touched() {
        let statics = [static_pod("a", "1")];
        let (stage, keeper) = stage(desired(&statics, Some(&[])));
        stage.server.lock().unwrap().away = 1;
        play(keeper, async || {
            assert_eq!(stage.calls(MOMENT).await, ["POST"]);
            assert!(stage.calls(RETRY / 2).await.is_empty());
            let mut other = static_pod("a", "x");
            other.metadata.annotations = None;
            stage.plant(&other);
            assert_eq!(stage.calls(RETRY).await, ["POST", "GET a"]);
            assert_eq!(stage.server.lock().unwrap().pods()[0], other);
            stage.server.lock().unwrap().pods.clear();
            assert_eq!(stage.calls(RETRY * 2).await, ["POST"]);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_is_not_tried_again_for_the_changes_of_others() {
        let statics = [static_pod("a", "1")];
        let (stage, keeper) = stage(desired(&statics, Some(&[])));
        stage.server.lock().unwrap().away = u32::MAX;
        play(keeper, async || {
            assert_eq!(stage.calls(MOMENT).await, ["POST"]);
            for _ in 0..5 {
                stage.show(&statics);
                assert!(stage.calls(MOMENT).await.is_empty());
            }
            // Another one does not wait for it, nor does a new version of it.
            let two = [static_pod("a", "1"), static_pod("b", "7")];
            stage.show(&two);
            assert_eq!(stage.calls(MOMENT).await, ["POST"]);
            let newer = [static_pod("a", "2"), static_pod("b", "7")];
            stage.show(&newer);
            assert_eq!(stage.calls(MOMENT).await, ["POST"]);
            // Both are tried again in their time, though nothing changes.
            let retried = RETRY.mul_f64(1.5) + MOMENT;
            assert_eq!(stage.calls(retried).await, ["POST", "POST"]);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_wakes_for_what_failed_and_is_not_wanted_any_more() {
        let statics = [static_pod("a", "1")];
        let (stage, keeper) = stage(desired(&statics, Some(&[])));
        stage.server.lock().unwrap().away = u32::MAX;
        play(keeper, async || {
            assert_eq!(stage.calls(MOMENT).await, ["POST"]);
            stage.show(&[]);
            // A keeper that wakes over and over does not let this time pass.
            assert!(stage.calls(RETRY * 6).await.is_empty());
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_node_object_nothing_is_made_until_it_comes() {
        let statics = [static_pod("a", "1")];
        let (stage, keeper) = stage(desired(&statics, Some(&[])));
        stage.own_node.send_replace(None);
        play(keeper, async || {
            assert!(stage.calls(PERIOD * 3).await.is_empty());
            stage.own_node.send_replace(Some(Arc::new(node())));
            assert_eq!(stage.calls(MOMENT).await, ["POST"]);
        })
        .await;
    }
}
