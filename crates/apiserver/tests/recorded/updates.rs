//! Changed objects, and what is written to subresources.

use apiserver::defaults::{self, prepare};
use apiserver::{Failure, schema, validate};
use serde_json::Value;

use super::{Differences, answer, cases, in_any_order, kind_of};

const NOW: &str = "2026-01-02T03:04:05Z";

fn updated(object: Value, old: &Value, subresource: &str) -> Result<Value, Failure> {
    let kind = kind_of(old);
    let decoded = schema::decode(kind.kind, object).unwrap();
    let object = defaults::complete(kind, decoded.object).unwrap();
    let object = match subresource {
        "" => prepare::update(kind, object, old),
        subresource => prepare::update_subresource(kind, subresource, object, old, NOW),
    };
    let object = schema::tidy(kind.kind, object).unwrap();
    match subresource {
        "" => validate::update(kind, &object, old)?,
        subresource => validate::update_subresource(kind, subresource, &object, old)?,
    }
    Ok(object)
}

/// Puts `value` where a path leads, or takes away what is there.
fn change(object: &mut Value, path: &str, value: &Value) {
    let (parent, name) = path.rsplit_once('/').unwrap();
    if object.pointer(parent).is_none() {
        change(object, parent, &serde_json::json!({}));
    }
    match object.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[name.parse::<usize>().unwrap()] = value.clone(),
        Value::Object(fields) if value.is_null() => drop(fields.remove(name)),
        other => other[name] = value.clone(),
    }
}

/// Times are those of the recording, and so is a difference of upstream's own types.
fn comparable(answer: Value) -> Value {
    let mut answer = in_any_order(answer);
    let first_line = |text: &Value| {
        text.as_str()
            .map(|text| text.lines().next().unwrap_or_default().to_owned())
    };
    if answer.get("code").is_some() {
        answer["message"] = first_line(&answer["message"]).into();
        for cause in answer["details"]["causes"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            cause["message"] = first_line(&cause["message"]).into();
        }
        return answer;
    }
    if answer["status"].get("lastPhaseTransitionTime").is_some() {
        answer["status"]["lastPhaseTransitionTime"] = NOW.into();
    }
    let conditions = answer
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    for condition in conditions
        .into_iter()
        .flatten()
        .filter(|condition| condition["type"] == "Approved")
    {
        condition["lastUpdateTime"] = NOW.into();
        condition["lastTransitionTime"] = NOW.into();
    }
    answer
}

#[test]
fn updates_do_what_they_do_upstream() {
    let objects = cases(include_str!("../../testdata/updated-objects.json"));
    let mut differences = Differences::default();
    for case in cases(include_str!("../../testdata/updates.json")) {
        let named = |object: &&Value| {
            let name = object["metadata"]["name"].as_str().unwrap();
            case["of"] == format!("{}/{name}", object["kind"].as_str().unwrap())
        };
        let old = objects.iter().find(named).unwrap();
        let mut object = old.clone();
        for step in case["changes"].as_array().unwrap() {
            change(&mut object, step["path"].as_str().unwrap(), &step["value"]);
        }
        let outcome = updated(object, old, case["subresource"].as_str().unwrap());
        let ours = outcome.unwrap_or_else(|failure| answer(&failure));
        differences.compare(
            &case["about"],
            &comparable(ours),
            &comparable(case["answer"].clone()),
        );
    }
    differences.finish();
}
