//! Resources that change while a container runs.

use serde_json::{Value, json};

use crate::wire::spec::{Spec, Until, spec};

fn resources(cpu: [&str; 2], memory: [&str; 2]) -> Value {
    json!({"requests": {"cpu": cpu[0], "memory": memory[0]},
        "limits": {"cpu": cpu[1], "memory": memory[1]}})
}

fn resized(spec: Spec, to: &Value) -> Spec {
    spec.then(
        "/resize",
        json!({"spec": {"containers": [{"name": "main", "resources": to}]}}),
        Until::Resized("main", to.clone()),
    )
}

pub(super) fn specs() -> Vec<Spec> {
    let before = || json!({"resources": resources(["20m", "40m"], ["16Mi", "32Mi"])});
    let restarts = |resource: &str| {
        json!({"resizePolicy": [
            {"resourceName": resource, "restartPolicy": "RestartContainer"},
        ]})
    };
    vec![
        resized(
            spec("resize-cpu-up").main(before()),
            &resources(["30m", "60m"], ["16Mi", "32Mi"]),
        ),
        resized(
            spec("resize-cpu-down").main(before()),
            &resources(["10m", "20m"], ["16Mi", "32Mi"]),
        ),
        resized(
            spec("resize-memory-up").main(before()),
            &resources(["20m", "40m"], ["32Mi", "64Mi"]),
        ),
        resized(
            spec("resize-both").main(before()).and("other", before()),
            &resources(["40m", "80m"], ["32Mi", "64Mi"]),
        ),
        resized(
            spec("resize-with-restart")
                .main(before())
                .main(restarts("memory")),
            &resources(["20m", "40m"], ["32Mi", "64Mi"]),
        )
        .lives(2),
    ]
}
