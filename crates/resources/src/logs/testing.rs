//! Disks in memory whose files can be renamed under those who write to them, a runtime
//! that writes logs, and a machine that tells of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use seams::cri::{
    Container, ContainerState, ContainerStatus, ContainerStatusRequest, ContainerStatusResponse,
    ListContainersRequest, ListContainersResponse, ReopenContainerLogRequest,
    ReopenContainerLogResponse,
};
use seams::host::{
    Answer as HostAnswer, DefaultRoute, DiskFigures, Grown, Growth, Hint, HostError, Interface,
    Listing, MachineFacts,
};
use seams::runtime::{Answer, Code};
use seams::storage::{
    Bind, Entry, FileSystem, GroupShare, MountPoint, PathKind, Shared, SubPathError, Tree, Usage,
    Work, WorkDone,
};
use seams::{Host, Runtime, RuntimeError, Storage};
use tokio::sync::{Notify, watch};

/// What is in a file, whatever it is called.
type Inode = Arc<Mutex<String>>;

/// A node with containers that write.
#[derive(Debug, Default)]
pub(crate) struct Node {
    state: Mutex<State>,
    /// Something was written that is to be told of.
    told: Notify,
    /// A container was started.
    started: watch::Sender<()>,
    /// A runtime that hangs goes on.
    pub(crate) go_on: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    files: BTreeMap<PathBuf, Inode>,
    /// What each container writes to.
    open: BTreeMap<String, Inode>,
    watched: BTreeSet<PathBuf>,
    grown: Vec<PathBuf>,
    /// How often files were looked at, and containers listed.
    pub(crate) sizes: usize,
    pub(crate) lists: usize,
    pub(crate) asked: usize,
    pub(crate) tried: usize,
    pub(crate) reopened: usize,
    pub(crate) reopening: usize,
    /// How the runtime fares with logs that are to be opened anew.
    pub(crate) reopens: Reopens,
    /// Nothing can be packed.
    pub(crate) full_disk: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reopens {
    #[default]
    Well,
    Not,
    /// But says that it did not.
    Secretly,
    /// Until it is told to go on.
    Late,
}

pub(crate) const LINKS: &str = "/links";

pub(crate) fn log_of(id: &str) -> PathBuf {
    PathBuf::from(format!("/logs/{id}/0.log"))
}

impl Node {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn start(&self, id: &str) {
        self.state().open(id);
        self.started.send_replace(());
    }

    /// A line of a container, and the line's end.
    pub(crate) fn write(&self, id: &str, line: &str) {
        let mut state = self.state();
        let open = Arc::clone(&state.open[id]);
        open.lock().unwrap().extend([line, "\n"]);
        let path = state
            .files
            .iter()
            .find(|(_, file)| Arc::ptr_eq(file, &open));
        let path = path.map(|(path, _)| path.clone());
        if let Some(path) = path.filter(|path| state.watched.contains(path)) {
            state.watched.remove(&path);
            state.grown.push(path);
            self.told.notify_one();
        }
    }

    pub(crate) fn remove(&self, path: &Path) {
        self.state().files.remove(path).unwrap();
    }

    /// The names beside a container's log, and what is in all of them, the oldest first.
    pub(crate) fn files(&self, id: &str) -> (Vec<String>, String) {
        let log = log_of(id);
        let directory = log.parent().unwrap();
        let state = self.state();
        let mut files: Vec<(String, String)> = state
            .files
            .iter()
            .filter(|(path, _)| path.parent() == Some(directory))
            .map(|(path, file)| {
                let name = path.file_name().unwrap().to_str().unwrap();
                (name.to_owned(), file.lock().unwrap().clone())
            })
            .collect();
        // The one that is written to has the shortest name, and is the newest.
        let first_is_newest = files.first().is_some_and(|(name, _)| name == "0.log");
        files.rotate_left(usize::from(first_is_newest));
        files.into_iter().unzip()
    }
}

impl State {
    fn open(&mut self, id: &str) {
        let file = self.files.entry(log_of(id)).or_default();
        self.open.insert(id.to_owned(), Arc::clone(file));
    }
}

impl Runtime for Node {
    fn list_containers(&self, _: ListContainersRequest) -> Answer<'_, ListContainersResponse> {
        let mut state = self.state();
        state.lists += 1;
        let containers = state.open.keys().map(|id| Container {
            id: id.clone(),
            state: ContainerState::ContainerRunning.into(),
            ..Container::default()
        });
        let containers = containers.collect();
        Box::pin(std::future::ready(Ok(ListContainersResponse {
            containers,
        })))
    }

    fn container_status(
        &self,
        request: ContainerStatusRequest,
    ) -> Answer<'_, ContainerStatusResponse> {
        self.state().asked += 1;
        let status = ContainerStatus {
            log_path: log_of(&request.container_id).display().to_string(),
            ..ContainerStatus::default()
        };
        let answer = ContainerStatusResponse {
            status: Some(status),
            ..ContainerStatusResponse::default()
        };
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn reopen_container_log(
        &self,
        request: ReopenContainerLogRequest,
    ) -> Answer<'_, ReopenContainerLogResponse> {
        Box::pin(async move {
            let reopens = self.state().reopens;
            self.state().reopening += 1;
            self.state().tried += 1;
            if reopens == Reopens::Late {
                self.go_on.notified().await;
            }
            let mut state = self.state();
            state.reopening -= 1;
            if reopens != Reopens::Not {
                state.open(&request.container_id);
                state.reopened += 1;
            }
            match reopens {
                Reopens::Well | Reopens::Late => Ok(ReopenContainerLogResponse::default()),
                Reopens::Not | Reopens::Secretly => Err(RuntimeError::new(
                    "ReopenContainerLog",
                    Code::DeadlineExceeded,
                    "no answer",
                )),
            }
        })
    }
}

fn unused<T>(path: &Path) -> Result<T, HostError> {
    Err(HostError::at(path, io::ErrorKind::Unsupported.into()))
}

impl Storage for Node {
    fn size(&self, path: &Path) -> Result<Option<u64>, HostError> {
        let mut state = self.state();
        state.sizes += 1;
        let file = state.files.get(path);
        Ok(file.map(|file| file.lock().unwrap().len() as u64))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<bool, HostError> {
        let mut state = self.state();
        if state.files.contains_key(to) {
            return Ok(false);
        }
        let absent = || HostError::at(from, io::ErrorKind::NotFound.into());
        let file = state.files.remove(from).ok_or_else(absent)?;
        state.files.insert(to.to_owned(), file);
        Ok(true)
    }

    fn compress(&self, file: &Path, beside: &Path, into: &Path) -> Result<(), HostError> {
        if self.state().full_disk {
            return Err(HostError::at(beside, io::ErrorKind::StorageFull.into()));
        }
        self.rename(file, into).map(drop)
    }

    fn remove_file(&self, path: &Path) -> Result<(), HostError> {
        self.state().files.remove(path);
        Ok(())
    }

    fn entries(&self, path: &Path) -> Result<Option<Vec<Entry>>, HostError> {
        let state = self.state();
        let inside = state
            .files
            .keys()
            .filter(|file| file.parent() == Some(path));
        let entries = inside.map(|file| Entry {
            name: file.file_name().unwrap().to_str().unwrap().to_owned(),
            is_directory: false,
        });
        Ok(Some(entries.collect()))
    }

    fn run(&self, work: Work) -> WorkDone<'_> {
        Box::pin(async move { work() })
    }

    fn dangling_links(&self, directory: &Path) -> Result<Vec<PathBuf>, HostError> {
        unused(directory)
    }

    fn remove_tree(&self, path: &Path) -> Result<(), HostError> {
        unused(path)
    }

    fn write_file(&self, path: &Path, _: &[u8], _: u32) -> Result<bool, HostError> {
        unused(path)
    }

    fn read_end(&self, path: &Path, _: usize) -> Result<Option<Vec<u8>>, HostError> {
        unused(path)
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

/// The machine around a node.
#[derive(Debug)]
pub(crate) struct Machine(pub(crate) Arc<Node>);

impl Host for Machine {
    fn growth(&self) -> Box<dyn Growth> {
        Box::new(Told(Arc::clone(&self.0)))
    }

    fn machine(&self) -> Result<MachineFacts, HostError> {
        Ok(MachineFacts::default())
    }

    fn disk(&self, _: &Path) -> Result<DiskFigures, HostError> {
        Ok(DiskFigures::default())
    }

    fn interfaces(&self) -> Result<Vec<Interface>, HostError> {
        Ok(Vec::new())
    }

    fn default_routes(&self) -> Result<Option<Vec<DefaultRoute>>, HostError> {
        Ok(None)
    }

    fn resolve<'a>(&'a self, _: &'a str) -> HostAnswer<'a, Vec<IpAddr>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, HostError> {
        unused(path)
    }

    fn list(&self, path: &Path) -> Result<Option<Listing>, HostError> {
        unused(path)
    }

    fn hint(&self, path: &Path) -> Hint {
        assert_eq!(path, Path::new(LINKS));
        let mut started = self.0.started.subscribe();
        Box::pin(async move {
            let _ = started.changed().await;
        })
    }

    fn write(&self, path: &Path, _: &[u8], _: u32) -> Result<(), HostError> {
        unused(path)
    }
}

#[derive(Debug)]
struct Told(Arc<Node>);

impl Growth for Told {
    fn watch(&mut self, file: &Path) {
        self.0.state().watched.insert(file.to_owned());
    }

    fn grown(&mut self) -> Grown<'_> {
        Box::pin(async move {
            loop {
                let grown = std::mem::take(&mut self.0.state().grown);
                if !grown.is_empty() {
                    return grown;
                }
                self.0.told.notified().await;
            }
        })
    }
}
