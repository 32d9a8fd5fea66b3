//! Nodes that fall silent: their conditions, their taints, and the word of their pods.

pub(crate) mod health;
pub(crate) mod taints;
mod zones;

use std::collections::HashMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use tracing::{info, warn};

use super::agenda::Agenda;
use super::events::{Event, Recorder};
use super::mirror::{Mirror, Name};
use super::settled;
use crate::failure::Failure;
use crate::kinds::{LEASES, NODES, PODS};
use crate::rest::{Objects, Part};
use crate::store::Key;
use health::{Heard, Patience};
use taints::{Eviction, Wanted};
use zones::Zones;

const LEASE_NAMESPACE: &str = "kube-node-lease";
/// How often a node that is ill is looked at.
const PERIOD: Duration = Duration::from_secs(5);

pub(crate) struct Nodes {
    objects: Objects,
    recorder: Recorder,
    patience: Patience,
    zones: Zones,
    heard: HashMap<String, Heard>,
    /// Nodes whose pods have been told of.
    told: HashMap<String, bool>,
}

impl Nodes {
    pub(crate) fn new(objects: Objects, patience: Patience) -> Self {
        let recorder = Recorder::new(objects.clone(), "node-controller");
        Self {
            objects,
            recorder,
            patience,
            zones: Zones::default(),
            heard: HashMap::new(),
            told: HashMap::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        let clock = self.objects.clock().clone();
        let mut nodes: Mirror<Node> = Mirror::new(self.objects.store(), &NODES);
        let mut leases: Mirror<Lease> = Mirror::new(self.objects.store(), &LEASES);
        let mut agenda = Agenda::new(nodes.names());
        loop {
            let due = agenda.take(|| nodes.names());
            // All that changed are due.
            for (_, name) in &due {
                let node = nodes.get("", name).map(|node| &**node);
                self.zones.note(name, node);
            }
            for name in due {
                // Others may have been written for long: who is looked at is looked at as it is
                // now, and not silent for as long as we were busy.
                self.catch_up(&mut nodes, &mut leases, &mut agenda);
                let outcome = if let Some(node) = nodes.get("", &name.1) {
                    let lease = leases.get(LEASE_NAMESPACE, &name.1).map(|lease| &**lease);
                    self.look(&name.1, node, lease).await
                } else {
                    self.heard.remove(&name.1);
                    self.told.remove(&name.1);
                    Ok(None)
                };
                agenda.done("nodes", name, outcome);
            }
            tokio::select! {
                names = nodes.changed() => agenda.now(names),
                names = leases.changed() => self.hear_of(names, &nodes, &leases),
                () = agenda.wait(&clock) => {}
            }
        }
    }

    /// Takes what has changed until this moment.
    fn catch_up(
        &mut self,
        nodes: &mut Mirror<Node>,
        leases: &mut Mirror<Lease>,
        agenda: &mut Agenda,
    ) {
        while let Some(names) = nodes.changed().now_or_never() {
            agenda.now(names);
        }
        while let Some(names) = leases.changed().now_or_never() {
            self.hear_of(names, nodes, leases);
        }
    }

    /// Only noted: a node is looked at when it would have been silent for too long.
    fn hear_of(&mut self, names: Vec<Name>, nodes: &Mirror<Node>, leases: &Mirror<Lease>) {
        let now = self.objects.clock().timestamp();
        for (namespace, name) in names {
            if namespace == LEASE_NAMESPACE
                && let Some(node) = nodes.get("", &name)
            {
                let lease = leases.get(&namespace, &name).map(|lease| &**lease);
                self.hear(&name, node, lease, now);
            }
        }
    }

    fn hear(&mut self, name: &str, node: &Node, lease: Option<&Lease>, now: Timestamp) -> Heard {
        let heard = health::hear(self.heard.get(name), node, lease, now);
        self.heard.insert(name.to_owned(), heard.clone());
        heard
    }

    async fn look(
        &mut self,
        name: &str,
        node: &Node,
        lease: Option<&Lease>,
    ) -> Result<Option<Duration>, Failure> {
        let now = self.objects.clock().timestamp();
        let heard = self.hear(name, node, lease, now);
        let deadline = health::deadline(&heard, node, &self.patience);
        let is_silent = deadline <= now;
        if is_silent && health::ready(node) != Some("Unknown") {
            warn!(node = name, "a node is silent");
            let seconds = self.objects.clock().seconds();
            let key = Key::global(&NODES, name);
            let marked = self.objects.modify(&key, Part::Whole, |node| {
                health::mark_silent(node, &seconds)
            });
            settled(marked.await)?;
            // The change comes back as a hint, and the taints follow from it.
            return Ok(Some(PERIOD));
        }
        self.taint(name, node, now).await?;
        self.tell(name, node).await?;
        let until = deadline
            .duration_since(now)
            .max(jiff::SignedDuration::ZERO)
            .unsigned_abs();
        let wait = match health::ready(node) {
            Some("True") => until,
            _ => until.min(PERIOD).max(Duration::from_millis(100)),
        };
        Ok(Some(if is_silent { PERIOD } else { wait }))
    }

    async fn taint(&mut self, name: &str, node: &Node, now: Timestamp) -> Result<(), Failure> {
        let wanted = Wanted::of(node);
        let asks = wanted.asks_for_eviction(node);
        let eviction = self.zones.eviction(node, now);
        if !wanted.differs(node, eviction) {
            return Ok(());
        }
        if asks && eviction == Eviction::Allowed {
            self.zones.used(node, now);
        }
        let seconds = self.objects.clock().seconds();
        let key = Key::global(&NODES, name);
        let tainted = self.objects.modify(&key, Part::Whole, |node| {
            wanted.apply(node, eviction, &seconds)
        });
        settled(tainted.await)
    }

    /// Says of the pods of a node that is not ready that they are not. Of one that is
    /// only ill, once: its kubelet may know better. Of one that is silent, always.
    async fn tell(&mut self, name: &str, node: &Node) -> Result<(), Failure> {
        let ready = health::ready(node);
        if ready == Some("True") || ready.is_none() {
            self.told.insert(name.to_owned(), false);
            return Ok(());
        }
        let was_ready = self.told.insert(name.to_owned(), true) == Some(false);
        if was_ready {
            info!(node = name, status = ready, "a node is not ready any more");
            let message = format!("Node {name} status is now: NodeNotReady");
            self.recorder
                .tell(Event {
                    kind: &NODES,
                    regarding: &node.metadata,
                    severity: "Normal",
                    reason: "NodeNotReady",
                    message: &message,
                })
                .await;
        }
        if was_ready || ready == Some("Unknown") {
            self.mark_pods(name).await?;
        }
        Ok(())
    }

    async fn mark_pods(&self, node: &str) -> Result<(), Failure> {
        let now = self.objects.clock().seconds();
        let pods = self.objects.store().list(&PODS, None).items;
        for stored in pods
            .iter()
            .filter(|pod| pod.field("spec.nodeName") == Some(node))
        {
            if !health::mark_pod_not_ready(&mut stored.value(), &now) {
                continue;
            }
            let key = Key::new(&PODS, stored.namespace(), stored.name());
            let marked = self.objects.modify(&key, Part::Whole, |pod| {
                health::mark_pod_not_ready(pod, &now)
            });
            settled(marked.await)?;
            if let Ok(pod) = stored.decode::<Pod>() {
                self.recorder
                    .tell(Event {
                        kind: &PODS,
                        regarding: &pod.metadata,
                        severity: "Warning",
                        reason: "NodeNotReady",
                        message: "Node is not ready",
                    })
                    .await;
            }
        }
        Ok(())
    }
}
