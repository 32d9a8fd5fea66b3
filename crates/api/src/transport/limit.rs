//! How many requests a lane may send: a bucket of tokens, as client-go's.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seams::SharedClock;

/// So many requests a second in the long run, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    pub qps: f64,
    pub burst: u32,
}

impl Limits {
    /// What a configured pair means to client-go: zeros stand for its defaults, and a negative
    /// rate for no limit.
    pub fn from_settings(qps: f64, burst: u32) -> Option<Self> {
        let qps = if qps == 0.0 { 5.0 } else { qps };
        let burst = if burst == 0 { 10 } else { burst };
        (qps > 0.0).then_some(Self { qps, burst })
    }
}

/// Hands out turns in the order in which they are asked for.
#[derive(Debug)]
pub(super) struct TokenBucket {
    limits: Limits,
    clock: SharedClock,
    // Held for a few sums; never while somebody waits for their turn.
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    /// Below zero: that many turns are promised for later.
    tokens: f64,
    /// When `tokens` was right.
    at: Duration,
    /// The last turn that was promised.
    last_turn: Duration,
}

impl TokenBucket {
    /// A full bucket.
    pub(super) fn new(limits: Limits, clock: SharedClock) -> Self {
        let at = clock.uptime();
        // A bucket without room would never let anybody pass.
        let limits = Limits {
            burst: limits.burst.max(1),
            ..limits
        };
        Self {
            level: Mutex::new(Level {
                tokens: f64::from(limits.burst),
                at,
                last_turn: at,
            }),
            limits,
            clock,
        }
    }

    /// Waits for a turn, and tells how long that took. Who goes away while waiting gives the
    /// turn back.
    pub(super) async fn take(&self) -> Duration {
        let asked = self.clock.uptime();
        let mut promise = self.promise(asked);
        let wait = promise.turn.saturating_sub(asked);
        if !wait.is_zero() {
            self.clock.sleep(wait).await;
        }
        promise.kept = true;
        wait
    }

    fn promise(&self, now: Duration) -> Promise<'_> {
        let mut level = self.level();
        level.advance(now, self.limits);
        level.tokens -= 1.0;
        let wait = self.lasting(-level.tokens);
        level.last_turn = now + wait;
        Promise {
            bucket: self,
            turn: level.last_turn,
            kept: false,
        }
    }

    /// How long it takes until so many tokens have come.
    fn lasting(&self, tokens: f64) -> Duration {
        Duration::try_from_secs_f64(tokens / self.limits.qps).unwrap_or_default()
    }

    fn level(&self) -> MutexGuard<'_, Level> {
        self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Level {
    fn advance(&mut self, now: Duration, limits: Limits) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * limits.qps).min(f64::from(limits.burst));
        self.at = now;
    }
}

struct Promise<'a> {
    bucket: &'a TokenBucket,
    turn: Duration,
    kept: bool,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        let now = self.bucket.clock.uptime();
        if self.kept || self.turn < now {
            return;
        }
        let limits = self.bucket.limits;
        let mut level = self.bucket.level();
        // Those behind keep the turns that they were told; what they took is not given back.
        let behind = level.last_turn.saturating_sub(self.turn).as_secs_f64() * limits.qps;
        let back = 1.0 - behind;
        if back <= 0.0 {
            return;
        }
        level.advance(now, limits);
        level.tokens = (level.tokens + back).min(f64::from(limits.burst));
        if self.turn == level.last_turn {
            let one = self.bucket.lasting(1.0);
            level.last_turn = self.turn.saturating_sub(one).max(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use futures_util::FutureExt as _;
    use testkit::clock::TokioClock;

    use super::*;

    fn bucket(qps: f64, burst: u32) -> TokenBucket {
        let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        TokenBucket::new(Limits { qps, burst }, clock)
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_then_the_rate_holds() {
        for (qps, burst, taken, seconds) in [
            (5.0, 10, 10, 0.0),
            (5.0, 10, 11, 0.2),
            (5.0, 10, 30, 4.0),
            (50.0, 100, 600, 10.0),
            (0.5, 1, 3, 4.0),
            (10.0, 0, 2, 0.1),
        ] {
            let bucket = bucket(qps, burst);
            let start = bucket.clock.uptime();
            for _ in 0..taken {
                bucket.take().await;
            }
            let passed = bucket.clock.uptime().abs_diff(start).as_secs_f64();
            // Tokio's time has steps of a millisecond.
            let slack = 0.002 * f64::from(taken);
            assert!(
                (passed - seconds).abs() < slack,
                "{qps}/{burst}: {taken} took {passed} s instead of {seconds} s"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_bucket_fills_up_to_its_burst_and_no_further() {
        let bucket = bucket(10.0, 3);
        for _ in 0..3 {
            assert_eq!(bucket.take().await, Duration::ZERO);
        }
        bucket.clock.sleep(Duration::from_secs(60)).await;
        for _ in 0..3 {
            assert_eq!(bucket.take().await, Duration::ZERO);
        }
        assert!(bucket.take().await > Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_given_in_the_order_of_asking() {
        let bucket = bucket(1.0, 1);
        bucket.take().await;
        let (first, second) = (bucket.promise(bucket.clock.uptime()), bucket.take());
        let second = second.now_or_never();
        assert!(second.is_none(), "the second has to wait");
        assert_eq!(first.turn.abs_diff(bucket.clock.uptime()).as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_gives_the_turn_back() {
        let bucket = bucket(1.0, 1);
        bucket.take().await;
        for _ in 0..5 {
            assert!(bucket.take().now_or_never().is_none());
        }
        let wait = bucket.take().await;
        assert!(wait <= Duration::from_secs(1), "{wait:?}");
    }

    #[test]
    fn zeros_stand_for_client_gos_defaults_and_a_negative_rate_for_no_limit() {
        let limits = |qps, burst| Some(Limits { qps, burst });
        assert_eq!(Limits::from_settings(50.0, 100), limits(50.0, 100));
        assert_eq!(Limits::from_settings(0.0, 0), limits(5.0, 10));
        assert_eq!(Limits::from_settings(0.0, 7), limits(5.0, 7));
        assert_eq!(Limits::from_settings(-1.0, 100), None);
    }
}
