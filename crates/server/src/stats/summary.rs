//! From looks to the answer of `/stats/summary`: a pure function.

use std::time::SystemTime;

use seams::host::{InterfaceFigures, MachineFacts, MachineFigures, Pressure, Waits};
use seams::storage::{FileSystem, Usage};
use types::volume_figures::{PodVolumeFigures, VolumeFigures};

use super::disks::{DiskLook, Layer};
use super::from_runtime::time;
use super::look::{Look, PodLook, Row};
use super::model::{
    ContainerStats, CpuStats, FsStats, InterfaceStats, IoStats, MemoryStats, NetworkStats,
    NodeStats, PodReference, PodStats, ProcessStats, PsiData, PsiStats, PvcReference, RlimitStats,
    RuntimeStats, Summary, SwapStats, Time, VolumeStats,
};

/// Beyond this a limit is none; kernels round the largest number down.
const UNLIMITED: u64 = 1 << 62;

/// The interface by which a pod is on its network.
const DEFAULT_INTERFACE: &str = "eth0";

/// What the API calls the group of all pods.
const PODS: &str = "pods";

/// Everything that an answer is made of.
#[derive(Debug)]
pub(super) struct Material<'a> {
    pub(super) node_name: &'a str,
    pub(super) look: &'a Look,
    pub(super) machine: &'a MachineFacts,
    /// `None`: only CPU and memory are asked for.
    pub(super) rest: Option<Rest<'a>>,
}

/// What takes more than a look at groups.
#[derive(Debug)]
pub(super) struct Rest<'a> {
    pub(super) now: SystemTime,
    pub(super) machine: &'a MachineFigures,
    pub(super) disks: &'a DiskLook,
    /// Where the node keeps its own files.
    pub(super) root: Option<FileSystem>,
    pub(super) volumes: &'a PodVolumeFigures,
}

pub(super) fn summary(material: &Material<'_>) -> Summary {
    let pods = material.look.pods.iter().filter(|pod| pod.is_told());
    Summary {
        node: node(material),
        pods: pods.map(|pod| self::pod(material, pod)).collect(),
    }
}

fn node(material: &Material<'_>) -> NodeStats {
    let look = material.look;
    // The machine is the limit of what is not limited.
    let root = look.node.as_ref().map(|row| {
        let mut row = row.clone();
        row.figures.limits.memory = material.machine.memory;
        row.figures.limits.swap = material.machine.swap;
        row
    });
    let rest = material.rest.as_ref();
    let created = root.as_ref().and_then(|row| row.figures.created);
    let root = root.as_ref();
    let mut node = NodeStats {
        node_name: material.node_name.to_owned(),
        system_containers: system_containers(look, rest.is_some()),
        start_time: Time(created),
        cpu: root.map(cpu),
        memory: root.map(memory),
        swap: root.map(swap),
        ..NodeStats::default()
    };
    if let Some(rest) = rest {
        let now = Time(Some(rest.now));
        node.start_time = Time(rest.machine.booted.or(created));
        node.io = root.map(io);
        let at = root.and_then(|row| row.at);
        node.network = look.network.as_ref().map(|all| network(all, at));
        node.fs = rest.root.map(|root| FsStats {
            used_bytes: Some(root.used),
            inodes_used: Some(root.inodes.saturating_sub(root.inodes_free)),
            ..on(&root, Time(at.or(Some(rest.now))))
        });
        node.runtime = rest.disks.images.as_ref().map(|images| {
            let images = layer(images);
            RuntimeStats {
                image_fs: images,
                container_fs: images,
            }
        });
        node.rlimit = Some(RlimitStats {
            time: now,
            maxpid: rest.machine.most_processes,
            curproc: rest.machine.processes,
        });
    }
    node
}

fn system_containers(look: &Look, everything: bool) -> Vec<ContainerStats> {
    let pods = look.above.first().map(|row| (PODS, row));
    let others = look.system.iter().map(|(name, row)| (*name, row));
    let all = pods.into_iter().chain(others);
    all.map(|(name, row)| ContainerStats {
        name: name.to_owned(),
        start_time: Time(row.figures.created),
        io: everything.then(|| io(row)),
        ..container_of(row)
    })
    .collect()
}

fn container_of(row: &Row) -> ContainerStats {
    ContainerStats {
        cpu: Some(cpu(row)),
        memory: Some(memory(row)),
        swap: Some(swap(row)),
        ..ContainerStats::default()
    }
}

fn pod(material: &Material<'_>, look: &PodLook) -> PodStats {
    let (name, uid) = (&look.pod.pod.name, &look.pod.pod.uid);
    let sandbox = look.ready_sandbox().or(look.pod.sandboxes.first());
    let rest = material.rest.as_ref();
    let containers = look.containers.iter();
    let containers = containers.filter_map(|(running, row)| {
        let observed = look.container(*running);
        let row = row.as_ref()?;
        Some(ContainerStats {
            name: observed.name.clone(),
            start_time: Time(time(observed.created_at)),
            io: rest.map(|_| io(row)),
            rootfs: rest.map(|rest| rootfs(rest, &observed.id)),
            logs: rest.and_then(|rest| {
                let usage = rest.disks.logs.get(&observed.id)?;
                Some(files(rest, usage))
            }),
            ..container_of(row)
        })
    });
    let own = look.own.as_ref();
    let mut stats = PodStats {
        pod_ref: PodReference {
            name: name.name.clone(),
            namespace: name.namespace.clone(),
            uid: uid.to_string(),
        },
        start_time: Time(sandbox.and_then(|sandbox| time(sandbox.created_at))),
        containers: containers.collect(),
        cpu: own.map(cpu),
        memory: own.map(memory),
        swap: own.map(swap),
        ..PodStats::default()
    };
    if let Some(rest) = rest {
        stats.io = own.map(io);
        let at = look.sandbox.as_ref().or(own).and_then(|row| row.at);
        stats.network = look.network.as_ref().map(|all| network(all, at));
        let counted = look.rows_of_containers();
        let counted = counted.map(|row| row.figures.processes.count).sum();
        stats.process_stats = Some(ProcessStats {
            process_count: look.processes.unwrap_or(counted),
        });
        let volumes = rest.volumes.get(uid).map(|volumes| volumes.as_slice());
        let volumes = volumes.unwrap_or_default();
        let namespace = &name.namespace;
        stats.volume = volumes.iter().map(|one| volume(one, namespace)).collect();
        stats.ephemeral_storage = ephemeral_storage(rest, look, &stats, volumes);
    }
    stats
}

fn cpu(row: &Row) -> CpuStats {
    CpuStats {
        time: Time(row.at),
        usage_nano_cores: row.rate,
        usage_core_nano_seconds: row.figures.cpu.total,
        psi: psi(&row.figures.pressure.cpu),
    }
}

fn memory(row: &Row) -> MemoryStats {
    let (memory, limit) = (&row.figures.memory, row.figures.limits.memory);
    let working_set = memory.working_set();
    MemoryStats {
        time: Time(row.at),
        available_bytes: left(limit, working_set),
        usage_bytes: memory.usage,
        working_set_bytes: working_set,
        rss_bytes: memory.rss,
        page_faults: memory.page_faults,
        major_page_faults: memory.major_page_faults,
        psi: psi(&row.figures.pressure.memory),
    }
}

fn swap(row: &Row) -> SwapStats {
    let used = row.figures.memory.swap;
    SwapStats {
        time: Time(row.at),
        swap_available_bytes: left(row.figures.limits.swap, used),
        swap_usage_bytes: used,
    }
}

/// What is left of a limit, if there is one.
pub(super) fn left(limit: u64, used: u64) -> Option<u64> {
    (limit <= UNLIMITED).then(|| limit.saturating_sub(used))
}

fn io(row: &Row) -> IoStats {
    IoStats {
        time: Time(row.at),
        psi: psi(&row.figures.pressure.io),
    }
}

fn psi(pressure: &Pressure) -> PsiStats {
    let data = |waits: &Waits| PsiData {
        total: waits.total,
        avg10: waits.of_10,
        avg60: waits.of_60,
        avg300: waits.of_300,
    };
    PsiStats {
        full: data(&pressure.full),
        some: data(&pressure.some),
    }
}

fn network(all: &[InterfaceFigures], at: Option<SystemTime>) -> NetworkStats {
    let interfaces: Vec<InterfaceStats> = all
        .iter()
        .map(|one| InterfaceStats {
            name: one.name.clone(),
            rx_bytes: Some(one.received.bytes),
            rx_errors: Some(one.received.errors),
            tx_bytes: Some(one.sent.bytes),
            tx_errors: Some(one.sent.errors),
        })
        .collect();
    let default = interfaces.iter().find(|one| one.name == DEFAULT_INTERFACE);
    NetworkStats {
        time: Time(at),
        default: default.cloned().unwrap_or_default(),
        interfaces,
    }
}

/// A file system, without what is used of it.
fn on(disk: &FileSystem, time: Time) -> FsStats {
    FsStats {
        time,
        available_bytes: Some(disk.available),
        capacity_bytes: Some(disk.capacity),
        inodes_free: Some(disk.inodes_free),
        inodes: Some(disk.inodes),
        used_bytes: None,
        inodes_used: None,
    }
}

fn layer(layer: &Layer) -> FsStats {
    let time = Time(layer.at);
    let disk = layer.on.as_ref().map(|disk| on(disk, time));
    FsStats {
        time,
        used_bytes: layer.used,
        inodes_used: layer.inodes_used,
        ..disk.unwrap_or_default()
    }
}

/// One that is newer than the last look at disks is where the others are.
fn rootfs(rest: &Rest<'_>, container: &str) -> FsStats {
    if let Some(own) = rest.disks.layers.get(container) {
        return layer(own);
    }
    let images = rest.disks.images.as_ref().and_then(|images| images.on);
    let time = Time(rest.disks.at);
    images.map(|disk| on(&disk, time)).unwrap_or_default()
}

/// Files on the disk of the node itself.
fn files(rest: &Rest<'_>, usage: &Usage) -> FsStats {
    let time = Time(rest.disks.at);
    let disk = rest.root.as_ref().map(|root| on(root, time));
    FsStats {
        time,
        used_bytes: Some(usage.bytes),
        inodes_used: Some(usage.inodes),
        ..disk.unwrap_or_default()
    }
}

fn volume(volume: &VolumeFigures, namespace: &str) -> VolumeStats {
    VolumeStats {
        fs: FsStats {
            time: Time(Some(volume.counted_at)),
            available_bytes: Some(volume.available),
            capacity_bytes: Some(volume.capacity),
            used_bytes: Some(volume.used),
            inodes_free: Some(volume.inodes_free),
            inodes: Some(volume.inodes),
            inodes_used: Some(volume.inodes_used),
        },
        name: volume.name.clone(),
        pvc_ref: volume.claim.as_ref().map(|claim| PvcReference {
            name: claim.clone(),
            namespace: namespace.to_owned(),
        }),
    }
}

/// Everything of a pod that is on the node's own disk.
fn ephemeral_storage(
    rest: &Rest<'_>,
    look: &PodLook,
    stats: &PodStats,
    volumes: &[VolumeFigures],
) -> Option<FsStats> {
    let root = rest.root.as_ref()?;
    let containers = stats.containers.iter();
    let of_containers = containers.flat_map(|one| [one.rootfs, one.logs]).flatten();
    let local = volumes.iter().filter(|volume| volume.on_local_disk);
    let of_volumes = local.map(|one| volume(one, "").fs);
    let own = rest.disks.pods.get(&look.pod.pod.uid);
    let own = own.into_iter().flat_map(|own| [own.logs, own.hosts]);
    let of_files = own.flatten().map(|usage| files(rest, &usage));
    let parts = of_containers.chain(of_volumes).chain(of_files);
    let mut all = on(root, Time(Some(rest.now)));
    for part in parts {
        all.time = all.time.max(part.time);
        all.used_bytes = plus(all.used_bytes, part.used_bytes);
        all.inodes_used = plus(all.inodes_used, part.inodes_used);
    }
    Some(all)
}

/// What is not known adds nothing.
fn plus(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or_default() + other.unwrap_or_default()),
    }
}
