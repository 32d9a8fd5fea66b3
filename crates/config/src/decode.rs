//! From a document to settings: every field by its row, every fault as a
//! finding with its place. Reads a value exactly where the kubelet's JSON
//! decoder does, and refuses it where that does.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use types::duration::GoDuration;
use types::quantity::Quantity;

use crate::finding::{Class, Finding, Spot, did_you_mean};
use crate::schema::{self, Field, Kind, Presence};
use crate::settings::{MOST_PARTS, Origin, Parts, Settings, last_name, shown, zero};
use crate::source::{Entry, Map as SourceMap, Node, Number, Place, Value};

/// How keys are matched with fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// To the letter, as in the `--config` file.
    Exact,
    /// Whatever the case, as in drop-ins; of several the last in the order of
    /// their bytes counts.
    Folded,
}

/// More findings than this help nobody; the rest is counted.
const MOST_FINDINGS: usize = 1000;
/// Looking for the name that was meant takes time: it is done for as many as a
/// person will read.
const MOST_GUESSES: usize = 50;

/// What a document says.
#[derive(Debug, Default)]
pub struct Decoded {
    pub settings: Settings,
    pub findings: Vec<Finding>,
}

/// Findings as they are made.
#[derive(Debug, Default)]
struct Faults {
    kept: Vec<Finding>,
    /// How many more there were.
    more: usize,
    /// Whether one was of a kind that no kubelet forgives.
    fatal: bool,
}

impl Faults {
    fn push(&mut self, finding: Finding) {
        self.fatal |= finding.class != Class::Unknown;
        if self.is_full() {
            self.more += 1;
        } else {
            self.kept.push(finding);
        }
    }

    fn is_full(&self) -> bool {
        self.kept.len() >= MOST_FINDINGS
    }

    fn guess(&self) -> bool {
        self.kept.len() < MOST_GUESSES
    }

    fn finish(mut self) -> Vec<Finding> {
        if self.more > 0 {
            let class = if self.fatal {
                Class::Type
            } else {
                Class::Unknown
            };
            let message = format!("there are {} more problems", self.more);
            self.kept.push(Finding::new(class, "", message));
        }
        self.kept
    }
}

/// Where the document comes from, and so who gives its values.
#[derive(Clone, Debug)]
pub struct Reader {
    pub file: Arc<str>,
    pub case: Case,
    pub origin: fn(Spot) -> Origin,
    /// Whether a list or map is read although a part of it is of another type:
    /// then the rest of it can be judged too.
    pub keep_rest: bool,
}

impl Reader {
    pub fn decode(&self, root: &Node) -> Decoded {
        let mut reading = Reading {
            reader: self,
            settings: Settings::default(),
            faults: Faults::default(),
            parts: Parts::new(),
        };
        match &root.value {
            Value::Map(map) => reading.object("", map),
            other => reading.fault(
                Class::Header,
                root.place,
                "",
                format!(
                    "found {}, and a configuration is a map of fields",
                    other.kind()
                ),
            ),
        }
        Decoded {
            settings: reading.settings,
            findings: reading.faults.finish(),
        }
    }

    fn spot(&self, place: Place) -> Spot {
        Spot {
            file: Arc::clone(&self.file),
            place,
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

    /// The fields below a row, by their keys: a file may have a great many.
    fn children(&self, row: &str) -> Children {
        let by_key = schema::children(row)
            .map(|field| (self.folded(last_name(field.path)).into_owned(), field))
            .collect();
        Children { by_key }
    }

    fn child(&self, children: &Children, key: &str) -> Option<&'static Field> {
        children.by_key.get(self.folded(key).as_ref()).copied()
    }

    fn folded<'key>(&self, key: &'key str) -> Cow<'key, str> {
        match self.case {
            Case::Exact => Cow::Borrowed(key),
            Case::Folded => Cow::Owned(key.to_ascii_lowercase()),
        }
    }
}

struct Children {
    by_key: HashMap<String, &'static Field>,
}

/// A document while it is read.
struct Reading<'a> {
    reader: &'a Reader,
    settings: Settings,
    faults: Faults,
    /// Of the field that is read.
    parts: Parts,
}

/// Where a value is, from the field inwards; made into text only for a fault.
#[derive(Clone, Copy)]
enum At<'a> {
    Field(&'a str),
    Item(&'a At<'a>, usize),
    Entry(&'a At<'a>, &'a str),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(path) => formatter.write_str(path),
            Self::Item(list, index) => write!(formatter, "{list}[{index}]"),
            Self::Entry(map, key) => write!(formatter, "{map}.{key}"),
        }
    }
}

impl Reading<'_> {
    fn object(&mut self, path: &str, map: &SourceMap) {
        let children = self.reader.children(path);
        for (key, entry) in self.reader.in_order(map) {
            match self.reader.child(&children, key) {
                Some(field) => self.field(field, entry),
                None => self.unknown(&At::Field(path), path, key, entry),
            }
        }
    }

    fn field(&mut self, field: &'static Field, entry: &Entry) {
        let node = &entry.node;
        let at = At::Field(field.path);
        let origin = (self.reader.origin)(self.reader.spot(entry.key_place));
        if field.kind == Kind::Object {
            match &node.value {
                Value::Null => {}
                Value::Map(map) => {
                    if field.presence == Presence::Optional {
                        let there = Json::Object(Map::new());
                        self.settings.set(field, there, origin);
                    }
                    self.object(field.path, map);
                }
                _ => self.wrong(&at, field.kind, node),
            }
            return;
        }
        if node.value == Value::Null && !refuses_null(field) {
            // As if it were not there.
            return;
        }
        self.parts.clear();
        if let Some(value) = self.value(&at, field, node) {
            let parts = std::mem::take(&mut self.parts);
            self.settings.set_parts(field, value, origin, parts);
        }
    }

    /// Remembers who gave a part of the field.
    fn part(&mut self, at: &At<'_>, place: Place) {
        if self.parts.len() < MOST_PARTS && place.is_known() {
            let origin = (self.reader.origin)(self.reader.spot(place));
            self.parts.insert(at.to_string(), origin);
        }
    }

    /// Adds to a list that is given up at the first item that is not there,
    /// unless the rest shall be kept.
    fn add<Item>(&self, list: &mut Option<Vec<Item>>, item: Option<Item>) {
        match (list.as_mut(), item) {
            (Some(items), Some(item)) => items.push(item),
            (_, None) if !self.reader.keep_rest => *list = None,
            _ => {}
        }
    }

    /// Reads one value; nothing if it, or a part of it, is of another type.
    fn value(&mut self, at: &At<'_>, field: &Field, node: &Node) -> Option<Json> {
        match (&node.value, field.kind) {
            (Value::List(list), Kind::Objects) => {
                let row = format!("{}[]", field.path);
                let children = self.reader.children(&row);
                let mut items = Some(Vec::with_capacity(list.len()));
                for (index, item) in list.iter().enumerate() {
                    let at = At::Item(at, index);
                    self.part(&at, item.place);
                    let item = self.item(&at, &row, &children, item);
                    self.add(&mut items, item);
                }
                items.map(Json::Array)
            }
            (Value::List(list), Kind::Strings) => self.items(at, Kind::String, list),
            (Value::List(list), Kind::Int32s) => self.items(at, Kind::Int32, list),
            (Value::Map(map), Kind::StringMap) => self.entries(at, Kind::String, map),
            (Value::Map(map), Kind::BoolMap) => self.entries(at, Kind::Bool, map),
            (Value::Map(map), Kind::QuantityMap) => self.entries(at, Kind::Quantity, map),
            (Value::Map(map), Kind::StringsMap) => self.entries(at, Kind::Strings, map),
            _ => self.scalar(at, field.kind, node),
        }
    }

    fn items(&mut self, at: &At<'_>, kind: Kind, list: &[Node]) -> Option<Json> {
        let mut items = Some(Vec::with_capacity(list.len()));
        for (index, item) in list.iter().enumerate() {
            let at = At::Item(at, index);
            self.part(&at, item.place);
            let item = self.scalar(&at, kind, item);
            self.add(&mut items, item);
        }
        items.map(Json::Array)
    }

    fn entries(&mut self, at: &At<'_>, kind: Kind, map: &SourceMap) -> Option<Json> {
        let mut read = Some(Vec::with_capacity(map.len()));
        for (key, entry) in map.iter() {
            let at = At::Entry(at, key);
            self.part(&at, entry.key_place);
            let value = match (&entry.node.value, kind) {
                (Value::List(list), Kind::Strings) => self.items(&at, Kind::String, list),
                _ => self.scalar(&at, kind, &entry.node),
            };
            self.add(&mut read, value.map(|value| (key.to_owned(), value)));
        }
        read.map(|entries| Json::Object(entries.into_iter().collect()))
    }

    /// An item of a list of objects, as it would be printed.
    fn item(&mut self, at: &At<'_>, row: &str, children: &Children, node: &Node) -> Option<Json> {
        let empty = SourceMap::new();
        let map = match &node.value {
            Value::Map(map) => map,
            Value::Null => &empty,
            _ => {
                self.wrong(at, Kind::Object, node);
                return None;
            }
        };
        let mut item = Map::new();
        let mut whole = true;
        for (key, entry) in self.reader.in_order(map) {
            let Some(field) = self.reader.child(children, key) else {
                self.unknown(at, row, key, entry);
                continue;
            };
            if entry.node.value == Value::Null && !refuses_null(field) {
                continue;
            }
            let name = last_name(field.path);
            let at = At::Entry(at, name);
            self.part(&at, entry.key_place);
            match self.value(&at, field, &entry.node) {
                Some(value) => {
                    item.insert(name.to_owned(), value);
                }
                None => whole = false,
            }
        }
        for field in children.by_key.values() {
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
        (whole || self.reader.keep_rest).then_some(Json::Object(item))
    }

    fn scalar(&mut self, at: &At<'_>, kind: Kind, node: &Node) -> Option<Json> {
        // Merged JSON was written anew: 1.0 has become 1.
        let rendered = match (&node.value, self.reader.case) {
            (Value::Number(number), Case::Folded) => &Value::Number(number.rendered()),
            (value, _) => value,
        };
        match read_scalar(kind, rendered) {
            Ok(value) => Some(value),
            Err(Some(reason)) => {
                self.fault(Class::Type, node.place, &at.to_string(), reason);
                None
            }
            Err(None) => {
                self.wrong(at, kind, node);
                None
            }
        }
    }

    fn fault(&mut self, class: Class, place: Place, path: &str, message: String) {
        let spot = self.reader.spot(place);
        self.faults
            .push(Finding::new(class, path, message).at(Some(spot)));
    }

    fn wrong(&mut self, at: &At<'_>, kind: Kind, node: &Node) {
        let spot = self.reader.spot(node.place);
        let finding = wrong_type(&at.to_string(), kind, &node.value);
        self.faults.push(finding.at(Some(spot)));
    }

    fn unknown(&mut self, at: &At<'_>, row: &str, key: &str, entry: &Entry) {
        if self.faults.is_full() {
            self.faults.more += 1;
            return;
        }
        let advice = self.faults.guess().then(|| meant(row, key)).flatten();
        let path = match at {
            At::Field("") => key.to_owned(),
            at => format!("{at}.{key}"),
        };
        let finding = Finding::new(Class::Unknown, path, "there is no such field")
            .at(Some(self.reader.spot(entry.key_place)))
            .advise(advice);
        self.faults.push(finding);
    }
}

/// What a misspelt field was perhaps meant to be.
fn meant(row: &str, key: &str) -> Option<String> {
    let names = schema::children(row).map(|field| last_name(field.path));
    let elsewhere = || {
        let field = schema::FIELDS
            .iter()
            .find(|field| last_name(field.path) == key && !field.path.contains("[]"))?;
        Some(format!("there is a field {}", field.path))
    };
    did_you_mean(schema::nearest(key, names)).or_else(elsewhere)
}

/// A duration that is not a pointer upstream reads null as the empty text,
/// which is no duration.
fn refuses_null(field: &Field) -> bool {
    field.kind == Kind::Duration && field.presence == Presence::Plain
}

/// The error says what is wrong with the text, or nothing if the value is of
/// another type altogether.
fn read_scalar(kind: Kind, value: &Value) -> Result<Json, Option<String>> {
    let whole = |lowest: i64, highest: i64| match value {
        Value::Number(number) => number
            .as_i64()
            .filter(|int| (lowest..=highest).contains(int))
            .map(Json::from)
            .ok_or(None),
        _ => Err(None),
    };
    match (kind, value) {
        (Kind::Duration, Value::Null) => Err(None),
        // An item that is null has the zero value of its kind.
        (_, Value::Null) => Ok(zero(kind)),
        (Kind::Bool, Value::Bool(flag)) => Ok(Json::Bool(*flag)),
        (Kind::Int32, _) => whole(i32::MIN.into(), i32::MAX.into()),
        (Kind::Int64, _) => whole(i64::MIN, i64::MAX),
        (Kind::Uint32, _) => whole(0, u32::MAX.into()),
        (Kind::Float64, Value::Number(number)) => Ok(float(*number)),
        (Kind::String | Kind::Time, Value::String(text)) => Ok(Json::from(text.as_str())),
        (Kind::Duration | Kind::DurationOrNanos, Value::String(text)) => duration(text),
        // It is shown as it was written.
        (Kind::DurationOrNanos, Value::Number(number)) => {
            number.as_i64().map(Json::from).ok_or(None)
        }
        (Kind::Quantity, Value::String(text)) => quantity(text),
        (Kind::Quantity, Value::Number(number)) => quantity(&number.to_string()),
        _ => Err(None),
    }
}

/// A whole number has no fraction when it is printed.
fn float(number: Number) -> Json {
    match number.rendered() {
        Number::Int(whole) => Json::from(whole),
        Number::Uint(whole) => Json::from(whole),
        Number::Float(fraction) => Json::from(fraction),
    }
}

fn duration(text: &str) -> Result<Json, Option<String>> {
    text.parse::<GoDuration>()
        .map(|duration| Json::from(duration.to_string()))
        .map_err(|error| Some(error.to_string()))
}

fn quantity(text: &str) -> Result<Json, Option<String>> {
    text.trim()
        .parse::<Quantity>()
        .map(|quantity| Json::from(quantity.to_string()))
        .map_err(|error| Some(error.to_string()))
}

fn wrong_type(at: &str, kind: Kind, found: &Value) -> Finding {
    let shown = match found {
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let text: String = found.to_string().chars().take(100).collect();
            format!("{} {text}", found.kind())
        }
        _ => found.kind().to_owned(),
    };
    let advice = match (kind, found) {
        (Kind::String, Value::Bool(_)) => Some(
            "write it in quotes: YAML takes yes, no, on, off, y and n for true or false".to_owned(),
        ),
        (Kind::String, Value::Number(_)) => Some(format!("write it in quotes: \"{found}\"")),
        (Kind::Duration, Value::Number(_)) => {
            Some(format!("write it with its unit, e.g. {found}s"))
        }
        (Kind::Bool, Value::String(text)) if ["true", "false"].contains(&text.as_str()) => {
            Some("write it without quotes".to_owned())
        }
        (Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Float64, Value::String(text))
            if text.parse::<f64>().is_ok() =>
        {
            Some("write it without quotes".to_owned())
        }
        (Kind::Strings, Value::String(text)) => Some(format!("write a list: [{text}]")),
        (Kind::StringMap, Value::String(_)) => Some("write a map: {name: \"value\"}".to_owned()),
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
