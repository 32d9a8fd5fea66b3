//! The cluster's tools as far as they need no cluster: what they refuse, what
//! they leave behind, and what they can make alone.
//!
//! In: the built binary. Out: verdicts. Nothing here needs root or the lab.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test panics to say no")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ferrolet");
const TOKEN: &str = "abcdef.0123456789abcdef";

/// A directory of its own to run in, with a home without a kubeconfig.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            directory: TempDir::new().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn run(&self, words: &[&str]) -> Output {
        Command::new(PROGRAM)
            .args(words)
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path())
            .env_remove("KUBECONFIG")
            .output()
            .unwrap()
    }

    /// Runs, checks the exit code, and answers what was said on standard error.
    fn refused(&self, code: i32, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn printed(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A kubeconfig for an address at which nobody listens.
    fn write_lonely_kubeconfig(&self) {
        self.write("ca.crt", &authority());
        self.write(
            "lonely",
            "{apiVersion: v1, kind: Config, current-context: x, \
             clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority: ca.crt}}], \
             users: [{name: u, user: {token: secret-of-the-user}}], \
             contexts: [{name: x, context: {cluster: c, user: u}}]}",
        );
    }
}

fn authority() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::default();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    parameters.self_signed(&key).unwrap().pem()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_malformed_token_is_refused_and_not_repeated() {
    let place = Place::new();
    place.write("ca.crt", &authority());
    let bad = "abcdef.0123456789ABCDEF";
    for words in [
        &["token", "create", bad][..],
        &["token", "delete", bad],
        &["token", "delete", "abcdef0123456789ABCDEF"],
        &[
            "kubeconfig",
            "bootstrap",
            "--server",
            "https://x:1",
            "--ca",
            "ca.crt",
            "--token",
            bad,
        ],
    ] {
        let said = place.refused(2, words);
        assert!(said.contains("ID.SECRET"), "{said}");
        assert!(!said.contains("0123456789ABCDEF"), "{said}");
    }
    assert!(
        place
            .refused(2, &["token", "delete", "abc"])
            .contains("6 characters")
    );
}

#[test]
fn what_a_token_cannot_be_is_said_before_the_cluster_is_asked() {
    let place = Place::new();
    for (words, expected) in [
        (&["--usages", "eating"][..], "signing and authentication"),
        (&["--groups", "system:masters"], "system:bootstrappers:"),
        (
            &["--usages", "signing", "--groups", "system:bootstrappers:a"],
            "authentication",
        ),
        (&["--ttl", "24"], "unit is missing"),
        (&["--ttl=-1h"], "negative"),
    ] {
        let said = place.refused(2, &[&["token", "create"], words].concat());
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}

#[test]
fn a_fresh_token_is_a_token() {
    let place = Place::new();
    let token = place.printed(&["token", "generate"]);
    let (id, secret) = token.trim_end().split_once('.').unwrap();
    assert_eq!((id.len(), secret.len()), (6, 16), "{token}");
    assert_ne!(token, place.printed(&["token", "generate"]));
}

#[test]
fn a_request_that_cannot_be_meant_leaves_nothing_behind() {
    let place = Place::new();
    for (words, expected) in [
        (&["--subject", "jane"][..], "NAME=VALUE"),
        (&["--subject", "O=dev"], "no CN"),
        (&["--subject", "CN=jane,X=y"], "CN, O, OU, C, L and ST"),
        (
            &["--subject", "CN=jane", "--expires", "599s"],
            "no less than 600s",
        ),
        (&["--subject", "CN=jane", "--expires", "1d"], "unknown unit"),
        (
            &["--subject", "CN=jane", "--key-type", "rsa"],
            "openssl genrsa",
        ),
        (&["--subject", "CN=jane", "--key-type", "dsa"], "ecdsa-p256"),
        (&["--subject", "CN=jane", "--signer", "mine"], "DOMAIN/NAME"),
        (
            &["--subject", "CN=jane", "--signer", "example.com/mine"],
            "--usages",
        ),
        (
            &["--subject", "CN=jane", "--usages", "eating"],
            "server auth",
        ),
        (
            &["--subject", "CN=jane", "--ip", "10.0.0.256"],
            "10.0.0.256",
        ),
    ] {
        let said = place.refused(2, &[&["csr", "create"], words].concat());
        assert!(said.contains(expected), "{words:?}: {said}");
    }
    assert_eq!(place.files(), Vec::<String>::new());
}

#[test]
fn files_that_are_there_are_not_overwritten() {
    let place = Place::new();
    place.write_lonely_kubeconfig();
    let create = ["csr", "create", "--kubeconfig", "lonely", "--subject"];
    let said = place.refused(1, &[&create[..], &["CN=jane"]].concat());
    assert!(said.contains("https://127.0.0.1:1"), "{said}");
    assert!(!said.contains("secret-of-the-user"), "{said}");
    let key = place.path("jane.key");
    let mode = fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (made_key, made_request) = (text(&key), text(&place.path("jane.csr")));

    // A second run goes on with both, and another wish is not one to go on with.
    let said = place.refused(1, &[&create[..], &["CN=jane"]].concat());
    assert!(said.contains("using the key"), "{said}");
    let said = place.refused(1, &[&create[..], &["CN=joe", "--out", "jane"]].concat());
    assert!(
        said.contains("jane.csr") && said.contains("--out"),
        "{said}"
    );
    place.write("jane.crt", &authority());
    let said = place.refused(1, &[&create[..], &["CN=jane"]].concat());
    assert!(
        said.contains("jane.crt") && said.contains("--out"),
        "{said}"
    );
    assert_eq!(text(&key), made_key);
    assert_eq!(text(&place.path("jane.csr")), made_request);
}

#[test]
fn a_key_that_somebody_made_is_used_and_one_that_is_none_is_named() {
    let place = Place::new();
    place.write_lonely_kubeconfig();
    place.write(
        "own.key",
        &rcgen::KeyPair::generate().unwrap().serialize_pem(),
    );
    place.write("no.key", "nothing");
    let create = [
        "csr",
        "create",
        "--kubeconfig",
        "lonely",
        "--subject",
        "CN=jane",
        "--key",
    ];
    let said = place.refused(1, &[&create[..], &["own.key"]].concat());
    assert!(
        said.contains("using the key") && said.contains("own.key"),
        "{said}"
    );
    assert!(!place.path("jane.key").exists());
    for bad in ["no.key", "none.key"] {
        let said = place.refused(1, &[&create[..], &[bad]].concat());
        assert!(said.contains(bad), "{said}");
    }
}

#[test]
fn a_kubeconfig_that_is_not_there_is_named() {
    let place = Place::new();
    let said = place.refused(1, &["csr", "list", "--kubeconfig", "none"]);
    assert!(said.contains("/none: No such file"), "{said}");
    let output = Command::new(PROGRAM)
        .args(["token", "list"])
        .current_dir(place.directory.path())
        .env("KUBECONFIG", "one:/two")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("/one, /two;") && said.contains("--kubeconfig"),
        "{said}"
    );
}

#[test]
fn a_bootstrap_kubeconfig_is_made_once_for_its_owner_only() {
    let place = Place::new();
    place.write("ca.crt", &authority());
    let words = [
        "kubeconfig",
        "bootstrap",
        "--server",
        "10.0.0.1:6443",
        "--ca",
        "ca.crt",
        "--token",
    ];
    let shown = place.printed(&[&words[..], &[TOKEN]].concat());
    assert!(shown.contains("server: https://10.0.0.1:6443\n"), "{shown}");
    assert!(shown.contains(&format!("token: {TOKEN}\n")), "{shown}");

    let with_out = [&words[..], &[TOKEN, "--out", "boot"]].concat();
    assert!(place.printed(&with_out).ends_with("/boot created\n"));
    assert!(place.printed(&with_out).ends_with("/boot unchanged\n"));
    assert_eq!(text(&place.path("boot")), shown);
    let mode = fs::metadata(place.path("boot"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let other = [&words[..], &["fedcba.0123456789abcdef", "--out", "boot"]].concat();
    let said = place.refused(1, &other);
    assert!(said.contains("not overwritten"), "{said}");
    assert!(!said.contains("fedcba"), "{said}");
    assert_eq!(text(&place.path("boot")), shown);

    let no_server = [
        "kubeconfig",
        "bootstrap",
        "--server",
        "http://x",
        "--ca",
        "ca.crt",
        "--token",
        TOKEN,
    ];
    assert!(place.refused(1, &no_server).contains("https://HOST:PORT"));
    let no_authority = [
        "kubeconfig",
        "bootstrap",
        "--server",
        "x:1",
        "--ca",
        "none",
        "--token",
        TOKEN,
    ];
    assert!(place.refused(1, &no_authority).contains("/none"));
}

#[test]
fn the_roles_are_shown_without_a_cluster() {
    let place = Place::new();
    let group = "system:bootstrappers:rack7";
    let words = ["rbac", "bootstrap", "--group", group, "--dry-run"];
    let lines = place.printed(&words);
    assert_eq!(lines.lines().count(), 6);
    assert!(
        lines
            .lines()
            .all(|line| line.ends_with(" created (dry run)")),
        "{lines}"
    );
    let json = place.printed(&[&words[..], &["-o", "json"]].concat());
    let list: Value = serde_json::from_str(&json).unwrap();
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 6);
    let of_group = items
        .iter()
        .filter(|item| item["subjects"][0]["name"] == group);
    assert_eq!(of_group.count(), 3);
    let yaml = place.printed(&[&words[..], &["-o", "yaml"]].concat());
    assert_eq!(yaml.matches("\n---\n").count(), 5);
    let said = place.refused(2, &["rbac", "bootstrap", "--group", "system:masters"]);
    assert!(said.contains("system:masters"), "{said}");
}

#[test]
fn watching_is_for_serving_requests_and_names_are_for_the_rest() {
    let place = Place::new();
    for words in [
        &["csr", "approve"][..],
        &["csr", "approve", "--watch"],
        &["csr", "approve", "--watch", "csr-a"],
        &["csr", "approve", "--kubelet-serving", "csr-a"],
        &["csr", "deny"],
    ] {
        place.refused(2, words);
    }
}

#[test]
fn every_command_has_an_example_in_its_help() {
    let place = Place::new();
    for words in [
        &["token", "create"][..],
        &["token", "list"],
        &["token", "delete"],
        &["token", "generate"],
        &["csr", "create"],
        &["csr", "list"],
        &["csr", "show"],
        &["csr", "approve"],
        &["csr", "deny"],
        &["kubeconfig", "bootstrap"],
        &["rbac", "bootstrap"],
        &["completions"],
    ] {
        let help = place.printed(&[words, &["--help"]].concat());
        let line = format!("ferrolet {}", words.join(" "));
        let example = help.split("Example").nth(1).unwrap_or_default();
        assert!(example.contains(&line), "{help}");
    }
}

#[test]
fn shells_learn_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.printed(&["completions", shell]);
        for word in ["kubelet-serving", "print-join-command", "ferrolet"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
}
