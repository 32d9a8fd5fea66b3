//! The resources of a pod as a whole: what is allocated to it, and what its cgroup
//! says that it has.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::input::Input;
use crate::resources::{LEAST_CPU_LIMIT, LEAST_CPU_REQUEST, bytes, given, set, set_cpu};
use crate::spec::{init_containers, is_sidecar, spec};

type Amounts = BTreeMap<String, Quantity>;

/// Writes `resources` and `allocatedResources`.
pub(crate) fn apply(input: &Input<'_>, status: &mut PodStatus) {
    let requests = requests(input.pod);
    // The cgroup of one that is over says nothing any more; and to upstream a static pod never
    // runs: it goes by what its source says of it.
    let over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let runs = input.api.phase.as_deref() == Some("Running") && !over && !input.known.is_static;
    let resources = if runs {
        actual(input, &requests)
    } else {
        let whole = spec(input.pod).resources.clone().unwrap_or_default();
        ResourceRequirements {
            requests: filled(requests.clone()),
            limits: filled(limits(input.pod)),
            ..whole
        }
    };
    status.resources = Some(resources);
    status.allocated_resources = filled(requests);
}

/// By the pod's cgroup; what it does not say is as it was.
fn actual(input: &Input<'_>, aggregated: &Amounts) -> ResourceRequirements {
    let whole = spec(input.pod).resources.clone().unwrap_or_default();
    let old = input.old();
    let running = old.phase.as_deref() == Some("Running");
    let before = old.resources.as_ref().filter(|_| running);
    let said = input.known.cgroup.map(given).unwrap_or_default();
    let mut requests = whole.requests.clone().unwrap_or_default();
    let before_requests = before.and_then(|before| before.requests.as_ref());
    set_cpu(
        &mut requests,
        said.cpu_request,
        LEAST_CPU_REQUEST,
        before_requests,
    );
    if !requests.contains_key("memory") {
        set(
            &mut requests,
            "memory",
            aggregated.get("memory").cloned(),
            None,
        );
    }
    set(&mut requests, "memory", None, before_requests);
    let mut limits = whole.limits.clone().unwrap_or_default();
    let before_limits = before.and_then(|before| before.limits.as_ref());
    set_cpu(&mut limits, said.cpu_limit, LEAST_CPU_LIMIT, before_limits);
    set(
        &mut limits,
        "memory",
        said.memory_limit.map(bytes),
        before_limits,
    );
    ResourceRequirements {
        requests: filled(requests),
        limits: filled(limits),
        ..whole
    }
}

/// What a pod asks for: its containers together, or the most that an init container
/// asks for beside the sidecars before it; the pod's own word first, and its
/// overhead on top.
pub fn requests(pod: &Pod) -> Amounts {
    let of = |container: &Container| {
        let resources = container.resources.as_ref();
        resources.and_then(|resources| resources.requests.clone())
    };
    let whole = spec(pod).resources.as_ref();
    let own = whole.and_then(|whole| whole.requests.as_ref());
    let mut sum = with_own(aggregated(pod, of), own);
    add(&mut sum, spec(pod).overhead.iter().flatten());
    sum
}

/// The most that a pod may have, as with requests. Overhead raises a limit, and
/// makes none.
pub fn limits(pod: &Pod) -> Amounts {
    let of = |container: &Container| {
        let resources = container.resources.as_ref();
        resources.and_then(|resources| resources.limits.clone())
    };
    let whole = spec(pod).resources.as_ref();
    let own = whole.and_then(|whole| whole.limits.as_ref());
    let mut sum = with_own(aggregated(pod, of), own);
    let overhead = spec(pod).overhead.iter().flatten();
    let raised: Vec<_> = overhead
        .filter(|(name, _)| sum.get(*name).is_some_and(|limit| limit.0 != "0"))
        .collect();
    add(&mut sum, raised);
    sum
}

fn aggregated(pod: &Pod, of: impl Fn(&Container) -> Option<Amounts>) -> Amounts {
    let spec = spec(pod);
    let mut sum = Amounts::new();
    for container in &spec.containers {
        add(&mut sum, of(container).iter().flatten());
    }
    let mut sidecars = Amounts::new();
    let mut most = Amounts::new();
    for container in init_containers(spec) {
        let amounts = of(container).unwrap_or_default();
        if is_sidecar(container) {
            add(&mut sum, &amounts);
            add(&mut sidecars, &amounts);
            at_least(&mut most, &sidecars);
        } else {
            let mut beside = sidecars.clone();
            add(&mut beside, &amounts);
            at_least(&mut most, &beside);
        }
    }
    at_least(&mut sum, &most);
    sum
}

fn with_own(mut sum: Amounts, own: Option<&Amounts>) -> Amounts {
    let counts = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let own = own.into_iter().flatten();
    for (name, amount) in own.filter(|(name, _)| counts(name)) {
        sum.insert(name.clone(), amount.clone());
    }
    sum
}

fn add<'a>(sum: &mut Amounts, amounts: impl IntoIterator<Item = (&'a String, &'a Quantity)>) {
    for (name, amount) in amounts {
        let total = sum.get(name).and_then(|so_far| {
            let (so_far, amount) = (parsed(so_far)?, parsed(amount)?);
            Some(Quantity(so_far.checked_add(&amount)?.to_string()))
        });
        let total = total.unwrap_or_else(|| amount.clone());
        sum.insert(name.clone(), total);
    }
}

fn at_least(sum: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        let enough = sum
            .get(name)
            .is_some_and(|so_far| parsed(so_far) >= parsed(amount));
        if !enough {
            sum.insert(name.clone(), amount.clone());
        }
    }
}

/// What cannot be read was not accepted by the API either.
fn parsed(amount: &Quantity) -> Option<types::Quantity> {
    amount.0.parse().ok()
}

fn filled(amounts: Amounts) -> Option<Amounts> {
    (!amounts.is_empty()).then_some(amounts)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: &Value) -> Pod {
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    fn asks(name: &str, cpu: &str, sidecar: bool) -> Value {
        json!({"name": name, "restartPolicy": sidecar.then_some("Always"),
            "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}})
    }

    #[test]
    fn a_pod_asks_for_the_most_that_it_needs_at_once() {
        let cases = [
            (
                json!({"containers": [asks("a", "1", false), asks("b", "500m", false)]}),
                "1500m",
            ),
            (
                json!({"containers": [asks("a", "1", false)],
                "initContainers": [asks("i", "3", false)]}),
                "3",
            ),
            (
                json!({"containers": [asks("a", "1", false)],
                "initContainers": [asks("s", "1", true), asks("i", "3", false)]}),
                "4",
            ),
            (
                json!({"containers": [asks("a", "1", false)],
                "initContainers": [asks("i", "1", false), asks("s", "1", true)]}),
                "2",
            ),
            (
                json!({"containers": [asks("a", "1", false)], "overhead": {"cpu": "250m"}}),
                "1250m",
            ),
            (
                json!({"containers": [asks("a", "1", false)],
                "resources": {"requests": {"cpu": "7"}, "limits": {"cpu": "7"}}}),
                "7",
            ),
        ];
        for (spec, expected) in cases {
            let pod = pod(&spec);
            assert_eq!(requests(&pod)["cpu"].0, expected);
            assert_eq!(limits(&pod)["cpu"].0, expected);
        }
        let pod = pod(&json!({"containers": [{"name": "a"}], "overhead": {"cpu": "1"}}));
        assert_eq!(requests(&pod)["cpu"].0, "1");
        assert!(limits(&pod).is_empty(), "overhead makes no limit");
    }
}
