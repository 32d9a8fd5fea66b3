//! Figures about the observation, under upstream's names.

use std::sync::Arc;

use types::figures;
use types::figures::{Family, Page, SECONDS, Shown};
use types::observed::{ContainerState, ObservedPod};

use crate::observations::Shelf;

figures! {
    /// What one observation counts.
    pub(crate) struct Metrics {
        pub(crate) relist_duration: Histogram = Family::histogram(
            "kubelet_pleg_relist_duration_seconds",
            "[ALPHA] Seconds that the runtime took to list all pods",
            SECONDS,
        ),
        pub(crate) relist_interval: Histogram = Family::histogram(
            "kubelet_pleg_relist_interval_seconds",
            "[ALPHA] Seconds between two lists of all pods",
            SECONDS,
        ),
        pub(crate) look_duration: Histogram = Family::histogram(
            "kubelet_pleg_pod_relist_duration_seconds",
            "[ALPHA] Seconds that it took to look at one pod that had changed",
            SECONDS,
        ),
        // Hints wait in the stream, and are as good late: none is thrown away.
        discarded: Counter = Family::counter(
            "kubelet_pleg_discard_events",
            "[ALPHA] Events about pods that were thrown away",
        ),
        pub(crate) last_seen: Gauge = Family::gauge(
            "kubelet_pleg_last_seen_seconds",
            "[ALPHA] When all pods were last listed, in seconds since 1970",
        ),
        pub(crate) streams_failed: Counter = Family::counter(
            "kubelet_evented_pleg_connection_error_count",
            "[ALPHA] Streams of container events that ended in an error, or never began",
        ),
        pub(crate) streams: Counter = Family::counter(
            "kubelet_evented_pleg_connection_success_count",
            "[ALPHA] Streams of container events that the runtime opened",
        ),
        pub(crate) event_age: Histogram = Family::histogram(
            "kubelet_evented_pleg_connection_latency_seconds",
            "[ALPHA] Seconds from a container event to its arrival",
            SECONDS,
        ),
    }
}

const RUNNING_PODS: Family = Family::gauge(
    "kubelet_running_pods",
    "[ALPHA] Pods that have a sandbox that runs",
);

const RUNNING_CONTAINERS: Family = Family::gauge(
    "kubelet_running_containers",
    "[ALPHA] Containers that the runtime has, by state",
)
.by(&["container_state"]);

/// Counts what is there when somebody asks.
#[derive(Debug)]
pub(crate) struct Present(pub(crate) Arc<Shelf>);

/// How many there are.
#[derive(Debug, Default, PartialEq, Eq)]
struct Census {
    pods: usize,
    created: usize,
    running: usize,
    exited: usize,
    unknown: usize,
}

impl Census {
    fn count(&mut self, pod: &ObservedPod) {
        self.pods += usize::from(pod.sandboxes.iter().any(|sandbox| sandbox.ready));
        for container in &pod.containers {
            *match container.state {
                ContainerState::Created => &mut self.created,
                ContainerState::Running => &mut self.running,
                ContainerState::Exited => &mut self.exited,
                ContainerState::Unknown => &mut self.unknown,
            } += 1;
        }
    }
}

impl Shown for Present {
    fn show(&self, page: &mut Page) {
        let mut census = Census::default();
        self.0.each(|pod| census.count(pod));
        page.family(&RUNNING_PODS, |family| {
            family.count(&[], census.pods as u64);
        });
        page.family(&RUNNING_CONTAINERS, |family| {
            for (state, count) in [
                ("created", census.created),
                ("exited", census.exited),
                ("running", census.running),
                ("unknown", census.unknown),
            ] {
                // Upstream shows a state when it has been met; a runtime that does not
                // know its own containers is seldom.
                if count > 0 || state != "unknown" {
                    family.count(&[state], count as u64);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use types::observed::{ObservedContainer, ObservedSandbox};

    use super::*;

    #[test]
    fn pods_count_by_their_sandbox_and_containers_by_their_state() {
        let container = |state| ObservedContainer {
            state,
            ..ObservedContainer::default()
        };
        let sandbox = |ready| ObservedSandbox {
            ready,
            ..ObservedSandbox::default()
        };
        let mut census = Census::default();
        census.count(&ObservedPod {
            sandboxes: vec![sandbox(true), sandbox(false)],
            containers: vec![
                container(ContainerState::Running),
                container(ContainerState::Exited),
            ],
            ..ObservedPod::default()
        });
        census.count(&ObservedPod {
            sandboxes: vec![sandbox(false)],
            containers: vec![container(ContainerState::Exited)],
            ..ObservedPod::default()
        });
        let expected = Census {
            pods: 1,
            running: 1,
            exited: 2,
            ..Census::default()
        };
        assert_eq!(census, expected);
    }
}
