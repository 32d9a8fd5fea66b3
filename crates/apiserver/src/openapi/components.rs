//! One schema for each type that a group's kinds are made of.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::kinds::KINDS;
use crate::schema::{Presence, Shape, Struct, schema};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The schemas of these kinds, and of all that they are made of.
pub(super) fn schemas(kinds: &[&str]) -> Map<String, Value> {
    let mut found = BTreeMap::new();
    for kind in kinds {
        match schema().root(kind) {
            Some(root) => add(root, &mut found),
            // Options of a connection: they are no objects, and have no fields here.
            None => drop(found.insert(name_of_kind(kind), json!({"type": "object"}))),
        }
    }
    found.into_iter().collect()
}

/// `io.k8s.api.core.v1.Pod`.
pub(super) fn name_of_kind(kind: &str) -> String {
    schema().root(kind).map_or_else(
        || format!("io.k8s.api.core.v1.{kind}"),
        |root| name(root.name),
    )
}

fn name(of: &str) -> String {
    match of.split_once('.') {
        Some(("meta", short)) => format!("{META}.{short}"),
        Some((group, short)) => format!("io.k8s.api.{group}.v1.{short}"),
        None => of.to_owned(),
    }
}

fn add(of: &'static Struct, found: &mut BTreeMap<String, Value>) {
    let key = name(of.name);
    if found.contains_key(&key) {
        return;
    }
    // The place is taken first: a type can be part of itself.
    found.insert(key.clone(), Value::Null);
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in &of.fields {
        let mut property = property(&field.shape, found);
        if let Some(strategy) = field.strategy {
            property["x-kubernetes-patch-strategy"] = strategy.into();
        }
        if let Some(merge_key) = field.merge_key {
            property["x-kubernetes-patch-merge-key"] = merge_key.into();
        }
        properties.insert(field.name.to_owned(), property);
        if field.presence == Presence::Always {
            required.push(field.name);
        }
    }
    let mut written = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        written["required"] = json!(required);
    }
    if let Some(kind) = KINDS.iter().find(|kind| {
        schema()
            .root(kind.kind)
            .is_some_and(|root| root.name == of.name)
    }) {
        written["x-kubernetes-group-version-kind"] =
            json!([{"group": kind.group, "version": kind.version, "kind": kind.kind}]);
    }
    found.insert(key, written);
}

fn property(shape: &'static Shape, found: &mut BTreeMap<String, Value>) -> Value {
    let mut named = |name: String, written: Value| {
        found.entry(name.clone()).or_insert(written);
        reference(&name)
    };
    match shape.plain() {
        Shape::Text => json!({"type": "string"}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Int32 => json!({"type": "integer", "format": "int32"}),
        Shape::Int64 => json!({"type": "integer", "format": "int64"}),
        Shape::Bytes => json!({"type": "string", "format": "byte"}),
        Shape::Quantity => named(
            "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(),
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        ),
        Shape::Time => named(
            format!("{META}.Time"),
            json!({"type": "string", "format": "date-time"}),
        ),
        Shape::MicroTime => named(
            format!("{META}.MicroTime"),
            json!({"type": "string", "format": "date-time"}),
        ),
        Shape::IntOrString => named(
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(),
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
        ),
        Shape::Raw => json!({"type": "object"}),
        Shape::List(inner) => json!({"type": "array", "items": property(inner, found)}),
        Shape::Map(inner) => {
            json!({"type": "object", "additionalProperties": property(inner, found)})
        }
        Shape::Pointer(inner) | Shape::Named(_, inner) => property(inner, found),
        Shape::Struct(of) => match schema().get(of) {
            Some(of) => {
                add(of, found);
                reference(&name(of.name))
            }
            None => json!({"type": "object"}),
        },
    }
}

fn reference(name: &str) -> Value {
    json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]})
}
