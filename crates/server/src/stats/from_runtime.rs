//! What the runtime tells of containers that the machine does not tell of: those in
//! machines of their own, and those of a simulated one.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use seams::cri::{
    ContainerStats, CpuUsage, LinuxPodSandboxStats, ListContainerStatsRequest,
    ListPodSandboxStatsRequest, MemoryUsage, NetworkInterfaceUsage, NetworkUsage, PsiData,
    PsiStats, SwapUsage, UInt64Value,
};
use seams::host::{GroupFigures, InterfaceFigures, MemoryFigures, Pressure, Traffic, Waits};
use seams::{RuntimeError, SharedRuntime};

use super::look::{Look, PodLook, Row};

/// By the ids of sandboxes and of containers.
#[derive(Debug, Default)]
pub(super) struct Told {
    sandboxes: HashMap<String, LinuxPodSandboxStats>,
    containers: HashMap<String, ContainerStats>,
}

impl Told {
    /// Asks for whole pods; of a runtime that knows only containers, for those.
    pub(super) async fn ask(runtime: &SharedRuntime) -> Result<Self, RuntimeError> {
        let mut told = Self::default();
        let pods = runtime.list_pod_sandbox_stats(ListPodSandboxStatsRequest { filter: None });
        match pods.await {
            Ok(answer) => {
                for stats in answer.stats {
                    let id = stats.attributes.unwrap_or_default().id;
                    let mut pod = stats.linux.unwrap_or_default();
                    told.take(std::mem::take(&mut pod.containers));
                    told.sandboxes.insert(id, pod);
                }
            }
            Err(error) if error.is_unimplemented() => {
                let all = ListContainerStatsRequest { filter: None };
                told.take(runtime.list_container_stats(all).await?.stats);
            }
            Err(error) => return Err(error),
        }
        Ok(told)
    }

    fn take(&mut self, containers: Vec<ContainerStats>) {
        for stats in containers {
            let id = stats.attributes.as_ref().map(|attributes| &attributes.id);
            if let Some(id) = id.cloned() {
                self.containers.insert(id, stats);
            }
        }
    }

    /// Puts in what is not known otherwise.
    pub(super) fn complete(&self, look: &mut Look, now: SystemTime) {
        for pod in &mut look.pods {
            self.complete_pod(pod);
        }
        // A machine that tells nothing of itself does what its pods do.
        if look.node.is_none() {
            let pods = look.pods.iter().filter_map(|pod| pod.own.as_ref());
            let mut node = sum(pods);
            "/".clone_into(&mut node.id);
            node.at = Some(now);
            look.node = Some(node);
        }
    }

    fn complete_pod(&self, pod: &mut PodLook) {
        let observed = std::sync::Arc::clone(&pod.pod);
        for (running, row) in &mut pod.containers {
            if row.is_none() {
                let id = &running.of(&observed).id;
                *row = self.containers.get(id).map(container);
            }
        }
        let sandbox = pod
            .ready_sandbox()
            .and_then(|one| self.sandboxes.get(&one.id));
        if pod.network.is_none() {
            let network = sandbox.and_then(|sandbox| sandbox.network.as_ref());
            pod.network = network.map(interfaces);
        }
        let processes = sandbox.and_then(|sandbox| sandbox.process.as_ref());
        pod.processes = processes.and_then(|processes| value(processes.process_count.as_ref()));
        if pod.own.is_none() {
            pod.own = match sandbox {
                Some(told) if told.cpu.is_some() => {
                    Some(row(told.cpu.as_ref(), told.memory.as_ref(), None))
                }
                _ => pod.is_told().then(|| sum(pod.rows_of_containers())),
            };
        }
    }
}

/// Together.
fn sum<'a>(rows: impl Iterator<Item = &'a Row>) -> Row {
    let mut all = Row::default();
    for row in rows {
        all.at = all.at.max(row.at);
        all.rate = match (all.rate, row.rate) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or_default() + other.unwrap_or_default()),
        };
        let (memory, other) = (&mut all.figures.memory, &row.figures.memory);
        all.figures.cpu.total += row.figures.cpu.total;
        memory.usage += other.usage;
        memory.inactive_files += other.inactive_files;
        memory.rss += other.rss;
        memory.swap += other.swap;
        memory.page_faults += other.page_faults;
        memory.major_page_faults += other.major_page_faults;
        all.figures.processes.count += row.figures.processes.count;
    }
    all.figures.limits.memory = u64::MAX;
    all.figures.limits.swap = u64::MAX;
    all
}

fn container(stats: &ContainerStats) -> Row {
    row(
        stats.cpu.as_ref(),
        stats.memory.as_ref(),
        stats.swap.as_ref(),
    )
}

fn row(cpu: Option<&CpuUsage>, memory: Option<&MemoryUsage>, swap: Option<&SwapUsage>) -> Row {
    let mut figures = GroupFigures::default();
    figures.limits.memory = u64::MAX;
    figures.limits.swap = u64::MAX;
    let mut row = Row::default();
    if let Some(cpu) = cpu {
        row.at = time(cpu.timestamp);
        row.rate = value(cpu.usage_nano_cores.as_ref());
        figures.cpu.total = value(cpu.usage_core_nano_seconds.as_ref()).unwrap_or_default();
        figures.pressure.cpu = pressure(cpu.psi.as_ref());
    }
    if let Some(memory) = memory {
        let or_0 = |told: Option<&UInt64Value>| value(told).unwrap_or_default();
        row.at = row.at.max(time(memory.timestamp));
        let usage = or_0(memory.usage_bytes.as_ref());
        let working_set = or_0(memory.working_set_bytes.as_ref());
        figures.memory = MemoryFigures {
            usage: usage.max(working_set),
            inactive_files: usage.saturating_sub(working_set),
            rss: or_0(memory.rss_bytes.as_ref()),
            page_faults: or_0(memory.page_faults.as_ref()),
            major_page_faults: or_0(memory.major_page_faults.as_ref()),
            ..MemoryFigures::default()
        };
        // A limit of 0 is what some say where there is none.
        let available = value(memory.available_bytes.as_ref());
        let available = available.filter(|available| *available > 0);
        if let Some(available) = available {
            figures.limits.memory = available.saturating_add(working_set);
        }
        figures.pressure.memory = pressure(memory.psi.as_ref());
    }
    if let Some(swap) = swap {
        let used = value(swap.swap_usage_bytes.as_ref()).unwrap_or_default();
        figures.memory.swap = used;
        if let Some(available) = value(swap.swap_available_bytes.as_ref()) {
            figures.limits.swap = available.saturating_add(used);
        }
    }
    Row { figures, ..row }
}

fn pressure(told: Option<&PsiStats>) -> Pressure {
    let waits = |told: Option<&PsiData>| {
        told.map_or_else(Waits::default, |told| Waits {
            total: told.total,
            of_10: told.avg10,
            of_60: told.avg60,
            of_300: told.avg300,
        })
    };
    told.map_or_else(Pressure::default, |told| Pressure {
        full: waits(told.full.as_ref()),
        some: waits(told.some.as_ref()),
    })
}

fn interfaces(network: &NetworkUsage) -> Vec<InterfaceFigures> {
    let all = network.default_interface.iter().chain(&network.interfaces);
    let mut found: Vec<InterfaceFigures> = Vec::new();
    for one in all.map(interface) {
        if found.iter().all(|known| known.name != one.name) {
            found.push(one);
        }
    }
    found
}

fn interface(told: &NetworkInterfaceUsage) -> InterfaceFigures {
    let traffic = |bytes: Option<&UInt64Value>, errors: Option<&UInt64Value>| Traffic {
        bytes: value(bytes).unwrap_or_default(),
        errors: value(errors).unwrap_or_default(),
        ..Traffic::default()
    };
    InterfaceFigures {
        name: told.name.clone(),
        received: traffic(told.rx_bytes.as_ref(), told.rx_errors.as_ref()),
        sent: traffic(told.tx_bytes.as_ref(), told.tx_errors.as_ref()),
    }
}

fn value(told: Option<&UInt64Value>) -> Option<u64> {
    told.map(|told| told.value)
}

/// Nanoseconds since 1970.
pub(super) fn time(nanos: i64) -> Option<SystemTime> {
    let nanos = u64::try_from(nanos).ok().filter(|nanos| *nanos > 0)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanos))
}
