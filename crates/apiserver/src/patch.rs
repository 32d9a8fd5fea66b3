//! Patches of objects: JSON patch, JSON merge patch, strategic merge patch. Pure.
//!
//! Server-side apply is not here: its media type is refused, and why is said.

mod json;
mod strategic;

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::Failure;
use crate::schema;

pub const JSON_PATCH: &str = "application/json-patch+json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";
pub const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// Server-side apply, as clients ask for it.
const APPLY: &str = "application/apply-patch+yaml";

/// What a patch may be written in.
pub const MEDIA_TYPES: [&str; 3] = [JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH];

/// `original` with the changes of a patch. What comes out may be no object of its kind:
/// [`crate::schema::decode`] tells.
pub fn apply(
    content_type: &str,
    kind: &str,
    original: &Value,
    patch: &[u8],
) -> Result<Value, Failure> {
    match media_type(content_type) {
        JSON_PATCH => json::apply(original, patch),
        MERGE_PATCH => merge(original, patch),
        STRATEGIC_MERGE_PATCH => strategic(kind, original, patch),
        other => Err(unsupported(other)),
    }
}

/// Whether patches in this form are read, to be asked before the object is looked for: who
/// applies on the server's side may mean to make it.
pub fn check_form(content_type: &str) -> Result<(), Failure> {
    let media_type = media_type(content_type);
    if MEDIA_TYPES.contains(&media_type) {
        return Ok(());
    }
    Err(unsupported(media_type))
}

fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// The body is in a form that nobody here reads.
fn unsupported(media_type: &str) -> Failure {
    let message = if media_type == APPLY {
        "415: this API server has no server-side apply: run `kubectl apply` without --server-side"
    } else {
        "415: Unsupported Media Type"
    };
    Failure::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        message,
    )
    .with_details(json!({}))
}

/// The patched object is no object of its kind.
pub fn no_object(patched: &Value, message: &str) -> Failure {
    let text = serde_json::to_string(&patched.to_string()).unwrap_or_default();
    let cause = format!("Invalid value: {text}: {message}");
    let details =
        json!({"causes": [{"reason": "FieldValueInvalid", "message": cause, "field": "patch"}]});
    Failure::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "Invalid",
        format!(" \"\" is invalid: patch: {cause}"),
    )
    .with_details(details)
}

fn merge(original: &Value, patch: &[u8]) -> Result<Value, Failure> {
    let patch = object(patch)
        .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
    let mut merged = original.clone();
    json_patch::merge(&mut merged, &Value::Object(patch));
    Ok(merged)
}

fn strategic(kind: &str, original: &Value, patch: &[u8]) -> Result<Value, Failure> {
    let patch = object(patch).map_err(Failure::bad_request)?;
    let original: Map<String, Value> = original.as_object().cloned().unwrap_or_default();
    strategic::apply(kind, original, patch).map(Value::Object)
}

/// The text of a patch that is a map.
fn object(patch: &[u8]) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice::<Value>(patch) {
        Ok(Value::Object(patch)) => Ok(patch),
        Ok(other) => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            schema::word(&other)
        )),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_patch_has_its_media_type() {
        let original = json!({"data": {"a": "1", "b": "2"}});
        let cases = [
            (JSON_PATCH, r#"[{"op": "remove", "path": "/data/a"}]"#),
            (MERGE_PATCH, r#"{"data": {"a": null}}"#),
            (
                "application/merge-patch+json; charset=utf-8",
                r#"{"data": {"a": null}}"#,
            ),
            (STRATEGIC_MERGE_PATCH, r#"{"data": {"a": null}}"#),
        ];
        for (media_type, patch) in cases {
            let patched = apply(media_type, "ConfigMap", &original, patch.as_bytes()).unwrap();
            assert_eq!(patched, json!({"data": {"b": "2"}}), "{media_type}");
        }
        for (media_type, told) in [
            ("application/apply-patch+yaml", "without --server-side"),
            ("text/plain", "415: Unsupported Media Type"),
        ] {
            let failure = apply(media_type, "ConfigMap", &original, b"{}").unwrap_err();
            assert_eq!(failure.code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
            assert!(failure.message.contains(told), "{}", failure.message);
            assert_eq!(check_form(media_type).unwrap_err().message, failure.message);
        }
        assert!(check_form("application/merge-patch+json; charset=utf-8").is_ok());
    }

    #[test]
    fn a_merge_patch_replaces_lists_and_merges_maps() {
        let original = json!({"spec": {"list": [1, 2], "map": {"a": 1}}});
        let patched = apply(
            MERGE_PATCH,
            "Pod",
            &original,
            br#"{"spec": {"list": [3], "map": {"b": {"c": null}}}}"#,
        );
        assert_eq!(
            patched.unwrap(),
            json!({"spec": {"list": [3], "map": {"a": 1, "b": {}}}})
        );
        for bad in ["[]", "3", "{", ""] {
            let failure = apply(MERGE_PATCH, "Pod", &original, bad.as_bytes()).unwrap_err();
            assert_eq!(failure.code, StatusCode::BAD_REQUEST);
            assert!(
                failure.message.starts_with("error decoding patch: "),
                "{}",
                failure.message
            );
        }
    }

    #[test]
    fn what_is_no_object_any_more_is_refused_with_its_text() {
        let failure = no_object(&json!({"a": 1}), "json: wrong");
        assert_eq!(
            failure.message,
            r#" "" is invalid: patch: Invalid value: "{\"a\":1}": json: wrong"#
        );
        assert_eq!(failure.details["causes"][0]["field"], "patch");
    }
}
