//! What a machine tells of its use: of a group of processes, of a network, and of
//! itself as a whole. Amounts of memory are bytes, times of CPUs nanoseconds, and a
//! figure that a machine does not have is 0 or absent.

use std::time::SystemTime;

/// How closely a group is looked at: the more, the more files have to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// CPU, memory and pressure.
    Usage,
    /// And how many processes there are.
    Processes,
    Everything,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupFigures {
    pub cpu: CpuFigures,
    pub memory: MemoryFigures,
    pub limits: GroupLimits,
    pub pressure: Pressures,
    pub processes: ProcessFigures,
    pub disks: Vec<DiskActivity>,
    pub created: Option<SystemTime>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuFigures {
    pub total: u64,
    pub user: u64,
    pub system: u64,
    /// Of those in which a quota counts.
    pub periods: u64,
    pub throttled_periods: u64,
    pub throttled: u64,
    pub burst_periods: u64,
    pub burst: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFigures {
    pub usage: u64,
    pub peak: u64,
    /// How often the limit was met.
    pub refusals: u64,
    pub cache: u64,
    pub rss: u64,
    pub swap: u64,
    pub kernel: u64,
    pub mapped_files: u64,
    pub active_files: u64,
    pub inactive_files: u64,
    pub page_faults: u64,
    pub major_page_faults: u64,
    /// Processes that were killed for want of memory.
    pub killed: u64,
}

impl MemoryFigures {
    /// What cannot be had back at once, as upstream counts it.
    pub fn working_set(&self) -> u64 {
        self.usage.saturating_sub(self.inactive_files)
    }
}

/// What a group is kept to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupLimits {
    pub cpu_shares: u64,
    /// Microseconds.
    pub cpu_period: u64,
    pub cpu_quota: Option<u64>,
    /// `u64::MAX`: none.
    pub memory: u64,
    /// With memory under version 1 of cgroups, as the kernel has it.
    pub swap: u64,
    /// What is left to it when memory is short.
    pub reserved_memory: u64,
    pub threads: Option<u64>,
}

/// How long processes had to wait for what they need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressures {
    pub cpu: Pressure,
    pub memory: Pressure,
    pub io: Pressure,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// All of them had to.
    pub full: Waits,
    /// Some had to.
    pub some: Waits,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waits {
    /// Microseconds.
    pub total: u64,
    /// Of a hundred, over the last so many seconds.
    pub of_10: f64,
    pub of_60: f64,
    pub of_300: f64,
}

/// Of the group itself, not of those below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFigures {
    pub count: u64,
    /// The oldest of them.
    pub first: Option<u32>,
    /// With those below.
    pub threads: u64,
    pub open_files: u64,
    pub sockets: u64,
    /// How many files the first may open; `u64::MAX`: any number.
    pub most_open_files: Option<u64>,
}

/// What a group did with one disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskActivity {
    pub major: u32,
    pub minor: u32,
    pub bytes: Operations,
    pub operations: Operations,
    /// Of the I/O cost model, in microseconds.
    pub cost: Option<IoCost>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    pub read: u64,
    pub write: u64,
    /// The kernel tells more kinds under version 1 of cgroups.
    pub more: Option<MoreOperations>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoreOperations {
    pub sync: u64,
    pub async_: u64,
    pub discard: u64,
    pub total: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCost {
    pub usage: u64,
    pub wait: u64,
    pub indebt: u64,
    pub indelay: u64,
}

/// A network interface, as processes in its network see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceFigures {
    pub name: String,
    pub received: Traffic,
    pub sent: Traffic,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub bytes: u64,
    pub packets: u64,
    pub errors: u64,
    pub dropped: u64,
}

/// The machine as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineFigures {
    pub booted: Option<SystemTime>,
    pub physical_cores: u32,
    pub sockets: u32,
    /// The kernel tells of pressure.
    pub pressure: bool,
    pub most_processes: Option<i64>,
    pub processes: Option<i64>,
    pub disks: Vec<Disk>,
    pub file_systems: Vec<MountedFigures>,
}

/// A disk or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    pub major: u32,
    pub minor: u32,
    /// `/dev/sda1`.
    pub name: String,
    pub activity: DiskCounters,
}

/// As the kernel counts: times are milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    pub reads: u64,
    pub reads_merged: u64,
    pub sectors_read: u64,
    pub read_time: u64,
    pub writes: u64,
    pub writes_merged: u64,
    pub sectors_written: u64,
    pub write_time: u64,
    pub in_progress: u64,
    pub time: u64,
    pub weighted_time: u64,
}

/// A file system that is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountedFigures {
    /// The disk, or for what is in memory where it is mounted.
    pub device: String,
    pub capacity: u64,
    pub used: u64,
    pub inodes: u64,
    pub inodes_free: u64,
    pub activity: DiskCounters,
}
