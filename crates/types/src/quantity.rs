//! Resource quantities: `500m`, `1.5Gi`, `12e6`.
//!
//! A quantity is a whole number times a power of ten, never finer than one
//! nano, and remembers in which of three notations it was written. Upstream
//! holds some quantities in 64 bits and the others in an arbitrary-precision
//! form, and lets callers see the difference; [`Quantity::as_i64_exact`] does
//! too, so that a size it refuses is refused here.

use std::cmp::Ordering;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};
use thiserror::Error;

mod parse;
#[cfg(test)]
mod tests;

/// The finest power of ten that a quantity can express.
const NANO: i32 = -9;

const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY_SUFFIXES: [(&str, u32); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

/// The notation a quantity was written in, and is printed in again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    #[default]
    DecimalSi,
}

/// An amount of a resource. Two quantities are equal if their amounts are,
/// however they were written.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    mantissa: i128,
    /// A power of ten, never below [`NANO`].
    exponent: i32,
    format: Format,
    /// Upstream would hold this one in its arbitrary-precision form.
    wide: bool,
    /// The text as read, where upstream takes a text for canonical that is not
    /// (`+1`, `1.125`) and prints it back unchanged.
    verbatim: Option<Box<str>>,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum QuantityError {
    #[error(
        "{text:?} is not a quantity: write a number and an optional suffix, such as 500m, 2, 1.5Gi or 12e6"
    )]
    Malformed { text: String },
    #[error("{text:?} is not a quantity: there is no number before the suffix {suffix:?}")]
    NoNumber { text: String, suffix: String },
    #[error(
        "{text:?} is not a quantity: unknown suffix {suffix:?}; use n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3"
    )]
    UnknownSuffix { text: String, suffix: String },
    #[error("{text:?} is too large or too precise: a quantity has at most 38 significant digits")]
    TooManyDigits { text: String },
}

impl Quantity {
    /// A whole number of units.
    pub fn new(value: i64, format: Format) -> Self {
        Self {
            mantissa: value.into(),
            format,
            ..Self::default()
        }
    }

    /// A number of thousandths, as CPU time is counted.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self {
            mantissa: value.into(),
            exponent: -3,
            format,
            ..Self::default()
        }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        match self.mantissa.cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// The amount in whole units, a fraction rounded away from zero. An amount
    /// that 64 bits cannot hold becomes the nearest one that they can.
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// The amount in thousandths, rounded and limited as [`Self::value`] is.
    pub fn milli_value(&self) -> i64 {
        self.scaled(-3)
    }

    /// The amount as upstream's `AsInt64` gives it: only if it was written as a
    /// whole number, of at most 18 digits. A fraction (`1.0`, `1.5Gi`, `1000m`)
    /// and a large binary quantity (`100Ti`, any `Pi`) give nothing.
    pub fn as_i64_exact(&self) -> Option<i64> {
        if self.wide || self.exponent < 0 {
            return None;
        }
        self.integer()
            .and_then(|integer| i64::try_from(integer).ok())
    }

    /// Whether [`Self::as_i64_exact`] gives a number.
    pub fn fits_i64(&self) -> bool {
        self.as_i64_exact().is_some()
    }

    /// The exact sum, in the notation of `self` unless that is zero; nothing if
    /// it does not fit.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        if self.is_zero() || other.is_zero() {
            let sum = if self.is_zero() { other } else { self };
            return Some(Self {
                verbatim: None,
                wide: self.wide || other.wide,
                ..sum.clone()
            });
        }
        let exponent = self.exponent.min(other.exponent);
        let mantissa = self
            .mantissa_at(exponent)?
            .checked_add(other.mantissa_at(exponent)?)?;
        let wide = self.wide || other.wide || i64::try_from(mantissa).is_err();
        Some(Self {
            mantissa,
            exponent,
            format: self.format,
            wide,
            verbatim: None,
        })
    }

    /// The exact difference, under the rules of [`Self::checked_add`].
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.checked_add(&other.checked_neg()?)
    }

    /// The exact product; nothing if it does not fit.
    pub fn checked_mul(&self, factor: i64) -> Option<Self> {
        let mantissa = self.mantissa.checked_mul(factor.into())?;
        let wide = self.wide || i64::try_from(mantissa).is_err();
        Some(Self {
            mantissa,
            wide,
            verbatim: None,
            ..*self
        })
    }

    /// The same amount with the other sign.
    pub fn checked_neg(&self) -> Option<Self> {
        self.checked_mul(-1)
    }

    fn mantissa_at(&self, exponent: i32) -> Option<i128> {
        let shift = u32::try_from(self.exponent.checked_sub(exponent)?).ok()?;
        self.mantissa.checked_mul(10_i128.checked_pow(shift)?)
    }

    /// The amount, if it is a whole number that fits.
    fn integer(&self) -> Option<i128> {
        if self.mantissa == 0 {
            return Some(0);
        }
        let power = 10_i128.checked_pow(self.exponent.unsigned_abs())?;
        if self.exponent >= 0 {
            return self.mantissa.checked_mul(power);
        }
        (self.mantissa % power == 0).then(|| self.mantissa / power)
    }

    fn scaled(&self, scale: i32) -> i64 {
        let shift = i64::from(self.exponent) - i64::from(scale);
        let power = u32::try_from(shift.unsigned_abs())
            .ok()
            .and_then(|shift| 10_i128.checked_pow(shift))
            .unwrap_or(i128::MAX);
        let scaled = if shift >= 0 {
            self.mantissa.saturating_mul(power)
        } else {
            let quotient = self.mantissa / power;
            let remainder = self.mantissa % power;
            quotient + remainder.signum()
        };
        let limit = if scaled < 0 { i64::MIN } else { i64::MAX };
        i64::try_from(scaled).unwrap_or(limit)
    }

    fn canonical(&self) -> String {
        if self.mantissa == 0 {
            return "0".to_owned();
        }
        match (self.format, self.integer()) {
            (Format::BinarySi, Some(integer)) if integer.unsigned_abs() >= 1024 => binary(integer),
            (Format::DecimalExponent, _) => self.decimal(|exponent| match exponent {
                0 => (String::new(), 0),
                _ => (format!("e{exponent}"), 0),
            }),
            // A binary quantity that is small or broken prints as a decimal.
            (Format::BinarySi | Format::DecimalSi, _) => self.decimal(decimal_suffix),
        }
    }

    /// Prints the shortest mantissa whose exponent is a multiple of three.
    /// `suffix` names that exponent, and what is left of it as zeros.
    fn decimal(&self, suffix: impl Fn(i64) -> (String, usize)) -> String {
        let all = self.mantissa.unsigned_abs().to_string();
        let digits = all.trim_end_matches('0');
        let exponent = i64::from(self.exponent) + count(all.len() - digits.len());
        let odd = exponent.rem_euclid(3);
        let (suffix, rest) = suffix(exponent - odd);
        let zeros = "0".repeat(rest + usize::try_from(odd).unwrap_or_default());
        let sign = if self.mantissa < 0 { "-" } else { "" };
        format!("{sign}{digits}{zeros}{suffix}")
    }
}

/// The suffix of a power of ten, and the zeros that the largest suffix leaves.
fn decimal_suffix(exponent: i64) -> (String, usize) {
    let known = DECIMAL_SUFFIXES
        .iter()
        .rev()
        .find(|(_, power)| i64::from(*power) <= exponent);
    let (suffix, power) = known.copied().unwrap_or(("n", NANO));
    let rest = usize::try_from(exponent - i64::from(power)).unwrap_or_default();
    (suffix.to_owned(), rest)
}

fn binary(mut integer: i128) -> String {
    let mut suffix = "";
    for (larger, _) in BINARY_SUFFIXES {
        if integer % 1024 != 0 {
            break;
        }
        integer /= 1024;
        suffix = larger;
    }
    format!("{integer}{suffix}")
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_sign = self.sign().cmp(&other.sign());
        if by_sign.is_ne() || self.is_zero() {
            return by_sign;
        }
        let by_magnitude = compare_magnitudes(self, other);
        if self.sign() < 0 {
            by_magnitude.reverse()
        } else {
            by_magnitude
        }
    }
}

/// Compares two amounts that are not zero, whatever their exponents.
fn compare_magnitudes(left: &Quantity, right: &Quantity) -> Ordering {
    let length = |quantity: &Quantity| {
        let digits = quantity
            .mantissa
            .unsigned_abs()
            .checked_ilog10()
            .unwrap_or_default();
        i64::from(digits) + i64::from(quantity.exponent)
    };
    length(left).cmp(&length(right)).then_with(|| {
        let exponent = left.exponent.min(right.exponent);
        match (left.mantissa_at(exponent), right.mantissa_at(exponent)) {
            (Some(left), Some(right)) => left.unsigned_abs().cmp(&right.unsigned_abs()),
            // Of two numbers of one length, the one that does not fit is larger.
            (left, right) => right.is_some().cmp(&left.is_some()),
        }
    })
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verbatim {
            Some(text) => f.pad(text),
            None => f.pad(&self.canonical()),
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

/// Takes what upstream takes: a string, a bare number, or null for zero.
struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as 500m or 1Gi")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.trim().parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::default())
    }
}
