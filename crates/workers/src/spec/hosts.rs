//! `/etc/hosts` of a pod.

use std::fmt::Write;

use k8s_openapi::api::core::v1::HostAlias;

use super::hostname::Hostname;

const OWN: &str = "\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
";

const OF_NODE: &str = "# Kubernetes-managed hosts file (host network).\n";

/// For a pod with a network of its own.
pub fn own(ips: &[String], hostname: &Hostname, aliases: &[HostAlias]) -> Vec<u8> {
    let mut file = OWN.to_owned();
    let Hostname { host, domain } = hostname;
    for ip in ips {
        // Writing to a string cannot fail.
        let _ = if domain.is_empty() {
            writeln!(file, "{ip}\t{host}")
        } else {
            writeln!(file, "{ip}\t{host}.{domain}\t{host}")
        };
    }
    file.push_str(&entries(aliases));
    file.into_bytes()
}

/// For a pod in the network of its node: the node's file, and what it adds.
pub fn of_node(nodes_file: &[u8], aliases: &[HostAlias]) -> Vec<u8> {
    [OF_NODE.as_bytes(), nodes_file, entries(aliases).as_bytes()].concat()
}

fn entries(aliases: &[HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let mut text = "\n# Entries added by HostAliases.\n".to_owned();
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}\t{}", alias.ip, names.join("\t"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n\
        ::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n\
        fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

    fn hostname(host: &str, domain: &str) -> Hostname {
        Hostname {
            host: host.to_owned(),
            domain: domain.to_owned(),
        }
    }

    fn alias(ip: &str, names: &[&str]) -> HostAlias {
        HostAlias {
            ip: ip.to_owned(),
            hostnames: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        }
    }

    fn text(file: Vec<u8>) -> String {
        String::from_utf8(file).unwrap()
    }

    #[test]
    fn a_pod_finds_itself_at_each_of_its_addresses() {
        let ips = ["10.0.0.1".to_owned(), "fd00::1".to_owned()];
        let file = text(own(&ips, &hostname("web", ""), &[]));
        assert_eq!(file, format!("{LOCAL}10.0.0.1\tweb\nfd00::1\tweb\n"));
        let file = text(own(&ips, &hostname("web", "s.shop.svc.d"), &[]));
        let lines = "10.0.0.1\tweb.s.shop.svc.d\tweb\nfd00::1\tweb.s.shop.svc.d\tweb\n";
        assert_eq!(file, format!("{LOCAL}{lines}"));
    }

    #[test]
    fn aliases_come_last_an_address_on_a_line() {
        let aliases = [alias("1.2.3.4", &["a", "b"]), alias("5.6.7.8", &["c"])];
        let added = "\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n5.6.7.8\tc\n";
        let file = text(own(&[], &hostname("web", ""), &aliases));
        assert_eq!(file, format!("{LOCAL}{added}"));
        let header = "# Kubernetes-managed hosts file (host network).\n";
        let file = text(of_node(b"127.0.0.1 me\n", &aliases));
        assert_eq!(file, format!("{header}127.0.0.1 me\n{added}"));
        let file = text(of_node(b"127.0.0.1 me\n", &[]));
        assert_eq!(file, format!("{header}127.0.0.1 me\n"));
    }
}
