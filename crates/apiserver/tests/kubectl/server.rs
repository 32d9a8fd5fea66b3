//! One server for each test, in memory, and a kubectl for it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::SystemTime;

use apiserver::access::ServingNames;
use apiserver::store::Window;
use apiserver::{Clock, Options, Server};
use serde_json::Value;
use tempfile::TempDir;
use testkit::lab::{self, Kubectl};
use tokio::runtime::Runtime;

/// A cluster with nobody in it.
pub(crate) struct Cluster {
    _runtime: Runtime,
    pub(crate) server: Server,
    kubectl: Kubectl,
    directory: TempDir,
}

pub(crate) fn options(data_dir: Option<&Path>) -> Options {
    Options {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        data_dir: data_dir.map(Path::to_path_buf),
        names: ServingNames {
            names: Vec::new(),
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            service_address: IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)),
            cluster_domain: "cluster.local".to_owned(),
        },
        clock: Clock::new(SystemTime::now),
        window: Window::default(),
    }
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let server = runtime.block_on(Server::start(options(None))).unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        fs::write(&kubeconfig, server.admin_kubeconfig()).unwrap();
        let kubectl = lab::kubectl(&kubeconfig).unwrap();
        Self {
            _runtime: runtime,
            server,
            kubectl,
            directory,
        }
    }

    fn output(&self, words: &[&str], input: &str) -> Output {
        let mut child = self.spawn(words);
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, input.as_bytes()).unwrap();
        drop(stdin);
        child.wait_with_output().unwrap()
    }

    pub(crate) fn spawn(&self, words: &[&str]) -> Child {
        let mut command = self.kubectl.command();
        command.args(words).env("HOME", self.directory.path());
        command.env("KUBE_EDITOR", "sed -i s/before/after/");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// What kubectl prints when it succeeds.
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        self.ok_with(words, "")
    }

    /// The same with something for it to read.
    pub(crate) fn ok_with(&self, words: &[&str], input: &str) -> String {
        let output = self.output(words, input);
        let said = String::from_utf8(output.stdout).unwrap();
        let complained = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.success(),
            "kubectl {words:?}: {said}{complained}"
        );
        said + &complained
    }

    pub(crate) fn apply(&self, manifest: &str) -> String {
        self.ok_with(&["apply", "-f", "-"], manifest)
    }

    pub(crate) fn config_map(&self, name: &str) {
        self.ok(&["create", "configmap", name]);
    }

    /// What kubectl complains of when it fails.
    pub(crate) fn fails(&self, words: &[&str]) -> String {
        self.fails_with(words, "")
    }

    pub(crate) fn fails_with(&self, words: &[&str], input: &str) -> String {
        let output = self.output(words, input);
        let said = String::from_utf8(output.stdout).unwrap();
        let complained = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success(),
            "kubectl {words:?} succeeded: {said}"
        );
        said + &complained
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = words.iter().copied().chain(["-o", "json"]).collect();
        let output = self.output(&words, "");
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {words:?}: {complained}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}
