//! `spec.nodeName=a,status.phase!=Running`.

use serde_json::Value;

use crate::Failure;
use crate::kinds::Kind;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: String,
    equal: bool,
    value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<Term>);

impl FieldSelector {
    /// Nothing selects everything. `kind` says which fields there are.
    pub fn parse(kind: &Kind, text: &str) -> Result<Self, Failure> {
        let mut parts = split(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            terms.push(term(text, part).map_err(Failure::bad_request)?);
        }
        if let Some(term) = terms.iter().find(|term| !kind.selects_by(&term.field)) {
            return Err(Failure::bad_request(unknown(kind, &term.field)));
        }
        Ok(Self(terms))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn matches(&self, kind: &Kind, object: &Value) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let fields = kind.selectable(object);
        self.0.iter().all(|term| {
            let value = match term.field.as_str() {
                "metadata.name" => object["metadata"]["name"].as_str().unwrap_or_default(),
                "metadata.namespace" => {
                    object["metadata"]["namespace"].as_str().unwrap_or_default()
                }
                field => {
                    let found = fields.iter().find(|(name, _)| *name == field);
                    found.map_or("", |(_, value)| value)
                }
            };
            (value == term.value) == term.equal
        })
    }

    /// Each field, the value, and whether it has to be that or must not be.
    pub fn terms(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        let terms = self.0.iter();
        terms.map(|term| (term.field.as_str(), term.value.as_str(), term.equal))
    }

    /// The value that a field must have, if the selector says so: a name to look up
    /// instead of a list to go through.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let found = self.0.iter().find(|term| term.equal && term.field == field);
        found.map(|term| term.value.as_str())
    }
}

/// Kinds with fields of their own have other words for those that they do not have.
fn unknown(kind: &Kind, field: &str) -> String {
    if kind.selectable(&Value::Null).is_empty() {
        format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    } else {
        format!("field label not supported: {field}")
    }
}

/// At commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, found) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if found == '\\' {
            escaped = true;
        } else if found == ',' {
            parts.push(&text[start..index]);
            start = index + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

fn term(selector: &str, part: &str) -> Result<Term, String> {
    let operators = ["!=", "==", "="];
    let found = part.char_indices().find_map(|(index, _)| {
        let operator = operators
            .into_iter()
            .find(|operator| part[index..].starts_with(operator))?;
        Some((index, operator))
    });
    let Some((index, operator)) = found else {
        return Err(format!(
            "invalid selector: '{selector}'; can't understand '{part}'"
        ));
    };
    Ok(Term {
        field: part[..index].to_owned(),
        equal: operator != "!=",
        value: unescape(&part[index + operator.len()..])?,
    })
}

fn unescape(text: &str) -> Result<String, String> {
    let mut value = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    ));
                }
            },
            // Upstream prints the number of the character.
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(letter)
                ));
            }
            other => value.push(other),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds;

    #[test]
    fn selectors_match_fields() {
        let pod = json!({"metadata": {"name": "a", "namespace": "d"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let cases = [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name==a,metadata.namespace=d", true),
            ("metadata.name!=a", false),
            (
                "spec.nodeName=n,status.phase!=Succeeded,status.phase!=Failed",
                true,
            ),
            ("spec.nodeName=", false),
            ("metadata.name=a\\,b", false),
        ];
        for (text, expected) in cases {
            let selector = FieldSelector::parse(&kinds::PODS, text).unwrap();
            assert_eq!(selector.matches(&kinds::PODS, &pod), expected, "{text}");
        }
        let selector = FieldSelector::parse(&kinds::PODS, "metadata.name=a").unwrap();
        assert_eq!(
            (
                selector.exact("metadata.name"),
                selector.exact("spec.nodeName")
            ),
            (Some("a"), None)
        );
        let node = FieldSelector::parse(&kinds::NODES, "spec.unschedulable=false").unwrap();
        assert!(node.matches(&kinds::NODES, &json!({"metadata": {"name": "n"}})));
    }

    #[test]
    fn what_is_no_selector_is_refused_in_upstreams_words() {
        let cases = [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            (
                "metadata.name=a=b",
                "invalid field selector: unescaped character in value: 61",
            ),
            (
                "metadata.name=a\\b",
                "invalid field selector: invalid escape sequence: \\b",
            ),
            ("spec.foo=a", "field label not supported: spec.foo"),
        ];
        for (text, words) in cases {
            let failure = FieldSelector::parse(&kinds::PODS, text).unwrap_err();
            assert_eq!(
                (failure.code.as_u16(), failure.message.as_str()),
                (400, words),
                "{text}"
            );
        }
        let failure = FieldSelector::parse(&kinds::CONFIG_MAPS, "data=a").unwrap_err();
        assert_eq!(
            failure.message,
            "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
    }
}
