//! How long a pod's volumes are waited for, when they are tried again, and when people
//! are told that the pod waits. Pure: times are passed in.

use std::time::Duration;

/// After volumes could not be set up or taken away: doubled from the first to the last.
const FIRST: Duration = Duration::from_millis(500);
const LAST: Duration = Duration::from_secs(122);

/// When people are told that a pod waits for its volumes.
const PATIENCE: Duration = Duration::from_secs(123);

/// What is busy is soon free: a mount that a dying process still holds.
const SOON: Duration = Duration::from_millis(200);
/// So often; then it is more than that.
const SOON_TRIES: u32 = 20;

/// How often a pod's volumes could not be set up, and since when people wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mounting {
    failures: u32,
    waiting_since: Option<Duration>,
    /// When it was last said that something is not known.
    told_at: Option<Duration>,
}

/// What failed of a pod's volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What to do for some is not known: nothing was tried.
    pub(crate) unprocessed: bool,
    /// Some were tried.
    pub(crate) tried: bool,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Say that the pod waits.
    pub(crate) tell: bool,
    pub(crate) pause: Duration,
}

impl Mounting {
    /// `now` is the uptime; `again` is the pause after a failure of the pod as a whole.
    pub(crate) fn failed(&mut self, failure: Failure, now: Duration, again: Duration) -> Verdict {
        let doubled = doubled(self.failures).min(LAST);
        self.failures = self.failures.saturating_add(1);
        if failure.unprocessed {
            // Nobody waits for what nobody works on.
            self.waiting_since = None;
            let told = self.told_at.filter(|told| now < *told + again);
            if told.is_none() {
                self.told_at = Some(now);
            }
            let pause = if failure.tried {
                doubled.min(again)
            } else {
                again
            };
            return Verdict {
                tell: told.is_none(),
                pause,
            };
        }
        let since = *self.waiting_since.get_or_insert(now);
        let tell = now.saturating_sub(since) >= PATIENCE;
        if tell {
            self.waiting_since = Some(now + again);
        }
        Verdict {
            tell,
            pause: doubled,
        }
    }
}

/// The pause after something of a pod could not be taken away so often, and whether
/// that is worth a word.
pub(crate) fn after_cleaning_failed(times: u32) -> Verdict {
    if times <= SOON_TRIES {
        return Verdict {
            tell: false,
            pause: SOON,
        };
    }
    // By then four seconds have passed.
    let pause = doubled(times - SOON_TRIES + 2).min(LAST);
    Verdict { tell: true, pause }
}

fn doubled(times: u32) -> Duration {
    FIRST * 2_u32.saturating_pow(times.min(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGAIN: Duration = Duration::from_secs(10);
    const TRIED: Failure = Failure {
        unprocessed: false,
        tried: true,
    };
    const UNKNOWN: Failure = Failure {
        unprocessed: true,
        tried: false,
    };

    /// Pauses and words, until a time.
    fn lived(failure: Failure, until: Duration) -> Vec<(Duration, bool)> {
        let (mut mounting, mut now, mut lived) = (Mounting::default(), Duration::ZERO, Vec::new());
        while now <= until {
            let Verdict { tell, pause } = mounting.failed(failure, now, AGAIN);
            lived.push((now, tell));
            now += pause;
        }
        lived
    }

    #[test]
    fn what_was_tried_is_tried_again_later_and_later_and_told_after_two_minutes() {
        let lived = lived(TRIED, Duration::from_secs(400));
        let at: Vec<_> = lived.iter().map(|(at, _)| at.as_millis()).collect();
        let wanted = [
            0, 500, 1500, 3500, 7500, 15500, 31500, 63500, 127_500, 249_500, 371_500,
        ];
        assert_eq!(at, wanted);
        let told = lived.iter().filter(|(_, tell)| *tell);
        let told: Vec<_> = told.map(|(at, _)| at.as_millis()).collect();
        // Between two there is the pause of the pod as a whole, too.
        assert_eq!(told, [127_500, 371_500]);
    }

    #[test]
    fn what_is_not_known_is_told_at_once_and_with_every_look() {
        let lived = lived(UNKNOWN, Duration::from_secs(35));
        let wanted = [0, 10, 20, 30].map(|seconds| (Duration::from_secs(seconds), true));
        assert_eq!(lived, wanted);
    }

    #[test]
    fn both_together_are_tried_in_time_and_told_not_more_often() {
        let both = Failure {
            unprocessed: true,
            tried: true,
        };
        let told: Vec<_> = lived(both, Duration::from_secs(30))
            .into_iter()
            .filter(|(_, tell)| *tell)
            .map(|(at, _)| at.as_millis())
            .collect();
        assert_eq!(told, [0, 15500, 25500]);
    }

    #[test]
    fn what_is_busy_is_tried_soon_and_then_less_and_less() {
        let cases = [
            (1, false, 200),
            (20, false, 200),
            (21, true, 4000),
            (22, true, 8000),
            (40, true, 122_000),
        ];
        for (times, tell, millis) in cases {
            let pause = Duration::from_millis(millis);
            assert_eq!(
                after_cleaning_failed(times),
                Verdict { tell, pause },
                "{times}"
            );
        }
    }
}
