//! Starts containers: the image, the configuration, the files beside it, and then
//! the container itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::events::Severity;
use images::{PullPolicy, Request, Said};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Secret};
use seams::cri;
use seams::host::HostError;
use seams::storage::perform;
use status::Waiting;
use tracing::info;
use types::observed::ObservedPod;

use super::end::{Doomed, NotStarted};
use super::image_volumes::{ImageVolumes, missing_image};
use super::logs::{link_name, next_log};
use super::{Outcome, RETRY};
use crate::metrics::{self, Metrics};
use crate::objects::Found;
use crate::plan::{Kind, Start, backoff_key};
use crate::slot::Slot;
use crate::spec::container::{ContainerSources, config, of_ephemeral};
use crate::spec::downward::Surroundings;
use crate::spec::env::files::EnvFiles;
use crate::spec::env::{EnvError, Environment, Sources};
use crate::spec::hostname::Hostname;
use crate::spec::mounts::{
    self, MountSources, MountedVolume, VolumeContent, sub_path, termination_file,
};
use crate::spec::sandbox::log_directory;
use crate::spec::security::{ImageUser, PodSecurity};
use crate::spec::{hosts, spec_of, uses_host_network};
use crate::task::Worker;
use crate::unseen::Made;

const LOGS_MODE: u32 = 0o755;
const HOSTS_MODE: u32 = 0o644;
const CONTAINER_MODE: u32 = 0o750;
/// Whoever the container runs as writes its last words there.
const TERMINATION_MODE: u32 = 0o666;
/// What failed for the first time is tried again soon. A pull is not, but its wait is
/// told of then.
const SOON: Duration = Duration::from_secs(1);

/// How a runtime begins to say that an image could not be mounted.
const NOT_MOUNTED: &str = "ImageVolumeMountFailed";

/// Why a container could not be started.
enum Trouble {
    /// It waits, with this to show in its status.
    Waiting(Waiting, Option<Duration>),
    /// The pod is to end.
    Cut,
}

/// What is the same for all containers of one start.
pub(super) struct Scene<'a> {
    pub(super) slot: &'a Slot,
    observed: &'a ObservedPod,
    sandbox_id: String,
    pub(super) sandbox: cri::PodSandboxConfig,
    security: PodSecurity,
    pub(super) found: Found,
    /// For whom images are, where they differ by it.
    pub(super) image_handler: String,
    images: ImageVolumes,
}

impl Trouble {
    fn new(reason: &str, message: impl Into<String>) -> Self {
        let waiting = Waiting {
            reason: reason.to_owned(),
            message: message.into(),
        };
        Self::Waiting(waiting, None)
    }

    /// An image that is not there, or not for this pod.
    fn of_pull(waiting: &images::Waiting) -> Self {
        let shown = Waiting {
            reason: waiting.reason.to_string(),
            message: waiting.message.clone(),
        };
        // A pull that failed has another reason the next time: that it waits.
        let pulled = matches!(
            waiting.reason,
            images::Reason::ErrImagePull
                | images::Reason::RegistryUnavailable
                | images::Reason::SignatureValidationFailed
        );
        let retry = waiting.retry_after.or(pulled.then_some(SOON));
        Self::Waiting(shown, retry)
    }

    /// Something about the container's configuration, before it was made.
    fn config(message: impl Into<String>) -> Self {
        Self::new("CreateContainerConfigError", message)
    }
}

impl Worker {
    pub(super) async fn start_all(
        &mut self,
        slot: &Slot,
        observed: &ObservedPod,
        starts: Vec<Start>,
    ) -> Outcome {
        let on = Arc::clone(&self.on);
        let Some(newest) = observed.sandboxes.first() else {
            return Outcome::Done;
        };
        let security = self.security(slot).await;
        let sandbox = security.and_then(|security| {
            let sandbox = self.sandbox_config(slot, newest.attempt, &security)?;
            Ok((sandbox, security))
        });
        let handler = self.image_handler(slot).await;
        let sandbox = sandbox.and_then(|(sandbox, security)| Ok((sandbox, security, handler?)));
        let (sandbox, security, image_handler) = match sandbox {
            Ok(sandbox) => sandbox,
            Err(None) => return Outcome::Cut,
            Err(Some(problem)) => {
                let message = format!("Failed to create pod sandbox: {problem}");
                on.telling
                    .warning(&slot.pod, "FailedCreatePodSandBox", message);
                return Outcome::Failed(on.spread(RETRY));
            }
        };
        let found = self.objects.find(on.objects.as_ref(), &slot.pod).await;
        self.tell_of_missing_pull_secrets(&slot.pod, &found);
        let mut scene = Scene {
            slot,
            observed,
            sandbox_id: newest.id.clone(),
            sandbox,
            security,
            found,
            image_handler,
            images: ImageVolumes::new(),
        };
        match self.image_volumes(&scene).await {
            Some(images) => scene.images = images,
            None => return Outcome::Cut,
        }
        let mut started = Vec::new();
        for start in starts {
            let name = start.container.clone();
            let kind = metrics::word(start.kind);
            on.metrics.containers.inc(&[kind]);
            // The next wait is told of, however this try ends.
            self.told_of_wait.retain(|(waited, _)| *waited != name);
            match self.start_one(&scene, &start).await {
                Ok(()) => {
                    self.known.waiting.remove(&name);
                    self.memory.retry_container_at.remove(&name);
                    started.push((start.kind, name));
                }
                Err(Trouble::Cut) => {
                    self.memory.replaced.clear();
                    return Outcome::Cut;
                }
                Err(Trouble::Waiting(waiting, retry_after)) => {
                    on.metrics.container_failures.inc(&[&waiting.reason, kind]);
                    let before = self.known.waiting.insert(name.clone(), waiting.clone());
                    let again = before.is_some_and(|before| before.reason == waiting.reason);
                    let pause = match retry_after {
                        Some(pause) => pause,
                        None if again => on.spread(RETRY),
                        None => SOON,
                    };
                    let retry_at = on.now() + pause;
                    self.memory.retry_container_at.insert(name, retry_at);
                }
            }
        }
        self.memory.replaced.clear();
        self.remove_outlived(slot, observed, &started).await;
        Outcome::Done
    }

    /// The handler of the pod's class, if the runtime is to hear of it.
    async fn image_handler(&self, slot: &Slot) -> Result<String, Option<String>> {
        if !self.on.images.differ_by_handler() {
            return Ok(String::new());
        }
        let handler = self.runtime_handler(slot).await;
        handler.map_err(|error| Some(error.to_string()))
    }

    async fn start_one(&mut self, scene: &Scene<'_>, start: &Start) -> Result<(), Trouble> {
        let on = Arc::clone(&self.on);
        let pod = &scene.slot.pod;
        let spec = spec_of(pod);
        let Some(container) = wanted(&spec, start) else {
            return Ok(());
        };
        let container = &*container;
        if let Some(ended) = start.before.as_ref().and_then(|before| before.ended) {
            let (key, pace) = (backoff_key(container), on.settings.backoff);
            let backoff = &mut self.memory.backoff;
            backoff.started(&container.name, &key, ended, on.now(), pace);
        }
        let about = (start.kind, container.name.as_str());
        let tell = |severity: Severity, reason: &str, message: String| {
            on.telling.container(pod, about, severity, reason, message);
        };
        let missing = missing_image(&scene.images, container, |waiting| {
            let said = waiting.container_event();
            tell(said.severity, said.reason, said.message);
        });
        if let Some(waiting) = missing {
            return Err(Trouble::of_pull(waiting));
        }
        let image = self.image(scene, start.kind, container).await?;
        let config = self.container_config(scene, start, container, &image);
        let config = config.await.inspect_err(|trouble| {
            if let Trouble::Waiting(waiting, _) = trouble {
                tell(
                    Severity::Warning,
                    "Failed",
                    format!("Error: {}", waiting.message),
                );
            }
        })?;
        // Before it runs: else an agent that dies here would not know what it was given.
        let noted = self.note_actuated(pod, container).await;
        noted.map_err(|problem| {
            tell(Severity::Warning, "Failed", format!("Error: {problem}"));
            Trouble::config(problem)
        })?;
        let path = config.log_path.clone();
        let turn = tokio::select! {
            turn = on.turns.take(self.rank(scene.slot)) => turn,
            () = self.cut(scene.slot) => return Err(Trouble::Cut),
        };
        // From here on nothing is cut: what is begun is ended, and looked at.
        let making = self.make(scene, start, config, &tell);
        let made = turn.spend(&*on.clock, making).await;
        count_image_volumes(&on.metrics, &scene.images, container, made.as_ref().err());
        let id = made?;
        tell(Severity::Normal, "Started", "Container started".to_owned());
        info!(pod = %self.pod, container = container.name, id, "a container was started");
        self.link_log(scene, &container.name, &id, &path).await;
        self.unseen
            .add(Made::Started(id.clone()), on.clock.uptime());
        let started = Doomed {
            id,
            kind: start.kind,
            container: container.clone(),
            ip: scene.observed.ips().first().cloned(),
            grace: scene.slot.own_grace(),
        };
        let settled = self.post_start(scene.slot, &started).await;
        settled.map_err(|failure| match failure {
            NotStarted::Cut => Trouble::Cut,
            NotStarted::Failed(message) => Trouble::new("PostStartHookError", message),
        })
    }

    /// Makes a container and starts it: its id.
    async fn make(
        &self,
        scene: &Scene<'_>,
        start: &Start,
        config: cri::ContainerConfig,
        tell: &(dyn Fn(Severity, &str, String) + Send + Sync),
    ) -> Result<String, Trouble> {
        let on = &self.on;
        let before = start.before.as_ref();
        if let Some(id) = before.and_then(|before| before.unstarted.clone()) {
            self.remove_unstarted(id).await?;
        }
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: scene.sandbox_id.clone(),
            config: Some(config),
            sandbox_config: Some(scene.sandbox.clone()),
        };
        let created = on.runtime.create_container(request).await;
        let created = created.map_err(|error| {
            let message = format!("Error: {}", error.message);
            tell(Severity::Warning, "Failed", message);
            Trouble::new("CreateContainerError", error.message)
        })?;
        let id = created.container_id;
        tell(Severity::Normal, "Created", "Container created".to_owned());
        let request = cri::StartContainerRequest {
            container_id: id.clone(),
        };
        on.runtime.start_container(request).await.map_err(|error| {
            let message = error.message.replace(&id, &start.container);
            tell(Severity::Warning, "Failed", format!("Error: {message}"));
            Trouble::new("RunContainerError", error.message)
        })?;
        Ok(id)
    }

    /// A runtime refuses while it is being started: then it will be seen to run.
    async fn remove_unstarted(&self, id: String) -> Result<(), Trouble> {
        let request = cri::RemoveContainerRequest { container_id: id };
        match self.on.runtime.remove_container(request).await {
            Err(error) if !error.is_not_found() => {
                Err(Trouble::new("CreateContainerError", error.message))
            }
            _ => Ok(()),
        }
    }

    /// The image, as the runtime names it.
    async fn image(
        &mut self,
        scene: &Scene<'_>,
        kind: Kind,
        container: &Container,
    ) -> Result<String, Trouble> {
        let on = Arc::clone(&self.on);
        let pod = &scene.slot.pod;
        let about = (kind, container.name.as_str());
        let say = |said: Said| {
            let Said {
                severity,
                reason,
                message,
            } = said;
            on.telling.container(pod, about, severity, reason, message);
        };
        let pull_secrets = pull_secrets(pod, &scene.found);
        let spec = spec_of(pod);
        let request = Request {
            pod: &self.pod,
            container: &container.name,
            image: container.image.as_deref().unwrap_or_default(),
            policy: PullPolicy::read(container.image_pull_policy.as_deref()),
            pull_secrets: &pull_secrets,
            sandbox: &scene.sandbox,
            runtime_handler: &scene.image_handler,
            service_account: spec.service_account_name.as_deref().unwrap_or_default(),
        };
        let ensured = tokio::select! {
            ensured = on.images.ensure(&request, &say) => ensured,
            () = self.cut(scene.slot) => return Err(Trouble::Cut),
        };
        match ensured {
            Ok(ensured) => {
                if let Some(pulled) = &ensured.pulled {
                    self.startup.pulled(pulled.since_asked);
                }
                Ok(ensured.image_ref)
            }
            Err(waiting) => {
                say(waiting.container_event());
                Err(Trouble::of_pull(&waiting))
            }
        }
    }

    async fn container_config(
        &self,
        scene: &Scene<'_>,
        start: &Start,
        container: &Container,
        image: &str,
    ) -> Result<cri::ContainerConfig, Trouble> {
        let on = &self.on;
        let pod = &scene.slot.pod;
        let target = target(scene, start)?;
        let env_files = self.env_files(container).await;
        let environment = self.environment(scene, container, env_files.as_ref())?;
        let image_user = self.image_user(container).await?;
        let logs = log_directory(&on.settings.logs, pod);
        let restart_count = match &start.before {
            Some(before) => before.attempt + 1,
            None => next_log(&on.storage, &logs.join(&container.name)).await,
        };
        let ips = self.ips(scene);
        let files = self.files(scene, container, &logs, &ips).await;
        let files = files.map_err(|error| Trouble::config(error.to_string()))?;
        let sub_paths = self.sub_paths(scene, container, &environment).await?;
        let volumes = self.volumes(&scene.images);
        let sources = ContainerSources {
            restart_count,
            image,
            image_user: &image_user,
            environment: &environment,
            mounts: MountSources {
                volumes: &volumes,
                sub_paths: &sub_paths,
                hosts_file: &files.hosts,
                termination_file: files.termination.as_deref(),
                has_addresses: !ips.is_empty(),
                recursive_read_only: self.known.recursive_read_only,
                selinux: on.settings.security.selinux,
            },
            enforcement: &on.enforcement,
            security: &scene.security,
            settings: &on.settings.security,
            stop_signals: on.settings.stop_signals,
            target,
        };
        let config = config(pod, container, &sources);
        let config = config.map_err(|error| Trouble::config(error.to_string()))?;
        // Last: what cannot be made is tried again for ever, and must not leave one each time.
        if let Some(path) = files.termination.clone() {
            let made = perform(&on.storage, move |storage| {
                storage.make_file(&path, TERMINATION_MODE)
            });
            let made = made.await.and_then(|made| made);
            made.map_err(|error| Trouble::config(error.to_string()))?;
        }
        Ok(config)
    }

    fn environment(
        &self,
        scene: &Scene<'_>,
        container: &Container,
        files: Option<&EnvFiles>,
    ) -> Result<Environment, Trouble> {
        let on = &self.on;
        let view = Arc::clone(&on.node.borrow());
        let surroundings = Surroundings {
            host_ips: view.host_ips.clone(),
            pod_ips: self.ips(scene),
            allocatable: view.allocatable.clone(),
        };
        let services = on.services.borrow().clone();
        let sources = Sources {
            services: services.as_ref().map(|services| services.as_slice()),
            config_maps: &scene.found.config_maps,
            secrets: &scene.found.secrets,
            unanswered: &scene.found.unanswered,
            has_api: on.objects.is_some(),
            files,
            surroundings: &surroundings,
        };
        let environment = Environment::of(&scene.slot.pod, container, &sources);
        environment.map_err(|error| {
            if let EnvError::File { path, cause: Some(cause) } = &error {
                let path = path.display();
                tracing::warn!(pod = %self.pod, container = container.name, %path, err = %cause, "a file with variables is not as it should be");
            }
            Trouble::config(error.to_string())
        })
    }

    /// The pod's own addresses, or the node's where it has none of its own.
    fn ips(&self, scene: &Scene<'_>) -> Vec<String> {
        if uses_host_network(&spec_of(&scene.slot.pod)) {
            let view = self.on.node.borrow();
            return view.host_ips.iter().map(ToString::to_string).collect();
        }
        scene.observed.ips().to_vec()
    }

    /// As whom the image wants to run.
    async fn image_user(&self, container: &Container) -> Result<ImageUser, Trouble> {
        let image = container.image.clone().unwrap_or_default();
        let request = cri::ImageStatusRequest {
            image: Some(cri::ImageSpec {
                image,
                ..cri::ImageSpec::default()
            }),
            verbose: false,
        };
        let status = self.on.runtime.image_status(request).await;
        let status = status.map_err(|error| Trouble::config(super::grpc(&error)))?;
        Ok(ImageUser::of(status.image.as_ref()))
    }

    fn volumes(&self, images: &ImageVolumes) -> BTreeMap<String, MountedVolume> {
        let volumes = self.mounted.iter().flat_map(|mounted| &mounted.volumes);
        let entry = |volume: &volumes::MountedVolume| {
            let mounted = MountedVolume {
                content: match images.get(&volume.name) {
                    Some(Ok(image)) => VolumeContent::Image(image.clone()),
                    _ => VolumeContent::Path(volume.path.clone()),
                },
                read_only: volume.read_only,
                relabel: volume.relabel,
            };
            (volume.name.clone(), mounted)
        };
        volumes.map(entry).collect()
    }

    /// Parts of volumes, each mounted at a path of its own.
    async fn sub_paths(
        &self,
        scene: &Scene<'_>,
        container: &Container,
        environment: &Environment,
    ) -> Result<BTreeMap<usize, PathBuf>, Trouble> {
        let mut paths = BTreeMap::new();
        let mounted = self.mounted.iter().flat_map(|mounted| &mounted.volumes);
        let mounted: Vec<&volumes::MountedVolume> = mounted.collect();
        for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
            let wanted = sub_path(mount, environment);
            let wanted = wanted.map_err(|error| Trouble::config(error.to_string()))?;
            let Some(wanted) = wanted else { continue };
            // A part of an image is the runtime's affair.
            if scene.images.contains_key(&mount.name) {
                continue;
            }
            let Some(volume) = mounted.iter().find(|volume| volume.name == mount.name) else {
                continue;
            };
            let bound = self.on.volumes.bind_sub_path(
                &self.pod.uid,
                volume,
                &container.name,
                index,
                &wanted,
            );
            let bound = tokio::select! {
                bound = bound => bound,
                () = self.cut(scene.slot) => return Err(Trouble::Cut),
            };
            let path = bound.map_err(|error| Trouble::config(error.to_string()))?;
            paths.insert(index, path);
        }
        Ok(paths)
    }

    /// The files that belong to a container, made.
    async fn files(
        &self,
        scene: &Scene<'_>,
        container: &Container,
        logs: &Path,
        ips: &[String],
    ) -> Result<Files, HostError> {
        let on = &self.on;
        let pod = &scene.slot.pod;
        let directory = on.settings.layout.pod(&self.pod.uid);
        let hosts_file = directory.join("etc-hosts");
        let hosts = mounts::wants_hosts_file(pod, container, !ips.is_empty())
            .then(|| self.hosts(scene, ips))
            .transpose()?;
        let own = directory.join("containers").join(&container.name);
        let has_last_words = container
            .termination_message_path
            .as_deref()
            .is_some_and(|path| !path.is_empty());
        // No two containers of a pod get the same.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "any number will do"
        )]
        let random = (on.clock.random() * f64::from(u32::MAX)) as u32;
        let termination = has_last_words.then(|| termination_file(&own, random));
        let files = Files {
            hosts: hosts_file,
            termination,
        };
        let made = files.clone();
        let log_directory = logs.join(&container.name);
        perform(&on.storage, move |storage| {
            storage.make_directory(&log_directory, LOGS_MODE, LOGS_MODE)?;
            storage.make_directory(&own, CONTAINER_MODE, CONTAINER_MODE)?;
            if let Some(hosts) = hosts {
                storage.write_file(&made.hosts, &hosts, HOSTS_MODE)?;
            }
            Ok(())
        })
        .await??;
        Ok(files)
    }

    fn hosts(&self, scene: &Scene<'_>, ips: &[String]) -> Result<Vec<u8>, HostError> {
        let on = &self.on;
        let pod = &scene.slot.pod;
        let spec = spec_of(pod);
        let aliases = spec.host_aliases.as_deref().unwrap_or_default();
        if uses_host_network(&spec) {
            let of_node = on.host.read(&on.settings.hosts_file)?.unwrap_or_default();
            return Ok(hosts::of_node(&of_node, aliases));
        }
        let name = Hostname::of(pod, &on.settings.dns).unwrap_or_default();
        Ok(hosts::own(ips, &name, aliases))
    }

    /// For those who read the logs of a machine. One that cannot be made is missed
    /// by nobody here.
    async fn link_log(&self, scene: &Scene<'_>, container: &str, id: &str, path: &str) {
        let on = &self.on;
        let target = log_directory(&on.settings.logs, &scene.slot.pod).join(path);
        let name = &self.pod.name;
        let at = on
            .settings
            .log_links
            .join(link_name(&name.name, &name.namespace, container, id));
        let links = on.settings.log_links.clone();
        let made = perform(&on.storage, move |storage| {
            storage.make_directory(&links, LOGS_MODE, LOGS_MODE)?;
            storage.link(&target, &at)
        });
        if let Err(error) = made.await.and_then(|made| made) {
            tracing::warn!(pod = %self.pod, container, %error, "no link to a container's log");
        }
    }

    fn tell_of_missing_pull_secrets(&self, pod: &Pod, found: &Found) {
        let spec = spec_of(pod);
        let wanted = spec.image_pull_secrets.iter().flatten();
        let missing = wanted
            .map(|secret| secret.name.as_str())
            .filter(|name| !found.secrets.contains_key(*name));
        let missing: Vec<&str> = missing.collect();
        if !missing.is_empty() {
            let message = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                missing.join(", ")
            );
            let reason = "FailedToRetrieveImagePullSecret";
            self.on.telling.warning(pod, reason, message);
        }
    }
}

/// The runtime names a mount that failed first.
fn count_image_volumes(
    metrics: &Metrics,
    images: &ImageVolumes,
    container: &Container,
    trouble: Option<&Trouble>,
) {
    let mounts = container.volume_mounts.iter().flatten();
    let images = mounts.filter(|mount| images.contains_key(&mount.name));
    let count = images.count() as u64;
    metrics.image_volumes.add(count);
    let unmounted = matches!(trouble, Some(Trouble::Waiting(waiting, _))
        if waiting.reason == "CreateContainerError" && waiting.message.starts_with(NOT_MOUNTED));
    if unmounted {
        metrics.image_volumes_failed.add(count);
    } else {
        metrics.image_volumes_mounted.add(count);
    }
}

/// The container that is to be started, if the pod still has it.
fn wanted<'a>(spec: &'a PodSpec, start: &Start) -> Option<Cow<'a, Container>> {
    let list = match start.kind {
        Kind::Init => spec.init_containers.as_deref().unwrap_or_default(),
        Kind::Regular => &spec.containers,
        Kind::Ephemeral => {
            let mut all = spec.ephemeral_containers.iter().flatten();
            let found = all.find(|one| one.name == start.container)?;
            return Some(Cow::Owned(of_ephemeral(found)));
        }
    };
    let found = list.iter().find(|one| one.name == start.container)?;
    Some(Cow::Borrowed(found))
}

/// The id of the container whose processes an ephemeral one looks at.
fn target<'a>(scene: &Scene<'a>, start: &Start) -> Result<Option<&'a str>, Trouble> {
    if start.kind != Kind::Ephemeral {
        return Ok(None);
    }
    let spec = spec_of(&scene.slot.pod);
    let mut all = spec.ephemeral_containers.iter().flatten();
    let own = all.find(|one| one.name == start.container);
    let name = own.and_then(|one| one.target_container_name.as_deref());
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    match scene.observed.container(name) {
        Some(target) => Ok(Some(&target.id)),
        None => Err(Trouble::config(format!(
            "unable to find target container {name}"
        ))),
    }
}

/// Files that a container is given.
#[derive(Clone, Debug)]
struct Files {
    hosts: PathBuf,
    termination: Option<PathBuf>,
}

/// Those that there are, in the pod's order.
pub(super) fn pull_secrets(pod: &Pod, found: &Found) -> Vec<Secret> {
    let spec = spec_of(pod);
    let wanted = spec.image_pull_secrets.iter().flatten();
    wanted
        .filter_map(|secret| found.secrets.get(&secret.name).cloned())
        .collect()
}
