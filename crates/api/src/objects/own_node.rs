//! The node's own object.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use seams::{SharedClock, timeout};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

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

/// Whoever waits for a node that is read anew does not wait longer.
const READ: Duration = Duration::from_secs(5);

/// Reads the node's own object where what was told of it may be too old.
#[derive(Clone)]
pub struct NodeReader {
    pub name: String,
    pub client: Client,
    pub clock: SharedClock,
}

impl fmt::Debug for NodeReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NodeReader").finish_non_exhaustive()
    }
}

impl NodeReader {
    /// The object as it is now; `None` if the API server does not give it.
    pub async fn read(&self) -> Option<Node> {
        let api: Api<Node> = Api::all(self.client.clone());
        match timeout(&*self.clock, READ, api.get(&self.name)).await {
            Ok(Ok(node)) => Some(node),
            Ok(Err(error)) => {
                warn!(node = self.name, %error, "the own Node object cannot be read");
                None
            }
            Err(_) => {
                warn!(
                    node = self.name,
                    "the own Node object is not read: the API server does not answer"
                );
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::UNIX_EPOCH;

    use http::{Request, Response};
    use testkit::clock::TokioClock;

    use super::*;

    const LIST: &str = r#"{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"},
        "items": [{"metadata": {"name": "n"}}]}"#;

    /// Away until then, by the clock's uptime.
    fn server_back_at(back: Duration, clock: SharedClock, asked: Arc<Mutex<usize>>) -> Client {
        let service = tower::service_fn(move |_: Request<kube::client::Body>| {
            *asked.lock().unwrap() += 1;
            let answer = if clock.uptime() < back {
                Err(std::io::Error::other("connection refused"))
            } else {
                Ok(Response::new(LIST.to_owned()))
            };
            async {
                answer.map(|answer| answer.map(|text| kube::client::Body::from(text.into_bytes())))
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_was_away_for_long_is_soon_found_to_be_back() {
        const AWAY: Duration = Duration::from_secs(610);
        let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        let asked = Arc::default();
        let (seen, mut node) = watch::channel(None);
        let own_node = OwnNode {
            name: "n".to_owned(),
            client: server_back_at(AWAY, clock.clone(), Arc::clone(&asked)),
            clock: clock.clone(),
            seen,
        };
        tokio::select! {
            () = own_node.run(CancellationToken::new()) => unreachable!("nobody has ended it"),
            found = node.wait_for(Option::is_some) => drop(found.unwrap()),
        }
        let late = clock.uptime().saturating_sub(AWAY);
        assert!(late < Duration::from_secs(6), "after {late:?}");
        let asked = *asked.lock().unwrap();
        assert!((100..=130).contains(&asked), "asked {asked} times");
    }

    /// Answers with a node, or with a refusal, or never.
    fn reader(answer: Option<(u16, &'static str)>) -> NodeReader {
        let service = tower::service_fn(move |_: Request<kube::client::Body>| async move {
            let Some((code, text)) = answer else {
                return std::future::pending().await;
            };
            let body = kube::client::Body::from(text.as_bytes().to_vec());
            let answer = Response::builder().status(code).body(body);
            answer.map_err(std::io::Error::other)
        });
        NodeReader {
            name: "n".to_owned(),
            client: Client::new(service, "default"),
            clock: Arc::new(TokioClock::starting_at(UNIX_EPOCH)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_read_anew_or_soon_given_up() {
        const NODE: &str = r#"{"metadata": {"name": "n", "labels": {"zone": "b"}}}"#;
        const REFUSAL: &str = r#"{"kind": "Status", "status": "Failure", "code": 403,
            "message": "no", "reason": "Forbidden"}"#;
        let cases = [
            (Some((200, NODE)), true),
            (Some((403, REFUSAL)), false),
            (None, false),
        ];
        for (answer, is_read) in cases {
            let node = reader(answer).read().await;
            let labels = node.and_then(|node| node.metadata.labels);
            let zone = labels.and_then(|labels| labels.get("zone").cloned());
            assert_eq!(zone.as_deref() == Some("b"), is_read, "{answer:?}");
        }
    }
}
