//! The machine as a whole: its disks, what is mounted, how many processes there are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::statvfs;
use seams::host::{CgroupVersion, Disk, DiskCounters, MachineFigures, MountedFigures};

use super::parse;
use crate::cgroups::Hierarchies;
use crate::files::Files;

const CPUS: &str = "/sys/devices/system/cpu";
const MOUNTS: &str = "/proc/self/mountinfo";
const DISKS: &str = "/proc/diskstats";

/// File systems that hold something, beside those whose name begins with `ext`. One
/// that is elsewhere (NFS) may not answer, and those of containers (overlay) are parts
/// of others.
const HOLDING: [&str; 13] = [
    "xfs", "btrfs", "zfs", "squashfs", "f2fs", "jfs", "reiserfs", "vfat", "msdos", "exfat", "udf",
    "iso9660", "tmpfs",
];

/// Disks that are files, or memory.
const PASSED_OVER: [&str; 3] = ["loop", "ram", "zram"];

/// What stays as it is while the machine runs, or as it was when first looked at.
#[derive(Debug)]
pub(crate) struct Fixed {
    booted: Option<SystemTime>,
    physical_cores: u32,
    sockets: u32,
    pressure: bool,
    mounts: Vec<Mount>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: String,
    place: PathBuf,
    major: u32,
    minor: u32,
}

impl Fixed {
    pub(crate) fn look(files: &Files, hierarchies: Option<&Hierarchies>) -> Self {
        let (physical_cores, sockets) = topology(files);
        Self {
            booted: booted(&text(files, "/proc/stat")),
            physical_cores,
            sockets,
            pressure: hierarchies.is_some_and(tells_pressure),
            mounts: mounts(&text(files, MOUNTS)),
        }
    }
}

/// As it is now.
pub(crate) fn of_machine(files: &Files, fixed: &Fixed) -> MachineFigures {
    let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    let limits = limits.map(|path| text(files, path).trim().parse().ok());
    let disks = disks(&text(files, DISKS));
    let mounts = fixed.mounts.iter();
    let file_systems = mounts.filter_map(|mount| figures(files, mount, &disks));
    MachineFigures {
        booted: fixed.booted,
        physical_cores: fixed.physical_cores,
        sockets: fixed.sockets,
        pressure: fixed.pressure,
        most_processes: limits.into_iter().flatten().min(),
        processes: parse::processes(&text(files, "/proc/loadavg")),
        file_systems: file_systems.collect(),
        disks,
    }
}

/// Nothing of one that is not there.
fn text(files: &Files, path: &str) -> String {
    files.optional_text(path).ok().flatten().unwrap_or_default()
}

/// Only the second version has it for groups.
fn tells_pressure(hierarchies: &Hierarchies) -> bool {
    let root = hierarchies.place("cpu", std::path::Path::new("/"));
    hierarchies.version() == CgroupVersion::V2
        && root.is_some_and(|root| root.join("cpu.pressure").exists())
}

fn booted(stat: &str) -> Option<SystemTime> {
    let mut lines = stat.lines();
    let seconds = lines.find_map(|line| line.strip_prefix("btime "))?;
    let since = Duration::from_secs(seconds.trim().parse().ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// Cores, and the places that they are plugged into.
fn topology(files: &Files) -> (u32, u32) {
    let names = files.names(CPUS).ok().flatten().unwrap_or_default();
    let cpus = names.iter().filter(|name| {
        let digits = name.strip_prefix("cpu").unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    let (mut cores, mut sockets) = (BTreeSet::new(), BTreeSet::new());
    for cpu in cpus {
        let place = |file: &str| text(files, &format!("{CPUS}/{cpu}/topology/{file}"));
        let (socket, core) = (place("physical_package_id"), place("core_id"));
        if core.is_empty() {
            continue;
        }
        cores.insert((socket.clone(), core));
        sockets.insert(socket);
    }
    let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    (count(cores.len()), count(sockets.len()))
}

fn disks(stats: &str) -> Vec<Disk> {
    let disks = stats.lines().filter_map(parse::disk);
    let disks = disks.filter(|(_, _, name, _)| {
        let mut passed = PASSED_OVER.iter();
        !passed.any(|prefix| name.starts_with(prefix))
    });
    let disks = disks.map(|(major, minor, name, activity)| Disk {
        major,
        minor,
        name: format!("/dev/{name}"),
        activity,
    });
    disks.collect()
}

/// What is mounted, once for each device; each in memory for itself.
fn mounts(table: &str) -> Vec<Mount> {
    let mut found = BTreeMap::new();
    for mount in table.lines().filter_map(mount) {
        found.entry(mount.device.clone()).or_insert(mount);
    }
    found.into_values().collect()
}

fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2);
    let (major, minor) = place.next()?.split_once(':')?;
    let point = place.nth(1)?;
    let mut kind = kind.split(' ');
    let (kind, source) = (kind.next()?, kind.next()?);
    let holding = kind.starts_with("ext") || HOLDING.contains(&kind);
    if point != "/" && (!holding || is_of_pods(point)) {
        return None;
    }
    let in_memory = kind == "tmpfs";
    Some(Mount {
        device: if in_memory { point } else { source }.to_owned(),
        place: PathBuf::from(point),
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}

/// Volumes, and what runtimes mount for containers. They come and go, and are told of
/// with their pods.
fn is_of_pods(point: &str) -> bool {
    point.contains("/kubernetes.io~")
        || point.contains("/volume-subpaths/")
        || point.starts_with("/run/")
        || point.ends_with("/shm") && point != "/dev/shm"
}

fn figures(files: &Files, mount: &Mount, disks: &[Disk]) -> Option<MountedFigures> {
    let figures = statvfs(files.path(&mount.place)).ok()?;
    let block = figures.f_frsize;
    let same = |disk: &&Disk| (disk.major, disk.minor) == (mount.major, mount.minor);
    let disk = disks.iter().find(|disk| disk.name == mount.device);
    let disk = disk.or_else(|| disks.iter().find(same));
    Some(MountedFigures {
        device: mount.device.clone(),
        capacity: figures.f_blocks * block,
        used: figures.f_blocks.saturating_sub(figures.f_bfree) * block,
        inodes: figures.f_files,
        inodes_free: figures.f_ffree,
        activity: disk.map_or_else(DiskCounters::default, |disk| disk.activity),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_is_told_of_once_and_nothing_of_pods() {
        let table = "\
25 1 254:0 / / rw - ext4 /dev/vda rw
26 25 254:0 /a /bound rw - ext4 /dev/vda rw
27 25 0:5 / /proc rw - proc proc rw
28 25 0:20 / /dev/shm rw - tmpfs tmpfs rw
29 25 0:21 / /tmp rw - tmpfs tmpfs rw
30 25 0:22 / /var/lib/kubelet/pods/1/volumes/kubernetes.io~secret/a rw - tmpfs tmpfs rw
31 25 0:23 / /run/containerd/x/rootfs rw - overlay overlay rw
32 25 0:24 / /state/sandboxes/1/shm rw - tmpfs shm rw
33 25 0:25 / /elsewhere rw - nfs4 host:/a rw
";
        let found = mounts(table);
        let devices: Vec<&str> = found.iter().map(|mount| mount.device.as_str()).collect();
        assert_eq!(devices, ["/dev/shm", "/dev/vda", "/tmp"]);
        assert_eq!((found[1].major, found[1].minor), (254, 0));
        assert_eq!(found[1].place, PathBuf::from("/"));
    }

    #[test]
    fn cores_and_sockets_are_counted_once() {
        let cpu = |number: u32, socket: u32, core: u32| {
            let place = format!("sys/devices/system/cpu/cpu{number}/topology");
            [
                (
                    format!("{place}/physical_package_id"),
                    format!("{socket}\n"),
                ),
                (format!("{place}/core_id"), format!("{core}\n")),
            ]
        };
        let all = [cpu(0, 0, 0), cpu(1, 0, 0), cpu(2, 0, 1), cpu(3, 1, 0)].concat();
        let all: Vec<(&str, &str)> = all.iter().map(|(path, text)| (&**path, &**text)).collect();
        let root = crate::testing::tree(&all);
        let files = Files::new(root.path().to_owned());
        assert_eq!(topology(&files), (3, 2));
        assert_eq!(
            booted("cpu 1 2\nbtime 1700000000\nprocesses 3\n"),
            Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
        );
    }

    #[test]
    fn this_machine_tells_of_itself() {
        let files = Files::new(PathBuf::from("/"));
        let figures = of_machine(&files, &Fixed::look(&files, None));
        assert!(figures.booted.is_some());
        assert!(figures.processes > Some(0), "{figures:?}");
        assert!(figures.most_processes >= figures.processes, "{figures:?}");
        let root = figures.file_systems.iter();
        assert!(root.clone().any(|one| one.capacity > 0), "{root:?}");
    }
}
