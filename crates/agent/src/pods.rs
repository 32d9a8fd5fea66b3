//! The pods of a node: their sources, the observation of what runs, the workers,
//! the status, and the housekeeping, wired.

mod config;
mod figures;
mod ground;
mod view;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::events::Recorder;
use api::objects::{
    Freshness, NodeReader, PodSet, Referable, Referenced, RuntimeClasses, Services, ServicesSeen,
    TrustBundles,
};
use images::Images;
use images::credentials::{Accounts, Plugins};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use node::readiness::Ailments;
use pleg::{Observations, Pleg};
use probes::{Means, Prober, Probes};
use resources::eviction::{self, EvictionLoop};
use resources::garbage::{Housekeeping, Wanted};
use resources::linux::Swap;
use resources::logs::LogRotation;
use resources::requests;
use resources::{Amounts, Enforcement, Layout as CgroupLayout, MemoryQos, PodCgroups, PodUsers};
use seams::host::{CgroupVersion, MachineFacts};
use seams::{SharedClock, SharedHost};
use server::{GivenPod, PodResources};
use sources::api::{ApiSource, hand_over};
use sources::file::FileSource;
use sources::http::{HttpSource, system_trust};
use sources::manifest::Rules;
use sources::merge::{ADOPTED, AdoptedFile, Deliveries, Merging};
use sources::mirror::MirrorKeeper;
use status::{Reports, StatusSync};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;
use types::Quantity;
use types::desired::{Desired, StaticsAtWork};
use types::eviction::Evictions;
use types::quantity::Format;
use types::served::{PodBook, Pulse, ServedPod};
use volumes::{
    ApiObjects, Claims, Foundations as VolumeFoundations, InUse, Objects as VolumeObjects, Tokens,
    Trust, Volumes,
};
use workers::admission;
use workers::allocation::actuated::{StateFile, restore};
use workers::allocation::checkpoint;
use workers::spec::security::{POSSIBLE_CPUS, SecuritySettings};
use workers::{Actuated, Crew, Foundations, Hooks, NodeView, Objects, Telling, Turns};

pub use config::{PodFlags, PodsConfig, PodsConfigError};

use crate::door::{NodePages, OfPods};
use crate::parts::Parts;
use crate::{AgentError, Seams};
use config::Changes;
use figures::Tellers;
use view::Viewing;

/// After the machine or the runtime could not be asked.
const AGAIN: Duration = Duration::from_secs(2);

/// Words about pods that were not taken; more than these are only logged.
const REFUSALS: usize = 16;

/// What a node of a cluster has there.
pub(crate) struct ClusterSide {
    pub(crate) client: Client,
    pub(crate) own_node: watch::Receiver<Option<Arc<Node>>>,
    pub(crate) recorder: Recorder,
    pub(crate) shared: Option<SharedObjects>,
}

/// What nodes of one process follow together.
#[derive(Clone, Debug)]
pub struct SharedObjects {
    /// The pods of this node.
    pub pods: watch::Receiver<Option<Arc<PodSet>>>,
    pub services: ServicesSeen,
    pub config_maps: Referenced<k8s_openapi::api::core::v1::ConfigMap>,
    pub secrets: Referenced<k8s_openapi::api::core::v1::Secret>,
    pub runtime_classes: RuntimeClasses,
}

/// What the node's own affairs give to its pods.
pub(crate) struct OfNode {
    pub(crate) name: String,
    pub(crate) runtime: watch::Receiver<node::RuntimeFacts>,
    pub(crate) preview: Arc<node::Preview>,
    pub(crate) ailments: watch::Sender<Ailments>,
    /// What the cluster has to attach for pods.
    pub(crate) in_use: watch::Sender<Option<Vec<String>>>,
}

/// Starts everything that runs pods; what can be told of them.
pub(crate) fn start(
    config: PodsConfig,
    of_node: &OfNode,
    cluster: Option<ClusterSide>,
    seams: &Seams,
    parts: &mut Parts,
) -> Result<OfPods, AgentError> {
    let clock = seams.options.clock.clone();
    let root = config.directories.layout.root().to_owned();
    let restored = |name: &str| {
        let path = root.join(name);
        let entries = restore(&*seams.host, &path)?;
        Ok::<_, AgentError>((entries, StateFile::new(seams.storage.clone(), path)))
    };
    let (allocated, allocations) = restored(checkpoint::ALLOCATED)?;
    let (entries, file) = restored(checkpoint::ACTUATED)?;
    let actuated = Actuated::new(entries, file);
    let (pleg, observations) = Pleg::new(seams.runtime.clone(), clock.clone(), &seams.figures.node);
    parts.start("observation", |ending| pleg.run(ending));
    let own_node = cluster.as_ref().map(|cluster| cluster.own_node.clone());
    let (viewing, node) = Viewing::new(of_node, own_node, observations.health(), clock.clone());
    parts.start("view of the node", |ending| viewing.run(ending));
    let rules = Rules {
        node: of_node.name.clone(),
        forbid_references: config.sources.forbid_references,
    };
    let desired = start_sources(
        &config,
        &rules,
        cluster.as_ref(),
        observations.known(),
        seams,
        parts,
    )?;
    let (statics, statics_seen) = watch::channel(StaticsAtWork::default());
    let objects = cluster
        .as_ref()
        .map(|side| objects(&config, side, &of_node.name, seams, parts));
    let (objects, services, trust) = match objects {
        Some((objects, services, trust)) => (Some(objects), services, trust),
        // Without an API server there are none, and that is known.
        None => (None, watch::channel(Some(Arc::default())).1, None),
    };
    let client = cluster.as_ref().map(|side| side.client.clone());
    let accounts = client.map(|client| Accounts::new(client, clock.clone()));
    let (reports, api, recorder) = match cluster {
        None => (Reports::default(), None, None),
        Some(side) => {
            let claims = Claims {
                client: side.client.clone(),
                clock: clock.clone(),
                own_node: side.own_node.clone(),
            };
            let (sync, reports) =
                StatusSync::new(side.client.clone(), clock.clone(), &seams.figures.node);
            parts.start("pod status", |ending| sync.run(ending));
            let mirrors = MirrorKeeper {
                client: side.client.clone(),
                clock: clock.clone(),
                own_node: side.own_node,
                desired: desired.clone(),
                at_work: statics_seen,
            };
            parts.start("mirror pods", |ending| mirrors.run(ending));
            let tokens = Tokens::new(side.client, clock.clone());
            (reports, Some((tokens, claims)), Some(side.recorder))
        }
    };
    let (wanted, wanted_seen) = watch::channel(Arc::new(Wanted::default()));
    let housekeeping = Housekeeping {
        runtime: seams.runtime.clone(),
        storage: seams.storage.clone(),
        clock,
        wanted: wanted_seen,
        limits: config.garbage,
        logs: config.directories.logs.clone(),
        links: config.directories.log_links.clone(),
    };
    parts.start("housekeeping", |ending| housekeeping.run(ending));
    let clock = seams.options.clock.clone();
    let means = Means::new(seams.runtime.clone(), seams.net.clone(), clock.clone());
    let (asking, probes) = Prober::new(means, recorder.clone(), &seams.figures);
    parts.start("probes", |ending| asking.run(ending));
    let hooks = Hooks::new(seams.runtime.clone(), seams.net.clone(), clock);
    start_log_rotation(&config, seams, parts);
    let (tellers, figures) = figures::channels(&config);
    let evictions = start_eviction(&config, &desired, &figures, seams, parts);
    let book = PodBook::new(NodePages {
        desired: desired.clone(),
        reports: reports.clone(),
        observations: observations.clone(),
    });
    let of_pods = OfPods {
        stats: figures::stats(&of_node.name, &book, figures, seams, parts),
        book,
        observations: observations.clone(),
        pulse: Pulse::default(),
        resync: config.resync,
        root,
        gates: config.gates.clone(),
    };
    let pulse = of_pods.pulse.clone();
    start_pod_resources(&config, &of_pods.book, seams, parts);
    let making = Making {
        config,
        seams: seams.clone(),
        observations,
        node,
        objects,
        services,
        reports,
        api,
        trust,
        accounts,
        recorder,
        hooks,
        probes,
        actuated,
        in_use: InUse::new(of_node.in_use.clone()),
        tellers,
    };
    parts.start("pods", |shutdown| async move {
        let made = making.foundations();
        let Some((on, tellers)) = shutdown.run_until_cancelled(made).await else {
            return;
        };
        let counting = tellers.count(on.volumes.clone(), shutdown.clone());
        let crew = Crew {
            on: Arc::new(on),
            desired,
            evictions,
            wanted,
            statics,
            allocated,
            allocations,
            pulse,
        };
        tokio::join!(crew.run(shutdown), counting);
    });
    Ok(of_pods)
}

fn start_pod_resources(config: &PodsConfig, book: &PodBook, seams: &Seams, parts: &mut Parts) {
    let Some(path) = config.pod_resources.clone() else {
        return;
    };
    let book = book.clone();
    let given = |pod: ServedPod| GivenPod {
        active: !matches!(pod.status().phase.as_deref(), Some("Succeeded" | "Failed")),
        pod: pod.pod.pod,
    };
    let socket = PodResources {
        path,
        pods: Arc::new(move || book.all().into_iter().map(given).collect()),
        clock: seams.options.clock.clone(),
        figures: seams.figures.node.clone(),
    };
    parts.start("pod resources", |ending| socket.run(ending));
}

/// Pods that have to go, as they are found.
fn start_eviction(
    config: &PodsConfig,
    desired: &watch::Receiver<Desired>,
    figures: &figures::Figures,
    seams: &Seams,
    parts: &mut Parts,
) -> watch::Receiver<Arc<Evictions>> {
    let (evictions, seen) = watch::channel(Arc::default());
    if !config.local_storage {
        return seen;
    }
    let metrics = Arc::<eviction::Metrics>::default();
    seams.figures.node.hang(metrics.clone());
    let looping = EvictionLoop {
        clock: seams.options.clock.clone(),
        desired: desired.clone(),
        volumes: figures.volumes.clone(),
        disks: figures.disks.subscribe(),
        asked: figures.asked.clone(),
        evictions,
        metrics,
    };
    parts.start("eviction", |ending| looping.run(ending));
    seen
}

fn start_log_rotation(config: &PodsConfig, seams: &Seams, parts: &mut Parts) {
    let Some(policy) = config.rotation else {
        return;
    };
    let rotation = LogRotation {
        runtime: seams.runtime.clone(),
        storage: seams.storage.clone(),
        host: seams.host.clone(),
        clock: seams.options.clock.clone(),
        policy,
        zone: config.zone.clone(),
        links: config.directories.log_links.clone(),
    };
    parts.start("log rotation", |ending| rotation.run(ending));
}

/// Starts the sources; what they want together.
fn start_sources(
    config: &PodsConfig,
    rules: &Rules,
    cluster: Option<&ClusterSide>,
    running: watch::Receiver<sources::merge::Running>,
    seams: &Seams,
    parts: &mut Parts,
) -> Result<watch::Receiver<Desired>, AgentError> {
    let clock = seams.options.clock.clone();
    let sources = &config.sources;
    let file: Deliveries = sources.path.as_ref().map(|path| {
        let (delivered, deliveries) = watch::channel(None);
        let source = FileSource {
            path: path.clone(),
            rules: rules.clone(),
            period: sources.path_period,
            host: seams.host.clone(),
            clock: clock.clone(),
            delivered,
        };
        parts.start("manifest files", |ending| source.run(ending));
        deliveries
    });
    let http: Deliveries = match &sources.url {
        None => None,
        Some((url, headers)) => {
            let (delivered, deliveries) = watch::channel(None);
            let source = HttpSource::new(
                url,
                headers.clone(),
                system_trust()?,
                rules.clone(),
                sources.url_period,
                clock.clone(),
            )?;
            parts.start("manifest URL", |ending| source.run(delivered, ending));
            Some(deliveries)
        }
    };
    let api: Deliveries = cluster.map(|side| {
        let (delivered, deliveries) = watch::channel(None);
        if let Some(shared) = &side.shared {
            let pods = shared.pods.clone();
            let mut own_node = side.own_node.clone();
            // They are judged by the node's own object.
            parts.start("pods of the API", |ending| async move {
                let seen = own_node.wait_for(Option::is_some);
                let seen = ending.run_until_cancelled(seen).await.is_some();
                if seen {
                    hand_over(pods, delivered, ending).await;
                }
            });
            return deliveries;
        }
        let source = ApiSource {
            node: rules.node.clone(),
            client: side.client.clone(),
            clock: clock.clone(),
            own_node: side.own_node.clone(),
            delivered,
        };
        parts.start("pods of the API", |ending| source.run(ending));
        deliveries
    });
    let (desired, desired_seen) = watch::channel(Desired::default());
    let (refused, mut refusals) = mpsc::channel::<sources::merge::Refused>(REFUSALS);
    let merging = Merging {
        file,
        http,
        api,
        running,
        adopted: AdoptedFile {
            host: seams.host.clone(),
            path: config.directories.layout.root().join(ADOPTED),
        },
        clock,
        desired,
        refused,
    };
    parts.start("desired pods", |ending| merging.run(ending));
    let telling = Telling::new(cluster.map(|side| side.recorder.clone()));
    parts.start("refused pods", |ending| async move {
        let tell = async {
            while let Some(one) = refusals.recv().await {
                telling.warning(&one.pod, sources::merge::Refused::REASON, one.message);
            }
        };
        ending.run_until_cancelled(tell).await;
    });
    Ok(desired_seen)
}

/// Objects that pods name, as the configuration says that they are learned of.
fn referenced<K: Referable>(
    changes: Changes,
    side: &ClusterSide,
    clock: &SharedClock,
    (tasks, ending): (&TaskTracker, &CancellationToken),
) -> Referenced<K> {
    let (client, clock) = (side.client.clone(), clock.clone());
    let freshness = match changes {
        Changes::Watched => {
            return Referenced::new(client, clock, tasks.clone(), ending.clone());
        }
        Changes::Cached => Freshness::Told(side.own_node.clone()),
        Changes::Asked => Freshness::Never,
    };
    Referenced::asked(client, clock, freshness)
}

/// What containers and volumes refer to. Hollow nodes, which share what they follow,
/// have no trust bundles.
fn objects(
    config: &PodsConfig,
    side: &ClusterSide,
    node: &str,
    seams: &Seams,
    parts: &mut Parts,
) -> (Objects, ServicesSeen, Option<TrustBundles>) {
    let clock = seams.options.clock.clone();
    let own_node = NodeReader {
        name: node.to_owned(),
        client: side.client.clone(),
        clock: clock.clone(),
    };
    if let Some(shared) = &side.shared {
        let objects = Objects {
            config_maps: shared.config_maps.clone(),
            secrets: shared.secrets.clone(),
            runtime_classes: shared.runtime_classes.clone(),
            own_node,
        };
        return (objects, shared.services.clone(), None);
    }
    let tasks = TaskTracker::new();
    let ending = CancellationToken::new();
    let objects = Objects {
        config_maps: referenced(config.changes, side, &clock, (&tasks, &ending)),
        secrets: referenced(config.changes, side, &clock, (&tasks, &ending)),
        runtime_classes: RuntimeClasses::new(
            side.client.clone(),
            clock.clone(),
            tasks.clone(),
            ending.clone(),
        ),
        own_node,
    };
    let trust = TrustBundles::new(
        side.client.clone(),
        clock.clone(),
        tasks.clone(),
        ending.clone(),
    );
    parts.start("objects of pods", |shutdown| async move {
        shutdown.cancelled().await;
        ending.cancel();
        tasks.close();
        tasks.wait().await;
    });
    let (services, seen) = Services::new(side.client.clone(), clock);
    parts.start("services", |ending| services.run(ending));
    (objects, seen, Some(trust))
}

/// What workers stand on, in the making: the runtime has to answer first.
struct Making {
    config: PodsConfig,
    seams: Seams,
    observations: Observations,
    node: watch::Receiver<Arc<NodeView>>,
    objects: Option<Objects>,
    services: ServicesSeen,
    reports: Reports,
    /// For volumes.
    api: Option<(Tokens, Claims)>,
    trust: Option<TrustBundles>,
    /// For credential provider plugins.
    accounts: Option<Accounts>,
    recorder: Option<Recorder>,
    hooks: Hooks,
    probes: Probes,
    actuated: Actuated,
    in_use: InUse,
    tellers: Tellers,
}

impl Making {
    fn tell_of_swap(&self, machine: &MachineFacts, telling: &Telling) {
        let root = self.config.directories.layout.root();
        let keeps = machine.swap == 0 || self.seams.storage.keeps_from_swap(root);
        let Some(message) = ground::swap_notice(machine.swap, keeps) else {
            return;
        };
        let view = Arc::clone(&self.node.borrow());
        let node = view.node.as_ref();
        let name = node.and_then(|node| node.metadata.name.as_deref());
        telling.node_warning(name.unwrap_or_default(), ground::SWAP_REASON, message);
    }

    /// With those who tell of them.
    async fn foundations(self) -> (Foundations, Tellers) {
        let Seams {
            host,
            storage,
            runtime,
            options,
            ..
        } = &self.seams;
        let clock = options.clock.clone();
        // Nothing is known of what pods can have before.
        let mut node = self.node.clone();
        if node.wait_for(|view| view.node.is_some()).await.is_err() {
            return std::future::pending().await;
        }
        // It could be looked at a moment ago.
        let machine = host.machine().unwrap_or_default();
        let telling = Telling::new(self.recorder.clone());
        self.tell_of_swap(&machine, &telling);
        ground::make_directories(&**storage, self.config.directories.layout.root());
        let enforcement = self.enforcement().await;
        let cgroups = self.cgroups(&enforcement).await;
        let figures = &self.seams.figures.node;
        let of_images = Arc::<images::Metrics>::default();
        figures.hang(of_images.clone());
        let of_workers = Arc::<workers::Metrics>::default();
        figures.hang(of_workers.clone());
        let parts = images::Parts {
            runtime: runtime.clone(),
            clock: clock.clone(),
            node_files: images::credentials::NodeFiles::new(
                host.clone(),
                clock.clone(),
                self.config.docker.clone(),
            ),
            records: Arc::clone(&self.config.records),
            plugins: self.config.plugins.clone().map(|loaded| {
                let (host, clock) = (host.clone(), clock.clone());
                Plugins::new(loaded, host, clock, self.accounts, of_images.clone())
            }),
            metrics: of_images,
        };
        let images = Images::new(self.config.images.clone(), parts);
        images.adopt_left_behind().await;
        let objects = match (&self.objects, self.api) {
            (Some(objects), Some((tokens, claims))) => VolumeObjects::Api(Box::new(ApiObjects {
                config_maps: objects.config_maps.clone(),
                secrets: objects.secrets.clone(),
                tokens,
                claims,
                trust: self
                    .trust
                    .filter(|_| self.config.trust_bundles)
                    .map(|bundles| Trust {
                        bundles,
                        order: clock.random().to_bits(),
                    }),
            })),
            _ => VolumeObjects::Standalone,
        };
        let volumes = Volumes::new(VolumeFoundations {
            layout: self.config.directories.layout.clone(),
            storage: storage.clone(),
            clock: clock.clone(),
            objects,
            allocatable: view::allocatable(&self.node),
            in_use: self.in_use,
            metrics: volumes::Metrics::new(figures),
        });
        let directories = self.config.directories;
        let users = PodUsers::new(
            self.config.users.clone(),
            host.clone(),
            storage.clone(),
            clock.clone(),
        );
        let foundations = Foundations {
            settings: workers::Settings {
                layout: directories.layout,
                logs: directories.logs,
                log_links: directories.log_links,
                resolv_conf: directories.resolv_conf,
                hosts_file: directories.hosts_file,
                dns: self.config.dns,
                security: SecuritySettings {
                    throttle_files: throttle_files(host, machine.cpus),
                    selinux: machine.selinux,
                    ..self.config.security
                },
                env_files: self.config.env_files,
                admission: admission::Settings {
                    app_armor: machine.app_armor,
                    ..self.config.admission
                },
                own_policies: self.config.own_policies,
                resize: self.config.resize,
                backoff: self.config.backoff,
                resync: self.config.resync,
                started: Timestamp::try_from(clock.now()).unwrap_or_default(),
                stop_signals: self.config.stop_signals,
                dead_kept: self.config.garbage.per_container,
            },
            clock,
            runtime: runtime.clone(),
            host: host.clone(),
            storage: storage.clone(),
            observations: self.observations,
            images,
            volumes,
            cgroups,
            enforcement,
            users,
            actuated: self.actuated,
            reports: self.reports,
            telling,
            objects: self.objects,
            services: self.services,
            node: self.node,
            turns: Turns::new(self.config.at_once),
            hooks: self.hooks,
            metrics: of_workers,
            probes: self.probes,
        };
        (foundations, self.tellers)
    }

    /// What pods can have of memory, in bytes.
    fn allocatable_memory(&self) -> i64 {
        let left = requests::left(&self.node.borrow().capacity, &self.config.reserved);
        left.get("memory").map_or(0, Quantity::value)
    }

    /// What all pods together are kept to.
    fn enforced(&self, enforce_pods: bool) -> Amounts {
        let mut capacity = self.node.borrow().capacity.clone();
        let processes = most_processes(&self.seams.host);
        let processes = processes.map(|most| Quantity::new(most, Format::DecimalSi));
        capacity.extend(processes.map(|most| ("pid".to_owned(), most)));
        if enforce_pods {
            requests::left(&capacity, &self.config.reserved)
        } else {
            capacity
        }
    }

    /// What the machine can enforce.
    async fn enforcement(&self) -> Enforcement {
        let host = &self.seams.host;
        loop {
            let facts = host.cgroup_facts();
            let machine = host.machine();
            let (facts, machine) = match (facts, machine) {
                (Ok(facts), Ok(machine)) => (facts, machine),
                (Err(error), _) | (_, Err(error)) => {
                    warn!(%error, "pods wait: the machine cannot be looked at");
                    self.seams.options.clock.sleep(AGAIN).await;
                    continue;
                }
            };
            let enforcing = &self.config.enforcing;
            let one = facts.version == CgroupVersion::V1;
            let swap = match (facts.swap, enforcing.limited_swap) {
                (false, _) => Swap::Uncontrolled,
                (true, false) => Swap::NoSwap,
                (true, true) => Swap::Limited {
                    capacity: i64::try_from(machine.swap).unwrap_or(i64::MAX),
                },
            };
            let memory_qos = enforcing.memory_qos.map(|memory_qos| MemoryQos {
                throttling: memory_qos.throttling,
                reserve: memory_qos.reserve,
                page: i64::try_from(machine.page).unwrap_or(i64::MAX),
                allocatable: self.allocatable_memory(),
            });
            return Enforcement {
                version: facts.version,
                cpu_quota: enforcing.cpu_quota,
                quota_period: u64::try_from(enforcing.quota_period.as_micros()).unwrap_or_default(),
                kill_single_process: one || enforcing.kill_single_process.unwrap_or(false),
                swap,
                memory: i64::try_from(machine.memory).unwrap_or(i64::MAX),
                huge_page_sizes: machine.huge_pages.iter().map(|pages| pages.size).collect(),
                memory_qos,
            };
        }
    }

    /// The groups of the node, made.
    async fn cgroups(&self, enforcement: &Enforcement) -> Option<PodCgroups> {
        let config = self.config.cgroups.as_ref()?;
        let clock = &self.seams.options.clock;
        let runtime = &*self.seams.runtime;
        let driver = ground::cgroup_driver(runtime, &**clock, config.driver, AGAIN).await;
        let allocatable = self.enforced(config.enforce_pods);
        let metrics = Arc::<resources::Metrics>::default();
        self.seams.figures.node.hang(metrics.clone());
        loop {
            let layout = CgroupLayout::new(driver, &config.root);
            let places = figures::group_places(&layout);
            let made = PodCgroups::new(
                self.seams.host.clone(),
                clock.clone(),
                layout,
                enforcement.clone(),
                config.processes,
                metrics.clone(),
            );
            let ready = made.and_then(|made| made.set_up(&allocatable).map(|()| made));
            match ready {
                Ok(made) => {
                    self.tellers.places.send_replace(Some(Arc::new(places)));
                    return Some(made);
                }
                Err(error) => {
                    warn!(%error, "pods wait: the node's cgroups cannot be made");
                    clock.sleep(AGAIN).await;
                }
            }
        }
    }
}

/// What tells of throttled CPUs on this machine.
fn throttle_files(host: &SharedHost, cpus: u32) -> Vec<String> {
    let read = |path: &str| host.read(Path::new(path)).ok().flatten();
    let possible = read(POSSIBLE_CPUS).unwrap_or_default();
    let exists = |path: &str| matches!(host.list(Path::new(path)), Ok(Some(_)));
    let possible = String::from_utf8_lossy(&possible);
    workers::spec::security::throttle_files(&possible, cpus, exists)
}

/// So many processes can be on this machine at a time, if it tells.
fn most_processes(host: &SharedHost) -> Option<i64> {
    let read = |path: &str| {
        let content = host.read(Path::new(path)).ok().flatten()?;
        String::from_utf8(content).ok()?.trim().parse::<i64>().ok()
    };
    let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    limits.into_iter().filter_map(read).min()
}
