//! What the kernel says of a process that is measured.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::lab::Daemon;

/// The kernel's unit towards programs, on every architecture that we run on.
const TICK: Duration = Duration::from_millis(10);

pub(super) struct Process {
    /// Its directory below `/proc`.
    place: String,
}

impl Process {
    pub(super) fn of(daemon: &Daemon) -> Result<Self> {
        let pid = daemon.pid();
        let pid = pid.with_context(|| format!("{} has ended", daemon.name()))?;
        Ok(Self {
            place: format!("/proc/{}", pid.as_raw_nonzero()),
        })
    }

    /// By its number, which its parent knows.
    pub(super) fn numbered(id: u32) -> Self {
        Self {
            place: format!("/proc/{id}"),
        }
    }

    /// Whoever asks.
    pub(super) fn own() -> Self {
        Self {
            place: "/proc/self".to_owned(),
        }
    }

    /// Bytes.
    pub(super) fn resident(&self) -> Result<u64> {
        Ok(self.status("VmRSS:")? * 1024)
    }

    /// Bytes of it that no file holds.
    pub(super) fn anonymous(&self) -> Result<u64> {
        Ok(self.status("RssAnon:")? * 1024)
    }

    pub(super) fn threads(&self) -> Result<u64> {
        self.status("Threads:")
    }

    /// Bytes of its program's file.
    pub(super) fn program(&self) -> Result<u64> {
        Ok(fs::metadata(format!("{}/exe", self.place))?.len())
    }

    /// CPU time since its start, threads that have ended included.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let file = format!("{}/stat", self.place);
        let stat = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        cpu_of(&stat).with_context(|| format!("cannot understand {file}"))
    }

    fn status(&self, field: &str) -> Result<u64> {
        let file = format!("{}/status", self.place);
        let status = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        field_of(&status, field).with_context(|| format!("no {field} in {file}"))
    }
}

fn field_of(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    value.split_whitespace().next()?.parse().ok()
}

fn cpu_of(stat: &str) -> Option<Duration> {
    // The name before may hold anything, and ends at the last bracket.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u32>().ok();
    Some(TICK * (ticks(11)? + ticks(12)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_name() {
        let status = "Name:\tx\nVmRSS:\t  72908 kB\nThreads:\t5\n";
        assert_eq!(field_of(status, "VmRSS:"), Some(72908));
        assert_eq!(field_of(status, "Threads:"), Some(5));
        assert_eq!(field_of(status, "RssAnon:"), None);
    }

    #[test]
    fn cpu_time_is_both_the_programs_and_the_kernels_whatever_the_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 1 0 0 0 150 50 9 9 20 0 5 0 1";
        assert_eq!(cpu_of(stat), Some(Duration::from_secs(2)));
        assert_eq!(cpu_of("7 (a) S 1"), None);
    }
}
