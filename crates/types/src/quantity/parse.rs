//! Reading a quantity: split the text, then hold it in 64 bits where upstream
//! does, and exactly in any case.

use std::str::FromStr;

use super::{BINARY_SUFFIXES, DECIMAL_SUFFIXES, Format, NANO, Quantity, QuantityError, count};
use crate::digits::split_digits;

/// How many decimal digits always fit the mantissa.
const MAX_DIGITS: usize = 38;
/// Digits up to which upstream keeps a decimal quantity in 64 bits.
const NARROW_DIGITS: usize = 18;
/// The same for binary ones, where the suffix counts for some digits too.
const NARROW_BINARY_DIGITS: usize = 14;

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let literal = Literal::scan(text)?;
        let unit = literal.unit()?;
        match literal.narrow(unit) {
            Some(quantity) => Ok(quantity),
            None => literal.wide(unit),
        }
    }
}

#[derive(Clone, Copy)]
enum Unit {
    Decimal(i32, Format),
    Binary(u32),
}

/// A text split into its parts, the number's leading zeros gone.
struct Literal<'a> {
    text: &'a str,
    negative: bool,
    numbered: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Literal<'a> {
    /// Like upstream, takes a missing number (`.`, `-`, `Ki`) for zero.
    fn scan(text: &'a str) -> Result<Self, QuantityError> {
        let malformed = || QuantityError::Malformed {
            text: text.to_owned(),
        };
        if text.is_empty() {
            return Err(malformed());
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = split_digits(unsigned.trim_start_matches('0'));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let power = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let power = power.strip_prefix(['+', '-']).unwrap_or(power);
        if !power.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed());
        }
        let numbered = unsigned.starts_with('0') || !whole.is_empty() || !fraction.is_empty();
        Ok(Self {
            text,
            negative: text.starts_with('-'),
            numbered,
            whole,
            fraction,
            suffix,
        })
    }

    fn unit(&self) -> Result<Unit, QuantityError> {
        if let Some((_, power)) = DECIMAL_SUFFIXES
            .iter()
            .find(|(name, _)| *name == self.suffix)
        {
            return Ok(Unit::Decimal(*power, Format::DecimalSi));
        }
        if let Some((_, power)) = BINARY_SUFFIXES
            .iter()
            .find(|(name, _)| *name == self.suffix)
        {
            return Ok(Unit::Binary(*power));
        }
        let power = self
            .suffix
            .strip_prefix(['e', 'E'])
            .and_then(|power| power.parse().ok());
        match power {
            Some(power) => Ok(Unit::Decimal(power, Format::DecimalExponent)),
            None => Err(QuantityError::UnknownSuffix {
                text: self.text.to_owned(),
                suffix: self.suffix.to_owned(),
            }),
        }
    }

    /// The quantity, if upstream would hold it in 64 bits.
    fn narrow(&self, unit: Unit) -> Option<Quantity> {
        let whole = if self.whole.is_empty() {
            "0"
        } else {
            self.whole
        };
        let (value, exponent, format, taken_for_canonical) = match unit {
            Unit::Decimal(power, format) => {
                let exponent = power.checked_sub(i32::try_from(self.fraction.len()).ok()?)?;
                let digits = format!("{whole}{}", self.fraction);
                if digits.len() > NARROW_DIGITS || exponent < NANO {
                    return None;
                }
                let canonical =
                    exponent % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0');
                (digits.parse().ok()?, exponent, format, canonical)
            }
            Unit::Binary(power) => {
                let digits = whole.len() + usize::try_from(power * 3 / 10).ok()?;
                if digits > NARROW_BINARY_DIGITS || !self.fraction.is_empty() {
                    return None;
                }
                let value: i64 = whole.parse().ok()?;
                (
                    value.checked_mul(1 << power)?,
                    0,
                    Format::BinarySi,
                    value % 8 != 0,
                )
            }
        };
        let mantissa = i128::from(if self.negative { -value } else { value });
        let mut quantity = Quantity {
            mantissa,
            exponent,
            format,
            ..Quantity::default()
        };
        if taken_for_canonical && quantity.canonical() != self.text {
            quantity.verbatim = Some(self.text.into());
        }
        Some(quantity)
    }

    /// Any quantity: what is finer than a nano is rounded up to one, what is
    /// binary is limited to 64 bits.
    fn wide(&self, unit: Unit) -> Result<Quantity, QuantityError> {
        if !self.numbered {
            let (text, suffix) = (self.text.to_owned(), self.suffix.to_owned());
            return Err(QuantityError::NoNumber { text, suffix });
        }
        let (magnitude, exponent, format) = match unit {
            Unit::Decimal(power, format) => {
                let digits = format!("{}{}", self.whole, self.fraction);
                let exponent = i64::from(power) - count(self.fraction.len());
                let (magnitude, exponent) = round_to_nano(&digits, exponent).ok_or_else(|| {
                    QuantityError::TooManyDigits {
                        text: self.text.to_owned(),
                    }
                })?;
                (magnitude, exponent, format)
            }
            Unit::Binary(power) => {
                let nanos = binary_nanos(self.whole, self.fraction, power);
                let below_one = (1..1_000_000_000).contains(&nanos);
                let format = if below_one {
                    Format::DecimalSi
                } else {
                    Format::BinarySi
                };
                let (magnitude, exponent) = reduce(nanos, NANO);
                (magnitude, exponent, format)
            }
        };
        let mantissa = if self.negative { -magnitude } else { magnitude };
        Ok(Quantity {
            mantissa,
            exponent,
            format,
            wide: true,
            verbatim: None,
        })
    }
}

/// `digits` times ten to `exponent`, with an exponent that is not below nano.
fn round_to_nano(digits: &str, exponent: i64) -> Option<(i128, i32)> {
    let surplus = usize::try_from(i64::from(NANO) - exponent).unwrap_or_default();
    let (kept, cut) = digits.split_at_checked(digits.len().saturating_sub(surplus))?;
    let exponent = exponent.max(i64::from(NANO));
    let round_up = cut.bytes().any(|digit| digit != b'0');

    let significant = kept.trim_start_matches('0');
    let trimmed = if round_up {
        significant
    } else {
        significant.trim_end_matches('0')
    };
    if trimmed.is_empty() {
        return Some((i128::from(round_up), NANO));
    }
    if trimmed.len() > MAX_DIGITS {
        return None;
    }
    let exponent = i32::try_from(exponent + count(significant.len() - trimmed.len())).ok()?;
    let magnitude: i128 = trimmed.parse().ok()?;
    Some((magnitude + i128::from(round_up), exponent))
}

/// The same amount with a mantissa that does not end in zero, which leaves the
/// most room for sums.
fn reduce(mut mantissa: i128, mut exponent: i32) -> (i128, i32) {
    while mantissa != 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    (mantissa, exponent)
}

/// `whole.fraction` times two to `power`, in nanos, rounded up and limited.
fn binary_nanos(whole: &str, fraction: &str, power: u32) -> i128 {
    const NANOS: i128 = 1_000_000_000;
    let limit = i128::from(i64::MAX) * NANOS;
    let unit = NANOS << power;

    // Long multiplication, so that a fraction of any length stays exact: the
    // digits that fall out on the right say only whether to round up.
    let mut carry = 0;
    let mut inexact = false;
    for digit in fraction.bytes().rev() {
        let product = unit * i128::from(digit - b'0') + carry;
        inexact |= product % 10 != 0;
        carry = product / 10;
    }
    let whole = if whole.is_empty() {
        Ok(0)
    } else {
        whole.parse::<i128>()
    };
    whole
        .ok()
        .and_then(|whole| whole.checked_mul(unit))
        .and_then(|nanos| nanos.checked_add(carry + i128::from(inexact)))
        .map_or(limit, |nanos| nanos.min(limit))
}
