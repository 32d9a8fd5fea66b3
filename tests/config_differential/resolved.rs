//! What a program made of a case.

use std::fmt::{self, Display};

use serde_json::Value;

use crate::case::Verdict;

#[derive(Debug)]
pub(crate) enum Outcome {
    /// The configuration as the program shows it.
    Accepted(Value),
    Refused {
        exit_code: i32,
        message: String,
    },
}

/// Go's exit code after a panic.
const PANIC: i32 = 2;

impl Outcome {
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Accepted(_) => Verdict::Accepts,
            Self::Refused { exit_code, .. } if *exit_code == PANIC => Verdict::Panics,
            Self::Refused { .. } => Verdict::Refuses,
        }
    }
}

impl Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted(_) => formatter.write_str("accepts"),
            Self::Refused { exit_code, message } => {
                let verdict = self.verdict();
                let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
                write!(formatter, "{verdict} with exit code {exit_code}: {message}")
            }
        }
    }
}
