//! The settings as they stand at some point of the resolution: for each field
//! its value and where that came from. Objects are not kept: a field is known
//! by its dotted path.

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use types::duration::GoDuration;

use crate::finding::Spot;
use crate::schema::{self, FIELDS, Field, Kind, Presence};

/// Who gave a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// Built in for a kubelet without a configuration file, and other than the
    /// default of one with a file.
    FlagsOnlyDefault,
    /// The `--config` file.
    File(Spot),
    /// A file in the `--config-dir` directory.
    DropIn(Spot),
    /// A flag, as it was written.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("built-in default"),
            Self::FlagsOnlyDefault => {
                formatter.write_str("built-in default of a kubelet without --config")
            }
            Self::File(spot) => write!(formatter, "{spot}"),
            Self::DropIn(spot) => write!(formatter, "{spot} (drop-in)"),
            Self::Flag(text) => write!(formatter, "flag {text}"),
        }
    }
}

/// Who gave the parts of a map or a list, by their whole path: several files
/// may each give some.
pub type Parts = BTreeMap<String, Origin>;

/// More parts than this are not kept apart.
pub(crate) const MOST_PARTS: usize = 1000;

#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub value: Value,
    /// Who gave it; of a map or list, who touched it last.
    pub origin: Origin,
    pub parts: Parts,
    /// What it was before, oldest first.
    pub before: Vec<(Value, Origin)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    by_path: BTreeMap<&'static str, Setting>,
}

impl Settings {
    pub fn get(&self, path: &str) -> Option<&Setting> {
        self.by_path.get(path)
    }

    pub fn value(&self, path: &str) -> Option<&Value> {
        self.get(path).map(|setting| &setting.value)
    }

    /// Every field that has a value, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Setting)> {
        self.by_path.iter().map(|(path, setting)| (*path, setting))
    }

    /// Gives a field a value; the old one is remembered.
    pub fn set(&mut self, field: &'static Field, value: Value, origin: Origin) {
        self.set_parts(field, value, origin, Parts::new());
    }

    pub(crate) fn set_parts(
        &mut self,
        field: &'static Field,
        value: Value,
        origin: Origin,
        parts: Parts,
    ) {
        let mut before = Vec::new();
        if let Some(old) = self.by_path.remove(field.path) {
            before = old.before;
            before.push((old.value, old.origin));
        }
        let setting = Setting {
            value,
            origin,
            parts,
            before,
        };
        self.by_path.insert(field.path, setting);
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.by_path.remove(path);
    }

    /// Who gave what stands at a path, which may lead into a map or list: the
    /// nearest that is known.
    pub fn origin_of(&self, path: &str) -> Option<&Origin> {
        let mut whole = path;
        let setting = loop {
            if let Some(setting) = self.get(whole) {
                break setting;
            }
            whole = &whole[..whole.rfind(['.', '['])?];
        };
        let mut part = path;
        while part.len() > whole.len() {
            if let Some(origin) = setting.parts.get(part) {
                return Some(origin);
            }
            part = &part[..part.rfind(['.', '['])?];
        }
        Some(&setting.origin)
    }

    /// Puts a setting with its whole history.
    pub(crate) fn put(&mut self, field: &'static Field, setting: Setting) {
        self.by_path.insert(field.path, setting);
    }

    pub fn bool(&self, path: &str) -> bool {
        self.value(path).and_then(Value::as_bool).unwrap_or(false)
    }

    pub fn int(&self, path: &str) -> i64 {
        self.value(path).and_then(Value::as_i64).unwrap_or(0)
    }

    pub fn text(&self, path: &str) -> &str {
        self.value(path).and_then(Value::as_str).unwrap_or("")
    }

    pub fn duration(&self, path: &str) -> GoDuration {
        match self.value(path) {
            Some(Value::Number(nanos)) => GoDuration::from_nanos(nanos.as_i64().unwrap_or(0)),
            _ => self.text(path).parse().unwrap_or_default(),
        }
    }

    pub fn list(&self, path: &str) -> &[Value] {
        self.value(path)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// The entries of a map, by key.
    pub fn entries(&self, path: &str) -> impl Iterator<Item = (&str, &Value)> {
        let map = self.value(path).and_then(Value::as_object);
        map.into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value))
    }

    /// Whether the field counts as not given.
    pub(crate) fn is_unset(&self, field: &Field) -> bool {
        let Some(value) = self.value(field.path) else {
            return true;
        };
        match field.presence {
            Presence::Plain | Presence::Printed => is_zero(field.kind, value),
            Presence::Emptiable | Presence::Optional => false,
        }
    }

    /// The configuration as the kubelet shows it: what `configz` answers, and
    /// what drop-ins are merged into.
    pub fn to_json(&self) -> Value {
        // Values come from JSON and go back to it.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Only the settings that `wanted` takes.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&Setting) -> bool) -> Self {
        let taken = self.by_path.iter().filter(|(_, setting)| wanted(setting));
        Self {
            by_path: taken
                .map(|(path, setting)| (*path, setting.clone()))
                .collect(),
        }
    }

    /// The configuration with nothing but what is set: no zero values.
    pub fn given(&self) -> Given<'_> {
        Given {
            settings: self,
            path: "",
        }
    }

    /// The value that is printed, if the field is printed at all.
    pub(crate) fn printed(&self, field: &Field) -> Option<Value> {
        match self.value(field.path) {
            Some(value) => shown(field, value).then(|| value.clone()),
            None if field.presence == Presence::Optional => None,
            None => {
                let zero = zero(field.kind);
                shown(field, &zero).then_some(zero)
            }
        }
    }
}

impl Serialize for Settings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Whole {
            settings: self,
            path: "",
        }
        .serialize(serializer)
    }
}

/// An object of the configuration, its fields in the order of the table.
struct Whole<'a> {
    settings: &'a Settings,
    path: &'a str,
}

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for field in schema::children(self.path) {
            let name = last_name(field.path);
            if field.kind != Kind::Object {
                if let Some(value) = self.settings.printed(field) {
                    map.serialize_entry(name, &value)?;
                }
            } else if field.presence != Presence::Optional
                || self.settings.value(field.path).is_some()
            {
                let path = field.path;
                map.serialize_entry(name, &Whole { path, ..*self })?;
            }
        }
        map.end()
    }
}

/// The part of a configuration that is set; see [`Settings::given`].
#[derive(Debug)]
pub struct Given<'a> {
    settings: &'a Settings,
    path: &'a str,
}

impl Given<'_> {
    fn is_empty(&self) -> bool {
        let below = format!("{}.", self.path);
        let set = |path: &&str| **path == *self.path || path.starts_with(&below);
        !self.settings.by_path.keys().any(set)
    }
}

impl Serialize for Given<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for field in schema::children(self.path) {
            let name = last_name(field.path);
            if field.kind == Kind::Object {
                let path = field.path;
                let inner = Given { path, ..*self };
                if !inner.is_empty() {
                    map.serialize_entry(name, &inner)?;
                }
            } else if let Some(value) = self.settings.value(field.path) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

/// Whether a value of this field is printed, or left out for being zero.
pub(crate) fn shown(field: &Field, value: &Value) -> bool {
    let always = matches!(
        field.kind,
        Kind::Duration | Kind::DurationOrNanos | Kind::Quantity | Kind::Object
    );
    match field.presence {
        Presence::Optional | Presence::Printed => true,
        Presence::Plain | Presence::Emptiable => always || !is_zero(field.kind, value),
    }
}

pub(crate) fn zero(kind: Kind) -> Value {
    match kind {
        Kind::Bool => Value::Bool(false),
        Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Float64 => Value::from(0),
        Kind::String => Value::from(""),
        Kind::Duration | Kind::DurationOrNanos => Value::from("0s"),
        Kind::Quantity => Value::from("0"),
        Kind::Object => Value::Object(Map::new()),
        // A list or map that was never made is null.
        Kind::Time
        | Kind::Strings
        | Kind::Int32s
        | Kind::StringMap
        | Kind::BoolMap
        | Kind::StringsMap
        | Kind::QuantityMap
        | Kind::Objects => Value::Null,
    }
}

pub(crate) fn is_zero(kind: Kind, value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Null => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        _ => *value == zero(kind),
    }
}

/// `webhook` of `authentication.webhook`.
pub(crate) fn last_name(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Every field that holds a value, not other fields: the rows of which
/// [`Settings`] keeps a value.
pub(crate) fn leaves() -> impl Iterator<Item = &'static Field> {
    FIELDS
        .iter()
        .filter(|field| field.kind != Kind::Object && !field.path.contains("[]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(path: &str) -> &'static Field {
        schema::field(path).unwrap()
    }

    #[test]
    fn what_is_zero_is_left_out_unless_its_kind_is_always_shown() {
        let mut settings = Settings::default();
        settings.set(field("maxPods"), Value::from(0), Origin::Default);
        settings.set(field("healthzPort"), Value::from(0), Origin::Default);
        let json = settings.to_json();
        assert_eq!(json.get("maxPods"), None);
        assert_eq!(json["healthzPort"], 0);
        assert_eq!(json["syncFrequency"], "0s");
        assert_eq!(json["memorySwap"], Value::Object(Map::new()));
        assert_eq!(json.get("tracing"), None);
        assert_eq!(json["logging"]["options"]["text"]["infoBufferSize"], "0");
    }

    #[test]
    fn a_part_has_an_origin_of_its_own() {
        let mut settings = Settings::default();
        let flag = |text: &str| Origin::Flag(text.to_owned());
        let parts = Parts::from([("evictionHard.memory.available".to_owned(), flag("a"))]);
        let value = serde_json::json!({"memory.available": "1Gi", "x": "1"});
        settings.set_parts(field("evictionHard"), value, Origin::Default, parts);
        for (path, expected) in [
            ("evictionHard.memory.available", Some(&flag("a"))),
            ("evictionHard.x", Some(&Origin::Default)),
            ("evictionHard", Some(&Origin::Default)),
            ("maxPods", None),
        ] {
            assert_eq!(settings.origin_of(path), expected, "{path}");
        }
    }

    #[test]
    fn a_setting_remembers_what_it_was() {
        let mut settings = Settings::default();
        settings.set(field("maxPods"), Value::from(110), Origin::Default);
        let flag = Origin::Flag("--max-pods=5".to_owned());
        settings.set(field("maxPods"), Value::from(5), flag.clone());
        let setting = settings.get("maxPods").unwrap();
        assert_eq!(setting.origin, flag);
        assert_eq!(setting.before, [(Value::from(110), Origin::Default)]);
    }
}
