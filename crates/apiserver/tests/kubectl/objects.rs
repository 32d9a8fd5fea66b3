//! Objects made, looked at, changed and taken away.

use super::server::Cluster;

const CONFIG_MAP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: colours, labels: {app: paint}}
data: {wall: before, door: red}
";

#[test]
fn objects_are_applied_and_read_in_every_form() {
    let cluster = Cluster::start();
    assert_eq!(
        cluster.apply(CONFIG_MAP).trim(),
        "configmap/colours created"
    );
    assert_eq!(
        cluster.apply(CONFIG_MAP).trim(),
        "configmap/colours unchanged"
    );
    let changed = CONFIG_MAP
        .replace("red", "blue")
        .replace("app: paint", "app: wood");
    assert_eq!(
        cluster.apply(&changed).trim(),
        "configmap/colours configured"
    );
    assert_eq!(
        cluster.ok(&["get", "cm", "colours", "-o", "jsonpath={.data.door}"]),
        "blue"
    );
    let row = cluster.ok(&["get", "configmaps", "-l", "app=wood", "--show-labels"]);
    assert!(row.starts_with("NAME"), "{row}");
    assert!(row.contains("colours") && row.contains("app=wood"), "{row}");
    assert!(
        cluster
            .ok(&["get", "cm", "-l", "app=paint"])
            .contains("No resources found")
    );
    let described = cluster.ok(&["describe", "cm", "colours"]);
    assert!(described.contains("door:\n----\nblue"), "{described}");
    let all = cluster.ok(&["get", "cm", "-A", "--chunk-size=1"]);
    assert!(
        all.contains("kube-root-ca.crt") && all.contains("colours"),
        "{all}"
    );
}

#[test]
fn objects_are_changed_by_every_kind_of_patch_and_by_an_editor() {
    let cluster = Cluster::start();
    cluster.apply(CONFIG_MAP);
    let wall = || cluster.ok(&["get", "cm", "colours", "-o", "jsonpath={.data.wall}"]);
    let edited = cluster.ok(&["edit", "cm", "colours"]);
    assert_eq!(edited.trim(), "configmap/colours edited");
    assert_eq!(wall(), "after");
    for (kind, patch, expected) in [
        ("strategic", r#"{"data": {"wall": "one"}}"#, "one"),
        ("merge", r#"{"data": {"wall": "two"}}"#, "two"),
        (
            "json",
            r#"[{"op": "replace", "path": "/data/wall", "value": "three"}]"#,
            "three",
        ),
    ] {
        cluster.ok(&["patch", "cm", "colours", "--type", kind, "-p", patch]);
        assert_eq!(wall(), expected);
    }
    assert_eq!(
        cluster.ok(&["label", "cm", "colours", "size=big"]).trim(),
        "configmap/colours labeled"
    );
    cluster.ok(&["annotate", "cm", "colours", "note=dry"]);
    let refused = cluster.fails(&["label", "cm", "colours", "size=small"]);
    assert!(refused.contains("already has a value"), "{refused}");
    cluster.ok(&["label", "cm", "colours", "size=small", "--overwrite"]);
    cluster.ok(&["label", "cm", "colours", "size-"]);
    let object = cluster.json(&["get", "cm", "colours"]);
    assert_eq!(object["metadata"]["annotations"]["note"], "dry");
    assert!(object["metadata"]["labels"]["size"].is_null());
}

#[test]
fn what_cannot_be_done_is_said_in_upstreams_words() {
    let cluster = Cluster::start();
    for (words, complaint) in [
        (
            vec!["get", "pods", "nope"],
            "Error from server (NotFound): pods \"nope\" not found",
        ),
        (
            vec!["get", "pods", "--field-selector", "spec.colour=red"],
            "field label not supported: spec.colour",
        ),
        (
            vec!["delete", "node", "nope"],
            "Error from server (NotFound): nodes \"nope\" not found",
        ),
        (
            vec!["get", "deployments"],
            "the server doesn't have a resource type \"deployments\"",
        ),
    ] {
        let said = cluster.fails(&words);
        assert!(said.contains(complaint), "{words:?}: {said}");
    }
    let lost = CONFIG_MAP.replace("name: colours,", "name: colours, namespace: nope,");
    let said = cluster.fails_with(&["create", "-f", "-"], &lost);
    assert!(said.contains("namespaces \"nope\" not found"), "{said}");
    cluster.config_map("twice");
    let twice = CONFIG_MAP.replace("name: colours", "name: twice");
    let said = cluster.fails_with(&["create", "-f", "-"], &twice);
    assert!(
        said.contains("configmaps \"twice\" already exists"),
        "{said}"
    );
    let unknown = CONFIG_MAP.replace("\ndata:", "\ncolour: x\ndata:");
    let said = cluster.fails_with(&["create", "-f", "-"], &unknown);
    assert!(
        said.contains("strict decoding error: unknown field \"colour\""),
        "{said}"
    );
    let said = cluster.ok_with(&["create", "--validate=warn", "-f", "-"], &unknown);
    assert!(said.contains("Warning: unknown field \"colour\""), "{said}");
    let object = cluster.json(&["get", "cm", "twice"]);
    let mut stale = object.clone();
    cluster.ok(&["label", "cm", "twice", "new=yes"]);
    stale["data"] = serde_json::json!({"a": "b"});
    let said = cluster.fails_with(&["replace", "-f", "-"], &stale.to_string());
    assert!(
        said.contains("the object has been modified; please apply your changes"),
        "{said}"
    );
}

#[test]
fn a_dry_run_changes_nothing() {
    let cluster = Cluster::start();
    cluster.ok_with(&["apply", "--dry-run=server", "-f", "-"], CONFIG_MAP);
    assert!(
        cluster
            .fails(&["get", "cm", "colours"])
            .contains("not found")
    );
    cluster.apply(CONFIG_MAP);
    cluster.ok(&["label", "cm", "colours", "a=b", "--dry-run=server"]);
    cluster.ok(&["delete", "cm", "colours", "--dry-run=server"]);
    let object = cluster.json(&["get", "cm", "colours"]);
    assert!(object["metadata"]["labels"]["a"].is_null());
}

#[test]
fn a_namespace_goes_with_all_that_is_in_it() {
    let cluster = Cluster::start();
    cluster.ok(&["create", "namespace", "short"]);
    cluster.ok(&["create", "configmap", "inside", "-n", "short"]);
    let hidden = [
        "create",
        "secret",
        "generic",
        "hidden",
        "-n",
        "short",
        "--from-literal=a=b",
    ];
    cluster.ok(&hidden);
    let secret = cluster.json(&["get", "secret", "hidden", "-n", "short"]);
    assert_eq!(secret["data"]["a"], "Yg==");
    cluster.ok(&[
        "wait",
        "sa/default",
        "-n",
        "short",
        "--for=create",
        "--timeout=10s",
    ]);
    cluster.ok(&["delete", "namespace", "short", "--timeout=20s"]);
    assert!(cluster.fails(&["get", "ns", "short"]).contains("not found"));
    assert!(
        cluster
            .ok(&["get", "cm", "-n", "short"])
            .contains("No resources found")
    );
}

#[test]
fn the_server_tells_what_it_is_and_has() {
    let cluster = Cluster::start();
    let version = cluster.ok(&["version"]);
    assert!(version.contains("Server Version: v1.36"), "{version}");
    let resources = cluster.ok(&["api-resources"]);
    for kind in [
        "ConfigMap",
        "Node",
        "Pod",
        "Lease",
        "CertificateSigningRequest",
    ] {
        assert!(resources.contains(kind), "{resources}");
    }
    let explained = cluster.ok(&["explain", "pod.spec.containers"]);
    assert!(explained.contains("imagePullPolicy"), "{explained}");
    assert_eq!(cluster.ok(&["get", "--raw", "/healthz"]), "ok");
    let namespaces = cluster.ok(&["get", "ns"]);
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert!(namespaces.contains(name), "{namespaces}");
    }
    assert!(namespaces.contains("Active"), "{namespaces}");
}
