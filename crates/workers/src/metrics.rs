//! Figures about pods and their workers, under upstream's names.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus, ResourceRequirements};
use types::figures;
use types::figures::{Family, SECONDS};
use types::quantity::Quantity;

use crate::plan::Kind;

/// Seconds of a pod's start, up to an hour.
const STARTS: &[f64] = &[
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0,
    300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// Milliseconds of a resize, up to ten minutes.
const RESIZES: &[f64] = &[
    10.0, 50.0, 100.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 20_000.0, 30_000.0, 60_000.0,
    120_000.0, 300_000.0, 600_000.0,
];

/// Reasons of admission that are told apart. Others could be any words.
const REJECTIONS: &[&str] = &[
    "AppArmor",
    "Evicted",
    "InitContainerRestartPolicyForbidden",
    "InvalidNodeInfo",
    "NodeShutdown",
    "OutOfcpu",
    "OutOfephemeral-storage",
    "OutOfmemory",
    "OutOfpods",
    "PodFeatureUnsupported",
    "PodLevelResourcesNotSupported",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "SupplementalGroupsPolicyNotSupported",
    "SysctlForbidden",
    "TopologyAffinityError",
    "UnexpectedAdmissionError",
    "UnexpectedPredicateFailureType",
    "UnknownReason",
    "VolumeAttachmentLimitExceeded",
];

figures! {
    /// What the workers of one node count.
    pub struct Metrics {
        pub(crate) work: Vector = Family::histogram(
            "kubelet_pod_worker_duration_seconds",
            "[ALPHA] Seconds that workers were busy with a pod until they rested, by what woke them",
            SECONDS,
        )
        .by(&["operation_type"]),
        pub(crate) work_began: Histogram = Family::histogram(
            "kubelet_pod_worker_start_duration_seconds",
            "[ALPHA] Seconds from hearing of a pod to the first work on it",
            SECONDS,
        ),
        pub(crate) started: Histogram = Family::histogram(
            "kubelet_pod_start_duration_seconds",
            "[ALPHA] Seconds from hearing of a pod to its running",
            STARTS,
        ),
        pub(crate) started_sli: Histogram = Family::histogram(
            "kubelet_pod_start_sli_duration_seconds",
            "[ALPHA] Seconds from the making of a pod to the API showing it run, less pulls and init containers",
            STARTS,
        ),
        pub(crate) started_total: Histogram = Family::histogram(
            "kubelet_pod_start_total_duration_seconds",
            "[ALPHA] Seconds from the making of a pod to the API showing it run",
            STARTS,
        ),
        pub(crate) first_with_network: Gauge = Family::gauge(
            "kubelet_first_network_pod_start_sli_duration_seconds",
            "[INTERNAL] Of the first pod with a network of its own: seconds from its making to the API showing it run, less pulls and init containers",
        ),
        pub(crate) containers_per_pod: Histogram = Family::histogram(
            "kubelet_containers_per_pod_count",
            "[ALPHA] How many containers pods have",
            &[1.0, 2.0, 4.0, 8.0, 16.0],
        ),
        pub(crate) sandboxes: Counter = Family::counter(
            "kubelet_started_pods_total",
            "[ALPHA] Sandboxes of pods that were to be started",
        ),
        pub(crate) sandbox_failures: Counter = Family::counter(
            "kubelet_started_pods_errors_total",
            "[ALPHA] Sandboxes of pods that could not be started",
        ),
        pub(crate) user_namespaced: Counter = Family::counter(
            "kubelet_started_user_namespaced_pods_total",
            "[BETA] Sandboxes of pods with users of their own that were to be started",
        ),
        pub(crate) user_namespaced_failures: Counter = Family::counter(
            "kubelet_started_user_namespaced_pods_errors_total",
            "[BETA] Sandboxes of pods with users of their own that could not be started",
        ),
        pub(crate) containers: Vector = Family::counter(
            "kubelet_started_containers_total",
            "[ALPHA] Containers that were to be started, by kind",
        )
        .by(&["container_type"]),
        pub(crate) container_failures: Vector = Family::counter(
            "kubelet_started_containers_errors_total",
            "[ALPHA] Containers that could not be started, by kind and reason",
        )
        .by(&["code", "container_type"]),
        pub(crate) terminated: Vector = Family::counter(
            "kubelet_terminated_containers_total",
            "[ALPHA] Containers that ended, by kind, exit code and reason",
        )
        .by(&["container_type", "exit_code", "reason"]),
        pub(crate) desired: Vector = Family::gauge(
            "kubelet_desired_pods",
            "[ALPHA] Pods that the node is to run; static: not from the API server",
        )
        .by(&["static"]),
        pub(crate) active: Vector = Family::gauge(
            "kubelet_active_pods",
            "[ALPHA] Pods that take something of the node, and count when others are let in; static: not from the API server",
        )
        .by(&["static"]),
        pub(crate) mirrors: Gauge = Family::gauge(
            "kubelet_mirror_pods",
            "[ALPHA] Static pods that an object at the API server stands for",
        ),
        pub(crate) working: Vector = Family::gauge(
            "kubelet_working_pods",
            "[ALPHA] Pods that have, or may have, something on the node, by how far they are and whether a source has them",
        )
        .by(&["config", "lifecycle", "static"]),
        pub(crate) orphans: Counter = Family::counter(
            "kubelet_orphaned_runtime_pods_total",
            "[ALPHA] Pods that the runtime had and no source knew",
        ),
        pub(crate) restarted: Vector = Family::counter(
            "kubelet_restarted_pods_total",
            "[ALPHA] Pods that were taken away and wanted again under the same uid",
        )
        .by(&["static"]),
        pub(crate) ephemeral: Gauge = Family::gauge(
            "kubelet_managed_ephemeral_containers",
            "[ALPHA] Ephemeral containers of the node's pods",
        ),
        pub(crate) preempted: Vector = Family::counter(
            "kubelet_preemptions",
            "[ALPHA] Pods that had to make room for a critical one, by what was scarce",
        )
        .by(&["preemption_signal"]),
        pub(crate) rejected: Vector = Family::counter(
            "kubelet_admission_rejections_total",
            "[ALPHA] Pods that were not let in, by reason",
        )
        .by(&["reason"]),
        pub(crate) orphan_directories: Gauge = Family::gauge(
            "kubelet_orphan_pod_cleaned_volumes",
            "[ALPHA] Directories of pods that are gone, found the last time that they were looked for",
        ),
        pub(crate) orphan_directories_failed: Gauge = Family::gauge(
            "kubelet_orphan_pod_cleaned_volumes_errors",
            "[ALPHA] Directories of pods that are gone and could not be removed the last time",
        ),
        pub(crate) plain_hooks: Counter = Family::counter(
            "kubelet_lifecycle_handler_http_fallbacks_total",
            "[ALPHA] Hooks that asked for https and were answered over http",
        ),
        pub(crate) sleeps_cut: Counter = Family::counter(
            "kubelet_sleep_action_terminated_early_total",
            "[ALPHA] Hooks that were to sleep, and were cut short",
        ),
        pub(crate) image_volumes: Counter = Family::counter(
            "kubelet_image_volume_requested_total",
            "[BETA] Image volumes that containers were to have",
        ),
        pub(crate) image_volumes_mounted: Counter = Family::counter(
            "kubelet_image_volume_mounted_succeed_total",
            "[BETA] Image volumes that were mounted",
        ),
        pub(crate) image_volumes_failed: Counter = Family::counter(
            "kubelet_image_volume_mounted_errors_total",
            "[BETA] Image volumes that the runtime could not mount",
        ),
        pub(crate) resize_wishes: Vector = Family::counter(
            "kubelet_container_requested_resizes_total",
            "[ALPHA] Wishes for other resources of containers, by resource, requirement and direction",
        )
        .by(&["operation", "requirement", "resource"]),
        pub(crate) resizes: Vector = Family::histogram(
            "kubelet_pod_resize_duration_milliseconds",
            "[ALPHA] Milliseconds that it took to give a pod other resources, by whether it worked",
            RESIZES,
        )
        .by(&["success"]),
        pub(crate) resizes_pending: Vector = Family::gauge(
            "kubelet_pod_pending_resizes",
            "[ALPHA] Pods that wait for other resources, by why",
        )
        .by(&["reason"]),
        pub(crate) resizes_in_progress: Gauge = Family::gauge(
            "kubelet_pod_in_progress_resizes",
            "[ALPHA] Pods that are on their way to other resources",
        ),
        pub(crate) resizes_infeasible: Vector = Family::counter(
            "kubelet_pod_infeasible_resizes_total",
            "[ALPHA] Wishes for other resources that this node can never meet, by why",
        )
        .by(&["reason_detail"]),
        pub(crate) resizes_accepted_late: Vector = Family::counter(
            "kubelet_pod_deferred_accepted_resizes_total",
            "[ALPHA] Wishes for other resources that waited and were granted, by what made it possible",
        )
        .by(&["retry_trigger"]),
    }
}

/// As upstream's labels call it.
pub(crate) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Init => "init_container",
        Kind::Regular => "container",
        Kind::Ephemeral => "ephemeral_container",
    }
}

/// The label for pods that do not come from the API server.
pub(crate) fn static_word(is_static: bool) -> &'static str {
    if is_static { "true" } else { "" }
}

impl Metrics {
    pub(crate) fn reject(&self, reason: &str) {
        let known = if REJECTIONS.contains(&reason) {
            reason
        } else if reason.starts_with("OutOf") {
            "OutOfExtendedResources"
        } else {
            "Other"
        };
        self.rejected.inc(&[known]);
    }

    /// Containers that have ended since the status before was told.
    pub(crate) fn count_ends(&self, before: Option<&PodStatus>, now: &PodStatus) {
        type List = fn(&PodStatus) -> Option<&Vec<ContainerStatus>>;
        let lists: [(Kind, List); 3] = [
            (Kind::Init, |status| status.init_container_statuses.as_ref()),
            (Kind::Regular, |status| status.container_statuses.as_ref()),
            (Kind::Ephemeral, |status| {
                status.ephemeral_container_statuses.as_ref()
            }),
        ];
        for (kind, list) in lists {
            for status in list(now).into_iter().flatten() {
                let end = status.state.as_ref().and_then(|it| it.terminated.as_ref());
                let Some(end) = end else { continue };
                let mut olds = before.and_then(list).into_iter().flatten();
                let old = olds.find(|old| old.name == status.name);
                let old = old.and_then(|old| old.state.as_ref());
                if old.is_some_and(|old| old.terminated.is_some()) {
                    continue;
                }
                let code = end.exit_code.to_string();
                let reason = end.reason.as_deref().unwrap_or_default();
                self.terminated.inc(&[word(kind), &code, reason]);
            }
        }
    }

    /// What is asked for otherwise than before.
    pub(crate) fn count_wishes(&self, before: &Pod, now: &Pod) {
        let (Some(before), Some(now)) = (&before.spec, &now.spec) else {
            return;
        };
        let old = before
            .init_containers
            .iter()
            .flatten()
            .chain(&before.containers);
        let new = now.init_containers.iter().flatten().chain(&now.containers);
        for (old, new) in old.zip(new) {
            if old.name != new.name || old.resources == new.resources {
                continue;
            }
            for resource in ["cpu", "memory"] {
                for requirement in ["limits", "requests"] {
                    let amount = |resources: Option<&ResourceRequirements>| {
                        amount(resources, requirement, resource)
                    };
                    let both = (
                        amount(old.resources.as_ref()),
                        amount(new.resources.as_ref()),
                    );
                    let operation = match both {
                        (None, Some(_)) => "add",
                        (Some(_), None) => "remove",
                        (Some(old), Some(new)) if new > old => "increase",
                        (Some(old), Some(new)) if new < old => "decrease",
                        _ => continue,
                    };
                    let labels = [operation, requirement, resource];
                    self.resize_wishes.inc(&labels);
                }
            }
        }
    }

    pub(crate) fn infeasible(&self, message: &str) {
        // By upstream's words for it, which users see.
        let detail = if message.contains("CPU Manager") {
            "guaranteed_pod_cpu_manager_static_policy"
        } else if message.contains("Memory Manager") {
            "guaranteed_pod_memory_manager_static_policy"
        } else if message.contains("swap") {
            "swap_limitation"
        } else {
            "plr_feature_gate_off"
        };
        self.resizes_infeasible.inc(&[detail]);
    }
}

/// Nothing counts as none.
fn amount(
    resources: Option<&ResourceRequirements>,
    requirement: &str,
    resource: &str,
) -> Option<Quantity> {
    let resources = resources?;
    let list = match requirement {
        "limits" => resources.limits.as_ref(),
        _ => resources.requests.as_ref(),
    };
    let amount: Quantity = list?.get(resource)?.0.parse().ok()?;
    (amount != Quantity::default()).then_some(amount)
}

/// Counted as long as it is there.
#[derive(Debug)]
pub(crate) struct InProgress(Arc<Metrics>);

impl InProgress {
    pub(crate) fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.resizes_in_progress.add(1.0);
        Self(Arc::clone(metrics))
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.resizes_in_progress.add(-1.0);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use types::figures::{Page, Shown as _};

    use super::*;

    fn samples(metrics: &Metrics, family: &str) -> Vec<String> {
        let mut page = Page::default();
        metrics.show(&mut page);
        let text = page.finish();
        let lines = text.lines().filter_map(|line| line.strip_prefix(family));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn rejections_are_told_apart_by_the_reasons_that_upstream_knows() {
        let metrics = Metrics::default();
        for reason in ["OutOfcpu", "OutOfexample.com/gpu", "NodeAffinity"] {
            metrics.reject(reason);
        }
        let counted = samples(&metrics, "kubelet_admission_rejections_total");
        let expected = [
            "{reason=\"Other\"} 1",
            "{reason=\"OutOfExtendedResources\"} 1",
            "{reason=\"OutOfcpu\"} 1",
        ];
        assert_eq!(counted, expected);
    }

    fn status(state: &Value) -> PodStatus {
        let container = json!({
            "name": "c", "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0,
        });
        serde_json::from_value(json!({ "containerStatuses": [container] })).unwrap()
    }

    #[test]
    fn an_end_is_counted_once() {
        let metrics = Metrics::default();
        let running = status(&json!({ "running": {} }));
        let ended = status(&json!({ "terminated": { "exitCode": 3, "reason": "Error" } }));
        metrics.count_ends(None, &running);
        metrics.count_ends(Some(&running), &ended);
        metrics.count_ends(Some(&ended), &ended);
        let counted = samples(&metrics, "kubelet_terminated_containers_total");
        let labels = "container_type=\"container\",exit_code=\"3\",reason=\"Error\"";
        assert_eq!(counted, [format!("{{{labels}}} 1")]);
    }

    #[test]
    fn wishes_count_by_what_they_change() {
        let pod = |resources: &Value| -> Pod {
            let spec = json!({ "containers": [{ "name": "c", "resources": resources }] });
            serde_json::from_value(json!({ "spec": spec })).unwrap()
        };
        let metrics = Metrics::default();
        let before = pod(&json!({ "requests": { "cpu": "1", "memory": "1Gi" } }));
        let now = json!({ "requests": { "cpu": "1000m" }, "limits": { "memory": "1Gi" } });
        metrics.count_wishes(&before, &pod(&now));
        let less = json!({ "requests": { "cpu": "500m", "memory": "2Gi" } });
        metrics.count_wishes(&before, &pod(&less));
        let counted = samples(&metrics, "kubelet_container_requested_resizes_total");
        let expected = [
            ("add", "limits", "memory"),
            ("decrease", "requests", "cpu"),
            ("increase", "requests", "memory"),
            ("remove", "requests", "memory"),
        ];
        let expected = expected.map(|(operation, requirement, resource)| {
            format!(
                "{{operation=\"{operation}\",requirement=\"{requirement}\",resource=\"{resource}\"}} 1"
            )
        });
        assert_eq!(counted, expected);
    }
}
