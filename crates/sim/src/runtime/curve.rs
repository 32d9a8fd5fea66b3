//! How much of something a container uses, as a function of time.

use std::time::Duration;

/// A straight line, or a triangle: from the first value to the second and back,
/// over and over. A triangle and not a sine, as its integral is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Curve {
    from: u64,
    to: u64,
    period: Duration,
}

/// With values below [`Curve::MOST_FOR_INTEGRAL`] it keeps the products of an
/// integral within 128 bits.
pub(super) const LONGEST_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

impl Curve {
    /// What a curve that is integrated may reach: a million cores, in thousandths.
    pub(super) const MOST_FOR_INTEGRAL: u64 = 1_000_000_000;

    pub(super) const fn flat(value: u64) -> Self {
        Self {
            from: value,
            to: value,
            period: LONGEST_PERIOD,
        }
    }

    /// Nothing if the period is empty or too long.
    pub(super) fn wave(from: u64, to: u64, period: Duration) -> Option<Self> {
        let allowed = Duration::from_millis(1)..=LONGEST_PERIOD;
        allowed
            .contains(&period)
            .then_some(Self { from, to, period })
    }

    pub(super) fn highest(&self) -> u64 {
        self.from.max(self.to)
    }

    /// Its value so long after the start.
    pub(super) fn at(&self, elapsed: Duration) -> u64 {
        let Parts { way, up, down, .. } = self.parts(elapsed);
        let (from, to) = (i128::from(self.from), i128::from(self.to));
        let value = match way {
            Way::There(gone) => from + (to - from) * gone / up,
            Way::Back(gone) => to + (from - to) * gone / down,
        };
        u64::try_from(value).unwrap_or_default()
    }

    /// The sum of its values over each nanosecond since the start.
    pub(super) fn integral(&self, elapsed: Duration) -> u128 {
        let Parts {
            periods,
            way,
            up,
            down,
        } = self.parts(elapsed);
        let (from, to) = (i128::from(self.from), i128::from(self.to));
        let both = from + to;
        let partial = match way {
            Way::There(gone) => 2 * from * gone + (to - from) * gone * gone / up,
            Way::Back(gone) => both * up + 2 * to * gone + (from - to) * gone * gone / down,
        };
        let twice = periods * both * (up + down) + partial;
        u128::try_from(twice / 2).unwrap_or_default()
    }

    fn parts(&self, elapsed: Duration) -> Parts {
        let period = nanos(self.period);
        let elapsed = nanos(elapsed);
        let up = period / 2;
        let gone = elapsed % period;
        Parts {
            periods: elapsed / period,
            way: if gone < up {
                Way::There(gone)
            } else {
                Way::Back(gone - up)
            },
            up,
            down: period - up,
        }
    }
}

/// Where a moment is on the curve; all in nanoseconds but the first.
struct Parts {
    periods: i128,
    way: Way,
    up: i128,
    down: i128,
}

enum Way {
    There(i128),
    Back(i128),
}

fn nanos(duration: Duration) -> i128 {
    // Nanoseconds of a `Duration` are below 2^94.
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_wave_goes_from_one_value_to_the_other_and_back() {
        let wave = Curve::wave(100, 900, 60 * SECOND).unwrap();
        for (second, value) in [
            (0, 100),
            (15, 500),
            (30, 900),
            (45, 500),
            (60, 100),
            (90, 900),
        ] {
            assert_eq!(wave.at(second * SECOND), value, "{second}");
        }
        let falling = Curve::wave(900, 100, 60 * SECOND).unwrap();
        assert_eq!(falling.at(30 * SECOND), 100);
        assert_eq!(Curve::flat(7).at(100 * SECOND), 7);
    }

    #[test]
    fn the_integral_is_the_area_under_the_curve() {
        let wave = Curve::wave(100, 900, 60 * SECOND).unwrap();
        let billion = 1_000_000_000;
        for (second, area) in [
            (0, 0),
            (15, 15 * 300),
            (30, 30 * 500),
            (45, 30 * 500 + 15 * 700),
            (60, 60 * 500),
            (615, 600 * 500 + 15 * 300),
        ] {
            assert_eq!(wave.integral(second * SECOND), area * billion, "{second}");
        }
        assert_eq!(Curve::flat(250).integral(4 * SECOND), 1000 * billion);
    }

    #[test]
    fn the_largest_of_curves_does_not_overflow() {
        let most = Curve::MOST_FOR_INTEGRAL;
        let wave = Curve::wave(0, most, LONGEST_PERIOD).unwrap();
        let century = 36_500 * LONGEST_PERIOD;
        let area = u128::from(most) / 2 * century.as_nanos();
        assert_eq!(wave.integral(century), area);
        assert!(wave.integral(LONGEST_PERIOD * 2) < area);
        let memory = Curve::wave(0, u64::MAX, LONGEST_PERIOD).unwrap();
        assert_eq!(memory.at(LONGEST_PERIOD / 2), u64::MAX);
    }

    #[test]
    fn a_period_has_bounds() {
        assert_eq!(Curve::wave(1, 2, Duration::ZERO), None);
        assert_eq!(Curve::wave(1, 2, LONGEST_PERIOD + SECOND), None);
    }
}
