use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use k8s_openapi::api::core::v1::Pod;
use resources::linux::{MemoryQos, Swap};
use resources::{
    Asked, CgroupDriver, CgroupName, Enforcement, Layout, Overhead, PodCgroups, QosClass, requests,
};
use seams::host::CgroupVersion;
use serde_json::{Value, json};
use testkit::clock::TokioClock;

use crate::kernel::Kernel;

const PAGE: u64 = 2 << 20;
const PROCESSES: i64 = 1024;

fn enforcement(version: CgroupVersion) -> Enforcement {
    Enforcement {
        version,
        cpu_quota: true,
        quota_period: 100_000,
        kill_single_process: false,
        swap: Swap::NoSwap,
        memory: 1 << 33,
        huge_page_sizes: vec![PAGE],
        memory_qos: None,
    }
}

fn pod(uid: &str, spec: &Value) -> Pod {
    serde_json::from_value(json!({ "metadata": { "uid": uid }, "spec": spec })).unwrap()
}

/// One of each class, and those whose values come from elsewhere than containers.
fn pods() -> Vec<Pod> {
    let with = |requests: &Value, limits: &Value| json!([{ "name": "c", "resources": { "requests": requests, "limits": limits } }]);
    let full = json!({ "cpu": "500m", "memory": "1Mi", "hugepages-2Mi": "4Mi" });
    let asking = json!({ "cpu": "250m", "memory": "1Mi" });
    let none = json!(null);
    vec![
        pod("g-1", &json!({ "containers": with(&full, &full) })),
        pod("b-1", &json!({ "containers": with(&asking, &none) })),
        pod(
            "b-2",
            &json!({
                "containers": with(&asking, &json!({ "cpu": "1", "memory": "2Mi" })),
                "overhead": { "cpu": "250m", "memory": "1Mi" },
            }),
        ),
        pod(
            "b-3",
            &json!({
                "containers": with(&none, &none),
                "resources": { "requests": { "cpu": "1" }, "limits": { "cpu": "2", "memory": "3Mi" } },
            }),
        ),
        pod("e-1", &json!({ "containers": with(&none, &none) })),
    ]
}

/// Everything that is written for the pods, by group.
fn written(
    driver: CgroupDriver,
    enforcement: &Enforcement,
) -> Vec<(String, BTreeMap<String, String>)> {
    let kernel = Arc::new(Kernel::new(enforcement.version));
    let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
    let layout = Layout::new(driver, &CgroupName::parse("/").unwrap());
    let cgroups = PodCgroups::new(
        kernel.clone(),
        clock,
        layout.clone(),
        enforcement.clone(),
        PROCESSES,
        Arc::default(),
    )
    .unwrap();
    let allocatable =
        json!({ "cpu": "4", "memory": "8Gi", "pid": "30000", "hugepages-2Mi": "8Mi" });
    let allocatable: BTreeMap<String, _> = serde_json::from_value(allocatable).unwrap();
    cgroups
        .set_up(&requests::amounts(Some(&allocatable)))
        .unwrap();
    for pod in pods() {
        assert!(!cgroups.has(&pod).unwrap());
        cgroups.ensure(&pod).unwrap();
        assert!(cgroups.has(&pod).unwrap());
    }
    let (mut milli_cpu, mut memory) = (0, Asked::default());
    for pod in pods() {
        let asked = requests::pod_requests(pod.spec.as_ref().unwrap(), Overhead::Included);
        let bytes = asked.get("memory").map_or(0, types::Quantity::value);
        match QosClass::of(&pod) {
            QosClass::Guaranteed => memory.guaranteed += bytes,
            QosClass::Burstable => {
                memory.burstable += bytes;
                milli_cpu += asked["cpu"].milli_value();
            }
            QosClass::BestEffort => {}
        }
    }
    cgroups.share(milli_cpu, memory).unwrap();
    let classes = [QosClass::Burstable, QosClass::BestEffort].map(|class| layout.class(class));
    let names = std::iter::once(layout.pods().clone()).chain(classes);
    let names = names.chain(pods().into_iter().map(|pod| cgroups.name_of(&pod)));
    names
        .map(|name| {
            let path = layout.path(&name).display().to_string();
            let values = kernel.values(&path);
            (path, values)
        })
        .collect()
}

fn lines(groups: &[(String, BTreeMap<String, String>)]) -> Vec<String> {
    let line = |(group, values): &(String, BTreeMap<String, String>)| {
        let values: Vec<String> = values
            .iter()
            .map(|(file, value)| format!("{file}={value}"))
            .collect();
        format!("{group}: {}", values.join(" "))
    };
    groups.iter().map(line).collect()
}

/// The groups in the order of [`written`].
const CGROUPFS: [&str; 8] = [
    "/kubepods",
    "/kubepods/burstable",
    "/kubepods/besteffort",
    "/kubepods/podg-1",
    "/kubepods/burstable/podb-1",
    "/kubepods/burstable/podb-2",
    "/kubepods/burstable/podb-3",
    "/kubepods/besteffort/pode-1",
];
const SYSTEMD: [&str; 8] = [
    "/kubepods.slice",
    "/kubepods.slice/kubepods-burstable.slice",
    "/kubepods.slice/kubepods-besteffort.slice",
    "/kubepods.slice/kubepods-podg_1.slice",
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podb_1.slice",
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podb_2.slice",
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podb_3.slice",
    "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pode_1.slice",
];

const UNBOUNDED: &str = "4611686018427387904";

/// The groups of each driver have these values, one after the other.
fn hold_for_both_drivers(version: CgroupVersion, expected: &[String]) {
    for (driver, groups) in [
        (CgroupDriver::Cgroupfs, CGROUPFS),
        (CgroupDriver::Systemd, SYSTEMD),
    ] {
        let found = lines(&written(driver, &enforcement(version)));
        let expected: Vec<String> = groups
            .iter()
            .zip(expected)
            .map(|(group, values)| format!("{group}: {values}"))
            .collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn version_1_has_shares_quotas_and_limits_for_both_drivers() {
    let pages = |bytes: &str| {
        format!("hugetlb.2MB.limit_in_bytes={bytes} hugetlb.2MB.rsvd.limit_in_bytes={bytes}")
    };
    let (unbounded, none) = (pages(UNBOUNDED), pages("0"));
    let expected = [
        format!("cpu.shares=4096 {unbounded} memory.limit_in_bytes=8589934592 pids.max=30000"),
        // 250 + 500 + 1000 thousandths.
        format!("cpu.shares=1792 {unbounded}"),
        format!("cpu.shares=2 {unbounded}"),
        format!(
            "cpu.cfs_period_us=100000 cpu.cfs_quota_us=50000 cpu.shares=512 {} memory.limit_in_bytes=1048576 pids.max=1024",
            pages("4194304")
        ),
        format!("cpu.shares=256 {none} pids.max=1024"),
        format!(
            "cpu.cfs_period_us=100000 cpu.cfs_quota_us=125000 cpu.shares=512 {none} memory.limit_in_bytes=3145728 pids.max=1024"
        ),
        format!(
            "cpu.cfs_period_us=100000 cpu.cfs_quota_us=200000 cpu.shares=1024 {none} memory.limit_in_bytes=3145728 pids.max=1024"
        ),
        format!("cpu.shares=2 {none} pids.max=1024"),
    ];
    hold_for_both_drivers(CgroupVersion::V1, &expected);
}

#[test]
fn version_2_has_weights_and_limits_for_both_drivers() {
    let pages = |bytes: &str| format!("hugetlb.2MB.max={bytes} hugetlb.2MB.rsvd.max={bytes}");
    let (unbounded, none) = (pages(UNBOUNDED), pages("0"));
    let expected = [
        format!("cpu.weight=157 {unbounded} memory.max=8589934592 pids.max=30000"),
        format!("cpu.weight=69 {unbounded}"),
        format!("cpu.weight=1 {unbounded}"),
        format!(
            "cpu.max=50000 100000 cpu.weight=20 {} memory.max=1048576 pids.max=1024",
            pages("4194304")
        ),
        format!("cpu.weight=10 {none} pids.max=1024"),
        format!("cpu.max=125000 100000 cpu.weight=20 {none} memory.max=3145728 pids.max=1024"),
        format!("cpu.max=200000 100000 cpu.weight=39 {none} memory.max=3145728 pids.max=1024"),
        format!("cpu.weight=1 {none} pids.max=1024"),
    ];
    hold_for_both_drivers(CgroupVersion::V2, &expected);
}

#[test]
fn memory_that_is_kept_for_pods_is_kept_for_the_groups_above_them_on_version_2() {
    let with = |version| Enforcement {
        memory_qos: Some(MemoryQos {
            throttling: 0.9,
            reserve: true,
            page: 4096,
            allocatable: 1 << 33,
        }),
        ..enforcement(version)
    };
    let kept = |version| -> Vec<String> {
        let groups = written(CgroupDriver::Cgroupfs, &with(version));
        let only = groups.into_iter().map(|(group, mut values)| {
            values.retain(|file, _| ["memory.min", "memory.low"].contains(&file.as_str()));
            (group, values)
        });
        let only: Vec<_> = only.filter(|(_, values)| !values.is_empty()).collect();
        lines(&only)
    };
    let expected = [
        "/kubepods: memory.min=4194304",
        "/kubepods/burstable: memory.low=3145728",
        "/kubepods/podg-1: memory.min=1048576",
        "/kubepods/burstable/podb-1: memory.low=1048576",
        "/kubepods/burstable/podb-2: memory.low=2097152",
    ];
    assert_eq!(kept(CgroupVersion::V2), expected);
    assert_eq!(kept(CgroupVersion::V1), [""; 0]);
}
