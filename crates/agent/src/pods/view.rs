//! What workers see of the node: its object, or what it will be; its runtime's name
//! and network.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeAddress};
use node::RuntimeFacts;
use node::readiness::Ailments;
use pleg::Health;
use resources::Amounts;
use seams::SharedClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use volumes::Allocatable;
use workers::NodeView;

use super::OfNode;

/// How often the observation of pods is asked for its health.
const HEALTH: Duration = Duration::from_secs(10);

/// Keeps the view up to date. Runs as one task.
#[derive(Debug)]
pub(crate) struct Viewing {
    own_node: Option<watch::Receiver<Option<Arc<Node>>>>,
    runtime: watch::Receiver<RuntimeFacts>,
    preview: Arc<node::Preview>,
    health: watch::Receiver<Health>,
    ailments: watch::Sender<Ailments>,
    clock: SharedClock,
    view: watch::Sender<Arc<NodeView>>,
}

impl Viewing {
    pub(crate) fn new(
        of_node: &OfNode,
        own_node: Option<watch::Receiver<Option<Arc<Node>>>>,
        health: watch::Receiver<Health>,
        clock: SharedClock,
    ) -> (Self, watch::Receiver<Arc<NodeView>>) {
        let (view, seen) = watch::channel(Arc::default());
        let viewing = Self {
            own_node,
            runtime: of_node.runtime.clone(),
            preview: Arc::clone(&of_node.preview),
            health,
            ailments: of_node.ailments.clone(),
            clock,
            view,
        };
        (viewing, seen)
    }

    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.look_on()).await;
    }

    async fn look_on(&mut self) {
        let mut expected = None;
        loop {
            self.look(&mut expected).await;
            tokio::select! {
                () = changed(self.own_node.as_mut()) => {}
                Ok(()) = self.runtime.changed() => {}
                () = self.clock.sleep(HEALTH) => {}
            }
        }
    }

    /// What the node's object will be, unless it has come meanwhile: looking takes a
    /// moment.
    async fn expected(&self, known: &mut Option<Arc<Node>>) -> Arc<Node> {
        if let Some(node) = known {
            return Arc::clone(node);
        }
        let node = Arc::new(self.preview.node().await);
        *known = Some(Arc::clone(&node));
        let own = self.own_node.as_ref();
        own.and_then(|own| own.borrow().clone()).unwrap_or(node)
    }

    async fn look(&mut self, expected: &mut Option<Arc<Node>>) {
        let uptime = self.clock.uptime();
        let cause = self.health.borrow().check(uptime).err();
        let cause = cause.map(|cause| cause.to_string());
        self.ailments.send_if_modified(|ailments| {
            let news = ailments.pleg != cause;
            ailments.pleg = cause;
            news
        });
        let runtime = self.runtime.borrow_and_update().clone();
        let own = self.own_node.as_mut();
        let own = own.and_then(|own| own.borrow_and_update().clone());
        let node = match own {
            Some(node) => {
                *expected = None;
                node
            }
            None => self.expected(expected).await,
        };
        let view = view_of(node, &runtime);
        self.view.send_if_modified(|before| {
            let news = **before != view;
            if news {
                *before = Arc::new(view);
            }
            news
        });
    }
}

async fn changed<T>(receiver: Option<&mut watch::Receiver<T>>) {
    if let Some(receiver) = receiver
        && receiver.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

fn view_of(node: Arc<Node>, runtime: &RuntimeFacts) -> NodeView {
    let status = node.status.as_ref();
    let addresses = status.and_then(|status| status.addresses.as_deref());
    let host_ips = host_ips(addresses.unwrap_or_default());
    let amounts = |list| resources::requests::amounts(list);
    let handlers = runtime.handlers.iter();
    let user_namespaces = handlers
        .map(|handler| (handler.name.clone(), handler.user_namespaces))
        .collect();
    let handlers = runtime.handlers.iter();
    let recursive = handlers.filter(|handler| handler.recursive_read_only_mounts);
    NodeView {
        runtime_name: runtime.name.clone(),
        network_problem: runtime.network_problem(),
        host_ips,
        recursive_read_only: recursive.map(|handler| handler.name.clone()).collect(),
        user_namespaces,
        allocatable: amounts(status.and_then(|status| status.allocatable.as_ref())),
        capacity: amounts(status.and_then(|status| status.capacity.as_ref())),
        node: Some(node),
    }
}

/// One of each family: what a node is known by inside, and only then outside.
fn host_ips(addresses: &[NodeAddress]) -> Vec<IpAddr> {
    let mut host_ips: Vec<IpAddr> = Vec::new();
    for kind in ["InternalIP", "ExternalIP"] {
        let own = addresses.iter().filter(|address| address.type_ == kind);
        for ip in own.filter_map(|address| address.address.parse::<IpAddr>().ok()) {
            if host_ips.iter().all(|known| known.is_ipv4() != ip.is_ipv4()) {
                host_ips.push(ip);
            }
        }
    }
    host_ips
}

/// What volumes need of it.
pub(crate) fn allocatable(
    view: &watch::Receiver<Arc<NodeView>>,
) -> watch::Receiver<Arc<Allocatable>> {
    // The figures of a node change when its machine does, that is with a restart;
    // what is known when pods begin is enough.
    let amounts: Amounts = view.borrow().allocatable.clone();
    watch::channel(Arc::new(amounts.into_iter().collect())).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_told_one_address_of_each_family_the_nodes_first_first() {
        let (inside, outside, name) = ("InternalIP", "ExternalIP", "Hostname");
        for (addresses, expected) in [
            (vec![], vec![]),
            (vec![(name, "10.0.0.9")], vec![]),
            (
                vec![(inside, "10.0.0.1"), (inside, "10.0.0.2")],
                vec!["10.0.0.1"],
            ),
            (
                vec![
                    (inside, "10.0.0.1"),
                    (inside, "10.0.0.2"),
                    (inside, "fd00::1"),
                ],
                vec!["10.0.0.1", "fd00::1"],
            ),
            (
                vec![(inside, "fd00::1"), (name, "n1"), (inside, "10.0.0.1")],
                vec!["fd00::1", "10.0.0.1"],
            ),
            // What outsiders use counts where nothing else is known.
            (vec![(outside, "192.0.2.1")], vec!["192.0.2.1"]),
            (
                vec![
                    (outside, "192.0.2.1"),
                    (inside, "10.0.0.1"),
                    (outside, "2001:db8::1"),
                ],
                vec!["10.0.0.1", "2001:db8::1"],
            ),
            (
                vec![(inside, "nonsense"), (inside, "10.0.0.1")],
                vec!["10.0.0.1"],
            ),
        ] {
            let address = |(kind, address): &(&str, &str)| NodeAddress {
                type_: (*kind).to_owned(),
                address: (*address).to_owned(),
            };
            let all: Vec<_> = addresses.iter().map(address).collect();
            let found = host_ips(&all);
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{addresses:?}");
        }
    }
}
