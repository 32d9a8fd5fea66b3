//! Whether nodes were alive all the time, from looks at the API server: the
//! arithmetic, without the looking.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;

/// How often a node renews its lease, at the most. Looks that are further
/// apart than this may have two renewals between them.
const BETWEEN_RENEWALS: Duration = Duration::from_secs(10);

/// What one look showed of the nodes whose names begin alike.
#[derive(Debug)]
pub(super) struct Look {
    at: Timestamp,
    ready: BTreeSet<String>,
    /// When each lease was renewed.
    renewed: BTreeMap<String, Timestamp>,
    /// Of all that has a node or a lease, whatever its state.
    pub(super) names: BTreeSet<String>,
}

/// What looks one after another add up to.
#[derive(Debug, Default)]
pub(super) struct Heartbeats {
    /// The longest that a lease went without renewal.
    pub(super) latest: Duration,
    /// Whose that was.
    pub(super) latest_node: String,
    /// The fewest nodes that were alive at one look.
    pub(super) fewest_alive: Option<usize>,
    pub(super) looks: usize,
    previous: Option<Look>,
}

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
struct Node {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Deserialize)]
struct Lease {
    metadata: Metadata,
    #[serde(default)]
    spec: LeaseSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseSpec {
    renew_time: Option<String>,
}

impl Look {
    /// Of the API server's lists, as JSON, asked for at `at`.
    pub(super) fn read(at: Timestamp, nodes: &str, leases: &str, prefix: &str) -> Result<Self> {
        let nodes: List<Node> = serde_json::from_str(nodes).context("no list of nodes")?;
        let leases: List<Lease> = serde_json::from_str(leases).context("no list of leases")?;
        let ours = |metadata: &Metadata| metadata.name.starts_with(prefix);
        let is_ready = |node: &Node| {
            let mut conditions = node.status.conditions.iter();
            conditions.any(|condition| condition.kind == "Ready" && condition.status == "True")
        };
        let mut look = Self {
            at,
            ready: BTreeSet::new(),
            renewed: BTreeMap::new(),
            names: BTreeSet::new(),
        };
        for node in nodes.items.into_iter().filter(|node| ours(&node.metadata)) {
            if is_ready(&node) {
                look.ready.insert(node.metadata.name.clone());
            }
            look.names.insert(node.metadata.name);
        }
        for lease in leases
            .items
            .into_iter()
            .filter(|lease| ours(&lease.metadata))
        {
            let name = lease.metadata.name;
            look.names.insert(name.clone());
            let Some(time) = lease.spec.renew_time else {
                continue;
            };
            let time = time
                .parse()
                .with_context(|| format!("lease {name} was renewed at {time:?}"))?;
            look.renewed.insert(name, time);
        }
        Ok(look)
    }

    /// Nodes that are Ready and hold a lease.
    pub(super) fn alive(&self) -> usize {
        let alive = |name: &&String| self.renewed.contains_key(*name);
        self.ready.iter().filter(alive).count()
    }
}

impl Heartbeats {
    pub(super) fn add(&mut self, look: Look) {
        let alive = look.alive();
        self.fewest_alive = Some(self.fewest_alive.map_or(alive, |fewest| fewest.min(alive)));
        self.looks += 1;
        for (name, &renewed) in &look.renewed {
            let late = since(renewed, look.at).max(self.gap(&look, name, renewed));
            if late > self.latest {
                self.latest = late;
                self.latest_node.clone_from(name);
            }
        }
        self.previous = Some(look);
    }

    /// How long it had been when a lease was renewed since the look before:
    /// longer than any age that the looks met. Nothing where more than one
    /// renewal may lie between.
    fn gap(&self, look: &Look, name: &str, renewed: Timestamp) -> Duration {
        let Some(previous) = &self.previous else {
            return Duration::ZERO;
        };
        let before = previous.renewed.get(name);
        match before {
            Some(&before) if since(previous.at, look.at) < BETWEEN_RENEWALS => {
                since(before, renewed)
            }
            _ => Duration::ZERO,
        }
    }
}

/// Zero where `later` is the earlier one.
fn since(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// At that second: nodes with their Ready, and leases with the second of
    /// their renewal.
    fn look(second: i64, nodes: &[(&str, &str)], leases: &[(&str, i64)]) -> Look {
        let node = |(name, ready): &(&str, &str)| {
            format!(
                r#"{{"metadata":{{"name":"{name}"}},"status":{{"conditions":[{{"type":"MemoryPressure","status":"True"}},{{"type":"Ready","status":"{ready}"}}]}}}}"#
            )
        };
        let lease = |(name, renewed): &(&str, i64)| {
            let renewed = at(*renewed);
            format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"renewTime":"{renewed:.6}"}}}}"#)
        };
        let list = |items: Vec<String>| format!(r#"{{"items":[{}]}}"#, items.join(","));
        Look::read(
            at(second),
            &list(nodes.iter().map(node).collect()),
            &list(leases.iter().map(lease).collect()),
            "fleet-",
        )
        .unwrap()
    }

    fn heartbeats(looks: impl IntoIterator<Item = Look>) -> Heartbeats {
        let mut heartbeats = Heartbeats::default();
        looks.into_iter().for_each(|look| heartbeats.add(look));
        heartbeats
    }

    /// Looks at one Ready node: (second, second of its lease's renewal).
    fn leases_seen(seen: &[(i64, i64)]) -> Heartbeats {
        heartbeats(seen.iter().map(|&(second, renewed)| {
            look(second, &[("fleet-0", "True")], &[("fleet-0", renewed)])
        }))
    }

    #[test]
    fn a_node_is_alive_when_it_is_ready_and_holds_a_lease() {
        let nodes = [
            ("fleet-0", "True"),
            ("fleet-1", "False"),
            ("fleet-2", "True"),
            ("other", "True"),
        ];
        let leases = [("fleet-0", 0), ("fleet-1", 0), ("other", 0)];
        assert_eq!(look(1, &nodes, &leases).alive(), 1);
    }

    #[test]
    fn a_name_is_there_while_its_node_or_its_lease_is() {
        let seen = look(
            1,
            &[("fleet-0", "Unknown"), ("other", "True")],
            &[("fleet-1", 0)],
        );
        assert!(seen.names.iter().eq(["fleet-0", "fleet-1"]));
    }

    #[test]
    fn one_bad_look_among_good_ones_is_remembered() {
        let both = |second, ready| {
            look(
                second,
                &[("fleet-0", "True"), ("fleet-1", ready)],
                &[("fleet-0", second), ("fleet-1", second)],
            )
        };
        let seen = heartbeats([both(0, "True"), both(5, "Unknown"), both(10, "True")]);
        assert_eq!(seen.fewest_alive, Some(1));
        assert_eq!(seen.looks, 3);
    }

    #[test]
    fn the_oldest_lease_of_any_look_is_the_latest() {
        let nodes = [("fleet-0", "True"), ("fleet-1", "True")];
        let seen = heartbeats([
            look(0, &nodes, &[("fleet-0", -2), ("fleet-1", -9)]),
            look(4, &nodes, &[("fleet-0", 3), ("fleet-1", 1)]),
        ]);
        // Renewed at 1 after -9: a second later than the first look had it.
        assert_eq!(seen.latest, Duration::from_secs(10));
        assert_eq!(seen.latest_node, "fleet-1");
    }

    #[test]
    fn a_lease_that_was_late_between_two_looks_is_late() {
        let seen = leases_seen(&[(0, -15), (5, 4)]);
        assert_eq!(seen.latest, Duration::from_secs(19));
    }

    #[test]
    fn two_renewals_between_distant_looks_are_not_one_late_one() {
        let seen = leases_seen(&[(0, -1), (19, 19)]);
        assert_eq!(seen.latest, Duration::from_secs(1));
    }

    #[test]
    fn a_lease_renewed_after_the_question_is_not_late() {
        assert_eq!(leases_seen(&[(0, 1)]).latest, Duration::ZERO);
    }

    #[test]
    fn leases_of_others_are_not_counted() {
        let seen = heartbeats([look(100, &[], &[("other", 0)])]);
        assert_eq!(seen.latest, Duration::ZERO);
    }
}
