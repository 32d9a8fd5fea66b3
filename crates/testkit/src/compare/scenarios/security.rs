//! Users, groups, capabilities, and what a container may use.

use serde_json::json;

use super::super::manifest::{FOREVER, pod};
use super::super::scenario::Scenario;

const LIMITS: &str = "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes cpu/cpu.shares \
    cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us memory.max cpu.weight cpu.max 2>/dev/null; \
    cat /proc/1/oom_score_adj";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "run-as-user",
        "users and groups of processes and volumes",
        |stage| {
            let script =
                "id -u; id -g; id -G; stat -c '%A %u %g' /v; touch /v/x; stat -c '%u %g' /v/x";
            let context = json!({
                "runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [4000],
            });
            let pod = pod("p", script).volume("/v", &json!({"emptyDir": {}}));
            stage.see(pod.spec(&json!({"securityContext": context})))
        },
    ),
    Scenario::new(
        "run-as-non-root-refused",
        "root may not run where nobody may be root",
        |stage| {
            let context = json!({"securityContext": {"runAsNonRoot": true}});
            stage.create(pod("p", FOREVER).main(&context))?;
            stage.state("p", "main", "waiting:CreateContainerConfigError")?;
            stage.end("p")
        },
    )
    .ci(),
    Scenario::new(
        "privileged",
        "a privileged container has every capability",
        |stage| {
            let script = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; test -e /dev/loop0 && echo devices";
            stage.see(pod("p", script).main(&json!({"securityContext": {"privileged": true}})))
        },
    ),
    Scenario::new(
        "capabilities",
        "capabilities are added and dropped",
        |stage| {
            let script = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status";
            let context = json!({
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "CHOWN"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            });
            stage.see(pod("p", script).main(&json!({"securityContext": context})))
        },
    ),
    Scenario::new(
        "capabilities-plain",
        "what a container has by default",
        |stage| {
            stage.see(pod(
                "p",
                "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; id -G",
            ))
        },
    ),
    Scenario::new(
        "read-only-root",
        "a root that may not be written",
        |stage| {
            let context = json!({"securityContext": {"readOnlyRootFilesystem": true}});
            stage.see(pod("p", "touch /x || echo refused; exit 3").main(&context))
        },
    ),
    Scenario::new(
        "limits-guaranteed",
        "limits alone, as the kernel has them",
        |stage| {
            let limits = json!({"resources": {"limits": {"cpu": "200m", "memory": "48Mi"}}});
            stage.see(pod("p", LIMITS).main(&limits))
        },
    ),
    Scenario::new(
        "limits-burstable",
        "requests and a limit, as the kernel has them",
        |stage| {
            let resources = json!({"resources": {
                "requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"memory": "64Mi"},
            }});
            stage.see(pod("p", LIMITS).main(&resources))
        },
    ),
    Scenario::new(
        "limits-reported",
        "resources in the status of a pod that runs",
        |stage| {
            let resources = json!({"resources": {
                "requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": 1, "memory": "64Mi"},
            }});
            stage.create(pod("p", FOREVER).main(&resources))?;
            stage.running("p")
        },
    ),
    Scenario::new("limits-none", "neither requests nor limits", |stage| {
        stage.see(pod("p", LIMITS))
    }),
    Scenario::new("priority", "a critical pod is killed last", |stage| {
        stage.see(pod("p", LIMITS).spec(&json!({"priorityClassName": "system-cluster-critical"})))
    }),
    Scenario::new("sysctls", "kernel parameters of a pod", |stage| {
        let sysctls = json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]);
        let pod = pod("p", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start");
        stage.see(pod.spec(&json!({"securityContext": {"sysctls": sysctls}})))
    }),
    Scenario::new(
        "sysctl-forbidden",
        "a kernel parameter that the node does not allow",
        |stage| {
            let sysctls = json!([{"name": "kernel.msgmax", "value": "65536"}]);
            stage.create(
                pod("p", FOREVER).spec(&json!({"securityContext": {"sysctls": sysctls}})),
            )?;
            stage.phase("p", "Failed")
        },
    ),
    Scenario::new(
        "groups-strict",
        "no groups but those that the pod names",
        |stage| {
            let context = json!({
                "runAsUser": 1000, "supplementalGroups": [4000], "supplementalGroupsPolicy": "Strict",
            });
            let pod = pod("p", "id -u; id -g; id -G");
            stage.see(pod.spec(&json!({"securityContext": context})))
        },
    ),
    Scenario::new(
        "seccomp-unconfined",
        "system calls that nobody looks at",
        |stage| {
            let context = json!({"seccompProfile": {"type": "Unconfined"}});
            let pod = pod("p", "grep -E '^Seccomp:' /proc/self/status");
            stage.see(pod.spec(&json!({"securityContext": context})))
        },
    ),
    Scenario::new(
        "seccomp-missing",
        "a profile that is not on the node",
        |stage| {
            let profile = json!({"type": "Localhost", "localhostProfile": "no/such.json"});
            let context = json!({"securityContext": {"seccompProfile": profile}});
            stage.create(pod("p", FOREVER).main(&context))?;
            stage.said("Failed")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "masked-paths",
        "what of the machine a container does not see",
        |stage| {
            let script = "wc -c < /proc/kcore; wc -c < /proc/timer_list; \
                touch /proc/sys/kernel/x 2>/dev/null || echo refused";
            stage.see(pod("p", script))
        },
    ),
];
