use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::testing::{lay_over, node, settings, whole_pod};
use super::{Admitted, Rejection, Settings, admit, fits_labels};

/// What each handler and each predicate objects to, in their order.
fn faults() -> Vec<(&'static str, &'static str, Value)> {
    let port = json!([{ "containerPort": 1, "hostPort": 80 }]);
    vec![
        (
            "SysctlForbidden",
            "forbidden sysctl: \"vm.swappiness\" not allowlisted",
            json!({ "spec": { "securityContext": {
                "sysctls": [{ "name": "vm.swappiness", "value": "0" }],
            } } }),
        ),
        (
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
            json!({ "metadata": { "labels": { "kubernetes.io/os": "windows" } } }),
        ),
        (
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
            json!({ "spec": { "os": { "name": "windows" } } }),
        ),
        (
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
            json!({ "spec": { "securityContext": { "supplementalGroupsPolicy": "Strict" } } }),
        ),
        (
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000",
            json!({ "spec": { "overhead": { "cpu": "3" } } }),
        ),
        (
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            json!({ "spec": { "nodeSelector": { "zone": "b" } } }),
        ),
        (
            "NodeName",
            "Predicate NodeName failed: node(s) didn't match the requested node name",
            json!({ "spec": { "nodeName": "n2" } }),
        ),
        (
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
            json!({ "spec": { "containers": [{ "name": "c", "ports": port }] } }),
        ),
        (
            "TaintToleration",
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
            json!({ "spec": { "tolerations": [] } }),
        ),
        (
            "AppArmor",
            "Cannot enforce AppArmor: invalid empty AppArmor profile name: \
             \"&AppArmorProfile{Type:Localhost,LocalhostProfile:nil,}\"",
            json!({ "spec": { "initContainers": [{ "name": "i", "securityContext": {
                "appArmorProfile": { "type": "Localhost" },
            } }] } }),
        ),
        (
            "PodLevelResourcesNotSupported",
            "PodLevelResources feature gate is disabled",
            json!({ "spec": { "resources": { "limits": { "cpu": "1" } } } }),
        ),
    ]
}

/// A pod that nobody objects to, beside one that has a port, on a node with a taint.
struct Place {
    pod: Value,
    node: Node,
    other: Pod,
    settings: Settings,
}

impl Place {
    fn new() -> Self {
        let port = json!([{ "containerPort": 1, "hostPort": 80 }]);
        let mut settings = settings();
        settings.pod_level_resources = false;
        Self {
            pod: json!({
                "spec": { "tolerations": [{ "operator": "Exists" }], "nodeName": "n1" },
                "status": { "phase": "Pending" },
            }),
            node: node(&json!({ "spec": { "taints": [{ "key": "k", "effect": "NoExecute" }] } })),
            other: whole_pod(&json!({
                "spec": { "containers": [{ "name": "c", "ports": port }] },
            })),
            settings,
        }
    }

    fn admit(&self) -> Result<Admitted, Rejection> {
        let pod = whole_pod(&self.pod);
        admit(&pod, Some(&self.node), &[&self.other], &self.settings)
    }
}

#[test]
fn a_pod_that_nobody_objects_to_is_admitted() {
    assert_eq!(Place::new().admit(), Ok(Admitted::default()));
    let nothing = Pod::default();
    let place = Place::new();
    let node = node(&json!({}));
    assert_eq!(
        admit(&nothing, Some(&node), &[], &place.settings),
        Ok(Admitted::default())
    );
}

/// Who puts a pod on this node has decided that it may be there: gates and other schedulers
/// are the scheduler's affair, upstream's kubelet does not look at them either.
#[test]
fn what_only_the_scheduler_asks_keeps_no_pod_away() {
    let spread =
        json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" });
    for field in [
        json!({ "schedulingGates": [{ "name": "example.com/quota" }] }),
        json!({ "schedulerName": "nobody" }),
        json!({ "topologySpreadConstraints": [spread] }),
    ] {
        let mut place = Place::new();
        lay_over(&mut place.pod, &json!({ "spec": field }));
        assert_eq!(place.admit(), Ok(Admitted::default()), "{field}");
    }
}

#[test]
fn each_rejection_has_its_reason_and_its_message() {
    for (reason, message, fault) in faults() {
        let mut place = Place::new();
        lay_over(&mut place.pod, &fault);
        let rejection = place.admit().unwrap_err();
        assert_eq!(
            (rejection.reason.as_str(), rejection.message.as_str()),
            (reason, message)
        );
        assert_eq!(
            rejection.status_message(),
            format!("Pod was rejected: {message}")
        );
        assert_eq!(rejection.to_string(), message);
        let pod = whole_pod(&place.pod);
        let fits = fits_labels(&pod, &place.node, &place.settings);
        assert_eq!(fits, reason != "NodeAffinity", "{reason}");
    }
}

#[test]
fn the_first_that_objects_is_the_reason() {
    let mut place = Place::new();
    for (reason, _, fault) in faults().into_iter().rev() {
        lay_over(&mut place.pod, &fault);
        assert_eq!(place.admit().unwrap_err().reason, reason);
    }
}

#[test]
fn a_node_that_nobody_knows_takes_no_pods() {
    let pod = whole_pod(&json!({ "spec": { "os": { "name": "windows" } } }));
    let found = admit(&pod, None, &[], &settings());
    let expected = Rejection::new("InvalidNodeInfo", "Kubelet cannot get node info.");
    assert_eq!(found, Err(expected));
}

#[test]
fn a_strict_pod_is_taken_by_a_runtime_that_can_be_strict() {
    let mut place = Place::new();
    for (policy, able, taken) in [
        ("Strict", true, true),
        ("Strict", false, false),
        ("Merge", false, true),
    ] {
        place.pod["spec"]["securityContext"] = json!({ "supplementalGroupsPolicy": policy });
        place.settings.supplemental_groups_policy = able;
        assert_eq!(place.admit().is_ok(), taken, "{policy} {able}");
    }
}

#[test]
fn the_operating_system_is_the_machines_whatever_the_nodes_label_says() {
    let mut place = Place::new();
    place.pod["metadata"] = json!({ "labels": { "kubernetes.io/os": "linux" } });
    place.pod["spec"]["os"] = json!({ "name": "linux" });
    place.pod["spec"]["nodeSelector"] = json!({ "kubernetes.io/os": "linux" });
    assert_eq!(place.admit(), Ok(Admitted::default()));
    for labels in [
        json!({ "kubernetes.io/os": "plan9" }),
        json!({ "zone": "a" }),
    ] {
        place.node.metadata.labels = serde_json::from_value(labels).unwrap();
        assert_eq!(place.admit(), Ok(Admitted::default()));
    }
    // A node without any label is not labelled by this.
    place.node.metadata.labels = None;
    assert_eq!(place.admit().unwrap_err().reason, "NodeAffinity");
    place.pod["spec"]["nodeSelector"] = json!({});
    place.pod["metadata"]["labels"]["kubernetes.io/os"] = json!("plan9");
    let reason = place.admit().unwrap_err().reason;
    assert_eq!(reason, "PodOSSelectorNodeLabelDoesNotMatch");
}

#[test]
fn a_pod_that_names_no_node_is_meant_for_this_one() {
    let mut place = Place::new();
    for name in [json!(null), json!(""), json!("n1")] {
        place.pod["spec"]["nodeName"] = name;
        assert_eq!(place.admit(), Ok(Admitted::default()));
    }
}

#[test]
fn a_static_pod_is_not_driven_away() {
    let mut place = Place::new();
    place.pod["spec"]["tolerations"] = json!([]);
    for (source, stays) in [("file", true), ("http", true), ("api", false)] {
        place.pod["metadata"] = json!({ "annotations": { "kubernetes.io/config.source": source } });
        assert_eq!(place.admit().is_ok(), stays, "{source}");
    }
}

#[test]
fn resources_of_the_pod_are_taken_where_they_are_turned_on() {
    let mut place = Place::new();
    place.pod["spec"]["resources"] = json!({ "requests": { "cpu": "1" } });
    assert!(place.admit().is_err());
    place.settings.pod_level_resources = true;
    assert_eq!(place.admit(), Ok(Admitted::default()));
}

#[test]
fn room_is_made_for_a_critical_pod_that_lacks_nothing_else() {
    let greedy = |uid: &str| {
        let asked = json!({ "requests": { "cpu": "1500m" } });
        whole_pod(&json!({
            "metadata": { "uid": uid },
            "spec": { "containers": [{ "name": "c", "resources": asked }] },
        }))
    };
    let other = greedy("other");
    let node = node(&json!({}));
    let with = |priority: i32, zone: &str| {
        let mut pod = greedy("new");
        let spec = pod.spec.as_mut().unwrap();
        spec.priority = Some(priority);
        spec.node_selector = Some([("zone".to_owned(), zone.to_owned())].into());
        let found = admit(&pod, Some(&node), &[&other], &settings());
        found.map_err(|rejection| rejection.reason)
    };
    let victims = vec![types::PodUid::new("other")];
    let critical = 2_000_000_000;
    let scarce = Some("cpu".to_owned());
    assert_eq!(with(critical, "a"), Ok(Admitted { victims, scarce }));
    assert_eq!(with(critical - 1, "a"), Err("OutOfcpu".to_owned()));
    // What is not about room is told first, and nobody goes for it.
    assert_eq!(with(critical, "b"), Err("NodeAffinity".to_owned()));
    assert_eq!(with(critical - 1, "b"), Err("OutOfcpu".to_owned()));
}
