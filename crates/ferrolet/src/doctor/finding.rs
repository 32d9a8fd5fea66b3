//! What a check finds.

use cluster::preflight::{Check, Outcome};
use serde::Serialize;

/// How bad it is, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Severity {
    /// It works, and will not for long, or not as it should.
    Warning,
    /// The node does not work, or a part of it.
    Error,
}

impl Severity {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// What it is about.
    pub(super) object: String,
    pub(super) cause: String,
    /// What mends it, or tells more.
    pub(super) command: Option<String>,
}

impl Finding {
    pub(super) fn error(object: impl Into<String>, cause: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            object: object.into(),
            cause: cause.into(),
            command: None,
        }
    }

    pub(super) fn warning(object: impl Into<String>, cause: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(object, cause)
        }
    }

    pub(super) fn mended_by(self, command: impl Into<String>) -> Self {
        Self {
            command: Some(command.into()),
            ..self
        }
    }

    /// Of a check that a join makes, too; `None` if it passed.
    pub(super) fn of_preflight(object: &str, check: &Check) -> Option<Self> {
        let cause = format!("{}; {}", check.seen, check.fix);
        match check.outcome {
            Outcome::Ok => None,
            Outcome::Warning => Some(Self::warning(object, cause)),
            Outcome::Error => Some(Self::error(object, cause)),
        }
    }
}
