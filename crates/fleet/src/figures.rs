//! How the nodes of a fleet fare at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::objects::PodPhases;
use k8s_openapi::api::core::v1::Node;
use serde::Serialize;

use crate::seat::{Seat, Seats};
use crate::spec::Ailment;

/// A lease that was not renewed for so long is late: half of its life by default.
pub const LATE: Duration = Duration::from_secs(20);

/// The nodes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    pub nodes: usize,
    /// Of them, those that ail by our own doing.
    pub ailing: usize,
    pub registered: usize,
    /// By the API server's word.
    pub ready: usize,
    /// Of them, those that do not ail.
    pub well_and_ready: usize,
    /// Of the nodes that are well, those whose lease is late.
    pub late_leases: usize,
    /// The lease that was not renewed for the longest time, of the nodes that
    /// are well.
    pub oldest_lease: Option<OldestLease>,
    /// Pods on these nodes, by phase.
    pub pods: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OldestLease {
    pub node: String,
    pub seconds: f64,
}

impl Figures {
    /// Looks at all of them. `now` is the clock's uptime.
    pub fn look(seats: &Seats, pods: &PodPhases, now: Duration) -> Self {
        let mut figures = Self::of(seats, now);
        let seats = seats.all();
        let names: BTreeSet<&str> = seats.iter().map(|(name, _)| name.as_str()).collect();
        figures.pods = pods.counts(|node| names.contains(node));
        figures
    }

    fn of(seats: &Seats, now: Duration) -> Self {
        let seats = seats.all();
        let mut figures = Self {
            nodes: seats.len(),
            ..Self::default()
        };
        let mut oldest: Option<(&str, Duration)> = None;
        for (name, seat) in &seats {
            let Some(age) = figures.count(seat, now) else {
                continue;
            };
            if age > LATE {
                figures.late_leases += 1;
            }
            if oldest.is_none_or(|(_, most)| age > most) {
                oldest = Some((name, age));
            }
        }
        figures.oldest_lease = oldest.map(|(node, age)| OldestLease {
            node: node.to_owned(),
            seconds: age.as_secs_f64(),
        });
        figures
    }

    /// Counts one in. The age of its lease, if it is well.
    fn count(&mut self, seat: &Seat, now: Duration) -> Option<Duration> {
        let well = *seat.ailment.borrow() == Ailment::default();
        self.ailing += usize::from(!well);
        let mut renewed = *seat.left.borrow();
        if let Some(member) = &*seat.member.borrow() {
            self.registered += usize::from(*member.registered.borrow());
            let ready = member.own_node.borrow().as_deref().is_some_and(is_ready);
            self.ready += usize::from(ready);
            self.well_and_ready += usize::from(ready && well);
            renewed = member.lease_renewed.borrow().or(renewed);
        }
        let age = now.saturating_sub(renewed?);
        well.then_some(age)
    }

    /// Every node that is well is Ready.
    pub fn all_ready(&self) -> bool {
        self.nodes > 0 && self.well_and_ready == self.nodes - self.ailing
    }
}

/// What the API server says of a node, which may be what others said to it.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent::Member;
    use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};
    use tokio::sync::watch;

    use super::*;

    fn node(ready: &str) -> Arc<Node> {
        let condition = NodeCondition {
            type_: "Ready".to_owned(),
            status: ready.to_owned(),
            ..NodeCondition::default()
        };
        let status = NodeStatus {
            conditions: Some(vec![condition]),
            ..NodeStatus::default()
        };
        Arc::new(Node {
            status: Some(status),
            ..Node::default()
        })
    }

    /// A node that was heard of so many seconds after the start.
    fn seat(ready: &str, renewed: Option<u64>, stopped: bool) -> Seat {
        let member = Member {
            registered: watch::channel(true).1,
            own_node: watch::channel(Some(node(ready))).1,
            lease_renewed: watch::channel(renewed.map(Duration::from_secs)).1,
        };
        let ailment = Ailment {
            stopped,
            ..Ailment::default()
        };
        Seat {
            group: "g".to_owned(),
            zone: None,
            ailment: watch::channel(ailment).1,
            member: watch::channel(Some(member)).1,
            left: watch::channel(None).1,
        }
    }

    #[test]
    fn the_oldest_lease_is_that_of_a_node_that_is_well() {
        let seats = Seats::default();
        seats.put("fresh", seat("True", Some(95), false));
        seats.put("late", seat("True", Some(79), false));
        seats.put("stopped", seat("Unknown", Some(10), true));
        seats.put("new", seat("False", None, false));
        let figures = Figures::of(&seats, Duration::from_secs(100));
        let oldest = OldestLease {
            node: "late".to_owned(),
            seconds: 21.0,
        };
        let wanted = Figures {
            nodes: 4,
            ailing: 1,
            registered: 4,
            ready: 2,
            well_and_ready: 2,
            late_leases: 1,
            oldest_lease: Some(oldest),
            ..Figures::default()
        };
        assert_eq!(figures, wanted);
        assert!(!figures.all_ready());
    }

    #[test]
    fn a_node_whose_agent_is_gone_has_the_lease_that_it_left() {
        let seats = Seats::default();
        let mut gone = seat("True", None, false);
        gone.member = watch::channel(None).1;
        gone.left = watch::channel(Some(Duration::from_secs(40))).1;
        seats.put("gone", gone);
        let figures = Figures::of(&seats, Duration::from_secs(100));
        let oldest = figures.oldest_lease.map(|lease| lease.seconds);
        assert_eq!(
            (oldest, figures.late_leases, figures.ready),
            (Some(60.0), 1, 0)
        );
    }

    #[test]
    fn a_fleet_is_ready_when_all_that_are_well_are() {
        let figures = |nodes, ailing, well_and_ready| Figures {
            nodes,
            ailing,
            // An ailing node can be Ready: it counts for nobody else.
            ready: nodes,
            well_and_ready,
            ..Figures::default()
        };
        assert!(figures(3, 1, 2).all_ready());
        assert!(!figures(3, 1, 1).all_ready());
        assert!(!figures(0, 0, 0).all_ready());
    }
}
