//! Calls to the API server that did not go through, told apart by what a person
//! can do about them.

use std::fmt;

use kube::core::Status;
use thiserror::Error;

/// A call that failed: what was attempted, on what, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot {verb} {object}: {problem}")]
pub struct CallError {
    pub verb: &'static str,
    pub object: String,
    pub problem: CallProblem,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallProblem {
    /// The API server knows us, and we may not.
    Forbidden(String),
    /// The API server does not know us.
    Unauthorized,
    NotFound,
    AlreadyExists,
    /// Somebody else has changed the object since it was read.
    Conflict,
    /// Another answer of the API server.
    Rejected(String),
    /// No answer that could be understood.
    Unreachable(String),
}

impl CallError {
    pub fn new(verb: &'static str, object: impl Into<String>, cause: &kube::Error) -> Self {
        Self {
            verb,
            object: object.into(),
            problem: CallProblem::of(cause),
        }
    }
}

impl CallProblem {
    fn of(cause: &kube::Error) -> Self {
        match cause {
            kube::Error::Api(status) => Self::of_status(status),
            other => Self::Unreachable(chain(other)),
        }
    }

    fn of_status(status: &Status) -> Self {
        match (status.code, status.reason.as_str()) {
            (401, _) => Self::Unauthorized,
            (403, _) => Self::Forbidden(status.message.clone()),
            (404, _) => Self::NotFound,
            (409, "AlreadyExists") => Self::AlreadyExists,
            (409, _) => Self::Conflict,
            _ => Self::Rejected(status.message.clone()),
        }
    }
}

impl fmt::Display for CallProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(message) => write!(
                formatter,
                "the API server forbids it ({message}); use a kubeconfig whose user may, such as an administrator's"
            ),
            Self::Unauthorized => formatter.write_str(
                "the API server does not accept these credentials; renew them or use another kubeconfig",
            ),
            Self::NotFound => formatter.write_str("there is none of that name"),
            Self::AlreadyExists => formatter.write_str("one of that name is there already"),
            Self::Conflict => {
                formatter.write_str("somebody else changed it at the same time; try again")
            }
            Self::Rejected(message) => {
                write!(formatter, "the API server refused: {message}")
            }
            Self::Unreachable(cause) => write!(
                formatter,
                "no answer of the API server: {cause}; check its address, and that it runs"
            ),
        }
    }
}

/// An error with its causes: the outermost alone rarely says what happened.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_apart_by_its_code_and_reason() {
        let problem = |code, reason: &str| {
            let status = Status::failure("why", reason).with_code(code);
            CallError::new("create", "x", &kube::Error::Api(status.boxed())).problem
        };
        assert_eq!(problem(401, "Unauthorized"), CallProblem::Unauthorized);
        assert_eq!(
            problem(403, "Forbidden"),
            CallProblem::Forbidden("why".to_owned())
        );
        assert_eq!(problem(404, "NotFound"), CallProblem::NotFound);
        assert_eq!(problem(409, "AlreadyExists"), CallProblem::AlreadyExists);
        assert_eq!(problem(409, "Conflict"), CallProblem::Conflict);
        assert_eq!(
            problem(422, "Invalid"),
            CallProblem::Rejected("why".to_owned())
        );
    }
}
