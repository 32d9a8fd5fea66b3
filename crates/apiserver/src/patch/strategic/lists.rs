//! Lists that are merged: by the key of their elements, or as sets of plain values.

use serde_json::Value;

use super::{
    DIRECTIVE, ListRule, Object, Scope, broken, merge as merge_maps, no_merge_key, order,
    unknown_directive,
};
use crate::Failure;

pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    rule: ListRule,
    deletes: bool,
) -> Result<Vec<Value>, Failure> {
    if !rule.merged && !deletes {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let maps = original.iter().chain(&patch).any(Value::is_object);
    if !maps {
        if deletes {
            return Ok(original
                .into_iter()
                .filter(|item| !patch.contains(item))
                .collect());
        }
        let mut merged = original.clone();
        merged.extend(patch.iter().cloned());
        return Ok(order::arrange(
            unique(merged),
            &unique(patch),
            &original,
            None,
        ));
    }
    let Some(key) = rule.key else {
        return Err(broken("cannot merge lists without merge key"));
    };
    let (original, patch) = directives(original, patch, key)?;
    let merged = by_key(original.clone(), &patch, key, rule.elements)?;
    Ok(order::arrange(merged, &patch, &original, Some(key)))
}

/// Deletes and replaces what elements with `$patch` ask for; the other elements remain.
fn directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Failure> {
    let mut rest = Vec::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(element) = &item else {
            return Err(broken("lists of different types cannot be merged"));
        };
        let Some(directive) = element.get(DIRECTIVE) else {
            rest.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let Some(wanted) = element.get(key) else {
                    return Err(no_merge_key(element, key));
                };
                original.retain(|item| item.get(key) != Some(wanted));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(broken("merging lists cannot yet be specified in the patch"));
            }
            _ => return Err(unknown_directive(directive, element)),
        }
    }
    Ok(if replace {
        (rest, Vec::new())
    } else {
        (original, rest)
    })
}

fn by_key(
    mut merged: Vec<Value>,
    patch: &[Value],
    key: &str,
    scope: Scope,
) -> Result<Vec<Value>, Failure> {
    for item in patch {
        let element = object(item)?;
        let Some(wanted) = element.get(key) else {
            return Err(no_merge_key(&element, key));
        };
        match merged.iter_mut().find(|item| item.get(key) == Some(wanted)) {
            Some(found) => *found = Value::Object(merge_maps(object(found)?, element, scope)?),
            None => merged.push(item.clone()),
        }
    }
    for item in &merged {
        if item.get(key).is_none() {
            return Err(no_merge_key(&object(item)?, key));
        }
    }
    Ok(merged)
}

fn object(item: &Value) -> Result<Object, Failure> {
    item.as_object()
        .cloned()
        .ok_or_else(|| broken("lists of different types cannot be merged"))
}

fn unique(items: Vec<Value>) -> Vec<Value> {
    let mut unique: Vec<Value> = Vec::new();
    for item in items {
        if !unique.contains(&item) {
            unique.push(item);
        }
    }
    unique
}
