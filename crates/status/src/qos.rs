//! The class of a pod, read from its spec.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use types::qos::{self, Bounds, Claim, QosClass};

use crate::spec::{init_containers, spec};

/// What the API says, as it never changes; else what the spec makes of it.
pub fn class(pod: &Pod, api: &PodStatus) -> String {
    let said = api.qos_class.clone().filter(|said| !said.is_empty());
    said.unwrap_or_else(|| computed(pod).to_string())
}

/// What the spec makes of it.
pub fn computed(pod: &Pod) -> QosClass {
    let spec = spec(pod);
    let whole = spec.resources.as_ref().map(claim);
    let containers = spec.containers.iter().chain(init_containers(spec));
    let of = |container: &Container| container.resources.as_ref().map(claim);
    let claims: Vec<Claim> = containers
        .map(|container| of(container).unwrap_or_default())
        .collect();
    qos::class(whole.as_ref(), &claims)
}

fn claim(resources: &ResourceRequirements) -> Claim {
    let bounds = |name: &str| Bounds {
        request: amount(resources.requests.as_ref(), name),
        limit: amount(resources.limits.as_ref(), name),
    };
    Claim {
        cpu: bounds("cpu"),
        memory: bounds("memory"),
    }
}

/// What cannot be read was not accepted by the API either.
pub(crate) fn amount(
    list: Option<&BTreeMap<String, Quantity>>,
    name: &str,
) -> Option<types::Quantity> {
    list.and_then(|list| list.get(name)?.0.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pods_class_is_the_apis_or_that_of_all_its_containers() {
        let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"},
            "limits": {"cpu": "1", "memory": "1Gi"}});
        let class = |init: serde_json::Value, said: Option<&str>| {
            let pod = serde_json::from_value(json!({"spec": {
                "containers": [{"name": "a", "resources": resources}],
                "initContainers": [{"name": "i", "resources": init}],
            }}));
            let api = PodStatus {
                qos_class: said.map(str::to_owned),
                ..PodStatus::default()
            };
            class(&pod.unwrap(), &api)
        };
        assert_eq!(class(resources.clone(), None), "Guaranteed");
        assert_eq!(class(json!({}), None), "Burstable");
        assert_eq!(class(json!({}), Some("BestEffort")), "BestEffort");
    }
}
