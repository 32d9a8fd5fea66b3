//! Containers that end, and sandboxes that do.

use serde_json::json;

use crate::wire::spec::{Spec, Until, spec};

pub(super) fn specs() -> Vec<Spec> {
    let policy = |policy: &str| json!({"restartPolicy": policy});
    let again = || Until::Restarted("main", 1);
    vec![
        spec("ends-well").ends(),
        spec("ends-badly").ends().story("exit-code", "3"),
        spec("ends-one-of-two")
            .and("other", json!({}))
            .pod(policy("Never"))
            .story("run-time.main", "300ms")
            .story("run-time.other", "1s")
            .until(Until::Ended),
        spec("crashes")
            .story("crash-loop", "300ms")
            .until(again())
            .lives(2),
        spec("ends-and-begins-again")
            .story("run-time", "300ms")
            .until(again())
            .lives(2),
        spec("begins-again-on-failure")
            .pod(policy("OnFailure"))
            .story("crash-loop", "300ms")
            .until(again())
            .lives(2),
        spec("does-not-begin-again-on-success")
            .pod(policy("OnFailure"))
            .story("run-time", "300ms")
            .until(Until::Ended),
        spec("out-of-memory")
            .main(json!({"resources": {"limits": {"memory": "10Mi"}}}))
            .story("oom-after", "300ms")
            .until(again())
            .lives(2),
        spec("policy-of-a-container")
            .pod(policy("Never"))
            .main(json!({"restartPolicy": "OnFailure"}))
            .and("other", json!({}))
            .story("crash-loop.main", "300ms")
            .until(again())
            .lives(2),
        spec("rule-of-a-container")
            .pod(policy("Never"))
            .main(json!({"restartPolicy": "Never", "restartPolicyRules": [
                {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}},
            ]}))
            .and("other", json!({}))
            .story("run-time.main", "300ms")
            .story("exit-code.main", "42")
            .until(again())
            .lives(2),
        // Whether the second life has ended when the pod is deleted is a matter of time: of
        // the first it counts how the others end.
        spec("rule-for-all-containers")
            .pod(policy("Never"))
            .init("first", json!({}))
            .story("run-time.first", "200ms")
            .main(json!({"restartPolicy": "Never", "restartPolicyRules": [
                {"action": "RestartAllContainers",
                    "exitCodes": {"operator": "In", "values": [42]}},
            ]}))
            .and("other", json!({}))
            .story("run-time.main", "6s")
            .story("exit-code.main", "42")
            .until(again()),
        sandbox_ends(spec("sandbox-ends")),
        sandbox_ends(
            spec("sandbox-ends-after-init")
                .init("first", json!({}))
                .story("run-time.first", "200ms"),
        ),
    ]
}

fn sandbox_ends(spec: Spec) -> Spec {
    spec.loses_sandbox(Until::Restarted("main", 1)).lives(2)
}
