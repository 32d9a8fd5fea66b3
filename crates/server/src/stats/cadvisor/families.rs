//! The names, what they are about, and where their values come from.

use seams::host::{DiskActivity, DiskCounters, MountedFigures, Operations, Pressure};

use super::{Entry, Scrape};
use crate::stats::text::{Family, Kind, Named, Value, seconds_of};

/// Beyond this a limit is none.
const UNLIMITED: u64 = 1 << 62;

/// Writes the lines of one group.
type Write = fn(&mut Family<'_>, &Entry, &Scrape);

const fn counter(name: &'static str, help: &'static str) -> Named {
    Named {
        name,
        help,
        kind: Kind::Counter,
    }
}

const fn gauge(name: &'static str, help: &'static str) -> Named {
    Named {
        name,
        help,
        kind: Kind::Gauge,
    }
}

pub(super) const FAMILIES: &[(Named, Write)] = &[
    // Which groups there are.
    (
        gauge(
            "container_last_seen",
            "When the group was last seen, in seconds since 1970.",
        ),
        |family, entry, scrape| {
            let now = whole_seconds(scrape.now);
            family.put(&entry.labels, &[], now, Some(scrape.now));
        },
    ),
    (
        gauge(
            "container_start_time_seconds",
            "When the group began, in seconds since 1970.",
        ),
        |family, entry, _| {
            let Some(started) = entry.started else {
                return;
            };
            family.put(&entry.labels, &[], whole_seconds(started), None);
        },
    ),
    // CPU.
    (
        counter("container_cpu_usage_seconds_total", "CPU time used."),
        |family, entry, _| {
            let total = entry.row.figures.cpu.total;
            if total > 0 {
                let cpu = [("cpu", "total")];
                family.put(&entry.labels, &cpu, Value::Nanos(total), entry.row.at);
            }
        },
    ),
    (
        counter(
            "container_cpu_user_seconds_total",
            "CPU time used by programs themselves.",
        ),
        |family, entry, _| put(family, entry, Value::Nanos(entry.row.figures.cpu.user)),
    ),
    (
        counter(
            "container_cpu_system_seconds_total",
            "CPU time used by the kernel for programs.",
        ),
        |family, entry, _| put(family, entry, Value::Nanos(entry.row.figures.cpu.system)),
    ),
    (
        counter(
            "container_cpu_cfs_periods_total",
            "Periods in which the CPU quota counted.",
        ),
        |family, entry, _| with_quota(family, entry, Value::Count(entry.row.figures.cpu.periods)),
    ),
    (
        counter(
            "container_cpu_cfs_throttled_periods_total",
            "Periods in which the CPU quota was used up.",
        ),
        |family, entry, _| {
            with_quota(
                family,
                entry,
                Value::Count(entry.row.figures.cpu.throttled_periods),
            );
        },
    ),
    (
        counter(
            "container_cpu_cfs_throttled_seconds_total",
            "How long programs were held up by the CPU quota.",
        ),
        |family, entry, _| {
            with_quota(family, entry, Value::Nanos(entry.row.figures.cpu.throttled));
        },
    ),
    (
        counter(
            "container_cpu_cfs_burst_periods_total",
            "Periods in which saved quota was used.",
        ),
        |family, entry, _| {
            with_quota(
                family,
                entry,
                Value::Count(entry.row.figures.cpu.burst_periods),
            );
        },
    ),
    (
        counter(
            "container_cpu_cfs_burst_seconds_total",
            "CPU time that saved quota gave.",
        ),
        |family, entry, _| with_quota(family, entry, Value::Nanos(entry.row.figures.cpu.burst)),
    ),
    (
        gauge(
            "container_spec_cpu_period",
            "Period of the CPU quota, in microseconds.",
        ),
        |family, entry, _| limit(family, entry, entry.row.figures.limits.cpu_period),
    ),
    (
        gauge(
            "container_spec_cpu_quota",
            "CPU quota, in microseconds of a period.",
        ),
        |family, entry, _| {
            if let Some(quota) = entry.row.figures.limits.cpu_quota {
                limit(family, entry, quota);
            }
        },
    ),
    (
        gauge(
            "container_spec_cpu_shares",
            "Share of the CPU when it is short.",
        ),
        |family, entry, _| limit(family, entry, entry.row.figures.limits.cpu_shares),
    ),
    // Memory.
    (
        gauge(
            "container_memory_usage_bytes",
            "Memory in use, whatever for.",
        ),
        |family, entry, _| count(family, entry, entry.row.figures.memory.usage),
    ),
    (
        gauge(
            "container_memory_working_set_bytes",
            "Memory in use that cannot be had back at once.",
        ),
        |family, entry, _| count(family, entry, entry.row.figures.memory.working_set()),
    ),
    (
        gauge(
            "container_memory_max_usage_bytes",
            "The most memory that was in use.",
        ),
        |family, entry, _| count(family, entry, entry.row.figures.memory.peak),
    ),
    (
        gauge(
            "container_memory_cache",
            "Memory that holds pages of files.",
        ),
        |family, entry, _| count(family, entry, entry.row.figures.memory.cache),
    ),
    (
        gauge("container_memory_rss", "Memory that is of no file."),
        |family, entry, _| count(family, entry, entry.row.figures.memory.rss),
    ),
    (
        gauge(
            "container_memory_kernel_usage",
            "Memory that the kernel uses for the group.",
        ),
        |family, entry, _| count(family, entry, entry.row.figures.memory.kernel),
    ),
    (
        gauge(
            "container_memory_mapped_file",
            "Memory that holds mapped files.",
        ),
        |family, entry, _| count(family, entry, entry.row.figures.memory.mapped_files),
    ),
    (
        gauge("container_memory_swap", "Swap in use."),
        |family, entry, _| count(family, entry, entry.row.figures.memory.swap),
    ),
    (
        gauge(
            "container_memory_total_active_file_bytes",
            "Memory that holds pages of files that were used lately.",
        ),
        |family, entry, _| count(family, entry, entry.row.figures.memory.active_files),
    ),
    (
        gauge(
            "container_memory_total_inactive_file_bytes",
            "Memory that holds pages of files that were not used lately.",
        ),
        |family, entry, _| count(family, entry, entry.row.figures.memory.inactive_files),
    ),
    (
        counter(
            "container_memory_failcnt",
            "How often the memory limit was met.",
        ),
        |family, entry, _| count(family, entry, entry.row.figures.memory.refusals),
    ),
    (
        counter("container_memory_failures_total", "Page faults."),
        |family, entry, _| {
            let memory = &entry.row.figures.memory;
            let kinds = [
                ("pgfault", memory.page_faults),
                ("pgmajfault", memory.major_page_faults),
            ];
            for scope in ["container", "hierarchy"] {
                for (kind, faults) in kinds {
                    let more = [("failure_type", kind), ("scope", scope)];
                    family.put(&entry.labels, &more, Value::Count(faults), entry.row.at);
                }
            }
        },
    ),
    (
        counter(
            "container_oom_events_total",
            "Processes killed for want of memory.",
        ),
        |family, entry, _| count(family, entry, entry.row.figures.memory.killed),
    ),
    (
        gauge(
            "container_spec_memory_limit_bytes",
            "Memory that may be used; 0: any amount.",
        ),
        |family, entry, _| limit(family, entry, bounded(entry.row.figures.limits.memory)),
    ),
    (
        gauge(
            "container_spec_memory_swap_limit_bytes",
            "Swap that may be used; 0: any amount.",
        ),
        |family, entry, _| limit(family, entry, bounded(entry.row.figures.limits.swap)),
    ),
    (
        gauge(
            "container_spec_memory_reservation_limit_bytes",
            "Memory that is left to the group when it is short.",
        ),
        |family, entry, _| {
            limit(
                family,
                entry,
                bounded(entry.row.figures.limits.reserved_memory),
            );
        },
    ),
    // Processes.
    (
        gauge("container_processes", "Processes in the group itself."),
        |family, entry, _| count(family, entry, entry.row.figures.processes.count),
    ),
    (
        gauge("container_threads", "Threads in the group and below."),
        |family, entry, _| count(family, entry, entry.row.figures.processes.threads),
    ),
    (
        gauge(
            "container_threads_max",
            "Threads that there may be; 0: any number.",
        ),
        |family, entry, _| {
            let most = entry.row.figures.limits.threads.unwrap_or_default();
            count(family, entry, most);
        },
    ),
    (
        gauge(
            "container_file_descriptors",
            "Files that processes have open.",
        ),
        |family, entry, _| count(family, entry, entry.row.figures.processes.open_files),
    ),
    (
        gauge("container_sockets", "Sockets that processes have open."),
        |family, entry, _| count(family, entry, entry.row.figures.processes.sockets),
    ),
    (
        gauge(
            "container_ulimits_soft",
            "What the first process of a container may have; -1: any number.",
        ),
        |family, entry, _| {
            if !entry.is_root && !entry.is_container {
                return;
            }
            let most = match entry.row.figures.processes.most_open_files {
                None => return,
                Some(u64::MAX) => Value::Negative(-1),
                Some(most) => Value::Count(most),
            };
            let more = [("ulimit", "max_open_files")];
            family.put(&entry.labels, &more, most, entry.row.at);
        },
    ),
    // Networks: of the machine, and of each pod with its sandbox.
    (
        counter("container_network_receive_bytes_total", "Bytes received."),
        |family, entry, _| traffic(family, entry, |one| one.received.bytes),
    ),
    (
        counter(
            "container_network_receive_packets_total",
            "Packets received.",
        ),
        |family, entry, _| traffic(family, entry, |one| one.received.packets),
    ),
    (
        counter(
            "container_network_receive_errors_total",
            "Errors when receiving.",
        ),
        |family, entry, _| traffic(family, entry, |one| one.received.errors),
    ),
    (
        counter(
            "container_network_receive_packets_dropped_total",
            "Packets dropped when receiving.",
        ),
        |family, entry, _| traffic(family, entry, |one| one.received.dropped),
    ),
    (
        counter("container_network_transmit_bytes_total", "Bytes sent."),
        |family, entry, _| traffic(family, entry, |one| one.sent.bytes),
    ),
    (
        counter("container_network_transmit_packets_total", "Packets sent."),
        |family, entry, _| traffic(family, entry, |one| one.sent.packets),
    ),
    (
        counter(
            "container_network_transmit_errors_total",
            "Errors when sending.",
        ),
        |family, entry, _| traffic(family, entry, |one| one.sent.errors),
    ),
    (
        counter(
            "container_network_transmit_packets_dropped_total",
            "Packets dropped when sending.",
        ),
        |family, entry, _| traffic(family, entry, |one| one.sent.dropped),
    ),
    // Disks: what groups did with them, and what the machine's file systems hold.
    (
        counter("container_fs_reads_bytes_total", "Bytes read."),
        |family, entry, scrape| {
            disks(family, entry, scrape, |disk| Value::Count(disk.bytes.read));
        },
    ),
    (
        counter("container_fs_writes_bytes_total", "Bytes written."),
        |family, entry, scrape| {
            disks(family, entry, scrape, |disk| Value::Count(disk.bytes.write));
        },
    ),
    (
        counter("container_fs_reads_total", "Reads."),
        |family, entry, scrape| {
            // The machine's disks are told of as a whole.
            if !entry.is_root {
                disks(family, entry, scrape, |disk| {
                    Value::Count(disk.operations.read)
                });
            }
            activity(family, entry, scrape, |disk| Value::Count(disk.reads));
        },
    ),
    (
        counter("container_fs_writes_total", "Writes."),
        |family, entry, scrape| {
            // The machine's disks are told of as a whole.
            if !entry.is_root {
                disks(family, entry, scrape, |disk| {
                    Value::Count(disk.operations.write)
                });
            }
            activity(family, entry, scrape, |disk| Value::Count(disk.writes));
        },
    ),
    (
        counter(
            "container_blkio_device_usage_total",
            "Bytes read and written, by operation.",
        ),
        block_io,
    ),
    (
        counter(
            "container_fs_reads_merged_total",
            "Reads that were done with others.",
        ),
        |family, entry, scrape| {
            activity(family, entry, scrape, |disk| {
                Value::Count(disk.reads_merged)
            });
        },
    ),
    (
        counter(
            "container_fs_writes_merged_total",
            "Writes that were done with others.",
        ),
        |family, entry, scrape| {
            activity(family, entry, scrape, |disk| {
                Value::Count(disk.writes_merged)
            });
        },
    ),
    (
        counter("container_fs_sector_reads_total", "Sectors read."),
        |family, entry, scrape| {
            activity(family, entry, scrape, |disk| {
                Value::Count(disk.sectors_read)
            });
        },
    ),
    (
        counter("container_fs_sector_writes_total", "Sectors written."),
        |family, entry, scrape| {
            activity(family, entry, scrape, |disk| {
                Value::Count(disk.sectors_written)
            });
        },
    ),
    (
        counter("container_fs_read_seconds_total", "Time spent reading."),
        |family, entry, scrape| {
            activity(family, entry, scrape, |disk| Value::Millis(disk.read_time));
        },
    ),
    (
        counter("container_fs_write_seconds_total", "Time spent writing."),
        |family, entry, scrape| {
            activity(family, entry, scrape, |disk| Value::Millis(disk.write_time));
        },
    ),
    (
        gauge("container_fs_io_current", "Operations under way."),
        |family, entry, scrape| {
            activity(family, entry, scrape, |disk| Value::Count(disk.in_progress));
        },
    ),
    (
        counter(
            "container_fs_io_time_seconds_total",
            "Time in which the disk had work.",
        ),
        |family, entry, scrape| {
            activity(family, entry, scrape, |disk| Value::Millis(disk.time));
        },
    ),
    (
        counter(
            "container_fs_io_time_weighted_seconds_total",
            "Time in which the disk had work, for each operation that waited.",
        ),
        |family, entry, scrape| {
            activity(family, entry, scrape, |disk| {
                Value::Millis(disk.weighted_time)
            });
        },
    ),
    (
        counter("container_fs_io_cost_usage_seconds_total", "I/O cost used."),
        |family, entry, scrape| {
            cost(family, entry, scrape, |disk| {
                disk.cost.map(|cost| cost.usage)
            });
        },
    ),
    (
        counter(
            "container_fs_io_cost_wait_seconds_total",
            "Waits for I/O cost.",
        ),
        |family, entry, scrape| {
            cost(family, entry, scrape, |disk| {
                disk.cost.map(|cost| cost.wait)
            });
        },
    ),
    (
        counter(
            "container_fs_io_cost_indebt_seconds_total",
            "I/O cost owed.",
        ),
        |family, entry, scrape| {
            cost(family, entry, scrape, |disk| {
                disk.cost.map(|cost| cost.indebt)
            });
        },
    ),
    (
        counter(
            "container_fs_io_cost_indelay_seconds_total",
            "Delays for I/O cost owed.",
        ),
        |family, entry, scrape| {
            cost(family, entry, scrape, |disk| {
                disk.cost.map(|cost| cost.indelay)
            });
        },
    ),
    (
        gauge(
            "container_fs_limit_bytes",
            "Bytes that the file system holds.",
        ),
        |family, entry, scrape| file_systems(family, entry, scrape, |one| one.capacity),
    ),
    (
        gauge(
            "container_fs_usage_bytes",
            "Bytes of the file system in use.",
        ),
        |family, entry, scrape| file_systems(family, entry, scrape, |one| one.used),
    ),
    (
        gauge(
            "container_fs_inodes_total",
            "Files that the file system can hold.",
        ),
        |family, entry, scrape| file_systems(family, entry, scrape, |one| one.inodes),
    ),
    (
        gauge(
            "container_fs_inodes_free",
            "Files that the file system has room for.",
        ),
        |family, entry, scrape| file_systems(family, entry, scrape, |one| one.inodes_free),
    ),
    // How long programs waited.
    (
        counter(
            "container_pressure_cpu_waiting_seconds_total",
            "Some waited for a CPU.",
        ),
        |family, entry, scrape| {
            waited(
                family,
                entry,
                scrape,
                &entry.row.figures.pressure.cpu,
                false,
            );
        },
    ),
    (
        counter(
            "container_pressure_cpu_stalled_seconds_total",
            "All waited for a CPU.",
        ),
        |family, entry, scrape| {
            waited(family, entry, scrape, &entry.row.figures.pressure.cpu, true);
        },
    ),
    (
        counter(
            "container_pressure_memory_waiting_seconds_total",
            "Some waited for memory.",
        ),
        |family, entry, scrape| {
            waited(
                family,
                entry,
                scrape,
                &entry.row.figures.pressure.memory,
                false,
            );
        },
    ),
    (
        counter(
            "container_pressure_memory_stalled_seconds_total",
            "All waited for memory.",
        ),
        |family, entry, scrape| {
            waited(
                family,
                entry,
                scrape,
                &entry.row.figures.pressure.memory,
                true,
            );
        },
    ),
    (
        counter(
            "container_pressure_io_waiting_seconds_total",
            "Some waited for a disk.",
        ),
        |family, entry, scrape| {
            waited(family, entry, scrape, &entry.row.figures.pressure.io, false);
        },
    ),
    (
        counter(
            "container_pressure_io_stalled_seconds_total",
            "All waited for a disk.",
        ),
        |family, entry, scrape| {
            waited(family, entry, scrape, &entry.row.figures.pressure.io, true);
        },
    ),
];

fn put(family: &mut Family<'_>, entry: &Entry, value: Value) {
    family.put(&entry.labels, &[], value, entry.row.at);
}

fn count(family: &mut Family<'_>, entry: &Entry, value: u64) {
    put(family, entry, Value::Count(value));
}

/// What a group is kept to has no time: it is so until it is changed.
fn limit(family: &mut Family<'_>, entry: &Entry, value: u64) {
    family.put(&entry.labels, &[], Value::Count(value), None);
}

fn bounded(limit: u64) -> u64 {
    if limit > UNLIMITED { 0 } else { limit }
}

/// Without a quota nothing is held up by it.
fn with_quota(family: &mut Family<'_>, entry: &Entry, value: Value) {
    if entry.row.figures.limits.cpu_quota.is_some() {
        put(family, entry, value);
    }
}

fn traffic(
    family: &mut Family<'_>,
    entry: &Entry,
    value: fn(&seams::host::InterfaceFigures) -> u64,
) {
    for one in &entry.network {
        let more = [("interface", &*one.name)];
        family.put(&entry.labels, &more, Value::Count(value(one)), entry.row.at);
    }
}

/// What a disk is called; nothing if nobody says.
fn name<'a>(scrape: &'a Scrape, disk: &DiskActivity) -> &'a str {
    let same = |known: &&seams::host::Disk| (known.major, known.minor) == (disk.major, disk.minor);
    let known = scrape.machine.disks.iter().find(same);
    known.map_or("", |known| &known.name)
}

fn disks(
    family: &mut Family<'_>,
    entry: &Entry,
    scrape: &Scrape,
    value: fn(&DiskActivity) -> Value,
) {
    for disk in &entry.row.figures.disks {
        let more = [("device", name(scrape, disk))];
        family.put(&entry.labels, &more, value(disk), entry.row.at);
    }
}

/// In microseconds, where the kernel's I/O cost model is on.
fn cost(
    family: &mut Family<'_>,
    entry: &Entry,
    scrape: &Scrape,
    value: fn(&DiskActivity) -> Option<u64>,
) {
    for disk in &entry.row.figures.disks {
        if let Some(micros) = value(disk) {
            let more = [("device", name(scrape, disk))];
            family.put(&entry.labels, &more, Value::Micros(micros), entry.row.at);
        }
    }
}

fn block_io(family: &mut Family<'_>, entry: &Entry, scrape: &Scrape) {
    for disk in &entry.row.figures.disks {
        let (major, minor) = (disk.major.to_string(), disk.minor.to_string());
        let Operations { read, write, more } = disk.bytes;
        let mut put = |operation: &str, bytes: u64| {
            let labels = [
                ("device", name(scrape, disk)),
                ("major", &*major),
                ("minor", &*minor),
                ("operation", operation),
            ];
            family.put(&entry.labels, &labels, Value::Count(bytes), entry.row.at);
        };
        put("Read", read);
        put("Write", write);
        if let Some(more) = more {
            put("Sync", more.sync);
            put("Async", more.async_);
            put("Discard", more.discard);
            put("Total", more.total);
        }
    }
}

/// The machine's file systems are told of with its own group.
fn mounted<'a>(entry: &Entry, scrape: &'a Scrape) -> &'a [MountedFigures] {
    if entry.is_root {
        &scrape.machine.file_systems
    } else {
        &[]
    }
}

fn file_systems(
    family: &mut Family<'_>,
    entry: &Entry,
    scrape: &Scrape,
    value: fn(&MountedFigures) -> u64,
) {
    for one in mounted(entry, scrape) {
        let more = [("device", &*one.device)];
        family.put(&entry.labels, &more, Value::Count(value(one)), entry.row.at);
    }
}

fn activity(
    family: &mut Family<'_>,
    entry: &Entry,
    scrape: &Scrape,
    value: fn(&DiskCounters) -> Value,
) {
    for one in mounted(entry, scrape) {
        let more = [("device", &*one.device)];
        family.put(&entry.labels, &more, value(&one.activity), entry.row.at);
    }
}

fn waited(family: &mut Family<'_>, entry: &Entry, scrape: &Scrape, pressure: &Pressure, all: bool) {
    if !scrape.machine.pressure {
        return;
    }
    let waits = if all { pressure.full } else { pressure.some };
    put(family, entry, Value::Micros(waits.total));
}

fn whole_seconds(time: std::time::SystemTime) -> Value {
    match seconds_of(time) {
        Value::Nanos(nanos) => Value::Count(nanos / 1_000_000_000),
        other => other,
    }
}
