//! Upstream's side: the real kubelet, stopped right after it has validated and
//! shown its configuration.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use testkit::lab::Machine;

use crate::case;
use crate::resolved::Outcome;

/// What an error begins with once the configuration has been accepted.
const LATER: &str = "failed to run Kubelet: ";
/// Every run ends by itself; this is for the one that does not.
const PATIENCE: &str = "60";
const TIMED_OUT: i32 = 124;

/// What lets it start without an API server. A case can override it.
pub(crate) const STANDALONE: [&str; 5] = [
    "--fail-cgroupv1=false",
    "--fail-swap-on=false",
    "--anonymous-auth=true",
    "--authentication-token-webhook=false",
    "--authorization-mode=AlwaysAllow",
];

/// Runs it in `directory` of the machine. It never gets to work: it looks at
/// its watchdog first thing after the configuration, and cannot read this one.
pub(crate) fn resolve(machine: &Machine, directory: &str, arguments: &[String]) -> Result<Outcome> {
    let output = command(machine, directory, arguments)
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

/// Really starts it, without an API server, with a configuration that it
/// accepts: it must end by itself over what it finds then.
pub(crate) fn fails_to_start(
    machine: &Machine,
    directory: &str,
    arguments: &[String],
) -> Result<()> {
    let mut all = case::arguments(&STANDALONE, &[]);
    all.extend_from_slice(arguments);
    let output = command(machine, directory, &all).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let message = final_message(&said);
    match output.status.code() {
        Some(1) if message.contains(LATER) => Ok(()),
        Some(TIMED_OUT) => bail!("upstream does not find it when it starts"),
        _ => bail!(
            "upstream ended in another way: {}: {message}",
            output.status
        ),
    }
}

fn command(machine: &Machine, directory: &str, arguments: &[String]) -> Command {
    let mut command = machine.command("env");
    command
        .args(["--chdir", directory])
        .args(["timeout", "--kill-after=1", PATIENCE, "kubelet"])
        .args(arguments);
    command
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
