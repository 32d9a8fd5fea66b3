//! What objects are made of: the fields of every type that the server takes or gives,
//! as Go knows them, because Go decides what is left out when empty, what is merged by
//! which key, and how a wrong type is complained of. The table is `types.txt`; a line
//! is a field: its name (`?`: left out when empty, `~`: left out when zero), its type
//! (`*` pointer, `[]` list, `{}` map), and how a strategic merge patch treats it, and behind
//! `#` its numbers in protobuf.

mod decode;
mod duplicates;
pub(crate) mod look;
pub mod protobuf;
mod values;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use decode::{DecodeError, Decoded, decode, not_handled, strict_error, strict_findings, tidy};
pub use duplicates::{duplicate_fields, read};
pub(crate) use values::word;

/// The text of the table.
pub(crate) const TABLE: &str = include_str!("schema/types.txt");

/// Whether a field that has nothing in it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Always,
    /// Go's `omitempty`: an empty struct is written all the same.
    NotEmpty,
    /// Go's `omitzero`.
    NotZero,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    Text,
    Bool,
    Int32,
    Int64,
    Bytes,
    Quantity,
    Time,
    MicroTime,
    IntOrString,
    /// Any JSON.
    Raw,
    List(Box<Shape>),
    Map(Box<Shape>),
    Pointer(Box<Shape>),
    /// The name of a type of the table.
    Struct(&'static str),
    /// A name that Go has for another shape.
    Named(&'static str, Box<Shape>),
}

impl Shape {
    /// Without the names that Go has for it.
    pub fn plain(&self) -> &Shape {
        match self {
            Shape::Named(_, shape) => shape.plain(),
            other => other,
        }
    }

    /// What a pointer points to.
    pub fn target(&self) -> &Shape {
        match self.plain() {
            Shape::Pointer(shape) => shape.target(),
            other => other,
        }
    }
}

#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub presence: Presence,
    pub shape: Shape,
    /// A strategic merge patch adds to this list or map instead of replacing it.
    pub merged: bool,
    /// By which field the elements of a merged list are told apart.
    pub merge_key: Option<&'static str>,
    /// The words of `x-kubernetes-patch-strategy`.
    pub strategy: Option<&'static str>,
    /// Where it is in protobuf: several numbers for what is inside of a message there and
    /// is not in JSON.
    pub place: Vec<u64>,
}

#[derive(Debug)]
pub struct Struct {
    /// `core.PodSpec`.
    pub name: &'static str,
    pub fields: Vec<Field>,
}

impl Struct {
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// `PodSpec`.
    pub fn short_name(&self) -> &'static str {
        self.name
            .split_once('.')
            .map_or(self.name, |(_, name)| name)
    }
}

/// All types, by name.
#[derive(Debug)]
pub struct Schema {
    types: BTreeMap<&'static str, Struct>,
}

/// The table, read once: it is a constant in the form of a text.
pub fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(TABLE));
    &SCHEMA
}

impl Schema {
    pub fn get(&self, name: &str) -> Option<&Struct> {
        self.types.get(name)
    }

    pub fn types(&self) -> impl Iterator<Item = &Struct> {
        self.types.values()
    }

    /// The type of a kind of object; no two that are served have the same name.
    pub fn root(&self, kind: &str) -> Option<&Struct> {
        self.types.values().find(|found| {
            found.short_name() == kind
                && found.field("apiVersion").is_some()
                && found.field("kind").is_some()
        })
    }

    fn parse(text: &'static str) -> Self {
        let mut aliases = BTreeMap::new();
        let mut types: BTreeMap<&'static str, Struct> = BTreeMap::new();
        let mut current = None;
        for line in text.lines() {
            if let Some(alias) = line.strip_prefix("alias ") {
                let (name, shape) = alias.split_once(' ').unwrap_or((alias, "string"));
                aliases.insert(name, shape);
            } else if let Some(name) = line.strip_prefix("type ") {
                let fields = Vec::new();
                types.insert(name, Struct { name, fields });
                current = Some(name);
            } else if let Some(found) = current.and_then(|name| types.get_mut(name)) {
                found.fields.extend(field(line, &aliases));
            }
        }
        Self { types }
    }
}

fn field(line: &'static str, aliases: &BTreeMap<&'static str, &'static str>) -> Option<Field> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    let shape = shape(words.next()?, aliases);
    let (mut strategy, mut merge_key, mut place) = (None, None, Vec::new());
    for word in words {
        if let Some(numbers) = word.strip_prefix('#') {
            place.extend(
                numbers
                    .split('.')
                    .filter_map(|number| number.parse::<u64>().ok()),
            );
        } else if let Some(key) = word.strip_prefix("key=") {
            merge_key = Some(key);
        } else {
            strategy = Some(word);
        }
    }
    let (name, presence) = if let Some(name) = name.strip_suffix('?') {
        (name, Presence::NotEmpty)
    } else if let Some(name) = name.strip_suffix('~') {
        (name, Presence::NotZero)
    } else {
        (name, Presence::Always)
    };
    let merged = strategy.is_some_and(|words| words.split(',').any(|word| word == "merge"));
    Some(Field {
        name,
        presence,
        shape,
        merged,
        merge_key,
        strategy,
        place,
    })
}

fn shape(text: &'static str, aliases: &BTreeMap<&'static str, &'static str>) -> Shape {
    if let Some(rest) = text.strip_prefix('*') {
        return Shape::Pointer(Box::new(shape(rest, aliases)));
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return Shape::List(Box::new(shape(rest, aliases)));
    }
    if let Some(rest) = text.strip_prefix("{}") {
        return Shape::Map(Box::new(shape(rest, aliases)));
    }
    match text {
        "string" => Shape::Text,
        "bool" => Shape::Bool,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "bytes" => Shape::Bytes,
        "Quantity" => Shape::Quantity,
        "Time" => Shape::Time,
        "MicroTime" => Shape::MicroTime,
        "IntOrString" => Shape::IntOrString,
        "FieldsV1" => Shape::Raw,
        "types.UID" => Shape::Named("types.UID", Box::new(Shape::Text)),
        other => match aliases.get(other) {
            Some(target) => Shape::Named(other, Box::new(shape(target, aliases))),
            None => Shape::Struct(other),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_that_a_field_names_is_in_the_table() {
        fn named(shape: &Shape) -> Option<&'static str> {
            match shape.plain() {
                Shape::List(inner) | Shape::Map(inner) | Shape::Pointer(inner) => named(inner),
                Shape::Struct(name) => Some(name),
                _ => None,
            }
        }
        let all = schema();
        for found in all.types() {
            for field in &found.fields {
                if let Some(name) = named(&field.shape) {
                    assert!(
                        all.get(name).is_some(),
                        "{}.{}: {name}",
                        found.name,
                        field.name
                    );
                }
                assert!(
                    field.merge_key.is_none() || field.merged,
                    "{}.{}",
                    found.name,
                    field.name
                );
            }
        }
    }

    #[test]
    fn fields_are_as_go_has_them() {
        let pod = schema().root("Pod").unwrap();
        assert_eq!(pod.name, "core.Pod");
        let spec = schema().get("core.PodSpec").unwrap();
        let volumes = spec.field("volumes").unwrap();
        assert_eq!(
            (volumes.merged, volumes.merge_key, volumes.strategy),
            (true, Some("name"), Some("merge,retainKeys"))
        );
        assert_eq!(volumes.presence, Presence::NotEmpty);
        assert_eq!(spec.field("containers").unwrap().presence, Presence::Always);
        assert_eq!(
            *spec.field("overhead").unwrap().shape.plain(),
            Shape::Map(Box::new(Shape::Quantity))
        );
        assert_eq!(
            *spec.field("hostUsers").unwrap().shape.target(),
            Shape::Bool
        );
        assert!(schema().root("Table").is_none());
    }
}
