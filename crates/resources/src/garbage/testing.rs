//! A runtime and disks in memory, as far as housekeeping asks them. The runtime
//! writes down what it is told to do, and can refuse a thing or hang over it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use seams::SharedClock;
use seams::cri::{
    Container, ContainerState, ContainerStatus, ContainerStatusRequest, ContainerStatusResponse,
    ExecSyncRequest, ExecSyncResponse, ListContainersRequest, ListContainersResponse,
    ListPodSandboxRequest, ListPodSandboxResponse, PodSandbox, RemoveContainerRequest,
    RemoveContainerResponse, RemovePodSandboxRequest, RemovePodSandboxResponse,
    StopContainerRequest, StopContainerResponse, StopPodSandboxRequest, StopPodSandboxResponse,
};
use seams::host::HostError;
use seams::runtime::{Answer, Code, Runtime, RuntimeError};
use seams::storage::{
    Bind, Entry, FileSystem, GroupShare, MountPoint, PathKind, Shared, Storage, SubPathError, Tree,
    Usage, Work, WorkDone,
};

use super::labels::{CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID, Texts};

/// When a real client gives a call up.
const CALL_LIMIT: Duration = Duration::from_secs(120);

/// An ended container of the pod `pod-UID`, in its sandbox `s-UID`.
pub(crate) fn container(uid: &str, name: &str, id: &str) -> Container {
    let mut labels = labels(uid);
    labels.insert(CONTAINER_NAME.to_owned(), name.to_owned());
    Container {
        id: id.to_owned(),
        pod_sandbox_id: format!("s-{uid}"),
        state: ContainerState::ContainerExited.into(),
        labels,
        ..Container::default()
    }
}

/// It is ready, until somebody says otherwise: that is the state's default.
pub(crate) fn sandbox(uid: &str, id: &str) -> PodSandbox {
    PodSandbox {
        id: id.to_owned(),
        labels: labels(uid),
        ..PodSandbox::default()
    }
}

fn labels(uid: &str) -> Texts {
    Texts::from([
        (POD_UID.to_owned(), uid.to_owned()),
        (POD_NAME.to_owned(), format!("pod-{uid}")),
        (POD_NAMESPACE.to_owned(), "default".to_owned()),
    ])
}

/// Where the log of a container is.
pub(crate) fn log_path(container: &Container) -> PathBuf {
    let label = |key: &str| &container.labels[key];
    let (uid, name) = (label(POD_UID), label(CONTAINER_NAME));
    PathBuf::from(format!(
        "/logs/default_pod-{uid}_{uid}/{name}/{}.log",
        container.id
    ))
}

#[derive(Debug)]
pub(crate) struct TestRuntime {
    clock: SharedClock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) sandboxes: Vec<PodSandbox>,
    pub(crate) containers: Vec<Container>,
    pub(crate) away: bool,
    /// Ids that cannot be removed.
    pub(crate) stuck: BTreeSet<String>,
    /// Ids over whose removal it hangs.
    pub(crate) hanging: BTreeSet<String>,
    /// What it was told to do, in order.
    pub(crate) acts: Vec<String>,
    pub(crate) lists: usize,
    /// Of the last container that it was to stop, in seconds.
    pub(crate) grace: i64,
}

impl TestRuntime {
    pub(crate) fn new(clock: SharedClock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            state: Mutex::default(),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The ids of what is there: containers, then sandboxes.
    pub(crate) fn ids(&self) -> Vec<String> {
        let state = self.state();
        let containers = state.containers.iter().map(|one| one.id.clone());
        let sandboxes = state.sandboxes.iter().map(|one| one.id.clone());
        containers.chain(sandboxes).collect()
    }

    fn list<T: Send + 'static>(
        &self,
        call: &'static str,
        listed: impl FnOnce(&State) -> T,
    ) -> Answer<'_, T> {
        let mut state = self.state();
        state.lists += 1;
        let listed = if state.away {
            Err(RuntimeError::new(call, Code::Unavailable, "away"))
        } else {
            Ok(listed(&state))
        };
        Box::pin(std::future::ready(listed))
    }

    fn act<T: Default + Send + 'static>(
        &self,
        call: &'static str,
        id: String,
        act: fn(&mut State, &str),
    ) -> Answer<'_, T> {
        self.state().acts.push(format!("{call} {id}"));
        Box::pin(async move {
            let hangs = self.state().hanging.contains(&id);
            if hangs {
                self.clock.sleep(CALL_LIMIT).await;
                return Err(RuntimeError::new(call, Code::DeadlineExceeded, "no answer"));
            }
            let mut state = self.state();
            if state.stuck.contains(&id) {
                return Err(RuntimeError::new(call, Code::Unknown, "device busy"));
            }
            act(&mut state, &id);
            Ok(T::default())
        })
    }
}

fn selected(labels: &Texts, selector: &Texts) -> bool {
    let mut wanted = selector.iter();
    wanted.all(|(key, value)| labels.get(key) == Some(value))
}

impl Runtime for TestRuntime {
    fn list_pod_sandbox(
        &self,
        request: ListPodSandboxRequest,
    ) -> Answer<'_, ListPodSandboxResponse> {
        let selector = request.filter.unwrap_or_default().label_selector;
        self.list("ListPodSandbox", |state| {
            let mut items = state.sandboxes.clone();
            items.retain(|sandbox| selected(&sandbox.labels, &selector));
            ListPodSandboxResponse { items }
        })
    }

    fn list_containers(
        &self,
        request: ListContainersRequest,
    ) -> Answer<'_, ListContainersResponse> {
        let selector = request.filter.unwrap_or_default().label_selector;
        self.list("ListContainers", |state| {
            let mut containers = state.containers.clone();
            containers.retain(|container| selected(&container.labels, &selector));
            ListContainersResponse { containers }
        })
    }

    fn container_status(
        &self,
        request: ContainerStatusRequest,
    ) -> Answer<'_, ContainerStatusResponse> {
        let state = self.state();
        let mut all = state.containers.iter();
        let found = all.find(|container| container.id == request.container_id);
        let gone = || RuntimeError::new("ContainerStatus", Code::NotFound, "no such container");
        let answer = found.ok_or_else(gone).map(|container| {
            let status = ContainerStatus {
                id: container.id.clone(),
                state: container.state,
                labels: container.labels.clone(),
                annotations: container.annotations.clone(),
                log_path: log_path(container).display().to_string(),
                ..ContainerStatus::default()
            };
            ContainerStatusResponse {
                status: Some(status),
                ..ContainerStatusResponse::default()
            }
        });
        Box::pin(std::future::ready(answer))
    }

    fn exec_sync(&self, request: ExecSyncRequest) -> Answer<'_, ExecSyncResponse> {
        self.act("ExecSync", request.container_id, |_, _| {})
    }

    fn stop_container(&self, request: StopContainerRequest) -> Answer<'_, StopContainerResponse> {
        self.state().grace = request.timeout;
        self.act("StopContainer", request.container_id, |_, _| {})
    }

    fn remove_container(
        &self,
        request: RemoveContainerRequest,
    ) -> Answer<'_, RemoveContainerResponse> {
        self.act("RemoveContainer", request.container_id, |state, id| {
            state.containers.retain(|container| container.id != id);
        })
    }

    fn stop_pod_sandbox(
        &self,
        request: StopPodSandboxRequest,
    ) -> Answer<'_, StopPodSandboxResponse> {
        self.act("StopPodSandbox", request.pod_sandbox_id, |_, _| {})
    }

    fn remove_pod_sandbox(
        &self,
        request: RemovePodSandboxRequest,
    ) -> Answer<'_, RemovePodSandboxResponse> {
        self.act("RemovePodSandbox", request.pod_sandbox_id, |state, id| {
            state.sandboxes.retain(|sandbox| sandbox.id != id);
        })
    }
}

/// Files and links; directories are there by what is below them.
#[derive(Debug, Default)]
pub(crate) struct TestDisk {
    /// With where a link leads.
    held: Mutex<BTreeMap<PathBuf, Option<PathBuf>>>,
    /// What cannot be removed.
    stuck: Mutex<BTreeSet<PathBuf>>,
}

impl TestDisk {
    pub(crate) fn add(&self, path: impl Into<PathBuf>) {
        self.held.lock().unwrap().insert(path.into(), None);
    }

    pub(crate) fn add_link(&self, path: impl Into<PathBuf>, to: impl Into<PathBuf>) {
        let mut held = self.held.lock().unwrap();
        held.insert(path.into(), Some(to.into()));
    }

    pub(crate) fn set_stuck(&self, path: impl Into<PathBuf>) {
        self.stuck.lock().unwrap().insert(path.into());
    }

    pub(crate) fn set_loose(&self) {
        self.stuck.lock().unwrap().clear();
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        let held = self.held.lock().unwrap();
        held.keys().map(|path| path.display().to_string()).collect()
    }

    fn remove(&self, path: &Path) -> Result<(), HostError> {
        if self.stuck.lock().unwrap().contains(path) {
            return Err(HostError::at(path, io::ErrorKind::ResourceBusy.into()));
        }
        let mut held = self.held.lock().unwrap();
        held.retain(|found, _| !found.starts_with(path));
        Ok(())
    }
}

fn unused<T>(path: &Path) -> Result<T, HostError> {
    Err(HostError::at(path, io::ErrorKind::Unsupported.into()))
}

impl Storage for TestDisk {
    fn remove_tree(&self, path: &Path) -> Result<(), HostError> {
        self.remove(path)
    }

    fn remove_file(&self, path: &Path) -> Result<(), HostError> {
        self.remove(path)
    }

    fn dangling_links(&self, directory: &Path) -> Result<Vec<PathBuf>, HostError> {
        let held = self.held.lock().unwrap();
        let links = held.iter().filter(|(path, to)| {
            let dangles = to.as_ref().is_some_and(|to| !held.contains_key(to));
            dangles && path.parent() == Some(directory)
        });
        Ok(links.map(|(path, _)| path.clone()).collect())
    }

    fn entries(&self, path: &Path) -> Result<Option<Vec<Entry>>, HostError> {
        let held = self.held.lock().unwrap();
        let below = held
            .keys()
            .filter_map(|found| found.strip_prefix(path).ok());
        let entries = below.filter_map(|rest| {
            let mut names = rest.iter();
            let name = names.next()?.to_str()?.to_owned();
            let is_directory = names.next().is_some();
            Some(Entry { name, is_directory })
        });
        let entries: BTreeSet<Entry> = entries.collect();
        Ok((!entries.is_empty()).then(|| entries.into_iter().collect()))
    }

    fn run(&self, work: Work) -> WorkDone<'_> {
        work();
        Box::pin(std::future::ready(()))
    }

    fn write_file(&self, path: &Path, _: &[u8], _: u32) -> Result<bool, HostError> {
        unused(path)
    }

    fn read_end(&self, path: &Path, _: usize) -> Result<Option<Vec<u8>>, HostError> {
        unused(path)
    }

    fn size(&self, path: &Path) -> Result<Option<u64>, HostError> {
        unused(path)
    }

    fn rename(&self, from: &Path, _: &Path) -> Result<bool, HostError> {
        unused(from)
    }

    fn compress(&self, file: &Path, _: &Path, _: &Path) -> Result<(), HostError> {
        unused(file)
    }

    fn read_inside(&self, at: &Path, _: &str, _: usize) -> Result<Option<Vec<u8>>, HostError> {
        unused(at)
    }

    fn link(&self, _: &Path, at: &Path) -> Result<(), HostError> {
        unused(at)
    }

    fn bind_sub_path(&self, _: &Path, _: &str, at: &Path) -> Result<bool, SubPathError> {
        unused(at).map_err(SubPathError::Bind)
    }

    fn make_directory(&self, path: &Path, _: u32, _: u32) -> Result<bool, HostError> {
        unused(path)
    }

    fn make_file(&self, path: &Path, _: u32) -> Result<(), HostError> {
        unused(path)
    }

    fn publish(&self, path: &Path, _: &Tree, _: SystemTime) -> Result<bool, HostError> {
        unused(path)
    }

    fn share(&self, path: &Path, _: GroupShare, _: &AtomicU64) -> Result<Shared, HostError> {
        unused(path)
    }

    fn mount_tmpfs(&self, path: &Path, _: Option<u64>) -> Result<bool, HostError> {
        unused(path)
    }

    fn unmount(&self, path: &Path) -> Result<(), HostError> {
        unused(path)
    }

    fn mounts_below(&self, path: &Path) -> Result<Vec<MountPoint>, HostError> {
        unused(path)
    }

    fn has(&self, path: &Path, _: PathKind, _: bool) -> Result<bool, HostError> {
        unused(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, HostError> {
        unused(path)
    }

    fn bind(&self, bind: &Bind) -> Result<bool, HostError> {
        unused(&bind.at)
    }

    fn also_mounted(&self, directory: &Path, _: &Path) -> Result<Vec<PathBuf>, HostError> {
        unused(directory)
    }

    fn group(&self, path: &Path) -> Result<u32, HostError> {
        unused(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<(), HostError> {
        unused(path)
    }

    fn usage(&self, directory: &Path) -> Result<Usage, HostError> {
        unused(directory)
    }

    fn file_system(&self, path: &Path) -> Result<FileSystem, HostError> {
        unused(path)
    }
}
