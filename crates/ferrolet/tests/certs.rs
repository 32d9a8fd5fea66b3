//! `ferrolet certs` as an operator at three in the morning meets it.
//!
//! In: the built binary, and certificate directories in every state. Out:
//! verdicts on what it prints and its exit code. Nothing here needs root or the
//! lab; as root, one test gives up root's right to read everything.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reads the clock, and panics to say no"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use identity::decide::state::{State, Step, Wait};
use identity::published::Published;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ferrolet");
const DATED: &str = "kubelet-client-2026-01-01-00-00-00.pem";
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// A signer of certificates.
struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Ca {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// A certificate and its key, in PEM, for n1.
    fn issue(&self, from: SystemTime, until: SystemTime) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let name = &mut params.distinguished_name;
        name.push(DnType::OrganizationName, "system:nodes");
        name.push(DnType::CommonName, "system:node:n1");
        params.not_before = from.into();
        params.not_after = until.into();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn ago(seconds: u64) -> SystemTime {
    SystemTime::now() - Duration::from_secs(seconds)
}

fn ahead(seconds: u64) -> SystemTime {
    SystemTime::now() + Duration::from_secs(seconds)
}

/// A node's directories.
struct Node {
    root: TempDir,
    ca: Ca,
}

impl Node {
    fn new() -> Self {
        let node = Self {
            root: TempDir::new().unwrap(),
            ca: Ca::new("kubernetes"),
        };
        fs::create_dir(node.path("pki")).unwrap();
        fs::write(node.path("ca.crt"), &node.ca.pem).unwrap();
        node
    }

    /// One with a good client certificate and a kubeconfig that shows it.
    fn joined() -> Self {
        let node = Self::new();
        node.store(ago(10 * DAY), ahead(90 * DAY + HOUR));
        node.show_store();
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn current(&self) -> PathBuf {
        self.path("pki/kubelet-client-current.pem")
    }

    fn store(&self, from: SystemTime, until: SystemTime) {
        let (certificate, key) = self.ca.issue(from, until);
        let dated = self.path("pki").join(DATED);
        fs::write(&dated, certificate + &key).unwrap();
        symlink(&dated, self.current()).unwrap();
    }

    fn show_store(&self) {
        let file = self.current().display().to_string();
        self.kubeconfig(
            "kubelet.conf",
            &format!("{{client-certificate: {file}, client-key: {file}}}"),
        );
    }

    fn kubeconfig(&self, name: &str, user: &str) {
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'https://192.0.2.1:6443'}}}}]\nusers: [{{name: u, user: {user}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        fs::write(self.path(name), text).unwrap();
    }

    fn publish(&self, process_id: u32, client: Option<State>, serving: Option<State>) {
        let published = Published {
            node_name: "n1".to_owned(),
            process_id,
            written_at: ago(12),
            client,
            serving,
        };
        let path = Published::path(&self.path("pki"));
        published.write(&path).unwrap();
    }

    fn command(&self, program: &mut Command, words: &[&str]) -> Output {
        program
            .arg("certs")
            .args(words)
            .arg("--cert-dir")
            .arg(self.path("pki"))
            .arg("--kubeconfig")
            .arg(self.path("kubelet.conf"))
            .arg("--bootstrap-kubeconfig")
            .arg(self.path("bootstrap.conf"))
            .output()
            .unwrap()
    }

    fn status(&self) -> (i32, String) {
        self.told(&["status"])
    }

    fn told(&self, words: &[&str]) -> (i32, String) {
        let output = self.command(&mut Command::new(PROGRAM), words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(errors, "");
        let text = String::from_utf8(output.stdout).unwrap();
        // For whoever wants to read it: --nocapture.
        eprintln!("--- {words:?}\n{text}");
        (output.status.code().unwrap(), text)
    }

    fn json(&self) -> Value {
        let output = self.command(&mut Command::new(PROGRAM), &["status", "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// One line for each problem.
    fn check(&self) -> (i32, String) {
        let ca = self.path("ca.crt");
        self.told(&["check", "--ca", ca.to_str().unwrap()])
    }

    /// All is said that is expected, and both verbs agree on the exit code.
    fn expect_problem(&self, expected: &[&str]) {
        let (code, text) = self.status();
        let (check_code, lines) = self.check();
        assert_eq!((code, check_code), (1, 1), "{text}\n{lines}");
        assert_eq!(lines.lines().count(), 1, "{lines}");
        // Paragraphs are broken in the report and not in the check.
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in expected {
            assert!(flat.contains(part), "{part:?} is missing in:\n{text}");
            assert!(lines.contains(part), "{part:?} is missing in:\n{lines}");
        }
    }
}

/// A process that is one of ours: it waits for its standard input to end.
struct Agent(Child);

impl Agent {
    fn start() -> Self {
        let child = Command::new(PROGRAM)
            .args(["config", "validate", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn waiting(since: SystemTime) -> Wait {
    Wait {
        csr: "csr-x7k2p".to_owned(),
        since,
        approved: false,
    }
}

#[test]
fn a_node_with_nothing_is_told_how_to_join() {
    let node = Node::new();
    let (_, text) = node.status();
    assert!(text.contains("client certificate: none\n"), "{text}");
    assert!(text.contains("kubeconfig: none\n"), "{text}");
    node.expect_problem(&["kubeadm token create --print-join-command"]);

    // With a bootstrap kubeconfig it only has to be started.
    node.kubeconfig("bootstrap.conf", "{token: abcdef.0123456789abcdef}");
    let (_, text) = node.status();
    assert!(text.contains("would be used at the next start"), "{text}");
    node.expect_problem(&["no agent runs", "systemctl start kubelet"]);

    fs::write(node.path("bootstrap.conf"), "clusters: [").unwrap();
    let (code, lines) = node.check();
    assert_eq!(code, 1);
    assert!(lines.contains("would bootstrap, and cannot"), "{lines}");
    assert!(lines.contains("bootstrap.conf"), "{lines}");
}

#[test]
fn a_valid_certificate_is_shown_with_its_dates_and_nothing_to_do() {
    let node = Node::joined();
    let (code, text) = node.status();
    assert_eq!(code, 0, "{text}");
    let link = format!("{} -> {DATED}", node.current().display());
    for part in [
        "client certificate: valid for 90 days more",
        &link,
        "subject   O=system:nodes, CN=system:node:n1",
        "issuer    ",
        "CN=kubernetes",
        "(in 90 days)",
        "(10 days ago)",
        "renewal   20",
        "kubeconfig: valid",
        "shows     the client certificate above",
        "not there, and not needed",
        "agent: none has published its state here",
        "nothing to do",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    assert!(text.lines().all(|line| line.len() < 160), "{text}");
    assert_eq!(node.check(), (0, String::new()));

    let json = node.json();
    assert_eq!(json["client"]["found"], "certificate");
    assert_eq!(json["client"]["life"], "valid");
    assert_eq!(
        json["client"]["subject"],
        "O=system:nodes, CN=system:node:n1"
    );
    assert_eq!(json["kubeconfig"]["verdict"], "valid");
    assert_eq!(json["kubeconfig"]["shows"], "store");
    assert_eq!(json["problems"], serde_json::json!([]));
    let secret = serde_json::to_string(&json).unwrap();
    assert!(!secret.contains("PRIVATE"), "{secret}");
}

#[test]
fn the_window_of_renewal_is_the_one_of_the_agent() {
    let node = Node::new();
    let from = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    node.store(from, from + Duration::from_secs(1000));
    let json = node.json();
    assert_eq!(json["client"]["renewalFrom"], "2023-11-14T22:25:00Z");
    assert_eq!(json["client"]["renewalUntil"], "2023-11-14T22:28:20Z");
}

#[test]
fn an_expired_certificate_needs_new_credentials_or_an_agent() {
    let node = Node::new();
    node.store(ago(30 * DAY), ago(2 * HOUR + 60));
    node.show_store();
    let (_, text) = node.status();
    assert!(
        text.contains("client certificate: expired 2 h ago"),
        "{text}"
    );
    assert!(
        text.contains("kubeconfig: without a valid certificate"),
        "{text}"
    );
    node.expect_problem(&["expired at 20", "kubeadm token create"]);
    node.kubeconfig("bootstrap.conf", "{token: abcdef.0123456789abcdef}");
    node.expect_problem(&["bootstrap.conf; start it", "systemctl restart kubelet"]);
    // An agent that is at it knows best.
    let agent = Agent::start();
    let expired = State::Expired {
        since: ago(2 * HOUR),
        step: Some(Step::Waiting(waiting(ago(9)))),
    };
    node.publish(agent.0.id(), Some(expired), None);
    node.expect_problem(&["kubectl certificate approve csr-x7k2p"]);
}

#[test]
fn a_certificate_of_the_future_points_at_the_clock() {
    let node = Node::new();
    node.store(ahead(HOUR), ahead(DAY));
    node.show_store();
    let (_, text) = node.status();
    assert!(text.contains("not valid yet, for "), "{text}");
    node.expect_problem(&["valid only from 20", "timedatectl"]);
}

#[test]
fn a_certificate_that_nobody_renewed_in_time_is_a_problem_while_it_is_valid() {
    let node = Node::new();
    node.store(ago(95 * HOUR), ahead(5 * HOUR));
    node.show_store();
    node.expect_problem(&["should have been renewed by 20", "systemctl status kubelet"]);
}

#[test]
fn a_request_that_waits_is_told_with_the_command_that_approves_it() {
    let node = Node::new();
    node.kubeconfig("bootstrap.conf", "{token: abcdef.0123456789abcdef}");
    let agent = Agent::start();
    let state = State::WaitingForApproval(waiting(ago(30)));
    node.publish(agent.0.id(), Some(state), None);
    let (_, text) = node.status();
    for part in [
        "agent: runs",
        "node      n1",
        &format!("process   {}, as of 20", agent.0.id()),
        "(12 s ago)",
        "client    WaitingForApproval: CSR csr-x7k2p has been waiting",
        "serving   not from a signer",
        "\n      kubectl certificate approve csr-x7k2p\n",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    node.expect_problem(&["kubectl certificate approve csr-x7k2p"]);
    assert_eq!(
        node.json()["agent"]["published"]["client"]["csr"],
        "csr-x7k2p"
    );

    // What a dead agent waited for is nobody's to approve.
    drop(agent);
    let (_, text) = node.status();
    assert!(text.contains("agent: does not run"), "{text}");
    node.expect_problem(&["systemctl start kubelet"]);
}

#[test]
fn a_serving_request_waits_for_a_person_and_a_client_renewal_for_a_while() {
    let node = Node::joined();
    let agent = Agent::start();
    let serving = State::WaitingForApproval(waiting(ago(3)));
    node.publish(agent.0.id(), None, Some(serving));
    node.expect_problem(&["kubectl certificate approve csr-x7k2p"]);

    let renewing = |since| State::Rotating {
        until: ahead(90 * DAY),
        step: Step::Waiting(waiting(since)),
    };
    node.publish(agent.0.id(), Some(renewing(ago(60))), None);
    assert_eq!(node.check(), (0, String::new()));
    node.publish(agent.0.id(), Some(renewing(ago(600))), None);
    node.expect_problem(&["kubectl certificate approve csr-x7k2p"]);
}

#[test]
fn a_process_of_another_program_is_not_the_agent() {
    let node = Node::joined();
    let serving = State::WaitingForApproval(waiting(ago(3)));
    node.publish(std::process::id(), None, Some(serving));
    let (code, text) = node.status();
    assert!(text.contains("agent: does not run"), "{text}");
    assert_eq!(code, 0, "what it waited for is history:\n{text}");
}

#[test]
fn a_broken_pair_is_named_with_the_way_back() {
    let node = Node::new();
    node.store(ago(DAY), ahead(DAY));
    let whole = fs::read_to_string(node.current()).unwrap();
    fs::write(node.current(), &whole[..whole.len() / 2]).unwrap();
    node.show_store();
    let (_, text) = node.status();
    assert!(text.contains("client certificate: unusable"), "{text}");
    let file = node.current().display().to_string();
    node.expect_problem(&[
        &file,
        "cannot be used",
        "kubeadm token create --print-join-command",
    ]);

    node.kubeconfig("bootstrap.conf", "{token: abcdef.0123456789abcdef}");
    node.expect_problem(&[&format!(
        "mv {file} {file}.old && systemctl restart kubelet"
    )]);

    let spare = node.path("pki/kubelet-client-2025-12-01-00-00-00.pem");
    fs::write(&spare, whole).unwrap();
    let command = format!("ln -sfn {} {file}", spare.display());
    node.expect_problem(&[&command]);
    // The command does what it says.
    let done = Command::new("sh").args(["-c", &command]).status().unwrap();
    assert!(done.success());
    assert_eq!(node.check(), (0, String::new()));
}

#[test]
fn a_link_to_nowhere_is_turned_to_a_pair_that_is_there() {
    let node = Node::joined();
    fs::remove_file(node.current()).unwrap();
    symlink(node.path("pki/gone.pem"), node.current()).unwrap();
    let spare = node.path("pki").join(DATED).display().to_string();
    node.expect_problem(&["gone.pem, which is not there", &format!("ln -sfn {spare}")]);
}

#[test]
fn a_file_in_the_place_of_the_link_is_turned_into_one() {
    let node = Node::joined();
    let text = fs::read(node.current()).unwrap();
    fs::remove_file(node.current()).unwrap();
    fs::write(node.current(), text).unwrap();
    node.expect_problem(&["must be a symlink and is a regular file", "&& ln -s "]);
    let (_, lines) = node.check();
    let (_, command) = lines.trim().rsplit_once(": ").unwrap();
    let done = Command::new("sh").args(["-c", command]).status().unwrap();
    assert!(done.success(), "{command}");
    assert_eq!(node.check(), (0, String::new()), "the command mends it");
}

#[test]
fn what_may_not_be_read_is_to_be_read_as_root() {
    let node = Node::joined();
    let dated = node.path("pki").join(DATED);
    fs::set_permissions(&dated, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = fs::metadata(node.root.path()).unwrap().uid() == 0;
    let mut program = if is_root {
        let mut program = Command::new("setpriv");
        program.args(["--bounding-set=-dac_override,-dac_read_search", PROGRAM]);
        program
    } else {
        Command::new(PROGRAM)
    };
    let output = node.command(&mut program, &["status"]);
    let text = String::from_utf8_lossy(&output.stdout);
    eprintln!("{text}");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text.contains("client certificate: not to be read by this user"),
        "{text}"
    );
    assert!(
        text.contains("kubelet-client-current.pem may not be read"),
        "{text}"
    );
    assert!(text.contains("sudo ferrolet certs status"), "{text}");
}

#[test]
fn a_kubeconfig_that_shows_another_certificate_is_a_problem() {
    let node = Node::joined();
    let (certificate, key) = node.ca.issue(ago(DAY), ahead(DAY));
    fs::write(node.path("other.pem"), certificate + &key).unwrap();
    node.kubeconfig(
        "kubelet.conf",
        "{client-certificate: other.pem, client-key: other.pem}",
    );
    let (_, text) = node.status();
    assert!(text.contains("shows     the certificate in"), "{text}");
    let command = format!(
        "kubectl config --kubeconfig={} set-credentials u --client-certificate=",
        node.path("kubelet.conf").display()
    );
    node.expect_problem(&["other.pem; point it at the renewed one", &command]);
}

#[test]
fn without_a_store_the_kubeconfigs_own_certificate_is_the_one_in_use() {
    let node = Node::new();
    let (certificate, key) = node.ca.issue(ago(DAY), ahead(9 * DAY));
    fs::write(node.path("own.pem"), certificate + &key).unwrap();
    node.kubeconfig(
        "kubelet.conf",
        "{client-certificate: own.pem, client-key: own.pem}",
    );
    let (code, text) = node.status();
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("the kubeconfig shows it"), "{text}");
    assert_eq!(node.check(), (0, String::new()));
}

#[test]
fn a_kubeconfig_that_is_none_is_a_problem_with_its_path() {
    let node = Node::joined();
    fs::write(node.path("kubelet.conf"), "kind: Pod\napiVersion: v1\n").unwrap();
    let file = node.path("kubelet.conf").display().to_string();
    node.expect_problem(&[&file, "kind Config"]);
}

#[test]
fn a_certificate_without_a_kubeconfig_lacks_the_servers_name() {
    let node = Node::joined();
    fs::remove_file(node.path("kubelet.conf")).unwrap();
    node.expect_problem(&[
        "kubelet.conf that names the API server",
        "kubeadm kubeconfig user --org system:nodes --client-name system:node:n1",
    ]);
    node.kubeconfig("bootstrap.conf", "{token: abcdef.0123456789abcdef}");
    assert_eq!(node.check(), (0, String::new()), "it bootstraps anew");
}

#[test]
fn a_kubeconfig_with_a_token_has_to_be_turned_into_one_with_a_certificate() {
    let node = Node::new();
    node.kubeconfig("kubelet.conf", "{token: abcdef.0123456789abcdef}");
    let (code, lines) = node.check();
    assert_eq!(code, 1);
    assert!(lines.contains("has no client certificate"), "{lines}");
    assert!(lines.contains("kubelet.conf"), "{lines}");
}

#[test]
fn an_authority_that_is_not_there_spoils_a_kubeconfig_with_a_good_certificate() {
    let node = Node::joined();
    let text = fs::read_to_string(node.path("kubelet.conf")).unwrap();
    let spoilt = text.replace("{server:", "{certificate-authority: gone.crt, server:");
    fs::write(node.path("kubelet.conf"), spoilt).unwrap();
    node.expect_problem(&["gone.crt: No such file"]);
}

#[test]
fn a_certificate_of_another_ca_is_found_by_the_check() {
    let node = Node::joined();
    fs::write(node.path("ca.crt"), Ca::new("kubernetes").pem).unwrap();
    let (code, lines) = node.check();
    assert_eq!(code, 1);
    assert!(lines.contains("was not signed by the CA in"), "{lines}");
    fs::remove_file(node.path("ca.crt")).unwrap();
    let (code, lines) = node.check();
    assert_eq!(code, 1);
    assert!(
        lines.contains("ca.crt cannot be used: No such file"),
        "{lines}"
    );
    assert!(lines.contains("--ca"), "{lines}");
}

#[test]
fn the_serving_pair_is_the_signers_or_the_nodes_own() {
    let node = Node::joined();
    let pki = |name: &str| node.path("pki").join(name);
    let (certificate, key) = node.ca.issue(ago(9 * DAY), ago(3 * DAY));
    fs::write(pki("kubelet.crt"), &certificate).unwrap();
    node.expect_problem(&[
        "kubelet.key is not there",
        "rm -f ",
        "systemctl restart kubelet",
    ]);
    fs::write(pki("kubelet.key"), &key).unwrap();
    let (code, text) = node.status();
    assert_eq!(code, 0, "it is used on: {text}");
    assert!(
        text.contains("serving certificate: expired 3 days ago"),
        "{text}"
    );
    assert!(text.contains("note      it is used on"), "{text}");

    fs::write(pki("kubelet-server-1.pem"), certificate + &key).unwrap();
    symlink(
        pki("kubelet-server-1.pem"),
        pki("kubelet-server-current.pem"),
    )
    .unwrap();
    node.expect_problem(&["the serving certificate expired at", "kubectl get csr"]);
    fs::write(pki("kubelet-server-1.pem"), "").unwrap();
    node.expect_problem(&[
        "holds no certificate",
        "current.pem.old && systemctl restart",
    ]);
}

#[test]
fn a_published_state_that_cannot_be_read_is_said_to_be_so() {
    let node = Node::joined();
    fs::write(Published::path(&node.path("pki")), "{").unwrap();
    node.expect_problem(&[
        "ferrolet-identity.json does not hold an agent's state",
        "rm ",
    ]);
}

#[test]
fn wrong_words_are_answered_with_two() {
    for words in [
        &["certs"][..],
        &["certs", "statsu"],
        &["certs", "status", "-o", "yaml"],
    ] {
        let output = Command::new(PROGRAM).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn a_relative_directory_is_that_of_whoever_asks() {
    let root = TempDir::new().unwrap();
    let output = Command::new(PROGRAM)
        .args(["certs", "status", "--cert-dir", "pki"])
        .current_dir(root.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let here = fs::canonicalize(root.path()).unwrap().join("pki");
    assert!(text.contains(&here.display().to_string()), "{text}");
}
