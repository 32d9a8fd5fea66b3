//! To and from the JSON values of `serde_json`.

use std::fmt;

use serde_json::Value as Json;

use super::builder::Builder;
use super::number::Number;
use super::tree::{List, Map, Node, Place, Value};

/// How deep a tree may be that becomes a `serde_json` value. These recurse when they are dropped,
/// and their own parser draws the line here, too.
const MAX_JSON_DEPTH: usize = 127;

/// A tree is too deep to become a `serde_json` value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooDeep {
    /// Where the level starts that is one too many.
    pub place: Place,
}

impl fmt::Display for TooDeep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}: lists and maps are nested more than {MAX_JSON_DEPTH} levels deep",
            self.place
        )
    }
}

impl std::error::Error for TooDeep {}

impl Node {
    /// The value without its places.
    pub fn to_json(&self) -> Result<Json, TooDeep> {
        to_json(self, MAX_JSON_DEPTH)
    }
}

/// Recurses, but not deeper than it is told.
fn to_json(node: &Node, levels: usize) -> Result<Json, TooDeep> {
    let deeper = || levels.checked_sub(1).ok_or(TooDeep { place: node.place });
    Ok(match &node.value {
        Value::Null => Json::Null,
        Value::Bool(bool) => Json::Bool(*bool),
        Value::Number(Number::Int(int)) => Json::from(*int),
        Value::Number(Number::Uint(uint)) => Json::from(*uint),
        Value::Number(Number::Float(float)) => Json::from(*float),
        Value::String(text) => Json::String(text.clone()),
        Value::List(list) => {
            let levels = deeper()?;
            let values = list.iter().map(|node| to_json(node, levels));
            Json::Array(values.collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let levels = deeper()?;
            let entries = map
                .iter()
                .map(|(key, entry)| Ok((key.to_owned(), to_json(&entry.node, levels)?)));
            Json::Object(entries.collect::<Result<_, _>>()?)
        }
    })
}

/// What is left of a container.
enum Rest {
    Array(std::vec::IntoIter<Json>),
    Object(serde_json::map::IntoIter),
}

impl From<Json> for Node {
    /// The value, in no known place.
    fn from(json: Json) -> Self {
        let mut builder = Builder::default();
        let mut open = Vec::new();
        let mut next = Some(json);
        loop {
            match next {
                Some(Json::Array(values)) => {
                    builder.open(Value::List(List::new()), Place::UNKNOWN);
                    open.push(Rest::Array(values.into_iter()));
                }
                Some(Json::Object(entries)) => {
                    builder.open(Value::Map(Map::new()), Place::UNKNOWN);
                    open.push(Rest::Object(entries.into_iter()));
                }
                Some(leaf) => {
                    builder.attach(Node::new(leaf_value(leaf), Place::UNKNOWN));
                }
                None => {
                    open.pop();
                    builder.shut();
                }
            }
            next = match open.last_mut() {
                Some(Rest::Array(values)) => values.next(),
                Some(Rest::Object(entries)) => entries.next().map(|(key, json)| {
                    builder.key(key, Place::UNKNOWN);
                    json
                }),
                None => return builder.finish(),
            };
        }
    }
}

fn leaf_value(leaf: Json) -> Value {
    match leaf {
        Json::Bool(bool) => Value::Bool(bool),
        Json::String(text) => Value::String(text),
        Json::Number(number) => {
            let int = number.as_i64().map(Number::from);
            let uint = || number.as_u64().map(Number::from);
            let float = || number.as_f64().map(Number::Float);
            int.or_else(uint)
                .or_else(float)
                .map_or(Value::Null, Value::Number)
        }
        Json::Null | Json::Array(_) | Json::Object(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::parse;
    use super::*;

    fn nested(levels: usize) -> Node {
        parse(format!("{}{}", "[".repeat(levels), "]".repeat(levels)).as_bytes())
            .unwrap()
            .root
    }

    #[test]
    fn json_values_survive_the_way_there_and_back() {
        let json = json!({
            "null": null, "bool": true, "int": -1, "uint": u64::MAX, "float": 1.5, "text": "é",
            "list": [1, [], {}, ["x"]], "map": {"empty": {}, "inner": {"key": [null]}},
        });
        let node = Node::from(json.clone());
        assert_eq!(node.place, Place::UNKNOWN);
        assert_eq!(node.to_json(), Ok(json));
    }

    #[test]
    fn a_tree_that_serde_json_could_not_drop_is_refused() {
        assert!(nested(127).to_json().is_ok());
        let place = Place {
            line: 1,
            column: 128,
        };
        assert_eq!(nested(128).to_json(), Err(TooDeep { place }));
        assert!(nested(10_000).to_json().is_err());
    }
}
