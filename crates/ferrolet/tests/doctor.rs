//! `ferrolet doctor` and `ferrolet explain` where nothing answers: they end in time, and
//! say what is wrong.
//!
//! In: the built binary, files of a node, a runtime and an API server that take calls
//! and never answer. Out: verdicts on what is printed, and when. Nothing here needs root
//! or the lab.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reads the clock, and panics to say no"
)]

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ferrolet");

/// The files of a node whose API server is at `server`.
fn node(server: &str) -> TempDir {
    let root = TempDir::new().unwrap();
    let put = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
    put(
        "kubelet.conf",
        &format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: '{server}', insecure-skip-tls-verify: true}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        ),
    );
    put(
        "config.yaml",
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\n",
    );
    fs::create_dir(root.path().join("pki")).unwrap();
    root
}

fn run(verb: &[&str], root: &TempDir, more: &[&str]) -> Output {
    let path = |name: &str| root.path().join(name).display().to_string();
    Command::new(PROGRAM)
        .args(verb)
        .args(["--kubeconfig", &path("kubelet.conf")])
        .args(["--bootstrap-kubeconfig", &path("bootstrap.conf")])
        .args(["--config", &path("config.yaml")])
        .args(["--cert-dir", &path("pki")])
        .args(["--root-dir", &path("")])
        .args(["--runtime-endpoint", &path("runtime.sock")])
        .args(["--node-name", "n1"])
        .args(more)
        .env_remove("KUBECONFIG")
        .env("HOME", root.path())
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn findings<'a>(report: &'a Value, check: &str) -> &'a [Value] {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|one| one["name"] == check).unwrap();
    check["findings"].as_array().unwrap()
}

#[test]
fn where_nothing_answers_every_look_ends_in_time_and_is_told() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let root = node(&format!("https://{address}"));
    let _runtime = UnixListener::bind(root.path().join("runtime.sock")).unwrap();
    let began = Instant::now();
    let output = run(&["doctor"], &root, &["--timeout", "1s", "-o", "json"]);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["node"], "n1");
    let server = &findings(&report, "API server")[0];
    assert_eq!(server["object"], format!("https://{address}"));
    let cause = server["cause"].as_str().unwrap();
    assert!(cause.contains("does not answer"), "{cause}");
    let runtime = &findings(&report, "runtime")[0];
    let cause = runtime["cause"].as_str().unwrap();
    assert!(cause.contains("no answer within 1 s"), "{cause}");
    assert!(!findings(&report, "certificates").is_empty());
}

#[test]
fn what_is_missing_is_told_in_words_and_fails() {
    let root = node("https://127.0.0.1:1");
    let output = run(&["doctor"], &root, &["--timeout", "2s"]);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.starts_with("node n1\n"), "{told}");
    assert!(told.contains("runtime        error"), "{told}");
    assert!(told.contains("\nerror    https://127.0.0.1:1\n"), "{told}");
    fs::write(root.path().join("config.yaml"), "maxPods: [").unwrap();
    let told = text(&run(&["doctor"], &root, &["--timeout", "2s"]));
    assert!(told.contains("configuration  error"), "{told}");
}

#[test]
fn a_walk_says_what_it_could_not_see() {
    let root = node("https://127.0.0.1:1");
    for (topic, title) in [
        ("bootstrap", "How a node gets its identity"),
        ("heartbeat", "How a cluster knows that a node lives"),
        ("pod", "What becomes of a pod on a node"),
        ("rotation", "How a node renews its certificates"),
    ] {
        let output = run(&["explain", topic], &root, &[]);
        let told = text(&output);
        assert_eq!(output.status.code(), Some(0), "{told}");
        assert!(told.starts_with(title), "{told}");
        assert!(told.contains("The API server does not"), "{told}");
        assert!(told.contains("\n1. "), "{told}");
    }
}

#[test]
fn a_wrong_word_is_wrong_usage() {
    let output = Command::new(PROGRAM)
        .args(["doctor", "--timeout", "soon"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
