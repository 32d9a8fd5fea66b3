//! Who a container runs as, and what it may.

use serde_json::{Value, json};

use crate::wire::spec::{Spec, Until, spec};

/// A pod whose containers may this.
#[allow(
    clippy::needless_pass_by_value,
    reason = "manifests are written in place"
)]
fn pod(name: &'static str, context: Value) -> Spec {
    spec(name).pod(json!({"securityContext": context}))
}

/// A pod whose container `main` may this.
#[allow(
    clippy::needless_pass_by_value,
    reason = "manifests are written in place"
)]
fn main(name: &'static str, context: Value) -> Spec {
    spec(name).main(json!({"securityContext": context}))
}

pub(super) fn specs() -> Vec<Spec> {
    [users(), powers(), profiles(), namespaces(), sysctls()].concat()
}

fn users() -> Vec<Spec> {
    vec![
        pod("user-of-the-pod", json!({"runAsUser": 1001})),
        main("user-of-the-container", json!({"runAsUser": 1002})),
        pod(
            "user-of-both",
            json!({"runAsUser": 1001, "runAsGroup": 2001}),
        )
        .main(json!({"securityContext": {"runAsUser": 1003}}))
        .and("other", json!({"securityContext": {"runAsGroup": 2003}})),
        pod("user-root", json!({"runAsUser": 0, "runAsGroup": 0})),
        pod("group", json!({"runAsUser": 1001, "runAsGroup": 2001})),
        pod("not-root", json!({"runAsNonRoot": true, "runAsUser": 1001})),
        main("not-root-but-is", json!({"runAsNonRoot": true}))
            .until(Until::Waiting("main", "CreateContainerConfigError")),
        pod("fs-group", json!({"fsGroup": 3001})).volume(json!({"emptyDir": {}}), json!({})),
        pod(
            "supplemental-groups",
            json!({"supplementalGroups": [4002, 4001]}),
        ),
        pod(
            "all-groups",
            json!({"fsGroup": 3001, "supplementalGroups": [4001, 3001], "runAsGroup": 5,
                "fsGroupChangePolicy": "OnRootMismatch"}),
        ),
        pod(
            "groups-strict",
            json!({"supplementalGroups": [4001], "supplementalGroupsPolicy": "Strict"}),
        ),
        pod("groups-merge", json!({"supplementalGroupsPolicy": "Merge"})),
    ]
}

fn powers() -> Vec<Spec> {
    vec![
        main(
            "capabilities",
            json!({"capabilities": {"add": ["NET_ADMIN", "CAP_SYS_TIME"], "drop": ["MKNOD"]}}),
        ),
        main(
            "capabilities-none",
            json!({"capabilities": {"drop": ["ALL"]}}),
        ),
        main("privileged", json!({"privileged": true})),
        spec("privileged-init-container")
            .init("first", json!({"securityContext": {"privileged": true}}))
            .story("run-time.first", "200ms"),
        main("no-escalation", json!({"allowPrivilegeEscalation": false})),
        main("escalation", json!({"allowPrivilegeEscalation": true})),
        main("read-only-root", json!({"readOnlyRootFilesystem": true})),
        main("proc-default", json!({"procMount": "Default"})),
        main("proc-unmasked", json!({"procMount": "Unmasked"})).pod(json!({"hostUsers": false})),
    ]
}

fn profiles() -> Vec<Spec> {
    let seccomp = |kind: &str| json!({"seccompProfile": {"type": kind}});
    let label = json!({"seLinuxOptions": {
        "user": "u", "role": "r", "type": "t", "level": "s0:c1,c2",
    }});
    vec![
        pod("seccomp-of-the-pod", seccomp("RuntimeDefault")),
        main("seccomp-of-the-container", seccomp("RuntimeDefault")),
        pod("seccomp-off", seccomp("Unconfined")),
        pod(
            "seccomp-local",
            json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}}),
        ),
        pod("seccomp-of-both", seccomp("RuntimeDefault"))
            .main(json!({"securityContext": seccomp("Unconfined")}))
            .and("other", json!({})),
        main(
            "seccomp-and-privileged",
            json!({"privileged": true, "seccompProfile": {"type": "RuntimeDefault"}}),
        ),
        main(
            "app-armor-off",
            json!({"appArmorProfile": {"type": "Unconfined"}}),
        ),
        pod(
            "app-armor-off-for-the-pod",
            json!({"appArmorProfile": {"type": "Unconfined"}}),
        ),
        pod("selinux-of-the-pod", label.clone()),
        main("selinux-of-the-container", label),
        pod(
            "selinux-of-both",
            json!({"seLinuxOptions": {"level": "s0:c1"}}),
        )
        .main(json!({"securityContext": {"seLinuxOptions": {"level": "s0:c9"}}})),
    ]
}

fn namespaces() -> Vec<Spec> {
    let shared = |field: &str| json!({field: true});
    vec![
        spec("host-pid").pod(shared("hostPID")),
        spec("host-ipc").pod(shared("hostIPC")),
        spec("host-network").pod(shared("hostNetwork")),
        spec("host-everything").pod(json!({"hostPID": true, "hostIPC": true, "hostNetwork": true})),
        spec("shared-processes")
            .pod(shared("shareProcessNamespace"))
            .and("other", json!({})),
        spec("host-users").pod(shared("hostUsers")),
        spec("own-users")
            .pod(json!({"hostUsers": false}))
            .volume(json!({"emptyDir": {}}), json!({})),
    ]
}

fn sysctls() -> Vec<Spec> {
    let sysctls = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(name, value)| json!({"name": name, "value": value}));
        json!({"sysctls": pairs.collect::<Vec<Value>>()})
    };
    vec![
        pod(
            "sysctls",
            sysctls(&[
                ("kernel.shm_rmid_forced", "1"),
                ("net.ipv4.tcp_syncookies", "0"),
            ]),
        ),
        pod(
            "sysctls-with-slashes",
            sysctls(&[("kernel/shm_rmid_forced", "1")]),
        ),
        pod(
            "sysctls-unsafe",
            sysctls(&[("kernel.msgmax", "65536"), ("net.core.somaxconn", "512")]),
        ),
    ]
}
