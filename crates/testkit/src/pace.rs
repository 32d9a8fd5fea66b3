//! How fast the machine is just now: for promises that are made for a quiet one.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::wait;

/// Seconds that [`yardstick`] takes on the machines for which bounds are made.
const YARDSTICK: f64 = 0.12;

/// As [`wait::promised`], where what a play took counts for less on a machine that is slow, or
/// busy with other things, before it as well as after it. On a quiet one the bound is the bound.
pub fn promised<T>(
    what: &str,
    bound: Duration,
    mut play: impl FnMut() -> Result<(Duration, T)>,
) -> Result<T> {
    wait::promised(what, bound, || {
        let before = slowness(yardstick());
        let (took, value) = play()?;
        if took <= bound {
            return Ok((took, value));
        }
        let slowness = before.min(slowness(yardstick()));
        println!("{what}: {took:.2?}, on a machine that is {slowness:.1} times as slow");
        Ok((took.div_f64(slowness), value))
    })
}

/// How many times as long as on a quiet machine; never less than once.
fn slowness(took: Duration) -> f64 {
    (took.as_secs_f64() / YARDSTICK).max(1.0)
}

/// By the clock on the wall: work that is none of ours, for one processor.
fn yardstick() -> Duration {
    let start = Instant::now();
    let mut text = String::new();
    for number in 0..300_000_u32 {
        let _ = writeln!(text, "{}: value", number.wrapping_mul(2_654_435_761));
    }
    let words: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(words.len(), 300_000);
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_machine_does_not_make_a_bound_tighter_and_a_slow_one_has_its_share() {
        let close = |slowness: f64, expected: f64| (slowness - expected).abs() < 0.01;
        assert!(close(slowness(Duration::from_millis(30)), 1.0));
        assert!(close(slowness(Duration::from_millis(120)), 1.0));
        assert!(close(slowness(Duration::from_millis(360)), 3.0));
    }

    #[test]
    fn what_takes_far_too_long_breaks_a_promise_on_any_machine() {
        let day = Duration::from_secs(24 * 60 * 60);
        let broken = promised("a walk", Duration::from_millis(1), || Ok((day, ())));
        assert!(broken.is_err());
    }
}
