//! Whether a status is worth sending: when it says something new, and now and
//! then when it does not.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use serde_json::{Map, Value};

use crate::resources;

/// When the status was sent, and when it is due again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    period: Duration,
    /// On the clock's uptime; `None`: not since the start.
    last: Option<Duration>,
    /// How long after the last one the next is due.
    due_after: Duration,
}

impl Report {
    pub fn new(period: Duration) -> Self {
        Self {
            period,
            last: None,
            due_after: period,
        }
    }

    /// Whether to send at `now`. `random` spreads the nodes of a cluster over the
    /// period after something that befell them all at once.
    pub fn is_due(&mut self, changed: bool, now: Duration, random: f64) -> bool {
        let due = match self.last {
            None => true,
            Some(last) => now.saturating_sub(last) >= self.due_after,
        };
        if !changed && !due {
            return false;
        }
        self.due_after = if changed || self.last.is_none() {
            self.period.mul_f64(0.5 + random)
        } else {
            self.period
        };
        true
    }

    pub fn sent(&mut self, now: Duration) {
        self.last = Some(now);
    }
}

/// Whether the status says anything new but the times of heartbeats.
pub fn has_changed(old: &Node, new: &Node) -> bool {
    comparable(old.status.as_ref()) != comparable(new.status.as_ref())
}

/// Two statuses mean the same if these are equal: without heartbeats, amounts in
/// one notation, nothing empty, conditions by type.
fn comparable(status: Option<&NodeStatus>) -> Value {
    let mut status = status.cloned().unwrap_or_default();
    for amounts in [&mut status.capacity, &mut status.allocatable] {
        *amounts = Some(resources::to_api(&resources::from_api(amounts.as_ref())));
    }
    let conditions = status.conditions.get_or_insert_default();
    conditions.sort_by(|left, right| left.type_.cmp(&right.type_));
    conditions.iter_mut().for_each(without_heartbeat);
    without_empty(serde_json::to_value(status).unwrap_or_default())
}

fn without_heartbeat(condition: &mut NodeCondition) {
    condition.last_heartbeat_time = None;
}

fn without_empty(value: Value) -> Value {
    let Value::Object(fields) = value else {
        return value;
    };
    let fields = fields
        .into_iter()
        .map(|(key, value)| (key, without_empty(value)));
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let fields: Map<String, Value> = fields.filter(|(_, value)| !is_empty(value)).collect();
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(300);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_first_report_is_always_due_and_the_next_is_spread_over_the_period() {
        for (random, due) in [(0.0, 150), (0.5, 300), (0.999, 450)] {
            let mut report = Report::new(PERIOD);
            assert!(report.is_due(false, at(0), random));
            report.sent(at(0));
            assert!(!report.is_due(false, at(due - 1), 0.0), "{random}");
            assert!(report.is_due(false, at(due), 0.0), "{random}");
            report.sent(at(due));
            assert!(!report.is_due(false, at(due + 299), 0.0));
            assert!(report.is_due(false, at(due + 300), 0.0));
        }
    }

    #[test]
    fn a_change_is_due_at_once_and_spreads_the_next() {
        let mut report = Report::new(PERIOD);
        report.is_due(false, at(0), 0.5);
        report.sent(at(0));
        assert!(report.is_due(true, at(10), 0.0));
        report.sent(at(10));
        assert!(!report.is_due(false, at(159), 0.0));
        assert!(report.is_due(false, at(160), 0.0));
    }

    #[test]
    fn a_report_that_could_not_be_sent_stays_due() {
        let mut report = Report::new(PERIOD);
        assert!(report.is_due(false, at(0), 0.0));
        assert!(report.is_due(false, at(10), 0.0));
    }

    #[test]
    fn only_what_means_something_is_a_change() {
        let node =
            |status: Value| -> Node { serde_json::from_value(json!({"status": status})).unwrap() };
        let condition = |kind: &str, status: &str, seen: &str| {
            json!({"type": kind, "status": status,
                   "lastHeartbeatTime": format!("2026-01-01T00:00:{seen}Z")})
        };
        let base = json!({
            "capacity": {"memory": "1Gi"},
            "conditions": [condition("A", "True", "01"), condition("B", "True", "01")],
        });
        for (other, changed) in [
            (base.clone(), false),
            (
                json!({
                    "capacity": {"memory": "1024Mi"}, "images": [], "nodeInfo": null,
                    "conditions": [condition("B", "True", "09"), condition("A", "True", "09")],
                }),
                false,
            ),
            (
                json!({"capacity": {"memory": "2Gi"}, "conditions": base["conditions"]}),
                true,
            ),
            (
                json!({"capacity": {"memory": "1Gi"}, "conditions": [condition("A", "True", "01")]}),
                true,
            ),
            (
                json!({
                    "capacity": {"memory": "1Gi"},
                    "conditions": [condition("A", "False", "01"), condition("B", "True", "01")],
                }),
                true,
            ),
        ] {
            let found = has_changed(&node(base.clone()), &node(other.clone()));
            assert_eq!(found, changed, "{other}");
        }
    }
}
