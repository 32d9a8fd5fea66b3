//! Lists as kubectl prints them (`meta.k8s.io/v1`, kind `Table`): the server computes the
//! cells. Pure; `now` is what ages are counted to.

mod age;
mod columns;
mod objects;
mod pod;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::Kind;

/// What of an object comes with its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// The parameter `includeObject`; nothing is the default.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// How a table is wanted.
#[derive(Clone, Debug)]
pub struct Options {
    pub include: IncludeObject,
    /// Later tables of a watch do not repeat the columns.
    pub headers: bool,
    /// `metadata` of the list, or of the one object: what of it a list can have is kept.
    pub metadata: Value,
}

/// A table of objects, one row for each.
pub fn render(kind: &Kind, objects: &[Value], options: &Options, now: Timestamp) -> Value {
    let mut metadata = json!({});
    for name in ["resourceVersion", "continue", "remainingItemCount"] {
        if let Some(value) = options.metadata.get(name).filter(|value| !value.is_null()) {
            metadata[name] = value.clone();
        }
    }
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| row(kind, object, options.include, now))
        .collect();
    let definitions = if options.headers {
        columns::definitions(kind)
    } else {
        Value::Null
    };
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn row(kind: &Kind, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
    let included = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"],
        }),
        IncludeObject::Object => object.clone(),
    };
    let mut row = json!({"cells": objects::cells(kind, object, now), "object": included});
    if kind.kind == "Pod" {
        let (reason, message) = match object["status"]["phase"].as_str() {
            Some("Succeeded") => ("Succeeded", "The pod has completed successfully."),
            Some("Failed") => ("Failed", "The pod failed."),
            _ => return row,
        };
        row["conditions"] =
            json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]);
    }
    row
}

#[cfg(test)]
mod tests;
