//! When a probe is due: a beat that goes on whether anybody is asked or not, as a
//! ticker does. Pure; times are the clock's uptime.

use std::time::Duration;

/// The shortest period: a spec without one would be due all the time.
const SHORTEST: Duration = Duration::from_secs(1);

/// The beats of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// One of the beats; there is none before the first.
    first: Duration,
    period: Duration,
}

impl Rhythm {
    /// Of a probe that is heard of now. Those that come with a young agent come all at
    /// once, so they are spread over a period: `chance` is from 0 to 1.
    pub fn new(period: Duration, now: Duration, agent_age: Duration, chance: f64) -> Self {
        let period = period.max(SHORTEST);
        let pause = if agent_age < period {
            period.mul_f64(chance.clamp(0.0, 1.0))
        } else {
            Duration::ZERO
        };
        Self {
            first: now + pause,
            period,
        }
    }

    /// It is asked out of turn: the beats count from now on.
    pub fn restart(&mut self, now: Duration) {
        self.first = self.first.max(now);
    }

    /// Whether it has begun to beat.
    pub fn has_begun(&self, now: Duration) -> bool {
        self.first <= now
    }

    /// The first beat that is not before `time`.
    pub fn from(&self, time: Duration) -> Duration {
        let Some(passed) = time.checked_sub(self.first) else {
            return self.first;
        };
        let beats = passed.as_nanos().div_ceil(self.period.as_nanos());
        self.beat(beats)
    }

    /// The first beat after `time`.
    pub fn after(&self, time: Duration) -> Duration {
        let Some(passed) = time.checked_sub(self.first) else {
            return self.first;
        };
        let beats = passed.as_nanos() / self.period.as_nanos() + 1;
        self.beat(beats)
    }

    fn beat(&self, number: u128) -> Duration {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.first
            .saturating_add(self.period.saturating_mul(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn every_ten_seconds() -> Rhythm {
        Rhythm::new(at(10_000), at(500), at(10_000), 0.7)
    }

    #[test]
    fn beats_come_in_periods_from_the_first_on() {
        let rhythm = every_ten_seconds();
        for (time, from, after) in [
            (0, 500, 500),
            (499, 500, 500),
            (500, 500, 10_500),
            (501, 10_500, 10_500),
            (10_500, 10_500, 20_500),
            (95_000, 100_500, 100_500),
        ] {
            assert_eq!(rhythm.from(at(time)), at(from), "{time}");
            assert_eq!(rhythm.after(at(time)), at(after), "{time}");
        }
    }

    #[test]
    fn the_first_beat_with_a_young_agent_is_spread_over_a_period() {
        for (age, chance, first) in [
            (10_000, 0.5, 500),
            (9_999, 0.5, 5_500),
            (0, 0.0, 500),
            (0, 0.25, 3_000),
        ] {
            let rhythm = Rhythm::new(at(10_000), at(500), at(age), chance);
            assert_eq!(rhythm.from(Duration::ZERO), at(first), "{age} {chance}");
            assert_eq!(rhythm.has_begun(at(500)), first == 500, "{age} {chance}");
        }
    }

    #[test]
    fn one_that_is_asked_out_of_turn_counts_anew_but_not_before_its_first_beat() {
        let mut rhythm = every_ten_seconds();
        rhythm.restart(at(7_000));
        assert_eq!(rhythm.after(at(7_000)), at(17_000));
        let mut young = Rhythm::new(at(10_000), at(0), at(0), 0.5);
        young.restart(at(1_000));
        assert_eq!(young.from(at(1_000)), at(5_000));
    }

    #[test]
    fn a_period_of_nothing_is_a_second() {
        let rhythm = Rhythm::new(Duration::ZERO, at(0), at(60_000), 0.0);
        assert_eq!(rhythm.after(at(0)), at(1_000));
    }
}
