//! What a pod has as a whole, in the runtime's words, and in which order it changes. Pure.

use k8s_openapi::api::core::v1::PodSpec;
use resources::cgroups::{Held, Limits};
use resources::linux::{milli_cpu_of_shares, quota, shares};
use resources::requests::{self, CPU, MEMORY};
use seams::cri;
use types::Quantity;
use types::observed::ObservedResources;

/// One figure of a pod's cgroup that may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) limits: Limits,
    pub(super) raises: bool,
    pub(super) lowers: bool,
}

impl Part {
    fn new(limits: Limits, new: i64, old: i64) -> Self {
        Self {
            limits,
            raises: new > old,
            lowers: new < old,
        }
    }

    /// A pod that is not limited as a whole keeps what it has.
    pub(super) fn memory(target: &Limits, held: &Held) -> Vec<Self> {
        let memory = target.memory.unwrap_or(held.memory);
        let limits = Limits {
            memory: Some(memory),
            ..Limits::default()
        };
        vec![Self::new(limits, memory, held.memory)]
    }

    /// The limit, and then the share.
    pub(super) fn cpu(target: &Limits, held: &Held) -> Vec<Self> {
        let (quota, period) = target
            .cpu_quota
            .unwrap_or((held.cpu_quota, held.cpu_period));
        let limit = Limits {
            cpu_quota: Some((quota, period)),
            ..Limits::default()
        };
        let shares = target.cpu_shares.unwrap_or(held.cpu_shares);
        let share = Limits {
            cpu_shares: Some(shares),
            ..Limits::default()
        };
        let signed = |shares: u64| i64::try_from(shares).unwrap_or(i64::MAX);
        vec![
            Self::new(limit, quota, held.cpu_quota),
            Self::new(share, signed(shares), signed(held.cpu_shares)),
        ]
    }
}

/// What a pod has as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodLimits {
    cpu_shares: i64,
    cpu_quota: i64,
    cpu_period: i64,
    memory: i64,
}

impl From<Held> for PodLimits {
    fn from(held: Held) -> Self {
        Self {
            cpu_shares: i64::try_from(held.cpu_shares).unwrap_or(i64::MAX),
            cpu_quota: held.cpu_quota,
            cpu_period: i64::try_from(held.cpu_period).unwrap_or(i64::MAX),
            memory: held.memory,
        }
    }
}

impl PodLimits {
    /// With what is said.
    pub(super) fn with(mut self, limits: &Limits) -> Self {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        if let Some(shares) = limits.cpu_shares {
            self.cpu_shares = signed(shares);
        }
        if let Some((quota, period)) = limits.cpu_quota {
            (self.cpu_quota, self.cpu_period) = (quota, signed(period));
        }
        self.memory = limits.memory.unwrap_or(self.memory);
        self
    }

    /// What is left for the containers.
    pub(super) fn without_overhead(mut self, spec: &PodSpec) -> Self {
        let overhead = requests::amounts(spec.overhead.as_ref());
        if let Some(cpu) = overhead.get(CPU).map(Quantity::milli_value) {
            let period = u64::try_from(self.cpu_period).unwrap_or_default();
            self.cpu_quota -= quota(cpu, period);
            let left = shares(milli_cpu_of_shares(self.cpu_shares) - cpu);
            self.cpu_shares = i64::try_from(left).unwrap_or(i64::MAX);
        }
        if let Some(memory) = overhead.get(MEMORY) {
            self.memory -= memory.value();
        }
        self
    }

    pub(super) fn resources(self) -> cri::LinuxContainerResources {
        cri::LinuxContainerResources {
            cpu_period: self.cpu_period,
            cpu_quota: self.cpu_quota,
            cpu_shares: self.cpu_shares,
            memory_limit_in_bytes: self.memory,
            ..cri::LinuxContainerResources::default()
        }
    }

    pub(super) fn observed(self) -> ObservedResources {
        ObservedResources {
            cpu_period: self.cpu_period,
            cpu_quota: self.cpu_quota,
            cpu_shares: self.cpu_shares,
            memory_limit: self.memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use resources::linux::NO_QUOTA;
    use serde_json::json;

    use super::*;

    fn held() -> Held {
        Held {
            cpu_shares: 512,
            cpu_quota: 50_000,
            cpu_period: 100_000,
            memory: 1 << 20,
        }
    }

    #[test]
    fn what_grows_is_raised_and_what_shrinks_is_lowered() {
        let memory = |memory| {
            let target = Limits {
                memory,
                ..Limits::default()
            };
            let part = Part::memory(&target, &held()).remove(0);
            (part.raises, part.lowers, part.limits.memory)
        };
        assert_eq!(memory(Some(2 << 20)), (true, false, Some(2 << 20)));
        assert_eq!(memory(Some(1 << 10)), (false, true, Some(1 << 10)));
        assert_eq!(memory(None), (false, false, Some(1 << 20)));
    }

    #[test]
    fn the_limit_of_cpus_and_their_share_go_their_own_ways() {
        let target = Limits {
            cpu_shares: Some(256),
            cpu_quota: Some((80_000, 100_000)),
            ..Limits::default()
        };
        let parts = Part::cpu(&target, &held());
        let ways: Vec<_> = parts
            .iter()
            .map(|part| (part.raises, part.lowers))
            .collect();
        assert_eq!(ways, [(true, false), (false, true)]);
        let unlimited = Limits {
            cpu_shares: Some(512),
            ..Limits::default()
        };
        let parts = Part::cpu(&unlimited, &held());
        assert!(parts.iter().all(|part| !part.raises && !part.lowers));
    }

    #[test]
    fn the_runtime_is_told_what_is_left_for_containers() {
        let spec = json!({ "containers": [], "overhead": { "cpu": "250m", "memory": "1Ki" } });
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let all = PodLimits::from(held());
        assert_eq!(all.without_overhead(&PodSpec::default()), all);
        let left = all.without_overhead(&spec).resources();
        assert_eq!((left.cpu_quota, left.cpu_shares), (25_000, 256));
        assert_eq!(left.memory_limit_in_bytes, (1 << 20) - 1024);
    }

    #[test]
    fn what_is_not_said_stays() {
        let limits = Limits {
            cpu_quota: Some((NO_QUOTA, 100_000)),
            ..Limits::default()
        };
        let after = PodLimits::from(held()).with(&limits);
        assert_eq!((after.cpu_quota, after.cpu_shares), (NO_QUOTA, 512));
        assert_eq!(after.memory, 1 << 20);
    }
}
