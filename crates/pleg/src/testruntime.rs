//! A runtime in memory, as far as an observation asks it: it counts its calls, and
//! can be away, hang for a pod, and tell events or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::stream;
use seams::SharedClock;
use seams::cri::{
    Container, ContainerEventResponse, ContainerMetadata, ContainerState, ContainerStatus,
    ContainerStatusRequest, ContainerStatusResponse, GetEventsRequest, ListContainersRequest,
    ListContainersResponse, ListPodSandboxRequest, ListPodSandboxResponse, PodSandbox,
    PodSandboxNetworkStatus, PodSandboxState, PodSandboxStatus, PodSandboxStatusRequest,
    PodSandboxStatusResponse,
};
use seams::runtime::{Answer, Code, ContainerEvents, Runtime, RuntimeError};
use tokio::sync::mpsc;

use crate::listing::{CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID};

/// When a real client gives a call up.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(120);

type Labels = BTreeMap<String, String>;

#[derive(Debug)]
pub(crate) struct TestRuntime {
    clock: SharedClock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) sandboxes: BTreeMap<String, Sandbox>,
    pub(crate) containers: BTreeMap<String, Part>,
    pub(crate) away: bool,
    /// Ids whose status is not answered.
    pub(crate) hanging: BTreeSet<String>,
    /// Ids whose status is answered with an error.
    pub(crate) failing: BTreeSet<String>,
    /// How long lists take.
    pub(crate) slow_lists: Duration,
    pub(crate) tells_events: bool,
    events: Option<mpsc::Sender<Result<ContainerEventResponse, RuntimeError>>>,
    calls: BTreeMap<&'static str, usize>,
    made: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    pub(crate) ready: bool,
    pub(crate) ip: String,
    created_at: i64,
    labels: Labels,
}

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) state: ContainerState,
    sandbox: String,
    created_at: i64,
    labels: Labels,
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

    /// A pod with one container that runs.
    pub(crate) fn run_pod(&self, uid: &str) {
        let mut state = self.state();
        state.add_sandbox(uid);
        state.add_container(uid, &format!("c-{uid}"), ContainerState::ContainerRunning);
    }

    pub(crate) fn remove_pod(&self, uid: &str) {
        let mut state = self.state();
        let other = |labels: &Labels| labels[POD_UID] != uid;
        state.sandboxes.retain(|_, sandbox| other(&sandbox.labels));
        state.containers.retain(|_, part| other(&part.labels));
    }

    pub(crate) fn set_state(&self, container: &str, now: ContainerState) {
        self.state().containers.get_mut(container).unwrap().state = now;
    }

    /// The calls since the last time it was asked.
    pub(crate) fn calls(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut self.state().calls)
    }

    /// Tells of a pod, if somebody listens.
    pub(crate) fn tell(&self, uid: &str) {
        let event = ContainerEventResponse {
            container_id: format!("s-{uid}"),
            pod_sandbox_status: Some(PodSandboxStatus {
                labels: labels(uid),
                ..PodSandboxStatus::default()
            }),
            ..ContainerEventResponse::default()
        };
        self.tell_that(event);
    }

    pub(crate) fn tell_that(&self, event: ContainerEventResponse) {
        let events = self.state().events.clone();
        events.unwrap().try_send(Ok(event)).unwrap();
    }

    pub(crate) fn end_events(&self) {
        self.state().events = None;
    }

    fn enter(&self, call: &'static str, ids: &[&str]) -> Result<Duration, RuntimeError> {
        let mut state = self.state();
        *state.calls.entry(call).or_default() += 1;
        if state.away {
            return Err(RuntimeError::new(call, Code::Unavailable, "away"));
        }
        if ids.iter().any(|id| state.failing.contains(*id)) {
            return Err(RuntimeError::new(call, Code::Unknown, "broken"));
        }
        let hangs = ids.iter().any(|id| state.hanging.contains(*id));
        Ok(if hangs { CALL_LIMIT } else { Duration::ZERO })
    }

    /// The answer is that of the call's beginning, as with a real one at its worst.
    fn answer<T: Send + 'static>(
        &self,
        call: &'static str,
        id: Option<&str>,
        answer: impl FnOnce(&State) -> Option<T>,
    ) -> Answer<'_, T> {
        let entered = self.enter(call, id.as_slice());
        let state = self.state();
        let slow = if id.is_none() {
            state.slow_lists
        } else {
            Duration::ZERO
        };
        let answer = answer(&state);
        drop(state);
        Box::pin(async move {
            let hang = entered?;
            if hang > Duration::ZERO {
                self.clock.sleep(hang).await;
                return Err(RuntimeError::new(call, Code::DeadlineExceeded, "no answer"));
            }
            if slow > Duration::ZERO {
                self.clock.sleep(slow).await;
            }
            answer.ok_or_else(|| RuntimeError::new(call, Code::NotFound, "no such thing"))
        })
    }
}

impl State {
    pub(crate) fn add_sandbox(&mut self, uid: &str) -> String {
        self.made += 1;
        let id = format!("s-{uid}");
        let sandbox = Sandbox {
            ready: true,
            ip: "10.0.0.1".to_owned(),
            created_at: self.made,
            labels: labels(uid),
        };
        self.sandboxes.insert(id.clone(), sandbox);
        id
    }

    pub(crate) fn add_container(&mut self, uid: &str, id: &str, state: ContainerState) {
        self.made += 1;
        let mut labels = labels(uid);
        labels.insert(CONTAINER_NAME.to_owned(), "main".to_owned());
        let part = Part {
            state,
            sandbox: format!("s-{uid}"),
            created_at: self.made,
            labels,
        };
        self.containers.insert(id.to_owned(), part);
    }
}

fn labels(uid: &str) -> Labels {
    BTreeMap::from([
        (POD_UID.to_owned(), uid.to_owned()),
        (POD_NAME.to_owned(), format!("pod-{uid}")),
        (POD_NAMESPACE.to_owned(), "default".to_owned()),
    ])
}

fn selected(labels: &Labels, selector: &Labels) -> bool {
    selector
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}

impl Runtime for TestRuntime {
    fn list_pod_sandbox(
        &self,
        request: ListPodSandboxRequest,
    ) -> Answer<'_, ListPodSandboxResponse> {
        let selector = request.filter.unwrap_or_default().label_selector;
        self.answer("ListPodSandbox", None, |state| {
            let all = state.sandboxes.iter();
            let some = all.filter(|(_, sandbox)| selected(&sandbox.labels, &selector));
            let items = some.map(|(id, sandbox)| PodSandbox {
                id: id.clone(),
                state: sandbox_state(sandbox).into(),
                created_at: sandbox.created_at,
                labels: sandbox.labels.clone(),
                ..PodSandbox::default()
            });
            Some(ListPodSandboxResponse {
                items: items.collect(),
            })
        })
    }

    fn list_containers(
        &self,
        request: ListContainersRequest,
    ) -> Answer<'_, ListContainersResponse> {
        let selector = request.filter.unwrap_or_default().label_selector;
        self.answer("ListContainers", None, |state| {
            let all = state.containers.iter();
            let some = all.filter(|(_, part)| selected(&part.labels, &selector));
            let containers = some.map(|(id, part)| Container {
                id: id.clone(),
                pod_sandbox_id: part.sandbox.clone(),
                state: part.state.into(),
                created_at: part.created_at,
                labels: part.labels.clone(),
                ..Container::default()
            });
            Some(ListContainersResponse {
                containers: containers.collect(),
            })
        })
    }

    fn pod_sandbox_status(
        &self,
        request: PodSandboxStatusRequest,
    ) -> Answer<'_, PodSandboxStatusResponse> {
        let id = request.pod_sandbox_id;
        self.answer("PodSandboxStatus", Some(&id), |state| {
            let sandbox = state.sandboxes.get(&id)?;
            let status = PodSandboxStatus {
                id: id.clone(),
                state: sandbox_state(sandbox).into(),
                created_at: sandbox.created_at,
                network: Some(PodSandboxNetworkStatus {
                    ip: sandbox.ip.clone(),
                    ..PodSandboxNetworkStatus::default()
                }),
                labels: sandbox.labels.clone(),
                ..PodSandboxStatus::default()
            };
            Some(PodSandboxStatusResponse {
                status: Some(status),
                ..PodSandboxStatusResponse::default()
            })
        })
    }

    fn container_status(
        &self,
        request: ContainerStatusRequest,
    ) -> Answer<'_, ContainerStatusResponse> {
        let id = request.container_id;
        self.answer("ContainerStatus", Some(&id), |state| {
            let part = state.containers.get(&id)?;
            let status = ContainerStatus {
                id: id.clone(),
                metadata: Some(ContainerMetadata::default()),
                state: part.state.into(),
                created_at: part.created_at,
                labels: part.labels.clone(),
                ..ContainerStatus::default()
            };
            Some(ContainerStatusResponse {
                status: Some(status),
                ..ContainerStatusResponse::default()
            })
        })
    }

    fn get_container_events(&self, _: GetEventsRequest) -> Answer<'_, ContainerEvents> {
        let entered = self.enter("GetContainerEvents", &[]);
        let mut state = self.state();
        let (events, told) = mpsc::channel(64);
        let answer = if state.tells_events {
            state.events = Some(events);
            let events = stream::unfold(told, |mut told| async {
                told.recv().await.map(|event| (event, told))
            });
            Ok(Box::pin(events) as ContainerEvents)
        } else {
            let error = "unknown method GetContainerEvents";
            Err(RuntimeError::new(
                "GetContainerEvents",
                Code::Unimplemented,
                error,
            ))
        };
        Box::pin(async move {
            entered?;
            answer
        })
    }
}

fn sandbox_state(sandbox: &Sandbox) -> PodSandboxState {
    if sandbox.ready {
        PodSandboxState::SandboxReady
    } else {
        PodSandboxState::SandboxNotready
    }
}
