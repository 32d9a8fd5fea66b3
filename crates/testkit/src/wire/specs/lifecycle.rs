//! Hooks, and how long a container has to end.

use serde_json::{Value, json};

use crate::wire::spec::{Spec, Until, spec};

#[allow(
    clippy::needless_pass_by_value,
    reason = "manifests are written in place"
)]
fn hook(when: &str, what: Value) -> Value {
    json!({"lifecycle": {when: what}})
}

/// Of two containers the one is found ill, and ends for good: where nobody listens, every
/// probe fails.
fn ill(name: &'static str, probe: &str) -> Spec {
    let never = json!({
        "tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1,
        "terminationGracePeriodSeconds": 13,
    });
    spec(name)
        .main(json!({probe: never}))
        .and("other", json!({}))
        .pod(json!({"restartPolicy": "Never"}))
        .until(Until::Stopped("main"))
}

pub(super) fn specs() -> Vec<Spec> {
    vec![
        spec("pre-stop-command").main(hook(
            "preStop",
            json!({"exec": {"command": ["true", "$(X)"]}}),
        )),
        spec("pre-stop-request")
            .main(hook(
                "preStop",
                json!({"httpGet": {
                    "path": "/bye", "port": "web", "scheme": "HTTP",
                    "httpHeaders": [{"name": "X-Why", "value": "the end"}],
                }}),
            ))
            .main(json!({"ports": [{"name": "web", "containerPort": 8081}]}))
            .grace(2),
        // There is no time for it when the container is replaced.
        spec("pre-stop-without-grace")
            .main(hook("preStop", json!({"exec": {"command": ["true"]}})))
            .pod(json!({"terminationGracePeriodSeconds": 0}))
            .then(
                "",
                json!({"spec": {"containers": [{
                    "name": "main", "image": "registry.example/pre-stop-without-grace/main:2",
                }]}}),
                Until::Restarted("main", 1),
            )
            .lives(2),
        spec("pre-stop-sleep").main(hook("preStop", json!({"sleep": {"seconds": 1}}))),
        spec("post-start-command")
            .main(hook("postStart", json!({"exec": {"command": ["true"]}})))
            .and("other", json!({})),
        spec("post-start-sleep")
            .main(hook("postStart", json!({"sleep": {"seconds": 1}})))
            .and("other", json!({})),
        spec("both-hooks").main(json!({"lifecycle": {
            "postStart": {"exec": {"command": ["true"]}},
            "preStop": {"exec": {"command": ["true"]}},
        }})),
        // A pod that chooses its signals says for which system it is.
        spec("stop-signal")
            .pod(json!({"os": {"name": "linux"}}))
            .main(json!({"lifecycle": {"stopSignal": "SIGUSR1"}}))
            .and(
                "real-time",
                json!({"lifecycle": {"stopSignal": "SIGRTMIN+3"}}),
            )
            .and("usual", json!({})),
        spec("stop-signal-and-hook")
            .pod(json!({"os": {"name": "linux"}}))
            .main(json!({"lifecycle": {
                "stopSignal": "SIGQUIT",
                "preStop": {"exec": {"command": ["true"]}},
            }})),
        spec("grace-of-the-pod").pod(json!({"terminationGracePeriodSeconds": 7})),
        spec("grace-zero").pod(json!({"terminationGracePeriodSeconds": 0})),
        spec("grace-one").pod(json!({"terminationGracePeriodSeconds": 1})),
        spec("grace-long").pod(json!({"terminationGracePeriodSeconds": 3600})),
        ill("grace-of-liveness", "livenessProbe"),
        ill("grace-of-startup", "startupProbe"),
        spec("deleted-with-other-grace").grace(9),
        spec("deleted-with-longer-grace")
            .pod(json!({"terminationGracePeriodSeconds": 5}))
            .grace(50),
        spec("deleted-at-once").grace(0),
        spec("deadline")
            .pod(json!({"activeDeadlineSeconds": 10}))
            .until(Until::Ended),
        spec("deadline-with-grace")
            .pod(json!({"activeDeadlineSeconds": 10, "terminationGracePeriodSeconds": 11}))
            .and("other", json!({}))
            .until(Until::Ended),
    ]
}
