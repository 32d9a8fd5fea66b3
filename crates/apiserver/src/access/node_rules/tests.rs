use serde_json::json;

use super::*;

/// `verb group/resource[/subresource] [namespace/]name [?selector]`.
fn asked(text: &str) -> Attributes {
    let (text, selector) = text.split_once(" ?").unwrap_or((text, ""));
    let mut words = text.split(' ');
    let verb = words.next().unwrap().to_owned();
    let (group, resource) = words.next().unwrap().split_once('/').unwrap();
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let object = words.next().unwrap_or_default();
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    Attributes {
        verb,
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        field_selector: selector.to_owned(),
        ..Attributes::default()
    }
}

/// A pod on `one` that refers to everything, and one on `two` that refers to nothing.
fn references() -> References {
    let mut references = References::default();
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {
            "nodeName": "one", "containers": [], "serviceAccountName": "account",
            "volumes": [
                {"name": "a", "secret": {"secretName": "secret"}},
                {"name": "b", "configMap": {"name": "map"}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
            ],
        },
    }));
    references.set_pod(&pod.unwrap());
    let other = serde_json::from_value(json!({
        "metadata": {"name": "q", "namespace": "team"},
        "spec": {"nodeName": "two", "containers": []},
    }));
    references.set_pod(&other.unwrap());
    let volume = serde_json::from_value(json!({
        "metadata": {"name": "volume"},
        "spec": {"claimRef": {"namespace": "team", "name": "claim"}},
    }));
    references.set_volume(&volume.unwrap());
    references
}

#[test]
fn a_node_may_do_what_a_kubelet_does() {
    let references = references();
    for text in [
        "get /secrets team/secret",
        "list /secrets team/ ?metadata.name=secret",
        "watch /secrets team/secret",
        "get /configmaps team/map",
        "watch /configmaps team/ ?metadata.name=map",
        "get /persistentvolumeclaims team/claim",
        "update /persistentvolumeclaims/status team/claim",
        "patch /persistentvolumeclaims/status team/claim",
        "get /persistentvolumes volume",
        "get /serviceaccounts team/account",
        "create /serviceaccounts/token team/account",
        "create coordination.k8s.io/leases kube-node-lease/",
        "get coordination.k8s.io/leases kube-node-lease/one",
        "update coordination.k8s.io/leases kube-node-lease/one",
        "delete coordination.k8s.io/leases kube-node-lease/one",
        "create storage.k8s.io/csinodes",
        "patch storage.k8s.io/csinodes one",
        "create /nodes",
        "get /nodes one",
        "list /nodes ?metadata.name=one",
        "update /nodes one",
        "patch /nodes/status one",
        "get /pods team/p",
        "list /pods ?spec.nodeName=one",
        "watch /pods ?spec.nodeName==one",
        "watch /pods team/ ?metadata.name=p",
        "create /pods team/",
        "delete /pods team/p",
        "patch /pods/status team/p",
        "create /pods/eviction team/p",
        "create authentication.k8s.io/tokenreviews",
        "create authorization.k8s.io/subjectaccessreviews",
        "list /services",
        "create /events team/",
        "patch events.k8s.io/events team/e",
        "create certificates.k8s.io/certificatesigningrequests",
        "watch certificates.k8s.io/certificatesigningrequests csr-a",
        "list storage.k8s.io/csidrivers",
        "watch node.k8s.io/runtimeclasses",
    ] {
        assert_eq!(
            authorize("one", &asked(text), &references),
            Ok(()),
            "{text}"
        );
    }
}

#[test]
fn a_node_may_not_do_what_is_others() {
    let references = references();
    let unrelated = "no relationship found between node 'one' and this object";
    for (text, reason) in [
        ("get /secrets team/other", unrelated),
        ("get /secrets other/secret", unrelated),
        ("list /secrets team/", "No Object name found"),
        (
            "list /secrets",
            "can only read namespaced object of this type",
        ),
        (
            "create /secrets team/secret",
            "can only read resources of this type",
        ),
        (
            "delete /configmaps team/map",
            "can only read resources of this type",
        ),
        ("get /configmaps team/other", unrelated),
        ("get /persistentvolumeclaims team/other", unrelated),
        (
            "list /persistentvolumeclaims team/",
            "can only get individual resources of this type",
        ),
        (
            "update /persistentvolumeclaims team/claim",
            "can only get individual resources of this type",
        ),
        (
            "get /persistentvolumeclaims/status team/claim",
            "can only get/update/patch this type",
        ),
        ("patch /persistentvolumeclaims/status team/other", unrelated),
        ("get /persistentvolumes other", unrelated),
        (
            "list /persistentvolumes",
            "can only get individual resources of this type",
        ),
        ("get /serviceaccounts team/other", unrelated),
        (
            "list /serviceaccounts team/",
            "can only create tokens for individual service accounts",
        ),
        (
            "create /serviceaccounts team/account",
            "can only create token subresource of serviceaccount",
        ),
        ("create /serviceaccounts/token team/other", unrelated),
        (
            "get coordination.k8s.io/leases kube-system/one",
            "can only access leases in the \"kube-node-lease\" system namespace",
        ),
        (
            "update coordination.k8s.io/leases kube-node-lease/two",
            "can only access node lease with the same name as the requesting node",
        ),
        (
            "list coordination.k8s.io/leases kube-node-lease/",
            "can only get, create, update, patch, or delete a node lease",
        ),
        (
            "get storage.k8s.io/csinodes two",
            "can only access CSINode with the same name as the requesting node",
        ),
        (
            "list storage.k8s.io/csinodes",
            "can only get, create, update, patch, or delete a CSINode",
        ),
        (
            "update storage.k8s.io/csinodes/status one",
            "cannot authorize CSINode subresources",
        ),
        (
            "get /nodes two",
            "node 'one' cannot read 'two', only its own Node object",
        ),
        (
            "list /nodes",
            "node 'one' cannot read all nodes, only its own Node object",
        ),
        ("delete /nodes one", ""),
        ("get /nodes/proxy one", ""),
        ("get /pods team/q", unrelated),
        (
            "list /pods team/",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "list /pods ?spec.nodeName=two",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "list /pods ?spec.nodeName!=one",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        ("update /pods team/p", ""),
        ("create /pods/binding team/p", ""),
        ("create /pods/exec team/p", ""),
        ("create /services team/", ""),
        ("list /events team/", ""),
        (
            "update certificates.k8s.io/certificatesigningrequests/approval csr-a",
            "",
        ),
        ("delete storage.k8s.io/csidrivers d", ""),
        ("create node.k8s.io/runtimeclasses", ""),
        ("list /namespaces", ""),
        ("create authentication.k8s.io/selfsubjectreviews", ""),
    ] {
        let verdict = authorize("one", &asked(text), &references);
        assert_eq!(verdict, Err(reason.to_owned()), "{text}");
    }
}

#[test]
fn a_node_without_a_name_may_do_nothing() {
    let references = references();
    assert!(authorize("", &asked("list /services"), &references).is_err());
}
