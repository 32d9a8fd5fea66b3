//! Figures without labels.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Family;

/// Only grows.
#[derive(Debug)]
pub struct Counter {
    pub(super) family: &'static Family,
    count: AtomicU64,
}

impl Counter {
    pub const fn new(family: &'static Family) -> Self {
        Self {
            family,
            count: AtomicU64::new(0),
        }
    }

    pub fn inc(&self) {
        self.add(1);
    }

    pub fn add(&self, more: u64) {
        self.count.fetch_add(more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// Goes up and down.
#[derive(Debug)]
pub struct Gauge {
    pub(super) family: &'static Family,
    bits: AtomicU64,
}

impl Gauge {
    pub const fn new(family: &'static Family) -> Self {
        Self {
            family,
            // Zero.
            bits: AtomicU64::new(0),
        }
    }

    pub fn set(&self, value: f64) {
        self.bits.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Up, or down.
    pub fn add(&self, change: f64) {
        let add = |bits: u64| Some((f64::from_bits(bits) + change).to_bits());
        // It always adds.
        let _ = self
            .bits
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// So many of something.
    pub fn set_count(&self, count: usize) {
        self.set(whole(count));
    }

    pub fn get(&self) -> f64 {
        f64::from_bits(self.bits.load(Ordering::Relaxed))
    }
}

/// How many were how large. Takes room for its buckets with the first.
#[derive(Debug)]
pub struct Histogram {
    pub(super) family: &'static Family,
    /// One for each bucket, the infinite one, and the bits of the sum.
    numbers: OnceLock<Box<[AtomicU64]>>,
}

impl Histogram {
    pub const fn new(family: &'static Family) -> Self {
        Self {
            family,
            numbers: OnceLock::new(),
        }
    }

    pub fn took(&self, time: Duration) {
        self.observe(time.as_secs_f64());
    }

    pub fn observe(&self, value: f64) {
        let bounds = self.family.bounds();
        let numbers = self
            .numbers
            .get_or_init(|| (0..bounds.len() + 2).map(|_| AtomicU64::new(0)).collect());
        if let Some(bucket) = numbers.get(bucket(bounds, value)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(sum) = numbers.last() {
            let add = |bits: u64| Some((f64::from_bits(bits) + value).to_bits());
            // It always adds.
            let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        }
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        match self.numbers.get() {
            Some(numbers) => {
                let numbers = numbers.iter();
                numbers.map(|one| one.load(Ordering::Relaxed)).collect()
            }
            None => vec![0; self.family.bounds().len() + 2],
        }
    }
}

impl Family {
    /// Of its buckets.
    pub(super) fn bounds(&self) -> &'static [f64] {
        match self.kind {
            super::Kind::Histogram(bounds) => bounds,
            super::Kind::Counter | super::Kind::Gauge => &[],
        }
    }
}

/// Where it is counted; the one after the last is infinite.
pub(super) fn bucket(bounds: &[f64], value: f64) -> usize {
    bounds.partition_point(|bound| *bound < value)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "there are not 2^53 of anything on a node"
)]
pub(super) fn whole(count: usize) -> f64 {
    count as f64
}
