//! Numbers as JSON has them, with the kind that decides which field can take them.

use std::fmt;

/// A number of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A whole number that fits a signed field.
    Int(i64),
    /// A whole number above [`i64::MAX`].
    Uint(u64),
    /// Anything else; always finite. No integer field takes it, even if its fraction is zero.
    Float(f64),
}

impl Number {
    /// The value, if a signed integer field of 64 bits can hold it.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(int),
            Self::Uint(_) | Self::Float(_) => None,
        }
    }

    /// The value, if an unsigned integer field of 64 bits can hold it.
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::Int(int) => u64::try_from(int).ok(),
            Self::Uint(uint) => Some(uint),
            Self::Float(_) => None,
        }
    }

    /// The value as a floating point field takes it, rounded where it must be.
    #[allow(
        clippy::cast_precision_loss,
        reason = "a float field rounds a large integer; so does upstream"
    )]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Uint(uint) => uint as f64,
            Self::Float(float) => float,
        }
    }

    /// The number after one more trip through JSON text, where `1.0` is printed as `1` and so
    /// becomes whole. Upstream makes this trip for every YAML file, and for drop-ins in JSON.
    #[must_use]
    pub fn rendered(self) -> Self {
        match self {
            Self::Float(float) if float.fract() == 0.0 && float.abs() < EXPONENT_FROM => {
                Self::whole(&self.to_string()).unwrap_or(self)
            }
            other => other,
        }
    }

    /// Reads the digits of a whole number; nothing if it needs more than 64 bits.
    pub(super) fn whole(digits: &str) -> Option<Self> {
        let int = digits.parse().map(Self::Int);
        int.or_else(|_| digits.parse().map(Self::Uint)).ok()
    }
}

impl From<i64> for Number {
    fn from(int: i64) -> Self {
        Self::Int(int)
    }
}

impl From<u64> for Number {
    fn from(uint: u64) -> Self {
        i64::try_from(uint).map_or(Self::Uint(uint), Self::Int)
    }
}

/// From this size on, Go's JSON encoder writes a float with an exponent.
const EXPONENT_FROM: f64 = 1e21;
/// Below this size it does too, zero excepted.
const EXPONENT_BELOW: f64 = 1e-6;

impl fmt::Display for Number {
    /// Prints what Go's JSON encoder prints.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Int(int) => write!(formatter, "{int}"),
            Self::Uint(uint) => write!(formatter, "{uint}"),
            Self::Float(float) => {
                let size = float.abs();
                if size != 0.0 && size < EXPONENT_BELOW {
                    write!(formatter, "{float:e}")
                } else if size >= EXPONENT_FROM {
                    write!(formatter, "{}", format!("{float:e}").replace('e', "e+"))
                } else {
                    write!(formatter, "{float}")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_go_prints_them_in_json() {
        for (number, text) in [
            (Number::Int(-5), "-5"),
            (Number::Uint(u64::MAX), "18446744073709551615"),
            (Number::Float(1.0), "1"),
            (Number::Float(-0.0), "-0"),
            (Number::Float(0.1), "0.1"),
            (Number::Float(1e20), "100000000000000000000"),
            (Number::Float(1e21), "1e+21"),
            (Number::Float(-1.5e300), "-1.5e+300"),
            (Number::Float(1e-6), "0.000001"),
            (Number::Float(1.25e-7), "1.25e-7"),
            (Number::Float(5e-324), "5e-324"),
        ] {
            assert_eq!(number.to_string(), text);
        }
    }

    #[test]
    fn a_float_that_prints_as_an_integer_becomes_one() {
        for (float, number) in [
            (8.0, Number::Int(8)),
            (-0.0, Number::Int(0)),
            (1.8e19, Number::Uint(18_000_000_000_000_000_000)),
            (1e20, Number::Float(1e20)),
            (1e21, Number::Float(1e21)),
            (0.5, Number::Float(0.5)),
        ] {
            assert_eq!(Number::Float(float).rendered(), number);
        }
    }

    #[test]
    fn only_whole_numbers_go_into_integer_fields() {
        assert_eq!(Number::Int(-1).as_i64(), Some(-1));
        assert_eq!(Number::Int(-1).as_u64(), None);
        assert_eq!(Number::Uint(u64::MAX).as_i64(), None);
        assert_eq!(Number::Uint(u64::MAX).as_u64(), Some(u64::MAX));
        assert_eq!(Number::Float(1.0).as_i64(), None);
    }
}
