//! How deep and how large an object may be that clients write.

use std::io;

use http::StatusCode;
use serde_json::Value;

use crate::failure::Failure;

/// What nests deeper than 127 levels is not parsed again, and lists and watches wrap what they
/// tell in some more.
pub(crate) const DEEPEST: usize = 120;

/// As much as upstream's etcd takes in one request.
const LARGEST: usize = 3 * 512 * 1024;

/// Refuses what could be written once and never read again, or would be a burden to all who list.
pub(super) fn check(object: &Value) -> Result<(), Failure> {
    if depth(object) > DEEPEST {
        return Err(Failure::bad_request(format!(
            "the object is nested too deeply: more than {DEEPEST} levels"
        )));
    }
    let size = size(object);
    if size > LARGEST {
        return Err(Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: the object has {size} bytes, limit is {LARGEST}"),
        ));
    }
    Ok(())
}

/// Maps and lists inside each other; 0 for what is neither.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Of its JSON.
pub(crate) fn size(value: &Value) -> usize {
    let mut counter = Counter(0);
    // A tree of JSON values can always be written as JSON, and counting cannot fail.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
    }

    #[test]
    fn what_is_too_deep_or_too_large_is_refused() {
        for (object, code) in [
            (nested(DEEPEST), None),
            (nested(DEEPEST + 1), Some(StatusCode::BAD_REQUEST)),
            (json!("a".repeat(LARGEST - 2)), None),
            (
                json!("a".repeat(LARGEST - 1)),
                Some(StatusCode::PAYLOAD_TOO_LARGE),
            ),
        ] {
            let refused = check(&object).err().map(|failure| failure.code);
            assert_eq!(refused, code);
        }
        assert_eq!(depth(&json!([{"a": [1, {}]}, 2])), 4);
        let value = json!({"a": [1, "ä\n"], "b": null});
        assert_eq!(size(&value), value.to_string().len());
    }

    #[test]
    fn what_is_allowed_can_be_read_again_inside_a_list() {
        let list = json!({"items": [{"object": nested(DEEPEST)}]});
        assert!(serde_json::from_str::<Value>(&list.to_string()).is_ok());
    }
}
