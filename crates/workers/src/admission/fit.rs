//! Whether the node has room for what a pod asks for.
//!
//! What others ask for is what their specs say. Not yet: a pod that is being resized
//! counts with the most of what it asks for, was given and has.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec};
use resources::requests::{self, CPU, EPHEMERAL_STORAGE, HUGE_PAGES, MEMORY};
use resources::{Amounts, Overhead};
use types::names::validate_label_key;

use super::{Case, Rejection, Settings};

pub(super) const PODS: &str = "pods";

/// The order in which users are told; all others come after these, by name.
const FIRST: [&str; 3] = [CPU, MEMORY, EPHEMERAL_STORAGE];

/// Whole numbers by resource, as the scheduler counts: CPU in thousandths.
type Counts = BTreeMap<String, i64>;

/// Something that does not suffice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shortage {
    pub(super) resource: String,
    pub(super) requested: i64,
    pub(super) used: i64,
    pub(super) capacity: i64,
}

impl Shortage {
    /// So much more would do.
    pub(super) fn missing(&self) -> i64 {
        self.requested
            .saturating_sub(self.capacity.saturating_sub(self.used))
    }

    pub(super) fn rejection(&self) -> Rejection {
        let Self {
            resource,
            requested,
            used,
            capacity,
        } = self;
        let message = format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        );
        Rejection::new(format!("OutOf{resource}"), message)
    }
}

/// All that does not suffice.
pub(super) fn shortages(case: &Case<'_>, node: &Node, settings: &Settings) -> Vec<Shortage> {
    let status = node.status.as_ref();
    let allocatable = requests::amounts(status.and_then(|status| status.allocatable.as_ref()));
    let places = allocatable.get(PODS).map_or(0, types::Quantity::value);
    let taken = i64::try_from(case.others.len()).unwrap_or(i64::MAX);
    let mut found: Vec<Shortage> = short_of(PODS, 1, taken, places).into_iter().collect();

    let capacity = counts(&allocatable);
    let asked = counts(&asked(&only_known(case, &capacity), settings));
    let used = sum(case.others, settings);
    let first = FIRST
        .iter()
        .filter_map(|resource| asked.get_key_value(*resource));
    let rest = asked
        .iter()
        .filter(|(resource, _)| !FIRST.contains(&resource.as_str()));
    for (resource, requested) in first.chain(rest) {
        let of = |counts: &Counts| counts.get(resource).copied().unwrap_or(0);
        found.extend(short_of(resource, *requested, of(&used), of(&capacity)));
    }
    found
}

/// Who asks for nothing gets it, even from a node that has given too much away.
fn short_of(resource: &str, requested: i64, used: i64, capacity: i64) -> Option<Shortage> {
    let suffices = requested <= 0 || requested <= capacity.saturating_sub(used);
    (!suffices).then(|| Shortage {
        resource: resource.to_owned(),
        requested,
        used,
        capacity,
    })
}

fn sum(pods: &[&Pod], settings: &Settings) -> Counts {
    let mut sum = Counts::new();
    for spec in pods.iter().filter_map(|pod| pod.spec.as_ref()) {
        for (resource, count) in counts(&asked(spec, settings)) {
            let known = sum.entry(resource).or_default();
            *known = known.saturating_add(count);
        }
    }
    sum
}

fn asked(spec: &PodSpec, settings: &Settings) -> Amounts {
    if settings.pod_level_resources {
        return requests::pod_requests(spec, Overhead::Included);
    }
    let mut containers_only = spec.clone();
    containers_only.resources = None;
    requests::pod_requests(&containers_only, Overhead::Included)
}

/// The pod without requests for what the node has never heard of: the cluster as a
/// whole may have it. What a resource claim stands for is not counted here either.
fn only_known(case: &Case<'_>, capacity: &Counts) -> PodSpec {
    let status = case.pod.status.as_ref();
    let claimed = status.and_then(|status| status.extended_resource_claim_status.as_ref());
    let mappings = claimed.map(|claimed| claimed.request_mappings.as_slice());
    let is_claimed = |container: &str, resource: &str| {
        let mut mappings = mappings.into_iter().flatten();
        mappings
            .any(|mapping| mapping.container_name == container && mapping.resource_name == resource)
    };
    let mut spec = case.spec.clone();
    let inits = spec.init_containers.iter_mut().flatten();
    for container in spec.containers.iter_mut().chain(inits) {
        let Container {
            name, resources, ..
        } = container;
        let requests = resources
            .as_mut()
            .and_then(|resources| resources.requests.as_mut());
        if let Some(requests) = requests {
            requests.retain(|resource, _| {
                let is_unknown = is_extended(resource) && !capacity.contains_key(resource);
                !is_unknown && !is_claimed(name, resource)
            });
        }
    }
    spec
}

/// Leaves out what nobody counts: `pods` in a request, or names from nowhere.
fn counts(amounts: &Amounts) -> Counts {
    let count = |(resource, amount): (&String, &types::Quantity)| {
        let count = match resource.as_str() {
            CPU => amount.milli_value(),
            MEMORY | EPHEMERAL_STORAGE => amount.value(),
            other if is_scalar(other) => amount.value(),
            _ => return None,
        };
        Some((resource.clone(), count))
    };
    amounts.iter().filter_map(count).collect()
}

fn is_scalar(resource: &str) -> bool {
    is_extended(resource)
        || resource.starts_with(HUGE_PAGES)
        || resource.contains("kubernetes.io/")
        || resource.starts_with("attachable-volumes-")
}

/// A resource that somebody else brought: `example.com/gpu`.
fn is_extended(resource: &str) -> bool {
    let is_native = !resource.contains('/') || resource.contains("kubernetes.io/");
    // Quotas speak of it as `requests.example.com/gpu`, which has to be a name, too.
    let in_quotas = format!("requests.{resource}");
    !is_native && !resource.starts_with("requests.") && validate_label_key(&in_quotas).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::testing::{node, pod, settings, whole_pod};

    fn container(requests: &Value) -> Value {
        json!({ "name": "c", "resources": { "requests": requests } })
    }

    fn asking(requests: &Value) -> Pod {
        pod(&json!({ "containers": [container(requests)] }))
    }

    fn judge(pod: &Pod, node: &Node, others: &[&Pod], settings: &Settings) -> (String, String) {
        let spec = pod.spec.as_ref().unwrap();
        let found = shortages(&Case { pod, spec, others }, node, settings);
        let first = found.first().map(Shortage::rejection);
        first.map_or_else(Default::default, |Rejection { reason, message }| {
            (reason, message)
        })
    }

    /// Beside a pod that has a part of everything.
    fn beside_one(requests: &Value) -> (String, String) {
        let other = asking(&json!({
            "cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi", "hugepages-2Mi": "2Mi",
            "example.com/gpu": "1", "example.com/far": "9",
        }));
        let node = node(&json!({ "status": { "allocatable": {
            "hugepages-2Mi": "4Mi", "example.com/gpu": "2", "example.com/gone": "0",
            "attachable-volumes-x": "1",
        } } }));
        judge(&asking(requests), &node, &[&other], &settings())
    }

    fn lacks(resource: &str, figures: &str) -> (String, String) {
        let message = format!("Node didn't have enough resource: {resource}, {figures}");
        (format!("OutOf{resource}"), message)
    }

    #[test]
    fn each_resource_has_to_suffice_beside_what_others_ask_for() {
        for (requests, resource, figures) in [
            (
                json!({ "cpu": "1501m" }),
                "cpu",
                "requested: 1501, used: 500, capacity: 2000",
            ),
            (
                json!({ "cpu": "1.5001" }),
                "cpu",
                "requested: 1501, used: 500, capacity: 2000",
            ),
            (
                json!({ "memory": "3221225473" }),
                "memory",
                "requested: 3221225473, used: 1073741824, capacity: 4294967296",
            ),
            (
                json!({ "ephemeral-storage": "9.5Gi" }),
                "ephemeral-storage",
                "requested: 10200547328, used: 1073741824, capacity: 10737418240",
            ),
            (
                json!({ "hugepages-2Mi": "4Mi" }),
                "hugepages-2Mi",
                "requested: 4194304, used: 2097152, capacity: 4194304",
            ),
            (
                json!({ "hugepages-1Gi": "1Gi" }),
                "hugepages-1Gi",
                "requested: 1073741824, used: 0, capacity: 0",
            ),
            (
                json!({ "example.com/gpu": "2" }),
                "example.com/gpu",
                "requested: 2, used: 1, capacity: 2",
            ),
            (
                json!({ "example.com/gone": "1" }),
                "example.com/gone",
                "requested: 1, used: 0, capacity: 0",
            ),
            (
                json!({ "attachable-volumes-x": "2" }),
                "attachable-volumes-x",
                "requested: 2, used: 0, capacity: 1",
            ),
            // Of the cluster's own names, none is unknown.
            (
                json!({ "x.kubernetes.io/y": "1" }),
                "x.kubernetes.io/y",
                "requested: 1, used: 0, capacity: 0",
            ),
        ] {
            assert_eq!(
                beside_one(&requests),
                lacks(resource, figures),
                "{requests}"
            );
        }
    }

    #[test]
    fn what_suffices_to_the_last_unit_is_enough() {
        let last = beside_one(&json!({
            "cpu": "1500m", "memory": "3Gi", "ephemeral-storage": "9Gi", "hugepages-2Mi": "2Mi",
            "example.com/gpu": "1", "attachable-volumes-x": "1",
        }));
        assert_eq!(last, (String::new(), String::new()));
    }

    #[test]
    fn what_is_asked_for_is_said_in_a_fixed_order() {
        let too_much = [
            ("cpu", "9"),
            ("memory", "9Gi"),
            ("ephemeral-storage", "90Gi"),
            ("attachable-volumes-x", "9"),
            ("example.com/gpu", "9"),
            ("hugepages-2Mi", "90Mi"),
        ];
        for (index, (resource, _)) in too_much.iter().enumerate() {
            let requests = too_much[index..]
                .iter()
                .map(|(name, amount)| ((*name).to_owned(), json!(amount)));
            let (reason, _) = beside_one(&Value::Object(requests.collect()));
            assert_eq!(reason, format!("OutOf{resource}"));
        }
    }

    #[test]
    fn what_the_node_has_never_heard_of_is_not_its_affair() {
        for requests in [
            json!({ "example.com/cluster-wide": "5" }),
            json!({ "example.com/gone": "0" }),
            json!({ "nonsense": "5" }),
            json!({ "pods": "500" }),
        ] {
            assert_eq!(
                beside_one(&requests),
                (String::new(), String::new()),
                "{requests}"
            );
        }
        let init = json!({
            "containers": [],
            "initContainers": [container(&json!({ "example.com/cluster-wide": "5" }))],
        });
        let found = judge(&pod(&init), &node(&json!({})), &[], &settings());
        assert_eq!(found.0, "");
    }

    #[test]
    fn a_request_that_a_claim_stands_for_is_not_counted() {
        let with_claim_of = |container_name: &str| {
            whole_pod(&json!({
                "spec": { "containers": [container(&json!({ "example.com/gpu": "2" }))] },
                "status": { "extendedResourceClaimStatus": {
                    "resourceClaimName": "claim",
                    "requestMappings": [{
                        "containerName": container_name, "requestName": "r",
                        "resourceName": "example.com/gpu",
                    }],
                } },
            }))
        };
        let node = node(&json!({ "status": { "allocatable": { "example.com/gpu": "1" } } }));
        let reason = |pod: &Pod| judge(pod, &node, &[], &settings()).0;
        assert_eq!(reason(&with_claim_of("c")), "");
        assert_eq!(reason(&with_claim_of("d")), "OutOfexample.com/gpu");
    }

    #[test]
    fn an_extended_resource_has_a_name_of_somebody_else() {
        for (resource, extended) in [
            ("example.com/gpu", true),
            ("gpu", false),
            ("kubernetes.io/gpu", false),
            ("x.kubernetes.io/gpu", false),
            ("requests.example.com/gpu", false),
            ("Not_A_Domain/gpu", false),
            ("example.com/", false),
        ] {
            assert_eq!(is_extended(resource), extended, "{resource}");
        }
    }

    #[test]
    fn all_that_does_not_suffice_is_found_with_what_is_missing_of_it() {
        let node = node(&json!({}));
        let other = asking(&json!({ "cpu": "1500m", "memory": "1Gi" }));
        let pod = asking(&json!({ "cpu": "1", "memory": "1Gi", "ephemeral-storage": "11Gi" }));
        let spec = pod.spec.as_ref().unwrap();
        let others = [&other, &other];
        let others = &others[..];
        let case = Case {
            pod: &pod,
            spec,
            others,
        };
        let found = shortages(&case, &node, &settings());
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.resource.as_str(), one.missing()))
            .collect();
        let expected = [("pods", 1), ("cpu", 2000), ("ephemeral-storage", 1 << 30)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_node_has_places_for_so_many_pods() {
        let (node, settings) = (node(&json!({})), settings());
        let (web, greedy) = (asking(&json!({})), asking(&json!({ "cpu": "9" })));
        assert_eq!(judge(&web, &node, &[&web], &settings).0, "");
        let full = lacks("pods", "requested: 1, used: 2, capacity: 2");
        assert_eq!(judge(&web, &node, &[&web, &web], &settings), full);
        assert_eq!(judge(&greedy, &node, &[&web, &web], &settings), full);
        let unknown = Node::default();
        let without = lacks("pods", "requested: 1, used: 0, capacity: 0");
        assert_eq!(judge(&web, &unknown, &[], &settings), without);
    }

    #[test]
    fn who_asks_for_nothing_fits_even_where_too_much_is_given() {
        let greedy = asking(&json!({ "cpu": "9" }));
        let node = node(&json!({}));
        for (requests, reason) in [
            (json!({}), ""),
            (json!({ "cpu": "0", "memory": "1" }), ""),
            (json!({ "cpu": "1m" }), "OutOfcpu"),
        ] {
            let found = judge(&asking(&requests), &node, &[&greedy], &settings());
            assert_eq!(found.0, reason, "{requests}");
        }
    }

    #[test]
    fn overhead_and_what_the_pod_says_itself_are_part_of_what_it_asks_for() {
        let pod = pod(&json!({
            "containers": [container(&json!({ "cpu": "1" }))],
            "resources": { "requests": { "cpu": "1900m" } },
            "overhead": { "cpu": "200m" },
        }));
        let node = node(&json!({}));
        let expected = lacks("cpu", "requested: 2100, used: 0, capacity: 2000");
        assert_eq!(judge(&pod, &node, &[], &settings()), expected);
        let mut off = settings();
        off.pod_level_resources = false;
        assert_eq!(judge(&pod, &node, &[], &off).0, "");
        let expected = lacks("cpu", "requested: 1200, used: 1200, capacity: 2000");
        assert_eq!(judge(&pod, &node, &[&pod], &off), expected);
    }
}
