//! What Kubernetes allows as a name: label keys and values, DNS names.

use thiserror::Error;

/// The longest DNS label, label value, and name part of a label key.
const MAX_LABEL: usize = 63;
/// The longest DNS subdomain.
const MAX_SUBDOMAIN: usize = 253;

/// Why a text cannot serve as a name, and what could.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{value:?} is not a valid {kind}: {problem}")]
pub struct NameError {
    value: String,
    kind: &'static str,
    problem: Problem,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
enum Problem {
    #[error("the {part} must not be empty")]
    Empty { part: &'static str },
    #[error("the {part} must be no longer than {limit} characters")]
    TooLong { part: &'static str, limit: usize },
    #[error("{rule}")]
    Characters { rule: &'static str },
}

const LABEL_NAME_RULE: &str = "the name must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit (MyName, my.name, 123-abc)";
const LABEL_KEY_RULE: &str =
    "at most one '/' may divide it into a DNS subdomain and a name (example.com/MyName)";
const PREFIX_RULE: &str = "the part before '/' must be a DNS subdomain: lower-case letters, digits, '-' and '.', each part beginning and ending with a letter or digit (example.com)";
const LABEL_VALUE_RULE: &str = "it must be empty, or consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit (MyValue, my_value, 12345)";
const DNS_LABEL_RULE: &str = "it must consist of lower-case letters, digits and '-', and begin and end with a letter or digit (my-name, 123-abc)";
const DNS_LABEL_DOT_RULE: &str = "it must not contain dots";
const DNS_SUBDOMAIN_RULE: &str = "it must consist of lower-case letters, digits, '-' and '.', and each part between dots must begin and end with a letter or digit (example.com)";

/// Checks a label key, which upstream also calls a qualified name:
/// `name` or `dns.subdomain/name`.
pub fn validate_label_key(key: &str) -> Result<(), NameError> {
    let check = |problem: Result<(), Problem>| problem.map_err(|p| error("label key", key, p));
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.contains('/') {
        return check(Err(Problem::Characters {
            rule: LABEL_KEY_RULE,
        }));
    }
    if let Some(prefix) = prefix {
        check(length("part before '/'", prefix, 1, MAX_SUBDOMAIN))?;
        check(rule(is_dns_subdomain(prefix), PREFIX_RULE))?;
    }
    check(length("name", name, 1, MAX_LABEL))?;
    check(rule(is_label_name(name), LABEL_NAME_RULE))
}

/// Checks the value of a label, which may be empty.
pub fn validate_label_value(value: &str) -> Result<(), NameError> {
    length("value", value, 0, MAX_LABEL)
        .and_then(|()| rule(value.is_empty() || is_label_name(value), LABEL_VALUE_RULE))
        .map_err(|problem| error("label value", value, problem))
}

/// Checks a label of the domain name system (RFC 1123), such as a namespace.
pub fn validate_dns_label(name: &str) -> Result<(), NameError> {
    let dots_only = !is_dns_label(name) && is_dns_subdomain(name);
    length("name", name, 1, MAX_LABEL)
        .and_then(|()| rule(!dots_only, DNS_LABEL_DOT_RULE))
        .and_then(|()| rule(is_dns_label(name), DNS_LABEL_RULE))
        .map_err(|problem| error("DNS label", name, problem))
}

/// Checks a name of the domain name system (RFC 1123), such as a pod's name.
pub fn validate_dns_subdomain(name: &str) -> Result<(), NameError> {
    length("name", name, 1, MAX_SUBDOMAIN)
        .and_then(|()| rule(is_dns_subdomain(name), DNS_SUBDOMAIN_RULE))
        .map_err(|problem| error("DNS subdomain", name, problem))
}

fn error(kind: &'static str, value: &str, problem: Problem) -> NameError {
    NameError {
        value: value.to_owned(),
        kind,
        problem,
    }
}

fn length(part: &'static str, text: &str, least: usize, limit: usize) -> Result<(), Problem> {
    match text.len() {
        length if length < least => Err(Problem::Empty { part }),
        length if length > limit => Err(Problem::TooLong { part, limit }),
        _ => Ok(()),
    }
}

fn rule(kept: bool, rule: &'static str) -> Result<(), Problem> {
    if kept {
        Ok(())
    } else {
        Err(Problem::Characters { rule })
    }
}

fn is_dns_label(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    is_made_of(text, alphanumeric, |byte| byte == b'-')
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_label_name(text: &str) -> bool {
    is_made_of(
        text,
        |byte| byte.is_ascii_alphanumeric(),
        |byte| b"-_.".contains(&byte),
    )
}

/// Whether `text` is not empty, begins and ends with an outer character, and
/// has only outer and inner ones.
fn is_made_of(text: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| outer(*byte))
        && bytes.last().is_some_and(|byte| outer(*byte))
        && bytes.iter().all(|byte| outer(*byte) || inner(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(validate: fn(&str) -> Result<(), NameError>, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(validate(text), Ok(()), "{text:?}");
        }
        for text in bad {
            assert!(validate(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn a_label_key_is_a_name_with_an_optional_dns_prefix() {
        let longest = format!("{}/{}", "a".repeat(253), "b".repeat(63));
        check(
            validate_label_key,
            &[
                "a",
                "A",
                "1",
                "my.name",
                "a_b-c.D",
                "example.com/MyName",
                "x/y",
                &longest,
            ],
            &[
                "",
                "/",
                "/name",
                "example.com/",
                "a/b/c",
                "Example.com/a",
                "-a",
                "a-",
                ".a",
                "_",
                "a b",
                "caf\u{e9}",
                "a\n",
                "exa_mple.com/a",
                "example..com/a",
                &"a".repeat(64),
                &format!("{}/a", "a".repeat(254)),
            ],
        );
    }

    #[test]
    fn a_label_value_may_be_empty() {
        check(
            validate_label_value,
            &["", "a", "MyValue", "my_value", "1.2-3", &"a".repeat(63)],
            &["-", "a/b", "a=b", " ", "a ", ".", &"a".repeat(64)],
        );
    }

    #[test]
    fn a_dns_label_has_no_dots_and_no_capitals() {
        check(
            validate_dns_label,
            &["a", "0", "kube-system", &"a".repeat(63)],
            &["", "a.b", "A", "-a", "a-", "a_b", &"a".repeat(64)],
        );
    }

    #[test]
    fn a_dns_subdomain_is_dns_labels_between_dots_of_any_length() {
        check(
            validate_dns_subdomain,
            &["a", "example.com", "0.0", "a-b.c-d", &"a".repeat(253)],
            &[
                "",
                ".",
                "a.",
                ".a",
                "a..b",
                "a.-b",
                "a-.b",
                "A.b",
                "a_b",
                &"a".repeat(254),
            ],
        );
    }

    #[test]
    fn an_error_names_the_value_and_what_is_allowed() {
        let message = |result: Result<(), NameError>| result.unwrap_err().to_string();
        assert_eq!(
            message(validate_dns_label("a.b")),
            r#""a.b" is not a valid DNS label: it must not contain dots"#
        );
        assert_eq!(
            message(validate_label_key("example.com/")),
            r#""example.com/" is not a valid label key: the name must not be empty"#
        );
        assert_eq!(
            message(validate_label_value(&"a".repeat(64))),
            format!(
                r#""{}" is not a valid label value: the value must be no longer than 63 characters"#,
                "a".repeat(64)
            )
        );
    }
}
