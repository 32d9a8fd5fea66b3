//! A pod's sandbox, as the runtime is asked for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod};
use resources::Enforcement;
use seams::cri::{self, Protocol};
use thiserror::Error;

use super::dns::DnsSettings;
use super::hostname::{Hostname, HostnameError};
use super::security::{self, PodSecurity, SecurityError};
use super::{labels, pod_ref, spec_of, uses_host_network};

/// What of a sandbox is not in the pod.
#[derive(Clone, Copy, Debug)]
pub struct SandboxSources<'a> {
    /// `podLogsDir`.
    pub logs: &'a Path,
    /// What the node knows of names.
    pub names: &'a DnsSettings,
    /// See [`super::dns::PodDns`].
    pub dns: &'a cri::DnsConfig,
    /// The pod's cgroup as its driver writes it; empty without `cgroupsPerQOS`.
    pub cgroup_parent: &'a str,
    pub enforcement: &'a Enforcement,
    pub security: &'a PodSecurity,
}

/// Why a pod cannot have a sandbox.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SandboxError {
    #[error(transparent)]
    Hostname(#[from] HostnameError),
    #[error(transparent)]
    Security(#[from] SecurityError),
}

/// The sandbox of a pod that has had `attempt` before.
pub fn config(
    pod: &Pod,
    attempt: u32,
    sources: &SandboxSources<'_>,
) -> Result<cri::PodSandboxConfig, SandboxError> {
    let spec = spec_of(pod);
    let name = pod_ref(pod);
    let hostname = if uses_host_network(&spec) {
        String::new()
    } else {
        Hostname::of(pod, sources.names)?.for_kernel(pod)?
    };
    let linux = cri::LinuxPodSandboxConfig {
        cgroup_parent: sources.cgroup_parent.to_owned(),
        security_context: Some(security::of_sandbox(pod, sources.security)?),
        sysctls: sysctls(pod),
        overhead: Some(sources.enforcement.overhead(&spec)),
        resources: Some(sources.enforcement.sandbox(&spec)),
    };
    Ok(cri::PodSandboxConfig {
        hostname,
        log_directory: log_directory(sources.logs, pod).display().to_string(),
        dns_config: Some(sources.dns.clone()),
        port_mappings: spec.containers.iter().flat_map(port_mappings).collect(),
        labels: labels::of_sandbox(pod),
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        linux: Some(linux),
        windows: None,
        metadata: Some(cri::PodSandboxMetadata {
            name: name.name.name,
            uid: name.uid.to_string(),
            namespace: name.name.namespace,
            attempt,
        }),
    })
}

/// Where the logs of a pod's containers are.
pub fn log_directory(logs: &Path, pod: &Pod) -> PathBuf {
    let pod = pod_ref(pod);
    logs.join(format!(
        "{}_{}_{}",
        pod.name.namespace, pod.name.name, pod.uid
    ))
}

/// A port that a container names twice is opened once.
fn port_mappings(container: &Container) -> Vec<cri::PortMapping> {
    let mut known = BTreeSet::new();
    let ports = container.ports.iter().flatten();
    let ports = ports.filter(|port| known.insert(port_key(port)));
    let mapping = |port: &ContainerPort| cri::PortMapping {
        protocol: protocol(port).into(),
        container_port: port.container_port,
        host_port: port.host_port.unwrap_or_default(),
        host_ip: port.host_ip.clone().unwrap_or_default(),
    };
    ports.map(mapping).collect()
}

fn port_key(port: &ContainerPort) -> String {
    if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let protocol = port.protocol.as_deref().unwrap_or_default();
    let ip = port.host_ip.as_deref().unwrap_or_default();
    let host_port = port.host_port.unwrap_or_default();
    format!("{protocol}-{ip}:{}:{host_port}", port.container_port)
}

fn protocol(port: &ContainerPort) -> Protocol {
    match port.protocol.as_deref() {
        Some("UDP") => Protocol::Udp,
        Some("SCTP") => Protocol::Sctp,
        _ => Protocol::Tcp,
    }
}

fn sysctls(pod: &Pod) -> BTreeMap<String, String> {
    let spec = spec_of(pod);
    let context = spec.security_context.as_ref();
    let sysctls = context
        .into_iter()
        .flat_map(|context| context.sysctls.iter().flatten());
    sysctls
        .map(|sysctl| (dotted(&sysctl.name), sysctl.value.clone()))
        .collect()
}

/// `net/ipv4/conf/eth0.1/x` is `net.ipv4.conf.eth0/1.x`: the first of the two that
/// is in a name parts its words.
fn dotted(name: &str) -> String {
    match name.chars().find(|letter| ['.', '/'].contains(letter)) {
        Some('/') => {
            let swap = |letter| match letter {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            name.chars().map(swap).collect()
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use resources::linux::Swap;
    use seams::host::CgroupVersion;
    use serde_json::{Value, json};

    use super::*;
    use crate::spec::testing;

    fn enforcement() -> Enforcement {
        Enforcement {
            version: CgroupVersion::V2,
            cpu_quota: true,
            quota_period: 100_000,
            kill_single_process: false,
            swap: Swap::Uncontrolled,
            memory: 1 << 33,
            huge_page_sizes: Vec::new(),
            memory_qos: None,
        }
    }

    fn of(pod: &Pod) -> cri::PodSandboxConfig {
        let dns = cri::DnsConfig {
            servers: vec!["10.96.0.10".to_owned()],
            ..Default::default()
        };
        let sources = SandboxSources {
            logs: Path::new("/var/log/pods"),
            names: &DnsSettings::default(),
            dns: &dns,
            cgroup_parent: "/kubepods/podu-1",
            enforcement: &enforcement(),
            security: &PodSecurity::default(),
        };
        config(pod, 2, &sources).unwrap()
    }

    fn ports(ports: &Value) -> Vec<(i32, i32, i32, String)> {
        let container = json!({ "name": "app", "ports": ports });
        let init = json!({ "name": "init", "ports": [{ "containerPort": 99 }] });
        let pod = testing::pod(&json!({ "containers": [container], "initContainers": [init] }));
        let mappings = of(&pod).port_mappings.into_iter();
        let tuple =
            |one: cri::PortMapping| (one.protocol, one.container_port, one.host_port, one.host_ip);
        mappings.map(tuple).collect()
    }

    #[test]
    fn a_sandbox_is_called_and_found_like_its_pod() {
        let mut pod = testing::pod(&json!({ "hostname": "db" }));
        let annotation = ("note".to_owned(), "kept".to_owned());
        pod.metadata.annotations = Some([annotation].into());
        let config = of(&pod);
        let metadata = config.metadata.unwrap();
        let name = (
            metadata.name.as_str(),
            metadata.namespace.as_str(),
            metadata.uid.as_str(),
        );
        assert_eq!(name, ("web", "shop", "u-1"));
        assert_eq!(metadata.attempt, 2);
        assert_eq!(config.hostname, "db");
        assert_eq!(config.log_directory, "/var/log/pods/shop_web_u-1");
        assert_eq!(config.dns_config.unwrap().servers, ["10.96.0.10"]);
        assert_eq!(config.labels["io.kubernetes.pod.uid"], "u-1");
        assert_eq!(config.annotations, pod.metadata.annotations.unwrap());
        assert_eq!(config.linux.unwrap().cgroup_parent, "/kubepods/podu-1");
    }

    #[test]
    fn in_the_nodes_network_a_pod_has_the_nodes_name() {
        let pod = testing::pod(&json!({ "hostNetwork": true, "hostname": "INVALID" }));
        assert_eq!(of(&pod).hostname, "");
        let pod = testing::pod(&json!({ "hostname": "INVALID" }));
        let dns = cri::DnsConfig::default();
        let sources = SandboxSources {
            logs: Path::new("/"),
            names: &DnsSettings::default(),
            dns: &dns,
            cgroup_parent: "",
            enforcement: &enforcement(),
            security: &PodSecurity::default(),
        };
        assert!(matches!(
            config(&pod, 0, &sources),
            Err(SandboxError::Hostname(_))
        ));
    }

    #[test]
    fn ports_of_regular_containers_are_mapped_each_once() {
        let none = String::new;
        for (given, expected) in [
            (json!([{ "containerPort": 80 }]), vec![(0, 80, 0, none())]),
            (
                json!([
                    { "containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "TCP" },
                    { "containerPort": 53, "protocol": "UDP" },
                    { "containerPort": 9, "protocol": "SCTP" },
                    { "containerPort": 10, "protocol": "ODD" },
                ]),
                vec![
                    (0, 80, 8080, "10.0.0.1".to_owned()),
                    (1, 53, 0, none()),
                    (2, 9, 0, none()),
                    (0, 10, 0, none()),
                ],
            ),
            (
                json!([
                    { "containerPort": 80 },
                    { "containerPort": 80 },
                    { "containerPort": 80, "hostIP": "::1" },
                    { "containerPort": 81, "name": "web" },
                    { "containerPort": 82, "name": "web" },
                ]),
                vec![
                    (0, 80, 0, none()),
                    (0, 80, 0, "::1".to_owned()),
                    (0, 81, 0, none()),
                ],
            ),
        ] {
            assert_eq!(ports(&given), expected, "{given}");
        }
    }

    #[test]
    fn sysctls_are_written_with_dots() {
        for (name, expected) in [
            ("kernel.shm_rmid_forced", "kernel.shm_rmid_forced"),
            ("net/ipv4/tcp_syncookies", "net.ipv4.tcp_syncookies"),
            ("net/ipv4/conf/eth0.1/x", "net.ipv4.conf.eth0/1.x"),
            ("net.ipv4.conf.eth0/1.x", "net.ipv4.conf.eth0/1.x"),
            ("plain", "plain"),
        ] {
            let context = json!({ "sysctls": [{ "name": name, "value": "1" }] });
            let pod = testing::pod(&json!({ "securityContext": context }));
            let found = of(&pod).linux.unwrap().sysctls;
            assert_eq!(found, [(expected.to_owned(), "1".to_owned())].into());
        }
        assert!(
            of(&testing::pod(&json!({})))
                .linux
                .unwrap()
                .sysctls
                .is_empty()
        );
    }

    #[test]
    fn resources_are_the_pods_and_the_cost_of_the_sandbox_is_beside_them() {
        let resources = json!({ "requests": { "cpu": "1" }, "limits": { "memory": "1Mi" } });
        let pod = testing::pod(&json!({
            "containers": [{ "name": "app", "resources": resources }],
            "overhead": { "cpu": "500m" },
        }));
        let linux = of(&pod).linux.unwrap();
        let resources = linux.resources.unwrap();
        assert_eq!(
            (resources.cpu_shares, resources.memory_limit_in_bytes),
            (1024, 1 << 20)
        );
        assert_eq!(linux.overhead.unwrap().cpu_quota, 50_000);
    }
}
