//! The program as its users meet it: what it prints, where, and its exit code.
//!
//! In: the built binary. Out: verdicts. Nothing here needs root or the lab.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reads the clock, and panics to say no"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ferrolet");
const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn run(words: &[&str]) -> Output {
    Command::new(PROGRAM).args(words).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn file(dir: &TempDir, name: &str, body: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, format!("{HEAD}{body}")).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_defaults_are_printed_in_no_time() {
    let fastest = (0..30)
        .map(|_| {
            let start = Instant::now();
            let output = run(&["config", "print-defaults"]);
            assert!(stdout(&output).contains("\nmaxPods: 110\n"));
            start.elapsed()
        })
        .min()
        .unwrap();
    assert!(fastest < Duration::from_millis(20), "{fastest:?}");
}

#[test]
fn under_the_name_kubelet_it_is_one() {
    let dir = TempDir::new().unwrap();
    let kubelet = dir.path().join("kubelet");
    symlink(PROGRAM, &kubelet).unwrap();
    let output = Command::new(&kubelet).arg("--version").output().unwrap();
    assert!(
        stdout(&output).starts_with("Kubernetes v1.36."),
        "{output:?}"
    );
    assert_eq!(output.status.code(), Some(0));
    let same = run(&["kubelet", "--version"]);
    assert_eq!(same.stdout, output.stdout);
    let help = Command::new(&kubelet).arg("-h").output().unwrap();
    assert!(stdout(&help).contains("--pod-manifest-path"));
}

#[test]
fn an_error_of_the_kubelet_is_a_log_line_that_tools_can_parse() {
    let output = run(&["kubelet", "--max-podz=5"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let line = stderr(&output);
    let (header, rest) = line.split_once("] ").unwrap();
    let words: Vec<&str> = header.split_whitespace().collect();
    let [date, time, pid, place] = words[..] else {
        panic!("{header}");
    };
    assert!(date.starts_with('E') && date.len() == 5, "{date}");
    assert_eq!(time.len(), "09:17:09.149488".len(), "{time}");
    assert!(pid.parse::<u32>().is_ok(), "{pid}");
    assert!(place.contains(".rs:"), "{place}");
    assert!(rest.starts_with("\"command failed\" err=\""), "{rest}");
    assert!(rest.contains("did you mean --max-pods?"), "{rest}");

    let words = ["kubelet", "--max-pods=-3", "--logging-format=json"];
    let line = stderr(&run(&words));
    let json = line.lines().last().unwrap();
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["msg"], "command failed");
    assert!(json["err"].as_str().unwrap().contains("maxPods: found -3"));
}

#[test]
fn a_bad_gate_ends_as_upstreams_panic_does_but_with_words() {
    let dir = TempDir::new().unwrap();
    let bad = file(&dir, "bad.yaml", "featureGates: {NodeSwap: false}\n");
    let output = run(&["kubelet", "--config", text(&bad)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("NodeSwap is locked to true"));
}

#[test]
fn an_unknown_field_is_forgiven_once_by_the_kubelet_and_never_by_validate() {
    let dir = TempDir::new().unwrap();
    let odd = file(&dir, "odd.yaml", "maxPodz: 5\nfailCgroupV1: false\n");
    let pki = format!("--cert-dir={}", dir.path().join("pki").display());
    let output = run(&["kubelet", "--kubeconfig=/k", &pki, "--config", text(&odd)]);
    let said = stderr(&output);
    assert_eq!(said.matches("maxPodz").count(), 1, "{said}");
    assert!(said.contains("configuration accepted"), "{said}");
    assert!(said.contains("kubeconfig /k"), "{said}");

    let output = run(&["config", "validate", text(&odd)]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "error: {}:3:1: maxPodz: there is no such field; did you mean maxPods?\n",
        odd.display()
    );
    assert_eq!(stdout(&output), expected);
    let fine = file(&dir, "fine.yaml", "maxPods: 5\n");
    let output = run(&["config", "validate", text(&fine)]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn explain_says_who_gave_a_value_and_what_it_was() {
    let dir = TempDir::new().unwrap();
    let config = file(&dir, "config.yaml", "maxPods: 50\n");
    let drop_ins = dir.path().join("conf.d");
    fs::create_dir(&drop_ins).unwrap();
    fs::write(drop_ins.join("10.conf"), format!("{HEAD}maxPods: 60\n")).unwrap();
    let mut words = vec!["config", "explain", "maxPods", "--"];
    words.extend(["--config", text(&config), "--config-dir", text(&drop_ins)]);
    words.push("--max-pods=70");
    let said = stdout(&run(&words));
    let rows: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("now") || line.starts_with("before"))
        .collect();
    let [now, drop_in, file] = rows[..] else {
        panic!("{said}");
    };
    assert!(now.ends_with("70, flag --max-pods=70"), "{now}");
    assert!(
        drop_in.contains("60, ") && drop_in.ends_with("10.conf:3:1 (drop-in)"),
        "{drop_in}"
    );
    assert!(
        file.contains("50, ") && file.ends_with("config.yaml:3:1"),
        "{file}"
    );
}

#[test]
fn what_has_no_effect_is_listed_by_explain_and_at_verbosity_two() {
    let listed = stdout(&run(&["config", "explain", "--not-effective"]));
    for name in ["contentType ", "featureGates.PodsAPI "] {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{name}");
    }
    assert!(
        !listed
            .lines()
            .any(|line| line.starts_with("logging.format "))
    );
    let dir = TempDir::new().unwrap();
    let config = file(&dir, "config.yaml", "failCgroupV1: false\n");
    let pki = format!("--cert-dir={}", dir.path().join("pki").display());
    let start = |verbosity: &str| {
        let words = [
            "kubelet",
            "--kubeconfig=/k",
            &pki,
            "--config",
            text(&config),
            verbosity,
        ];
        stderr(&run(&words))
    };
    let told = start("-v=2");
    assert!(told.contains("setting=\"contentType\""), "{told}");
    assert!(told.contains("FLAG: --address="), "{told}");
    let told = start("-v=0");
    assert!(
        !told.contains("contentType") && !told.contains("FLAG:"),
        "{told}"
    );
}

#[test]
fn flags_become_a_file_that_means_the_same() {
    let dir = TempDir::new().unwrap();
    let flags = [
        "--max-pods=50",
        "--cluster-dns=10.0.0.10",
        "--kubeconfig=/k",
    ];
    let convert = [&["config", "convert", "--"][..], &flags].concat();
    let output = run(&convert);
    assert!(
        stderr(&output).contains("keep them: --kubeconfig=/k"),
        "{output:?}"
    );
    let converted = dir.path().join("converted.yaml");
    fs::write(&converted, &output.stdout).unwrap();
    let print = ["config", "print", "--"];
    let before = run(&[&print[..], &flags, &["--fail-cgroupv1=false"]].concat());
    let after = run(&[
        &print[..],
        &["--config", text(&converted), "--fail-cgroupv1=false"],
    ]
    .concat());
    assert_eq!(stdout(&before), stdout(&after));
    assert!(stdout(&after).contains("maxPods: 50"));
}
