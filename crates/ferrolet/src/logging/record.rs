//! One log line before it is written: a message and pairs.

use std::error::Error;
use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use super::verbosity::verbosity_of_level;

/// What a line begins with in text, and whether it has a `v` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    Info,
    Warning,
    Error,
}

/// A value, of a kind that the formats tell apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    /// A whole number or a truth value, which both formats print bare.
    Bare(String),
    Float(f64),
    Bytes(Vec<u8>),
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) severity: Severity,
    pub(super) verbosity: u32,
    /// The path of the source file, and the line in it.
    pub(super) file: &'static str,
    pub(super) line: u32,
    pub(super) message: String,
    pub(super) pairs: Vec<(&'static str, Value)>,
}

impl Record {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let mut record = Self {
            severity: severity_of(*metadata.level()),
            verbosity: verbosity_of_level(*metadata.level()),
            file: metadata.file().unwrap_or("???"),
            line: metadata.line().unwrap_or(1),
            message: String::new(),
            pairs: Vec::new(),
        };
        event.record(&mut record);
        record
    }

    /// Adds a pair. Of several with one key the last is kept, unless it says
    /// the same as the first.
    pub(super) fn add(&mut self, key: &'static str, value: Value) {
        let key = key.strip_prefix("r#").unwrap_or(key);
        let key = if key == "error" { "err" } else { key };
        if self.pairs.iter().any(|(k, v)| *k == key && *v == value) {
            return;
        }
        self.pairs.retain(|(k, _)| *k != key);
        self.pairs.push((key, value));
    }

    fn add_text(&mut self, field: &Field, text: String) {
        if field.name() == "message" {
            self.message = text;
        } else {
            self.add(field.name(), Value::Text(text));
        }
    }

    fn add_number(
        &mut self,
        field: &Field,
        number: impl fmt::Display + TryInto<u32> + PartialOrd + Default,
    ) {
        if field.name() == "v" {
            let limit = if number < Default::default() {
                u32::MIN
            } else {
                u32::MAX
            };
            self.verbosity = number.try_into().unwrap_or(limit);
        } else {
            self.add(field.name(), Value::Bare(number.to_string()));
        }
    }
}

fn severity_of(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warning,
        _ => Severity::Info,
    }
}

/// The error and its causes. Many errors print their cause themselves: that one
/// is not said twice.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.add_text(field, chain(value));
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.add(field.name(), Value::Bytes(value.to_owned()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), Value::Bare(value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), Value::Float(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add_number(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add_number(field, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.add_number(field, value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.add_number(field, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Failure(&'static str, Option<Box<Failure>>);

    impl fmt::Display for Failure {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Failure {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn an_error_is_printed_with_its_causes_each_once() {
        let cause = |text| Some(Box::new(Failure(text, None)));
        assert_eq!(chain(&Failure("no lease", None)), "no lease");
        assert_eq!(
            chain(&Failure("no lease", cause("timed out"))),
            "no lease: timed out"
        );
        assert_eq!(
            chain(&Failure("no lease: timed out", cause("timed out"))),
            "no lease: timed out"
        );
    }
}
