//! Init containers, and those of them that stay.

use serde_json::json;

use crate::wire::spec::{Spec, Until, spec};

pub(super) fn specs() -> Vec<Spec> {
    vec![
        spec("init")
            .init("first", json!({"command": ["prepare"]}))
            .story("run-time.first", "200ms"),
        spec("init-two")
            .init("first", json!({}))
            .init("second", json!({"env": [{"name": "A", "value": "b"}]}))
            .story("run-time.first", "200ms")
            .story("run-time.second", "200ms"),
        spec("init-fails")
            .pod(json!({"restartPolicy": "Never"}))
            .init("first", json!({}))
            .init("second", json!({}))
            .story("crash-loop.first", "200ms")
            .until(Until::Ended),
        spec("init-fails-again")
            .init("first", json!({}))
            .story("crash-loop.first", "200ms")
            .until(Until::Restarted("first", 1))
            .lives(2),
        spec("sidecar").sidecar("side", json!({"args": ["serve"]})),
        spec("sidecars-two")
            .sidecar("near", json!({}))
            .sidecar("far", json!({}))
            .and("other", json!({})),
        spec("sidecar-between")
            .init("first", json!({}))
            .sidecar("side", json!({}))
            .init("last", json!({}))
            .story("run-time.first", "200ms")
            .story("run-time.last", "200ms"),
        spec("sidecar-of-a-job")
            .pod(json!({"restartPolicy": "Never"}))
            .sidecar("side", json!({}))
            .story("run-time.main", "500ms")
            .until(Until::Ended),
        spec("sidecar-with-security").sidecar(
            "side",
            json!({"securityContext": {"runAsUser": 7, "readOnlyRootFilesystem": true}}),
        ),
    ]
}
