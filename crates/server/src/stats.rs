//! What a node and its pods use: `/stats/summary`, `/metrics/resource` and
//! `/metrics/cadvisor`.
//!
//! In: who runs (pods as they were observed), the machine's and the runtime's figures,
//! and what others have counted (volumes). Out: answers in upstream's words.
//!
//! Nothing is looked at while nobody asks. A request looks at groups of processes then
//! and there, which takes a fraction of a millisecond for each pod, and for a second others
//! are told the same ([`again`]); what is on disks is
//! looked at beside the requests ([`DiskLooks`]), and only where the machine does not
//! tell is the runtime asked.

mod again;
mod cadvisor;
mod disks;
mod from_runtime;
mod gauges;
mod look;
mod model;
mod places;
mod rates;
mod resource;
mod sandbox_images;
mod summary;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use percent_encoding::percent_decode_str;
use seams::host::{Depth, HostError, MachineFacts};
use seams::storage::perform;
use seams::{RuntimeError, SharedClock, SharedHost, SharedRuntime, SharedStorage, timeout};
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tracing::warn;
use types::disk_figures::DiskFigures;
use types::observed::ObservedPod;
use types::volume_figures::PodVolumeFigures;

pub use disks::{Directories, DiskLooks};
pub use places::{GroupPlaces, PlacesOfPod};

use crate::answer::text as plain;
use crate::body::{Body, full, whole};
use again::Again;
use cadvisor::{Pieces, Scrape};
use disks::DiskLook;
use from_runtime::Told;
use look::{Look, Looking};
use places::Found;
use rates::Rates;
use sandbox_images::SandboxImages;
use summary::{Material, Rest};

/// Every pod of which the runtime holds anything, as it was last observed.
pub type ObservedPods = Arc<dyn Fn() -> Vec<Arc<ObservedPod>> + Send + Sync>;

/// For the first look at disks; later ones are not waited for.
const FIRST_DISK_LOOK: Duration = Duration::from_secs(2);

/// How long what a machine is made of is believed.
const MACHINE_STAYS: Duration = Duration::from_secs(5 * 60);

/// What the API calls the node agent's own group.
const OWN: &str = "kubelet";

/// In which groups a process is.
const OWN_GROUPS: &str = "/proc/self/cgroup";

/// What figures are made of.
pub struct Sources {
    pub node_name: String,
    pub host: SharedHost,
    pub storage: SharedStorage,
    pub runtime: SharedRuntime,
    pub clock: SharedClock,
    pub pods: ObservedPods,
    /// `None` until they are made, or if pods have none.
    pub places: watch::Receiver<Option<Arc<GroupPlaces>>>,
    pub directories: Directories,
    pub system: SystemGroups,
    pub volumes: watch::Receiver<Arc<PodVolumeFigures>>,
    /// Told whenever somebody wants to know what is on disks.
    pub asked: watch::Sender<()>,
    /// What was found there.
    pub disks: watch::Sender<Arc<DiskFigures>>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sources").finish_non_exhaustive()
    }
}

/// Groups beside those of pods, where they are configured.
#[derive(Clone, Debug, Default)]
pub struct SystemGroups {
    /// `kubeletCgroups`; without it the group that this process is in.
    pub kubelet: Option<PathBuf>,
    /// `--runtime-cgroups`.
    pub runtime: Option<PathBuf>,
    /// `systemCgroups`.
    pub misc: Option<PathBuf>,
}

/// Why there is no answer.
#[derive(Debug, Error)]
enum StatsError {
    #[error("failed to list pod stats: {0}")]
    Runtime(#[from] RuntimeError),
    #[error("failed to look at the machine: {0}")]
    Host(#[from] HostError),
}

/// Answers for figures of use.
pub struct Stats {
    sources: Sources,
    disks: watch::Receiver<Arc<DiskLook>>,
    started: SystemTime,
    /// One look at a time: who comes meanwhile waits without a thread. A look goes on when
    /// nobody waits for it any more, and keeps its turn to its end.
    turn: Arc<Semaphore>,
    /// Held by the look whose turn it is, while it reads the kernel's files.
    found: Arc<Mutex<Found>>,
    /// Held for one access.
    rates: Mutex<Rates>,
    /// Held for one access. With the uptime of the look.
    machine: Mutex<Option<(Duration, Arc<MachineFacts>)>>,
    sandbox_images: SandboxImages,
    said: Said,
}

/// What was said a moment ago.
#[derive(Debug, Default)]
struct Said {
    summary: Again,
    only_cpu_and_memory: Again,
    resource: Again,
}

impl fmt::Debug for Stats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stats").finish_non_exhaustive()
    }
}

/// A look, and what went wrong with it.
struct Taken {
    look: Look,
    failure: Option<StatsError>,
}

impl Stats {
    /// With the task that looks at disks.
    pub fn new(sources: Sources) -> (Self, DiskLooks) {
        let (published, disks) = watch::channel(Arc::default());
        let looks = DiskLooks {
            runtime: Arc::clone(&sources.runtime),
            storage: Arc::clone(&sources.storage),
            clock: Arc::clone(&sources.clock),
            directories: sources.directories.clone(),
            pods: Arc::clone(&sources.pods),
            asked: sources.asked.subscribe(),
            published,
            figures: sources.disks.clone(),
        };
        let stats = Self {
            started: sources.clock.now(),
            sources,
            disks,
            turn: Arc::new(Semaphore::new(1)),
            found: Arc::default(),
            rates: Mutex::default(),
            machine: Mutex::default(),
            sandbox_images: SandboxImages::default(),
            said: Said::default(),
        };
        (stats, looks)
    }

    /// `/stats/summary`.
    pub async fn summary(&self, query: &str) -> Response<Body> {
        let only_cpu_and_memory = only_cpu_and_memory(query);
        let said = if only_cpu_and_memory {
            &self.said.only_cpu_and_memory
        } else {
            &self.said.summary
        };
        let make = self.summed_up(only_cpu_and_memory);
        match said.or(&*self.sources.clock, make).await {
            Ok(content) => {
                let mut answer = Response::new(full(content));
                let json = HeaderValue::from_static("application/json");
                answer.headers_mut().insert(CONTENT_TYPE, json);
                answer
            }
            Err(error) => {
                warn!(%error, "what pods use cannot be told");
                let said = format!("Internal Error: {error}");
                whole(plain(StatusCode::INTERNAL_SERVER_ERROR, said))
            }
        }
    }

    /// `/metrics/resource`.
    pub async fn resource(&self) -> Response<Body> {
        let make = async {
            let Taken { look, failure } = self.take(Depth::Usage).await;
            Ok::<_, Infallible>(resource::write(&look, told(failure.as_ref())))
        };
        let Ok(content) = self.said.resource.or(&*self.sources.clock, make).await;
        exposed(full(content))
    }

    /// `/metrics/cadvisor`.
    pub async fn cadvisor(&self) -> Response<Body> {
        let host = Arc::clone(&self.sources.host);
        let machine = perform(&self.sources.storage, move |_| host.machine_figures()).await;
        let machine = machine.and_then(|machine| machine).unwrap_or_default();
        let facts = self.machine().unwrap_or_default();
        let Taken { mut look, failure } = self.take(Depth::Everything).await;
        let (runtime, clock) = (&*self.sources.runtime, &*self.sources.clock);
        self.sandbox_images.tell(runtime, clock, &mut look).await;
        let now = clock.now();
        let facts = Arc::unwrap_or_clone(facts);
        let scrape = Scrape::new(look, machine, facts, told(failure.as_ref()), now);
        exposed(Pieces::new(scrape).boxed_unsync())
    }

    async fn summed_up(&self, only_cpu_and_memory: bool) -> Result<Vec<u8>, StatsError> {
        let sources = &self.sources;
        let depth = if only_cpu_and_memory {
            Depth::Usage
        } else {
            Depth::Processes
        };
        let Taken { mut look, failure } = self.take(depth).await;
        if let Some(error) = failure {
            return Err(error);
        }
        self.look_again(&mut look).await?;
        let machine = self.machine()?;
        let mut material = Material {
            node_name: &sources.node_name,
            look: &look,
            machine: &machine,
            rest: None,
        };
        if only_cpu_and_memory {
            return Ok(json(&material));
        }
        let disks = self.disks().await;
        let (host, root) = (Arc::clone(&sources.host), sources.directories.root.clone());
        let looked = perform(&sources.storage, move |storage| {
            (host.machine_figures(), storage.file_system(&root))
        });
        let (figures, root) = looked.await?;
        let (figures, volumes) = (figures?, Arc::clone(&sources.volumes.borrow()));
        material.rest = Some(Rest {
            now: sources.clock.now(),
            machine: &figures,
            disks: &disks,
            root: root.ok(),
            volumes: &volumes,
        });
        Ok(json(&material))
    }

    async fn take(&self, depth: Depth) -> Taken {
        let sources = &self.sources;
        let looking = Looking {
            depth,
            pods: (sources.pods)(),
            places: sources.places.borrow().clone(),
            system: self.system(),
            clock: Arc::clone(&sources.clock),
        };
        let (host, found) = (Arc::clone(&sources.host), Arc::clone(&self.found));
        // It is never closed.
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let looked = perform(&sources.storage, move |_| {
            let _turn = turn;
            looking.look(&*host, &found)
        });
        let mut look = match looked.await {
            Ok(look) => look,
            Err(error) => {
                return Taken {
                    look: Look::default(),
                    failure: Some(error.into()),
                };
            }
        };
        for (_, row) in look.system.iter_mut().filter(|(name, _)| *name == OWN) {
            row.figures.created = Some(self.started);
        }
        self.note(&mut look);
        let mut failure = None;
        if look.lacks() || look.node.is_none() {
            match Told::ask(&sources.runtime).await {
                Ok(told) => told.complete(&mut look, sources.clock.now()),
                Err(error) => failure = Some(error.into()),
            }
        }
        Taken { look, failure }
    }

    /// Compares with what was seen before.
    fn note(&self, look: &mut Look) {
        let mut rates = self.rates();
        for row in look.rows() {
            row.rate = rates.note(&row.id, row.uptime, row.figures.cpu.total);
        }
        rates.forget(self.sources.clock.uptime());
    }

    fn rates(&self) -> MutexGuard<'_, Rates> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After a silence there is nothing to compare with: a second look gives it.
    async fn look_again(&self, look: &mut Look) -> Result<(), StatsError> {
        let rows = look
            .rows()
            .filter(|row| row.rate.is_none() && !row.id.is_empty());
        // Each once: two looks without time between them say nothing.
        let groups: BTreeSet<PathBuf> = rows.map(|row| PathBuf::from(&row.id)).collect();
        if groups.is_empty() {
            return Ok(());
        }
        let sources = &self.sources;
        sources.clock.sleep(rates::MOMENT).await;
        let (host, clock) = (Arc::clone(&sources.host), Arc::clone(&sources.clock));
        let looked = perform(&sources.storage, move |_| {
            let looked = groups.into_iter().map(|group| {
                let total = host.cpu_time(&group).ok().flatten();
                (group, clock.uptime(), total)
            });
            looked.collect::<Vec<_>>()
        });
        let looked = looked.await?;
        let mut rates = self.rates();
        let mut known = std::collections::HashMap::new();
        for (group, at, total) in looked {
            let group = group.to_string_lossy().into_owned();
            let rate = total.and_then(|total| rates.note_again(&group, at, total));
            known.insert(group, rate);
        }
        for row in look.rows() {
            row.rate = row.rate.or(known.get(&row.id).copied().flatten());
        }
        Ok(())
    }

    async fn disks(&self) -> Arc<DiskLook> {
        self.sources.asked.send_replace(());
        let mut disks = self.disks.clone();
        let first = disks.wait_for(|look| look.at.is_some());
        // What is not known by then is left out.
        let _ = timeout(&*self.sources.clock, FIRST_DISK_LOOK, first).await;
        Arc::clone(&self.disks.borrow())
    }

    fn machine(&self) -> Result<Arc<MachineFacts>, HostError> {
        let now = self.sources.clock.uptime();
        let mut known = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, facts)) = &*known
            && now.saturating_sub(*at) < MACHINE_STAYS
        {
            return Ok(Arc::clone(facts));
        }
        let facts = Arc::new(self.sources.host.machine()?);
        *known = Some((now, Arc::clone(&facts)));
        Ok(facts)
    }

    fn system(&self) -> Vec<(&'static str, PathBuf)> {
        let SystemGroups {
            kubelet,
            runtime,
            misc,
        } = &self.sources.system;
        let own = kubelet.clone().or_else(|| self.own_group());
        let all = [
            (OWN, own),
            ("runtime", runtime.clone()),
            ("misc", misc.clone()),
        ];
        all.into_iter()
            .filter_map(|(name, group)| Some((name, group?)))
            .collect()
    }

    /// The root is told of anyway.
    fn own_group(&self) -> Option<PathBuf> {
        let text = self.sources.host.read(OWN_GROUPS.as_ref()).ok()??;
        let group = own_group(std::str::from_utf8(&text).ok()?)?;
        (group != "/").then(|| PathBuf::from(group))
    }
}

/// One for all, or under version 1 the same one for CPU and memory: another would
/// account for something else.
fn own_group(text: &str) -> Option<&str> {
    let of = |controller: &str| {
        text.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, group) = rest.split_once(':')?;
            let mut controllers = controllers.split(',');
            controllers.any(|one| one == controller).then_some(group)
        })
    };
    match (of("cpu"), of("memory")) {
        (Some(cpu), Some(memory)) => (cpu == memory).then_some(cpu),
        (None, None) => text.lines().find_map(|line| line.strip_prefix("0::")),
        _ => None,
    }
}

/// Whether there was one; it is for the log.
fn told(failure: Option<&StatsError>) -> bool {
    if let Some(error) = failure {
        warn!(%error, "figures are not whole");
    }
    failure.is_some()
}

fn json(material: &Material<'_>) -> Vec<u8> {
    // Texts and numbers: nothing of it cannot be written.
    serde_json::to_vec(&summary::summary(material)).unwrap_or_default()
}

fn exposed(body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    let form = HeaderValue::from_static(text::CONTENT_TYPE);
    answer.headers_mut().insert(CONTENT_TYPE, form);
    answer
}

/// Said once, and no other way.
fn only_cpu_and_memory(query: &str) -> bool {
    let pairs = query.split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        (decoded(name) == "only_cpu_and_memory").then(|| decoded(value))
    });
    pairs.collect::<Vec<_>>() == ["true"]
}
