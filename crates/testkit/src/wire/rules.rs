//! What two nodes asked their runtimes for one pod, compared. Pure.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// One call for a pod, in words.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) label: String,
    pub(super) request: Value,
}

/// One thing that two nodes do not do alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which: `order`, or a call and the field in its request.
    pub path: String,
    pub first: String,
    pub second: String,
}

/// What stands for a field that is not there.
const NOTHING: &str = "–";

/// The order of calls first, then each call that both made.
pub(super) fn compare(first: &[Asked], second: &[Asked]) -> Vec<Difference> {
    let mut differences = Vec::new();
    let order = |asked: &[Asked]| {
        let labels: Vec<&str> = asked.iter().map(|asked| asked.label.as_str()).collect();
        labels.join(", ")
    };
    if order(first) != order(second) {
        differences.push(Difference {
            path: "order".to_owned(),
            first: order(first),
            second: order(second),
        });
    }
    for asked in first {
        let mut others = second.iter();
        if let Some(other) = others.find(|other| other.label == asked.label) {
            let (first, second) = (Some(&asked.request), Some(&other.request));
            fields(&mut differences, &asked.label, first, second);
        }
    }
    differences
}

/// Fields of objects by name, items of lists by place.
fn fields(found: &mut Vec<Difference>, path: &str, first: Option<&Value>, second: Option<&Value>) {
    if first == second {
        return;
    }
    match (first, second) {
        (Some(Value::Object(first)), Some(Value::Object(second))) => {
            let keys: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                fields(found, &path, first.get(key), second.get(key));
            }
        }
        (Some(Value::Array(first)), Some(Value::Array(second))) => {
            for place in 0..first.len().max(second.len()) {
                let path = format!("{path}[{place}]");
                fields(found, &path, first.get(place), second.get(place));
            }
        }
        _ => found.push(Difference {
            path: path.to_owned(),
            first: shown(first),
            second: shown(second),
        }),
    }
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => NOTHING.to_owned(),
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// For a look after the run.
pub(super) fn to_json(asked: &[Asked]) -> Value {
    let calls = asked.iter();
    let calls = calls.map(|asked| json!({"call": asked.label, "request": asked.request}));
    Value::Array(calls.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(label: &str, request: Value) -> Asked {
        Asked {
            label: label.to_owned(),
            request,
        }
    }

    fn told(first: &[Asked], second: &[Asked]) -> Vec<(String, String, String)> {
        let differences = compare(first, second).into_iter();
        differences
            .map(|found| (found.path, found.first, found.second))
            .collect()
    }

    #[test]
    fn equal_calls_in_equal_order_do_not_differ() {
        let calls = [asked("RunPodSandbox#0", json!({"a": [1, {"b": "c"}]}))];
        assert_eq!(told(&calls, &calls), []);
    }

    #[test]
    fn each_field_that_differs_is_told_with_its_place() {
        let first = json!({"tty": true, "mounts": [{"path": "/a"}, {"path": "/b"}], "x": {"y": 1}});
        let second = json!({"mounts": [{"path": "/a"}, {"path": "/c"}, {"path": "/b"}], "x": {}});
        let differences = told(
            &[asked("CreateContainer main#0", first)],
            &[asked("CreateContainer main#0", second)],
        );
        let paths: Vec<&str> = differences.iter().map(|(path, ..)| path.as_str()).collect();
        let expected = [
            "CreateContainer main#0.mounts[1].path",
            "CreateContainer main#0.mounts[2]",
            "CreateContainer main#0.tty",
            "CreateContainer main#0.x.y",
        ];
        assert_eq!(paths, expected);
        assert_eq!(differences[0].1, "/b");
        assert_eq!(differences[0].2, "/c");
        assert_eq!(differences[1].1, NOTHING);
        assert_eq!(differences[3].1, "1");
    }

    #[test]
    fn another_order_and_a_call_that_one_does_not_make_differ() {
        let call = |label: &str| asked(label, json!({}));
        let (one, two) = (call("PullImage a"), call("RunPodSandbox#0"));
        let differences = told(&[one.clone(), two.clone()], &[two.clone(), one.clone()]);
        let order = "PullImage a, RunPodSandbox#0".to_owned();
        assert_eq!(differences.len(), 1);
        assert_eq!(differences[0].0, "order");
        assert_eq!(differences[0].1, order);
        assert_eq!(told(&[one.clone(), two], &[one]).len(), 1);
    }

    #[test]
    fn a_text_that_is_empty_is_not_the_same_as_none() {
        let first = asked("a", json!({"x": ""}));
        let second = asked("a", json!({}));
        let differences = told(&[first], &[second]);
        let expected = ("a.x".to_owned(), "\"\"".to_owned(), NOTHING.to_owned());
        assert_eq!(differences, [expected]);
    }
}
