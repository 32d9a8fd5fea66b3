//! The checks: pure, each on the facts that it needs. Those that others than a join
//! ask for are public.

use std::path::Path;
use std::time::Duration;

use types::names::validate_dns_subdomain;

use super::{
    CgroupVersion, Cgroups, Check, ClockSkew, HEALTHZ_PORT, KUBELET_PORT, MachineFacts, Outcome,
    RuntimeSocket, SocketState, Wanted,
};

/// What the signer allows for: its certificates begin this long ago.
const SKEW_LIMIT: Duration = Duration::from_secs(5 * 60);
/// From here on it is worth a word.
const SKEW_NOTICE: Duration = Duration::from_secs(30);
/// Below this a node is of little use; kubeadm asks it of control planes.
const SMALL_MEMORY: u64 = 1700 << 20;

/// All checks, in the order in which they are shown.
pub fn judge(facts: &MachineFacts, wanted: &Wanted) -> Vec<Check> {
    let mut checks = vec![root(facts.is_root)];
    let files = wanted.files.iter();
    checks.extend(files.map(|(path, in_the_way)| file(path, *in_the_way)));
    checks.push(runtime(&facts.runtime));
    checks.push(cgroups(&facts.cgroups));
    checks.push(swap(&facts.swaps));
    checks.push(hostname(&facts.hostname, &wanted.node_name));
    for number in [KUBELET_PORT, HEALTHZ_PORT] {
        checks.push(port(number, facts.listening_ports.contains(&number)));
    }
    checks.push(ip_forward(facts.ip_forward));
    checks.extend(facts.clock_skew.map(clock));
    checks.push(memory(facts.memory_bytes));
    checks.push(cpus(facts.cpus));
    checks
}

fn root(is_root: bool) -> Check {
    const NAME: &str = "IsPrivilegedUser";
    if is_root {
        return Check::ok(NAME, "running as root");
    }
    Check::bad(Outcome::Error, NAME, "not running as root", "use sudo")
}

fn file(path: &Path, in_the_way: bool) -> Check {
    let name = format!("FileAvailable-{}", path.display()).replace('/', "-");
    if !in_the_way {
        return Check::ok(&name, format!("{} is free", path.display()));
    }
    Check::bad(
        Outcome::Error,
        &name,
        format!("{} is there with other content", path.display()),
        "take a former join away with `ferrolet reset --node`, or move the file away",
    )
}

fn runtime(socket: &RuntimeSocket) -> Check {
    const NAME: &str = "CRI";
    let path = socket.path.display();
    match socket.state {
        SocketState::Present => Check::ok(NAME, format!("the runtime's socket is at {path}")),
        SocketState::Missing => Check::bad(
            Outcome::Error,
            NAME,
            format!("there is no runtime's socket at {path}"),
            "install and start containerd (`systemctl enable --now containerd`) or CRI-O, or name its socket with --cri-socket",
        ),
        SocketState::NotASocket => Check::bad(
            Outcome::Error,
            NAME,
            format!("{path} is not a socket"),
            "name the runtime's socket with --cri-socket",
        ),
    }
}

/// Version 2 has no controllers of their own for devices and freezing.
pub fn cgroups(cgroups: &Cgroups) -> Check {
    const NAME: &str = "SystemVerification";
    let needed: &[&str] = match cgroups.version {
        CgroupVersion::V2 => &["cpu", "cpuset", "memory", "pids"],
        CgroupVersion::V1 => &[
            "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids",
        ],
        CgroupVersion::None => {
            return Check::bad(
                Outcome::Error,
                NAME,
                "no control groups are mounted at /sys/fs/cgroup",
                "mount them, or run this outside of the container",
            );
        }
    };
    let missing: Vec<_> = needed
        .iter()
        .filter(|name| !cgroups.controllers.contains(**name))
        .copied()
        .collect();
    if !missing.is_empty() {
        return Check::bad(
            Outcome::Error,
            NAME,
            format!("the control groups lack {}", missing.join(", ")),
            "switch them on: for memory, boot with cgroup_enable=memory; in a container, delegate them",
        );
    }
    match cgroups.version {
        CgroupVersion::V1 => Check::bad(
            Outcome::Warning,
            NAME,
            "the machine uses control groups of version 1, which upstream gives up",
            "boot with systemd.unified_cgroup_hierarchy=1, or keep failCgroupV1: false in the kubelet's configuration",
        ),
        _ => Check::ok(NAME, "control groups of version 2 with all that is needed"),
    }
}

fn swap(swaps: &[String]) -> Check {
    const NAME: &str = "Swap";
    if swaps.is_empty() {
        return Check::ok(NAME, "no swap is in use");
    }
    Check::bad(
        Outcome::Warning,
        NAME,
        format!("swap is in use: {}", swaps.join(", ")),
        "switch it off with `swapoff -a` and in /etc/fstab, or set failSwapOn: false and memorySwap in the kubelet's configuration",
    )
}

fn hostname(hostname: &str, node_name: &str) -> Check {
    const NAME: &str = "Hostname";
    if let Err(cause) = validate_dns_subdomain(node_name) {
        return Check::bad(
            Outcome::Error,
            NAME,
            format!("the node cannot be called {node_name:?}: {cause}"),
            "choose another name with --node-name",
        );
    }
    if hostname.to_lowercase() == node_name {
        return Check::ok(NAME, format!("the node is called {node_name}"));
    }
    Check::ok(
        NAME,
        format!("the node is called {node_name} on the machine {hostname}"),
    )
}

fn port(number: u16, taken: bool) -> Check {
    let name = format!("Port-{number}");
    if !taken {
        return Check::ok(&name, format!("port {number} is free"));
    }
    Check::bad(
        Outcome::Error,
        &name,
        format!("port {number} is in use"),
        format!(
            "see by whom with `ss -ltnp 'sport = :{number}'`; stop a kubelet with `systemctl stop kubelet`"
        ),
    )
}

/// Packets of pods are passed on between networks.
pub fn ip_forward(forwarding: Option<bool>) -> Check {
    const NAME: &str = "FileContent--proc-sys-net-ipv4-ip_forward";
    match forwarding {
        Some(true) => Check::ok(NAME, "packets between networks are passed on"),
        seen => Check::bad(
            Outcome::Error,
            NAME,
            match seen {
                Some(_) => "packets between networks are not passed on",
                None => "/proc/sys/net/ipv4/ip_forward cannot be read",
            },
            "`sysctl -w net.ipv4.ip_forward=1`, and the same line in /etc/sysctl.d",
        ),
    }
}

/// Certificates are judged by the clock.
pub fn clock(skew: ClockSkew) -> Check {
    const NAME: &str = "Clock";
    const FIX: &str = "set the clock, and keep it right with chrony or systemd-timesyncd";
    let seconds = skew.size().as_secs();
    let seen = format!("the clock is {seconds}s {} the API server's", skew.word());
    match skew.size() {
        size if size > SKEW_LIMIT => Check::bad(Outcome::Error, NAME, seen, FIX),
        size if size > SKEW_NOTICE => Check::bad(Outcome::Warning, NAME, seen, FIX),
        _ => Check::ok(NAME, seen),
    }
}

fn memory(bytes: u64) -> Check {
    const NAME: &str = "Mem";
    let seen = format!("{} MiB of memory", bytes >> 20);
    if bytes >= SMALL_MEMORY {
        return Check::ok(NAME, seen);
    }
    let fix = "give the machine more: kubeadm asks 1700 MiB of a control plane";
    Check::bad(Outcome::Warning, NAME, seen, fix)
}

fn cpus(count: usize) -> Check {
    const NAME: &str = "NumCPU";
    let seen = format!("{count} CPUs");
    if count >= 2 {
        return Check::ok(NAME, seen);
    }
    let fix = "give the machine more: kubeadm asks 2 of a control plane";
    Check::bad(Outcome::Warning, NAME, seen, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> MachineFacts {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        MachineFacts {
            is_root: true,
            listening_ports: [22].into(),
            runtime: RuntimeSocket {
                path: "/run/containerd/containerd.sock".into(),
                state: SocketState::Present,
            },
            cgroups: Cgroups {
                version: CgroupVersion::V2,
                controllers: names(&["cpu", "cpuset", "io", "memory", "pids"]),
            },
            swaps: Vec::new(),
            clock_skew: Some(ClockSkew::Behind(Duration::from_secs(2))),
            ip_forward: Some(true),
            hostname: "Up1".to_owned(),
            memory_bytes: 4 << 30,
            cpus: 2,
        }
    }

    fn wanted() -> Wanted {
        Wanted {
            node_name: "up1".to_owned(),
            files: vec![("/etc/kubernetes/kubelet.conf".into(), false)],
        }
    }

    #[test]
    fn a_machine_that_is_ready_passes_under_kubeadms_names() {
        let checks = judge(&facts(), &wanted());
        assert!(
            checks.iter().all(|check| check.outcome == Outcome::Ok),
            "{checks:?}"
        );
        let names: Vec<_> = checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "IsPrivilegedUser",
                "FileAvailable--etc-kubernetes-kubelet.conf",
                "CRI",
                "SystemVerification",
                "Swap",
                "Hostname",
                "Port-10250",
                "Port-10248",
                "FileContent--proc-sys-net-ipv4-ip_forward",
                "Clock",
                "Mem",
                "NumCPU",
            ]
        );
    }

    #[test]
    fn each_fault_is_found_alone_and_told_with_its_fix() {
        type Change = fn(&mut MachineFacts, &mut Wanted);
        let cases: [(Change, &str, Outcome); 17] = [
            (
                |facts, _| facts.is_root = false,
                "IsPrivilegedUser",
                Outcome::Error,
            ),
            (
                |_, wanted| wanted.files[0].1 = true,
                "FileAvailable--etc-kubernetes-kubelet.conf",
                Outcome::Error,
            ),
            (
                |facts, _| facts.runtime.state = SocketState::Missing,
                "CRI",
                Outcome::Error,
            ),
            (
                |facts, _| facts.runtime.state = SocketState::NotASocket,
                "CRI",
                Outcome::Error,
            ),
            (
                |facts, _| {
                    facts.cgroups.controllers.remove("memory");
                },
                "SystemVerification",
                Outcome::Error,
            ),
            (
                |facts, _| facts.cgroups.version = CgroupVersion::None,
                "SystemVerification",
                Outcome::Error,
            ),
            (
                |facts, _| {
                    facts.cgroups.version = CgroupVersion::V1;
                    let more = ["cpuacct", "devices", "freezer"].map(str::to_owned);
                    facts.cgroups.controllers.extend(more);
                },
                "SystemVerification",
                Outcome::Warning,
            ),
            (
                |facts, _| facts.swaps.push("/swapfile".to_owned()),
                "Swap",
                Outcome::Warning,
            ),
            (
                |_, wanted| wanted.node_name = "Up_1".to_owned(),
                "Hostname",
                Outcome::Error,
            ),
            (
                |facts, _| {
                    facts.listening_ports.insert(10250);
                },
                "Port-10250",
                Outcome::Error,
            ),
            (
                |facts, _| {
                    facts.listening_ports.insert(10248);
                },
                "Port-10248",
                Outcome::Error,
            ),
            (
                |facts, _| facts.ip_forward = Some(false),
                "FileContent--proc-sys-net-ipv4-ip_forward",
                Outcome::Error,
            ),
            (
                |facts, _| facts.ip_forward = None,
                "FileContent--proc-sys-net-ipv4-ip_forward",
                Outcome::Error,
            ),
            (
                |facts, _| facts.clock_skew = Some(ClockSkew::Ahead(Duration::from_secs(31))),
                "Clock",
                Outcome::Warning,
            ),
            (
                |facts, _| facts.clock_skew = Some(ClockSkew::Behind(Duration::from_secs(301))),
                "Clock",
                Outcome::Error,
            ),
            (
                |facts, _| facts.memory_bytes = 1 << 30,
                "Mem",
                Outcome::Warning,
            ),
            (|facts, _| facts.cpus = 1, "NumCPU", Outcome::Warning),
        ];
        for (change, name, outcome) in cases {
            let (mut facts, mut wanted) = (facts(), wanted());
            change(&mut facts, &mut wanted);
            let checks = judge(&facts, &wanted);
            let bad: Vec<_> = checks
                .iter()
                .filter(|check| check.outcome != Outcome::Ok)
                .collect();
            let found: Vec<_> = bad
                .iter()
                .map(|check| (check.name.as_str(), check.outcome))
                .collect();
            assert_eq!(found, [(name, outcome)]);
            assert!(!bad[0].fix.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_clock_that_nobody_could_compare_is_not_judged() {
        let facts = MachineFacts {
            clock_skew: None,
            ..facts()
        };
        let checks = judge(&facts, &wanted());
        assert!(checks.iter().all(|check| check.name != "Clock"));
    }
}
