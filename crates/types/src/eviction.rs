//! Pods that a node ends though they have done nothing that ends them: who finds that one
//! has to go publishes it, and whoever runs pods takes it into what is wanted.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::PodUid;

/// All that have to go now. One that is not here any more is not brought back.
pub type Evictions = BTreeMap<PodUid, Eviction>;

/// Why a node ends a pod. Users see these words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Of the event, and of the pod's status.
    pub reason: &'static str,
    pub message: String,
    /// As the pod's `DisruptionTarget` has it; `None`: it gets none.
    pub disruption: Option<String>,
    /// How long it is given; `None`: its own time.
    pub grace: Option<Duration>,
}
