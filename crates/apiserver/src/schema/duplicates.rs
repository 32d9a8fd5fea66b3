//! Keys that a JSON text has twice: the last one counts, and a strict reader names them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads a JSON text, and the paths of the fields that are in it more than once.
pub fn read(text: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Node {
        path: String::new(),
        found: &mut found,
    }
    .deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, found))
}

/// The paths of the fields that are in a JSON text more than once.
pub fn duplicate_fields(text: &[u8]) -> Vec<String> {
    read(text).map(|(_, found)| found).unwrap_or_default()
}

struct Node<'a> {
    path: String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Node {
            path: format!("{}[{}]", self.path, list.len()),
            found: self.found,
        })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let dot = if self.path.is_empty() { "" } else { "." };
            let path = format!("{}{dot}{key}", self.path);
            if map.contains_key(&key) && !self.found.contains(&path) {
                self.found.push(path.clone());
            }
            let value = entries.next_value_seed(Node {
                path,
                found: self.found,
            })?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_there_twice_are_found_with_their_paths() {
        let text = br#"{"a": 1, "b": [{"c": 1, "d": {}}, {"c": 1, "c": 2, "c": 3}], "a": -2.5}"#;
        let (value, found) = read(text).unwrap();
        assert_eq!(found, ["b[1].c", "a"]);
        assert_eq!(value, serde_json::from_slice::<Value>(text).unwrap());
        assert!(read(b"{} x").is_err());
        assert!(duplicate_fields(br#"{"a": {"a": {"a": null}}}"#).is_empty());
    }
}
