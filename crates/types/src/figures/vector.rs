//! Figures of which there is one for each value of their labels.

use std::cmp::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Family;
use super::single::{bucket, whole};

/// One figure for each value of its labels. They are few, and found by their values
/// each time.
#[derive(Debug)]
pub struct Vector {
    pub(super) family: &'static Family,
    /// In the order of their labels. A mutex: a number is changed under it, and nobody
    /// waits while holding it.
    cells: Mutex<Vec<Cell>>,
}

#[derive(Debug)]
pub(super) struct Cell {
    /// In the order of the family's labels.
    pub(super) labels: Box<[Box<str>]>,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Count(u64),
    Level(f64),
    /// One for each bucket, the infinite one, and the bits of the sum.
    Spread(Box<[u64]>),
}

impl Vector {
    pub const fn new(family: &'static Family) -> Self {
        Self {
            family,
            cells: Mutex::new(Vec::new()),
        }
    }

    pub fn inc(&self, labels: &[&str]) {
        self.add(labels, 1);
    }

    /// Of a counter; by zero, it is shown as zero.
    pub fn add(&self, labels: &[&str], more: u64) {
        self.change(labels, |value| {
            if let Value::Count(count) = value {
                *count += more;
            }
        });
    }

    /// Of a gauge.
    pub fn set(&self, labels: &[&str], level: f64) {
        self.change(labels, |value| {
            if let Value::Level(before) = value {
                *before = level;
            }
        });
    }

    pub fn set_count(&self, labels: &[&str], count: usize) {
        self.set(labels, whole(count));
    }

    pub fn took(&self, labels: &[&str], time: Duration) {
        self.observe(labels, time.as_secs_f64());
    }

    /// Of a histogram.
    pub fn observe(&self, labels: &[&str], observed: f64) {
        let bounds = self.family.bounds();
        self.change(labels, |value| {
            let Value::Spread(numbers) = value else {
                return;
            };
            if let Some(count) = numbers.get_mut(bucket(bounds, observed)) {
                *count += 1;
            }
            if let Some(sum) = numbers.last_mut() {
                *sum = (f64::from_bits(*sum) + observed).to_bits();
            }
        });
    }

    /// There is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.cells().is_empty()
    }

    /// It is not shown any more.
    pub fn forget(&self, labels: &[&str]) {
        let mut cells = self.cells();
        if let Ok(at) = cells.binary_search_by(|cell| cell.compare(labels)) {
            cells.remove(at);
        }
    }

    fn change(&self, labels: &[&str], change: impl FnOnce(&mut Value)) {
        debug_assert_eq!(
            labels.len(),
            self.family.labels.len(),
            "{}",
            self.family.name
        );
        let mut cells = self.cells();
        let at = match cells.binary_search_by(|cell| cell.compare(labels)) {
            Ok(at) => at,
            Err(at) => {
                let labels = labels.iter().map(|label| Box::from(*label)).collect();
                let value = Value::nothing(self.family);
                cells.insert(at, Cell { labels, value });
                at
            }
        };
        if let Some(cell) = cells.get_mut(at) {
            change(&mut cell.value);
        }
    }

    pub(super) fn cells(&self) -> MutexGuard<'_, Vec<Cell>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cell {
    fn compare(&self, labels: &[&str]) -> Ordering {
        let own = self.labels.iter().map(|label| &**label);
        own.cmp(labels.iter().copied())
    }
}

impl Value {
    fn nothing(family: &Family) -> Self {
        match family.kind {
            super::Kind::Counter => Self::Count(0),
            super::Kind::Gauge => Self::Level(0.0),
            super::Kind::Histogram(bounds) => Self::Spread(vec![0; bounds.len() + 2].into()),
        }
    }
}
