//! A command in the container. How long it may take is the runtime's to see to: it ends
//! what takes longer.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ExecAction};
use seams::RuntimeError;
use seams::cri::ExecSyncRequest;
use types::GoDuration;
use types::expand::expand;

use super::{Means, Outcome, Subject, unknown};

/// Of what it prints so much is told.
const LONGEST_OUTPUT: usize = 10 * 1024;

/// What upstream's own call says when its pod is to end.
const CANCELED: &str = "rpc error: code = Canceled desc = context canceled";

impl Means {
    pub(super) async fn exec(
        &self,
        action: &ExecAction,
        subject: Subject<'_>,
        limit: Duration,
    ) -> Outcome {
        let command = command(action, subject.container);
        let words = command.join(" ");
        let request = ExecSyncRequest {
            container_id: subject.id.to_owned(),
            cmd: command,
            timeout: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        };
        let answer = tokio::select! {
            biased;
            () = subject.cut.cancelled() => return unknown(&CANCELED),
            answer = self.runtime.exec_sync(request) => answer,
        };
        match answer {
            Ok(answer) if answer.exit_code == 0 => Outcome::Success,
            Ok(answer) => {
                let mut output = answer.stdout;
                output.extend(answer.stderr);
                output.truncate(LONGEST_OUTPUT);
                Outcome::Failure(String::from_utf8_lossy(&output).into_owned())
            }
            Err(error) if error.is_timeout() => {
                let limit = GoDuration::try_from(limit).unwrap_or_default();
                Outcome::Failure(format!(
                    "command timed out: {words:?} timed out after {limit}"
                ))
            }
            Err(error) => unknown(&grpc_words(&error)),
        }
    }
}

/// As Go prints an error of gRPC.
fn grpc_words(error: &RuntimeError) -> String {
    let RuntimeError { code, message, .. } = error;
    format!("rpc error: code = {code:?} desc = {message}")
}

/// With its references to variables replaced; those whose value comes from elsewhere are
/// nothing, as upstream has it.
fn command(action: &ExecAction, container: &Container) -> Vec<String> {
    let variables = container.env.iter().flatten();
    let variables: BTreeMap<&str, &[u8]> = variables
        .map(|one| {
            let value = one.value.as_deref().unwrap_or_default();
            (one.name.as_str(), value.as_bytes())
        })
        .collect();
    let words = action.command.iter().flatten();
    words
        .map(|word| {
            let expanded = expand(word, |name| variables.get(name).copied());
            String::from_utf8_lossy(&expanded).into_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_in_a_command_are_the_containers_own() {
        let container = json!({ "name": "app", "env": [
            { "name": "PORT", "value": "80" },
            { "name": "FROM", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
        ] });
        let container: Container = serde_json::from_value(container).unwrap();
        let action = ExecAction {
            command: Some(
                [
                    "test",
                    "$(PORT)",
                    "[$(FROM)]",
                    "$(NONE)",
                    "$$(PORT)",
                    "$PORT",
                ]
                .map(str::to_owned)
                .to_vec(),
            ),
        };
        assert_eq!(
            command(&action, &container),
            ["test", "80", "[]", "$(NONE)", "$(PORT)", "$PORT"]
        );
    }
}
