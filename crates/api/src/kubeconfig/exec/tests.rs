use std::fs;
use std::path::Path;

use rustls::crypto::ring::default_provider;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::resolve::Identity;
use super::super::testing::{Pair, pair};
use super::super::{Kubeconfig, tls};
use super::*;

const V1: &str = "client.authentication.k8s.io/v1";

/// A directory with a kubeconfig whose user asks `/bin/sh plugin.sh`, and that script.
struct Fixture {
    directory: TempDir,
    terminal: bool,
    timeout: Duration,
    exec: String,
    cluster: String,
}

impl Fixture {
    fn new(script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("plugin.sh"), script).unwrap();
        let plugin = directory.path().join("plugin.sh");
        let exec = format!(
            "command: sh, args: ['{}'], apiVersion: {V1}, interactiveMode: Never",
            plugin.display()
        );
        let cluster = "server: 'https://a:1'".to_owned();
        Self {
            directory,
            terminal: false,
            timeout: Duration::from_secs(30),
            exec,
            cluster,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn authenticator(&self) -> ExecAuthenticator {
        let text = format!(
            "clusters: [{{name: c, cluster: {{{}}}}}]\nusers: [{{name: me, user: {{exec: {{{}}}}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: me}}}}]\ncurrent-context: x\n",
            self.cluster, self.exec
        );
        let kubeconfig = Kubeconfig::parse(text.as_bytes(), &self.path("kubeconfig")).unwrap();
        let Identity::Exec(plugin) = kubeconfig.resolve(None).unwrap().identity else {
            panic!("the user has a plugin");
        };
        let environment = [
            ("PATH", "/usr/bin:/bin"),
            ("BASE", "base"),
            ("BOTH", "base"),
        ]
        .map(|(name, value)| (name.into(), value.into()));
        let surroundings = Surroundings {
            environment: environment.into(),
            terminal: self.terminal,
            timeout: self.timeout,
        };
        ExecAuthenticator::new(*plugin, surroundings, Arc::new(default_provider()))
    }

    async fn run(&self) -> Result<Arc<ExecCredential>, ExecError> {
        self.authenticator().credential(Timestamp::UNIX_EPOCH).await
    }
}

/// A script that prints an answer with this status.
fn answer(status: &Value) -> String {
    let answer = json!({"kind": "ExecCredential", "apiVersion": V1, "status": status});
    format!("cat <<'END'\n{answer}\nEND\n")
}

/// A script whose token is the number of its runs so far.
fn counting(directory: &Path, expires: &str) -> String {
    let count = directory.join("count");
    let count = count.display();
    format!(
        "echo >> {count}\ncat <<END\n{{\"kind\": \"ExecCredential\", \"apiVersion\": \"{V1}\", \"status\": {{\"token\": \"run-$(($(wc -l < {count})))\", \"expirationTimestamp\": {expires}}}}}\nEND\n"
    )
}

#[tokio::test]
async fn a_plugin_gives_a_token_or_a_certificate_or_both() {
    let token = Fixture::new(&answer(&json!({"token": "t"})))
        .run()
        .await
        .unwrap();
    assert_eq!(token.token.as_ref().unwrap().expose(), "t");
    assert!(token.certificate.is_none() && token.expires.is_none());

    let Pair { certificate, key } = pair(2030);
    let status = json!({"token": "t", "clientCertificateData": certificate, "clientKeyData": key});
    let both = Fixture::new(&answer(&status)).run().await.unwrap();
    assert_eq!(both.certificate.as_ref().unwrap().certified.cert.len(), 1);
    assert!(both.token.is_some());
    assert!(!both.has_certificate_of(&token) && both.has_certificate_of(&both));
    assert!(!format!("{both:?}").contains("PRIVATE"));

    let yaml =
        format!("printf 'kind: ExecCredential\\napiVersion: {V1}\\nstatus:\\n  token: t\\n'\n");
    assert!(Fixture::new(&yaml).run().await.unwrap().token.is_some());
}

#[tokio::test]
async fn an_answer_that_is_none_says_what_it_lacks() {
    let (one, other) = (pair(2030), pair(2030));
    let half = json!({"clientCertificateData": one.certificate});
    let wrong = json!({"clientCertificateData": one.certificate, "clientKeyData": other.key});
    let cases = [
        (
            String::new(),
            "its output is no ExecCredential: its kind is \"\"",
        ),
        (
            "echo hunter2".to_owned(),
            "its output is no ExecCredential: the top level: a mapping is needed, and text is there",
        ),
        (
            "echo '{'".to_owned(),
            "its output is no ExecCredential: unclosed bracket '{' at line 1, column 1",
        ),
        (answer(&json!(null)), "its output has no status"),
        (
            answer(&json!({})),
            "it gave neither a token nor a certificate and key",
        ),
        (
            answer(&json!({"token": 7})),
            "its output is no ExecCredential: status.token: text is needed",
        ),
        (answer(&half), "it gave only half of a certificate and key"),
        (
            answer(&wrong),
            "the key in status.clientKeyData does not belong to the certificate in status.clientCertificateData",
        ),
        (
            answer(&json!({"token": "t", "expirationTimestamp": "soon"})),
            "its output is no ExecCredential: status.expirationTimestamp",
        ),
        (
            answer(&json!({"token": "t"})).replace("k8s.io/v1", "k8s.io/v1beta1"),
            "the kubeconfig asks for client.authentication.k8s.io/v1, and it answered with \"client.authentication.k8s.io/v1beta1\"",
        ),
        (
            "head -c 3000000 /dev/zero".to_owned(),
            "it wrote more than 1048576 bytes",
        ),
        (
            "echo 'no \x1b[31mluck' >&2; exit 3".to_owned(),
            "it failed with exit status: 3: no U+001B[31mluck",
        ),
        ("kill -9 $$".to_owned(), "it failed with signal: 9"),
    ];
    for (script, expected) in cases {
        let error = Fixture::new(&script).run().await.unwrap_err();
        let expected = format!("credential plugin sh of user \"me\": {expected}");
        assert!(
            error.to_string().starts_with(&expected),
            "{script}\n{error}"
        );
        assert!(!error.to_string().contains("hunter2"));
    }
}

#[tokio::test]
async fn a_missing_program_comes_with_its_install_hint() {
    let mut fixture = Fixture::new("");
    fixture.exec = format!(
        "command: no-such-plugin, apiVersion: {V1}, interactiveMode: Never, installHint: \"apt install \\e[1mit\""
    );
    assert_eq!(
        fixture.run().await.unwrap_err().to_string(),
        "credential plugin no-such-plugin of user \"me\": the program is not found; install it, or correct the command in the kubeconfig: apt install U+001B[1mit"
    );
    // A file that may not be run is no program either.
    fixture.exec = format!("command: ./plugin.sh, apiVersion: {V1}, interactiveMode: Never");
    let error = fixture.run().await.unwrap_err();
    assert!(
        matches!(error.problem, ExecProblem::NotFound { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_plugin_is_told_what_it_asks_for() {
    let script = "env > \"$(dirname \"$0\")/env\"\n".to_owned() + &answer(&json!({"token": "t"}));
    let mut fixture = Fixture::new(&script);
    fixture.exec += ", env: [{name: OWN, value: own}, {name: BOTH, value: own}]";
    fixture.run().await.unwrap();
    let environment = fs::read_to_string(fixture.path("env")).unwrap();
    for line in [
        "BASE=base",
        "BOTH=own",
        "OWN=own",
        "KUBERNETES_EXEC_INFO={\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{\"interactive\":false}}",
    ] {
        assert!(
            environment.lines().any(|other| other == line),
            "{line} in {environment}"
        );
    }

    fs::write(fixture.path("ca.crt"), "CA").unwrap();
    fixture.exec += ", provideClusterInfo: true";
    fixture.cluster = "server: 'https://a:1/p?q', certificate-authority: ca.crt, tls-server-name: name, proxy-url: 'http://u:pw@p', disable-compression: true, extensions: [{name: client.authentication.k8s.io/exec, extension: {b: 1, a: [x]}}]".to_owned();
    fixture.run().await.unwrap();
    let environment = fs::read_to_string(fixture.path("env")).unwrap();
    let info = environment
        .lines()
        .find_map(|line| line.strip_prefix("KUBERNETES_EXEC_INFO="))
        .unwrap();
    assert_eq!(
        info,
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{\"cluster\":{\"server\":\"https://a:1/p\",\"tls-server-name\":\"name\",\"certificate-authority-data\":\"Q0E=\",\"proxy-url\":\"http://u:pw@p\",\"disable-compression\":true,\"config\":{\"a\":[\"x\"],\"b\":1}},\"interactive\":false}}"
    );
}

#[test]
fn a_plugin_that_must_ask_needs_a_terminal() {
    use InteractiveMode::{Always, IfAvailable, Never};
    let cases = [
        (Never, true, Some(false)),
        (Never, false, Some(false)),
        (IfAvailable, true, Some(true)),
        (IfAvailable, false, Some(false)),
        (Always, true, Some(true)),
        (Always, false, None),
    ];
    for (mode, terminal, expected) in cases {
        assert_eq!(
            mode.with_terminal(terminal).ok(),
            expected,
            "{mode:?}, {terminal}"
        );
    }
}

#[tokio::test]
async fn a_credential_is_kept_until_it_expires() {
    let fixture = Fixture::new("");
    let script = counting(fixture.directory.path(), "\"2030-01-01T00:00:00Z\"");
    fs::write(fixture.path("plugin.sh"), script).unwrap();
    let authenticator = fixture.authenticator();
    for (now, expected) in [
        ("2026-01-01T00:00:00Z", "run-1"),
        ("2030-01-01T00:00:00Z", "run-1"),
        ("2030-01-01T00:00:01Z", "run-2"),
        ("2030-01-01T00:00:02Z", "run-3"),
    ] {
        let credential = authenticator
            .credential(now.parse().unwrap())
            .await
            .unwrap();
        assert_eq!(
            credential.token.as_ref().unwrap().expose(),
            expected,
            "{now}"
        );
    }
}

#[tokio::test]
async fn a_rejected_credential_is_replaced_once_for_all_who_used_it() {
    let fixture = Fixture::new("");
    fs::write(
        fixture.path("plugin.sh"),
        counting(fixture.directory.path(), "null"),
    )
    .unwrap();
    let authenticator = fixture.authenticator();
    let first = authenticator
        .credential(Timestamp::UNIX_EPOCH)
        .await
        .unwrap();
    let (one, two) = tokio::join!(authenticator.replace(&first), authenticator.replace(&first));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(Arc::ptr_eq(&one, &two));
    assert_eq!(one.token.as_ref().unwrap().expose(), "run-2");

    fs::write(fixture.path("plugin.sh"), "exit 1").unwrap();
    assert!(authenticator.replace(&one).await.is_err());
    let kept = authenticator
        .credential(Timestamp::UNIX_EPOCH)
        .await
        .unwrap();
    assert!(
        Arc::ptr_eq(&kept, &one),
        "a failure leaves the old one in place"
    );
}

/// A plugin that never ends, and notes the number of its child.
const HANGING: &str = "sleep 1000 & echo $! > \"$(dirname \"$0\")/child\"; wait\n";

/// Waits until the child of a hanging plugin is dead.
async fn child_is_dead(fixture: &Fixture) {
    let text = fs::read_to_string(fixture.path("child")).unwrap();
    let child: i32 = text.trim().parse().unwrap();
    // It is killed at once; who its new parent is decides when it is gone.
    let is_dead = || {
        let stat = fs::read_to_string(format!("/proc/{child}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z ") || stat.contains(") X "))
    };
    let dead = async {
        while !is_dead() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), dead)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_plugin_that_hangs_is_ended_with_its_children() {
    let mut fixture = Fixture::new(HANGING);
    fixture.timeout = Duration::from_secs(3);
    let error = fixture.run().await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("it gave no answer within 3 s and was ended"),
        "{error}"
    );
    child_is_dead(&fixture).await;
}

#[tokio::test]
async fn a_plugin_that_nobody_waits_for_any_more_is_ended_with_its_children() {
    let fixture = Fixture::new(HANGING);
    let authenticator = fixture.authenticator();
    let run = authenticator.credential(Timestamp::UNIX_EPOCH);
    assert!(
        tokio::time::timeout(Duration::from_secs(3), run)
            .await
            .is_err()
    );
    child_is_dead(&fixture).await;
    // The next one is not kept waiting.
    fs::write(fixture.path("plugin.sh"), answer(&json!({"token": "t"}))).unwrap();
    assert!(
        authenticator
            .credential(Timestamp::UNIX_EPOCH)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_ca_file_that_is_gone_is_named() {
    let mut fixture = Fixture::new(&answer(&json!({"token": "t"})));
    fs::write(fixture.path("ca.crt"), "CA").unwrap();
    fixture.exec += ", provideClusterInfo: true";
    fixture.cluster += ", certificate-authority: ca.crt";
    let authenticator = fixture.authenticator();
    fs::remove_file(fixture.path("ca.crt")).unwrap();
    let error = authenticator
        .credential(Timestamp::UNIX_EPOCH)
        .await
        .unwrap_err();
    assert!(
        matches!(error.problem, ExecProblem::Tls(tls::TlsError::Read { .. })),
        "{error}"
    );
}
