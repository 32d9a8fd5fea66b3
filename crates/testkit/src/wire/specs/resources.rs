//! What a container may use.

use serde_json::{Value, json};

use crate::wire::spec::{Spec, spec};

fn requests(cpu: &str, memory: &str) -> Value {
    json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}})
}

fn limits(cpu: &str, memory: &str) -> Value {
    json!({"resources": {"limits": {"cpu": cpu, "memory": memory}}})
}

pub(super) fn specs() -> Vec<Spec> {
    [of_containers(), of_pods()].concat()
}

fn of_containers() -> Vec<Spec> {
    vec![
        spec("requests").main(requests("20m", "16Mi")),
        spec("limits").main(limits("30m", "24Mi")),
        spec("requests-and-limits").main(json!({"resources": {
            "requests": {"cpu": "10m", "memory": "8Mi"}, "limits": {"cpu": "50m", "memory": "32Mi"},
        }})),
        spec("cpu-request-alone").main(json!({"resources": {"requests": {"cpu": "25m"}}})),
        spec("cpu-limit-alone").main(json!({"resources": {"limits": {"cpu": "25m"}}})),
        spec("cpu-limit-tiny").main(json!({"resources": {"limits": {"cpu": "1m"}}})),
        spec("cpu-limit-odd").main(json!({"resources": {
            "requests": {"cpu": "3m"}, "limits": {"cpu": "1333m"},
        }})),
        spec("cpu-request-zero").main(json!({"resources": {
            "requests": {"cpu": "0"}, "limits": {"cpu": "20m"},
        }})),
        spec("memory-request-alone").main(json!({"resources": {"requests": {"memory": "64Mi"}}})),
        spec("memory-request-large").main(json!({"resources": {"requests": {"memory": "3Gi"}}})),
        spec("memory-limit-alone").main(json!({"resources": {"limits": {"memory": "20M"}}})),
        spec("ephemeral-storage").main(json!({"resources": {
            "requests": {"ephemeral-storage": "1Mi"}, "limits": {"ephemeral-storage": "2Mi"},
        }})),
        spec("guaranteed-two-containers")
            .main(limits("20m", "10Mi"))
            .and("other", limits("30m", "12Mi")),
        spec("burstable-two-containers")
            .main(limits("20m", "10Mi"))
            .and("other", json!({})),
        spec("resources-of-init-containers")
            .init("first", requests("40m", "48Mi"))
            .story("run-time.first", "200ms")
            .main(requests("10m", "8Mi")),
        spec("resources-of-a-sidecar")
            .sidecar("side", requests("10m", "128Mi"))
            .main(requests("10m", "8Mi")),
        spec("resources-of-a-best-effort-sidecar")
            .sidecar("side", json!({}))
            .main(requests("10m", "512Mi")),
    ]
}

fn of_pods() -> Vec<Spec> {
    let whole = |resources: Value| json!({"resources": resources});
    vec![
        spec("pod-level-requests")
            .pod(whole(json!({"requests": {"cpu": "40m", "memory": "32Mi"}}))),
        spec("pod-level-limits").pod(whole(json!({"limits": {"cpu": "40m", "memory": "32Mi"}}))),
        spec("pod-level-guaranteed-two-containers")
            .pod(whole(json!({
                "requests": {"cpu": "40m", "memory": "32Mi"},
                "limits": {"cpu": "40m", "memory": "32Mi"},
            })))
            .and("other", json!({})),
        spec("pod-level-and-containers")
            .pod(whole(json!({
                "requests": {"cpu": "60m", "memory": "64Mi"},
                "limits": {"cpu": "90m", "memory": "96Mi"},
            })))
            .main(limits("20m", "16Mi"))
            .and("other", requests("10m", "8Mi")),
        spec("pod-level-with-a-sidecar")
            .pod(whole(
                json!({"requests": {"cpu": "60m", "memory": "256Mi"}}),
            ))
            .sidecar("side", requests("10m", "8Mi")),
        spec("node-critical")
            .pod(json!({"priorityClassName": "system-node-critical"}))
            .main(requests("5m", "4Mi")),
        spec("cluster-critical")
            .pod(json!({"priorityClassName": "system-cluster-critical"}))
            .main(requests("5m", "4Mi")),
        spec("runtime-class").pod(json!({"runtimeClassName": "wire-handler"})),
        spec("overhead")
            .pod(json!({"runtimeClassName": "wire-overhead"}))
            .main(json!({"resources": {
                "requests": {"cpu": "10m", "memory": "8Mi"},
                "limits": {"cpu": "20m", "memory": "16Mi"},
            }})),
    ]
}
