//! A node in memory, with all that runs pods: the crew, what it stands on, and the
//! observation of the runtime. It can be ended at any moment, and begun anew.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use api::events::Recorder;
use images::Images;
use images::credentials::{NodeFiles, Places};
use images::records::Records;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use pleg::{Observations, Pleg};
use probes::{Means, Prober, Probes};
use resources::garbage::{self, Wanted};
use resources::linux::Swap;
use resources::users::UsersConfig;
use resources::{
    Amounts, CgroupDriver, CgroupName, Enforcement, Layout as CgroupLayout, PodCgroups, PodUsers,
};
use seams::host::CgroupVersion;
use seams::runtime::Counted;
use seams::{Clock as _, SharedClock, SharedRuntime, Storage as _};
use serde_json::json;
use sim::{Faults, Machine, MachineShape, RuntimeShape};
use status::Reports;
use testkit::clock::TokioClock;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use types::PodUid;
use types::desired::{Desired, StaticsAtWork};
use types::figures::{Boards, Shown};
use volumes::{Allocatable, InUse, Layout, Objects, Volumes};
use workers::allocation::actuated::{StateFile, restore};
use workers::allocation::checkpoint::{self, Entries};
use workers::{Actuated, Crew, Foundations, Hooks, NodeView, Settings, Telling, Turns};

use crate::evictions;
use crate::runtime::Watched;
use crate::told::Told;

pub(crate) const ROOT: &str = "/var/lib/kubelet";
pub(crate) const LOGS: &str = "/var/log/pods";
/// 2026.
const START: Duration = Duration::from_secs(1_770_000_000);

pub(crate) struct Node {
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) runtime: Arc<Watched>,
    pub(crate) faults: watch::Sender<Faults>,
    pub(crate) told: Told,
    pub(crate) figures: Boards,
    /// What the agent has to say of its pods.
    reports: Reports,
    /// As its workers see it.
    pub(crate) view: watch::Sender<Arc<NodeView>>,
    /// `cgroupsPerQOS`.
    pub(crate) with_cgroups: bool,
    pub(crate) machine: Arc<Machine>,
    agent: Option<Agent>,
}

/// What runs pods, running.
struct Agent {
    desired: watch::Sender<Desired>,
    /// What housekeeping, which does not run here, would know.
    wanted: watch::Receiver<Arc<Wanted>>,
    tasks: JoinSet<()>,
}

impl Node {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH + START));
        let (faults, ailing) = watch::channel(Faults::default());
        let shape = Arc::new(RuntimeShape::default());
        let inner = sim::Runtime::new(shape, clock.clone(), ailing);
        let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        Self {
            runtime: Arc::new(Watched::new(inner, clock.clone())),
            machine: Arc::new(Machine::new(
                "n1",
                Arc::new(MachineShape::default()),
                address,
            )),
            clock,
            faults,
            told: Told::default(),
            figures: Boards::default(),
            reports: Reports::default(),
            view: watch::channel(Arc::new(view("32"))).0,
            with_cgroups: true,
            agent: None,
        }
    }

    pub(crate) fn begin(&mut self) {
        let (desired, seen) = watch::channel(Desired::default());
        self.reports = Reports::default();
        let clock: SharedClock = self.clock.clone();
        let figures = &self.figures.node;
        let runtime = Counted::new(self.runtime.clone(), clock.clone(), figures);
        let runtime: SharedRuntime = Arc::new(runtime);
        let (pleg, observations) = Pleg::new(runtime.clone(), clock, figures);
        let (wanted, wanted_seen) = watch::channel(Arc::new(Wanted::default()));
        let (allocated, allocations) = self.restored(checkpoint::ALLOCATED);
        let clock: SharedClock = self.clock.clone();
        let means = Means::new(self.runtime.clone(), self.runtime.clone(), clock);
        let (asking, probes) = Prober::new(means, None, &self.figures);
        let (recorder, recording) = Recorder::new("n1", self.told.client(), self.clock.clone());
        let mut tasks = JoinSet::new();
        let looking = (runtime.clone(), observations.clone());
        let on = self.foundations(runtime, observations, probes, recorder);
        let volumes = on.volumes.clone();
        let evictions = evictions::start(self, looking, volumes, seen.clone(), &mut tasks);
        let crew = Crew {
            on: Arc::new(on),
            desired: seen,
            evictions,
            wanted,
            statics: watch::channel(StaticsAtWork::default()).0,
            allocated,
            allocations,
            pulse: types::served::Pulse::default(),
        };
        // They end by being dropped, like a process that is killed.
        tasks.spawn(pleg.run(CancellationToken::new()));
        tasks.spawn(asking.run(CancellationToken::new()));
        tasks.spawn(crew.run(CancellationToken::new()));
        tasks.spawn(recording.run(CancellationToken::new()));
        self.agent = Some(Agent {
            desired,
            wanted: wanted_seen,
            tasks,
        });
    }

    /// It dies in the middle of whatever it does.
    pub(crate) async fn end(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            agent.tasks.shutdown().await;
        }
    }

    pub(crate) fn tell(&self, desired: Desired) {
        if let Some(agent) = &self.agent {
            agent.desired.send_replace(desired);
        }
    }

    /// What was last said of a pod.
    pub(crate) fn said(&self, uid: &str) -> Option<PodStatus> {
        self.reports.last(&PodUid::new(uid))
    }

    pub(crate) async fn pass(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// Logs of a pod whose removal a restart cut short are housekeeping's.
    fn is_garbage(&self, name: &str) -> bool {
        let Some(agent) = &self.agent else {
            return false;
        };
        let wanted = Arc::clone(&agent.wanted.borrow());
        !garbage::log_directories(&[name.to_owned()], &wanted).is_empty()
    }

    /// What a pod has on the machine, beside the runtime, and keeps.
    pub(crate) fn traces(&self, uid: &str) -> Vec<String> {
        let mut found = Vec::new();
        let pods = PathBuf::from(ROOT).join("pods");
        for directory in [pods.as_path(), Path::new(LOGS)] {
            let entries = self.machine.entries(directory).unwrap();
            let names = entries.into_iter().flatten().map(|entry| entry.name);
            let own = names.filter(|name| name.ends_with(uid) && !self.is_garbage(name));
            found.extend(own.map(|name| directory.join(name).display().to_string()));
        }
        if self.has_cgroup(uid) {
            found.push("its cgroup".to_owned());
        }
        found
    }

    pub(crate) fn has_cgroup(&self, uid: &str) -> bool {
        let groups = self.cgroups(Arc::default()).list().unwrap();
        groups.contains_key(&PodUid::new(uid))
    }

    /// As if the pod had been begun where its cgroup had another name.
    pub(crate) async fn lose_cgroup(&self, uid: &str) {
        let lost = self
            .cgroups(Arc::default())
            .remove_any(&PodUid::new(uid))
            .await;
        lost.unwrap();
    }

    /// What a file of a pod's cgroup has in it.
    pub(crate) fn in_cgroup(&self, uid: &str, file: &str) -> Option<String> {
        let groups = self.cgroups(Arc::default()).list().unwrap();
        let group = groups.get(&PodUid::new(uid))?;
        let layout = CgroupLayout::new(CgroupDriver::Cgroupfs, &CgroupName::parse("/").unwrap());
        let path = layout.path(&group.name);
        self.machine.cgroup(&path)?.get(file).cloned()
    }

    fn cgroups(&self, metrics: Arc<resources::Metrics>) -> PodCgroups {
        let layout = CgroupLayout::new(CgroupDriver::Cgroupfs, &CgroupName::parse("/").unwrap());
        let (host, clock) = (self.machine.clone(), self.clock.clone());
        PodCgroups::new(host, clock, layout, enforcement(), -1, metrics).unwrap()
    }

    fn foundations(
        &self,
        runtime: SharedRuntime,
        observations: Observations,
        probes: Probes,
        recorder: Recorder,
    ) -> Foundations {
        let clock: SharedClock = self.clock.clone();
        let layout = Layout::new(PathBuf::from(ROOT));
        let cgroups = self.cgroups(self.hung());
        cgroups.set_up(&Amounts::new()).unwrap();
        let volumes = Volumes::new(volumes::Foundations {
            layout: layout.clone(),
            storage: self.machine.clone(),
            clock: clock.clone(),
            objects: Objects::Standalone,
            allocatable: watch::channel(Arc::new(Allocatable::default())).1,
            in_use: InUse::new(watch::channel(None).0),
            metrics: volumes::Metrics::new(&self.figures.node),
        });
        Foundations {
            settings: self.settings(layout),
            runtime,
            host: self.machine.clone(),
            storage: self.machine.clone(),
            observations,
            images: self.images(),
            volumes,
            cgroups: self.with_cgroups.then_some(cgroups),
            enforcement: enforcement(),
            users: self.users(),
            actuated: {
                let (entries, file) = self.restored(checkpoint::ACTUATED);
                Actuated::new(entries, file)
            },
            reports: self.reports.clone(),
            telling: Telling::new(Some(recorder)),
            objects: None,
            services: watch::channel(Some(Arc::default())).1,
            node: self.view.subscribe(),
            turns: Turns::new(4),
            hooks: Hooks::new(self.runtime.clone(), self.runtime.clone(), clock.clone()),
            probes,
            metrics: self.hung(),
            clock,
        }
    }

    /// Figures of some kind, on the node's board.
    pub(crate) fn hung<T: Default + Shown + 'static>(&self) -> Arc<T> {
        let metrics = Arc::<T>::default();
        self.figures.node.hang(metrics.clone());
        metrics
    }

    fn users(&self) -> PodUsers {
        let config = UsersConfig {
            pods: Layout::new(PathBuf::from(ROOT)).pods(),
            ids_per_pod: 65_536,
            most_pods: 110,
        };
        let (host, storage) = (self.machine.clone(), self.machine.clone());
        PodUsers::new(config, host, storage, self.clock.clone())
    }

    fn restored(&self, name: &str) -> (Entries, StateFile) {
        let path = Path::new(ROOT).join(name);
        let entries = restore(&*self.machine, &path).unwrap();
        (entries, StateFile::new(self.machine.clone(), path))
    }

    fn images(&self) -> Images {
        let config = images::Config {
            at_once: images::config::AtOnce::All,
            rate: 0,
            burst: 0,
            verification: None,
            by_handler: false,
        };
        let places = Places {
            root: PathBuf::from(ROOT),
            working: None,
            home: None,
        };
        let (host, clock) = (self.machine.clone(), self.clock.clone());
        let parts = images::Parts {
            runtime: self.runtime.clone(),
            clock: self.clock.clone(),
            node_files: NodeFiles::new(host, clock, places),
            records: Arc::new(Records::in_memory()),
            plugins: None,
            metrics: self.hung(),
        };
        Images::new(config, parts)
    }

    fn settings(&self, layout: Layout) -> Settings {
        Settings {
            layout,
            logs: PathBuf::from(LOGS),
            log_links: PathBuf::from("/var/log/containers"),
            resolv_conf: None,
            hosts_file: PathBuf::from("/etc/hosts"),
            dns: workers::spec::dns::DnsSettings::default(),
            security: workers::spec::security::SecuritySettings::default(),
            env_files: true,
            admission: workers::admission::Settings {
                allowed_unsafe_sysctls: Vec::new(),
                kernel: "6.12.0".to_owned(),
                supplemental_groups_policy: false,
                app_armor: true,
                operating_system: "linux",
                pod_level_resources: true,
            },
            own_policies: workers::OwnPolicies::default(),
            resize: workers::admission::ResizeRules::default(),
            backoff: workers::backoff::Pace::default(),
            resync: Duration::from_secs(60),
            started: Timestamp::try_from(self.clock.now()).unwrap(),
            stop_signals: false,
            dead_kept: Some(1),
        }
    }
}

fn enforcement() -> Enforcement {
    Enforcement {
        version: CgroupVersion::V2,
        cpu_quota: true,
        quota_period: 100_000,
        kill_single_process: false,
        swap: Swap::Uncontrolled,
        memory: 1 << 36,
        huge_page_sizes: Vec::new(),
        memory_qos: None,
    }
}

/// A node with so many CPUs.
pub(crate) fn view(cpus: &str) -> NodeView {
    let node = json!({
        "metadata": { "name": "n1", "labels": { "kubernetes.io/os": "linux" } },
        "status": { "allocatable": {
            "cpu": cpus, "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110",
        } },
    });
    NodeView {
        node: Some(Arc::new(serde_json::from_value(node).unwrap())),
        runtime_name: "containerd".to_owned(),
        host_ips: vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))],
        ..NodeView::default()
    }
}
