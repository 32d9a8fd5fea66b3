//! The files of a group, under both versions.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Stat, fstat, statat};
use seams::host::{CgroupVersion, Depth, GroupFigures, GroupLimits, Pressures};

use super::{Reader, parse, processes};
use crate::cgroups::Hierarchies;
use crate::files::Files;
use parse::Counted;

/// One that is there from the group's beginning and that nobody writes to.
const OLD_1: &str = "cgroup.clone_children";
const OLD_2: &str = "cgroup.events";

/// Every hierarchy of version 1 has its own, and runtimes put processes into all of them.
const LIST: &str = "cgroup.procs";

/// What version 1 has for no limit: all that fits, in whole pages of up to 64 KiB.
const NO_LIMIT: u64 = i64::MAX as u64 - 0xffff;

/// What blkio can tell with, the better first.
const BLOCK_IO: [(&str, &str); 4] = [
    (
        "blkio.bfq.io_serviced_recursive",
        "blkio.bfq.io_service_bytes_recursive",
    ),
    (
        "blkio.io_serviced_recursive",
        "blkio.io_service_bytes_recursive",
    ),
    (
        "blkio.throttle.io_serviced_recursive",
        "blkio.throttle.io_service_bytes_recursive",
    ),
    (
        "blkio.throttle.io_serviced",
        "blkio.throttle.io_service_bytes",
    ),
];

/// `None` if there is no such group.
pub(crate) fn of_group(
    files: &Files,
    hierarchies: &Hierarchies,
    path: &Path,
    depth: Depth,
) -> io::Result<Option<GroupFigures>> {
    let mut look = Look {
        files,
        hierarchies,
        path,
        depth,
        reader: Reader::default(),
    };
    match hierarchies.version() {
        CgroupVersion::V1 => look.version_1(),
        CgroupVersion::V2 => look.version_2(),
    }
}

/// The CPU time alone, in nanoseconds.
pub(crate) fn cpu_time(hierarchies: &Hierarchies, path: &Path) -> io::Result<Option<u64>> {
    let mut reader = Reader::default();
    match hierarchies.version() {
        CgroupVersion::V1 => match hierarchies.open("cpuacct", path)? {
            Some(group) => reader.number(&group, "cpuacct.usage"),
            None => Ok(None),
        },
        CgroupVersion::V2 => {
            let Some(group) = hierarchies.open("cpu", path)? else {
                return Ok(None);
            };
            let mut figures = GroupFigures::default();
            if let Some(text) = reader.record(&group, "cpu.stat")? {
                parse::cpu_stat(text, &mut figures.cpu);
            }
            Ok(Some(figures.cpu.total))
        }
    }
}

/// The oldest process of a group itself.
pub(crate) fn first_process(hierarchies: &Hierarchies, path: &Path) -> io::Result<Option<u32>> {
    let Some(group) = hierarchies.open("memory", path)? else {
        return Ok(None);
    };
    let mut reader = Reader::default();
    let list = reader.text(&group, LIST)?;
    Ok(list.and_then(processes::first))
}

struct Look<'a> {
    files: &'a Files,
    hierarchies: &'a Hierarchies,
    path: &'a Path,
    depth: Depth,
    reader: Reader,
}

impl Look<'_> {
    fn is_root(&self) -> bool {
        self.path == Path::new("/")
    }

    fn open(&self, controller: &str) -> io::Result<Option<OwnedFd>> {
        self.hierarchies.open(controller, self.path)
    }

    fn version_1(&mut self) -> io::Result<Option<GroupFigures>> {
        let (Some(accounts), Some(memory)) = (self.open("cpuacct")?, self.open("memory")?) else {
            return Ok(None);
        };
        let mut figures = GroupFigures::default();
        figures.cpu.total = self.number(&accounts, "cpuacct.usage")?;
        self.memory_1(&memory, &mut figures)?;
        if self.depth < Depth::Processes {
            return Ok(Some(figures));
        }
        figures.created = created(&memory, OLD_1);
        self.processes(&memory, &mut figures)?;
        if self.depth < Depth::Everything {
            return Ok(Some(figures));
        }
        if let Some(text) = self.reader.record(&accounts, "cpuacct.stat")? {
            parse::cpu_modes(text, &mut figures.cpu);
        }
        if let Some(cpu) = &self.open("cpu")? {
            if let Some(text) = self.reader.record(cpu, "cpu.stat")? {
                parse::cpu_stat(text, &mut figures.cpu);
            }
            figures.limits.cpu_shares = self.number(cpu, "cpu.shares")?;
            figures.limits.cpu_period = self.number(cpu, "cpu.cfs_period_us")?;
            figures.limits.cpu_quota = self.reader.number(cpu, "cpu.cfs_quota_us")?;
        }
        if let Some(threads) = self.open("pids")? {
            self.threads(&threads, &mut figures)?;
        }
        if let Some(disks) = self.open("blkio")? {
            self.disks_1(&disks, &mut figures)?;
        }
        Ok(Some(figures))
    }

    fn memory_1(&mut self, group: &OwnedFd, figures: &mut GroupFigures) -> io::Result<()> {
        let mut above = None;
        if let Some(text) = self.reader.record(group, "memory.stat")? {
            parse::memory_stat_1(text, &mut figures.memory);
            above = parse::swap_limit_of_all(text);
        }
        figures.memory.usage = self.number(group, "memory.usage_in_bytes")?;
        figures.limits.memory = self.number(group, "memory.limit_in_bytes")?;
        figures.limits.swap = match above {
            // Then it has none of its own either, and most have none.
            Some(limit) if limit >= NO_LIMIT => limit,
            _ => self.number(group, "memory.memsw.limit_in_bytes")?,
        };
        if self.depth < Depth::Everything {
            return Ok(());
        }
        figures.limits.reserved_memory = self.number(group, "memory.soft_limit_in_bytes")?;
        figures.memory.peak = self.number(group, "memory.max_usage_in_bytes")?;
        figures.memory.refusals = self.number(group, "memory.failcnt")?;
        figures.memory.kernel = self.number(group, "memory.kmem.usage_in_bytes")?;
        if let Some(text) = self.reader.record(group, "memory.oom_control")? {
            figures.memory.killed = parse::killed(text);
        }
        Ok(())
    }

    fn disks_1(&mut self, group: &OwnedFd, figures: &mut GroupFigures) -> io::Result<()> {
        for (operations, bytes) in BLOCK_IO {
            let Some(text) = self.reader.text(group, operations)? else {
                continue;
            };
            parse::block_io_1(text, Counted::Operations, &mut figures.disks);
            if figures.disks.is_empty() {
                continue;
            }
            if let Some(text) = self.reader.text(group, bytes)? {
                parse::block_io_1(text, Counted::Bytes, &mut figures.disks);
            }
            return Ok(());
        }
        Ok(())
    }

    fn version_2(&mut self) -> io::Result<Option<GroupFigures>> {
        let Some(group) = self.open("memory")? else {
            return Ok(None);
        };
        let mut figures = GroupFigures::default();
        if let Some(text) = self.reader.record(&group, "cpu.stat")? {
            parse::cpu_stat(text, &mut figures.cpu);
        }
        self.memory_2(&group, &mut figures)?;
        figures.pressure = self.pressures(&group)?;
        if self.depth < Depth::Processes {
            return Ok(Some(figures));
        }
        figures.created = created(&group, OLD_2);
        self.processes(&group, &mut figures)?;
        if self.depth < Depth::Everything {
            return Ok(Some(figures));
        }
        self.limits_2(&group, &mut figures.limits)?;
        self.threads(&group, &mut figures)?;
        if let Some(text) = self.reader.text(&group, "io.stat")? {
            parse::block_io_2(text, &mut figures.disks);
        }
        Ok(Some(figures))
    }

    fn memory_2(&mut self, group: &OwnedFd, figures: &mut GroupFigures) -> io::Result<()> {
        let memory = &mut figures.memory;
        if let Some(text) = self.reader.record(group, "memory.stat")? {
            parse::memory_stat_2(text, memory);
        }
        match self.reader.number(group, "memory.current")? {
            Some(usage) => {
                memory.usage = usage;
                let swap = self.reader.number(group, "memory.swap.current")?;
                memory.swap = swap.unwrap_or_default();
            }
            // The root of all groups has neither; these are what version 1 would have.
            None if self.is_root() => {
                memory.usage = memory.rss + memory.cache;
                let all = self.files.optional_text("/proc/meminfo");
                let all = all.ok().flatten().unwrap_or_default();
                let value = |name| parse::memory_info(&all, name).unwrap_or_default();
                memory.swap = value("SwapTotal").saturating_sub(value("SwapFree"));
            }
            None => {}
        }
        let limits = &mut figures.limits;
        let memory_limit = self.reader.number(group, "memory.max")?;
        limits.memory = memory_limit.unwrap_or_default();
        let swap_limit = self.reader.number(group, "memory.swap.max")?;
        limits.swap = swap_limit.unwrap_or_default();
        if self.depth < Depth::Everything {
            return Ok(());
        }
        memory.peak = self
            .reader
            .number(group, "memory.peak")?
            .unwrap_or_default();
        if let Some(text) = self.reader.record(group, "memory.events")? {
            memory.killed = parse::killed(text);
        }
        Ok(())
    }

    fn limits_2(&mut self, group: &OwnedFd, limits: &mut GroupLimits) -> io::Result<()> {
        let weight = self.number(group, "cpu.weight")?;
        limits.cpu_shares = parse::shares_of_weight(weight);
        let most = self.reader.record(group, "cpu.max")?;
        if let Some((quota, period)) = most.and_then(parse::cpu_max) {
            limits.cpu_quota = quota;
            limits.cpu_period = period;
        }
        limits.reserved_memory = self.number(group, "memory.min")?;
        Ok(())
    }

    fn pressures(&mut self, group: &OwnedFd) -> io::Result<Pressures> {
        let mut of = |file: &str| -> io::Result<_> {
            let text = self.reader.record(group, file)?;
            Ok(text.map(parse::pressure).unwrap_or_default())
        };
        Ok(Pressures {
            cpu: of("cpu.pressure")?,
            memory: of("memory.pressure")?,
            io: of("io.pressure")?,
        })
    }

    fn threads(&mut self, group: &OwnedFd, figures: &mut GroupFigures) -> io::Result<()> {
        figures.processes.threads = self.number(group, "pids.current")?;
        let most = self.reader.number(group, "pids.max")?;
        figures.limits.threads = most.filter(|most| *most != u64::MAX);
        Ok(())
    }

    fn processes(&mut self, group: &OwnedFd, figures: &mut GroupFigures) -> io::Result<()> {
        let Some(list) = self.reader.text(group, LIST)? else {
            return Ok(());
        };
        processes::listed(list, &mut figures.processes);
        if self.depth < Depth::Everything {
            return Ok(());
        }
        processes::held(self.files, list, &mut figures.processes);
        let first = if self.is_root() {
            Some(1)
        } else {
            figures.processes.first
        };
        if let Some(first) = first {
            let most = processes::most_open_files(self.files, &mut self.reader, first)?;
            figures.processes.most_open_files = most;
        }
        Ok(())
    }

    /// 0 where there is none.
    fn number(&mut self, group: &OwnedFd, file: &str) -> io::Result<u64> {
        Ok(self.reader.number(group, file)?.unwrap_or_default())
    }
}

/// A directory changes with those in it: the older of two counts, as upstream has it.
fn created(group: &OwnedFd, old: &str) -> Option<SystemTime> {
    let own = fstat(group).ok();
    let of_file = statat(group, old, AtFlags::empty()).ok();
    let times = own.into_iter().chain(of_file);
    times.filter_map(|stat| modified(&stat)).min()
}

fn modified(stat: &Stat) -> Option<SystemTime> {
    let seconds = u64::try_from(stat.st_mtime).ok()?;
    let since = Duration::from_secs(seconds) + Duration::from_nanos(stat.st_mtime_nsec);
    SystemTime::UNIX_EPOCH.checked_add(since)
}
