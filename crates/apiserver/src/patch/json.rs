//! JSON patch (RFC 6902), refused in the words of upstream's library.

use http::StatusCode;
use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::{Value, json};

use crate::Failure;
use crate::rest::bounds;

/// The most operations that one patch may have.
const MAX_OPERATIONS: usize = 10_000;

/// What the copies of one patch may come to, in bytes of JSON: upstream's. Each copy can double
/// what there is.
const MAX_COPIED: usize = 3 << 20;

pub(super) fn apply(original: &Value, patch: &[u8]) -> Result<Value, Failure> {
    let patch: Patch = match serde_json::from_slice(patch) {
        Ok(patch) => patch,
        Err(error) => return Err(unreadable(patch, &error)),
    };
    if patch.0.len() > MAX_OPERATIONS {
        let message = format!(
            "Request entity is too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            patch.0.len()
        );
        return Err(Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            message,
        ));
    }
    let mut patched = original.clone();
    let mut growth = Growth::of(original);
    for operation in patch.0 {
        let operation = [as_upstream_reads(operation, &patched)];
        growth.allow(&operation[0], &patched)?;
        json_patch::patch(&mut patched, &operation).map_err(|_| refused())?;
    }
    Ok(patched)
}

/// What operations make of an object, known before they are done.
struct Growth {
    copied: usize,
    /// The object is at most as deep as this. To measure it after each move would take long for a
    /// large one, so it only grows; what people write is nowhere near the limit.
    depth: usize,
}

impl Growth {
    fn of(original: &Value) -> Self {
        Self {
            copied: 0,
            depth: bounds::depth(original),
        }
    }

    fn allow(&mut self, operation: &PatchOperation, object: &Value) -> Result<(), Failure> {
        let below = |from: usize| self.depth.saturating_sub(from);
        let depth = match operation {
            PatchOperation::Add(add) => add.path.count() + bounds::depth(&add.value),
            PatchOperation::Replace(replace) => {
                replace.path.count() + bounds::depth(&replace.value)
            }
            PatchOperation::Move(moved) => moved.path.count() + below(moved.from.count()),
            PatchOperation::Copy(copy) => copy.path.count() + below(copy.from.count()),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
        };
        if depth > bounds::DEEPEST {
            return Err(Failure::bad_request(format!(
                "the patched object would be nested too deeply: more than {} levels",
                bounds::DEEPEST
            )));
        }
        self.depth = self.depth.max(depth);
        if let PatchOperation::Copy(copy) = operation {
            let source = object.pointer(copy.from.as_str());
            self.copied += source.map(bounds::size).unwrap_or_default();
            if self.copied > MAX_COPIED {
                return Err(refused());
            }
        }
        Ok(())
    }
}

/// Upstream's library takes a field that is not there for one that is null.
fn as_upstream_reads(operation: PatchOperation, object: &Value) -> PatchOperation {
    match operation {
        PatchOperation::Replace(replace) if is_missing_field(object, replace.path.as_str()) => {
            PatchOperation::Add(AddOperation {
                path: replace.path,
                value: replace.value,
            })
        }
        PatchOperation::Copy(copy) if is_missing_field(object, copy.from.as_str()) => {
            PatchOperation::Add(AddOperation {
                path: copy.path,
                value: Value::Null,
            })
        }
        other => other,
    }
}

/// Whether there is something that could have this field, and does not.
fn is_missing_field(object: &Value, path: &str) -> bool {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    object.pointer(path).is_none() && object.pointer(parent).is_some_and(Value::is_object)
}

/// JSON that is no patch; operations that nobody knows are only found when it is applied.
fn unreadable(patch: &[u8], error: &serde_json::Error) -> Failure {
    match serde_json::from_slice::<Value>(patch) {
        Ok(Value::Array(_)) => refused(),
        Ok(_) => Failure::bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        Err(_) => Failure::bad_request(format!("error decoding patch: {error}")),
    }
}

/// Upstream does not say what.
fn refused() -> Failure {
    let message = "the server rejected our request due to an error in our request";
    Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details(json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_done_in_order() {
        let original = json!({"a": [1, 2], "b": {"c~d": 1, "e/f": 2}});
        let patch = json!([
            {"op": "test", "path": "/a/0", "value": 1},
            {"op": "add", "path": "/a/-", "value": 3},
            {"op": "add", "path": "/a/0", "value": 0},
            {"op": "replace", "path": "/b/c~0d", "value": 5},
            {"op": "replace", "path": "/b/new", "value": 6},
            {"op": "remove", "path": "/b/e~1f"},
            {"op": "copy", "from": "/a", "path": "/g"},
            {"op": "move", "from": "/b", "path": "/h"},
        ]);
        let patched = apply(&original, patch.to_string().as_bytes()).unwrap();
        assert_eq!(
            patched,
            json!({"a": [0, 1, 2, 3], "g": [0, 1, 2, 3], "h": {"c~d": 5, "new": 6}})
        );
    }

    #[test]
    fn copies_are_bounded_however_they_grow() {
        let kilobyte = json!({"a": "x".repeat(1000)});
        let copy = |count: usize, path: &dyn Fn(usize) -> String| {
            let all =
                (0..count).map(|index| json!({"op": "copy", "from": "/a", "path": path(index)}));
            Value::Array(all.collect()).to_string()
        };
        let beside = |index: usize| format!("/b{index}");
        assert!(apply(&kilobyte, copy(1000, &beside).as_bytes()).is_ok());
        let failure = apply(&kilobyte, copy(4000, &beside).as_bytes()).unwrap_err();
        assert_eq!((failure.code.as_u16(), failure.reason), (422, "Invalid"));
        let inward = |count: usize, path: &dyn Fn(usize) -> String| {
            let all =
                (0..count).map(|index| json!({"op": "copy", "from": "", "path": path(index)}));
            apply(
                &json!({}),
                Value::Array(all.collect()).to_string().as_bytes(),
            )
        };
        // Each doubles the object.
        assert_eq!(inward(40, &beside).unwrap_err().code.as_u16(), 422);
        // Each puts it one level down.
        let failure = inward(130, &|_| "/b".to_owned()).unwrap_err();
        assert!(failure.message.contains("too deeply"), "{failure}");
    }

    #[test]
    fn depth_is_bounded_for_what_is_added_and_moved() {
        let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
        let below = "/a".repeat(60);
        let original = json!({"deep": deep, "other": deep});
        for patch in [
            json!([{"op": "add", "path": format!("/deep{below}"), "value": deep}]),
            json!([{"op": "replace", "path": format!("/deep{below}"), "value": deep}]),
            json!([{"op": "move", "from": "/other", "path": format!("/deep{below}")}]),
        ] {
            let failure = apply(&original, patch.to_string().as_bytes()).unwrap_err();
            assert!(failure.message.contains("too deeply"), "{failure}");
        }
        let shallow = json!([{"op": "move", "from": "/other", "path": "/deep/a/b"}]);
        assert!(apply(&original, shallow.to_string().as_bytes()).is_ok());
    }

    #[test]
    fn what_cannot_be_done_is_refused_as_a_whole() {
        let original = json!({"a": {"b": 1}});
        let cases = [
            json!([{"op": "test", "path": "/a/b", "value": 2}]),
            json!([{"op": "remove", "path": "/a/c"}]),
            json!([{"op": "replace", "path": "/x/c", "value": 2}]),
            json!([{"op": "add", "path": "/x/y", "value": 2}]),
            json!([{"op": "move", "from": "/x", "path": "/y"}]),
            json!([{"op": "jump", "path": "/x"}]),
        ];
        for patch in cases {
            let failure = apply(&original, patch.to_string().as_bytes()).unwrap_err();
            assert_eq!(
                (failure.code.as_u16(), failure.reason),
                (422, "Invalid"),
                "{patch}"
            );
        }
        let failure = apply(&original, br#"{"op": "remove"}"#).unwrap_err();
        assert_eq!(failure.code, StatusCode::BAD_REQUEST);
    }
}
