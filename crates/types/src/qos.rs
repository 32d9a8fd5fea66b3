//! How well a pod is served when the node runs short: its quality-of-service class.

use std::fmt;

use crate::Quantity;

/// The class of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QosClass {
    Guaranteed,
    Burstable,
    BestEffort,
}

/// What one container, or a pod as a whole, asks for. Other resources do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    pub cpu: Bounds,
    pub memory: Bounds,
}

/// The least and the most of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub request: Option<Quantity>,
    pub limit: Option<Quantity>,
}

/// The class of a pod whose containers, init containers included, claim this. A
/// claim of the pod as a whole counts alone.
pub fn class(whole: Option<&Claim>, containers: &[Claim]) -> QosClass {
    let containers = whole.map_or(containers, std::slice::from_ref);
    // A pod-level claim without any limits is judged by its sums alone.
    let judged = whole.is_none_or(Claim::has_limits);
    let all_limited = !judged || containers.iter().all(Claim::is_limited);
    let sums = [
        sums(containers.iter().map(|claim| &claim.cpu)),
        sums(containers.iter().map(|claim| &claim.memory)),
    ];
    let nothing = |(request, limit): &Sums| request.is_none() && limit.is_none();
    if sums.iter().all(nothing) {
        return QosClass::BestEffort;
    }
    if all_limited && sums.iter().all(|(request, limit)| request == limit) {
        return QosClass::Guaranteed;
    }
    QosClass::Burstable
}

type Sums = (Option<Quantity>, Option<Quantity>);

fn sums<'a>(bounds: impl Iterator<Item = &'a Bounds>) -> Sums {
    bounds.fold((None, None), |(requests, limits), bounds| {
        (
            plus(requests, bounds.request.as_ref()),
            plus(limits, bounds.limit.as_ref()),
        )
    })
}

/// Nothing and less than nothing count as not given.
fn plus(sum: Option<Quantity>, quantity: Option<&Quantity>) -> Option<Quantity> {
    let Some(quantity) = quantity.filter(|quantity| quantity.sign() > 0) else {
        return sum;
    };
    match sum {
        // What does not fit any more is as much as there was.
        Some(sum) => Some(sum.checked_add(quantity).unwrap_or(sum)),
        None => Some(quantity.clone()),
    }
}

impl Claim {
    fn is_limited(&self) -> bool {
        self.cpu.is_limited() && self.memory.is_limited()
    }

    fn has_limits(&self) -> bool {
        self.cpu.limit.is_some() || self.memory.limit.is_some()
    }
}

impl Bounds {
    fn is_limited(&self) -> bool {
        let limit = self.limit.as_ref();
        limit.is_some_and(|limit| limit.sign() > 0)
    }
}

/// As the API has it.
impl fmt::Display for QosClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `request/limit` of CPU, then of memory; `-` where there is none.
    fn claim(cpu: &str, memory: &str) -> Claim {
        let bounds = |text: &str| {
            let (request, limit) = text.split_once('/').unwrap();
            let quantity = |text: &str| (text != "-").then(|| text.parse().unwrap());
            Bounds {
                request: quantity(request),
                limit: quantity(limit),
            }
        };
        Claim {
            cpu: bounds(cpu),
            memory: bounds(memory),
        }
    }

    #[test]
    fn the_class_follows_from_requests_and_limits() {
        use QosClass::{BestEffort, Burstable, Guaranteed};
        let none = || claim("-/-", "-/-");
        let full = || claim("1/1", "1Gi/1024Mi");
        let cases = [
            (vec![], BestEffort),
            (vec![none(), none()], BestEffort),
            (vec![claim("0/0", "0/0")], BestEffort),
            (vec![full()], Guaranteed),
            (vec![full(), claim("2/2", "1Mi/1Mi")], Guaranteed),
            (vec![full(), none()], Burstable),
            (vec![claim("1/1", "-/-")], Burstable),
            (vec![claim("-/1", "-/1Gi")], Burstable),
            (vec![claim("500m/1", "1Gi/1Gi")], Burstable),
            (vec![claim("1/-", "-/-")], Burstable),
            (vec![claim("1/1", "1Gi/0")], Burstable),
        ];
        for (containers, expected) in cases {
            assert_eq!(class(None, &containers), expected, "{containers:?}");
        }
    }

    #[test]
    fn what_the_pod_claims_as_a_whole_counts_alone() {
        use QosClass::{BestEffort, Burstable, Guaranteed};
        let containers = [claim("1/1", "1Gi/1Gi")];
        let cases = [
            (claim("2/2", "2Gi/2Gi"), Guaranteed),
            (claim("1/2", "2Gi/2Gi"), Burstable),
            (claim("2/2", "-/-"), Burstable),
            (claim("2/-", "-/-"), Burstable),
            (claim("-/-", "-/-"), BestEffort),
        ];
        for (whole, expected) in cases {
            assert_eq!(class(Some(&whole), &containers), expected, "{whole:?}");
        }
        assert_eq!(Guaranteed.to_string(), "Guaranteed");
    }
}
