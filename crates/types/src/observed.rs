//! A pod as the runtime has it: what an observation publishes, and workers and the
//! status read. Times are nanoseconds since 1970, as the runtime tells them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::pod::PodRef;

/// Everything that the runtime holds of one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedPod {
    pub pod: PodRef,
    /// Newest first.
    pub sandboxes: Vec<ObservedSandbox>,
    /// Newest first, those of former sandboxes included.
    pub containers: Vec<ObservedContainer>,
    /// When it was looked at, by the clock's uptime: everything that was done
    /// before this moment is in it.
    pub at: Duration,
}

/// A sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedSandbox {
    pub id: String,
    pub attempt: u32,
    pub ready: bool,
    pub created_at: i64,
    /// The first one is the pod's; kept when the sandbox has ended.
    pub ips: Vec<String>,
    pub host_network: bool,
    pub runtime_handler: String,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedContainer {
    pub id: String,
    pub name: String,
    pub sandbox_id: String,
    pub attempt: u32,
    pub state: ContainerState,
    pub created_at: i64,
    /// 0: it never was.
    pub started_at: i64,
    pub finished_at: i64,
    pub exit_code: i32,
    pub reason: String,
    pub message: String,
    /// As the pod named it.
    pub image: String,
    /// What the runtime made of that: an id or a digest.
    pub image_ref: String,
    pub image_id: String,
    pub log_path: String,
    /// Where the machine has the file in which it may say why it ended.
    pub termination_file: Option<String>,
    /// What the node had written on it.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub resources: Option<ObservedResources>,
    pub user: Option<ObservedUser>,
    /// What it is asked to end with, as the API calls it.
    pub stop_signal: Option<String>,
}

/// What a container is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContainerState {
    Created,
    Running,
    Exited,
    #[default]
    Unknown,
}

/// What the runtime lets a container have; 0 where it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedResources {
    pub cpu_period: i64,
    pub cpu_quota: i64,
    pub cpu_shares: i64,
    pub memory_limit: i64,
}

/// As whom a container runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedUser {
    pub uid: i64,
    pub gid: i64,
    pub supplemental_groups: Vec<i64>,
}

impl ObservedPod {
    /// The newest container of a name.
    pub fn container(&self, name: &str) -> Option<&ObservedContainer> {
        self.containers
            .iter()
            .find(|container| container.name == name)
    }

    /// The runtime holds nothing of it, whether it ever did or not.
    pub fn is_gone(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// The pod's addresses. Those of its newest sandbox while that one is ready;
    /// once none is ready, the last that any had.
    pub fn ips(&self) -> &[String] {
        let newest = self.sandboxes.first();
        if self.sandboxes.iter().any(|sandbox| sandbox.ready) {
            return newest
                .filter(|sandbox| sandbox.ready)
                .map_or(&[], |sandbox| &sandbox.ips);
        }
        let mut known = self.sandboxes.iter().map(|sandbox| &sandbox.ips);
        known.find(|ips| !ips.is_empty()).map_or(&[], |ips| ips)
    }

    /// Whether anything of it still runs.
    pub fn is_running(&self) -> bool {
        let ready = self.sandboxes.iter().any(|sandbox| sandbox.ready);
        let running = |container: &ObservedContainer| container.state == ContainerState::Running;
        ready || self.containers.iter().any(running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(ready: bool, ips: &[&str]) -> ObservedSandbox {
        ObservedSandbox {
            ready,
            ips: ips.iter().map(|ip| (*ip).to_owned()).collect(),
            ..ObservedSandbox::default()
        }
    }

    #[test]
    fn a_pods_addresses_are_those_of_its_newest_sandbox_or_its_last() {
        let cases: [(&[ObservedSandbox], &[&str]); 5] = [
            (&[], &[]),
            (
                &[sandbox(true, &["10.0.0.2"]), sandbox(false, &["10.0.0.1"])],
                &["10.0.0.2"],
            ),
            (&[sandbox(false, &["10.0.0.2"])], &["10.0.0.2"]),
            (
                &[sandbox(false, &[]), sandbox(false, &["10.0.0.1"])],
                &["10.0.0.1"],
            ),
            (&[sandbox(false, &[]), sandbox(true, &["10.0.0.1"])], &[]),
        ];
        for (sandboxes, ips) in cases {
            let pod = ObservedPod {
                sandboxes: sandboxes.to_vec(),
                ..ObservedPod::default()
            };
            assert_eq!(pod.ips(), ips, "{sandboxes:?}");
            assert_eq!(pod.is_gone(), sandboxes.is_empty());
        }
    }
}
