use serde_json::json;

use super::*;
use crate::access::certificate_request::tests::request_pem;
use crate::kinds::{
    CERTIFICATE_SIGNING_REQUESTS, CSI_NODES, LEASES, PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS,
};

fn node() -> User {
    User::authenticated("system:node:one", vec!["system:nodes".to_owned()])
}

/// The node `one`, a pod of it, one of another node, and a driver that wants tokens.
fn find(key: &Key) -> Option<Value> {
    let pod = |node: &str, uid: &str| {
        json!({
            "metadata": {"name": key.name, "uid": uid},
            "spec": {"nodeName": node, "volumes": [
                {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"audience": "vault", "path": "t"}}]}},
                {"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "d"}}]}},
                {"name": "c", "csi": {"driver": "driver"}},
                {"name": "v", "persistentVolumeClaim": {"claimName": "claim"}},
            ]},
        })
    };
    match (key.kind.plural, key.name.as_str()) {
        ("nodes", "one") => Some(json!({"metadata": {"name": "one", "uid": "node-uid"}})),
        ("pods", "own") => Some(pod("one", "1")),
        ("pods", "other") => Some(pod("two", "2")),
        ("csidrivers", "driver") => Some(json!({"spec": {"tokenRequests": [{"audience": "csi"}]}})),
        ("csidrivers", "disk") => Some(json!({"spec": {"tokenRequests": [{"audience": "disk"}]}})),
        ("persistentvolumeclaims", "claim") => Some(json!({"spec": {"volumeName": "volume"}})),
        ("persistentvolumes", "volume") => Some(json!({"spec": {"csi": {"driver": "disk"}}})),
        _ => None,
    }
}

fn write<'a>(kind: &'static Kind, path: &'a str, operation: Operation) -> Write<'a> {
    let (name, subresource) = path.split_once('/').unwrap_or((path, ""));
    Write {
        kind,
        subresource,
        namespace: if kind.namespaced { "team" } else { "" },
        name,
        operation,
        object: None,
        old: None,
    }
}

/// The words of the refusal, empty if there is none.
fn refusal(write: &Write<'_>) -> String {
    match admit_with(&node(), write, &find) {
        Ok(()) => String::new(),
        Err(failure) => failure.message,
    }
}

#[track_caller]
fn check(write: &Write<'_>, words: &str) {
    let message = refusal(write);
    assert!(
        message.contains(words) && message.is_empty() == words.is_empty(),
        "{message:?} for {words:?}"
    );
}

fn mirror() -> Value {
    json!({
        "metadata": {
            "name": "static-one",
            "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "one", "uid": "node-uid", "controller": true}],
        },
        "spec": {"nodeName": "one", "containers": []},
    })
}

#[test]
fn a_node_makes_only_mirrors_of_its_own_pods() {
    let with = |path: &str, value: Value| {
        let mut pod = mirror();
        let (parent, key) = path.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value;
        pod
    };
    for (object, words) in [
        (mirror(), ""),
        (
            with("/metadata/annotations", json!({})),
            "can only create mirror pods",
        ),
        (
            with("/spec/nodeName", json!("two")),
            "with spec.nodeName set to itself",
        ),
        (
            with("/metadata/ownerReferences", json!([])),
            "with an owner reference set to itself",
        ),
    ] {
        let object = Some(&object);
        check(
            &Write {
                object,
                ..write(&PODS, "", Operation::Create)
            },
            words,
        );
    }
    let owner = |change: Value| {
        let mut pod = mirror();
        for (key, value) in change.as_object().unwrap() {
            pod["metadata"]["ownerReferences"][0][key] = value.clone();
        }
        pod
    };
    for (object, words) in [
        (
            owner(json!({"name": "two"})),
            "with an owner reference set to itself",
        ),
        (
            owner(json!({"kind": "Pod"})),
            "with an owner reference set to itself",
        ),
        (
            owner(json!({"controller": false})),
            "with a controller owner reference set to itself",
        ),
        (
            owner(json!({"blockOwnerDeletion": true})),
            "must not set blockOwnerDeletion",
        ),
        (
            owner(json!({"uid": "other"})),
            "UID mismatch: expected other got node-uid",
        ),
        (
            with("/spec/serviceAccountName", json!("a")),
            "can not create pods that reference serviceaccounts",
        ),
    ] {
        let object = Some(&object);
        check(
            &Write {
                object,
                ..write(&PODS, "", Operation::Create)
            },
            words,
        );
    }
}

#[test]
fn pods_of_others_are_left_alone() {
    check(&write(&PODS, "own", Operation::Delete), "");
    check(
        &write(&PODS, "other", Operation::Delete),
        "can only delete pods with spec.nodeName set to itself",
    );
    check(&write(&PODS, "gone", Operation::Delete), "not found");
    check(
        &write(&PODS, "own", Operation::Update),
        "can only create and delete mirror pods",
    );
    check(&write(&PODS, "own/eviction", Operation::Create), "");
    check(
        &write(&PODS, "other/eviction", Operation::Create),
        "can only evict pods",
    );
    check(
        &write(&PODS, "own/binding", Operation::Create),
        "unexpected pod subresource \"binding\"",
    );
    let pod = |node: &str, label: &str| json!({"metadata": {"labels": {"a": label}}, "spec": {"nodeName": node}});
    for (old, new, words) in [
        (pod("one", "x"), pod("one", "x"), ""),
        (
            pod("two", "x"),
            pod("two", "x"),
            "can only update pod status for pods with spec.nodeName set to itself",
        ),
        (
            pod("one", "x"),
            pod("one", "y"),
            "cannot update labels through pod status",
        ),
    ] {
        let (old, object) = (Some(&old), Some(&new));
        check(
            &Write {
                object,
                old,
                ..write(&PODS, "own/status", Operation::Update)
            },
            words,
        );
    }
}

#[test]
fn a_node_writes_its_own_node_without_what_steers_work_to_it() {
    let labelled = |key: &str| json!({"metadata": {"name": "one", "labels": {key: "x"}}});
    for (key, words) in [
        ("kubernetes.io/hostname", ""),
        ("topology.kubernetes.io/zone", ""),
        ("node.kubernetes.io/anything", ""),
        ("a.kubelet.kubernetes.io/anything", ""),
        ("team", ""),
        ("example.com/team", ""),
        (
            "node-role.kubernetes.io/control-plane",
            "not allowed to set the following labels: node-role",
        ),
        (
            "a.node-restriction.kubernetes.io/x",
            "not allowed to set the following labels",
        ),
        ("x.k8s.io/y", "not allowed to set the following labels"),
    ] {
        let object = labelled(key);
        let create = Write {
            object: Some(&object),
            ..write(&NODES, "", Operation::Create)
        };
        check(&create, words);
        let (old, modify) = (
            json!({"metadata": {"name": "one"}}),
            if words.is_empty() {
                ""
            } else {
                "modify labels"
            },
        );
        let update = Write {
            object: Some(&object),
            old: Some(&old),
            ..write(&NODES, "one", Operation::Update)
        };
        check(&update, modify);
        let keep = Write {
            object: Some(&object),
            old: Some(&object),
            ..write(&NODES, "one", Operation::Update)
        };
        check(&keep, "");
    }
    check(
        &write(&NODES, "two", Operation::Update),
        "is not allowed to modify node \"two\"",
    );
    check(
        &write(&NODES, "two/status", Operation::Update),
        "is not allowed to modify node \"two\"",
    );
    let (plain, tainted) = (
        json!({"metadata": {"name": "one"}}),
        json!({"metadata": {"name": "one"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    );
    let update = |old, object| Write {
        old: Some(old),
        object: Some(object),
        ..write(&NODES, "one", Operation::Update)
    };
    check(&update(&tainted, &plain), "not allowed to modify taints");
    check(&update(&tainted, &tainted), "");
    let owned = json!({"metadata": {"name": "one", "ownerReferences": [{"uid": "a"}]}});
    check(
        &update(&plain, &owned),
        "not allowed to modify ownerReferences",
    );
    // A first registration may carry taints.
    check(
        &Write {
            object: Some(&tainted),
            ..write(&NODES, "", Operation::Create)
        },
        "",
    );
}

#[test]
fn tokens_are_for_pods_of_the_node_and_audiences_of_the_pod() {
    let request = |name: &str, uid: &str, audiences: &[&str]| json!({"spec": {"audiences": audiences, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}}});
    for (object, words) in [
        (request("own", "1", &[]), ""),
        (request("own", "1", &["vault"]), ""),
        (request("own", "1", &["csi"]), ""),
        (request("own", "1", &["disk"]), ""),
        (
            request("own", "1", &["bank"]),
            "not authorized to request tokens for audience \"bank\"",
        ),
        (
            request("own", "1", &["vault", "csi"]),
            "node may only request 0 or 1 audiences",
        ),
        (
            request("other", "2", &[]),
            "bound to a pod scheduled on a different node",
        ),
        (request("own", "9", &[]), "does not match the UID in record"),
        (request("own", "", &[]), "without a uid"),
        (request("gone", "1", &[]), "not found"),
        (json!({"spec": {}}), "not bound to a pod"),
    ] {
        check(
            &Write {
                object: Some(&object),
                ..write(&SERVICE_ACCOUNTS, "a/token", Operation::Create)
            },
            words,
        );
    }
}

#[test]
fn leases_and_csi_nodes_are_the_nodes_own() {
    let named = |name: &str| json!({"metadata": {"name": name}});
    for (kind, namespace) in [(&LEASES, "kube-node-lease"), (&CSI_NODES, "")] {
        for (name, words) in [
            ("one", ""),
            ("two", "with the same name as the requesting node"),
        ] {
            let object = named(name);
            check(
                &Write {
                    namespace,
                    object: Some(&object),
                    ..write(kind, "", Operation::Create)
                },
                words,
            );
            check(
                &Write {
                    namespace,
                    ..write(kind, name, Operation::Update)
                },
                words,
            );
        }
    }
    check(
        &write(&LEASES, "one", Operation::Update),
        "can only access leases in the \"kube-node-lease\" system namespace",
    );
}

#[test]
fn of_claims_only_what_a_resize_changes() {
    let claim = |capacity: &str, label: &str| json!({"metadata": {"labels": {"a": label}, "resourceVersion": capacity}, "status": {"phase": "Bound", "capacity": {"storage": capacity}}});
    for (old, new, words) in [
        (claim("1Gi", "x"), claim("2Gi", "x"), ""),
        (
            claim("1Gi", "x"),
            claim("1Gi", "y"),
            "is not allowed to update fields other than",
        ),
    ] {
        let (old, object) = (Some(&old), Some(&new));
        check(
            &Write {
                object,
                old,
                ..write(&PERSISTENT_VOLUME_CLAIMS, "c/status", Operation::Update)
            },
            words,
        );
    }
    check(
        &write(&PERSISTENT_VOLUME_CLAIMS, "c", Operation::Update),
        "may only update PVC status",
    );
}

#[test]
fn requests_for_node_certificates_name_the_node() {
    use base64::Engine as _;
    let request = |signer: &str, name: &str| {
        let pem = request_pem(name, "system:nodes", &[]);
        let text = base64::engine::general_purpose::STANDARD.encode(pem);
        json!({"spec": {"signerName": signer, "request": text}})
    };
    for (object, words) in [
        (request(CLIENT_KUBELET_SIGNER, "system:node:one"), ""),
        (request(SERVING_SIGNER, "system:node:one"), ""),
        (
            request(CLIENT_KUBELET_SIGNER, "system:node:two"),
            "can only create a node CSR with CN=system:node:one",
        ),
        (
            request(SERVING_SIGNER, "system:node:two"),
            "can only create a node CSR with CN=system:node:one",
        ),
        (request("example.com/other", "mary"), ""),
        (
            json!({"spec": {"signerName": SERVING_SIGNER, "request": "!"}}),
            "unable to parse csr",
        ),
    ] {
        check(
            &Write {
                object: Some(&object),
                ..write(&CERTIFICATE_SIGNING_REQUESTS, "", Operation::Create)
            },
            words,
        );
    }
}

#[test]
fn others_are_not_restricted() {
    let mary = User::authenticated("mary", Vec::new());
    let delete = write(&PODS, "other", Operation::Delete);
    assert!(admit_with(&mary, &delete, &find).is_ok());
    let nameless = User::authenticated("system:node:", vec!["system:nodes".to_owned()]);
    assert!(admit_with(&nameless, &delete, &find).is_err());
}

#[test]
fn nobody_asks_for_a_certificate_of_the_admins() {
    use base64::Engine as _;
    let request = |signer: &str, group: &str| {
        let pem = request_pem("jane", group, &[]);
        let text = base64::engine::general_purpose::STANDARD.encode(pem);
        json!({"spec": {"signerName": signer, "request": text}})
    };
    let admin = User::authenticated("admin", vec!["system:masters".to_owned()]);
    for (object, allowed) in [
        (request(CLIENT_SIGNER, "dev"), true),
        (request(CLIENT_SIGNER, "system:masters"), false),
        (request("example.com/other", "system:masters"), true),
    ] {
        let create = Write {
            object: Some(&object),
            ..write(&CERTIFICATE_SIGNING_REQUESTS, "", Operation::Create)
        };
        assert_eq!(
            admit_with(&admin, &create, &find).is_ok(),
            allowed,
            "{object}"
        );
    }
}
