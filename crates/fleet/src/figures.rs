//! How the nodes of a fleet fare at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::objects::PodPhases;
use serde::Serialize;

use crate::seat::{Seat, Seats};

/// A lease that was not renewed for so long is late: half of its life by default.
pub const LATE: Duration = Duration::from_secs(20);

/// The nodes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    pub nodes: usize,
    /// Of them, those that ail by our own doing.
    pub ailing: usize,
    pub registered: usize,
    pub ready: usize,
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
        let ails = *seat.ailment.borrow() != crate::spec::Ailment::default();
        self.ailing += usize::from(ails);
        let member = seat.member.borrow();
        let member = member.as_ref()?;
        self.registered += usize::from(*member.registered.borrow());
        self.ready += usize::from(*member.ready.borrow());
        let renewed = (*member.lease_renewed.borrow())?;
        (!ails).then(|| now.saturating_sub(renewed))
    }

    /// Every node that is well is Ready.
    pub fn all_ready(&self) -> bool {
        self.nodes > 0 && self.ready >= self.nodes - self.ailing
    }
}

#[cfg(test)]
mod tests {
    use agent::Member;
    use tokio::sync::watch;

    use super::*;
    use crate::spec::Ailment;

    /// A node that was heard of so many seconds ago.
    fn seat(ready: bool, renewed: Option<u64>, stopped: bool) -> Seat {
        let member = Member {
            registered: watch::channel(true).1,
            ready: watch::channel(ready).1,
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
        }
    }

    #[test]
    fn the_oldest_lease_is_that_of_a_node_that_is_well() {
        let seats = Seats::default();
        seats.put("fresh", seat(true, Some(95), false));
        seats.put("late", seat(true, Some(79), false));
        seats.put("stopped", seat(false, Some(10), true));
        seats.put("new", seat(false, None, false));
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
            late_leases: 1,
            oldest_lease: Some(oldest),
            ..Figures::default()
        };
        assert_eq!(figures, wanted);
        assert!(!figures.all_ready());
    }

    #[test]
    fn a_fleet_is_ready_when_all_that_are_well_are() {
        let figures = |nodes, ailing, ready| Figures {
            nodes,
            ailing,
            ready,
            ..Figures::default()
        };
        assert!(figures(3, 1, 2).all_ready());
        assert!(!figures(3, 1, 1).all_ready());
        assert!(!figures(0, 0, 0).all_ready());
    }
}
