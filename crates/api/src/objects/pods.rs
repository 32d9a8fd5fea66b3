//! How the pods of many nodes fare, followed by one watch. Of a pod only what is
//! counted is kept.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use seams::SharedClock;
use tokio_util::sync::CancellationToken;

use super::{Following, Selection, Told};

/// By uid: the pod's node, and its phase.
type Known = BTreeMap<String, (String, String)>;

/// The phases of all pods that have a node. Clones share them.
#[derive(Clone)]
pub struct PodPhases {
    client: Client,
    clock: SharedClock,
    /// Held for one access.
    known: Arc<Mutex<Known>>,
}

impl fmt::Debug for PodPhases {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PodPhases").finish_non_exhaustive()
    }
}

impl PodPhases {
    pub fn new(client: Client, clock: SharedClock) -> Self {
        Self {
            client,
            clock,
            known: Arc::default(),
        }
    }

    /// Follows the pods until told to stop.
    pub async fn run(self, shutdown: CancellationToken) {
        let bound = Selection::Fields("spec.nodeName!=".to_owned());
        let following = Following::new(&self.client, &self.clock, bound, &self);
        shutdown.run_until_cancelled(following.run()).await;
    }

    /// How many pods of these nodes are in which phase.
    pub fn counts(&self, is_ours: impl Fn(&str) -> bool) -> BTreeMap<String, usize> {
        self.with(|known| {
            let mut counts = BTreeMap::new();
            for (_, phase) in known.values().filter(|(node, _)| is_ours(node)) {
                *counts.entry(phase.clone()).or_default() += 1;
            }
            counts
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Known) -> T) -> T {
        work(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Told<Pod> for PodPhases {
    fn all(&self, pods: Vec<Pod>) {
        self.with(|known| *known = pods.into_iter().filter_map(entry).collect());
    }

    fn changed(&self, pod: Pod) {
        self.with(|known| known.extend(entry(pod)));
    }

    fn gone(&self, pod: Pod) {
        self.with(|known| pod.metadata.uid.map(|uid| known.remove(&uid)));
    }
}

fn entry(pod: Pod) -> Option<(String, (String, String))> {
    let node = pod.spec?.node_name?;
    let phase = pod.status.and_then(|status| status.phase);
    Some((pod.metadata.uid?, (node, phase.unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
    use testkit::clock::TokioClock;

    use super::*;
    use crate::objects::nodes::nobody;

    fn pod(uid: &str, node: &str, phase: &str) -> Pod {
        let mut pod = Pod {
            spec: Some(PodSpec {
                node_name: Some(node.to_owned()),
                ..PodSpec::default()
            }),
            status: Some(PodStatus {
                phase: Some(phase.to_owned()),
                ..PodStatus::default()
            }),
            ..Pod::default()
        };
        pod.metadata.uid = Some(uid.to_owned());
        pod
    }

    #[tokio::test]
    async fn pods_are_counted_by_phase_on_the_nodes_that_are_ours() {
        let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        let phases = PodPhases::new(nobody(), clock);
        let ours = || {
            phases
                .counts(|node| node != "theirs")
                .into_iter()
                .collect::<Vec<_>>()
        };
        let count = |phase: &str, count| (phase.to_owned(), count);
        phases.all(vec![
            pod("1", "a", "Pending"),
            pod("2", "theirs", "Running"),
        ]);
        phases.changed(pod("3", "b", "Running"));
        assert_eq!(ours(), [count("Pending", 1), count("Running", 1)]);
        phases.changed(pod("1", "a", "Running"));
        assert_eq!(ours(), [count("Running", 2)]);
        phases.gone(pod("1", "a", "Running"));
        phases.all(vec![pod("3", "b", "Succeeded")]);
        assert_eq!(ours(), [count("Succeeded", 1)]);
    }
}
