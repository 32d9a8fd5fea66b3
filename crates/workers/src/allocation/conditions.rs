//! The conditions that tell of resizes: `PodResizePending` is the fold's, which decides,
//! and `PodResizeInProgress` the worker's, which carries out.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub const PENDING: &str = "PodResizePending";
pub const IN_PROGRESS: &str = "PodResizeInProgress";

pub const DEFERRED: &str = "Deferred";
pub const INFEASIBLE: &str = "Infeasible";
pub const ERROR: &str = "Error";

/// What holds, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    pub kind: &'static str,
    pub reason: &'a str,
    pub message: &'a str,
    pub generation: Option<i64>,
}

/// A condition that holds from now on, or still. Only another reason is another time.
pub fn condition(said: Said<'_>, before: Option<&PodCondition>, now: Timestamp) -> PodCondition {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let reason = text(said.reason);
    let since = before.filter(|before| before.reason == reason);
    let since = since.and_then(|before| before.last_transition_time.clone());
    PodCondition {
        type_: said.kind.to_owned(),
        status: "True".to_owned(),
        last_probe_time: Some(Time(now)),
        last_transition_time: since.or(Some(Time(now))),
        observed_generation: said.generation,
        reason,
        message: text(said.message),
    }
}

/// What an earlier agent has told the API.
pub fn told(pod: &Pod, kind: &str) -> Option<PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let mut conditions = conditions.iter();
    conditions
        .find(|condition| condition.type_ == kind)
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_as_old_as_its_reason() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let said = |reason| Said {
            kind: PENDING,
            reason,
            message: "m",
            generation: Some(2),
        };
        let first = condition(said(DEFERRED), None, at(1));
        assert_eq!(first.last_transition_time, Some(Time(at(1))));
        let still = condition(said(DEFERRED), Some(&first), at(2));
        assert_eq!(still.last_transition_time, Some(Time(at(1))));
        assert_eq!(still.last_probe_time, Some(Time(at(2))));
        let other = condition(said(INFEASIBLE), Some(&still), at(3));
        assert_eq!(other.last_transition_time, Some(Time(at(3))));
        let bare = condition(said(""), Some(&still), at(4));
        assert_eq!(bare.reason, None);
    }
}
