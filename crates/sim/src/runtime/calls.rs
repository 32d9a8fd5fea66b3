//! The calls of the interface: each passes the faults of its moment, looks at the
//! state once, and says what it found.

use std::path::Path;
use std::time::Duration;

use seams::cri::{
    AttachRequest, AttachResponse, ContainerStatsRequest, ContainerStatsResponse,
    ContainerStatusRequest, ContainerStatusResponse, CreateContainerRequest,
    CreateContainerResponse, ExecRequest, ExecResponse, ExecSyncRequest, ExecSyncResponse,
    GetEventsRequest, ImageFsInfoRequest, ImageFsInfoResponse, ImageStatusRequest,
    ImageStatusResponse, LinuxRuntimeConfiguration, ListContainerStatsRequest,
    ListContainerStatsResponse, ListContainersRequest, ListContainersResponse, ListImagesRequest,
    ListImagesResponse, ListMetricDescriptorsRequest, ListMetricDescriptorsResponse,
    ListPodSandboxMetricsRequest, ListPodSandboxMetricsResponse, ListPodSandboxRequest,
    ListPodSandboxResponse, ListPodSandboxStatsRequest, ListPodSandboxStatsResponse,
    PodSandboxStatsRequest, PodSandboxStatsResponse, PodSandboxStatusRequest,
    PodSandboxStatusResponse, PortForwardRequest, PortForwardResponse, PullImageRequest,
    PullImageResponse, RemoveContainerRequest, RemoveContainerResponse, RemoveImageRequest,
    RemoveImageResponse, RemovePodSandboxRequest, RemovePodSandboxResponse,
    ReopenContainerLogRequest, ReopenContainerLogResponse, RunPodSandboxRequest,
    RunPodSandboxResponse, RuntimeCondition, RuntimeConfigRequest, RuntimeConfigResponse,
    RuntimeFeatures, RuntimeHandler, RuntimeHandlerFeatures, RuntimeStatus, StartContainerRequest,
    StartContainerResponse, StatusRequest, StatusResponse, StopContainerRequest,
    StopContainerResponse, StopPodSandboxRequest, StopPodSandboxResponse,
    UpdateContainerResourcesRequest, UpdateContainerResourcesResponse,
    UpdatePodSandboxResourcesRequest, UpdatePodSandboxResourcesResponse,
    UpdateRuntimeConfigRequest, UpdateRuntimeConfigResponse, VersionRequest, VersionResponse,
};
use seams::runtime::{Answer, ContainerEvents};

use super::container::Container;
use super::exec::Course;
use super::images::Name;
use super::logs::{self, Logs};
use super::moment::Moment;
use super::refusal::Refusal;
use super::state::State;
use super::story::Pull;
use super::streams::Wanted;
use super::{Core, Runtime, events, exec, stats};
use crate::faults::pass;

impl Runtime {
    /// The answer to a call, once it has passed the faults of its moment.
    fn answer<T: Send + 'static>(
        &self,
        call: &'static str,
        made: impl FnOnce(&Core, &mut State, Moment) -> Result<T, Refusal> + Send + 'static,
    ) -> Answer<'_, T> {
        let core = &*self.core;
        Box::pin(async move {
            pass(&core.faults, &core.clock, call).await?;
            let (mut state, now) = core.look();
            made(core, &mut state, now).map_err(|refusal| refusal.of(call))
        })
    }
}

impl seams::Runtime for Runtime {
    fn version(&self, _: VersionRequest) -> Answer<'_, VersionResponse> {
        self.answer("Version", |core, _, _| {
            Ok(VersionResponse {
                version: "0.1.0".to_owned(),
                runtime_name: core.shape.name.clone(),
                runtime_version: core.shape.version.clone(),
                runtime_api_version: "v1".to_owned(),
            })
        })
    }

    fn status(&self, _: StatusRequest) -> Answer<'_, StatusResponse> {
        self.answer("Status", |core, state, _| {
            let conditions = vec![good("RuntimeReady"), network_condition(state)];
            let told = core.shape.tells_features;
            Ok(StatusResponse {
                status: Some(RuntimeStatus { conditions }),
                runtime_handlers: if told { handlers() } else { Vec::new() },
                features: told.then_some(RuntimeFeatures {
                    supplemental_groups_policy: true,
                    ..RuntimeFeatures::default()
                }),
                ..StatusResponse::default()
            })
        })
    }

    fn runtime_config(&self, _: RuntimeConfigRequest) -> Answer<'_, RuntimeConfigResponse> {
        self.answer("RuntimeConfig", |core, _, _| {
            let cgroup_driver = core.shape.cgroup_driver.into();
            Ok(RuntimeConfigResponse {
                linux: Some(LinuxRuntimeConfiguration { cgroup_driver }),
            })
        })
    }

    fn update_runtime_config(
        &self,
        request: UpdateRuntimeConfigRequest,
    ) -> Answer<'_, UpdateRuntimeConfigResponse> {
        self.answer("UpdateRuntimeConfig", |_, state, _| {
            let config = request.runtime_config.unwrap_or_default();
            let network = config.network_config.unwrap_or_default();
            state.tell_pod_cidr(&network.pod_cidr)?;
            Ok(UpdateRuntimeConfigResponse {})
        })
    }

    fn run_pod_sandbox(&self, request: RunPodSandboxRequest) -> Answer<'_, RunPodSandboxResponse> {
        self.answer("RunPodSandbox", |_, state, now| {
            let pod_sandbox_id = state.run_sandbox(request, now)?;
            Ok(RunPodSandboxResponse { pod_sandbox_id })
        })
    }

    fn stop_pod_sandbox(
        &self,
        request: StopPodSandboxRequest,
    ) -> Answer<'_, StopPodSandboxResponse> {
        self.answer("StopPodSandbox", move |_, state, now| {
            state.stop_sandbox(&request.pod_sandbox_id, now);
            Ok(StopPodSandboxResponse {})
        })
    }

    fn remove_pod_sandbox(
        &self,
        request: RemovePodSandboxRequest,
    ) -> Answer<'_, RemovePodSandboxResponse> {
        self.answer("RemovePodSandbox", move |_, state, now| {
            state.remove_sandbox(&request.pod_sandbox_id, now)?;
            Ok(RemovePodSandboxResponse {})
        })
    }

    fn pod_sandbox_status(
        &self,
        request: PodSandboxStatusRequest,
    ) -> Answer<'_, PodSandboxStatusResponse> {
        self.answer("PodSandboxStatus", move |_, state, _| {
            let sandbox = state.sandbox(&request.pod_sandbox_id)?;
            Ok(PodSandboxStatusResponse {
                status: Some(sandbox.status()),
                ..PodSandboxStatusResponse::default()
            })
        })
    }

    fn list_pod_sandbox(
        &self,
        request: ListPodSandboxRequest,
    ) -> Answer<'_, ListPodSandboxResponse> {
        self.answer("ListPodSandbox", move |_, state, _| {
            let items = state.list_sandboxes(request.filter.as_ref());
            Ok(ListPodSandboxResponse { items })
        })
    }

    /// There is nothing to read them back with: they are taken, and that is all.
    fn update_pod_sandbox_resources(
        &self,
        request: UpdatePodSandboxResourcesRequest,
    ) -> Answer<'_, UpdatePodSandboxResourcesResponse> {
        self.answer("UpdatePodSandboxResources", move |_, state, _| {
            state.sandbox(&request.pod_sandbox_id)?;
            Ok(UpdatePodSandboxResourcesResponse {})
        })
    }

    fn create_container(
        &self,
        request: CreateContainerRequest,
    ) -> Answer<'_, CreateContainerResponse> {
        self.answer("CreateContainer", |_, state, now| {
            let container_id = state.create_container(request, now)?;
            Ok(CreateContainerResponse { container_id })
        })
    }

    /// Answers when it has begun. It begins, too, if nobody waits for that any more.
    fn start_container(
        &self,
        request: StartContainerRequest,
    ) -> Answer<'_, StartContainerResponse> {
        const CALL: &str = "StartContainer";
        Box::pin(async move {
            let id = request.container_id.clone();
            let told = self.answer(CALL, move |_, state, now| state.start_container(&id, now));
            told.await?;
            let id = &request.container_id;
            let begun = self.core.until(|state| match state.container(id) {
                Ok(container) if container.is_starting() => None,
                Ok(container) if container.began().is_none() => {
                    Some(Err(Refusal::SandboxNotReady(container.sandbox.to_string())))
                }
                Ok(_) => Some(Ok(StartContainerResponse {})),
                Err(refusal) => Some(Err(refusal)),
            });
            begun.await.map_err(|refusal| refusal.of(CALL))
        })
    }

    /// Answers when it has ended. It ends, too, if nobody waits for that any more.
    fn stop_container(&self, request: StopContainerRequest) -> Answer<'_, StopContainerResponse> {
        const CALL: &str = "StopContainer";
        Box::pin(async move {
            let id = request.container_id.clone();
            let grace = Duration::from_secs(u64::try_from(request.timeout).unwrap_or_default());
            let told = self.answer(CALL, move |_, state, now| {
                state.stop_container(&id, grace, now);
                Ok(())
            });
            told.await?;
            let id = &request.container_id;
            let ended = self.core.until(|state| {
                let runs = state.container(id).is_ok_and(Container::is_running);
                (!runs).then_some(StopContainerResponse {})
            });
            Ok(ended.await)
        })
    }

    fn remove_container(
        &self,
        request: RemoveContainerRequest,
    ) -> Answer<'_, RemoveContainerResponse> {
        self.answer("RemoveContainer", move |_, state, now| {
            state.remove_container(&request.container_id, now)?;
            Ok(RemoveContainerResponse {})
        })
    }

    fn container_status(
        &self,
        request: ContainerStatusRequest,
    ) -> Answer<'_, ContainerStatusResponse> {
        self.answer("ContainerStatus", move |_, state, _| {
            let container = state.container(&request.container_id)?;
            Ok(ContainerStatusResponse {
                status: Some(container.status()),
                ..ContainerStatusResponse::default()
            })
        })
    }

    fn list_containers(
        &self,
        request: ListContainersRequest,
    ) -> Answer<'_, ListContainersResponse> {
        self.answer("ListContainers", move |_, state, _| {
            let containers = state.list_containers(request.filter.as_ref());
            Ok(ListContainersResponse { containers })
        })
    }

    fn update_container_resources(
        &self,
        request: UpdateContainerResourcesRequest,
    ) -> Answer<'_, UpdateContainerResourcesResponse> {
        self.answer("UpdateContainerResources", move |_, state, _| {
            state.limit_container(&request.container_id, request.linux)?;
            Ok(UpdateContainerResourcesResponse {})
        })
    }

    fn reopen_container_log(
        &self,
        request: ReopenContainerLogRequest,
    ) -> Answer<'_, ReopenContainerLogResponse> {
        self.answer("ReopenContainerLog", move |core, state, _| {
            let container = running(state, &request.container_id, "given a new log")?;
            let path = &container.made_of.log_path;
            if core.shape.logs == Logs::Files && !path.is_empty() {
                // Whoever moved the old one away expects a new one at once.
                logs::open(Path::new(&**path)).map_err(|error| Refusal::Log {
                    path: path.to_string(),
                    text: error.to_string(),
                })?;
            }
            Ok(ReopenContainerLogResponse {})
        })
    }

    fn get_container_events(&self, _: GetEventsRequest) -> Answer<'_, ContainerEvents> {
        Box::pin(async move {
            pass(&self.core.faults, &self.core.clock, "GetContainerEvents").await?;
            Ok(events::listen(&self.core))
        })
    }

    fn exec_sync(&self, request: ExecSyncRequest) -> Answer<'_, ExecSyncResponse> {
        Box::pin(async move {
            let ExecSyncRequest {
                container_id,
                cmd,
                timeout,
            } = request;
            let id = container_id.clone();
            let begun = self.answer("ExecSync", move |_, state, now| {
                let token = state.next_id();
                let container = running(state, &id, "entered")?;
                exec::course(&cmd, container, &token, now)
            });
            let (lasts, answer) = match begun.await? {
                Course::Ends { after, end } if after.is_zero() => return Ok(end),
                Course::Ends { after, end } => (after, end),
                // There is nothing to hear.
                Course::Echoes => return Ok(exec::ended(0, "")),
            };
            let ended = self.core.until(|state| {
                let container = state.container(&container_id);
                let runs = container.is_ok_and(Container::is_running);
                (!runs).then_some(())
            });
            let limit = u64::try_from(timeout).ok().filter(|limit| *limit > 0);
            let limit = limit.map(Duration::from_secs);
            let late = limit.filter(|limit| *limit < lasts);
            let ended = tokio::select! {
                () = self.core.clock.sleep(late.unwrap_or(lasts)) => false,
                () = ended => true,
            };
            match late {
                _ if ended => Ok(exec::killed()),
                Some(limit) => Err(Refusal::TooLong(limit).of("ExecSync")),
                None => Ok(answer),
            }
        })
    }

    fn exec(&self, request: ExecRequest) -> Answer<'_, ExecResponse> {
        self.answer("Exec", |core, state, now| {
            running(state, &request.container_id, "entered")?;
            let url = core.place(state, Wanted::Exec(request), now)?;
            Ok(ExecResponse { url })
        })
    }

    fn attach(&self, request: AttachRequest) -> Answer<'_, AttachResponse> {
        self.answer("Attach", |core, state, now| {
            running(state, &request.container_id, "attached to")?;
            let url = core.place(state, Wanted::Attach(request), now)?;
            Ok(AttachResponse { url })
        })
    }

    fn port_forward(&self, request: PortForwardRequest) -> Answer<'_, PortForwardResponse> {
        self.answer("PortForward", |core, state, now| {
            let sandbox = state.sandbox(&request.pod_sandbox_id)?;
            if !sandbox.is_ready() {
                return Err(Refusal::SandboxNotReady(sandbox.id.to_string()));
            }
            let url = core.place(state, Wanted::PortForward(request), now)?;
            Ok(PortForwardResponse { url })
        })
    }

    fn container_stats(
        &self,
        request: ContainerStatsRequest,
    ) -> Answer<'_, ContainerStatsResponse> {
        self.answer("ContainerStats", move |core, state, now| {
            let container = state.container(&request.container_id)?;
            let stats = stats::of_container(container, &core.shape.mountpoint, now);
            Ok(ContainerStatsResponse { stats: Some(stats) })
        })
    }

    fn list_container_stats(
        &self,
        request: ListContainerStatsRequest,
    ) -> Answer<'_, ListContainerStatsResponse> {
        self.answer("ListContainerStats", move |core, state, now| {
            let filter = request.filter.as_ref();
            let stats = stats::of_containers(state, filter, &core.shape.mountpoint, now);
            Ok(ListContainerStatsResponse { stats })
        })
    }

    fn pod_sandbox_stats(
        &self,
        request: PodSandboxStatsRequest,
    ) -> Answer<'_, PodSandboxStatsResponse> {
        self.answer("PodSandboxStats", move |core, state, now| {
            let sandbox = state.sandbox(&request.pod_sandbox_id)?;
            let stats = stats::of_sandbox(state, sandbox, &core.shape.mountpoint, now);
            Ok(PodSandboxStatsResponse { stats: Some(stats) })
        })
    }

    fn list_pod_sandbox_stats(
        &self,
        request: ListPodSandboxStatsRequest,
    ) -> Answer<'_, ListPodSandboxStatsResponse> {
        self.answer("ListPodSandboxStats", move |core, state, now| {
            let filter = request.filter.as_ref();
            let stats = stats::of_sandboxes(state, filter, &core.shape.mountpoint, now);
            Ok(ListPodSandboxStatsResponse { stats })
        })
    }

    fn list_metric_descriptors(
        &self,
        _: ListMetricDescriptorsRequest,
    ) -> Answer<'_, ListMetricDescriptorsResponse> {
        self.answer("ListMetricDescriptors", |_, _, _| {
            Ok(ListMetricDescriptorsResponse::default())
        })
    }

    fn list_pod_sandbox_metrics(
        &self,
        _: ListPodSandboxMetricsRequest,
    ) -> Answer<'_, ListPodSandboxMetricsResponse> {
        self.answer("ListPodSandboxMetrics", |_, _, _| {
            Ok(ListPodSandboxMetricsResponse::default())
        })
    }

    fn list_images(&self, request: ListImagesRequest) -> Answer<'_, ListImagesResponse> {
        self.answer("ListImages", move |_, state, _| {
            let images = state.images.list(request.filter.as_ref());
            Ok(ListImagesResponse { images })
        })
    }

    fn image_status(&self, request: ImageStatusRequest) -> Answer<'_, ImageStatusResponse> {
        self.answer("ImageStatus", |_, state, _| {
            let wanted = request.image.unwrap_or_default().image;
            Ok(ImageStatusResponse {
                image: state.images.status(&wanted),
                ..ImageStatusResponse::default()
            })
        })
    }

    fn pull_image(&self, request: PullImageRequest) -> Answer<'_, PullImageResponse> {
        const CALL: &str = "PullImage";
        Box::pin(async move {
            let image = request.image.unwrap_or_default().image;
            let name = Name::parse(&image).map_err(|refusal| refusal.of(CALL))?;
            let annotations = request.sandbox_config.unwrap_or_default().annotations;
            let pull = Pull::read(&annotations).map_err(|error| Refusal::from(error).of(CALL))?;
            let wanted = image.clone();
            let there = self.answer(CALL, move |_, state, _| {
                Ok(state.images.find(&wanted).is_some())
            });
            // What is there already is only compared with the registry's.
            let usual = if there.await? {
                Duration::ZERO
            } else {
                self.core.shape.pull_delay
            };
            let delay = pull.delay.unwrap_or(usual);
            self.core.clock.sleep(delay).await;
            if let Some(text) = pull.failure {
                return Err(Refusal::Pull { image, text }.of(CALL));
            }
            let (mut state, _) = self.core.look();
            let image_ref = state.images.add(name).id();
            Ok(PullImageResponse { image_ref })
        })
    }

    fn remove_image(&self, request: RemoveImageRequest) -> Answer<'_, RemoveImageResponse> {
        self.answer("RemoveImage", |_, state, _| {
            let wanted = request.image.unwrap_or_default().image;
            state.images.remove(&wanted);
            Ok(RemoveImageResponse {})
        })
    }

    fn image_fs_info(&self, _: ImageFsInfoRequest) -> Answer<'_, ImageFsInfoResponse> {
        self.answer("ImageFsInfo", |core, state, now| {
            let usage = vec![disk_usage(core, state, now)];
            Ok(ImageFsInfoResponse {
                image_filesystems: usage.clone(),
                container_filesystems: usage,
            })
        })
    }
}

fn good(kind: &str) -> RuntimeCondition {
    RuntimeCondition {
        r#type: kind.to_owned(),
        status: true,
        ..RuntimeCondition::default()
    }
}

/// The one for pods that choose none, and its name, as containerd has them.
fn handlers() -> Vec<RuntimeHandler> {
    let handler = |name: &str| RuntimeHandler {
        name: name.to_owned(),
        features: Some(RuntimeHandlerFeatures {
            recursive_read_only_mounts: true,
            user_namespaces: true,
        }),
    };
    vec![handler(""), handler("runc")]
}

fn network_condition(state: &State) -> RuntimeCondition {
    let ready = good("NetworkReady");
    if state.network_is_ready() {
        return ready;
    }
    RuntimeCondition {
        status: false,
        reason: "NetworkPluginNotReady".to_owned(),
        message: "Network plugin returns error: no pod CIDR was told yet".to_owned(),
        ..ready
    }
}

/// A container to do something with that only one that runs can stand.
pub(super) fn running<'a>(
    state: &'a State,
    id: &str,
    wanted: &'static str,
) -> Result<&'a Container, Refusal> {
    let container = state.container(id)?;
    if container.is_running() {
        return Ok(container);
    }
    Err(Refusal::WrongState {
        id: container.id.to_string(),
        state: container.state_name(),
        wanted,
    })
}

/// Images and layers are on one disk.
fn disk_usage(core: &Core, state: &State, now: Moment) -> seams::cri::FilesystemUsage {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let containers = count(state.containers().count());
    let used = state.images.size() + containers * stats::WRITABLE_BYTES;
    let capacity = core.shape.storage;
    let free = capacity.saturating_sub(used);
    let left = core.faults.borrow().disk.left(free, capacity);
    let inodes =
        count(state.images.count()) * INODES_PER_IMAGE + containers * stats::WRITABLE_INODES;
    stats::filesystem(&core.shape.mountpoint, capacity - left, inodes, now)
}

const INODES_PER_IMAGE: u64 = 2000;
