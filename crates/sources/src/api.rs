//! Pods from the API server: those that are bound to this node.

use std::fmt;
use std::sync::Arc;

use api::objects::{PodSet, Pods};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use seams::SharedClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::delivery::{Delivery, Source};

/// The source of a node that follows its own pods. Runs as one task.
pub struct ApiSource {
    pub node: String,
    pub client: Client,
    pub clock: SharedClock,
    /// Pods are asked for once the node's own object has been seen: before, the API
    /// server does not let a node see any.
    pub own_node: watch::Receiver<Option<Arc<Node>>>,
    /// `None` until the API server has told once which there are.
    pub delivered: watch::Sender<Option<Delivery>>,
}

impl fmt::Debug for ApiSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ApiSource").finish_non_exhaustive()
    }
}

impl ApiSource {
    /// Follows the pods until told to stop.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let seen = self.own_node.wait_for(Option::is_some);
        let seen = shutdown.run_until_cancelled(seen).await;
        let is_seen = matches!(seen, Some(Ok(_)));
        drop(seen);
        if !is_seen {
            return;
        }
        let (seen, pods) = watch::channel(None);
        let following = Pods {
            node: self.node,
            client: self.client,
            clock: self.clock,
            seen,
        };
        tokio::join!(
            following.run(shutdown.clone()),
            hand_over(pods, self.delivered, shutdown),
        );
    }
}

/// Delivers the pods that somebody else follows: [`Pods`], or
/// [`api::objects::PodsByNode`] for the nodes of a fleet.
pub async fn hand_over(
    mut pods: watch::Receiver<Option<Arc<PodSet>>>,
    delivered: watch::Sender<Option<Delivery>>,
    shutdown: CancellationToken,
) {
    let handing = async {
        pods.mark_changed();
        while pods.changed().await.is_ok() {
            let Some(seen) = pods.borrow_and_update().clone() else {
                continue;
            };
            delivered.send_replace(Some(Delivery {
                source: Source::Api,
                pods: seen.pods.values().cloned().collect(),
                departed: seen.departed.iter().cloned().collect(),
            }));
        }
    };
    shutdown.run_until_cancelled(handing).await;
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::{Duration, UNIX_EPOCH};

    use http::{Request, Response};
    use kube::client::Body;
    use testkit::clock::TokioClock;

    use super::*;

    const LIST: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},
        "items":[{"metadata":{"uid":"1","name":"a"}}]}"#;
    const EVENTS: &str = r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"uid":"2","name":"b","resourceVersion":"7"}}}
{"type":"DELETED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"uid":"1","name":"a","resourceVersion":"8"}}}
"#;

    #[tokio::test(start_paused = true)]
    async fn pods_are_asked_for_once_the_node_is_seen_and_followed_from_then() {
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let service = tower::service_fn(move |_: Request<Body>| {
            let number = {
                let mut count = count.lock().unwrap();
                *count += 1;
                *count
            };
            async move {
                let answer = match number {
                    1 => LIST,
                    2 => EVENTS,
                    _ => std::future::pending().await,
                };
                Ok::<_, std::io::Error>(Response::new(Body::from(answer.as_bytes().to_vec())))
            }
        });
        let (node, own_node) = watch::channel(None);
        let (delivered, mut seen) = watch::channel(None);
        let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        let source = ApiSource {
            node: "n".to_owned(),
            client: Client::new(service, "default"),
            clock: clock.clone(),
            own_node,
            delivered,
        };
        let shutdown = CancellationToken::new();
        let story = async {
            clock.sleep(Duration::from_secs(60)).await;
            assert_eq!(*asked.lock().unwrap(), 0);
            assert!(seen.borrow().is_none());
            node.send_replace(Some(Arc::default()));
            let names = |delivery: &Option<Delivery>| -> Option<Vec<String>> {
                let pods = delivery.as_ref()?.pods.iter();
                pods.map(|pod| pod.metadata.name.clone()).collect()
            };
            let expected = Some(vec!["b".to_owned()]);
            seen.wait_for(|delivery| names(delivery) == expected)
                .await
                .unwrap();
            shutdown.cancel();
        };
        tokio::join!(source.run(shutdown.clone()), story);
    }

    #[tokio::test]
    async fn what_was_followed_before_is_delivered_too() {
        let (_followed, pods) = watch::channel(Some(Arc::default()));
        let (delivered, mut seen) = watch::channel(None);
        let shutdown = CancellationToken::new();
        let story = async {
            let found = seen.wait_for(Option::is_some).await.unwrap().clone();
            assert_eq!(found.map(|delivery: Delivery| delivery.pods.len()), Some(0));
            shutdown.cancel();
        };
        tokio::join!(hand_over(pods, delivered, shutdown.clone()), story);
    }
}
