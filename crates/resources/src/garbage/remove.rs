//! How dead things are removed: a container with its logs, a sandbox, all that is
//! left of a pod. Each may be repeated: what is gone already is no error.

use std::path::Path;

use seams::cri::{
    Container, ContainerFilter, ContainerState, ContainerStatus, ContainerStatusRequest,
    ListContainersRequest, ListPodSandboxRequest, PodSandboxFilter, RemoveContainerRequest,
    RemovePodSandboxRequest, StopContainerRequest, StopPodSandboxRequest,
};
use seams::host::HostError;
use seams::{RuntimeError, SharedRuntime, SharedStorage, Storage, storage};
use tracing::debug;
use types::{PodRef, PodUid};

use super::labels::{self, POD_UID, Texts};
use super::logs;

/// Why something that is dead is still there.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A container stays as long as its logs do: when it is gone, nobody knows
    /// whose they were.
    #[error("cannot remove its logs, the next pass tries again: {0}")]
    Logs(#[from] HostError),
    #[error("the runtime answered without a status: see its own log")]
    NoStatus,
    #[error("container {container} of pod {pod} still runs: stop the pod before it is removed")]
    Runs { pod: PodRef, container: String },
}

/// What removing takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removal<'a> {
    pub(crate) runtime: &'a SharedRuntime,
    pub(crate) storage: &'a SharedStorage,
    pub(crate) links: &'a Path,
}

impl Removal<'_> {
    /// A container that was dead when it was listed, with its logs and their link.
    /// It is looked at once more: what runs by now, or is in a worker's hands, stays.
    pub(crate) async fn dead_container(
        &self,
        id: &str,
        is_busy: impl Fn(&PodUid) -> bool,
    ) -> Result<(), RemoveError> {
        let Some(status) = self.status(id).await? else {
            return Ok(());
        };
        let busy = labels::owner(&status.labels).is_some_and(|uid| is_busy(&uid));
        if busy || status.state() == ContainerState::ContainerRunning {
            debug!(container = id, "a container that was dead is in use");
            return Ok(());
        }
        if status.state() == ContainerState::ContainerUnknown {
            self.end(&status).await?;
        }
        self.log(&status.log_path).await?;
        self.link(&status.labels, id).await?;
        self.container(id).await
    }

    async fn status(&self, id: &str) -> Result<Option<ContainerStatus>, RemoveError> {
        let request = ContainerStatusRequest {
            container_id: id.to_owned(),
            ..ContainerStatusRequest::default()
        };
        match self.runtime.container_status(request).await {
            Ok(answer) => answer.status.map(Some).ok_or(RemoveError::NoStatus),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// One whose state the runtime has lost may run: it gets its grace.
    async fn end(&self, status: &ContainerStatus) -> Result<(), RuntimeError> {
        let request = StopContainerRequest {
            container_id: status.id.clone(),
            timeout: labels::grace(&status.annotations),
        };
        unless_gone(self.runtime.stop_container(request).await)
    }

    /// The log and what was rotated away of it.
    async fn log(&self, log_path: &str) -> Result<(), HostError> {
        let Some((directory, log)) = logs::place(log_path) else {
            return Ok(());
        };
        let (directory, log) = (directory.to_owned(), log.to_owned());
        let remove = move |disks: &dyn Storage| {
            let files = disks.entries(&directory)?.into_iter().flatten();
            let mut parts = files.filter(|file| logs::is_part_of(&file.name, &log));
            parts.try_for_each(|part| disks.remove_file(&directory.join(part.name)))
        };
        storage::perform(self.storage, remove).await?
    }

    async fn link(&self, labels: &Texts, id: &str) -> Result<(), HostError> {
        let Some(name) = logs::link(labels, id) else {
            return Ok(());
        };
        let link = self.links.join(name);
        storage::perform(self.storage, move |disks| disks.remove_file(&link)).await?
    }

    async fn container(&self, id: &str) -> Result<(), RemoveError> {
        let container_id = id.to_owned();
        let request = RemoveContainerRequest { container_id };
        Ok(unless_gone(self.runtime.remove_container(request).await)?)
    }

    /// It is stopped first, even if it should have been: only that gives back its
    /// network.
    pub(crate) async fn sandbox(&self, id: &str) -> Result<(), RemoveError> {
        let pod_sandbox_id = id.to_owned();
        let stop = StopPodSandboxRequest { pod_sandbox_id };
        unless_gone(self.runtime.stop_pod_sandbox(stop).await)?;
        let pod_sandbox_id = id.to_owned();
        let remove = RemovePodSandboxRequest { pod_sandbox_id };
        Ok(unless_gone(self.runtime.remove_pod_sandbox(remove).await)?)
    }

    /// A container whose pod's logs are about to go as a whole.
    async fn container_of(&self, pod: &PodRef, container: &Container) -> Result<(), RemoveError> {
        if container.state() == ContainerState::ContainerRunning {
            return Err(RemoveError::Runs {
                pod: pod.clone(),
                container: container.id.clone(),
            });
        }
        self.link(&container.labels, &container.id).await?;
        self.container(&container.id).await
    }
}

fn unless_gone<T>(answer: Result<T, RuntimeError>) -> Result<(), RuntimeError> {
    match answer {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Removes a container that has ended, with its logs. `links` is `/var/log/containers`.
pub async fn remove_dead(
    runtime: &SharedRuntime,
    storage: &SharedStorage,
    links: &Path,
    id: &str,
) -> Result<(), RemoveError> {
    let removal = Removal {
        runtime,
        storage,
        links,
    };
    removal.dead_container(id, |_| false).await
}

/// Removes all that an ended pod has left, at once: its containers, its sandboxes and
/// the directory of its logs. All containers are tried; the first error is told, and
/// then the rest is left to [`Housekeeping`](super::Housekeeping), which is to find
/// the pod among the removable or unknown ones.
///
/// `logs` is `podLogsDir`, `links` is `/var/log/containers`.
pub async fn remove_pod(
    runtime: &SharedRuntime,
    storage: &SharedStorage,
    pod: &PodRef,
    logs: &Path,
    links: &Path,
) -> Result<(), RemoveError> {
    let removal = Removal {
        runtime,
        storage,
        links,
    };
    let mut outcome = Ok(());
    for container in &containers_of(runtime, &pod.uid).await? {
        outcome = outcome.and(removal.container_of(pod, container).await);
    }
    // A sandbox would take along what still runs in it.
    outcome?;
    for sandbox in sandboxes_of(runtime, &pod.uid).await? {
        removal.sandbox(&sandbox).await?;
    }
    let directory = logs.join(logs::directory(pod));
    storage::perform(storage, move |disks| disks.remove_tree(&directory)).await??;
    Ok(())
}

async fn containers_of(
    runtime: &SharedRuntime,
    uid: &PodUid,
) -> Result<Vec<Container>, RuntimeError> {
    let filter = ContainerFilter {
        label_selector: selector(uid),
        ..ContainerFilter::default()
    };
    let filter = Some(filter);
    let request = ListContainersRequest { filter };
    Ok(runtime.list_containers(request).await?.containers)
}

async fn sandboxes_of(runtime: &SharedRuntime, uid: &PodUid) -> Result<Vec<String>, RuntimeError> {
    let filter = PodSandboxFilter {
        label_selector: selector(uid),
        ..PodSandboxFilter::default()
    };
    let filter = Some(filter);
    let request = ListPodSandboxRequest { filter };
    let listed = runtime.list_pod_sandbox(request).await?.items;
    Ok(listed.into_iter().map(|sandbox| sandbox.id).collect())
}

fn selector(uid: &PodUid) -> Texts {
    Texts::from([(POD_UID.to_owned(), uid.to_string())])
}
