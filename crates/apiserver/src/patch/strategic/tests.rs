#![expect(
    clippy::needless_pass_by_value,
    reason = "what is written in place is read better without a reference"
)]

use serde_json::{Value, json};

use crate::patch::{STRATEGIC_MERGE_PATCH, apply};

fn patched(original: Value, patch: Value) -> Value {
    apply(
        STRATEGIC_MERGE_PATCH,
        "Pod",
        &original,
        patch.to_string().as_bytes(),
    )
    .unwrap()
}

fn refused(original: Value, patch: Value) -> (u16, String) {
    let failure = apply(
        STRATEGIC_MERGE_PATCH,
        "Pod",
        &original,
        patch.to_string().as_bytes(),
    )
    .unwrap_err();
    (failure.code.as_u16(), failure.message)
}

fn containers(list: Value) -> Value {
    json!({"spec": {"containers": list}})
}

#[test]
fn containers_are_merged_by_name_and_keep_their_order() {
    let original = containers(
        json!([{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}]),
    );
    let patch = containers(json!([{"name": "b", "image": "2"}, {"name": "c", "image": "3"}]));
    let expected = containers(json!([
        {"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"}, {"name": "c", "image": "3"}
    ]));
    assert_eq!(patched(original.clone(), patch), expected);
    let patch = containers(json!([{"name": "a", "args": ["y", "z"], "image": null}]));
    let expected =
        containers(json!([{"name": "a", "args": ["y", "z"]}, {"name": "b", "image": "1"}]));
    assert_eq!(patched(original, patch), expected);
}

#[test]
fn directives_delete_and_replace() {
    let original = containers(json!([{"name": "a"}, {"name": "b"}]));
    let patch = containers(json!([{"name": "a", "$patch": "delete"}]));
    assert_eq!(
        patched(original.clone(), patch),
        containers(json!([{"name": "b"}]))
    );
    let patch = containers(json!([{"name": "c"}, {"$patch": "replace"}]));
    assert_eq!(
        patched(original.clone(), patch),
        containers(json!([{"name": "c"}]))
    );
    let labels = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
    let patch = json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}});
    assert_eq!(
        patched(labels.clone(), patch),
        json!({"metadata": {"labels": {"c": "3"}}})
    );
    let patch = json!({"metadata": {"labels": {"$patch": "delete"}}});
    assert_eq!(patched(labels, patch), json!({"metadata": {"labels": {}}}));
    let patch = containers(json!([{"image": "a"}]));
    assert_eq!(
        refused(original.clone(), patch),
        (
            500,
            "map: map[image:a] does not contain declared merge key: name".to_owned()
        )
    );
    let (_, message) = refused(
        original,
        containers(json!([{"name": "a", "$patch": "burn"}])),
    );
    assert!(
        message.ends_with("unknown patch type: burn in map: map[$patch:burn name:a]"),
        "{message}"
    );
}

#[test]
fn plain_lists_are_sets_where_they_are_merged() {
    let original = json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"containers": [{"name": "a", "args": ["x"]}]}});
    let patch = json!({"metadata": {"finalizers": ["b", "c"]}});
    assert_eq!(
        patched(original.clone(), patch)["metadata"]["finalizers"],
        json!(["a", "b", "c"])
    );
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
    assert_eq!(
        patched(original.clone(), patch)["metadata"]["finalizers"],
        json!(["b"])
    );
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["c", "b"], "finalizers": ["c"]}});
    assert_eq!(
        patched(original, patch)["metadata"]["finalizers"],
        json!(["c", "b"])
    );
}

#[test]
fn order_is_set_among_what_the_patch_names() {
    let original = containers(json!([{"name": "a"}, {"name": "s"}, {"name": "b"}]));
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
        "containers": [{"name": "c", "image": "i"}],
    }});
    let names = |pod: &Value| -> Vec<String> {
        let list = pod["spec"]["containers"].as_array().unwrap();
        list.iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(&patched(original.clone(), patch)),
        ["s", "b", "c", "a"]
    );
    let only_order =
        json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}});
    assert_eq!(
        names(&patched(original.clone(), only_order)),
        ["s", "b", "a"]
    );
    let disagrees = json!({"spec": {
        "$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "z"}],
    }});
    assert_eq!(refused(original.clone(), disagrees).0, 500);
    let malformed = json!({"spec": {"$setElementOrder/containers": "a"}});
    assert_eq!(refused(original, malformed).0, 400);
}

#[test]
fn retained_keys_are_all_that_stays() {
    let volumes = |list: Value| json!({"spec": {"volumes": list}});
    let original = volumes(json!([{"name": "v", "emptyDir": {}}]));
    let patch = volumes(
        json!([{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]),
    );
    assert_eq!(
        patched(original.clone(), patch),
        volumes(json!([{"name": "v", "configMap": {"name": "c"}}]))
    );
    let bad = volumes(json!([{"name": "v", "$retainKeys": ["name"], "configMap": {"name": "c"}}]));
    assert_eq!(
        refused(original, bad),
        (400, "invalid patch format of retainKeys".to_owned())
    );
}

#[test]
fn conditions_are_merged_by_type_as_a_kubelet_patches_them() {
    let original = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}, {"type": "Other", "status": "True"}], "podIPs": [{"ip": "1"}]}});
    let patch = json!({"metadata": {"uid": "u"}, "status": {
        "$setElementOrder/conditions": [{"type": "Other"}, {"type": "Ready"}],
        "conditions": [{"type": "Ready", "status": "True", "reason": null}],
        "podIPs": [{"ip": "2"}],
    }});
    let status = &patched(original, patch)["status"];
    assert_eq!(
        status["conditions"],
        json!([{"type": "Other", "status": "True"}, {"type": "Ready", "status": "True"}])
    );
    assert_eq!(status["podIPs"], json!([{"ip": "2"}, {"ip": "1"}]));
}

#[test]
fn what_is_new_is_taken_without_nulls_and_directives() {
    let patch = json!({"spec": {"securityContext": {"runAsUser": 1, "runAsGroup": null}, "containers": [{"name": "a"}, {"name": "b", "$patch": "delete"}]}});
    assert_eq!(
        patched(json!({}), patch),
        json!({"spec": {"securityContext": {"runAsUser": 1}, "containers": [{"name": "a"}]}})
    );
    assert_eq!(
        patched(json!({"spec": {"nodeName": "a"}}), json!({"spec": null})),
        json!({})
    );
}
