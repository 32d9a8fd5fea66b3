//! Moments as people say them: "in 3 days", "2 h ago".

use std::fmt;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// A moment to the second, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl Moment {
    /// Times of certificates, which hold no year that has no date.
    pub(crate) fn of(time: SystemTime) -> Self {
        let time = Timestamp::try_from(time).unwrap_or_default();
        Self(Timestamp::from_second(time.as_second()).unwrap_or_default())
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `moment` as seen from `now`.
pub(crate) fn relative(moment: Timestamp, now: Timestamp) -> String {
    let distance = length(moment, now);
    if moment >= now {
        format!("in {distance}")
    } else {
        format!("{distance} ago")
    }
}

/// The time between two moments, in the unit that fits it, rounded down.
pub(crate) fn length(one: Timestamp, other: Timestamp) -> String {
    let seconds = one.duration_since(other).unsigned_abs().as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_in_the_unit_that_fits_it() {
        let now: Timestamp = "2026-05-01T00:00:00Z".parse().unwrap();
        for (moment, told) in [
            ("2026-05-01T00:00:00Z", "in 0 s"),
            ("2026-05-01T00:01:59Z", "in 119 s"),
            ("2026-05-01T00:02:00Z", "in 2 min"),
            ("2026-04-30T22:00:01Z", "119 min ago"),
            ("2026-04-30T22:00:00Z", "2 h ago"),
            ("2026-05-02T23:59:59Z", "in 47 h"),
            ("2026-05-04T00:00:00Z", "in 3 days"),
            ("2025-05-01T00:00:00Z", "365 days ago"),
        ] {
            assert_eq!(relative(moment.parse().unwrap(), now), told, "{moment}");
        }
    }
}
