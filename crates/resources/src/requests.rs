//! What a pod asks for and may have, as a whole.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use types::Quantity;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
pub const HUGE_PAGES: &str = "hugepages-";

/// Resources by name.
pub type Amounts = BTreeMap<String, Quantity>;

/// Whether what the sandbox itself costs is part of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overhead {
    Included,
    Excluded,
}

/// Reads amounts of the API. One that is no quantity has no place in an object
/// that was validated, and counts for nothing.
pub fn amounts(list: Option<&BTreeMap<String, ApiQuantity>>) -> Amounts {
    let all = list.into_iter().flatten();
    let read = all.filter_map(|(name, amount)| Some((name.clone(), amount.0.parse().ok()?)));
    read.collect()
}

pub fn requests(resources: Option<&ResourceRequirements>) -> Amounts {
    amounts(resources.and_then(|resources| resources.requests.as_ref()))
}

pub fn limits(resources: Option<&ResourceRequirements>) -> Amounts {
    amounts(resources.and_then(|resources| resources.limits.as_ref()))
}

/// What a pod asks for: what it says itself, or else the sum over its containers.
pub fn pod_requests(spec: &PodSpec, overhead: Overhead) -> Amounts {
    let mut sum = container_requests(spec);
    sum.extend(pod_level(requests(spec.resources.as_ref())));
    if overhead == Overhead::Included {
        add(&mut sum, &amounts(spec.overhead.as_ref()));
    }
    sum
}

/// What a pod may have, in the same way. Overhead widens a limit, it makes none.
pub fn pod_limits(spec: &PodSpec, overhead: Overhead) -> Amounts {
    let mut sum = Uses::of(spec, limits).whole();
    sum.extend(pod_level(limits(spec.resources.as_ref())));
    if overhead == Overhead::Included {
        let mut widening = amounts(spec.overhead.as_ref());
        widening.retain(|name, _| sum.get(name).is_some_and(|limit| !limit.is_zero()));
        add(&mut sum, &widening);
    }
    sum
}

/// What is left of a machine for its pods when others have what is reserved for them.
pub fn left(capacity: &Amounts, reserved: &[Amounts]) -> Amounts {
    let left = |(name, whole): (&String, &Quantity)| {
        let parts = reserved.iter().filter_map(|amounts| amounts.get(name));
        let left = parts.fold(whole.clone(), |left, part| {
            left.checked_sub(part).unwrap_or(left)
        });
        let left = if left.sign() < 0 {
            Quantity::default()
        } else {
            left
        };
        (name.clone(), left)
    };
    capacity.iter().map(left).collect()
}

/// What the containers ask for together, whatever the pod says itself.
pub fn container_requests(spec: &PodSpec) -> Amounts {
    Uses::of(spec, requests).whole()
}

/// Whether nothing in the pod goes without a limit on `resource`.
pub fn is_limited(spec: &PodSpec, resource: &str) -> bool {
    let of_pod = limits(spec.resources.as_ref());
    let set = |amounts: &Amounts| amounts.get(resource).is_some_and(|limit| !limit.is_zero());
    let uses = Uses::of(spec, limits);
    set(&of_pod) || uses.regular.iter().chain(&uses.steps).all(set)
}

/// An init container that keeps running.
pub fn is_sidecar(init_container: &Container) -> bool {
    init_container.restart_policy.as_deref() == Some("Always")
}

/// Whether a pod can set limits on it for all its containers.
pub fn is_pod_level(resource: &str) -> bool {
    [CPU, MEMORY].contains(&resource) || resource.starts_with(HUGE_PAGES)
}

/// Whether the pod asks for something itself.
pub fn has_pod_level_requests(spec: &PodSpec) -> bool {
    !pod_level(requests(spec.resources.as_ref())).is_empty()
}

/// Whether the pod asks for, or limits, something itself.
pub fn has_pod_level_resources(spec: &PodSpec) -> bool {
    let limited = !pod_level(limits(spec.resources.as_ref())).is_empty();
    limited || has_pod_level_requests(spec)
}

fn pod_level(mut amounts: Amounts) -> Amounts {
    amounts.retain(|name, _| is_pod_level(name));
    amounts
}

/// What is in use at the different times of a pod's life.
struct Uses {
    regular: Vec<Amounts>,
    /// By regular containers and sidecars together.
    running: Amounts,
    /// By each init container, and the sidecars that run by then.
    steps: Vec<Amounts>,
}

impl Uses {
    fn of(spec: &PodSpec, pick: fn(Option<&ResourceRequirements>) -> Amounts) -> Self {
        let of = |container: &Container| pick(container.resources.as_ref());
        let regular: Vec<Amounts> = spec.containers.iter().map(of).collect();
        let mut running = Amounts::new();
        for amounts in &regular {
            add(&mut running, amounts);
        }
        let mut sidecars = Amounts::new();
        let mut steps = Vec::new();
        for container in spec.init_containers.iter().flatten() {
            let own = of(container);
            if is_sidecar(container) {
                add(&mut running, &own);
                add(&mut sidecars, &own);
                steps.push(sidecars.clone());
            } else {
                let mut step = own;
                add(&mut step, &sidecars);
                steps.push(step);
            }
        }
        Self {
            regular,
            running,
            steps,
        }
    }

    /// The most that is in use at any time.
    fn whole(self) -> Amounts {
        let mut most = self.running;
        for (name, amount) in self.steps.into_iter().flatten() {
            match most.get_mut(&name) {
                Some(known) if *known >= amount => {}
                Some(known) => *known = amount,
                None => {
                    most.insert(name, amount);
                }
            }
        }
        most
    }
}

/// A sum that no number can hold stays as it was: no machine has so much.
fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match sum.get_mut(name) {
            Some(known) => *known = known.checked_add(amount).unwrap_or_else(|| known.clone()),
            None => {
                sum.insert(name.clone(), amount.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{container, pod, sidecar};

    fn text(amounts: &Amounts) -> Value {
        let texts = amounts
            .iter()
            .map(|(name, amount)| (name.clone(), json!(amount.to_string())));
        Value::Object(texts.collect())
    }

    fn cpu(amount: &str) -> Value {
        json!({ "cpu": amount })
    }

    /// Requests and limits are the same in each of these.
    #[test]
    fn a_pod_asks_for_the_most_that_it_needs_at_any_time() {
        let one = |amount: &str| container("c", &cpu(amount), &cpu(amount));
        let init = |amount: &str| container("i", &cpu(amount), &cpu(amount));
        let side = |amount: &str| sidecar("s", &cpu(amount), &cpu(amount));
        for (containers, init_containers, whole) in [
            (json!([one("1"), one("2")]), json!([]), "3"),
            (
                json!([one("1"), one("2")]),
                json!([init("2"), init("1")]),
                "3",
            ),
            (
                json!([one("1"), one("2")]),
                json!([init("5"), init("1")]),
                "5",
            ),
            // Sidecars run beside the regular containers.
            (json!([one("1")]), json!([side("2"), side("3")]), "6"),
            // An init container counts with the sidecars before it, not after.
            (
                json!([one("1")]),
                json!([side("2"), init("8"), side("3")]),
                "10",
            ),
            (json!([one("1")]), json!([init("8"), side("2")]), "8"),
            (json!([one("100m")]), json!([]), "100m"),
        ] {
            let spec = json!({ "containers": containers, "initContainers": init_containers });
            let pod = pod(&spec);
            let spec = pod.spec.as_ref().unwrap();
            assert_eq!(
                text(&pod_requests(spec, Overhead::Included)),
                cpu(whole),
                "{spec:?}"
            );
            assert_eq!(
                text(&pod_limits(spec, Overhead::Included)),
                cpu(whole),
                "{spec:?}"
            );
        }
    }

    #[test]
    fn overhead_is_asked_for_and_widens_the_limits_that_there_are() {
        let pod = pod(&json!({
            "containers": [container("c", &cpu("1"), &json!({ "memory": "1Gi" }))],
            "overhead": { "cpu": "100m", "memory": "64Mi" },
        }));
        let spec = pod.spec.as_ref().unwrap();
        let requests = pod_requests(spec, Overhead::Included);
        assert_eq!(text(&requests), json!({ "cpu": "1100m", "memory": "64Mi" }));
        assert_eq!(text(&pod_requests(spec, Overhead::Excluded)), cpu("1"));
        let limits = pod_limits(spec, Overhead::Included);
        assert_eq!(text(&limits), json!({ "memory": "1088Mi" }));
        let limits = pod_limits(spec, Overhead::Excluded);
        assert_eq!(text(&limits), json!({ "memory": "1Gi" }));
    }

    #[test]
    fn what_is_reserved_is_taken_off_and_nothing_is_less_than_nothing() {
        let of = |list: Value| {
            let list: BTreeMap<String, ApiQuantity> = serde_json::from_value(list).unwrap();
            amounts(Some(&list))
        };
        let capacity = of(json!({ "cpu": "4", "memory": "8Gi", "pid": "100" }));
        let reserved = [
            of(json!({ "cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi" })),
            of(json!({ "cpu": "500m", "pid": "200" })),
        ];
        let expected = json!({ "cpu": "3", "memory": "7Gi", "pid": "0" });
        assert_eq!(text(&left(&capacity, &reserved)), expected);
        assert_eq!(left(&capacity, &[]), capacity);
    }

    #[test]
    fn what_the_pod_says_itself_comes_before_the_sum() {
        let pod = pod(&json!({
            "containers": [container("c", &json!({ "cpu": "1", "memory": "1Gi" }), &cpu("2"))],
            "resources": {
                "requests": { "cpu": "3", "ephemeral-storage": "9Gi" },
                "limits": { "cpu": "4", "hugepages-2Mi": "4Mi" },
            },
            "overhead": { "cpu": "1" },
        }));
        let spec = pod.spec.as_ref().unwrap();
        let requests = pod_requests(spec, Overhead::Included);
        assert_eq!(text(&requests), json!({ "cpu": "4", "memory": "1Gi" }));
        let limits = pod_limits(spec, Overhead::Excluded);
        assert_eq!(text(&limits), json!({ "cpu": "4", "hugepages-2Mi": "4Mi" }));
        assert!(has_pod_level_requests(spec) && has_pod_level_resources(spec));
        assert_eq!(
            text(&container_requests(spec)),
            json!({ "cpu": "1", "memory": "1Gi" })
        );
    }

    #[test]
    fn a_pod_is_limited_if_each_container_or_the_pod_is() {
        let with = container("with", &json!(null), &cpu("1"));
        let without = container("without", &json!(null), &json!(null));
        let side = sidecar("side", &json!(null), &cpu("1"));
        for (spec, limited) in [
            (json!({ "containers": [with] }), true),
            (json!({ "containers": [with, without] }), false),
            (
                json!({ "containers": [with], "initContainers": [without] }),
                false,
            ),
            // With a sidecar's limit beside it, the step has one.
            (
                json!({ "containers": [with], "initContainers": [side, without] }),
                true,
            ),
            (
                json!({ "containers": [without], "resources": { "limits": { "cpu": "1" } } }),
                true,
            ),
            (
                json!({ "containers": [without], "resources": { "limits": { "memory": "1" } } }),
                false,
            ),
        ] {
            let pod = pod(&spec);
            assert_eq!(
                is_limited(pod.spec.as_ref().unwrap(), CPU),
                limited,
                "{spec}"
            );
        }
    }
}
