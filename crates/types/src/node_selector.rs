//! What nodes somebody selects: terms over labels and the name. Pods do, and volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

use crate::names::{validate_label_key, validate_label_value};

/// What a node can be selected by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labelled<'a> {
    pub name: &'a str,
    pub labels: BTreeMap<&'a str, &'a str>,
}

impl Labelled<'_> {
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).copied()
    }

    /// One of the terms is enough.
    pub fn is_selected(&self, selector: &NodeSelector) -> bool {
        let mut terms = selector.node_selector_terms.iter();
        terms.any(|term| self.meets(term))
    }

    /// An empty term is met by nobody, and so is one with a part that means nothing.
    fn meets(&self, term: &NodeSelectorTerm) -> bool {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        if expressions.is_empty() && fields.is_empty() {
            return false;
        }
        let by_labels = expressions
            .iter()
            .all(|expression| self.meets_expression(expression) == Some(true));
        let by_fields = fields
            .iter()
            .all(|field| self.meets_field(field) == Some(true));
        by_labels && by_fields
    }

    /// Nothing if the expression means nothing.
    fn meets_expression(&self, expression: &NodeSelectorRequirement) -> Option<bool> {
        let values = expression.values.as_deref().unwrap_or_default();
        validate_label_key(&expression.key).ok()?;
        for value in values {
            validate_label_value(value).ok()?;
        }
        let label = self.label(&expression.key);
        let is_listed = |label: &str| values.iter().any(|value| value == label);
        match expression.operator.as_str() {
            "In" if !values.is_empty() => Some(label.is_some_and(is_listed)),
            "NotIn" if !values.is_empty() => Some(!label.is_some_and(is_listed)),
            "Exists" if values.is_empty() => Some(label.is_some()),
            "DoesNotExist" if values.is_empty() => Some(label.is_none()),
            "Gt" => {
                let bound = only_number(values)?;
                Some(number(label).is_some_and(|label| label > bound))
            }
            "Lt" => {
                let bound = only_number(values)?;
                Some(number(label).is_some_and(|label| label < bound))
            }
            _ => None,
        }
    }

    /// The name is the only field there is; any other is empty. A node without a name
    /// is not asked for it.
    fn meets_field(&self, field: &NodeSelectorRequirement) -> Option<bool> {
        let [value] = field.values.as_deref().unwrap_or_default() else {
            return None;
        };
        let found = match field.key.as_str() {
            "metadata.name" => self.name,
            _ => "",
        };
        match field.operator.as_str() {
            "In" => Some(self.name.is_empty() || found == value),
            "NotIn" => Some(self.name.is_empty() || found != value),
            _ => None,
        }
    }
}

fn only_number(values: &[String]) -> Option<i64> {
    match values {
        [value] => number(Some(value)),
        _ => None,
    }
}

fn number(text: Option<&str>) -> Option<i64> {
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(key: &str, operator: &str, values: &[&str]) -> NodeSelectorTerm {
        NodeSelectorTerm {
            match_expressions: Some(vec![NodeSelectorRequirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: Some(values.iter().map(|&value| value.to_owned()).collect()),
            }]),
            match_fields: None,
        }
    }

    #[test]
    fn one_term_that_is_met_selects_and_none_does_not() {
        let node = Labelled {
            name: "",
            labels: [("zone", "a")].into(),
        };
        let cases = [
            (vec![term("zone", "In", &["a"])], true),
            (vec![term("zone", "In", &["b"])], false),
            (
                vec![term("zone", "In", &["b"]), term("zone", "Exists", &[])],
                true,
            ),
            (vec![], false),
        ];
        for (node_selector_terms, wanted) in cases {
            let selector = NodeSelector {
                node_selector_terms,
            };
            assert_eq!(node.is_selected(&selector), wanted, "{selector:?}");
        }
    }
}
