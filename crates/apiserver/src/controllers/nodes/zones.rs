//! How fast nodes that are ill may be emptied: slowly where much is ill, and not at all
//! when everything is. Pure.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

use super::health::ready;
use super::taints::Eviction;

/// Between two nodes that are emptied.
const USUAL: SignedDuration = SignedDuration::from_secs(10);
const REDUCED: SignedDuration = SignedDuration::from_secs(100);
/// From this share of ill nodes (in hundredths) a zone counts as disrupted.
const DISRUPTED: usize = 55;
/// Smaller zones are not emptied at all while they are disrupted.
const LARGE: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Normal,
    Partial { large: bool },
    Full,
}

fn state(ready: usize, ill: usize) -> State {
    let all = ready + ill;
    if ready == 0 && ill > 0 {
        State::Full
    } else if ill > 2 && ill * 100 >= DISRUPTED * all {
        State::Partial { large: all > LARGE }
    } else {
        State::Normal
    }
}

/// The zones of a cluster, with what was allowed last. Kept up node by node: of thousands,
/// few change at a time.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    /// The zone of each node, and whether it is well there.
    nodes: HashMap<String, (String, bool)>,
    /// In each zone, how many are well and how many are ill.
    counts: BTreeMap<String, (usize, usize)>,
    last: BTreeMap<String, Timestamp>,
}

impl Zones {
    /// Counts a node as it is now; `None` if it is gone.
    pub(crate) fn note(&mut self, name: &str, node: Option<&Node>) {
        let now = node.map(|node| (zone_of(node), ready(node) == Some("True")));
        if self.nodes.get(name) == now.as_ref() {
            return;
        }
        let before = match now.clone() {
            Some(now) => self.nodes.insert(name.to_owned(), now),
            None => self.nodes.remove(name),
        };
        if let Some((zone, well)) = now {
            let (wells, ills) = self.counts.entry(zone).or_default();
            *(if well { wells } else { ills }) += 1;
        }
        if let Some((zone, well)) = before
            && let Some((wells, ills)) = self.counts.get_mut(&zone)
        {
            *(if well { &mut *wells } else { &mut *ills }) -= 1;
            if *wells + *ills == 0 {
                self.counts.remove(&zone);
                self.last.remove(&zone);
            }
        }
    }

    fn state(&self, zone: &str) -> Option<State> {
        let counts = self.counts.get(zone);
        counts.map(|(well, ill)| state(*well, *ill))
    }

    /// Whether the pods of a node may be driven away now.
    pub(crate) fn eviction(&self, node: &Node, now: Timestamp) -> Eviction {
        let mut counts = self.counts.values();
        if counts.all(|(well, ill)| state(*well, *ill) == State::Full) {
            return Eviction::Stopped;
        }
        let zone = zone_of(node);
        let pause = match self.state(&zone) {
            Some(State::Normal | State::Full) => USUAL,
            Some(State::Partial { large: true }) => REDUCED,
            Some(State::Partial { large: false }) | None => return Eviction::Wait,
        };
        match self.last.get(&zone) {
            Some(last) if *last + pause > now => Eviction::Wait,
            _ => Eviction::Allowed,
        }
    }

    /// Notes that a node was marked.
    pub(crate) fn used(&mut self, node: &Node, now: Timestamp) {
        self.last.insert(zone_of(node), now);
    }
}

fn zone_of(node: &Node) -> String {
    let label = |name: &str| {
        let labels = node.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(name))
            .cloned()
            .unwrap_or_default()
    };
    format!(
        "{}:{}",
        label("topology.kubernetes.io/region"),
        label("topology.kubernetes.io/zone")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(zone: &str, ready: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn zones(nodes: &[&Node]) -> Zones {
        let mut zones = Zones::default();
        for (number, node) in nodes.iter().enumerate() {
            zones.note(&number.to_string(), Some(node));
        }
        zones
    }

    #[test]
    fn states_are_upstreams() {
        for (ready, ill, expected) in [
            (0, 1, State::Full),
            (1, 0, State::Normal),
            (0, 0, State::Normal),
            (1, 2, State::Normal),
            (2, 3, State::Partial { large: false }),
            (10, 12, State::Normal),
            (9, 11, State::Partial { large: false }),
            (20, 31, State::Partial { large: true }),
        ] {
            assert_eq!(state(ready, ill), expected, "{ready} {ill}");
        }
    }

    #[test]
    fn one_node_at_a_time_and_none_when_all_are_ill() {
        let ill = node("a", "False");
        let mut zones = zones(&[&ill]);
        assert_eq!(zones.eviction(&ill, at(0)), Eviction::Stopped);
        zones.note("1", Some(&node("a", "True")));
        assert_eq!(zones.eviction(&ill, at(0)), Eviction::Allowed);
        zones.used(&ill, at(0));
        assert_eq!(zones.eviction(&ill, at(9)), Eviction::Wait);
        assert_eq!(zones.eviction(&ill, at(10)), Eviction::Allowed);
    }

    #[test]
    fn a_zone_that_is_lost_whole_is_emptied_while_another_lives() {
        let (lost, well) = (node("a", "Unknown"), node("b", "True"));
        let zones = zones(&[&lost, &well]);
        assert_eq!(zones.eviction(&lost, at(0)), Eviction::Allowed);
    }

    #[test]
    fn a_small_zone_that_is_disrupted_keeps_its_pods() {
        let (ill, well) = (node("a", "False"), node("a", "True"));
        let zones = zones(&[&ill, &ill, &ill, &well]);
        assert_eq!(zones.eviction(&ill, at(0)), Eviction::Wait);
    }

    #[test]
    fn a_node_that_changes_moves_or_goes_is_counted_once_where_it_is() {
        let (ill, well) = (node("a", "False"), node("a", "True"));
        let mut zones = zones(&[&ill, &ill, &ill, &well]);
        for _ in 0..2 {
            zones.note("0", Some(&well));
            assert_eq!(zones.counts[":a"], (2, 2), "{zones:?}");
        }
        zones.note("1", Some(&node("b", "False")));
        assert_eq!((zones.counts[":a"], zones.counts[":b"]), ((2, 1), (0, 1)));
        zones.note("1", None);
        zones.note("1", None);
        assert_eq!(zones.counts.get(":b"), None);
        assert_eq!(zones.nodes.len(), 3);
    }
}
