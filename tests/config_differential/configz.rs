//! What a running kubelet says of its configuration at `/configz`, against
//! what our program prints: equal, but for what is filled in at start.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use testkit::lab::{Lab, Node, Runtime, Spec};
use testkit::wait;

use crate::case::{self, Case};
use crate::compare;
use crate::ours::{self, Ours};
use crate::resolved::Outcome;
use crate::upstream::STANDALONE;

const PATIENCE: Duration = Duration::from_secs(60);
const CURL: [&str; 5] = [
    "--silent",
    "--show-error",
    "--fail",
    "--insecure",
    "https://127.0.0.1:10250/configz",
];
/// Curl's exit code for it.
const CONNECTION_REFUSED: i32 = 7;

/// Fields that upstream has filled in, or replaced, when it has started.
const FILLED_IN: [(&str, &str); 3] = [
    // The certificate that it made itself.
    ("tlsCertFile", "/var/lib/kubelet/pki/kubelet.crt"),
    ("tlsPrivateKeyFile", "/var/lib/kubelet/pki/kubelet.key"),
    // What the lab's runtime answers when asked.
    ("cgroupDriver", "cgroupfs"),
];

#[test]
fn a_running_kubelet_shows_the_configuration_that_ours_prints() -> Result<()> {
    let cases = case::read("configz", &STANDALONE)?;
    let ours = Ours::build()?;
    let node = Lab::shared()?.node("configz", Runtime::Containerd2)?;
    ours.install(node.machine())?;
    let mut problems = Vec::new();
    for case in &cases {
        let found = examine(case, &node).with_context(|| format!("in \"{}\"", case.name))?;
        problems.extend(found.iter().map(|what| format!("{}: {what}", case.name)));
    }
    if !problems.is_empty() {
        bail!("{} differences:\n{}", problems.len(), problems.join("\n"));
    }
    Ok(())
}

fn examine(case: &Case, node: &Node) -> Result<Vec<String>> {
    let directory = case.install(node.machine())?;
    let theirs = configz(node, &directory, &case.arguments)?;
    let ours = match ours::resolve(node.machine(), &directory, &case.arguments)? {
        Outcome::Accepted(shown) => shown,
        outcome @ Outcome::Refused { .. } => bail!("ours {outcome}"),
    };
    let expected = after_start(ours, &theirs);
    Ok(compare::exact(&theirs, &expected))
}

/// Starts upstream, asks it, and stops it.
fn configz(node: &Node, directory: &str, arguments: &[String]) -> Result<Value> {
    let mut all = case::arguments(&["--chdir", directory, "kubelet"], &[]);
    all.extend_from_slice(arguments);
    let kubelet = node.kubelet();
    kubelet.start(&Spec {
        program: "env".to_owned(),
        arguments: all,
        ..Spec::default()
    })?;
    let answer = wait::until("upstream to show its configuration", PATIENCE, || {
        if !kubelet.is_running() {
            let log = kubelet.log();
            bail!("it has ended: {}", log.lines().last().unwrap_or_default());
        }
        node.machine().run("curl", CURL)
    });
    kubelet.stop()?;
    // The last threads of a process that has ended may hold its port a moment
    // longer, and the next one wants it.
    wait::until("the port to be free", PATIENCE, || {
        let output = node.machine().command("curl").args(CURL).output()?;
        if output.status.code() == Some(CONNECTION_REFUSED) {
            Ok(())
        } else {
            bail!("curl ended with {}", output.status)
        }
    })?;
    let mut configz: Value = serde_json::from_str(&answer?)?;
    Ok(configz["kubeletconfig"].take())
}

/// Our configuration with what upstream has filled in meanwhile.
fn after_start(mut ours: Value, theirs: &Value) -> Value {
    for (field, value) in FILLED_IN {
        if theirs[field] == value {
            ours[field] = Value::from(value);
        }
    }
    ours
}
