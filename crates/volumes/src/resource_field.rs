//! Resources of a container as text: how many times a divisor.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use types::Quantity;
use types::quantity::Format;

use crate::downward_api::DownwardError;

/// What the node can give to pods, by resource.
pub type Allocatable = BTreeMap<String, Quantity>;

/// A resource of a container. What it has no limit for is limited by the node.
pub fn resource_field(
    pod: &Pod,
    selector: &ResourceFieldSelector,
    allocatable: &Allocatable,
) -> Result<String, DownwardError> {
    let name = selector.container_name.as_deref().unwrap_or_default();
    let container = container(pod, name).ok_or_else(|| DownwardError::NoContainer {
        name: name.to_owned(),
    })?;
    let unsupported = || DownwardError::UnsupportedResource {
        resource: selector.resource.clone(),
    };
    let (side, resource) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let counted = match resource {
        "cpu" => Quantity::milli_value,
        "memory" | "ephemeral-storage" => Quantity::value,
        _ if resource.starts_with("hugepages-") => Quantity::value,
        _ => return Err(unsupported()),
    };
    let resources = container.resources.as_ref();
    let amounts = match side {
        "limits" => resources.and_then(|resources| resources.limits.as_ref()),
        "requests" => resources.and_then(|resources| resources.requests.as_ref()),
        _ => return Err(unsupported()),
    };
    let amount = amounts.and_then(|amounts| amounts.get(resource));
    let amount = parsed(amount)?.filter(|amount| !amount.is_zero());
    // Huge pages are never overcommitted: a container has a limit or none.
    let limited_by_node = side == "limits" && !resource.starts_with("hugepages-");
    let amount = match amount {
        None if limited_by_node => allocatable.get(resource).cloned(),
        amount => amount,
    };
    let amount = amount.unwrap_or_default();
    let divisor = parsed(selector.divisor.as_ref())?.filter(|divisor| !divisor.is_zero());
    let divisor = divisor.unwrap_or_else(|| Quantity::new(1, Format::DecimalSi));
    Ok(times(counted(&amount), counted(&divisor)).to_string())
}

fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    let init = spec.init_containers.iter().flatten();
    let mut containers = spec.containers.iter().chain(init);
    containers.find(|container| container.name == name)
}

fn parsed(quantity: Option<&ApiQuantity>) -> Result<Option<Quantity>, DownwardError> {
    let parse = |quantity: &ApiQuantity| quantity.0.parse::<Quantity>();
    let quantity = quantity.map(parse).transpose();
    quantity.map_err(|problem| DownwardError::Quantity {
        problem: problem.to_string(),
    })
}

/// Rounded up.
fn times(amount: i64, divisor: i64) -> i128 {
    let (amount, divisor) = (i128::from(amount), i128::from(divisor.max(1)));
    -(-amount).div_euclid(divisor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::from_json;
    use serde_json::json;

    #[test]
    fn a_resource_is_counted_in_its_divisor_and_the_node_is_the_limit_of_the_unlimited() {
        let pod: Pod = from_json(json!({"spec": {
            "containers": [
                {"name": "main", "resources": {
                    "limits": {"cpu": "1500m", "memory": "100Mi", "hugepages-2Mi": "4Mi"},
                    "requests": {"cpu": "250m", "memory": "64Mi", "ephemeral-storage": "1Gi"}
                }},
                {"name": "free"}
            ],
            "initContainers": [{"name": "init", "resources": {"limits": {"cpu": "2"}}}]
        }}));
        let allocatable: Allocatable = [("cpu", "8"), ("memory", "16Gi"), ("hugepages-2Mi", "1Gi")]
            .map(|(name, amount)| (name.to_owned(), amount.parse().unwrap()))
            .into();
        let cases = [
            ("main", "limits.cpu", None, Ok("2")),
            ("main", "limits.cpu", Some("1m"), Ok("1500")),
            ("main", "requests.cpu", Some("0"), Ok("1")),
            ("main", "requests.cpu", Some("100m"), Ok("3")),
            ("main", "limits.memory", None, Ok("104857600")),
            ("main", "limits.memory", Some("1Mi"), Ok("100")),
            ("main", "requests.memory", Some("1M"), Ok("68")),
            (
                "main",
                "requests.ephemeral-storage",
                Some("1Mi"),
                Ok("1024"),
            ),
            ("main", "limits.hugepages-2Mi", Some("1Ki"), Ok("4096")),
            ("init", "limits.cpu", None, Ok("2")),
            ("free", "limits.cpu", None, Ok("8")),
            ("free", "limits.memory", Some("1Gi"), Ok("16")),
            ("free", "limits.ephemeral-storage", None, Ok("0")),
            ("free", "limits.hugepages-2Mi", None, Ok("0")),
            ("free", "requests.cpu", None, Ok("0")),
            ("none", "limits.cpu", None, Err("container none not found")),
            (
                "main",
                "limits.gpu",
                None,
                Err("unsupported container resource : limits.gpu"),
            ),
            (
                "main",
                "cpu",
                None,
                Err("unsupported container resource : cpu"),
            ),
            (
                "main",
                "others.cpu",
                None,
                Err("unsupported container resource : others.cpu"),
            ),
        ];
        for (container, resource, divisor, wanted) in cases {
            let selector = ResourceFieldSelector {
                container_name: Some(container.to_owned()),
                resource: resource.to_owned(),
                divisor: divisor.map(|divisor| ApiQuantity(divisor.to_owned())),
            };
            let found =
                resource_field(&pod, &selector, &allocatable).map_err(|error| error.to_string());
            let wanted = wanted.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(found, wanted, "{container} {resource} {divisor:?}");
        }
    }
}
