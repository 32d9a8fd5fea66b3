//! The trust bundles of the cluster, of which pods may have certificates projected into
//! their volumes. Few do: they are followed from the first time that somebody asks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
use kube::Client;
use seams::{SharedClock, timeout};
use thiserror::Error;
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Following, Selection, Told};

const VERSION: &str = "certificates.k8s.io/v1beta1";
const RESOURCE: &str = "clustertrustbundles";
const NOT_FOUND: u16 = 404;

/// How long one who asks waits for the API server.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// All of them, by name.
pub type BundleSet = Arc<BTreeMap<String, ClusterTrustBundle>>;

/// `None` until they were heard of.
type Known = Option<BundleSet>;

/// The trust bundles. Clones share them.
#[derive(Clone)]
pub struct TrustBundles {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    clock: SharedClock,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    /// Empty until the API server has told somebody who asked whether it has bundles:
    /// `None` if it has not.
    followed: OnceCell<Option<watch::Receiver<Known>>>,
}

/// Why the bundles are not known, in upstream's words.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TrustBundlesError {
    #[error("ClusterTrustBundle projection is not supported in static kubelet mode")]
    NotServed,
    #[error(
        "failed to ensure informer manager for ClusterTrustBundles: failed to determine which informer manager to choose: {problem}"
    )]
    Undiscovered { problem: String },
    #[error("ClusterTrustBundle informer has not yet synced")]
    Unanswered,
}

impl fmt::Debug for TrustBundles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TrustBundles")
            .finish_non_exhaustive()
    }
}

impl TrustBundles {
    /// The watch, once it is needed, runs on `tasks` until the shutdown.
    pub fn new(
        client: Client,
        clock: SharedClock,
        tasks: TaskTracker,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                clock,
                tasks,
                shutdown,
                followed: OnceCell::new(),
            }),
        }
    }

    /// The bundles from now on, if the API server has such objects.
    pub async fn seen(&self) -> Result<BundlesSeen, TrustBundlesError> {
        let shared = &self.shared;
        let asked = || async {
            let is_served = self.is_served().await?;
            Ok::<_, TrustBundlesError>(is_served.then(|| self.follow()))
        };
        let followed = shared.followed.get_or_try_init(asked).await?;
        Ok(BundlesSeen {
            clock: shared.clock.clone(),
            known: followed.clone().ok_or(TrustBundlesError::NotServed)?,
        })
    }

    async fn is_served(&self) -> Result<bool, TrustBundlesError> {
        let Shared { client, clock, .. } = &*self.shared;
        let listed = client.list_api_group_resources(VERSION);
        let problem = match timeout(&**clock, FIRST_ANSWER, listed).await {
            Ok(Ok(listed)) => {
                let mut resources = listed.resources.iter();
                return Ok(resources.any(|resource| resource.name == RESOURCE));
            }
            Ok(Err(kube::Error::Api(status))) if status.code == NOT_FOUND => return Ok(false),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server does not answer".to_owned(),
        };
        Err(TrustBundlesError::Undiscovered { problem })
    }

    fn follow(&self) -> watch::Receiver<Known> {
        let (tell, known) = watch::channel(None);
        let Shared {
            client,
            clock,
            tasks,
            shutdown,
            ..
        } = &*self.shared;
        let (client, clock, shutdown) = (client.clone(), clock.clone(), shutdown.clone());
        tasks.spawn(async move {
            let all = Selection::Fields(String::new());
            let following = Following::new(&client, &clock, all, &tell);
            shutdown.run_until_cancelled(following.run()).await;
            // Who still reads must not think that there are no more.
            shutdown.cancelled().await;
        });
        known
    }
}

/// The bundles, as one reader sees them.
#[derive(Clone)]
pub struct BundlesSeen {
    clock: SharedClock,
    known: watch::Receiver<Known>,
}

impl fmt::Debug for BundlesSeen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BundlesSeen")
            .finish_non_exhaustive()
    }
}

impl BundlesSeen {
    /// All of them, as they are now.
    pub async fn get(&mut self) -> Result<BundleSet, TrustBundlesError> {
        let heard = self.known.wait_for(Option::is_some);
        let heard = timeout(&*self.clock, FIRST_ANSWER, heard).await;
        let heard = heard.ok().and_then(Result::ok);
        let heard = heard.and_then(|known| known.clone());
        heard.ok_or(TrustBundlesError::Unanswered)
    }

    /// Ends when there is something that [`Self::get`] has not told.
    pub async fn changed(&mut self) {
        if self.known.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Told<ClusterTrustBundle> for watch::Sender<Known> {
    fn all(&self, bundles: Vec<ClusterTrustBundle>) {
        let bundles = Arc::new(bundles.into_iter().map(entry).collect());
        self.send_if_modified(|known| {
            // A look anew mostly finds what was known.
            let is_new = known.as_ref() != Some(&bundles);
            *known = Some(bundles);
            is_new
        });
    }

    fn changed(&self, bundle: ClusterTrustBundle) {
        let (name, bundle) = entry(bundle);
        self.send_modify(|known| {
            Arc::make_mut(known.get_or_insert_default()).insert(name, bundle);
        });
    }

    fn gone(&self, bundle: ClusterTrustBundle) {
        let (name, _) = entry(bundle);
        self.send_modify(|known| {
            Arc::make_mut(known.get_or_insert_default()).remove(&name);
        });
    }
}

/// Without what nobody here reads.
fn entry(mut bundle: ClusterTrustBundle) -> (String, ClusterTrustBundle) {
    bundle.metadata.managed_fields = None;
    (bundle.metadata.name.clone().unwrap_or_default(), bundle)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::UNIX_EPOCH;

    use http::{Request, Response};
    use kube::client::Body;
    use testkit::clock::TokioClock;

    use super::*;

    const LIST: &str = r#"{"kind": "ClusterTrustBundleList", "apiVersion": "certificates.k8s.io/v1beta1",
        "metadata": {"resourceVersion": "1"},
        "items": [{"metadata": {"name": "b"}, "spec": {"trustBundle": "PEM"}}]}"#;

    fn served(resource: &str) -> String {
        format!(
            r#"{{"kind": "APIResourceList", "groupVersion": "{VERSION}", "resources": [
                {{"name": "{resource}", "singularName": "", "namespaced": false, "kind": "K", "verbs": []}}]}}"#
        )
    }

    /// A server that says what it has, lists, and never ends a watch.
    fn bundles(discovery: (u16, String), asked: &Arc<Mutex<Vec<String>>>) -> TrustBundles {
        let asked = Arc::clone(asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (path, query) = (request.uri().path(), request.uri().query());
            asked.lock().unwrap().push(path.to_owned());
            let watches = query.is_some_and(|query| query.contains("watch"));
            let (status, body) = if path.ends_with(VERSION) {
                discovery.clone()
            } else {
                (200, LIST.to_owned())
            };
            async move {
                if watches {
                    std::future::pending::<()>().await;
                }
                let response = Response::builder().status(status);
                let response = response.body(Body::from(body.into_bytes()));
                Ok::<_, std::io::Error>(response.unwrap())
            }
        });
        TrustBundles::new(
            Client::new(service, "default"),
            Arc::new(TokioClock::starting_at(UNIX_EPOCH)),
            TaskTracker::new(),
            CancellationToken::new(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn bundles_are_asked_for_when_the_first_pod_has_one() {
        let asked = Arc::default();
        let bundles = bundles((200, served(RESOURCE)), &asked);
        tokio::task::yield_now().await;
        assert!(asked.lock().unwrap().is_empty());
        for _ in 0..2 {
            let all = bundles.seen().await.unwrap().get().await.unwrap();
            assert_eq!(all["b"].spec.trust_bundle, "PEM");
        }
        tokio::task::yield_now().await;
        let asked = asked.lock().unwrap().len();
        assert_eq!(asked, 3, "what there is, a list and a watch");
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_without_bundles_is_asked_once_and_one_in_trouble_again() {
        let missing = r#"{"kind": "Status", "status": "Failure", "code": 404, "message": "no", "reason": "NotFound"}"#;
        let broken = r#"{"kind": "Status", "status": "Failure", "code": 503, "message": "later", "reason": "ServiceUnavailable"}"#;
        let cases = [
            (
                (200, served("others")),
                "not supported in static kubelet mode",
                1,
            ),
            (
                (404, missing.to_owned()),
                "not supported in static kubelet mode",
                1,
            ),
            (
                (503, broken.to_owned()),
                "failed to determine which informer manager to choose: ",
                2,
            ),
        ];
        for (discovery, wanted, times) in cases {
            let asked = Arc::default();
            let bundles = bundles(discovery, &asked);
            for _ in 0..2 {
                let error = bundles.seen().await.unwrap_err().to_string();
                assert!(error.contains(wanted), "{error}");
            }
            assert_eq!(asked.lock().unwrap().len(), times);
        }
    }

    #[test]
    fn bundles_come_and_change_and_go_and_what_is_the_same_wakes_nobody() {
        let bundle = |name: &str, text: &str| {
            let mut bundle = ClusterTrustBundle::default();
            bundle.metadata.name = Some(name.to_owned());
            text.clone_into(&mut bundle.spec.trust_bundle);
            bundle
        };
        let (tell, mut seen) = watch::channel::<Known>(None);
        tell.all(vec![bundle("a", "1"), bundle("b", "2")]);
        tell.changed(bundle("b", "3"));
        tell.changed(bundle("c", "4"));
        tell.gone(bundle("a", "1"));
        let known = seen.borrow_and_update().clone().unwrap();
        let known: Vec<_> = known
            .iter()
            .map(|(name, bundle)| (&**name, &*bundle.spec.trust_bundle))
            .collect();
        assert_eq!(known, [("b", "3"), ("c", "4")]);
        tell.all(vec![bundle("b", "3"), bundle("c", "4")]);
        assert!(!seen.has_changed().unwrap());
        tell.all(vec![bundle("c", "4")]);
        assert!(seen.has_changed().unwrap());
    }
}
