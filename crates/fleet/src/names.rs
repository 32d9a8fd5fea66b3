//! Patterns of names: `node-{:05}` is node-00000, node-00001 and so on.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use types::names::{NameError, validate_dns_subdomain, validate_label_value};

use crate::spec::MOST_NODES;

/// No number of a node is longer.
const MOST_DIGITS: usize = 20;

/// How the nodes of a group are called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamePattern {
    before: String,
    after: String,
    digits: usize,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PatternError {
    #[error(
        "{0:?} has no place for a number: write {{}} or, for leading zeros, {{:05}}, as in node-{{:05}}"
    )]
    NoNumber(String),
    #[error("{0:?} has more than one place for a number: keep one")]
    TwoNumbers(String),
    #[error("{{{0}}} is no place for a number: write {{}} or, for leading zeros, {{:05}}")]
    Malformed(String),
    #[error("nodes cannot be called {name}: {cause}")]
    Name { name: String, cause: NameError },
}

impl NamePattern {
    pub fn name(&self, number: usize) -> String {
        let Self {
            before,
            after,
            digits,
        } = self;
        format!("{before}{number:0digits$}{after}")
    }
}

impl FromStr for NamePattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let missing = || PatternError::NoNumber(text.to_owned());
        let (before, rest) = text.split_once('{').ok_or_else(missing)?;
        let (inside, after) = rest.split_once('}').ok_or_else(missing)?;
        if after.contains(['{', '}']) {
            return Err(PatternError::TwoNumbers(text.to_owned()));
        }
        let malformed = || PatternError::Malformed(inside.to_owned());
        let digits = match inside.strip_prefix(":0") {
            None if inside.is_empty() => 0,
            None => return Err(malformed()),
            Some(digits) => digits.parse().map_err(|_| malformed())?,
        };
        if digits > MOST_DIGITS {
            return Err(malformed());
        }
        let pattern = Self {
            before: before.to_owned(),
            after: after.to_owned(),
            digits,
        };
        // As long as any: the hostname label is made of it.
        let name = pattern.name(MOST_NODES);
        match validate_dns_subdomain(&name).and(validate_label_value(&name)) {
            Ok(()) => Ok(pattern),
            Err(cause) => Err(PatternError::Name { name, cause }),
        }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            before,
            after,
            digits,
        } = self;
        match digits {
            0 => write!(formatter, "{before}{{}}{after}"),
            _ => write!(formatter, "{before}{{:0{digits}}}{after}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_nodes_by_their_numbers() {
        for (pattern, number, name) in [
            ("node-{:05}", 7, "node-00007"),
            ("node-{:05}", 1_234_567, "node-1234567"),
            ("n{}.example", 7, "n7.example"),
            ("{:03}", 0, "000"),
        ] {
            let read: NamePattern = pattern.parse().unwrap();
            assert_eq!(read.name(number), name);
            assert_eq!(read.to_string(), pattern);
        }
    }

    #[test]
    fn what_is_no_pattern_says_what_is() {
        for (text, words) in [
            ("node", "no place for a number"),
            ("node-{", "no place for a number"),
            ("a{}b{}", "more than one"),
            ("a{:5}", "leading zeros"),
            ("a{:099}", "leading zeros"),
            ("a{x}", "leading zeros"),
            ("Node-{}", "cannot be called Node-100000"),
            ("node-{}-", "cannot be called"),
        ] {
            let error = text.parse::<NamePattern>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
