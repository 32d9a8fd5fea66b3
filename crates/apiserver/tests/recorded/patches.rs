//! Patches of two stored objects.

use apiserver::defaults::{self, prepare};
use apiserver::{Failure, patch, schema, validate};
use serde_json::Value;

use super::{Differences, answer, cases, kind_of};

fn patched(case: &Value, original: &Value) -> Result<Value, Failure> {
    let kind = kind_of(original);
    let text = case["patch"].to_string();
    let patched = patch::apply(
        case["type"].as_str().unwrap(),
        kind.kind,
        original,
        text.as_bytes(),
    )?;
    let decoded = schema::decode(kind.kind, patched.clone());
    let decoded = decoded.map_err(|error| patch::no_object(&patched, &error.to_string()))?;
    let name = |object: &Value| {
        object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    if name(&decoded.object) != name(original) {
        let message = format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            name(&decoded.object),
            name(original)
        );
        return Err(Failure::bad_request(message));
    }
    let object = defaults::complete(kind, decoded.object).unwrap();
    let object = prepare::update(kind, object, original);
    validate::update(kind, &object, original)?;
    Ok(object)
}

/// Upstream shows a difference of its own types, and the order of its own fields.
fn comparable(mut answer: Value) -> Value {
    let first_line = |text: &Value| {
        text.as_str()
            .map(|text| text.lines().next().unwrap_or_default().to_owned())
    };
    if answer.get("code").is_none() {
        return answer;
    }
    if answer["message"]
        .as_str()
        .is_some_and(|text| text.contains("patch: Invalid value"))
    {
        let end = answer["message"]
            .as_str()
            .and_then(|text| text.rsplit_once("\": "))
            .map(|(_, end)| end.to_owned());
        answer["message"] = end.into();
        answer["details"] = Value::Null;
    }
    answer["message"] = first_line(&answer["message"]).into();
    for cause in answer["details"]["causes"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        cause["message"] = first_line(&cause["message"]).into();
    }
    answer
}

#[test]
fn patches_do_what_they_do_upstream() {
    let originals = cases(include_str!("../../testdata/patched-objects.json"));
    let mut differences = Differences::default();
    for case in cases(include_str!("../../testdata/patches.json")) {
        let original = originals
            .iter()
            .find(|object| object["kind"] == case["kind"])
            .unwrap();
        let ours = patched(&case, original).unwrap_or_else(|failure| answer(&failure));
        differences.compare(
            &case["about"],
            &comparable(ours),
            &comparable(case["answer"].clone()),
        );
    }
    differences.finish();
}
