//! How good the service is that a pod gets when resources are short.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use types::Quantity;
use types::desired::SOURCE;

use crate::requests::{
    Amounts, CPU, MEMORY, container_requests, has_pod_level_requests, is_sidecar, limits, requests,
};

/// On what stands at the API server for a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// From this priority on a pod is critical.
const CRITICAL_PRIORITY: i32 = 2_000_000_000;
const NODE_CRITICAL: &str = "system-node-critical";

const GUARANTEED_SCORE: i64 = -997;
const BEST_EFFORT_SCORE: i64 = 1000;

/// How much of what it asks for a pod can count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QosClass {
    /// All: it may have no more.
    Guaranteed,
    /// That; it may have more.
    Burstable,
    /// It asks for nothing.
    BestEffort,
}

impl QosClass {
    /// The class that the pod's status has, or else that of its spec.
    pub fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let known = match status.and_then(|status| status.qos_class.as_deref()) {
            Some("Guaranteed") => Some(Self::Guaranteed),
            Some("Burstable") => Some(Self::Burstable),
            Some("BestEffort") => Some(Self::BestEffort),
            _ => None,
        };
        let spec = pod.spec.as_ref();
        known.unwrap_or_else(|| spec.map_or(Self::BestEffort, Self::of_spec))
    }

    /// Only CPU and memory count, and only more than nothing of them.
    pub fn of_spec(spec: &PodSpec) -> Self {
        let init_containers = spec.init_containers.iter().flatten();
        let containers = spec.containers.iter().chain(init_containers);
        // What the pod says itself makes its containers' words void.
        let parts: Vec<Option<&ResourceRequirements>> = match &spec.resources {
            Some(resources) => vec![Some(resources)],
            None => containers
                .map(|container| container.resources.as_ref())
                .collect(),
        };
        let (mut requested, mut limited) = (Amounts::new(), Amounts::new());
        let mut all_limited = true;
        for part in parts {
            add_counting(&mut requested, &requests(part));
            let limits = limits(part);
            add_counting(&mut limited, &limits);
            let none_by_the_pod = spec.resources.is_some() && limits.is_empty();
            all_limited &= none_by_the_pod || counting(&limits).count() == 2;
        }
        if requested.is_empty() && limited.is_empty() {
            return Self::BestEffort;
        }
        if all_limited && requested == limited {
            return Self::Guaranteed;
        }
        Self::Burstable
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

fn counting(amounts: &Amounts) -> impl Iterator<Item = (&String, &Quantity)> {
    let counts = |name: &str, amount: &Quantity| [CPU, MEMORY].contains(&name) && amount.sign() > 0;
    amounts
        .iter()
        .filter(move |(name, amount)| counts(name, amount))
}

fn add_counting(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in counting(more) {
        let known = sum.entry(name.clone()).or_default();
        *known = known.checked_add(amount).unwrap_or_else(|| known.clone());
    }
}

/// Whether a pod came from a file or a URL.
pub fn is_static(pod: &Pod) -> bool {
    annotation(pod, SOURCE).is_some_and(|source| source != "api")
}

/// Whether the cluster cannot do without the pod.
pub fn is_critical(pod: &Pod) -> bool {
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority);
    is_static(pod) || annotation(pod, MIRROR).is_some() || priority >= Some(CRITICAL_PRIORITY)
}

fn is_node_critical(pod: &Pod) -> bool {
    let class = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.priority_class_name.as_deref());
    class == Some(NODE_CRITICAL) && is_critical(pod)
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata
        .annotations
        .as_ref()?
        .get(name)
        .map(String::as_str)
}

/// Who the kernel kills first when memory is short: the higher, the sooner.
/// `capacity` is the machine's memory, in bytes.
pub fn oom_score_adj(pod: &Pod, container: &Container, capacity: i64) -> i64 {
    let Some(spec) = pod.spec.as_ref().filter(|_| !is_node_critical(pod)) else {
        return GUARANTEED_SCORE;
    };
    match QosClass::of(pod) {
        QosClass::Guaranteed => GUARANTEED_SCORE,
        QosClass::BestEffort => BEST_EFFORT_SCORE,
        QosClass::Burstable => burstable_score(spec, container, capacity.max(1)),
    }
}

/// Who asks for a tenth of the memory gets 900: it reaches the top when it uses
/// more than that. Never as safe as guaranteed pods, nor as lost as those that
/// asked for nothing.
fn burstable_score(spec: &PodSpec, container: &Container, capacity: i64) -> i64 {
    let share = unassigned_share(spec);
    let score = |request: i64| 1000 - 1000_i64.saturating_mul(request + share) / capacity;
    let mut own = score(memory_request(container));
    let init_containers = spec.init_containers.iter().flatten();
    let mut sidecars = init_containers.filter(|init| is_sidecar(init));
    if sidecars.any(|sidecar| sidecar.name == container.name) {
        // A sidecar does not go before those that it serves.
        let least = spec.containers.iter().map(memory_request).min();
        own = own.min(score(least.unwrap_or_default()));
    }
    if own == BEST_EFFORT_SCORE {
        return BEST_EFFORT_SCORE - 1;
    }
    own.max(1000 + GUARANTEED_SCORE)
}

/// What the pod asks for and no container does, in equal parts.
fn unassigned_share(spec: &PodSpec) -> i64 {
    let of_pod = requests(spec.resources.as_ref());
    let Some(whole) = of_pod.get(MEMORY).filter(|_| has_pod_level_requests(spec)) else {
        return 0;
    };
    let containers = spec.containers.len() + spec.init_containers.iter().flatten().count();
    let assigned = container_requests(spec)
        .get(MEMORY)
        .map_or(0, Quantity::value);
    let containers = i64::try_from(containers).unwrap_or(i64::MAX).max(1);
    if whole.is_zero() {
        0
    } else {
        (whole.value() - assigned) / containers
    }
}

fn memory_request(container: &Container) -> i64 {
    let requests = requests(container.resources.as_ref());
    requests.get(MEMORY).map_or(0, Quantity::value)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{container, named, pod, sidecar};

    fn both(cpu: &str, memory: &str) -> Value {
        json!({ "cpu": cpu, "memory": memory })
    }

    #[test]
    fn a_class_is_what_containers_ask_for_and_may_have() {
        let none = json!(null);
        let full = both("1", "1Gi");
        let plain = container("plain", &none, &none);
        let exact = container("exact", &full, &full);
        let same = container("same", &both("1000m", "1024Mi"), &full);
        let asking = container("asking", &json!({ "cpu": "1" }), &none);
        let zero = container("zero", &both("0", "0"), &both("0", "0"));
        let other = container("other", &json!({ "ephemeral-storage": "1Gi" }), &none);
        let only_limits = container("only-limits", &none, &full);
        let no_memory = container("no-memory", &json!({ "cpu": "1" }), &json!({ "cpu": "1" }));
        for (spec, class) in [
            (json!({ "containers": [plain] }), QosClass::BestEffort),
            (json!({ "containers": [zero] }), QosClass::BestEffort),
            (json!({ "containers": [other] }), QosClass::BestEffort),
            (json!({ "containers": [exact, same] }), QosClass::Guaranteed),
            (json!({ "containers": [exact, plain] }), QosClass::Burstable),
            (
                json!({ "containers": [exact], "initContainers": [plain] }),
                QosClass::Burstable,
            ),
            (
                json!({ "containers": [exact], "initContainers": [exact] }),
                QosClass::Guaranteed,
            ),
            (json!({ "containers": [asking] }), QosClass::Burstable),
            // The API server fills requests in; where nobody did, they are missing.
            (json!({ "containers": [only_limits] }), QosClass::Burstable),
            (json!({ "containers": [no_memory] }), QosClass::Burstable),
            // The pod itself.
            (
                json!({ "containers": [exact], "resources": {} }),
                QosClass::BestEffort,
            ),
            (
                json!({ "containers": [plain], "resources": { "requests": full, "limits": full } }),
                QosClass::Guaranteed,
            ),
            (
                json!({ "containers": [exact], "resources": { "limits": full } }),
                QosClass::Burstable,
            ),
            (
                json!({ "containers": [exact], "resources": { "requests": { "cpu": "1" } } }),
                QosClass::Burstable,
            ),
        ] {
            assert_eq!(QosClass::of(&pod(&spec)), class, "{spec}");
        }
    }

    #[test]
    fn the_class_in_the_status_stays() {
        let mut pod = pod(&json!({ "containers": [container("c", &json!(null), &json!(null))] }));
        for class in [
            QosClass::Guaranteed,
            QosClass::Burstable,
            QosClass::BestEffort,
        ] {
            let status = json!({ "qosClass": class.as_str() });
            pod.status = Some(serde_json::from_value(status).unwrap());
            assert_eq!(QosClass::of(&pod), class);
        }
    }

    #[test]
    fn pods_are_critical_by_source_by_being_a_mirror_or_by_priority() {
        let from = |annotations: Value, priority: Value| -> Pod {
            let pod = json!({
                "metadata": { "annotations": annotations },
                "spec": { "containers": [], "priority": priority },
            });
            serde_json::from_value(pod).unwrap()
        };
        for (annotations, priority, critical) in [
            (json!({}), json!(null), false),
            (
                json!({ "kubernetes.io/config.source": "api" }),
                json!(1),
                false,
            ),
            (
                json!({ "kubernetes.io/config.source": "file" }),
                json!(null),
                true,
            ),
            (
                json!({ "kubernetes.io/config.mirror": "x" }),
                json!(null),
                true,
            ),
            (json!({}), json!(1_999_999_999), false),
            (json!({}), json!(2_000_000_000), true),
        ] {
            let pod = from(annotations, priority);
            assert_eq!(is_critical(&pod), critical, "{pod:?}");
        }
    }

    fn score(spec: &Value, name: &str) -> i64 {
        let pod = pod(spec);
        oom_score_adj(&pod, named(&pod, name), 1000)
    }

    #[test]
    fn the_kernel_kills_by_class_and_by_what_was_asked_for() {
        let none = json!(null);
        let asking = |memory: &str| container("c", &json!({ "memory": memory }), &none);
        for (memory, expected) in [
            ("100", 900),
            ("999", 3),
            ("1000", 3),
            ("5000", 3),
            // Less than a thousandth.
            ("998", 3),
            ("997", 3),
            ("996", 4),
        ] {
            let spec = json!({ "containers": [asking(memory)] });
            assert_eq!(score(&spec, "c"), expected, "{memory}");
        }
        let cpu_only = container("c", &json!({ "cpu": "1" }), &none);
        assert_eq!(score(&json!({ "containers": [cpu_only] }), "c"), 999);
        let plain = container("c", &none, &none);
        assert_eq!(score(&json!({ "containers": [plain] }), "c"), 1000);
        let full = both("1", "500");
        let exact = container("c", &full, &full);
        assert_eq!(score(&json!({ "containers": [exact] }), "c"), -997);
        for (priority, expected) in [(2_000_001_000, -997), (5, 1000)] {
            let class = json!("system-node-critical");
            let spec = json!({
                "containers": [plain], "priority": priority, "priorityClassName": class,
            });
            assert_eq!(score(&spec, "c"), expected, "{priority}");
        }
    }

    #[test]
    fn a_sidecar_is_as_safe_as_those_that_it_serves() {
        let none = json!(null);
        let memory = |amount: &str| json!({ "memory": amount });
        let spec = json!({
            "containers": [
                container("large", &memory("400"), &none),
                container("small", &memory("200"), &none),
            ],
            "initContainers": [
                container("first", &memory("10"), &none),
                sidecar("modest", &memory("10"), &none),
                sidecar("greedy", &memory("300"), &none),
            ],
        });
        assert_eq!(score(&spec, "first"), 990);
        assert_eq!(score(&spec, "modest"), 800);
        assert_eq!(score(&spec, "greedy"), 700);
    }

    #[test]
    fn what_only_the_pod_asks_for_protects_all_containers_equally() {
        let none = json!(null);
        let memory = |amount: &str| json!({ "memory": amount });
        let spec = json!({
            "containers": [
                container("some", &memory("100"), &none),
                container("nothing", &none, &none),
            ],
            "initContainers": [sidecar("side", &memory("50"), &none)],
            // 450 is nobody's: 150 for each.
            "resources": { "requests": memory("600") },
        });
        assert_eq!(score(&spec, "some"), 750);
        assert_eq!(score(&spec, "nothing"), 850);
        assert_eq!(score(&spec, "side"), 800);
    }
}
