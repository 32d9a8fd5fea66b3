//! The facts of a real Linux machine, from its /proc and /sys. What cannot be
//! read counts as not there: the checks say what that means.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::listeners::listeners;
use super::{CgroupVersion, Cgroups, ClockSkew, MachineFacts, RuntimeSocket, SocketState};

/// Looks at the machine below `root` (`/` but for tests). How its clock compares
/// is known only to whoever has asked the API server.
pub fn gather(root: &Path, runtime_endpoint: &str, clock_skew: Option<ClockSkew>) -> MachineFacts {
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    MachineFacts {
        is_root: rustix::process::geteuid().is_root(),
        listening_ports: listeners(root).iter().map(|one| one.port).collect(),
        runtime: runtime_socket(root, runtime_endpoint),
        cgroups: cgroups(root),
        swaps: swaps(&text("proc/swaps")),
        clock_skew,
        ip_forward: forwarding(&text("proc/sys/net/ipv4/ip_forward")),
        hostname: text("proc/sys/kernel/hostname").trim().to_owned(),
        memory_bytes: memory(&text("proc/meminfo")),
        cpus: cpus(&text("proc/cpuinfo")),
    }
}

fn runtime_socket(root: &Path, endpoint: &str) -> RuntimeSocket {
    let path = PathBuf::from(endpoint.strip_prefix("unix://").unwrap_or(endpoint));
    let seen = fs::metadata(root.join(path.strip_prefix("/").unwrap_or(&path)));
    let state = match seen {
        Ok(metadata) if metadata.file_type().is_socket() => SocketState::Present,
        Ok(_) => SocketState::NotASocket,
        Err(_) => SocketState::Missing,
    };
    RuntimeSocket { path, state }
}

/// A unified hierarchy has its list of controllers at the top; a machine with
/// both versions at once counts as version 1, which then has the controllers.
fn cgroups(root: &Path) -> Cgroups {
    let unified = fs::read_to_string(root.join("sys/fs/cgroup/cgroup.controllers"));
    if let Ok(controllers) = unified {
        return Cgroups {
            version: CgroupVersion::V2,
            controllers: controllers.split_whitespace().map(str::to_owned).collect(),
        };
    }
    let mounted = root.join("sys/fs/cgroup/memory").is_dir()
        || root.join("sys/fs/cgroup/cpu").is_dir()
        || root.join("sys/fs/cgroup/cpu,cpuacct").is_dir();
    let table = fs::read_to_string(root.join("proc/cgroups")).unwrap_or_default();
    Cgroups {
        version: if mounted {
            CgroupVersion::V1
        } else {
            CgroupVersion::None
        },
        controllers: enabled_controllers(&table),
    }
}

/// `#subsys_name hierarchy num_cgroups enabled`.
fn enabled_controllers(table: &str) -> BTreeSet<String> {
    let enabled = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        match fields[..] {
            [name, _, _, "1"] => Some(name.to_owned()),
            _ => None,
        }
    };
    table.lines().skip(1).filter_map(enabled).collect()
}

fn swaps(table: &str) -> Vec<String> {
    let names = table.lines().skip(1);
    names
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn forwarding(text: &str) -> Option<bool> {
    let first = text.bytes().next()?;
    Some(first == b'1')
}

fn memory(table: &str) -> u64 {
    let line = table
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or_default() << 10
}

fn cpus(table: &str) -> usize {
    let processors = table.lines().filter(|line| line.starts_with("processor"));
    processors.count()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn put(root: &Path, path: &str, content: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[test]
    fn the_facts_are_read_where_linux_has_them() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue\n\
                   \x20  0: 00000000:280A 00000000:0000 0A 00000000:00000000\n\
                   \x20  1: 0100007F:1F90 0100007F:C350 01 00000000:00000000\n";
        put(root, "proc/net/tcp", tcp);
        let tcp6 = "sl\n   0: 00000000000000000000000000000000:0016 0:0000 0A 0\n";
        put(root, "proc/net/tcp6", tcp6);
        put(
            root,
            "proc/swaps",
            "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n",
        );
        put(root, "proc/sys/net/ipv4/ip_forward", "1\n");
        put(root, "proc/sys/kernel/hostname", "up1\n");
        put(
            root,
            "proc/meminfo",
            "MemTotal:        2048 kB\nMemFree: 1 kB\n",
        );
        put(
            root,
            "proc/cpuinfo",
            "processor\t: 0\nx: y\nprocessor\t: 1\n",
        );
        put(root, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
        fs::create_dir_all(root.join("run")).unwrap();
        let _listener = UnixListener::bind(root.join("run/cri.sock")).unwrap();
        let facts = gather(root, "unix:///run/cri.sock", None);
        assert_eq!(facts.listening_ports, [22, 10250].into());
        assert_eq!(facts.swaps, ["/dev/sda2"]);
        assert_eq!(facts.ip_forward, Some(true));
        assert_eq!(facts.hostname, "up1");
        assert_eq!((facts.memory_bytes, facts.cpus), (2 << 20, 2));
        assert_eq!(facts.cgroups.version, CgroupVersion::V2);
        let controllers = ["cpu", "memory"].map(str::to_owned);
        assert_eq!(facts.cgroups.controllers, controllers.into());
        assert_eq!(
            facts.runtime,
            RuntimeSocket {
                path: "/run/cri.sock".into(),
                state: SocketState::Present
            }
        );
    }

    #[test]
    fn version_one_has_its_controllers_in_a_table() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let table =
            "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t2\t1\t1\nmemory\t3\t1\t0\n";
        put(root, "proc/cgroups", table);
        put(root, "sys/fs/cgroup/memory/tasks", "");
        let found = cgroups(root);
        assert_eq!(found.version, CgroupVersion::V1);
        assert_eq!(found.controllers, ["cpu".to_owned()].into());
    }

    #[test]
    fn an_empty_machine_has_nothing() {
        let directory = tempfile::tempdir().unwrap();
        put(directory.path(), "run/cri.sock", "a file");
        let facts = gather(directory.path(), "/run/cri.sock", None);
        assert_eq!(facts.runtime.state, SocketState::NotASocket);
        assert_eq!(facts.cgroups.version, CgroupVersion::None);
        assert_eq!(facts.ip_forward, None);
        let gone = gather(directory.path(), "unix:///run/gone.sock", None);
        assert_eq!(gone.runtime.state, SocketState::Missing);
    }
}
