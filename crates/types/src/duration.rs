//! Durations as Go writes them: `1m30s`, `100ms`, `1.5h`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};
use thiserror::Error;

use crate::digits::split_digits;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The magnitude of the most negative duration: nothing is longer than this.
const LONGEST: u64 = 1 << 63;

/// A signed span of nanoseconds, as Go's `time.Duration` is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// Why a text is not a duration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DurationError {
    #[error(
        "{text:?} is not a duration: write numbers with units ns, us, ms, s, m or h, such as 30s or 1m30s"
    )]
    Malformed { text: String },
    #[error("{text:?} is not a duration: a unit is missing; use ns, us, ms, s, m or h")]
    MissingUnit { text: String },
    #[error("{text:?} is not a duration: unknown unit {unit:?}; use ns, us, ms, s, m or h")]
    UnknownUnit { text: String, unit: String },
    #[error("{text:?} is too long: a duration is at most about 292 years")]
    TooLong { text: String },
}

impl GoDuration {
    pub const ZERO: Self = Self(0);

    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// So many milliseconds, or as many as fit.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// So many seconds, or as many as fit.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// The same span for the standard library, unless it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl TryFrom<Duration> for GoDuration {
    type Error = DurationError;

    fn try_from(duration: Duration) -> Result<Self, DurationError> {
        i64::try_from(duration.as_nanos())
            .map(Self)
            .map_err(|_| DurationError::TooLong {
                text: format!("{}s", duration.as_secs()),
            })
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let malformed = || DurationError::Malformed {
            text: text.to_owned(),
        };
        let too_long = || DurationError::TooLong {
            text: text.to_owned(),
        };

        let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(malformed());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (number, after) = Number::scan(rest).ok_or_else(malformed)?;
            let end = after
                .find(|c: char| c == '.' || c.is_ascii_digit())
                .unwrap_or(after.len());
            let (unit, after) = after.split_at_checked(end).unwrap_or((after, ""));
            if unit.is_empty() {
                return Err(DurationError::MissingUnit {
                    text: text.to_owned(),
                });
            }
            let nanos = nanos_per(unit).ok_or_else(|| DurationError::UnknownUnit {
                text: text.to_owned(),
                unit: unit.to_owned(),
            })?;
            let part = number.times(nanos).ok_or_else(too_long)?;
            total = total
                .checked_add(part)
                .filter(|t| *t <= LONGEST)
                .ok_or_else(too_long)?;
            rest = after;
        }
        let nanos = if text.starts_with('-') {
            0_i64.checked_sub_unsigned(total)
        } else {
            total.try_into().ok()
        };
        nanos.map(Self).ok_or_else(too_long)
    }
}

fn nanos_per(unit: &str) -> Option<u64> {
    match unit {
        "ns" => Some(1),
        // The micro sign and the Greek letter look alike; Go takes both.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(MICROSECOND),
        "ms" => Some(MILLISECOND),
        "s" => Some(SECOND),
        "m" => Some(MINUTE),
        "h" => Some(HOUR),
        _ => None,
    }
}

/// A decimal number, kept as digits until its unit is known.
struct Number<'a> {
    whole: &'a str,
    fraction: &'a str,
}

impl<'a> Number<'a> {
    fn scan(text: &'a str) -> Option<(Self, &'a str)> {
        let (whole, rest) = split_digits(text);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let empty = whole.is_empty() && fraction.is_empty();
        (!empty).then_some((Self { whole, fraction }, rest))
    }

    fn times(&self, unit: u64) -> Option<u64> {
        let whole: u64 = if self.whole.is_empty() {
            0
        } else {
            self.whole.parse().ok()?
        };
        whole
            .checked_mul(unit)
            .and_then(|nanos| nanos.checked_add(self.fraction_of(unit)))
            .filter(|nanos| *nanos <= LONGEST)
    }

    /// The fraction in nanoseconds. Go multiplies in floating point, after as
    /// many digits as 63 bits hold, and so must this to give the same number.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the rounding is part of the result, which lies between 0 and the unit"
    )]
    fn fraction_of(&self, unit: u64) -> u64 {
        let mut digits: u64 = 0;
        let mut scale: f64 = 1.0;
        for digit in self.fraction.bytes() {
            let next = digits
                .checked_mul(10)
                .and_then(|tens| tens.checked_add(u64::from(digit - b'0')))
                .filter(|next| *next <= LONGEST && digits <= (LONGEST - 1) / 10);
            let Some(next) = next else { break };
            digits = next;
            scale *= 10.0;
        }
        (digits as f64 * (unit as f64 / scale)) as u64
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        let magnitude = match nanos {
            0 => "0s".to_owned(),
            1..MICROSECOND => format!("{nanos}ns"),
            MICROSECOND..MILLISECOND => decimal(nanos, MICROSECOND, "\u{b5}s"),
            MILLISECOND..SECOND => decimal(nanos, MILLISECOND, "ms"),
            _ => {
                let seconds = decimal(nanos % MINUTE, SECOND, "s");
                match (nanos / HOUR, nanos % HOUR / MINUTE) {
                    (0, 0) => seconds,
                    (0, minutes) => format!("{minutes}m{seconds}"),
                    (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
                }
            }
        };
        let sign = if self.0 < 0 { "-" } else { "" };
        f.pad(&format!("{sign}{magnitude}"))
    }
}

/// `nanos` counted in `unit`s, with no zeros at the end of the fraction.
fn decimal(nanos: u64, unit: u64, name: &str) -> String {
    let (whole, fraction) = (nanos / unit, nanos % unit);
    if fraction == 0 {
        return format!("{whole}{name}");
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    format!("{whole}.{}{name}", digits.trim_end_matches('0'))
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DurationVisitor)
    }
}

/// Takes a string only: a bare number has no unit, and upstream refuses it.
struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = GoDuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as 30s or 1m30s")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<GoDuration, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_duration_reads_and_prints_as_go_does() {
        for (text, nanos, printed) in [
            ("0", 0, "0s"),
            ("-0", 0, "0s"),
            ("0s", 0, "0s"),
            ("1m30s", 90_000_000_000, "1m30s"),
            ("90s", 90_000_000_000, "1m30s"),
            ("60m", 3_600_000_000_000, "1h0m0s"),
            ("100ms", 100_000_000, "100ms"),
            ("999.9ms", 999_900_000, "999.9ms"),
            ("1.5h", 5_400_000_000_000, "1h30m0s"),
            ("1.5us", 1_500, "1.5\u{b5}s"),
            ("1.5\u{b5}s", 1_500, "1.5\u{b5}s"),
            ("1.5\u{3bc}s", 1_500, "1.5\u{b5}s"),
            ("1ns", 1, "1ns"),
            ("1.9ns", 1, "1ns"),
            ("-1.5s", -1_500_000_000, "-1.5s"),
            ("+5s", 5_000_000_000, "5s"),
            (".5s", 500_000_000, "500ms"),
            ("1.s", 1_000_000_000, "1s"),
            ("1h1m1.001s", 3_661_001_000_000, "1h1m1.001s"),
            ("1s1h1s", 3_602_000_000_000, "1h0m2s"),
            ("0.3333333333333333333h", 1_200_000_000_000, "20m0s"),
            (
                "0.9223372036854775807h",
                3_320_413_933_267,
                "55m20.413933267s",
            ),
            (
                "9223372036854775807ns",
                i64::MAX,
                "2562047h47m16.854775807s",
            ),
            (
                "-9223372036854775808ns",
                i64::MIN,
                "-2562047h47m16.854775808s",
            ),
        ] {
            let duration: GoDuration = text.parse().unwrap();
            assert_eq!(duration, GoDuration::from_nanos(nanos), "{text:?}");
            assert_eq!(duration.to_string(), printed, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "write numbers with units"),
            ("-", "write numbers with units"),
            (".", "write numbers with units"),
            ("s", "write numbers with units"),
            (".s", "write numbers with units"),
            ("1h-1m", "unknown unit \"h-\""),
            ("5", "a unit is missing"),
            ("1m5", "a unit is missing"),
            ("1.1.1s", "a unit is missing"),
            ("1d", "unknown unit \"d\"; use ns"),
            ("1S", "unknown unit \"S\""),
            ("1 s", "unknown unit \" s\""),
            ("9223372036854775808ns", "too long"),
            ("3000000h", "too long"),
            ("2562047h47m16.854775808s", "too long"),
        ] {
            let error = text.parse::<GoDuration>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }

    #[test]
    fn only_a_duration_that_is_not_negative_is_one_of_the_standard_library() {
        assert_eq!(
            GoDuration::from_secs(2).to_std(),
            Some(Duration::from_secs(2))
        );
        assert_eq!(GoDuration::from_millis(-1).to_std(), None);
        assert_eq!(
            Duration::from_millis(5).try_into(),
            Ok(GoDuration::from_millis(5))
        );
        assert!(GoDuration::try_from(Duration::MAX).is_err());
    }

    #[test]
    fn json_has_durations_as_strings_only() {
        assert_eq!(
            serde_json::to_string(&GoDuration::from_secs(60)).unwrap(),
            "\"1m0s\""
        );
        assert_eq!(
            serde_json::from_str::<GoDuration>("\"4h\"").unwrap(),
            GoDuration::from_secs(14_400)
        );
        for json in ["5", "null", "\"\"", "\"5\""] {
            assert!(
                serde_json::from_str::<GoDuration>(json).is_err(),
                "{json} was accepted"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_duration_or_an_error(text in "[-+]?([0-9.]{0,22}(ns|us|ms|s|m|h|d)?){0,4}|.{0,12}") {
            let _ = text.parse::<GoDuration>();
        }

        #[test]
        fn a_printed_duration_reads_back_the_same(nanos in any::<i64>(), shift in 0..63_u32) {
            let duration = GoDuration::from_nanos(nanos >> shift);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
