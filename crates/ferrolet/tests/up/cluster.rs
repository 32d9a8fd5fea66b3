//! A cluster for each test, and a kubectl for it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::lab::{self, Kubectl};
use testkit::wait::until;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_ferrolet");

/// For things that take a second on a quiet machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A `ferrolet up` that runs, ended with this.
pub(crate) struct Cluster {
    child: Child,
    said: PathBuf,
    /// How long it took until the last node was Ready.
    pub(crate) took: Duration,
    client: Client,
    _directory: TempDir,
}

/// A kubectl for one cluster.
pub(crate) struct Client {
    pub(crate) kubeconfig: PathBuf,
    kubectl: Kubectl,
}

impl Cluster {
    /// One that leaves nothing behind, with one simulated node.
    pub(crate) fn ephemeral() -> Self {
        Self::start(&["--ephemeral", "--runtime=sim"])
    }

    pub(crate) fn start(flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let said = directory.path().join("said");
        let output = File::create(&said).unwrap();
        let began = Instant::now();
        let child = Command::new(PROGRAM)
            .arg("up")
            .args(flags)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let invited = until("the nodes", PATIENCE, || {
            let text = fs::read_to_string(&said).unwrap();
            if text.contains("Ctrl-C ends it.") {
                Ok(text)
            } else {
                Err(text)
            }
        });
        let took = began.elapsed();
        let client = Client::told(&invited.unwrap());
        Self {
            child,
            said,
            took,
            client,
            _directory: directory,
        }
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    /// Ends it as Ctrl-C does, and answers how.
    pub(crate) fn end(mut self) -> String {
        signal("INT", self.child.id());
        let ended = self.child.wait().unwrap();
        let said = self.said();
        assert!(ended.success(), "{said}");
        said
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            signal("TERM", self.child.id());
            let _ = self.child.wait();
        }
    }
}

impl std::ops::Deref for Cluster {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

pub(crate) fn signal(name: &str, process: u32) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

impl Client {
    /// For the kubeconfig that is named in what a cluster said.
    pub(crate) fn told(said: &str) -> Self {
        let named = said
            .lines()
            .find_map(|line| line.split_once("export KUBECONFIG="));
        let kubeconfig = Path::new(named.unwrap().1.trim()).to_owned();
        let kubectl = lab::kubectl(&kubeconfig).unwrap();
        Self {
            kubeconfig,
            kubectl,
        }
    }

    /// A kubectl that goes on.
    pub(crate) fn start(&self, words: &[&str]) -> GoingOn {
        let mut command = self.command(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        GoingOn { child, said }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.kubectl.command();
        // A cache of another cluster at the same port would be believed.
        command
            .args(words)
            .env("HOME", self.kubeconfig.parent().unwrap());
        command
    }

    fn output(&self, words: &[&str], input: &str) -> Output {
        let mut command = self.command(words);
        command.env("KUBE_EDITOR", "sed -i s/before/after/");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, input.as_bytes()).unwrap();
        drop(stdin);
        child.wait_with_output().unwrap()
    }

    /// What kubectl prints when it succeeds.
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        self.ok_with(words, "")
    }

    /// The same with something for it to read.
    pub(crate) fn ok_with(&self, words: &[&str], input: &str) -> String {
        let (success, said) = self.ended(words, input);
        assert!(success, "kubectl {words:?}: {said}");
        said
    }

    /// What kubectl complains of when it fails.
    pub(crate) fn fails(&self, words: &[&str]) -> String {
        self.fails_with(words, "")
    }

    /// The same with something for it to read.
    pub(crate) fn fails_with(&self, words: &[&str], input: &str) -> String {
        let (success, said) = self.ended(words, input);
        assert!(!success, "kubectl {words:?} succeeded: {said}");
        said
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = words.iter().copied().chain(["-o", "json"]).collect();
        serde_json::from_str(&self.ok(&words)).unwrap()
    }

    fn ended(&self, words: &[&str], input: &str) -> (bool, String) {
        let output = self.output(words, input);
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }
}

/// A kubectl that runs until this is dropped.
pub(crate) struct GoingOn {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl GoingOn {
    /// The next line that it says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for GoingOn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
