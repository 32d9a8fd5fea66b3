//! What the kernel's files say. Lines that are not understood are passed over: kernels
//! learn new ones.

use seams::host::{
    CpuFigures, DiskActivity, DiskCounters, InterfaceFigures, IoCost, MemoryFigures,
    MoreOperations, Pressure, Traffic, Waits,
};

/// `cpuacct.stat` counts in these; they are fixed for programs, whatever the kernel's are.
const NANOS_PER_TICK: u64 = 10_000_000;

const NANOS_PER_MICRO: u64 = 1000;

/// Interfaces that are the machine's own, or ends of those of containers.
const PASSED_OVER: [&str; 4] = ["lo", "veth", "docker", "nerdctl"];

/// `max` is the largest; something negative is none.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(u64::MAX),
        digits => digits.parse().ok(),
    }
}

/// Lines of a name and a number.
fn pairs(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name, value.trim().parse().ok()?))
    })
}

/// `cpuacct.stat`.
pub(super) fn cpu_modes(text: &str, cpu: &mut CpuFigures) {
    for (name, ticks) in pairs(text) {
        match name {
            "user" => cpu.user = ticks * NANOS_PER_TICK,
            "system" => cpu.system = ticks * NANOS_PER_TICK,
            _ => {}
        }
    }
}

/// `cpu.stat` of both versions: one has nanoseconds, the other microseconds.
pub(super) fn cpu_stat(text: &str, cpu: &mut CpuFigures) {
    for (name, value) in pairs(text) {
        match name {
            "usage_usec" => cpu.total = value * NANOS_PER_MICRO,
            "user_usec" => cpu.user = value * NANOS_PER_MICRO,
            "system_usec" => cpu.system = value * NANOS_PER_MICRO,
            "nr_periods" => cpu.periods = value,
            "nr_throttled" => cpu.throttled_periods = value,
            "throttled_time" => cpu.throttled = value,
            "throttled_usec" => cpu.throttled = value * NANOS_PER_MICRO,
            "nr_bursts" => cpu.burst_periods = value,
            "burst_time" => cpu.burst = value,
            "burst_usec" => cpu.burst = value * NANOS_PER_MICRO,
            _ => {}
        }
    }
}

/// `memory.stat` of version 1. Faults are those of the group itself, as upstream has it.
pub(super) fn memory_stat_1(text: &str, memory: &mut MemoryFigures) {
    for (name, value) in pairs(text) {
        match name {
            "total_cache" => memory.cache = value,
            "total_rss" => memory.rss = value,
            "total_swap" => memory.swap = value,
            "total_mapped_file" => memory.mapped_files = value,
            "total_active_file" => memory.active_files = value,
            "total_inactive_file" => memory.inactive_files = value,
            "pgfault" => memory.page_faults = value,
            "pgmajfault" => memory.major_page_faults = value,
            _ => {}
        }
    }
}

/// In `memory.stat` of version 1: the least of what a group and those above it may have of
/// memory and swap together.
pub(super) fn swap_limit_of_all(text: &str) -> Option<u64> {
    let mut lines = pairs(text);
    let limit = lines.find(|(name, _)| *name == "hierarchical_memsw_limit")?;
    Some(limit.1)
}

/// `memory.stat` of version 2.
pub(super) fn memory_stat_2(text: &str, memory: &mut MemoryFigures) {
    for (name, value) in pairs(text) {
        match name {
            "file" => memory.cache = value,
            "anon" => memory.rss = value,
            "kernel" => memory.kernel = value,
            "file_mapped" => memory.mapped_files = value,
            "active_file" => memory.active_files = value,
            "inactive_file" => memory.inactive_files = value,
            "pgfault" => memory.page_faults = value,
            "pgmajfault" => memory.major_page_faults = value,
            _ => {}
        }
    }
}

/// `memory.oom_control` of version 1 and `memory.events` of version 2.
pub(super) fn killed(text: &str) -> u64 {
    let mut lines = pairs(text);
    lines
        .find(|(name, _)| *name == "oom_kill")
        .map_or(0, |(_, count)| count)
}

/// `cpu.max`: quota and period.
pub(super) fn cpu_max(text: &str) -> Option<(Option<u64>, u64)> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some((quota.parse().ok(), period.parse().ok()?))
}

/// The shares of version 1 that upstream reads out of a weight of version 2.
pub(super) fn shares_of_weight(weight: u64) -> u64 {
    if !(1..=10_000).contains(&weight) {
        return 0;
    }
    2 + (weight - 1) * 262_142 / 9_999
}

/// `cpu.pressure` and its like.
pub(super) fn pressure(text: &str) -> Pressure {
    let mut pressure = Pressure::default();
    for line in text.lines() {
        let mut words = line.split(' ');
        let waits = match words.next() {
            Some("full") => &mut pressure.full,
            Some("some") => &mut pressure.some,
            _ => continue,
        };
        *waits = self::waits(words);
    }
    pressure
}

fn waits<'a>(words: impl Iterator<Item = &'a str>) -> Waits {
    let mut waits = Waits::default();
    for (name, value) in words.filter_map(|word| word.split_once('=')) {
        let share = || value.parse().unwrap_or_default();
        match name {
            "avg10" => waits.of_10 = share(),
            "avg60" => waits.of_60 = share(),
            "avg300" => waits.of_300 = share(),
            "total" => waits.total = value.parse().unwrap_or_default(),
            _ => {}
        }
    }
    waits
}

/// Which of two files of version 1 is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Bytes,
    Operations,
}

/// `8:0 Read 124`.
pub(super) fn block_io_1(text: &str, counted: Counted, disks: &mut Vec<DiskActivity>) {
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(device), Some(operation), Some(value)) =
            (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (Some(disk), Ok(value)) = (disk_in(disks, device), value.parse()) else {
            continue;
        };
        let operations = match counted {
            Counted::Bytes => &mut disk.bytes,
            Counted::Operations => &mut disk.operations,
        };
        let more = operations.more.get_or_insert(MoreOperations::default());
        match operation {
            "Read" => operations.read = value,
            "Write" => operations.write = value,
            "Sync" => more.sync = value,
            "Async" => more.async_ = value,
            "Discard" => more.discard = value,
            "Total" => more.total = value,
            _ => {}
        }
    }
}

/// `8:0 rbytes=1 wbytes=2 rios=3 wios=4 …`.
pub(super) fn block_io_2(text: &str, disks: &mut Vec<DiskActivity>) {
    for line in text.lines() {
        let mut words = line.split(' ');
        let Some(disk) = words.next().and_then(|device| disk_in(disks, device)) else {
            continue;
        };
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            let Ok(value) = value.parse() else {
                continue;
            };
            match name {
                "rbytes" => disk.bytes.read = value,
                "wbytes" => disk.bytes.write = value,
                "rios" => disk.operations.read = value,
                "wios" => disk.operations.write = value,
                "cost.usage" => cost(disk).usage = value,
                "cost.wait" => cost(disk).wait = value,
                "cost.indebt" => cost(disk).indebt = value,
                "cost.indelay" => cost(disk).indelay = value,
                _ => {}
            }
        }
    }
}

fn cost(disk: &mut DiskActivity) -> &mut IoCost {
    disk.cost.get_or_insert(IoCost::default())
}

/// The one that is called `major:minor`, made if it is new.
fn disk_in<'a>(disks: &'a mut Vec<DiskActivity>, device: &str) -> Option<&'a mut DiskActivity> {
    let (major, minor) = device.split_once(':')?;
    let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
    let known = |disk: &DiskActivity| (disk.major, disk.minor) == (major, minor);
    let place = disks.iter().position(known);
    if place.is_none() {
        disks.push(DiskActivity {
            major,
            minor,
            ..DiskActivity::default()
        });
    }
    match place {
        Some(place) => disks.get_mut(place),
        None => disks.last_mut(),
    }
}

/// `/proc/PID/net/dev`.
pub(super) fn interfaces(text: &str) -> Vec<InterfaceFigures> {
    let lines = text.lines().skip(2);
    lines.filter_map(interface).collect()
}

fn interface(line: &str) -> Option<InterfaceFigures> {
    let (name, values) = line.split_once(':')?;
    let name = name.trim();
    if PASSED_OVER.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    let values = values.split_ascii_whitespace();
    let values: Vec<u64> = values.map(str::parse).collect::<Result<_, _>>().ok()?;
    let traffic = |from: usize| {
        Some(Traffic {
            bytes: *values.get(from)?,
            packets: *values.get(from + 1)?,
            errors: *values.get(from + 2)?,
            dropped: *values.get(from + 3)?,
        })
    };
    Some(InterfaceFigures {
        name: name.to_owned(),
        received: traffic(0)?,
        sent: traffic(8)?,
    })
}

/// `Max open files            1024                 4096                 files`: the first
/// number.
pub(super) fn most_open_files(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        digits => digits.parse().ok(),
    }
}

/// A line of `/proc/diskstats`: numbers, name, and what was done.
pub(super) fn disk(line: &str) -> Option<(u32, u32, &str, DiskCounters)> {
    let mut words = line.split_ascii_whitespace();
    let major = words.next()?.parse().ok()?;
    let minor = words.next()?.parse().ok()?;
    let name = words.next()?;
    let mut next = || words.next()?.parse().ok();
    let counters = DiskCounters {
        reads: next()?,
        reads_merged: next()?,
        sectors_read: next()?,
        read_time: next()?,
        writes: next()?,
        writes_merged: next()?,
        sectors_written: next()?,
        write_time: next()?,
        in_progress: next()?,
        time: next()?,
        weighted_time: next()?,
    };
    Some((major, minor, name, counters))
}

/// A value of `/proc/meminfo`, in bytes.
pub(super) fn memory_info(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// How many processes and threads there are, by `/proc/loadavg`.
pub(super) fn processes(text: &str) -> Option<i64> {
    let (_, all) = text.split(' ').nth(3)?.split_once('/')?;
    all.parse().ok()
}
