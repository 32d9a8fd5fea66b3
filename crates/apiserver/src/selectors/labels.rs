//! `app=web,tier in (a, b),!old`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Failure;
use crate::validate::Errors;
use crate::validate::names;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Equals,
    NotEquals,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// One of the conditions that all must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    pub values: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Nothing selects everything.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let mut parser = Parser {
            items: scan(text),
            position: 0,
        };
        parser.selector().map(Self).map_err(Failure::bad_request)
    }

    /// `metadata.labels` of `object` satisfy all requirements.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|requirement| requirement.matches(labels))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }
}

impl Requirement {
    fn matches(&self, labels: &Value) -> bool {
        self.holds(labels.get(&self.key).and_then(Value::as_str))
    }

    /// Whether the label may have this value, or be missing.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let compared = || {
            let wanted = self.values.first()?.parse::<i64>().ok()?;
            Some(value?.parse::<i64>().ok()?.cmp(&wanted))
        };
        match self.operator {
            Operator::In | Operator::Equals => {
                value.is_some_and(|value| self.values.contains(value))
            }
            Operator::NotIn | Operator::NotEquals => {
                value.is_none_or(|value| !self.values.contains(value))
            }
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => compared().is_some_and(std::cmp::Ordering::is_gt),
            Operator::LessThan => compared().is_some_and(std::cmp::Ordering::is_lt),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Identifier,
    Symbol,
    /// `in` and `notin`, which are identifiers where values are expected.
    Keyword,
    Unknown,
    End,
}

type Item = (Token, String);

fn scan(text: &str) -> Vec<Item> {
    let is_special = |found: char| "=!(),><".contains(found);
    let mut items = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next() else {
            items.push((Token::End, String::new()));
            return items;
        };
        let item = if is_special(first) {
            special(rest)
        } else {
            let end = rest.find(|found: char| is_special(found) || " \t\r\n".contains(found));
            let word = &rest[..end.unwrap_or(rest.len())];
            let keyword = matches!(word, "in" | "notin");
            (
                if keyword {
                    Token::Keyword
                } else {
                    Token::Identifier
                },
                word.to_owned(),
            )
        };
        rest = &rest[item.1.len()..];
        items.push(item);
    }
}

/// The longest symbol at the beginning.
fn special(rest: &str) -> Item {
    let symbols = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    match symbols.into_iter().find(|symbol| rest.starts_with(symbol)) {
        Some(symbol) => (Token::Symbol, symbol.to_owned()),
        None => (Token::Unknown, rest.to_owned()),
    }
}

struct Parser {
    items: Vec<Item>,
    position: usize,
}

impl Parser {
    fn ahead(&self) -> Item {
        self.items
            .get(self.position)
            .cloned()
            .unwrap_or((Token::End, String::new()))
    }

    fn next(&mut self) -> Item {
        let item = self.ahead();
        self.position += 1;
        item
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            let (token, text) = self.ahead();
            if token == Token::End {
                return Ok(sorted(requirements));
            }
            if !starts_requirement(&token, &text) {
                return Err(format!(
                    "found '{text}', expected: !, identifier, or 'end of string'"
                ));
            }
            let requirement = self.requirement();
            requirements.push(
                requirement.map_err(|error| format!("unable to parse requirement: {error}"))?,
            );
            match self.next() {
                (Token::End, _) => return Ok(sorted(requirements)),
                (Token::Symbol, comma) if comma == "," => {
                    let (token, text) = self.ahead();
                    if !starts_requirement(&token, &text) {
                        return Err(format!("found '{text}', expected: identifier after ','"));
                    }
                }
                (_, text) => {
                    return Err(format!("found '{text}', expected: ',' or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut token, mut key) = self.next();
        let absent = token == Token::Symbol && key == "!";
        if absent {
            (token, key) = self.next();
        }
        if !is_identifier(&token) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let findings = names::qualified_name(&key);
        if !findings.is_empty() {
            let mut errors = Errors::default();
            errors.invalid("<nil>", key, &findings.join("; "));
            return Err(errors.words());
        }
        if self.at_end_of_requirement() {
            let operator = if absent {
                Operator::DoesNotExist
            } else {
                Operator::Exists
            };
            return Ok(Requirement {
                key,
                operator,
                values: BTreeSet::new(),
            });
        }
        if absent {
            // Upstream takes the operator for a requirement without values.
            return Ok(Requirement {
                key,
                operator: Operator::DoesNotExist,
                values: BTreeSet::new(),
            });
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => self.exact_value()?,
        };
        check(&key, operator, &values)?;
        Ok(Requirement {
            key,
            operator,
            values,
        })
    }

    fn at_end_of_requirement(&self) -> bool {
        matches!(self.ahead(), (Token::End, _)) || self.ahead() == (Token::Symbol, ",".to_owned())
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let (_, text) = self.next();
        Ok(match text.as_str() {
            "in" => Operator::In,
            "notin" => Operator::NotIn,
            "=" | "==" => Operator::Equals,
            "!=" => Operator::NotEquals,
            ">" => Operator::GreaterThan,
            "<" => Operator::LessThan,
            _ => {
                return Err(format!(
                    "found '{text}', expected: in, notin, =, ==, !=, gt, lt"
                ));
            }
        })
    }

    /// `(a, b)`; an empty place is the empty value.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let (_, open) = self.next();
        if open != "(" {
            return Err(format!("found '{open}' expected: '('"));
        }
        let mut values = BTreeSet::new();
        let mut expects_value = true;
        loop {
            let (token, text) = self.next();
            match (token, text.as_str()) {
                (Token::Symbol, ",") => {
                    if expects_value {
                        values.insert(String::new());
                    }
                    expects_value = true;
                }
                (Token::Symbol, ")") => {
                    if expects_value {
                        values.insert(String::new());
                    }
                    return Ok(values);
                }
                (token, _) if is_identifier(&token) && expects_value => {
                    values.insert(text);
                    expects_value = false;
                }
                _ if expects_value => {
                    return Err(format!("found '{text}', expected: ',', ')' or identifier"));
                }
                _ => return Err(format!("found '{text}', expected: ',' or ')'")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<BTreeSet<String>, String> {
        if self.at_end_of_requirement() {
            return Ok(BTreeSet::from([String::new()]));
        }
        let (token, text) = self.next();
        if is_identifier(&token) {
            Ok(BTreeSet::from([text]))
        } else {
            Err(format!("found '{text}', expected: identifier"))
        }
    }
}

fn is_identifier(token: &Token) -> bool {
    matches!(token, Token::Identifier | Token::Keyword)
}

fn starts_requirement(token: &Token, text: &str) -> bool {
    is_identifier(token) || *token == Token::Symbol && text == "!"
}

fn sorted(mut requirements: Vec<Requirement>) -> Vec<Requirement> {
    requirements.sort_by(|left, right| left.key.cmp(&right.key));
    requirements
}

fn check(key: &str, operator: Operator, values: &BTreeSet<String>) -> Result<(), String> {
    let mut errors = Errors::default();
    for (index, value) in values.iter().enumerate() {
        let compares = matches!(operator, Operator::GreaterThan | Operator::LessThan);
        if compares && value.parse::<i64>().is_err() {
            let rule = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.invalid(format!("values[{index}]"), value.as_str(), rule);
        }
        let findings = names::label_value(value);
        if !findings.is_empty() {
            errors.invalid(
                format!("values[{index}][{key}]"),
                value.as_str(),
                &findings.join("; "),
            );
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.words())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_match_labels() {
        let object = json!({"metadata": {"labels": {"app": "web", "n": "5", "in": "x"}}});
        let cases = [
            ("", true),
            ("app", true),
            ("app=web", true),
            ("app==web, n", true),
            ("app=db", false),
            ("app!=db", true),
            ("other!=db", true),
            ("!other", true),
            ("!app", false),
            ("app in (db, web)", true),
            ("app notin (db,web)", false),
            ("other notin (db)", true),
            ("n>4", true),
            ("n > 5", false),
            ("n<6,app", true),
            ("app>4", false),
            ("other=", false),
            ("app in (,)", false),
            ("in=x", true),
            ("in in (x)", true),
        ];
        for (text, expected) in cases {
            assert_eq!(
                LabelSelector::parse(text).unwrap().matches(&object),
                expected,
                "{text}"
            );
        }
        assert!(
            LabelSelector::parse("a=")
                .unwrap()
                .matches(&json!({"metadata": {"labels": {"a": ""}}}))
        );
        assert!(!LabelSelector::parse("a").unwrap().matches(&json!({})));
    }

    #[test]
    fn what_is_no_selector_is_refused_in_upstreams_words() {
        let cases = [
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            (
                "=a",
                "found '=', expected: !, identifier, or 'end of string'",
            ),
            ("a,", "found '', expected: identifier after ','"),
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "a in b",
                "unable to parse requirement: found 'b' expected: '('",
            ),
            (
                "a in (b",
                "unable to parse requirement: found '', expected: ',' or ')'",
            ),
            (
                "a=(",
                "unable to parse requirement: found '(', expected: identifier",
            ),
            (
                "!=a",
                "found '!=', expected: !, identifier, or 'end of string'",
            ),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ];
        for (text, words) in cases {
            let failure = LabelSelector::parse(text).unwrap_err();
            assert_eq!(
                (failure.code.as_u16(), failure.message.as_str()),
                (400, words),
                "{text}"
            );
        }
        let failure = LabelSelector::parse("a b c/d/e=f").unwrap_err();
        assert!(
            failure
                .message
                .starts_with("unable to parse requirement: found 'b'")
        );
        let failure = LabelSelector::parse("-a=f").unwrap_err();
        assert!(
            failure.message.starts_with(
                "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist"
            ),
            "{}",
            failure.message
        );
        let failure = LabelSelector::parse("a=-f").unwrap_err();
        assert!(
            failure.message.starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-f\": a valid label must be"),
            "{}", failure.message
        );
    }
}
