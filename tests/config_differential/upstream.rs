//! Upstream's side: the real kubelet, stopped right after it has validated and
//! shown its configuration.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use testkit::lab::Machine;

use crate::resolved::Outcome;

/// What an error begins with once the configuration has been accepted.
const LATER: &str = "failed to run Kubelet: ";
/// Every run ends by itself; this is for the one that does not.
const PATIENCE: &str = "20";

/// Runs it in `directory` of the machine. It never gets to work: it looks at
/// its watchdog first thing after the configuration, and cannot read this one.
pub(crate) fn resolve(machine: &Machine, directory: &str, arguments: &[String]) -> Result<Outcome> {
    let output = machine
        .command("env")
        .args(["--chdir", directory])
        .args(["timeout", "--kill-after=1", PATIENCE])
        .arg("kubelet")
        .args(arguments)
        .env("WATCHDOG_USEC", "unreadable")
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let exit_code = output.status.code().context("killed by a signal")?;
    let message = final_message(&said);
    match exit_code {
        1 if message.contains(LATER) => Ok(Outcome::Accepted(shown_configuration(&said)?)),
        1 | 2 => Ok(Outcome::Refused { exit_code, message }),
        _ => bail!("upstream ended with exit code {exit_code}: {said}"),
    }
}

/// What its last error line or its panic says.
fn final_message(said: &str) -> String {
    let start = [
        "\"command failed\"",
        "\"msg\":\"command failed\"",
        "panic: ",
    ]
    .iter()
    .find_map(|mark| said.find(mark))
    .unwrap_or(0);
    let message = said[start..].split("\n\ngoroutine ").next();
    message.unwrap_or_default().trim().to_owned()
}

/// The configuration that it logs at verbosity 5, in either log format.
fn shown_configuration(said: &str) -> Result<Value> {
    let text =
        if let Some((_, rest)) = said.split_once("\"KubeletConfiguration\" configuration=<\n") {
            rest.split("\n >\n").next()
        } else {
            said.split_once("\"msg\":\"KubeletConfiguration\"")
                .and_then(|(_, rest)| rest.split_once("\"configuration\":"))
                .and_then(|(_, rest)| rest.lines().next())
                .and_then(|line| line.strip_suffix('}'))
        };
    let text = text.context("upstream does not show its configuration below verbosity 5")?;
    serde_json::from_str(text).context("cannot read the configuration that upstream shows")
}
