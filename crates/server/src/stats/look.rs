//! One look at what a node and its pods use.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use seams::Host;
use seams::SharedClock;
use seams::host::{Depth, GroupFigures, InterfaceFigures};
use tracing::debug;
use types::observed::{ContainerState, ObservedContainer, ObservedPod, ObservedSandbox};

use super::places::{Found, GroupPlaces};

/// The first process of a machine is in the machine's own network.
const INIT: u32 = 1;

/// A group that was looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// Its path; empty if the runtime told of it, not the machine.
    pub(super) id: String,
    pub(super) at: Option<SystemTime>,
    /// The same, by the clock's uptime.
    pub(super) uptime: Duration,
    pub(super) figures: GroupFigures,
    /// Billionths of a core, now.
    pub(super) rate: Option<u64>,
}

/// What is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Look {
    pub(super) node: Option<Row>,
    /// What goes over the machine's own interfaces.
    pub(super) network: Option<Vec<InterfaceFigures>>,
    /// Of all pods; then of classes.
    pub(super) above: Vec<Row>,
    /// Groups beside those of pods, with what the API calls them.
    pub(super) system: Vec<(&'static str, Row)>,
    pub(super) pods: Vec<PodLook>,
}

/// A pod, as far as it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PodLook {
    pub(super) pod: Arc<ObservedPod>,
    pub(super) own: Option<Row>,
    pub(super) sandbox: Option<Row>,
    /// Of the sandbox; empty where nobody was asked.
    pub(super) image: Arc<str>,
    pub(super) network: Option<Vec<InterfaceFigures>>,
    /// How many processes, where the runtime tells.
    pub(super) processes: Option<u64>,
    /// For each container that runs.
    pub(super) containers: Vec<(Running, Option<Row>)>,
}

/// The place of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running(usize);

impl Running {
    pub(super) fn of(self, pod: &ObservedPod) -> &ObservedContainer {
        &pod.containers[self.0]
    }
}

impl PodLook {
    pub(super) fn container(&self, running: Running) -> &ObservedContainer {
        running.of(&self.pod)
    }

    /// The sandbox that it runs in.
    pub(super) fn ready_sandbox(&self) -> Option<&ObservedSandbox> {
        ready_sandbox(&self.pod)
    }

    /// Something of it runs that nobody has told of.
    fn lacks(&self) -> bool {
        self.containers.iter().any(|(_, row)| row.is_none())
    }

    /// Something of it is told: as with upstream, nothing is said of what is not known, for
    /// it would look like nothing used.
    pub(super) fn is_told(&self) -> bool {
        self.rows_of_containers().next().is_some()
    }

    pub(super) fn rows_of_containers(&self) -> impl Iterator<Item = &Row> {
        self.containers.iter().filter_map(|(_, row)| row.as_ref())
    }

    fn rows(&mut self) -> impl Iterator<Item = &mut Row> {
        let containers = self.containers.iter_mut();
        let containers = containers.filter_map(|(_, row)| row.as_mut());
        self.own
            .iter_mut()
            .chain(self.sandbox.iter_mut())
            .chain(containers)
    }
}

fn ready_sandbox(pod: &ObservedPod) -> Option<&ObservedSandbox> {
    pod.sandboxes.iter().find(|sandbox| sandbox.ready)
}

impl Look {
    /// Everything that has a group.
    pub(super) fn rows(&mut self) -> impl Iterator<Item = &mut Row> {
        let system = self.system.iter_mut().map(|(_, row)| row);
        let pods = self.pods.iter_mut().flat_map(PodLook::rows);
        let node = self.node.iter_mut();
        node.chain(&mut self.above).chain(system).chain(pods)
    }

    /// The runtime has to be asked for what the machine does not tell.
    pub(super) fn lacks(&self) -> bool {
        self.pods.iter().any(PodLook::lacks)
    }
}

/// What is looked at, and how closely.
#[derive(Clone, Debug)]
pub(super) struct Looking {
    pub(super) depth: Depth,
    pub(super) pods: Vec<Arc<ObservedPod>>,
    pub(super) places: Option<Arc<GroupPlaces>>,
    pub(super) system: Vec<(&'static str, PathBuf)>,
    pub(super) clock: SharedClock,
}

impl Looking {
    /// Reads files of the kernel's: not to be called where others wait.
    pub(super) fn look(&self, host: &dyn Host, found: &Mutex<Found>) -> Look {
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        let places = self.places.as_deref();
        let above = places.map(|places| [&places.pods].into_iter().chain(&places.classes));
        let above = above.into_iter().flatten();
        let system = self.system.iter();
        let pods = self.pods.iter().filter(|pod| pod.is_running());
        // When these were made is always told.
        let depth = self.depth.max(Depth::Processes);
        let row = |path: &Path| self.row(host, path, depth);
        let look = Look {
            node: row(Path::new("/")),
            network: self.network(host, Some(INIT)),
            above: above.filter_map(|path| row(path)).collect(),
            system: system
                .filter_map(|(name, path)| Some((*name, row(path)?)))
                .collect(),
            pods: pods
                .map(|pod| self.pod(host, &mut found, Arc::clone(pod)))
                .collect(),
        };
        let uids: HashSet<_> = look.pods.iter().map(|pod| &pod.pod.pod.uid).collect();
        let containers = look.pods.iter().flat_map(|pod| {
            let sandboxes = pod.pod.sandboxes.iter().map(|sandbox| &*sandbox.id);
            let containers = pod.pod.containers.iter();
            sandboxes.chain(containers.map(|container| &*container.id))
        });
        found.keep(&uids, &containers.collect());
        look
    }

    /// The kernel may have let it go since it was heard of.
    fn row(&self, host: &dyn Host, path: &Path, depth: Depth) -> Option<Row> {
        match host.group_figures(path, depth) {
            Ok(figures) => Some(Row {
                id: path.to_string_lossy().into_owned(),
                at: Some(self.clock.now()),
                uptime: self.clock.uptime(),
                figures: figures?,
                rate: None,
            }),
            Err(error) => {
                debug!(%error, "a group cannot be looked at");
                None
            }
        }
    }

    /// Of a container or a sandbox.
    fn group(&self, host: &dyn Host, found: &mut Found, pod: &Path, id: &str) -> Option<Row> {
        let group = found.of_container(host, pod, id)?;
        let row = self.row(host, &group, self.depth);
        if row.is_none() {
            found.lost(id);
        }
        row
    }

    fn network(&self, host: &dyn Host, process: Option<u32>) -> Option<Vec<InterfaceFigures>> {
        if self.depth < Depth::Processes {
            return None;
        }
        host.network_figures(process?).ok().flatten()
    }

    fn pod(&self, host: &dyn Host, found: &mut Found, pod: Arc<ObservedPod>) -> PodLook {
        let containers = pod.containers.iter().enumerate();
        let running =
            containers.filter(|(_, container)| container.state == ContainerState::Running);
        let mut look = PodLook {
            containers: running.map(|(index, _)| (Running(index), None)).collect(),
            pod,
            ..PodLook::default()
        };
        let uid = &look.pod.pod.uid;
        let place = self
            .places
            .as_deref()
            .and_then(|places| found.of_pod(host, places, uid));
        let Some(place) = place else {
            return look;
        };
        // Its processes are those of its containers.
        let own = match self.depth {
            Depth::Processes => Depth::Usage,
            depth => depth,
        };
        look.own = self.row(host, &place, own);
        if look.own.is_none() {
            found.lost_pod(uid);
            return look;
        }
        let pod = Arc::clone(&look.pod);
        let sandbox = ready_sandbox(&pod).map(|sandbox| &*sandbox.id);
        let mut process = None;
        match sandbox.filter(|_| self.depth >= Depth::Processes) {
            None => {}
            Some(id) if self.depth == Depth::Everything => {
                look.sandbox = self.group(host, found, &place, id);
            }
            // Nothing else of it is told.
            Some(id) => process = found.process_of_sandbox(host, &place, id),
        }
        for (running, figures) in &mut look.containers {
            *figures = self.group(host, found, &place, &running.of(&pod).id);
        }
        // Some runtimes have no process for the sandbox itself.
        let of_others = || {
            let mut rows = look.sandbox.iter().chain(look.rows_of_containers());
            rows.find_map(|row| row.figures.processes.first)
        };
        look.network = self.network(host, process.or_else(of_others));
        if let Some(id) = sandbox.filter(|_| process.is_some() && look.network.is_none()) {
            found.lost(id);
        }
        look
    }
}
