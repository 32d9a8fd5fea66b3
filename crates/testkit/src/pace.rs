//! How busy the machine is just now: for promises that are made for a quiet one.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

use crate::wait;

/// As [`wait::promised`], where what a play took counts for less on a machine that is busy with
/// other things, before it as well as after it. On a quiet one the bound is the bound.
pub fn promised<T>(
    what: &str,
    bound: Duration,
    mut play: impl FnMut() -> Result<(Duration, T)>,
) -> Result<T> {
    wait::promised(what, bound, || {
        let before = busyness();
        let (took, value) = play()?;
        if took <= bound {
            return Ok((took, value));
        }
        let busyness = before.min(busyness());
        println!("{what}: {took:.2?}, where work takes {busyness:.1} times its processor time");
        Ok((took.div_f64(busyness), value))
    })
}

/// How many times its processor time some work takes by the clock on the wall: once, on a
/// machine with nothing else to do, be it fast or slow.
fn busyness() -> f64 {
    let (start, used) = (Instant::now(), processor_time());
    let mut words = BTreeSet::new();
    for number in 0..100_000_u32 {
        words.insert(number.wrapping_mul(2_654_435_761).to_string());
    }
    drop(words);
    let used = processor_time().saturating_sub(used);
    ratio(start.elapsed(), used)
}

fn ratio(took: Duration, used: Duration) -> f64 {
    let least = Duration::from_millis(1);
    (took.as_secs_f64() / used.max(least).as_secs_f64()).max(1.0)
}

/// Of this thread.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime)
        .try_into()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_processor_counts_for_less_and_nothing_for_more() {
        let ratio = |took, used| ratio(Duration::from_millis(took), Duration::from_millis(used));
        let close = |found: f64, expected: f64| (found - expected).abs() < 0.01;
        assert!(close(ratio(120, 120), 1.0));
        assert!(close(ratio(110, 120), 1.0));
        assert!(close(ratio(360, 120), 3.0));
        assert!(close(ratio(1, 0), 1.0));
    }

    #[test]
    fn what_takes_far_too_long_breaks_a_promise_on_any_machine() {
        let day = Duration::from_secs(24 * 60 * 60);
        let broken = promised("a walk", Duration::from_millis(1), || Ok((day, ())));
        assert!(broken.is_err());
    }
}
