//! Which pods make room for a critical one. Upstream's choice: the fewest guaranteed pods
//! that are needed when all others go, then the fewest burstable ones, then best-effort
//! ones; among equals those that ask for less.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use resources::requests::{self, CPU, MEMORY};
use resources::{Overhead, QosClass, qos};
use types::PodUid;

use super::fit::{PODS, Shortage};
use super::{Rejection, Settings};

/// What of a resource is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Need {
    resource: String,
    amount: i64,
}

/// All that is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Needs(Vec<Need>);

/// A pod that may have to go.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    pod: &'a Pod,
    settings: &'a Settings,
}

/// The pods that have to go for a critical one to fit.
pub(super) fn victims(
    pod: &Pod,
    others: &[&Pod],
    shortages: &[Shortage],
    settings: &Settings,
) -> Result<Vec<PodUid>, Rejection> {
    let needs = shortages.iter().map(|shortage| Need {
        resource: shortage.resource.clone(),
        amount: shortage.missing(),
    });
    let lower = others.iter().filter(|other| is_above(pod, other));
    let lower = lower.map(|other| Candidate {
        pod: other,
        settings,
    });
    let lower: Vec<Candidate<'_>> = lower.collect();
    let chosen = choose(&lower, &Needs(needs.collect()));
    let chosen = chosen.map_err(|missing| {
        let message = format!(
            "Unexpected error while attempting to recover from admission failure: \
             preemption: error finding a set of pods to preempt: \
             no set of running pods found to reclaim resources: {missing}"
        );
        Rejection::new("UnexpectedAdmissionError", message)
    })?;
    let uid = |one: Candidate<'_>| PodUid::new(one.pod.metadata.uid.as_deref().unwrap_or_default());
    Ok(chosen.into_iter().map(uid).collect())
}

/// Whether a pod may take the place of another.
fn is_above(pod: &Pod, other: &Pod) -> bool {
    if qos::is_critical(pod) && !qos::is_critical(other) {
        return true;
    }
    let priority = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.priority);
    matches!((priority(pod), priority(other)), (Some(own), Some(other)) if own > other)
}

/// Those that go; or what is missing even if all go.
fn choose<'a>(candidates: &[Candidate<'a>], needs: &Needs) -> Result<Vec<Candidate<'a>>, Needs> {
    let missing = needs.without(candidates);
    if !missing.0.is_empty() {
        return Err(missing);
    }
    let of = |class| -> Vec<Candidate<'a>> {
        let candidates = candidates.iter().copied();
        candidates
            .filter(|one| QosClass::of(one.pod) == class)
            .collect()
    };
    let best_effort = of(QosClass::BestEffort);
    let burstable = of(QosClass::Burstable);
    let left = needs.without(&best_effort).without(&burstable);
    let guaranteed = nearest(of(QosClass::Guaranteed), left)?;
    let left = needs.without(&best_effort).without(&guaranteed);
    let burstable = nearest(burstable, left)?;
    let left = needs.without(&burstable).without(&guaranteed);
    let best_effort = nearest(best_effort, left)?;
    Ok([best_effort, burstable, guaranteed].concat())
}

/// Takes again and again the one that leaves least to be wished for.
fn nearest(
    mut candidates: Vec<Candidate<'_>>,
    mut needs: Needs,
) -> Result<Vec<Candidate<'_>>, Needs> {
    let mut chosen = Vec::new();
    while !needs.0.is_empty() {
        let Some(best) = best(&candidates, &needs) else {
            return Err(needs);
        };
        let one = candidates.swap_remove(best);
        needs = needs.without(&[one]);
        chosen.push(one);
    }
    Ok(chosen)
}

fn best(candidates: &[Candidate<'_>], needs: &Needs) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (index, one) in candidates.iter().enumerate() {
        let distance = needs.distance(*one);
        let is_better = best.is_none_or(|(other, least)| {
            let same = (distance - least).abs() <= f64::EPSILON;
            (!same && distance < least) || (same && !candidates[other].asks_for_less(*one))
        });
        if is_better {
            best = Some((index, distance));
        }
    }
    best.map(|(index, _)| index)
}

impl Candidate<'_> {
    /// What its end gives back.
    fn asks_for(&self, resource: &str) -> i64 {
        if resource == PODS {
            return 1;
        }
        let Some(spec) = &self.pod.spec else { return 0 };
        let by_pod = self.settings.pod_level_resources && requests::has_pod_level_resources(spec);
        let own = if by_pod {
            let mut own = requests::requests(spec.resources.as_ref());
            own.retain(|resource, _| requests::is_pod_level(resource));
            own
        } else {
            requests::pod_requests(spec, Overhead::Excluded)
        };
        let count = |amount: &types::Quantity| match resource {
            CPU => amount.milli_value(),
            _ => amount.value(),
        };
        let own = own.get(resource).map_or(0, count);
        if own == 0 {
            return 0;
        }
        let overhead = requests::amounts(spec.overhead.as_ref());
        own + overhead.get(resource).map_or(0, count)
    }

    fn asks_for_less(&self, other: Self) -> bool {
        let asked = |one: &Self| [MEMORY, CPU].map(|resource| one.asks_for(resource));
        asked(self) < asked(&other)
    }
}

impl Needs {
    /// What is missing still when these are gone.
    fn without(&self, gone: &[Candidate<'_>]) -> Self {
        let left = self.0.iter().map(|need| {
            let freed = gone.iter().map(|one| one.asks_for(&need.resource));
            let freed = freed.fold(0_i64, i64::saturating_add);
            Need {
                resource: need.resource.clone(),
                amount: need.amount.saturating_sub(freed),
            }
        });
        Self(left.filter(|need| need.amount > 0).collect())
    }

    /// How much would still be missing, each resource weighing the same.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a measure of how far off, not a figure"
    )]
    fn distance(&self, one: Candidate<'_>) -> f64 {
        let left = self.0.iter().map(|need| {
            let left = need.amount.saturating_sub(one.asks_for(&need.resource));
            let part = left.max(0) as f64 / need.amount as f64;
            part * part
        });
        left.sum()
    }
}

/// As Go prints it.
impl fmt::Display for Needs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[")?;
        for Need { resource, amount } in &self.0 {
            write!(formatter, "(res: {resource}, q: {amount}), ")?;
        }
        formatter.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::testing::{settings, whole_pod};

    /// `name class cpu memory`: a pod of that class that asks for so much.
    fn pod(text: &str) -> Pod {
        let words: Vec<&str> = text.split(' ').collect();
        let asked = json!({ "cpu": words[2], "memory": words[3] });
        let resources: Value = match words[1] {
            "guaranteed" => json!({ "requests": asked, "limits": asked }),
            "burstable" => json!({ "requests": asked }),
            _ => json!({}),
        };
        whole_pod(&json!({
            "metadata": { "uid": words[0] },
            "spec": { "containers": [{ "name": "c", "resources": resources }] },
        }))
    }

    fn critical() -> Pod {
        whole_pod(&json!({ "spec": { "priority": 2_000_000_000 } }))
    }

    fn short(resource: &str, amount: i64) -> Shortage {
        Shortage {
            resource: resource.to_owned(),
            requested: amount,
            used: 7,
            capacity: 7,
        }
    }

    fn chosen(others: &[&str], shortages: &[Shortage]) -> Result<Vec<String>, String> {
        let others: Vec<Pod> = others.iter().map(|text| pod(text)).collect();
        let others: Vec<&Pod> = others.iter().collect();
        let found = victims(&critical(), &others, shortages, &settings());
        let found = found.map_err(|rejection| rejection.message)?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn as_few_and_as_small_pods_as_possible_go_and_guaranteed_ones_last() {
        /// Pods that are here, what is missing, and who goes.
        type Row<'a> = (&'a [&'a str], &'a [(&'a str, i64)], &'a [&'a str]);
        let cases: [Row<'_>; 9] = [
            (&["a burstable 1 1Mi"], &[("cpu", 500)], &["a"]),
            // The smaller of two that suffice.
            (
                &["a burstable 2 1Mi", "b burstable 1 1Mi"],
                &[("cpu", 500)],
                &["b"],
            ),
            // Memory weighs more than CPU among those that suffice.
            (
                &["a burstable 1 2Mi", "b burstable 2 1Mi"],
                &[("cpu", 500)],
                &["b"],
            ),
            // One that suffices rather than two that do.
            (
                &[
                    "a burstable 300m 1",
                    "b burstable 300m 1",
                    "c burstable 1 1",
                ],
                &[("cpu", 500)],
                &["c"],
            ),
            // Burstable ones before guaranteed ones, however many.
            (
                &[
                    "g guaranteed 1 1Mi",
                    "a burstable 300m 1",
                    "b burstable 300m 1",
                ],
                &[("cpu", 500)],
                &["b", "a"],
            ),
            (
                &["g guaranteed 1 1Mi", "a burstable 300m 1"],
                &[("cpu", 500)],
                &["g"],
            ),
            // A place is a place.
            (
                &["g guaranteed 1 1Mi", "e best 0 0"],
                &[("pods", 1)],
                &["e"],
            ),
            // Two resources at once.
            (
                &["a burstable 1 1", "b burstable 1m 1Gi", "c burstable 1 1Gi"],
                &[("cpu", 500), ("memory", 1000)],
                &["c"],
            ),
            (
                &["a burstable 1 1", "b burstable 1m 1Gi"],
                &[("cpu", 500), ("memory", 1000)],
                &["b", "a"],
            ),
        ];
        for (others, shortages, expected) in cases {
            let shortages: Vec<Shortage> = shortages
                .iter()
                .map(|(resource, amount)| short(resource, *amount))
                .collect();
            let expected: Vec<String> = expected.iter().map(|uid| (*uid).to_owned()).collect();
            assert_eq!(chosen(others, &shortages), Ok(expected), "{others:?}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_told_in_upstreams_words() {
        let found = chosen(&["e best 0 0"], &[short("cpu", 500), short("pods", 1)]);
        let expected = "Unexpected error while attempting to recover from admission failure: \
            preemption: error finding a set of pods to preempt: \
            no set of running pods found to reclaim resources: [(res: cpu, q: 500), ]";
        assert_eq!(found, Err(expected.to_owned()));
    }

    #[test]
    fn only_pods_below_go() {
        let of = |priority: Option<i32>, source: Option<&str>| {
            let source = source.map(|source| json!({ "kubernetes.io/config.source": source }));
            whole_pod(&json!({
                "metadata": { "annotations": source }, "spec": { "priority": priority },
            }))
        };
        let node_critical = Some(2_000_001_000);
        let cluster_critical = Some(2_000_000_000);
        let file = Some("file");
        for (own, other, above) in [
            ((cluster_critical, None), (Some(5), None), true),
            ((cluster_critical, None), (None, None), true),
            ((node_critical, None), (cluster_critical, None), true),
            ((cluster_critical, None), (node_critical, None), false),
            ((cluster_critical, None), (cluster_critical, None), false),
            ((None, file), (Some(5), None), true),
            ((None, file), (cluster_critical, None), false),
        ] {
            let (pod, below) = (of(own.0, own.1), of(other.0, other.1));
            assert_eq!(is_above(&pod, &below), above, "{own:?} {other:?}");
        }
    }

    #[test]
    fn overhead_is_freed_with_a_request_and_pod_level_requests_count_instead() {
        let asked = |spec: Value| {
            let pod = whole_pod(&json!({ "spec": spec }));
            let settings = settings();
            let one = Candidate {
                pod: &pod,
                settings: &settings,
            };
            [one.asks_for("cpu"), one.asks_for("memory")]
        };
        let containers =
            json!([{ "name": "c", "resources": { "requests": { "cpu": "1", "memory": "5" } } }]);
        let overhead = json!({ "cpu": "100m" });
        assert_eq!(
            asked(json!({ "containers": containers, "overhead": overhead })),
            [1100, 5]
        );
        assert_eq!(asked(json!({ "overhead": overhead })), [0, 0]);
        let own = json!({ "requests": { "cpu": "3" } });
        assert_eq!(
            asked(json!({ "containers": containers, "resources": own })),
            [3000, 0]
        );
    }
}
