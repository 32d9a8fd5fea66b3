//! Figures about the socket, under upstream's names.

use types::figures;
use types::figures::Family;

figures! {
    pub(super) struct Metrics {
        pub(super) requests: Vector = Family::counter(
            "kubelet_pod_resources_endpoint_requests_total",
            "[ALPHA] Questions about what pods were given, by version of the interface",
        )
        .by(&["server_api_version"]),
        pub(super) list: Vector = Family::counter(
            "kubelet_pod_resources_endpoint_requests_list",
            "[ALPHA] Questions about all pods, by version of the interface",
        )
        .by(&["server_api_version"]),
        pub(super) get: Vector = Family::counter(
            "kubelet_pod_resources_endpoint_requests_get",
            "[ALPHA] Questions about one pod, by version of the interface",
        )
        .by(&["server_api_version"]),
        pub(super) get_errors: Vector = Family::counter(
            "kubelet_pod_resources_endpoint_errors_get",
            "[ALPHA] Questions about a pod that was not there, by version of the interface",
        )
        .by(&["server_api_version"]),
        pub(super) get_allocatable: Vector = Family::counter(
            "kubelet_pod_resources_endpoint_requests_get_allocatable",
            "[ALPHA] Questions about what can be given to pods, by version of the interface",
        )
        .by(&["server_api_version"]),
    }
}
