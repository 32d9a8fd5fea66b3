//! The objects of many nodes, followed by one watch and handed to each its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use seams::SharedClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Following, Selection, Told};

type Seen = watch::Sender<Option<Arc<Node>>>;
type Known = BTreeMap<String, Seen>;

/// The Node objects that a label selector finds. Clones share them.
#[derive(Clone)]
pub struct Nodes {
    client: Client,
    clock: SharedClock,
    selector: String,
    /// By name: those that are there, and those that somebody follows. Held for
    /// one access.
    known: Arc<Mutex<Known>>,
}

impl fmt::Debug for Nodes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Nodes").finish_non_exhaustive()
    }
}

impl Nodes {
    pub fn new(client: Client, clock: SharedClock, selector: String) -> Self {
        Self {
            client,
            clock,
            selector,
            known: Arc::default(),
        }
    }

    /// The object of one node: `None` until it has been seen, and when it is gone.
    pub fn follow(&self, name: &str) -> watch::Receiver<Option<Arc<Node>>> {
        self.with(|known| known.entry(name.to_owned()).or_default().subscribe())
    }

    /// Follows the objects until told to stop.
    pub async fn run(self, shutdown: CancellationToken) {
        let ours = Selection::Labels(self.selector.clone());
        let following = Following::new(&self.client, &self.clock, ours, &self);
        shutdown.run_until_cancelled(following.run()).await;
    }

    fn with<T>(&self, work: impl FnOnce(&mut Known) -> T) -> T {
        work(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Told<Node> for Nodes {
    fn all(&self, nodes: Vec<Node>) {
        self.with(|known| {
            let there: BTreeSet<String> = nodes.into_iter().map(|node| put(known, node)).collect();
            known.retain(|name, seen| there.contains(name) || missed(seen));
        });
    }

    fn changed(&self, node: Node) {
        self.with(|known| put(known, node));
    }

    fn gone(&self, node: Node) {
        let name = node.metadata.name.unwrap_or_default();
        self.with(|known| {
            if known.get(&name).is_some_and(|seen| !missed(seen)) {
                known.remove(&name);
            }
        });
    }
}

/// Hands an object to those who follow it. Its name.
fn put(known: &mut Known, node: Node) -> String {
    let name = node.metadata.name.clone().unwrap_or_default();
    known
        .entry(name.clone())
        .or_default()
        .send_replace(Some(Arc::new(node)));
    name
}

/// Takes an object from those who follow it. Whether there are any.
fn missed(seen: &Seen) -> bool {
    seen.send_if_modified(|seen| seen.take().is_some());
    seen.receiver_count() > 0
}

/// A client without a server.
#[cfg(test)]
pub(super) fn nobody() -> Client {
    let nobody = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody is asked"))
    });
    Client::new(nobody, "default")
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use testkit::clock::TokioClock;

    use super::*;

    fn nodes() -> Nodes {
        let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        Nodes::new(nobody(), clock, String::new())
    }

    fn node(name: &str) -> Node {
        Node {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Node::default()
        }
    }

    #[tokio::test]
    async fn each_sees_its_own_object_come_and_go() {
        let nodes = nodes();
        let (one, two) = (nodes.follow("one"), nodes.follow("two"));
        nodes.all(vec![node("one"), node("three")]);
        assert!(one.borrow().is_some() && two.borrow().is_none());
        nodes.changed(node("two"));
        assert_eq!(two.borrow().as_deref(), Some(&node("two")));
        nodes.gone(node("one"));
        assert!(one.borrow().is_none());
        nodes.all(vec![node("one")]);
        assert!(one.borrow().is_some() && two.borrow().is_none());
    }

    #[tokio::test]
    async fn who_comes_late_sees_what_was_there_and_nobodys_objects_are_not_kept() {
        let nodes = nodes();
        nodes.all(vec![node("one"), node("two")]);
        assert!(nodes.follow("one").borrow().is_some());
        nodes.gone(node("one"));
        nodes.all(Vec::new());
        assert!(nodes.with(|known| known.is_empty()));
    }
}
