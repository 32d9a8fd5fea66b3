//! One look at one pod: what the runtime says of its sandboxes and containers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seams::cri::{
    ContainerFilter, ContainerStatus, ContainerStatusRequest, ListContainersRequest,
    ListPodSandboxRequest, Mount, NamespaceMode, PodSandboxFilter, PodSandboxNetworkStatus,
    PodSandboxState, PodSandboxStatus, PodSandboxStatusRequest, signal_name,
};
use seams::{Runtime, RuntimeError, SharedClock};
use types::PodUid;
use types::observed::{
    ObservedContainer, ObservedPod, ObservedResources, ObservedSandbox, ObservedUser,
};

use crate::listing::{self, CONTAINER_NAME, Listed, ListedContainer, Listing, POD_UID};

/// The annotation that says where in a container it says why it ended.
const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";

/// The call that a look is waiting for, and since when.
///
/// A mutex, as two tasks share it; held for an assignment only.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    clock: SharedClock,
    current: Arc<Mutex<Option<(&'static str, Duration)>>>,
}

impl Call {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            current: Arc::default(),
        }
    }

    /// For another look.
    pub(crate) fn fresh(&self) -> Self {
        Self::new(self.clock.clone())
    }

    fn begin(&self, call: &'static str) {
        let current = Some((call, self.clock.uptime()));
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = current;
    }

    /// `None`: it waits for its turn.
    pub(crate) fn current(&self) -> Option<(&'static str, Duration)> {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything of everyone, in two calls.
pub(crate) async fn list_all(runtime: &dyn Runtime) -> Result<Listing, RuntimeError> {
    let sandboxes = runtime.list_pod_sandbox(ListPodSandboxRequest::default());
    let sandboxes = sandboxes.await?.items;
    let containers = runtime.list_containers(ListContainersRequest::default());
    let containers = containers.await?.containers;
    Ok(listing::listing(sandboxes, containers))
}

/// What there is of one pod; empty if there is nothing.
pub(crate) async fn list_one(
    runtime: &dyn Runtime,
    uid: &PodUid,
    call: &Call,
) -> Result<Listed, RuntimeError> {
    let label = BTreeMap::from([(POD_UID.to_owned(), uid.as_str().to_owned())]);
    call.begin("ListPodSandbox");
    let sandboxes = runtime.list_pod_sandbox(ListPodSandboxRequest {
        filter: Some(PodSandboxFilter {
            label_selector: label.clone(),
            ..PodSandboxFilter::default()
        }),
    });
    let sandboxes = sandboxes.await?.items;
    call.begin("ListContainers");
    let containers = runtime.list_containers(ListContainersRequest {
        filter: Some(ContainerFilter {
            label_selector: label,
            ..ContainerFilter::default()
        }),
    });
    let containers = containers.await?.containers;
    let mut listing = listing::listing(sandboxes, containers);
    Ok(listing.remove(uid).unwrap_or_default())
}

/// Asks for each part of what was listed. What went since then is left out.
pub(crate) async fn inspect(
    runtime: &dyn Runtime,
    listed: &Listed,
    at: Duration,
    call: &Call,
) -> Result<ObservedPod, RuntimeError> {
    let mut observed = ObservedPod {
        pod: listed.pod.clone(),
        at,
        ..ObservedPod::default()
    };
    for (id, _) in &listed.sandboxes {
        call.begin("PodSandboxStatus");
        let request = PodSandboxStatusRequest {
            pod_sandbox_id: id.clone(),
            ..PodSandboxStatusRequest::default()
        };
        match runtime.pod_sandbox_status(request).await {
            Ok(answer) => {
                let status = answer.status.ok_or_else(|| empty("PodSandboxStatus", id))?;
                observed.sandboxes.push(sandbox(status));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    for ListedContainer { id, sandbox_id, .. } in &listed.containers {
        call.begin("ContainerStatus");
        let request = ContainerStatusRequest {
            container_id: id.clone(),
            ..ContainerStatusRequest::default()
        };
        match runtime.container_status(request).await {
            Ok(answer) => {
                let status = answer.status.ok_or_else(|| empty("ContainerStatus", id))?;
                observed.containers.push(container(status, sandbox_id));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    // Of two that were made in the same moment, the later attempt is newer.
    let created = |container: &ObservedContainer| {
        std::cmp::Reverse((container.created_at, container.attempt))
    };
    observed.containers.sort_by_key(created);
    Ok(observed)
}

fn empty(call: &'static str, id: &str) -> RuntimeError {
    let message = format!("the runtime answered without a status for {id}");
    RuntimeError::new(call, seams::runtime::Code::Internal, message)
}

fn sandbox(status: PodSandboxStatus) -> ObservedSandbox {
    let ready = status.state() == PodSandboxState::SandboxReady;
    let options = status.linux.and_then(|linux| linux.namespaces?.options);
    let host_network = options.is_some_and(|options| options.network() == NamespaceMode::Node);
    ObservedSandbox {
        id: status.id,
        attempt: status.metadata.unwrap_or_default().attempt,
        ready,
        created_at: status.created_at,
        ips: status.network.map(ips).unwrap_or_default(),
        host_network,
        runtime_handler: status.runtime_handler,
    }
}

/// All of them, or none: half a network is not told as if it were one.
fn ips(network: PodSandboxNetworkStatus) -> Vec<String> {
    let first = Some(network.ip).filter(|ip| !ip.is_empty());
    let others = network.additional_ips.into_iter().map(|ip| ip.ip);
    let ips: Vec<String> = first.into_iter().chain(others).collect();
    let legible = ips.iter().all(|ip| ip.parse::<std::net::IpAddr>().is_ok());
    if legible { ips } else { Vec::new() }
}

fn container(status: ContainerStatus, sandbox_id: &str) -> ObservedContainer {
    let state = listing::state(status.state());
    let stop_signal = signal_name(status.stop_signal());
    let metadata = status.metadata.unwrap_or_default();
    let name = status.labels.get(CONTAINER_NAME).cloned();
    let resources = status.resources.and_then(|resources| resources.linux);
    let user = status.user.and_then(|user| user.linux);
    let termination_file = termination_file(&status.mounts, &status.annotations);
    ObservedContainer {
        id: status.id,
        name: name.unwrap_or(metadata.name),
        sandbox_id: sandbox_id.to_owned(),
        attempt: metadata.attempt,
        state,
        created_at: status.created_at,
        started_at: status.started_at,
        finished_at: status.finished_at,
        exit_code: status.exit_code,
        reason: status.reason,
        message: status.message,
        image: status.image.unwrap_or_default().image,
        image_ref: status.image_ref,
        image_id: status.image_id,
        log_path: status.log_path,
        termination_file,
        labels: status.labels,
        annotations: status.annotations,
        resources: resources.map(|linux| ObservedResources {
            cpu_period: linux.cpu_period,
            cpu_quota: linux.cpu_quota,
            cpu_shares: linux.cpu_shares,
            memory_limit: linux.memory_limit_in_bytes,
        }),
        user: user.map(|linux| ObservedUser {
            uid: linux.uid,
            gid: linux.gid,
            supplemental_groups: linux.supplemental_groups,
        }),
        stop_signal,
    }
}

/// What is mounted where the container leaves its message.
fn termination_file(mounts: &[Mount], annotations: &BTreeMap<String, String>) -> Option<String> {
    let path = annotations.get(TERMINATION_MESSAGE_PATH)?;
    if path.is_empty() {
        return None;
    }
    // However many slashes either has.
    let path = Path::new("/").join(path);
    let mut mounts = mounts.iter();
    let mount = mounts.find(|mount| Path::new(&mount.container_path) == path)?;
    Some(mount.host_path.clone()).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use seams::cri::PodIp;

    use super::*;

    #[test]
    fn the_file_of_a_containers_last_words_is_what_is_mounted_there() {
        let mount = |container_path: &str, host_path: &str| Mount {
            container_path: container_path.to_owned(),
            host_path: host_path.to_owned(),
            ..Mount::default()
        };
        let mounts = vec![
            mount("/etc/hosts", "/pods/1/etc-hosts"),
            mount("/dev/termination-log", "/pods/1/containers/main/0a1b2c3d"),
            mount("/image", ""),
        ];
        let cases = [
            (
                Some("/dev/termination-log"),
                Some("/pods/1/containers/main/0a1b2c3d"),
            ),
            (
                Some("dev//termination-log"),
                Some("/pods/1/containers/main/0a1b2c3d"),
            ),
            (Some("/dev/termination"), None),
            (Some("/image"), None),
            (Some(""), None),
            (None, None),
        ];
        for (path, wanted) in cases {
            let said = path.map(|path| (TERMINATION_MESSAGE_PATH.to_owned(), path.to_owned()));
            let status = ContainerStatus {
                mounts: mounts.clone(),
                annotations: said.into_iter().collect(),
                ..ContainerStatus::default()
            };
            let observed = container(status, "s");
            assert_eq!(observed.termination_file.as_deref(), wanted, "{path:?}");
        }
    }

    #[test]
    fn addresses_come_first_one_first_and_not_by_halves() {
        let network = |ip: &str, others: &[&str]| PodSandboxNetworkStatus {
            ip: ip.to_owned(),
            additional_ips: others
                .iter()
                .map(|ip| PodIp {
                    ip: (*ip).to_owned(),
                })
                .collect(),
        };
        assert_eq!(
            ips(network("10.0.0.1", &["fd00::1"])),
            ["10.0.0.1", "fd00::1"]
        );
        assert!(
            ips(network("", &[])).is_empty(),
            "as with the node's network"
        );
        assert!(ips(network("10.0.0.1", &["nonsense"])).is_empty());
    }
}
