//! What should run on a node: what the sources of its pods publish together, and
//! whoever runs pods reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::pod::PodUid;

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
