//! How many pulls begin in a time: a bucket of tokens that fills at a rate.

use std::time::Duration;

/// Full at first.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    filled_at: Duration,
}

impl TokenBucket {
    pub(crate) fn new(rate: u32, burst: u32, now: Duration) -> Self {
        Self {
            rate: f64::from(rate),
            burst: f64::from(burst),
            tokens: f64::from(burst),
            filled_at: now,
        }
    }

    /// Whether one may begin now. Who may not is not counted.
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.filled_at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.burst);
        self.filled_at = now;
        let taken = self.tokens >= 1.0;
        if taken {
            self.tokens -= 1.0;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_may_begin_at_once_and_then_the_rate_counts() {
        let at = Duration::from_millis;
        let mut bucket = TokenBucket::new(2, 3, at(1000));
        for (now, expected) in [
            (1000, true),
            (1000, true),
            (1000, true),
            (1000, false),
            (1499, false),
            (1500, true),
            (1500, false),
        ] {
            assert_eq!(bucket.take(at(now)), expected, "at {now} ms");
        }
        let taken = (0..10).filter(|_| bucket.take(at(60_000))).count();
        assert_eq!(taken, 3, "no more than the burst is saved up");
    }

    #[test]
    fn without_a_burst_nothing_begins() {
        assert!(!TokenBucket::new(5, 0, Duration::ZERO).take(Duration::from_secs(9)));
    }
}
