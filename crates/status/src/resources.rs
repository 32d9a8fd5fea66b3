//! The resources that a container has: those allocated to it, corrected by what
//! the runtime says it was given.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use types::observed::{ContainerState, ObservedContainer, ObservedResources};
use types::quantity::Format;

use crate::qos::amount;
use crate::spec::is_running;

/// Below it the kernel cannot hold a container to its limit.
pub(crate) const LEAST_CPU_LIMIT: i64 = 10;

/// The least share that the kernel knows, in thousandths of a CPU.
pub(crate) const LEAST_CPU_REQUEST: i64 = 2;

const SHARES_PER_CPU: i64 = 1024;

type Amounts = BTreeMap<String, Quantity>;

/// What to report of a container that is in the runtime.
pub(crate) fn reported(
    allocated: &ResourceRequirements,
    status: &ContainerStatus,
    seen: &ObservedContainer,
    old: Option<&ContainerStatus>,
    actuated: Option<&ResourceRequirements>,
) -> ResourceRequirements {
    let mut resources = allocated.clone();
    if seen.state != ContainerState::Running {
        return resources;
    }
    let given = seen.resources.map(given).unwrap_or_default();
    let (given, memory_request) = filled(given, actuated);
    // What the runtime does not say is as it was for the same container.
    let same = |old: &&ContainerStatus| is_running(old) && old.container_id == status.container_id;
    let before = old.filter(same).and_then(|old| old.resources.as_ref());
    if let Some(limits) = &mut resources.limits {
        let before = before.and_then(|before| before.limits.as_ref());
        set_cpu(limits, given.cpu_limit, LEAST_CPU_LIMIT, before);
        set(limits, "memory", given.memory_limit.map(bytes), before);
    }
    if let Some(requests) = &mut resources.requests {
        let before = before.and_then(|before| before.requests.as_ref());
        set_cpu(requests, given.cpu_request, LEAST_CPU_REQUEST, before);
        set(requests, "memory", memory_request, before);
    }
    resources
}

/// What the runtime does not say is what it was last told. No runtime says what was asked
/// for of memory.
fn filled(said: Given, actuated: Option<&ResourceRequirements>) -> (Given, Option<Quantity>) {
    let Some(actuated) = actuated else {
        return (said, None);
    };
    let of = |amounts: Option<&Amounts>, name| amount(amounts, name).unwrap_or_default();
    let (limits, requests) = (actuated.limits.as_ref(), actuated.requests.as_ref());
    let memory_request = requests.and_then(|requests| requests.get("memory").cloned());
    if said != Given::default() {
        let some = !of(requests, "memory").is_zero();
        return (said, memory_request.filter(|_| some));
    }
    let told = Given {
        cpu_limit: Some(of(limits, "cpu").milli_value()),
        cpu_request: Some(of(requests, "cpu").milli_value()),
        memory_limit: Some(of(limits, "memory").value()),
    };
    (told, memory_request.or_else(|| Some(bytes(0))))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// Thousandths of a CPU.
    pub(crate) cpu_limit: Option<i64>,
    pub(crate) cpu_request: Option<i64>,
    pub(crate) memory_limit: Option<i64>,
}

pub(crate) fn given(resources: ObservedResources) -> Given {
    let quota = (resources.cpu_period > 0 && resources.cpu_quota > 0)
        .then(|| resources.cpu_quota.saturating_mul(1000) / resources.cpu_period);
    let share = (resources.cpu_shares >= 2).then(|| {
        let thousandths = resources.cpu_shares.saturating_mul(1000);
        thousandths.saturating_add(SHARES_PER_CPU - 1) / SHARES_PER_CPU
    });
    let positive = |amount: &i64| *amount > 0;
    Given {
        cpu_limit: quota.filter(positive),
        cpu_request: share.filter(positive),
        memory_limit: Some(resources.memory_limit).filter(positive),
    }
}

/// Where both are too little to matter, what was asked for is shown.
pub(crate) fn set_cpu(
    amounts: &mut Amounts,
    milli: Option<i64>,
    least: i64,
    before: Option<&Amounts>,
) {
    let asked = amount(Some(amounts), "cpu").map_or(0, |cpu| cpu.milli_value());
    match milli {
        Some(milli) if milli <= least && asked <= least => {}
        milli => {
            let cpu = milli.map(|milli| {
                let quantity = types::Quantity::from_milli(milli, Format::DecimalSi);
                Quantity(quantity.to_string())
            });
            set(amounts, "cpu", cpu, before);
        }
    }
}

pub(crate) fn bytes(amount: i64) -> Quantity {
    Quantity(types::Quantity::new(amount, Format::BinarySi).to_string())
}

pub(crate) fn set(
    amounts: &mut Amounts,
    name: &str,
    given: Option<Quantity>,
    before: Option<&Amounts>,
) {
    let before = || before.and_then(|before| before.get(name).cloned());
    if let Some(amount) = given.or_else(before) {
        amounts.insert(name.to_owned(), amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn report(allocated: Value, runtime: Option<ObservedResources>, before: &Value) -> Value {
        told(allocated, runtime, before, None)
    }

    fn told(
        allocated: Value,
        runtime: Option<ObservedResources>,
        before: &Value,
        actuated: Option<Value>,
    ) -> Value {
        let actuated: Option<ResourceRequirements> =
            actuated.map(|actuated| serde_json::from_value(actuated).unwrap());
        let allocated = serde_json::from_value(allocated).unwrap();
        let old: ContainerStatus = serde_json::from_value(json!({
            "name": "a", "containerID": "containerd://1", "state": {"running": {}},
            "resources": before,
        }))
        .unwrap();
        let status = ContainerStatus {
            container_id: old.container_id.clone(),
            ..ContainerStatus::default()
        };
        let seen = ObservedContainer {
            state: ContainerState::Running,
            resources: runtime,
            ..ObservedContainer::default()
        };
        let actuated = actuated.as_ref();
        let said = reported(&allocated, &status, &seen, Some(&old), actuated);
        serde_json::to_value(said).unwrap()
    }

    #[test]
    fn what_the_runtime_does_not_say_is_what_it_was_told() {
        let both = |cpu: &str, memory: &str, request: &str| json!({"limits": {"cpu": cpu}, "requests": {"cpu": request, "memory": memory}});
        let runtime = ObservedResources {
            cpu_period: 100_000,
            cpu_quota: 50_000,
            cpu_shares: 512,
            memory_limit: 0,
        };
        let allocated = both("2", "2Mi", "1");
        let actuated = both("500m", "1Mi", "500m");
        let said = told(
            allocated.clone(),
            Some(runtime),
            &json!({}),
            Some(actuated.clone()),
        );
        assert_eq!(said, both("500m", "1Mi", "500m"));
        let silent = told(allocated, None, &json!({}), Some(actuated));
        let mut expected = both("500m", "1Mi", "500m");
        expected["limits"]["memory"] = json!("0");
        assert_eq!(silent, expected);
    }

    #[test]
    fn what_the_runtime_says_is_reported_unless_it_is_too_little_to_matter() {
        let runtime = |quota, shares, memory_limit| {
            Some(ObservedResources {
                cpu_period: 100_000,
                cpu_quota: quota,
                cpu_shares: shares,
                memory_limit,
            })
        };
        let both = |cpu: &str, memory: &str, request: &str| {
            json!({"limits": {"cpu": cpu, "memory": memory},
                "requests": {"cpu": request, "memory": "64Mi"}})
        };
        let cases = [
            (
                both("1", "128Mi", "500m"),
                runtime(100_000, 512, 128 << 20),
                both("1", "128Mi", "500m"),
            ),
            (
                both("1", "128Mi", "500m"),
                runtime(200_000, 1024, 256 << 20),
                both("2", "256Mi", "1"),
            ),
            (
                both("5m", "128Mi", "1m"),
                runtime(1_000, 2, 128 << 20),
                both("5m", "128Mi", "1m"),
            ),
            (
                both("5m", "128Mi", "1m"),
                runtime(50_000, 205, 0),
                both("500m", "128Mi", "201m"),
            ),
            (
                both("1", "128Mi", "500m"),
                runtime(-1, 0, 0),
                both("1", "128Mi", "500m"),
            ),
        ];
        for (allocated, runtime, expected) in cases {
            let said = report(allocated, runtime, &json!({}));
            assert_eq!(said, expected, "{runtime:?}");
        }
    }

    #[test]
    fn what_the_runtime_does_not_say_is_as_it_was() {
        let before = json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}});
        let allocated = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}});
        assert_eq!(report(allocated, None, &before), before);
        assert_eq!(
            report(json!({}), None, &before),
            json!({}),
            "what was not asked for"
        );
    }
}
