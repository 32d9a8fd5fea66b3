//! Who gets in: every endpoint, asked by everybody who might try, at our node and at an
//! upstream one in the same cluster.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustls::ClientConfig;
use testkit::lab::{Agent, Lab, Node, Runtime};
use testkit::{command, wait};

use super::network;

const READY: Duration = Duration::from_secs(90);
const SOON: Duration = Duration::from_secs(90);

/// Where callers keep what they show.
const DIRECTORY: &str = "/etc/access";

const RIGHTS: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: access-robot, namespace: default}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: access-stranger, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: access-admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:kubelet-api-admin"}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: access-admin}
- {kind: ServiceAccount, name: access-robot, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: access-reader}
rules:
- {apiGroups: [""], resources: [nodes/metrics, nodes/healthz, nodes/pods, nodes/configz], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: access-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: access-reader}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: access-reader}
"#;

/// How curl ends that waited for an answer for too long, and what is written then.
const CURL_GAVE_UP: &str = "28";
const LATE: &str = "late";

/// What is asked. Paths of pods that are not there: this is about the door.
const REQUESTS: &[(&str, &str)] = &[
    ("GET", "/"),
    ("GET", "/nope"),
    ("GET", "/metrics/nope"),
    ("GET", "/healthz/"),
    ("GET", "/healthz"),
    ("HEAD", "/healthz"),
    ("POST", "/healthz"),
    ("OPTIONS", "/healthz"),
    ("GET", "/healthz/ping"),
    ("GET", "/healthz/log"),
    ("GET", "/healthz/syncloop"),
    ("GET", "/healthz/device-plugin"),
    ("GET", "/pods"),
    ("GET", "/pods/"),
    ("GET", "/%70ods"),
    ("GET", "//pods"),
    ("GET", "/pods/x"),
    ("HEAD", "/pods"),
    ("POST", "/pods"),
    ("GET", "/runningpods"),
    ("GET", "/runningpods/"),
    ("GET", "/configz"),
    ("POST", "/configz"),
    ("GET", "/configz/"),
    ("GET", "/stats/summary"),
    ("POST", "/stats/summary"),
    ("PUT", "/stats/summary"),
    ("GET", "/stats"),
    ("GET", "/stats/container"),
    ("GET", "/metrics"),
    ("POST", "/metrics"),
    ("GET", "/metrics/cadvisor"),
    ("GET", "/metrics/resource"),
    ("GET", "/metrics/probes"),
    ("GET", "/metrics/slis"),
    ("DELETE", "/metrics/slis"),
    ("GET", "/logs"),
    ("GET", "/logs/"),
    ("GET", "/logs/nope"),
    ("GET", "/logs/?query=kubelet"),
    ("GET", "/logs/%2e%2e/%2e%2e/etc/passwd"),
    ("POST", "/logs/nope"),
    ("GET", "/containerLogs/default/nope/c"),
    ("GET", "/containerLogs/default/nope"),
    ("POST", "/containerLogs/default/nope/c"),
    ("GET", "/exec/default/nope/c?command=true&output=1"),
    ("POST", "/exec/default/nope/c?command=true&output=1"),
    ("PUT", "/exec/default/nope/c"),
    ("GET", "/exec"),
    ("GET", "/exec/default"),
    ("GET", "/attach/default/nope/c?output=1"),
    ("POST", "/attach/default/nope/c?output=1"),
    ("DELETE", "/attach/default/nope/c"),
    ("GET", "/portForward/default/nope"),
    ("POST", "/portForward/default/nope"),
    ("GET", "/portForward/default/nope/uid?port=80"),
    ("POST", "/run/default/nope/c?cmd=true"),
    ("GET", "/run/default/nope/c"),
    ("POST", "/checkpoint/default/nope/c"),
    ("GET", "/checkpoint/default/nope/c"),
    ("GET", "/statusz"),
    ("GET", "/flagz"),
    ("GET", "/debug"),
    ("GET", "/debug/pprof"),
    ("GET", "/debug/pprof/"),
    ("GET", "/debug/pprof/cmdline"),
    ("GET", "/debug/pprof/profile?seconds=1"),
    ("POST", "/debug/pprof/profile?seconds=1"),
    ("GET", "/debug/flags/v"),
    ("PUT", "/debug/flags/v"),
    ("DELETE", "/debug/flags/v"),
    ("GET", "/spec"),
];

/// What of the answers to those who are let in differs, and why.
const DIFFERENCES: &[(&str, &str)] = &[(
    "GET /debug/pprof/",
    "ours lists what there is to see; upstream has no such page for those who are let in",
)];

/// What upstream has and we do not: nobody is told more than that there is nothing.
const ABSENT: &[(&str, &str)] = &[(
    "GET /healthz/device-plugin",
    "there is nobody yet with whom device plugins could register: nothing to vouch for",
)];

/// Where upstream sends strangers to another place, and we send them away: nobody gets in by it.
const STRICTER: &[(&str, &str)] = &[(
    "GET /stats",
    "upstream adds the slash before it asks who is there",
)];

/// What is answered by others than the door: that they are asked is what counts here.
fn is_anothers(path: &str) -> bool {
    let roots = [
        "/stats",
        "/metrics",
        "/logs",
        "/containerLogs",
        "/exec",
        "/attach",
        "/portForward",
        "/run/",
        "/checkpoint",
    ];
    roots.iter().any(|root| path.starts_with(root))
}

#[test]
fn nobody_gets_in_whom_upstream_keeps_out_and_nobody_is_kept_out_whom_it_lets_in() -> Result<()> {
    let lab = Lab::shared()?;
    let theirs = lab.node("access-theirs", Runtime::Containerd2)?;
    let ours = lab.node("access-ours", Runtime::Containerd2)?;
    theirs.start_agent(Agent::Upstream, "", &[])?;
    ours.start_agent(Agent::Ferrolet, "", &[])?;
    lab.kubectl().apply(RIGHTS)?;
    for node in [&theirs, &ours] {
        node.wait_ready(READY)?;
    }
    for (user, what) in [("access-admin", "proxy"), ("access-reader", "metrics")] {
        let part = format!("--subresource={what}");
        let right = ["auth", "can-i", "get", "nodes", &part, "--as", user];
        wait::until("a right that was given", SOON, || lab.kubectl().run(right))?;
    }
    let callers = callers(&lab, &[&theirs, &ours])?;
    let mut table = String::new();
    let mut wrong = Vec::new();
    let mut seen = BTreeMap::new();
    for caller in &callers {
        let name = caller.name;
        let [theirs, ours] = [&theirs, &ours].map(|node| ask(node, caller));
        let (theirs, ours) = (theirs?, ours?);
        for ((request, theirs), ours) in REQUESTS.iter().zip(&theirs).zip(&ours) {
            let (method, path) = request;
            let verdict = |code: &str| match code {
                "401" | "403" | "000" => code.to_owned(),
                _ if is_anothers(path) && code != "404" && code != "405" => "in".to_owned(),
                code => code.to_owned(),
            };
            let same = verdict(theirs) == verdict(ours)
                || (is_anothers(path) && is_in(theirs) && is_in(ours));
            writeln!(table, "{name}\t{method} {path}\t{theirs}\t{ours}\t{same}")?;
            *seen.entry(ours.clone()).or_insert(0) += 1;
            let what = format!("{method} {path}");
            let known = DIFFERENCES.iter().any(|(one, _)| *one == what);
            let stricter =
                STRICTER.iter().any(|(one, _)| *one == what) && theirs == "307" && !is_in(ours);
            let allowed = known && is_in(theirs) && is_in(ours);
            let absent = ABSENT.iter().any(|(one, _)| *one == what) && ours == "404";
            if !(same || stricter || allowed || absent) {
                wrong.push(format!("{name}: {what}: upstream {theirs}, ours {ours}"));
            }
        }
    }
    let file = testkit::lab::saved_logs_dir().join("access.tsv");
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(&file, table)?;
    println!(
        "{} verdicts, ours by status: {seen:?}; all in {}",
        REQUESTS.len() * callers.len(),
        file.display()
    );
    ensure!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    stolen_certificates(&[&theirs, &ours])?;
    theirs.remove()?;
    ours.remove()
}

fn is_in(code: &str) -> bool {
    !matches!(code, "401" | "403" | "000")
}

/// Somebody who asks, and what curl is told of it.
struct Caller {
    name: &'static str,
    options: Vec<String>,
    /// Shows a token that the API server knows.
    is_known: bool,
}

impl Caller {
    /// Nothing that is asked for here fails in itself, and who shows a real token is somebody.
    /// What the API server did not say in time says nothing of the request.
    fn is_undecided(&self, code: &str) -> bool {
        code == "500" || code == LATE || (self.is_known && code == "401")
    }
}

fn callers(lab: &Lab, nodes: &[&Node]) -> Result<Vec<Caller>> {
    let made = tempfile::tempdir()?;
    let pki = |file: &str| {
        lab.control_plane()
            .root(&format!("/etc/kubernetes/pki/{file}"))
    };
    let (ca, ca_key) = (pki("ca.crt"), pki("ca.key"));
    let own_ca = made.path().join("own-ca.crt");
    let own_key = made.path().join("own-ca.key");
    openssl(&[
        "ecparam",
        "-name",
        "prime256v1",
        "-genkey",
        "-noout",
        "-out",
        text(&own_key)?,
    ])?;
    // Of the cluster's name, so that nothing but the signature tells them apart.
    let subject = [
        "req",
        "-x509",
        "-new",
        "-key",
        text(&own_key)?,
        "-subj",
        "/CN=kubernetes",
    ];
    openssl(&[&subject[..], &["-days", "2", "-out", text(&own_ca)?]].concat())?;
    let sign = |name: &str, subject: &str, authority: (&Path, &Path), days: &str| {
        certificate(made.path(), name, subject, authority, days)
    };
    let real = (ca.as_path(), ca_key.as_path());
    let fake = (own_ca.as_path(), own_key.as_path());
    sign("wrong-ca", "/O=system:masters/CN=access-root", fake, "2")?;
    sign("expired", "/O=system:masters/CN=access-root", real, "-1")?;
    sign("nobody-special", "/CN=access-nobody", real, "2")?;
    sign("admin", "/CN=access-admin", real, "2")?;
    sign("reader", "/CN=access-reader", real, "2")?;
    sign("masters", "/O=system:masters/CN=access-root", real, "2")?;
    sign("nameless", "/O=system:masters", real, "2")?;
    for node in nodes {
        for file in fs::read_dir(made.path())? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            node.machine()
                .write(&format!("{DIRECTORY}/{name}"), fs::read(file.path())?)?;
        }
    }
    let with = |name: &str| {
        vec![
            format!("cert = {DIRECTORY}/{name}.crt"),
            format!("key = {DIRECTORY}/{name}.key"),
        ]
    };
    let current = "/var/lib/kubelet/pki/kubelet-client-current.pem";
    let token = |account: &str| -> Result<Vec<String>> {
        let token = lab.kubectl().run(["create", "token", account])?;
        Ok(vec![format!(
            "header = \"Authorization: Bearer {}\"",
            token.trim()
        )])
    };
    let robots = [
        ("unauthorized service account", token("access-stranger")?),
        ("authorized service account", token("access-robot")?),
    ];
    let others = [
        ("no credentials", Vec::new()),
        ("wrong CA", with("wrong-ca")),
        ("expired", with("expired")),
        ("nameless", with("nameless")),
        (
            "made-up token",
            vec!["header = \"Authorization: Bearer made-up\"".to_owned()],
        ),
        ("unauthorized user", with("nobody-special")),
        (
            "node's own identity",
            vec![format!("cert = {current}"), format!("key = {current}")],
        ),
        (
            "reader of metrics, health, pods and configuration",
            with("reader"),
        ),
        ("authorized user", with("admin")),
        ("system:masters", with("masters")),
    ];
    let caller = |is_known| {
        move |(name, options)| Caller {
            name,
            options,
            is_known,
        }
    };
    let others = others.into_iter().map(caller(false));
    Ok(others.chain(robots.into_iter().map(caller(true))).collect())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is text")
}

fn openssl(arguments: &[&str]) -> Result<String> {
    command::run(Command::new("openssl").args(arguments))
}

/// A key and a certificate for it, signed.
fn certificate(
    directory: &Path,
    name: &str,
    subject: &str,
    (ca, ca_key): (&Path, &Path),
    days: &str,
) -> Result<()> {
    let file = |ending: &str| directory.join(format!("{name}.{ending}"));
    let (key, request, signed) = (file("key"), file("csr"), file("crt"));
    let usage = file("ext");
    fs::write(&usage, "extendedKeyUsage=clientAuth\n")?;
    openssl(&[
        "ecparam",
        "-name",
        "prime256v1",
        "-genkey",
        "-noout",
        "-out",
        text(&key)?,
    ])?;
    let asked = [
        "req",
        "-new",
        "-key",
        text(&key)?,
        "-subj",
        subject,
        "-out",
        text(&request)?,
    ];
    openssl(&asked)?;
    let serial = file("srl");
    openssl(&[
        "x509",
        "-req",
        "-in",
        text(&request)?,
        "-CA",
        text(ca)?,
        "-CAkey",
        text(ca_key)?,
        "-CAserial",
        text(&serial)?,
        "-CAcreateserial",
        "-days",
        days,
        "-extfile",
        text(&usage)?,
        "-out",
        text(&signed)?,
    ])?;
    Ok(())
}

/// The status of each request. Those that the node could not decide are asked again.
fn ask(node: &Node, caller: &Caller) -> Result<Vec<String>> {
    let mut codes = vec![String::new(); REQUESTS.len()];
    let mut left: Vec<usize> = (0..REQUESTS.len()).collect();
    let asked = wait::until("a node that knows what its caller may do", SOON, || {
        for (row, code) in left.iter().zip(ask_once(node, caller, &left)?) {
            codes[*row] = code;
        }
        left.retain(|row| caller.is_undecided(&codes[*row]));
        let undecided: Vec<_> = left
            .iter()
            .map(|row| (REQUESTS[*row], &codes[*row]))
            .collect();
        if !undecided.is_empty() {
            println!(
                "{}, {}: to be asked again: {undecided:?}",
                node.name(),
                caller.name
            );
        }
        ensure!(undecided.is_empty(), "{}: {undecided:?}", caller.name);
        Ok(())
    });
    // Who stays a stranger for so long is one.
    if !left.iter().all(|row| codes[*row] == "401") {
        asked?;
    }
    Ok(codes)
}

fn ask_once(node: &Node, caller: &Caller, rows: &[usize]) -> Result<Vec<String>> {
    let mut config = String::new();
    for (method, path) in rows.iter().map(|row| REQUESTS[*row]) {
        if !config.is_empty() {
            config.push_str("next\n");
        }
        // Longer than a node waits for what the API server says of its caller.
        config.push_str("silent\ninsecure\npath-as-is\nmax-time = 45\noutput = /dev/null\n");
        config.push_str("write-out = \"%{http_code} %{exitcode}\\n\"\n");
        for option in &caller.options {
            writeln!(config, "{option}")?;
        }
        match method {
            "HEAD" => config.push_str("head\n"),
            method => writeln!(config, "request = {method}")?,
        }
        writeln!(config, "url = \"https://127.0.0.1:10250{path}\"")?;
    }
    let file = format!("{DIRECTORY}/requests");
    node.machine().write(&file, config)?;
    let mut curl = node.machine().command("curl");
    // A handshake that fails is an answer, too.
    let output = curl.args(["--config", &file]).output()?;
    let said = String::from_utf8(output.stdout)?;
    let codes: Vec<String> = said.lines().map(told).collect();
    ensure!(codes.len() == rows.len(), "{} answers: {said}", codes.len());
    Ok(codes)
}

/// The status of one answer, or that there was none in time.
fn told(line: &str) -> String {
    match line.split_once(' ') {
        Some(("000", CURL_GAVE_UP)) => LATE.to_owned(),
        Some((code, _)) => code.to_owned(),
        None => line.to_owned(),
    }
}

/// Who has seen the certificate of somebody mighty, and has not the key to it.
fn stolen_certificates(nodes: &[&Node]) -> Result<()> {
    for node in nodes {
        let read =
            |name: &str| fs::read_to_string(node.machine().root(&format!("{DIRECTORY}/{name}")));
        let (seen, key) = (read("masters.crt")?, read("nobody-special.key")?);
        let own = (read("masters.crt")?, read("masters.key")?);
        let (thief, owner) = network::inside(node.machine(), || {
            let thief = network::client(Some((&seen, &key)))?;
            let heard_by_thief = REQUESTS
                .iter()
                .map(|request| heard(&thief, *request))
                .collect::<Result<Vec<_>>>()?;
            let owner = network::client(Some((&own.0, &own.1)))?;
            Ok((heard_by_thief, heard(&owner, ("GET", "/pods"))?))
        })?;
        for ((method, path), thief) in REQUESTS.iter().zip(&thief) {
            ensure!(
                thief.is_empty(),
                "{}: {method} {path}: a thief heard {thief:?}",
                node.name()
            );
        }
        ensure!(
            owner.starts_with("HTTP/1.1 200 OK"),
            "{}: the owner heard {owner:?}",
            node.name()
        );
    }
    Ok(())
}

/// What is heard by who shows in handshakes what is in `config`.
fn heard(config: &Arc<ClientConfig>, (method, path): (&str, &str)) -> Result<String> {
    let mut stream = network::connect(config)?;
    let request = format!("{method} {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    let mut said = Vec::new();
    if stream.write_all(request.as_bytes()).is_ok() {
        let _ = stream.read_to_end(&mut said);
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}
