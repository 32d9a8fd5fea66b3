//! Which container, or which pod's network, the runtime is to be asked about.

use std::collections::BTreeMap;

use seams::cri::{
    ContainerFilter, ContainerState, ContainerStateValue, ListContainersRequest,
    ListPodSandboxRequest, PodSandboxFilter, PodSandboxState,
};
use seams::{Runtime, RuntimeError};

/// Upstream's labels, by which containers and sandboxes are found again.
const POD_UID: &str = "io.kubernetes.pod.uid";
const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// The id of a container that runs now; `None`: there is none of that name.
pub(crate) async fn running_container(
    runtime: &dyn Runtime,
    pod_uid: &str,
    container: &str,
) -> Result<Option<String>, RuntimeError> {
    let filter = ContainerFilter {
        state: Some(ContainerStateValue {
            state: ContainerState::ContainerRunning.into(),
        }),
        label_selector: labels([(POD_UID, pod_uid), (CONTAINER_NAME, container)]),
        ..ContainerFilter::default()
    };
    let request = ListContainersRequest {
        filter: Some(filter),
    };
    let list = runtime.list_containers(request).await?.containers;
    let newest = list
        .into_iter()
        .max_by_key(|container| container.created_at);
    Ok(newest.map(|container| container.id))
}

/// The id of the sandbox in whose network a pod is; `None`: it is in none now.
pub(crate) async fn ready_sandbox(
    runtime: &dyn Runtime,
    pod_uid: &str,
) -> Result<Option<String>, RuntimeError> {
    let filter = PodSandboxFilter {
        label_selector: labels([(POD_UID, pod_uid)]),
        ..PodSandboxFilter::default()
    };
    let request = ListPodSandboxRequest {
        filter: Some(filter),
    };
    let list = runtime.list_pod_sandbox(request).await?.items;
    let ready = list
        .into_iter()
        .filter(|sandbox| sandbox.state() == PodSandboxState::SandboxReady);
    let newest = ready.max_by_key(|sandbox| sandbox.created_at);
    Ok(newest.map(|sandbox| sandbox.id))
}

fn labels<const N: usize>(labels: [(&str, &str); N]) -> BTreeMap<String, String> {
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    labels.into()
}
