//! The four figures of a container that a resize is about.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use resources::requests::{self, Amounts, CPU, MEMORY};
use types::Quantity;
use types::quantity::Format;

/// Bytes, and thousandths of a CPU; 0 where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    pub memory_limit: i64,
    pub memory_request: i64,
    pub cpu_limit: i64,
    pub cpu_request: i64,
}

impl Measure {
    /// Of a container, whose pod may limit it where it does not itself.
    pub fn of_container(
        pod: Option<&ResourceRequirements>,
        container: Option<&ResourceRequirements>,
    ) -> Self {
        let limits = requests::amounts(limits(pod, container).as_ref());
        Self::of(&limits, &requests::requests(container))
    }

    /// Of a pod as a whole.
    pub fn of_pod(pod: Option<&ResourceRequirements>) -> Self {
        Self::of(&requests::limits(pod), &requests::requests(pod))
    }

    fn of(limits: &Amounts, requests: &Amounts) -> Self {
        let bytes = |amounts: &Amounts| amounts.get(MEMORY).map_or(0, Quantity::value);
        let milli = |amounts: &Amounts| amounts.get(CPU).map_or(0, Quantity::milli_value);
        Self {
            memory_limit: bytes(limits),
            memory_request: bytes(requests),
            cpu_limit: milli(limits),
            cpu_request: milli(requests),
        }
    }

    /// In the API's words; what is 0 is said, too.
    pub fn requirements(self) -> ResourceRequirements {
        let amounts = |milli: i64, bytes: i64| {
            let cpu = Quantity::from_milli(milli, Format::DecimalSi);
            let memory = Quantity::new(bytes, Format::BinarySi);
            BTreeMap::from([
                (CPU.to_owned(), ApiQuantity(cpu.to_string())),
                (MEMORY.to_owned(), ApiQuantity(memory.to_string())),
            ])
        };
        ResourceRequirements {
            limits: Some(amounts(self.cpu_limit, self.memory_limit)),
            requests: Some(amounts(self.cpu_request, self.memory_request)),
            claims: None,
        }
    }
}

/// What a container may have: where it says nothing, what its pod says.
pub fn limits(
    pod: Option<&ResourceRequirements>,
    container: Option<&ResourceRequirements>,
) -> Option<BTreeMap<String, ApiQuantity>> {
    let own = container.and_then(|container| container.limits.clone());
    let of_pod = pod.and_then(|pod| pod.limits.as_ref());
    let Some(of_pod) = of_pod.filter(|of_pod| !of_pod.is_empty()) else {
        return own;
    };
    let mut limits = own.unwrap_or_default();
    for name in [CPU, MEMORY] {
        let zero = |amounts: &BTreeMap<String, ApiQuantity>| {
            let amount = amounts.get(name).and_then(|amount| amount.0.parse().ok());
            amount.is_none_or(|amount: Quantity| amount.is_zero())
        };
        if zero(&limits) && !zero(of_pod) {
            limits.extend(
                of_pod
                    .get(name)
                    .map(|limit| (name.to_owned(), limit.clone())),
            );
        }
    }
    Some(limits)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(resources: &Value) -> Option<ResourceRequirements> {
        serde_json::from_value(resources.clone()).unwrap()
    }

    #[test]
    fn a_container_is_measured_with_the_limits_of_its_pod_where_it_has_none() {
        let own = json!({ "limits": { "cpu": "500m" }, "requests": { "memory": "1Mi" } });
        let pod = json!({ "limits": { "cpu": "2", "memory": "4Mi" } });
        let measure = Measure::of_container(read(&pod).as_ref(), read(&own).as_ref());
        let expected = Measure {
            memory_limit: 4 << 20,
            memory_request: 1 << 20,
            cpu_limit: 500,
            cpu_request: 0,
        };
        assert_eq!(measure, expected);
        assert_eq!(Measure::of_container(None, None), Measure::default());
        assert_eq!(
            Measure::of_container(None, read(&own).as_ref()).memory_limit,
            0
        );
    }

    #[test]
    fn what_a_measure_says_is_measured_the_same() {
        let measure = Measure {
            memory_limit: 3 << 20,
            memory_request: 0,
            cpu_limit: 1500,
            cpu_request: 100,
        };
        let said = measure.requirements();
        assert_eq!(Measure::of_container(None, Some(&said)), measure);
        let limits = said.limits.unwrap();
        assert_eq!(
            (limits[CPU].0.as_str(), limits[MEMORY].0.as_str()),
            ("1500m", "3Mi")
        );
    }
}
