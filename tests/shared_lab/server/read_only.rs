//! The port that asks nobody who he is: every path of the node's port there, on our node and
//! on an upstream one.

use anyhow::{Context, Result, ensure};
use testkit::command;
use testkit::lab::Node;

/// What is asked there. What is below a pod's name is of no pod: this is about the port.
const REQUESTS: &[(&str, &str)] = &[
    ("GET", "/"),
    ("GET", "/nope"),
    ("GET", "/healthz"),
    ("POST", "/healthz"),
    ("GET", "/healthz/"),
    ("GET", "/healthz/ping"),
    ("GET", "/healthz/log"),
    ("GET", "/healthz/syncloop"),
    ("GET", "/pods"),
    ("GET", "/pods/"),
    ("GET", "//pods"),
    ("GET", "/%70ods"),
    ("POST", "/pods"),
    ("DELETE", "/pods"),
    ("GET", "/stats/summary"),
    ("POST", "/stats/summary"),
    ("GET", "/stats"),
    ("GET", "/stats/container"),
    ("GET", "/metrics"),
    ("GET", "/metrics/cadvisor"),
    ("GET", "/metrics/resource"),
    ("GET", "/metrics/probes"),
    ("GET", "/metrics/slis"),
    ("GET", "/metrics/nope"),
    ("GET", "/runningpods"),
    ("GET", "/runningpods/"),
    ("GET", "/configz"),
    ("GET", "/statusz"),
    ("GET", "/flagz"),
    ("GET", "/logs"),
    ("GET", "/logs/"),
    ("GET", "/logs/?query=kubelet"),
    ("GET", "/logs/../../etc/passwd"),
    ("GET", "/containerLogs/default/nope/c"),
    ("GET", "/exec/default/nope/c?command=true&output=1"),
    ("POST", "/exec/default/nope/c?command=true&output=1"),
    ("POST", "/attach/default/nope/c?output=1"),
    ("POST", "/portForward/default/nope"),
    ("GET", "/portForward/default/nope"),
    ("POST", "/run/default/nope/c?cmd=true"),
    ("POST", "/checkpoint/default/nope/c"),
    ("GET", "/debug/pprof/"),
    ("GET", "/debug/pprof/profile?seconds=1"),
    ("GET", "/debug/flags/v"),
    ("PUT", "/debug/flags/v"),
];

/// Answers of which only the status is compared: those that tell of the node have tests of
/// their own.
const CONTENT: &[&str] = &["/pods", "/%70ods", "/stats/summary", "/metrics"];

pub(crate) fn compare(theirs: &Node, ours: &Node) -> Result<()> {
    let mut wrong = Vec::new();
    let mut open = 0;
    for (method, path) in REQUESTS {
        let [theirs, ours] = [theirs, ours].map(|node| asked(node, method, path));
        let (theirs, ours) = (theirs?, ours?);
        open += usize::from(ours.0 == "200");
        let content = CONTENT.iter().any(|one| path.starts_with(one)) && theirs.0 == "200";
        if theirs.0 != ours.0 || (!content && theirs.1 != ours.1) {
            wrong.push(format!(
                "{method} {path}: upstream {theirs:?}, ours {ours:?}"
            ));
        }
    }
    ensure!(open > 10, "{open} of the answers are any");
    ensure!(
        wrong.is_empty(),
        "{} differ on port 10255:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    Ok(())
}

/// The status, and what is said.
fn asked(node: &Node, method: &str, path: &str) -> Result<(String, String)> {
    let mut curl = node.machine().command("curl");
    curl.args(["--silent", "--show-error", "--max-time", "20"])
        .args(["--path-as-is", "--request", method])
        .args(["--write-out", "\n%{http_code}"])
        .arg(format!("http://127.0.0.1:10255{path}"));
    let said = command::run(&mut curl)?;
    let (body, status) = said.rsplit_once('\n').context("no status")?;
    Ok((status.to_owned(), body.replace(node.name(), "NODE")))
}
