//! What a node's door answers to curl, by somebody who may ask nearly everything.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::lab::{Kubectl, Lab, Node};
use testkit::wait;

/// Where the certificate of somebody who may ask lies on the nodes.
const LENT: &str = "/etc/lent";

/// How a node that could not ask the API server what its caller may do begins its
/// answer. It says nothing of the question then, ours and upstream's alike.
const UNDECIDED: &str = "Authorization error (";

/// Longer than a node waits for what the API server says of its caller.
const LONGEST: &str = "45";

/// With [`LONGEST`] over curl gives up with this status.
const LATE: i32 = 28;

/// Long enough for a second try after one that took [`LONGEST`].
const DECIDED: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

/// A client that the nodes know: the API server's own certificate.
pub(super) fn lend_certificate(lab: &Lab, node: &Node) -> Result<()> {
    for ending in ["crt", "key"] {
        let path = format!("/etc/kubernetes/pki/apiserver-kubelet-client.{ending}");
        let content = std::fs::read(lab.control_plane().root(&path))?;
        node.machine()
            .write(&format!("{LENT}/client.{ending}"), content)?;
    }
    Ok(())
}

/// What tells curl to be the client to whom the certificate was lent.
pub(super) fn as_client() -> [String; 6] {
    [
        "--silent".to_owned(),
        "--insecure".to_owned(),
        "--cert".to_owned(),
        format!("{LENT}/client.crt"),
        "--key".to_owned(),
        format!("{LENT}/client.key"),
    ]
}

/// What a node answers: options of curl, and a path.
pub(super) fn asked(node: &Node, request: &[&str]) -> Result<Answer> {
    decided(|| {
        let answer = asked_once(node, request);
        let undecided = match &answer {
            Ok(answer) => is_undecided(&answer.body),
            Err(error) => error.to_string().starts_with(&late()),
        };
        (answer, undecided)
    })
}

fn late() -> String {
    format!("exit status: {LATE}: ")
}

pub(crate) fn is_undecided(answer: &str) -> bool {
    answer.contains(UNDECIDED)
}

/// Asks again as long as `ask` says of its answer that the node could not decide.
pub(crate) fn decided<T: Debug>(mut ask: impl FnMut() -> (Result<T>, bool)) -> Result<T> {
    wait::until("a node that knows what its caller may do", DECIDED, || {
        let (answer, undecided) = ask();
        if undecided {
            println!("asked again after {answer:?}");
            return Err(format!("{answer:?}"));
        }
        Ok(answer)
    })?
}

/// What comes of a request that a node is asked for by the API server. One that the node
/// could not decide has done nothing there, and is made again.
pub(crate) fn made<T: Debug>(mut request: impl FnMut() -> Result<T>) -> Result<T> {
    decided(|| {
        let done = request();
        let undecided = done
            .as_ref()
            .is_err_and(|error| is_undecided(&format!("{error:#}")));
        (done, undecided)
    })
}

/// What a node answers through the API server.
pub(super) fn through_api(kubectl: &Kubectl, node: &Node, path: &str) -> Result<String> {
    let place = format!("/api/v1/nodes/{}/proxy{path}", node.name());
    made(|| kubectl.run(["get", "--raw", &place]))
}

fn asked_once(node: &Node, request: &[&str]) -> Result<Answer> {
    let (path, options) = request.split_last().context("a path")?;
    let mut curl = node.machine().command("curl");
    curl.args(["--show-error", "--include", "--path-as-is"])
        .args(["--max-time", LONGEST])
        .args(as_client())
        .args(options)
        .arg(format!("https://127.0.0.1:10250{path}"));
    let output = curl.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{}: {said}{problem}",
        output.status
    );
    let (head, body) = said.split_once("\r\n\r\n").context("a head")?;
    let (first, headers) = head.split_once("\r\n").context("a status line")?;
    let headers = headers.lines().filter_map(|line| line.split_once(": "));
    let mut headers: BTreeMap<String, String> = headers
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    headers.remove("date");
    let status = first.split(' ').nth(1).unwrap_or_default();
    Ok(Answer {
        status: status.to_owned(),
        headers,
        body: body.to_owned(),
    })
}
