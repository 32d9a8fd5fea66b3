//! Figures that the parts of a node keep, for whoever asks how it fares.
//!
//! Ten thousand nodes can be in one process, so a figure costs a node a few bytes: its
//! name, its words and its buckets are constants of the program ([`Family`]), and a
//! node has the numbers alone. What has no number yet takes no room for one. They are
//! written in Prometheus's text form, straight from the numbers ([`Page`]).

mod number;
mod page;
mod single;
mod vector;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub use page::{Page, Writing, write_labels, write_number};
pub use single::{Counter, Gauge, Histogram};
pub use vector::Vector;

/// Buckets of durations that nobody has chosen others for: Prometheus's own.
pub const SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// What a figure is called, and of which kind it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    pub name: &'static str,
    /// Begins with how stable upstream calls the name: `[ALPHA]` and so on.
    pub help: &'static str,
    pub kind: Kind,
    /// In the order of their names.
    pub labels: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Counter,
    Gauge,
    /// With the upper bounds of its buckets, in order, without the infinite one.
    Histogram(&'static [f64]),
}

impl Family {
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Counter)
    }

    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Gauge)
    }

    pub const fn histogram(
        name: &'static str,
        help: &'static str,
        buckets: &'static [f64],
    ) -> Self {
        Self::new(name, help, Kind::Histogram(buckets))
    }

    const fn new(name: &'static str, help: &'static str, kind: Kind) -> Self {
        Self {
            name,
            help,
            kind,
            labels: &[],
        }
    }

    /// One for each value of these, in the order of their names.
    #[must_use]
    pub const fn by(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }
}

impl Kind {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// A figure that can be shown by itself.
pub trait Figure {
    fn show(&self, page: &mut Page);
}

/// A part of a node that has figures.
pub trait Shown: fmt::Debug + Send + Sync {
    fn show(&self, page: &mut Page);
}

/// Where the parts of one node leave their figures for those who ask.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Vec<Arc<dyn Shown>>>>);

impl Board {
    pub fn hang(&self, part: Arc<dyn Shown>) {
        // A mutex: an entry is added under it, and nobody waits while holding it.
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.push(part);
    }

    /// Everything as it is now. More may be written on it.
    pub fn page(&self) -> Page {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = parts.clone();
        let mut page = Page::default();
        for part in parts {
            part.show(&mut page);
        }
        page
    }
}

/// The figures of a part: a struct of them, which can be made with nothing counted, and
/// shown. Each field says of which kind it is, and what it is called.
#[macro_export]
macro_rules! figures {
    (
        $(#[$of_struct:meta])*
        $visible:vis struct $name:ident {
            $($(#[$of_field:meta])* $seen:vis $field:ident: $kind:ident = $family:expr,)*
        }
    ) => {
        $(#[$of_struct])*
        #[derive(Debug)]
        $visible struct $name {
            $($(#[$of_field])* $seen $field: $crate::figures::$kind,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: {
                        const FAMILY: $crate::figures::Family = $family;
                        $crate::figures::$kind::new(&FAMILY)
                    },)*
                }
            }
        }

        impl $crate::figures::Shown for $name {
            fn show(&self, page: &mut $crate::figures::Page) {
                $($crate::figures::Figure::show(&self.$field, page);)*
            }
        }
    };
}

/// The boards of one node: what upstream has under `/metrics`, and what it keeps apart
/// under `/metrics/probes`, as there can be much of it.
#[derive(Clone, Debug, Default)]
pub struct Boards {
    pub node: Board,
    pub probes: Board,
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::figures! {
        /// Of each kind one.
        struct Part {
            took: Histogram =
                Family::histogram("took_seconds", "[BETA] How long it took", &[0.5, 1.0]),
            asked: Counter = Family::counter("asked_total", "[ALPHA] How often somebody asked"),
            room: Gauge = Family::gauge("room", "[ALPHA] How much room\nthere \\ is"),
            ended: Vector =
                Family::counter("ended_total", "[ALPHA] What ended").by(&["code", "why"]),
            work: Vector =
                Family::histogram("work_seconds", "[ALPHA] Work", &[1.0, 2_592_000.0])
                    .by(&["kind"]),
        }
    }

    #[test]
    fn single_figures_are_there_from_the_start_and_labelled_ones_once_they_have_a_number() {
        let board = Board::default();
        board.hang(Arc::new(Part::default()));
        let text = board.page().finish();
        let lines = [
            "# HELP asked_total [ALPHA] How often somebody asked",
            "# TYPE asked_total counter",
            "asked_total 0",
            "# HELP room [ALPHA] How much room\\nthere \\\\ is",
            "# TYPE room gauge",
            "room 0",
            "# HELP took_seconds [BETA] How long it took",
            "# TYPE took_seconds histogram",
            "took_seconds_bucket{le=\"0.5\"} 0",
            "took_seconds_bucket{le=\"1\"} 0",
            "took_seconds_bucket{le=\"+Inf\"} 0",
            "took_seconds_sum 0",
            "took_seconds_count 0",
        ];
        assert_eq!(text, lines.join("\n") + "\n");
    }

    #[test]
    fn numbers_add_up_and_buckets_hold_what_is_at_most_their_bound() {
        let part = Part::default();
        part.asked.inc();
        part.asked.add(2);
        part.room.set(1.5);
        for seconds in [0.5, 0.7, 9.0] {
            part.took.observe(seconds);
        }
        part.ended.inc(&["2", "b\"\\\n"]);
        part.ended.inc(&["1", "a"]);
        part.ended.inc(&["1", "a"]);
        part.work.observe(&["x"], 1.5);
        let mut page = Page::default();
        part.show(&mut page);
        let text = page.finish();
        let shown: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let lines = [
            "asked_total 3",
            "ended_total{code=\"1\",why=\"a\"} 2",
            "ended_total{code=\"2\",why=\"b\\\"\\\\\\n\"} 1",
            "room 1.5",
            "took_seconds_bucket{le=\"0.5\"} 1",
            "took_seconds_bucket{le=\"1\"} 2",
            "took_seconds_bucket{le=\"+Inf\"} 3",
            "took_seconds_sum 10.2",
            "took_seconds_count 3",
            "work_seconds_bucket{kind=\"x\",le=\"1\"} 0",
            "work_seconds_bucket{kind=\"x\",le=\"2.592e+06\"} 1",
            "work_seconds_bucket{kind=\"x\",le=\"+Inf\"} 1",
            "work_seconds_sum{kind=\"x\"} 1.5",
            "work_seconds_count{kind=\"x\"} 1",
        ];
        assert_eq!(shown, lines);
    }

    #[test]
    fn what_is_forgotten_is_not_shown() {
        let part = Part::default();
        part.ended.inc(&["1", "a"]);
        part.ended.forget(&["1", "a"]);
        let mut page = Page::default();
        Figure::show(&part.ended, &mut page);
        assert_eq!(page.finish(), "");
    }

    #[test]
    fn a_figure_without_numbers_is_small() {
        assert!(size_of::<Counter>() <= 16);
        assert!(size_of::<Gauge>() <= 16);
        assert!(size_of::<Histogram>() <= 32);
        assert!(size_of::<Vector>() <= 48);
    }
}
