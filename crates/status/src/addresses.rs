//! The addresses of a pod and of its node.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostIP, PodIP, PodStatus};

use crate::input::Input;
use crate::spec::{is_terminal, spec};

/// Writes `podIP`, `podIPs`, `hostIP` and `hostIPs`.
pub(crate) fn apply(input: &Input<'_>, status: &mut PodStatus) {
    let node = input.node;
    let mut pod_ips = one_of_each_family(input.observed.ips(), node.prefers_ipv6);
    if let [first, others @ ..] = node.host_ips.as_slice() {
        status.host_ip = Some(first.to_string());
        let host_ips = node.host_ips.iter().take(2);
        status.host_ips = Some(host_ips.map(|ip| HostIP { ip: ip.to_string() }).collect());
        if spec(input.pod).host_network == Some(true) {
            with_hosts(&mut pod_ips, *first, others.first().copied());
        }
    }
    let old = input.old();
    if pod_ips.is_empty() && is_terminal(old.phase.as_deref()) {
        // The runtime forgets the addresses of a sandbox that has ended, and an agent
        // that begins now never saw them; who reads of the pod expects them.
        status.pod_ip.clone_from(&old.pod_ip);
        status.pod_ips.clone_from(&old.pod_ips);
        return;
    }
    status.pod_ip = pod_ips.first().map(ToString::to_string);
    let pod_ips = pod_ips.iter().map(|ip| PodIP { ip: ip.to_string() });
    status.pod_ips = Some(pod_ips.collect()).filter(|ips: &Vec<_>| !ips.is_empty());
}

/// A pod in the node's network has the node's addresses.
fn with_hosts(pod_ips: &mut Vec<IpAddr>, first: IpAddr, second: Option<IpAddr>) {
    if pod_ips.is_empty() {
        pod_ips.push(first);
    }
    if let ([only], Some(second)) = (pod_ips.as_slice(), second)
        && only.is_ipv4() != second.is_ipv4()
    {
        pod_ips.push(second);
    }
}

/// The first of each, the node's own family first.
pub fn one_of_each_family(ips: &[String], prefers_ipv6: bool) -> Vec<IpAddr> {
    let first = |ipv6: bool| {
        let ips = ips.iter().filter_map(|ip| ip.parse::<IpAddr>().ok());
        let mut ips = ips.filter(move |ip| ip.is_ipv6() == ipv6);
        ips.next()
    };
    [first(prefers_ipv6), first(!prefers_ipv6)]
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_family_comes_first_and_there_is_one_of_each() {
        let ips = ["fd00::0:1", "10.0.0.1", "10.0.0.2", "nonsense", "fd00::2"].map(str::to_owned);
        let sorted = |prefers| -> Vec<String> {
            let ips = one_of_each_family(&ips, prefers);
            ips.iter().map(ToString::to_string).collect()
        };
        assert_eq!(sorted(false), ["10.0.0.1", "fd00::1"]);
        assert_eq!(sorted(true), ["fd00::1", "10.0.0.1"]);
        assert_eq!(one_of_each_family(&ips[..1], false).len(), 1);
    }

    #[test]
    fn a_second_family_of_the_node_is_added() {
        /// What it had, what the node has, and what it has then.
        type Row<'a> = (&'a [&'a str], &'a str, Option<&'a str>, &'a [&'a str]);
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let cases: [Row<'_>; 4] = [
            (&[], "10.1.0.1", None, &["10.1.0.1"]),
            (&[], "10.1.0.1", Some("fd01::1"), &["10.1.0.1", "fd01::1"]),
            (
                &["10.1.0.9"],
                "10.1.0.1",
                Some("fd01::1"),
                &["10.1.0.9", "fd01::1"],
            ),
            (&["fd01::9"], "10.1.0.1", Some("fd01::1"), &["fd01::9"]),
        ];
        for (had, first, second, expected) in cases {
            let mut ips: Vec<_> = had.iter().map(|text| ip(text)).collect();
            with_hosts(&mut ips, ip(first), second.map(ip));
            let ips: Vec<_> = ips.iter().map(ToString::to_string).collect();
            assert_eq!(ips, expected);
        }
    }
}
