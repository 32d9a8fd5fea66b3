//! Volumes of each kind, as they are mounted.

use serde_json::json;

use crate::wire::objects::CLAIM;
use crate::wire::spec::{Spec, spec};

pub(super) fn specs() -> Vec<Spec> {
    let plain = || json!({});
    let token = json!({"serviceAccountToken": {
        "path": "token", "audience": "somebody", "expirationSeconds": 3600,
    }});
    vec![
        spec("empty-dir").volume(json!({"emptyDir": {}}), plain()),
        spec("empty-dir-in-memory").volume(
            json!({"emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}}),
            plain(),
        ),
        spec("empty-dir-with-limit").volume(json!({"emptyDir": {"sizeLimit": "1Gi"}}), plain()),
        spec("config-map").volume(json!({"configMap": {"name": "files"}}), plain()),
        spec("config-map-items").volume(
            json!({"configMap": {
                "name": "files", "defaultMode": 0o400,
                "items": [{"key": "a.txt", "path": "deep/er/a", "mode": 0o600}],
            }}),
            plain(),
        ),
        spec("config-map-of-nobody").volume(
            json!({"configMap": {"name": "nobody", "optional": true}}),
            plain(),
        ),
        spec("secret").volume(json!({"secret": {"secretName": "password"}}), plain()),
        spec("secret-items").volume(
            json!({"secret": {
                "secretName": "password", "items": [{"key": "user", "path": "who"}],
            }}),
            plain(),
        ),
        spec("downward-api").volume(
            json!({"downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "memory", "resourceFieldRef": {
                    "containerName": "main", "resource": "limits.memory",
                }},
            ]}}),
            plain(),
        ),
        spec("projected").volume(
            json!({"projected": {"sources": [
                {"configMap": {"name": "files"}},
                {"secret": {"name": "password", "items": [{"key": "user", "path": "u"}]}},
                {"downwardAPI": {"items": [
                    {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
                ]}},
            ]}}),
            plain(),
        ),
        spec("projected-token").volume(json!({"projected": {"sources": [token]}}), plain()),
        spec("own-token").pod(json!({"automountServiceAccountToken": true})),
        spec("own-token-of-two-containers")
            .pod(json!({"automountServiceAccountToken": null}))
            .and("other", json!({})),
        spec("host-path").volume(json!({"hostPath": {"path": "/etc"}}), plain()),
        spec("host-path-directory").volume(
            json!({"hostPath": {"path": "/var/tmp/wire-directory", "type": "DirectoryOrCreate"}}),
            plain(),
        ),
        spec("host-path-file").volume(
            json!({"hostPath": {"path": "/var/tmp/wire-file", "type": "FileOrCreate"}}),
            plain(),
        ),
        spec("claim").volume(
            json!({"persistentVolumeClaim": {"claimName": CLAIM}}),
            plain(),
        ),
        spec("claim-read-only")
            .volume(
                json!({"persistentVolumeClaim": {"claimName": CLAIM, "readOnly": true}}),
                plain(),
            )
            .pod(json!({"securityContext": {"supplementalGroups": [1234]}})),
        spec("image-volume").volume(
            json!({"image": {"reference": "registry.example/image-volume/data:1"}}),
            plain(),
        ),
        spec("image-volume-part").volume(
            json!({"image": {
                "reference": "registry.example/image-volume-part/data:1",
                "pullPolicy": "Always",
            }}),
            json!({"subPath": "etc", "readOnly": true}),
        ),
        spec("volume-of-two-containers")
            .volume(json!({"emptyDir": {}}), plain())
            .and(
                "other",
                json!({"volumeMounts": [
                    {"name": "v0", "mountPath": "/elsewhere", "readOnly": true},
                ]}),
            ),
        spec("volume-of-nobody").pod(json!({"volumes": [{"name": "x", "emptyDir": {}}]})),
    ]
}
