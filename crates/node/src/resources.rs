//! Amounts by resource, between the quantities that we reckon with and those of
//! the API's objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use types::Quantity;

/// Amounts by resource name.
pub type Resources = BTreeMap<String, Quantity>;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const PODS: &str = "pods";
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
const HUGE_PAGES: &str = "hugepages-";

pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// `hugepages-2Mi`.
pub fn huge_pages(size: u64) -> String {
    let size = Quantity::new(saturated(size), types::quantity::Format::BinarySi);
    format!("{HUGE_PAGES}{size}")
}

/// A resource that is no part of Kubernetes: it has a domain of its own, and is
/// not a quota of such a one.
pub fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

pub fn to_api(resources: &Resources) -> BTreeMap<String, ApiQuantity> {
    let entries = resources.iter();
    entries
        .map(|(name, amount)| (name.clone(), ApiQuantity(amount.to_string())))
        .collect()
}

/// What the API holds; an amount that cannot be read counts as none.
pub fn from_api(resources: Option<&BTreeMap<String, ApiQuantity>>) -> Resources {
    let entries = resources.into_iter().flatten();
    entries
        .map(|(name, amount)| (name.clone(), amount.0.parse().unwrap_or_default()))
        .collect()
}

pub(crate) fn saturated(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// `left - right`, at least nothing. A difference that no quantity can hold is
/// taken for nothing, too: to promise less is safe.
pub(crate) fn less(left: &Quantity, right: &Quantity) -> Quantity {
    let difference = left.checked_sub(right);
    difference
        .filter(|difference| difference.sign() >= 0)
        .unwrap_or_else(|| Quantity::new(0, left.format()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_told_apart_by_their_names() {
        for (name, extended, huge) in [
            ("cpu", false, false),
            ("hugepages-2Mi", false, true),
            ("example.com/gpu", true, false),
            ("requests.example.com/gpu", false, false),
            ("kubernetes.io/x", false, false),
            ("attachable-volumes-x", false, false),
        ] {
            assert_eq!(is_extended(name), extended, "{name}");
            assert_eq!(is_huge_pages(name), huge, "{name}");
        }
    }

    #[test]
    fn huge_pages_are_named_by_their_size() {
        for (size, name) in [
            (2 << 20, "hugepages-2Mi"),
            (1 << 30, "hugepages-1Gi"),
            (64 << 10, "hugepages-64Ki"),
        ] {
            assert_eq!(huge_pages(size), name);
        }
    }
}
