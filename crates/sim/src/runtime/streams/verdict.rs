//! How a command ended, as runtimes tell it.

use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ended {
        command: Vec<String>,
        code: i32,
    },
    /// There is no command that could end; or it could not begin.
    Over,
    Failed(String),
}

impl Verdict {
    pub(super) fn told(&self) -> Vec<u8> {
        let status: Value = match self {
            Self::Over | Self::Ended { code: 0, .. } => {
                json!({"metadata": {}, "status": "Success"})
            }
            Self::Ended { command, code } => {
                let command = command.join(" ");
                json!({
                    "metadata": {},
                    "status": "Failure",
                    "message": format!(
                        "command terminated with non-zero exit code: error executing command \
                         [{command}], exit code {code}"
                    ),
                    "reason": "NonZeroExitCode",
                    "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
                })
            }
            Self::Failed(words) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("Internal error occurred: {words}"),
                "reason": "InternalError",
                "details": {"causes": [{"message": words}]},
                "code": 500,
            }),
        };
        status.to_string().into_bytes()
    }
}
