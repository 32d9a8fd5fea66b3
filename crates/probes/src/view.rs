//! How a pod with probes stands, as its status last said.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus, Probe};

use crate::course::Rules;

/// What a container is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    Startup,
    Readiness,
    Liveness,
}

impl Purpose {
    pub const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// What a container says of it, if anything.
    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
        }
    }
}

/// As users read it.
impl fmt::Display for Purpose {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        })
    }
}

/// A pod with probes, at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// Shared with who runs it: it is large.
    pub(crate) pod: Arc<Pod>,
    /// Empty: it has none yet.
    pub(crate) ip: String,
    /// It has come to its end.
    pub(crate) over: bool,
    pub(crate) end: End,
    /// Those that have probes, as far as they have been made.
    pub(crate) seen: Vec<(String, Seen)>,
}

/// Whether a pod is to end: then nobody asks any more whether its containers live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    No,
    /// Its work is done, or its time is up.
    Own,
    /// Somebody wants it to: then no command runs in it any more, either.
    Told,
}

/// What is seen of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub id: Arc<str>,
    /// `None`: it does not run.
    pub running_since: Option<Timestamp>,
    /// As its status has it: its startup probe has passed, or it has none.
    pub started: bool,
    pub ready: bool,
}

impl View {
    /// `None`: it has no probes.
    pub fn of(pod: &Arc<Pod>, status: &PodStatus, end: End) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let mut names = probed(spec)
            .map(|(_, container)| &container.name)
            .peekable();
        names.peek()?;
        let seen = names.filter_map(|name| Some((name.clone(), seen(status, name)?)));
        Some(Self {
            pod: Arc::clone(pod),
            ip: status.pod_ip.clone().unwrap_or_default(),
            over: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            end,
            seen: seen.collect(),
        })
    }

    pub(crate) fn container(&self, name: &str) -> Option<&Seen> {
        let mut seen = self.seen.iter();
        seen.find(|(known, _)| known == name).map(|(_, seen)| seen)
    }
}

/// Containers with probes; which of them are sidecars.
pub(crate) fn probed(spec: &PodSpec) -> impl Iterator<Item = (bool, &Container)> {
    let regular = spec.containers.iter().map(|container| (false, container));
    let init = spec.init_containers.iter().flatten();
    let sidecars = init
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| (true, container));
    let all = regular.chain(sidecars);
    all.filter(|(_, container)| {
        let mut purposes = Purpose::ALL.iter();
        purposes.any(|purpose| purpose.of(container).is_some())
    })
}

/// A container with probes, by its name.
pub(crate) fn container<'a>(pod: &'a Pod, name: &str) -> Option<(bool, &'a Container)> {
    let mut all = probed(pod.spec.as_ref()?);
    all.find(|(_, container)| container.name == name)
}

fn seen(status: &PodStatus, name: &str) -> Option<Seen> {
    let find = |list: &Option<Vec<ContainerStatus>>| {
        let mut list = list.iter().flatten();
        let found = list.find(|one| one.name == name)?;
        let id = found.container_id.as_deref().unwrap_or_default();
        let id = id.split_once("://").map_or(id, |(_, id)| id);
        let state = found.state.as_ref();
        let running = state.and_then(|state| state.running.as_ref());
        (!id.is_empty()).then(|| Seen {
            id: Arc::from(id),
            // One whose runtime does not say since when is old enough.
            running_since: running.map(|running| {
                let since = running.started_at.as_ref();
                since.map_or(Timestamp::MIN, |since| since.0)
            }),
            started: found.started == Some(true),
            ready: found.ready,
        })
    };
    find(&status.container_statuses).or_else(|| find(&status.init_container_statuses))
}

/// What is asked, how often, and how patiently. What the API server has not filled in
/// counts as it would have.
pub(crate) fn rules(purpose: Purpose, sidecar: bool, probe: &Probe) -> Rules {
    let or = |value: Option<i32>, usual: i32| value.filter(|value| *value > 0).unwrap_or(usual);
    Rules {
        purpose,
        sidecar,
        initial_delay: probe.initial_delay_seconds.unwrap_or_default(),
        success_threshold: or(probe.success_threshold, 1),
        failure_threshold: or(probe.failure_threshold, 3),
    }
}

pub(crate) fn period(probe: &Probe) -> Duration {
    seconds(probe.period_seconds, 10)
}

pub(crate) fn limit(probe: &Probe) -> Duration {
    seconds(probe.timeout_seconds, 1)
}

fn seconds(given: Option<i32>, usual: u64) -> Duration {
    let given = given.and_then(|given| u64::try_from(given).ok());
    Duration::from_secs(given.filter(|given| *given > 0).unwrap_or(usual))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: &Value) -> Arc<Pod> {
        Arc::new(serde_json::from_value(json!({ "spec": spec })).unwrap())
    }

    fn status(value: &Value) -> PodStatus {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn a_pod_without_probes_is_nobodys_business() {
        let spec = json!({
            // Neither counts: one runs once, the other is only there to look.
            "initContainers": [{ "name": "once", "readinessProbe": {} }],
            "ephemeralContainers": [{ "name": "look", "livenessProbe": {} }],
            "containers": [{ "name": "main" }],
        });
        let pod = pod(&spec);
        assert!(View::of(&pod, &PodStatus::default(), End::No).is_none());
    }

    #[test]
    fn containers_are_seen_as_their_status_has_them() {
        let pod = pod(&json!({
            "initContainers": [{ "name": "side", "restartPolicy": "Always", "startupProbe": {} }],
            "containers": [
                { "name": "main", "livenessProbe": {} },
                { "name": "new", "livenessProbe": {} },
                { "name": "dead", "readinessProbe": {} },
                { "name": "plain" },
            ],
        }));
        let status = status(&json!({
            "phase": "Running",
            "podIP": "10.0.0.7",
            "initContainerStatuses": [{
                "name": "side", "containerID": "containerd://s", "started": false,
                "state": { "running": { "startedAt": "1970-01-01T00:00:07Z" } },
                "image": "", "imageID": "", "ready": false, "restartCount": 0,
            }],
            "containerStatuses": [
                {
                    "name": "main", "containerID": "containerd://m", "started": true,
                    "state": { "running": { "startedAt": "1970-01-01T00:00:09Z" } },
                    "image": "", "imageID": "", "ready": true, "restartCount": 0,
                },
                {
                    "name": "new", "state": { "waiting": {} },
                    "image": "", "imageID": "", "ready": false, "restartCount": 0,
                },
                {
                    "name": "dead", "containerID": "containerd://d", "started": false,
                    "state": { "terminated": { "exitCode": 0 } },
                    "image": "", "imageID": "", "ready": false, "restartCount": 0,
                },
                {
                    "name": "plain", "containerID": "containerd://p",
                    "image": "", "imageID": "", "ready": true, "restartCount": 0,
                },
            ],
        }));
        let view = View::of(&pod, &status, End::No).unwrap();
        assert_eq!(view.ip, "10.0.0.7");
        assert!(!view.over);
        let seen = |id: &str, since: Option<i64>, started| Seen {
            id: Arc::from(id),
            running_since: since.map(|since| Timestamp::from_second(since).unwrap()),
            started,
            ready: started,
        };
        assert_eq!(view.container("main"), Some(&seen("m", Some(9), true)));
        assert_eq!(view.container("dead"), Some(&seen("d", None, false)));
        assert_eq!(view.container("side"), Some(&seen("s", Some(7), false)));
        assert_eq!(view.container("new"), None);
        assert_eq!(view.container("plain"), None);
    }

    #[test]
    fn an_end_is_seen_by_the_phase() {
        let pod = pod(&json!({ "containers": [{ "name": "main", "livenessProbe": {} }] }));
        for (phase, over) in [("Running", false), ("Succeeded", true), ("Failed", true)] {
            let view = View::of(&pod, &status(&json!({ "phase": phase })), End::Own).unwrap();
            assert_eq!((view.over, view.end), (over, End::Own), "{phase}");
        }
    }

    #[test]
    fn what_is_not_said_counts_as_the_api_server_fills_it_in() {
        let bare = Probe::default();
        let usual = rules(Purpose::Liveness, false, &bare);
        let times = (period(&bare), limit(&bare));
        assert_eq!(times, (Duration::from_secs(10), Duration::from_secs(1)));
        assert_eq!((usual.success_threshold, usual.failure_threshold), (1, 3));
        assert_eq!(usual.initial_delay, 0);
        let own: Probe = serde_json::from_value(json!({
            "initialDelaySeconds": 4, "periodSeconds": 7, "timeoutSeconds": 2,
            "successThreshold": 5, "failureThreshold": 6,
        }))
        .unwrap();
        let given = rules(Purpose::Readiness, true, &own);
        let times = (period(&own), limit(&own));
        assert_eq!(times, (Duration::from_secs(7), Duration::from_secs(2)));
        assert_eq!((given.success_threshold, given.failure_threshold), (5, 6));
        assert_eq!((given.initial_delay, given.sidecar), (4, true));
    }
}
