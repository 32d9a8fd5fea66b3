//! What an unquoted word of YAML 1.1 means: a truth value, a number, nothing, or itself.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

use super::number::Number;
use super::text::push_lossy;
use super::tree::Value;

/// A scalar after its type was found, before it is fitted into JSON.
#[derive(Debug, PartialEq)]
pub(super) enum Scalar<'t> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(Cow<'t, str>),
}

/// A tag that was written before a scalar, as far as it changes what the scalar means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Tag {
    Str,
    Bool,
    Int,
    Float,
    Null,
    Timestamp,
    Binary,
    Merge,
    /// Not known here: the scalar stays text.
    Other,
}

impl Tag {
    /// The tag of a name in YAML's own namespace, as in `!!str`.
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "str" => Self::Str,
            "bool" => Self::Bool,
            "int" => Self::Int,
            "float" => Self::Float,
            "null" => Self::Null,
            "timestamp" => Self::Timestamp,
            "binary" => Self::Binary,
            "merge" => Self::Merge,
            _ => Self::Other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Str => "!!str",
            Self::Bool => "!!bool",
            Self::Int => "!!int",
            Self::Float => "!!float",
            Self::Null => "!!null",
            Self::Timestamp => "!!timestamp",
            Self::Binary => "!!binary",
            Self::Merge => "!!merge",
            Self::Other => "its tag",
        }
    }
}

/// Finds the value of a scalar. The error is a message for an operator.
pub(super) fn resolve(
    text: Cow<'_, str>,
    plain: bool,
    tag: Option<Tag>,
) -> Result<Scalar<'_>, String> {
    match tag {
        None if plain => Ok(untagged(text)),
        None | Some(Tag::Str | Tag::Merge | Tag::Other) => Ok(Scalar::Text(text)),
        Some(Tag::Binary) => binary(&text),
        Some(Tag::Timestamp) if looks_like_date(&text) => Ok(Scalar::Text(text)),
        Some(tag) => tagged(text, tag),
    }
}

impl Scalar<'_> {
    /// The value in the tree. The error is a message for an operator.
    pub(super) fn into_value(self) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(bool) => Value::Bool(bool),
            Self::Int(int) => Value::Number(int.into()),
            Self::Uint(uint) => Value::Number(uint.into()),
            Self::Float(float) if float.is_finite() => {
                Value::Number(Number::Float(float).rendered())
            }
            Self::Float(_) => {
                return Err("infinity and not-a-number are no values here; write a number".into());
            }
            Self::Text(text) => Value::String(text.into_owned()),
        })
    }

    /// The scalar as a key. The error is a message for an operator.
    pub(super) fn into_key(self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.into_owned()),
            Self::Bool(bool) => Ok(bool.to_string()),
            Self::Int(int) => Ok(int.to_string()),
            Self::Float(float) => Ok(float_key(float)),
            Self::Null => Err("null cannot be a key; put it in quotes".to_owned()),
            Self::Uint(uint) => Err(format!(
                "{uint} is too large a number for a key; put it in quotes"
            )),
        }
    }
}

fn untagged(text: Cow<'_, str>) -> Scalar<'_> {
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        word => match word.as_bytes().first() {
            Some(b'.') => leading_dot(word).map_or(Scalar::Text(text), Scalar::Float),
            Some(b'0'..=b'9' | b'+' | b'-') => {
                number(&word.replace('_', "")).unwrap_or(Scalar::Text(text))
            }
            _ => Scalar::Text(text),
        },
    }
}

/// A scalar whose tag demands a type: the word must have it, quoted or not.
fn tagged(text: Cow<'_, str>, tag: Tag) -> Result<Scalar<'_>, String> {
    let scalar = untagged(text);
    match (tag, scalar) {
        (Tag::Null, scalar @ Scalar::Null)
        | (Tag::Bool, scalar @ Scalar::Bool(_))
        | (Tag::Int, scalar @ (Scalar::Int(_) | Scalar::Uint(_)))
        | (Tag::Float, scalar @ Scalar::Float(_)) => Ok(scalar),
        (Tag::Float, Scalar::Int(int)) => Ok(Scalar::Float(Number::Int(int).as_f64())),
        (tag, _) => Err(format!(
            "this value is not what {} demands; remove the tag or correct the value",
            tag.name()
        )),
    }
}

/// Standard base64 as Go decodes it: padded, and not strict about the bits that padding leaves over.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Bytes as text, for JSON has no bytes.
fn binary(text: &str) -> Result<Scalar<'static>, String> {
    let bytes = BASE64
        .decode(text.replace(['\r', '\n'], ""))
        .map_err(|_| "the value of !!binary is not valid base64".to_owned())?;
    let mut decoded = String::with_capacity(bytes.len());
    push_lossy(&mut decoded, &bytes);
    Ok(Scalar::Text(decoded.into()))
}

fn looks_like_date(text: &str) -> bool {
    matches!(
        text.as_bytes(),
        [
            b'0'..=b'9',
            b'0'..=b'9',
            b'0'..=b'9',
            b'0'..=b'9',
            b'-',
            b'0'..=b'9',
            ..
        ]
    )
}

/// A word that starts with a digit or a sign, its underscores removed.
fn number(word: &str) -> Option<Scalar<'static>> {
    integer(word)
        .or_else(|| decimal(word).map(Scalar::Float))
        .or_else(|| {
            // Upstream accepts a sign after the prefix of a binary number, too.
            let signed = word.strip_prefix("0b")?;
            i64::from_str_radix(signed, 2).ok().map(Scalar::Int)
        })
}

/// An integer as Go writes them: decimal, 0x, 0o, 0b, or octal after a bare 0.
fn integer(word: &str) -> Option<Scalar<'static>> {
    let (negative, unsigned) = match word.as_bytes().first()? {
        b'-' => (true, word.get(1..)?),
        b'+' => (false, word.get(1..)?),
        _ => (false, word),
    };
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, unsigned.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, unsigned.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, unsigned.get(2..)?),
        [b'0', _, ..] => (8, unsigned.get(1..)?),
        _ => (10, unsigned),
    };
    // The standard library takes a second sign here, which is none of the grammar.
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    match i64::try_from(size) {
        Ok(int) => Some(Scalar::Int(if negative { -int } else { int })),
        Err(_) if negative => (size == i64::MIN.unsigned_abs()).then_some(Scalar::Int(i64::MIN)),
        // An explicit plus keeps a number out of the unsigned range; it becomes a float.
        Err(_) if word.starts_with('+') => None,
        Err(_) => Some(Scalar::Uint(size)),
    }
}

/// A decimal float; nothing if it is out of range, which leaves it text.
fn decimal(word: &str) -> Option<f64> {
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(word);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let well_formed = all_digits(whole)
        && all_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| {
            let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            !digits.is_empty() && all_digits(digits)
        });
    let float: f64 = well_formed.then(|| word.parse().ok())??;
    float.is_finite().then_some(float)
}

/// A float that starts with a dot. Go allows underscores in it, between digits.
fn leading_dot(word: &str) -> Option<f64> {
    let bytes = word.as_bytes();
    let between_digits = |at: usize| {
        let digit = |at: Option<usize>| {
            at.and_then(|at| bytes.get(at))
                .is_some_and(u8::is_ascii_digit)
        };
        digit(at.checked_sub(1)) && digit(at.checked_add(1))
    };
    let separated = word.match_indices('_').all(|(at, _)| between_digits(at));
    separated.then(|| decimal(&word.replace('_', "")))?
}

/// A float key is printed with the precision of 32 bits, and with an exponent from a million on.
#[allow(
    clippy::cast_possible_truncation,
    reason = "upstream prints float keys with the digits of a 32-bit float"
)]
fn float_key(float: f64) -> String {
    let single = float as f32;
    if single.is_nan() {
        return ".nan".to_owned();
    }
    if single.is_infinite() {
        return if single > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{single:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or_default() {
        -4..=5 => single.to_string(),
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Scalar<'_> {
        resolve(text.into(), true, None).unwrap()
    }

    fn tagged_as<'t>(tag: &str, text: &'t str) -> Result<Scalar<'t>, String> {
        resolve(text.into(), true, Some(Tag::from_name(tag)))
    }

    #[test]
    fn truth_values_are_those_of_yaml_1_1() {
        for text in ["y", "Y", "yes", "Yes", "YES", "true", "True", "on", "ON"] {
            assert_eq!(plain(text), Scalar::Bool(true), "{text}");
        }
        for text in ["n", "N", "no", "No", "NO", "false", "FALSE", "off", "Off"] {
            assert_eq!(plain(text), Scalar::Bool(false), "{text}");
        }
        for text in ["yEs", "tRUE", "oN", "t", "f"] {
            assert_eq!(plain(text), Scalar::Text(text.into()));
        }
    }

    #[test]
    fn nothing_has_five_spellings() {
        for text in ["", "~", "null", "Null", "NULL"] {
            assert_eq!(plain(text), Scalar::Null, "{text}");
        }
        assert_eq!(plain("nULL"), Scalar::Text("nULL".into()));
    }

    #[test]
    fn integers_have_go_s_prefixes_and_any_underscores() {
        for (text, int) in [
            ("0", 0),
            ("-0", 0),
            ("+5", 5),
            ("0777", 511),
            ("0o777", 511),
            ("0O17", 15),
            ("0x1F", 31),
            ("-0x1f", -31),
            ("0b101", 5),
            ("-0b1", -1),
            ("0b-1", -1),
            ("1_000", 1000),
            ("1__0", 10),
            ("0x_F", 15),
            ("0_7", 7),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(plain(text), Scalar::Int(int), "{text}");
        }
        assert_eq!(
            plain("9223372036854775808"),
            Scalar::Uint(9_223_372_036_854_775_808)
        );
        assert_eq!(plain("0xffffffffffffffff"), Scalar::Uint(u64::MAX));
    }

    #[test]
    fn numbers_that_are_no_integers_are_floats() {
        for (text, float) in [
            ("1.5", 1.5),
            ("5.", 5.0),
            (".5", 0.5),
            ("-.5", -0.5),
            ("1e3", 1000.0),
            ("1E-3", 0.001),
            ("08", 8.0),
            ("1_0.5", 10.5),
            (".1_0", 0.1),
            ("1e-400", 0.0),
            ("18446744073709551616", 18_446_744_073_709_551_616.0),
            ("+9223372036854775808", 9_223_372_036_854_775_808.0),
            (".inf", f64::INFINITY),
            ("-.INF", f64::NEG_INFINITY),
        ] {
            assert_eq!(plain(text), Scalar::Float(float), "{text}");
        }
        assert!(matches!(plain(".NaN"), Scalar::Float(float) if float.is_nan()));
    }

    #[test]
    fn everything_else_is_text() {
        for text in [
            "_1",
            "0o8",
            "0xg",
            "0x",
            "0b2",
            "--1",
            "+-1",
            "1e",
            "1e400",
            ".",
            "..",
            "-",
            "+.",
            "._5",
            ".5_",
            ".5__0",
            ".e5",
            "inf",
            "nan",
            "+.nan",
            "1:20",
            "2001-01-01",
            "10m0s",
            "50Mi",
            "1.2.3",
            "<<",
            "=",
            "1,000",
            "0x1p4",
            "-0b-1",
        ] {
            assert_eq!(plain(text), Scalar::Text(text.into()));
        }
    }

    #[test]
    fn quotes_make_text_of_anything() {
        for text in ["", "yes", "5", "~"] {
            assert_eq!(
                resolve(text.into(), false, None),
                Ok(Scalar::Text(text.into()))
            );
        }
    }

    #[test]
    fn a_tag_demands_a_type() {
        assert_eq!(tagged_as("str", "5"), Ok(Scalar::Text("5".into())));
        assert_eq!(tagged_as("str", ""), Ok(Scalar::Text("".into())));
        assert_eq!(tagged_as("int", "0x1F"), Ok(Scalar::Int(31)));
        assert_eq!(tagged_as("float", "3"), Ok(Scalar::Float(3.0)));
        assert_eq!(tagged_as("bool", "on"), Ok(Scalar::Bool(true)));
        assert_eq!(tagged_as("null", "~"), Ok(Scalar::Null));
        assert_eq!(
            tagged_as("timestamp", "2001-01-01"),
            Ok(Scalar::Text("2001-01-01".into()))
        );
        assert_eq!(
            tagged_as("binary", "aGVs\nbG8="),
            Ok(Scalar::Text("hello".into()))
        );
        assert_eq!(
            tagged_as("binary", "4oI="),
            Ok(Scalar::Text("\u{fffd}\u{fffd}".into()))
        );
        assert_eq!(tagged_as("set", "5"), Ok(Scalar::Text("5".into())));
        for (tag, text) in [
            ("int", "1.5"),
            ("int", ""),
            ("float", "x"),
            ("float", "18446744073709551615"),
            ("bool", "1"),
            ("null", "x"),
            ("timestamp", "now"),
            ("binary", "aGVsbG8"),
        ] {
            assert!(tagged_as(tag, text).is_err(), "!!{tag} {text}");
        }
    }

    #[test]
    fn keys_become_strings_as_upstream_prints_them() {
        for (text, key) in [
            ("a", "a"),
            ("on", "true"),
            ("0x10", "16"),
            ("1.5", "1.5"),
            ("1e3", "1000"),
            ("100000.0", "100000"),
            ("1e6", "1e+06"),
            ("123456789.0", "1.2345679e+08"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("-0.0", "-0"),
            ("1e300", ".inf"),
            (".nan", ".nan"),
            ("-.inf", "-.inf"),
        ] {
            assert_eq!(plain(text).into_key().as_deref(), Ok(key), "{text}");
        }
        assert!(plain("null").into_key().is_err());
        assert!(plain("18446744073709551615").into_key().is_err());
    }

    #[test]
    fn values_that_json_cannot_hold_are_refused() {
        assert!(plain(".inf").into_value().is_err());
        assert!(plain(".nan").into_value().is_err());
        assert_eq!(
            plain("1e2").into_value(),
            Ok(Value::Number(Number::Int(100)))
        );
    }
}
