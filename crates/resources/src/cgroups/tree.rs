//! The cgroups of a node's pods, on its machine.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use seams::host::{CgroupFacts, CgroupVersion, HostError};
use seams::{SharedClock, SharedHost};
use thiserror::Error;
use tracing::warn;
use types::PodUid;

use super::{CgroupName, Held, Layout, Limits};
use crate::linux::{Enforcement, MIN_SHARES};
use crate::memory_qos::Asked;
use crate::metrics::Metrics;
use crate::qos::QosClass;
use crate::requests::Amounts;

/// The kernel lets the dead go after a moment: how often to come back, and when
/// for the first time.
const ATTEMPTS: u32 = 5;
const PATIENCE: Duration = Duration::from_millis(10);

const CLASSES: [QosClass; 3] = [
    QosClass::Guaranteed,
    QosClass::Burstable,
    QosClass::BestEffort,
];

/// What could not be done with a cgroup.
#[derive(Debug, Error)]
pub enum CgroupError {
    #[error("cannot make cgroup {path}: {cause}")]
    Make { path: String, cause: HostError },
    #[error("cannot set the limits of cgroup {path}: {cause}")]
    Write { path: String, cause: HostError },
    #[error("cannot look at cgroup {path}: {cause}")]
    Look { path: String, cause: HostError },
    #[error("cannot remove cgroup {path}, it is tried again later: {cause}")]
    Remove { path: String, cause: HostError },
}

/// A pod's cgroup that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCgroup {
    pub name: CgroupName,
    pub class: QosClass,
}

/// The groups of one node's pods.
#[derive(Debug)]
pub struct PodCgroups {
    host: SharedHost,
    clock: SharedClock,
    layout: Layout,
    facts: CgroupFacts,
    enforcement: Enforcement,
    /// `podPidsLimit`.
    processes: i64,
    metrics: Arc<Metrics>,
}

impl PodCgroups {
    /// Looks at what the machine has, and touches nothing.
    pub fn new(
        host: SharedHost,
        clock: SharedClock,
        layout: Layout,
        enforcement: Enforcement,
        processes: i64,
        metrics: Arc<Metrics>,
    ) -> Result<Self, CgroupError> {
        let facts = host.cgroup_facts().map_err(|cause| CgroupError::Look {
            path: "/".to_owned(),
            cause,
        })?;
        metrics.version.set(match facts.version {
            CgroupVersion::V1 => 1.0,
            CgroupVersion::V2 => 2.0,
        });
        Ok(Self {
            host,
            clock,
            layout,
            facts,
            enforcement,
            processes,
            metrics,
        })
    }

    /// What the runtime is told to put a pod's sandbox below.
    pub fn parent_of(&self, pod: &Pod) -> String {
        self.text(&self.name_of(pod))
    }

    /// The groups above all pods, with what the node can give and what its classes
    /// have. To be done at the start, before any pod.
    pub fn set_up(&self, allocatable: &Amounts) -> Result<(), CgroupError> {
        self.make(self.layout.pods(), &Limits::of_node(allocatable))?;
        let sizes = &self.enforcement.huge_page_sizes;
        let burstable = self.layout.class(QosClass::Burstable);
        self.make(&burstable, &Limits::of_burstable(0, sizes))?;
        let best_effort = self.layout.class(QosClass::BestEffort);
        self.make(&best_effort, &Limits::of_best_effort(sizes))
    }

    /// To be done whenever pods come or go: `milli_cpu` is what the burstable ones
    /// ask for together, `memory` what they and the guaranteed ones do.
    pub fn share(&self, milli_cpu: i64, memory: Asked) -> Result<(), CgroupError> {
        let sizes = &self.enforcement.huge_page_sizes;
        let mut of_all = Limits::of_all(sizes);
        let mut of_burstable = Limits::of_burstable(milli_cpu, sizes);
        if let Some(memory_qos) = self.enforcement.memory_qos() {
            of_all.unified = vec![memory_qos.of_all(memory)];
            of_burstable.unified = vec![memory_qos.of_burstable(memory)];
        }
        self.write(self.layout.pods(), &of_all)?;
        let burstable = self.layout.class(QosClass::Burstable);
        self.write(&burstable, &of_burstable)?;
        let best_effort = self.layout.class(QosClass::BestEffort);
        self.write(&best_effort, &Limits::of_best_effort(sizes))
    }

    pub fn has(&self, pod: &Pod) -> Result<bool, CgroupError> {
        let name = self.name_of(pod);
        let found = self.host.has_cgroup(&self.layout.path(&name));
        found.map_err(|cause| CgroupError::Look {
            path: self.text(&name),
            cause,
        })
    }

    /// Makes a pod's group with its limits. One that is there keeps its values:
    /// they may have been resized.
    pub fn ensure(&self, pod: &Pod) -> Result<(), CgroupError> {
        if self.has(pod)? {
            return Ok(());
        }
        let limits = Limits::of_pod(pod, &self.enforcement, self.processes);
        let made = self.make(&self.name_of(pod), &limits);
        match made {
            // As upstream: the pod runs, and keeps to less than it should.
            Err(error @ CgroupError::Write { .. }) => {
                warn!(%error, "a pod runs without all of its limits");
                Ok(())
            }
            made => made,
        }
    }

    /// What a pod's group is given when it is made.
    pub fn limits_of(&self, pod: &Pod) -> Limits {
        Limits::of_pod(pod, &self.enforcement, self.processes)
    }

    /// What a pod's group has now; `None` if it is not there.
    pub fn held(&self, pod: &Pod) -> Result<Option<Held>, CgroupError> {
        let read = |file: &str| self.read(pod, file);
        Ok(match self.facts.version {
            CgroupVersion::V1 => Held::version_1(
                read("cpu.shares")?.as_deref(),
                read("cpu.cfs_quota_us")?.as_deref(),
                read("cpu.cfs_period_us")?.as_deref(),
                read("memory.limit_in_bytes")?.as_deref(),
            ),
            CgroupVersion::V2 => Held::version_2(
                read("cpu.weight")?.as_deref(),
                read("cpu.max")?.as_deref(),
                read("memory.max")?.as_deref(),
            ),
        })
    }

    /// How many bytes a pod uses now, where the kernel tells.
    pub fn memory_used(&self, pod: &Pod) -> Result<Option<u64>, CgroupError> {
        let file = match self.facts.version {
            CgroupVersion::V1 => "memory.usage_in_bytes",
            CgroupVersion::V2 => "memory.current",
        };
        Ok(self.read(pod, file)?.and_then(|bytes| bytes.parse().ok()))
    }

    /// Changes what is said, and leaves the rest of a pod's group as it is.
    pub fn change(&self, pod: &Pod, limits: &Limits) -> Result<(), CgroupError> {
        self.write_only(&self.name_of(pod), limits)
    }

    fn read(&self, pod: &Pod, file: &str) -> Result<Option<String>, CgroupError> {
        let name = self.name_of(pod);
        let read = self.host.read_cgroup(&self.layout.path(&name), file);
        read.map_err(|cause| CgroupError::Look {
            path: self.text(&name),
            cause,
        })
    }

    /// All pods that have a group, whoever made it.
    pub fn list(&self) -> Result<BTreeMap<PodUid, FoundCgroup>, CgroupError> {
        let mut found = BTreeMap::new();
        for class in CLASSES {
            let parent = self.layout.class(class);
            let path = self.layout.path(&parent);
            let names = self.host.cgroups_in(&path);
            let names = names.map_err(|cause| CgroupError::Look {
                path: self.text(&parent),
                cause,
            })?;
            for uid in names.iter().filter_map(|name| self.layout.pod_of(name)) {
                let name = self.layout.pod(class, &uid);
                found.insert(uid, FoundCgroup { name, class });
            }
        }
        Ok(found)
    }

    /// Kills what is left in a pod's group, and removes it.
    pub async fn remove(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let began = self.clock.uptime();
        let removed = self.try_remove(name).await;
        self.took("destroy", began);
        removed
    }

    async fn try_remove(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let path = self.layout.path(name);
        let mut patience = PATIENCE;
        let mut attempt = 1;
        loop {
            match self.host.remove_cgroup(&path) {
                Ok(()) => return Ok(()),
                Err(error) if attempt < ATTEMPTS && is_busy(&error) => {}
                Err(cause) => {
                    let path = self.text(name);
                    return Err(CgroupError::Remove { path, cause });
                }
            }
            self.clock.sleep(patience).await;
            patience *= 2;
            attempt += 1;
        }
    }

    /// The group of a pod of which no more is known than its uid.
    pub async fn remove_any(&self, uid: &PodUid) -> Result<(), CgroupError> {
        for class in CLASSES {
            self.remove(&self.layout.pod(class, uid)).await?;
        }
        Ok(())
    }

    /// Leaves a group that cannot be removed yet the least of the CPU.
    pub fn starve(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let least = Limits {
            cpu_shares: Some(MIN_SHARES),
            ..Limits::default()
        };
        self.write_only(name, &least)
    }

    pub fn name_of(&self, pod: &Pod) -> CgroupName {
        let uid = PodUid::new(pod.metadata.uid.as_deref().unwrap_or_default());
        self.layout.pod(QosClass::of(pod), &uid)
    }

    fn took(&self, operation: &str, began: Duration) {
        let took = self.clock.uptime().saturating_sub(began);
        self.metrics.changes.took(&[operation], took);
    }

    fn make(&self, name: &CgroupName, limits: &Limits) -> Result<(), CgroupError> {
        let began = self.clock.uptime();
        let made = self.try_make(name, limits);
        self.took("create", began);
        made
    }

    fn try_make(&self, name: &CgroupName, limits: &Limits) -> Result<(), CgroupError> {
        let made = self.host.make_cgroup(&self.layout.path(name));
        made.map_err(|cause| CgroupError::Make {
            path: self.text(name),
            cause,
        })?;
        self.write_for(name, limits, &self.enforcement.huge_page_sizes)
    }

    fn write_only(&self, name: &CgroupName, limits: &Limits) -> Result<(), CgroupError> {
        // No page sizes: nothing is said of huge pages.
        let began = self.clock.uptime();
        let written = self.write_for(name, limits, &[]);
        self.took("update", began);
        written
    }

    fn write(&self, name: &CgroupName, limits: &Limits) -> Result<(), CgroupError> {
        let began = self.clock.uptime();
        let written = self.write_for(name, limits, &self.enforcement.huge_page_sizes);
        self.took("update", began);
        written
    }

    /// Of huge pages, only those of these sizes are spoken of.
    fn write_for(
        &self,
        name: &CgroupName,
        limits: &Limits,
        page_sizes: &[u64],
    ) -> Result<(), CgroupError> {
        let values = limits.values(&self.facts, page_sizes);
        let written = self.host.write_cgroup(&self.layout.path(name), &values);
        written.map_err(|cause| CgroupError::Write {
            path: self.text(name),
            cause,
        })
    }

    fn text(&self, name: &CgroupName) -> String {
        self.layout.path(name).display().to_string()
    }
}

fn is_busy(error: &HostError) -> bool {
    error.cause.kind() == io::ErrorKind::ResourceBusy
}

#[cfg(test)]
mod tests;
