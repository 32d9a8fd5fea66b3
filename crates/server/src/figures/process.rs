//! This process's own figures, as the kernel has them.

use std::path::Path;

use seams::Host;
use seams::host::Listing;
use tokio::runtime::Handle;
use types::figures::{Family, Page};

/// Of the times that the kernel shows to processes.
const TICKS_PER_SECOND: f64 = 100.0;

const CPU: Family = Family::counter(
    "process_cpu_seconds_total",
    "CPU time that this process has used, in seconds",
);
const MAX_FDS: Family = Family::gauge("process_max_fds", "Files that it may have open");
const OPEN_FDS: Family = Family::gauge("process_open_fds", "Files that it has open");
const RECEIVED: Family = Family::counter(
    "process_network_receive_bytes_total",
    "Bytes that came in over its network",
);
const SENT: Family = Family::counter(
    "process_network_transmit_bytes_total",
    "Bytes that went out over its network",
);
const RESIDENT: Family = Family::gauge("process_resident_memory_bytes", "Resident memory");
const VIRTUAL: Family = Family::gauge("process_virtual_memory_bytes", "Virtual memory");
const MAX_VIRTUAL: Family = Family::gauge(
    "process_virtual_memory_max_bytes",
    "Virtual memory that it may have",
);
const START: Family = Family::gauge(
    "process_start_time_seconds",
    "When it was started, in seconds since 1970",
);
/// Go's name, as dashboards ask for it.
const TASKS: Family = Family::gauge(
    "go_goroutines",
    "Tasks that exist: what goroutines are to a program in Go, which this one is not",
);
/// The same on pages that have no other figure of the process.
const START_ALPHA: Family = Family::gauge(
    "process_start_time_seconds",
    "[ALPHA] When the process was started, in seconds since 1970",
);

/// What could be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Process {
    cpu: Option<f64>,
    max_fds: Option<f64>,
    open_fds: Option<f64>,
    received: Option<f64>,
    sent: Option<f64>,
    resident: Option<f64>,
    virtual_memory: Option<f64>,
    max_virtual: Option<f64>,
    start: Option<f64>,
    tasks: Option<f64>,
}

impl Process {
    /// A machine in memory has none of this.
    pub(super) fn read(host: &dyn Host) -> Self {
        let mut process = Self::read_start(host);
        process.tasks = tasks();
        let read = |path: &str| text(host, path);
        if let Some(stat) = read("/proc/self/stat") {
            process.cpu = cpu(&stat);
        }
        if let Some(status) = read("/proc/self/status") {
            process.resident = kibibytes(&status, "VmRSS:");
            process.virtual_memory = kibibytes(&status, "VmSize:");
        }
        if let Some(limits) = read("/proc/self/limits") {
            process.max_fds = limit(&limits, "Max open files");
            process.max_virtual = limit(&limits, "Max address space");
        }
        if let Some(netstat) = read("/proc/self/net/netstat") {
            process.received = ip_ext(&netstat, "InOctets");
            process.sent = ip_ext(&netstat, "OutOctets");
        }
        if let Ok(Some(Listing::Directory(files))) = host.list(Path::new("/proc/self/fd")) {
            // One of them was open for the look.
            let count = files.len().saturating_sub(1);
            process.open_fds = u32::try_from(count).ok().map(f64::from);
        }
        process
    }

    /// When it began alone.
    pub(super) fn read_start(host: &dyn Host) -> Self {
        let start = text(host, "/proc/self/stat")
            .zip(text(host, "/proc/stat"))
            .and_then(|(own, machine)| start(&own, &machine));
        Self {
            start,
            ..Self::default()
        }
    }

    pub(super) fn show(&self, page: &mut Page) {
        for (family, value) in [
            (&CPU, self.cpu),
            (&MAX_FDS, self.max_fds),
            (&OPEN_FDS, self.open_fds),
            (&RECEIVED, self.received),
            (&SENT, self.sent),
            (&RESIDENT, self.resident),
            (&VIRTUAL, self.virtual_memory),
            (&MAX_VIRTUAL, self.max_virtual),
            (&START, self.start),
            (&TASKS, self.tasks),
        ] {
            show(page, family, value);
        }
    }

    pub(super) fn show_start(&self, page: &mut Page) {
        show(page, &START_ALPHA, self.start);
    }
}

fn tasks() -> Option<f64> {
    let metrics = Handle::try_current().ok()?.metrics();
    u32::try_from(metrics.num_alive_tasks()).ok().map(f64::from)
}

fn show(page: &mut Page, family: &Family, value: Option<f64>) {
    page.family(family, |family| {
        if let Some(value) = value {
            family.level(&[], value);
        }
    });
}

fn text(host: &dyn Host, path: &str) -> Option<String> {
    let content = host.read(Path::new(path)).ok().flatten()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}

/// A field of `/proc/self/stat`, counted from 1 as its manual does. The program's name,
/// in parentheses, may have spaces.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3)?.parse().ok()
}

fn cpu(stat: &str) -> Option<f64> {
    Some((field(stat, 14)? + field(stat, 15)?) / TICKS_PER_SECOND)
}

fn start(own: &str, machine: &str) -> Option<f64> {
    let mut lines = machine.lines();
    let booted = lines.find_map(|line| line.strip_prefix("btime "))?;
    let booted: f64 = booted.trim().parse().ok()?;
    Some(booted + field(own, 22)? / TICKS_PER_SECOND)
}

fn kibibytes(status: &str, name: &str) -> Option<f64> {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// The one that holds, not the one that it may be raised to.
fn limit(limits: &str, name: &str) -> Option<f64> {
    let mut lines = limits.lines();
    let value = lines.find_map(|line| line.strip_prefix(name))?;
    match value.split_whitespace().next()? {
        // The largest number that there is, as upstream has it.
        "unlimited" => Some(18_446_744_073_709_551_615.0),
        number => number.parse().ok(),
    }
}

/// Two lines for each protocol: the names, and then the numbers.
fn ip_ext(netstat: &str, name: &str) -> Option<f64> {
    let mut lines = netstat.lines().filter(|line| line.starts_with("IpExt:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
    let (_, number) = pairs.find(|(own, _)| *own == name)?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let own = "7 (a) b) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 3 0 2500 1000 9 0";
        assert_eq!(cpu(own), Some(2.0));
        assert_eq!(start(own, "cpu 1\nbtime 1000\n"), Some(1025.0));
        let status = "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t 1024 kB\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(1_048_576.0));
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096                 files\nMax address space         unlimited            unlimited            bytes\n";
        assert_eq!(limit(limits, "Max open files"), Some(1024.0));
        let most = limit(limits, "Max address space").unwrap();
        assert!(most > 1.8e19);
        let netstat = "TcpExt: A\nTcpExt: 1\nIpExt: InOctets OutOctets\nIpExt: 5 6\n";
        assert_eq!(ip_ext(netstat, "OutOctets"), Some(6.0));
        assert_eq!(ip_ext("", "OutOctets"), None);
    }
}
