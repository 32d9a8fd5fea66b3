//! How long a pod took to start, as upstream measures it: from its making until the API
//! shows all its containers running.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use types::desired::is_terminal;

use crate::metrics::Metrics;

/// How far a pod has come with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Startup {
    /// Nobody has looked yet.
    #[default]
    Unknown,
    /// It was heard of before it had begun.
    Awaited {
        /// Spent on pulls.
        pulling: Duration,
        /// All its containers were told to run.
        told: bool,
    },
    /// It was measured, or cannot be.
    Over,
}

impl Startup {
    /// What the API has of the pod, when the worker comes to see it.
    pub(crate) fn seen(&mut self, object: &Pod, now: Timestamp, metrics: &Metrics) {
        let status = object.status.as_ref();
        match self {
            Self::Unknown => {
                let begun = status.is_some_and(|status| {
                    status.start_time.is_some() || is_terminal(status.phase.as_deref())
                });
                *self = if begun {
                    Self::Over
                } else {
                    Self::Awaited {
                        pulling: Duration::ZERO,
                        told: false,
                    }
                };
            }
            Self::Awaited {
                pulling,
                told: true,
            } => {
                let pulling = *pulling;
                let Some(status) = status.filter(|status| all_run(status)) else {
                    return;
                };
                *self = Self::Over;
                let made = object.metadata.creation_timestamp.as_ref();
                let Some(total) = made.map(|made| between(made, now)) else {
                    return;
                };
                measure(object, status, total, pulling, metrics);
            }
            Self::Awaited { told: false, .. } | Self::Over => {}
        }
    }

    pub(crate) fn told(&mut self, status: &PodStatus) {
        match self {
            Self::Awaited { told, .. } if all_run(status) => *told = true,
            Self::Awaited { .. } if is_terminal(status.phase.as_deref()) => *self = Self::Over,
            _ => {}
        }
    }

    pub(crate) fn pulled(&mut self, took: Duration) {
        if let Self::Awaited { pulling, .. } = self {
            *pulling += took;
        }
    }
}

fn measure(pod: &Pod, status: &PodStatus, total: Duration, pulling: Duration, metrics: &Metrics) {
    metrics.started_total.took(total);
    let spec = pod.spec.clone().unwrap_or_default();
    if is_stateful(&spec) {
        return;
    }
    let promised = total.saturating_sub(pulling + init_time(&spec, status));
    metrics.started_sli.took(promised);
    let has_network = spec.host_network != Some(true);
    // The first counts.
    if has_network && metrics.first_with_network.get() == 0.0 {
        metrics.first_with_network.set(promised.as_secs_f64());
    }
}

/// Each has been started.
fn all_run(status: &PodStatus) -> bool {
    let mut containers = status.container_statuses.iter().flatten();
    let known = status.container_statuses.as_ref();
    let runs = containers.all(|one| {
        let running = one.state.as_ref().and_then(|it| it.running.as_ref());
        running.is_some_and(|running| running.started_at.is_some())
    });
    runs && known.is_some_and(|all| !all.is_empty())
}

/// Spent on init containers that had to end first.
fn init_time(spec: &PodSpec, status: &PodStatus) -> Duration {
    let stays = |name: &str| {
        let mut all = spec.init_containers.iter().flatten();
        all.any(|one| one.name == name && one.restart_policy.as_deref() == Some("Always"))
    };
    let init = status.init_container_statuses.iter().flatten();
    let ended = init.filter(|one| !stays(&one.name));
    let ended = ended.filter_map(|one| one.state.as_ref()?.terminated.as_ref());
    let times = ended.filter_map(|end| {
        let (began, ended) = (end.started_at.as_ref()?, end.finished_at.as_ref()?);
        Some(between(began, ended.0))
    });
    times.sum()
}

/// It has something that outlives it.
fn is_stateful(spec: &PodSpec) -> bool {
    let passes = |volume: &Volume| {
        volume.secret.is_some()
            || volume.config_map.is_some()
            || volume.downward_api.is_some()
            || volume.empty_dir.is_some()
            || volume.projected.is_some()
    };
    !spec.volumes.iter().flatten().all(passes)
}

fn between(from: &Time, until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(from.0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use types::figures::{Page, Shown as _};

    use super::*;

    fn pod(status: &Value, volumes: &Value) -> Pod {
        let pod = json!({
            "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "containers": [], "volumes": volumes },
            "status": status,
        });
        serde_json::from_value(pod).unwrap()
    }

    fn running() -> Value {
        let one = |name: &str, state: Value| json!({ "name": name, "state": state, "image": "", "imageID": "", "ready": true, "restartCount": 0 });
        let times = json!({ "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:03Z", "exitCode": 0 });
        json!({
            "phase": "Running", "startTime": "2026-01-01T00:00:00Z",
            "initContainerStatuses": [one("i", json!({ "terminated": times }))],
            "containerStatuses": [one("c", json!({ "running": { "startedAt": "2026-01-01T00:00:09Z" } }))],
        })
    }

    fn sums(metrics: &Metrics) -> Vec<String> {
        let mut page = Page::default();
        metrics.show(&mut page);
        let text = page.finish();
        let names = [
            "kubelet_first_network_pod_start_sli_duration_seconds ",
            "kubelet_pod_start_sli_duration_seconds_sum ",
            "kubelet_pod_start_total_duration_seconds_sum ",
        ];
        let lines = text.lines();
        let found = lines.filter_map(|line| names.iter().find_map(|name| line.strip_prefix(name)));
        found.map(str::to_owned).collect()
    }

    fn played(first: &Value, volumes: &Value, tell: bool) -> Vec<String> {
        let metrics = Metrics::default();
        let mut startup = Startup::default();
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        startup.seen(&pod(first, volumes), now, &metrics);
        startup.pulled(Duration::from_secs(3));
        let shown = pod(&running(), volumes);
        if tell {
            startup.told(shown.status.as_ref().unwrap());
        }
        startup.seen(&shown, now, &metrics);
        startup.seen(&shown, now, &metrics);
        sums(&metrics)
    }

    #[test]
    fn a_start_is_measured_once_less_pulls_and_init_containers() {
        let new = json!({ "phase": "Pending" });
        let claim = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "v" } }]);
        let none = json!([]);
        assert_eq!(played(&new, &none, true), ["5", "5", "10"]);
        // What outlives a pod takes its own time.
        assert_eq!(played(&new, &claim, true), ["0", "0", "10"]);
        // The API cannot know what it was not told by this agent.
        assert_eq!(played(&new, &none, false), ["0", "0", "0"]);
        // It had begun before this agent.
        assert_eq!(played(&running(), &none, true), ["0", "0", "0"]);
    }
}
