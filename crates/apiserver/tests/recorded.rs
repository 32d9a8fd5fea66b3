//! What a kube-apiserver v1.36.4 answered, and what we make of the same requests. The
//! answers were recorded in the lab (dry runs, lists); uids, times and managed fields are
//! not part of them.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test panics to say no")]

#[path = "recorded/creates.rs"]
mod creates;
#[path = "recorded/discovered.rs"]
mod discovered;
#[path = "recorded/patches.rs"]
mod patches;
#[path = "recorded/selected.rs"]
mod selected;
#[path = "recorded/tables.rs"]
mod tables;
#[path = "recorded/updates.rs"]
mod updates;

use apiserver::Failure;
use apiserver::kinds::{self, Kind};
use serde_json::{Value, json};

fn kind_of(object: &Value) -> &'static Kind {
    let text = |name: &str| object[name].as_str().unwrap();
    kinds::find_kind(text("apiVersion"), text("kind")).unwrap()
}

fn cases(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

/// As the answers are recorded.
fn answer(failure: &Failure) -> Value {
    let mut status = json!({"code": failure.code.as_u16(), "reason": failure.reason, "message": failure.message, "details": null});
    if !failure.details.is_null() {
        status["details"] = failure.details.clone();
    }
    status
}

/// Upstream looks through maps in no order, and prints some values as its own types.
fn in_any_order(mut answer: Value) -> Value {
    let Some(causes) = answer
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut)
    else {
        return answer;
    };
    for cause in causes.iter_mut() {
        let text = cause["message"].as_str().unwrap_or_default();
        let printed = ["Invalid value: {", "Invalid value: [{"];
        if printed.iter().any(|begin| text.starts_with(begin)) {
            let end = text.rsplit_once(": ").map_or("", |(_, end)| end);
            cause["message"] = format!("Invalid value: {end}").into();
        }
    }
    causes.sort_by_key(Value::to_string);
    if causes.len() > 1
        || answer["message"]
            .as_str()
            .is_some_and(|text| text.contains("{\""))
    {
        // It says the same again, in that order.
        answer["message"] = Value::Null;
    }
    answer
}

/// Everything that differs, one line each.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, about: &Value, ours: &Value, theirs: &Value) {
        self.at(&about.to_string(), ours, theirs);
    }

    fn at(&mut self, path: &str, ours: &Value, theirs: &Value) {
        match (ours, theirs) {
            (left, right) if left == right => {}
            (Value::Object(left), Value::Object(right)) => {
                for name in left
                    .keys()
                    .chain(right.keys().filter(|name| !left.contains_key(*name)))
                {
                    let value = |map: &serde_json::Map<String, Value>| {
                        map.get(name).cloned().unwrap_or(json!("(absent)"))
                    };
                    self.at(&format!("{path}/{name}"), &value(left), &value(right));
                }
            }
            (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
                for (index, (left, right)) in left.iter().zip(right).enumerate() {
                    self.at(&format!("{path}/{index}"), left, right);
                }
            }
            (left, right) => self
                .0
                .push(format!("{path}\n   ours: {left}\n  their: {right}")),
        }
    }

    fn finish(self) {
        assert!(
            self.0.is_empty(),
            "{} differences:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}
