//! How a command ended: as runtimes say it over SPDY, and as clients of a WebSocket are
//! told.

use serde::Deserialize;
use serde_json::{Value, json};

/// Upstream's words for a command that did not succeed.
const NON_ZERO: &str = "NonZeroExitCode";
const EXIT_CODE: &str = "ExitCode";

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    /// It ended with a code that is not zero.
    Exit(u8),
    /// It did not run, or not to its end.
    Failure(String),
}

#[derive(Deserialize)]
struct Status {
    #[serde(default, rename = "status")]
    outcome: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
    details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

impl Verdict {
    /// From what came over the stream for errors.
    pub(crate) fn heard(message: &[u8]) -> Self {
        if message.is_empty() {
            // Every runtime says how it ended: this one was cut off.
            let words = "the runtime closed the connection and did not say how the command ended";
            return Self::Failure(words.to_owned());
        }
        let fault = |words: String| Self::Failure(format!("error stream protocol error: {words}"));
        let status: Status = match serde_json::from_slice(message) {
            Ok(status) => status,
            Err(cause) => {
                let text = String::from_utf8_lossy(message);
                return fault(format!("{cause} in {text:?}"));
            }
        };
        match (status.outcome.as_str(), status.reason.as_str()) {
            ("Success", _) => Self::Success,
            ("Failure", NON_ZERO) => {
                let Some(details) = status.details else {
                    return fault("details must be set".to_owned());
                };
                let mut causes = details.causes.into_iter();
                match causes.find(|cause| cause.reason == EXIT_CODE) {
                    None => fault(format!("no {EXIT_CODE} cause given")),
                    Some(cause) => match cause.message.parse() {
                        Ok(code) => Self::Exit(code),
                        Err(_) => fault(format!("invalid exit code value {:?}", cause.message)),
                    },
                }
            }
            ("Failure", _) => Self::Failure(status.message),
            _ => fault("unknown error".to_owned()),
        }
    }

    /// As a client is told.
    pub(crate) fn told(&self) -> Vec<u8> {
        let status: Value = match self {
            Self::Success => json!({"metadata": {}, "status": "Success"}),
            Self::Exit(code) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!(
                    "command terminated with non-zero exit code: command terminated with exit \
                     code {code}"
                ),
                "reason": NON_ZERO,
                "details": {"causes": [{"reason": EXIT_CODE, "message": code.to_string()}]},
            }),
            Self::Failure(words) => json!({
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

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(words: &str) -> Verdict {
        Verdict::Failure(words.to_owned())
    }

    #[test]
    fn what_runtimes_say_is_understood() {
        let exit = |causes: &str| {
            format!(
                r#"{{"metadata":{{}},"status":"Failure","message":"command terminated with non-zero exit code: exit status 3","reason":"NonZeroExitCode","details":{{"causes":[{causes}]}}}}"#
            )
        };
        for (heard, verdict) in [
            (r#"{"status":"Success"}"#.to_owned(), Verdict::Success),
            (r#"{"metadata":{},"status":"Success"}"#.to_owned(), Verdict::Success),
            (exit(r#"{"reason":"ExitCode","message":"3"}"#), Verdict::Exit(3)),
            (
                exit(r#"{"reason":"Other","message":"1"},{"reason":"ExitCode","message":"137"}"#),
                Verdict::Exit(137),
            ),
            (exit(""), failure("error stream protocol error: no ExitCode cause given")),
            (
                exit(r#"{"reason":"ExitCode","message":"256"}"#),
                failure("error stream protocol error: invalid exit code value \"256\""),
            ),
            (
                r#"{"status":"Failure","reason":"NonZeroExitCode"}"#.to_owned(),
                failure("error stream protocol error: details must be set"),
            ),
            (
                r#"{"status":"Failure","message":"no such file","reason":"InternalError","code":500}"#
                    .to_owned(),
                failure("no such file"),
            ),
            ("{}".to_owned(), failure("error stream protocol error: unknown error")),
        ] {
            assert_eq!(Verdict::heard(heard.as_bytes()), verdict, "{heard}");
        }
        for cut in ["", "{\"status\":\"Succ", "boom"] {
            let verdict = Verdict::heard(cut.as_bytes());
            assert!(matches!(verdict, Verdict::Failure(_)), "{cut}");
        }
    }

    #[test]
    fn clients_are_told_as_upstream_tells_them() {
        let told = |verdict: Verdict| -> Value { serde_json::from_slice(&verdict.told()).unwrap() };
        let success: Value = serde_json::from_str(r#"{"metadata":{},"status":"Success"}"#).unwrap();
        assert_eq!(told(Verdict::Success), success);
        let exit = told(Verdict::Exit(7));
        assert_eq!(exit["details"]["causes"][0]["message"], "7");
        assert_eq!(
            exit["message"],
            "command terminated with non-zero exit code: command terminated with exit code 7"
        );
        let failed = told(failure("no such file"));
        assert_eq!(failed["code"], 500);
        assert_eq!(failed["message"], "Internal error occurred: no such file");
        // What we tell is what we would understand.
        for verdict in [Verdict::Success, Verdict::Exit(1), Verdict::Exit(255)] {
            assert_eq!(Verdict::heard(&verdict.told()), verdict);
        }
    }
}
