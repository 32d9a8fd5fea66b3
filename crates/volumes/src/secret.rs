//! What is in a secret volume.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{KeyToPath, Secret};

use crate::payload::{Payload, PayloadError, select};

/// The files of a secret that may not be there.
pub fn payload(
    name: &str,
    secret: Option<&Secret>,
    items: &[KeyToPath],
    default_mode: i32,
    optional: bool,
) -> Result<Payload, PayloadError> {
    if secret.is_none() && !optional {
        let name = name.to_owned();
        return Err(PayloadError::NoSecret { name });
    }
    let data = secret.and_then(|secret| secret.data.as_ref());
    let data = data.into_iter().flatten();
    let data: BTreeMap<_, _> = data
        .map(|(key, value)| (key.as_str(), value.0.as_slice()))
        .collect();
    select(&data, items, default_mode, optional, |key| {
        PayloadError::NoSecretKey {
            key: key.to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{files, from_json};
    use serde_json::json;

    type Wanted = Result<Vec<(&'static str, &'static [u8], u32)>, &'static str>;

    #[test]
    fn all_keys_or_those_that_are_asked_for() {
        let secret: Secret = from_json(json!({"data": {"user": "bWU=", "key": "AP8="}}));
        let cases: [(serde_json::Value, Option<&Secret>, bool, Wanted); 7] = [
            (
                json!([]),
                Some(&secret),
                false,
                Ok(vec![("key", &[0, 255], 0o400), ("user", b"me", 0o400)]),
            ),
            (
                json!([{"key": "user", "path": "a/b", "mode": 0o777}]),
                Some(&secret),
                false,
                Ok(vec![("a/b", b"me", 0o777)]),
            ),
            (
                json!([{"key": "x", "path": "x"}]),
                Some(&secret),
                false,
                Err("references non-existent secret key: x"),
            ),
            (
                json!([{"key": "x", "path": "x"}]),
                Some(&secret),
                true,
                Ok(vec![]),
            ),
            (json!([]), None, false, Err("secret \"s\" not found")),
            (json!([]), None, true, Ok(vec![])),
            (json!([{"key": "x", "path": "x"}]), None, true, Ok(vec![])),
        ];
        for (items, secret, optional, wanted) in cases {
            let found = payload(
                "s",
                secret,
                &from_json::<Vec<KeyToPath>>(items.clone()),
                0o400,
                optional,
            );
            let found = found.map_err(|error| error.to_string());
            let wanted = wanted.map(files).map_err(str::to_owned);
            assert_eq!(found, wanted, "{items}");
        }
    }
}
