//! The taints that a node's conditions ask for. Pure.

use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};

use super::health::{condition, ready};

pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions that keep new pods away while they are true.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    (
        "NetworkUnavailable",
        "node.kubernetes.io/network-unavailable",
    ),
];

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// Whether pods may be driven away now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// A node that is ill may be marked so that its pods go.
    Allowed,
    /// Not yet: others are before it. What is marked stays so.
    Wait,
    /// So much is ill that it is likelier us: nobody's pods are driven away.
    Stopped,
}

/// What is to be said of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    schedule: Vec<&'static str>,
    execute: Option<&'static str>,
}

impl Wanted {
    pub(crate) fn of(node: &Node) -> Self {
        let illness = match ready(node) {
            Some("False") => Some(NOT_READY),
            Some("Unknown") => Some(UNREACHABLE),
            _ => None,
        };
        let is_true = |kind: &str| condition(node, kind).is_some_and(|one| one.status == "True");
        let mut schedule: Vec<_> = illness.into_iter().collect();
        let pressures = PRESSURES.iter().filter(|(kind, _)| is_true(kind));
        schedule.extend(pressures.map(|(_, key)| *key));
        let spec = node.spec.as_ref();
        if spec.is_some_and(|spec| spec.unschedulable == Some(true)) {
            schedule.push(UNSCHEDULABLE);
        }
        Self {
            schedule,
            execute: illness,
        }
    }

    /// Whether a node is ill and not yet marked so that its pods go.
    pub(crate) fn asks_for_eviction(&self, node: &Node) -> bool {
        self.execute.is_some() && !taints(node).iter().any(drives_away)
    }

    /// Whether the node says something else.
    pub(crate) fn differs(&self, node: &Node, eviction: Eviction) -> bool {
        let mut object = json!({"spec": {"taints": taints(node)}});
        self.apply(&mut object, eviction, "")
    }

    /// Brings the taints of a node in line; those that others have put there stay.
    /// Whether something changed.
    pub(crate) fn apply(&self, node: &mut Value, eviction: Eviction, now: &str) -> bool {
        let before = node["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let execute = match eviction {
            Eviction::Stopped => None,
            Eviction::Allowed => self.execute,
            Eviction::Wait => {
                let is_marked = before
                    .iter()
                    .any(|taint| is_illness(taint) && taint["effect"] == NO_EXECUTE);
                self.execute.filter(|_| is_marked)
            }
        };
        let wanted = |taint: &Value| {
            let key = taint["key"].as_str().unwrap_or_default();
            match taint["effect"].as_str() {
                Some(NO_SCHEDULE) => !is_ours(key) || self.schedule.contains(&key),
                Some(NO_EXECUTE) => !is_illness(taint) || execute == Some(key),
                _ => true,
            }
        };
        let mut after: Vec<_> = before
            .iter()
            .filter(|taint| wanted(taint))
            .cloned()
            .collect();
        let add = self.schedule.iter().map(|key| (*key, NO_SCHEDULE));
        for (key, effect) in add.chain(execute.map(|key| (key, NO_EXECUTE))) {
            let has = after
                .iter()
                .any(|taint| taint["key"] == key && taint["effect"] == effect);
            if !has {
                after.push(json!({"key": key, "effect": effect, "timeAdded": now}));
            }
        }
        if after == before {
            return false;
        }
        if !after.is_empty() {
            node["spec"]["taints"] = json!(after);
        } else if let Some(spec) = node["spec"].as_object_mut() {
            spec.remove("taints");
        }
        true
    }
}

fn is_ours(key: &str) -> bool {
    [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&key)
        || PRESSURES.iter().any(|(_, own)| *own == key)
}

fn is_illness(taint: &Value) -> bool {
    taint["key"] == NOT_READY || taint["key"] == UNREACHABLE
}

fn drives_away(taint: &Taint) -> bool {
    taint.effect == NO_EXECUTE && [NOT_READY, UNREACHABLE].contains(&taint.key.as_str())
}

pub(crate) fn taints(node: &Node) -> &[Taint] {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(conditions: &[(&str, &str)], spec: Value) -> Node {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status)| json!({"type": kind, "status": status}))
            .collect();
        let mut node = json!({"status": {"conditions": conditions}});
        node["spec"] = spec;
        serde_json::from_value(node).unwrap()
    }

    /// Keys with the first letters of their effects.
    fn after(node: &Node, eviction: Eviction) -> Vec<String> {
        let mut object = json!({"spec": {"taints": taints(node)}});
        let wanted = Wanted::of(node);
        assert_eq!(
            wanted.differs(node, eviction),
            wanted.apply(&mut object, eviction, "now")
        );
        let taints = object["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let text = |taint: &Value| {
            let key = taint["key"]
                .as_str()
                .unwrap()
                .trim_start_matches("node.kubernetes.io/")
                .to_owned();
            format!("{key}:{}", taint["effect"].as_str().unwrap())
        };
        taints.iter().map(text).collect()
    }

    #[test]
    fn conditions_become_taints() {
        let none: &[&str] = &[];
        for (conditions, spec, expected) in [
            (&[("Ready", "True")][..], json!({}), none),
            (&[], json!({}), none),
            (
                &[("Ready", "False")],
                json!({}),
                &["not-ready:NoSchedule", "not-ready:NoExecute"],
            ),
            (
                &[("Ready", "Unknown")],
                json!({}),
                &["unreachable:NoSchedule", "unreachable:NoExecute"],
            ),
            (
                &[("Ready", "True"), ("MemoryPressure", "True")],
                json!({}),
                &["memory-pressure:NoSchedule"],
            ),
            (
                &[("Ready", "True"), ("DiskPressure", "True")],
                json!({}),
                &["disk-pressure:NoSchedule"],
            ),
            (
                &[("Ready", "True"), ("PIDPressure", "True")],
                json!({}),
                &["pid-pressure:NoSchedule"],
            ),
            (
                &[("Ready", "True"), ("NetworkUnavailable", "True")],
                json!({}),
                &["network-unavailable:NoSchedule"],
            ),
            (
                &[("Ready", "True"), ("MemoryPressure", "Unknown")],
                json!({}),
                none,
            ),
            (
                &[("Ready", "True")],
                json!({"unschedulable": true}),
                &["unschedulable:NoSchedule"],
            ),
        ] {
            assert_eq!(
                after(&node(conditions, spec), Eviction::Allowed),
                expected,
                "{conditions:?}"
            );
        }
    }

    #[test]
    fn what_no_longer_holds_goes_and_what_others_put_there_stays() {
        let spec = json!({"taints": [
            {"key": "team", "effect": "NoExecute"},
            {"key": NOT_READY, "effect": "NoSchedule"},
            {"key": NOT_READY, "effect": "NoExecute", "timeAdded": "2026-11-16T12:00:00Z"},
            {"key": NOT_READY, "effect": "PreferNoSchedule"},
        ]});
        let healthy = node(&[("Ready", "True")], spec.clone());
        assert_eq!(
            after(&healthy, Eviction::Allowed),
            ["team:NoExecute", "not-ready:PreferNoSchedule"]
        );
        let silent = node(&[("Ready", "Unknown")], spec.clone());
        assert_eq!(
            after(&silent, Eviction::Wait),
            [
                "team:NoExecute",
                "not-ready:PreferNoSchedule",
                "unreachable:NoSchedule",
                "unreachable:NoExecute"
            ],
            "another illness of one that is marked is told at once"
        );
        let ill = node(&[("Ready", "False")], spec);
        assert!(!Wanted::of(&ill).differs(&ill, Eviction::Allowed));
        assert!(!Wanted::of(&ill).asks_for_eviction(&ill));
    }

    #[test]
    fn pods_are_driven_away_only_when_that_is_allowed() {
        let ill = node(&[("Ready", "False")], json!({}));
        assert!(Wanted::of(&ill).asks_for_eviction(&ill));
        assert_eq!(after(&ill, Eviction::Wait), ["not-ready:NoSchedule"]);
        assert_eq!(after(&ill, Eviction::Stopped), ["not-ready:NoSchedule"]);
        let marked = node(
            &[("Ready", "False")],
            json!({"taints": [{"key": NOT_READY, "effect": "NoExecute"}]}),
        );
        assert_eq!(after(&marked, Eviction::Stopped), ["not-ready:NoSchedule"]);
        assert_eq!(
            after(&marked, Eviction::Wait),
            ["not-ready:NoExecute", "not-ready:NoSchedule"]
        );
    }

    #[test]
    fn a_new_taint_says_since_when() {
        let mut object = json!({"spec": {}});
        let ill = node(&[("Ready", "False")], json!({}));
        assert!(Wanted::of(&ill).apply(&mut object, Eviction::Allowed, "now"));
        assert_eq!(
            object["spec"]["taints"][1],
            json!({"key": NOT_READY, "effect": "NoExecute", "timeAdded": "now"})
        );
        let well = node(&[("Ready", "True")], json!({}));
        assert!(Wanted::of(&well).apply(&mut object, Eviction::Allowed, "now"));
        assert_eq!(object, json!({"spec": {}}));
    }
}
