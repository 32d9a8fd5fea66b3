//! The node's own port: what it shows, from what the parts of the node hold.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use config::gates::FeatureGates;
use identity::tls::ServingResolver;
use kube::Client;
use pleg::Observations;
use seams::SharedClock;
use server::stats::Stats;
use server::{
    About, Check, Configz, ContainerLogs, ContainerLogsConfig, Debugging, Door, DoorConfig,
    DoorFoundations, Endpoints, Figures, Health, NodeLogs, PodLists, Process, Running, Slis,
    StreamParts, Streams, ZPages,
};
use status::Reports;
use tokio::sync::watch;
use tracing::warn;
use types::desired::{Desired, DesiredPod};
use types::observed::ObservedPod;
use types::served::{Pages, PodBook, Pulse};
use types::{PodRef, PodUid};

use crate::parts::{Names, Parts};
use crate::serving::Certificate;
use crate::{AgentError, Seams};

/// The least time after which a loop that has not come round is called stuck; else twice
/// the time between two looks at a pod.
const LEAST_STUCK: Duration = Duration::from_secs(5 * 60);

/// The pods of this node.
#[derive(Debug)]
pub(crate) struct NodePages {
    pub(crate) desired: watch::Receiver<Desired>,
    pub(crate) reports: Reports,
    pub(crate) observations: Observations,
}

impl Pages for NodePages {
    fn all(&self) -> Vec<(PodUid, DesiredPod)> {
        let desired = self.desired.borrow();
        let pods = desired.pods.iter();
        pods.map(|(uid, pod)| (uid.clone(), pod.clone())).collect()
    }

    fn find(
        &self,
        wanted: &mut dyn FnMut(&PodUid, &DesiredPod) -> bool,
    ) -> Option<(PodUid, DesiredPod)> {
        let desired = self.desired.borrow();
        let (uid, pod) = desired.pods.iter().find(|(uid, pod)| wanted(uid, pod))?;
        Some((uid.clone(), pod.clone()))
    }

    fn status(&self, uid: &PodUid) -> Option<k8s_openapi::api::core::v1::PodStatus> {
        self.reports.last(uid)
    }

    fn observed(&self, uid: &PodUid) -> Option<Arc<ObservedPod>> {
        self.observations.last(uid)
    }

    fn known(&self) -> Vec<PodRef> {
        let known = self.observations.known();
        let known = known.borrow().clone().unwrap_or_default();
        known.iter().cloned().collect()
    }
}

/// What the node's pods give to its port.
#[derive(Debug)]
pub(crate) struct OfPods {
    pub(crate) book: PodBook,
    pub(crate) stats: Stats,
    pub(crate) observations: Observations,
    pub(crate) pulse: Pulse,
    pub(crate) resync: Duration,
    /// The kubelet's root directory.
    pub(crate) root: PathBuf,
    pub(crate) gates: FeatureGates,
}

/// Starts the node's port.
pub(crate) fn start(
    config: DoorConfig,
    node_name: String,
    (certificate, client): (Certificate, Option<Client>),
    of_pods: OfPods,
    seams: &Seams,
    parts: &mut Parts,
) -> Result<(), AgentError> {
    let clock = seams.options.clock.clone();
    let container_logs = ContainerLogs::new(ContainerLogsConfig {
        book: of_pods.book.clone(),
        host: seams.host.clone(),
        runtime: seams.runtime.clone(),
        clock: clock.clone(),
        split_streams: config.handlers.split_streams,
    });
    let followed = container_logs.clone();
    parts.start("followed logs", |ending| async move {
        followed.listen(ending).await;
    });
    let slis = Slis::default();
    let endpoints = Endpoints {
        health: health(&of_pods, &config.process, &clock, slis.clone()),
        pods: PodLists::new(of_pods.book.clone()),
        configz: Configz(config.configz.clone()),
        zpages: ZPages::new(config.process.clone(), clock.clone()),
        debugging: Debugging {
            process: config.process.clone(),
            running: running(&of_pods, parts.names(), clock.clone()),
            clock: clock.clone(),
        },
        container_logs,
        node_logs: NodeLogs {
            host: seams.host.clone(),
            clock: clock.clone(),
            queries: config.handlers.system_log_query,
        },
        streams: streams(&config, &of_pods, seams)?,
        figures: Figures {
            boards: seams.figures.clone(),
            registry: seams.registry.clone(),
            about: About {
                node_name: node_name.clone(),
                version: config.process.version.clone(),
                gates: of_pods.gates,
            },
            host: seams.host.clone(),
            slis,
        },
        stats: of_pods.stats,
    };
    let door = Door::build(
        config,
        DoorFoundations {
            node_name,
            clock,
            host: seams.host.clone(),
            provider: Arc::clone(&seams.options.provider),
            certificate: Arc::new(ServingResolver::new(certificate)),
            client,
            registry: &seams.registry,
            endpoints,
        },
    )?;
    parts.start_fallible("server", |ending| door.run(ending));
    Ok(())
}

fn streams(
    config: &DoorConfig,
    of_pods: &OfPods,
    seams: &Seams,
) -> Result<Streams, prometheus::Error> {
    let checkpoints = of_pods.root.join("checkpoints");
    if config.handlers.checkpoint {
        // What is in a checkpoint is what was in a pod's memory.
        let made = seams.storage.make_directory(&checkpoints, 0o700, 0o750);
        if let Err(error) = made {
            warn!(err = %error, "there is no directory for checkpoints");
        }
    }
    let parts = StreamParts {
        pods: of_pods.book.clone(),
        runtime: seams.runtime.clone(),
        net: seams.net.clone(),
        clock: seams.options.clock.clone(),
        websockets: config.websockets,
        checkpoints,
    };
    Streams::new(parts, &seams.registry)
}

fn health(of_pods: &OfPods, process: &Process, clock: &SharedClock, slis: Slis) -> Health {
    let (pulse, clock) = (of_pods.pulse.clone(), Arc::clone(clock));
    let limit = LEAST_STUCK.max(2 * of_pods.resync);
    let loops: Check = Arc::new(move || match pulse.age(clock.uptime()) {
        Some(age) if age > limit => Err(format!(
            "sync Loop took longer than expected: it has been stuck for {} seconds",
            age.as_secs()
        )),
        _ => Ok(()),
    });
    let observations = of_pods.observations.clone();
    let stuck = Arc::new(move || {
        let health = observations.health();
        let health = health.borrow();
        health.stuck.iter().map(ToString::to_string).collect()
    });
    Health {
        checks: vec![
            ("ping", Arc::new(|| Ok(()))),
            ("log", Arc::clone(&process.log)),
            ("syncloop", loops),
        ],
        notes: stuck,
        slis,
    }
}

/// What the node is busy with: its parts, its pods, and what is stuck.
fn running(of_pods: &OfPods, names: Names, clock: SharedClock) -> Running {
    let (book, pulse) = (of_pods.book.clone(), of_pods.pulse.clone());
    let observations = of_pods.observations.clone();
    Arc::new(move || {
        let mut lines = Vec::new();
        let held = names.lock().unwrap_or_else(PoisonError::into_inner);
        lines.extend(held.iter().map(|name| format!("part: {name}")));
        drop(held);
        let age = pulse.age(clock.uptime());
        lines.push(match age {
            Some(age) => format!("pod loop: last came round {} ms ago", age.as_millis()),
            None => "pod loop: has not begun".to_owned(),
        });
        for pod in book.all() {
            let metadata = &pod.pod.pod.metadata;
            lines.push(format!(
                "pod: {}/{} {} ({}): {}",
                metadata.namespace.as_deref().unwrap_or_default(),
                metadata.name.as_deref().unwrap_or_default(),
                pod.uid,
                pod.pod.source,
                pod.status().phase.as_deref().unwrap_or("not taken up yet"),
            ));
        }
        let health = observations.health();
        let stuck = health.borrow();
        lines.extend(stuck.stuck.iter().map(|stuck| format!("stuck: {stuck}")));
        lines
    })
}
