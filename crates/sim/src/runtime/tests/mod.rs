//! The runtime as those see it who call it.

mod events;
mod images;
mod life;
mod logs;
mod net;
mod network;
mod random;
mod stats;
mod streams;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use seams::cri::{self, ContainerState};
use seams::runtime::Code;
use seams::{Clock as _, Runtime as _, RuntimeError};
use testkit::clock::TokioClock;
use tokio::sync::watch;

use super::{Runtime, RuntimeShape};
use crate::faults::Faults;

const IMAGE: &str = "registry.example/app:v1";
const SECOND: Duration = Duration::from_secs(1);

/// When the clocks of these tests start; in nanoseconds.
const START: i64 = 1_800_000_000_000_000_000;

/// A runtime, and what it stands on.
struct Rig {
    runtime: Runtime,
    clock: Arc<TokioClock>,
    ail: watch::Sender<Faults>,
}

impl Rig {
    fn new() -> Self {
        Self::shaped(RuntimeShape::default())
    }

    fn shaped(shape: RuntimeShape) -> Self {
        let origin = SystemTime::UNIX_EPOCH + Duration::from_nanos(START.unsigned_abs());
        let clock = Arc::new(TokioClock::starting_at(origin));
        let (ail, faults) = watch::channel(Faults::default());
        let runtime = Runtime::new(Arc::new(shape), clock.clone(), faults);
        Self {
            runtime,
            clock,
            ail,
        }
    }

    async fn pass(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// Seconds since the start.
    fn seconds(&self) -> u64 {
        self.clock.uptime().as_secs()
    }

    async fn pull(&self) {
        let request = cri::PullImageRequest {
            image: Some(image(IMAGE)),
            ..cri::PullImageRequest::default()
        };
        self.runtime.pull_image(request).await.unwrap();
    }

    async fn pod(&self, name: &str, notes: &[(&str, &str)]) -> Result<String, RuntimeError> {
        let request = cri::RunPodSandboxRequest {
            config: Some(pod_config(name, notes)),
            runtime_handler: String::new(),
        };
        let answer = self.runtime.run_pod_sandbox(request).await?;
        Ok(answer.pod_sandbox_id)
    }

    async fn create(&self, pod: &str, name: &str) -> Result<String, RuntimeError> {
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: pod.to_owned(),
            config: Some(container_config(name)),
            sandbox_config: None,
        };
        let answer = self.runtime.create_container(request).await?;
        Ok(answer.container_id)
    }

    async fn start(&self, container: &str) -> Result<(), RuntimeError> {
        let container_id = container.to_owned();
        let request = cri::StartContainerRequest { container_id };
        self.runtime.start_container(request).await.map(drop)
    }

    async fn stop(&self, container: &str, timeout: i64) {
        let request = cri::StopContainerRequest {
            container_id: container.to_owned(),
            timeout,
        };
        self.runtime.stop_container(request).await.unwrap();
    }

    async fn remove(&self, container: &str) -> Result<(), RuntimeError> {
        let container_id = container.to_owned();
        let request = cri::RemoveContainerRequest { container_id };
        self.runtime.remove_container(request).await.map(drop)
    }

    async fn stop_pod(&self, pod: &str) {
        let pod_sandbox_id = pod.to_owned();
        let request = cri::StopPodSandboxRequest { pod_sandbox_id };
        self.runtime.stop_pod_sandbox(request).await.unwrap();
    }

    async fn remove_pod(&self, pod: &str) {
        let pod_sandbox_id = pod.to_owned();
        let request = cri::RemovePodSandboxRequest { pod_sandbox_id };
        self.runtime.remove_pod_sandbox(request).await.unwrap();
    }

    async fn status(&self, container: &str) -> Result<cri::ContainerStatus, RuntimeError> {
        let request = cri::ContainerStatusRequest {
            container_id: container.to_owned(),
            verbose: false,
        };
        let answer = self.runtime.container_status(request).await?;
        Ok(answer.status.unwrap())
    }

    async fn pod_status(&self, pod: &str) -> Result<cri::PodSandboxStatus, RuntimeError> {
        let request = cri::PodSandboxStatusRequest {
            pod_sandbox_id: pod.to_owned(),
            verbose: false,
        };
        let answer = self.runtime.pod_sandbox_status(request).await?;
        Ok(answer.status.unwrap())
    }

    /// A pod with one container that runs.
    async fn running(&self, notes: &[(&str, &str)]) -> (String, String) {
        self.pull().await;
        let pod = self.pod("web", notes).await.unwrap();
        let container = self.create(&pod, "app").await.unwrap();
        self.start(&container).await.unwrap();
        (pod, container)
    }
}

fn image(name: &str) -> cri::ImageSpec {
    cri::ImageSpec {
        image: name.to_owned(),
        ..cri::ImageSpec::default()
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|&(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn pod_config(name: &str, notes: &[(&str, &str)]) -> cri::PodSandboxConfig {
    let notes = notes.iter();
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            namespace: "default".to_owned(),
            attempt: 0,
        }),
        log_directory: format!("/var/log/pods/{name}"),
        labels: map(&[("io.kubernetes.pod.name", name)]),
        annotations: notes
            .map(|(key, value)| (format!("sim.ferrolet.dev/{key}"), (*value).to_owned()))
            .collect(),
        ..cri::PodSandboxConfig::default()
    }
}

fn container_config(name: &str) -> cri::ContainerConfig {
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata {
            name: name.to_owned(),
            attempt: 0,
        }),
        image: Some(image(IMAGE)),
        labels: map(&[("io.kubernetes.container.name", name)]),
        log_path: format!("{name}/0.log"),
        ..cri::ContainerConfig::default()
    }
}

fn code<T>(answer: Result<T, RuntimeError>) -> Option<Code> {
    answer.err().map(|error| error.code)
}

/// State, exit code and reason.
fn outcome(status: &cri::ContainerStatus) -> (ContainerState, i32, &str) {
    (status.state(), status.exit_code, &status.reason)
}
