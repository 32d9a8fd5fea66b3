//! Files in memory, and a node with one pod, for tests.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStatus,
    Pod, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use seams::Runtime;
use seams::cri::{self, ContainerStatusRequest, ContainerStatusResponse};
use seams::host::{FileFacts, FileId, FileRead, OpenFile};
use seams::runtime::{Answer, Code, RuntimeError};
use tempfile::TempDir;
use testkit::clock::TokioClock;
use testkit::host::LinuxHost;
use types::desired::{DesiredPod, Source};
use types::served::{Fixed, FixedPod};
use types::{PodBook, PodUid};

use super::{ContainerLogs, ContainerLogsConfig};

#[derive(Debug)]
pub(crate) struct MemoryFile {
    content: Vec<u8>,
    /// At most so much at once.
    gives: usize,
    read: AtomicU64,
}

impl MemoryFile {
    pub(crate) fn new(content: impl Into<Vec<u8>>) -> Self {
        Self {
            content: content.into(),
            gives: usize::MAX,
            read: AtomicU64::new(0),
        }
    }

    pub(crate) fn giving(mut self, gives: usize) -> Self {
        self.gives = gives;
        self
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

impl OpenFile for MemoryFile {
    fn facts(&self) -> io::Result<FileFacts> {
        Ok(FileFacts {
            id: FileId {
                device: 1,
                inode: 1,
            },
            size: self.content.len() as u64,
            modified: SystemTime::UNIX_EPOCH,
        })
    }

    fn read_at(&self, at: u64, most: usize) -> FileRead<'_> {
        let at = usize::try_from(at).unwrap().min(self.content.len());
        let rest = &self.content[at..];
        let block = rest[..rest.len().min(most).min(self.gives)].to_vec();
        self.read.fetch_add(block.len() as u64, Ordering::Relaxed);
        Box::pin(async move { Ok(block) })
    }
}

/// A node on which the pod `shop/web` runs, whose container `main` is in its second
/// run; of `broken` nothing can be had.
#[derive(Debug)]
pub(crate) struct Node {
    place: TempDir,
    runs: Arc<AtomicBool>,
    pub(crate) logs: ContainerLogs,
}

#[derive(Debug)]
struct Containers {
    logs: PathBuf,
    runs: Arc<AtomicBool>,
}

impl Runtime for Containers {
    fn container_status(
        &self,
        request: ContainerStatusRequest,
    ) -> Answer<'_, ContainerStatusResponse> {
        let run = match request.container_id.as_str() {
            "now" => 1,
            "before" => 0,
            _ => {
                let error = RuntimeError::new("ContainerStatus", Code::NotFound, "none");
                return Box::pin(async { Err(error) });
            }
        };
        let running = run == 1 && self.runs.load(Ordering::Relaxed);
        let state = if running {
            cri::ContainerState::ContainerRunning
        } else {
            cri::ContainerState::ContainerExited
        };
        let path = self.logs.join(format!("{run}.log"));
        let status = cri::ContainerStatus {
            state: state as i32,
            log_path: path.display().to_string(),
            ..cri::ContainerStatus::default()
        };
        Box::pin(async {
            Ok(ContainerStatusResponse {
                status: Some(status),
                ..ContainerStatusResponse::default()
            })
        })
    }
}

fn served() -> PodBook {
    let named = |name: &str| Container {
        name: name.to_owned(),
        ..Container::default()
    };
    let status = |name: &str, id: &str| ContainerStatus {
        name: name.to_owned(),
        container_id: Some(format!("containerd://{id}")),
        state: Some(ContainerState {
            running: Some(ContainerStateRunning::default()),
            ..ContainerState::default()
        }),
        last_state: Some(ContainerState {
            terminated: Some(ContainerStateTerminated {
                container_id: Some("containerd://before".to_owned()),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        }),
        ..ContainerStatus::default()
    };
    let pod = Pod {
        metadata: ObjectMeta {
            name: Some("web".to_owned()),
            namespace: Some("shop".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![named("main"), named("broken"), named("late")],
            ..PodSpec::default()
        }),
        status: Some(PodStatus {
            container_statuses: Some(vec![status("main", "now"), status("broken", "gone")]),
            ..PodStatus::default()
        }),
    };
    PodBook::new(Fixed(vec![FixedPod {
        uid: PodUid::new("1"),
        pod: DesiredPod {
            pod: Arc::new(pod),
            source: Source::Api,
            mirror: None,
        },
        status: None,
        observed: None,
    }]))
}

impl Node {
    pub(crate) fn new(split_streams: bool) -> Self {
        let place = tempfile::tempdir().unwrap();
        let logs = place.path().join("pods/shop_web_1/main");
        fs::create_dir_all(&logs).unwrap();
        let runs = Arc::new(AtomicBool::new(true));
        let runtime = Containers {
            logs,
            runs: Arc::clone(&runs),
        };
        let origin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_475_713_040);
        let logs = ContainerLogs::new(ContainerLogsConfig {
            book: served(),
            host: Arc::new(LinuxHost::new("/".into())),
            runtime: Arc::new(runtime),
            clock: Arc::new(TokioClock::starting_at(origin)),
            split_streams,
        });
        Self { place, runs, logs }
    }

    /// Where the log of a run is.
    pub(crate) fn log(&self, run: u32) -> PathBuf {
        let logs = self.place.path().join("pods/shop_web_1/main");
        logs.join(format!("{run}.log"))
    }

    pub(crate) fn secret(&self) -> PathBuf {
        let secret = self.place.path().join("secret");
        fs::write(&secret, "2016-10-06T00:17:09Z stdout F s3cret\n").unwrap();
        secret
    }

    /// Adds lines to the log of the run at hand, each in a write of its own.
    pub(crate) fn print(&self, lines: impl IntoIterator<Item = String>) {
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).open(self.log(1)).unwrap();
        for line in lines {
            let line = format!("2016-10-06T00:17:09.5Z stdout F {line}\n");
            file.write_all(line.as_bytes()).unwrap();
        }
    }

    pub(crate) fn end(&self) {
        self.runs.store(false, Ordering::Relaxed);
    }
}
