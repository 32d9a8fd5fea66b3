//! The fleet on a terminal: a few lines, drawn over themselves.

use std::collections::BTreeMap;

use fleet::figures::is_ready;
use fleet::report::{Sample, bytes, latency};
use fleet::seat::Seats;

use crate::log::Log;
use crate::screen::Screen;

/// Groups and zones that have a line of their own.
const PLACES: usize = 12;

pub(super) struct View {
    log: Log,
    screen: Screen,
}

/// Nodes of one group in one zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    nodes: usize,
    ready: usize,
    ailing: usize,
}

type Places = BTreeMap<(String, Option<String>), Place>;

impl View {
    pub(super) fn new(log: Log) -> Self {
        Self {
            log,
            screen: Screen::default(),
        }
    }

    pub(super) fn draw(&mut self, sample: &Sample, seats: &Seats) {
        let lines = screen(sample, &places(seats), &self.log.lines());
        self.screen.draw(&lines);
    }
}

fn places(seats: &Seats) -> Places {
    let mut places = Places::new();
    for (_, seat) in seats.all() {
        let place = places
            .entry((seat.group.clone(), seat.zone.clone()))
            .or_default();
        place.nodes += 1;
        let member = seat.member.borrow();
        let node = member
            .as_ref()
            .and_then(|member| member.own_node.borrow().clone());
        place.ready += usize::from(node.as_deref().is_some_and(is_ready));
        place.ailing += usize::from(*seat.ailment.borrow() != fleet::spec::Ailment::default());
    }
    places
}

fn screen(sample: &Sample, places: &Places, log: &[String]) -> Vec<String> {
    let figures = &sample.figures;
    let oldest = figures.oldest_lease.as_ref();
    let oldest = oldest.map_or("–".to_owned(), |lease| {
        format!("{:.1} s ({})", lease.seconds, lease.node)
    });
    let requests = &sample.requests;
    let mut lines = vec![
        format!(
            "nodes    {} wanted, {} registered, {} Ready, {} ailing on purpose     {}",
            figures.nodes,
            figures.registered,
            figures.ready,
            figures.ailing,
            clock(sample.elapsed)
        ),
        format!("leases   oldest {oldest}, {} late", figures.late_leases),
        format!(
            "API      {:.1} requests a second, median {}, 99 % {}, {} failed",
            sample.requests_per_second,
            latency(requests.median),
            latency(requests.ninety_ninth),
            requests.failed
        ),
        format!(
            "memory   {}, {} for each node",
            bytes(sample.resident),
            sample.resident_per_node.map_or("–".to_owned(), bytes)
        ),
    ];
    if !figures.pods.is_empty() {
        let pods = figures.pods.iter();
        let pods: Vec<String> = pods
            .map(|(phase, count)| format!("{count} {phase}"))
            .collect();
        lines.insert(1, format!("pods     {}", pods.join(", ")));
    }
    if places.len() > 1 {
        lines.push(String::new());
        for ((group, zone), place) in places.iter().take(PLACES) {
            let zone = zone
                .as_ref()
                .map(|zone| format!(" in {zone}"))
                .unwrap_or_default();
            let ailing = match place.ailing {
                0 => String::new(),
                some => format!(", {some} ailing"),
            };
            lines.push(format!(
                "  {group}{zone}: {} of {} Ready{ailing}",
                place.ready, place.nodes
            ));
        }
        if places.len() > PLACES {
            lines.push(format!("  … and {} more", places.len() - PLACES));
        }
    }
    if !log.is_empty() {
        lines.push(String::new());
        lines.extend(log.iter().cloned());
    }
    lines
}

/// `1:02:03`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "time since the start"
)]
fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!(
        "{}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use fleet::figures::{Figures, OldestLease};

    use super::*;

    fn sample() -> Sample {
        Sample {
            elapsed: 3723.9,
            figures: Figures {
                nodes: 1000,
                registered: 999,
                ready: 998,
                well_and_ready: 998,
                ailing: 1,
                late_leases: 2,
                oldest_lease: Some(OldestLease {
                    node: "node-00017".to_owned(),
                    seconds: 21.25,
                }),
                pods: [("Pending".to_owned(), 3), ("Running".to_owned(), 7)].into(),
            },
            requests_per_second: 101.3,
            resident: 200 << 20,
            resident_per_node: Some(90 << 10),
            ..Sample::default()
        }
    }

    #[test]
    fn a_screen_says_how_the_fleet_fares() {
        let screen = screen(&sample(), &Places::new(), &[]);
        assert_eq!(
            screen,
            [
                "nodes    1000 wanted, 999 registered, 998 Ready, 1 ailing on purpose     1:02:03",
                "pods     3 Pending, 7 Running",
                "leases   oldest 21.2 s (node-00017), 2 late",
                "API      101.3 requests a second, median –, 99 % –, 0 failed",
                "memory   200.0 MiB, 90.0 KiB for each node",
            ]
        );
    }

    #[test]
    fn groups_and_zones_have_lines_of_their_own_and_the_log_the_last() {
        let place = |ready, ailing| Place {
            nodes: 5,
            ready,
            ailing,
        };
        let mut places = Places::new();
        places.insert(("big".to_owned(), Some("a".to_owned())), place(5, 0));
        places.insert(("big".to_owned(), Some("b".to_owned())), place(3, 2));
        let lines = screen(&sample(), &places, &["W1115 something".to_owned()]);
        assert_eq!(
            lines[5..],
            [
                "",
                "  big in a: 5 of 5 Ready",
                "  big in b: 3 of 5 Ready, 2 ailing",
                "",
                "W1115 something"
            ]
        );
    }
}
