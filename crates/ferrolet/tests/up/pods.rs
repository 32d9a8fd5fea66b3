//! The life of a pod, with kubectl.

use super::cluster::Cluster;

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
  annotations: {sim.ferrolet.dev/log-lines: 'hello from the story', note: before}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox}
";

#[test]
fn a_pod_is_made_looked_at_changed_and_deleted() {
    let cluster = Cluster::ephemeral();
    let said = cluster.ok_with(&["apply", "-f", "-"], POD);
    assert!(said.contains("pod/web created"), "{said}");
    cluster.ok(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]);
    // What is not there is said to be not there, for what exists and for what does not.
    for pod in [POD.to_owned(), POD.replace("name: web", "name: new")] {
        let said = cluster.fails_with(&["apply", "--server-side", "-f", "-"], &pod);
        assert!(said.contains("has no server-side apply"), "{said}");
        assert!(said.contains("without --server-side"), "{said}");
    }
    let row = cluster.ok(&["get", "pod", "web", "-o", "wide"]);
    for word in ["1/1", "Running", "sim-0"] {
        assert!(row.contains(word), "{row}");
    }
    let described = cluster.ok(&["describe", "pod", "web"]);
    for word in [
        "Node:",
        "sim-0/",
        "Scheduled",
        "Pulled",
        "Created",
        "Started",
    ] {
        assert!(described.contains(word), "{word}: {described}");
    }
    assert_eq!(cluster.ok(&["logs", "web"]), "hello from the story\n");
    let said = cluster.ok(&["exec", "web", "--", "echo", "from", "inside"]);
    assert_eq!(said, "from inside\n");
    let said = cluster.ok_with(&["exec", "-i", "web", "--", "cat"], "there and back");
    assert_eq!(said, "there and back");
    let said = cluster.fails(&["exec", "web", "--", "sh", "-c", "exit 3"]);
    assert!(said.contains("exit code 3"), "{said}");

    cluster.ok(&["label", "pod", "web", "tier=front"]);
    let listed = cluster.ok(&["get", "pods", "--selector=tier=front", "-o", "name"]);
    assert_eq!(listed, "pod/web\n");
    let patch = r#"{"metadata":{"annotations":{"patched":"yes"}}}"#;
    cluster.ok(&["patch", "pod", "web", "-p", patch]);
    cluster.ok(&["edit", "pod", "web"]);
    let said = cluster.ok_with(&["apply", "-f", "-"], &POD.replace("app: web", "app: shop"));
    assert!(said.contains("pod/web configured"), "{said}");
    let pod = cluster.json(&["get", "pod", "web"]);
    let metadata = &pod["metadata"];
    assert_eq!(metadata["labels"]["app"], "shop");
    assert_eq!(metadata["labels"]["tier"], "front");
    assert_eq!(metadata["annotations"]["patched"], "yes");

    let said = cluster.ok(&["delete", "pod", "web", "--timeout=60s"]);
    assert!(said.contains("deleted"), "{said}");
    let said = cluster.fails(&["get", "pod", "web"]);
    assert!(said.contains("NotFound"), "{said}");
}

#[test]
fn an_editor_changes_what_it_changes() {
    let cluster = Cluster::ephemeral();
    cluster.ok(&["create", "configmap", "notes", "--from-literal=when=before"]);
    cluster.ok(&["edit", "configmap", "notes"]);
    let notes = cluster.json(&["get", "configmap", "notes"]);
    assert_eq!(notes["data"]["when"], "after");
}

#[test]
fn a_container_that_ends_badly_is_started_again() {
    let cluster = Cluster::ephemeral();
    let story = "--annotations=sim.ferrolet.dev/crash-loop=1s";
    cluster.ok(&["run", "ill", "--image=busybox", story]);
    let restarted = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1";
    cluster.ok(&["wait", restarted, "pod/ill", "--timeout=60s"]);
    cluster.ok(&["delete", "pod", "ill", "--grace-period=1", "--timeout=60s"]);
}
