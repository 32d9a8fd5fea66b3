//! Values that are not made of others: numbers, texts, quantities, times.

use jiff::Timestamp;
use serde_json::Value;
use types::Quantity;

use super::Shape;

/// Upstream's words about a text that is no quantity.
pub(crate) const QUANTITY_RULE: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Why a value cannot be read.
pub(super) enum Wrong {
    /// What it is, as Go calls it.
    Type(String),
    /// The whole message.
    Text(String),
}

/// The canonical form of a value; null is the zero of its shape.
pub(super) fn leaf(shape: &Shape, given: Value) -> Result<Value, Wrong> {
    match (shape, given) {
        (Shape::Text | Shape::Bytes, Value::Null) => Ok(Value::from("")),
        (Shape::Bool, Value::Null) => Ok(Value::from(false)),
        (Shape::Int32 | Shape::Int64 | Shape::IntOrString, Value::Null) => Ok(Value::from(0)),
        (Shape::Quantity, Value::Null) => Ok(Value::from("0")),
        (Shape::Time | Shape::MicroTime, Value::Null) => Ok(Value::Null),
        (Shape::Text | Shape::IntOrString, text @ Value::String(_))
        | (Shape::Bool, text @ Value::Bool(_)) => Ok(text),
        (Shape::Bytes, Value::String(text)) => bytes(text),
        (Shape::Quantity, Value::String(text)) => quantity(&text),
        (Shape::Quantity, Value::Number(number)) => quantity(&number.to_string()),
        (Shape::Time, Value::String(text)) => time(&text, false),
        (Shape::MicroTime, Value::String(text)) => time(&text, true),
        (Shape::Int32 | Shape::IntOrString, Value::Number(number)) => match number.as_i64() {
            Some(value) if i32::try_from(value).is_ok() => Ok(Value::from(value)),
            _ => Err(Wrong::Type(format!("number {number}"))),
        },
        (Shape::Int64, Value::Number(number)) => match number.as_i64() {
            Some(value) => Ok(Value::from(value)),
            None => Err(Wrong::Type(format!("number {number}"))),
        },
        (_, other) => Err(Wrong::Type(word(&other).to_owned())),
    }
}

fn bytes(text: String) -> Result<Value, Wrong> {
    use base64::Engine as _;
    match base64::engine::general_purpose::STANDARD.decode(text.as_bytes()) {
        Ok(_) => Ok(Value::from(text)),
        Err(
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _),
        ) => Err(Wrong::Text(format!(
            "illegal base64 data at input byte {at}"
        ))),
        Err(_) => Err(Wrong::Text(format!(
            "illegal base64 data at input byte {}",
            text.len() / 4 * 4
        ))),
    }
}

fn quantity(text: &str) -> Result<Value, Wrong> {
    match text.trim().parse::<Quantity>() {
        Ok(quantity) => Ok(Value::from(quantity.to_string())),
        Err(_) => Err(Wrong::Text(QUANTITY_RULE.to_owned())),
    }
}

fn time(text: &str, micro: bool) -> Result<Value, Wrong> {
    let Ok(time) = text.parse::<Timestamp>() else {
        let layout = if micro {
            "2006-01-02T15:04:05.000000Z07:00"
        } else {
            "2006-01-02T15:04:05Z07:00"
        };
        return Err(Wrong::Text(format!(
            "parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""
        )));
    };
    let pattern = if micro {
        "%Y-%m-%dT%H:%M:%S%.6fZ"
    } else {
        "%Y-%m-%dT%H:%M:%SZ"
    };
    Ok(Value::from(time.strftime(pattern).to_string()))
}

/// What Go calls a JSON value.
pub(crate) fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// What Go calls a type.
pub(super) fn go_type(shape: &Shape) -> String {
    match shape {
        Shape::Text => "string".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Int32 => "int32".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::Time => "v1.Time".to_owned(),
        Shape::MicroTime => "v1.MicroTime".to_owned(),
        Shape::IntOrString => "intstr.IntOrString".to_owned(),
        Shape::Raw => "v1.FieldsV1".to_owned(),
        Shape::List(inner) => format!("[]{}", go_type(inner)),
        Shape::Map(inner) => format!("map[string]{}", go_type(inner)),
        Shape::Pointer(inner) => go_type(inner),
        Shape::Named("types.UID", _) => "types.UID".to_owned(),
        Shape::Struct(name) | Shape::Named(name, _) => {
            let short = name.split_once('.').map_or(*name, |(_, name)| name);
            format!("v1.{short}")
        }
    }
}
