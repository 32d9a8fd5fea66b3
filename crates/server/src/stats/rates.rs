//! How much CPU is used now, which takes two looks in time.
//!
//! Upstream looks at every group every ten to fifteen seconds, asked or not, and tells
//! of the last two looks. Here a look is remembered whenever somebody asks, and the
//! next one is compared with it; only who comes after a long silence is the reason for
//! a second look, a moment after the first.

use std::collections::HashMap;
use std::time::Duration;

/// Nearer looks are not compared: what is known is told again.
const SHORTEST: Duration = Duration::from_secs(5);

/// What was seen before that says nothing of now. Upstream forgets after as long.
const LONGEST: Duration = Duration::from_secs(2 * 60);

/// Between the two looks after a silence.
pub(super) const MOMENT: Duration = Duration::from_millis(250);

const NANOS: u128 = 1_000_000_000;

/// What was seen of each group, by its path.
#[derive(Debug, Default)]
pub(super) struct Rates {
    seen: HashMap<String, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// By the clock's uptime.
    at: Duration,
    /// Nanoseconds of CPU.
    total: u64,
    /// Billionths of a core.
    rate: Option<u64>,
}

impl Rates {
    /// A look at a group; how much it uses, if that is known by now.
    pub(super) fn note(&mut self, group: &str, at: Duration, total: u64) -> Option<u64> {
        let now = Seen {
            at,
            total,
            rate: None,
        };
        let Some(before) = self.seen.get_mut(group) else {
            self.seen.insert(group.to_owned(), now);
            return None;
        };
        let age = at.saturating_sub(before.at);
        // Another container may have got the name of a former one.
        if total < before.total || age > LONGEST {
            *before = now;
            return None;
        }
        if age < SHORTEST {
            return before.rate;
        }
        before.compared_with(at, total)
    }

    /// The second of two looks.
    pub(super) fn note_again(&mut self, group: &str, at: Duration, total: u64) -> Option<u64> {
        let before = self.seen.get_mut(group)?;
        if at <= before.at || total < before.total {
            return before.rate;
        }
        before.compared_with(at, total)
    }

    /// Forgets those that nobody looks at any more.
    pub(super) fn forget(&mut self, now: Duration) {
        self.seen
            .retain(|_, seen| now.saturating_sub(seen.at) <= LONGEST);
    }
}

impl Seen {
    fn compared_with(&mut self, at: Duration, total: u64) -> Option<u64> {
        let passed = at.saturating_sub(self.at).as_nanos();
        let used = u128::from(total - self.total);
        let rate = (used * NANOS).checked_div(passed);
        let rate = rate.and_then(|rate| u64::try_from(rate).ok());
        *self = Self { at, total, rate };
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn two_looks_make_a_rate_and_one_does_not() {
        let mut rates = Rates::default();
        assert_eq!(rates.note("/a", at(100), 5 * CORE), None);
        // Half a core for ten seconds.
        assert_eq!(rates.note("/a", at(110), 10 * CORE), Some(CORE / 2));
        // Too near to be compared: what is known is told again.
        assert_eq!(rates.note("/a", at(111), 11 * CORE), Some(CORE / 2));
        assert_eq!(rates.note("/a", at(120), 30 * CORE), Some(2 * CORE));
    }

    #[test]
    fn who_comes_after_a_silence_gets_a_second_look() {
        let mut rates = Rates::default();
        rates.note("/a", at(100), 0);
        assert_eq!(rates.note("/a", at(300), 100 * CORE), None);
        let second = at(300) + Duration::from_millis(250);
        let total = 100 * CORE + CORE / 4;
        assert_eq!(rates.note_again("/a", second, total), Some(CORE));
        assert_eq!(rates.note("/a", at(301), 101 * CORE), Some(CORE));
        assert_eq!(rates.note_again("/b", at(301), 1), None);
    }

    #[test]
    fn a_count_that_falls_is_another_groups() {
        let mut rates = Rates::default();
        rates.note("/a", at(100), 5 * CORE);
        assert_eq!(rates.note("/a", at(110), CORE), None);
        assert_eq!(rates.note("/a", at(120), 2 * CORE), Some(CORE / 10));
    }

    #[test]
    fn what_is_not_looked_at_is_forgotten() {
        let mut rates = Rates::default();
        rates.note("/a", at(100), 1);
        rates.note("/b", at(200), 1);
        rates.forget(at(230));
        assert_eq!(rates.seen.len(), 1);
    }
}
