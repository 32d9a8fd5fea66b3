//! From a document to settings: every field by its row, every fault as a
//! finding with its place. Reads a value exactly where the kubelet's JSON
//! decoder does, and refuses it where that does.

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use types::duration::GoDuration;
use types::quantity::Quantity;

use crate::finding::{Class, Finding, Spot, did_you_mean};
use crate::schema::{self, Field, Kind, Presence};
use crate::settings::{Origin, Settings, last_name, shown, zero};
use crate::source::{Entry, Map as SourceMap, Node, Place, Value};

/// How keys are matched with fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// To the letter, as in the `--config` file.
    Exact,
    /// Whatever the case, as in drop-ins; of several the last in the order of
    /// their bytes counts.
    Folded,
}

/// What a document says.
#[derive(Debug, Default)]
pub struct Decoded {
    pub settings: Settings,
    pub findings: Vec<Finding>,
}

/// Where the document comes from, and so who gives its values.
#[derive(Clone, Debug)]
pub struct Reader {
    pub file: Arc<str>,
    pub case: Case,
    pub origin: fn(Spot) -> Origin,
}

impl Reader {
    pub fn decode(&self, root: &Node) -> Decoded {
        let mut decoded = Decoded::default();
        match &root.value {
            Value::Map(map) => self.object("", map, &mut decoded),
            other => decoded.findings.push(
                Finding::new(
                    Class::Header,
                    "",
                    format!(
                        "found {}, and a configuration is a map of fields",
                        other.kind()
                    ),
                )
                .at(Some(self.spot(root.place))),
            ),
        }
        decoded
    }

    fn object(&self, path: &str, map: &SourceMap, decoded: &mut Decoded) {
        for (key, entry) in self.in_order(map) {
            match self.child(path, key) {
                Some(field) => self.field(field, entry, decoded),
                None => decoded.findings.push(self.unknown(path, path, key, entry)),
            }
        }
    }

    /// A later entry wins: with folded case that is by the order of bytes, in
    /// which the merged JSON of drop-ins is written.
    fn in_order<'map>(&self, map: &'map SourceMap) -> Vec<(&'map str, &'map Entry)> {
        let mut entries: Vec<_> = map.iter().collect();
        if self.case == Case::Folded {
            entries.sort_by_key(|(key, _)| *key);
        }
        entries
    }

    fn field(&self, field: &'static Field, entry: &Entry, decoded: &mut Decoded) {
        let node = &entry.node;
        let origin = (self.origin)(self.spot(entry.key_place));
        if field.kind == Kind::Object {
            match &node.value {
                Value::Null => {}
                Value::Map(map) => {
                    if field.presence == Presence::Optional {
                        let there = Json::Object(Map::new());
                        decoded.settings.set(field, there, origin);
                    }
                    self.object(field.path, map, decoded);
                }
                other => decoded.findings.push(
                    wrong_type(field.path, field.kind, other).at(Some(self.spot(node.place))),
                ),
            }
            return;
        }
        if node.value == Value::Null && !refuses_null(field) {
            // As if it were not there.
            return;
        }
        let mut faults = Vec::new();
        let value = self.value(field.path, field, node, &mut faults);
        let failed = faults.iter().any(|fault| fault.class == Class::Type);
        decoded.findings.extend(faults);
        if !failed {
            decoded.settings.set(field, value, origin);
        }
    }

    /// Reads one value; `at` is its path with indexes.
    fn value(&self, at: &str, field: &Field, node: &Node, faults: &mut Vec<Finding>) -> Json {
        match (&node.value, field.kind) {
            (Value::List(list), Kind::Objects) => {
                let items = list.iter().enumerate().map(|(index, item)| {
                    self.item(&format!("{at}[{index}]"), field.path, item, faults)
                });
                Json::Array(items.collect())
            }
            (Value::List(list), Kind::Strings | Kind::Int32s) => {
                let kind = if field.kind == Kind::Strings {
                    Kind::String
                } else {
                    Kind::Int32
                };
                let items = list.iter().enumerate();
                let items = items.map(|(index, item)| {
                    self.scalar(&format!("{at}[{index}]"), kind, item, faults)
                });
                Json::Array(items.collect())
            }
            (Value::Map(map), Kind::StringMap) => self.entries(at, Kind::String, map, faults),
            (Value::Map(map), Kind::BoolMap) => self.entries(at, Kind::Bool, map, faults),
            (Value::Map(map), Kind::QuantityMap) => self.entries(at, Kind::Quantity, map, faults),
            (Value::Map(map), Kind::StringsMap) => self.entries(at, Kind::Strings, map, faults),
            _ => self.scalar(at, field.kind, node, faults),
        }
    }

    fn entries(&self, at: &str, kind: Kind, map: &SourceMap, faults: &mut Vec<Finding>) -> Json {
        let mut read = Map::new();
        for (key, entry) in map.iter() {
            let at = format!("{at}.{key}");
            let value = match (&entry.node.value, kind) {
                (Value::List(list), Kind::Strings) => {
                    let items = list.iter().enumerate().map(|(index, item)| {
                        self.scalar(&format!("{at}[{index}]"), Kind::String, item, faults)
                    });
                    Json::Array(items.collect())
                }
                _ => self.scalar(&at, kind, &entry.node, faults),
            };
            read.insert(key.to_owned(), value);
        }
        Json::Object(read)
    }

    /// An item of a list of objects, as it would be printed.
    fn item(&self, at: &str, list: &str, node: &Node, faults: &mut Vec<Finding>) -> Json {
        let empty = SourceMap::new();
        let map = match &node.value {
            Value::Map(map) => map,
            Value::Null => &empty,
            other => {
                faults.push(wrong_type(at, Kind::Object, other).at(Some(self.spot(node.place))));
                return Json::Null;
            }
        };
        let row = format!("{list}[]");
        let mut item = Map::new();
        for (key, entry) in self.in_order(map) {
            let Some(field) = self.child(&row, key) else {
                faults.push(self.unknown(at, &row, key, entry));
                continue;
            };
            if entry.node.value == Value::Null && !refuses_null(field) {
                continue;
            }
            let name = last_name(field.path);
            let value = self.value(&format!("{at}.{name}"), field, &entry.node, faults);
            item.insert(name.to_owned(), value);
        }
        for field in schema::children(&row) {
            let name = last_name(field.path);
            match item.get(name) {
                Some(value) if !shown(field, value) => {
                    item.remove(name);
                }
                None if field.presence == Presence::Printed => {
                    item.insert(name.to_owned(), zero(field.kind));
                }
                _ => {}
            }
        }
        Json::Object(item)
    }

    fn scalar(&self, at: &str, kind: Kind, node: &Node, faults: &mut Vec<Finding>) -> Json {
        // Merged JSON was written anew: 1.0 has become 1.
        let rendered = match (&node.value, self.case) {
            (Value::Number(number), Case::Folded) => &Value::Number(number.rendered()),
            (value, _) => value,
        };
        read_scalar(at, kind, rendered).unwrap_or_else(|fault| {
            faults.push(fault.at(Some(self.spot(node.place))));
            Json::Null
        })
    }

    fn child(&self, path: &str, key: &str) -> Option<&'static Field> {
        schema::children(path).find(|field| {
            let name = last_name(field.path);
            match self.case {
                Case::Exact => name == key,
                Case::Folded => name.eq_ignore_ascii_case(key),
            }
        })
    }

    fn unknown(&self, at: &str, row: &str, key: &str, entry: &Entry) -> Finding {
        let names = schema::children(row).map(|field| last_name(field.path));
        let nearest = schema::nearest(key, names);
        let elsewhere = || {
            let field = schema::FIELDS
                .iter()
                .find(|field| last_name(field.path) == key && !field.path.contains("[]"))?;
            Some(format!("there is a field {}", field.path))
        };
        let path = if at.is_empty() {
            key.to_owned()
        } else {
            format!("{at}.{key}")
        };
        Finding::new(Class::Unknown, path, "there is no such field")
            .at(Some(self.spot(entry.key_place)))
            .advise(did_you_mean(nearest).or_else(elsewhere))
    }

    fn spot(&self, place: Place) -> Spot {
        Spot {
            file: Arc::clone(&self.file),
            place,
        }
    }
}

/// A duration that is not a pointer upstream reads null as the empty text,
/// which is no duration.
fn refuses_null(field: &Field) -> bool {
    field.kind == Kind::Duration && field.presence == Presence::Plain
}

fn read_scalar(at: &str, kind: Kind, value: &Value) -> Result<Json, Finding> {
    let refused = || wrong_type(at, kind, value);
    let whole = |lowest: i64, highest: i64| match value {
        Value::Number(number) => number
            .as_i64()
            .filter(|int| (lowest..=highest).contains(int))
            .map(Json::from)
            .ok_or_else(refused),
        _ => Err(refused()),
    };
    if *value == Value::Null {
        return match kind {
            Kind::Duration => Err(refused()),
            // An item that is null has the zero value of its kind.
            _ => Ok(zero(kind)),
        };
    }
    match kind {
        Kind::Bool => match value {
            Value::Bool(flag) => Ok(Json::Bool(*flag)),
            _ => Err(refused()),
        },
        Kind::Int32 => whole(i32::MIN.into(), i32::MAX.into()),
        Kind::Int64 => whole(i64::MIN, i64::MAX),
        Kind::Uint32 => whole(0, u32::MAX.into()),
        Kind::Float64 => match value {
            Value::Number(number) => Ok(Json::from(number.as_f64())),
            _ => Err(refused()),
        },
        Kind::String | Kind::Time => match value {
            Value::String(text) => Ok(Json::from(text.as_str())),
            _ => Err(refused()),
        },
        Kind::Duration => match value {
            Value::String(text) => duration(at, text),
            _ => Err(refused()),
        },
        Kind::DurationOrNanos => match value {
            Value::String(text) => duration(at, text),
            Value::Number(number) => number
                .as_i64()
                .map(|nanos| Json::from(GoDuration::from_nanos(nanos).to_string()))
                .ok_or_else(refused),
            _ => Err(refused()),
        },
        Kind::Quantity => match value {
            Value::String(text) => quantity(at, text),
            Value::Number(number) => quantity(at, &number.to_string()),
            _ => Err(refused()),
        },
        Kind::Strings
        | Kind::Int32s
        | Kind::StringMap
        | Kind::BoolMap
        | Kind::StringsMap
        | Kind::QuantityMap
        | Kind::Object
        | Kind::Objects => Err(refused()),
    }
}

fn duration(at: &str, text: &str) -> Result<Json, Finding> {
    text.parse::<GoDuration>()
        .map(|duration| Json::from(duration.to_string()))
        .map_err(|error| Finding::new(Class::Type, at, error.to_string()))
}

fn quantity(at: &str, text: &str) -> Result<Json, Finding> {
    text.trim()
        .parse::<Quantity>()
        .map(|quantity| Json::from(quantity.to_string()))
        .map_err(|error| Finding::new(Class::Type, at, error.to_string()))
}

fn wrong_type(at: &str, kind: Kind, found: &Value) -> Finding {
    let shown = match found {
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            format!("{} {found}", found.kind())
        }
        _ => found.kind().to_owned(),
    };
    let advice = match (kind, found) {
        (Kind::String, Value::Number(_) | Value::Bool(_)) => {
            Some(format!("write it in quotes: \"{found}\""))
        }
        (Kind::Duration, Value::Number(_)) => {
            Some(format!("write it with its unit, e.g. {found}s"))
        }
        (
            Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Float64,
            Value::String(_),
        ) => Some("write it without quotes".to_owned()),
        _ => None,
    };
    Finding::new(
        Class::Type,
        at,
        format!("found {shown}, and it must be {}", kind_name(kind)),
    )
    .advise(advice)
}

/// What a value of the kind is called in messages and by `explain`.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "true or false",
        Kind::Int32 => "a whole number of 32 bits",
        Kind::Int64 => "a whole number of 64 bits",
        Kind::Uint32 => "a whole number from 0 to 4294967295",
        Kind::Float64 => "a number",
        Kind::String => "a string",
        Kind::Duration => "a duration such as 1m30s",
        Kind::DurationOrNanos => "a duration such as 5s, or nanoseconds",
        Kind::Quantity => "a quantity such as 100Mi",
        Kind::Time => "a time (RFC 3339)",
        Kind::Strings => "a list of strings",
        Kind::Int32s => "a list of whole numbers",
        Kind::StringMap => "a map of strings",
        Kind::BoolMap => "a map of true or false",
        Kind::StringsMap => "a map of lists of strings",
        Kind::QuantityMap => "a map of quantities",
        Kind::Object => "a map of fields",
        Kind::Objects => "a list of maps",
    }
}
