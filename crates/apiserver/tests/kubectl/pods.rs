//! Pods and the nodes that they are on, without anybody who runs them.

use super::server::Cluster;

const NODE: &str = r#"
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
 "status": {"capacity": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}
"#;

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  nodeName: n1
  containers:
  - {name: main, image: 'example.com/web:1', resources: {requests: {cpu: 0.1}}}
";

fn with_pod() -> Cluster {
    let cluster = Cluster::start();
    cluster.ok_with(&["create", "-f", "-"], NODE);
    cluster.apply(POD);
    cluster
}

#[test]
fn a_new_pod_has_what_upstream_gives_it() {
    let cluster = with_pod();
    let pod = cluster.json(&["get", "pod", "web"]);
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(pod["status"]["qosClass"], "Burstable");
    assert_eq!(pod["metadata"]["generation"], 1);
    let spec = &pod["spec"];
    assert_eq!(
        spec["containers"][0]["resources"]["requests"]["cpu"],
        "100m"
    );
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["tolerations"].as_array().map(Vec::len), Some(2));
    let volume = spec["volumes"][0]["name"].as_str().unwrap();
    assert!(volume.starts_with("kube-api-access-"), "{volume}");
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], volume);
}

#[test]
fn pods_are_listed_described_and_waited_for() {
    let cluster = with_pod();
    let row = cluster.ok(&["get", "pods", "-o", "wide"]);
    assert!(
        row.contains("READY") && row.contains("NODE") && row.contains("n1"),
        "{row}"
    );
    assert!(
        cluster
            .ok(&["get", "pods", "--field-selector", "spec.nodeName=n1"])
            .contains("web")
    );
    assert!(
        cluster
            .ok(&["get", "pods", "--field-selector", "spec.nodeName=n2"])
            .contains("No resources")
    );
    let described = cluster.ok(&["describe", "pod", "web"]);
    assert!(
        described.contains("Node:") && described.contains("example.com/web:1"),
        "{described}"
    );
    let described = cluster.ok(&["describe", "node", "n1"]);
    assert!(
        described.contains("Non-terminated Pods:") && described.contains("web"),
        "{described}"
    );
    let late = cluster.fails(&["wait", "pod/web", "--for=condition=Ready", "--timeout=1s"]);
    assert!(
        late.contains("timed out waiting for the condition"),
        "{late}"
    );
    let ready =
        r#"{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}"#;
    let waiting = cluster.spawn(&["wait", "pod/web", "--for=condition=Ready", "--timeout=30s"]);
    cluster.ok(&["patch", "pod", "web", "--subresource=status", "-p", ready]);
    let waited = waiting.wait_with_output().unwrap();
    assert!(
        waited.status.success(),
        "{}",
        String::from_utf8_lossy(&waited.stderr)
    );
    assert!(cluster.ok(&["get", "pod", "web"]).contains("Running"));
    // What a status says does not change with the rest.
    cluster.ok(&["label", "pod", "web", "a=b"]);
    assert_eq!(
        cluster.json(&["get", "pod", "web"])["status"]["phase"],
        "Running"
    );
}

#[test]
fn a_pod_on_a_node_goes_when_its_node_says_so() {
    let cluster = with_pod();
    cluster.ok(&["delete", "pod", "web", "--wait=false"]);
    let pod = cluster.json(&["get", "pod", "web"]);
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(pod["metadata"]["generation"], 2);
    assert!(cluster.ok(&["get", "pod", "web"]).contains("Terminating"));
    cluster.ok(&["delete", "pod", "web", "--grace-period=0", "--force"]);
    assert!(cluster.fails(&["get", "pod", "web"]).contains("not found"));
}

#[test]
fn a_finalizer_holds_an_object_until_it_is_taken_away() {
    let cluster = with_pod();
    cluster.ok(&[
        "patch",
        "pod",
        "web",
        "-p",
        r#"{"metadata": {"finalizers": ["example.com/hold"]}}"#,
    ]);
    cluster.ok(&[
        "delete",
        "pod",
        "web",
        "--grace-period=0",
        "--force",
        "--wait=false",
    ]);
    let pod = cluster.json(&["get", "pod", "web"]);
    assert_eq!(pod["metadata"]["finalizers"][0], "example.com/hold");
    cluster.ok(&[
        "patch",
        "pod",
        "web",
        "--type=merge",
        "-p",
        r#"{"metadata": {"finalizers": null}}"#,
    ]);
    cluster.ok(&["wait", "pod/web", "--for=delete", "--timeout=10s"]);
}

#[test]
fn what_is_wrong_with_a_pod_is_said_by_field() {
    let cluster = Cluster::start();
    let bad = POD.replace("name: main, image: 'example.com/web:1',", "name: Main,");
    let said = cluster.fails_with(&["create", "-f", "-"], &bad);
    assert!(said.contains("The Pod \"web\" is invalid"), "{said}");
    assert!(
        said.contains("spec.containers[0].image: Required value"),
        "{said}"
    );
    assert!(
        said.contains("spec.containers[0].name: Invalid value: \"Main\""),
        "{said}"
    );
    cluster.apply(POD);
    let said = cluster.fails(&[
        "patch",
        "pod",
        "web",
        "-p",
        r#"{"spec": {"nodeName": "n2"}}"#,
    ]);
    assert!(
        said.contains("Forbidden: pod updates may not change fields other than"),
        "{said}"
    );
}

#[test]
fn nodes_are_cordoned_tainted_and_drained() {
    let cluster = with_pod();
    assert!(cluster.ok(&["cordon", "n1"]).contains("cordoned"));
    assert!(cluster.ok(&["get", "nodes"]).contains("SchedulingDisabled"));
    cluster.ok(&["taint", "node", "n1", "a=b:NoSchedule"]);
    let drained = cluster.ok(&[
        "drain",
        "n1",
        "--force",
        "--disable-eviction=false",
        "--grace-period=1",
        "--skip-wait-for-delete-timeout=1",
        "--timeout=10s",
    ]);
    assert!(
        drained.contains("evicting pod default/web") || drained.contains("drained"),
        "{drained}"
    );
}

#[test]
fn a_pod_without_a_node_gets_one() {
    let cluster = Cluster::start();
    cluster.ok_with(&["create", "-f", "-"], NODE);
    let ready = r#"{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}"#;
    cluster.ok(&["patch", "node", "n1", "--subresource=status", "-p", ready]);
    cluster.apply(&POD.replace("  nodeName: n1\n", ""));
    cluster.ok(&[
        "wait",
        "pod/web",
        "--for=jsonpath={.spec.nodeName}=n1",
        "--timeout=10s",
    ]);
    cluster.ok(&[
        "wait",
        "pod/web",
        "--for=condition=PodScheduled",
        "--timeout=10s",
    ]);
}
