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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::{Duration, UNIX_EPOCH};

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
}
