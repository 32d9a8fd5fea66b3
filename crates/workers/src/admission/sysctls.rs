//! Which settings of the kernel a pod may change: those that are its own and do no
//! harm to others, and those that the node allows by name.

use k8s_openapi::api::core::v1::PodSpec;

use super::{Rejection, Settings};

/// Those that do no harm, and since which kernel they belong to a pod alone.
const SAFE: [(&str, Kernel); 12] = [
    ("kernel.shm_rmid_forced", Kernel::ANY),
    ("net.ipv4.ip_local_port_range", Kernel::ANY),
    ("net.ipv4.tcp_syncookies", Kernel::ANY),
    ("net.ipv4.ping_group_range", Kernel::ANY),
    ("net.ipv4.ip_unprivileged_port_start", Kernel::ANY),
    ("net.ipv4.ip_local_reserved_ports", Kernel(3, 16)),
    ("net.ipv4.tcp_keepalive_time", Kernel(4, 5)),
    ("net.ipv4.tcp_fin_timeout", Kernel(4, 6)),
    ("net.ipv4.tcp_keepalive_intvl", Kernel(4, 5)),
    ("net.ipv4.tcp_keepalive_probes", Kernel(4, 5)),
    ("net.ipv4.tcp_rmem", Kernel(4, 15)),
    ("net.ipv4.tcp_wmem", Kernel(4, 15)),
];

/// Sysctls of the IPC namespace. `kernel.shm` and `kernel.msg` are no names, but what
/// is left of `kernel.shm*` and `kernel.msg*`.
const IPC: [&str; 10] = [
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];

pub(super) fn check(spec: &PodSpec, settings: &Settings) -> Result<(), Rejection> {
    let context = spec.security_context.as_ref();
    let wanted = context.and_then(|context| context.sysctls.as_ref());
    for sysctl in wanted.into_iter().flatten() {
        check_one(&normal(&sysctl.name), spec, settings)
            .map_err(|why| Rejection::new("SysctlForbidden", format!("forbidden sysctl: {why}")))?;
    }
    Ok(())
}

fn check_one(name: &str, spec: &PodSpec, settings: &Settings) -> Result<(), String> {
    let Some(namespace) = allowed_in(name, settings) else {
        return Err(format!("{name:?} not allowlisted"));
    };
    // The pod would change what is the node's.
    let (of_node, word) = match namespace {
        Namespace::Ipc => (spec.host_ipc == Some(true), "IPC"),
        Namespace::Net => (spec.host_network == Some(true), "Net"),
    };
    if of_node {
        return Err(format!("{name:?} not allowed with host {word} enabled"));
    }
    Ok(())
}

/// The namespace to which the name belongs by what allows it, if something does. A
/// pattern of no namespace allows nothing: the configuration is not accepted with one.
fn allowed_in(name: &str, settings: &Settings) -> Option<Namespace> {
    let kernel = Kernel::of(&settings.kernel);
    let safe = SAFE
        .iter()
        .filter(|(_, since)| *since == Kernel::ANY || kernel.is_some_and(|kernel| kernel >= *since))
        .map(|(safe, _)| (*safe).to_owned());
    let allowed = settings.allowed_unsafe_sysctls.iter();
    safe.chain(allowed.map(|pattern| normal(pattern)))
        .find_map(|pattern| match pattern.split_once('*') {
            Some((stem, _)) if name.starts_with(stem) => Namespace::of(stem),
            None if name == pattern => Namespace::of(name),
            _ => None,
        })
}

/// `net/ipv4/conf/eno2.100/rp_filter` is `net.ipv4.conf.eno2/100.rp_filter`: which of
/// the two is between words is told by the first.
fn normal(name: &str) -> String {
    let first = name.chars().find(|letter| ['.', '/'].contains(letter));
    if first != Some('/') {
        return name.to_owned();
    }
    let swap = |letter| match letter {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(swap).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    Ipc,
    Net,
}

impl Namespace {
    fn of(name: &str) -> Option<Self> {
        if IPC.contains(&name) || name.starts_with("fs.mqueue.") {
            Some(Self::Ipc)
        } else if name.starts_with("net.") {
            Some(Self::Net)
        } else {
            None
        }
    }
}

/// Major and minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kernel(u32, u32);

impl Kernel {
    const ANY: Self = Self(0, 0);

    /// Reads `6.8.0-45-generic`.
    fn of(release: &str) -> Option<Self> {
        let mut numbers = release
            .trim()
            .split(|letter: char| !letter.is_ascii_digit())
            .map(|number| number.parse().ok());
        Some(Self(numbers.next()??, numbers.next()??))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::testing::{pod, settings};

    fn with(names: &[&str], more: &Value) -> Pod {
        let sysctls: Vec<Value> = names
            .iter()
            .map(|name| json!({ "name": name, "value": "1" }))
            .collect();
        let mut spec = more.clone();
        spec["securityContext"] = json!({ "sysctls": sysctls });
        pod(&spec)
    }

    fn judge(pod: &Pod, settings: &Settings) -> Result<(), String> {
        let refused = check(pod.spec.as_ref().unwrap(), settings);
        refused.map_err(|rejection| {
            assert_eq!(rejection.reason, "SysctlForbidden");
            rejection.message
        })
    }

    #[test]
    fn what_is_not_allowed_is_forbidden() {
        let mut settings = settings();
        settings.allowed_unsafe_sysctls = [
            "kernel.msg*",
            "net.core.somaxconn",
            "net/ipv4/conf/*",
            "vm.*",
        ]
        .map(str::to_owned)
        .to_vec();
        for (name, forbidden) in [
            ("kernel.shm_rmid_forced", None),
            ("net/ipv4/tcp_syncookies", None),
            ("kernel.msgmax", None),
            ("net.core.somaxconn", None),
            ("net/core/somaxconn", None),
            ("net.ipv4.conf.eno2/100.rp_filter", None),
            ("net/ipv4/conf/eno2.100/rp_filter", None),
            ("net.core.somaxconns", Some("net.core.somaxconns")),
            ("net/core/rmem_max", Some("net.core.rmem_max")),
            ("kernel.shmmax", Some("kernel.shmmax")),
            ("kernel.sem", Some("kernel.sem")),
            // Nothing of the node's is a pod's, whatever was allowed.
            ("vm.swappiness", Some("vm.swappiness")),
        ] {
            let expected = forbidden
                .map(|name| format!("forbidden sysctl: \"{name}\" not allowlisted"))
                .map_or(Ok(()), Err);
            let found = judge(&with(&[name], &json!({})), &settings);
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn the_first_that_is_forbidden_is_named() {
        let pod = with(&["net.ipv4.tcp_rmem", "vm.b", "vm.a"], &json!({}));
        let expected = "forbidden sysctl: \"vm.b\" not allowlisted";
        assert_eq!(judge(&pod, &settings()), Err(expected.to_owned()));
    }

    #[test]
    fn a_pod_in_the_nodes_namespace_changes_nothing_there() {
        let mut settings = settings();
        settings.allowed_unsafe_sysctls = ["kernel.msg*", "fs.mqueue.*", "net.core.*"]
            .map(str::to_owned)
            .to_vec();
        let (net, ipc) = (
            json!({ "hostNetwork": true, "hostIPC": false }),
            json!({ "hostIPC": true, "hostNetwork": false }),
        );
        for (name, namespace) in [
            ("net.ipv4.tcp_syncookies", "Net"),
            ("net.core.somaxconn", "Net"),
            ("kernel.shm_rmid_forced", "IPC"),
            ("kernel.msgmax", "IPC"),
            ("fs.mqueue.msg_max", "IPC"),
        ] {
            let conflict = Err(format!(
                "forbidden sysctl: \"{name}\" not allowed with host {namespace} enabled"
            ));
            let (shared, own) = match namespace {
                "Net" => (&net, &ipc),
                _ => (&ipc, &net),
            };
            assert_eq!(judge(&with(&[name], shared), &settings), conflict, "{name}");
            assert_eq!(judge(&with(&[name], own), &settings), Ok(()), "{name}");
        }
        let forbidden = Err("forbidden sysctl: \"net.x\" not allowlisted".to_owned());
        assert_eq!(judge(&with(&["net.x"], &net), &settings), forbidden);
    }

    #[test]
    fn a_safe_one_is_safe_since_the_kernel_that_gave_it_to_pods() {
        for (name, kernel, safe) in [
            ("net.ipv4.ip_local_reserved_ports", "3.16.0", true),
            ("net.ipv4.ip_local_reserved_ports", "3.15.9-x", false),
            ("net.ipv4.tcp_keepalive_time", "4.5", true),
            ("net.ipv4.tcp_keepalive_time", "4.4.302", false),
            ("net.ipv4.tcp_keepalive_intvl", "4.5.0", true),
            ("net.ipv4.tcp_keepalive_intvl", "4.4.0", false),
            ("net.ipv4.tcp_keepalive_probes", "4.5.0", true),
            ("net.ipv4.tcp_keepalive_probes", "4.4.0", false),
            ("net.ipv4.tcp_fin_timeout", "4.6.0-rc1", true),
            ("net.ipv4.tcp_fin_timeout", "4.5.99", false),
            ("net.ipv4.tcp_rmem", "4.15.0-213-generic", true),
            ("net.ipv4.tcp_rmem", "4.14.336", false),
            ("net.ipv4.tcp_wmem", "10.1.0", true),
            ("net.ipv4.tcp_wmem", "4.14.336", false),
            ("net.ipv4.tcp_wmem", "", false),
            ("net.ipv4.tcp_wmem", "6", false),
            ("net.ipv4.tcp_wmem", "six.1", false),
            ("net.ipv4.tcp_syncookies", "", true),
        ] {
            let mut settings = settings();
            kernel.clone_into(&mut settings.kernel);
            let found = judge(&with(&[name], &json!({})), &settings);
            assert_eq!(found.is_ok(), safe, "{name} on {kernel:?}");
            // Whoever runs the node may know better.
            settings.allowed_unsafe_sysctls = vec![name.to_owned()];
            let found = judge(&with(&[name], &json!({})), &settings);
            assert_eq!(found, Ok(()), "{name} on {kernel:?}");
        }
    }
}
