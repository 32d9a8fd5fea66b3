use serde_json::{Value, json};

use super::*;
use crate::spec::testing;

fn settings() -> DnsSettings {
    DnsSettings {
        servers: vec!["10.96.0.10".parse().unwrap()],
        domain: "cluster.local".to_owned(),
        ..DnsSettings::default()
    }
}

fn node() -> ResolvConf {
    let text = "nameserver 8.8.8.8\nnameserver 1.1.1.1\nsearch example.com\noptions rotate\n";
    ResolvConf::parse(text).unwrap()
}

fn of(spec: &Value) -> PodDns {
    PodDns::of(&testing::pod(spec), &settings(), Some(&node()))
}

fn lists(config: &DnsConfig) -> [String; 3] {
    [&config.servers, &config.searches, &config.options].map(|list| list.join(" "))
}

const CLUSTER: [&str; 3] = [
    "10.96.0.10",
    "shop.svc.cluster.local svc.cluster.local cluster.local example.com",
    "ndots:5",
];
const NODE: [&str; 3] = ["8.8.8.8 1.1.1.1", "example.com", "rotate"];

#[test]
fn the_policy_says_whose_names_a_pod_sees() {
    for (spec, expected) in [
        (json!({ "dnsPolicy": "ClusterFirst" }), CLUSTER),
        (
            json!({ "dnsPolicy": "ClusterFirst", "hostNetwork": true }),
            NODE,
        ),
        (json!({ "dnsPolicy": "ClusterFirstWithHostNet" }), CLUSTER),
        (
            json!({ "dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true }),
            CLUSTER,
        ),
        (json!({ "dnsPolicy": "Default" }), NODE),
        (json!({ "dnsPolicy": "None" }), ["", "", ""]),
        (json!({ "dnsPolicy": "Nonsense" }), CLUSTER),
    ] {
        let dns = of(&spec);
        assert_eq!(lists(&dns.config), expected, "{spec}");
        assert_eq!(dns.notices, [], "{spec}");
    }
}

#[test]
fn the_pods_own_comes_after_and_its_options_replace() {
    let own = json!({
        "nameservers": ["9.9.9.9", "8.8.8.8"],
        "searches": ["example.com", "own.org"],
        "options": [{ "name": "ndots", "value": "2" }, { "name": "edns0" }],
    });
    for (policy, expected) in [
        (
            "None",
            ["9.9.9.9 8.8.8.8", "example.com own.org", "ndots:2 edns0"],
        ),
        (
            "Default",
            [
                "8.8.8.8 1.1.1.1 9.9.9.9",
                "example.com own.org",
                "rotate ndots:2 edns0",
            ],
        ),
        (
            "ClusterFirst",
            [
                "10.96.0.10 9.9.9.9 8.8.8.8",
                "shop.svc.cluster.local svc.cluster.local cluster.local example.com own.org",
                "ndots:2 edns0",
            ],
        ),
    ] {
        let dns = of(&json!({ "dnsPolicy": policy, "dnsConfig": own }));
        assert_eq!(lists(&dns.config), expected, "{policy}");
    }
}

#[test]
fn without_a_cluster_dns_the_nodes_is_used_and_both_are_told() {
    let settings = DnsSettings {
        servers: Vec::new(),
        ..settings()
    };
    let pod = testing::pod(&json!({ "dnsPolicy": "ClusterFirst" }));
    let dns = PodDns::of(&pod, &settings, Some(&node()));
    assert_eq!(lists(&dns.config), NODE);
    let text = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. Falling back to \"Default\" policy.";
    let told: Vec<_> = dns
        .notices
        .iter()
        .map(|notice| (notice.about, notice.message.as_str()))
        .collect();
    let of_pod = format!("pod: \"web_shop(u-1)\". {text}");
    assert_eq!(told, [(About::Node, text), (About::Pod, of_pod.as_str())]);
    assert!(
        dns.notices
            .iter()
            .all(|notice| notice.reason == "MissingClusterDNS")
    );
}

#[test]
fn without_a_file_of_the_node_nothing_is_found() {
    let pod = testing::pod(&json!({ "dnsPolicy": "Default" }));
    for (ips, servers) in [
        (vec![], "127.0.0.1"),
        (vec!["10.0.0.1"], "127.0.0.1"),
        (vec!["fd00::1", "10.0.0.1"], "::1 127.0.0.1"),
    ] {
        let settings = DnsSettings {
            node_ips: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
            ..settings()
        };
        let dns = PodDns::of(&pod, &settings, None);
        assert_eq!(lists(&dns.config), [servers, ".", ""]);
    }
    let pod = testing::pod(&json!({ "dnsPolicy": "ClusterFirst" }));
    let dns = PodDns::of(&pod, &settings(), None);
    assert_eq!(dns.config.searches.len(), 3);
}

#[test]
fn without_a_cluster_domain_only_the_nodes_domains_are_searched() {
    let settings = DnsSettings {
        domain: String::new(),
        ..settings()
    };
    let pod = testing::pod(&json!({ "dnsPolicy": "ClusterFirst" }));
    let dns = PodDns::of(&pod, &settings, Some(&node()));
    assert_eq!(lists(&dns.config), ["10.96.0.10", "example.com", "ndots:5"]);
}

#[test]
fn more_than_three_servers_are_cut_and_told() {
    let own = json!({ "nameservers": ["1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4"] });
    let dns = of(&json!({ "dnsPolicy": "None", "dnsConfig": own }));
    assert_eq!(dns.config.servers, ["1.0.0.1", "1.0.0.2", "1.0.0.3"]);
    let text = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1.0.0.1 1.0.0.2 1.0.0.3";
    let notice = Notice {
        about: About::Pod,
        reason: "DNSConfigForming",
        message: text.to_owned(),
    };
    assert_eq!(dns.notices, [notice]);
}

fn searches(searches: &[String]) -> (usize, Option<String>) {
    let dns = of(&json!({ "dnsPolicy": "None", "dnsConfig": { "searches": searches } }));
    let message = dns.notices.into_iter().next().map(|notice| notice.message);
    (dns.config.searches.len(), message)
}

#[test]
fn domains_are_cut_by_number_by_length_and_by_their_sum() {
    let names = |count: usize, length: usize| -> Vec<String> {
        (0..count)
            .map(|index| format!("{index:0>length$}"))
            .collect()
    };
    for (list, kept) in [
        (names(32, 3), 32),
        (names(33, 3), 32),
        (names(2, 253), 2),
        (names(2, 254), 0),
        // 32 × 63 + 31 = 2047; 32 × 64 + 31 = 2079; 31 × 65 + 30 = 2045.
        (names(32, 63), 32),
        (names(32, 64), 31),
        (names(32, 65), 31),
        (names(10, 250), 8),
    ] {
        let (count, message) = searches(&list);
        assert_eq!(count, kept, "{}", list.len());
        assert_eq!(message.is_some(), kept < list.len());
        if let Some(message) = message {
            let start = "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: ";
            assert!(message.starts_with(start), "{message}");
        }
    }
}

#[test]
fn a_file_is_read_as_resolvers_do_and_trailing_dots_do_not_count() {
    for (text, expected) in [
        ("", ["", "", ""]),
        ("# nameserver 1.2.3.4\n  # search x\n", ["", "", ""]),
        (
            "nameserver 1.2.3.4 extra\n\tnameserver  5.6.7.8",
            ["1.2.3.4 5.6.7.8", "", ""],
        ),
        ("search a b.\nsearch c. . d", ["", "c d", ""]),
        ("search a\nsearch", ["", "", ""]),
        (
            "options ndots:1 rotate\noptions ndots:3",
            ["", "", "ndots:3 rotate"],
        ),
        ("nameservers 1.2.3.4\ndomain x", ["", "", ""]),
    ] {
        let file = ResolvConf::parse(text).unwrap();
        let found = [&file.servers, &file.searches, &file.options].map(|list| list.join(" "));
        assert_eq!(found, expected, "{text:?}");
    }
    assert_eq!(ResolvConf::parse("nameserver \n"), Err(NoNameserver));
}

#[test]
fn a_nodes_file_is_judged_with_room_for_the_clusters_domains() {
    let file = |count: usize, length: usize| ResolvConf {
        searches: vec!["s".repeat(length); count],
        ..ResolvConf::default()
    };
    let no_domain = DnsSettings::default();
    for (file, settings, expected) in [
        (file(29, 1), &settings(), None),
        (
            file(30, 1),
            &settings(),
            Some("Resolv.conf file '/r' contains search line consisting of more than 29 domains!"),
        ),
        (file(32, 1), &no_domain, None),
        (
            file(33, 1),
            &no_domain,
            Some("Resolv.conf file '/r' contains search line consisting of more than 32 domains!"),
        ),
        (
            file(1, 254),
            &no_domain,
            Some(
                "Resolv.conf file \"/r\" contains a search path which length is more than allowed 253 chars!",
            ),
        ),
        (
            file(9, 250),
            &no_domain,
            Some(
                "Resolv.conf file '/r' contains search line which length is more than allowed 2048 chars!",
            ),
        ),
    ] {
        let notice = file.check("/r", settings);
        assert_eq!(notice.map(|notice| notice.message).as_deref(), expected);
    }
}

#[test]
fn a_nodes_file_that_cannot_be_used_is_told_of_at_the_start() {
    let long = format!("search {}", "s".repeat(254));
    let denied = io::Error::from(io::ErrorKind::PermissionDenied);
    for (found, expected) in [
        (Ok(Some("nameserver 1.1.1.1\n")), None),
        (Ok(None), Some("open /r: no such file or directory")),
        (Err(denied), Some("open /r: permission denied")),
        (Ok(Some("nameserver\n")), Some("nameserver list is empty ")),
        (
            Ok(Some(long.as_str())),
            Some(
                "Resolv.conf file \"/r\" contains a search path which length is more than allowed 253 chars!",
            ),
        ),
    ] {
        let found = found.map(|text| text.map(|text| text.as_bytes().to_vec()));
        let notice = check_file(Path::new("/r"), found, &settings());
        let told = notice.map(|notice| (notice.about, notice.reason, notice.message));
        let expected =
            expected.map(|text| (About::Node, "CheckLimitsForResolvConf", text.to_owned()));
        assert_eq!(told, expected);
    }
}
