//! A pod and its containers: names, words, ports, and what is told of them.

use serde_json::json;

use crate::wire::spec::{Spec, spec};

pub(super) fn specs() -> Vec<Spec> {
    // Cut after 63 letters, it would end with a dash.
    let long = "a-name-of-more-than-sixty-three-letters-is-cut-for-the-host-na-me";
    vec![
        spec("plain"),
        spec("command").main(json!({"command": ["/bin/app", "--flag", "with space"]})),
        spec("args").main(json!({"args": ["serve", ""]})),
        spec("command-and-args").main(json!({"command": ["/app"], "args": ["a", "b"]})),
        spec("working-dir").main(json!({"workingDir": "/srv/data"})),
        spec("stdin").main(json!({"stdin": true})),
        spec("stdin-once").main(json!({"stdin": true, "stdinOnce": true})),
        spec("tty").main(json!({"stdin": true, "tty": true})),
        spec("labels").metadata(json!({
            "labels": {"app": "web", "example.org/tier": "front", "empty": ""},
        })),
        spec("annotations").metadata(json!({
            "annotations": {"note": "a \"quoted\" line\nand another", "example.org/x": ""},
        })),
        spec("two-containers").and("other", json!({"args": ["x"]})),
        spec("three-containers")
            .and("second", json!({}))
            .and("third", json!({})),
        spec("ports").main(json!({"ports": [
            {"containerPort": 80}, {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"containerPort": 132, "protocol": "SCTP"},
        ]})),
        spec("host-ports").main(json!({"ports": [
            {"name": "web", "containerPort": 80, "hostPort": 30080},
            {"containerPort": 53, "hostPort": 30053, "protocol": "UDP", "hostIP": "127.0.0.1"},
        ]})),
        spec("ports-of-two-containers")
            .main(json!({"ports": [{"containerPort": 81}, {"containerPort": 82}]}))
            .and(
                "other",
                json!({"ports": [{"containerPort": 83}, {"containerPort": 81}]}),
            ),
        spec("ports-twice").main(json!({"ports": [
            {"name": "a", "containerPort": 90}, {"name": "b", "containerPort": 90},
        ]})),
        spec("ports-of-init-containers")
            .init("first", json!({"ports": [{"containerPort": 84}]}))
            .story("run-time.first", "200ms")
            .sidecar("side", json!({"ports": [{"containerPort": 85}]})),
        spec("termination-path").main(json!({"terminationMessagePath": "/run/last-words"})),
        spec("termination-policy")
            .main(json!({"terminationMessagePolicy": "FallbackToLogsOnError"})),
        spec(long),
        spec("service-account").pod(json!({"serviceAccountName": "robot"})),
    ]
}
