//! Reading the text of a flag, as Go and pflag read it.

use serde_json::{Value, json};
use types::duration::GoDuration;
use types::quantity::Quantity;
use types::taint::parse_taints;

use crate::schema::{Flag, FlagKind, RELEASE};

/// What a flag's text says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Parsed {
    One(Value),
    /// Nothing is set, whatever was there before: an empty IP address.
    Nothing,
    Many(Vec<Value>),
    Pairs(Vec<(String, Value)>),
}

/// Reads `text`; the error says what is wrong with it.
pub(crate) fn read(kind: FlagKind, text: &str) -> Result<Parsed, String> {
    let one = |value: Value| Ok(Parsed::One(value));
    match kind {
        FlagKind::Bool => one(json!(boolean(text)?)),
        FlagKind::Int | FlagKind::Int64 => one(json!(integer(text, i64::MIN, i64::MAX)?)),
        FlagKind::Int32 => one(json!(integer(text, i32::MIN.into(), i32::MAX.into())?)),
        FlagKind::Level => one(json!(level(text)?)),
        FlagKind::String => one(json!(text)),
        FlagKind::Duration => one(json!(duration(text)?)),
        FlagKind::Ip => ip(text),
        FlagKind::Quantity => one(json!(quantity(text)?)),
        FlagKind::Version => version(text),
        FlagKind::Strings => Ok(Parsed::Many(
            comma_separated(text)?
                .into_iter()
                .map(Value::from)
                .collect(),
        )),
        FlagKind::MapStringString => pairs(text, '=', "NAME=VALUE", |value| Ok(json!(value))),
        FlagKind::MapLessThan => pairs(text, '<', "SIGNAL<VALUE", |value| Ok(json!(value))),
        FlagKind::MapStringBool => pairs(text, '=', "NAME=true or NAME=false", |value| {
            Ok(json!(boolean(value)?))
        }),
        FlagKind::Headers => pairs(text, ':', "NAME:VALUE", |value| Ok(json!(value))),
        FlagKind::MapOnePair => match text.split_once('=') {
            Some((key, value)) => Ok(Parsed::Pairs(vec![(
                key.trim().to_owned(),
                json!(value.trim()),
            )])),
            None => Err("it must be NAME=VALUE".to_owned()),
        },
        FlagKind::Labels => Ok(labels(text)),
        FlagKind::ReservedMemory => reserved_memory(text),
        FlagKind::Taints => taints(text),
        FlagKind::Vmodule => vmodule(text),
    }
}

pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// Go's integers with their prefixes: `0x1f`, `0o17`, `017`, `0b11`, `1_000`.
fn integer(text: &str, lowest: i64, highest: i64) -> Result<i64, String> {
    let refused = || format!("{text:?} is not a whole number from {lowest} to {highest}");
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, body) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // An underscore stands between digits, or after the prefix.
    let prefixed = radix != 10;
    let fits = !body.ends_with('_')
        && !body.contains("__")
        && (prefixed || !body.starts_with('_'))
        && !body.trim_matches('_').is_empty()
        && body
            .chars()
            .all(|letter| letter == '_' || letter.is_digit(radix));
    if !fits {
        return Err(refused());
    }
    let sign = if negative { "-" } else { "" };
    i64::from_str_radix(&format!("{sign}{}", body.replace('_', "")), radix)
        .ok()
        .filter(|number| (lowest..=highest).contains(number))
        .ok_or_else(refused)
}

fn level(text: &str) -> Result<u32, String> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse::<u32>().ok();
    number
        .filter(|&number| plain && number <= i32::MAX.unsigned_abs())
        .ok_or_else(|| format!("{text:?} is not a whole number from 0 to {}", i32::MAX))
}

fn duration(text: &str) -> Result<String, String> {
    let read: Result<GoDuration, _> = text.parse();
    read.map(|duration| duration.to_string())
        .map_err(|error| error.to_string())
}

fn quantity(text: &str) -> Result<String, String> {
    let read: Result<Quantity, _> = text.parse();
    read.map(|quantity| quantity.to_string())
        .map_err(|error| error.to_string())
}

fn ip(text: &str) -> Result<Parsed, String> {
    if text.is_empty() {
        return Ok(Parsed::Nothing);
    }
    // Zeros in front of a part of an IPv4 address are an old habit.
    let plain: Vec<&str> = text
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            part => part,
        })
        .collect();
    let is_ip = text.parse::<std::net::Ipv6Addr>().is_ok()
        || plain.join(".").parse::<std::net::Ipv4Addr>().is_ok();
    if is_ip {
        Ok(Parsed::One(json!(text)))
    } else {
        Err(format!("{text:?} is not an IP address"))
    }
}

fn version(text: &str) -> Result<Parsed, String> {
    // Another version may be reported, but only one that differs in its suffix.
    let suffix = text.strip_prefix(RELEASE);
    if text == "raw" || suffix.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', '-'])) {
        return Ok(Parsed::One(json!(text)));
    }
    boolean(text)
        .map(|value| Parsed::One(json!(value.to_string())))
        .map_err(|_| format!("{text:?} is not true, false, raw or {RELEASE} with a suffix"))
}

/// One record of CSV: quotes keep commas together, `""` is a quote.
fn comma_separated(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let refused = || format!("the quotes in {text:?} do not match");
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut field = String::new();
            let mut rest_of_field = quoted;
            loop {
                let (part, after) = rest_of_field.split_once('"').ok_or_else(refused)?;
                field.push_str(part);
                if let Some(after) = after.strip_prefix('"') {
                    field.push('"');
                    rest_of_field = after;
                } else {
                    rest_of_field = after;
                    break;
                }
            }
            fields.push(field);
            match rest_of_field.strip_prefix(',') {
                Some(after) => rest = after,
                None if rest_of_field.is_empty() => return Ok(fields),
                None => return Err(refused()),
            }
        } else {
            let (field, after) = match rest.split_once(',') {
                Some((field, after)) => (field, Some(after)),
                None => (rest, None),
            };
            if field.contains('"') {
                return Err(refused());
            }
            fields.push(field.to_owned());
            match after {
                Some(after) => rest = after,
                None => return Ok(fields),
            }
        }
    }
}

fn pairs(
    text: &str,
    sign: char,
    shape: &str,
    value: impl Fn(&str) -> Result<Value, String>,
) -> Result<Parsed, String> {
    let mut read = Vec::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (key, text) = pair
            .split_once(sign)
            .ok_or_else(|| format!("{pair:?} must be {shape}"))?;
        let value = value(text.trim()).map_err(|reason| format!("{}: {reason}", key.trim()))?;
        read.push((key.trim().to_owned(), value));
    }
    Ok(Parsed::Pairs(read))
}

fn labels(text: &str) -> Parsed {
    let labels = text.split(',').filter(|label| !label.is_empty());
    Parsed::Pairs(
        labels
            .map(|label| label.split_once('=').unwrap_or((label, "")))
            .map(|(key, value)| (key.trim().to_owned(), json!(value.trim())))
            .collect(),
    )
}

fn reserved_memory(text: &str) -> Result<Parsed, String> {
    let shape = "NODE:TYPE=QUANTITY[,TYPE=QUANTITY…], and NODEs separated by ';'";
    let mut read = Vec::new();
    for reservation in text.split(';') {
        if text.is_empty() {
            break;
        }
        let refused = || format!("{reservation:?} must be {shape}");
        let (node, limits) = reservation.split_once(':').ok_or_else(refused)?;
        if limits.contains(':') {
            return Err(refused());
        }
        let node: i32 = node
            .parse()
            .map_err(|_| format!("{node:?} is not the number of a NUMA node"))?;
        let mut amounts = serde_json::Map::new();
        for limit in limits.split(',') {
            let (name, amount) = limit.split_once('=').ok_or_else(refused)?;
            if !is_memory_type(name) {
                return Err(format!("{name:?} is neither memory nor hugepages-SIZE"));
            }
            amounts.insert(name.to_owned(), json!(quantity(amount)?));
        }
        read.push(json!({ "numaNode": node, "limits": amounts }));
    }
    Ok(Parsed::Many(read))
}

/// What can be reserved on a NUMA node.
pub(crate) fn is_memory_type(name: &str) -> bool {
    name == "memory" || name.starts_with("hugepages-")
}

fn taints(text: &str) -> Result<Parsed, String> {
    if text.is_empty() {
        return Ok(Parsed::Many(Vec::new()));
    }
    let taints = parse_taints(text).map_err(|error| error.to_string())?;
    let taints = taints.into_iter().map(|taint| {
        let mut item = json!({ "key": taint.key, "effect": taint.effect.to_string() });
        if !taint.value.is_empty() {
            item["value"] = json!(taint.value);
        }
        item
    });
    Ok(Parsed::Many(taints.collect()))
}

fn vmodule(text: &str) -> Result<Parsed, String> {
    let mut read = Vec::new();
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let refused = || format!("{item:?} must be PATTERN=N");
        let (pattern, verbosity) = item.split_once('=').ok_or_else(refused)?;
        if pattern.is_empty() || verbosity.contains('=') {
            return Err(refused());
        }
        let verbosity = level(verbosity)?;
        read.push(json!({ "filePattern": pattern, "verbosity": verbosity }));
    }
    Ok(Parsed::Many(read))
}

/// The value of a flag after these uses, as text.
pub(super) fn shown(flag: &Flag, uses: &[&Parsed]) -> String {
    let Some(last) = uses.last() else {
        return flag.default.to_owned();
    };
    // These hold passwords and tokens.
    if flag.name == "storage-driver-password" || flag.kind == FlagKind::Headers {
        return "<masked>".to_owned();
    }
    let plain = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    match last {
        Parsed::One(value) => plain(value),
        Parsed::Nothing => flag.default.to_owned(),
        Parsed::Many(_) => {
            let items = uses.iter().filter_map(|parsed| match parsed {
                Parsed::Many(items) => Some(items),
                _ => None,
            });
            let items: Vec<String> = items.flatten().map(plain).collect();
            format!("[{}]", items.join(","))
        }
        Parsed::Pairs(_) => {
            let sign = if flag.kind == FlagKind::MapLessThan {
                '<'
            } else {
                '='
            };
            let pairs = uses.iter().filter_map(|parsed| match parsed {
                Parsed::Pairs(pairs) => Some(pairs),
                _ => None,
            });
            let mut pairs: Vec<String> = pairs
                .flatten()
                .map(|(key, value)| format!("{key}{sign}{}", plain(value)))
                .collect();
            pairs.sort();
            pairs.join(",")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(kind: FlagKind, text: &str) -> Option<Value> {
        match read(kind, text) {
            Ok(Parsed::One(value)) => Some(value),
            _ => None,
        }
    }

    #[test]
    fn integers_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("5", Some(5)),
            ("-5", Some(-5)),
            ("+5", Some(5)),
            ("0x1F", Some(31)),
            ("017", Some(15)),
            ("0o17", Some(15)),
            ("0b11", Some(3)),
            ("1_000", Some(1000)),
            ("0x_1", Some(1)),
            ("0", Some(0)),
            ("_1", None),
            ("1_", None),
            ("1__0", None),
            ("08", None),
            ("0x", None),
            ("", None),
            ("-", None),
            ("1.0", None),
            ("2147483648", None),
        ] {
            assert_eq!(
                one(FlagKind::Int32, text),
                expected.map(Value::from),
                "{text:?}"
            );
        }
        assert_eq!(
            one(FlagKind::Int64, "9223372036854775807"),
            Some(json!(i64::MAX))
        );
    }

    #[test]
    fn lists_are_comma_separated_with_quotes() {
        for (text, expected) in [
            ("", Some(vec![])),
            ("a", Some(vec!["a"])),
            ("a,b", Some(vec!["a", "b"])),
            ("a,", Some(vec!["a", ""])),
            ("\"a,b\",c", Some(vec!["a,b", "c"])),
            ("\"a\"\"b\"", Some(vec!["a\"b"])),
            ("\"a", None),
            ("a\"b", None),
            ("\"a\"b", None),
        ] {
            let read = comma_separated(text).ok();
            let expected = expected.map(|fields| fields.into_iter().map(str::to_owned).collect());
            assert_eq!(read, expected, "{text:?}");
        }
    }

    #[test]
    fn maps_taints_memory_and_modules_are_read() {
        let read_pairs = |kind, text| match read(kind, text) {
            Ok(Parsed::Pairs(pairs)) => Some(pairs),
            _ => None,
        };
        let pair = |key: &str, value: Value| (key.to_owned(), value);
        assert_eq!(
            read_pairs(FlagKind::MapLessThan, " memory.available < 5% ,,x<1"),
            Some(vec![
                pair("memory.available", json!("5%")),
                pair("x", json!("1"))
            ])
        );
        assert_eq!(read_pairs(FlagKind::MapStringString, "a"), None);
        assert_eq!(
            read_pairs(FlagKind::MapOnePair, "a=b,c=d"),
            Some(vec![pair("a", json!("b,c=d"))])
        );
        assert_eq!(
            read_pairs(FlagKind::Labels, "a,b=c"),
            Some(vec![pair("a", json!("")), pair("b", json!("c"))])
        );
        let many = |kind, text| match read(kind, text) {
            Ok(Parsed::Many(items)) => Some(json!(items)),
            _ => None,
        };
        assert_eq!(
            many(
                FlagKind::ReservedMemory,
                "0:memory=1Gi,hugepages-2Mi=4Mi;1:memory=1"
            ),
            Some(json!([
                { "numaNode": 0, "limits": { "memory": "1Gi", "hugepages-2Mi": "4Mi" } },
                { "numaNode": 1, "limits": { "memory": "1" } },
            ]))
        );
        assert_eq!(many(FlagKind::ReservedMemory, "x"), None);
        assert_eq!(
            many(FlagKind::Taints, "a=b:NoSchedule"),
            Some(json!([{ "key": "a", "value": "b", "effect": "NoSchedule" }]))
        );
        assert_eq!(
            many(FlagKind::Vmodule, "a=1,b*=2"),
            Some(json!([
                { "filePattern": "a", "verbosity": 1 },
                { "filePattern": "b*", "verbosity": 2 },
            ]))
        );
        assert_eq!(many(FlagKind::Vmodule, "a"), None);
    }

    #[test]
    fn addresses_are_read_with_old_habits() {
        for good in ["0.0.0.0", "010.0.0.1", "::", "fd00::1"] {
            assert_eq!(one(FlagKind::Ip, good), Some(json!(good)), "{good}");
        }
        for bad in ["nope", "1.2.3", "1.2.3.4.5", "256.0.0.1", "1..2.3"] {
            assert!(read(FlagKind::Ip, bad).is_err(), "{bad}");
        }
        assert_eq!(read(FlagKind::Ip, ""), Ok(Parsed::Nothing));
    }
}
