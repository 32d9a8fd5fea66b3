//! The command line: which flags were given, in the manner of Go's pflag.
//! Reading a flag's text is in `value`, laying it over settings in `apply`.

mod apply;
mod value;

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

pub(crate) use self::apply::apply;
use self::value::read;
pub(crate) use self::value::{Parsed, boolean, is_memory_type};
use crate::finding::{Class, Finding};
use crate::schema::{self, FLAGS, Flag, FlagKind, Handling, REMOVED_FLAGS};

/// A flag that was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    pub flag: &'static str,
    pub(crate) parsed: Parsed,
    /// As the operator wrote it.
    pub written: String,
}

/// The flags that were given, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandLine {
    pub uses: Vec<Use>,
    /// Accepted, with a word to the operator: flags of older kubelets.
    pub notices: Vec<Finding>,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FlagError {
    #[error("there is no flag --{name}{}", nearest.as_ref().map_or(String::new(), |flag| format!("; did you mean --{flag}?")))]
    Unknown {
        name: String,
        nearest: Option<String>,
    },
    #[error("there is no short flag -{0}; -v and -h are the only ones")]
    UnknownShort(char),
    #[error("flag {0} needs a value: {0}=VALUE")]
    NoValue(String),
    #[error("{0:?} is not a flag: flags are --NAME or --NAME=VALUE")]
    Syntax(String),
    #[error("{written}: {reason}")]
    Value { written: String, reason: String },
    #[error("--{name} is gone, Kubernetes {last} was the last to have it: {advice}")]
    Gone {
        name: String,
        last: String,
        advice: String,
    },
    #[error("{word:?} is not a flag, and a kubelet takes nothing else{}", after.as_ref().map_or(String::new(), |flag| format!("; perhaps {flag}={word} was meant")))]
    Positional {
        word: String,
        /// A flag without a value right before it.
        after: Option<String>,
    },
}

impl CommandLine {
    pub fn parse(arguments: &[String]) -> Result<Self, FlagError> {
        let mut line = Self::default();
        let mut rest = arguments.iter().map(String::as_str);
        let mut positional = None;
        let mut last = "";
        while let Some(word) = rest.next() {
            let before = std::mem::replace(&mut last, word);
            if word == "--" {
                positional = positional.or_else(|| rest.next().map(|word| (word, "")));
                break;
            } else if let Some(long) = word.strip_prefix("--") {
                line.long(word, long, &mut rest)?;
            } else if word.len() > 1 && word.starts_with('-') {
                line.short(word, &mut rest)?;
            } else {
                // Flags after it still count, and their faults come first.
                positional = positional.or(Some((word, before)));
            }
        }
        match positional {
            Some((word, before)) => Err(FlagError::Positional {
                word: word.to_owned(),
                after: Some(before.to_owned())
                    .filter(|flag| flag.starts_with("--") && !flag.contains('=')),
            }),
            None => Ok(line),
        }
    }

    fn long<'a>(
        &mut self,
        word: &'a str,
        long: &'a str,
        rest: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), FlagError> {
        if long.is_empty() || long.starts_with(['-', '=']) {
            return Err(FlagError::Syntax(word.to_owned()));
        }
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        // Underscores are an older spelling of the same names.
        let name = name.replace('_', "-");
        if let Some(flag) = schema::flag(&name) {
            let value = match (value, bare(flag.kind)) {
                (Some(value), _) | (None, Some(value)) => value,
                (None, None) => rest
                    .next()
                    .ok_or_else(|| FlagError::NoValue(format!("--{name}")))?,
            };
            return self.add(flag, value, format!("--{name}={value}"));
        }
        self.removed(&name, value, rest)
    }

    fn removed<'a>(
        &mut self,
        name: &str,
        value: Option<&'a str>,
        rest: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), FlagError> {
        let Some(removed) = schema::removed_flag(name) else {
            let names = FLAGS
                .iter()
                .map(|flag| flag.name)
                .chain(REMOVED_FLAGS.iter().map(|flag| flag.name));
            return Err(FlagError::Unknown {
                name: name.to_owned(),
                nearest: schema::nearest(name, names).map(str::to_owned),
            });
        };
        let value = match value {
            Some(value) => value,
            None if removed.takes_value => rest
                .next()
                .ok_or_else(|| FlagError::NoValue(format!("--{name}")))?,
            None => "true",
        };
        let gone = || FlagError::Gone {
            name: name.to_owned(),
            last: removed.last.to_owned(),
            advice: as_clause(removed.advice),
        };
        let written = format!("--{name}={value}");
        match removed.handling {
            Handling::Refuse => return Err(gone()),
            Handling::AcceptOnly(only) if value != only => return Err(gone()),
            Handling::AcceptOnly(_) | Handling::Ignore => {}
            Handling::MapTo(today) => {
                if let Some(flag) = schema::flag(today) {
                    self.add(flag, value, written)?;
                }
            }
        }
        self.notices.push(
            Finding::new(
                Class::Notice,
                format!("--{name}"),
                format!(
                    "this flag is gone, Kubernetes {} was the last to have it",
                    removed.last
                ),
            )
            .advise(Some(as_clause(removed.advice))),
        );
        Ok(())
    }

    fn short<'a>(
        &mut self,
        word: &'a str,
        rest: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), FlagError> {
        let mut letters = word.chars();
        letters.next();
        while let Some(letter) = letters.next() {
            let flag = FLAGS
                .iter()
                .find(|flag| flag.shorthand == Some(letter))
                .ok_or(FlagError::UnknownShort(letter))?;
            let attached = letters.as_str();
            if let Some(value) = attached.strip_prefix('=') {
                return self.add(flag, value, word.to_owned());
            }
            if let Some(value) = bare(flag.kind) {
                self.add(flag, value, format!("-{letter}"))?;
                continue;
            }
            let value = if attached.is_empty() {
                rest.next()
                    .ok_or_else(|| FlagError::NoValue(format!("-{letter}")))?
            } else {
                attached
            };
            return self.add(flag, value, format!("-{letter} {value}"));
        }
        Ok(())
    }

    fn add(&mut self, flag: &'static Flag, value: &str, written: String) -> Result<(), FlagError> {
        let parsed = read(flag.kind, value).map_err(|reason| FlagError::Value {
            written: written.clone(),
            reason,
        })?;
        self.uses.push(Use {
            flag: flag.name,
            parsed,
            written,
        });
        Ok(())
    }

    /// The last value given to a flag that holds one text.
    pub fn text(&self, name: &str) -> Option<&str> {
        let mut uses = self.uses.iter().rev().filter(|one| one.flag == name);
        match &uses.next()?.parsed {
            Parsed::One(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    pub fn bool(&self, name: &str) -> Option<bool> {
        let mut uses = self.uses.iter().rev().filter(|one| one.flag == name);
        match &uses.next()?.parsed {
            Parsed::One(Value::Bool(value)) => Some(*value),
            _ => None,
        }
    }

    /// All pairs given to a flag that holds a map.
    pub fn pairs(&self, name: &str) -> BTreeMap<&str, &Value> {
        let uses = self.uses.iter().filter(|one| one.flag == name);
        uses.filter_map(|one| match &one.parsed {
            Parsed::Pairs(pairs) => Some(pairs),
            _ => None,
        })
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
        .collect()
    }

    /// Each deprecated flag that was given: kubelets say so, once a use.
    pub fn deprecated(&self) -> impl Iterator<Item = &'static Flag> {
        self.uses.iter().filter_map(|one| {
            let flag = schema::flag(one.flag)?;
            // An older name of it has had its notice.
            let name = one.written.trim_start_matches('-');
            (flag.deprecated && name.starts_with(flag.name)).then_some(flag)
        })
    }
}

/// Every flag with the text of its value, given or default, in name order.
pub fn values(line: &CommandLine) -> impl Iterator<Item = (&'static str, String)> {
    FLAGS.iter().map(|flag| {
        let uses: Vec<&Parsed> = line
            .uses
            .iter()
            .filter(|one| one.flag == flag.name)
            .map(|one| &one.parsed)
            .collect();
        (flag.name, value::shown(flag, &uses))
    })
}

/// A sentence as a part of a longer one.
fn as_clause(sentence: &str) -> String {
    let mut letters = sentence.trim_end_matches('.').chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// What a flag without `=VALUE` means, if it may stand so.
fn bare(kind: FlagKind) -> Option<&'static str> {
    matches!(kind, FlagKind::Bool | FlagKind::Version).then_some("true")
}

impl From<FlagError> for Finding {
    fn from(error: FlagError) -> Self {
        Self::new(Class::Value, "", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<CommandLine, FlagError> {
        CommandLine::parse(
            &words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn values_stand_after_an_equals_sign_or_as_the_next_word() {
        for words in [&["--config=a b"][..], &["--config", "a b"]] {
            assert_eq!(
                parse(words).unwrap().text("config"),
                Some("a b"),
                "{words:?}"
            );
        }
        for words in [
            &["-v=4"][..],
            &["-v", "4"],
            &["-v4"],
            &["--v=4"],
            &["--v", "4"],
        ] {
            let line = parse(words).unwrap();
            assert_eq!(line.uses[0].flag, "v", "{words:?}");
            assert_eq!(
                line.uses[0].parsed,
                Parsed::One(Value::from(4)),
                "{words:?}"
            );
        }
        assert_eq!(parse(&["--max_pods=5"]).unwrap().uses[0].flag, "max-pods");
        // A value may look like a flag.
        assert_eq!(
            parse(&["--config", "--x"]).unwrap().text("config"),
            Some("--x")
        );
    }

    #[test]
    fn a_bare_boolean_is_true_and_takes_no_word() {
        let line = parse(&["--fail-swap-on", "--register-node=false"]).unwrap();
        assert_eq!(line.bool("fail-swap-on"), Some(true));
        assert_eq!(line.bool("register-node"), Some(false));
        let error = parse(&["--fail-swap-on", "false"]).unwrap_err().to_string();
        assert!(
            error.ends_with("perhaps --fail-swap-on=false was meant"),
            "{error}"
        );
    }

    #[test]
    fn faults_are_named() {
        for (words, said) in [
            (
                &["--max-podz=1"][..],
                "there is no flag --max-podz; did you mean --max-pods?",
            ),
            (&["-x"], "there is no short flag -x"),
            (&["--config"], "flag --config needs a value"),
            (&["---config=a"], "is not a flag"),
            (&["--=a"], "is not a flag"),
            (&["foo"], "\"foo\" is not a flag"),
            (&["--", "foo"], "\"foo\" is not a flag"),
            (&["--max-pods=abc"], "--max-pods=abc: "),
            (
                &["--container-runtime=docker"],
                "--container-runtime is gone",
            ),
        ] {
            let error = parse(words).unwrap_err().to_string();
            assert!(error.contains(said), "{words:?}: {error}");
        }
    }

    #[test]
    fn flags_of_older_kubelets_are_taken_with_a_notice() {
        let words = [
            "--network-plugin",
            "cni",
            "--logtostderr",
            "--container-runtime=remote",
        ];
        let line = parse(&words).unwrap();
        assert_eq!(line.uses, []);
        let said: Vec<_> = line.notices.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].starts_with("--network-plugin: this flag is gone, Kubernetes 1.23 "));
        let line = parse(&["--experimental-bootstrap-kubeconfig=x"]).unwrap();
        assert_eq!(line.text("bootstrap-kubeconfig"), Some("x"));
    }
}
