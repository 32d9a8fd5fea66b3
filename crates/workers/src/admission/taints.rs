//! Whether a pod may be on a node that drives pods away.
//!
//! Tolerations that compare numbers (`Lt`, `Gt`) tolerate nothing: their feature gate
//! is off unless somebody turns it on, and we do not have it yet.

use k8s_openapi::api::core::v1::{Node, PodSpec, Taint, Toleration};

/// Only taints that drive away what runs: that others keep pods from being placed
/// here is over for a pod that was placed.
pub(super) fn are_tolerated(spec: &PodSpec, node: &Node) -> bool {
    let node = node.spec.as_ref();
    let taints = node.and_then(|node| node.taints.as_ref());
    let mut driving = taints
        .into_iter()
        .flatten()
        .filter(|taint| taint.effect == "NoExecute");
    driving.all(|taint| {
        let mut tolerations = spec.tolerations.iter().flatten();
        tolerations.any(|toleration| tolerates(toleration, taint))
    })
}

/// A toleration without an effect is for all effects, one without a key for all keys.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    let is_meant =
        (effect.is_empty() || effect == taint.effect) && (key.is_empty() || key == taint.key);
    let is_met = match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => {
            let value = toleration.value.as_deref().unwrap_or_default();
            value == taint.value.as_deref().unwrap_or_default()
        }
        "Exists" => true,
        _ => false,
    };
    is_meant && is_met
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::testing::{node, pod};

    fn tolerated(taints: &Value, tolerations: &Value) -> bool {
        let pod = pod(&json!({ "tolerations": tolerations }));
        let node = node(&json!({ "spec": { "taints": taints } }));
        are_tolerated(pod.spec.as_ref().unwrap(), &node)
    }

    #[test]
    fn a_toleration_is_for_its_key_its_value_and_its_effect() {
        let taint = json!([{ "key": "k", "value": "v", "effect": "NoExecute" }]);
        for (toleration, enough) in [
            (json!({ "key": "k", "value": "v" }), true),
            (
                json!({ "key": "k", "value": "v", "operator": "Equal" }),
                true,
            ),
            (json!({ "key": "k", "value": "v", "operator": "" }), true),
            (json!({ "key": "k", "value": "w" }), false),
            (json!({ "key": "k" }), false),
            (json!({ "key": "l", "value": "v" }), false),
            (json!({ "key": "k", "operator": "Exists" }), true),
            (json!({ "key": "l", "operator": "Exists" }), false),
            (json!({ "operator": "Exists" }), true),
            (json!({ "operator": "Exists", "effect": "NoExecute" }), true),
            (
                json!({ "operator": "Exists", "effect": "NoSchedule" }),
                false,
            ),
            (json!({ "operator": "Exists", "effect": "" }), true),
            (
                json!({ "operator": "Exists", "tolerationSeconds": 1 }),
                true,
            ),
            (json!({ "key": "k", "value": "v", "operator": "In" }), false),
            (json!({ "key": "k", "value": "9", "operator": "Lt" }), false),
        ] {
            assert_eq!(
                tolerated(&taint, &json!([toleration])),
                enough,
                "{toleration}"
            );
        }
        assert!(!tolerated(&taint, &json!([])));
        let empty = json!([{ "key": "k", "effect": "NoExecute" }]);
        assert!(tolerated(&empty, &json!([{ "key": "k" }])));
    }

    #[test]
    fn each_taint_that_drives_pods_away_needs_a_toleration() {
        let taints = json!([
            { "key": "a", "effect": "NoSchedule" },
            { "key": "b", "effect": "NoExecute" },
            { "key": "c", "effect": "PreferNoSchedule" },
            { "key": "d", "effect": "NoExecute" },
        ]);
        let exists = |key: &str| json!({ "key": key, "operator": "Exists" });
        assert!(tolerated(&taints, &json!([exists("d"), exists("b")])));
        assert!(!tolerated(&taints, &json!([exists("b"), exists("a")])));
        assert!(!tolerated(&taints, &json!([exists("d")])));
        assert!(tolerated(&json!([]), &json!([])));
    }
}
