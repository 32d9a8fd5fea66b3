//! emptyDir: a directory that lives as long as its pod, on disk or in memory; and
//! what the volumes that are made of objects stand on.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use seams::Storage;
use seams::host::HostError;
use thiserror::Error;
use tracing::warn;
use types::Quantity;

use crate::huge_pages::{self, HugePagesError};
use crate::on_disk;
use crate::ownership::{ChangePolicy, Ownership, Progress};
use crate::resource_field::Allocatable;

const MODE: u32 = 0o777;
const PARENTS: u32 = 0o755;
const MARKER: u32 = 0o644;
const MARKERS: u32 = 0o750;

const MEMORY: &str = "memory";

/// What an emptyDir is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    Disk,
    /// In memory, of so many bytes; as many as the machine thinks fit, if the node
    /// does not know yet what it can give.
    Memory(Option<u64>),
    /// Of so many bytes each. How many there may be, the pod's cgroup says.
    HugePages(u64),
}

/// Why an emptyDir cannot be. The words are upstream's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MediumError {
    #[error(transparent)]
    HugePages(#[from] HugePagesError),
    #[error("unknown storage medium {medium:?}")]
    Unknown { medium: String },
}

/// An emptyDir and its place.
#[derive(Debug)]
pub(crate) struct EmptyDir {
    pub(crate) path: PathBuf,
    /// The marker of one that was set up to its end.
    pub(crate) ready: PathBuf,
    pub(crate) medium: Medium,
    pub(crate) group: Option<u32>,
}

impl EmptyDir {
    /// What was set up to its end is left as it is: it is its pod's.
    pub(crate) fn set_up(
        &self,
        storage: &dyn Storage,
        progress: &Progress,
    ) -> Result<(), HostError> {
        let was_ready = self.is_ready(storage)?;
        if !was_ready {
            storage.make_directory(&self.path, MODE, PARENTS)?;
        }
        // What is in memory does not outlive the machine's restart, as its marker does.
        let is_new = match self.medium {
            Medium::Disk => false,
            Medium::Memory(size) => storage.mount_tmpfs(&self.path, size)?,
            Medium::HugePages(page) => storage.mount_huge_pages(&self.path, page)?,
        };
        if was_ready && !is_new {
            return Ok(());
        }
        if let Some(group) = self.group {
            self.give_to(group, storage, progress);
        }
        if let Some(markers) = self.ready.parent() {
            storage.make_directory(markers, MARKERS, MARKERS)?;
        }
        storage.make_file(&self.ready, MARKER)
    }

    /// Upstream goes on without, and so do we: the pod says what it misses.
    fn give_to(&self, group: u32, storage: &dyn Storage, progress: &Progress) {
        let ownership = Ownership {
            group,
            read_only: false,
            // It is empty: nothing is saved.
            policy: ChangePolicy::Always,
            told: false,
        };
        if let Err(cause) = ownership.apply(storage, &self.path, progress) {
            warn!(err = %cause, group, "an emptyDir could not be given to the pod's group");
        }
    }

    /// There is the marker, and also what it speaks of. From then on the directory's
    /// permissions are its pod's to change.
    fn is_ready(&self, storage: &dyn Storage) -> Result<bool, HostError> {
        if on_disk::entry(storage, &self.ready)?.is_none() {
            return Ok(false);
        }
        let directory = on_disk::entry(storage, &self.path)?;
        Ok(directory.is_some_and(|entry| entry.is_directory))
    }
}

/// What a pod asks its emptyDir to be on.
pub(crate) fn medium(
    source: Option<&EmptyDirVolumeSource>,
    pod: &Pod,
    allocatable: &Allocatable,
) -> Result<Medium, MediumError> {
    let medium = source.and_then(|source| source.medium.as_deref());
    match medium.unwrap_or_default() {
        "" => Ok(Medium::Disk),
        "Memory" => {
            let limit = source.and_then(|source| parsed(source.size_limit.as_ref()));
            Ok(memory(pod, allocatable, limit))
        }
        medium if huge_pages::is_medium(medium) => {
            Ok(Medium::HugePages(huge_pages::page_size(medium, pod)?))
        }
        medium => Err(MediumError::Unknown {
            medium: medium.to_owned(),
        }),
    }
}

/// Memory: no more than the node has for pods, nor than the pod may use, nor than
/// the volume's own limit.
pub(crate) fn memory(pod: &Pod, allocatable: &Allocatable, limit: Option<Quantity>) -> Medium {
    let node = allocatable.get(MEMORY).cloned();
    let limits = [node, pod_limit(pod), limit].into_iter().flatten();
    let smallest = limits.filter(|limit| limit.sign() > 0).min();
    Medium::Memory(smallest.and_then(|size| u64::try_from(size.value()).ok()))
}

/// How much memory a pod may use; nothing, if one of its containers may use all.
fn pod_limit(pod: &Pod) -> Option<Quantity> {
    let spec = pod.spec.as_ref()?;
    let overhead = spec.overhead.as_ref();
    let overhead = overhead.and_then(|overhead| parsed(overhead.get(MEMORY)));
    let with_overhead = |limit: Quantity| match &overhead {
        Some(overhead) => limit.checked_add(overhead),
        None => Some(limit),
    };
    if let Some(limit) = container_limit(spec.resources.as_ref()) {
        return with_overhead(limit);
    }
    let mut running = Quantity::default();
    for container in &spec.containers {
        running = running.checked_add(&container_limit(container.resources.as_ref())?)?;
    }
    // Those that start before the others: sidecars stay, each other runs alone
    // with the sidecars before it. One without a limit has theirs, as upstream counts.
    let (mut sidecars, mut starting) = (Quantity::default(), Quantity::default());
    for container in spec.init_containers.iter().flatten() {
        let limit = container_limit(container.resources.as_ref()).unwrap_or_default();
        let together = sidecars.checked_add(&limit)?;
        if together.is_zero() {
            return None;
        }
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = together.clone();
        }
        starting = starting.max(together);
    }
    with_overhead(running.checked_add(&sidecars)?.max(starting))
}

fn container_limit(resources: Option<&ResourceRequirements>) -> Option<Quantity> {
    let limits: &BTreeMap<_, _> = resources?.limits.as_ref()?;
    parsed(limits.get(MEMORY)).filter(|limit| !limit.is_zero())
}

/// What cannot be read limits nothing; the API server lets none through.
fn parsed(quantity: Option<&ApiQuantity>) -> Option<Quantity> {
    quantity?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::from_json;
    use serde_json::{Value, json};

    fn limited(memory: &str) -> Value {
        json!({"name": "c", "resources": {"limits": {"memory": memory}}})
    }

    fn sidecar(memory: &str) -> Value {
        let mut container = limited(memory);
        container["restartPolicy"] = json!("Always");
        container
    }

    #[test]
    fn memory_is_limited_by_the_node_the_pod_and_the_volume() {
        const MI: u64 = 1 << 20;
        let node = Some("1Gi");
        let free = json!({"name": "free"});
        let free_sidecar = json!({"name": "free", "restartPolicy": "Always"});
        let cases = [
            (json!({"containers": [free]}), None, None, None),
            (json!({"containers": [free]}), node, None, Some(1024 * MI)),
            (
                json!({"containers": [free]}),
                node,
                Some("10Mi"),
                Some(10 * MI),
            ),
            (
                json!({"containers": [free]}),
                node,
                Some("2Gi"),
                Some(1024 * MI),
            ),
            (
                json!({"containers": [free]}),
                node,
                Some("0"),
                Some(1024 * MI),
            ),
            (
                json!({"containers": [limited("64Mi")]}),
                node,
                None,
                Some(64 * MI),
            ),
            (
                json!({"containers": [limited("64Mi")]}),
                node,
                Some("100Mi"),
                Some(64 * MI),
            ),
            (
                json!({"containers": [limited("64Mi")]}),
                node,
                Some("8Mi"),
                Some(8 * MI),
            ),
            (
                json!({"containers": [limited("64Mi"), limited("32Mi")]}),
                node,
                None,
                Some(96 * MI),
            ),
            (
                json!({"containers": [limited("64Mi"), free]}),
                node,
                None,
                Some(1024 * MI),
            ),
            (
                json!({"containers": [limited("8Gi")]}),
                node,
                None,
                Some(1024 * MI),
            ),
            (
                json!({"containers": [limited("64Mi")], "overhead": {"memory": "16Mi"}}),
                node,
                None,
                Some(80 * MI),
            ),
            (
                json!({"containers": [limited("64Mi")], "initContainers": [limited("128Mi")]}),
                node,
                None,
                Some(128 * MI),
            ),
            (
                json!({"containers": [limited("64Mi")], "initContainers": [sidecar("16Mi")]}),
                node,
                None,
                Some(80 * MI),
            ),
            (
                json!({"containers": [limited("64Mi")], "initContainers": [sidecar("16Mi"), limited("100Mi")]}),
                node,
                None,
                Some(116 * MI),
            ),
            (
                json!({"containers": [limited("64Mi")], "initContainers": [free]}),
                node,
                None,
                Some(1024 * MI),
            ),
            (
                json!({"containers": [limited("64Mi")], "initContainers": [sidecar("32Mi"), free]}),
                node,
                None,
                Some(96 * MI),
            ),
            (
                json!({"containers": [limited("64Mi")], "initContainers": [sidecar("32Mi"), free, limited("80Mi")]}),
                node,
                None,
                Some(112 * MI),
            ),
            (
                json!({"containers": [limited("64Mi")], "initContainers": [free, sidecar("32Mi")]}),
                node,
                None,
                Some(1024 * MI),
            ),
            (
                json!({"containers": [limited("64Mi")], "initContainers": [sidecar("32Mi"), free_sidecar]}),
                node,
                None,
                Some(96 * MI),
            ),
            (
                json!({"containers": [free], "resources": {"limits": {"memory": "50Mi"}}}),
                node,
                None,
                Some(50 * MI),
            ),
        ];
        for (spec, node, limit, wanted) in cases {
            let pod: Pod = from_json(json!({"spec": spec}));
            let node = node.map(|node: &str| (MEMORY.to_owned(), node.parse().unwrap()));
            let source: EmptyDirVolumeSource =
                from_json(json!({"medium": "Memory", "sizeLimit": limit}));
            let found = medium(Some(&source), &pod, &node.into_iter().collect());
            assert_eq!(found, Ok(Medium::Memory(wanted)), "{spec} {limit:?}");
        }
    }

    #[test]
    fn a_medium_that_cannot_be_had_or_is_not_known_is_refused() {
        let of = |name: &str| {
            let source = EmptyDirVolumeSource {
                medium: Some(name.to_owned()),
                ..EmptyDirVolumeSource::default()
            };
            medium(Some(&source), &Pod::default(), &Allocatable::new())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(""), Ok(Medium::Disk));
        let wanted = "medium HugePages-2Mi: hugePages storage requested, but there is no resource request for huge pages";
        assert_eq!(of("HugePages-2Mi"), Err(wanted.to_owned()));
        assert_eq!(
            of("Tape"),
            Err("unknown storage medium \"Tape\"".to_owned())
        );
    }
}
