use serde_json::{Value, json};

use super::admit::{self, Surroundings};
use super::{complete, prepare};
use crate::kinds::{self, Kind};
use crate::schema;

const NOW: &str = "2026-01-02T03:04:05Z";

/// As a request would leave it, without admission.
fn made(kind: &Kind, object: Value) -> Value {
    let decoded = schema::decode(kind.kind, object).unwrap();
    assert_eq!(decoded.unknown, Vec::<String>::new());
    let once = complete(kind, decoded.object).unwrap();
    assert_eq!(
        complete(kind, once.clone()).unwrap(),
        once,
        "a second time it changes nothing"
    );
    prepare::create(kind, once, NOW)
}

fn bare_pod() -> Value {
    made(
        &kinds::PODS,
        json!({"metadata": {"name": "a", "namespace": "d"}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}),
    )
}

#[test]
fn a_bare_pod_becomes_what_upstream_makes_of_it() {
    let account = json!({"metadata": {"name": "default"}});
    let surroundings = Surroundings {
        service_account: Some(&account),
        runtime_class: None,
        suffix: "abcde",
    };
    let pod = admit::pod(bare_pod(), surroundings).unwrap();
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "d", "generation": 1},
        "spec": {
            "containers": [{
                "image": "busybox",
                "imagePullPolicy": "Always",
                "name": "c",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access-abcde", "readOnly": true}],
            }],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "serviceAccount": "default",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300},
                {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300},
            ],
            "volumes": [{"name": "kube-api-access-abcde", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]}},
            ]}}],
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    });
    assert_eq!(pod, expected);
    assert_eq!(
        schema::tidy("Pod", pod.clone()).unwrap(),
        pod,
        "nothing is left to tidy"
    );
}

#[test]
fn admission_keeps_what_is_there_and_refuses_what_cannot_be() {
    let account =
        json!({"automountServiceAccountToken": false, "imagePullSecrets": [{"name": "s"}]});
    let with = |change: fn(&mut Value)| {
        let mut pod = bare_pod();
        change(&mut pod);
        admit::pod(
            pod,
            Surroundings {
                service_account: Some(&account),
                runtime_class: None,
                suffix: "x",
            },
        )
    };
    let pod = with(|_| ()).unwrap();
    assert_eq!(pod["spec"]["volumes"], Value::Null);
    assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "s"}]));
    let pod = with(|pod| pod["spec"]["automountServiceAccountToken"] = true.into()).unwrap();
    assert_eq!(pod["spec"]["volumes"].as_array().unwrap().len(), 1);
    let pod = with(|pod| pod["spec"]["tolerations"] = json!([{"operator": "Exists"}])).unwrap();
    assert_eq!(pod["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    let pod = with(|pod| pod["spec"]["priorityClassName"] = "system-node-critical".into()).unwrap();
    assert_eq!(pod["spec"]["priority"], 2_000_001_000);
    let refused = |change| with(change).unwrap_err().message;
    assert_eq!(
        refused(|pod| pod["spec"]["priorityClassName"] = "high".into()),
        "pods \"a\" is forbidden: no PriorityClass with name high was found"
    );
    assert!(
        refused(|pod| pod["spec"]["priority"] = 5.into())
            .contains("the integer value of priority (5)")
    );
    assert!(
        refused(|pod| pod["spec"]["runtimeClassName"] = "r".into())
            .contains("RuntimeClass \"r\" not found")
    );
    let missing = admit::pod(bare_pod(), Surroundings::default()).unwrap_err();
    assert_eq!(
        missing.message,
        "pods \"a\" is forbidden: error looking up service account d/default: serviceaccount \"default\" not found"
    );
    let mirror = |change: fn(&mut Value)| {
        let mut pod = bare_pod();
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        change(&mut pod);
        admit::pod(pod, Surroundings::default())
    };
    assert_eq!(
        mirror(|_| ()).unwrap()["spec"]["serviceAccountName"],
        Value::Null
    );
    assert!(mirror(|pod| pod["spec"]["imagePullSecrets"] = json!([{"name": "s"}])).is_err());
}

#[test]
fn a_runtime_class_brings_overhead_and_where_to_run() {
    let class = json!({"overhead": {"podFixed": {"cpu": "10m"}}, "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}]}});
    let account = json!({});
    let mut pod = bare_pod();
    pod["spec"]["runtimeClassName"] = "r".into();
    let surroundings = Surroundings {
        service_account: Some(&account),
        runtime_class: Some(&class),
        suffix: "x",
    };
    let admitted = admit::pod(pod.clone(), surroundings).unwrap();
    assert_eq!(admitted["spec"]["overhead"], json!({"cpu": "10m"}));
    assert_eq!(admitted["spec"]["nodeSelector"], json!({"a": "b"}));
    assert_eq!(admitted["spec"]["tolerations"][2], json!({"key": "k"}));
    pod["spec"]["nodeSelector"] = json!({"a": "c"});
    assert!(
        admit::pod(pod, surroundings)
            .unwrap_err()
            .message
            .contains("conflict: runtimeClass.scheduling.nodeSelector[a] = b")
    );
}

#[test]
fn others_get_the_defaults_of_their_types() {
    let namespace = made(&kinds::NAMESPACES, json!({"metadata": {"name": "n"}}));
    assert_eq!(
        namespace,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
    );
    let secret = made(
        &kinds::SECRETS,
        json!({"metadata": {"name": "s"}, "data": {"a": "YQ=="}, "stringData": {"b": "b"}}),
    );
    assert_eq!(
        (&secret["type"], &secret["data"]),
        (&json!("Opaque"), &json!({"a": "YQ==", "b": "Yg=="}))
    );
    assert_eq!(secret["stringData"], Value::Null);
    let service = made(
        &kinds::SERVICES,
        json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
    );
    assert_eq!(
        service["spec"],
        json!({"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "selector": {"a": "b"}, "sessionAffinity": "None",
            "type": "ClusterIP", "internalTrafficPolicy": "Cluster"})
    );
    assert_eq!(service["status"], json!({"loadBalancer": {}}));
    let volume = made(
        &kinds::PERSISTENT_VOLUMES,
        json!({"metadata": {"name": "v"}, "spec": {"hostPath": {"path": "/a"}, "capacity": {"storage": "1Gi"}}}),
    );
    assert_eq!(
        volume["spec"]["hostPath"],
        json!({"path": "/a", "type": ""})
    );
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(
        volume["status"],
        json!({"phase": "Pending", "lastPhaseTransitionTime": NOW})
    );
    let driver = made(
        &kinds::CSI_DRIVERS,
        json!({"metadata": {"name": "d"}, "spec": {}}),
    );
    assert_eq!(
        driver["spec"]["volumeLifecycleModes"],
        json!(["Persistent"])
    );
    let node = admit::node(made(
        &kinds::NODES,
        json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}}),
    ));
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "1"}));
    assert_eq!(
        node["spec"]["taints"],
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    );
}

#[test]
fn who_writes_one_part_does_not_write_the_others() {
    let mut old = bare_pod();
    old["status"]["conditions"] = json!([{"type": "Ready", "observedGeneration": 1}]);
    let mut new = old.clone();
    new["spec"]["activeDeadlineSeconds"] = 5.into();
    new["status"] = json!({"phase": "Failed"});
    let updated = prepare::update(&kinds::PODS, new.clone(), &old);
    assert_eq!(
        (&updated["status"], &updated["metadata"]["generation"]),
        (&old["status"], &json!(2))
    );
    new["status"]["conditions"] = json!([{"type": "Ready"}]);
    let updated = prepare::update_subresource(&kinds::PODS, "status", new, &old, NOW);
    assert_eq!(
        (&updated["spec"], &updated["metadata"]["generation"]),
        (&old["spec"], &json!(1))
    );
    assert_eq!(
        updated["status"],
        json!({"phase": "Failed", "qosClass": "BestEffort", "conditions": [{"type": "Ready", "observedGeneration": 1}]})
    );
    let old = json!({"spec": {"request": "r"}, "status": {"certificate": "c"}});
    let new = json!({"spec": {"request": "x"}, "status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let approved = prepare::update_subresource(
        &kinds::CERTIFICATE_SIGNING_REQUESTS,
        "approval",
        new,
        &old,
        NOW,
    );
    assert_eq!(approved["spec"], old["spec"]);
    assert_eq!(
        approved["status"],
        json!({"certificate": "c", "conditions": [{"type": "Approved", "status": "True", "lastUpdateTime": NOW, "lastTransitionTime": NOW}]})
    );
    let denied = json!({"spec": {}, "status": {"certificate": "d", "conditions": [{"type": "Approved", "status": "True", "message": "x"}]}});
    let signed = prepare::update_subresource(
        &kinds::CERTIFICATE_SIGNING_REQUESTS,
        "status",
        denied,
        &approved,
        NOW,
    );
    assert_eq!(
        signed["status"]["conditions"],
        approved["status"]["conditions"]
    );
}

#[test]
fn the_first_of_a_list_is_the_older_field() {
    let pod = |status: Value| {
        let mut pod = bare_pod();
        pod["status"] = status;
        complete(&kinds::PODS, pod).unwrap()["status"].clone()
    };
    assert_eq!(
        pod(json!({"podIP": "1"})),
        json!({"podIP": "1", "podIPs": [{"ip": "1"}]})
    );
    assert_eq!(
        pod(json!({"podIPs": [{"ip": "1"}, {"ip": "2"}]})),
        json!({"podIP": "1", "podIPs": [{"ip": "1"}, {"ip": "2"}]})
    );
    assert_eq!(
        pod(json!({"podIP": "3", "podIPs": [{"ip": "1"}]})),
        json!({"podIP": "3", "podIPs": [{"ip": "3"}]})
    );
    let node = made(
        &kinds::NODES,
        json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}}),
    );
    assert_eq!(node["spec"]["podCIDRs"], json!(["10.0.0.0/24"]));
}

#[test]
fn the_class_of_a_pod_follows_from_its_resources() {
    let pod = |resources: Value| {
        made(
            &kinds::PODS,
            json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i:1", "resources": resources}]}}),
        )
    };
    let class = |resources: Value| pod(resources)["status"]["qosClass"].clone();
    assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
    assert_eq!(
        class(json!({"limits": {"cpu": "1", "memory": "1Gi"}})),
        "Guaranteed"
    );
    let requests =
        &pod(json!({"limits": {"cpu": "1"}}))["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(*requests, json!({"cpu": "1"}));
}

#[test]
fn a_resize_takes_over_the_resources_of_the_containers_of_before() {
    let container = |name: &str, cpu: &str| json!({"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}});
    let old = json!({
        "metadata": {"name": "p", "generation": 1, "labels": {"a": "b"}},
        "spec": {"containers": [container("a", "1"), container("b", "1")], "nodeName": "n"},
        "status": {"phase": "Running"},
    });
    let resized = |containers: Value| {
        let mut wanted = old.clone();
        wanted["metadata"]["labels"] = json!({});
        wanted["metadata"]["annotations"] = json!({"c": "d"});
        wanted["spec"]["nodeName"] = "m".into();
        wanted["spec"]["containers"] = containers;
        prepare::update_subresource(&kinds::PODS, "resize", wanted, &old, NOW)
    };
    let mut other = container("b", "2");
    other["image"] = "j".into();
    let pod = resized(json!([container("a", "1"), other]));
    let mut expected = old.clone();
    expected["spec"]["containers"][1]["resources"]["requests"]["cpu"] = "2".into();
    expected["metadata"]["generation"] = 2.into();
    assert_eq!(pod, expected);
    // Whoever mixes them up is refused, and gives no container what another was to have.
    let mixed = json!([container("b", "2"), container("a", "1")]);
    assert_eq!(resized(mixed.clone())["spec"]["containers"], mixed);
    let fewer = json!([container("a", "2")]);
    assert_eq!(resized(fewer.clone())["spec"]["containers"], fewer);
}
