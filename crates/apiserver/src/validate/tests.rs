use serde_json::{Value, json};

use super::*;
use crate::kinds;

fn message(outcome: Result<(), Failure>) -> String {
    outcome.unwrap_err().message
}

fn stored(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = "5".into();
    object["metadata"]["uid"] = "u".into();
    object
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "a", "namespace": "d"},
        "spec": {
            "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}],
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    })
}

/// The words about a pod that was changed, of an update or of a status.
fn changed(subresource: &str, change: impl Fn(&mut Value)) -> Result<(), Failure> {
    let old = stored(&pod());
    let mut new = old.clone();
    change(&mut new);
    match subresource {
        "" => update(&kinds::PODS, &new, &old),
        subresource => update_subresource(&kinds::PODS, subresource, &new, &old),
    }
}

#[test]
fn little_of_a_pod_can_change() {
    assert_eq!(create(&kinds::PODS, &pod()), Ok(()));
    assert_eq!(changed("", |_| ()), Ok(()));
    assert_eq!(
        changed("", |pod| pod["spec"]["containers"][0]["image"] = "j".into()),
        Ok(())
    );
    assert_eq!(
        changed("", |pod| pod["spec"]["activeDeadlineSeconds"] = 5.into()),
        Ok(())
    );
    let more = json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}, {"operator": "Exists"}]);
    assert_eq!(
        changed("", |pod| pod["spec"]["tolerations"] = more.clone()),
        Ok(())
    );
    let words = message(changed("", |pod| pod["spec"]["hostname"] = "h".into()));
    assert!(words.starts_with("Pod \"a\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"), "{words}");
    assert!(words.ends_with("  spec.hostname: null -> \"h\""), "{words}");
    let words = message(changed("", |pod| pod["spec"]["tolerations"] = json!([])));
    assert!(words.contains("spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"), "{words}");
    let words = message(changed("", |pod| {
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    }));
    assert!(
        words.contains("may not add mirror pod annotation"),
        "{words}"
    );
}

/// What is asked for, and the words about it.
type Resize<'a> = (&'a dyn Fn(&mut Value), Option<&'a str>);

#[test]
fn a_resize_changes_cpu_and_memory_and_nothing_else() {
    let mut old = stored(&pod());
    let amounts = json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"});
    let container = |name: &str| {
        let mut container = old["spec"]["containers"][0].clone();
        container["name"] = name.into();
        container["resources"] = json!({"requests": amounts, "limits": amounts});
        container
    };
    let containers = json!([container("a"), container("b")]);
    let init = json!([container("i")]);
    old["spec"]["containers"] = containers;
    old["spec"]["initContainers"] = init;
    old["status"]["qosClass"] = "Guaranteed".into();
    let resized = |old: &Value, change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new["spec"]);
        let outcome = update_subresource(&kinds::PODS, "resize", &new, old);
        let words = outcome.err().map(|failure| failure.message);
        words.map(|words| {
            words
                .trim_start_matches("Pod \"a\" is invalid: ")
                .to_owned()
        })
    };
    let cases: [Resize<'_>; 12] = [
        (&|_| (), None),
        (
            &|spec| {
                for list in ["requests", "limits"] {
                    spec["containers"][1]["resources"][list]["cpu"] = "2".into();
                    spec["initContainers"][0]["resources"][list]["memory"] = "2Gi".into();
                }
            },
            None,
        ),
        // The same amount in other words.
        (
            &|spec| {
                spec["containers"][0]["resources"]["limits"]["ephemeral-storage"] = "1024Mi".into();
            },
            None,
        ),
        (
            &|spec| spec["containers"][0]["resources"]["requests"]["cpu"] = "500m".into(),
            Some(
                "spec: Invalid value: \"Guaranteed\": Pod QOS Class may not change as a result of resizing",
            ),
        ),
        (
            &|spec| {
                for list in ["requests", "limits"] {
                    spec["containers"][0]["resources"][list]["ephemeral-storage"] = "2Gi".into();
                }
            },
            Some("spec: Forbidden: only cpu and memory resources are mutable"),
        ),
        (
            &|spec| {
                for list in ["requests", "limits"] {
                    spec["initContainers"][0]["resources"][list]["ephemeral-storage"] =
                        "2Gi".into();
                }
            },
            Some(
                "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable",
            ),
        ),
        (
            &|spec| {
                let resources = spec["containers"][0]["resources"].as_object_mut().unwrap();
                resources.remove("limits");
            },
            Some(
                "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
            ),
        ),
        (
            &|spec| spec["containers"].as_array_mut().unwrap().swap(0, 1),
            Some(
                "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize",
            ),
        ),
        (
            &|spec| drop(spec["containers"].as_array_mut().unwrap().pop()),
            Some("spec.containers: Forbidden: containers may not be added or removed on resize"),
        ),
        (
            &|spec| spec["initContainers"] = json!([]),
            Some(
                "spec.initContainers: Forbidden: initContainers may not be added or removed on resize",
            ),
        ),
        (
            &|spec| {
                spec["containers"][0]["resizePolicy"] =
                    json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
            },
            Some("spec: Forbidden: only cpu and memory resources are mutable"),
        ),
        (
            &|spec| spec["hostname"] = "h".into(),
            Some("spec: Forbidden: only cpu and memory resources are mutable"),
        ),
    ];
    for (index, (change, expected)) in cases.into_iter().enumerate() {
        let found = resized(&old, change);
        match expected {
            None => assert_eq!(found, None, "case {index}"),
            Some(words) => assert!(
                found.as_ref().is_some_and(|found| found.contains(words)),
                "case {index}: {found:?}"
            ),
        }
    }
    let with = |change: &dyn Fn(&mut Value)| {
        let mut old = old.clone();
        change(&mut old);
        resized(&old, &|_| ())
    };
    let mirror = json!({"kubernetes.io/config.mirror": "x"});
    assert_eq!(
        with(&|pod| pod["metadata"]["annotations"] = mirror.clone()).as_deref(),
        Some("Forbidden: static pods cannot be resized")
    );
    let old_node = json!([{"name": "a", "state": {"running": {}}}]);
    assert_eq!(
        with(&|pod| pod["status"]["containerStatuses"] = old_node.clone()).as_deref(),
        Some("spec: Forbidden: Pod running on node without support for resize")
    );
    let mut whole = old.clone();
    whole["spec"]["resources"] =
        json!({"limits": {"cpu": "4", "memory": "4Gi"}, "requests": {"cpu": "4", "memory": "4Gi"}});
    let more = resized(&whole, &|spec| {
        for list in ["requests", "limits"] {
            spec["resources"][list]["cpu"] = "5".into();
        }
    });
    assert_eq!(more, None);
    let removed = resized(&whole, &|spec| spec["resources"] = Value::Null);
    let words = "spec.resources: Forbidden: pod-level resources cannot be removed";
    assert!(
        removed.as_ref().is_some_and(|found| found.contains(words)),
        "{removed:?}"
    );
}

#[test]
fn metadata_stays_what_it_is() {
    let words = message(changed("", |pod| pod["metadata"]["uid"] = "v".into()));
    assert!(
        words.contains("metadata.uid: Invalid value: \"v\": field is immutable"),
        "{words}"
    );
    let words = message(changed("", |pod| {
        pod["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
    }));
    assert!(
        words.contains(
            "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        ),
        "{words}"
    );
    let mut old = stored(&pod());
    old["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!(["example.com/a"]);
    let words = message(update(&kinds::PODS, &new, &old));
    assert!(
        words.contains("found new finalizers []string{\"example.com/a\"}"),
        "{words}"
    );
}

#[test]
fn a_kubelet_may_not_say_everything() {
    assert_eq!(
        changed("status", |pod| pod["status"]["phase"] = "Running".into()),
        Ok(())
    );
    let words = message(changed("status", |pod| {
        pod["status"]["qosClass"] = "Guaranteed".into();
    }));
    assert!(
        words.contains("status.qosClass: Invalid value: \"Guaranteed\": field is immutable"),
        "{words}"
    );
    let words = message(changed("status", |pod| {
        pod["status"]["podIPs"] = json!([{"ip": "x"}, {"ip": "1.2.3.4"}]);
    }));
    assert!(
        words.contains("status.podIPs[0]: Invalid value: \"x\": must be a valid IP address"),
        "{words}"
    );
    assert!(
        words.contains("may specify no more than one IP for each IP family"),
        "{words}"
    );
    let both = json!([{"ip": "1.2.3.4"}, {"ip": "2001:db8::1"}]);
    assert_eq!(
        changed("status", |pod| pod["status"]["podIPs"] = both.clone()),
        Ok(())
    );
}

#[test]
fn ephemeral_containers_are_only_added() {
    let one = json!([{"name": "e", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}]);
    assert_eq!(
        changed(
            "ephemeralcontainers",
            |pod| pod["spec"]["ephemeralContainers"] = one.clone()
        ),
        Ok(())
    );
    let mut old = stored(&pod());
    old["spec"]["ephemeralContainers"] = one.clone();
    let words = message(update_subresource(
        &kinds::PODS,
        "ephemeralcontainers",
        &stored(&pod()),
        &old,
    ));
    assert!(
        words.contains("existing ephemeral containers \"e\" may not be removed"),
        "{words}"
    );
    let probed = json!([{"name": "e", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File",
        "targetContainerName": "x", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]);
    let words = message(changed("ephemeralcontainers", |pod| {
        pod["spec"]["ephemeralContainers"] = probed.clone();
    }));
    assert!(
        words.contains(
            "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container"
        ),
        "{words}"
    );
    assert!(
        words.contains("spec.ephemeralContainers[0].targetContainerName: Not found: \"x\""),
        "{words}"
    );
}

#[test]
fn what_was_decided_of_a_request_stays() {
    let conditions = |list: Value| json!({"metadata": {"name": "r", "resourceVersion": "1"}, "spec": {"request": "", "usages": ["client auth"], "signerName": "example.com/s"}, "status": {"conditions": list}});
    let approved = json!([{"type": "Approved", "status": "True"}]);
    let words = |subresource: &str, new: Value, old: Value| {
        message(update_subresource(
            &kinds::CERTIFICATE_SIGNING_REQUESTS,
            subresource,
            &conditions(new),
            &conditions(old),
        ))
    };
    assert!(
        words("approval", json!(null), approved.clone())
            .contains("updates may not remove a condition of type \"Approved\"")
    );
    assert!(
        words("status", approved.clone(), json!(null))
            .contains("updates may not add a condition of type \"Approved\"")
    );
    assert!(!words("approval", approved.clone(), json!(null)).contains("updates may not"));
    let both =
        json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "False"}]);
    let said = words("approval", both, json!(null));
    assert!(
        said.contains("Approved and Denied conditions are mutually exclusive"),
        "{said}"
    );
    assert!(
        said.contains(
            "status.conditions[1].status: Unsupported value: \"False\": supported values: \"True\""
        ),
        "{said}"
    );
}

#[test]
fn others_have_fields_that_stay() {
    let frozen = json!({"metadata": {"name": "c", "namespace": "d", "resourceVersion": "1"}, "immutable": true, "data": {"a": "b"}});
    let mut new = frozen.clone();
    new["data"]["a"] = "c".into();
    assert!(
        message(update(&kinds::CONFIG_MAPS, &new, &frozen))
            .contains("data: Forbidden: field is immutable when `immutable` is set")
    );
    let node = json!({"metadata": {"name": "n", "resourceVersion": "1"}, "spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "x"}});
    let mut new = node.clone();
    new["spec"]["podCIDRs"] = json!(["10.0.1.0/24"]);
    new["spec"]["providerID"] = "y".into();
    let words = message(update(&kinds::NODES, &new, &node));
    assert!(
        words.contains("spec.podCIDRs: Forbidden: node updates may not change podCIDR")
            && words.contains("spec.providerID"),
        "{words}"
    );
    let claim = json!({"metadata": {"name": "c", "namespace": "d", "resourceVersion": "1"}, "status": {"phase": "Bound"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "volumeName": "v"}});
    let mut new = claim.clone();
    new["spec"]["resources"]["requests"]["storage"] = "3Gi".into();
    assert_eq!(
        update(&kinds::PERSISTENT_VOLUME_CLAIMS, &new, &claim),
        Ok(())
    );
    new["spec"]["resources"]["requests"]["storage"] = "1Gi".into();
    assert!(
        message(update(&kinds::PERSISTENT_VOLUME_CLAIMS, &new, &claim))
            .contains("field can not be less than previous value")
    );
    new["spec"]["volumeName"] = "w".into();
    assert!(
        message(update(&kinds::PERSISTENT_VOLUME_CLAIMS, &new, &claim))
            .contains("spec is immutable after creation except")
    );
}
