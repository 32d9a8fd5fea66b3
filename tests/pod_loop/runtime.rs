//! The simulated runtime, watched: what it is asked to change is written down, what
//! must never be is noticed when it comes to be, and it can be made to answer badly.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use seams::cri;
use seams::cri::{ContainerState, PodSandboxState};
use seams::net::{Destination, Dialing};
use seams::runtime::{Answer, Code, ContainerEvents};
use seams::{Runtime as _, RuntimeError, SharedClock};

const POD_UID: &str = "io.kubernetes.pod.uid";
const POD_NAME: &str = "io.kubernetes.pod.name";

/// How answers are made worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Meddling {
    #[default]
    None,
    /// One in so many calls fails, and nothing comes of it.
    FailsBefore(u64),
    /// One in so many calls is carried out, and said to have failed.
    FailsAfter(u64),
    /// An answer is true when it is found, and comes so much later.
    Late(Duration),
    /// Lists and states are told as they were so long ago.
    Stale(Duration),
    /// What is stopped is said not to be there.
    StopsNobody,
    /// No container can be started, which is said by its id.
    StartsNothing,
}

/// A call that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    RunSandbox,
    StopSandbox,
    RemoveSandbox,
    Create,
    Start,
    Exec,
    Stop,
    Remove,
    /// Its resources are others.
    Update,
}

/// One that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) at: Duration,
    pub(crate) act: Act,
    pub(crate) uid: String,
    /// Empty for those about a whole pod.
    pub(crate) container: String,
    /// Of what there was already; empty for what is yet to be made.
    pub(crate) id: String,
    /// Of a stop: the grace, in seconds.
    pub(crate) grace: i64,
}

/// All that the runtime has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) sandboxes: Vec<cri::PodSandbox>,
    pub(crate) containers: Vec<cri::Container>,
    sandbox_states: BTreeMap<String, cri::PodSandboxStatus>,
    pub(crate) container_states: BTreeMap<String, cri::ContainerStatus>,
}

#[derive(Debug, Default)]
struct Book {
    calls: Vec<Call>,
    violations: Vec<String>,
    /// Whose is what: uid, and name.
    owners: BTreeMap<String, (String, String)>,
    /// Oldest first.
    past: VecDeque<(Duration, Arc<Snapshot>)>,
    meddling: Meddling,
    turn: u64,
    /// In which cgroup each pod's sandbox was to be.
    parents: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct Watched {
    inner: sim::Runtime,
    clock: SharedClock,
    book: Mutex<Book>,
}

impl Watched {
    pub(crate) fn new(inner: sim::Runtime, clock: SharedClock) -> Self {
        Self {
            inner,
            clock,
            book: Mutex::default(),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn meddle(&self, meddling: Meddling) {
        self.book().meddling = meddling;
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.book().calls.clone()
    }

    /// In which cgroup a pod's sandbox was to be.
    pub(crate) fn parent(&self, uid: &str) -> Option<String> {
        self.book().parents.get(uid).cloned()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.book().violations.clone()
    }

    /// What it has, past all faults of answers; `None` while it is out of order itself.
    pub(crate) fn look(&self) -> Option<Snapshot> {
        let sandboxes = self
            .inner
            .list_pod_sandbox(cri::ListPodSandboxRequest::default());
        let sandboxes = sandboxes.now_or_never()?.ok()?.items;
        let containers = self
            .inner
            .list_containers(cri::ListContainersRequest::default());
        let containers = containers.now_or_never()?.ok()?.containers;
        let mut snapshot = Snapshot::default();
        for sandbox in &sandboxes {
            let request = cri::PodSandboxStatusRequest {
                pod_sandbox_id: sandbox.id.clone(),
                ..cri::PodSandboxStatusRequest::default()
            };
            let answer = self
                .inner
                .pod_sandbox_status(request)
                .now_or_never()?
                .ok()?;
            let states = &mut snapshot.sandbox_states;
            states.insert(sandbox.id.clone(), answer.status?);
        }
        for container in &containers {
            let request = cri::ContainerStatusRequest {
                container_id: container.id.clone(),
                ..cri::ContainerStatusRequest::default()
            };
            let answer = self.inner.container_status(request).now_or_never()?.ok()?;
            let states = &mut snapshot.container_states;
            states.insert(container.id.clone(), answer.status?);
        }
        snapshot.sandboxes = sandboxes;
        snapshot.containers = containers;
        Some(snapshot)
    }

    /// Ends a pod's sandbox behind everybody's back.
    pub(crate) fn lose_sandbox(&self, uid: &str) {
        let Some(snapshot) = self.look() else { return };
        for sandbox in snapshot.ready_sandboxes(uid) {
            let request = cri::StopPodSandboxRequest {
                pod_sandbox_id: sandbox.id.clone(),
            };
            drop(self.inner.stop_pod_sandbox(request).now_or_never());
        }
    }

    /// Takes all that it has of a pod, behind everybody's back.
    pub(crate) fn lose(&self, uid: &str) {
        self.lose_sandbox(uid);
        let Some(snapshot) = self.look() else { return };
        let own = |one: &&cri::PodSandbox| one.labels[POD_UID] == uid;
        for sandbox in snapshot.sandboxes.iter().filter(own) {
            let request = cri::RemovePodSandboxRequest {
                pod_sandbox_id: sandbox.id.clone(),
            };
            drop(self.inner.remove_pod_sandbox(request).now_or_never());
        }
    }

    fn note(&self, act: Act, id: &str) {
        self.note_stop(act, id, 0);
    }

    fn note_stop(&self, act: Act, id: &str, grace: i64) {
        let mut book = self.book();
        let (uid, container) = book.owners.get(id).cloned().unwrap_or_default();
        let at = self.clock.uptime();
        book.calls.push(Call {
            at,
            act,
            uid,
            container,
            id: id.to_owned(),
            grace,
        });
    }

    /// Something may have changed: is everything still as it may be?
    pub(crate) fn watch(&self) {
        let Some(snapshot) = self.look() else { return };
        let violations = snapshot.violations();
        let at = self.clock.uptime();
        let mut book = self.book();
        let told = violations
            .into_iter()
            .map(|what| format!("at {at:?}: {what}"));
        book.violations.extend(told);
        if matches!(book.meddling, Meddling::Stale(_)) {
            book.past.push_back((at, Arc::new(snapshot)));
        }
    }

    /// What was there so long ago, if answers are stale.
    fn past(&self) -> Option<Arc<Snapshot>> {
        let Meddling::Stale(lag) = self.book().meddling else {
            self.book().past.clear();
            return None;
        };
        let now = self.clock.uptime();
        let snapshot = Arc::new(self.look()?);
        let mut book = self.book();
        book.past.push_back((now, snapshot));
        while book.past.get(1).is_some_and(|(at, _)| *at + lag <= now) {
            book.past.pop_front();
        }
        book.past.front().map(|(_, snapshot)| Arc::clone(snapshot))
    }

    /// An answer, after what makes it worse. `watched`: something changes by it.
    fn answer<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        watched: bool,
        answer: Answer<'a, T>,
        done: impl FnOnce(&mut Book, &T) + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let (meddling, turn) = {
                let mut book = self.book();
                book.turn = book.turn.wrapping_add(1);
                // Spread, and the same in every run.
                let turn = book.turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                (book.meddling, turn)
            };
            let fails = |one_in: u64| watched && turn.is_multiple_of(one_in.max(1));
            let failed = || Err(RuntimeError::new(call, Code::Unknown, "meddled with"));
            if let Meddling::FailsBefore(one_in) = meddling
                && fails(one_in)
            {
                return failed();
            }
            let answer = answer.await;
            if let Ok(answer) = &answer {
                done(&mut self.book(), answer);
                if watched {
                    self.watch();
                }
            }
            match meddling {
                Meddling::FailsAfter(one_in) if fails(one_in) => return failed(),
                Meddling::Late(delay) => self.clock.sleep(delay).await,
                Meddling::StopsNobody if call.starts_with("Stop") => {
                    return Err(RuntimeError::new(call, Code::NotFound, "not found"));
                }
                _ => {}
            }
            answer
        })
    }
}

impl Snapshot {
    pub(crate) fn ready_sandboxes(&self, uid: &str) -> Vec<&cri::PodSandbox> {
        let ready = |one: &&cri::PodSandbox| {
            one.state() == PodSandboxState::SandboxReady && one.labels[POD_UID] == uid
        };
        self.sandboxes.iter().filter(ready).collect()
    }

    pub(crate) fn containers_of(&self, uid: &str) -> Vec<&cri::Container> {
        let all = self.containers.iter();
        all.filter(|one| one.labels[POD_UID] == uid).collect()
    }

    pub(crate) fn running(&self, uid: &str, name: &str) -> Vec<&cri::Container> {
        let mut all = self.containers_of(uid);
        all.retain(|one| one.state() == ContainerState::ContainerRunning && name_of(one) == name);
        all
    }

    /// How often a container of a pod has begun to run, of those that are there.
    pub(crate) fn starts(&self, uid: &str, name: &str) -> usize {
        let mut all = self.containers_of(uid);
        all.retain(|one| name_of(one) == name && self.container_states[&one.id].started_at != 0);
        all.len()
    }

    pub(crate) fn is_running(&self, uid: &str) -> bool {
        let running = |one: &&cri::Container| one.state() == ContainerState::ContainerRunning;
        !self.ready_sandboxes(uid).is_empty() || self.containers_of(uid).iter().any(running)
    }

    pub(crate) fn has(&self, uid: &str) -> bool {
        let sandbox = self.sandboxes.iter().any(|one| one.labels[POD_UID] == uid);
        sandbox || !self.containers_of(uid).is_empty()
    }

    /// All of a pod, for people.
    pub(crate) fn told(&self, uid: &str) -> String {
        let mut lines = Vec::new();
        for one in self
            .sandboxes
            .iter()
            .filter(|one| one.labels[POD_UID] == uid)
        {
            let attempt = one.metadata.as_ref().map(|metadata| metadata.attempt);
            lines.push(format!("sandbox {attempt:?} {}", one.state().as_str_name()));
        }
        for one in self.containers_of(uid) {
            let state = &self.container_states[&one.id];
            let attempt = one.metadata.as_ref().map(|metadata| metadata.attempt);
            let (name, shown) = (name_of(one), one.state().as_str_name());
            let code = state.exit_code;
            lines.push(format!("{name} {attempt:?} {shown} exit {code}"));
        }
        lines.join("\n")
    }

    /// What must never be.
    fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut ready: BTreeMap<&str, u32> = BTreeMap::new();
        for one in &self.sandboxes {
            if one.state() == PodSandboxState::SandboxReady {
                *ready.entry(&one.labels[POD_UID]).or_default() += 1;
            }
        }
        let two = ready.iter().filter(|(_, count)| **count > 1);
        found.extend(two.map(|(uid, count)| format!("{count} ready sandboxes of {uid}")));
        let mut running: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        let mut attempts: BTreeMap<(&str, &str, u32), u32> = BTreeMap::new();
        for one in &self.containers {
            let (uid, name) = (one.labels[POD_UID].as_str(), name_of(one));
            let attempt = one.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
            *attempts.entry((uid, name, attempt)).or_default() += 1;
            if one.state() == ContainerState::ContainerRunning {
                *running.entry((uid, name)).or_default() += 1;
            }
        }
        let two = running.iter().filter(|(_, count)| **count > 1);
        found.extend(two.map(|(key, count)| format!("{count} of {key:?} run")));
        let two = attempts.iter().filter(|(_, count)| **count > 1);
        found.extend(two.map(|(key, count)| format!("{count} of {key:?} are there")));
        found
    }

    /// The names of which more than one pod has a ready sandbox.
    pub(crate) fn doubled_names(&self) -> Vec<String> {
        let mut names: BTreeMap<&str, u32> = BTreeMap::new();
        for one in &self.sandboxes {
            if one.state() == PodSandboxState::SandboxReady {
                *names.entry(&one.labels[POD_NAME]).or_default() += 1;
            }
        }
        let two = names.into_iter().filter(|(_, count)| *count > 1);
        two.map(|(name, _)| name.to_owned()).collect()
    }
}

pub(crate) fn name_of(container: &cri::Container) -> &str {
    let metadata = container.metadata.as_ref();
    metadata.map_or("", |metadata| metadata.name.as_str())
}

fn nothing<T>(_: &mut Book, _: &T) {}

impl seams::Runtime for Watched {
    fn run_pod_sandbox(
        &self,
        request: cri::RunPodSandboxRequest,
    ) -> Answer<'_, cri::RunPodSandboxResponse> {
        let config = request.config.as_ref().unwrap();
        let owner = (config.labels[POD_UID].clone(), String::new());
        let parent = config.linux.clone().unwrap_or_default().cgroup_parent;
        self.book().parents.insert(owner.0.clone(), parent);
        self.book().calls.push(Call {
            at: self.clock.uptime(),
            act: Act::RunSandbox,
            uid: owner.0.clone(),
            container: String::new(),
            id: String::new(),
            grace: 0,
        });
        let made = self.inner.run_pod_sandbox(request);
        self.answer("RunPodSandbox", true, made, move |book, answer| {
            book.owners.insert(answer.pod_sandbox_id.clone(), owner);
        })
    }

    fn stop_pod_sandbox(
        &self,
        request: cri::StopPodSandboxRequest,
    ) -> Answer<'_, cri::StopPodSandboxResponse> {
        self.note(Act::StopSandbox, &request.pod_sandbox_id);
        let stopped = self.inner.stop_pod_sandbox(request);
        self.answer("StopPodSandbox", true, stopped, nothing)
    }

    fn remove_pod_sandbox(
        &self,
        request: cri::RemovePodSandboxRequest,
    ) -> Answer<'_, cri::RemovePodSandboxResponse> {
        self.note(Act::RemoveSandbox, &request.pod_sandbox_id);
        let removed = self.inner.remove_pod_sandbox(request);
        self.answer("RemovePodSandbox", true, removed, nothing)
    }

    fn pod_sandbox_status(
        &self,
        request: cri::PodSandboxStatusRequest,
    ) -> Answer<'_, cri::PodSandboxStatusResponse> {
        let Some(past) = self.past() else {
            let status = self.inner.pod_sandbox_status(request);
            return self.answer("PodSandboxStatus", false, status, nothing);
        };
        let status = past.sandbox_states.get(&request.pod_sandbox_id).cloned();
        let gone = RuntimeError::new("PodSandboxStatus", Code::NotFound, "not found");
        let answer = status
            .ok_or(gone)
            .map(|status| cri::PodSandboxStatusResponse {
                status: Some(status),
                ..cri::PodSandboxStatusResponse::default()
            });
        Box::pin(async move { answer })
    }

    fn list_pod_sandbox(
        &self,
        request: cri::ListPodSandboxRequest,
    ) -> Answer<'_, cri::ListPodSandboxResponse> {
        let Some(past) = self.past() else {
            let listed = self.inner.list_pod_sandbox(request);
            return self.answer("ListPodSandbox", false, listed, nothing);
        };
        let selector = request.filter.unwrap_or_default().label_selector;
        let mut items = past.sandboxes.clone();
        items.retain(|one| selected(&one.labels, &selector));
        Box::pin(async move { Ok(cri::ListPodSandboxResponse { items }) })
    }

    fn create_container(
        &self,
        request: cri::CreateContainerRequest,
    ) -> Answer<'_, cri::CreateContainerResponse> {
        let config = request.config.as_ref().unwrap();
        let uid = config.labels[POD_UID].clone();
        let container = config.metadata.as_ref().unwrap().name.clone();
        let owner = (uid.clone(), container.clone());
        self.book().calls.push(Call {
            at: self.clock.uptime(),
            act: Act::Create,
            uid,
            container,
            id: String::new(),
            grace: 0,
        });
        let created = self.inner.create_container(request);
        self.answer("CreateContainer", true, created, move |book, answer| {
            book.owners.insert(answer.container_id.clone(), owner);
        })
    }

    fn start_container(
        &self,
        request: cri::StartContainerRequest,
    ) -> Answer<'_, cri::StartContainerResponse> {
        self.note(Act::Start, &request.container_id);
        if self.book().meddling == Meddling::StartsNothing {
            let message = format!("cannot start {}: no such file", request.container_id);
            let error = RuntimeError::new("StartContainer", Code::Unknown, message);
            return Box::pin(async move { Err(error) });
        }
        let started = self.inner.start_container(request);
        self.answer("StartContainer", true, started, nothing)
    }

    fn exec_sync(&self, request: cri::ExecSyncRequest) -> Answer<'_, cri::ExecSyncResponse> {
        self.note(Act::Exec, &request.container_id);
        let ran = self.inner.exec_sync(request);
        self.answer("ExecSync", true, ran, nothing)
    }

    fn stop_container(
        &self,
        request: cri::StopContainerRequest,
    ) -> Answer<'_, cri::StopContainerResponse> {
        self.note_stop(Act::Stop, &request.container_id, request.timeout);
        let stopped = self.inner.stop_container(request);
        self.answer("StopContainer", true, stopped, nothing)
    }

    fn remove_container(
        &self,
        request: cri::RemoveContainerRequest,
    ) -> Answer<'_, cri::RemoveContainerResponse> {
        self.note(Act::Remove, &request.container_id);
        let removed = self.inner.remove_container(request);
        self.answer("RemoveContainer", true, removed, nothing)
    }

    fn update_container_resources(
        &self,
        request: cri::UpdateContainerResourcesRequest,
    ) -> Answer<'_, cri::UpdateContainerResourcesResponse> {
        self.note(Act::Update, &request.container_id);
        let updated = self.inner.update_container_resources(request);
        self.answer("UpdateContainerResources", true, updated, nothing)
    }

    fn container_stats(
        &self,
        request: cri::ContainerStatsRequest,
    ) -> Answer<'_, cri::ContainerStatsResponse> {
        self.inner.container_stats(request)
    }

    fn pod_sandbox_stats(
        &self,
        request: cri::PodSandboxStatsRequest,
    ) -> Answer<'_, cri::PodSandboxStatsResponse> {
        self.inner.pod_sandbox_stats(request)
    }

    fn container_status(
        &self,
        request: cri::ContainerStatusRequest,
    ) -> Answer<'_, cri::ContainerStatusResponse> {
        let Some(past) = self.past() else {
            let status = self.inner.container_status(request);
            return self.answer("ContainerStatus", false, status, nothing);
        };
        let status = past.container_states.get(&request.container_id).cloned();
        let gone = RuntimeError::new("ContainerStatus", Code::NotFound, "not found");
        let answer = status
            .ok_or(gone)
            .map(|status| cri::ContainerStatusResponse {
                status: Some(status),
                ..cri::ContainerStatusResponse::default()
            });
        Box::pin(async move { answer })
    }

    fn list_containers(
        &self,
        request: cri::ListContainersRequest,
    ) -> Answer<'_, cri::ListContainersResponse> {
        let Some(past) = self.past() else {
            let listed = self.inner.list_containers(request);
            return self.answer("ListContainers", false, listed, nothing);
        };
        let selector = request.filter.unwrap_or_default().label_selector;
        let mut containers = past.containers.clone();
        containers.retain(|one| selected(&one.labels, &selector));
        Box::pin(async move { Ok(cri::ListContainersResponse { containers }) })
    }

    fn list_container_stats(
        &self,
        request: cri::ListContainerStatsRequest,
    ) -> Answer<'_, cri::ListContainerStatsResponse> {
        self.inner.list_container_stats(request)
    }

    fn image_fs_info(
        &self,
        request: cri::ImageFsInfoRequest,
    ) -> Answer<'_, cri::ImageFsInfoResponse> {
        self.inner.image_fs_info(request)
    }

    fn get_container_events(&self, request: cri::GetEventsRequest) -> Answer<'_, ContainerEvents> {
        self.inner.get_container_events(request)
    }

    fn image_status(
        &self,
        request: cri::ImageStatusRequest,
    ) -> Answer<'_, cri::ImageStatusResponse> {
        let status = self.inner.image_status(request);
        self.answer("ImageStatus", false, status, nothing)
    }

    fn pull_image(&self, request: cri::PullImageRequest) -> Answer<'_, cri::PullImageResponse> {
        let pulled = self.inner.pull_image(request);
        self.answer("PullImage", true, pulled, nothing)
    }

    fn list_images(&self, request: cri::ListImagesRequest) -> Answer<'_, cri::ListImagesResponse> {
        self.inner.list_images(request)
    }
}

impl seams::Net for Watched {
    fn dial<'a>(&'a self, to: Destination<'a>) -> Dialing<'a> {
        self.inner.dial(to)
    }
}

fn selected(labels: &BTreeMap<String, String>, selector: &BTreeMap<String, String>) -> bool {
    let mut wanted = selector.iter();
    wanted.all(|(key, value)| labels.get(key) == Some(value))
}
