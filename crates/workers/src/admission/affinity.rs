//! Which nodes a pod wants: its node selector, and its required node affinity.

use k8s_openapi::api::core::v1::PodSpec;
pub(super) use types::node_selector::Labelled;

/// All that the selector names, and one of the affinity's terms if it has some.
pub(super) fn matches(spec: &PodSpec, node: &Labelled<'_>) -> bool {
    let mut selector = spec.node_selector.iter().flatten();
    let selected = selector.all(|(key, value)| node.label(key) == Some(value));
    let affinity = spec.affinity.as_ref();
    let required = affinity
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|of_node| {
            of_node
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        });
    selected && required.is_none_or(|required| node.is_selected(required))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::testing::pod;

    /// A node `n1` in zone `a`, with 8 of something.
    fn suits(spec: &Value) -> bool {
        let labels = [
            ("zone", "a"),
            ("slots", "8"),
            ("empty", ""),
            ("word", "eight"),
        ];
        let node = Labelled {
            name: "n1",
            labels: labels.into(),
        };
        matches(pod(spec).spec.as_ref().unwrap(), &node)
    }

    fn terms(terms: &Value) -> Value {
        json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
        } } })
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({ "key": key, "operator": operator, "values": values })
    }

    #[test]
    fn a_selector_wants_each_of_its_labels() {
        for (selector, suited) in [
            (json!({}), true),
            (json!({ "zone": "a" }), true),
            (json!({ "zone": "a", "slots": "8" }), true),
            (json!({ "zone": "b" }), false),
            (json!({ "zone": "a", "slots": "9" }), false),
            (json!({ "empty": "" }), true),
            (json!({ "missing": "" }), false),
        ] {
            let spec = json!({ "nodeSelector": selector });
            assert_eq!(suits(&spec), suited, "{spec}");
        }
    }

    #[test]
    fn an_expression_is_met_by_what_its_operator_says() {
        for (key, operator, values, met) in [
            ("zone", "In", &["b", "a"][..], true),
            ("zone", "In", &["b"], false),
            ("missing", "In", &["a"], false),
            ("missing", "In", &[""], false),
            ("zone", "NotIn", &["b"], true),
            ("zone", "NotIn", &["b", "a"], false),
            ("missing", "NotIn", &["a"], true),
            ("zone", "Exists", &[], true),
            ("empty", "Exists", &[], true),
            ("missing", "Exists", &[], false),
            ("missing", "DoesNotExist", &[], true),
            ("zone", "DoesNotExist", &[], false),
            ("slots", "Gt", &["7"], true),
            ("slots", "Gt", &["8"], false),
            ("slots", "Lt", &["10"], true),
            ("slots", "Lt", &["8"], false),
            ("word", "Gt", &["7"], false),
            ("word", "Lt", &["7"], false),
            ("missing", "Gt", &["7"], false),
            ("missing", "Lt", &["7"], false),
            // What means nothing is met by nobody.
            ("zone", "In", &[], false),
            ("zone", "NotIn", &[], false),
            ("missing", "NotIn", &["-b"], false),
            ("zone", "Exists", &["a"], false),
            ("missing", "DoesNotExist", &["a"], false),
            ("slots", "Gt", &[], false),
            ("slots", "Gt", &["1", "2"], false),
            ("slots", "Gt", &["-1"], false),
            ("slots", "Gt", &["one"], false),
            ("slots", "Lt", &["100", "200"], false),
            ("no key", "DoesNotExist", &[], false),
            ("zone", "Equals", &["a"], false),
        ] {
            let one = expression(key, operator, values);
            let spec = terms(&json!([{ "matchExpressions": [one] }]));
            assert_eq!(suits(&spec), met, "{one}");
        }
    }

    #[test]
    fn a_field_is_the_nodes_name() {
        for (key, operator, values, met) in [
            ("metadata.name", "In", &["n1"][..], true),
            ("metadata.name", "In", &["n2"], false),
            ("metadata.name", "NotIn", &["n2"], true),
            ("metadata.name", "NotIn", &["n1"], false),
            ("metadata.uid", "In", &["n1"], false),
            ("metadata.uid", "NotIn", &["n1"], true),
            ("metadata.name", "In", &["n1", "n2"], false),
            ("metadata.name", "NotIn", &["n2", "n3"], false),
            ("metadata.name", "Exists", &[], false),
            ("metadata.name", "Exists", &["n1"], false),
        ] {
            let one = expression(key, operator, values);
            let spec = terms(&json!([{ "matchFields": [one] }]));
            assert_eq!(suits(&spec), met, "{one}");
        }
    }

    #[test]
    fn one_term_is_enough_and_wants_all_of_its_parts() {
        let yes = expression("zone", "In", &["a"]);
        let no = expression("zone", "In", &["b"]);
        let here = expression("metadata.name", "In", &["n1"]);
        let there = expression("metadata.name", "In", &["n2"]);
        for (list, suited) in [
            (json!([]), false),
            (json!([{}]), false),
            (json!([{}, { "matchExpressions": [yes] }]), true),
            (json!([{ "matchExpressions": [yes, no] }]), false),
            (
                json!([{ "matchExpressions": [no] }, { "matchExpressions": [yes] }]),
                true,
            ),
            (
                json!([{ "matchExpressions": [yes], "matchFields": [here] }]),
                true,
            ),
            (
                json!([{ "matchExpressions": [yes], "matchFields": [there] }]),
                false,
            ),
            (
                json!([{ "matchExpressions": [no], "matchFields": [here] }]),
                false,
            ),
        ] {
            assert_eq!(suits(&terms(&list)), suited, "{list}");
        }
        // The selector is beside the terms, not one of them.
        let mut both = terms(&json!([{ "matchExpressions": [yes] }]));
        both["nodeSelector"] = json!({ "zone": "b" });
        assert!(!suits(&both));
    }
}
