//! New objects: what they become, or why they are refused.

use apiserver::defaults::{self, admit, prepare};
use apiserver::{Failure, schema, validate};
use serde_json::{Value, json};

use super::{Differences, answer, cases, in_any_order, kind_of};

const NOW: &str = "2026-01-02T03:04:05Z";

fn created(object: &Value, strict: bool) -> Result<Value, Failure> {
    let text = object.to_string();
    created_from(&text, strict)
}

fn created_from(text: &str, strict: bool) -> Result<Value, Failure> {
    let (object, duplicates) = schema::read(text.as_bytes()).unwrap();
    let kind = kind_of(&object);
    let refused = |error: String| Failure::bad_request(schema::not_handled(kind, &error));
    let decoded = schema::decode(kind.kind, object).map_err(|error| refused(error.to_string()))?;
    let findings = schema::strict_findings(&decoded.unknown, &duplicates);
    if strict && !findings.is_empty() {
        return Err(refused(schema::strict_error(&findings)));
    }
    let mut object = decoded.object;
    if kind.namespaced {
        object["metadata"]["namespace"] = "default".into();
    }
    let mut object = defaults::complete(kind, object).unwrap();
    if kind.kind == "Pod" {
        let account = json!({"metadata": {"name": "default"}});
        let known = admit::service_account_name(&object) == "default";
        let surroundings = admit::Surroundings {
            service_account: known.then_some(&account),
            runtime_class: None,
            suffix: "abcde",
        };
        object = admit::pod(object, surroundings)?;
    }
    if kind.kind == "Node" {
        object = admit::node(object);
    }
    if object["spec"]["clusterIP"] == "None" {
        object = defaults::with_address(object, "None");
    }
    let object = prepare::create(kind, object, NOW);
    let object = schema::tidy(kind.kind, object).unwrap();
    validate::create(kind, &object)?;
    Ok(object)
}

/// What is set by whoever stores an object, or is not there yet.
fn comparable(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        // Protection of volumes in use has no controller here.
        let protected = |finalizers: &Value| finalizers.to_string().contains("-protection");
        if metadata.get("finalizers").is_some_and(protected) {
            metadata.remove("finalizers");
        }
    }
    if object["kind"] == "CertificateSigningRequest"
        && let Some(spec) = object["spec"].as_object_mut()
    {
        // Who asks is known to who authenticates.
        for name in ["username", "groups", "extra", "uid"] {
            spec.remove(name);
        }
    }
    if object["status"]["lastPhaseTransitionTime"].is_string() {
        object["status"]["lastPhaseTransitionTime"] = NOW.into();
    }
    for condition in object["status"]["conditions"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        condition["lastTransitionTime"] = NOW.into();
    }
    object
}

#[test]
fn objects_become_what_upstream_makes_of_them_or_are_refused_in_its_words() {
    let mut differences = Differences::default();
    for case in cases(include_str!("../../testdata/creates.json")) {
        let ours = match created(&case["object"], false) {
            Ok(object) => comparable(object),
            Err(failure) => answer(&failure),
        };
        let theirs = if case["answer"].get("code").is_some() {
            case["answer"].clone()
        } else {
            comparable(case["answer"].clone())
        };
        let (ours, theirs) = (in_any_order(ours), in_any_order(theirs));
        differences.compare(&case["about"], &ours, &theirs);
    }
    differences.finish();
}

#[test]
fn strict_readers_refuse_what_they_do_not_know() {
    let mut differences = Differences::default();
    for case in cases(include_str!("../../testdata/strict.json")) {
        let text = case["text"]
            .as_str()
            .map_or_else(|| case["object"].to_string(), str::to_owned);
        let ours = created_from(&text, true).unwrap_or_else(|failure| answer(&failure));
        differences.compare(&case["about"], &ours, &case["answer"]);
    }
    differences.finish();
}
