//! The gate `MemoryQoS`: what pods ask for of memory is kept for them, and who uses much
//! more than that is held back before it is killed. Files of cgroup v2.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use types::Quantity;

use crate::qos::QosClass;
use crate::requests::{self, Amounts, MEMORY, Overhead, pod_requests};

/// Never taken away.
const MIN: &str = "memory.min";
/// Taken away only when nobody else has any to spare.
const LOW: &str = "memory.low";
/// From here on a group is slowed down.
const HIGH: &str = "memory.high";

/// What a node was told of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryQos {
    /// `memoryThrottlingFactor`.
    pub throttling: f64,
    /// `memoryReservationPolicy: TieredReservation`.
    pub reserve: bool,
    /// The kernel's page, in bytes.
    pub page: i64,
    /// What the node has for pods, in bytes: who has no limit may have so much.
    pub allocatable: i64,
}

/// A file of a group, and what is written there.
pub(crate) type Unified = (String, String);

impl MemoryQos {
    /// What a container's group is given.
    pub(crate) fn of_container(&self, class: QosClass, container: &Container) -> Vec<Unified> {
        let of = |amounts: &Amounts| amounts.get(MEMORY).map_or(0, Quantity::value);
        let request = of(&requests::requests(container.resources.as_ref()));
        let limit = of(&requests::limits(container.resources.as_ref()));
        let mut unified = match (self.reserve && request != 0, class) {
            (true, QosClass::Guaranteed) => vec![written(MIN, request)],
            (true, _) => vec![written(LOW, request)],
            (false, _) => vec![written(MIN, 0), written(LOW, 0)],
        };
        unified.extend(self.high(request, limit).map(|high| written(HIGH, high)));
        unified
    }

    /// What a pod's own group is given.
    pub(crate) fn of_pod(&self, class: QosClass, spec: &PodSpec) -> Option<Unified> {
        let asked = pod_requests(spec, Overhead::Included);
        let request = asked.get(MEMORY).map_or(0, Quantity::value);
        let file = match class {
            QosClass::Guaranteed => MIN,
            QosClass::Burstable | QosClass::BestEffort => LOW,
        };
        (self.reserve && request > 0).then(|| written(file, request))
    }

    /// What the group of all pods is given: what is kept for those in it is only kept if
    /// it is kept for them together.
    pub(crate) fn of_all(&self, asked: Asked) -> Unified {
        written(
            MIN,
            self.kept(asked.guaranteed.saturating_add(asked.burstable)),
        )
    }

    /// What the group of the burstable pods is given.
    pub(crate) fn of_burstable(&self, asked: Asked) -> Unified {
        written(LOW, self.kept(asked.burstable))
    }

    fn kept(&self, bytes: i64) -> i64 {
        if self.reserve { bytes } else { 0 }
    }

    /// Between what is asked for and what may be had, at a page's border.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "upstream's rounding is wanted"
    )]
    fn high(&self, request: i64, limit: i64) -> Option<i64> {
        if request == limit {
            return None;
        }
        let most = if limit == 0 { self.allocatable } else { limit };
        if most <= 0 {
            return None;
        }
        let above = (most as f64 - request as f64) * self.throttling;
        let pages = ((request as f64 + above).floor() / self.page as f64) as i64;
        let high = pages * self.page;
        (high != 0 && high > request).then_some(high)
    }
}

/// What the pods of a node ask for together, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub guaranteed: i64,
    pub burstable: i64,
}

fn written(file: &str, bytes: i64) -> Unified {
    (file.to_owned(), bytes.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{container, named, pod};

    const ON: MemoryQos = MemoryQos {
        throttling: 0.9,
        reserve: true,
        page: 4096,
        allocatable: 1_000_000,
    };

    fn texts(unified: impl IntoIterator<Item = Unified>) -> Vec<String> {
        let text = |(file, value): Unified| format!("{file}={value}");
        unified.into_iter().map(text).collect()
    }

    fn of(qos: &MemoryQos, requests: &Value, limits: &Value) -> Vec<String> {
        let pod = pod(&json!({ "containers": [container("c", requests, limits)] }));
        texts(qos.of_container(QosClass::of(&pod), named(&pod, "c")))
    }

    #[test]
    fn a_container_keeps_what_it_asks_for_and_is_slowed_before_its_limit() {
        let off = MemoryQos {
            reserve: false,
            ..ON
        };
        let memory = |bytes: i64| json!({ "memory": bytes.to_string() });
        let full = json!({ "memory": "100000", "cpu": "1" });
        let none = json!(null);
        let nothing = ["memory.min=0", "memory.low=0"];
        // (100000 + 0.9 × 100000) / 4096 = 46.4 pages; (100000 + 0.9 × 900000) / 4096 = 222.2.
        let (high, without_limit) = ("memory.high=188416", "memory.high=909312");
        for (qos, requests, limits, expected) in [
            (
                &ON,
                memory(100_000),
                memory(200_000),
                vec!["memory.low=100000", high],
            ),
            (
                &off,
                memory(100_000),
                memory(200_000),
                [&nothing[..], &[high]].concat(),
            ),
            (&ON, full.clone(), full.clone(), vec!["memory.min=100000"]),
            (&off, full.clone(), full.clone(), nothing.to_vec()),
            (
                &ON,
                memory(100_000),
                none.clone(),
                vec!["memory.low=100000", without_limit],
            ),
            // Nothing is asked for: all of the node's, less a tenth.
            (&ON, none.clone(), none.clone(), nothing.to_vec()),
            (
                &ON,
                none.clone(),
                memory(4096 * 2),
                [&nothing[..], &["memory.high=4096"]].concat(),
            ),
            // The last border before the limit is below what is asked for.
            (&ON, memory(5000), memory(5100), vec!["memory.low=5000"]),
            (&ON, none, memory(4096), nothing.to_vec()),
        ] {
            assert_eq!(of(qos, &requests, &limits), expected, "{requests} {limits}");
        }
        let unknown = MemoryQos {
            allocatable: 0,
            ..ON
        };
        let found = of(&unknown, &memory(5), &json!(null));
        assert_eq!(found, ["memory.low=5"]);
    }

    #[test]
    fn a_pod_keeps_what_all_of_it_asks_for() {
        let full = json!({ "memory": "100", "cpu": "1" });
        let asking = json!({ "memory": "100" });
        let none = json!(null);
        for (requests, limits, reserve, expected) in [
            (&full, &full, true, Some("memory.min=107")),
            (&asking, &none, true, Some("memory.low=107")),
            (&full, &full, false, None),
        ] {
            let pod = pod(&json!({
                "containers": [container("c", requests, limits)],
                "overhead": { "memory": "7" },
            }));
            let qos = MemoryQos { reserve, ..ON };
            let found = qos.of_pod(QosClass::of(&pod), pod.spec.as_ref().unwrap());
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(texts(found), expected, "{requests}");
        }
        let pod = pod(&json!({ "containers": [container("c", &none, &none)] }));
        let found = ON.of_pod(QosClass::BestEffort, pod.spec.as_ref().unwrap());
        assert_eq!(found, None);
    }

    #[test]
    fn the_groups_above_keep_what_those_in_them_keep() {
        let asked = Asked {
            guaranteed: 5,
            burstable: 7,
        };
        let both = |qos: MemoryQos| texts([qos.of_all(asked), qos.of_burstable(asked)]);
        assert_eq!(both(ON), ["memory.min=12", "memory.low=7"]);
        let off = MemoryQos {
            reserve: false,
            ..ON
        };
        assert_eq!(both(off), ["memory.min=0", "memory.low=0"]);
    }
}
