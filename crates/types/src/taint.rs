//! Taints, as `--register-with-taints` takes them.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::names::{NameError, validate_label_key, validate_label_value};

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// A mark on a node that keeps pods away.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: TaintEffect,
}

/// Why a text is not a taint, or a list of them.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TaintError {
    #[error("{text:?} is not a taint: write key=value:effect or key:effect")]
    Malformed { text: String },
    #[error("{0:?} is not a taint effect: use NoSchedule, PreferNoSchedule or NoExecute")]
    UnknownEffect(String),
    #[error("{text:?} is not a taint: {source}")]
    Name { text: String, source: NameError },
    #[error("the taint {key}:{effect} is given twice: a key may have one value for each effect")]
    Duplicate { key: String, effect: TaintEffect },
}

impl TaintEffect {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

impl fmt::Display for TaintEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TaintEffect {
    type Err = TaintError;

    fn from_str(text: &str) -> Result<Self, TaintError> {
        [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute]
            .into_iter()
            .find(|effect| effect.as_str() == text)
            .ok_or_else(|| TaintError::UnknownEffect(text.to_owned()))
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}:{}", self.key, self.value, self.effect)
    }
}

impl FromStr for Taint {
    type Err = TaintError;

    /// Reads `key=value:effect`, `key=:effect` or `key:effect`.
    fn from_str(text: &str) -> Result<Self, TaintError> {
        let malformed = || TaintError::Malformed {
            text: text.to_owned(),
        };
        let (pair, effect) = text.split_once(':').ok_or_else(malformed)?;
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if effect.contains(':') || value.contains('=') {
            return Err(malformed());
        }
        let effect = effect.parse()?;
        validate_label_value(value)
            .and_then(|()| validate_label_key(key))
            .map_err(|source| TaintError::Name {
                text: text.to_owned(),
                source,
            })?;
        Ok(Self {
            key: key.to_owned(),
            value: value.to_owned(),
            effect,
        })
    }
}

/// Reads a comma-separated list of taints; an empty text has none. A key may
/// come once with each effect. Upstream shares this grammar with a command that
/// also removes taints (`key-`, `key:effect-`): such an entry is checked, and
/// has no effect here.
pub fn parse_taints(list: &str) -> Result<Vec<Taint>, TaintError> {
    let mut taints: Vec<Taint> = Vec::new();
    if list.is_empty() {
        return Ok(taints);
    }
    for text in list.split(',') {
        if let Some(removal) = text.strip_suffix('-') {
            check_removal(removal)?;
            continue;
        }
        let taint: Taint = text.parse()?;
        if taints
            .iter()
            .any(|other| other.key == taint.key && other.effect == taint.effect)
        {
            return Err(TaintError::Duplicate {
                key: taint.key,
                effect: taint.effect,
            });
        }
        taints.push(taint);
    }
    Ok(taints)
}

fn check_removal(text: &str) -> Result<(), TaintError> {
    if text.contains(':') {
        return text.parse::<Taint>().map(drop);
    }
    validate_label_key(text).map_err(|source| TaintError::Name {
        text: text.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(list: &str) -> Result<String, TaintError> {
        let taints = parse_taints(list)?;
        Ok(taints
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(","))
    }

    #[test]
    fn a_taint_has_a_key_an_optional_value_and_an_effect() {
        for (text, expected) in [
            ("", ""),
            ("key=value:NoSchedule", "key=value:NoSchedule"),
            ("key=:NoExecute", "key=:NoExecute"),
            ("key:PreferNoSchedule", "key=:PreferNoSchedule"),
            (
                "example.com/key=1.2_x:NoSchedule",
                "example.com/key=1.2_x:NoSchedule",
            ),
            ("a:NoSchedule,b=c:NoExecute", "a=:NoSchedule,b=c:NoExecute"),
            ("a:NoSchedule,a=1:NoExecute", "a=:NoSchedule,a=1:NoExecute"),
            ("a:NoSchedule,a-", "a=:NoSchedule"),
            ("a:NoSchedule-", ""),
        ] {
            assert_eq!(printed(text).as_deref(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_a_taint_is_refused_with_a_reason() {
        for (text, reason) in [
            ("key", "is not a taint: write"),
            ("a:NoSchedule,", "is not a taint: write"),
            ("key=value", "is not a taint: write"),
            ("a:b:NoSchedule", "is not a taint: write"),
            ("a=b=c:NoSchedule", "is not a taint: write"),
            ("a:noschedule", "is not a taint effect: use NoSchedule"),
            ("a:", "is not a taint effect"),
            (":NoSchedule", "the name must not be empty"),
            ("=b:NoSchedule", "the name must not be empty"),
            ("a=-b:NoSchedule", "is not a valid label value"),
            ("a b:NoSchedule", "is not a valid label key"),
            ("a b-", "is not a valid label key"),
            ("a=b-", "is not a valid label key"),
            ("a:Never-", "is not a taint effect"),
        ] {
            let error = printed(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }

    #[test]
    fn one_key_and_effect_may_be_given_once_whatever_the_value() {
        let error = printed("a=1:NoSchedule,b:NoSchedule,a=2:NoSchedule").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the taint a:NoSchedule is given twice: a key may have one value for each effect"
        );
    }
}
