//! How volumes are mounted.

use serde_json::{Value, json};

use crate::wire::spec::{Spec, Until, spec};

fn empty_dir() -> Value {
    json!({"emptyDir": {}})
}

fn config_map() -> Value {
    json!({"configMap": {"name": "files"}})
}

fn recursively(policy: &str) -> Value {
    json!({"readOnly": true, "recursiveReadOnly": policy})
}

pub(super) fn specs() -> Vec<Spec> {
    vec![
        spec("mount-read-only").volume(empty_dir(), json!({"readOnly": true})),
        spec("mount-of-a-secret-says-not-read-only").volume(
            json!({"secret": {"secretName": "password"}}),
            json!({"readOnly": false}),
        ),
        spec("mount-recursive-off").volume(empty_dir(), recursively("Disabled")),
        spec("mount-recursive-if-possible").volume(empty_dir(), recursively("IfPossible")),
        spec("mount-recursive").volume(empty_dir(), recursively("Enabled")),
        spec("mount-from-the-host")
            .volume(empty_dir(), json!({"mountPropagation": "HostToContainer"})),
        spec("mount-both-ways")
            .main(json!({"securityContext": {"privileged": true}}))
            .volume(
                json!({"hostPath": {"path": "/var/tmp"}}),
                json!({"mountPropagation": "Bidirectional"}),
            ),
        spec("mount-private").volume(empty_dir(), json!({"mountPropagation": "None"})),
        spec("mount-sub-path").volume(empty_dir(), json!({"subPath": "deep/er"})),
        spec("mount-sub-path-of-a-file").volume(config_map(), json!({"subPath": "a.txt"})),
        spec("mount-sub-path-expands")
            .main(json!({"env": [
                {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ]}))
            .volume(empty_dir(), json!({"subPathExpr": "of/$(WHO)/$$(WHO)"})),
        spec("mount-sub-path-of-nobody")
            .volume(empty_dir(), json!({"subPathExpr": "$(NOBODY)"}))
            .until(Until::Waiting("main", "CreateContainerConfigError")),
        spec("mount-twice")
            .volume(empty_dir(), json!({}))
            .main(json!({"volumeMounts": [
                {"name": "v0", "mountPath": "/b", "subPath": "b"},
                {"name": "v0", "mountPath": "/a"},
            ]})),
        spec("mount-inside-another")
            .volume(config_map(), json!({"mountPath": "/data/inner"}))
            .volume(empty_dir(), json!({"mountPath": "/data"})),
        spec("mount-relative").volume(empty_dir(), json!({"mountPath": "not/absolute"})),
        spec("mount-own-hosts-file").volume(
            config_map(),
            json!({"mountPath": "/etc/hosts", "subPath": "a.txt"}),
        ),
        spec("mount-over-the-last-words")
            .volume(empty_dir(), json!({"mountPath": "/dev/termination-log"})),
        spec("mount-of-an-init-container")
            .volume(empty_dir(), json!({}))
            .init(
                "first",
                json!({"volumeMounts": [{"name": "v0", "mountPath": "/first"}]}),
            )
            .story("run-time.first", "200ms"),
    ]
}
