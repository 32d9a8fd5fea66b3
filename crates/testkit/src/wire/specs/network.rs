//! Names of hosts, and who resolves them.

use serde_json::{Value, json};

use crate::wire::spec::{Spec, spec};

fn policy(name: &'static str, policy: &str) -> Spec {
    spec(name).pod(json!({"dnsPolicy": policy}))
}

fn searches(count: usize) -> Vec<Value> {
    (0..count)
        .map(|number| json!(format!("search-{number}.example.org")))
        .collect()
}

pub(super) fn specs() -> Vec<Spec> {
    [resolvers(), hosts()].concat()
}

fn resolvers() -> Vec<Spec> {
    let own = json!({
        "nameservers": ["192.0.2.1", "192.0.2.2"], "searches": ["one.example", "two.example"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "rotate"}],
    });
    vec![
        policy("dns-default", "Default"),
        policy("dns-none", "None").pod(json!({"dnsConfig": own})),
        policy("dns-default-and-own", "Default").pod(json!({"dnsConfig": own})),
        policy("dns-cluster-and-own", "ClusterFirst").pod(json!({"dnsConfig": own})),
        policy("dns-same-again", "ClusterFirst").pod(json!({"dnsConfig": {
            "nameservers": ["10.96.0.10"], "searches": ["cluster.local", "new.example"],
            "options": [{"name": "ndots", "value": "5"}, {"name": "edns0"}, {"name": "edns0"}],
        }})),
        policy("dns-cluster-in-the-host-network", "ClusterFirst").pod(json!({"hostNetwork": true})),
        policy(
            "dns-cluster-with-the-host-network",
            "ClusterFirstWithHostNet",
        )
        .pod(json!({"hostNetwork": true})),
        policy("dns-default-in-the-host-network", "Default").pod(json!({"hostNetwork": true})),
        policy("dns-too-many-servers", "ClusterFirst").pod(json!({"dnsConfig": {
            "nameservers": ["192.0.2.1", "192.0.2.2", "192.0.2.3"],
        }})),
        policy("dns-too-many-searches", "ClusterFirst")
            .pod(json!({"dnsConfig": {"searches": searches(31)}})),
    ]
}

fn hosts() -> Vec<Spec> {
    vec![
        spec("hostname").pod(json!({"hostname": "somebody"})),
        spec("subdomain").pod(json!({"subdomain": "family"})),
        spec("hostname-and-subdomain").pod(json!({"hostname": "somebody", "subdomain": "family"})),
        spec("hostname-in-full").pod(json!({
            "hostname": "somebody", "subdomain": "f", "setHostnameAsFQDN": true,
        })),
        spec("hostname-in-full-without-a-domain").pod(json!({"setHostnameAsFQDN": true})),
        spec("hostname-override").pod(json!({"hostnameOverride": "whoever.example.org"})),
        spec("hostname-in-the-host-network")
            .pod(json!({"hostNetwork": true, "hostname": "somebody"})),
        spec("host-aliases").pod(json!({"hostAliases": [
            {"ip": "192.0.2.7", "hostnames": ["a.example", "b.example"]},
        ]})),
        spec("host-network-with-ports")
            .pod(json!({"hostNetwork": true}))
            .main(json!({"ports": [{"containerPort": 30090}]})),
    ]
}
