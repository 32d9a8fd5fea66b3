//! Whether the node's ports that a pod wants are free.

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodSpec};
use resources::requests::is_sidecar;

const ANY_ADDRESS: &str = "0.0.0.0";

/// Two containers of one pod may want the same port: the runtime has its say then.
pub(super) fn are_free(spec: &PodSpec, others: &[&Pod]) -> bool {
    let others = others.iter().filter_map(|other| other.spec.as_ref());
    let taken: Vec<HostPort<'_>> = others.flat_map(host_ports).collect();
    !host_ports(spec).any(|wanted| taken.iter().any(|taken| wanted.is_also(taken)))
}

/// Init containers that end have no ports: nobody is told of one that is there for a
/// moment only.
fn host_ports(spec: &PodSpec) -> impl Iterator<Item = HostPort<'_>> {
    let sidecars = spec.init_containers.iter().flatten();
    let lasting = sidecars
        .filter(|container| is_sidecar(container))
        .chain(&spec.containers);
    lasting.flat_map(of_container)
}

fn of_container(container: &Container) -> impl Iterator<Item = HostPort<'_>> {
    let ports = container.ports.iter().flatten();
    ports.filter_map(HostPort::of)
}

struct HostPort<'a> {
    address: &'a str,
    protocol: &'a str,
    port: i32,
}

impl<'a> HostPort<'a> {
    fn of(port: &'a ContainerPort) -> Option<Self> {
        let or = |text: &'a Option<String>, default: &'a str| {
            let text = text.as_deref().unwrap_or_default();
            if text.is_empty() { default } else { text }
        };
        Some(Self {
            address: or(&port.host_ip, ANY_ADDRESS),
            protocol: or(&port.protocol, "TCP"),
            port: port.host_port.filter(|port| *port > 0)?,
        })
    }

    /// Addresses are compared as they are written. `::` is one like any other.
    fn is_also(&self, other: &Self) -> bool {
        let same_address =
            self.address == other.address || [self.address, other.address].contains(&ANY_ADDRESS);
        same_address && self.protocol == other.protocol && self.port == other.port
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::testing::pod;

    fn with(ports: &Value) -> Pod {
        pod(&json!({ "containers": [{ "name": "c", "ports": ports }] }))
    }

    fn fits(pod: &Pod, others: &[&Pod]) -> bool {
        are_free(pod.spec.as_ref().unwrap(), others)
    }

    #[test]
    fn a_port_is_one_of_a_protocol_at_an_address() {
        let port = |ip: &str, protocol: &str, port: i32| json!({ "containerPort": 1, "hostIP": ip, "protocol": protocol, "hostPort": port });
        for (wanted, taken, free) in [
            (port("", "", 80), port("", "", 80), false),
            (port("", "", 80), port("", "", 81), true),
            (port("", "", 80), port("", "TCP", 80), false),
            (port("", "UDP", 80), port("", "TCP", 80), true),
            (port("", "SCTP", 80), port("", "SCTP", 80), false),
            // Any address is all of them.
            (port("", "", 80), port("10.0.0.1", "", 80), false),
            (port("10.0.0.1", "", 80), port("", "", 80), false),
            (port("10.0.0.1", "", 80), port("0.0.0.0", "", 80), false),
            (port("0.0.0.0", "", 80), port("10.0.0.1", "", 80), false),
            (port("10.0.0.1", "", 80), port("10.0.0.1", "", 80), false),
            (port("10.0.0.1", "", 80), port("10.0.0.2", "", 80), true),
            (port("10.0.0.1", "UDP", 80), port("", "TCP", 80), true),
            // As upstream has it, if not as the kernel does.
            (port("::", "", 80), port("10.0.0.1", "", 80), true),
            (port("::", "", 80), port("", "", 80), false),
            (port("", "", 0), port("", "", 0), true),
        ] {
            let (pod, other) = (with(&json!([wanted])), with(&json!([taken])));
            assert_eq!(fits(&pod, &[&other]), free, "{wanted} {taken}");
        }
    }

    #[test]
    fn only_ports_of_the_node_are_taken() {
        let inner = with(&json!([{ "containerPort": 80 }]));
        assert!(fits(&inner, &[&inner]));
    }

    #[test]
    fn each_port_of_each_lasting_container_counts() {
        let port = |port: i32| json!([{ "containerPort": 1, "hostPort": port }]);
        let taken = pod(&json!({
            "initContainers": [
                { "name": "side", "ports": port(1), "restartPolicy": "Always" },
                { "name": "step", "ports": port(2) },
            ],
            "containers": [
                { "name": "a", "ports": port(3) },
                { "name": "b", "ports": port(4) },
            ],
        }));
        let idle = with(&json!([]));
        for (wanted, free) in [(1, false), (2, true), (3, false), (4, false), (5, true)] {
            let one = with(&port(wanted));
            assert_eq!(fits(&one, &[&idle, &taken]), free, "{wanted}");
            assert_eq!(fits(&taken, &[&idle, &one]), free, "{wanted}");
        }
    }

    #[test]
    fn a_pod_is_not_in_its_own_way() {
        let twice = json!([
            { "containerPort": 1, "hostPort": 80 },
            { "containerPort": 2, "hostPort": 80 },
        ]);
        assert!(fits(&with(&twice), &[]));
    }
}
