//! The resources of containers and sandboxes, in the words of the kernel and CRI.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use seams::cri;
use seams::host::CgroupVersion;
use types::Quantity;

pub use crate::memory_qos::MemoryQos;
use crate::qos::{self, QosClass};
use crate::requests::{
    self, Amounts, CPU, HUGE_PAGES, MEMORY, Overhead, has_pod_level_resources, pod_limits,
    pod_requests,
};

/// The kernel's own bounds.
pub const MIN_SHARES: u64 = 2;
pub const MAX_SHARES: u64 = 262_144;
const SHARES_PER_CPU: u64 = 1024;

/// Microseconds; the kernel takes no less.
const MIN_QUOTA: i64 = 1000;
pub const NO_QUOTA: i64 = -1;

const SWAP_MAX: &str = "memory.swap.max";

/// What a node was told to enforce, and what it can.
#[derive(Clone, Debug, PartialEq)]
pub struct Enforcement {
    pub version: CgroupVersion,
    /// `cpuCFSQuota`: whether limits of CPUs are kept.
    pub cpu_quota: bool,
    /// `cpuCFSQuotaPeriod`, in microseconds.
    pub quota_period: u64,
    /// `singleProcessOOMKill`: one process of a container dies, not all.
    pub kill_single_process: bool,
    pub swap: Swap,
    /// The machine's, in bytes.
    pub memory: i64,
    /// The sizes that the machine has, in bytes.
    pub huge_page_sizes: Vec<u64>,
    /// The gate `MemoryQoS`, on a machine that can do it.
    pub memory_qos: Option<MemoryQos>,
}

/// `memorySwap.swapBehavior`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The kernel cannot limit it: nothing is said about it.
    Uncontrolled,
    NoSwap,
    /// Burstable pods share the machine's swap, so many bytes, by their requests.
    Limited {
        capacity: i64,
    },
}

/// Thousandths of a CPU as the kernel weighs them.
pub fn shares(milli_cpu: i64) -> u64 {
    let milli_cpu = u64::try_from(milli_cpu).unwrap_or_default();
    let shares = milli_cpu.saturating_mul(SHARES_PER_CPU) / 1000;
    shares.clamp(MIN_SHARES, MAX_SHARES)
}

/// Microseconds that thousandths of a CPU are in a period; 0: no limit.
pub fn quota(milli_cpu: i64, period: u64) -> i64 {
    if milli_cpu == 0 {
        return 0;
    }
    let period = i64::try_from(period).unwrap_or(i64::MAX);
    (milli_cpu.saturating_mul(period) / 1000).max(MIN_QUOTA)
}

/// What version 2 has instead of shares, in cgroups that a node makes itself.
/// (Runtimes convert by another formula.)
pub fn weight(shares: u64) -> u64 {
    let above = shares.clamp(MIN_SHARES, MAX_SHARES) - MIN_SHARES;
    1 + above * 9999 / (MAX_SHARES - MIN_SHARES)
}

/// The thousandths of a CPU that a quota is: what the status of a pod shows.
pub fn milli_cpu_of_quota(quota: i64, period: i64) -> i64 {
    if quota <= 0 || period <= 0 {
        0
    } else {
        quota.saturating_mul(1000) / period
    }
}

/// The thousandths of a CPU that shares stand for, rounded up.
pub fn milli_cpu_of_shares(shares: i64) -> i64 {
    let per_cpu = i64::try_from(SHARES_PER_CPU).unwrap_or(i64::MAX);
    shares
        .max(0)
        .saturating_mul(1000)
        .saturating_add(per_cpu - 1)
        / per_cpu
}

/// A page size as cgroups and CRI call it: `2MB`. Sizes that are no whole number
/// of a unit have no name.
pub fn page_size_name(bytes: u64) -> Option<String> {
    let mut size = bytes;
    for unit in ["B", "KB", "MB", "GB", "TB"] {
        if size == 0 || !size.is_multiple_of(1024) {
            return (0 < size && size <= 1024).then(|| format!("{size}{unit}"));
        }
        size /= 1024;
    }
    Some(format!("{size}PB"))
}

/// The amounts of huge pages among `amounts`, by page size in bytes.
pub fn huge_pages(amounts: &Amounts) -> BTreeMap<u64, i64> {
    let mut sizes = BTreeMap::<u64, i64>::new();
    for (name, amount) in amounts {
        let size = name
            .strip_prefix(HUGE_PAGES)
            .and_then(|size| size.parse::<Quantity>().ok());
        let size = size.and_then(|size| u64::try_from(size.value()).ok());
        if let Some(size) = size {
            let known = sizes.entry(size).or_default();
            *known = known.saturating_add(amount.value());
        }
    }
    sizes
}

impl Enforcement {
    /// What a container of a pod may use.
    pub fn container(&self, pod: &Pod, container: &Container) -> cri::LinuxContainerResources {
        let empty = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let requests = requests::requests(container.resources.as_ref());
        let limits = effective_limits(spec, container);
        let mut resources = self.resources(
            requests.get(CPU),
            limits.get(CPU),
            limits.get(MEMORY).map_or(0, Quantity::value),
        );
        resources.oom_score_adj = qos::oom_score_adj(pod, container, self.memory);
        resources.hugepage_limits = self.huge_page_limits(spec, container);
        self.limit_swap(pod, container, &mut resources);
        if let Some(memory_qos) = self.memory_qos() {
            let unified = memory_qos.of_container(QosClass::of(pod), container);
            resources.unified.extend(unified);
        }
        resources
    }

    /// Only version 2 knows it.
    pub(crate) fn memory_qos(&self) -> Option<&MemoryQos> {
        let known = self.memory_qos.as_ref();
        known.filter(|_| self.version == CgroupVersion::V2)
    }

    /// What all containers of a pod may use together.
    pub fn sandbox(&self, spec: &PodSpec) -> cri::LinuxContainerResources {
        let requests = pod_requests(spec, Overhead::Excluded);
        let limits = pod_limits(spec, Overhead::Excluded);
        let memory = limits.get(MEMORY).map_or(0, Quantity::value);
        self.resources(requests.get(CPU), limits.get(CPU), memory)
    }

    /// What the sandbox itself may use.
    pub fn overhead(&self, spec: &PodSpec) -> cri::LinuxContainerResources {
        if spec.overhead.is_none() {
            return cri::LinuxContainerResources::default();
        }
        let overhead = requests::amounts(spec.overhead.as_ref());
        let none = Quantity::default();
        let cpu = overhead.get(CPU).unwrap_or(&none);
        let memory = overhead.get(MEMORY).map_or(0, Quantity::value);
        self.resources(Some(cpu), Some(cpu), memory)
    }

    fn resources(
        &self,
        cpu_request: Option<&Quantity>,
        cpu_limit: Option<&Quantity>,
        memory_limit: i64,
    ) -> cri::LinuxContainerResources {
        let milli = |cpu: Option<&Quantity>| cpu.map_or(0, Quantity::milli_value);
        // Who may have so much and does not say what it needs needs so much.
        let shares = shares(milli(cpu_request.or(cpu_limit)));
        let mut resources = cri::LinuxContainerResources {
            cpu_shares: i64::try_from(shares).unwrap_or(i64::MAX),
            memory_limit_in_bytes: memory_limit,
            ..Default::default()
        };
        if self.cpu_quota {
            resources.cpu_period = i64::try_from(self.quota_period).unwrap_or(i64::MAX);
            resources.cpu_quota = quota(milli(cpu_limit), self.quota_period);
        }
        if self.version == CgroupVersion::V2 && !self.kill_single_process {
            let all = ("memory.oom.group".to_owned(), "1".to_owned());
            resources.unified.extend([all]);
        }
        resources
    }

    /// One for each size that the machine has: none unless it is said.
    fn huge_page_limits(&self, spec: &PodSpec, container: &Container) -> Vec<cri::HugepageLimit> {
        let mut limited = huge_pages(&requests::limits(spec.resources.as_ref()));
        limited.extend(huge_pages(&requests::limits(container.resources.as_ref())));
        let limit = |size: &u64| {
            let limit = limited.get(size).copied().unwrap_or_default();
            Some(cri::HugepageLimit {
                page_size: page_size_name(*size)?,
                limit: u64::try_from(limit).unwrap_or_default(),
            })
        };
        self.huge_page_sizes.iter().filter_map(limit).collect()
    }

    fn limit_swap(
        &self,
        pod: &Pod,
        container: &Container,
        resources: &mut cri::LinuxContainerResources,
    ) {
        let bytes = match self.swap {
            Swap::Uncontrolled => return,
            Swap::NoSwap => 0,
            Swap::Limited { capacity } => self.swap_share(pod, container, capacity),
        };
        match self.version {
            CgroupVersion::V1 => {
                resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes;
            }
            CgroupVersion::V2 => {
                resources
                    .unified
                    .insert(SWAP_MAX.to_owned(), bytes.to_string());
            }
        }
    }

    /// Whether a container may swap: then its share follows its request of memory.
    pub fn swaps(&self, pod: &Pod, container: &Container) -> bool {
        let limited = matches!(self.swap, Swap::Limited { .. });
        let none = Quantity::default();
        let requests = requests::requests(container.resources.as_ref());
        let limits = requests::limits(container.resources.as_ref());
        let request = requests.get(MEMORY).unwrap_or(&none);
        let limit = limits.get(MEMORY).unwrap_or(&none);
        let burstable = QosClass::of(pod) == QosClass::Burstable && !qos::is_critical(pod);
        limited && self.version == CgroupVersion::V2 && burstable && request != limit
    }

    /// Only for those whose use of memory has no fixed bound.
    fn swap_share(&self, pod: &Pod, container: &Container, capacity: i64) -> i64 {
        let of = |amounts: &Amounts| amounts.get(MEMORY).map_or(0, Quantity::value);
        let request = of(&requests::requests(container.resources.as_ref()));
        let limit = of(&requests::limits(container.resources.as_ref()));
        let burstable = QosClass::of(pod) == QosClass::Burstable && !qos::is_critical(pod);
        let on_v2 = self.version == CgroupVersion::V2;
        let knows_memory = self.memory > 0 && request <= self.memory;
        if !burstable || !on_v2 || request == limit || !knows_memory {
            return 0;
        }
        proportion(request, self.memory, capacity)
    }
}

/// In floating point, as upstream: a byte more or less would be another value.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "upstream's rounding is wanted"
)]
fn proportion(part: i64, whole: i64, of: i64) -> i64 {
    let share = part as f64 / whole as f64;
    (share * of as f64) as i64
}

/// For a container that has CPUs of its own: nobody is to be kept from them.
pub fn lift_quota(resources: &mut cri::LinuxContainerResources) {
    if resources.cpu_period != 0 {
        resources.cpu_quota = NO_QUOTA;
    }
}

/// A container without a limit has the pod's.
fn effective_limits(spec: &PodSpec, container: &Container) -> Amounts {
    let mut limits = requests::limits(container.resources.as_ref());
    if has_pod_level_resources(spec) {
        let of_pod = requests::limits(spec.resources.as_ref());
        for (name, limit) in of_pod {
            let own = limits.entry(name).or_default();
            if own.is_zero() {
                *own = limit;
            }
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{container, named, pod};

    const GIB: i64 = 1 << 30;

    fn enforcement() -> Enforcement {
        Enforcement {
            version: CgroupVersion::V2,
            cpu_quota: true,
            quota_period: 100_000,
            kill_single_process: false,
            swap: Swap::Uncontrolled,
            memory: 10 * GIB,
            huge_page_sizes: vec![2 << 20, 1 << 30],
            memory_qos: None,
        }
    }

    fn of(enforcement: &Enforcement, spec: &Value) -> cri::LinuxContainerResources {
        let pod = pod(spec);
        enforcement.container(&pod, named(&pod, "c"))
    }

    #[test]
    fn cpus_are_shares_within_the_kernels_bounds() {
        for (milli, expected) in [
            (0, 2),
            (1, 2),
            (2, 2),
            (3, 3),
            (100, 102),
            (1000, 1024),
            (256_000, 262_144),
            (999_999_999, 262_144),
            (i64::MAX, 262_144),
        ] {
            assert_eq!(shares(milli), expected, "{milli}");
        }
    }

    #[test]
    fn cpus_are_a_quota_of_a_period_of_at_least_a_millisecond() {
        for (milli, period, expected) in [
            (0, 100_000, 0),
            (1, 100_000, 1000),
            (5, 100_000, 1000),
            (10, 100_000, 1000),
            (11, 100_000, 1100),
            (1500, 100_000, 150_000),
            (200, 5000, 1000),
            (1500, 5000, 7500),
        ] {
            assert_eq!(quota(milli, period), expected, "{milli} {period}");
        }
    }

    #[test]
    fn shares_are_weights_in_version_2() {
        for (shares, expected) in [
            (0, 1),
            (2, 1),
            (102, 4),
            (1024, 39),
            (262_143, 9999),
            (262_144, 10_000),
            (300_000, 10_000),
        ] {
            assert_eq!(weight(shares), expected, "{shares}");
        }
    }

    #[test]
    fn what_the_kernel_has_is_read_back_in_thousandths() {
        assert_eq!(milli_cpu_of_quota(150_000, 100_000), 1500);
        assert_eq!(milli_cpu_of_quota(-1, 100_000), 0);
        assert_eq!(milli_cpu_of_quota(1, 0), 0);
        for (shares, expected) in [(2, 2), (102, 100), (1024, 1000), (1025, 1001), (0, 0)] {
            assert_eq!(milli_cpu_of_shares(shares), expected, "{shares}");
        }
    }

    #[test]
    fn page_sizes_have_the_kernels_names() {
        for (bytes, name) in [
            (2 << 20, Some("2MB")),
            (1 << 30, Some("1GB")),
            (64 << 10, Some("64KB")),
            (512 << 20, Some("512MB")),
            (1500, None),
            (0, None),
        ] {
            assert_eq!(page_size_name(bytes).as_deref(), name, "{bytes}");
        }
    }

    #[test]
    fn cpu_and_memory_of_a_container() {
        let none = json!(null);
        for (requests, limits, expected) in [
            (none.clone(), none.clone(), (2, 0, 0)),
            (json!({ "cpu": "250m" }), none.clone(), (256, 0, 0)),
            // No request: the limit is one.
            (
                none.clone(),
                json!({ "cpu": "500m", "memory": "1Mi" }),
                (512, 50_000, 1 << 20),
            ),
            (
                json!({ "cpu": "0" }),
                json!({ "cpu": "1" }),
                (2, 100_000, 0),
            ),
            (json!({ "memory": "5Mi" }), none.clone(), (2, 0, 0)),
        ] {
            let spec = json!({ "containers": [container("c", &requests, &limits)] });
            let found = of(&enforcement(), &spec);
            let found = (
                found.cpu_shares,
                found.cpu_quota,
                found.memory_limit_in_bytes,
            );
            assert_eq!(found, expected, "{spec}");
        }
    }

    #[test]
    fn a_container_without_limits_has_the_pods() {
        let none = json!(null);
        let spec = json!({
            "containers": [container("c", &none, &json!({ "cpu": "1" }))],
            "resources": { "limits": { "cpu": "2", "memory": "1Gi", "hugepages-2Mi": "4Mi" } },
        });
        let found = of(&enforcement(), &spec);
        assert_eq!((found.cpu_quota, found.cpu_shares), (100_000, 1024));
        assert_eq!(found.memory_limit_in_bytes, GIB);
        assert_eq!(found.hugepage_limits[0].limit, 4 << 20);
        let spec = json!({
            "containers": [container("c", &none, &none)],
            "resources": { "limits": { "cpu": "2" } },
        });
        assert_eq!(of(&enforcement(), &spec).cpu_shares, 2048);
    }

    #[test]
    fn without_quotas_nothing_is_said_of_periods() {
        let spec = json!({ "containers": [container("c", &json!(null), &json!({ "cpu": "1" }))] });
        let off = Enforcement {
            cpu_quota: false,
            ..enforcement()
        };
        let found = of(&off, &spec);
        assert_eq!((found.cpu_quota, found.cpu_period), (0, 0));
        let short = Enforcement {
            quota_period: 10_000,
            ..enforcement()
        };
        let found = of(&short, &spec);
        assert_eq!((found.cpu_quota, found.cpu_period), (10_000, 10_000));
    }

    #[test]
    fn who_has_cpus_of_its_own_has_no_quota() {
        let spec = json!({ "containers": [container("c", &json!(null), &json!({ "cpu": "1" }))] });
        let mut found = of(&enforcement(), &spec);
        lift_quota(&mut found);
        assert_eq!((found.cpu_quota, found.cpu_period), (-1, 100_000));
        let off = Enforcement {
            cpu_quota: false,
            ..enforcement()
        };
        let mut found = of(&off, &spec);
        lift_quota(&mut found);
        assert_eq!((found.cpu_quota, found.cpu_period), (0, 0));
    }

    #[test]
    fn huge_pages_are_limited_for_each_size_to_none_unless_said() {
        let limits = json!({ "hugepages-1Gi": "2Gi", "hugepages-3Mi": "3Mi" });
        let spec = json!({
            "containers": [container("c", &json!(null), &limits)],
            "resources": { "limits": { "hugepages-1Gi": "4Gi" } },
        });
        let found = of(&enforcement(), &spec).hugepage_limits;
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.page_size.as_str(), one.limit))
            .collect();
        assert_eq!(found, [("2MB", 0), ("1GB", 2 << 30)]);
    }

    #[test]
    fn a_container_dies_as_a_whole_on_version_2_unless_told_otherwise() {
        let spec = json!({ "containers": [container("c", &json!(null), &json!(null))] });
        let group = |version, kill_single_process| {
            let enforcement = Enforcement {
                version,
                kill_single_process,
                ..enforcement()
            };
            of(&enforcement, &spec).unified.remove("memory.oom.group")
        };
        assert_eq!(group(CgroupVersion::V2, false).as_deref(), Some("1"));
        assert_eq!(group(CgroupVersion::V2, true), None);
        assert_eq!(group(CgroupVersion::V1, false), None);
    }

    #[test]
    fn swap_is_for_burstable_pods_by_their_requests_if_at_all() {
        let memory = |amount: &str| json!({ "memory": amount });
        let limited = Swap::Limited { capacity: 1000 };
        let spec = json!({ "containers": [container("c", &memory("1Gi"), &memory("2Gi"))] });
        let exact = json!({ "containers": [container("c", &memory("1Gi"), &memory("1Gi"))] });
        let mut critical = spec.clone();
        critical["priority"] = json!(2_000_000_000);
        for (spec, version, swap, unified, v1) in [
            (&spec, CgroupVersion::V2, Swap::Uncontrolled, None, 0),
            (&spec, CgroupVersion::V2, Swap::NoSwap, Some("0"), 0),
            (&spec, CgroupVersion::V2, limited, Some("100"), 0),
            (&exact, CgroupVersion::V2, limited, Some("0"), 0),
            (&critical, CgroupVersion::V2, limited, Some("0"), 0),
            (&spec, CgroupVersion::V1, Swap::NoSwap, None, 2 * GIB),
            (&spec, CgroupVersion::V1, limited, None, 2 * GIB),
            (&spec, CgroupVersion::V1, Swap::Uncontrolled, None, 0),
        ] {
            let found = of(
                &Enforcement {
                    version,
                    swap,
                    ..enforcement()
                },
                spec,
            );
            assert_eq!(
                found.unified.get(SWAP_MAX).map(String::as_str),
                unified,
                "{swap:?}"
            );
            assert_eq!(found.memory_swap_limit_in_bytes, v1, "{version:?} {swap:?}");
        }
    }

    #[test]
    fn shares_of_swap_are_rounded_as_upstream_does() {
        // The second is one less than whole numbers would give.
        for (part, whole, of, expected) in [
            (1 << 30, 10 << 30, 1000, 100),
            (3, 10, 10, 3),
            (29, 100, 100, 28),
            (0, 10, 10, 0),
        ] {
            assert_eq!(proportion(part, whole, of), expected, "{part} of {whole}");
        }
    }

    #[test]
    fn memory_is_kept_and_held_back_where_the_gate_is_on_and_the_kernel_can() {
        let memory = |amount: &str| json!({ "memory": amount });
        let spec = json!({ "containers": [container("c", &memory("1Gi"), &memory("2Gi"))] });
        let keys = |version, memory_qos| {
            let enforcement = Enforcement {
                version,
                memory_qos,
                ..enforcement()
            };
            let unified = of(&enforcement, &spec).unified;
            unified.into_keys().collect::<Vec<String>>()
        };
        let on = MemoryQos {
            throttling: 0.9,
            reserve: true,
            page: 4096,
            allocatable: 8 * GIB,
        };
        let expected = ["memory.high", "memory.low", "memory.oom.group"];
        assert_eq!(keys(CgroupVersion::V2, Some(on)), expected);
        assert_eq!(keys(CgroupVersion::V1, Some(on)), [""; 0]);
        assert_eq!(keys(CgroupVersion::V2, None), ["memory.oom.group"]);
    }

    #[test]
    fn a_sandbox_has_the_sum_and_its_own_cost_beside_it() {
        let limits = json!({ "cpu": "1", "memory": "1Mi" });
        let one = container("c", &json!({ "cpu": "500m" }), &limits);
        let two = container("d", &json!({ "cpu": "500m" }), &limits);
        let overhead = json!({ "cpu": "250m", "memory": "3Mi" });
        let pod = pod(&json!({ "containers": [one, two], "overhead": overhead }));
        let spec = pod.spec.as_ref().unwrap();
        let found = enforcement().sandbox(spec);
        assert_eq!((found.cpu_shares, found.cpu_quota), (1024, 200_000));
        assert_eq!(found.memory_limit_in_bytes, 2 << 20);
        assert_eq!(found.oom_score_adj, 0);
        let found = enforcement().overhead(spec);
        assert_eq!((found.cpu_shares, found.cpu_quota), (256, 25_000));
        assert_eq!(found.memory_limit_in_bytes, 3 << 20);
        let found = enforcement().overhead(&PodSpec::default());
        assert_eq!(found, cri::LinuxContainerResources::default());
    }
}
