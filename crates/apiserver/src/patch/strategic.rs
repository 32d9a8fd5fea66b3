//! Strategic merge patch: maps are merged, lists too where their type has a key for
//! their elements, and directives say what to delete, replace, keep and order.

mod lists;
mod order;

use http::StatusCode;
use serde_json::{Map, Value};

use crate::Failure;
use crate::schema::{Field, Shape, Struct, schema};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

type Object = Map<String, Value>;

pub(super) fn apply(kind: &str, original: Object, patch: Object) -> Result<Object, Failure> {
    let scope = schema().root(kind).map_or(Scope::Unknown, Scope::Struct);
    merge(original, patch, scope)
}

/// What is known of the fields of a map.
#[derive(Clone, Copy)]
enum Scope {
    Struct(&'static Struct),
    /// A map whose keys are not fields (labels, limits).
    Map,
    /// A kind without a table: maps are merged, lists replaced.
    Unknown,
}

impl Scope {
    fn of(shape: &'static Shape) -> Self {
        match shape.target() {
            Shape::Struct(name) => schema().get(name).map_or(Scope::Unknown, Scope::Struct),
            Shape::Map(_) => Scope::Map,
            _ => Scope::Unknown,
        }
    }

    fn field(self, name: &str) -> Result<Option<&'static Field>, Failure> {
        let Scope::Struct(of) = self else {
            return Ok(None);
        };
        let found = of.field(name).ok_or_else(|| {
            broken(format!(
                "unable to find api field in struct {} for the json field \"{name}\"",
                of.short_name()
            ))
        });
        found.map(Some)
    }

    /// What is known of what is below one of its fields.
    fn below(self, name: &str) -> Result<Scope, Failure> {
        Ok(self
            .field(name)?
            .map_or(Scope::Unknown, |field| Scope::of(&field.shape)))
    }
}

/// How a list is merged.
#[derive(Clone, Copy)]
struct ListRule {
    merged: bool,
    key: Option<&'static str>,
    elements: Scope,
}

impl ListRule {
    fn of(scope: Scope, name: &str) -> Result<Self, Failure> {
        let Some(field) = scope.field(name)? else {
            return Ok(Self {
                merged: false,
                key: None,
                elements: Scope::Unknown,
            });
        };
        let elements = match field.shape.target() {
            Shape::List(inner) => Scope::of(inner),
            _ => Scope::Unknown,
        };
        Ok(Self {
            merged: field.merged,
            key: field.merge_key,
            elements,
        })
    }
}

fn merge(mut original: Object, mut patch: Object, scope: Scope) -> Result<Object, Failure> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order::apply(&mut original, &mut patch, scope)?;
    for (key, value) in patch {
        let (name, deletes) = match key.strip_prefix(DELETE_FROM) {
            Some(name) => (name.to_owned(), true),
            None => (key, false),
        };
        if value.is_null() {
            original.remove(&name);
            continue;
        }
        match (original.remove(&name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let merged = merge(old, new, scope.below(&name)?)?;
                original.insert(name, Value::Object(merged));
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let rule = ListRule::of(scope, &name)?;
                let merged = lists::merge(old, new, rule, deletes)?;
                original.insert(name, Value::Array(merged));
            }
            (Some(old), _) if deletes => {
                original.insert(name, old);
            }
            (_, _) if deletes => {}
            (_, new) => {
                if let Some(new) = without_directives(without_nulls(new)) {
                    original.insert(name, new);
                }
            }
        }
    }
    Ok(original)
}

/// `$retainKeys` names all fields that stay.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Failure> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let malformed = || Failure::bad_request("invalid patch format of retainKeys");
    let Value::Array(retained) = retained else {
        return Err(malformed());
    };
    let is_retained = |name: &str| retained.iter().any(|key| key.as_str() == Some(name));
    let is_change = |name: &str| !name.starts_with(DELETE_FROM) && !name.starts_with(ORDER);
    if patch
        .iter()
        .any(|(name, value)| !value.is_null() && is_change(name) && !is_retained(name))
    {
        return Err(malformed());
    }
    original.retain(|name, _| is_retained(name));
    Ok(())
}

/// What is new has nothing to delete.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            fields
                .map(|(name, value)| (name, without_nulls(value)))
                .collect()
        }
        other => other,
    }
}

/// What is new has nothing to replace; elements that only carry a directive go.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept = fields
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        other => Some(other),
    }
}

fn unknown_directive(directive: &Value, patch: &Object) -> Failure {
    let directive = directive
        .as_str()
        .map_or_else(|| directive.to_string(), str::to_owned);
    broken(format!(
        "unknown patch type: {directive} in map: {}",
        go_map(patch)
    ))
}

fn no_merge_key(element: &Object, key: &str) -> Failure {
    broken(format!(
        "map: {} does not contain declared merge key: {key}",
        go_map(element)
    ))
}

/// Upstream has no word for the reason of these.
fn broken(message: impl Into<String>) -> Failure {
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
}

/// As Go prints a map.
fn go_map(map: &Object) -> String {
    fn go_value(value: &Value) -> String {
        match value {
            Value::Null => "<nil>".to_owned(),
            Value::String(text) => text.clone(),
            Value::Object(map) => go_map(map),
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(go_value).collect();
                format!("[{}]", items.join(" "))
            }
            other => other.to_string(),
        }
    }
    let entries: Vec<_> = map
        .iter()
        .map(|(name, value)| format!("{name}:{}", go_value(value)))
        .collect();
    format!("map[{}]", entries.join(" "))
}

#[cfg(test)]
mod tests;
