//! What pods have on disks beside their volumes, as it was last looked at. Who looks
//! publishes these; who judges by them waits for no disk.

use std::collections::BTreeMap;

use crate::PodUid;

/// Everything that runs on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskFigures {
    /// Images, and what containers write beside volumes, have a disk of their own. `None`:
    /// the runtime does not say where they are.
    pub images_apart: Option<bool>,
    /// Pods of which a container runs.
    pub pods: BTreeMap<PodUid, PodDiskFigures>,
}

/// One pod. What is not known counts for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDiskFigures {
    /// Those that run, by their names.
    pub containers: BTreeMap<String, ContainerDiskFigures>,
    /// Bytes of files that are no container's: other logs, and its `/etc/hosts`.
    pub files: u64,
}

/// One container, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerDiskFigures {
    pub logs: u64,
    /// What it has written beside volumes.
    pub layer: u64,
}
