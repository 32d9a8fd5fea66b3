//! The health port, ours and upstream's, asked the same; and a node of ours that
//! belongs to no cluster.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::lab::{FERROLET, Lab, Node, Runtime, Spec};
use testkit::{command, wait};

const SOON: Duration = Duration::from_secs(90);
const READY: Duration = Duration::from_secs(60);

/// What an operator or a probe may ask, well written or not.
const REQUESTS: &[&[&str]] = &[
    &["/healthz"],
    &["--head", "/healthz"],
    &["--request", "POST", "/healthz"],
    &["--data", "text", "/healthz"],
    &["--request", "DELETE", "/healthz"],
    &["--request", "OPTIONS", "/healthz"],
    &["--http1.0", "/healthz"],
    &["/healthz?verbose"],
    &["/healthz?verbose=1&exclude=ping"],
    &["/healthz?exclude=nope"],
    &["/healthz?verbose&exclude=b&exclude=a"],
    &["/healthz/ping"],
    &["--head", "/healthz/ping"],
    &["/healthz/log"],
    &["/healthz/syncloop"],
    &["/healthz/"],
    &["/"],
    &["--head", "/nope"],
    &["--header", "Host:", "/healthz"],
    &["//healthz"],
    &["//healthz?verbose&x='"],
    &["--request", "POST", "/healthz//ping/"],
    &["/nope/../healthz"],
    &["/nope/.."],
    &["/./"],
    &["/%68ealthz"],
    &["/healthz/%70ing"],
    &["/healthz%2fping"],
    &["/%2e%2e/healthz"],
    &["/%2F/healthz"],
];

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: String,
    headers: BTreeMap<String, String>,
    body: String,
}

#[test]
fn the_health_port_answers_as_upstreams_does() -> Result<()> {
    let lab = Lab::shared()?;
    let node = lab.node("healthz", Runtime::Containerd2)?;
    node.start_upstream_kubelet("")?;
    let theirs = answers(&node, READY)?;
    node.kubelet().stop()?;

    node.start_ferrolet("")?;
    let ours = answers(&node, SOON)?;
    for ((request, ours), theirs) in REQUESTS.iter().zip(&ours).zip(&theirs) {
        assert_eq!(ours, theirs, "{request:?}");
    }
    assert_eq!(ours[0].body, "ok");
    node.remove()
}

fn answers(node: &Node, patience: Duration) -> Result<Vec<Answer>> {
    wait::until("an answer of the health port", patience, || {
        asked(node, &["/healthz"])
    })?;
    REQUESTS
        .iter()
        .map(|request| asked(node, request))
        .collect()
}

fn asked(node: &Node, request: &[&str]) -> Result<Answer> {
    let (path, options) = request.split_last().context("a path")?;
    let place = format!("http://127.0.0.1:10248{path}");
    let mut curl = node.machine().command("curl");
    let quiet = ["--silent", "--show-error", "--include", "--max-time", "20"];
    curl.args(quiet)
        .arg("--path-as-is")
        .args(options)
        .arg(place);
    let said = command::run(&mut curl)?;
    let (head, body) = said.split_once("\r\n\r\n").context("a head")?;
    let (first, headers) = head.split_once("\r\n").context("a status line")?;
    let mut words = first.split(' ');
    words.next();
    let headers = headers.lines().filter_map(|line| line.split_once(": "));
    let mut headers: BTreeMap<String, String> = headers
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    headers.remove("date");
    // Go leaves the length out where it closes.
    if words.clone().next() == Some("400") {
        headers.remove("content-length");
        headers.remove("connection");
    }
    Ok(Answer {
        status: words.next().unwrap_or_default().to_owned(),
        headers,
        body: body.to_owned(),
    })
}

#[test]
fn a_node_without_a_kubeconfig_runs_alone_with_its_limits_and_tells_its_starter() -> Result<()> {
    let lab = Lab::shared()?;
    let node = lab.node("alone", Runtime::Containerd2)?;
    node.install_ferrolet()?;
    let config = "/etc/kubernetes/alone.yaml";
    let written = "apiVersion: kubelet.config.k8s.io/v1beta1\n\
        kind: KubeletConfiguration\n\
        authentication: {webhook: {enabled: false}}\n\
        authorization: {mode: AlwaysAllow}\n\
        containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n\
        failCgroupV1: false\n\
        failSwapOn: false\n\
        healthzPort: 10348\n\
        maxOpenFiles: 4321\n\
        oomScoreAdj: 77\n";
    node.machine().write(config, written)?;
    let notified = UnixDatagram::bind(node.machine().root("/run/notify"))?;
    notified.set_read_timeout(Some(SOON))?;
    let kubelet = node.kubelet();
    kubelet.start(&Spec {
        program: FERROLET.to_owned(),
        arguments: vec!["kubelet".to_owned(), format!("--config={config}")],
        environment: vec![
            ("NOTIFY_SOCKET".to_owned(), "/run/notify".to_owned()),
            ("WATCHDOG_USEC".to_owned(), "1000000".to_owned()),
        ],
        ..Spec::default()
    })?;
    // As many messages as it takes until this one comes.
    let told = |message: &str| -> Result<()> {
        let mut buffer = [0; 64];
        loop {
            let length = notified.recv(&mut buffer).context(kubelet.log())?;
            if buffer[..length] == *message.as_bytes() {
                return Ok(());
            }
        }
    };
    told("READY=1")?;
    told("WATCHDOG=1")?;
    told("WATCHDOG=1")?;
    let log = kubelet.log();
    assert!(log.contains("standalone"), "{log}");

    let pid = kubelet.pid().context("it runs")?.as_raw_nonzero();
    let of_process = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
    assert_eq!(of_process("oom_score_adj")?.trim(), "77");
    let limits = of_process("limits")?;
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let words: Vec<&str> = files.unwrap_or_default().split_whitespace().collect();
    assert_eq!(words[3..5], ["4321", "4321"], "{limits}");
    let curl = ["--silent", "--fail", "http://127.0.0.1:10348/healthz"];
    let said = wait::until("health", SOON, || node.machine().run("curl", curl))?;
    assert_eq!(said, "ok");
    assert!(
        node.machine()
            .root("/var/lib/kubelet/pki/kubelet.crt")
            .exists()
    );

    kubelet.stop()?;
    told("STOPPING=1")?;

    // Who asks a cluster for certificates needs one. More files than any kernel
    // allows are only warned of.
    let files = format!("maxOpenFiles: {}", 1_u64 << 60);
    let written = written.replace("maxOpenFiles: 4321", &files);
    let written = format!("{written}serverTLSBootstrap: true\n");
    node.machine().write(config, written)?;
    let refused = node
        .ferrolet()
        .args(["kubelet", "--config", config])
        .output()?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    let warning = said.find("(maxOpenFiles)").context("no warning")?;
    let end = said.find("serverTLSBootstrap asks").context("no error")?;
    assert!(warning < end, "{said}");
    node.remove()
}
