//! An instant on both clocks: what is told is wall time, and what is compared is
//! time that never runs back, so that a clock set back revives nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seams::Clock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Nanoseconds since 1970, as CRI has them.
    pub(super) wall: i64,
    pub(super) uptime: Duration,
}

impl Moment {
    pub(super) fn of(clock: &dyn Clock) -> Self {
        let since_1970 = clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            wall: nanos(since_1970),
            uptime: clock.uptime(),
        }
    }

    /// So much later, as far as this one can tell.
    pub(super) fn plus(self, duration: Duration) -> Self {
        Self {
            wall: self.wall.saturating_add(nanos(duration)),
            uptime: self.uptime.saturating_add(duration),
        }
    }

    /// How long ago the other was; nothing if it is ahead.
    pub(super) fn since(self, earlier: Self) -> Duration {
        self.uptime.saturating_sub(earlier.uptime)
    }

    pub(super) fn system_time(self) -> SystemTime {
        let nanos = u64::try_from(self.wall).unwrap_or_default();
        UNIX_EPOCH + Duration::from_nanos(nanos)
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_is_told_by_the_clock_that_never_runs_back() {
        let first = Moment {
            wall: 100,
            uptime: Duration::from_secs(1),
        };
        // The wall clock was set back in between.
        let second = Moment {
            wall: 50,
            uptime: Duration::from_secs(2),
        };
        assert_eq!(second.since(first), Duration::from_secs(1));
        assert_eq!(first.since(second), Duration::ZERO);
    }

    #[test]
    fn a_moment_too_far_ahead_is_the_last_one() {
        let start = Moment {
            wall: 1,
            uptime: Duration::ZERO,
        };
        assert_eq!(start.plus(Duration::MAX).wall, i64::MAX);
    }
}
