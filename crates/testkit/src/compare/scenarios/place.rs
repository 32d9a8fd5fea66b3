//! A pod and its node: names, networks, and nodes that do not take it.

use serde_json::{Value, json};

use super::super::manifest::{FOREVER, pod};
use super::super::scenario::{Lane, Scenario};

fn host_port(port: u32) -> Value {
    json!({"ports": [{"containerPort": 80, "hostPort": port}]})
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("host-network", "a pod on the node's network", |stage| {
        let script = "hostname; cat /etc/hosts /etc/resolv.conf";
        stage.see(pod("p", script).spec(&json!({"hostNetwork": true})))
    }),
    Scenario::new("host-pid", "a pod among the node's processes", |stage| {
        let script = "test $$ -ne 1 && echo not the first; ls -d /proc/1";
        stage.see(pod("p", script).spec(&json!({"hostPID": true})))
    }),
    Scenario::new(
        "host-ipc",
        "a pod that shares the node's memory and queues, and one that does not",
        |stage| {
            let nodes = stage.on_node("readlink /proc/1/ns/ipc")?;
            let mark = format!("/dev/shm/{}", stage.namespace());
            stage.on_node(&format!("touch {mark}"))?;
            let script = format!(
                "test \"$(readlink /proc/self/ns/ipc)\" = '{}' && echo of the node || echo its own; \
                 test -e {mark} && echo a mark of the node || echo no mark",
                nodes.trim()
            );
            stage.see(pod("shares", &script).spec(&json!({"hostIPC": true})))?;
            stage.see(pod("alone", &script))?;
            stage.on_node(&format!("rm {mark}")).map(drop)
        },
    ),
    Scenario::new(
        "shared-processes",
        "containers that see each other's processes",
        |stage| {
            let script = "cat /proc/1/comm; test $$ -ne 1 && echo not the first";
            stage.see(pod("p", script).spec(&json!({"shareProcessNamespace": true})))
        },
    ),
    Scenario::new(
        "names",
        "host name, subdomain and the hosts file",
        |stage| {
            let script = "hostname; hostname -f; cat /etc/hosts /etc/hostname; \
                stat -c '%a %n' /etc/hosts /dev/termination-log";
            stage.see(pod("p", script).spec(&json!({"hostname": "h", "subdomain": "s"})))
        },
    ),
    Scenario::new(
        "directories",
        "what a node keeps of its pods, and who may read it",
        |stage| {
            stage.create(pod("p", FOREVER))?;
            stage.running("p")?;
            let own = format!("/var/log/pods/{}_p_*", stage.namespace());
            // Some files of a pod are not of both: only directories are looked at.
            let script = format!(
                "cd /var/lib/kubelet; stat -c '%a %n' . pods plugins plugins_registry \
                 pod-resources checkpoints /var/log/pods /var/log/containers; \
                 stat -c %a {own} {own}/main; \
                 for d in pods/*/ pods/*/containers pods/*/volumes pods/*/plugins; do \
                 stat -c %a $d; done | sort -u"
            );
            stage.keep("directories", &script)?;
            let links = format!(
                "cd /var/log/containers; for link in p_{}_*; do echo \"$link\"; readlink \"$link\"; \
                 test -f \"$link\" && echo leads to a file; done | sed -E 's/[0-9a-f]{{64}}/<id>/'",
                stage.namespace()
            );
            stage.keep("links to logs", &links)?;
            stage.end("p")
        },
    ),
    Scenario::new("name-is-fqdn", "the host name is the whole name", |stage| {
        let change = json!({"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": true});
        stage.see(pod("p", "hostname").spec(&change))
    }),
    Scenario::new("names-given", "hostAliases and dnsConfig", |stage| {
        // Upstream writes options in an order that changes from pod to pod.
        let script = "cat /etc/hosts; grep -v ^options /etc/resolv.conf; \
            grep ^options /etc/resolv.conf | tr ' ' '\\n' | sort";
        let change = json!({
            "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["one", "two.test"]}],
            "dnsPolicy": "ClusterFirst",
            "dnsConfig": {
                "nameservers": ["192.0.2.53"],
                "searches": ["more.test"],
                "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
            },
        });
        stage.see(pod("p", script).spec(&change))
    }),
    Scenario::new("dns-none", "only the DNS that the pod names", |stage| {
        let dns = json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.53"]}});
        stage.see(pod("p", "cat /etc/resolv.conf").spec(&dns))
    }),
    Scenario::new("dns-default", "the DNS of the node", |stage| {
        stage.see(pod("p", "cat /etc/resolv.conf").spec(&json!({"dnsPolicy": "Default"})))
    }),
    Scenario::new(
        "out-of-cpu",
        "a pod that asks for more than the node has",
        |stage| {
            let much = json!({"resources": {"requests": {"cpu": "1000"}}});
            stage.create(pod("p", FOREVER).main(&much))?;
            stage.phase("p", "Failed")?;
            stage.said("OutOfcpu")?;
            stage.end("p")
        },
    )
    .ci(),
    Scenario::new(
        "wrong-node",
        "a pod that does not want this node",
        |stage| {
            stage.create(pod("p", FOREVER).spec(&json!({"nodeSelector": {"no": "such"}})))?;
            stage.phase("p", "Failed")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "host-port-taken",
        "two pods want one port of the node",
        |stage| {
            stage.create(pod("a", FOREVER).main(&host_port(18080)))?;
            stage.running("a")?;
            stage.create(pod("b", FOREVER).main(&host_port(18080)))?;
            stage.phase("b", "Failed")?;
            stage.end("a")
        },
    ),
    Scenario::new(
        "taint",
        "a pod that does not bear a taint has to go",
        |stage| {
            stage.create(pod("p", FOREVER).spec(&json!({"tolerations": null})))?;
            stage.running("p")?;
            let taint = json!({"key": "lab.test/compare", "effect": "NoExecute"});
            stage.patch_node(&json!({"spec": {"taints": [taint]}}))?;
            let gone = stage.gone("p");
            stage.patch_node(&json!({"spec": {"taints": null}}))?;
            gone
        },
    )
    .lane(Lane::Taints),
];
