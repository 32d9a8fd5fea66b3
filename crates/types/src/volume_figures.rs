//! What the volumes of pods take up, as it was last counted. Who counts publishes
//! these; who answers for the node reads them, and waits for no disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use crate::PodUid;

/// The volumes of all pods of a node, as far as they were counted.
pub type PodVolumeFigures = BTreeMap<PodUid, Arc<Vec<VolumeFigures>>>;

/// One volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFigures {
    /// As the pod calls it.
    pub name: String,
    /// The claim that it is had by, in the pod's namespace.
    pub claim: Option<String>,
    /// What is in it counts for the pod's use of the node's own disk.
    pub on_local_disk: bool,
    pub counted_at: SystemTime,
    /// Bytes that the file system of the volume has.
    pub capacity: u64,
    /// Bytes of it for those who are not root.
    pub available: u64,
    /// Bytes that the volume takes up; all of its file system, if it has one of its own.
    pub used: u64,
    pub inodes: u64,
    pub inodes_free: u64,
    pub inodes_used: u64,
}
