//! The rules that a kubelet checks before it does anything else.

use std::collections::BTreeSet;

use types::cpu_set::CpuSet;
use types::duration::GoDuration;
use types::names::{validate_label_key, validate_label_value};
use types::quantity::Quantity;

use super::Check;
use crate::flags::is_memory_type;

const SECOND: GoDuration = GoDuration::from_secs(1);
const NEVER_NEGATIVE: [&str; 9] = [
    "eventBurst",
    "eventRecordQPS",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "maxOpenFiles",
    "maxPods",
    "podsPerCore",
    "registryBurst",
    "registryPullQPS",
];

pub(super) fn run(check: &mut Check<'_>) {
    numbers(check);
    choices(check);
    images(check);
    garbage(check);
    shutdown(check);
    allocatable(check);
    reserved(check);
    taints(check);
    logging(check);
    gated(check);
    paths(check);
    machine(check);
}

fn numbers(check: &mut Check<'_>) {
    check.in_range("nodeLeaseDurationSeconds", 1..=i64::MAX);
    for path in NEVER_NEGATIVE {
        check.in_range(path, 0..=i64::MAX);
    }
    check.in_range("port", 1..=65535);
    for path in ["healthzPort", "readOnlyPort"] {
        check.in_range(path, 0..=65535);
    }
    for path in ["imageGCHighThresholdPercent", "imageGCLowThresholdPercent"] {
        check.in_range(path, 0..=100);
    }
    for path in ["iptablesDropBit", "iptablesMasqueradeBit"] {
        check.in_range(path, 0..=31);
    }
    check.in_range("nodeStatusMaxImages", -1..=i64::MAX);
    check.in_range("oomScoreAdj", -1000..=1000);
    check.in_range("containerLogMaxWorkers", 1..=i64::MAX);
    check.in_range("containerLogMaxFiles", 2..=i64::MAX);
    let interval = check.duration("containerLogMonitorInterval");
    check.require(
        "containerLogMonitorInterval",
        interval >= GoDuration::from_secs(3),
    );
    if check.settings.value("maxParallelImagePulls").is_some() {
        check.in_range("maxParallelImagePulls", 1..=i64::MAX);
    }
    if let Some(factor) = check.settings.value("memoryThrottlingFactor") {
        let fits = factor
            .as_f64()
            .is_some_and(|factor| factor > 0.0 && factor <= 1.0);
        check.require("memoryThrottlingFactor", fits);
    }
    if let Some(rate) = check.settings.value("tracing.samplingRatePerMillion") {
        let fits = rate
            .as_i64()
            .is_some_and(|rate| (0..=1_000_000).contains(&rate));
        check.require("tracing.samplingRatePerMillion", fits);
    }
}

fn choices(check: &mut Check<'_>) {
    let none_to_single = ["none", "best-effort", "restricted", "single-numa-node"];
    check.one_of("topologyManagerPolicy", &none_to_single);
    check.one_of("topologyManagerScope", &["container", "pod"]);
    check.one_of(
        "hairpinMode",
        &["none", "hairpin-veth", "promiscuous-bridge"],
    );
    check.one_of("memorySwap.swapBehavior", &["", "NoSwap", "LimitedSwap"]);
    check.one_of("memoryReservationPolicy", &["None", "TieredReservation"]);
    if check.settings.bool("runOnce") {
        check.fault(
            "runOnce",
            "found true, and this way of running is gone; leave it out",
        );
    }
    let hidden = check.settings.text("showHiddenMetricsForVersion");
    check.require(
        "showHiddenMetricsForVersion",
        ["", "1.35"].contains(&hidden),
    );
    let endpoint = check.settings.text("tracing.endpoint");
    if let Some((scheme, _)) = endpoint.split_once("://") {
        let fits = ["dns", "unix", "unix-abstract"].contains(&scheme);
        check.require("tracing.endpoint", fits);
    }
}

fn images(check: &mut Check<'_>) {
    let settings = check.settings;
    if settings.bool("serializeImagePulls") && settings.int("maxParallelImagePulls") > 1 {
        check.fault(
            "maxParallelImagePulls",
            "more than 1 needs serializeImagePulls: false",
        );
    }
    let policy = settings.text("imagePullCredentialsVerificationPolicy");
    let allowlist = settings.list("preloadedImagesVerificationAllowlist");
    let gate = "KubeletEnsureSecretPulledImages";
    if !check.gates.enabled(gate) {
        let needs = format!("it needs the feature gate {gate}");
        if !policy.is_empty() {
            check.fault("imagePullCredentialsVerificationPolicy", needs.clone());
        }
        if !allowlist.is_empty() {
            check.fault("preloadedImagesVerificationAllowlist", needs);
        }
        return;
    }
    let policies = [
        "NeverVerify",
        "NeverVerifyPreloadedImages",
        "NeverVerifyAllowlistedImages",
        "AlwaysVerify",
    ];
    check.one_of("imagePullCredentialsVerificationPolicy", &policies);
    if !allowlist.is_empty() && policy != "NeverVerifyAllowlistedImages" {
        check.fault(
            "preloadedImagesVerificationAllowlist",
            "it needs imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages",
        );
        return;
    }
    for (index, pattern) in allowlist.iter().enumerate() {
        if check.is_full() {
            return;
        }
        if !is_image_pattern(pattern.as_str().unwrap_or_default()) {
            let path = format!("preloadedImagesVerificationAllowlist[{index}]");
            check.fault(
                &path,
                format!("found {pattern}, and it must be an image without tag and digest, or a prefix that ends in /*"),
            );
        }
    }
}

fn is_image_pattern(pattern: &str) -> bool {
    if pattern != pattern.trim() || pattern.is_empty() {
        return false;
    }
    if let Some(prefix) = pattern.strip_suffix("/*") {
        return !prefix.is_empty() && !prefix.contains('*');
    }
    // A colon in the last part starts a tag; in the first it is a port.
    let last = pattern.rsplit('/').next().unwrap_or(pattern);
    !pattern.contains(['*', '@', ' '])
        && !last.contains(':')
        && !pattern.chars().any(|letter| letter.is_ascii_uppercase())
        && pattern.split('/').all(|part| !part.is_empty())
}

fn garbage(check: &mut Check<'_>) {
    let settings = check.settings;
    let low = settings.int("imageGCLowThresholdPercent");
    let high = settings.int("imageGCHighThresholdPercent");
    if low >= high {
        check.fault(
            "imageGCLowThresholdPercent",
            format!("found {low}, and it must be less than imageGCHighThresholdPercent, {high}"),
        );
    }
    let youngest = check.duration("imageMinimumGCAge");
    let oldest = check.duration("imageMaximumGCAge");
    check.require("imageMinimumGCAge", !youngest.is_negative());
    check.require("imageMaximumGCAge", !oldest.is_negative());
    if oldest > GoDuration::ZERO && oldest <= youngest {
        check.fault(
            "imageMaximumGCAge",
            format!("found {oldest}, and it must be longer than imageMinimumGCAge, {youngest}"),
        );
    }
}

fn shutdown(check: &mut Check<'_>) {
    let all = check.duration("shutdownGracePeriod");
    let critical = check.duration("shutdownGracePeriodCriticalPods");
    let priorities = check.settings.list("shutdownGracePeriodByPodPriority");
    let some = all > GoDuration::ZERO || critical > GoDuration::ZERO;
    if check.gates.enabled("GracefulNodeShutdown") {
        if critical > all {
            check.fault(
                "shutdownGracePeriodCriticalPods",
                format!("found {critical}, and it is part of shutdownGracePeriod, {all}: it cannot be longer"),
            );
        }
        check.require("shutdownGracePeriod", all.is_zero() || all >= SECOND);
        check.require(
            "shutdownGracePeriodCriticalPods",
            critical.is_zero() || critical >= SECOND,
        );
    } else if some {
        check.fault(
            "shutdownGracePeriod",
            "it needs the feature gate GracefulNodeShutdown",
        );
    }
    let gate = "GracefulNodeShutdownBasedOnPodPriority";
    if priorities.is_empty() {
        return;
    }
    if !check.gates.enabled(gate) {
        let needs = format!("it needs the feature gate {gate}");
        check.fault("shutdownGracePeriodByPodPriority", needs);
    } else if some {
        check.fault(
            "shutdownGracePeriodByPodPriority",
            "it takes the place of shutdownGracePeriod and shutdownGracePeriodCriticalPods: set one way or the other",
        );
    }
}

fn allocatable(check: &mut Check<'_>) {
    const PATH: &str = "enforceNodeAllocatable";
    let settings = check.settings;
    let wanted: Vec<&str> = settings
        .list(PATH)
        .iter()
        .filter_map(serde_json::Value::as_str)
        .collect();
    for kind in ["system-reserved", "kube-reserved"] {
        let compressible = format!("{kind}-compressible");
        if wanted.contains(&kind) && wanted.contains(&compressible.as_str()) {
            check.fault(
                PATH,
                format!("{kind} and {compressible} exclude each other"),
            );
        }
    }
    let mut seen = BTreeSet::new();
    for (index, &name) in wanted.iter().enumerate() {
        if check.is_full() {
            return;
        }
        let at = format!("{PATH}[{index}]");
        if !seen.insert(name) {
            check.fault(&at, format!("{name} stands twice"));
            continue;
        }
        let cgroup = match name {
            "pods" => None,
            "system-reserved" | "system-reserved-compressible" => Some("systemReservedCgroup"),
            "kube-reserved" | "kube-reserved-compressible" => Some("kubeReservedCgroup"),
            "none" => {
                if wanted.len() > 1 {
                    check.fault(&at, "none stands for nothing, and so must stand alone");
                }
                continue;
            }
            _ => {
                let row = crate::schema::field(PATH).map_or("", |field| field.allowed);
                check.fault(&at, format!("found {name:?}; the list must be {row}"));
                continue;
            }
        };
        if let Some(cgroup) = cgroup
            && settings.text(cgroup).is_empty()
        {
            check.fault(&at, format!("{name} needs {cgroup} to say which cgroup"));
        }
        if !settings.bool("cgroupsPerQOS") {
            check.fault(&at, format!("{name} needs cgroupsPerQOS: true"));
        }
    }
}

fn reserved(check: &mut Check<'_>) {
    let settings = check.settings;
    if !settings.text("systemCgroups").is_empty() && settings.text("cgroupRoot").is_empty() {
        check.fault("systemCgroups", "it needs cgroupRoot");
    }
    let cpus = settings.text("reservedSystemCPUs");
    if !cpus.is_empty() {
        let other = ["systemReservedCgroup", "kubeReservedCgroup"];
        if let Some(other) = other.iter().find(|path| !settings.text(path).is_empty()) {
            check.fault(
                "reservedSystemCPUs",
                format!("it cannot be combined with {other}"),
            );
        }
        if let Err(error) = cpus.parse::<CpuSet>() {
            check.fault("reservedSystemCPUs", error.to_string());
        }
    }
    let mut seen = BTreeSet::new();
    for (index, reservation) in settings.list("reservedMemory").iter().enumerate() {
        if check.is_full() {
            return;
        }
        let node = reservation["numaNode"].as_i64().unwrap_or_default();
        let limits = reservation["limits"].as_object();
        for (name, amount) in limits.into_iter().flatten() {
            let at = format!("reservedMemory[{index}].limits.{name}");
            if !is_memory_type(name) {
                check.fault(&at, "only memory and hugepages-SIZE can be reserved");
            }
            let amount = amount.as_str().unwrap_or_default().parse::<Quantity>();
            if amount.is_ok_and(|amount| amount.is_zero()) {
                check.fault(&at, "nothing is reserved: leave it out");
            }
            if !seen.insert((node, name.as_str())) {
                check.fault(&at, format!("NUMA node {node} has it already"));
            }
        }
    }
}

fn taints(check: &mut Check<'_>) {
    for (index, taint) in check.settings.list("registerWithTaints").iter().enumerate() {
        if check.is_full() {
            return;
        }
        let text = |name: &str| taint[name].as_str().unwrap_or_default();
        let at = |name: &str| format!("registerWithTaints[{index}].{name}");
        if let Err(error) = validate_label_key(text("key")) {
            check.fault(&at("key"), error.to_string());
        }
        if !text("value").is_empty()
            && let Err(error) = validate_label_value(text("value"))
        {
            check.fault(&at("value"), error.to_string());
        }
        let effects = ["", "NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effects.contains(&text("effect")) {
            let found = text("effect");
            check.fault(
                &at("effect"),
                format!(
                    "found {found:?}, and it must be NoSchedule, PreferNoSchedule or NoExecute"
                ),
            );
        }
        if taint.get("timeAdded").is_some() {
            check.fault(&at("timeAdded"), "the cluster sets it: leave it out");
        }
    }
}

fn logging(check: &mut Check<'_>) {
    let settings = check.settings;
    let flush = check.duration("logging.flushFrequency");
    check.require("logging.flushFrequency", flush > GoDuration::ZERO);
    check.one_of("logging.format", &["text", "json"]);
    let json = settings.text("logging.format") == "json";
    if json && !check.gates.enabled("LoggingBetaOptions") {
        check.fault(
            "logging.format",
            "json needs the feature gate LoggingBetaOptions",
        );
    }
    check.in_range("logging.verbosity", 0..=i64::from(i32::MAX));
    let modules = settings.list("logging.vmodule");
    if json && !modules.is_empty() {
        check.fault("logging.vmodule", "it works with logging.format: text only");
    }
    for (index, module) in modules.iter().enumerate() {
        if check.is_full() {
            return;
        }
        let pattern = module["filePattern"].as_str().unwrap_or_default();
        if pattern.is_empty() || pattern.contains(['=', ',']) {
            check.fault(
                &format!("logging.vmodule[{index}].filePattern"),
                format!("found {pattern:?}, and it must be a pattern without = and ,"),
            );
        }
        if module["verbosity"].as_i64() > Some(i32::MAX.into()) {
            check.fault(
                &format!("logging.vmodule[{index}].verbosity"),
                format!("it must be at most {}", i32::MAX),
            );
        }
    }
    if check.gates.enabled("LoggingAlphaOptions") {
        return;
    }
    for format in ["text", "json"] {
        let split = format!("logging.options.{format}.splitStream");
        let buffer = format!("logging.options.{format}.infoBufferSize");
        let needs = "it needs the feature gate LoggingAlphaOptions";
        if settings.bool(&split) {
            check.fault(&split, needs);
        }
        let size = settings.text(&buffer).parse::<Quantity>();
        if size.is_ok_and(|size| !size.is_zero()) {
            check.fault(&buffer, needs);
        }
    }
}

fn gated(check: &mut Check<'_>) {
    let settings = check.settings;
    if settings.bool("serverTLSBootstrap") && !check.gates.enabled("RotateKubeletServerCertificate")
    {
        check.fault(
            "serverTLSBootstrap",
            "it needs the feature gate RotateKubeletServerCertificate",
        );
    }
    let period = check.duration("cpuCFSQuotaPeriod");
    if check.gates.enabled("CustomCPUCFSQuotaPeriod") {
        let fits = (GoDuration::from_millis(1)..=SECOND).contains(&period);
        check.require("cpuCFSQuotaPeriod", fits);
    } else if period != GoDuration::from_millis(100) {
        check.fault(
            "cpuCFSQuotaPeriod",
            format!("{period} needs the feature gate CustomCPUCFSQuotaPeriod; without it only 100ms is allowed"),
        );
    }
    let path = "crashLoopBackOff.maxContainerRestartPeriod";
    let longest = settings.value(path).map(|_| check.duration(path));
    match longest {
        Some(longest) if check.gates.enabled("KubeletCrashLoopBackOffMax") => {
            // Whole milliseconds count.
            let millis = longest.as_nanos() / 1_000_000;
            check.require(path, (1000..=300_000).contains(&millis));
        }
        Some(_) => check.fault(path, "it needs the feature gate KubeletCrashLoopBackOffMax"),
        None => {}
    }
    let memory = check.gates.enabled("MemoryQoS");
    if !memory && settings.text("memoryReservationPolicy") == "TieredReservation" {
        check.fault(
            "memoryReservationPolicy",
            "TieredReservation needs the feature gate MemoryQoS",
        );
    }
    if settings.bool("enableSystemLogQuery") && !settings.bool("enableSystemLogHandler") {
        check.fault(
            "enableSystemLogQuery",
            "it needs enableSystemLogHandler: true",
        );
    }
}

fn paths(check: &mut Check<'_>) {
    let endpoint = check.settings.text("containerRuntimeEndpoint");
    check.require("containerRuntimeEndpoint", !endpoint.is_empty());
    let logs = check.settings.text("podLogsDir");
    let fits = logs.is_ascii() && logs.starts_with('/') && is_normal(logs);
    check.require("podLogsDir", fits);
    let path = "userNamespaces.idsPerPod";
    if let Some(ids) = check.settings.value(path) {
        let fits = ids
            .as_i64()
            .is_some_and(|ids| (65536..=i64::from(u32::MAX)).contains(&ids) && ids % 65536 == 0);
        check.require(path, fits);
    }
}

/// A path that says the same thing in no shorter way.
fn is_normal(path: &str) -> bool {
    path == "/"
        || path
            .split('/')
            .skip(1)
            .all(|part| !["", ".", ".."].contains(&part))
}

fn machine(check: &mut Check<'_>) {
    let Some(machine) = check.machine else {
        return;
    };
    if machine.cgroup_v1 && check.settings.bool("failCgroupV1") {
        check.fault(
            "failCgroupV1",
            "this machine has cgroup v1, and the kubelet was told not to start on such: move the machine to cgroup v2, or set failCgroupV1: false",
        );
    }
    let single = check.settings.value("singleProcessOOMKill");
    if machine.cgroup_v1 && single.and_then(serde_json::Value::as_bool) == Some(false) {
        check.fault(
            "singleProcessOOMKill",
            "false needs cgroup v2, and this machine has v1",
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::faults;

    #[test]
    fn every_rule_refuses_what_it_should() {
        let bad: &[(&str, Value)] = &[
            ("nodeLeaseDurationSeconds", json!(-1)),
            ("eventBurst", json!(-1)),
            ("eventRecordQPS", json!(-1)),
            ("healthzPort", json!(65536)),
            ("cpuCFSQuotaPeriod", json!("2s")),
            ("imageGCLowThresholdPercent", json!(90)),
            ("imageMinimumGCAge", json!("-1s")),
            ("iptablesDropBit", json!(32)),
            ("nodeStatusMaxImages", json!(-2)),
            ("oomScoreAdj", json!(1001)),
            ("port", json!(70000)),
            ("readOnlyPort", json!(-1)),
            ("maxParallelImagePulls", json!(0)),
            ("runOnce", json!(true)),
            ("topologyManagerPolicy", json!("all")),
            ("topologyManagerScope", json!("all")),
            ("shutdownGracePeriod", json!("10ms")),
            ("memorySwap.swapBehavior", json!("Swap")),
            ("crashLoopBackOff.maxContainerRestartPeriod", json!("301s")),
            ("hairpinMode", json!("x")),
            ("imagePullCredentialsVerificationPolicy", json!("x")),
            ("reservedSystemCPUs", json!("x")),
            ("showHiddenMetricsForVersion", json!("1.34")),
            ("logging.format", json!("xml")),
            ("tracing.samplingRatePerMillion", json!(1_000_001)),
            ("tracing.endpoint", json!("http://x")),
            ("memoryThrottlingFactor", json!(1.5)),
            ("memoryReservationPolicy", json!("TieredReservation")),
            ("containerLogMaxFiles", json!(1)),
            ("containerLogMonitorInterval", json!("2s")),
            ("podLogsDir", json!("/a/../b")),
            ("userNamespaces.idsPerPod", json!(65537)),
            ("systemCgroups", json!("/x")),
        ];
        for (path, value) in bad {
            let found = faults(&[(path, value.clone())]);
            assert_eq!(found, [*path], "{value}");
        }
    }

    #[test]
    fn fields_are_judged_together() {
        for (given, expected) in [
            (
                vec![
                    ("serializeImagePulls", json!(true)),
                    ("maxParallelImagePulls", json!(2)),
                ],
                vec!["maxParallelImagePulls"],
            ),
            (
                vec![("shutdownGracePeriodCriticalPods", json!("10s"))],
                vec!["shutdownGracePeriodCriticalPods"],
            ),
            (
                vec![("enforceNodeAllocatable", json!(["pods", "none"]))],
                vec!["enforceNodeAllocatable[1]"],
            ),
            (
                vec![("enforceNodeAllocatable", json!(["kube-reserved"]))],
                vec!["enforceNodeAllocatable[0]"],
            ),
            (
                vec![("cgroupsPerQOS", json!(false))],
                vec!["enforceNodeAllocatable[0]"],
            ),
            (
                vec![("imageMaximumGCAge", json!("1m"))],
                vec!["imageMaximumGCAge"],
            ),
            (
                vec![(
                    "reservedMemory",
                    json!([{"numaNode": 0, "limits": {"memory": "1Gi"}},
                           {"numaNode": 0, "limits": {"memory": "0", "cpu": "1"}}]),
                )],
                vec![
                    "reservedMemory[1].limits.cpu",
                    "reservedMemory[1].limits.memory",
                    "reservedMemory[1].limits.memory",
                ],
            ),
            (
                vec![(
                    "registerWithTaints",
                    json!([{"key": "", "effect": "Never"}]),
                )],
                vec!["registerWithTaints[0].key", "registerWithTaints[0].effect"],
            ),
            (
                vec![
                    ("logging.format", json!("json")),
                    (
                        "logging.vmodule",
                        json!([{"filePattern": "a", "verbosity": 1}]),
                    ),
                ],
                vec!["logging.vmodule"],
            ),
            (
                vec![
                    ("featureGates", json!({"CustomCPUCFSQuotaPeriod": false})),
                    ("cpuCFSQuotaPeriod", json!("50ms")),
                ],
                vec!["cpuCFSQuotaPeriod"],
            ),
        ] {
            assert_eq!(faults(&given), expected, "{given:?}");
        }
    }

    #[test]
    fn image_patterns_have_neither_tag_nor_stray_stars() {
        for good in ["nginx", "registry.lab:5000/a/b", "registry.lab/a/*", "a/*"] {
            assert!(super::is_image_pattern(good), "{good}");
        }
        for bad in [
            "",
            " a",
            "a:1",
            "a@sha256:0",
            "*",
            "/*",
            "a*/b",
            "a/*/*",
            "A/b",
        ] {
            assert!(!super::is_image_pattern(bad), "{bad}");
        }
    }
}
