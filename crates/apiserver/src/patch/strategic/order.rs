//! The order of merged lists: what the patch names comes in the patch's order, what only
//! the server has keeps its place among what it had.

use serde_json::Value;

use super::{
    DIRECTIVE, ListRule, ORDER, Object, Scope, broken, lists, without_directives, without_nulls,
};
use crate::Failure;

/// Carries out `$setElementOrder/…` together with the list that it speaks of.
pub(super) fn apply(
    original: &mut Object,
    patch: &mut Object,
    scope: Scope,
) -> Result<(), Failure> {
    let orders: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(ORDER))
        .cloned()
        .collect();
    for directive in orders {
        let name = directive[ORDER.len()..].to_owned();
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(Failure::bad_request(
                "invalid patch format of setElementOrder list",
            ));
        };
        let rule = ListRule::of(scope, &name)?;
        let before = list(original.remove(&name))?;
        let changes = list(patch.remove(&name))?;
        if let Some(changes) = &changes {
            agree(changes, &order, rule.key)?;
        }
        let server = before.clone().unwrap_or_default();
        let merged = match (before, changes) {
            (Some(before), Some(changes)) => lists::merge(before, changes, rule, false)?,
            (Some(before), None) => before,
            (None, Some(changes)) => {
                let changes = changes.into_iter().map(without_nulls);
                changes.filter_map(without_directives).collect()
            }
            (None, None) => continue,
        };
        let arranged = arrange(merged, &order, &server, rule.key);
        original.insert(name, Value::Array(arranged));
    }
    Ok(())
}

fn list(value: Option<Value>) -> Result<Option<Vec<Value>>, Failure> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(_) => Err(broken(
            "expected a []interface {}, but received something else",
        )),
    }
}

/// The patch names its elements in the order that it asks for.
fn agree(changes: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Failure> {
    if order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter();
    for change in changes
        .iter()
        .filter(|change| change.get(DIRECTIVE).is_none())
    {
        if !order.any(|place| same(change, place, key)) {
            return Err(broken(
                "The order in patch list doesn't match $setElementOrder list",
            ));
        }
    }
    Ok(())
}

/// `items` with those of `order` in its order, and the others where the server had them.
pub(super) fn arrange(
    items: Vec<Value>,
    order: &[Value],
    server: &[Value],
    key: Option<&str>,
) -> Vec<Value> {
    let place = |list: &[Value], item: &Value| list.iter().position(|other| same(item, other, key));
    let (mut named, mut others): (Vec<_>, Vec<_>) = items
        .into_iter()
        .partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    others.sort_by_key(|item| place(server, item).unwrap_or(usize::MAX));
    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in named {
        let here = place(server, &item);
        while let (Some(here), Some(other)) = (here, others.peek()) {
            match place(server, other) {
                Some(there) if there < here => arranged.extend(others.next()),
                _ => break,
            }
        }
        arranged.push(item);
    }
    arranged.extend(others);
    arranged
}

fn same(left: &Value, right: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => left.get(key).is_some() && left.get(key) == right.get(key),
        None => left == right,
    }
}
