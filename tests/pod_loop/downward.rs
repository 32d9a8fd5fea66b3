//! What volumes tell a pod of itself, and what becomes of it when the pod changes.

use std::path::Path;

use seams::storage::{Tree, TreeFile};
use seams::{Clock as _, Storage as _};
use serde_json::{Value, json};

use crate::node::ROOT;
use crate::runtime::Act;
use crate::scenes::Scene;

/// Where the two volumes of the pod are. Projected ones need an API server, which is not
/// here.
const LABELS: &str = "kubernetes.io~downward-api/labels";
const OTHERS: &str = "kubernetes.io~downward-api/others";

/// A pod that is told of its labels by one volume, and by another of its annotations
/// and of what it may use.
fn pod(cpu: &str) -> Value {
    let field =
        |path: &str, field: &str| json!({ "path": path, "fieldRef": { "fieldPath": field } });
    let limit = json!({ "containerName": "c", "resource": "limits.cpu", "divisor": "1m" });
    let others = json!([
        field("name", "metadata.name"),
        field("note", "metadata.annotations['note']"),
        { "path": "cpu", "resourceFieldRef": limit },
    ]);
    json!({
        "containers": [{
            "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent",
            "resources": { "requests": { "cpu": cpu }, "limits": { "cpu": cpu } },
            "volumeMounts": [
                { "name": "labels", "mountPath": "/labels" },
                { "name": "others", "mountPath": "/others" },
            ],
        }],
        "volumes": [
            { "name": "labels", "downwardAPI": { "items": [field("labels", "metadata.labels")] } },
            { "name": "others", "downwardAPI": { "items": others } },
        ],
    })
}

/// Whether these files, and no others, are what a volume has: then nothing changes when
/// they are published.
fn has(scene: &Scene, volume: &str, files: &[(&str, &str)]) -> bool {
    let file = |content: &str| TreeFile {
        content: content.as_bytes().to_vec(),
        mode: 0o644,
        owner: None,
    };
    let files = files.iter();
    let tree = Tree {
        files: files
            .map(|(path, text)| ((*path).to_owned(), file(text)))
            .collect(),
        group: None,
    };
    let directory = Path::new(ROOT).join("pods/p/volumes").join(volume);
    let node = &scene.node;
    let published = node.machine.publish(&directory, &tree, node.clock.now());
    !published.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_labelled_annotated_or_resized_is_told_so_at_once() {
    let mut scene = Scene::new();
    scene.put("p", &json!({ "note": "a" }), &pod("1"), 5).await;
    assert!(has(&scene, LABELS, &[("labels", "")]));
    let others =
        |note: &'static str, cpu: &'static str| [("name", "p"), ("note", note), ("cpu", cpu)];
    assert!(has(&scene, OTHERS, &others("a", "1000")));

    scene
        .label("p", &json!({ "round": "1", "app": "x" }), 1)
        .await;
    assert!(has(&scene, LABELS, &[("labels", "app=\"x\"\nround=\"1\"")]));
    scene.put("p", &json!({ "note": "b" }), &pod("1"), 1).await;
    assert!(has(&scene, OTHERS, &others("b", "1000")));
    scene.put("p", &json!({ "note": "b" }), &pod("2"), 1).await;
    assert!(has(&scene, OTHERS, &others("b", "2000")));
    // More than the node has: the pod goes on with what it was given, and is told that.
    scene.put("p", &json!({ "note": "c" }), &pod("64"), 1).await;
    assert!(has(&scene, OTHERS, &others("c", "2000")));

    // The next agent has it the same way, and follows it on.
    scene.begin_anew(5).await;
    assert!(has(&scene, OTHERS, &others("c", "2000")));
    scene.label("p", &json!({ "round": "2" }), 1).await;
    assert!(has(&scene, LABELS, &[("labels", "round=\"2\"")]));
    assert_eq!(scene.count(Act::Start, "p", "c"), 1);
}
