//! What the processes of a group hold, by what the kernel shows of each.

use std::io;
use std::path::Path;

use rustix::fs::{CWD, Dir, Mode, OFlags, openat, readlinkat};
use seams::host::{InterfaceFigures, ProcessFigures};

use super::{Reader, directory, parse};
use crate::files::Files;

const PROCESSES: &str = "/proc";

/// The interfaces that a process sees; `None` if there is no such process.
pub(crate) fn network_of(files: &Files, process: u32) -> io::Result<Option<Vec<InterfaceFigures>>> {
    let path = files.path(format!("{PROCESSES}/{process}/net/dev"));
    let mut reader = Reader::default();
    Ok(reader.text(CWD, &path)?.map(parse::interfaces))
}

/// The count and the oldest of `cgroup.procs`, which is a number per line.
pub(super) fn listed(list: &str, processes: &mut ProcessFigures) {
    processes.count = numbers(list).count() as u64;
    processes.first = first(list);
}

/// Those of other namespaces are listed as 0.
pub(super) fn first(list: &str) -> Option<u32> {
    numbers(list).find(|number| *number > 0)
}

fn numbers(list: &str) -> impl Iterator<Item = u32> {
    list.lines().filter_map(|line| line.parse().ok())
}

/// Adds what they have open. One that has gone by itself has nothing.
pub(super) fn held(files: &Files, list: &str, processes: &mut ProcessFigures) {
    let mut target = Vec::new();
    for number in list.lines().filter(|line| *line != "0") {
        let path = files.path(format!("{PROCESSES}/{number}/fd"));
        // What cannot be looked at is not counted.
        let _ = open_files(&path, &mut target, processes);
    }
}

fn open_files(
    path: &Path,
    target: &mut Vec<u8>,
    processes: &mut ProcessFigures,
) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = openat(CWD, path, flags, Mode::empty())?;
    for entry in Dir::read_from(&open)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        processes.open_files += 1;
        // It may have been closed meanwhile.
        let Ok(link) = readlinkat(&open, name, std::mem::take(target)) else {
            continue;
        };
        *target = link.into_bytes();
        if target.starts_with(b"socket") {
            processes.sockets += 1;
        }
    }
    Ok(())
}

/// How many files a process may open.
pub(super) fn most_open_files(
    files: &Files,
    reader: &mut Reader,
    process: u32,
) -> io::Result<Option<u64>> {
    let Some(own) = directory(CWD, &files.path(format!("{PROCESSES}/{process}")))? else {
        return Ok(None);
    };
    let limits = reader.text(&own, "limits")?;
    Ok(limits.and_then(parse::most_open_files))
}
