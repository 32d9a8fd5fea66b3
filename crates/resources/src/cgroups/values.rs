//! What cgroups are given, and the files that it is written to.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use seams::host::{CgroupFacts, CgroupValue, CgroupVersion};
use types::Quantity;

use crate::linux::{
    Enforcement, MIN_SHARES, NO_QUOTA, huge_pages, page_size_name, quota, shares, weight,
};
use crate::qos::QosClass;
use crate::requests::{Amounts, CPU, MEMORY, Overhead, is_limited, pod_limits, pod_requests};

/// What reservations call the processes of a node.
const PIDS: &str = "pid";

/// No pod has so many huge pages: the classes do not limit them.
const UNBOUNDED: i64 = 1 << 62;

/// What a cgroup may use; what is not said is not touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub cpu_shares: Option<u64>,
    /// Microseconds in a period, and the period; [`NO_QUOTA`] for none.
    pub cpu_quota: Option<(i64, u64)>,
    /// Bytes; 0 for no limit.
    pub memory: Option<i64>,
    pub processes: Option<i64>,
    /// Bytes by page size in bytes. Sizes that are not said get nothing.
    pub huge_pages: BTreeMap<u64, i64>,
    /// Other files of version 2, as they are; version 1 has none of them.
    pub unified: Vec<(String, String)>,
}

impl Limits {
    /// `processes` is the setting `podPidsLimit`: only more than 0 is a limit.
    pub fn of_pod(pod: &Pod, enforcement: &Enforcement, processes: i64) -> Self {
        let mut limits = Self {
            cpu_shares: Some(MIN_SHARES),
            processes: (processes > 0).then_some(processes),
            ..Self::default()
        };
        let Some(spec) = &pod.spec else {
            return limits;
        };
        let requests = pod_requests(spec, Overhead::Included);
        limits.huge_pages = huge_pages(&requests);
        let class = QosClass::of(pod);
        let memory_qos = enforcement.memory_qos();
        limits.unified = memory_qos
            .and_then(|qos| qos.of_pod(class, spec))
            .into_iter()
            .collect();
        if class == QosClass::BestEffort {
            return limits;
        }
        let may_have = pod_limits(spec, Overhead::Included);
        let milli = |amounts: &Amounts| amounts.get(CPU).map_or(0, Quantity::milli_value);
        limits.cpu_shares = Some(shares(milli(&requests)));
        let guaranteed = class == QosClass::Guaranteed;
        if guaranteed || is_limited(spec, CPU) {
            let period = enforcement.quota_period;
            limits.cpu_quota = Some((quota(milli(&may_have), period), period));
        }
        if guaranteed || is_limited(spec, MEMORY) {
            limits.memory = Some(may_have.get(MEMORY).map_or(0, Quantity::value));
        }
        if enforcement.cpu_quota {
            limits
        } else {
            limits.without_quota()
        }
    }

    /// For a pod that has CPUs of its own, or where limits of CPUs are not kept.
    #[must_use]
    pub fn without_quota(mut self) -> Self {
        self.cpu_quota = self.cpu_quota.map(|(_, period)| (NO_QUOTA, period));
        self
    }

    /// What all pods may have: what the node has, less its reservations.
    pub fn of_node(allocatable: &Amounts) -> Self {
        let value = |name| allocatable.get(name).map(Quantity::value);
        Self {
            cpu_shares: allocatable.get(CPU).map(|cpu| shares(cpu.milli_value())),
            memory: value(MEMORY),
            processes: value(PIDS),
            huge_pages: huge_pages(allocatable),
            ..Self::default()
        }
    }

    /// What all pods are given again and again: nothing but that their huge pages are
    /// theirs to limit, as upstream does it.
    pub fn of_all(page_sizes: &[u64]) -> Self {
        Self {
            huge_pages: unbounded(page_sizes),
            ..Self::default()
        }
    }

    /// What the burstable pods have together: `milli_cpu` is what they ask for.
    pub fn of_burstable(milli_cpu: i64, page_sizes: &[u64]) -> Self {
        Self {
            cpu_shares: Some(shares(milli_cpu)),
            huge_pages: unbounded(page_sizes),
            ..Self::default()
        }
    }

    /// What those have together that ask for nothing.
    pub fn of_best_effort(page_sizes: &[u64]) -> Self {
        Self::of_burstable(0, page_sizes)
    }

    /// The files and what is written to them, in the order of writing.
    pub fn values(&self, facts: &CgroupFacts, page_sizes: &[u64]) -> Vec<CgroupValue> {
        let mut values = match facts.version {
            CgroupVersion::V1 => self.version_1(),
            CgroupVersion::V2 => self.version_2(),
        };
        if let Some(processes) = self.processes {
            // Systemd knows no 0, so nobody writes it.
            let processes = match processes {
                ..0 => "max".to_owned(),
                some => some.max(1).to_string(),
            };
            values.push(CgroupValue::new("pids.max", processes));
        }
        let suffix = match facts.version {
            CgroupVersion::V1 => "limit_in_bytes",
            CgroupVersion::V2 => "max",
        };
        for (size, bytes) in self.all_huge_pages(page_sizes) {
            values.push(CgroupValue::new(format!("hugetlb.{size}.{suffix}"), bytes));
            // Older kernels do not count reservations.
            let reserved = CgroupValue::new(format!("hugetlb.{size}.rsvd.{suffix}"), bytes);
            values.push(reserved.optional());
        }
        values.retain(|value| facts.controllers.contains(value.controller()));
        values
    }

    fn version_1(&self) -> Vec<CgroupValue> {
        let mut values = Vec::new();
        values.extend(
            self.cpu_shares
                .map(|shares| CgroupValue::new("cpu.shares", shares)),
        );
        if let Some((quota, period)) = self.cpu_quota {
            values.push(CgroupValue::new("cpu.cfs_period_us", period));
            if quota != 0 {
                values.push(CgroupValue::new("cpu.cfs_quota_us", quota));
            }
        }
        let memory = self.memory.filter(|memory| *memory != 0);
        values.extend(memory.map(|memory| CgroupValue::new("memory.limit_in_bytes", memory)));
        values
    }

    fn version_2(&self) -> Vec<CgroupValue> {
        let mut values = Vec::new();
        let weight = self.cpu_shares.map(weight);
        values.extend(weight.map(|weight| CgroupValue::new("cpu.weight", weight)));
        if let Some((quota, period)) = self.cpu_quota {
            let quota = match quota {
                ..=0 => "max".to_owned(),
                some => some.to_string(),
            };
            values.push(CgroupValue::new("cpu.max", format!("{quota} {period}")));
        }
        match self.memory {
            None | Some(0) => {}
            Some(..0) => values.push(CgroupValue::new("memory.max", "max")),
            Some(memory) => values.push(CgroupValue::new("memory.max", memory)),
        }
        let unified = self.unified.iter();
        values.extend(unified.map(|(file, value)| CgroupValue::new(file.clone(), value)));
        values
    }

    /// By the sizes' names: those that are limited, and nothing of the others.
    fn all_huge_pages(&self, page_sizes: &[u64]) -> BTreeMap<String, i64> {
        let none = page_sizes.iter().map(|size| (*size, 0));
        let limited = self.huge_pages.iter().map(|(size, bytes)| (*size, *bytes));
        let all = none.chain(limited);
        all.filter_map(|(size, bytes)| Some((page_size_name(size)?, bytes)))
            .collect()
    }
}

fn unbounded(page_sizes: &[u64]) -> BTreeMap<u64, i64> {
    page_sizes.iter().map(|size| (*size, UNBOUNDED)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::linux::{MemoryQos, Swap};
    use crate::testing::{container, pod};

    const PAGES: [u64; 1] = [2 << 20];

    fn enforcement() -> Enforcement {
        Enforcement {
            version: CgroupVersion::V2,
            cpu_quota: true,
            quota_period: 100_000,
            kill_single_process: false,
            swap: Swap::Uncontrolled,
            memory: 1 << 33,
            huge_page_sizes: PAGES.to_vec(),
            memory_qos: None,
        }
    }

    fn facts(version: CgroupVersion, controllers: &[&str]) -> CgroupFacts {
        CgroupFacts {
            version,
            controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
            swap: false,
        }
    }

    fn written(limits: &Limits, version: CgroupVersion) -> Vec<String> {
        let facts = facts(version, &["cpu", "memory", "pids"]);
        let values = limits.values(&facts, &PAGES);
        values
            .iter()
            .map(|value| format!("{}={}", value.file, value.value))
            .collect()
    }

    fn check(spec: &Value, processes: i64, v1: &[&str], v2: &[&str]) {
        let limits = Limits::of_pod(&pod(spec), &enforcement(), processes);
        assert_eq!(written(&limits, CgroupVersion::V1), v1, "{spec}");
        assert_eq!(written(&limits, CgroupVersion::V2), v2, "{spec}");
    }

    #[test]
    fn a_guaranteed_pod_gets_what_it_asks_for_and_its_overhead() {
        let amounts = json!({ "cpu": "500m", "memory": "1Mi" });
        let spec = json!({
            "containers": [container("c", &amounts, &amounts)],
            "overhead": { "cpu": "500m", "memory": "1Mi" },
        });
        check(
            &spec,
            100,
            &[
                "cpu.shares=1024",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=100000",
                "memory.limit_in_bytes=2097152",
                "pids.max=100",
            ],
            &[
                "cpu.weight=39",
                "cpu.max=100000 100000",
                "memory.max=2097152",
                "pids.max=100",
            ],
        );
    }

    #[test]
    fn a_burstable_pod_is_limited_where_all_of_it_is() {
        let none = json!(null);
        let limited = container(
            "c",
            &json!({ "cpu": "1" }),
            &json!({ "cpu": "2", "memory": "5" }),
        );
        let free = container("d", &none, &json!({ "memory": "5" }));
        check(
            &json!({ "containers": [limited] }),
            -1,
            &[
                "cpu.shares=1024",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=200000",
                "memory.limit_in_bytes=5",
            ],
            &["cpu.weight=39", "cpu.max=200000 100000", "memory.max=5"],
        );
        check(
            &json!({ "containers": [limited, free] }),
            0,
            &["cpu.shares=1024", "memory.limit_in_bytes=10"],
            &["cpu.weight=39", "memory.max=10"],
        );
        check(
            &json!({ "containers": [free], "resources": { "limits": { "cpu": "1" } } }),
            0,
            &[
                "cpu.shares=2",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=100000",
                "memory.limit_in_bytes=5",
            ],
            &["cpu.weight=1", "cpu.max=100000 100000", "memory.max=5"],
        );
    }

    #[test]
    fn a_pod_that_asks_for_nothing_gets_the_least() {
        let spec = json!({ "containers": [container("c", &json!(null), &json!(null))] });
        check(&spec, 0, &["cpu.shares=2"], &["cpu.weight=1"]);
    }

    #[test]
    fn memory_is_kept_for_pods_on_version_2_where_the_gate_is_on() {
        let amounts = json!({ "cpu": "1", "memory": "4096" });
        let pod = pod(&json!({ "containers": [container("c", &amounts, &json!(null))] }));
        let on = Enforcement {
            memory_qos: Some(MemoryQos {
                throttling: 0.9,
                reserve: true,
                page: 4096,
                allocatable: 1 << 33,
            }),
            ..enforcement()
        };
        let limits = Limits::of_pod(&pod, &on, 0);
        let expected = ["cpu.weight=39", "memory.low=4096"];
        assert_eq!(written(&limits, CgroupVersion::V2), expected);
        assert_eq!(written(&limits, CgroupVersion::V1), ["cpu.shares=1024"]);
    }

    #[test]
    fn without_quotas_a_former_one_is_lifted() {
        let amounts = json!({ "cpu": "1", "memory": "5" });
        let pod = pod(&json!({ "containers": [container("c", &amounts, &amounts)] }));
        let off = Enforcement {
            cpu_quota: false,
            quota_period: 50_000,
            ..enforcement()
        };
        let limits = Limits::of_pod(&pod, &off, 0);
        assert!(written(&limits, CgroupVersion::V1).contains(&"cpu.cfs_quota_us=-1".to_owned()));
        assert!(written(&limits, CgroupVersion::V2).contains(&"cpu.max=max 50000".to_owned()));
    }

    #[test]
    fn huge_pages_are_written_for_each_size_where_the_kernel_counts_them() {
        let pages = json!({ "hugepages-2Mi": "4Mi", "memory": "1", "cpu": "1" });
        let pod = pod(&json!({ "containers": [container("c", &pages, &pages)] }));
        let limits = Limits::of_pod(&pod, &enforcement(), 0);
        let values = |version| {
            let values = limits.values(&facts(version, &["hugetlb"]), &[2 << 20, 1 << 30]);
            let text =
                |value: &CgroupValue| format!("{}={} {}", value.file, value.value, value.optional);
            values.iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(
            values(CgroupVersion::V2),
            [
                "hugetlb.1GB.max=0 false",
                "hugetlb.1GB.rsvd.max=0 true",
                "hugetlb.2MB.max=4194304 false",
                "hugetlb.2MB.rsvd.max=4194304 true",
            ]
        );
        assert_eq!(
            values(CgroupVersion::V1)[2],
            "hugetlb.2MB.limit_in_bytes=4194304 false"
        );
    }

    #[test]
    fn the_classes_share_by_requests_and_leave_huge_pages_to_the_pods() {
        let pages = |limits: &Limits| limits.huge_pages[&PAGES[0]];
        let burstable = Limits::of_burstable(1500, &PAGES);
        assert_eq!(written(&burstable, CgroupVersion::V1), ["cpu.shares=1536"]);
        assert_eq!(pages(&burstable), 1 << 62);
        let best_effort = Limits::of_best_effort(&PAGES);
        assert_eq!(written(&best_effort, CgroupVersion::V1), ["cpu.shares=2"]);
        assert_eq!(pages(&best_effort), 1 << 62);
        let idle = Limits::of_burstable(0, &PAGES);
        assert_eq!(written(&idle, CgroupVersion::V2), ["cpu.weight=1"]);
    }

    #[test]
    fn all_pods_together_have_what_the_node_can_give() {
        let amounts =
            json!({ "cpu": "3500m", "memory": "1Mi", "pid": "500", "hugepages-2Mi": "2Mi" });
        let allocatable: BTreeMap<String, _> = serde_json::from_value(amounts).unwrap();
        let allocatable = crate::requests::amounts(Some(&allocatable));
        let limits = Limits::of_node(&allocatable);
        assert_eq!(
            written(&limits, CgroupVersion::V1),
            [
                "cpu.shares=3584",
                "memory.limit_in_bytes=1048576",
                "pids.max=500"
            ]
        );
        assert_eq!(limits.huge_pages, BTreeMap::from([(2 << 20, 2 << 20)]));
        assert_eq!(
            written(&Limits::of_node(&Amounts::new()), CgroupVersion::V2),
            [""; 0]
        );
    }

    #[test]
    fn no_limit_and_no_process_have_words_of_their_own() {
        let limits = |memory, processes| Limits {
            memory: Some(memory),
            processes: Some(processes),
            ..Limits::default()
        };
        let written = |memory, processes| written(&limits(memory, processes), CgroupVersion::V2);
        assert_eq!(written(0, 0), ["pids.max=1"]);
        assert_eq!(written(-1, -1), ["memory.max=max", "pids.max=max"]);
    }
}
