//! What several controllers want to know of pods. Pure.

use k8s_openapi::api::core::v1::{Pod, Taint, Toleration};
use serde_json::{Value, json};

pub(crate) fn node_of(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}

pub(crate) fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// Whether its containers will not run again.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(crate) fn tolerations(pod: &Pod) -> &[Toleration] {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.tolerations.as_deref())
        .unwrap_or_default()
}

/// Whether a toleration covers a taint: an empty key with `Exists` covers all, an empty
/// effect all effects.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if !effect.is_empty() && effect != taint.effect || !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => text(&toleration.value) == text(&taint.value),
        "Exists" => true,
        _ => false,
    }
}

/// Adds or changes a condition in a pod's status; its transition time stays unless its
/// status changes. Whether something changed.
pub(crate) fn set_condition(pod: &mut Value, condition: &Value) -> bool {
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else {
        return false;
    };
    let Some(found) = conditions
        .iter_mut()
        .find(|one| one["type"] == condition["type"])
    else {
        conditions.push(condition.clone());
        return true;
    };
    let mut wanted = condition.clone();
    if found["status"] == wanted["status"] {
        wanted["lastTransitionTime"] = found["lastTransitionTime"].clone();
    }
    if let Some(generation) = found.get("observedGeneration") {
        wanted["observedGeneration"] = generation.clone();
    }
    if let Some(probed) = found.get("lastProbeTime") {
        wanted["lastProbeTime"] = probed.clone();
    }
    let changed = *found != wanted;
    *found = wanted;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_cover_taints_as_upstream_says() {
        let taint: Taint =
            serde_json::from_value(json!({"key": "a", "value": "x", "effect": "NoSchedule"}))
                .unwrap();
        for (toleration, expected) in [
            (
                json!({"key": "a", "value": "x", "effect": "NoSchedule"}),
                true,
            ),
            (json!({"key": "a", "operator": "Equal", "value": "x"}), true),
            (json!({"key": "a", "value": "y"}), false),
            (json!({"key": "a", "operator": "Exists"}), true),
            (json!({"key": "b", "operator": "Exists"}), false),
            (json!({"operator": "Exists"}), true),
            (json!({"operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "a", "operator": "Other"}), false),
        ] {
            let parsed = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(tolerates(&parsed, &taint), expected, "{toleration}");
        }
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let condition = |status: &str, reason: &str, time: &str| json!({"type": "A", "status": status, "reason": reason, "lastTransitionTime": time});
        let mut pod = json!({"status": {}});
        assert!(set_condition(&mut pod, &condition("True", "r", "1")));
        assert!(!set_condition(&mut pod, &condition("True", "r", "2")));
        assert!(set_condition(&mut pod, &condition("True", "s", "3")));
        assert_eq!(pod["status"]["conditions"][0]["lastTransitionTime"], "1");
        assert!(set_condition(&mut pod, &condition("False", "s", "4")));
        assert_eq!(
            pod["status"]["conditions"],
            json!([condition("False", "s", "4")])
        );
    }
}
