//! What containers are told of services.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServicePort};

/// The API server: every pod is told of it.
const MASTER: (&str, &str) = ("default", "kubernetes");

/// The variables of the services that a pod in `namespace` sees. `links`: those of
/// its own namespace too.
pub(super) fn variables(
    services: &[Service],
    namespace: &str,
    links: bool,
) -> BTreeMap<String, Vec<u8>> {
    let mut seen = BTreeMap::<&str, (&Service, &str)>::new();
    for service in services {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let of = service.metadata.namespace.as_deref().unwrap_or_default();
        let Some(ip) = address(service) else {
            continue;
        };
        if (of, name) == MASTER {
            // One of that name in the pod's own namespace comes before it.
            seen.entry(name).or_insert((service, ip));
        } else if of == namespace && links {
            seen.insert(name, (service, ip));
        }
    }
    let variables = seen
        .into_iter()
        .flat_map(|(name, (service, ip))| of_service(name, service, ip));
    variables
        .map(|(name, value)| (name, value.into_bytes()))
        .collect()
}

fn address(service: &Service) -> Option<&str> {
    let ip = service.spec.as_ref()?.cluster_ip.as_deref()?;
    (!ip.is_empty() && ip != "None").then_some(ip)
}

fn of_service(name: &str, service: &Service, ip: &str) -> Vec<(String, String)> {
    let prefix = upper(name);
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref());
    let ports = ports.unwrap_or_default();
    let mut variables = vec![(format!("{prefix}_SERVICE_HOST"), ip.to_owned())];
    if let Some(first) = ports.first() {
        variables.push((format!("{prefix}_SERVICE_PORT"), first.port.to_string()));
        variables.push((format!("{prefix}_PORT"), url(first, ip)));
    }
    for port in ports {
        let named = port.name.as_deref().filter(|name| !name.is_empty());
        variables.extend(named.map(|name| {
            (
                format!("{prefix}_SERVICE_PORT_{}", upper(name)),
                port.port.to_string(),
            )
        }));
        let protocol = protocol(port);
        let of_port = format!("{prefix}_PORT_{}_{}", port.port, protocol.to_uppercase());
        variables.extend([
            (of_port.clone(), url(port, ip)),
            (format!("{of_port}_PROTO"), protocol.to_lowercase()),
            (format!("{of_port}_PORT"), port.port.to_string()),
            (format!("{of_port}_ADDR"), ip.to_owned()),
        ]);
    }
    variables
}

fn upper(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol
        .as_deref()
        .filter(|protocol| !protocol.is_empty())
        .unwrap_or("TCP")
}

fn url(port: &ServicePort, ip: &str) -> String {
    let is_v6 = ip.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6());
    let host = if is_v6 {
        format!("[{ip}]")
    } else {
        ip.to_owned()
    };
    format!("{}://{host}:{}", protocol(port).to_lowercase(), port.port)
}
