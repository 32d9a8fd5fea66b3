//! What is sent: the node's status, with what others have written into it.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::conditions::{DISRUPTION, end_readiness, find, is_own, replace_or_push};
use crate::spec::is_terminal;

/// `new` over what the API has. While containers may still run, a pod has not ended:
/// whoever waits for its end would start its successor.
pub fn merge(api: &PodStatus, new: &PodStatus, may_run: bool, now: &Time) -> PodStatus {
    let ends = !is_terminal(api.phase.as_deref()) && is_terminal(new.phase.as_deref());
    let mut merged = PodStatus {
        conditions: Some(conditions(api, new, ends && !may_run, now)),
        resource_claim_statuses: api.resource_claim_statuses.clone(),
        extended_resource_claim_status: api.extended_resource_claim_status.clone(),
        node_allocatable_resource_claim_statuses: api
            .node_allocatable_resource_claim_statuses
            .clone(),
        // Neither is the node's to change.
        nominated_node_name: api.nominated_node_name.clone(),
        resize: api.resize.clone(),
        ..new.clone()
    };
    if ends && may_run {
        merged.phase.clone_from(&api.phase);
        merged.reason.clone_from(&api.reason);
        merged.message.clone_from(&api.message);
    }
    let generation = merged.observed_generation;
    end_readiness(&mut merged, generation, now);
    merged
}

fn conditions(api: &PodStatus, new: &PodStatus, ends: bool, now: &Time) -> Vec<PodCondition> {
    let before = api.conditions.as_deref().unwrap_or_default();
    let others = before.iter().filter(|condition| !is_own(&condition.type_));
    let mut conditions: Vec<PodCondition> = others.cloned().collect();
    for condition in new.conditions.iter().flatten() {
        if is_own(&condition.type_) {
            conditions.push(condition.clone());
        } else if condition.type_ == DISRUPTION && ends {
            let mut condition = condition.clone();
            let same = find(before, DISRUPTION).filter(|before| before.status == condition.status);
            condition.last_transition_time = match same {
                Some(before) => before.last_transition_time.clone(),
                None => Some(now.clone()),
            };
            replace_or_push(&mut conditions, condition);
        }
    }
    conditions
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    fn merged(api: Value, new: Value, may_run: bool) -> Value {
        let status = |value| serde_json::from_value::<PodStatus>(value).unwrap();
        let now = Time(Timestamp::from_second(60).unwrap());
        let merged = merge(&status(api), &status(new), may_run, &now);
        serde_json::to_value(merged).unwrap()
    }

    #[test]
    fn what_others_wrote_stays() {
        let theirs = json!({"type": "theirs", "status": "True"});
        let api = json!({"phase": "Running", "nominatedNodeName": "n", "conditions": [
            {"type": "Ready", "status": "False"}, theirs,
        ], "resourceClaimStatuses": [{"name": "a"}]});
        let ready = json!({"type": "Ready", "status": "True"});
        let new = json!({"phase": "Running", "conditions": [
            {"type": "theirs", "status": "False"}, ready,
        ]});
        let merged = merged(api, new, true);
        assert_eq!(merged["conditions"], json!([theirs, ready]));
        assert_eq!(merged["resourceClaimStatuses"], json!([{"name": "a"}]));
        assert_eq!(merged["nominatedNodeName"], "n");
    }

    #[test]
    fn an_end_is_held_back_while_anything_may_run_and_is_not_ready() {
        let api = json!({"phase": "Running"});
        let new = json!({"phase": "Failed", "reason": "Evicted", "observedGeneration": 3,
        "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"},
            {"type": "Ready", "status": "True"},
        ]});
        let held = merged(api.clone(), new.clone(), true);
        assert_eq!(
            (&held["phase"], &held["reason"]),
            (&json!("Running"), &Value::Null)
        );
        assert_eq!(
            held["conditions"],
            json!([{"type": "Ready", "status": "True"}])
        );
        let ended = merged(api, new, false);
        assert_eq!(
            (&ended["phase"], &ended["reason"]),
            (&json!("Failed"), &json!("Evicted"))
        );
        let at = "1970-01-01T00:01:00Z";
        let not_ready = |kind: &str| {
            json!({"type": kind, "status": "False", "reason": "PodFailed",
                "observedGeneration": 3, "lastTransitionTime": at})
        };
        let disruption = json!({"type": "DisruptionTarget", "status": "True",
            "reason": "TerminationByKubelet", "lastTransitionTime": at});
        assert_eq!(
            ended["conditions"],
            json!([disruption, not_ready("Ready"), not_ready("ContainersReady")])
        );
    }
}
