//! What is in a configMap volume.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, KeyToPath};

use crate::payload::{Payload, PayloadError, select};

/// The files of a configMap that may not be there.
pub fn payload(
    name: &str,
    config_map: Option<&ConfigMap>,
    items: &[KeyToPath],
    default_mode: i32,
    optional: bool,
) -> Result<Payload, PayloadError> {
    if config_map.is_none() && !optional {
        let name = name.to_owned();
        return Err(PayloadError::NoConfigMap { name });
    }
    select(&data(config_map), items, default_mode, optional, |key| {
        PayloadError::NoConfigKey {
            key: key.to_owned(),
        }
    })
}

/// The values by key. No key is both text and binary.
fn data(config_map: Option<&ConfigMap>) -> BTreeMap<&str, &[u8]> {
    let binary = config_map.and_then(|object| object.binary_data.as_ref());
    let binary = binary.into_iter().flatten();
    let binary = binary.map(|(key, value)| (key.as_str(), value.0.as_slice()));
    let text = config_map.and_then(|object| object.data.as_ref());
    let text = text.into_iter().flatten();
    binary
        .chain(text.map(|(key, value)| (key.as_str(), value.as_bytes())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{files, from_json};
    use serde_json::json;

    type Wanted = Result<Vec<(&'static str, &'static [u8], u32)>, &'static str>;

    #[test]
    fn all_keys_or_those_that_are_asked_for() {
        let config_map: ConfigMap = from_json(json!({
            "data": {"a": "text", "empty": ""}, "binaryData": {"b": "AAEC"}
        }));
        let cases: [(serde_json::Value, Option<&ConfigMap>, bool, Wanted); 9] = [
            (
                json!([]),
                Some(&config_map),
                false,
                Ok(vec![
                    ("a", b"text", 0o644),
                    ("b", &[0, 1, 2], 0o644),
                    ("empty", b"", 0o644),
                ]),
            ),
            (
                json!([{"key": "a", "path": "dir/file"}, {"key": "b", "path": "b", "mode": 0o400}]),
                Some(&config_map),
                false,
                Ok(vec![("b", &[0, 1, 2], 0o400), ("dir/file", b"text", 0o644)]),
            ),
            (
                json!([{"key": "a", "path": "one"}, {"key": "a", "path": "two"}]),
                Some(&config_map),
                false,
                Ok(vec![("one", b"text", 0o644), ("two", b"text", 0o644)]),
            ),
            (
                json!([{"key": "a", "path": "same"}, {"key": "empty", "path": "same"}]),
                Some(&config_map),
                false,
                Ok(vec![("same", b"", 0o644)]),
            ),
            (
                json!([{"key": "x", "path": "x"}]),
                Some(&config_map),
                false,
                Err("configmap references non-existent config key: x"),
            ),
            (
                json!([{"key": "x", "path": "x"}, {"key": "a", "path": "a"}]),
                Some(&config_map),
                true,
                Ok(vec![("a", b"text", 0o644)]),
            ),
            (json!([]), None, false, Err("configmap \"c\" not found")),
            (json!([]), None, true, Ok(vec![])),
            (json!([{"key": "x", "path": "x"}]), None, true, Ok(vec![])),
        ];
        for (items, config_map, optional, wanted) in cases {
            let found = payload(
                "c",
                config_map,
                &from_json::<Vec<KeyToPath>>(items.clone()),
                0o644,
                optional,
            );
            let found = found.map_err(|error| error.to_string());
            let wanted = wanted.map(files).map_err(str::to_owned);
            assert_eq!(found, wanted, "{items}");
        }
    }
}
