//! What containers use, by the curves of their stories.

use seams::cri;
use seams::cri::UInt64Value;

use super::container::Container;
use super::moment::Moment;
use super::sandbox::Sandbox;
use super::state::State;

/// What a container writes beside its volumes: a little, and it does not grow.
pub(super) const WRITABLE_BYTES: u64 = 16 * 1024;
pub(super) const WRITABLE_INODES: u64 = 8;

/// Of each millicore, in billionths of a core.
const NANOS_PER_MILLI: u64 = 1_000_000;

/// What one container, or a pod of them, uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    /// Since the start, in nanoseconds of one core.
    cpu: u64,
    /// Now, in billionths of a core.
    nano_cores: u64,
    memory: u64,
    processes: u64,
}

impl Usage {
    /// Nothing of one that never ran.
    fn of(container: &Container, now: Moment) -> Option<Self> {
        let ran = container.ran(now)?;
        let story = &container.story;
        // Thousandths of a core for nanoseconds.
        let cpu = story.cpu.integral(ran) / 1000;
        let running = container.is_running();
        let while_running = |amount: u64| if running { amount } else { 0 };
        Some(Self {
            cpu: u64::try_from(cpu).unwrap_or(u64::MAX),
            nano_cores: while_running(story.cpu.at(ran).saturating_mul(NANOS_PER_MILLI)),
            memory: while_running(story.memory.at(ran)),
            processes: while_running(1),
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            nano_cores: self.nano_cores.saturating_add(other.nano_cores),
            memory: self.memory.saturating_add(other.memory),
            processes: self.processes + other.processes,
        }
    }

    fn to_cpu(self, now: Moment) -> cri::CpuUsage {
        cri::CpuUsage {
            timestamp: now.wall,
            usage_core_nano_seconds: number(self.cpu),
            usage_nano_cores: number(self.nano_cores),
            psi: None,
        }
    }

    fn to_memory(self, limit: Option<u64>, now: Moment) -> cri::MemoryUsage {
        cri::MemoryUsage {
            timestamp: now.wall,
            working_set_bytes: number(self.memory),
            available_bytes: limit.and_then(|limit| number(limit.saturating_sub(self.memory))),
            usage_bytes: number(self.memory),
            rss_bytes: number(self.memory),
            page_faults: number(0),
            major_page_faults: number(0),
            psi: None,
        }
    }
}

/// Of one that does not run only its layer is told.
pub(super) fn of_container(
    container: &Container,
    mountpoint: &str,
    now: Moment,
) -> cri::ContainerStats {
    let usage = Usage::of(container, now).filter(|_| container.is_running());
    let made_of = &container.made_of;
    cri::ContainerStats {
        attributes: Some(cri::ContainerAttributes {
            id: container.id.to_string(),
            metadata: Some(made_of.metadata()),
            labels: made_of.labels.to_map(),
            annotations: made_of.annotations.to_map(),
        }),
        cpu: usage.map(|usage| usage.to_cpu(now)),
        memory: usage.map(|usage| usage.to_memory(made_of.details.memory_limit(), now)),
        writable_layer: Some(filesystem(mountpoint, WRITABLE_BYTES, WRITABLE_INODES, now)),
        swap: None,
        io: None,
    }
}

/// Of the containers that run, as containerd does it.
pub(super) fn of_containers(
    state: &State,
    filter: Option<&cri::ContainerStatsFilter>,
    mountpoint: &str,
    now: Moment,
) -> Vec<cri::ContainerStats> {
    let every = cri::ContainerStatsFilter::default();
    let filter = filter.unwrap_or(&every);
    state
        .containers()
        .filter(|container| container.is_running())
        .filter(|container| container.id.starts_with(&filter.id))
        .filter(|container| container.sandbox.starts_with(&filter.pod_sandbox_id))
        .filter(|container| container.made_of.labels.have(&filter.label_selector))
        .map(|container| of_container(container, mountpoint, now))
        .collect()
}

/// What its containers used that have ended counts, too, as long as they are kept.
pub(super) fn of_sandbox(
    state: &State,
    sandbox: &Sandbox,
    mountpoint: &str,
    now: Moment,
) -> cri::PodSandboxStats {
    let containers = || state.containers_of(&sandbox.id);
    let usage = containers()
        .filter_map(|container| Usage::of(container, now))
        .fold(Usage::default(), Usage::plus);
    let running = containers().filter(|container| container.is_running());
    cri::PodSandboxStats {
        attributes: Some(cri::PodSandboxAttributes {
            id: sandbox.id.to_string(),
            metadata: Some(sandbox.metadata.clone()),
            labels: sandbox.labels.to_map(),
            annotations: sandbox.annotations.to_map(),
        }),
        linux: Some(cri::LinuxPodSandboxStats {
            cpu: Some(usage.to_cpu(now)),
            memory: Some(usage.to_memory(None, now)),
            network: (!sandbox.in_host_network()).then(|| network(now)),
            process: Some(cri::ProcessUsage {
                timestamp: now.wall,
                process_count: number(usage.processes),
            }),
            containers: running
                .map(|container| of_container(container, mountpoint, now))
                .collect(),
            io: None,
        }),
        windows: None,
    }
}

/// Of the sandboxes that are ready.
pub(super) fn of_sandboxes(
    state: &State,
    filter: Option<&cri::PodSandboxStatsFilter>,
    mountpoint: &str,
    now: Moment,
) -> Vec<cri::PodSandboxStats> {
    let every = cri::PodSandboxStatsFilter::default();
    let filter = filter.unwrap_or(&every);
    state
        .sandboxes()
        .filter(|sandbox| sandbox.is_ready())
        .filter(|sandbox| sandbox.id.starts_with(&filter.id))
        .filter(|sandbox| sandbox.labels.have(&filter.label_selector))
        .map(|sandbox| of_sandbox(state, sandbox, mountpoint, now))
        .collect()
}

pub(super) fn filesystem(
    mountpoint: &str,
    bytes: u64,
    inodes: u64,
    now: Moment,
) -> cri::FilesystemUsage {
    cri::FilesystemUsage {
        timestamp: now.wall,
        fs_id: Some(cri::FilesystemIdentifier {
            mountpoint: mountpoint.to_owned(),
        }),
        used_bytes: number(bytes),
        inodes_used: number(inodes),
    }
}

/// Nothing goes over it.
fn network(now: Moment) -> cri::NetworkUsage {
    cri::NetworkUsage {
        timestamp: now.wall,
        default_interface: Some(cri::NetworkInterfaceUsage {
            name: "eth0".to_owned(),
            rx_bytes: number(0),
            rx_errors: number(0),
            tx_bytes: number(0),
            tx_errors: number(0),
        }),
        interfaces: Vec::new(),
    }
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "CRI has its numbers in messages, and those can be absent"
)]
fn number(value: u64) -> Option<UInt64Value> {
    Some(UInt64Value { value })
}
