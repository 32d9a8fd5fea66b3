//! What should run on a node: what the sources of its pods publish together, and
//! whoever runs pods reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::pod::{PodName, PodRef, PodUid};

/// Where a pod comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    File,
    Http,
    Api,
}

impl Source {
    /// As annotations and events have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
            Self::Api => "api",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What the API has of it says that it is over.
pub fn has_ended(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    is_terminal(status.and_then(|status| status.phase.as_deref()))
}

/// What the API has of it says that a container of it runs.
pub fn is_running(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let lists = status.map(|status| {
        [
            &status.init_container_statuses,
            &status.container_statuses,
            &status.ephemeral_container_statuses,
        ]
    });
    let mut all = lists.into_iter().flatten().flatten().flatten();
    all.any(|one| {
        one.state
            .as_ref()
            .is_some_and(|state| state.running.is_some())
    })
}

pub fn is_terminal(phase: Option<&str>) -> bool {
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// When a node first saw a pod; an annotation.
pub const SEEN: &str = "kubernetes.io/config.seen";
/// Where a pod comes from: `file`, `http` or `api`; an annotation.
pub const SOURCE: &str = "kubernetes.io/config.source";

/// Writes on a pod where it comes from and when it was first seen.
pub fn stamp(pod: &mut Pod, source: Source, seen: String) {
    let notes = pod.metadata.annotations.get_or_insert_default();
    notes.insert(SOURCE.to_owned(), source.as_str().to_owned());
    notes.insert(SEEN.to_owned(), seen);
}

/// A time as [`SEEN`] has it: nine digits behind the seconds, whatever they are.
pub fn seen(now: SystemTime) -> String {
    let now = Timestamp::try_from(now).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{now:.9}")
}

/// What should run on the node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    pub pods: BTreeMap<PodUid, DesiredPod>,
    /// How long those were given to end that their source took away last.
    pub departed: BTreeMap<PodUid, Duration>,
    /// Mirrors whose static pod is gone.
    pub orphan_mirrors: Vec<Arc<Pod>>,
    /// Who has delivered.
    pub delivered: BTreeSet<Source>,
    /// All configured sources have: what is not here is not wanted.
    pub ready: bool,
}

/// One pod.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredPod {
    pub pod: Arc<Pod>,
    pub source: Source,
    /// What stands for it at the API server; only for static pods.
    pub mirror: Option<Arc<Pod>>,
}

/// The static pods that have a worker. What stands for them at the API server follows
/// these, not what is only wanted yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticsAtWork {
    /// And whether they are being ended.
    pub pods: BTreeMap<PodRef, bool>,
}

impl StaticsAtWork {
    /// Whether a pod other than this one works under a name, or this one is being
    /// ended. `None` if none of that name is wanted.
    pub fn is_busy(&self, name: &PodName, wanted: Option<&PodUid>) -> bool {
        let mut of_name = self.pods.iter().filter(|(pod, _)| pod.name == *name);
        of_name.any(|(pod, ending)| *ending || Some(&pod.uid) != wanted)
    }

    pub fn has(&self, pod: &PodRef) -> bool {
        self.pods.contains_key(pod)
    }
}
