//! Somebody who asks a node over HTTPS: curl, in the node, with a token of its own.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use testkit::lab::{Daemon, Kubectl, Node, Spec};

const PORT: &str = "https://127.0.0.1:10250";

/// What is told of each answer: its status, connections that were made for it, bytes,
/// seconds.
const TOLD: &str = "%{http_code} %{num_connects} %{size_download} %{time_total}\\n";

/// Who may ask a node everything, for as long as this value is there.
pub(super) struct Client<'a> {
    node: &'a Node,
    kubectl: Kubectl,
    binding: String,
    token: String,
}

/// Answers, one after the other over one connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Answers {
    pub(super) count: u32,
    /// Of the last one.
    pub(super) bytes: u64,
    /// For all of them.
    pub(super) seconds: f64,
}

impl<'a> Client<'a> {
    /// A service account of this namespace.
    pub(super) fn new(kubectl: &Kubectl, node: &'a Node, namespace: &str) -> Result<Self> {
        let binding = format!("{namespace}-asks");
        let manifest = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": binding },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:kubelet-api-admin",
            },
            "subjects": [{ "kind": "ServiceAccount", "name": "default", "namespace": namespace }],
        });
        kubectl.apply(&manifest.to_string())?;
        let words = ["--namespace", namespace, "create", "token", "default"];
        let token = kubectl.run(words)?;
        Ok(Self {
            node,
            kubectl: kubectl.clone(),
            binding,
            token: token.trim().to_owned(),
        })
    }

    /// Asks so many times. `flags` are curl's.
    pub(super) fn ask(&self, path: &str, count: u32, flags: &[&str]) -> Result<Answers> {
        let mut words = self.words(path, count);
        words.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let words = words.iter().map(String::as_str);
        let said = self.node.machine().run("curl", words)?;
        let answers = read(&said).with_context(|| format!("asking for {path}"))?;
        ensure!(
            answers.count == count,
            "{count} requests for {path} were answered {} times",
            answers.count
        );
        Ok(answers)
    }

    /// Asks over and over, so many times a second, until it is stopped. `number` tells it from
    /// others who do so.
    pub(super) fn pester(&self, path: &str, each_second: u32, number: usize) -> Result<Daemon> {
        let mut arguments = self.words(path, 1_000_000);
        arguments.extend(["--rate".to_owned(), format!("{each_second}/s")]);
        let daemon = self.node.machine().daemon(&format!("pesterer-{number}"));
        daemon.start(&Spec {
            program: "curl".to_owned(),
            arguments,
            ..Spec::default()
        })?;
        Ok(daemon)
    }

    fn words(&self, path: &str, count: u32) -> Vec<String> {
        // What is behind the question mark makes curl ask again and again.
        let mark = if path.contains('?') { '&' } else { '?' };
        let words = [
            &format!("{PORT}{path}{mark}number=[1-{count}]"),
            "--silent",
            "--show-error",
            "--insecure",
            "--output",
            "/dev/null",
            "--write-out",
            TOLD,
            "--header",
            &format!("Authorization: Bearer {}", self.token),
        ];
        words.map(str::to_owned).to_vec()
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        let words = ["delete", "clusterrolebinding", &self.binding];
        let _ = self.kubectl.run(words);
    }
}

/// All are good, and came over one connection.
fn read(said: &str) -> Result<Answers> {
    let mut answers = Answers {
        count: 0,
        bytes: 0,
        seconds: 0.0,
    };
    let mut connections = 0;
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [status, made, bytes, seconds] = words[..] else {
            anyhow::bail!("curl has said {line:?}");
        };
        ensure!(status == "200", "an answer is {status}");
        connections += made.parse::<u32>()?;
        answers.bytes = bytes.parse()?;
        answers.seconds += seconds.parse::<f64>()?;
        answers.count += 1;
    }
    ensure!(connections == 1, "{connections} connections were made");
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_and_bad_ones_are_none() {
        let answers = read("200 1 7 0.5\n200 0 9 0.25\n").unwrap();
        let wanted = Answers {
            count: 2,
            bytes: 9,
            seconds: 0.75,
        };
        assert_eq!(answers, wanted);
        assert!(read("200 1 7 0.5\n403 0 9 0.25\n").is_err());
        assert!(read("200 1 7 0.5\n200 1 9 0.25\n").is_err());
        assert!(read("").is_err());
    }
}
